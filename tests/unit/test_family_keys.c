/* Keys of public models' configurations: understood, or refused by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "model/families/family.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/family_case.h"

/* ---- damaged configurations ---- */

typedef struct damage {
  const char *family, *from, *to, *says;
} damage;

static const damage damages[] = {
    {"bloom", "'n_layer': 2", "'n_layer': 0", "key 'n_layer': expected an integer of at least 1, found 0"},
    {"bloom", "'n_layer': 2", "'n_layer': -3", "key 'n_layer': expected an integer of at least 1, found -3"},
    {"bloom", "'n_layer': 2", "'n_layer': 2.5", "key 'n_layer': expected an integer of at least 1, found 2.5"},
    {"bloom", "'n_layer': 2", "'n_layer': '2'", "key 'n_layer': expected an integer of at least 1, found \"2\""},
    {"bloom", "'n_layer': 2", "'n_layer': [2]", "key 'n_layer': expected an integer of at least 1, found [2]"},
    {"bloom", "'n_layer': 2", "'n_layer': {'value': 2}",
     "key 'n_layer': expected an integer of at least 1, found an object"},
    {"bloom", "'n_layer': 2", "'n_layer': true", "key 'n_layer': expected an integer of at least 1, found true"},
    {"bloom", "'n_layer': 2", "'n_layer': null", "key 'n_layer': expected an integer of at least 1, found none"},
    {"bloom", "'n_layer': 2", "'n_layer': 9e18", 
     "key 'n_layer': expected an integer from 1 to 1099511627776, found 9e+18"},
    {"bloom", "'n_layer': 2", "'n_layer': 1000000", "layers: expected"},
    {"bloom", "'n_layer': 2", "'n_layer': 3", "expected a tensor 'transformer.h.2.input_layernorm.weight'"},
    {"bloom", "'n_layer': 2", "'n_layer': 1", "tensor 'transformer.h.1."},
    {"bloom", "'n_layer': 2", "'n_layer': 2, 'num_hidden_layers': 3",
     "keys 'n_layer' and 'num_hidden_layers': expected one value"},
    {"bloom", "'hidden_size': 16, ", "", "key 'hidden_size': expected an integer of at least 1, found none"},
    {"bloom", "'hidden_size': 16", "'hidden_size': 32", "expected shape [20, 32], found [20, 16]"},
    {"bloom", "'n_head': 4", "'n_head': 3", "heads: expected a divisor of the width 16, found 3"},
    {"bloom", "'vocab_size': 20", "'vocab_size': 21",
     "key 'vocab_size': expected at most the 20 rows of the embedding"},
    {"bloom", "'layer_norm_epsilon': 1e-05", "'layer_norm_epsilon': 'small'",
     "key 'layer_norm_epsilon': expected a number"},
    {"bloom", "'layer_norm_epsilon': 1e-05", "'layer_norm_epsilon': 5", "norm_epsilon: expected"},
    {"bloom", "'use_cache'", "'apply_residual_connection_post_layernorm': true, 'use_cache'",
     "key 'apply_residual_connection_post_layernorm': expected false, all that is known to run, found true"},
    {"bloom", "'use_cache'", "'is_encoder_decoder': true, 'use_cache'",
     "key 'is_encoder_decoder': expected false, found true"},
    {"bloom", "'use_cache'", "'add_cross_attention': true, 'use_cache'",
     "key 'add_cross_attention': expected false, found true"},
    {"bloom", "'use_cache'", "'n_inner': 100, 'use_cache'",
     "key 'n_inner': expected 64, all that is known to run, found 100"},
    {"bloom", "'use_cache'", "'new_key': 3, 'use_cache'",
     "key 'new_key': expected a key that is understood, since one that is not may change numbers (it can be "
     "ignored: "
     "--ignore-config new_key)"},
    {"bloom", "'use_cache'", "'nested': {'deep': {'key': 1}}, 'use_cache'",
     "key 'nested.deep.key': expected a key that is understood"},
    {"bloom", "'use_cache'", "'quantization_config': {'bits': 4}, 'use_cache'",
     "key 'quantization_config.bits': expected a key"},
    {"bloom", "'use_cache'", "'tie_word_embeddings': false, 'use_cache'",
     "expected a tensor 'lm_head.weight' (output.weight), found none"},
    {"bloom", "'use_cache'", "'tie_word_embeddings': 1, 'use_cache'",
     "key 'tie_word_embeddings': expected true or false, found 1"},
    {"bloom", "'bloom'", "'blossom'",
     "model_type: expected a family that is known (bloom, mpt, mosaic_gpt, falcon"},
    {"bloom", "'bloom'", "7", "model_type: expected a family that is known"},
    {"bloom", "'bloom'", "'bert'", "key 'position_embedding_type': expected alibi (a jina-bert-v2"},
    {"bloom", "'bloom'", "'llama'", "key 'num_hidden_layers': expected an integer of at least 1, found none"},
    {"mpt", "'clip_qkv': null", "'clip_qkv': -1", "clip_qkv: expected"},
    {"mpt", "'clip_qkv': null", "'clip_qkv': 'six'",
     "key 'attn_config.clip_qkv': expected a number, found \"six\""},
    {"mpt", "'prefix_lm': false", "'prefix_lm': true",
     "key 'attn_config.prefix_lm': expected false, all that is known to run"},
    {"mpt", "'qk_ln': false", "'qk_ln': true", "expected a tensor 'transformer.blocks.0.attn.q_ln.weight'"},
    {"mpt", "'qk_ln': false", "'qk_gn': true", "expected a tensor 'transformer.blocks.0.attn.q_ln.weight'"},
    {"mpt", "'qk_ln': false", "'qk_ln': true, 'qk_gn': true",
     "key 'attn_config.qk_gn': expected false beside qk_ln, found true"},
    {"mpt", "'qk_ln': false", "'attn_uses_sequence_id': true",
     "key 'attn_config.attn_uses_sequence_id': expected false"},
    {"mpt", "'qk_ln': false", "'rope': true", "key 'attn_config.rope': expected false"},
    {"mpt", "'qk_ln': false", "'sliding_window_size': 128", "key 'attn_config.sliding_window_size': expected -1"},
    {"mpt", "'multihead_attention'", "'linear_attention'",
     "key 'attn_config.attn_type': expected multihead_attention"},
    {"mpt", "'multihead_attention'", "'multiquery_attention'",
     "tensor 'transformer.blocks.0.attn.Wqkv.weight': expected shape [24, 16]"},
    {"mpt", "'alibi_bias_max': 8", "'alibi_bias_max': 0", "max_bias"},
    {"mpt", "'no_bias': true", "'no_bias': false", "expected a tensor 'transformer.blocks.0.norm_1.bias'"},
    {"mpt", "'no_bias': true", "'no_bias': true, 'norm_type': 'batchnorm'",
     "key 'norm_type': expected layernorm, rmsnorm"},
    {"mpt", "'logit_scale': null", "'logit_scale': 'sqrt'",
     "key 'logit_scale': expected a number, found \"sqrt\""},
    {"mpt", "'logit_scale': null", "'ffn_config': {'ffn_type': 'mb_moe'}",
     "key 'ffn_config.ffn_type': expected mptmlp or mptglu, found 'mb_moe'"},
    {"mpt", "'logit_scale': null", "'ffn_config': {'ffn_act_fn': {'name': 'quick_gelu'}}",
     "key 'ffn_config.ffn_act_fn.name': expected gelu"},
    {"mpt", "'expansion_ratio': 4", "'expansion_ratio': 2",
     "ffn.up_proj.weight': expected shape [32, 16], found [64, 16]"},
    {"falcon", "'bias': true", "'bias': false", "tensor 'transformer.h.0."},
    {"falcon", "'bias': true", "'bias': true, 'num_ln_in_parallel_attn': 3",
     "key 'num_ln_in_parallel_attn': expected 1 or 2, found 3"},
    {"falcon", "'new_decoder_architecture': false", "'new_decoder_architecture': true",
     "key 'parallel_attn': expected true"},
    {"falcon", "'alibi': true", "'alibi': false, 'rope_scaling': {'type': 'mystery', 'factor': 2}",
     "key 'rope_scaling.rope_type': expected default, linear, dynamic, yarn, llama3 or longrope, found 'mystery'"},
    {"falcon", "'alibi': true", "'alibi': true, 'alibi_bias_max': 16",
     "key 'alibi_bias_max': expected a key that is understood"},
    {"falcon", "'multi_query': false", "'multi_query': true",
     "query_key_value.weight': expected shape [24, 16], found [48, 16]"},
    {"baichuan", "'hidden_act': 'silu'", "'hidden_act': 'mish'", "key 'hidden_act': expected gelu"},
    {"baichuan", "'hidden_act': 'silu'", "'hidden_act': 'silu', 'position_embedding': 'XPOS'",
     "key 'position_embedding': expected ALIBI or ROPE"},
    {"refact", "'multi_query': true", "'multi_query': false", "key 'multi_query': expected true"},
    {"refact", "'n_inner': null", "'n_inner': 999", "gate_up_proj.weight': expected shape [1536, 16]"},
    {"jais", "'swiglu'", "'gelu_new'", "c_fc2.weight': expected no such tensor"},
    {"jais", "'alibi'", "'rotary'", "key 'position_embedding_type': expected alibi or learned, found 'rotary'"},
    {"jais", "'width_scale'", "'alibi_scaling': {'type': 'log', 'factor': 2}, 'width_scale'",
     "key 'alibi_scaling.type': expected \"linear\""},
    {"jais", "'width_scale'", "'alibi_scaling': {'type': 'linear'}, 'width_scale'",
     "key 'alibi_scaling.train_seq_len': expected an integer"},
    {"jais", "'width_scale': 0.125", "'width_scale': 0", "logit_scale: expected"},
    {"gpt2", "'n_positions': 32", "'n_positions': 64",
     "tensor 'wpe.weight': expected shape [64, 16], found [32, 16]"},
    {"gpt2", "'gelu_new'", "'quick_gelu'", "key 'activation_function': expected gelu, gelu_new"},
    {"gpt_neox", "'rotary_pct': 0.5", "'rotary_pct': 0.3", "expected an even number of turning channels"},
    {"gpt_neox", "'use_parallel_residual': true", "'use_parallel_residual': 'yes'",
     "key 'use_parallel_residual': expected true or false"},
    {"llama", "'rope_scaling': null", "'rope_scaling': {'type': 'linear'}",
     "key 'rope_scaling.factor': expected a number of at least 1"},
    {"llama", "'rope_scaling': null", "'rope_scaling': {'type': 'linear', 'factor': 0.5}",
     "expected a number of at least 1 for the scaling 'linear', found 0.5"},
    {"llama", "'rope_scaling': null", "'rope_scaling': {'rope_type': 'linear', 'type': 'yarn', 'factor': 2}",
     "keys 'rope_scaling.rope_type' and 'rope_scaling.type': expected one value"},
    {"llama", "'rope_scaling': null", "'rope_scaling': {'type': 'mrope', 'mrope_section': [1, 1]}",
     "found 'mrope'"},
    {"llama", "'rope_scaling': null", "'rope_scaling': {'type': 'yarn', 'factor': 2, 'beta': 3}",
     "key 'rope_scaling.beta': expected a key"},
    {"llama", "'rope_scaling': null",
     "'rope_scaling': {'type': 'yarn', 'factor': 2, 'beta_fast': 1, 'beta_slow': 32}", "beta_fast"},
    {"llama", "'rope_scaling': null",
     "'rope_scaling': {'rope_type': 'longrope', 'factor': 2, 'original_max_position_embeddings': 16, "
     "'short_factor': [1], 'long_factor': [1, 2]}",
     "key 'rope_scaling.short_factor': expected a list of 2 numbers, one for each pair of channels, found 1"},
    {"llama", "'rope_scaling': null",
     "'rope_scaling': {'rope_type': 'longrope', 'factor': 2, 'original_max_position_embeddings': 16, "
     "'short_factor': [1, 1], 'long_factor': [1, 'x']}",
     "key 'rope_scaling.long_factor': expected numbers above 0, found another at 1"},
    {"llama", "'rope_scaling': null",
     "'rope_scaling': {'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 4, 'high_freq_factor': 4}",
     "expected low_freq_factor below high_freq_factor"},
    {"llama", "'rope_theta': 10000.0", "'rope_theta': 10000.0, 'rope_parameters': {'rope_theta': 5000.0}",
     "keys 'rope_parameters.rope_theta' and 'rope_theta': expected one value"},
    {"llama", "'rope_theta': 10000.0", "'rope_theta': 0", "base: expected"},
    {"llama", "'rope_theta': 10000.0", "'partial_rotary_factor': 0.5",
     "key 'partial_rotary_factor': expected 1, since heads turn as a whole"},
    {"llama", "'rope_theta': 10000.0", "'rope_interleaved': true", "key 'rope_interleaved': expected false"},
    {"llama", "'num_key_value_heads': 2", "'num_key_value_heads': 3", "kv_heads: expected a divisor"},
    {"llama", "'num_key_value_heads': 2", "'num_key_value_heads': 4",
     "k_proj.weight': expected shape [16, 16], found [8, 16]"},
    {"llama", "'hidden_act': 'silu'", "'attention_bias': true",
     "expected a tensor 'model.layers.0.self_attn.q_proj.bias'"},
    {"llama", "'hidden_act': 'silu'", "'mlp_bias': true", "expected a tensor 'model.layers.0.mlp.gate_proj.bias'"},
    {"llama", "'hidden_act': 'silu'", "'head_dim': 8", "q_proj.weight': expected shape [32, 16], found [16, 16]"},
    {"llama", "'hidden_act': 'silu'", "'head_dim': 4096", "head_size: expected"},
    {"llama", "'hidden_act': 'silu'", "'sliding_window': 8",
     "key 'sliding_window': expected a key that is understood"},
    {"jina-bert-v2", "'geglu'", "'original'",
     "key 'feed_forward_type': expected geglu or reglu, found 'original'"},
    {"jina-bert-v2", "'position_embedding_type': 'alibi', ", "", "key 'position_embedding_type': expected alibi"},
};

