/* Families from GGUF files: keys with their architecture's name before them, the same names for the same parts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/gguf.h"
#include "model/families/family.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/family_case.h"

static double position_setting(const alibi_model *model, const char *name)
{
  const field *f = field_find(model->method->fields, name);
  assert_non_null(f);
  return field_get_number(f, model->config.position_options.bytes);
}

/* A tiny llama as llama.cpp's converter names things. */
static gguf_keys *llama_keys_of_gguf(void)
{
  gguf_keys *keys = gguf_keys_new();
  gguf_put_text(keys, "general.architecture", "llama");
  gguf_put_text(keys, "general.name", "tiny");
  gguf_put_integer(keys, "llama.block_count", GGUF_U32, 2);
  gguf_put_integer(keys, "llama.context_length", GGUF_U32, 32);
  gguf_put_integer(keys, "llama.embedding_length", GGUF_U32, 16);
  gguf_put_integer(keys, "llama.feed_forward_length", GGUF_U32, 24);
  gguf_put_integer(keys, "llama.attention.head_count", GGUF_U32, 4);
  gguf_put_integer(keys, "llama.attention.head_count_kv", GGUF_U32, 2);
  gguf_put_real(keys, "llama.attention.layer_norm_rms_epsilon", GGUF_F32, 1e-5);
  gguf_put_integer(keys, "llama.rope.dimension_count", GGUF_U32, 4);
  return keys;
}

static const family_tensor_row gguf_llama[] = {
    {"token_embd.weight", 20, 16},     {"blk.*.attn_norm.weight", 16, 0}, {"blk.*.attn_q.weight", 16, 16},
    {"blk.*.attn_k.weight", 8, 16},    {"blk.*.attn_v.weight", 8, 16},    {"blk.*.attn_output.weight", 16, 16},
    {"blk.*.ffn_norm.weight", 16, 0},  {"blk.*.ffn_gate.weight", 24, 16}, {"blk.*.ffn_up.weight", 24, 16},
    {"blk.*.ffn_down.weight", 16, 24}, {"output_norm.weight", 16, 0},     {0}};

static status open_gguf(gguf_keys *keys, alibi_model **model)
{
  const char *path = scratch_path("tiny.gguf");
  alibi_error_init(&error);
  if (gguf_write(path, keys, tensors.list, tensors.count, NULL, &error) != ALIBI_OK) fail_msg("%s", error.message);
  gguf_keys_free(keys);
  return alibi_model_open(context, path, model, &error);
}

static void begin_gguf(void)
{
  const family_file family = {"llama", "", 2, gguf_llama};
  family_tensors_free(&tensors);
  family_tensors_make(&tensors, &family);
}

static void gguf_says_it_all(void **unused) /* trap 11 */
{
  (void)unused;
  alibi_model *model = NULL;
  begin_gguf();
  if (open_gguf(llama_keys_of_gguf(), &model) != ALIBI_OK) fail_msg("%s", error.message);
  assert_string_equal(alibi_model_family(model), "llama");
  assert_true(model->config.tied && model->config.kv_heads == 2 && model->config.norm == ALIBI_NORM_RMS);
  assert_int_equal(position_setting(model, "layout"), 1); /* neighbours: rows of q and k are permuted there */
  assert_true(has_note(model, "keys without effect: general.architecture, general.name"));
  alibi_model_free(model);

  static const float divisors[] = {1, 7.5F};
  tensors.list[tensors.count] =
      (file_tensor){.name = "rope_freqs.weight",
                    .type = TENSOR_F32,
                    .dimensions = 1,
                    .shape = {2},
                    .data = memcpy(calloc(2, sizeof *divisors), divisors, sizeof divisors),
                    .bytes = 8};
  tensors.count++;
  if (open_gguf(llama_keys_of_gguf(), &model) != ALIBI_OK) fail_msg("%s", error.message);
  assert_string_equal(model->config.extension, "longrope");
  position_tables tables;
  extension_choice choice = model_config_extension(&model->config);
  position_request request = {.shape = model_config_position_shape(&model->config),
                              .options = model->config.position_options.bytes,
                              .length = 100,
                              .extension = choice.extension,
                              .extension_options = choice.options.bytes};
  assert_int_equal(position_prepare(model->method, &request, &tables, &error), ALIBI_OK);
  assert_float_equal(tables.plan.cosine[60 * 2], cos(60), 1e-6);
  assert_float_equal(tables.plan.cosine[60 * 2 + 1], cos(60 * pow(10000, -0.5) / 7.5), 1e-6);
  position_release(&tables);
  alibi_model_free(model);
}

typedef struct gguf_damage {
  const char *key, *says;
  int64_t value;
} gguf_damage;

static void damaged_gguf_is_refused(void **unused)
{
  (void)unused;
  static const gguf_damage cases[] = {
      {"llama.expert_count", "key 'llama.expert_count': expected 0", 8},
      {"llama.new_key", "key 'llama.new_key': expected a key that is understood", 1},
      {"llama.attention.key_length", "attn_q.weight': expected shape [32, 16], found [16, 16]", 8},
      {"llama.vocab_size", "key 'llama.vocab_size': expected at most the 20 rows", 21},
      {"mistral.block_count", "key 'mistral.block_count': expected a key that is understood", 2},
      {"llama.attention.sliding_window", "key 'llama.attention.sliding_window': expected a key", 16},
  };
  alibi_model *model = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    begin_gguf();
    gguf_keys *keys = llama_keys_of_gguf();
    gguf_put_integer(keys, cases[i].key, GGUF_U32, cases[i].value);
    assert_int_equal(open_gguf(keys, &model), ALIBI_BAD_INPUT);
    assert_null(model);
    scratch_says(error.message, cases[i].says);
    scratch_says(error.message, "tiny.gguf");
  }
  begin_gguf();
  gguf_keys *keys = gguf_keys_new();
  gguf_put_text(keys, "general.architecture", "grok");
  assert_int_equal(open_gguf(keys, &model), ALIBI_BAD_INPUT);
  scratch_says(error.message, "general.architecture: expected a family that is known (bloom");
  begin_gguf();
  family_tensors_drop(&tensors, "blk.1.ffn_up.weight");
  assert_int_equal(open_gguf(llama_keys_of_gguf(), &model), ALIBI_BAD_INPUT);
  scratch_says(error.message,
               "expected a tensor 'blk.1.ffn_up.weight' (blocks.1.feed_forward.input.weight), found none");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gguf_says_it_all),
      cmocka_unit_test(damaged_gguf_is_refused),
  };
  return cmocka_run_group_tests(tests, family_setup, family_teardown);
}
