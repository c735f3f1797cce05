/* The catalogue as JSON.  Fingerprints are texts of 16 hexadecimal digits, since JSON's numbers are doubles to
 * most readers. */
#include "train/data_catalogue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/memory.h"
#include "base/system.h"
#include "text/tokenizer_fingerprint.h"

enum { VERSION = 1 };
static const char format_name[] = "alibi tokens";
const char *const data_split_names[SPLIT_COUNT] = {"train", "valid"};

void data_shard_name(data_split split, size_t number, char name[SHARD_NAME_SIZE])
{
  snprintf(name, SHARD_NAME_SIZE, "%s-%05zu.tokens", data_split_names[split], number);
}

status data_catalogue_add(data_catalogue *c, data_split split, const data_shard *shard, alibi_error *error)
{
  data_shards *s = &c->splits[split];
  status result =
      memory_grow(&s->shards, &s->capacity, s->count + 1, sizeof *s->shards, "the list of shards", error);
  if (result == ALIBI_OK) s->shards[s->count++] = *shard;
  return result;
}

data_shard data_catalogue_sum(const data_catalogue *c, data_split split)
{
  data_shard sum = {0};
  for (size_t i = 0; i < c->splits[split].count; i++) {
    const data_shard *shard = &c->splits[split].shards[i];
    sum.tokens += shard->tokens;
    sum.documents += shard->documents;
    sum.bytes += shard->bytes;
    sum.left_out_empty += shard->left_out_empty;
    sum.left_out_bad += shard->left_out_bad;
  }
  return sum;
}

/* A count in an object. */
static bool get_count(const json_node *object, const char *key, uint64_t *value)
{
  int64_t found = node_integer(node_get(object, key), -1);
  *value = found < 0 ? 0 : (uint64_t)found;
  return found >= 0;
}

static bool get_fingerprint(const json_node *object, const char *key, uint64_t *value)
{
  return fingerprint_from_text(node_text(node_get(object, key), NULL), value);
}

