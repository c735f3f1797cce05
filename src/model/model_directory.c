/* A model on disk: config.json and model.safetensors in a directory.  The weights are written first and the
 * configuration last, so a directory with a configuration has weights; the weights carry a copy of the
 * configuration they were saved with, so a pair that does not belong together is found. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/safetensors.h"
#include "model/model.h"
#include "model/tensor_writing.h"

#define WEIGHTS_FILE "model.safetensors"
#define CONFIG_KEY "config" /* in the metadata of the weights */

static status join(const char *directory, const char *name, char **path, alibi_error *error)
{
  *path = path_join(directory, name);
  return *path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the path of %s", name);
}

static file_tensor tensor_of(const parameter *p)
{
  file_tensor t = {.name = p->name,
                   .type = TENSOR_F32,
                   .dimensions = p->vector ? 1 : 2,
                   .shape = {p->rows, p->columns},
                   .bytes = parameter_elements(p) * sizeof(float)};
  if (p->vector) t.shape[1] = 0;
  return t;
}

typedef struct saving {
  const alibi_model *model;
  tensor_writing *writing; /* or NULL */
} saving;

static status put(const saving *s, tensor_sink *sink, const float *values, size_t count, alibi_error *error)
{
  size_t bytes = count * sizeof *values;
  return s->writing ? writing_put(s->writing, sink, values, bytes, error)
                    : tensor_sink_write(sink, values, bytes, error);
}

/* Parameter `index` to its tensor: where it lies elsewhere in another type, some rows at a time. */
static status give_parameter(void *state, size_t index, tensor_sink *sink, alibi_error *error)
{
  enum { SOME = 1 << 18 };
  const saving *s = state;
  const alibi_model *model = s->model;
  const parameter *p = &model->list.items[index];
  size_t rows = p->columns < SOME ? SOME / p->columns : 1;
  float *some = NULL;
  status result;
  if (!(model_is_placed(model) && p->placeable))
    return put(s, sink, model->values + p->offset, parameter_elements(p), error);
  TRY(memory_new(&some, size_mul(rows, p->columns), sizeof *some, "rows of a weight", error));
  for (size_t r = 0; r < p->rows; r += rows) {
    size_t n = p->rows - r < rows ? p->rows - r : rows;
    model_read_rows(model, p, r, n, some);
    TRY(put(s, sink, some, n * p->columns, error));
  }
  if (s->writing) writing_forget(&model->placed[p->slot]);
done:
  memory_free(some);
  return result;
}

status model_save_by(const alibi_model *model, const char *directory, tensor_writing *writing, alibi_error *error)
{
  char *config_path = NULL, *weights_path = NULL, *config_text = NULL;
  file_tensor *tensors = NULL;
  json_node *node = NULL;
  status result;
  TRY(model_check_placed(model, error));
  TRY(directory_make(directory, error));
  TRY(join(directory, MODEL_CONFIG_FILE, &config_path, error));
  TRY(join(directory, WEIGHTS_FILE, &weights_path, error));
  TRY(memory_new(&tensors, model->list.count, sizeof *tensors, "the list of tensors", error));
  for (size_t i = 0; i < model->list.count; i++) tensors[i] = tensor_of(&model->list.items[i]);
  node = model_config_node(&model->config);
  config_text = node_to_text(node);
  if (!config_text) RAISE(error, ALIBI_FAILED, "not enough memory for the text of %s", MODEL_CONFIG_FILE);
  const char *metadata[] = {"format", "alibi-decoder", CONFIG_KEY, config_text, NULL};
  for (size_t i = 0; writing && i < model->list.count; i++) writing->total += (int64_t)tensors[i].bytes;
  const tensor_source source = {.give = give_parameter, .state = &(saving){model, writing}};
  TRY(safetensors_write_from(weights_path, tensors, model->list.count, metadata, &source, error));
  TRY(node_write_file(node, config_path, error));
done:
  node_free(node);
  free(config_text);
  memory_free(tensors);
  free(weights_path);
  free(config_path);
  return result;
}

alibi_status alibi_model_save(const alibi_model *model, const char *directory, alibi_error *error)
{
  return model_save_by(model, directory, NULL, error);
}