static void damaged_configurations_are_refused(void **unused)
{
  (void)unused;
  size_t count = sizeof damages / sizeof damages[0];
  assert_true(count >= 40);
  for (size_t i = 0; i < count; i++) {
    begin(damages[i].family);
    change(damages[i].family, damages[i].from, damages[i].to);
    double start = system_seconds();
    refused(damages[i].says);
    if (system_seconds() - start > 5) fail_msg("slow: %s", damages[i].says);
    scratch_says(error.message, scratch_folder); /* which file */
  }
}

/* Every key of every family, and two more, with values of every kind: the model opens or is refused with a
 * sentence. */
static void any_value_of_any_key(void **unused)
{
  (void)unused;
  static const char *const values[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "1",
                                       "-1",
                                       "2",
                                       "3.5",
                                       "1e300",
                                       "-1e300",
                                       "1e-300",
                                       "9007199254740993",
                                       "1099511627776",
                                       "2147483648",
                                       "\"\"",
                                       "\"alibi\"",
                                       "\"relu\"",
                                       "\"7\"",
                                       "[]",
                                       "[1, \"x\"]",
                                       "{}",
                                       "{\"type\": \"yarn\", \"factor\": 1e300}",
                                       "{\"type\": \"longrope\", \"long_factor\": [1e-300, 1]}",
                                       "{\"alibi\": false}",
                                       "{\"type\": \"linear\", \"train_seq_len\": 1099511627776}"};
  size_t opened = 0, tried = 0;
  for (size_t i = 0; i < sizeof family_files / sizeof family_files[0]; i++) {
    begin(family_files[i].name);
    char text[4096];
    json_node *base = NULL;
    snprintf(text, sizeof text, "%s", family_files[i].config);
    for (char *c = text; *c; c++)
      if (*c == '\'') *c = '"';
    assert_int_equal(node_parse(text, strlen(text), "a test", &base, &error), ALIBI_OK);
    node_set_null(base, "tie_word_embeddings");
    node_set_null(base, "rope_parameters");
    family_tensors_write(&tensors, folder());
    for (size_t key = 0; key < node_count(base); key++)
      for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        const char *name;
        char path[512];
        json_node *changed = node_copy(base), *value = NULL;
        alibi_model *model = NULL;
        node_member(base, key, &name);
        snprintf(text, sizeof text, "{\"x\": %s}", values[v]);
        assert_int_equal(node_parse(text, strlen(text), "a test", &value, &error), ALIBI_OK);
        node_set(changed, name, node_copy(node_get(value, "x")));
        snprintf(path, sizeof path, "%s/config.json", folder());
        char *written = node_to_text(changed);
        assert_non_null(written);
        scratch_write(path, written, strlen(written)); /* not flushed thousands of times */
        free(written);
        alibi_error_init(&error);
        status result = alibi_model_open(context, folder(), &model, &error);
        tried++;
        if (result == ALIBI_OK) opened++;
        else if (result != ALIBI_BAD_INPUT || !strstr(error.message, "expected"))
          fail_msg("%s, %s = %s: %d: %s", family_files[i].name, name, values[v], (int)result, error.message);
        alibi_model_free(model);
        node_free(value);
        node_free(changed);
      }
    node_free(base);
  }
  assert_true(opened > tried / 50 && opened < tried / 2);
}

