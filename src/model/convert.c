/* Converting: to our own format through a model in memory, to GGUF or a directory for transformers by a family's
 * rules, or tensor by tensor where names and configuration stay what they are. */
#include "alibi/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/system.h"
#include "file/gguf.h"
#include "file/safetensors.h"
#include "file/tensor_file.h"
#include "kernel/weight_plain.h"
#include "model/families/family_choice.h"
#include "model/families/family_publish.h"
#include "model/families/family_write.h"
#include "model/families/written_tensors.h"
#include "model/published_tokenizer.h"
#include "model/tensor_writing.h"
#include "text/gguf_vocabulary.h"

void alibi_convert_options_init(alibi_convert_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->shard_bytes = 5000000000;
}

typedef struct conversion {
  alibi_context *context;
  const char *path, *out;
  alibi_convert_options options;
  weight_type type; /* of matrices; WEIGHT_TYPES: as stored */
  tensor_file *file;
  file_tensor *tensors; /* of the new file */
  tensor_writing writing;
  bool made; /* the new directory */
} conversion;

static status take_type(conversion *c, alibi_error *error)
{
  char known[128] = "";
  bool gguf = c->options.format == ALIBI_FORMAT_GGUF;
  c->type = WEIGHT_TYPES;
  if (!c->options.type) return ALIBI_OK;
  for (int t = 0; t < WEIGHT_TYPES; t++) {
    if (!weight_can_narrow((weight_type)t) || (!gguf && t > WEIGHT_BF16)) continue;
    if (strcmp(c->options.type, weight_type_name((weight_type)t)) == 0) c->type = (weight_type)t;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", weight_type_name((weight_type)t));
  }
  if (c->type != WEIGHT_TYPES) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "type: expected one of %s, found '%s'", known, c->options.type);
}

/* ---- tensor by tensor ---- */

/* Tables whose rows are added to embeddings, as GGUF names them. */
static bool is_added(const file_tensor *t)
{
  return strcmp(t->name, "position_embd.weight") == 0 || strcmp(t->name, "token_types.weight") == 0;
}

/* A matrix of numbers that the kernels know takes the new type; vectors, norms among them, stay as they are, and
 * so do small tables where the new type is quantised. */
static bool changes(const conversion *c, const file_tensor *t, weight_type *from)
{
  if (c->type != WEIGHT_TYPES && weight_block_elements(c->type) > 1 && is_added(t)) return false;
  return c->type != WEIGHT_TYPES && t->dimensions == 2 && t->bytes > 0 && tensor_type_weight(t->type, from) &&
         written_type_for(c->type, *from, t->shape[1]) != *from;
}

static status give(void *state, size_t index, tensor_sink *sink, alibi_error *error)
{
  conversion *c = state;
  const file_tensor *from = tensor_file_at(c->file, index), *to = &c->tensors[index];
  weight_type stored = WEIGHT_F32, wanted = WEIGHT_F32;
  if (!changes(c, from, &stored)) {
    status put = writing_put(&c->writing, sink, from->data, from->bytes, error);
    system_forget(from->data, from->bytes);
    return put;
  }
  tensor_type_weight(to->type, &wanted);
  size_t rows = from->shape[0], columns = from->shape[1];
  size_t stored_bytes = from->bytes / rows, wanted_bytes = to->bytes / rows;
  float *wide = NULL;
  void *narrow = NULL;
  status result;
  TRY(memory_new(&wide, columns, sizeof *wide, "a row of a tensor", error));
  TRY(memory_new(&narrow, wanted_bytes, 1, "a row of a tensor", error));
  for (size_t r = 0; r < rows; r++) {
    c->context->kernel->widen(stored, columns, (const char *)from->data + r * stored_bytes, wide);
    TRY(writing_narrow(&c->writing, sink, wanted, columns, wide, narrow, error));
  }
  system_forget(from->data, from->bytes);
done:
  memory_free(narrow);
  memory_free(wide);
  return result;
}

static status list_tensors(conversion *c, alibi_error *error)
{
  size_t count = tensor_file_count(c->file);
  status result = memory_new(&c->tensors, count, sizeof *c->tensors, "the list of tensors", error);
  for (size_t i = 0; result == ALIBI_OK && i < count; i++) {
    const file_tensor *t = tensor_file_at(c->file, i);
    weight_type from;
    c->tensors[i] = *t;
    if (!changes(c, t, &from)) continue;
    weight_type to = written_type_for(c->type, from, t->shape[1]);
    c->tensors[i].type = tensor_type_of_weight(to);
    c->tensors[i].bytes = t->bytes / weight_block_bytes(from) * weight_block_elements(from) /
                          weight_block_elements(to) * weight_block_bytes(to);
  }
  if (result == ALIBI_OK) c->writing = tensor_writing_of(c->context, c->path, &c->options, c->tensors, count);
  return result;
}

/* ---- a new directory ---- */

static status path_of(const char *directory, const char *name, char **path, alibi_error *error)
{
  *path = path_join(directory, name);
  return *path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the path of %s", name);
}

