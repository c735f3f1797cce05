/* Public models: every tensor has its place, and what the families' traps are about
 * arrives in our configuration.  (What the models compute: golden/test_family_golden.c.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "model/families/family.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/family_case.h"

/* The setting of the position method, or of the extension. */
static double position_setting(const alibi_model *model, const char *name)
{
  const field *f = field_find(model->method->fields, name);
  assert_non_null(f);
  return field_get_number(f, model->config.position_options.bytes);
}

static double extension_setting(const alibi_model *model, const char *name)
{
  extension_choice choice = model_config_extension(&model->config);
  assert_non_null(choice.extension);
  const field *f = field_find(choice.extension->fields, name);
  assert_non_null(f);
  return field_get_number(f, choice.options.bytes);
}

/* ---- opening ---- */

static void every_family_opens(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < sizeof family_files / sizeof family_files[0]; i++) {
    begin(family_files[i].name);
    alibi_model *model = open_it();
    assert_string_equal(alibi_model_family(model), family_files[i].name);
    assert_true(model_is_placed(model));
    const alibi_model_config *c = alibi_model_get_config(model);
    assert_int_equal(c->width, 16);
    assert_int_equal(c->layers, (int64_t)family_files[i].blocks);
    assert_int_equal(c->vocabulary, 20);
    assert_int_equal(c->train_length, strcmp(family_files[i].name, "falcon") == 0         ? 2048
                                      : strcmp(family_files[i].name, "jina-bert-v2") == 0 ? 64
                                                                                          : 32);
    alibi_model_free(model);
  }
}

static void every_row_says_what_it_needs(void **unused)
{
  (void)unused;
  char types[512];
  for (size_t i = 0; i < model_family_count(); i++) {
    const model_family *f = model_family_at(i);
    assert_true(f->name && f->types && f->types[0] && f->embedding && f->configure && f->rules && f->prefixes);
    assert_true(!f->gguf == !f->configure_gguf);
    assert_ptr_equal(model_family_of_type(f->types[0]), f);
    if (f->gguf) assert_ptr_equal(model_family_of_gguf(f->gguf[0]), f);
  }
  assert_null(model_family_at(model_family_count()));
  assert_null(model_family_of_type("no such"));
  model_family_types(false, types, sizeof types);
  assert_non_null(strstr(types, "bloom, mpt"));
  char small[8];
  model_family_types(true, small, sizeof small);
  assert_true(strlen(small) < sizeof small);
}

/* ---- damaged tensors ---- */

static void tensors_have_their_place(void **unused)
{
  (void)unused;
  begin("bloom");
  family_tensors_drop(&tensors, "transformer.h.1.mlp.dense_4h_to_h.bias");
  refused("model.safetensors: expected a tensor 'transformer.h.1.mlp.dense_4h_to_h.bias' "
          "(blocks.1.feed_forward.output.bias), found none");

  begin("bloom");
  family_tensors_drop(&tensors, "transformer.word_embeddings.weight");
  refused("expected an embedding [vocabulary, width] beside it, the tensor 'transformer.word_embeddings.weight', "
          "found none");

  begin("bloom");
  family_tensors_add(&tensors, "transformer.h.0.self_attention.extra.weight", 3, 3);
  refused("tensor 'transformer.h.0.self_attention.extra.weight': expected no such tensor in a model of the family "
          "'bloom'");

  begin("bloom");
  family_tensors_find(&tensors, "transformer.ln_f.weight")->shape[0] = 8;
  family_tensors_find(&tensors, "transformer.ln_f.weight")->bytes = 32;
  refused("tensor 'transformer.ln_f.weight': expected shape [16], found [8]");

  begin("bloom");
  file_tensor *t = family_tensors_find(&tensors, "transformer.h.0.self_attention.dense.weight");
  t->dimensions = 1;
  t->shape[0] = 256;
  refused("tensor 'transformer.h.0.self_attention.dense.weight': expected 2 dimensions, found 1");

  begin("bloom");
  t = family_tensors_find(&tensors, "transformer.ln_f.bias");
  t->type = TENSOR_I32;
  refused("tensor 'transformer.ln_f.bias': expected one of the types F32, F16, BF16, found I32");

  begin("bloom");
  t = family_tensors_find(&tensors, "transformer.h.1.mlp.dense_h_to_4h.weight");
  t->type = TENSOR_F64;
  t->shape[1] = 8;
  refused("found F64");

  begin("bloom");
  ((float *)family_tensors_find(&tensors, "transformer.h.0.input_layernorm.bias")->data)[5] = NAN;
  refused("tensor 'transformer.h.0.input_layernorm.bias': expected finite numbers, found nan");

  begin("jina-bert-v2");
  family_tensors_find(&tensors, "embeddings.token_type_embeddings.weight")->shape[1] = 8;
  family_tensors_find(&tensors, "embeddings.token_type_embeddings.weight")->shape[0] = 4;
  refused("tensor 'embeddings.token_type_embeddings.weight': expected rows of 16 numbers, found shape [4, 8]");
}

