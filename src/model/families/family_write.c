/* Our parameters by the rules that GGUF files are read by, and the keys of the architecture.  Whether the file
 * says all that the model is can only be seen by opening it, which needs no numbers: so a sketch is written first,
 * whose tensors are holes. */
#include "model/families/family_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/gguf.h"
#include "model/families/same_model.h"
#include "model/families/written_tensors.h"
#include "position/position.h"
#include "position/rope_frequencies.h"
#include "text/gguf_vocabulary.h"

void family_put_type(gguf_keys *keys, weight_type type)
{
  static const int numbers[WEIGHT_TYPES] = {
      [WEIGHT_F32] = 0,   [WEIGHT_F16] = 1,   [WEIGHT_BF16] = 32, [WEIGHT_Q8_0] = 7,
      [WEIGHT_Q4_0] = 2,  [WEIGHT_Q4_1] = 3,  [WEIGHT_Q5_0] = 8,  [WEIGHT_Q5_1] = 9,
      [WEIGHT_Q4_K] = 14, [WEIGHT_Q5_K] = 16, [WEIGHT_Q6_K] = 18};
  gguf_put_integer(keys, "general.file_type", GGUF_U32, numbers[type]);
  if (weight_block_elements(type) > 1) gguf_put_integer(keys, "general.quantization_version", GGUF_U32, 2);
}

/* A setting of the position method, or of its extension. */
static double setting(field_table table, const void *options, const char *name)
{
  const field *f = field_find(table, name);
  return f ? field_get_number(f, options) : 0;
}

typedef struct gguf_writing {
  const alibi_model *model;
  const model_family *family;
  const gguf_form *form;
  written_tensors tensors;
  float divisors[ROPE_PAIRS_MAX]; /* of frequencies */
  char what[96];                  /* of sentences */
} gguf_writing;

/* ---- tensors ---- */

/* Is it the rule whose tensors hold its parameter in files of the architecture? */
static bool fits(const void *form, const tensor_rule *rule, const alibi_model_config *config)
{
  size_t parts = 0;
  while (parts < TENSOR_RULE_PARTS && rule->theirs[parts]) parts++;
  if (strstr(rule->theirs[0], "attn_norm_2")) return config->parallel == ALIBI_PARALLEL_TWO_NORMS;
  if (strstr(rule->ours, "attention.qkv")) return (parts == 3) == ((const gguf_form *)form)->split;
  return true;
}

/* Llama 3's scaling, as what each frequency is divided by. */
static void add_divisors(gguf_writing *g)
{
  const alibi_model_config *c = &g->model->config;
  extension_choice own = model_config_extension(c);
  if (!g->form->divisors || !own.extension || strcmp(own.extension->name, "llama3") != 0) return;
  position_request request = {.shape = model_config_position_shape(c),
                              .options = c->position_options.bytes,
                              .length = (size_t)c->train_length,
                              .extension = own.extension,
                              .extension_options = own.options.bytes};
  double base = setting(g->model->method->fields, c->position_options.bytes, "base"), scaled[ROPE_PAIRS_MAX];
  size_t pairs = position_outline(g->model->method, &request).rotary / 2;
  for (size_t p = 0; p < pairs; p++) scaled[p] = pow(base, -(double)p / (double)pairs);
  own.extension->frequencies(&request, 2 * pairs, base, scaled);
  for (size_t p = 0; p < pairs; p++) g->divisors[p] = (float)(pow(base, -(double)p / (double)pairs) / scaled[p]);
  written_add_numbers(&g->tensors, "rope_freqs.weight", g->divisors, pairs);
}

/* ---- keys ---- */

static const char *full(const gguf_key_writer *w, const char *key, char name[128])
{
  snprintf(name, 128, "%s.%s", w->architecture, key);
  return name;
}

void family_put_integer(const gguf_key_writer *w, const char *key, int64_t value)
{
  char name[128];
  gguf_put_integer(w->keys, full(w, key, name), GGUF_U32, value);
}