/* From here on whatever goes wrong removes it. */
static status make_directory(conversion *c, alibi_error *error)
{
  status result = directory_make(c->out, error);
  c->made = result == ALIBI_OK;
  return result;
}

static status copy_file(const conversion *c, const char *name, alibi_error *error)
{
  char *from = NULL, *to = NULL;
  mapped_file file = {0};
  status result;
  TRY(path_of(c->path, name, &from, error));
  if (!path_exists(from) || path_is_directory(from)) goto done;
  TRY(path_of(c->out, name, &to, error));
  TRY(mapped_file_open(from, &file, error));
  TRY(file_write_atomic(to, file.data, file.size, error));
done:
  if (file.data) mapped_file_close(&file);
  free(to);
  free(from);
  return result;
}

/* The configuration, with the new type of its numbers. */
static status write_configuration(const conversion *c, json_node *root, alibi_error *error)
{
  static const char *const keys[] = {"torch_dtype", "dtype"};
  static const char *const names[] = {
      [WEIGHT_F32] = "float32", [WEIGHT_F16] = "float16", [WEIGHT_BF16] = "bfloat16"};
  char *to = NULL;
  status result;
  TRY(path_of(c->out, MODEL_CONFIG_FILE, &to, error));
  for (size_t i = 0; i < 2 && c->type <= WEIGHT_BF16; i++)
    if (node_get(root, keys[i])) node_set_text(root, keys[i], names[c->type]);
  TRY(node_write_file(root, to, error));
done:
  free(to);
  return result;
}

/* The configuration of a public model's directory; *root NULL of a GGUF file, and where it is one of ours. */
static status read_configuration(const conversion *c, json_node **root, alibi_error *error)
{
  char *from = NULL;
  status result = ALIBI_OK;
  *root = NULL;
  if (tensor_file_gguf(c->file)) return ALIBI_OK;
  if (!path_is_directory(c->path))
    RAISE(error, ALIBI_INVALID,
          "%s: expected a directory with a config.json, to be written as safetensors, found a file", c->path);
  TRY(path_of(c->path, MODEL_CONFIG_FILE, &from, error));
  TRY(node_read_file(from, root, error));
  if (node_get(*root, "format") || !node_get(*root, "model_type")) {
    node_free(*root);
    *root = NULL;
  }
done:
  free(from);
  return result;
}

/* Of a public model's directory: same names, same configuration. */
static status copy_directory(conversion *c, json_node *root, alibi_error *error)
{
  static const char *const companions[] = {"generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer.model",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt",
                                           "chat_template.jinja"};
  const char *metadata[] = {"format", "pt", NULL};
  const tensor_source source = {.give = give, .state = c};
  status result;
  TRY(list_tensors(c, error));
  TRY(make_directory(c, error));
  TRY(safetensors_write_shards(c->out, c->tensors, tensor_file_count(c->file), metadata, &source,
                               (size_t)c->options.shard_bytes, error));
  for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) TRY(copy_file(c, companions[i], error));
  TRY(write_configuration(c, root, error)); /* last: with it the directory is a model */
done:
  return result;
}

static status gguf_to_gguf(conversion *c, alibi_error *error)
{
  const gguf_file *from = tensor_file_gguf(c->file);
  gguf_keys *keys = gguf_keys_new();
  status result;
  for (size_t i = 0; i < gguf_key_count(from); i++) {
    const gguf_key *key = gguf_key_at(from, i);
    bool of_split = strncmp(key->name, "split.", 6) == 0; /* the new file is one */
    bool of_type = c->type != WEIGHT_TYPES && (strcmp(key->name, "general.file_type") == 0 ||
                                               strcmp(key->name, "general.quantization_version") == 0);
    if (!of_split && !of_type) gguf_put_key(keys, key);
  }
  if (c->type != WEIGHT_TYPES) family_put_type(keys, c->type);
  TRY(list_tensors(c, error));
  const tensor_source source = {.give = give, .state = c};
  TRY(gguf_write(c->out, keys, c->tensors, tensor_file_count(c->file), &source, error));
done:
  gguf_keys_free(keys);
  return result;
}

/* ---- through a model ---- */

static status open_tokenizer(const conversion *c, const alibi_model *model, alibi_tokenizer **tokenizer,
                             alibi_error *error)
{
  *tokenizer = NULL;
  return c->options.without_tokenizer ? ALIBI_OK : alibi_model_tokenizer_open(c->path, model, tokenizer, error);
}

static bool gguf_holds(const alibi_tokenizer *tokenizer)
{
  gguf_keys *keys = gguf_keys_new();
  bool holds = gguf_vocabulary_put(tokenizer, 0, keys, NULL) == ALIBI_OK;
  gguf_keys_free(keys);
  return holds;
}

/* For GGUF: where there is no word for a tokenizer.json that was made from the SentencePiece model beside it
 * (Llama 2), that model. */
