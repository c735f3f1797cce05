/* Refact: ALiBi, one key-value head, LayerNorm without shift, no biases, a gated feed-forward part.  Its last norm
 * and its output weight lie outside of `transformer`.  (llama.cpp runs it with RMSNorm, whose name its key has;
 * the model has LayerNorm.) */
#include "model/families/gpt2_keys.h"

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"activation_function", NULL}; /* of the class it derives from */
  family_keys *k = o->keys;
  gpt2_keys_read(o, config, false);
  keys_no_effect(k, no_effect);
  config->norm_bias = config->bias = false;
  keys_expect_boolean(k, "multi_query", true);
  keys_expect_boolean(k, "scale_attn_weights", true);
  config->kv_heads = 1;
  int64_t inner = keys_size(k, "n_inner", 4 * config->width);
  config->feed_forward = (2 * inner / 3 + 255) / 256 * 256;
  config->activation = ALIBI_SWIGLU;
  family_set_alibi(o, config, NULL);
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  config->activation = ALIBI_SWIGLU;
  config->norm = ALIBI_NORM_RMS; /* for the name of the key */
  family_configure_gguf(o, config);
  config->norm = ALIBI_NORM_LAYER;
  family_set_alibi(o, config, NULL);
}

static void put(json_node *object, const alibi_model_config *config)
{
  node_set_integer(object, "n_embd", config->width);
  node_set_integer(object, "n_layer", config->layers);
  node_set_integer(object, "n_head", config->heads);
  node_set_integer(object, "n_positions", config->train_length);
  node_set_integer(object, "n_inner", config->feed_forward * 3 / 2);
  node_set_boolean(object, "multi_query", true);
  node_set_number(object, "layer_norm_epsilon", config->norm_epsilon);
}

static const tensor_rule rules[] = {
    {"embedding", {"wte"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.ln_1"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"h.*.attn.q", "h.*.attn.kv"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"h.*.attn.c_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"h.*.ln_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"h.*.mlp.gate_up_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"h.*.mlp.c_proj"}, LAYOUT_ROWS},
    {"final_norm", {"/ln_f"}, LAYOUT_ROWS},
    {"final_norm", {"ln_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"gpt_refact", NULL}, *const gguf[] = {"refact", NULL};

const model_family model_family_refact = {
    .name = "refact",
    .types = types,
    .gguf = gguf,
    .prefixes = gpt2_prefixes,
    .embedding = "wte.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .ignored = gpt2_ignored,
    .written = {.architecture = "refact", .split = true, .rms_key = true},
    .published = {.architecture = "GPTRefactForCausalLM", .put = put},
};
