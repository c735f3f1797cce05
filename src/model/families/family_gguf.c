/* What GGUF files of all architectures have in common: the same names for the same parts, and the same keys.
 * Biases have no key: they are where their tensors are. */
#include "model/families/family.h"

const tensor_rule family_gguf_rules[] = {
    {"embedding", {"token_embd"}, LAYOUT_ROWS},
    {"embedding.shift", {"token_types.weight"}, LAYOUT_FIRST_ROW},
    {"embedding_norm", {"token_embd_norm"}, LAYOUT_ROWS},
    {"position.embedding", {"position_embd.weight"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"blk.*.attn_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"blk.*.attn_qkv"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"blk.*.attn_q", "blk.*.attn_k", "blk.*.attn_v"}, LAYOUT_ROWS},
    {"blocks.*.attention.query_norm", {"blk.*.attn_q_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention.key_norm", {"blk.*.attn_k_norm"}, LAYOUT_ROWS},
    {"blocks.*.attention.output", {"blk.*.attn_output"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward_norm", {"blk.*.ffn_norm"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"blk.*.ffn_gate", "blk.*.ffn_up"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"blk.*.ffn_up"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.output", {"blk.*.ffn_down"}, LAYOUT_ROWS},
    {"final_norm", {"output_norm"}, LAYOUT_ROWS},
    {"output", {"output"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static int bias_of(const family_opening *o, const char *tensor, const char *other)
{
  return family_tensor(o, tensor) || (other && family_tensor(o, other)) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
}

void family_configure_gguf(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  config->layers = keys_size(k, "block_count", KEYS_REQUIRED);
  config->width = keys_size(k, "embedding_length", KEYS_REQUIRED);
  config->heads = keys_size(k, "attention.head_count", KEYS_REQUIRED);
  config->kv_heads = keys_size(k, "attention.head_count_kv", config->heads);
  config->feed_forward = keys_size(k, "feed_forward_length", 4 * config->width);
  config->train_length = keys_size(k, "context_length", KEYS_REQUIRED);
  config->head_size = keys_size(k, "attention.key_length|attention.value_length", 1);
  if (!keys_have(k, "attention.key_length|attention.value_length")) config->head_size = 0;
  bool rms = config->norm == ALIBI_NORM_RMS;
  config->norm_epsilon =
      keys_real(k, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 1e-5);
  config->norm_bias =
      !rms && (family_tensor(o, "output_norm.bias") || family_tensor(o, "blk.*.attn_output_norm.bias"));
  family_set_vocabulary(o, config, "vocab_size");
  config->tied = !family_tensor(o, "output.weight");
  config->bias = false;
  config->qkv_bias = bias_of(o, "blk.*.attn_qkv.bias", "blk.*.attn_q.bias");
  config->attention_output_bias = bias_of(o, "blk.*.attn_output.bias", NULL);
  config->input_bias = bias_of(o, "blk.*.ffn_up.bias", NULL);
  config->output_bias = bias_of(o, "blk.*.ffn_down.bias", NULL);
}
