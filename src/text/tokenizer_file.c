/* Opening a tokenizer: which kind of file it is, and, for a tokenizer.json, whether it is one of ours (what
 * training writes, which has a quick way of its own) or a pipeline, whose model is a row of a registry.  What only
 * the files beside a tokenizer.json know, the names of its control tokens, is read from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "text/json_part.h"
#include "text/pipeline.h"
#include "text/token_model.h"
#include "text/tokenizer.h"
#include "token_model_registry.inc"
#include "tokenizer_format_registry.inc"
#include "tokenizer_registry.inc"

/* The model's row, by its type; old files have none. */
static status open_model(const json_node *root, const char *path, const token_model **model, void **state,
                         alibi_error *error)
{
  const json_node *node = node_get(root, "model"), *type = node_get(node, "type");
  *state = NULL;
  if (node_kind_of(node) != NODE_OBJECT)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected an object 'model'", path);
  for (size_t i = 0; i < TOKEN_MODEL_COUNT && !*state; i++) {
    *model = token_model_registry[i];
    if (type && strcmp(node_text(type, ""), (*model)->name) != 0) continue;
    status result = (*model)->open(node, path, state, error);
    if (result != ALIBI_OK) return result;
  }
  if (*state) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: model: type '%.60s' is not supported", path,
              node_text(type, "without a type"));
}

static status check_root(const json_node *root, const char *path, alibi_error *error)
{
  static const char *const known[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                      "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
  status result = ALIBI_OK;
  json_part part = {.node = root, .path = path, .where = "the file"};
  const char *version = node_text(node_get(root, "version"), "none");
  if (node_kind_of(root) != NODE_OBJECT) RAISE(error, ALIBI_BAD_INPUT, "%s: expected a JSON object", path);
  if (strcmp(version, "1.0") != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: version: expected '1.0', found '%.60s'", path, version);
  TRY(json_part_keys(&part, known, error));
  if (node_get(root, "type")) RAISE(error, ALIBI_BAD_INPUT, "%s: has a part 'type' that is not supported", path);
done:
  return result;
}

status tokenizer_config_read(const char *path, json_node **config, alibi_error *error)
{
  static const char name[] = "tokenizer_config.json";
  const char *slash = strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
  status result = ALIBI_OK;
  char *beside = malloc(size_add(folder, sizeof name));
  *config = NULL;
  if (!beside) return fail(error, ALIBI_FAILED, "%s: not enough memory for a tokenizer", path);
  memcpy(beside, path, folder);
  memcpy(beside + folder, name, sizeof name);
  if (path_exists(beside)) result = node_read_file(beside, config, error);
  free(beside);
  return result;
}

/* "bos_token": "<s>", or {"content": "<s>", ...}, or null; nothing changes where there is no word of it.  That
 * begin and end are no tokens is a mistake that would show late (a text that never ends); the others may be
 * missing, for the Python library makes tokens of them when it is told to. */
static status take_named(const json_node *config, const char *path, const char *key, alibi_special special,
                         alibi_tokenizer *tokenizer, alibi_error *error)
{
  const json_node *node = node_get(config, key);
  const char *name = node_text(node_kind_of(node) == NODE_OBJECT ? node_get(node, "content") : node, NULL);
  int64_t id = name ? alibi_tokenizer_find(tokenizer, name) : -1;
  bool needed = special == ALIBI_SPECIAL_BEGIN || special == ALIBI_SPECIAL_END;
  if (name && id < 0 && needed)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: tokenizer_config.json: %s: expected a token of the vocabulary, found '%.60s'", path, key,
                name);
  if (node) pipeline_set_special(tokenizer, special, id);
  return ALIBI_OK;
}

static status read_config(const char *path, alibi_tokenizer *tokenizer, alibi_error *error)
{
  static const char *const keys[ALIBI_SPECIALS] = {"bos_token", "eos_token", "unk_token", "pad_token"};
  json_node *config;
  status result = tokenizer_config_read(path, &config, error);
  for (int i = 0; config && result == ALIBI_OK && i < ALIBI_SPECIALS; i++)
    result = take_named(config, path, keys[i], (alibi_special)i, tokenizer, error);
  node_free(config);
  return result;
}

static status open_pipeline(const json_node *root, const char *path, alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  const token_model *model = NULL;
  void *state = NULL;
  TRY(check_root(root, path, error));
  TRY(open_model(root, path, &model, &state, error));
  TRY(pipeline_new(root, path, model, state, made, error));
  const json_node *pad = node_get(node_get(root, "padding"), "pad_id");
  if (node_kind_of(pad) == NODE_INTEGER) pipeline_set_special(*made, ALIBI_SPECIAL_PADDING, node_integer(pad, -1));
  TRY(read_config(path, *made, error));
done:
  if (result != ALIBI_OK) {
    alibi_tokenizer_free(*made);
    *made = NULL;
  }
  return result;
}

static bool json_recognise(const unsigned char *data, size_t size)
{
  (void)data, (void)size;
  return true; /* whatever it is, the reader of JSON says what is wrong with it */
}

static status open_json(const char *path, const mapped_file *file, alibi_tokenizer **made, alibi_error *error)
{
  json_node *root = NULL;
  status result = ALIBI_OK;
  *made = NULL;
  TRY(node_parse((const char *)file->data, file->size, path, &root, error));
  for (size_t i = 0; i < TOKENIZER_COUNT && !*made; i++) {
    void *state = NULL;
    TRY(tokenizer_registry[i]->open(root, path, &state, error));
    if (state) TRY(tokenizer_wrap(tokenizer_registry[i], state, made, error));
  }
  if (!*made) TRY(open_pipeline(root, path, made, error));
done:
  node_free(root);
  return result;
}

static status json_open(const char *path, alibi_tokenizer **made, alibi_error *error)
{
  mapped_file file;
  *made = NULL;
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  result = open_json(path, &file, made, error);
  mapped_file_close(&file);
  return result;
}

extern const tokenizer_format tokenizer_format_json;
const tokenizer_format tokenizer_format_json = {"tokenizer.json", json_recognise, json_open};

alibi_status alibi_tokenizer_open(const char *path, alibi_tokenizer **tokenizer, alibi_error *error)
{
  if (!path || !tokenizer) return fail(error, ALIBI_INVALID, "alibi_tokenizer_open: no path, or no place");
  *tokenizer = NULL;
  mapped_file file;
  const tokenizer_format *format = NULL;
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < TOKENIZER_FORMAT_COUNT && !format; i++)
    if (tokenizer_format_registry[i]->recognise(file.data, file.size)) format = tokenizer_format_registry[i];
  if (format == &tokenizer_format_json)
    result = open_json(path, &file, tokenizer, error); /* a pipe is read once */
  else result = format->open(path, tokenizer, error);
  mapped_file_close(&file);
  return result;
}
