/* Where each parameter lies.  First every parameter finds its tensors, whose shapes and types are checked against
 * the configuration before any memory is asked for, since a damaged file can claim any size; and every tensor has
 * to be somebody's.  Then weights are placed: a weight becomes a list of parts, rows of the mapped file in their
 * own type, whatever the order in which a family stores them.  Only norms, biases and position tables are copied,
 * as fp32. */
#include "model/families/family_tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/weight_plain.h"

/* A parameter and what holds it. */
typedef struct placement {
  const parameter *p;
  const file_tensor *tensors[TENSOR_RULE_PARTS];
  size_t count;
  tensor_layout layout;
} placement;

void family_tensor_name(const family_opening *o, const char *theirs, const char *block, const char *last,
                        char full[FAMILY_NAME_SIZE])
{
  size_t used = 0;
  bool top = theirs[0] == '/';
  const char *ending = "";
  if (last) ending = strcmp(last, "bias") == 0 || strcmp(last, "shift") == 0 ? ".bias" : ".weight";
  int begun = snprintf(full, FAMILY_NAME_SIZE, "%s", top ? "" : o->prefix);
  used = (size_t)begun;
  for (const char *c = theirs + top; *c && used + 24 < FAMILY_NAME_SIZE; c++)
    if (*c == '*') used += (size_t)snprintf(full + used, FAMILY_NAME_SIZE - used, "%s", block);
    else full[used++] = *c;
  snprintf(full + used, FAMILY_NAME_SIZE - used, "%s", ending);
}

/* Is it our parameter's name, or all of it but the last word?  *last: that word, NULL where the rule has it too.
 */
bool family_rule_is_for(const char *ours, const char *name, char block[FAMILY_BLOCK_SIZE], const char **last)
{
  block[0] = '\0';
  for (; *ours; ours++) {
    if (*ours != '*') {
      if (*ours != *name++) return false;
      continue;
    }
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits >= FAMILY_BLOCK_SIZE) return false;
    snprintf(block, FAMILY_BLOCK_SIZE, "%.*s", (int)digits, name);
    name += digits;
  }
  *last = *name == '.' ? name + 1 : NULL;
  return *name == '\0' || (*name == '.' && !strchr(name + 1, '.'));
}

/* Fills in what the rule says; true where all of it is in the file. */
static bool follow(const family_opening *o, const tensor_rule *rule, const char *block, const char *last,
                   placement *place)
{
  bool all = true;
  place->layout = rule->layout;
  for (place->count = 0; place->count < TENSOR_RULE_PARTS && rule->theirs[place->count]; place->count++) {
    char full[FAMILY_NAME_SIZE];
    family_tensor_name(o, rule->theirs[place->count], block, last, full);
    place->tensors[place->count] = tensor_file_find(o->file, full);
    if (!place->tensors[place->count]) all = false;
  }
  return all;
}

static status missing(const family_opening *o, const tensor_rule *rule, const char *block, const char *last,
                      const placement *place, alibi_error *error)
{
  char full[FAMILY_NAME_SIZE];
  size_t i = 0;
  while (i + 1 < place->count && place->tensors[i]) i++;
  family_tensor_name(o, rule->theirs[i], block, last, full);
  return fail(error, ALIBI_BAD_INPUT, "%s: expected a tensor '%s' (%s), found none", tensor_file_path(o->file, 0),
              full, place->p->name);
}

/* A gate that lies apart, of a feed-forward part that has none. */
static bool is_of_gates(const alibi_model_config *config, const tensor_rule *rule)
{
  return rule->theirs[1] && strcmp(rule->ours, "blocks.*.feed_forward.input") == 0 &&
         op_activation_parts(model_config_activation(config)) == 1;
}

/* Of two norms of attention's output the first one's tensor, by the name that it has where there is but one. */
static bool is_of_inner_norm(const alibi_model_config *config, const tensor_rule *rule)
{
  return config->attention_output_norm && strcmp(rule->ours, "blocks.*.attention_norm") == 0 &&
         strstr(rule->theirs[0], "output");
}