static status read_split(data_catalogue *c, data_split split, const json_node *node, const char *path,
                         alibi_error *error)
{
  const json_node *list = node_get(node, "shards");
  for (size_t i = 0; i < node_count(list); i++) {
    const json_node *row = node_at(list, i);
    data_shard shard = {0};
    data_shard_name(split, i, shard.file);
    if (strcmp(node_text(node_get(row, "file"), ""), shard.file) != 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: %s: expected the file of shard %zu to be %s", path,
                  data_split_names[split], i + 1, shard.file);
    if (!get_count(row, "tokens", &shard.tokens) || !get_count(row, "documents", &shard.documents) ||
        !get_count(row, "bytes", &shard.bytes) || !get_count(row, "next_document", &shard.next_document) ||
        !get_fingerprint(row, "fingerprint", &shard.fingerprint))
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: %s: expected tokens, documents, bytes, next_document and a fingerprint of 16 digits", path,
                  shard.file);
    get_count(row, "left_out_empty", &shard.left_out_empty);
    get_count(row, "left_out_bad", &shard.left_out_bad);
    status result = data_catalogue_add(c, split, &shard, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

/* Why there is no list of a finished folder. */
static status not_finished(const char *folder, alibi_error *error)
{
  char *unfinished = path_join(folder, DATA_UNFINISHED);
  bool begun = unfinished && path_exists(unfinished);
  free(unfinished);
  return fail(error, ALIBI_BAD_INPUT, "%s: expected " DATA_FINISHED " in this folder, found %s", folder,
              begun ? "a build that is not finished: run alibi data build again" : "none");
}

status data_catalogue_read(const char *folder, const char *name, data_catalogue *c, alibi_error *error)
{
  status result = ALIBI_OK;
  uint64_t vocabulary;
  *c = (data_catalogue){0};
  char *path = path_join(folder, name);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  if (strcmp(name, DATA_FINISHED) == 0 && path_is_directory(folder) && !path_exists(path))
    TRY(not_finished(folder, error));
  TRY(node_read_file(path, &c->root, error));
  if (strcmp(node_text(node_get(c->root, "format"), ""), format_name) != 0 ||
      node_integer(node_get(c->root, "version"), 0) != VERSION)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the format \"%s\", version %d", path, format_name, VERSION);
  const json_node *tokenizer = node_get(c->root, "tokenizer"), *splits = node_get(c->root, "splits");
  snprintf(c->tokenizer_kind, sizeof c->tokenizer_kind, "%s", node_text(node_get(tokenizer, "kind"), ""));
  if (!get_count(tokenizer, "vocabulary", &vocabulary) || vocabulary == 0 || vocabulary > UINT32_MAX ||
      !get_fingerprint(tokenizer, "fingerprint", &c->tokenizer))
    RAISE(error, ALIBI_BAD_INPUT, "%s: tokenizer: expected a vocabulary and a fingerprint of 16 digits", path);
  c->vocabulary = (uint32_t)vocabulary;
  get_count(c->root, "left_out_empty", &c->left_out_empty);
  get_count(c->root, "left_out_bad", &c->left_out_bad);
  for (int s = 0; s < SPLIT_COUNT; s++)
    TRY(read_split(c, (data_split)s, node_get(splits, data_split_names[s]), path, error));
done:
  free(path);
  if (result != ALIBI_OK) data_catalogue_free(c);
  return result;
}

static void set_fingerprint(json_node *object, const char *key, uint64_t value)
{
  char text[FINGERPRINT_TEXT_SIZE];
  fingerprint_to_text(value, text);
  node_set_text(object, key, text);
}

static json_node *split_node(const data_catalogue *c, data_split split)
{
  json_node *node = node_new_object(), *list = node_new_array();
  data_shard sum = data_catalogue_sum(c, split);
  node_set_integer(node, "tokens", (int64_t)sum.tokens);
  node_set_integer(node, "documents", (int64_t)sum.documents);
  node_set_integer(node, "bytes", (int64_t)sum.bytes);
  for (size_t i = 0; i < c->splits[split].count; i++) {
    const data_shard *shard = &c->splits[split].shards[i];
    json_node *row = node_new_object();
    node_set_text(row, "file", shard->file);
    node_set_integer(row, "tokens", (int64_t)shard->tokens);
    node_set_integer(row, "documents", (int64_t)shard->documents);
    node_set_integer(row, "bytes", (int64_t)shard->bytes);
    if (shard->left_out_empty > 0) node_set_integer(row, "left_out_empty", (int64_t)shard->left_out_empty);
    if (shard->left_out_bad > 0) node_set_integer(row, "left_out_bad", (int64_t)shard->left_out_bad);
    node_set_integer(row, "next_document", (int64_t)shard->next_document);
    set_fingerprint(row, "fingerprint", shard->fingerprint);
    node_append(list, row);
  }
  node_set(node, "shards", list);
  return node;
}

status data_catalogue_write(const data_catalogue *c, const char *folder, const char *name, json_node *options,
                            json_node *sources, alibi_error *error)
{
  json_node *root = node_new_object(), *tokenizer = node_new_object(), *splits = node_new_object();
  char *path = path_join(folder, name);
  status result;
  node_set_text(root, "format", format_name);
  node_set_integer(root, "version", VERSION);
  node_set_text(tokenizer, "kind", c->tokenizer_kind);
  node_set_integer(tokenizer, "vocabulary", c->vocabulary);
  set_fingerprint(tokenizer, "fingerprint", c->tokenizer);
  node_set(root, "tokenizer", tokenizer);
  node_set_integer(root, "id_bytes", c->vocabulary > 65536 ? 4 : 2);
  for (int s = 0; s < SPLIT_COUNT; s++)
    if (c->splits[s].count > 0) node_set(splits, data_split_names[s], split_node(c, (data_split)s));
  node_set(root, "splits", splits);
  node_set_integer(root, "left_out_empty", (int64_t)c->left_out_empty);
  node_set_integer(root, "left_out_bad", (int64_t)c->left_out_bad);
  node_set(root, "options", options);
  node_set(root, "sources", sources);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(node_write_file(root, path, error));
done:
  node_free(root);
  free(path);
  return result;
}

void data_catalogue_free(data_catalogue *c)
{
  for (int s = 0; s < SPLIT_COUNT; s++) free(c->splits[s].shards);
  node_free(c->root);
  *c = (data_catalogue){0};
}

status data_shard_open(const char *folder, const data_catalogue *c, const data_shard *shard, token_file *file,
                       alibi_error *error)
{
  status result = ALIBI_OK;
  *file = (token_file){0};
  char *path = path_join(folder, shard->file);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(token_file_open(path, file, error));
  if (file->fingerprint != shard->fingerprint || file->count != shard->tokens ||
      file->document_count != shard->documents || file->tokenizer != c->tokenizer ||
      file->vocabulary != c->vocabulary)
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: expected the shard that the list beside it names (%" PRIu64 " tokens), found another (%zu tokens)",
          path, shard->tokens, file->count);
done:
  free(path);
  if (result != ALIBI_OK) token_file_close(file);
  return result;
}

static status check_tokenizer(const char *folder, const data_catalogue *c, alibi_error *error)
{
  alibi_tokenizer *tokenizer = NULL;
  uint64_t found;
  status result = ALIBI_OK;
  if (c->tokenizer == 0) return ALIBI_OK; /* ids that are no text */
  char *path = path_join(folder, DATA_TOKENIZER);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(alibi_tokenizer_open(path, &tokenizer, error));
  TRY(tokenizer_fingerprint(tokenizer, &found, error));
  if (found != c->tokenizer)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the tokenizer that made the ids beside it, found another", path);
done:
  free(path);
  alibi_tokenizer_free(tokenizer);
  return result;
}

status data_check(const char *folder, data_catalogue *c, alibi_error *error)
{
  token_file file;
  status result = data_catalogue_read(folder, DATA_FINISHED, c, error);
  if (result != ALIBI_OK) return result;
  TRY(check_tokenizer(folder, c, error));
  for (int s = 0; s < SPLIT_COUNT; s++)
    for (size_t i = 0; i < c->splits[s].count; i++) {
      TRY(data_shard_open(folder, c, &c->splits[s].shards[i], &file, error));
      token_file_close(&file);
    }
done:
  if (result != ALIBI_OK) data_catalogue_free(c);
  return result;
}
