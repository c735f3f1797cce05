/* The rules by which a family's tensors are found, read the other way round.  As with GGUF a sketch comes first:
 * what its reader makes of it is compared with the model. */
#include "model/families/family_publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/system.h"
#include "file/safetensors.h"
#include "model/families/same_model.h"
#include "model/families/written_tensors.h"

#define SKETCH "sketch"

const char *family_activation_name(const alibi_model_config *config)
{
  switch ((alibi_activation)config->activation) {
  case ALIBI_GELU_TANH:
  case ALIBI_GEGLU_TANH: return "gelu_new";
  case ALIBI_SILU:
  case ALIBI_SWIGLU: return "silu";
  case ALIBI_RELU:
  case ALIBI_REGLU: return "relu";
  case ALIBI_GELU_ERF:
  case ALIBI_GEGLU: break;
  }
  return "gelu";
}

static void put_token(json_node *object, const char *key, const alibi_tokenizer *tokenizer, alibi_special special)
{
  int64_t id = tokenizer ? alibi_tokenizer_special(tokenizer, special) : -1;
  if (id >= 0) node_set_integer(object, key, id);
  else node_set_null(object, key); /* for the class would have one of its own */
}

static json_node *configuration(const alibi_model *model, const model_family *family,
                                const alibi_tokenizer *tokenizer, weight_type type)
{
  static const char *const names[] = {
      [WEIGHT_F32] = "float32", [WEIGHT_F16] = "float16", [WEIGHT_BF16] = "bfloat16"};
  const alibi_model_config *c = &model->config;
  json_node *object = node_new_object(), *architectures = node_new_array();
  node_append_text(architectures, family->published.architecture);
  node_set(object, "architectures", architectures);
  node_set_text(object, "model_type", family->types[0]);
  node_set_text(object, "torch_dtype", names[type]);
  family->published.put(object, c);
  node_set_integer(object, "vocab_size", c->vocabulary);
  node_set_boolean(object, "tie_word_embeddings", c->tied);
  put_token(object, "bos_token_id", tokenizer, ALIBI_SPECIAL_BEGIN);
  put_token(object, "eos_token_id", tokenizer, ALIBI_SPECIAL_END);
  put_token(object, "pad_token_id", tokenizer, ALIBI_SPECIAL_PADDING);
  return object;
}

/* node_write_file for a sketch, which need not reach the disk. */
static status write_passing(const json_node *config, const char *path, alibi_error *error)
{
  char *text = node_to_text(config);
  replace_file file = {0};
  status result;
  if (!text) RAISE(error, ALIBI_FAILED, "%s: not enough memory to write it", path);
  TRY(replace_begin(path, &file, error));
  file.passing = true;
  fputs(text, file.stream);
  TRY(replace_commit(&file, error));
done:
  replace_abandon(&file);
  free(text);
  return result;
}

static status write_directory(written_tensors *tensors, const json_node *config, const char *directory,
                              size_t shard_bytes, alibi_error *error)
{
  const char *metadata[] = {"format", "pt", NULL};
  tensor_source source = written_source(tensors);
  char *path = NULL;
  status result;
  TRY(safetensors_write_shards(directory, tensors->list, tensors->count, metadata, &source, shard_bytes, error));
  path = path_join(directory, MODEL_CONFIG_FILE);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for the path of %s", MODEL_CONFIG_FILE);
  TRY(tensors->sketch ? write_passing(config, path, error) : node_write_file(config, path, error));
done:
  free(path);
  return result;
}

/* The same without numbers is opened; it lies within, where it is nobody's model when it is left. */
static status check_sketch(const alibi_model *model, written_tensors *tensors, const json_node *config,
                           const char *directory, const char *what, alibi_error *error)
{
  char *sketch = path_join(directory, SKETCH);
  bool made = false;
  status result;
  if (!sketch) RAISE(error, ALIBI_FAILED, "not enough memory for the path of %s", SKETCH);
  TRY(directory_make(sketch, error));
  made = true;
  tensors->sketch = true;
  TRY(write_directory(tensors, config, sketch, SIZE_MAX, error));
  TRY(same_model_check(model, sketch, what, error));
done:
  tensors->sketch = false;
  if (result != ALIBI_OK && sketch) same_model_say_path(error, sketch, directory);
  if (made) directory_remove(sketch, NULL);
  free(sketch);
  return result;
}

/* Without a type every weight stays as it is stored, which safetensors cannot say of blocks. */
static status check_types(const alibi_model *model, alibi_error *error)
{
  for (size_t i = 0; model->placed && i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    const matrix *w = p->placeable ? &model->placed[p->slot] : NULL;
    for (size_t part = 0; w && part < w->part_count; part++)
      if (weight_block_elements(w->parts[part].type) > 1)
        return fail(error, ALIBI_INVALID,
                    "type: expected F32, F16 or BF16 for a model with weights in %s, which safetensors cannot "
                    "hold, found none",
                    weight_type_name(w->parts[part].type));
  }
  return ALIBI_OK;
}

/* All that needs no numbers: the list of tensors and the configuration, which is sure then. */
static status begin(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                    weight_type type, const char *directory, written_tensors *tensors, json_node **config,
                    alibi_error *error)
{
  const published_form *form = &family->published;
  weight_type most = type == WEIGHT_TYPES ? written_stored_type(model) : type;
  char what[96];
  status result;
  if (!form->architecture)
    RAISE(error, ALIBI_INVALID, "safetensors: expected a family that directories are written for here, found '%s'",
          family->name);
  snprintf(what, sizeof what, "safetensors, %s", form->architecture);
  const char *lacks = form->lacks ? form->lacks(&model->config) : NULL;
  if (lacks) RAISE(error, ALIBI_INVALID, "%s: expected a model with %s, found another", what, lacks);
  if (type == WEIGHT_TYPES) TRY(check_types(model, error));
  written_names names = {{family->rules, NULL}, family->prefixes[0], form->fits, NULL, what};
  tensors->type = type;
  tensors->vectors = most;
  TRY(written_add_all(tensors, &names, error));
  *config = configuration(model, family, tokenizer, most);
  TRY(check_sketch(model, tensors, *config, directory, what, error));
done:
  return result;
}

status family_publish(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                      weight_type type, size_t shard_bytes, const char *directory, tensor_writing *writing,
                      alibi_error *error)
{
  written_tensors tensors = {.count = 0};
  json_node *config = NULL;
  status result;
  TRY(written_tensors_new(model, writing, &tensors, error));
  TRY(begin(model, family, tokenizer, type, directory, &tensors, &config, error));
  for (size_t i = 0; i < tensors.count; i++) writing->total += (int64_t)tensors.list[i].bytes;
  TRY(write_directory(&tensors, config, directory, shard_bytes, error));
done:
  node_free(config);
  written_tensors_free(&tensors);
  return result;
}

status family_publish_check(const alibi_model *model, const model_family *family, const char *directory,
                            tensor_writing *writing, alibi_error *error)
{
  written_tensors tensors = {.count = 0};
  json_node *config = NULL;
  status result;
  TRY(written_tensors_new(model, writing, &tensors, error));
  TRY(begin(model, family, NULL, WEIGHT_F32, directory, &tensors, &config, error));
done:
  node_free(config);
  written_tensors_free(&tensors);
  return result;
}
