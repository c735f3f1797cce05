/* Tensors by name over the formats and over shards.  The one idea: whatever the format, opening ends in one array
 * of file_tensor and one array of parts; which format a part has is asked in this file alone. */
#include "file/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/gguf.h"
#include "file/json.h"
#include "file/safetensors.h"
#include "file/tensor_directory.h"
#include "file/torch_file.h"

typedef enum file_format { FORMAT_SAFETENSORS, FORMAT_GGUF, FORMAT_TORCH } file_format;

static const char *const format_names[] = {"safetensors", "gguf", "torch"};

/* One file: a whole model or a shard. */
typedef struct part {
  char *path;
  safetensors_file *safetensors;
  torch_file *torch;
  const gguf_file *gguf; /* one of the whole's list */
  size_t begin;          /* index of its first tensor */
} part;

struct tensor_file {
  file_format format;
  part *parts;
  size_t part_count;
  gguf_file **gguf; /* the parts of that format, which are opened together */
  size_t gguf_count;
  file_tensor *tensors;
  size_t count;
  const file_tensor **by_name;
};

/* ---- one part of any format ---- */

static status part_open(part *p, const char *path, file_format format, alibi_error *error)
{
  p->path = strdup(path);
  if (!p->path) return fail(error, ALIBI_FAILED, "%s: not enough memory to open it", path);
  switch (format) {
  case FORMAT_SAFETENSORS: return safetensors_open(path, &p->safetensors, error);
  case FORMAT_GGUF: break; /* by open_gguf */
  case FORMAT_TORCH: return torch_file_open(path, &p->torch, error);
  }
  return ALIBI_OK;
}

static void part_close(part *p)
{
  safetensors_close(p->safetensors);
  torch_file_close(p->torch);
  free(p->path);
}

static size_t part_size(const part *p)
{
  if (p->gguf) return gguf_count(p->gguf);
  return p->torch ? torch_file_count(p->torch) : safetensors_count(p->safetensors);
}

static const file_tensor *part_at(const part *p, size_t index)
{
  if (p->gguf) return gguf_at(p->gguf, index);
  return p->torch ? torch_file_at(p->torch, index) : safetensors_at(p->safetensors, index);
}

/* ---- which format ---- */

static bool ends_with(const char *text, const char *end)
{
  size_t size = strlen(text), tail = strlen(end);
  return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* By what the file begins with; a damaged beginning by its name, so that the reader says what is wrong. */
static status find_format(const char *path, file_format *format, alibi_error *error)
{
  mapped_file map = {0};
  uint64_t unused;
  status result;
  if (path_exists(path) && !path_size(path, &unused))
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a plain file", path); /* a pipe could be read only once */
  TRY(mapped_file_open(path, &map, error));
  if (map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0) *format = FORMAT_GGUF;
  else if (map.size >= 4 && memcmp(map.data, "PK\3\4", 4) == 0) *format = FORMAT_TORCH;
  else if ((map.size > 8 && map.data[8] == '{') || ends_with(path, ".safetensors")) *format = FORMAT_SAFETENSORS;
  else if (ends_with(path, ".gguf")) *format = FORMAT_GGUF;
  else if (ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth")) *format = FORMAT_TORCH;
  else
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a file of safetensors, GGUF or PyTorch's, found none of these",
          path);
done:
  mapped_file_close(&map);
  return result;
}

/* ---- the whole ---- */

static int compare_name(const void *a, const void *b)
{
  return strcmp((*(const file_tensor *const *)a)->name, (*(const file_tensor *const *)b)->name);
}

/* The parts' tensors as one list; a name in two parts is refused. */
static status gather(tensor_file *file, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < file->part_count; i++) {
    file->parts[i].begin = file->count;
    file->count += part_size(&file->parts[i]);
  }
  TRY(memory_new(&file->tensors, file->count, sizeof *file->tensors, "the list of tensors", error));
  TRY(memory_new(&file->by_name, file->count, sizeof *file->by_name, "the list of tensors", error));
  for (size_t i = 0, k = 0; i < file->part_count; i++)
    for (size_t t = 0; t < part_size(&file->parts[i]); t++, k++) {
      file->tensors[k] = *part_at(&file->parts[i], t);
      file->by_name[k] = &file->tensors[k];
    }
  qsort(file->by_name, file->count, sizeof *file->by_name, compare_name);
  for (size_t i = 1; i < file->count; i++)
    if (compare_name(&file->by_name[i - 1], &file->by_name[i]) == 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': is in %s too", tensor_file_path_of(file, file->by_name[i]),
            file->by_name[i]->name, tensor_file_path_of(file, file->by_name[i - 1]));
done:
  return result;
}