/* A configuration that is no JSON, or not one object. */
static void what_is_no_object_is_refused(void **unused)
{
  (void)unused;
  static const char *const texts[] = {"",  "{", "[]", "3", "null", "{'a': 1, 'a': 2}", "{'model_type': 'bloom'",
                                      "{}"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    begin("bloom");
    family_config_write(folder(), texts[i]);
    refused("config.json");
  }
}

/* Every key has its whole path: a long one with many within it would be as long for each. */
static void long_keys_are_refused(void **unused)
{
  (void)unused;
  static char text[2048];
  begin("bloom");
  snprintf(text, sizeof text, "{'model_type': 'bloom', '%0600d': {'a': 1, 'b': 2}}", 0);
  family_config_write(folder(), text);
  refused("expected at most 4096 keys of at most 512 bytes");
}

static void labels_are_one_key(void **unused)
{
  (void)unused;
  begin("bloom");
  change("bloom", "'use_cache'", "'id2label': {'0': 'LABEL_0', '1': 'LABEL_1'}, 'use_cache'");
  alibi_model *model = open_as(NULL);
  bool found = false;
  for (size_t i = 0; i < alibi_model_note_count(model); i++)
    if (strstr(alibi_model_note(model, i), "id2label") && !strstr(alibi_model_note(model, i), "id2label.0"))
      found = true;
  assert_true(found);
  alibi_model_free(model);
}