static status find_tensors(const family_opening *o, const alibi_model_config *config, const parameter *p,
                           placement *place, alibi_error *error)
{
  static const tensor_rule none[] = {{.ours = NULL}};
  const tensor_rule *tables[2] = {o->gguf ? o->family->gguf_rules : o->family->rules,
                                  o->gguf ? family_gguf_rules : none};
  const tensor_rule *first = NULL;
  char block[FAMILY_BLOCK_SIZE], first_block[FAMILY_BLOCK_SIZE] = "";
  const char *last, *first_last = NULL;
  placement first_place = {0};
  *place = (placement){.p = p};
  for (size_t t = 0; t < 2; t++)
    for (const tensor_rule *rule = tables[t] ? tables[t] : none; rule->ours; rule++) {
      if (!family_rule_is_for(rule->ours, p->name, block, &last) || is_of_gates(config, rule)) continue;
      if (is_of_inner_norm(config, rule)) continue;
      if (follow(o, rule, block, last, place)) return ALIBI_OK;
      if (first) continue;
      first = rule, first_last = last, first_place = *place;
      memcpy(first_block, block, sizeof block);
    }
  if (first) return missing(o, first, first_block, first_last, &first_place, error);
  return fail(error, ALIBI_FAILED, "family '%s': expected a rule for the parameter '%s', found none",
              o->family->name, p->name);
}

/* ---- shapes and types ---- */

static bool is_float(weight_type type)
{
  return type == WEIGHT_F32 || type == WEIGHT_F16 || type == WEIGHT_BF16;
}

static status check_type(const family_opening *o, const placement *place, const file_tensor *t, alibi_error *error)
{
  weight_type type;
  bool known = tensor_type_weight(t->type, &type);
  bool whole_rows = place->p->placeable ? place->layout != LAYOUT_TURNED : !place->p->vector;
  if (known && (is_float(type) || whole_rows)) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected one of the types F32, F16, BF16%s, found %s",
              tensor_file_path_of(o->file, t), t->name,
              whole_rows ? ", Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K" : "", tensor_type_name(t->type));
}

/* Rows of part i of the parameter's rows in file order. */
static size_t rows_of_part(const alibi_model_config *c, const placement *place, size_t i)
{
  size_t d = (size_t)c->head_size, keys = (size_t)c->kv_heads * d;
  if (place->count == 1) return place->p->rows;
  if (!strstr(place->p->name, "attention.qkv.")) return place->p->rows / place->count;
  if (i == 0) return (size_t)c->heads * d;
  return place->count == 3 ? keys : 2 * keys;
}

static status check_shape(const family_opening *o, const alibi_model_config *config, const placement *place,
                          size_t i, alibi_error *error)
{
  const file_tensor *t = place->tensors[i];
  const parameter *p = place->p;
  size_t rows = rows_of_part(config, place, i), columns = p->columns, found[2] = {0};
  const char *path = tensor_file_path_of(o->file, t);
  bool table = place->layout == LAYOUT_FIRST_ROW, turned = place->layout == LAYOUT_TURNED && !p->vector;
  int dimensions = p->vector && !table ? 1 : 2;
  for (int d = 0; d < t->dimensions && d < 2; d++) found[d] = t->shape[d];
  if (t->dimensions != dimensions)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %d dimension%s, found %d", path, t->name,
                dimensions, dimensions == 1 ? "" : "s", t->dimensions);
  if (table) {
    if (found[0] >= 1 && found[1] == rows) return ALIBI_OK;
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected rows of %zu numbers, found shape [%zu, %zu]",
                path, t->name, rows, found[0], found[1]);
  }
  if (dimensions == 1 && found[0] != rows)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected shape [%zu], found [%zu]", path, t->name, rows,
                found[0]);
  if (dimensions == 2 && (found[turned] != rows || found[!turned] != columns))
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected shape [%zu, %zu], found [%zu, %zu]", path,
                t->name, turned ? columns : rows, turned ? rows : columns, found[0], found[1]);
  return ALIBI_OK;
}

static int by_address(const void *a, const void *b)
{
  const file_tensor *const *first = a, *const *second = b;
  return (*first > *second) - (*first < *second);
}

static bool is_ignored(const family_opening *o, const file_tensor *t)
{
  char full[FAMILY_NAME_SIZE];
  if (t == o->spare_head) return true;
  for (const char *const *name = o->family->ignored; name && *name; name++) {
    family_tensor_name(o, *name, "*", NULL, full);
    if (keys_match(full, t->name)) return true;
  }
  return false;
}

