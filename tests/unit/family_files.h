/* family_files.h - tiny public models for tests, as a table: a configuration (with ' for ") and the tensors that
 * belong to it.
 * '*' in a name is every block.  Include after scratch.h. */
#ifndef UNIT_FAMILY_FILES_H
#define UNIT_FAMILY_FILES_H

#include "file/safetensors.h"

typedef struct family_tensor_row {
  const char *name;
  size_t rows, columns; /* columns 0: a vector */
} family_tensor_row;

typedef struct family_file {
  const char *name, *config;
  size_t blocks;
  const family_tensor_row *tensors; /* ended by a NULL name */
} family_file;

/* V 20, C 16, H 4, D 4, F 64 (or 24, with gates), L 2 throughout. */
static const family_tensor_row bloom_tensors[] = {
    {"transformer.word_embeddings.weight", 20, 16},
    {"transformer.word_embeddings_layernorm.weight", 16, 0},
    {"transformer.word_embeddings_layernorm.bias", 16, 0},
    {"transformer.h.*.input_layernorm.weight", 16, 0},
    {"transformer.h.*.input_layernorm.bias", 16, 0},
    {"transformer.h.*.self_attention.query_key_value.weight", 48, 16},
    {"transformer.h.*.self_attention.query_key_value.bias", 48, 0},
    {"transformer.h.*.self_attention.dense.weight", 16, 16},
    {"transformer.h.*.self_attention.dense.bias", 16, 0},
    {"transformer.h.*.post_attention_layernorm.weight", 16, 0},
    {"transformer.h.*.post_attention_layernorm.bias", 16, 0},
    {"transformer.h.*.mlp.dense_h_to_4h.weight", 64, 16},
    {"transformer.h.*.mlp.dense_h_to_4h.bias", 64, 0},
    {"transformer.h.*.mlp.dense_4h_to_h.weight", 16, 64},
    {"transformer.h.*.mlp.dense_4h_to_h.bias", 16, 0},
    {"transformer.ln_f.weight", 16, 0},
    {"transformer.ln_f.bias", 16, 0},
    {0}};

/* Falcon-RW is BLOOM's layout without the norm of the embedding. */
static const family_tensor_row falcon_tensors[] = {
    {"transformer.word_embeddings.weight", 20, 16},
    {"transformer.h.*.input_layernorm.weight", 16, 0},
    {"transformer.h.*.input_layernorm.bias", 16, 0},
    {"transformer.h.*.self_attention.query_key_value.weight", 48, 16},
    {"transformer.h.*.self_attention.query_key_value.bias", 48, 0},
    {"transformer.h.*.self_attention.dense.weight", 16, 16},
    {"transformer.h.*.self_attention.dense.bias", 16, 0},
    {"transformer.h.*.post_attention_layernorm.weight", 16, 0},
    {"transformer.h.*.post_attention_layernorm.bias", 16, 0},
    {"transformer.h.*.mlp.dense_h_to_4h.weight", 64, 16},
    {"transformer.h.*.mlp.dense_h_to_4h.bias", 64, 0},
    {"transformer.h.*.mlp.dense_4h_to_h.weight", 16, 64},
    {"transformer.h.*.mlp.dense_4h_to_h.bias", 16, 0},
    {"transformer.ln_f.weight", 16, 0},
    {"transformer.ln_f.bias", 16, 0},
    {0}};

static const family_tensor_row mpt_tensors[] = {{"transformer.wte.weight", 20, 16},
                                                {"transformer.blocks.*.norm_1.weight", 16, 0},
                                                {"transformer.blocks.*.attn.Wqkv.weight", 48, 16},
                                                {"transformer.blocks.*.attn.out_proj.weight", 16, 16},
                                                {"transformer.blocks.*.norm_2.weight", 16, 0},
                                                {"transformer.blocks.*.ffn.up_proj.weight", 64, 16},
                                                {"transformer.blocks.*.ffn.down_proj.weight", 16, 64},
                                                {"transformer.norm_f.weight", 16, 0},
                                                {0}};

