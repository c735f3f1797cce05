/* Tensors are written row by row: a row that is to keep its type is copied as it lies in the mapped file, any
 * other goes through fp32.  No tensor is ever held.  Whether the file says all that the model is can only be seen
 * by opening it, which needs no numbers: so a sketch is written first, whose tensors are holes. */
#include "model/families/family_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/gguf.h"
#include "kernel/weight_plain.h"
#include "model/families/family_tensors.h"
#include "op/parts.h"
#include "position/position.h"
#include "position/rope_frequencies.h"
#include "text/gguf_vocabulary.h"

weight_type family_type_for(weight_type wanted, weight_type stored, size_t columns)
{
  if (wanted == WEIGHT_TYPES || wanted == stored) return stored;
  if (columns % weight_block_elements(wanted) == 0) return wanted;
  return columns % weight_block_elements(WEIGHT_Q8_0) == 0 ? WEIGHT_Q8_0 : WEIGHT_F16;
}

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

/* ---- tensors ---- */

/* Some rows of a parameter of ours, as one tensor. */
typedef struct written_tensor {
  char name[GGUF_NAME_MOST + 1];
  const parameter *p;
  matrix w;         /* all of the parameter */
  matrix_part part; /* of w, where it is not as the model has it */
  size_t first;     /* row */
  weight_type type;
  size_t turned; /* rows a head, whose halves are exchanged for neighbours; 0: none */
} written_tensor;

typedef struct gguf_writing {
  const alibi_model *model;
  const model_family *family;
  const gguf_form *form;
  weight_type type;
  tensor_writing *writing;
  bool sketch;
  written_tensor *tensors;
  file_tensor *list;              /* for the writer: what it is told of each */
  float divisors[ROPE_PAIRS_MAX]; /* of frequencies; the first is 0: none */
  size_t count;
} gguf_writing;

/* Of a head's rows p and p + d/2 those that are to be neighbours. */
static size_t source_row(const written_tensor *t, size_t row)
{
  if (t->turned == 0) return t->first + row;
  size_t d = t->turned, head = row / d, place = row % d;
  return t->first + head * d + place / 2 + place % 2 * (d / 2);
}

/* Where a row lies as it is to be written; NULL: nowhere. */
static const void *stored_row(const matrix *w, size_t row, weight_type type)
{
  for (size_t i = 0; i < w->part_count; i++) {
    const matrix_part *part = &w->parts[i];
    if (row >= part->rows) {
      row -= part->rows;
      continue;
    }
    if (part->type != type || part->turned || part->row_scales) return NULL;
    size_t group = part->group ? row / part->group : 0, within = part->group ? row % part->group : row;
    return (const char *)part->data + group * part->group_bytes + within * part->row_bytes;
  }
  return NULL;
}

static status give_matrix(const gguf_writing *g, const written_tensor *t, size_t rows, tensor_sink *sink,
                          alibi_error *error)
{
  size_t columns = t->w.columns, bytes = columns / weight_block_elements(t->type) * weight_block_bytes(t->type);
  float *wide = NULL;
  void *narrow = NULL;
  status result;
  TRY(memory_new(&wide, columns, sizeof *wide, "a row of a weight", error));
  TRY(memory_new(&narrow, bytes, 1, "a row of a weight", error));
  for (size_t r = 0; r < rows; r++) {
    size_t row = source_row(t, r);
    const void *stored = stored_row(&t->w, row, t->type);
    if (!stored) parts_read(g->model->context->kernel, &t->w, row, 0, columns, wide);
    TRY(stored ? writing_put(g->writing, sink, stored, bytes, error)
               : writing_narrow(g->writing, sink, t->type, columns, wide, narrow, error));
  }
  if (t->first + rows == t->p->rows) writing_forget(&t->w);
done:
  memory_free(narrow);
  memory_free(wide);
  return result;
}

/* As large as it will be; file systems keep no zeros that were never written. */
static status give_hole(tensor_sink *sink, alibi_error *error)
{
  size_t bytes = sink->tensor->bytes;
  if (bytes > 1 && !stream_skip(sink->stream, bytes - 1))
    return fail_errno(error, ALIBI_FAILED, "%s: cannot write", sink->path);
  sink->written = bytes > 0 ? bytes - 1 : 0;
  return tensor_sink_write(sink, "", bytes > 0, error);
}