/* The parts of a split model are found by what the file says. */
static status open_gguf(tensor_file *file, const char *path, alibi_error *error)
{
  status result;
  TRY(gguf_open_parts(path, &file->gguf, &file->gguf_count, error));
  TRY(memory_new(&file->parts, file->gguf_count, sizeof *file->parts, path, error));
  for (; file->part_count < file->gguf_count; file->part_count++) {
    const gguf_file *gguf = file->gguf[file->part_count];
    file->parts[file->part_count].gguf = gguf;
    TRY(part_open(&file->parts[file->part_count], gguf_path(gguf), FORMAT_GGUF, error));
  }
  TRY(gather(file, error));
done:
  return result;
}

static status open_single(tensor_file *file, const char *path, alibi_error *error)
{
  status result;
  TRY(find_format(path, &file->format, error));
  if (file->format == FORMAT_GGUF) return open_gguf(file, path, error);
  TRY(memory_new(&file->parts, 1, sizeof *file->parts, path, error));
  file->part_count = 1;
  TRY(part_open(&file->parts[0], path, file->format, error));
  TRY(gather(file, error));
done:
  return result;
}

/* ---- shards ---- */

enum {
  INDEX_MOST = 32 << 20, /* a hundred bytes a tensor; the largest models have 100,000 tensors */
  SHARD_NAME_MOST = 255
};

/* A name of the index stands for a file beside it: one that leads elsewhere is refused. */
static bool is_plain_name(const char *name)
{
  return name[0] != '\0' && name[0] != '.' && !strpbrk(name, "/\\");
}

/* The map from tensors to shards. */
typedef struct shard_index {
  const char *path;
  const json_node *map;
  char *folder;       /* of the index */
  const char **names; /* of shards, each once */
  size_t count;
} shard_index;

static int compare_text(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static status read_shard_names(shard_index *index, alibi_error *error)
{
  size_t tensors = node_count(index->map);
  status result = memory_new(&index->names, tensors, sizeof *index->names, index->path, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < tensors; i++) {
    const char *tensor, *name = node_text(node_member(index->map, i, &tensor), NULL);
    if (strlen(tensor) > TENSOR_NAME_MOST)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%.40s...': expected a name of at most %d bytes",
                  index->path, tensor, TENSOR_NAME_MOST);
    if (!name || strlen(name) > SHARD_NAME_MOST || !is_plain_name(name))
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: weight_map: '%s': expected the name of a file beside it, found %s%.200s%s", index->path,
                  tensor, name ? "'" : "", name ? name : "no text", name ? "'" : "");
    index->names[i] = name;
  }
  qsort(index->names, tensors, sizeof *index->names, compare_text);
  for (size_t i = 0; i < tensors; i++)
    if (i == 0 || strcmp(index->names[index->count - 1], index->names[i]) != 0)
      index->names[index->count++] = index->names[i];
  return ALIBI_OK;
}

/* Every tensor of a shard is one that the map has there.  At once, for each shard: a file under many names is then
 * refused at the second. */
static status check_shard(const part *p, const shard_index *index, const char *shard, alibi_error *error)
{
  for (size_t i = 0; i < part_size(p); i++) {
    const char *name = part_at(p, i)->name;
    const json_node *mapped = node_get(index->map, name);
    if (!mapped)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected it in weight_map too", p->path, name);
    if (strcmp(node_text(mapped, ""), shard) != 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected it in the shard '%s', found it in '%s'",
                  index->path, name, node_text(mapped, ""), shard);
  }
  for (size_t i = 0; part_size(p) == 0 && i < node_count(index->map); i++) {
    const char *name;
    if (strcmp(node_text(node_member(index->map, i, &name), ""), shard) == 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected it in the shard '%s', found none",
                  index->path, name, shard);
  }
  return ALIBI_OK;
}

static status open_shard(tensor_file *file, const shard_index *index, const char *name, alibi_error *error)
{
  status result = ALIBI_OK;
  file_format format;
  part *p = &file->parts[file->part_count];
  char *path = path_join(index->folder, name);
  if (!path) RAISE(error, ALIBI_FAILED, "%s: not enough memory to open it", index->path);
  if (!path_exists(path))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected its shard '%s' beside it, found none", index->path, name);
  TRY(find_format(path, &format, error));
  if (file->part_count == 0) file->format = format;
  if (format == FORMAT_GGUF || format != file->format)
    RAISE(error, ALIBI_BAD_INPUT, "%s: shard '%s': expected %s, found %s", index->path, name,
          format == FORMAT_GGUF ? "safetensors or PyTorch's" : format_names[file->format], format_names[format]);
  file->part_count++; /* it is closed with the others, also half open */
  TRY(part_open(p, path, format, error));
  TRY(check_shard(p, index, name, error));
done:
  free(path);
  return result;
}