static const family_tensor_row gpt2_tensors[] = {{"wte.weight", 20, 16},
                                                 {"wpe.weight", 32, 16},
                                                 {"h.*.ln_1.weight", 16, 0},
                                                 {"h.*.ln_1.bias", 16, 0},
                                                 {"h.*.attn.c_attn.weight", 16, 48},
                                                 {"h.*.attn.c_attn.bias", 48, 0},
                                                 {"h.*.attn.c_proj.weight", 16, 16},
                                                 {"h.*.attn.c_proj.bias", 16, 0},
                                                 {"h.*.ln_2.weight", 16, 0},
                                                 {"h.*.ln_2.bias", 16, 0},
                                                 {"h.*.mlp.c_fc.weight", 16, 64},
                                                 {"h.*.mlp.c_fc.bias", 64, 0},
                                                 {"h.*.mlp.c_proj.weight", 64, 16},
                                                 {"h.*.mlp.c_proj.bias", 16, 0},
                                                 {"ln_f.weight", 16, 0},
                                                 {"ln_f.bias", 16, 0},
                                                 {0}};

static const family_tensor_row jais_tensors[] = {{"transformer.wte.weight", 20, 16},
                                                 {"transformer.h.*.ln_1.weight", 16, 0},
                                                 {"transformer.h.*.ln_1.bias", 16, 0},
                                                 {"transformer.h.*.attn.c_attn.weight", 16, 48},
                                                 {"transformer.h.*.attn.c_attn.bias", 48, 0},
                                                 {"transformer.h.*.attn.c_proj.weight", 16, 16},
                                                 {"transformer.h.*.attn.c_proj.bias", 16, 0},
                                                 {"transformer.h.*.ln_2.weight", 16, 0},
                                                 {"transformer.h.*.ln_2.bias", 16, 0},
                                                 {"transformer.h.*.mlp.c_fc.weight", 16, 24},
                                                 {"transformer.h.*.mlp.c_fc.bias", 24, 0},
                                                 {"transformer.h.*.mlp.c_fc2.weight", 16, 24},
                                                 {"transformer.h.*.mlp.c_fc2.bias", 24, 0},
                                                 {"transformer.h.*.mlp.c_proj.weight", 24, 16},
                                                 {"transformer.h.*.mlp.c_proj.bias", 16, 0},
                                                 {"transformer.ln_f.weight", 16, 0},
                                                 {"transformer.ln_f.bias", 16, 0},
                                                 {0}};

static const family_tensor_row llama_tensors[] = {{"model.embed_tokens.weight", 20, 16},
                                                  {"model.layers.*.input_layernorm.weight", 16, 0},
                                                  {"model.layers.*.self_attn.q_proj.weight", 16, 16},
                                                  {"model.layers.*.self_attn.k_proj.weight", 8, 16},
                                                  {"model.layers.*.self_attn.v_proj.weight", 8, 16},
                                                  {"model.layers.*.self_attn.o_proj.weight", 16, 16},
                                                  {"model.layers.*.post_attention_layernorm.weight", 16, 0},
                                                  {"model.layers.*.mlp.gate_proj.weight", 24, 16},
                                                  {"model.layers.*.mlp.up_proj.weight", 24, 16},
                                                  {"model.layers.*.mlp.down_proj.weight", 16, 24},
                                                  {"model.norm.weight", 16, 0},
                                                  {"lm_head.weight", 20, 16},
                                                  {0}};

static const family_tensor_row baichuan_tensors[] = {{"model.embed_tokens.weight", 20, 16},
                                                     {"model.layers.*.input_layernorm.weight", 16, 0},
                                                     {"model.layers.*.self_attn.W_pack.weight", 48, 16},
                                                     {"model.layers.*.self_attn.o_proj.weight", 16, 16},
                                                     {"model.layers.*.post_attention_layernorm.weight", 16, 0},
                                                     {"model.layers.*.mlp.gate_proj.weight", 24, 16},
                                                     {"model.layers.*.mlp.up_proj.weight", 24, 16},
                                                     {"model.layers.*.mlp.down_proj.weight", 16, 24},
                                                     {"model.norm.weight", 16, 0},
                                                     {"lm_head.weight", 20, 16},
                                                     {0}};

