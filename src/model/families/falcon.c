/* Falcon.  The RW models have ALiBi, biases and the sequential block; 7B, 11B and 40B have RoPE and both parts
 * from one input. Queries, keys and values lie group by group, a group being a key-value head with its queries: of
 * one head each in RW, of all heads in 7B.  With ALiBi the bias is added before scores are scaled: the slope is m
 * / sqrt(D). */
#include <math.h>
#include <string.h>

#include "model/families/family_publish.h"
#include "model/families/family_write.h"
#include "model/families/rope_keys.h"

/* transformers rounds slopes and products to bfloat16, in every run; `reference` does. */
static void set_alibi(family_opening *o, alibi_model_config *config)
{
  family_set_alibi(o, config, "falcon");
  if (!keys_failed(o->keys))
    family_set_number(o, config, "alibi_slope_scale", sqrt((double)config->heads / (double)config->width));
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const rope_keys rope = {"rope_theta", NULL, 10000, 1, 0};
  static const char *const no_effect[] = {"ff_factor", NULL};
  static const char *const rotary[] = {"rope_theta", "rope_scaling*", "rope_parameters*", NULL};
  family_keys *k = o->keys;
  config->width = keys_size(k, "hidden_size|n_embed", KEYS_REQUIRED);
  config->layers = keys_size(k, "num_hidden_layers|n_layer", KEYS_REQUIRED);
  config->heads = keys_size(k, "num_attention_heads|n_head", KEYS_REQUIRED);
  config->feed_forward = keys_size(k, "ffn_hidden_size", 4 * config->width);
  if (keys_have(k, "ffn_hidden_size")) keys_no_effect(k, no_effect);
  else keys_expect_integer(k, "ff_factor", 4);
  config->norm_epsilon = keys_real(k, "layer_norm_epsilon", 1e-5);
  config->norm_bias = true;
  config->bias = keys_boolean(k, "bias", false);
  config->train_length = keys_size(k, "max_position_embeddings|seq_length", 2048);
  bool grouped =
      keys_boolean(k, "new_decoder_architecture", family_tensor(o, "h.*.ln_attn.weight") != NULL); /* RefinedWeb */
  bool multi_query = keys_boolean(k, "multi_query", true);
  bool parallel = keys_boolean(k, "parallel_attn", true);
  int64_t kv_heads = keys_size(k, "num_kv_heads|n_head_kv", config->heads);
  int64_t norms = keys_size(k, "num_ln_in_parallel_attn", grouped ? 2 : 1);
  config->kv_heads = grouped ? kv_heads : multi_query ? 1 : config->heads;
  if (norms > 2) keys_fail(k, "key 'num_ln_in_parallel_attn': expected 1 or 2, found %lld", (long long)norms);
  if (grouped && !parallel)
    keys_fail(k, "key 'parallel_attn': expected true beside new_decoder_architecture, found false");
  if (parallel) config->parallel = grouped && norms == 2 ? ALIBI_PARALLEL_TWO_NORMS : ALIBI_PARALLEL_ONE_NORM;
  keys_expect_boolean(k, "apply_residual_connection_post_layernorm", false);
  family_set_activation(o, config, "activation", "gelu", false);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, "/lm_head", true);
  if (!keys_boolean(k, "alibi", false)) {
    rope_keys_read(o, config, &rope);
    return;
  }
  set_alibi(o, config);
  keys_no_effect(k, rotary);
}

/* The architecture of that name there is always parallel and rotary. */
static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"tensor_data_layout", NULL};
  family_configure_gguf(o, config);
  config->parallel =
      family_tensor(o, "blk.*.attn_norm_2.weight") ? ALIBI_PARALLEL_TWO_NORMS : ALIBI_PARALLEL_ONE_NORM;
  keys_no_effect(o->keys, no_effect);
  rope_keys_read_gguf(o, config, false);
}

static const tensor_rule rules[] = {
    {"embedding", {"word_embeddings"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.input_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.ln_attn"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"h.*.self_attention.query_key_value"}, LAYOUT_GROUPS},
    {"blocks.*.attention.output", {"h.*.self_attention.dense"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"h.*.post_attention_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"h.*.ln_mlp"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"h.*.mlp.dense_h_to_4h"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"h.*.mlp.dense_4h_to_h"}, LAYOUT_ROWS},
    {"final_norm", {"ln_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const tensor_rule gguf_rules[] = {
    {"blocks.*.attention_norm", {"blk.*.attn_norm_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"blk.*.attn_norm"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"falcon", "RefinedWebModel", "RefinedWeb", NULL}, *const gguf[] = {"falcon",
                                                                                                       NULL};
static const char *const prefixes[] = {"transformer.", "", NULL};
static const char *const ignored[] = {"h.*.self_attention.rotary_emb.inv_freq",
                                      "h.*.self_attention.maybe_rotary.inv_freq", NULL};

static void put(json_node *object, const alibi_model_config *config)
{
  bool two = config->parallel == ALIBI_PARALLEL_TWO_NORMS;
  bool grouped = two || (config->kv_heads != 1 && config->kv_heads != config->heads);
  node_set_integer(object, "hidden_size", config->width);
  node_set_integer(object, "num_hidden_layers", config->layers);
  node_set_integer(object, "num_attention_heads", config->heads);
  node_set_integer(object, "num_kv_heads", config->kv_heads);
  node_set_integer(object, "ffn_hidden_size", config->feed_forward);
  node_set_text(object, "activation", family_activation_name(config));
  node_set_number(object, "layer_norm_epsilon", config->norm_epsilon);
  node_set_boolean(object, "bias", config->bias);
  node_set_boolean(object, "parallel_attn", config->parallel != ALIBI_PARALLEL_NONE);
  node_set_boolean(object, "new_decoder_architecture", grouped);
  node_set_boolean(object, "multi_query", !grouped && config->kv_heads == 1);
  if (grouped) node_set_integer(object, "num_ln_in_parallel_attn", two ? 2 : 1);
  node_set_integer(object, "max_position_embeddings", config->train_length);
  node_set_boolean(object, "alibi", strcmp(config->position, "alibi") == 0);
  if (strcmp(config->position, "rope") == 0) rope_keys_put(object, config, "rope_theta");
}

/* Norms have other names where there are two for parallel parts. */
static bool fits_published(const void *form, const tensor_rule *rule, const alibi_model_config *config)
{
  (void)form;
  if (!strstr(rule->ours, "_norm") || strstr(rule->ours, "final")) return true;
  return (strstr(rule->theirs[0], ".ln_") != NULL) == (config->parallel == ALIBI_PARALLEL_TWO_NORMS);
}

static const char *lacks_in_gguf(const alibi_model_config *config)
{
  if (config->parallel == ALIBI_PARALLEL_NONE) return "RoPE and parallel parts";
  if (family_has_biases(config)) return "no biases";
  return config->norm_bias ? family_lacks_whole_heads(config) : "a shift in every norm";
}

const model_family model_family_falcon = {
    .name = "falcon",
    .types = types,
    .gguf = gguf,
    .prefixes = prefixes,
    .embedding = "word_embeddings.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .gguf_rules = gguf_rules,
    .ignored = ignored,
    .written = {.architecture = "falcon", .rotary = true, .lacks = lacks_in_gguf},
    .published = {.architecture = "FalconForCausalLM",
                  .trained = "rope, norm-bias, parallel, no bias",
                  .put = put,
                  .fits = fits_published},
};