/* Every tensor has its place, or is known to change nothing. */
static status check_left_over(const family_opening *o, const placement *places, size_t count, alibi_error *error)
{
  const file_tensor **used = NULL;
  size_t n = 0;
  status result;
  TRY(memory_new(&used, count * TENSOR_RULE_PARTS, sizeof(const file_tensor *), "the list of tensors", error));
  for (size_t i = 0; i < count; i++)
    for (size_t t = 0; t < places[i].count; t++) used[n++] = places[i].tensors[t];
  qsort(used, n, sizeof *used, by_address);
  for (size_t i = 0; i < tensor_file_count(o->file); i++) {
    const file_tensor *t = tensor_file_at(o->file, i);
    if (bsearch(&t, used, n, sizeof *used, by_address)) continue;
    if (!is_ignored(o, t))
      RAISE(error, ALIBI_BAD_INPUT,
            "%s: tensor '%s': expected no such tensor in a model of the family '%s' with this configuration",
            tensor_file_path_of(o->file, t), t->name, o->family->name);
    if (t != o->spare_head && t != o->divisors)
      family_note(o->notes, "tensor '%s': not read, it changes no number", t->name);
  }
done:
  memory_free(used);
  return result;
}

static status find_all(const family_opening *o, const alibi_model_config *config, const parameter_list *list,
                       placement *places, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < list->count; i++) {
    placement *place = &places[i];
    TRY(find_tensors(o, config, &list->items[i], place, error));
    if (strcmp(place->p->name, "output.weight") == 0 && o->head != LAYOUT_ROWS) place->layout = o->head;
    for (size_t t = 0; t < place->count; t++) {
      TRY(check_type(o, place, place->tensors[t], error));
      TRY(check_shape(o, config, place, t, error));
    }
  }
  TRY(check_left_over(o, places, list->count, error));
done:
  return result;
}

/* ---- parts ---- */

static size_t bytes_of(weight_type type, size_t elements)
{
  return elements / weight_block_elements(type) * weight_block_bytes(type);
}

static matrix_part part_of(const file_tensor *t, weight_type type, size_t rows, size_t first, size_t row_bytes)
{
  return (matrix_part){
      .type = type, .rows = rows, .data = (const char *)t->data + first * row_bytes, .row_bytes = row_bytes};
}

/* Queries, keys and values, of every key-value head one after the other. */
static size_t parts_of_groups(const alibi_model_config *c, const file_tensor *t, weight_type type,
                              size_t row_bytes, matrix_part *parts)
{
  size_t d = (size_t)c->head_size, groups = (size_t)c->kv_heads, queries = (size_t)(c->heads / c->kv_heads) * d;
  size_t sizes[3] = {queries, d, d}, first = 0;
  for (size_t i = 0; i < 3; i++) {
    parts[i] = part_of(t, type, groups * sizes[i], first, row_bytes);
    parts[i].group = sizes[i];
    parts[i].group_bytes = (queries + 2 * d) * row_bytes;
    first += sizes[i];
  }
  return 3;
}

/* The rows of a placement, in the order of ours. */
static size_t parts_of(const alibi_model_config *config, const placement *place, matrix_part *parts)
{
  const parameter *p = place->p;
  const file_tensor *t = place->tensors[0];
  weight_type type = WEIGHT_F32;
  tensor_type_weight(t->type, &type);
  size_t columns = p->vector ? 1 : p->columns, row_bytes = bytes_of(type, columns), half = p->rows / 2;
  switch (place->layout) {
  case LAYOUT_GROUPS: return parts_of_groups(config, t, type, row_bytes, parts);
  case LAYOUT_SWAPPED:
    parts[0] = part_of(t, type, half, half, row_bytes);
    parts[1] = part_of(t, type, half, 0, row_bytes);
    return 2;
  case LAYOUT_TURNED:
  case LAYOUT_ROWS:
  case LAYOUT_NORMALISED:
  case LAYOUT_FIRST_ROW: break;
  }
  for (size_t i = 0; i < place->count; i++) {
    size_t rows = rows_of_part(config, place, i);
    bool turned = place->layout == LAYOUT_TURNED && !p->vector;
    tensor_type_weight(place->tensors[i]->type, &type);
    parts[i] = part_of(place->tensors[i], type, rows, 0, bytes_of(type, turned ? rows : columns));
    parts[i].turned = turned;
  }
  return place->count;
}

/* One over the length of every row, as torch's normalize has it: a length below 1e-12 counts as that. */
static status row_scales(const alibi_context *context, const matrix_part *part, size_t columns, float **scales,
                         alibi_error *error)
{
  float *row = NULL;
  status result;
  TRY(memory_new(scales, part->rows, sizeof **scales, "scales of rows", error));
  TRY(memory_new(&row, columns, sizeof *row, "a row", error));
  for (size_t r = 0; r < part->rows; r++) {
    double sum = 0;
    context->kernel->widen(part->type, columns, (const char *)part->data + r * part->row_bytes, row);
    for (size_t c = 0; c < columns; c++) sum += (double)row[c] * row[c];
    double length = sqrt(sum);
    (*scales)[r] = (float)(1 / (length > 1e-12 ? length : 1e-12));
  }
done:
  memory_free(row);
  return result;
}

