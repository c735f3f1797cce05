/* Llama 1 to 3.2, and what the families built like it share.  Positions are rotary, with the half-split pairs of
 * transformers' weights (GGUF: neighbours); scalings are the model's own extension. */
#include "model/families/llama_keys.h"

#include <string.h>

#include "model/families/family_publish.h"
#include "model/families/family_write.h"
#include "model/families/rope_keys.h"

const char *const llama_prefixes[] = {"model.", "", NULL};
const char *const llama_ignored[] = {"layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq",
                                     "rope_freqs.weight", NULL};

const tensor_rule llama_rules[] = {
    {"embedding", {"embed_tokens"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"layers.*.input_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv",
     {"layers.*.self_attn.q_proj", "layers.*.self_attn.k_proj", "layers.*.self_attn.v_proj"},
     LAYOUT_ROWS},
    {"blocks.*.attention.query_norm", {"layers.*.self_attn.q_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention.key_norm", {"layers.*.self_attn.k_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"layers.*.self_attn.o_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"layers.*.post_attention_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"layers.*.mlp.gate_proj", "layers.*.mlp.up_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"layers.*.mlp.down_proj"}, LAYOUT_ROWS},
    {"final_norm", {"norm"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

void llama_keys_read(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  config->width = keys_size(k, "hidden_size", KEYS_REQUIRED);
  config->layers = keys_size(k, "num_hidden_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "num_attention_heads", KEYS_REQUIRED);
  config->kv_heads = keys_size(k, "num_key_value_heads", config->heads);
  config->feed_forward = keys_size(k, "intermediate_size", KEYS_REQUIRED);
  if (keys_have(k, "head_dim")) config->head_size = keys_size(k, "head_dim", KEYS_REQUIRED);
  config->norm = ALIBI_NORM_RMS;
  config->norm_bias = config->bias = false;
  config->norm_epsilon = keys_real(k, "rms_norm_eps", 1e-6);
  family_set_activation(o, config, "hidden_act", "silu", true);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, "/lm_head", false);
}

void llama_keys_read_rope(family_opening *o, alibi_model_config *config, int64_t window)
{
  rope_keys names = {"rope_theta", NULL, 10000, 1, window};
  rope_keys_read(o, config, &names);
}

void llama_keys_read_gguf(family_opening *o, alibi_model_config *config, bool adjacent)
{
  config->norm = ALIBI_NORM_RMS;
  config->activation = ALIBI_SWIGLU;
  keys_expect_integer(o->keys, "expert_count", 0);
  keys_expect_integer(o->keys, "expert_used_count", 0);
  family_configure_gguf(o, config);
  rope_keys_read_gguf(o, config, adjacent);
}

/* Layers with a window and layers without are another model than those that we run. */
int64_t llama_keys_window(family_opening *o, const alibi_model_config *config)
{
  family_keys *k = o->keys;
  bool used = keys_boolean(k, "use_sliding_window", false);
  int64_t window = keys_size(k, "sliding_window", 4096), from = keys_integer(k, "max_window_layers", 0, 28);
  const json_node *types = keys_array(k, "layer_types");
  size_t sliding = 0, count = node_count(types);
  for (size_t i = 0; i < count; i++) {
    const char *type = node_text(node_at(types, i), "");
    if (strcmp(type, "sliding_attention") == 0) sliding++;
    else if (strcmp(type, "full_attention") != 0)
      keys_fail(k, "key 'layer_types': expected full_attention or sliding_attention, found '%s'", type);
  }
  if (!types && used)
    count = (size_t)config->layers, sliding = from < config->layers ? (size_t)(config->layers - from) : 0;
  if (sliding == 0) return 0;
  if (sliding < count)
    keys_fail(k, "key '%s': expected the same attention in all layers, found a window in %zu of %zu",
              types ? "layer_types" : "max_window_layers", sliding, count);
  return window;
}

void llama_keys_put(json_node *object, const alibi_model_config *config)
{
  node_set_integer(object, "hidden_size", config->width);
  node_set_integer(object, "num_hidden_layers", config->layers);
  node_set_integer(object, "num_attention_heads", config->heads);
  node_set_integer(object, "num_key_value_heads", config->kv_heads);
  node_set_integer(object, "head_dim", config->head_size);
  node_set_integer(object, "intermediate_size", config->feed_forward);
  node_set_text(object, "hidden_act", family_activation_name(config));
  node_set_number(object, "rms_norm_eps", config->norm_epsilon);
  node_set_integer(object, "max_position_embeddings", config->train_length);
  if (strncmp(config->position, "rope", 4) == 0) rope_keys_put(object, config, "rope_theta");
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"max_sequence_length", "is_llama_config", NULL};
  family_keys *k = o->keys;
  llama_keys_read(o, config);
  keys_no_effect(k, no_effect);
  keys_expect_boolean(k, "rope_interleaved", false);
  config->train_length = keys_size(k, "max_position_embeddings", 2048);
  config->qkv_bias = config->attention_output_bias =
      keys_boolean(k, "attention_bias", false) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
  config->input_bias = config->output_bias = keys_boolean(k, "mlp_bias", false) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
  llama_keys_read_rope(o, config, 0);
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  llama_keys_read_gguf(o, config, true);
}

static void put(json_node *object, const alibi_model_config *config)
{
  llama_keys_put(object, config);
  node_set_boolean(object, "attention_bias", model_config_bias(config, config->qkv_bias));
  node_set_boolean(object, "mlp_bias", model_config_bias(config, config->input_bias));
}

static const char *lacks(const alibi_model_config *config)
{
  return config->width % config->heads == 0 ? NULL : "a width that is a multiple of its heads";
}

static const char *const types[] = {"llama", NULL}, *const gguf[] = {"llama", NULL};

const model_family model_family_llama = {
    .name = "llama",
    .types = types,
    .gguf = gguf,
    .prefixes = llama_prefixes,
    .embedding = "embed_tokens.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = llama_rules,
    .ignored = llama_ignored,
    .written = {.architecture = "llama",
                .split = true,
                .rotary = true,
                .neighbours = true,
                .divisors = true,
                .lacks = family_lacks_whole_heads},
    .published = {.architecture = "LlamaForCausalLM",
                  .trained = "rope, rmsnorm, swiglu",
                  .put = put,
                  .lacks = lacks},
};