static status prefer_pieces(const conversion *c, alibi_tokenizer **tokenizer, alibi_error *error)
{
  alibi_tokenizer *pieces = NULL;
  char *folder = NULL, *path = NULL;
  status result = ALIBI_OK;
  if (!*tokenizer || gguf_holds(*tokenizer)) return ALIBI_OK;
  TRY(model_folder(c->path, &folder, error));
  TRY(path_of(folder, "tokenizer.model", &path, error));
  if (path_exists(path) && alibi_tokenizer_open(path, &pieces, NULL) == ALIBI_OK &&
      alibi_tokenizer_vocabulary(pieces) == alibi_tokenizer_vocabulary(*tokenizer)) {
    alibi_tokenizer_free(*tokenizer);
    *tokenizer = pieces;
    pieces = NULL;
  }
done:
  alibi_tokenizer_free(pieces);
  free(path);
  free(folder);
  return result;
}

static status open_model(const conversion *c, alibi_model **model, alibi_error *error)
{
  alibi_open_options open;
  alibi_open_options_init(&open);
  open.ignore_config = c->options.ignore_config;
  return alibi_model_open_with(c->context, c->path, &open, model, error);
}

static status to_gguf(conversion *c, alibi_error *error)
{
  const model_family *family;
  alibi_model *model = NULL;
  alibi_tokenizer *tokenizer = NULL;
  status result;
  TRY(open_model(c, &model, error));
  TRY(open_tokenizer(c, model, &tokenizer, error));
  TRY(prefer_pieces(c, &tokenizer, error));
  c->writing = tensor_writing_of(c->context, c->path, &c->options, NULL, 0);
  TRY(family_choose(model, true, c->out, &c->writing, &family, error));
  TRY(family_write_gguf(model, family, tokenizer, c->type, c->out, &c->writing, error));
done:
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  return result;
}

/* Of a GGUF file, or a model of our own: a directory in the words of its family. */
static status publish(conversion *c, alibi_error *error)
{
  const model_family *family;
  alibi_model *model = NULL;
  alibi_tokenizer *tokenizer = NULL;
  status result;
  TRY(open_model(c, &model, error));
  TRY(open_tokenizer(c, model, &tokenizer, error));
  c->writing = tensor_writing_of(c->context, c->path, &c->options, NULL, 0);
  if (tokenizer) TRY(published_tokenizer_check(tokenizer, error));
  TRY(make_directory(c, error));
  TRY(family_choose(model, false, c->out, &c->writing, &family, error));
  if (tokenizer)
    TRY(published_tokenizer_write(tokenizer, c->out, alibi_model_get_config(model)->train_length, error));
  TRY(family_publish(model, family, tokenizer, c->type, (size_t)c->options.shard_bytes, c->out, &c->writing,
                     error));
done:
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  return result;
}

static status to_safetensors(conversion *c, alibi_error *error)
{
  json_node *root = NULL;
  status result;
  TRY(read_configuration(c, &root, error));
  TRY(root ? copy_directory(c, root, error) : publish(c, error));
done:
  node_free(root);
  return result;
}

static status to_alibi(conversion *c, alibi_error *error)
{
  alibi_model *model = NULL;
  alibi_tokenizer *tokenizer = NULL;
  status result;
  if (c->type != WEIGHT_TYPES && c->type != WEIGHT_F32)
    RAISE(error, ALIBI_INVALID, "type: expected F32, which is what models of our own format are in, found '%s'",
          c->options.type);
  TRY(open_model(c, &model, error));
  TRY(open_tokenizer(c, model, &tokenizer, error));
  c->writing = tensor_writing_of(c->context, c->path, &c->options, NULL, 0);
  TRY(make_directory(c, error));
  if (tokenizer)
    TRY(published_tokenizer_write(tokenizer, c->out, alibi_model_get_config(model)->train_length, error));
  TRY(model_save_by(model, c->out, &c->writing, error));
done:
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  return result;
}

alibi_status alibi_model_convert(alibi_context *context, const char *path, const char *out,
                                 const alibi_convert_options *options, alibi_error *error)
{
  conversion c = {.context = context, .path = path, .out = out};
  status result;
  alibi_convert_options_init(&c.options);
  if (options) TRY(settings_take(options, &c.options, sizeof c.options, "alibi_convert_options", error));
  TRY(take_type(&c, error));
  if (c.options.shard_bytes < 1)
    RAISE(error, ALIBI_INVALID, "shard_bytes: expected at least 1, found %lld", (long long)c.options.shard_bytes);
  if (path_is_taken(out)) RAISE(error, ALIBI_FAILED, "%s: expected nothing there yet, which would be lost", out);
  TRY(tensor_file_open(path, &c.file, error));
  bool gguf = tensor_file_gguf(c.file) != NULL;
  switch (c.options.format) {
  case ALIBI_FORMAT_ALIBI: TRY(to_alibi(&c, error)); break;
  case ALIBI_FORMAT_SAFETENSORS: TRY(to_safetensors(&c, error)); break;
  case ALIBI_FORMAT_GGUF: TRY(gguf ? gguf_to_gguf(&c, error) : to_gguf(&c, error)); break;
  default: RAISE(error, ALIBI_INVALID, "format: expected one of alibi_format, found %d", c.options.format);
  }
  writing_end(&c.writing);
done:
  if (result != ALIBI_OK && c.made) directory_remove(out, NULL);
  memory_free(c.tensors);
  tensor_file_close(c.file);
  return result;
}
