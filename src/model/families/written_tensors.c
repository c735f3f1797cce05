/* Rows are copied as they lie in the mapped file where they are to keep their type; all others go through fp32.
 * The order of rows is the inverse of what family_tensors.c reads: a row of the file is asked where it lies in our
 * parameter. */
#include "model/families/written_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "kernel/weight_plain.h"
#include "op/parts.h"
#include "position/position.h"

status written_tensors_new(const alibi_model *model, tensor_writing *writing, written_tensors *all,
                           alibi_error *error)
{
  size_t most = model->list.count * TENSOR_RULE_PARTS + 1;
  status result;
  *all = (written_tensors){.model = model, .writing = writing, .type = WEIGHT_TYPES};
  TRY(memory_new(&all->items, most, sizeof *all->items, "the list of tensors", error));
  TRY(memory_new(&all->list, most, sizeof *all->list, "the list of tensors", error));
done:
  return result;
}

void written_tensors_free(written_tensors *all)
{
  memory_free(all->list);
  memory_free(all->items);
}

weight_type written_type_for(weight_type wanted, weight_type stored, size_t columns)
{
  if (wanted == WEIGHT_TYPES || wanted == stored) return stored;
  if (columns % weight_block_elements(wanted) == 0) return wanted;
  return columns % weight_block_elements(WEIGHT_Q8_0) == 0 ? WEIGHT_Q8_0 : WEIGHT_F16;
}

weight_type written_type(const written_tensors *all)
{
  size_t numbers[WEIGHT_TYPES] = {0}, most = WEIGHT_F32;
  for (size_t i = 0; i < all->count; i++) {
    weight_type type = all->items[i].type;
    numbers[type] += all->list[i].bytes / weight_block_bytes(type) * weight_block_elements(type);
  }
  for (size_t t = 0; t < WEIGHT_TYPES; t++)
    if (numbers[t] > numbers[most]) most = t;
  return (weight_type)most;
}

weight_type written_stored_type(const alibi_model *model)
{
  size_t numbers[WEIGHT_TYPES] = {0}, most = WEIGHT_F32;
  for (size_t i = 0; model->placed && i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    const matrix *w = p->placeable ? &model->placed[p->slot] : NULL;
    for (size_t part = 0; w && part < w->part_count; part++)
      numbers[w->parts[part].type] += w->parts[part].rows * p->columns;
  }
  for (size_t t = 0; t < WEIGHT_TYPES; t++)
    if (numbers[t] > numbers[most]) most = t;
  return (weight_type)most;
}

/* ---- which rows ---- */

/* Queries, keys and values of every key-value head one after the other. */
static size_t row_of_groups(const alibi_model_config *c, size_t row)
{
  size_t d = (size_t)c->head_size, queries = (size_t)(c->heads / c->kv_heads) * d, size = queries + 2 * d;
  size_t group = row / size, within = row % size, heads = (size_t)c->heads * d, kv_heads = (size_t)c->kv_heads * d;
  if (within < queries) return group * queries + within;
  if (within < queries + d) return heads + group * d + within - queries;
  return heads + kv_heads + group * d + within - queries - d;
}

/* Channels of a head that turn, where they lie otherwise in the file than with us; else 0. */
static size_t exchanged_channels(const written_tensors *all)
{
  const alibi_model_config *c = &all->model->config;
  const field *layout = field_find(all->model->method->fields, "layout");
  if (!layout || (field_get_number(layout, c->position_options.bytes) != 0) == all->neighbours) return 0;
  position_request request = {.shape = model_config_position_shape(c),
                              .options = c->position_options.bytes,
                              .length = (size_t)c->train_length};
  return position_outline(all->model->method, &request).rotary;
}

/* Is it a row of queries or keys, or of a norm's gain for them? */
static bool is_of_heads(const alibi_model_config *c, const parameter *p, size_t row)
{
  if (strstr(p->name, ".attention.qkv.")) return row < (size_t)((c->heads + c->kv_heads) * c->head_size);
  return strstr(p->name, ".attention.query_norm.") || strstr(p->name, ".attention.key_norm.");
}

/* Where row `row` of the tensor lies in our parameter. */
static size_t source_row(const written_tensors *all, const written_tensor *t, size_t exchanged, size_t row)
{
  const alibi_model_config *c = &all->model->config;
  size_t d = (size_t)c->head_size, half = t->rows / 2;
  if (t->layout == LAYOUT_GROUPS) row = row_of_groups(c, row);
  if (t->layout == LAYOUT_SWAPPED) row = row < half ? row + half : row - half;
  row += t->first;
  size_t place = row % d;
  if (place >= exchanged || !is_of_heads(c, t->p, row)) return row;
  size_t pairs = exchanged / 2;
  if (all->neighbours) return row - place + place / 2 + place % 2 * pairs;
  return row - place + (place < pairs ? 2 * place : 2 * (place - pairs) + 1);
}

/* ---- their numbers ---- */

