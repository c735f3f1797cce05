/* GPT-NeoX (Pythia): RoPE on a share of each head, both parts from the block's input with a norm each.  Queries,
 * keys and values lie head by head (GGUF: all of each together). */
#include <string.h>

#include "model/families/family_publish.h"
#include "model/families/family_write.h"
#include "model/families/rope_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  static const rope_keys rope = {"rotary_emb_base|rope_theta", "rotary_pct|partial_rotary_factor", 10000, 0.25, 0};
  family_keys *k = o->keys;
  config->width = keys_size(k, "hidden_size", KEYS_REQUIRED);
  config->layers = keys_size(k, "num_hidden_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "num_attention_heads", KEYS_REQUIRED);
  config->feed_forward = keys_size(k, "intermediate_size", KEYS_REQUIRED);
  config->train_length = keys_size(k, "max_position_embeddings", 2048);
  config->norm_epsilon = keys_real(k, "layer_norm_eps", 1e-5);
  config->norm_bias = config->bias = true;
  if (!keys_boolean(k, "attention_bias", true)) config->qkv_bias = config->attention_output_bias = ALIBI_BIAS_NO;
  if (keys_boolean(k, "use_parallel_residual", true)) config->parallel = ALIBI_PARALLEL_TWO_NORMS;
  family_set_activation(o, config, "hidden_act", "gelu", false);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, family_tensor(o, "/lm_head.weight") ? "/lm_head" : "/embed_out", false);
  rope_keys_read(o, config, &rope);
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  family_configure_gguf(o, config);
  if (keys_boolean(o->keys, "use_parallel_residual", true)) config->parallel = ALIBI_PARALLEL_TWO_NORMS;
  rope_keys_read_gguf(o, config, false);
}

static void put(json_node *object, const alibi_model_config *config)
{
  node_set_integer(object, "hidden_size", config->width);
  node_set_integer(object, "num_hidden_layers", config->layers);
  node_set_integer(object, "num_attention_heads", config->heads);
  node_set_integer(object, "intermediate_size", config->feed_forward);
  node_set_integer(object, "max_position_embeddings", config->train_length);
  node_set_text(object, "hidden_act", family_activation_name(config));
  node_set_number(object, "layer_norm_eps", config->norm_epsilon);
  node_set_boolean(object, "attention_bias", model_config_bias(config, config->qkv_bias));
  node_set_boolean(object, "use_parallel_residual", config->parallel != ALIBI_PARALLEL_NONE);
  node_set_number(object, "rotary_pct", rope_keys_setting(config, "fraction"));
  if (strcmp(config->position, "rope") == 0) rope_keys_put(object, config, "rotary_emb_base");
}

static const tensor_rule rules[] = {
    {"embedding", {"embed_in"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"layers.*.input_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"layers.*.attention.query_key_value"}, LAYOUT_GROUPS},
    {"blocks.*.attention.output", {"layers.*.attention.dense"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"layers.*.post_attention_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"layers.*.mlp.dense_h_to_4h"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"layers.*.mlp.dense_4h_to_h"}, LAYOUT_ROWS},
    {"final_norm", {"final_layer_norm"}, LAYOUT_ROWS},
    {"output", {"/embed_out"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"gpt_neox", NULL}, *const gguf[] = {"gptneox", NULL};
static const char *const prefixes[] = {"gpt_neox.", "", NULL};
static const char *const ignored[] = {"layers.*.attention.bias", "layers.*.attention.masked_bias",
                                      "layers.*.attention.rotary_emb.inv_freq", "rotary_emb.inv_freq", NULL};

static const char *lacks_in_gguf(const alibi_model_config *config)
{
  return config->tied ? "an output weight of its own" : family_lacks_biases(config);
}

static void put_gguf(const gguf_key_writer *w, const alibi_model_config *config)
{
  family_put_boolean(w, "use_parallel_residual", config->parallel != ALIBI_PARALLEL_NONE);
}

const model_family model_family_gpt_neox = {
    .name = "gpt_neox",
    .types = types,
    .gguf = gguf,
    .prefixes = prefixes,
    .embedding = "embed_in.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .ignored = ignored,
    .written = {.architecture = "gptneox", .rotary = true, .put = put_gguf, .lacks = lacks_in_gguf},
    .published = {.architecture = "GPTNeoXForCausalLM", .trained = "rope, norm-bias, bias", .put = put},
};
