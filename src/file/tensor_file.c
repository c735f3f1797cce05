/* Tensors by name over the formats and over shards.  The one idea: whatever the format, opening ends in one array of
 * file_tensor and one array of parts; which format a part has is asked in this file alone. */
#include "file/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/gguf.h"
#include "file/safetensors.h"

typedef enum file_format { FORMAT_SAFETENSORS, FORMAT_GGUF, FORMAT_TORCH } file_format;

static const char *const format_names[] = {"safetensors", "gguf", "torch"};

/* One file: a whole model or a shard. */
typedef struct part {
  char *path;
  safetensors_file *safetensors;
  const gguf_file *gguf; /* one of the whole's list */
  size_t begin; /* index of its first tensor */
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
  case FORMAT_TORCH: return fail(error, ALIBI_BAD_INPUT, "%s: PyTorch's files are not read yet", path);
  }
  return ALIBI_OK;
}

static void part_close(part *p)
{
  safetensors_close(p->safetensors);
  free(p->path);
}

static size_t part_size(const part *p)
{
  return p->gguf ? gguf_count(p->gguf) : safetensors_count(p->safetensors);
}

static const file_tensor *part_at(const part *p, size_t index)
{
  return p->gguf ? gguf_at(p->gguf, index) : safetensors_at(p->safetensors, index);
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
  else RAISE(error, ALIBI_BAD_INPUT, "%s: expected a file of safetensors, GGUF or PyTorch's, found neither", path);
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

static status open_directory(tensor_file *file, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  char *inside = path_join(path, "model.safetensors");
  if (!inside) RAISE(error, ALIBI_FAILED, "%s: not enough memory to open it", path);
  if (!path_exists(inside))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a file model.safetensors in the directory, found none", path);
  TRY(open_single(file, inside, error));
done:
  free(inside);
  return result;
}

status tensor_file_open(const char *path, tensor_file **file, alibi_error *error)
{
  status result;
  *file = NULL;
  TRY(memory_new(file, 1, sizeof **file, path, error));
  TRY(path_is_directory(path) ? open_directory(*file, path, error) : open_single(*file, path, error));
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
  size_t i = file->part_count - 1;
  while (i > 0 && file->parts[i].begin > index) i--;
  return file->parts[i].path;
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
