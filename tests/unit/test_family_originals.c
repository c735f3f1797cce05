/* What the families' own code does with keys that published models hardly vary: found by running that code.  (What
 * it computes: docs/model-families.md.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/system.h"
#include "model/families/family.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/family_case.h"

/* scale_attn_weights is the switch of every scale but that by layers. */
static void jais_does_not_scale_where_nothing_scales(void **unused)
{
  (void)unused;
  begin("jais");
  change("jais", "'scale_qk_dot_by_d': true", "'scale_qk_dot_by_d': true, 'scale_attn_weights': false");
  alibi_model *model = open_it();
  assert_float_equal(model->config.score_scale, 1, 0);
  alibi_model_free(model);
}

/* The scale of the embedding is one of the sum with the positions, which we do not run. */
static void jais_scales_learned_positions_too(void **unused)
{
  (void)unused;
  begin("jais");
  change("jais", "'alibi'", "'learned'");
  refused("key 'position_embedding_type': expected alibi with a scaled embedding, found 'learned'");
}

/* Of 7B, version 1 has the class BaiChuanForCausalLM, version 2 BaichuanForCausalLM, and some releases no other
 * sign. */
static void baichuan_2_is_told_by_its_class(void **unused)
{
  (void)unused;
  static const struct {
    const char *keys;
    bool normalised;
  } cases[] = {{"'position_embedding': 'ROPE', 'architectures': ['BaichuanForCausalLM']", true},
               {"'position_embedding': 'ROPE', 'architectures': ['BaiChuanForCausalLM']", false},
               {"'position_embedding': 'ROPE', 'architectures': []", false},
               {"'position_embedding': 'ROPE'", false},
               {"'architectures': ['BaichuanForCausalLM']", false}}; /* ALiBi: both versions have this class */
  begin("baichuan");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    change("baichuan", "'hidden_act': 'silu'", cases[i].keys);
    alibi_model *model = open_it();
    assert_true(has_note(model, "rows of the output weight") == cases[i].normalised);
    alibi_model_free(model);
  }
}

static void baichuan_2_has_a_head_of_its_own(void **unused)
{
  (void)unused;
  begin("baichuan");
  change("baichuan", "'tie_word_embeddings': false", "'tie_word_embeddings': true, 'z_loss_weight': 0");
  refused("tied output weights: expected none in Baichuan 2");
}

/* Names of activations that are left over from the classes that these derive from. */
static void activations_that_are_not_asked_for(void **unused)
{
  (void)unused;
  begin("refact");
  change("refact", "'multi_query': true", "'multi_query': true, 'activation_function': 'gelu_pytorch_tanh'");
  alibi_model *model = open_it();
  assert_int_equal(model->config.activation, ALIBI_SWIGLU);
  alibi_model_free(model);
  begin("jina-bert-v2");
  change("jina-bert-v2", "'hidden_act': 'gelu'", "'hidden_act': 'relu'");
  model = open_it();
  assert_int_equal(model->config.activation, ALIBI_GEGLU);
  alibi_model_free(model);
}

static void jina_is_an_encoder_with_gates(void **unused)
{
  (void)unused;
  begin("jina-bert-v2");
  change("jina-bert-v2", "'hidden_act': 'gelu'", "'is_decoder': true");
  refused("key 'is_decoder': expected false");
  change("jina-bert-v2", "'feed_forward_type': 'geglu', ", "");
  refused("key 'feed_forward_type': expected geglu or reglu, found 'original'");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jais_does_not_scale_where_nothing_scales),
      cmocka_unit_test(jais_scales_learned_positions_too),
      cmocka_unit_test(baichuan_2_is_told_by_its_class),
      cmocka_unit_test(baichuan_2_has_a_head_of_its_own),
      cmocka_unit_test(activations_that_are_not_asked_for),
      cmocka_unit_test(jina_is_an_encoder_with_gates),
  };
  return cmocka_run_group_tests(tests, family_setup, family_teardown);
}
