/* BLOOM: ALiBi, LayerNorm also of the embedding, the tanh form of GELU.  Queries, keys and values lie head by head
 * (GGUF: all of each together).  It was trained with a bias m j rounded to bfloat16 (or fp16), which `reference`
 * numerics repeat; transformers rounds it in half precision only. */
#include <math.h>

#include "model/families/family_write.h"

/* The slopes that rounding begins with are powers of a base in fp32, as transformers has them: 0.5 comes out as
 * the float below, and then every odd key's product rounds down where one of 0.5 would be a tie. */
static void set_alibi(family_opening *o, alibi_model_config *config)
{
  enum { MOST = 128 };
  float slopes[MOST];
  int64_t heads = config->heads, power = 1;
  family_set_alibi(o, config, "bfloat16-keys");
  if (!o->reference || keys_failed(o->keys)) return;
  while (2 * power <= heads) power *= 2;
  for (int64_t h = 0; h < heads && h < MOST; h++) {
    bool first = h < power;
    float base = (float)exp2(-8 / (double)(first ? power : 2 * power));
    slopes[h] = (float)pow(base, (double)(first ? h + 1 : 2 * (h - power) + 1));
  }
  if (heads <= MOST) family_take_slopes(o, config, slopes, (size_t)heads);
  else
    keys_fail(o->keys, "reference numerics: expected at most %d heads, found %lld", (int)MOST, (long long)heads);
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"attention_softmax_in_fp32",
                                          "bias_dropout_fusion",
                                          "masked_softmax_fusion",
                                          "offset_alibi",
                                          "slow_but_exact",
                                          "skip_bias_add*",
                                          "n_inner",
                                          NULL};
  family_keys *k = o->keys;
  config->width = keys_size(k, "hidden_size|n_embed", KEYS_REQUIRED);
  config->layers = keys_size(k, "n_layer|num_hidden_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "n_head|num_attention_heads", KEYS_REQUIRED);
  config->norm_epsilon = keys_real(k, "layer_norm_epsilon", 1e-5);
  config->train_length = keys_size(k, "seq_length", 2048);
  keys_expect_boolean(k, "apply_residual_connection_post_layernorm", false);
  if (keys_have(k, "n_inner")) keys_expect_integer(k, "n_inner", 4 * config->width);
  keys_no_effect(k, no_effect);
  config->norm_bias = config->bias = config->embedding_norm = true;
  config->activation = ALIBI_GELU_TANH;
  family_set_vocabulary(o, config, "vocab_size");
  family_set_tied(o, config, "/lm_head", true);
  set_alibi(o, config);
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  config->embedding_norm = true;
  config->activation = ALIBI_GELU_TANH;
  family_configure_gguf(o, config);
  set_alibi(o, config);
}

static void put(json_node *object, const alibi_model_config *config)
{
  node_set_integer(object, "hidden_size", config->width);
  node_set_integer(object, "n_layer", config->layers);
  node_set_integer(object, "n_head", config->heads);
  node_set_number(object, "layer_norm_epsilon", config->norm_epsilon);
  node_set_integer(object, "seq_length", config->train_length);
}

static const tensor_rule rules[] = {
    {"embedding", {"word_embeddings"}, LAYOUT_ROWS},
    {"embedding_norm", {"word_embeddings_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.input_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"h.*.self_attention.query_key_value"}, LAYOUT_GROUPS},
    {"blocks.*.attention.output", {"h.*.self_attention.dense"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"h.*.post_attention_layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"h.*.mlp.dense_h_to_4h"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"h.*.mlp.dense_4h_to_h"}, LAYOUT_ROWS},
    {"final_norm", {"ln_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"bloom", NULL}, *const gguf[] = {"bloom", NULL};
static const char *const prefixes[] = {"transformer.", "", NULL};

const model_family model_family_bloom = {
    .name = "bloom",
    .types = types,
    .gguf = gguf,
    .prefixes = prefixes,
    .embedding = "word_embeddings.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .written = {.architecture = "bloom", .lacks = family_lacks_biases},
    .published = {.architecture = "BloomForCausalLM",
                  .trained = "alibi, embedding-norm, norm-bias, bias, gelu-tanh",
                  .put = put},
};