static const family_tensor_row jina_tensors[] = {{"embeddings.word_embeddings.weight", 20, 16},
                                                 {"embeddings.token_type_embeddings.weight", 2, 16},
                                                 {"embeddings.LayerNorm.weight", 16, 0},
                                                 {"embeddings.LayerNorm.bias", 16, 0},
                                                 {"encoder.layer.*.attention.self.query.weight", 16, 16},
                                                 {"encoder.layer.*.attention.self.query.bias", 16, 0},
                                                 {"encoder.layer.*.attention.self.key.weight", 16, 16},
                                                 {"encoder.layer.*.attention.self.key.bias", 16, 0},
                                                 {"encoder.layer.*.attention.self.value.weight", 16, 16},
                                                 {"encoder.layer.*.attention.self.value.bias", 16, 0},
                                                 {"encoder.layer.*.attention.output.dense.weight", 16, 16},
                                                 {"encoder.layer.*.attention.output.dense.bias", 16, 0},
                                                 {"encoder.layer.*.attention.output.LayerNorm.weight", 16, 0},
                                                 {"encoder.layer.*.attention.output.LayerNorm.bias", 16, 0},
                                                 {"encoder.layer.*.mlp.gated_layers.weight", 48, 16},
                                                 {"encoder.layer.*.mlp.wo.weight", 16, 24},
                                                 {"encoder.layer.*.mlp.wo.bias", 16, 0},
                                                 {"encoder.layer.*.mlp.layernorm.weight", 16, 0},
                                                 {"encoder.layer.*.mlp.layernorm.bias", 16, 0},
                                                 {0}};

static const family_tensor_row refact_tensors[] = {{"transformer.wte.weight", 20, 16},
                                                   {"transformer.h.*.ln_1.weight", 16, 0},
                                                   {"transformer.h.*.attn.q.weight", 16, 16},
                                                   {"transformer.h.*.attn.kv.weight", 8, 16},
                                                   {"transformer.h.*.attn.c_proj.weight", 16, 16},
                                                   {"transformer.h.*.ln_2.weight", 16, 0},
                                                   {"transformer.h.*.mlp.gate_up_proj.weight", 512, 16},
                                                   {"transformer.h.*.mlp.c_proj.weight", 16, 256},
                                                   {"ln_f.weight", 16, 0},
                                                   {"lm_head.weight", 20, 16},
                                                   {0}};

static const family_tensor_row neox_tensors[] = {{"gpt_neox.embed_in.weight", 20, 16},
                                                 {"gpt_neox.layers.*.input_layernorm.weight", 16, 0},
                                                 {"gpt_neox.layers.*.input_layernorm.bias", 16, 0},
                                                 {"gpt_neox.layers.*.attention.query_key_value.weight", 48, 16},
                                                 {"gpt_neox.layers.*.attention.query_key_value.bias", 48, 0},
                                                 {"gpt_neox.layers.*.attention.dense.weight", 16, 16},
                                                 {"gpt_neox.layers.*.attention.dense.bias", 16, 0},
                                                 {"gpt_neox.layers.*.post_attention_layernorm.weight", 16, 0},
                                                 {"gpt_neox.layers.*.post_attention_layernorm.bias", 16, 0},
                                                 {"gpt_neox.layers.*.mlp.dense_h_to_4h.weight", 64, 16},
                                                 {"gpt_neox.layers.*.mlp.dense_h_to_4h.bias", 64, 0},
                                                 {"gpt_neox.layers.*.mlp.dense_4h_to_h.weight", 16, 64},
                                                 {"gpt_neox.layers.*.mlp.dense_4h_to_h.bias", 16, 0},
                                                 {"gpt_neox.final_layer_norm.weight", 16, 0},
                                                 {"gpt_neox.final_layer_norm.bias", 16, 0},
                                                 {"embed_out.weight", 20, 16},
                                                 {0}};

