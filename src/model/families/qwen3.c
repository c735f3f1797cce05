/* Qwen 3 (dense): Llama with an RMSNorm of every query and key head, before they turn. */
#include "model/families/family_write.h"
#include "model/families/llama_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  llama_keys_read(o, config);
  if (!keys_have(o->keys, "head_dim")) config->head_size = 128;
  config->train_length = keys_size(o->keys, "max_position_embeddings", 32768);
  config->qkv_bias = config->attention_output_bias =
      keys_boolean(o->keys, "attention_bias", false) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
  config->qk_norm = true;
  llama_keys_read_rope(o, config, llama_keys_window(o, config));
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  llama_keys_read_gguf(o, config, false);
  config->qk_norm = true;
}

static const char *lacks_in_gguf(const alibi_model_config *config)
{
  return family_has_biases(config) ? "no biases" : family_lacks_whole_heads(config);
}

static void put(json_node *object, const alibi_model_config *config)
{
  llama_keys_put(object, config);
  node_set_boolean(object, "attention_bias", model_config_bias(config, config->qkv_bias));
  node_set_boolean(object, "use_sliding_window", false);
}

static const char *const types[] = {"qwen3", NULL}, *const gguf[] = {"qwen3", NULL};

const model_family model_family_qwen3 = {
    .name = "qwen3",
    .types = types,
    .gguf = gguf,
    .prefixes = llama_prefixes,
    .embedding = "embed_tokens.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = llama_rules,
    .ignored = llama_ignored,
    .written = {.architecture = "qwen3", .split = true, .rotary = true, .lacks = lacks_in_gguf},
    .published = {.architecture = "Qwen3ForCausalLM", .trained = "rope, rmsnorm, swiglu, qk-norm", .put = put},
};
