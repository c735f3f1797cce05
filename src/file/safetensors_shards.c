/* A model as several safetensors files and their index.  The one idea: the index is written last, so that shards
 * without one are no model yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/json.h"
#include "file/safetensors.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

enum { SHARDS_MOST = 99999, NAME_SIZE = 64 };

/* Where data comes from, for a part of the list that begins at `from`. */
typedef struct part_source {
  const tensor_source *whole;
  size_t from;
} part_source;

static status give_part(void *state, size_t index, tensor_sink *sink, alibi_error *error)
{
  const part_source *part = state;
  return part->whole->give(part->whole->state, part->from + index, sink, error);
}

/* The end of the shard that begins at `from`: as many tensors as fit, but at least one. */
static size_t shard_end(const file_tensor *tensors, size_t count, size_t from, size_t most)
{
  size_t bytes = 0, end = from;
  while (end < count && (end == from || tensors[end].bytes <= most - bytes)) {
    bytes = size_add(bytes, tensors[end++].bytes);
    if (bytes > most) break;
  }
  return end;
}

static void shard_name(char name[NAME_SIZE], size_t number, size_t count)
{
  snprintf(name, NAME_SIZE, "model-%05zu-of-%05zu.safetensors", number + 1, count);
}

static status write_inside(const char *directory, const char *name, const file_tensor *tensors, size_t count,
                           const char *const *metadata, const tensor_source *source, alibi_error *error)
{
  char *path = path_join(directory, name);
  if (!path) return fail(error, ALIBI_FAILED, "%s: not enough memory to write there", directory);
  status result = safetensors_write_from(path, tensors, count, metadata, source, error);
  free(path);
  return result;
}

/* A file of another layout that stays would be what a reader opens. */
static status check_free(const char *directory, const char *name, alibi_error *error)
{
  char *path = path_join(directory, name);
  if (!path) return fail(error, ALIBI_FAILED, "%s: not enough memory to write there", directory);
  bool there = path_exists(path);
  free(path);
  return there ? fail(error, ALIBI_FAILED, "%s: expected no %s in it, found one", directory, name) : ALIBI_OK;
}

static status write_index(const char *directory, json_node *map, size_t bytes, alibi_error *error)
{
  json_node *root = node_new_object(), *about = node_new_object();
  char *path = path_join(directory, INDEX_FILE);
  status result;
  node_set_integer(about, "total_size", (int64_t)bytes);
  node_set(root, "metadata", about);
  node_set(root, "weight_map", map);
  if (!path) RAISE(error, ALIBI_FAILED, "%s: not enough memory to write there", directory);
  TRY(node_write_file(root, path, error));
done:
  free(path);
  node_free(root);
  return result;
}

status safetensors_write_shards(const char *directory, const file_tensor *tensors, size_t count,
                                const char *const *metadata, const tensor_source *source, size_t most,
                                alibi_error *error)
{
  size_t shards = 0, bytes = 0;
  char name[NAME_SIZE];
  json_node *map = NULL;
  status result;
  TRY(directory_make(directory, error));
  TRY(check_free(directory, INDEX_FILE, error));
  for (size_t i = 0; i < count; i = shard_end(tensors, count, i, most)) shards++;
  if (shards <= 1) return write_inside(directory, SINGLE_FILE, tensors, count, metadata, source, error);
  TRY(check_free(directory, SINGLE_FILE, error));
  if (shards > SHARDS_MOST)
    RAISE(error, ALIBI_INVALID, "%s: expected at most %d shards, found %zu of %zu bytes", directory, SHARDS_MOST,
          shards, most);
  map = node_new_object();
  for (size_t from = 0, shard = 0, end; from < count; from = end, shard++) {
    end = shard_end(tensors, count, from, most);
    part_source part = {source, from};
    shard_name(name, shard, shards);
    TRY(write_inside(directory, name, tensors + from, end - from, metadata,
                     source ? &(tensor_source){.give = give_part, .state = &part} : NULL, error));
    for (size_t i = from; i < end; i++) {
      if (node_get(map, tensors[i].name))
        RAISE(error, ALIBI_INVALID, "%s: tensor '%s': expected a name of its own", directory, tensors[i].name);
      node_set_text(map, tensors[i].name, name);
      bytes = size_add(bytes, tensors[i].bytes);
    }
  }
  result = write_index(directory, map, bytes, error);
  map = NULL;
done:
  node_free(map);
  return result;
}