static const family_file family_files[] = {
    {"bloom",
     "{'model_type': 'bloom', 'hidden_size': 16, 'n_layer': 2, 'n_head': 4, 'layer_norm_epsilon': 1e-05, "
     "'vocab_size': 20,"
     " 'seq_length': 32, 'offset_alibi': 100, 'use_cache': true, 'hidden_dropout': 0.0}",
     2, bloom_tensors},
    {"mpt",
     "{'model_type': 'mpt', 'd_model': 16, 'n_layers': 2, 'n_heads': 4, 'vocab_size': 20, 'max_seq_len': 32, "
     "'no_bias': true,"
     " 'expansion_ratio': 4, 'logit_scale': null, 'attn_config': {'alibi': true, 'alibi_bias_max': 8, "
     "'attn_impl': 'torch',"
     " 'attn_type': 'multihead_attention', 'clip_qkv': null, 'softmax_scale': null, 'qk_ln': false, 'prefix_lm': "
     "false}}",
     2, mpt_tensors},
    {"falcon",
     "{'model_type': 'falcon', 'hidden_size': 16, 'n_layer': 2, 'n_head': 4, 'vocab_size': 20, 'alibi': true, "
     "'bias': true,"
     " 'multi_query': false, 'parallel_attn': false, 'new_decoder_architecture': false, 'layer_norm_epsilon': "
     "1e-05}",
     2, falcon_tensors},
    {"baichuan",
     "{'model_type': 'baichuan', 'hidden_size': 16, 'num_hidden_layers': 40, 'num_attention_heads': 4, "
     "'intermediate_size': 24,"
     " 'vocab_size': 20, 'model_max_length': 32, 'rms_norm_eps': 1e-06, 'hidden_act': 'silu', "
     "'tie_word_embeddings': false}",
     40, baichuan_tensors},
    {"refact",
     "{'model_type': 'gpt_refact', 'n_embd': 16, 'n_layer': 2, 'n_head': 4, 'vocab_size': 20, 'n_positions': 32,"
     " 'multi_query': true, 'n_inner': null, 'layer_norm_epsilon': 1e-05}",
     2, refact_tensors},
    {"jais",
     "{'model_type': 'jais', 'n_embd': 16, 'n_layer': 2, 'n_head': 4, 'n_inner': 24, 'vocab_size': 20, "
     "'n_positions': 32,"
     " 'activation_function': 'swiglu', 'position_embedding_type': 'alibi', 'embeddings_scale': 14.6, "
     "'width_scale': 0.125,"
     " 'scale_qk_dot_by_d': true}",
     2, jais_tensors},
    {"gpt2",
     "{'model_type': 'gpt2', 'n_embd': 16, 'n_layer': 2, 'n_head': 4, 'vocab_size': 20, 'n_positions': 32, "
     "'n_ctx': 32,"
     " 'activation_function': 'gelu_new', 'resid_pdrop': 0.1}",
     2, gpt2_tensors},
    {"gpt_neox",
     "{'model_type': 'gpt_neox', 'hidden_size': 16, 'num_hidden_layers': 2, 'num_attention_heads': 4, "
     "'intermediate_size': 64,"
     " 'vocab_size': 20, 'max_position_embeddings': 32, 'rotary_pct': 0.5, 'hidden_act': 'gelu', "
     "'use_parallel_residual': true}",
     2, neox_tensors},
    {"llama",
     "{'model_type': 'llama', 'hidden_size': 16, 'num_hidden_layers': 2, 'num_attention_heads': 4, "
     "'num_key_value_heads': 2,"
     " 'intermediate_size': 24, 'vocab_size': 20, 'max_position_embeddings': 32, 'rms_norm_eps': 1e-05, "
     "'rope_theta': 10000.0,"
     " 'rope_scaling': null, 'hidden_act': 'silu'}",
     2, llama_tensors},
    {"jina-bert-v2",
     "{'model_type': 'bert', 'hidden_size': 16, 'num_hidden_layers': 2, 'num_attention_heads': 4, "
     "'intermediate_size': 24,"
     " 'vocab_size': 20, 'max_position_embeddings': 64, 'type_vocab_size': 2, 'layer_norm_eps': 1e-12,"
     " 'position_embedding_type': 'alibi', 'feed_forward_type': 'geglu', 'hidden_act': 'gelu', 'emb_pooler': "
     "'mean'}",
     2, jina_tensors},
};