static void keys_can_be_ignored(void **unused)
{
  (void)unused;
  static const char *const ignored[] = {"new_key", "other", NULL}, *const absent[] = {"not_there", NULL};
  alibi_open_options options;
  alibi_model *model = NULL;
  alibi_open_options_init(&options);
  begin("bloom");
  change("bloom", "'use_cache'", "'new_key': 3, 'other': {'deep': 1, 'list': [1, 2]}, 'use_cache'");
  refused("'new_key'");
  options.ignore_config = ignored;
  model = open_as(&options);
  assert_true(has_note(model, "key 'new_key': ignored, as asked") &&
              has_note(model, "keys without effect: ") &&
              has_note(model, "offset_alibi, "));
  assert_null(alibi_model_note(model, alibi_model_note_count(model)));
  alibi_model_free(model);
  options.ignore_config = absent;
  assert_int_equal(alibi_model_open_with(context, folder(), &options, &model, &error), ALIBI_INVALID);
  scratch_says(error.message, "found 'not_there', which is none");
  options.ignore_config = NULL;
  options.numerics = 7;
  assert_int_equal(alibi_model_open_with(context, folder(), &options, &model, &error), ALIBI_INVALID);
  options.size = 0;
  assert_int_equal(alibi_model_open_with(context, folder(), &options, &model, &error), ALIBI_INVALID);
}

