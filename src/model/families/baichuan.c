/* Baichuan: Llama with one matrix for queries, keys and values.  13B has ALiBi, 7B RoPE, and no key says so: 40
 * layers do, as in every other engine.  Version 2 divides the rows of its output weight by their length, which no
 * key says either. */
#include <string.h>

#include "model/families/llama_keys.h"
#include "model/families/rope_keys.h"

enum { ALIBI_LAYERS = 40, VOCABULARY_1 = 64000, VOCABULARY_2 = 125696 };

/* An explicit word wins over the number of layers. */
static bool has_alibi(family_opening *o, const alibi_model_config *config)
{
  const char *word = keys_text(o->keys, "position_embedding|position_embedding_type", "");
  if (strcmp(word, "ALIBI") == 0 || strcmp(word, "alibi") == 0) return true;
  if (strcmp(word, "ROPE") == 0 || strcmp(word, "rope") == 0) return false;
  if (*word) keys_fail(o->keys, "key 'position_embedding': expected ALIBI or ROPE, found '%s'", word);
  return config->layers == ALIBI_LAYERS;
}

/* What tells version 2, or NULL.  Only its own configuration class writes z_loss_weight, and not in all releases;
 * of 7B the class of the model is spelled BaiChuan in version 1 and Baichuan in version 2. */
static const char *sign_of_version_2(family_opening *o, const alibi_model_config *config, bool alibi)
{
  const json_node *classes = keys_array(o->keys, "architectures");
  const char *class = node_count(classes) > 0 ? node_text(node_at(classes, 0), "") : "";
  if (keys_have(o->keys, "z_loss_weight")) return "z_loss_weight";
  if (config->vocabulary == VOCABULARY_2) return "125696 tokens";
  if (!alibi && config->vocabulary != VOCABULARY_1 && strcmp(class, "BaichuanForCausalLM") == 0)
    return "RoPE in a BaichuanForCausalLM";
  return NULL;
}

static void normalise_head(family_opening *o, const alibi_model_config *config, const char *sign)
{
  if (config->tied)
    keys_fail(o->keys,
              "tied output weights: expected none in Baichuan 2 (its sign: %s), where they have rows of "
              "another length than the embedding",
              sign);
  o->head = LAYOUT_NORMALISED;
  family_note(o->notes, "rows of the output weight are divided by their length: version 2 (%s)", sign);
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"z_loss_weight", "_from_model_config", NULL};
  family_keys *k = o->keys;
  llama_keys_read(o, config);
  config->train_length = keys_size(k, "max_position_embeddings|model_max_length", 4096);
  bool alibi = has_alibi(o, config);
  const char *sign = sign_of_version_2(o, config, alibi);
  if (sign) normalise_head(o, config, sign);
  keys_no_effect(k, no_effect);
  if (alibi) family_set_alibi(o, config, NULL);
  else llama_keys_read_rope(o, config, 0);
}

/* Rows of queries and keys are exchanged there in the same way, which ALiBi does not see. */
static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"tensor_data_layout", "rope.dimension_count", "rope.freq_base",
                                          "rope.scaling.*", NULL};
  config->norm = ALIBI_NORM_RMS;
  config->activation = ALIBI_SWIGLU;
  family_configure_gguf(o, config);
  if (config->vocabulary == VOCABULARY_2) normalise_head(o, config, "125696 tokens");
  if (config->layers == ALIBI_LAYERS) {
    keys_no_effect(o->keys, no_effect);
    family_set_alibi(o, config, NULL);
  } else {
    static const char *const layout[] = {"tensor_data_layout", NULL};
    keys_no_effect(o->keys, layout);
    rope_keys_read_gguf(o, config, true);
  }
}

/* The class of 7B's first version has a spelling of its own. */
static void put(json_node *object, const alibi_model_config *config)
{
  llama_keys_put(object, config);
  if (strcmp(config->position, "rope") == 0) {
    json_node *classes = node_new_array();
    node_append_text(classes, "BaiChuanForCausalLM");
    node_set(object, "architectures", classes);
  }
  node_set_integer(object, "model_max_length", config->train_length);
}

static const tensor_rule rules[] = {
    {"embedding", {"embed_tokens"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"layers.*.input_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"layers.*.self_attn.W_pack"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"layers.*.self_attn.o_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"layers.*.post_attention_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"layers.*.mlp.gate_proj", "layers.*.mlp.up_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"layers.*.mlp.down_proj"}, LAYOUT_ROWS},
    {"final_norm", {"norm"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"baichuan", NULL}, *const gguf[] = {"baichuan", NULL};

const model_family model_family_baichuan = {
    .name = "baichuan",
    .types = types,
    .gguf = gguf,
    .prefixes = llama_prefixes,
    .embedding = "embed_tokens.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .ignored = llama_ignored,
    .written = {.architecture = "baichuan", .split = true, .rotary = true, .neighbours = true},
    .published = {.architecture = "BaichuanForCausalLM", .put = put},
};