/* Buffers that change no number, one by one. */
static void buffers_are_left_out(void **unused)
{
  (void)unused;
  static const char *const names[][2] = {{"gpt2", "h.0.attn.bias"},
                                         {"gpt2", "h.1.attn.masked_bias"},
                                         {"llama", "model.layers.1.self_attn.rotary_emb.inv_freq"},
                                         {"gpt_neox", "gpt_neox.layers.0.attention.bias"},
                                         {"gpt_neox", "gpt_neox.layers.0.attention.masked_bias"},
                                         {"gpt_neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"},
                                         {"jina-bert-v2", "pooler.dense.weight"},
                                         {"jina-bert-v2", "cls.predictions.bias"},
                                         {"jina-bert-v2", "embeddings.position_ids"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    begin(names[i][0]);
    family_tensors_add(&tensors, names[i][1], 4, 0);
    alibi_model *model = open_it();
    assert_true(has_note(model, names[i][1]));
    alibi_model_free(model);
  }
}

/* ---- the traps, one by one: what arrives in the configuration ---- */

static void scores_and_biases(void **unused) /* traps 2, 4, 5 */
{
  (void)unused;
  begin("falcon");
  alibi_model *model = open_it();
  assert_float_equal(position_setting(model, "slope_scale"), 0.5, 1e-12); /* 1 / sqrt(4) */
  assert_float_equal(position_setting(model, "rounding"), 0, 0);
  alibi_model_free(model);
  alibi_open_options options;
  alibi_open_options_init(&options);
  options.numerics = ALIBI_NUMERICS_REFERENCE;
  model = open_as(&options);
  assert_true(position_setting(model, "rounding") > 0);
  assert_float_equal(position_setting(model, "slope_scale"), 0.5, 1e-12);
  alibi_model_free(model);

  begin("jais");
  model = open_it();
  assert_float_equal(model->config.score_scale, 0.25, 1e-12); /* 1 / D */
  assert_float_equal(model->config.embedding_scale, 14.6, 1e-12);
  assert_float_equal(model->config.logit_scale, 0.125, 1e-12);
  assert_int_equal(model->config.activation, ALIBI_SWIGLU);
  alibi_model_free(model);
  change("jais", "'scale_qk_dot_by_d': true", "'scale_qk_dot_by_d': false");
  model = open_it();
  assert_float_equal(model->config.score_scale, 0, 0);
  alibi_model_free(model);
  change(
      "jais", "'embeddings_scale': 14.6, 'width_scale': 0.125, 'scale_qk_dot_by_d': true",
      "'mup_embeddings_scale': 10, 'mup_output_alpha': 2, 'mup_width_scale': 0.25, 'mup_scale_qk_dot_by_d': true");
  model = open_it();
  assert_float_equal(model->config.logit_scale, 0.5, 1e-12);
  assert_float_equal(model->config.embedding_scale, 10, 0);
  assert_float_equal(model->config.score_scale, 0.25, 0);
  alibi_model_free(model);

  begin("mpt");
  model = open_it();
  assert_float_equal(model->config.clip_qkv, 0, 0); /* null is off */
  assert_float_equal(model->config.score_scale, 0, 0);
  assert_float_equal(model->config.logit_scale, 1, 0);
  assert_float_equal(position_setting(model, "max_bias"), 8, 0);
  alibi_model_free(model);
  change("mpt",
         "'alibi_bias_max': 8, 'attn_impl': 'torch', 'attn_type': 'multihead_attention', 'clip_qkv': null, "
         "'softmax_scale': null",
         "'alibi_bias_max': 16, 'clip_qkv': 6, 'softmax_scale': 0.3");
  model = open_it();
  assert_float_equal(model->config.clip_qkv, 6, 0);
  assert_float_equal(model->config.score_scale, 0.3, 0);
  assert_float_equal(position_setting(model, "max_bias"), 16, 0);
  alibi_model_free(model);
  change("mpt", "'logit_scale': null", "'logit_scale': 'inv_sqrt_d_model', 'final_logit_softcapping': 30");
  model = open_it();
  assert_float_equal(model->config.logit_scale, 0.25, 1e-12);
  assert_float_equal(model->config.logit_cap, 30, 0);
  alibi_model_free(model);
  change("mpt", "'logit_scale': null", "'logit_scale': 0.75");
  model = open_it();
  assert_float_equal(model->config.logit_scale, 0.75, 0);
  alibi_model_free(model);
}

static void expect_positions(const char *family, const char *to, const char *position)
{
  begin("llama");
  change("llama", "'model_type': 'llama'", to);
  alibi_model *model = open_it();
  if (strcmp(alibi_model_get_config(model)->position, position) != 0)
    fail_msg("%s, %s: expected %s, found %s", family, to, position, alibi_model_get_config(model)->position);
  alibi_model_free(model);
}

/* The window of Mistral's first version is there unless the key says there is none, as transformers has it. */
static void mistral_has_a_window_unless_null(void **unused)
{
  (void)unused;
  expect_positions("mistral", "'model_type': 'mistral'", "rope-window");
  expect_positions("mistral", "'model_type': 'mistral', 'sliding_window': 8", "rope-window");
  expect_positions("mistral", "'model_type': 'mistral', 'sliding_window': null", "rope");
}

static void expect_block(const char *family, int activation, int norm, bool norm_bias, bool embedding_norm)
{
  begin(family);
  alibi_model *model = open_it();
  const alibi_model_config *c = alibi_model_get_config(model);
  if (c->activation != activation || c->norm != norm || c->norm_bias != norm_bias ||
      c->embedding_norm != embedding_norm)
    fail_msg("%s: activation %d, norm %d, norm_bias %d, embedding_norm %d", family, c->activation, c->norm,
             c->norm_bias, c->embedding_norm);
  alibi_model_free(model);
}

static void activations_and_norms(void **unused) /* traps 3, 7, 13 */
{
  (void)unused;
  expect_block("bloom", ALIBI_GELU_TANH, ALIBI_NORM_LAYER, true, true);
  expect_block("mpt", ALIBI_GELU_ERF, ALIBI_NORM_LAYER, false, false);
  expect_block("falcon", ALIBI_GELU_ERF, ALIBI_NORM_LAYER, true, false);
  expect_block("baichuan", ALIBI_SWIGLU, ALIBI_NORM_RMS, false, false);
  expect_block("refact", ALIBI_SWIGLU, ALIBI_NORM_LAYER, false, false);
  expect_block("jais", ALIBI_SWIGLU, ALIBI_NORM_LAYER, true, false);
  expect_block("gpt2", ALIBI_GELU_TANH, ALIBI_NORM_LAYER, true, false);
  expect_block("gpt_neox", ALIBI_GELU_ERF, ALIBI_NORM_LAYER, true, false);
  expect_block("llama", ALIBI_SWIGLU, ALIBI_NORM_RMS, false, false);
  expect_block("jina-bert-v2", ALIBI_GEGLU, ALIBI_NORM_LAYER, true, true);
}

static void expect_vector(const alibi_model *model, const char *ours, const char *theirs, size_t count)
{
  const parameter *p = parameter_find(&model->list, ours);
  if (!p || parameter_elements(p) != count) fail_msg("%s: not there, or of another size", ours);
  else
    for (size_t i = 0; i < count; i++)
      assert_float_equal(model->values[p->offset + i], family_number(theirs, i), 0);
}

/* MPT's of each head, and Jina's second one of attention's output. */
static void norms_of_one_form(void **unused)
{
  (void)unused;
  begin("mpt");
  change("mpt", "'qk_ln': false", "'qk_gn': true");
  for (size_t l = 0; l < 2; l++)
    for (size_t k = 0; k < 2; k++) {
      char name[96];
      snprintf(name, sizeof name, "transformer.blocks.%zu.attn.%s_ln.weight", l, k ? "k" : "q");
      family_tensors_add(&tensors, name, 4, 0);
    }
  alibi_model *model = open_it();
  assert_true(model->config.qk_norm && model->config.qk_norm_kind == ALIBI_QK_NORM_GROUP);
  expect_vector(model, "blocks.0.attention.query_norm.gain", "transformer.blocks.0.attn.q_ln.weight", 4);
  expect_vector(model, "blocks.1.attention.key_norm.gain", "transformer.blocks.1.attn.k_ln.weight", 4);
  alibi_model_free(model);
  change("mpt", "'qk_ln': false", "'qk_ln': true"); /* of the whole width */
  refused("tensor 'transformer.blocks.0.attn.q_ln.weight': expected");

  begin("jina-bert-v2");
  for (size_t l = 0; l < 2; l++)
    for (size_t k = 0; k < 2; k++) {
      char name[96];
      snprintf(name, sizeof name, "encoder.layer.%zu.layer_norm_1.%s", l, k ? "bias" : "weight");
      family_tensors_add(&tensors, name, 16, 0);
    }
  model = open_it();
  assert_true(model->config.attention_output_norm && !model->config.qk_norm);
  expect_vector(model, "blocks.1.attention_norm.gain", "encoder.layer.1.layer_norm_1.weight", 16);
  expect_vector(model, "blocks.0.attention_norm.shift", "encoder.layer.0.layer_norm_1.bias", 16);
  expect_vector(model, "blocks.1.attention.output_norm.gain", "encoder.layer.1.attention.output.LayerNorm.weight",
                16);
  alibi_model_free(model);
  family_tensors_drop(&tensors, "encoder.layer.1.layer_norm_1.bias");
  refused("expected a tensor 'encoder.layer.1.layer_norm_1.bias'");
}

static void expect_position(const char *family, const char *from, const char *to, const char *position)
{
  begin(family);
  if (from) change(family, from, to);
  alibi_model *model = open_it();
  assert_string_equal(model->config.position, position);
  alibi_model_free(model);
}

static void positions_are_chosen(void **unused) /* trap 6 */
{
  (void)unused;
  expect_position("baichuan", NULL, NULL, "alibi");
  expect_position("baichuan", "'hidden_act': 'silu'", "'position_embedding': 'ROPE'", "rope");
  begin("mpt"); /* wpe is read where there is no ALiBi, */
  change("mpt", "'alibi': true, ", "'alibi': false, ");
  family_tensors_add(&tensors, "transformer.wpe.weight", 32, 16);
  alibi_model *model = open_it();
  assert_string_equal(model->config.position, "learned");
  alibi_model_free(model);
  change("mpt", "'no_bias': true", "'no_bias': true, 'learned_pos_emb': true"); /* and else has no place */
  refused("tensor 'transformer.wpe.weight': expected no such tensor");
}

/* Version 2 of Baichuan: z_loss_weight is its sign. */
static void normalised_heads(void **unused)
{
  (void)unused;
  for (int version = 1; version <= 2; version++) {
    begin("baichuan");
    if (version == 2) change("baichuan", "'hidden_act': 'silu'", "'hidden_act': 'silu', 'z_loss_weight': 0");
    alibi_model *model = open_it();
    const float *stored = family_tensors_find(&tensors, "lm_head.weight")->data;
    float row[16];
    double length = 0;
    model_read_rows(model, parameter_find(&model->list, "output.weight"), 7, 1, row);
    for (size_t c = 0; c < 16; c++) length += (double)stored[7 * 16 + c] * stored[7 * 16 + c];
    for (size_t c = 0; c < 16; c++)
      assert_float_equal(row[c], version == 2 ? stored[7 * 16 + c] / sqrt(length) : stored[7 * 16 + c], 1e-6);
    assert_true(has_note(model, "rows of the output weight") == (version == 2));
    alibi_model_free(model);
  }
}

/* Rows of the embedding beyond what the tokenizer has. */
static void vocabularies_follow_the_embedding(void **unused) /* trap 8 */
{
  (void)unused;
  begin("bloom");
  change("bloom", "'vocab_size': 20", "'vocab_size': 17");
  alibi_model *model = open_it();
  assert_int_equal(model->config.vocabulary, 20);
  assert_true(has_note(model, "vocabulary: 20, the rows of the embedding; vocab_size says 17"));
  alibi_model_free(model);
}

static void heads_are_tied_or_not(void **unused) /* trap 9 */
{
  (void)unused;
  begin("bloom");
  family_tensors_add(&tensors, "lm_head.weight", 20, 16);
  alibi_model *model = open_it(); /* as in transformers, where a tied model does not read it */
  assert_true(model->config.tied && has_note(model, "tensor 'lm_head.weight': not read"));
  alibi_model_free(model);
  change("bloom", "'use_cache'", "'tie_word_embeddings': false, 'use_cache'");
  model = open_it();
  assert_false(model->config.tied);
  float row[16];
  model_read_rows(model, parameter_find(&model->list, "output.weight"), 3, 1, row);
  assert_float_equal(row[2], family_number("lm_head.weight", 3 * 16 + 2), 0);
  alibi_model_free(model);

  begin("llama"); /* untied where no key says otherwise, */
  model = open_it();
  assert_false(model->config.tied);
  alibi_model_free(model);
  family_tensors_drop(&tensors, "lm_head.weight"); /* unless there is nothing else */
  model = open_it();
  assert_true(model->config.tied && has_note(model, "the output weight is the embedding"));
  alibi_model_free(model);
  change("llama", "'hidden_act': 'silu'", "'tie_word_embeddings': false");
  refused("expected a tensor 'lm_head.weight'");
}

static void prefixes_come_and_go(void **unused) /* trap 10 */
{
  (void)unused;
  static const char *const prefixed[][2] = {
      {"bloom", "transformer."}, {"mpt", "transformer."}, {"llama", "model."}, {"gpt_neox", "gpt_neox."}};
  for (size_t i = 0; i < sizeof prefixed / sizeof prefixed[0]; i++) {
    begin(prefixed[i][0]);
    size_t size = strlen(prefixed[i][1]);
    for (size_t t = 0; t < tensors.count; t++)
      if (strncmp(tensors.names[t], prefixed[i][1], size) == 0)
        memmove(tensors.names[t], tensors.names[t] + size, strlen(tensors.names[t] + size) + 1);
    alibi_model_free(open_it());
  }
  begin("gpt2");
  for (size_t t = 0; t < tensors.count; t++) {
    char name[96];
    snprintf(name, sizeof name, "transformer.%.80s", tensors.names[t]);
    strcpy(tensors.names[t], name);
  }
  alibi_model_free(open_it());
}

/* transformers 5 writes a configuration of its own within MPT's, and Falcon's rotary settings beside ALiBi;
 * GPT-2's first files have words of its first code. */
static void as_transformers_saves_them(void **unused)
{
  (void)unused;
  begin("mpt");
  change("mpt", "'attn_impl': 'torch'",
         "'attn_impl': 'torch', '_name_or_path': '', 'architectures': null, 'attn_pdrop': 0,"
         " 'chunk_size_feed_forward': 0, 'dtype': null, 'id2label': {'0': 'LABEL_0'}, 'is_encoder_decoder': false,"
         " 'label2id': {'LABEL_0': 0}, 'model_type': '', 'output_attentions': false,"
         " 'output_hidden_states': false, 'problem_type': null, 'return_dict': true, 'top_k': 50,"
         " 'torchscript': false, 'tie_word_embeddings': true, 'pruned_heads': {}");
  alibi_model_free(open_it());
  begin("mpt");
  change("mpt", "'attn_impl': 'torch'", "'attn_impl': 'torch', 'is_encoder_decoder': true");
  refused("key 'attn_config.is_encoder_decoder': expected false, found true");
  begin("falcon");
  change("falcon", "'alibi': true",
         "'alibi': true, 'rope_parameters': {'rope_theta': 10000.0, 'rope_type': 'default'}");
  alibi_model *model = open_it();
  assert_string_equal(model->config.position, "alibi");
  alibi_model_free(model);
  begin("gpt2");
  change("gpt2", "'model_type': 'gpt2'",
         "'model_type': 'gpt2', 'n_special': 0, 'predict_special_tokens': true, 'output_past': true,"
         " '_num_labels': 1, 'summary_type': 'cls_index'");
  alibi_model_free(open_it());
}

static void expect_scaling(const char *to, const char *extension, const char *setting, double value)
{
  begin("llama");
  change("llama", "'rope_theta': 10000.0, 'rope_scaling': null", to);
  alibi_model *model = open_it();
  assert_string_equal(model->config.extension, extension);
  if (setting) assert_float_equal(extension_setting(model, setting), value, 1e-9 * fabs(value));
  assert_float_equal(position_setting(model, "base"), 5000, 0);
  alibi_model_free(model);
}

static void rope_in_its_spellings(void **unused) /* trap 12 */
{
  (void)unused;
  expect_scaling("'rope_theta': 5000", "", NULL, 0);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'rope_type': 'default'}", "", NULL, 0);
  expect_scaling("'rope_parameters': {'rope_theta': 5000, 'rope_type': 'default'}", "", NULL, 0);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'linear', 'factor': 4.0}", "linear", "factor", 4);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'linear', 'factor': '4.0'}", "linear", "factor", 4);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'rope_type': 'linear', 'type': 'linear', 'factor': 4.0}",
                 "linear", "factor", 4);
  expect_scaling("'rope_parameters': {'rope_theta': 5000, 'rope_type': 'linear', 'factor': 4}", "linear", "factor",
                 4);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'dynamic', 'factor': 2}", "dynamic",
                 "original_length", 32);
  expect_scaling(
      "'rope_theta': 5000, 'rope_scaling': {'type': 'yarn', 'factor': 4, 'original_max_position_embeddings': 8}",
      "yarn", "original_length", 8);
  expect_scaling(
      "'rope_theta': 5000, 'original_max_position_embeddings': 8, 'rope_scaling': {'type': 'yarn', 'factor': 4}",
      "yarn", "original_length", 8);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'yarn', 'original_max_position_embeddings': 8, "
                 "'finetuned': true}",
                 "yarn", "factor", 4);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'yarn', 'factor': 4, 'truncate': false, 'mscale': "
                 "1, 'mscale_all_dim': 2}",
                 "yarn", "truncate", 0);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1, "
                 "'high_freq_factor': 4,"
                 " 'original_max_position_embeddings': 16}",
                 "llama3", "original_length", 16);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1, "
                 "'high_freq_factor': 4}",
                 "llama3", "original_length", 32);
  expect_scaling("'rope_theta': 5000, 'rope_scaling': {'type': 'su', 'original_max_position_embeddings': 8, "
                 "'short_factor': [1, 1.0625],"
                 " 'long_factor': [1.5, 4]}",
                 "longrope", "factor", 4);
}