static inline const family_file *family_file_find(const char *name)
{
  for (size_t i = 0; i < sizeof family_files / sizeof family_files[0]; i++)
    if (strcmp(family_files[i].name, name) == 0) return &family_files[i];
  fail_msg("no such family here: %s", name);
  return NULL;
}

/* Element e of a tensor: a number from -0.5 to 0.5, or around 1 for gains. */
static inline float family_number(const char *name, size_t e)
{
  uint32_t h = 2166136261u + (uint32_t)e * 2654435761u;
  bool gain = (strstr(name, "norm") || strstr(name, "Norm") || strstr(name, "ln_")) && strstr(name, ".weight");
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
  h = (h ^ (h >> 15)) * 0x846CA68Bu;
  return ((float)(h >> 8) / (1 << 24)) - 0.5F + (float)gain;
}

enum { FAMILY_TENSORS_MAX = 1024 };

/* The tensors being put together. */
typedef struct family_tensors {
  file_tensor list[FAMILY_TENSORS_MAX];
  char names[FAMILY_TENSORS_MAX][96];
  size_t count;
} family_tensors;

static inline file_tensor *family_tensors_add(family_tensors *t, const char *name, size_t rows, size_t columns)
{
  assert_true(t->count < FAMILY_TENSORS_MAX);
  size_t i = t->count++, elements = rows * (columns ? columns : 1);
  snprintf(t->names[i], sizeof t->names[i], "%s", name);
  float *values = calloc(elements, sizeof *values);
  assert_non_null(values);
  for (size_t e = 0; e < elements; e++) values[e] = family_number(name, e);
  t->list[i] = (file_tensor){.name = t->names[i],
                             .type = TENSOR_F32,
                             .dimensions = columns ? 2 : 1,
                             .shape = {rows, columns},
                             .data = values,
                             .bytes = elements * sizeof *values};
  return &t->list[i];
}

static inline void family_tensors_make(family_tensors *t, const family_file *family)
{
  t->count = 0;
  for (const family_tensor_row *row = family->tensors; row->name; row++) {
    const char *star = strchr(row->name, '*');
    for (size_t block = 0; block < (star ? family->blocks : 1); block++) {
      char name[96];
      if (star) snprintf(name, sizeof name, "%.*s%zu%s", (int)(star - row->name), row->name, block, star + 1);
      else snprintf(name, sizeof name, "%s", row->name);
      family_tensors_add(t, name, row->rows, row->columns);
    }
  }
}

static inline file_tensor *family_tensors_find(family_tensors *t, const char *name)
{
  for (size_t i = 0; i < t->count; i++)
    if (strcmp(t->names[i], name) == 0) return &t->list[i];
  fail_msg("no such tensor: %s", name);
  return NULL;
}

static inline void family_tensors_drop(family_tensors *t, const char *name)
{
  file_tensor *gone = family_tensors_find(t, name);
  free((void *)gone->data);
  size_t i = (size_t)(gone - t->list);
  *gone = t->list[--t->count];
  memcpy(t->names[i], t->names[t->count], sizeof t->names[i]);
  gone->name = t->names[i];
}

static inline void family_tensors_free(family_tensors *t)
{
  for (size_t i = 0; i < t->count; i++) free((void *)t->list[i].data);
  t->count = 0;
}

/* The text with " for '. */
static inline void family_config_write(const char *directory, const char *config)
{
  char path[512], text[4096];
  snprintf(text, sizeof text, "%s", config);
  for (char *c = text; *c; c++)
    if (*c == '\'') *c = '"';
  snprintf(path, sizeof path, "%s/config.json", directory);
  scratch_write(path, text, strlen(text));
}

static inline void family_tensors_write(const family_tensors *t, const char *directory)
{
  char path[512];
  alibi_error why = {0};
  snprintf(path, sizeof path, "%s/model.safetensors", directory);
  if (safetensors_write(path, t->list, t->count, NULL, &why) != ALIBI_OK) fail_msg("%s", why.message);
}

#endif