static status give(void *state, size_t index, tensor_sink *sink, alibi_error *error)
{
  const gguf_writing *g = state;
  const written_tensor *t = &g->tensors[index];
  size_t rows = g->list[index].shape[0];
  if (!t->p) return tensor_sink_write(sink, g->divisors, rows * sizeof *g->divisors, error);
  if (g->sketch) return give_hole(sink, error);
  if (t->p->placeable) return give_matrix(g, t, rows, sink, error);
  const float *values = g->model->values + t->p->offset;
  size_t bytes = t->p->columns * sizeof *values;
  for (size_t r = 0; r < rows; r++) {
    status result = writing_put(g->writing, sink, values + source_row(t, r) * t->p->columns, bytes, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

static bool is_part_of_heads(const parameter *p, const char *what)
{
  return strstr(p->name, ".attention.qkv.") && strcmp(what, ".attn_v") != 0;
}

/* Where a family divides the rows of its output weight by their length, its reader does it again. */
static void take_unscaled(written_tensor *t)
{
  t->part = t->w.parts[0];
  t->part.row_scales = NULL;
  t->w.parts = &t->part;
}

/* Rows first .. first+rows-1 of a parameter; theirs: "blk.*.attn_q". */
static void add_tensor(gguf_writing *g, const parameter *p, const char *theirs, const char *block,
                       const char *ending, size_t first, size_t rows)
{
  written_tensor *t = &g->tensors[g->count];
  file_tensor *listed = &g->list[g->count++];
  const char *star = strchr(theirs, '*');
  bool whole = strstr(theirs, ".weight") != NULL;
  *t = (written_tensor){.p = p, .first = first, .type = WEIGHT_F32};
  snprintf(t->name, sizeof t->name, "%.*s%s%s%s", star ? (int)(star - theirs) : 0, theirs, star ? block : "",
           star ? star + 1 : theirs, whole ? "" : ending);
  if (p->placeable) {
    t->w = g->model->placed[p->slot];
    if (strcmp(p->name, "output.weight") == 0) take_unscaled(t);
    t->type = family_type_for(g->type, t->w.parts[0].type, p->columns);
  }
  size_t d = (size_t)g->model->config.head_size;
  bool adjacent = g->model->config.position[0] && strcmp(g->model->method->name, "rope") == 0;
  if (g->form->neighbours && adjacent && star && is_part_of_heads(p, strrchr(theirs, '.'))) t->turned = d;
  *listed = (file_tensor){.name = t->name,
                          .type = tensor_type_of_weight(t->type),
                          .dimensions = p->vector ? 1 : 2,
                          .shape = {rows, p->vector ? 0 : p->columns}};
  listed->bytes =
      rows * (p->vector ? 1 : p->columns) / weight_block_elements(t->type) * weight_block_bytes(t->type);
}

/* The rule whose tensors hold this parameter in files of the architecture. */
static bool fits(const gguf_writing *g, const tensor_rule *rule)
{
  size_t parts = 0;
  while (parts < TENSOR_RULE_PARTS && rule->theirs[parts]) parts++;
  if (strstr(rule->theirs[0], "attn_norm_2")) return g->model->config.parallel == ALIBI_PARALLEL_TWO_NORMS;
  if (strstr(rule->ours, "attention.qkv")) return (parts == 3) == g->form->split;
  if (strstr(rule->ours, "feed_forward.input"))
    return (parts == 2) == (op_activation_parts(model_config_activation(&g->model->config)) == 2);
  return true;
}

static void add_by_rule(gguf_writing *g, const parameter *p, const tensor_rule *rule, const char *block,
                        const char *last)
{
  const alibi_model_config *c = &g->model->config;
  const char *ending = strcmp(last, "bias") == 0 || strcmp(last, "shift") == 0 ? ".bias" : ".weight";
  size_t parts = 0, first = 0, d = (size_t)c->head_size;
  while (parts < TENSOR_RULE_PARTS && rule->theirs[parts]) parts++;
  for (size_t i = 0; i < parts; i++) {
    size_t rows = p->rows / parts;
    if (parts == 3) rows = (size_t)(i == 0 ? c->heads : c->kv_heads) * d;
    add_tensor(g, p, rule->theirs[i], block, ending, first, rows);
    first += rows;
  }
}

static status add_parameter(gguf_writing *g, const parameter *p, alibi_error *error)
{
  const tensor_rule *tables[2] = {g->family->gguf_rules, family_gguf_rules};
  char block[FAMILY_BLOCK_SIZE];
  const char *last;
  for (size_t t = 0; t < 2; t++)
    for (const tensor_rule *rule = tables[t]; rule && rule->ours; rule++) {
      if (!family_rule_is_for(rule->ours, p->name, block, &last) || !fits(g, rule)) continue;
      add_by_rule(g, p, rule, block, last ? last : "weight");
      return ALIBI_OK;
    }
  return fail(error, ALIBI_INVALID, "GGUF, architecture %s: expected a name for the parameter '%s', found none",
              g->form->architecture, p->name);
}

/* Llama 3's scaling, as what each frequency is divided by. */
static void add_divisors(gguf_writing *g)
{
  const alibi_model_config *c = &g->model->config;
  extension_choice own = model_config_extension(c);
  if (!g->form->rotary || !own.extension || strcmp(own.extension->name, "llama3") != 0) return;
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
  written_tensor *t = &g->tensors[g->count];
  *t = (written_tensor){.name = "rope_freqs.weight"};
  g->list[g->count++] = (file_tensor){
      .name = t->name, .type = TENSOR_F32, .dimensions = 1, .shape = {pairs}, .bytes = pairs * sizeof(float)};
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
  bool yarn = strcmp(own.extension->name, "rope-yarn") == 0 || strcmp(own.extension->name, "yarn") == 0;
  if (!yarn && strcmp(own.extension->name, "linear") != 0) return; /* found out when the file is opened */
  gguf_put_text(w->keys, full(w, "rope.scaling.type", name), yarn ? "yarn" : "linear");
  family_put_real(w, "rope.scaling.factor", setting(own.extension->fields, own.options.bytes, "factor"));
  if (!yarn) return;
  family_put_integer(w, "rope.scaling.original_context_length",
              (int64_t)setting(own.extension->fields, own.options.bytes, "original_length"));
  family_put_real(w, "rope.scaling.yarn_beta_fast",
                  setting(own.extension->fields, own.options.bytes, "beta_fast"));
  family_put_real(w, "rope.scaling.yarn_beta_slow",
                  setting(own.extension->fields, own.options.bytes, "beta_slow"));
}

/* The type of most of the numbers. */
static weight_type type_of_most(const gguf_writing *g)
{
  size_t bytes[WEIGHT_TYPES] = {0}, most = WEIGHT_F32;
  for (size_t i = 0; i < g->count; i++) bytes[g->tensors[i].type] += g->list[i].bytes;
  for (size_t t = 0; t < WEIGHT_TYPES; t++)
    if (bytes[t] > bytes[most]) most = t;
  return (weight_type)most;
}

static void put_configuration(const gguf_writing *g, gguf_keys *keys)
{
  const alibi_model_config *c = &g->model->config;
  gguf_key_writer w = {keys, g->form->architecture};
  gguf_put_text(keys, "general.architecture", w.architecture);
  gguf_put_text(keys, "general.type", "model");
  family_put_type(keys, type_of_most(g));
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

/* ---- is it the same model? ---- */

/* Where the sentence names a file that stood for another, that other. */
static void say_path(alibi_error *error, const char *stood, const char *path)
{
  size_t size = strlen(stood);
  char rest[sizeof error->message];
  if (!error || strncmp(error->message, stood, size) != 0) return;
  snprintf(rest, sizeof rest, "%s", error->message + size);
  snprintf(error->message, sizeof error->message, "%.300s%.700s", path, rest);
}

static int bias_word(const alibi_model_config *c, int own)
{
  return model_config_bias(c, own) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
}

/* In one way of saying it.  The layout of pairs is the file's own affair, and what Llama 3 does to its frequencies
 * is stored as divisors. */
static json_node *comparable(const alibi_model_config *config)
{
  alibi_model_config c = *config;
  c.qkv_bias = bias_word(config, c.qkv_bias);
  c.attention_output_bias = bias_word(config, c.attention_output_bias);
  c.input_bias = bias_word(config, c.input_bias);
  c.output_bias = bias_word(config, c.output_bias);
  c.bias = false;
  if (strcmp(c.position, "rope") == 0) alibi_model_config_set(&c, "rope_layout", "half", NULL);
  return model_config_node(&c);
}

/* Cosines and sines of all positions up to the trained length, or as many as tell frequencies apart. */
static status check_angles(const alibi_model *ours, const alibi_model *theirs, bool *same, alibi_error *error)
{
  enum { POSITIONS = 4096 };
  const alibi_model *models[2] = {ours, theirs};
  position_tables tables[2] = {0};
  status result = ALIBI_OK;
  for (size_t i = 0; i < 2; i++) {
    const alibi_model_config *c = &models[i]->config;
    extension_choice own = model_config_extension(c);
    position_request request = {.shape = model_config_position_shape(c),
                                .options = c->position_options.bytes,
                                .length = POSITIONS,
                                .extension = own.extension,
                                .extension_options = own.options.bytes};
    TRY(position_prepare(models[i]->method, &request, &tables[i], error));
  }
  const position_plan *a = &tables[0].plan, *b = &tables[1].plan;
  *same = a->rotary == b->rotary;
  for (size_t i = 0; *same && i < POSITIONS * a->rotary / 2; i++)
    *same = fabsf(a->cosine[i] - b->cosine[i]) < 1e-4f && fabsf(a->sine[i] - b->sine[i]) < 1e-4f;
done:
  for (size_t i = 0; i < 2; i++) position_release(&tables[i]);
  return result;
}

/* Are rows of the output weight divided by their length? */
static bool normalises(const alibi_model *model)
{
  const parameter *output = parameter_find(&model->list, "output.weight");
  return output && model->placed[output->slot].parts[0].row_scales;
}

static status check_written(const gguf_writing *g, const char *path, alibi_error *error)
{
  alibi_model *again = NULL;
  json_node *ours = NULL, *theirs = NULL;
  alibi_error why = {0};
  status result = alibi_model_open(g->model->context, path, &again, &why);
  if (result == ALIBI_BAD_INPUT) {
    say_path(&why, path, "its file");
    RAISE(error, ALIBI_INVALID,
          "GGUF, architecture %s: expected a way to say all of this model, found none: %.800s",
          g->form->architecture, why.message);
  }
  if (result != ALIBI_OK) RAISE(error, result, "%s", why.message);
  if (normalises(g->model) != normalises(again))
    RAISE(error, ALIBI_INVALID,
          "GGUF, architecture %s: expected a way to say that rows of the output weight are divided by their "
          "length, found none",
          g->form->architecture);
  ours = comparable(&g->model->config);
  theirs = comparable(&again->config);
  for (size_t i = 0; i < node_count(ours); i++) {
    const char *key;
    char *mine = node_to_text(node_member(ours, i, &key)), *other = node_to_text(node_get(theirs, key));
    bool same = mine && other && strcmp(mine, other) == 0;
    if (!same && g->divisors[0] > 0 && strcmp(key, "position") == 0)
      result = check_angles(g->model, again, &same, error);
    if (!same && result == ALIBI_OK)
      result =
          fail(error, ALIBI_INVALID, "GGUF, architecture %s: expected a way to say that '%s' is %s, found only %s",
               g->form->architecture, key, mine ? mine : "something", other ? other : "nothing");
    free(mine);
    free(other);
    if (result != ALIBI_OK) goto done;
  }
done:
  node_free(theirs);
  node_free(ours);
  alibi_model_free(again);
  return result;
}

/* A file of the same form is opened, beside the one that is to be. */
static status check_sketch(gguf_writing *g, const char *path, const gguf_keys *keys, alibi_error *error)
{
  replace_file sketch = {0};
  char *name = NULL;
  status result;
  TRY(replace_begin(path, &sketch, error));
  name = sketch.temporary ? strdup(sketch.temporary) : NULL;
  if (!name) RAISE(error, ALIBI_FAILED, "%s: cannot write: expected a place for a plain file", path);
  g->sketch = true;
  TRY(gguf_write(name, keys, g->list, g->count, &(tensor_source){give, g}, error));
  result = check_written(g, name, error);
done:
  g->sketch = false;
  if (result != ALIBI_OK && name) say_path(error, name, path);
  replace_abandon(&sketch);
  free(name);
  return result;
}

status family_write_gguf(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                         weight_type type, const char *path, tensor_writing *writing, alibi_error *error)
{
  gguf_writing g = {.model = model,
                    .family = family,
                    .form = &family->written,
                    .type = type,
                    .writing = writing};
  gguf_keys *keys = gguf_keys_new();
  status result;
  if (!g.form->architecture)
    RAISE(error, ALIBI_INVALID, "GGUF: expected a family that its files are written for here, found '%s'",
          family->name);
  const char *lacks = g.form->lacks ? g.form->lacks(&model->config) : NULL;
  if (lacks)
    RAISE(error, ALIBI_INVALID, "GGUF, architecture %s: expected %s, found one with the position method '%s'",
          g.form->architecture, lacks, model->config.position);
  TRY(memory_new(&g.tensors, model->list.count * TENSOR_RULE_PARTS + 1, sizeof *g.tensors, "the list of tensors",
                 error));
  TRY(memory_new(&g.list, model->list.count * TENSOR_RULE_PARTS + 1, sizeof *g.list, "the list of tensors",
                 error));
  for (size_t i = 0; i < model->list.count; i++) TRY(add_parameter(&g, &model->list.items[i], error));
  add_divisors(&g);
  put_configuration(&g, keys);
  TRY(put_vocabulary(&g, tokenizer, keys, error));
  TRY(check_sketch(&g, path, keys, error));
  for (size_t i = 0; i < g.count; i++) writing->total += (int64_t)g.list[i].bytes;
  TRY(gguf_write(path, keys, g.list, g.count, &(tensor_source){give, &g}, error));
done:
  gguf_keys_free(keys);
  memory_free(g.list);
  memory_free(g.tensors);
  return result;
}
