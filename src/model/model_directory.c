/* A model on disk: config.json and model.safetensors in a directory.  The weights are written first and the configuration
 * last, so a directory with a configuration is complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/safetensors.h"
#include "model/model.h"

#define CONFIG_FILE "config.json"
#define WEIGHTS_FILE "model.safetensors"

static status join(const char *directory, const char *name, char **path, alibi_error *error)
{
  *path = path_join(directory, name);
  return *path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the path of %s", name);
}

static file_tensor tensor_of(const parameter *p, const float *values)
{
  file_tensor t = {.name = p->name, .type = TENSOR_F32, .dimensions = p->vector ? 1 : 2, .shape = {p->rows, p->columns},
                   .data = values + p->offset, .bytes = parameter_elements(p) * sizeof *values};
  if (p->vector) t.shape[1] = 0;
  return t;
}

status alibi_model_save(const alibi_model *model, const char *directory, alibi_error *error)
{
  char *config_path = NULL, *weights_path = NULL;
  file_tensor *tensors = NULL;
  json_node *node = NULL;
  status result;
  TRY(directory_make(directory, error));
  TRY(join(directory, CONFIG_FILE, &config_path, error));
  TRY(join(directory, WEIGHTS_FILE, &weights_path, error));
  TRY(memory_new(&tensors, model->list.count, sizeof *tensors, "the list of tensors", error));
  for (size_t i = 0; i < model->list.count; i++) tensors[i] = tensor_of(&model->list.items[i], model->values);
  const char *metadata[] = {"format", "alibi-decoder", NULL};
  TRY(safetensors_write(weights_path, tensors, model->list.count, metadata, error));
  node = model_config_node(&model->config);
  TRY(node_write_file(node, config_path, error));
done:
  node_free(node);
  memory_free(tensors);
  free(weights_path);
  free(config_path);
  return result;
}

static status check_tensor(const safetensors_file *file, const char *path, const parameter *p, alibi_error *error)
{
  const file_tensor *t = safetensors_find(file, p->name);
  if (!t) return fail(error, ALIBI_BAD_INPUT, "%s: expected a tensor '%s', found none", path, p->name);
  if (t->type != TENSOR_F32)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected type F32, found another", path, p->name);
  size_t found = t->dimensions > 0 ? t->shape[0] : 0, other = t->dimensions > 1 ? t->shape[1] : 1;
  if (t->dimensions != (p->vector ? 1 : 2) || found != p->rows || other != p->columns)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected shape [%zu, %zu], found [%zu, %zu] in %d dimensions", path,
                p->name, p->rows, p->columns, found, other, t->dimensions);
  return ALIBI_OK;
}

/* The tensors are those of the configuration, each of its type and shape.  Before any memory is asked for: a damaged configuration
 * can claim any size. */
static status check_tensors(const safetensors_file *file, const char *path, const alibi_model_config *config, alibi_error *error)
{
  parameter_list list;
  status result;
  TRY(parameter_list_new(config, &list, error));
  for (size_t i = 0; i < list.count; i++) TRY(check_tensor(file, path, &list.items[i], error));
  for (size_t i = 0; i < safetensors_count(file); i++)
    if (!parameter_find(&list, safetensors_at(file, i)->name))
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected no such tensor in a model of this configuration", path,
            safetensors_at(file, i)->name);
done:
  parameter_list_free(&list);
  return result;
}

status alibi_model_open(alibi_context *context, const char *directory, alibi_model **model, alibi_error *error)
{
  char *config_path = NULL, *weights_path = NULL;
  json_node *node = NULL;
  safetensors_file *file = NULL;
  alibi_model_config config;
  status result;
  *model = NULL;
  TRY(join(directory, CONFIG_FILE, &config_path, error));
  TRY(join(directory, WEIGHTS_FILE, &weights_path, error));
  if (!path_is_directory(directory))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the directory of a model (with %s and %s)", directory, CONFIG_FILE, WEIGHTS_FILE);
  TRY(node_read_file(config_path, &node, error));
  TRY(model_config_read(node, config_path, &config, error));
  TRY(safetensors_open(weights_path, &file, error));
  TRY(check_tensors(file, weights_path, &config, error));
  TRY(model_allocate(context, &config, model, error));
  for (size_t i = 0; i < (*model)->list.count; i++) {
    const parameter *p = &(*model)->list.items[i];
    memcpy((*model)->values + p->offset, safetensors_find(file, p->name)->data, parameter_elements(p) * sizeof(float));
  }
done:
  safetensors_close(file);
  node_free(node);
  free(weights_path);
  free(config_path);
  return result;
}