/* And every tensor of the map was found. */
static status check_map(const tensor_file *file, const shard_index *index, alibi_error *error)
{
  for (size_t i = 0; i < node_count(index->map); i++) {
    const char *name, *shard = node_text(node_member(index->map, i, &name), "");
    if (!tensor_file_find(file, name))
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected it in the shard '%s', found none",
                  index->path, name, shard);
  }
  return ALIBI_OK;
}

static status open_index(tensor_file *file, const char *path, alibi_error *error)
{
  shard_index index = {.path = path};
  json_node *root = NULL;
  uint64_t size;
  status result;
  if (path_exists(path) && !path_size(path, &size))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a plain file", path); /* a pipe may never end */
  if (path_size(path, &size) && size > INDEX_MOST)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected an index of at most %d bytes, found %llu", path, INDEX_MOST,
          (unsigned long long)size);
  TRY(node_read_file(path, &root, error));
  index.map = node_get(root, "weight_map");
  if (node_kind_of(index.map) != NODE_OBJECT || node_count(index.map) == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected an object weight_map, from tensors to shards", path);
  index.folder = strdup(path);
  if (!index.folder) RAISE(error, ALIBI_FAILED, "%s: not enough memory to open it", path);
  char *slash = strrchr(index.folder, '/');
  strcpy(slash ? slash + 1 : index.folder, slash ? "" : ".");
  TRY(read_shard_names(&index, error));
  TRY(memory_new(&file->parts, index.count, sizeof *file->parts, path, error));
  for (size_t i = 0; i < index.count; i++) TRY(open_shard(file, &index, index.names[i], error));
  TRY(gather(file, error));
  TRY(check_map(file, &index, error));
done:
  memory_free(index.names);
  free(index.folder);
  node_free(root);
  return result;
}

static status open_file(tensor_file *file, const char *path, alibi_error *error)
{
  return ends_with(path, ".index.json") ? open_index(file, path, error) : open_single(file, path, error);
}

static status open_directory(tensor_file *file, const char *path, alibi_error *error)
{
  char *inside = NULL;
  status result;
  TRY(tensor_directory_find(path, &inside, error));
  TRY(open_file(file, inside, error));
done:
  free(inside);
  return result;
}

status tensor_file_open(const char *path, tensor_file **file, alibi_error *error)
{
  status result;
  *file = NULL;
  TRY(memory_new(file, 1, sizeof **file, path, error));
  TRY(path_is_directory(path) ? open_directory(*file, path, error) : open_file(*file, path, error));
done:
  if (result != ALIBI_OK) {
    tensor_file_close(*file);
    *file = NULL;
  }
  return result;
}

void tensor_file_close(tensor_file *file)
{
  if (!file) return;
  for (size_t i = 0; i < file->part_count; i++) part_close(&file->parts[i]);
  memory_free(file->parts);
  gguf_close_parts(&file->gguf, &file->gguf_count);
  memory_free(file->by_name);
  memory_free(file->tensors);
  memory_free(file);
}

size_t tensor_file_count(const tensor_file *file)
{
  return file->count;
}

const file_tensor *tensor_file_at(const tensor_file *file, size_t index)
{
  return index < file->count ? &file->tensors[index] : NULL;
}

const file_tensor *tensor_file_find(const tensor_file *file, const char *name)
{
  file_tensor wanted = {.name = name};
  const file_tensor *key = &wanted;
  const file_tensor *const *found = bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_name);
  return found ? *found : NULL;
}

const char *tensor_file_format(const tensor_file *file)
{
  return format_names[file->format];
}

const char *tensor_file_path(const tensor_file *file, size_t index)
{
  size_t first = 0, end = file->part_count; /* of the parts that begin here or before, the last has it */
  while (end - first > 1) {
    size_t middle = first + (end - first) / 2;
    if (file->parts[middle].begin <= index) first = middle;
    else end = middle;
  }
  return file->parts[first].path;
}

const char *tensor_file_path_of(const tensor_file *file, const file_tensor *tensor)
{
  return tensor_file_path(file, (size_t)(tensor - file->tensors));
}

const char *tensor_file_metadata(const tensor_file *file, const char *key)
{
  const char *value = NULL;
  for (size_t i = 0; i < file->part_count && !value; i++)
    if (file->format == FORMAT_SAFETENSORS) value = safetensors_metadata(file->parts[i].safetensors, key);
  return value;
}

const gguf_file *tensor_file_gguf(const tensor_file *file)
{
  return file->gguf ? file->gguf[0] : NULL;
}