/* Where a row lies as it is to be written; NULL: nowhere. */
static const void *stored_row(const written_tensor *t, size_t row)
{
  for (size_t i = 0; i < t->w.part_count; i++) {
    const matrix_part *part = &t->w.parts[i];
    if (row >= part->rows) {
      row -= part->rows;
      continue;
    }
    if (part->type != t->type || part->turned || part->row_scales) return NULL;
    size_t group = part->group ? row / part->group : 0, within = part->group ? row % part->group : row;
    return (const char *)part->data + group * part->group_bytes + within * part->row_bytes;
  }
  return NULL;
}

/* Columns from .. from+n-1 (whole blocks) of a row. */
static void read_row(const written_tensors *all, const written_tensor *t, size_t row, size_t from, size_t n,
                     float *to)
{
  const alibi_model *model = all->model;
  if (t->w.part_count > 0) parts_read(model->context->kernel, &t->w, row, from, n, to);
  else memcpy(to, model->values + t->p->offset + row * t->p->columns + from, n * sizeof *to);
}

static status give_rows(const written_tensors *all, const written_tensor *t, tensor_sink *sink, alibi_error *error)
{
  size_t columns = t->p->columns, exchanged = exchanged_channels(all);
  size_t bytes = columns / weight_block_elements(t->type) * weight_block_bytes(t->type);
  float *wide = NULL;
  void *narrow = NULL;
  status result;
  TRY(memory_new(&wide, columns, sizeof *wide, "a row of a weight", error));
  TRY(memory_new(&narrow, bytes, 1, "a row of a weight", error));
  for (size_t r = 0; r < t->rows; r++) {
    size_t row = source_row(all, t, exchanged, r);
    const void *stored = stored_row(t, row);
    if (!stored) read_row(all, t, row, 0, columns, wide);
    TRY(stored ? writing_put(all->writing, sink, stored, bytes, error)
               : writing_narrow(all->writing, sink, t->type, columns, wide, narrow, error));
  }
done:
  memory_free(narrow);
  memory_free(wide);
  return result;
}

