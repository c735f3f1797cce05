/* Qwen 2 and 2.5: Llama with biases of queries, keys and values, and of nothing else. */
#include "model/families/family_write.h"
#include "model/families/llama_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  llama_keys_read(o, config);
  keys_expect_boolean(o->keys, "use_mrope", false);
  config->train_length = keys_size(o->keys, "max_position_embeddings", 32768);
  config->qkv_bias = ALIBI_BIAS_YES;
  llama_keys_read_rope(o, config, llama_keys_window(o, config));
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  llama_keys_read_gguf(o, config, false);
}

static void put(json_node *object, const alibi_model_config *config)
{
  llama_keys_put(object, config);
  node_set_boolean(object, "use_sliding_window", false);
}

static const char *const types[] = {"qwen2", NULL}, *const gguf[] = {"qwen2", NULL};

const model_family model_family_qwen2 = {
    .name = "qwen2",
    .types = types,
    .gguf = gguf,
    .prefixes = llama_prefixes,
    .embedding = "embed_tokens.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = llama_rules,
    .ignored = llama_ignored,
    .written = {.architecture = "qwen2", .split = true, .rotary = true, .lacks = family_lacks_whole_heads},
    .published = {.architecture = "Qwen2ForCausalLM", .trained = "rope, rmsnorm, swiglu, qkv-bias", .put = put},
};