static status check_tensor(const safetensors_file *file, const char *path, const parameter *p, alibi_error *error)
{
  const file_tensor *t = safetensors_find(file, p->name);
  if (!t) return fail(error, ALIBI_BAD_INPUT, "%s: expected a tensor '%s', found none", path, p->name);
  if (t->type != TENSOR_F32)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected type F32, found another", path, p->name);
  size_t found = t->dimensions > 0 ? t->shape[0] : 0, other = t->dimensions > 1 ? t->shape[1] : 1;
  if (t->dimensions != (p->vector ? 1 : 2))
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %d dimensions, found %d", path, p->name,
                p->vector ? 1 : 2, (int)t->dimensions);
  if (found != p->rows || other != p->columns)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected shape [%zu, %zu], found [%zu, %zu]", path,
                p->name, p->rows, p->columns, found, other);
  return ALIBI_OK;
}

/* A number that is none may hide behind a maximum, and come out as a plausible figure. */
static status check_finite(const char *path, const parameter *p, const float *values, alibi_error *error)
{
  for (size_t i = 0; i < parameter_elements(p); i++)
    if (!isfinite(values[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected finite numbers, found %g at element %zu",
                  path, p->name, (double)values[i], i);
  return ALIBI_OK;
}

/* The tensors are those of the configuration, each of its type and shape.  Before any memory is asked for: a
 * damaged configuration can claim any size. */
static status check_tensors(const safetensors_file *file, const char *path, const alibi_model_config *config,
                            alibi_error *error)
{
  parameter_list list;
  status result;
  TRY(parameter_list_new(config, &list, error));
  for (size_t i = 0; i < list.count; i++) TRY(check_tensor(file, path, &list.items[i], error));
  for (size_t i = 0; i < safetensors_count(file); i++)
    if (!parameter_find(&list, safetensors_at(file, i)->name))
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected no such tensor in a model of this configuration",
            path, safetensors_at(file, i)->name);
done:
  parameter_list_free(&list);
  return result;
}

/* The first key of a whose value is another in b; NULL where there is none. */
static const char *first_difference(const json_node *a, const json_node *b)
{
  for (size_t i = 0; i < node_count(a); i++) {
    const char *key;
    const json_node *member = node_member(a, i, &key), *other = node_get(b, key);
    char *mine = node_to_text(member), *theirs = other ? node_to_text(other) : NULL;
    bool same = mine && theirs && strcmp(mine, theirs) == 0;
    free(mine);
    free(theirs);
    if (!same) return key;
  }
  return NULL;
}

/* A save that was cut short between its two files leaves new weights beside an old configuration, and methods
 * without parameters have the same tensors.  Both configurations are compared as they are understood, not as they
 * are written. */
static status check_written_with(const safetensors_file *file, const char *weights_path, const char *config_path,
                                 const alibi_model_config *config, alibi_error *error)
{
  const char *text = safetensors_metadata(file, CONFIG_KEY);
  json_node *parsed = NULL, *theirs = NULL, *ours = NULL;
  alibi_model_config written;
  status result;
  if (!text) return ALIBI_OK;
  TRY(node_parse(text, strlen(text), weights_path, &parsed, error));
  TRY(model_config_read(parsed, weights_path, &written, error));
  theirs = model_config_node(&written);
  ours = model_config_node(config);
  const char *key = first_difference(ours, theirs);
  if (!key) key = first_difference(theirs, ours); /* what is at its initial value is not written */
  if (key)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the configuration that %s was saved with, found another '%s'",
          config_path, weights_path, key);
done:
  node_free(ours);
  node_free(theirs);
  node_free(parsed);
  return result;
}

status model_open_directory(alibi_context *context, const char *directory, const json_node *node,
                            alibi_model **model, alibi_error *error)
{
  char *config_path = NULL, *weights_path = NULL;
  safetensors_file *file = NULL;
  alibi_model_config config;
  status result;
  *model = NULL;
  TRY(join(directory, MODEL_CONFIG_FILE, &config_path, error));
  TRY(join(directory, WEIGHTS_FILE, &weights_path, error));
  TRY(model_config_read(node, config_path, &config, error));
  TRY(safetensors_open(weights_path, &file, error));
  TRY(check_tensors(file, weights_path, &config, error));
  TRY(check_written_with(file, weights_path, config_path, &config, error));
  TRY(model_allocate(context, &config, model, error));
  for (size_t i = 0; i < (*model)->list.count; i++) {
    const parameter *p = &(*model)->list.items[i];
    memcpy((*model)->values + p->offset, safetensors_find(file, p->name)->data,
           parameter_elements(p) * sizeof(float));
    TRY(check_finite(weights_path, p, (*model)->values + p->offset, error));
  }
done:
  if (result != ALIBI_OK) {
    alibi_model_free(*model);
    *model = NULL;
  }
  safetensors_close(file);
  free(weights_path);
  free(config_path);
  return result;
}
