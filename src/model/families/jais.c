/* Jais (and BTLM): GPT-2 with ALiBi, a gated feed-forward part whose gate is c_fc2, and the scales of maximal
 * update parametrisation: of the embedding, of scores (1 / D), of logits.  Slopes are stored, and may be others
 * than the rule's. */
#include "model/families/jais_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "model/families/gpt2_keys.h"

/* Distances divided by a factor, or by how far the declared length passes the trained one. */
static void read_scaling(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  char text[96];
  if (!keys_have(k, "alibi_scaling")) return;
  keys_expect_text(k, "alibi_scaling.type", "linear");
  if (keys_have(k, "alibi_scaling.factor"))
    number_print(text, sizeof text, "linear:factor=%.17g", keys_real(k, "alibi_scaling.factor", 1));
  else
    snprintf(text, sizeof text, "dynamic:original_length=%lld",
             (long long)keys_size(k, "alibi_scaling.train_seq_len", KEYS_REQUIRED));
  if (!keys_failed(k)) family_set(o, config, "extension", text);
}

/* In some files one number, in others a product of two. */
static double logit_scale(family_opening *o)
{
  family_keys *k = o->keys;
  if (keys_have(k, "width_scale|output_logits_scale")) return keys_real(k, "width_scale|output_logits_scale", 1);
  return keys_real(k, "mup_output_alpha", 1) * keys_real(k, "mup_width_scale", 1);
}

void jais_keys_read(family_opening *o, alibi_model_config *config)
{
  family_keys *k = o->keys;
  gpt2_keys_read(o, config, true);
  gpt2_keys_read_inner(o, config);
  const char *activation = keys_text(k, "activation_function", "gelu_new");
  if (strcmp(activation, "swiglu") == 0) config->activation = ALIBI_SWIGLU;
  else family_set_activation(o, config, "activation_function", "gelu_new", false);
  config->embedding_scale = keys_real(k, "embeddings_scale|mup_embeddings_scale", 1);
  config->logit_scale = logit_scale(o);
  bool by_size = keys_boolean(k, "scale_qk_dot_by_d|mup_scale_qk_dot_by_d", false);
  if (by_size && keys_boolean(k, "scale_attn_weights", true) &&
      !keys_failed(k)) /* that key is the switch of all */
    config->score_scale = (double)config->heads / (double)config->width;
  const char *positions = keys_text(k, "position_embedding_type", "learned");
  if (strcmp(positions, "alibi") == 0) {
    family_set_alibi(o, config, NULL);
    family_set_slopes(o, config, "relative_pe.slopes");
    read_scaling(o, config);
  } else if (strcmp(positions, "learned") == 0) {
    family_set(o, config, "position", "learned");
    if (config->embedding_scale != 1) /* it would scale positions too */
      keys_fail(k, "key 'position_embedding_type': expected alibi with a scaled embedding, found 'learned'");
  } else {
    keys_fail(k, "key 'position_embedding_type': expected alibi or learned, found '%s'", positions);
  }
}

/* Scales of the embedding and of the logits are inside the tensors there; an output weight of its own has to be,
 * since the embedding has another scale. */
static void configure_gguf(family_opening *o, alibi_model_config *config)
{
  config->activation = ALIBI_SWIGLU;
  family_configure_gguf(o, config);
  config->tied = false;
  if (!keys_failed(o->keys)) config->score_scale = (double)config->heads / (double)config->width;
  family_set_alibi(o, config, NULL);
  family_set_number(o, config, "alibi_max_bias", keys_real(o->keys, "attention.max_alibi_bias", 8));
}

const tensor_rule jais_rules[] = {
    {"embedding", {"wte"}, LAYOUT_ROWS},
    {"position.embedding", {"wpe.weight"}, LAYOUT_ROWS},
    {"blocks.*.attention_norm", {"h.*.ln_1"}, LAYOUT_ROWS},
    {"blocks.*.attention.qkv", {"h.*.attn.c_attn"}, LAYOUT_TURNED},
    {"blocks.*.attention.output", {"h.*.attn.c_proj"}, LAYOUT_TURNED},
    {"blocks.*.feed_forward_norm", {"h.*.ln_2"}, LAYOUT_ROWS},
    {"blocks.*.feed_forward.input", {"h.*.mlp.c_fc2", "h.*.mlp.c_fc"}, LAYOUT_TURNED},
    {"blocks.*.feed_forward.input", {"h.*.mlp.c_fc"}, LAYOUT_TURNED},
    {"blocks.*.feed_forward.output", {"h.*.mlp.c_proj"}, LAYOUT_TURNED},
    {"final_norm", {"ln_f"}, LAYOUT_ROWS},
    {"output", {"/lm_head"}, LAYOUT_ROWS},
    {.ours = NULL},
};

static const char *const types[] = {"jais", NULL}, *const gguf[] = {"jais", NULL};

const model_family model_family_jais = {
    .name = "jais",
    .types = types,
    .gguf = gguf,
    .prefixes = gpt2_prefixes,
    .embedding = "wte.weight",
    .configure = jais_keys_read,
    .configure_gguf = configure_gguf,
    .rules = jais_rules,
    .ignored = gpt2_ignored,
};