void family_put_real(const gguf_key_writer *w, const char *key, double value)
{
  char name[128];
  gguf_put_real(w->keys, full(w, key, name), GGUF_F32, value);
}

void family_put_boolean(const gguf_key_writer *w, const char *key, bool value)
{
  char name[128];
  gguf_put_boolean(w->keys, full(w, key, name), value);
}

double family_position_setting(const alibi_model_config *config, const char *name)
{
  return setting(model_config_method(config)->fields, config->position_options.bytes, name);
}

bool family_has_biases(const alibi_model_config *c)
{
  return model_config_bias(c, c->qkv_bias) || model_config_bias(c, c->attention_output_bias) ||
         model_config_bias(c, c->input_bias) || model_config_bias(c, c->output_bias);
}

const char *family_lacks_whole_heads(const alibi_model_config *c)
{
  bool rotary = strncmp(c->position, "rope", 4) == 0;
  return rotary && family_position_setting(c, "fraction") != 1 ? "heads that turn as a whole" : NULL;
}

const char *family_lacks_biases(const alibi_model_config *c)
{
  bool all = model_config_bias(c, c->qkv_bias) && model_config_bias(c, c->attention_output_bias) &&
             model_config_bias(c, c->input_bias) && model_config_bias(c, c->output_bias);
  return all && c->norm_bias ? NULL : "a shift in every norm and a bias in every linear layer";
}

static void put_rope(const gguf_key_writer *w, const alibi_model_config *c)
{
  const position_method *method = model_config_method(c);
  extension_choice own = model_config_extension(c);
  char name[128];
  family_put_real(w, "rope.freq_base", setting(method->fields, c->position_options.bytes, "base"));
  family_put_integer(
      w, "rope.dimension_count",
      (int64_t)(setting(method->fields, c->position_options.bytes, "fraction") * (double)c->head_size + 0.5));
  if (!own.extension) return;
  field_table fields = own.extension->fields;
  bool yarn = strcmp(own.extension->name, "rope-yarn") == 0 || strcmp(own.extension->name, "yarn") == 0;
  if (!yarn && strcmp(own.extension->name, "linear") != 0) return; /* found out when the file is opened */
  gguf_put_text(w->keys, full(w, "rope.scaling.type", name), yarn ? "yarn" : "linear");
  family_put_real(w, "rope.scaling.factor", setting(own.extension->fields, own.options.bytes, "factor"));
  if (!yarn) return;
  int64_t original = (int64_t)setting(fields, own.options.bytes, "original_length");
  family_put_integer(w, "rope.scaling.original_context_length",
                     original > 0 ? original : model_config_original_length(c));
  family_put_real(w, "rope.scaling.yarn_beta_fast", setting(fields, own.options.bytes, "beta_fast"));
  family_put_real(w, "rope.scaling.yarn_beta_slow", setting(fields, own.options.bytes, "beta_slow"));
}

static void put_configuration(const gguf_writing *g, gguf_keys *keys)
{
  const alibi_model_config *c = &g->model->config;
  gguf_key_writer w = {keys, g->form->architecture};
  gguf_put_text(keys, "general.architecture", w.architecture);
  gguf_put_text(keys, "general.type", "model");
  family_put_type(keys, written_type(&g->tensors));
  family_put_integer(&w, "context_length", c->train_length);
  family_put_integer(&w, "embedding_length", c->width);
  family_put_integer(&w, "block_count", c->layers);
  family_put_integer(&w, "feed_forward_length", c->feed_forward);
  family_put_integer(&w, "attention.head_count", c->heads);
  family_put_integer(&w, "attention.head_count_kv", c->kv_heads);
  if (c->head_size * c->heads != c->width) {
    family_put_integer(&w, "attention.key_length", c->head_size);
    family_put_integer(&w, "attention.value_length", c->head_size);
  }
  bool rms = c->norm == ALIBI_NORM_RMS || g->form->rms_key;
  family_put_real(&w, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c->norm_epsilon);
  if (g->form->put) g->form->put(&w, c);
  if (g->form->rotary && strncmp(c->position, "rope", 4) == 0) put_rope(&w, c);
}

