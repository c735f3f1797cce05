/* MPT: ALiBi with a largest exponent of its own, LayerNorm without shift, queries, keys and values in blocks and,
 * in some, cut to a range before anything else happens to them.  What is read is llm-foundry's configuration, of
 * which transformers' own code leaves several keys unread. */
#include <math.h>
#include <string.h>

#include "model/families/family.h"
#include "model/families/family_write.h"

/* A number, or "inv_sqrt_d_model". */
static double logit_scale(family_opening *o, const alibi_model_config *config)
{
  family_keys *k = o->keys;
  if (!keys_is_text(k, "logit_scale", "inv_sqrt_d_model")) return keys_real(k, "logit_scale", 1);
  keys_text(k, "logit_scale", "");
  return 1 / sqrt((double)config->width);
}

static void read_attention(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"attn_config.attn_impl", "attn_impl",
                                          "attn_config.verbose",   "attn_config.fused_qkv",
                                          "attn_config.rope_*",    "attn_config.attn_pdrop",
                                          "attn_config.*dropout*", "attn_config.fc_type*",
                                          NULL};
  family_keys *k = o->keys;
  const char *type = keys_text(k, "attn_config.attn_type|attn_type", "multihead_attention");
  config->kv_heads = config->heads;
  if (strcmp(type, "multiquery_attention") == 0) config->kv_heads = 1;
  else if (strcmp(type, "multihead_attention") != 0 && strcmp(type, "grouped_query_attention") != 0)
    keys_fail(k,
              "key 'attn_config.attn_type': expected multihead_attention, multiquery_attention or "
              "grouped_query_attention, found '%s'",
              type);
  config->kv_heads = keys_size(k, "attn_config.kv_n_heads|kv_n_heads", config->kv_heads);
  config->clip_qkv = keys_real(k, "attn_config.clip_qkv|clip_qkv", 0);
  config->score_scale = keys_real(k, "attn_config.softmax_scale|softmax_scale", 0);
  config->score_cap = keys_real(k, "attn_config.attn_logit_softcapping", 0);
  bool full = keys_boolean(k, "attn_config.qk_ln|qk_ln|attn_qk_ln", false);
  bool group = keys_boolean(k, "attn_config.qk_gn", false);
  if (full && group) keys_fail(k, "key 'attn_config.qk_gn': expected false beside qk_ln, found true");
  config->qk_norm = full || group;
  if (config->qk_norm) config->qk_norm_kind = full ? ALIBI_QK_NORM_FULL : ALIBI_QK_NORM_GROUP;
  keys_expect_boolean(k, "attn_config.prefix_lm|prefix_lm", false);
  keys_expect_boolean(k, "attn_config.attn_uses_sequence_id|attn_uses_sequence_id", false);
  keys_expect_boolean(k, "attn_config.rope", false);
  keys_expect_integer(k, "attn_config.sliding_window_size", -1);
  keys_no_effect(k, no_effect);
  keys_saved_within(k, "attn_config.");
}

/* learned_pos_emb means something only beside no ALiBi. */
static void read_positions(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  bool alibi = keys_boolean(k, "attn_config.alibi|alibi", !family_tensor(o, "wpe.weight"));
  bool learned = keys_boolean(k, "learned_pos_emb", true);
  double most = keys_real(k, "attn_config.alibi_bias_max|alibi_bias_max", 8);
  if (alibi) {
    family_set_alibi(o, config, NULL);
    family_set_number(o, config, "alibi_max_bias", most);
    if (most != 8)
      family_note(o->notes, "alibi_bias_max: %g, as llm-foundry has it; transformers' own class takes 8", most);
  } else {
    family_set(o, config, "position", learned ? "learned" : "none");
  }
}

static void read_feed_forward(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"ffn_config.fc_type*", "fc_type*", "ffn_config.bias", NULL};
  family_keys *k = o->keys;
  const char *type = keys_text(k, "ffn_config.ffn_type|ffn_type", "mptmlp");
  bool gated = strcmp(type, "mptglu") == 0;
  double ratio = keys_real(k, "expansion_ratio|mlp_ratio|ffn_config.expansion_ratio", 4);
  if (!gated && strcmp(type, "mptmlp") != 0)
    keys_fail(k, "key 'ffn_config.ffn_type': expected mptmlp or mptglu, found '%s'", type);
  if (!(ratio > 0 && ratio <= 1000)) {
    keys_fail(k, "key 'expansion_ratio': expected a number above 0 and at most 1000, found %g", ratio);
    ratio = 4;
  }
  config->feed_forward = keys_size(k, "ffn_config.ffn_hidden_size", (int64_t)((double)config->width * ratio));
  family_set_activation(o, config, "ffn_config.ffn_act_fn.name", "gelu", gated);
  if (strcmp(keys_text(k, "ffn_config.ffn_act_fn.approximate", "none"), "tanh") == 0) {
    if (config->activation == ALIBI_GELU_ERF) config->activation = ALIBI_GELU_TANH;
    if (config->activation == ALIBI_GEGLU) config->activation = ALIBI_GEGLU_TANH;
  } else {
    keys_expect_text(k, "ffn_config.ffn_act_fn.approximate", "none");
  }
  keys_no_effect(k, no_effect);
}