/* Scores of layer l divided by l + 1: its queries are. */
static void scores_by_layer(void **unused)
{
  (void)unused;
  begin("gpt2");
  change("gpt2", "'n_ctx': 32", "'scale_attn_by_inverse_layer_idx': true");
  alibi_model *model = open_it();
  const float *stored = family_tensors_find(&tensors, "h.1.attn.c_attn.weight")->data;
  float row[16];
  for (size_t r = 15; r <= 16; r++) { /* the last row of the queries, the first of the keys */
    model_read_rows(model, parameter_find(&model->list, "blocks.1.attention.qkv.weight"), r, 1, row);
    for (size_t c = 0; c < 16; c++) assert_float_equal(row[c], stored[c * 48 + r] / (r == 15 ? 2 : 1), 0);
  }
  const parameter *bias = parameter_find(&model->list, "blocks.1.attention.qkv.bias");
  assert_float_equal(model->values[bias->offset + 15], family_number("h.1.attn.c_attn.bias", 15) / 2, 0);
  assert_float_equal(model->values[bias->offset + 16], family_number("h.1.attn.c_attn.bias", 16), 0);
  alibi_model_free(model);
}

/* ---- slopes that are stored ---- */

static void stored_slopes(void **unused)
{
  (void)unused;
  for (int own = 0; own <= 1; own++) {
    begin("jais");
    file_tensor *t = family_tensors_add(&tensors, "transformer.relative_pe.slopes", 4, 1);
    float *slopes = (float *)t->data;
    for (int h = 0; h < 4; h++) slopes[h] = exp2f((float)(-2 * (h + 1))) * (own && h == 2 ? 1.5F : 1);
    alibi_model *model = open_it();
    assert_true(has_note(model, own ? "slopes of its own, up to 0.5" : "the slopes of the rule"));
    position_tables tables;
    position_request request = {.shape = model_config_position_shape(&model->config),
                                .options = model->config.position_options.bytes,
                                .length = 8};
    assert_int_equal(position_prepare(model->method, &request, &tables, &error), ALIBI_OK);
    for (int h = 0; h < 4; h++) assert_float_equal(tables.plan.slopes[h], slopes[h], 1e-9F);
    position_release(&tables);
    alibi_model_free(model);
  }
  begin("jais");
  family_tensors_add(&tensors, "transformer.relative_pe.slopes", 3, 1);
  refused("tensor 'transformer.relative_pe.slopes': expected one slope for each of the 4 heads");
}