/* Without a tokenizer the file says so, and how many rows there are. */
static status put_vocabulary(const gguf_writing *g, const alibi_tokenizer *tokenizer, gguf_keys *keys,
                             alibi_error *error)
{
  int64_t rows = g->model->config.vocabulary;
  gguf_key_writer w = {keys, g->form->architecture};
  family_put_integer(&w, "vocab_size", rows);
  if (tokenizer) return gguf_vocabulary_put(tokenizer, (size_t)rows, keys, error);
  gguf_put_text(keys, "tokenizer.ggml.model", "none");
  return ALIBI_OK;
}

/* ---- the file ---- */

/* A file of the same form without numbers is opened, beside the one that is to be. */
static status check_sketch(gguf_writing *g, const char *path, const gguf_keys *keys, alibi_error *error)
{
  replace_file sketch = {0};
  char *name = NULL;
  status result;
  TRY(replace_begin(path, &sketch, error));
  name = sketch.temporary ? strdup(sketch.temporary) : NULL;
  if (!name) RAISE(error, ALIBI_FAILED, "%s: cannot write: expected a place for a plain file", path);
  g->tensors.sketch = true;
  tensor_source source = written_source(&g->tensors);
  TRY(gguf_write(name, keys, g->tensors.list, g->tensors.count, &source, error));
  result = same_model_check(g->model, name, g->what, error);
done:
  g->tensors.sketch = false;
  if (result != ALIBI_OK && name) same_model_say_path(error, name, path);
  replace_abandon(&sketch);
  free(name);
  return result;
}

/* Everything but numbers and vocabulary; the model's own form is sure then. */
static status begin(gguf_writing *g, weight_type type, tensor_writing *writing, gguf_keys *keys,
                    alibi_error *error)
{
  const model_family *family = g->family;
  written_names names = {{family->gguf_rules, family_gguf_rules}, "", fits, g->form, g->what};
  status result;
  if (!g->form->architecture)
    RAISE(error, ALIBI_INVALID, "GGUF: expected a family that its files are written for here, found '%s'",
          family->name);
  snprintf(g->what, sizeof g->what, "GGUF, architecture %s", g->form->architecture);
  const char *lacks = g->form->lacks ? g->form->lacks(&g->model->config) : NULL;
  if (lacks)
    RAISE(error, ALIBI_INVALID, "%s: expected a model with %s, found another", g->what, lacks);
  TRY(written_tensors_new(g->model, writing, &g->tensors, error));
  g->tensors.type = type;
  g->tensors.neighbours = g->form->neighbours;
  TRY(written_add_all(&g->tensors, &names, error));
  add_divisors(g);
  put_configuration(g, keys);
done:
  return result;
}

status family_write_gguf(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                         weight_type type, const char *path, tensor_writing *writing, alibi_error *error)
{
  gguf_writing g = {.model = model, .family = family, .form = &family->written};
  gguf_keys *keys = gguf_keys_new();
  tensor_source source = written_source(&g.tensors);
  status result;
  TRY(begin(&g, type, writing, keys, error));
  TRY(put_vocabulary(&g, tokenizer, keys, error));
  TRY(check_sketch(&g, path, keys, error));
  for (size_t i = 0; i < g.tensors.count; i++) writing->total += (int64_t)g.tensors.list[i].bytes;
  TRY(gguf_write(path, keys, g.tensors.list, g.tensors.count, &source, error));
done:
  gguf_keys_free(keys);
  written_tensors_free(&g.tensors);
  return result;
}

status family_write_gguf_check(const alibi_model *model, const model_family *family, const char *path,
                               tensor_writing *writing, alibi_error *error)
{
  gguf_writing g = {.model = model, .family = family, .form = &family->written};
  gguf_keys *keys = gguf_keys_new();
  status result;
  TRY(begin(&g, WEIGHT_TYPES, writing, keys, error));
  TRY(put_vocabulary(&g, NULL, keys, error));
  TRY(check_sketch(&g, path, keys, error));
done:
  gguf_keys_free(keys);
  written_tensors_free(&g.tensors);
  return result;
}