/* The number of its block, of a parameter of queries, keys and values whose queries have to be divided. */
static bool divides_queries(const family_opening *o, const parameter *p, double *divisor)
{
  unsigned block;
  if (!o->scale_by_layer || !strstr(p->name, ".attention.qkv.") || sscanf(p->name, "blocks.%u.", &block) != 1)
    return false;
  *divisor = block + 1.0;
  return true;
}

/* Queries divided: the scores are.  They lie in the first part. */
static status query_scales(const alibi_model_config *config, const matrix_part *part, double divisor,
                           float **scales, alibi_error *error)
{
  status result = memory_new(scales, part->rows, sizeof **scales, "scales of rows", error);
  size_t queries = (size_t)(config->heads * config->head_size);
  for (size_t r = 0; result == ALIBI_OK && r < part->rows; r++)
    (*scales)[r] = r < queries ? (float)(1 / divisor) : 1;
  return result;
}

static status place_weight(const family_opening *o, alibi_model *model, const placement *place, alibi_error *error)
{
  matrix_part parts[TENSOR_RULE_PARTS];
  size_t count = parts_of(&model->config, place, parts);
  float *scales = NULL;
  double divisor;
  status result;
  if (place->layout == LAYOUT_NORMALISED)
    TRY(row_scales(model->context, &parts[0], place->p->columns, &scales, error));
  if (divides_queries(o, place->p, &divisor))
    TRY(query_scales(&model->config, &parts[0], divisor, &scales, error));
  parts[0].row_scales = scales;
  TRY(model_place(model, place->p, parts, count, error));
done:
  memory_free(scales);
  return result;
}

/* All of a parameter that the model keeps for itself. */
static status copy(const family_opening *o, alibi_model *model, const placement *place, alibi_error *error)
{
  matrix_part parts[TENSOR_RULE_PARTS];
  const parameter *p = place->p;
  size_t count = parts_of(&model->config, place, parts), columns = p->vector ? 1 : p->columns;
  float *values = model->values + p->offset, *out = values;
  double divisor;
  for (size_t i = 0; i < count; i++) {
    size_t rows = parts[i].group ? parts[i].group : parts[i].rows;
    for (size_t done = 0, g = 0; done < parts[i].rows; done += rows, g++, out += rows * columns)
      model->context->kernel->widen(parts[i].type, rows * columns,
                                    (const char *)parts[i].data + g * parts[i].group_bytes, out);
  }
  if (divides_queries(o, p, &divisor))
    for (int64_t e = 0; e < model->config.heads * model->config.head_size; e++)
      values[e] = (float)(values[e] / divisor);
  for (size_t e = 0; e < p->rows * columns; e++)
    if (!isfinite(values[e]))
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected finite numbers, found %g",
                  tensor_file_path_of(o->file, place->tensors[0]), place->tensors[0]->name, (double)values[e]);
  return ALIBI_OK;
}

bool family_widen_small(const file_tensor *t, float *out)
{
  weight_type type;
  if (!tensor_type_weight(t->type, &type) || !is_float(type)) return false;
  weight_widen(type, t->bytes / weight_block_bytes(type), t->data, out);
  return true;
}

status family_load(family_opening *o, alibi_context *context, const alibi_model_config *config, alibi_model **out,
                   alibi_error *error)
{
  parameter_list list = {0};
  placement *places = NULL;
  alibi_model *model = NULL;
  status result;
  *out = NULL;
  TRY(parameter_list_new_placed(config, &list, error));
  TRY(memory_new(&places, list.count, sizeof *places, "places of parameters", error));
  TRY(find_all(o, config, &list, places, error));
  TRY(model_allocate_placed(context, config, &model, error));
  for (size_t i = 0; i < list.count; i++) {
    places[i].p = &model->list.items[i];
    TRY(places[i].p->placeable ? place_weight(o, model, &places[i], error) : copy(o, model, &places[i], error));
  }
  TRY(model_check_placed(model, error));
  *out = model;
  model = NULL;
done:
  alibi_model_free(model);
  memory_free(places);
  parameter_list_free(&list);
  return result;
}
