/* Opening a model, whoever wrote it.  A configuration with our own format's name is ours; any other belongs to a
 * family by its model_type, and a GGUF file by its architecture.  Of a public model the weights stay in the file,
 * which the model then owns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/system.h"
#include "file/gguf.h"
#include "model/families/family.h"

/* What a public model keeps of its opening: model->file. */
typedef struct model_source {
  tensor_file *file;
  const model_family *family;
  family_notes notes;
} model_source;

static void close_source(void *memory)
{
  model_source *source = memory;
  if (!source) return;
  tensor_file_close(source->file);
  family_notes_free(&source->notes);
  memory_free(source);
}

static const model_source *source_of(const alibi_model *model)
{
  return model->close_file == close_source ? model->file : NULL;
}

const char *alibi_model_family(const alibi_model *model)
{
  return source_of(model) ? source_of(model)->family->name : "alibi";
}

size_t alibi_model_note_count(const alibi_model *model)
{
  return source_of(model) ? source_of(model)->notes.count : 0;
}

const char *alibi_model_note(const alibi_model *model, size_t index)
{
  return index < alibi_model_note_count(model) ? source_of(model)->notes.lines[index] : NULL;
}

void alibi_open_options_init(alibi_open_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

static status unknown_family(const char *path, bool gguf, const char *found, alibi_error *error)
{
  char known[512];
  model_family_types(gguf, known, sizeof known);
  return fail(error, ALIBI_BAD_INPUT, "%s: %s: expected a family that is known (%s), found '%s'", path,
              gguf ? "general.architecture" : "model_type", known, found);
}

/* The file's weights as a model, which owns the file then.  object: the configuration, at config_path. */
static status open_source(alibi_context *context, model_source **source, const json_node *object,
                          const char *config_path, const char *prefix, const alibi_open_options *options,
                          alibi_model **model, alibi_error *error)
{
  alibi_model_config config;
  family_opening o = {.family = (*source)->family,
                      .path = config_path,
                      .file = (*source)->file,
                      .gguf = *prefix != '\0',
                      .prefix = "",
                      .reference = options->numerics == ALIBI_NUMERICS_REFERENCE,
                      .notes = &(*source)->notes};
  status result;
  TRY(keys_new(object, config_path, prefix, options->ignore_config, o.notes, &o.keys, error));
  TRY(family_configure(&o, &config, error));
  TRY(family_load(&o, context, &config, model, error));
  (*model)->file = *source;
  (*model)->close_file = close_source;
  *source = NULL;
done:
  keys_free(o.keys);
  return result;
}

/* object: at config_path; it is read with a prefix where it is GGUF's. */
static status open_published(alibi_context *context, tensor_file **file, const model_family *family,
                             const json_node *object, const char *config_path, const char *prefix,
                             const alibi_open_options *options, alibi_model **model, alibi_error *error)
{
  model_source *source = NULL;
  status result;
  TRY(memory_new(&source, 1, sizeof *source, "what a model keeps of its file", error));
  source->family = family;
  source->file = *file;
  *file = NULL;
  TRY(open_source(context, &source, object, config_path, prefix, options, model, error));
done:
  close_source(source);
  return result;
}

/* Lists that were too long, or texts, to be among the scalars, but are of the architecture. */
static status check_arrays(const gguf_file *gguf, const char *prefix, const json_node *object, alibi_error *error)
{
  for (size_t i = 0; i < gguf_key_count(gguf); i++) {
    const gguf_key *key = gguf_key_at(gguf, i);
    if (key->is_array && strncmp(key->name, prefix, strlen(prefix)) == 0 && !node_get(object, key->name))
      return fail(error, ALIBI_BAD_INPUT, "%s: key '%s': expected one value, found a list of %zu of type %s",
                  gguf_path(gguf), key->name, key->count, gguf_type_name(key->type));
  }
  return ALIBI_OK;
}

static status open_gguf(alibi_context *context, tensor_file **file, const alibi_open_options *options,
                        alibi_model **model, alibi_error *error)
{
  const gguf_file *gguf = tensor_file_gguf(*file);
  const char *path = gguf_path(gguf);
  json_node *object = NULL;
  char prefix[128];
  status result;
  TRY(gguf_scalars(gguf, &object, error));
  const char *architecture = node_text(node_get(object, "general.architecture"), "");
  const model_family *family = model_family_of_gguf(architecture);
  if (!family) TRY(unknown_family(path, true, architecture, error));
  snprintf(prefix, sizeof prefix, "%s.", architecture);
  TRY(check_arrays(gguf, prefix, object, error));
  TRY(open_published(context, file, family, object, path, prefix, options, model, error));
done:
  node_free(object);
  return result;
}

static bool is_ours(const json_node *object)
{
  return node_get(object, "format") != NULL;
}

/* file: of a path that is no directory, the weights there. */
static status open_with_config(alibi_context *context, const char *path, const char *config_path,
                               tensor_file **file, const alibi_open_options *options, alibi_model **model,
                               alibi_error *error)
{
  json_node *object = NULL;
  status result;
  TRY(node_read_file(config_path, &object, error));
  if (!*file && !is_ours(object) && !node_get(object, "model_type"))
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: expected the model_type of a public model, or the format of one of ours, found neither",
          config_path);
  if (!*file && is_ours(object)) {
    if (options->ignore_config && options->ignore_config[0])
      RAISE(error, ALIBI_INVALID, "ignore_config: expected none for %s, a model of our own format, found '%s'",
            path, options->ignore_config[0]);
    TRY(model_open_directory(context, path, object, model, error));
    goto done;
  }
  const char *type = node_text(node_get(object, "model_type"), "");
  const model_family *family = model_family_of_type(type);
  if (!*file) result = tensor_file_open(path, file, error);
  if (*file && tensor_file_gguf(*file)) { /* which has its own configuration */
    TRY(open_gguf(context, file, options, model, error));
    goto done;
  }
  if (!family) TRY(unknown_family(config_path, false, type, error));
  if (result != ALIBI_OK) goto done;
  TRY(open_published(context, file, family, object, config_path, "", options, model, error));
done:
  node_free(object);
  return result;
}