/* ---- the reader of keys ---- */

static json_node *parse(const char *text)
{
  json_node *node = NULL;
  if (node_parse(text, strlen(text), "a test", &node, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return node;
}

static void keys_remember(void **unused)
{
  (void)unused;
  family_notes notes = {0};
  family_keys *keys;
  json_node *node = parse("{\"a\": 3, \"b\": {\"c\": 0.5, \"d\": null, \"e\": {}}, \"f\": \"text\", \"list\": "
                          "[1], \"attn_dropout\": 1}");
  assert_int_equal(keys_new(node, "a test", "", NULL, &notes, &keys, &error), ALIBI_OK);
  assert_true(keys_have(keys, "a") && keys_have(keys, "b") && keys_have(keys, "x|b.c") &&
              !keys_have(keys, "b.d") && !keys_have(keys, "x"));
  assert_int_equal(keys_size(keys, "a", 1), 3);
  assert_float_equal(keys_real(keys, "x|b.c", 1), 0.5, 0);
  assert_float_equal(keys_real(keys, "b.d", 7), 7, 0); /* null */
  assert_true(keys_is_text(keys, "f", "text") && !keys_is_text(keys, "a", "text"));
  assert_string_equal(keys_text(keys, "f", ""), "text");
  assert_int_equal(keys_finish(keys, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "key 'list'");
  assert_int_equal(node_count(keys_array(keys, "list")), 1);
  keys_free(keys);
  assert_int_equal(keys_new(node, "a test", "", NULL, &notes, &keys, &error), ALIBI_OK);
  keys_fail(keys, "the first %d", 1);
  keys_fail(keys, "the second");
  assert_true(keys_failed(keys));
  assert_int_equal(keys_finish(keys, &error), ALIBI_BAD_INPUT);
  assert_string_equal(error.message, "a test: the first 1");
  keys_free(keys);
  node_free(node);
  family_notes_free(&notes);
}

static void patterns_match(void **unused)
{
  (void)unused;
  assert_true(keys_match("*_token_id", "bos_token_id") && keys_match("*dropout*", "dropout") &&
              keys_match("a*b*c", "axxbyyc"));
  assert_true(keys_match("a", "a") && keys_match("*", "") && keys_match("h.*.bias", "h.12.bias"));
  assert_false(keys_match("a", "ab") || keys_match("a*b", "a") || keys_match("*_token_id", "token_ids") ||
               keys_match("", "a"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damaged_configurations_are_refused),
      cmocka_unit_test(any_value_of_any_key),
      cmocka_unit_test(what_is_no_object_is_refused),
      cmocka_unit_test(long_keys_are_refused),
      cmocka_unit_test(labels_are_one_key),
      cmocka_unit_test(keys_can_be_ignored),
      cmocka_unit_test(keys_remember),
      cmocka_unit_test(patterns_match),
  };
  return cmocka_run_group_tests(tests, family_setup, family_teardown);
}
