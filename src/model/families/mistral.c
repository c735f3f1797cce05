/* Mistral: Llama with fewer key-value heads and, in its first version, a window of attention.  Its GGUF files call
 * themselves llama. */
#include "model/families/llama_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  llama_keys_read(o, config);
  if (!keys_have(o->keys, "num_key_value_heads")) config->kv_heads = 8;
  config->train_length = keys_size(o->keys, "max_position_embeddings", 4096 * 32);
  llama_keys_read_rope(o, config,
                       keys_have(o->keys, "sliding_window") ? keys_size(o->keys, "sliding_window", 4096) : 0);
}

static const char *const types[] = {"mistral", NULL};

const model_family model_family_mistral = {
    .name = "mistral",
    .types = types,
    .prefixes = llama_prefixes,
    .embedding = "embed_tokens.weight",
    .configure = configure,
    .rules = llama_rules,
    .ignored = llama_ignored,
};