static void read_norm(family_opening *o, alibi_model_config *config, bool biases)
{
  family_keys *k = o->keys;
  const char *type = keys_text(k, "norm_type", "low_precision_layernorm");
  bool rms = strcmp(type, "rmsnorm") == 0 || strcmp(type, "low_precision_rmsnorm") == 0;
  if (!rms && strcmp(type, "layernorm") != 0 && strcmp(type, "low_precision_layernorm") != 0)
    keys_fail(k, "key 'norm_type': expected layernorm, rmsnorm or their low_precision_ forms, found '%s'", type);
  config->norm = rms ? ALIBI_NORM_RMS : ALIBI_NORM_LAYER;
  config->norm_epsilon = keys_real(k, "layer_norm_epsilon|norm_eps", 1e-5);
  config->norm_bias = biases && !rms;
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {
      "init_config",   "init_config.*", "init_device", "verbose", "embedding_fraction",      "use_pad_tok_in_ffn",
      "param_init_fn", "emb_init_*",    "fan_mode",    "init_*",  "low_precision_layernorm", NULL};
  family_keys *k = o->keys;
  config->width = keys_size(k, "d_model", KEYS_REQUIRED);
  config->layers = keys_size(k, "n_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "n_heads", KEYS_REQUIRED);
  config->train_length = keys_size(k, "max_seq_len", 2048);
  config->bias = !keys_boolean(k, "no_bias", true);
  read_norm(o, config, config->bias);
  read_attention(o, config);
  read_feed_forward(o, config);
  config->logit_scale = logit_scale(o, config);
  config->logit_cap = keys_real(k, "final_logit_softcapping", 0);
  keys_no_effect(k, no_effect);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, "/lm_head", true);
  read_positions(o, config);
}

/* Its graph in llama.cpp takes the tanh form of GELU; the model was trained with erf. */
static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  family_configure_gguf(o, config);
  config->clip_qkv = keys_real(k, "attention.clamp_kqv", 0);
  double most = keys_real(k, "attention.max_alibi_bias", 8);
  if (family_tensor(o, "blk.*.attn_q_norm.weight")) {
    config->qk_norm = true;
    config->qk_norm_kind = ALIBI_QK_NORM_FULL;
  }
  if (most > 0) {
    family_set_alibi(o, config, NULL);
    family_set_number(o, config, "alibi_max_bias", most);
  } else {
    family_set(o, config, "position", family_tensor(o, "position_embd.weight") ? "learned" : "none");
  }
}

static const tensor_rule rules[] = {
    {"embedding", {"wte"}, LAYOUT_ROWS},
    {"position.embedding", {"wpe.weight"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"blocks.*.norm_1"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"blocks.*.attn.Wqkv"}, LAYOUT_ROWS},
    {"blocks.*.attention.query_norm", {"blocks.*.attn.q_ln"}, LAYOUT_ROWS},
    {"blocks.*.attention.key_norm", {"blocks.*.attn.k_ln"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"blocks.*.attn.out_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"blocks.*.norm_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"blocks.*.ffn.gate_proj", "blocks.*.ffn.up_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"blocks.*.ffn.up_proj"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"blocks.*.ffn.down_proj"}, LAYOUT_ROWS},
    {"final_norm", {"norm_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"mpt", "mosaic_gpt", NULL}, *const gguf[] = {"mpt", NULL};
static const char *const prefixes[] = {"transformer.", "", NULL};

static void put_gguf(const gguf_key_writer *w, const alibi_model_config *config)
{
  bool alibi = strcmp(config->position, "alibi") == 0;
  family_put_real(w, "attention.max_alibi_bias", alibi ? family_position_setting(config, "max_bias") : 0);
  family_put_real(w, "attention.clamp_kqv", config->clip_qkv);
}

static void put(json_node *object, const alibi_model_config *config)
{
  json_node *attention = node_new_object();
  bool alibi = strcmp(config->position, "alibi") == 0;
  node_set_integer(object, "d_model", config->width);
  node_set_integer(object, "n_layers", config->layers);
  node_set_integer(object, "n_heads", config->heads);
  node_set_integer(object, "expansion_ratio", config->feed_forward / config->width);
  node_set_integer(object, "max_seq_len", config->train_length);
  node_set_number(object, "layer_norm_epsilon", config->norm_epsilon);
  node_set_boolean(object, "no_bias", true);
  node_set_text(object, "norm_type", "layernorm");
  node_set_boolean(attention, "alibi", alibi);
  if (alibi) node_set_integer(attention, "alibi_bias_max", (int64_t)family_position_setting(config, "max_bias"));
  if (config->clip_qkv > 0) node_set_number(attention, "clip_qkv", config->clip_qkv);
  if (config->score_scale > 0) node_set_number(attention, "softmax_scale", config->score_scale);
  node_set(object, "attn_config", attention);
}

/* What llm-foundry's MPT can do, and transformers' does not read. */
static const char *lacks(const alibi_model_config *c)
{
  if (strcmp(c->position, "alibi") != 0) return "ALiBi";
  if (family_position_setting(c, "max_bias") != 8) return "8 as the largest exponent of slopes";
  if (c->kv_heads != c->heads) return "as many key-value heads as heads";
  if (c->feed_forward != 4 * c->width) return "a feed-forward part of 4 times the width";
  if (c->qk_norm) return "no norm of queries and keys";
  if (c->norm == ALIBI_NORM_RMS || c->norm_bias) return "LayerNorm without shift";
  if (family_has_biases(c)) return "no biases";
  if (c->activation != ALIBI_GELU_ERF) return "the activation gelu";
  return NULL;
}

static const char *lacks_in_gguf(const alibi_model_config *c)
{
  if (c->heads * c->head_size != c->width) return "heads that fill its width";
  return c->qk_norm ? "no norm of queries and keys" : NULL;
}

const model_family model_family_mpt = {
    .name = "mpt",
    .types = types,
    .gguf = gguf,
    .prefixes = prefixes,
    .embedding = "wte.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .written = {.architecture = "mpt", .put = put_gguf, .lacks = lacks_in_gguf},
    .published = {.architecture = "MptForCausalLM", .trained = "alibi, gelu", .put = put, .lacks = lacks},
};
