/* Mistral: Llama with fewer key-value heads and, in its first version, a window of attention.  Its GGUF files call
 * themselves llama. */
#include <string.h>

#include "model/families/family_write.h"
#include "model/families/llama_keys.h"
#include "model/families/rope_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  llama_keys_read(o, config);
  if (!keys_have(o->keys, "num_key_value_heads") && !keys_are_null(o->keys, "num_key_value_heads"))
    config->kv_heads = 8; /* null: as many as heads */
  config->train_length = keys_size(o->keys, "max_position_embeddings", 4096 * 32);
  bool none =
      keys_are_null(o->keys, "sliding_window"); /* absent is another thing: the window of the first version */
  llama_keys_read_rope(o, config, none ? 0 : keys_size(o->keys, "sliding_window", 4096));
}

static void put(json_node *object, const alibi_model_config *config)
{
  llama_keys_put(object, config);
  double window = strcmp(config->position, "rope-window") == 0 ? rope_keys_setting(config, "window") : 0;
  if (strcmp(config->position, "rope-window") != 0) node_set_null(object, "sliding_window");
  else node_set_integer(object, "sliding_window", window > 0 ? (int64_t)window : config->train_length);
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
    .written = {.architecture = "llama",
                .split = true,
                .rotary = true,
                .neighbours = true,
                .divisors = true,
                .lacks = family_lacks_whole_heads},
    .published = {.architecture = "MistralForCausalLM", .trained = "rope-window, rmsnorm, swiglu", .put = put},
};