status model_folder(const char *path, char **folder, alibi_error *error)
{
  const char *slash = strrchr(path, '/');
  size_t size = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  bool directory = path_is_directory(path);
  *folder = directory ? strdup(path) : size > 0 ? strndup(path, size) : strdup(".");
  return *folder ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the folder of %s", path);
}

/* A file with a model in it: GGUF has its own configuration. */
static status open_path(alibi_context *context, const char *path, const alibi_open_options *options,
                        alibi_model **model, alibi_error *error)
{
  bool directory = path_is_directory(path), has_config;
  tensor_file *file = NULL;
  char *folder = NULL, *config_path = NULL;
  status result;
  TRY(model_folder(path, &folder, error));
  config_path = path_join(folder, MODEL_CONFIG_FILE);
  if (!config_path) RAISE(error, ALIBI_FAILED, "not enough memory for the path of %s", MODEL_CONFIG_FILE);
  has_config = path_exists(config_path);
  if (directory && has_config) {
    TRY(open_with_config(context, path, config_path, &file, options, model, error));
    goto done;
  }
  if (!path_exists(path))
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: expected the directory of a model (with config.json and model.safetensors) or a GGUF file, found "
          "neither",
          path);
  TRY(tensor_file_open(path, &file, error));
  if (tensor_file_gguf(file)) {
    TRY(open_gguf(context, &file, options, model, error));
    goto done;
  }
  if (!has_config)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a %s beside these weights, found none", path, MODEL_CONFIG_FILE);
  TRY(open_with_config(context, path, config_path, &file, options, model, error));
done:
  tensor_file_close(file);
  free(config_path);
  free(folder);
  return result;
}

alibi_status alibi_model_open_with(alibi_context *context, const char *path, const alibi_open_options *options,
                                   alibi_model **model, alibi_error *error)
{
  alibi_open_options own;
  status result = ALIBI_OK;
  if (!model) return fail(error, ALIBI_INVALID, "alibi_model_open: expected a pointer for the model, found NULL");
  *model = NULL;
  if (!context || !path)
    RAISE(error, ALIBI_INVALID, "alibi_model_open: expected a context and a path, found NULL");
  alibi_open_options_init(&own);
  if (options) TRY(settings_take(options, &own, sizeof own, "alibi_open_options", error));
  if (own.numerics != ALIBI_NUMERICS_EXACT && own.numerics != ALIBI_NUMERICS_REFERENCE)
    RAISE(error, ALIBI_INVALID, "numerics: expected 0 (exact) or 1 (reference), found %d", own.numerics);
  if (own.activations != ALIBI_ACTIVATIONS_FP32 && own.activations != ALIBI_ACTIVATIONS_INT8)
    RAISE(error, ALIBI_INVALID, "activations: expected 0 (fp32) or 1 (int8), found %d", own.activations);
  TRY(open_path(context, path, &own, model, error));
  if (own.activations == ALIBI_ACTIVATIONS_INT8) model_round_activations(*model);
done:
  return result;
}

alibi_status alibi_model_open(alibi_context *context, const char *path, alibi_model **model, alibi_error *error)
{
  return alibi_model_open_with(context, path, NULL, model, error);
}