/* Stored [in, out]: our columns, some at a time, are its rows. */
static status give_turned(const written_tensors *all, const written_tensor *t, tensor_sink *sink,
                          alibi_error *error)
{
  enum { SOME = 256 }; /* whole blocks of every type */
  size_t columns = t->p->columns, exchanged = exchanged_channels(all);
  float *wide = NULL, *line = NULL;
  void *narrow = NULL;
  status result;
  TRY(memory_new(&wide, t->rows * SOME, sizeof *wide, "columns of a weight", error));
  TRY(memory_new(&line, t->rows, sizeof *line, "a column of a weight", error));
  TRY(memory_new(&narrow, t->rows, weight_block_bytes(t->type), "a column of a weight", error));
  for (size_t from = 0; from < columns; from += SOME) {
    size_t n = columns - from < SOME ? columns - from : SOME;
    for (size_t r = 0; r < t->rows; r++)
      read_row(all, t, source_row(all, t, exchanged, r), from, n, wide + r * SOME);
    for (size_t c = 0; c < n; c++) {
      for (size_t r = 0; r < t->rows; r++) line[r] = wide[r * SOME + c];
      TRY(writing_narrow(all->writing, sink, t->type, t->rows, line, narrow, error));
    }
  }
done:
  memory_free(narrow);
  memory_free(line);
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

static bool is_turned(const written_tensor *t)
{
  return t->layout == LAYOUT_TURNED && !t->p->vector;
}

static status give(void *state, size_t index, tensor_sink *sink, alibi_error *error)
{
  const written_tensors *all = state;
  const written_tensor *t = &all->items[index];
  if (!t->p) return tensor_sink_write(sink, t->numbers, all->list[index].bytes, error);
  if (all->sketch) return give_hole(sink, error);
  status result = is_turned(t) ? give_turned(all, t, sink, error) : give_rows(all, t, sink, error);
  if (t->first + t->rows == t->p->rows) writing_forget(&t->w);
  return result;
}

tensor_source written_source(written_tensors *all)
{
  return (tensor_source){.give = give, .state = all, .passing = all->sketch};
}

/* ---- the list ---- */

/* Where a family divides the rows of its output weight by their length, its reader does it again. */
static void take_unscaled(written_tensor *t)
{
  t->part = t->w.parts[0];
  t->part.row_scales = NULL;
  t->w.parts = &t->part;
}

/* Does the type hold all numbers of a parameter that the model keeps for itself? */
static bool is_exact(const alibi_model *model, const parameter *p, weight_type type)
{
  enum { SOME = 256 };
  unsigned char narrow[SOME * sizeof(float)];
  float back[SOME];
  const float *values = model->values + p->offset;
  if (type == WEIGHT_F32) return true;
  for (size_t i = 0, n = p->rows * p->columns, some; i < n; i += some) {
    some = n - i < SOME ? n - i : SOME;
    weight_narrow(type, some, values + i, narrow);
    weight_widen(type, some, narrow, back);
    if (memcmp(back, values + i, some * sizeof *back) != 0) return false;
  }
  return true;
}

/* Of the rows of a tensor; of several types the one that holds all their numbers. */
static weight_type stored_type(const written_tensor *t)
{
  weight_type type = WEIGHT_TYPES;
  size_t row = 0;
  for (size_t i = 0; i < t->w.part_count; row += t->w.parts[i++].rows) {
    const matrix_part *part = &t->w.parts[i];
    if (row + part->rows <= t->first || row >= t->first + t->rows) continue;
    type = type == WEIGHT_TYPES || type == part->type ? part->type : WEIGHT_F32;
  }
  return type == WEIGHT_TYPES ? WEIGHT_F32 : type;
}

static weight_type type_of(const written_tensors *all, const written_tensor *t)
{
  weight_type stored = stored_type(t);
  if (t->p->placeable) return written_type_for(all->type, stored, t->p->columns);
  return is_exact(all->model, t->p, all->vectors) ? all->vectors : WEIGHT_F32;
}

static void add_rows(written_tensors *all, const parameter *p, const char *name, tensor_layout layout,
                     size_t first, size_t rows)
{
  written_tensor *t = &all->items[all->count];
  file_tensor *listed = &all->list[all->count++];
  *t = (written_tensor){.p = p, .first = first, .rows = rows, .layout = layout};
  memcpy(t->name, name, sizeof t->name);
  if (p->placeable && all->model->placed) {
    t->w = all->model->placed[p->slot];
    if (strcmp(p->name, "output.weight") == 0) take_unscaled(t);
  }
  t->type = type_of(all, t);
  *listed = (file_tensor){
      .name = t->name, .type = tensor_type_of_weight(t->type), .dimensions = p->vector ? 1 : 2, .shape = {rows}};
  if (!p->vector) listed->shape[1] = p->columns;
  if (is_turned(t)) listed->shape[0] = p->columns, listed->shape[1] = rows;
  listed->bytes = rows * p->columns / weight_block_elements(t->type) * weight_block_bytes(t->type);
}

/* A gate that lies apart is one of those names. */
static bool fits_gates(const written_tensors *all, const tensor_rule *rule)
{
  bool gated = op_activation_parts(model_config_activation(&all->model->config)) == 2;
  return gated || !rule->theirs[1] || strcmp(rule->ours, "blocks.*.feed_forward.input") != 0;
}

/* Rows of part i of n, in their order. */
static size_t rows_of(const alibi_model_config *c, const parameter *p, size_t i, size_t n)
{
  size_t d = (size_t)c->head_size, kv_heads = (size_t)c->kv_heads * d;
  if (n == 1 || !strstr(p->name, ".attention.qkv.")) return p->rows / n;
  if (i == 0) return (size_t)c->heads * d;
  return n == 3 ? kv_heads : 2 * kv_heads;
}

static void add_by_rule(written_tensors *all, const parameter *p, const tensor_rule *rule, const char *prefix,
                        const char *block, const char *last)
{
  const family_opening names = {.prefix = prefix};
  char name[FAMILY_NAME_SIZE];
  size_t parts = 0, first = 0;
  while (parts < TENSOR_RULE_PARTS && rule->theirs[parts]) parts++;
  for (size_t i = 0; i < parts; i++) {
    size_t rows = rows_of(&all->model->config, p, i, parts);
    family_tensor_name(&names, rule->theirs[i], block, last, name);
    add_rows(all, p, name, rule->layout, first, rows);
    first += rows;
  }
}

static const tensor_rule *rule_for(const written_tensors *all, const parameter *p, const written_names *names,
                                   char block[FAMILY_BLOCK_SIZE], const char **last)
{
  for (size_t t = 0; t < 2; t++)
    for (const tensor_rule *rule = names->tables[t]; rule && rule->ours; rule++) {
      if (!family_rule_is_for(rule->ours, p->name, block, last) || !fits_gates(all, rule)) continue;
      if (!names->fits || names->fits(names->form, rule, &all->model->config)) return rule;
    }
  return NULL;
}

status written_add_all(written_tensors *all, const written_names *names, alibi_error *error)
{
  for (size_t i = 0; i < all->model->list.count; i++) {
    const parameter *p = &all->model->list.items[i];
    char block[FAMILY_BLOCK_SIZE];
    const char *last;
    const tensor_rule *rule = rule_for(all, p, names, block, &last);
    if (!rule)
      return fail(error, ALIBI_INVALID, "%s: expected a name for the parameter '%s', found none", names->what,
                  p->name);
    add_by_rule(all, p, rule, names->prefix, block, last);
  }
  return ALIBI_OK;
}

void written_add_numbers(written_tensors *all, const char *name, const float *numbers, size_t count)
{
  written_tensor *t = &all->items[all->count];
  *t = (written_tensor){.numbers = numbers, .type = WEIGHT_F32, .rows = count};
  snprintf(t->name, sizeof t->name, "%s", name);
  all->list[all->count++] = (file_tensor){
      .name = t->name, .type = TENSOR_F32, .dimensions = 1, .shape = {count}, .bytes = count * sizeof *numbers};
}
