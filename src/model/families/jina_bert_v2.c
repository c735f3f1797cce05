/* jina-bert-v2: an encoder with symmetric ALiBi.  Norms come after their parts, and one after the embedding, to
 * which that of token type 0 is added; the feed-forward part is gated, its two halves in one matrix whose name
 * says which is the gate.  Its model_type is bert's.  What is run is what embeddings are made from: the heads of
 * its trainings (pooler, cls) are not read. */
#include <string.h>

#include "model/families/family.h"

static void encoder(alibi_model_config *config)
{
  config->causal = config->final_norm = false;
  config->norm_place = ALIBI_NORM_POST;
  config->embedding_norm = config->embedding_shift = config->tied = true;
  config->norm_bias = true;
  config->qkv_bias = config->attention_output_bias = config->output_bias = ALIBI_BIAS_YES;
  config->input_bias = ALIBI_BIAS_NO;
  config->bias = false;
}

/* One form norms queries and keys; its attention part ends with two norms in a row (layer_norm_1), between which
 * its input is added once more.  Which form it is only its tensors say. */
static void read_norms(family_opening *o, alibi_model_config *config, const char *of_queries, const char *second)
{
  if (family_tensor(o, of_queries)) {
    config->qk_norm = true;
    config->qk_norm_kind = ALIBI_QK_NORM_FULL;
  }
  config->attention_output_norm = family_tensor(o, second) != NULL;
}

static void configure(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {
      "alibi_starting_size", "emb_pooler", "type_vocab_size", "model_max_length", "tie_word_embeddings",
      "hidden_act",          NULL};
  family_keys *k = o->keys;
  const char *positions = keys_text(k, "position_embedding_type", "absolute");
  if (strcmp(positions, "alibi") != 0)
    keys_fail(k,
              "key 'position_embedding_type': expected alibi (a jina-bert-v2; other models of the type bert are "
              "not known), found '%s'",
              positions);
  config->width = keys_size(k, "hidden_size", KEYS_REQUIRED);
  config->layers = keys_size(k, "num_hidden_layers", KEYS_REQUIRED);
  config->heads = keys_size(k, "num_attention_heads", KEYS_REQUIRED);
  config->feed_forward = keys_size(k, "intermediate_size", KEYS_REQUIRED);
  config->train_length = keys_size(k, "max_position_embeddings", 8192);
  config->norm_epsilon = keys_real(k, "layer_norm_eps", 1e-12);
  encoder(config);
  const char *kind = keys_text(k, "feed_forward_type", "original"); /* which has no gate, and hidden_act */
  keys_expect_boolean(k, "is_decoder", false);
  if (strcmp(kind, "reglu") == 0) config->activation = ALIBI_REGLU;
  else if (strcmp(kind, "geglu") == 0) config->activation = ALIBI_GEGLU;
  else keys_fail(k, "key 'feed_forward_type': expected geglu or reglu, found '%s'", kind);
  keys_no_effect(k, no_effect);
  family_set_vocabulary(o, config, "vocab_size");
  family_set_alibi(o, config, NULL);
  read_norms(o, config, "encoder.layer.*.attention.self.layer_norm_q.weight",
             "encoder.layer.*.layer_norm_1.weight");
}

static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  static const char *const no_effect[] = {"pooling_type", NULL};
  family_configure_gguf(o, config);
  encoder(config);
  config->activation = ALIBI_GEGLU;
  keys_expect_boolean(o->keys, "attention.causal", false);
  keys_no_effect(o->keys, no_effect);
  family_set_alibi(o, config, NULL);
  read_norms(o, config, "blk.*.attn_q_norm.weight", "blk.*.attn_norm_2.weight");
}

static const tensor_rule rules[] = {
    {"embedding", {"embeddings.word_embeddings"}, LAYOUT_ROWS},
    {"embedding.shift", {"embeddings.token_type_embeddings.weight"}, LAYOUT_FIRST_ROW},
    {"embedding_norm", {"embeddings.LayerNorm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv",
     {"encoder.layer.*.attention.self.query", "encoder.layer.*.attention.self.key",
      "encoder.layer.*.attention.self.value"},
     LAYOUT_ROWS},
    {"blocks.*.attention.query_norm", {"encoder.layer.*.attention.self.layer_norm_q"}, LAYOUT_ROWS},
    {"blocks.*.attention.key_norm", {"encoder.layer.*.attention.self.layer_norm_k"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"encoder.layer.*.attention.output.dense"}, LAYOUT_ROWS},
    {"blocks.*.attention.output_norm", {"encoder.layer.*.attention.output.LayerNorm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"encoder.layer.*.attention.output.LayerNorm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"encoder.layer.*.layer_norm_1"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"encoder.layer.*.mlp.gated_layers"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"encoder.layer.*.mlp.up_gated_layer"}, LAYOUT_SWAPPED},
    {"blocks.*.feed_forward.output", {"encoder.layer.*.mlp.wo"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"encoder.layer.*.mlp.down_layer"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"encoder.layer.*.mlp.layernorm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"encoder.layer.*.layer_norm_2"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const tensor_rule gguf_rules[] = {
    {"blocks.*.attention.output_norm", {"blk.*.attn_output_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"blk.*.attn_output_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"blk.*.attn_norm_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"blk.*.layer_output_norm"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"bert", NULL}, *const gguf[] = {"jina-bert-v2", NULL};
static const char *const prefixes[] = {"", "bert.", NULL};
static const char *const ignored[] = {"pooler.*", "/cls.*", "embeddings.position_ids", "embeddings.token_type_ids",
                                      NULL};

const model_family model_family_jina_bert_v2 = {
    .name = "jina-bert-v2",
    .types = types,
    .gguf = gguf,
    .prefixes = prefixes,
    .embedding = "embeddings.word_embeddings.weight",
    .configure = configure,
    .configure_gguf = configure_gguf,
    .rules = rules,
    .gguf_rules = gguf_rules,
    .ignored = ignored,
};
