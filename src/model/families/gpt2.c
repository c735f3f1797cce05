/* GPT-2: learned positions; matrices stored [in, out], as its Conv1D has them. */
#include "model/families/gpt2_keys.h"

#include "model/families/family_publish.h"
#include "model/families/family_write.h"

const char *const gpt2_prefixes[] = {"transformer.", "", NULL};
const char *const gpt2_ignored[] = {"h.*.attn.bias", "h.*.attn.masked_bias", "relative_pe.slopes", NULL};

void gpt2_keys_read(family_opening *o, alibi_model_config *config, bool tied_otherwise)
{
  static const char *const no_effect[] = {
      "reorder_and_upcast_attn",         "n_ctx",     "attention_softmax_in_fp32", "attention_bias_in_fp32",
      "scale_attention_softmax_in_fp32", "n_special", "predict_special_tokens",    NULL};
  family_keys *k = o->keys;
  config->width = keys_size(k, "n_embd|hidden_size", KEYS_REQUIRED);
  config->layers = keys_size(k, "n_layer|num_hidden_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "n_head|num_attention_heads", KEYS_REQUIRED);
  config->train_length = keys_size(k, "n_positions|max_position_embeddings", 1024);
  config->norm_epsilon = keys_real(k, "layer_norm_epsilon", 1e-5);
  config->norm_bias = config->bias = true;
  if (!keys_boolean(k, "scale_attn_weights", true)) config->score_scale = 1;
  o->scale_by_layer = keys_boolean(k, "scale_attn_by_inverse_layer_idx", false);
  keys_no_effect(k, no_effect);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, "/lm_head", tied_otherwise);
}

void gpt2_keys_read_inner(family_opening *o, alibi_model_config *config)
{
  config->feed_forward = keys_size(o->keys, "n_inner", 4 * config->width);
}

static void configure(family_opening *o, alibi_model_config *config)
{
  gpt2_keys_read(o, config, true);
  gpt2_keys_read_inner(o, config);
  family_set_activation(o, config, "activation_function", "gelu_new", false);
  family_set(o, config, "position", "learned");
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  config->activation = ALIBI_GELU_TANH;
  family_configure_gguf(o, config);
  family_set(o, config, "position", "learned");
}

static void put(json_node *object, const alibi_model_config *config)
{
  node_set_integer(object, "n_embd", config->width);
  node_set_integer(object, "n_layer", config->layers);
  node_set_integer(object, "n_head", config->heads);
  node_set_integer(object, "n_positions", config->train_length);
  node_set_integer(object, "n_inner", config->feed_forward);
  node_set_text(object, "activation_function", family_activation_name(config));
  node_set_number(object, "layer_norm_epsilon", config->norm_epsilon);
}

static const tensor_rule rules[] = {
    {"embedding", {"wte"}, LAYOUT_ROWS},
    {"position.embedding", {"wpe.weight"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.ln_1"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"h.*.attn.c_attn"}, LAYOUT_TURNED},
    {"blocks.*.attention.output", {"h.*.attn.c_proj"}, LAYOUT_TURNED},
    {"blocks.*.feed_forward_norm", {"h.*.ln_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"h.*.mlp.c_fc"}, LAYOUT_TURNED},
    {"blocks.*.feed_forward.output", {"h.*.mlp.c_proj"}, LAYOUT_TURNED},
    {"final_norm", {"ln_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"gpt2", NULL}, *const gguf[] = {"gpt2", NULL};

const model_family model_family_gpt2 = {
    .name = "gpt2",
    .types = types,
    .gguf = gguf,
    .prefixes = gpt2_prefixes,
    .embedding = "wte.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .ignored = gpt2_ignored,
    .written = {.architecture = "gpt2", .lacks = family_lacks_biases},
    .published = {.architecture = "GPT2LMHeadModel", .trained = "learned, norm-bias, bias", .put = put},
};