/* ---- options and places ---- */

static void places_of_models(void **unused)
{
  (void)unused;
  alibi_model *model = NULL;
  char path[512];
  begin("llama");
  alibi_model_free(open_it());
  snprintf(path, sizeof path, "%s/model.safetensors", folder()); /* the weights themselves */
  if (alibi_model_open(context, path, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  alibi_model_free(model);
  assert_int_equal(alibi_model_open(context, scratch_path("nowhere"), &model, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected the directory of a model");
  assert_null(model);
  snprintf(path, sizeof path, "%s/config.json", folder());
  remove(path);
  refused("expected a config.json beside these weights");
  snprintf(path, sizeof path, "%s/model.safetensors", folder());
  assert_int_equal(alibi_model_open(context, path, &model, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected a config.json beside these weights");
  begin("llama");
  snprintf(path, sizeof path, "%s/model.safetensors", folder());
  assert_int_equal(alibi_model_open(context, folder(), &model, &error),
                   ALIBI_BAD_INPUT); /* a configuration alone */
  snprintf(path, sizeof path, "%s/config.json", folder());
  remove(path);
  assert_int_equal(alibi_model_open(context, folder(), &model, &error), ALIBI_BAD_INPUT); /* nothing */
  scratch_says(error.message, "pytorch_model.bin in the directory, found none");
}

static void public_models_are_not_trained(void **unused)
{
  (void)unused;
  begin("bloom");
  alibi_model *model = open_it();
  assert_int_not_equal(model_check_trainable(model, &error), ALIBI_OK);
  alibi_model_free(model);
}

/* ---- the same model, ours and theirs ---- */

enum { TOKENS = 24 };

static void run(alibi_model *model, float *logits)
{
  uint32_t tokens[TOKENS];
  model_pass *pass;
  pass_shape shape = {.rows = TOKENS, .segments = 1, .length = TOKENS, .head_rows = 8};
  pass_segment segment = {.count = TOKENS};
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (i * 7 + 3) % 20;
  if (model_pass_new(model, &shape, &pass, &error) != ALIBI_OK) fail_msg("%s", error.message);
  if (model_forward(pass, tokens, &segment, 1, &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (size_t r = 0; r < TOKENS; r++) model_logits(pass, r, logits + r * 20);
  model_pass_free(pass);
}

/* One of ours with the numbers of a public one: layouts are rows in another order, so every bit is the same. */
static void ours_and_theirs_agree(void **unused)
{
  (void)unused;
  static float theirs[TOKENS * 20], same[TOKENS * 20];
  for (size_t i = 0; i < sizeof family_files / sizeof family_files[0]; i++) {
    begin(family_files[i].name);
    alibi_model *model = open_it(), *own;
    if (!model->config.causal) {
      alibi_model_free(model);
      continue;
    }
    run(model, theirs);
    assert_int_equal(model_allocate(context, &model->config, &own, &error), ALIBI_OK);
    for (size_t p = 0; p < own->list.count; p++) {
      const parameter *to = &own->list.items[p], *from = parameter_find(&model->list, to->name);
      model_read_rows(model, from, 0, from->rows, own->values + to->offset);
    }
    run(own, same);
    for (size_t l = 0; l < TOKENS * 20; l++)
      if (memcmp(&theirs[l], &same[l], sizeof theirs[l]) != 0)
        fail_msg("%s: logit %zu: %g and %g", family_files[i].name, l, (double)theirs[l], (double)same[l]);
    alibi_model_free(own);
    alibi_model_free(model);
  }
}

/* BLOOM's rows are head by head: row (h, part, d) is our row part * C + h * D + d. */
static void rows_lie_where_they_should(void **unused) /* trap 1 */
{
  (void)unused;
  float row[16];
  begin("bloom");
  alibi_model *model = open_it();
  for (size_t part = 0; part < 3; part++)
    for (size_t h = 0; h < 4; h++)
      for (size_t d = 0; d < 4; d++) {
        size_t ours = part * 16 + h * 4 + d, source = h * 12 + part * 4 + d;
        model_read_rows(model, parameter_find(&model->list, "blocks.1.attention.qkv.weight"), ours, 1, row);
        assert_float_equal(
            row[5], family_number("transformer.h.1.self_attention.query_key_value.weight", source * 16 + 5), 0);
        const parameter *bias = parameter_find(&model->list, "blocks.1.attention.qkv.bias");
        assert_float_equal(model->values[bias->offset + ours],
                           family_number("transformer.h.1.self_attention.query_key_value.bias", source), 0);
      }
  alibi_model_free(model);
  begin("jais"); /* stored [in, out]; the gate is c_fc2 */
  model = open_it();
  model_read_rows(model, parameter_find(&model->list, "blocks.0.feed_forward.input.weight"), 3, 1, row);
  assert_float_equal(row[6], family_number("transformer.h.0.mlp.c_fc2.weight", 6 * 24 + 3), 0);
  model_read_rows(model, parameter_find(&model->list, "blocks.0.feed_forward.input.weight"), 24 + 3, 1, row);
  assert_float_equal(row[6], family_number("transformer.h.0.mlp.c_fc.weight", 6 * 24 + 3), 0);
  alibi_model_free(model);
  begin("jina-bert-v2"); /* [up | gate] under another name */
  strcpy(tensors.names[family_tensors_find(&tensors, "encoder.layer.0.mlp.gated_layers.weight") - tensors.list],
         "encoder.layer.0.mlp.up_gated_layer.weight");
  model = open_it();
  model_read_rows(model, parameter_find(&model->list, "blocks.0.feed_forward.input.weight"), 2, 1, row);
  assert_float_equal(row[1], family_number("encoder.layer.0.mlp.gated_layers.weight", (24 + 2) * 16 + 1), 0);
  model_read_rows(model, parameter_find(&model->list, "blocks.1.feed_forward.input.weight"), 2, 1, row);
  assert_float_equal(row[1], family_number("encoder.layer.1.mlp.gated_layers.weight", 2 * 16 + 1), 0);
  alibi_model_free(model);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_family_opens),
      cmocka_unit_test(every_row_says_what_it_needs),
      cmocka_unit_test(tensors_have_their_place),
      cmocka_unit_test(buffers_are_left_out),
      cmocka_unit_test(scores_and_biases),
      cmocka_unit_test(mistral_has_a_window_unless_null),
      cmocka_unit_test(activations_and_norms),
      cmocka_unit_test(norms_of_one_form),
      cmocka_unit_test(positions_are_chosen),
      cmocka_unit_test(normalised_heads),
      cmocka_unit_test(vocabularies_follow_the_embedding),
      cmocka_unit_test(heads_are_tied_or_not),
      cmocka_unit_test(prefixes_come_and_go),
      cmocka_unit_test(as_transformers_saves_them),
      cmocka_unit_test(rope_in_its_spellings),
      cmocka_unit_test(scores_by_layer),
      cmocka_unit_test(stored_slopes),
      cmocka_unit_test(places_of_models),
      cmocka_unit_test(public_models_are_not_trained),
      cmocka_unit_test(ours_and_theirs_agree),
      cmocka_unit_test(rows_lie_where_they_should),
  };
  return cmocka_run_group_tests(tests, family_setup, family_teardown);
}
