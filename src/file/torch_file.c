/* PyTorch's files.  The one idea: the pickle claims and the zip archive has; a tensor is handed out where its
 * claim lies within the entry of its storage, row after row. */
#include "file/torch_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/torch_pickle.h"
#include "file/torch_zip.h"

#define PICKLE_ENTRY "/data.pkl"

struct torch_file {
  mapped_file map;
  torch_tensor_list list; /* owns the names */
  file_tensor *tensors;
  size_t count;
};

/* The archive while it is read. */
typedef struct archive {
  const char *path;
  const mapped_file *map;
  zip_directory zip;
  char *name; /* "archive/data.pkl", the end of which is replaced by other names */
  size_t prefix;
  alibi_error *error;
} archive;

enum { ENTRY_MOST = 64 }; /* bytes of a name within the archive's folder */

static const zip_entry *find_entry(const archive *a, const char *folder, const char *name)
{
  snprintf(a->name + a->prefix, ENTRY_MOST, "/%s%s", folder, name);
  return zip_directory_find(&a->zip, a->name);
}

/* All entries are in one folder; it is known by the pickle in it. */
static status find_folder(archive *a)
{
  const char *found = NULL;
  for (size_t i = 0; i < a->zip.count; i++) {
    const char *name = a->zip.entries[i].name, *slash = strchr(name, '/');
    if (!slash || strcmp(slash, PICKLE_ENTRY) != 0) continue;
    if (found) return fail(a->error, ALIBI_BAD_INPUT, "%s: expected one data.pkl, found two", a->path);
    found = name;
    a->prefix = (size_t)(slash - name);
  }
  if (!found)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: expected a zip archive of torch.save, found one without data.pkl",
                a->path);
  status result = memory_new(&a->name, a->prefix + ENTRY_MOST, 1, a->path, a->error);
  if (result == ALIBI_OK) memcpy(a->name, found, a->prefix);
  return result;
}

static status check_kind(const archive *a)
{
  if (find_entry(a, "", "constants.pkl"))
    return fail(a->error, ALIBI_BAD_INPUT, "%s: expected a file of torch.save, found a TorchScript program",
                a->path);
  const zip_entry *order = find_entry(a, "", "byteorder");
  const char *text = order ? (const char *)a->map->data + order->begin : NULL;
  if (order && (order->size != 6 || memcmp(text, "little", 6) != 0))
    return fail(a->error, ALIBI_BAD_INPUT, "%s: byteorder: expected little, found %s", a->path,
                order->size == 3 && memcmp(text, "big", 3) == 0 ? "big: save it anew on a little-endian machine"
                                                                : "another text");
  return ALIBI_OK;
}

/* Row after row: a step of a dimension is as long as all that is within it.  Steps of dimensions of one element
 * are never taken. */
static bool is_row_major(const torch_tensor *t)
{
  size_t step = 1;
  for (int i = t->dimensions - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->stride[i] != step) return false;
    step = size_mul(step, t->shape[i]);
  }
  return true;
}

static status place_tensor(const archive *a, const torch_tensor *claim, file_tensor *t)
{
  *t = (file_tensor){.name = claim->name, .type = claim->type, .dimensions = claim->dimensions};
  memcpy(t->shape, claim->shape, sizeof t->shape);
  if (!tensor_type_size(t->type, t->dimensions, t->shape, &t->bytes))
    return fail(a->error, ALIBI_BAD_INPUT, "%s: tensor '%s': its shape is too large", a->path, t->name);
  if (t->bytes > 0 && !is_row_major(claim))
    return fail(a->error, ALIBI_BAD_INPUT,
                "%s: tensor '%s': expected one that is contiguous (row after row), found other strides", a->path,
                t->name);
  const zip_entry *entry = find_entry(a, "data/", claim->storage);
  if (!entry)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected an entry '%s' with its data, found none",
                a->path, t->name, a->name);
  if (entry->size != claim->storage_bytes)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %zu bytes in the entry '%s', found %zu",
                a->path, t->name, claim->storage_bytes, entry->name, entry->size);
  size_t begin = size_mul(claim->offset, tensor_type_bytes(t->type));
  if (begin > entry->size || t->bytes > entry->size - begin)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected to end within the %zu bytes of its storage",
                a->path, t->name, entry->size);
  t->data = a->map->data + entry->begin + begin;
  return ALIBI_OK;
}

static int compare_name(const void *a, const void *b)
{
  return strcmp((*(const file_tensor *const *)a)->name, (*(const file_tensor *const *)b)->name);
}

static status check_names(const archive *a, const file_tensor *tensors, size_t count)
{
  const file_tensor **by_name = NULL;
  status result;
  TRY(memory_new(&by_name, count, sizeof *by_name, a->path, a->error));
  for (size_t i = 0; i < count; i++) by_name[i] = &tensors[i];
  qsort(by_name, count, sizeof *by_name, compare_name);
  for (size_t i = 1; i < count; i++)
    if (compare_name(&by_name[i - 1], &by_name[i]) == 0)
      RAISE(a->error, ALIBI_BAD_INPUT, "%s: tensor '%s': is there twice", a->path, by_name[i]->name);
done:
  memory_free(by_name);
  return result;
}

/* Before version 1.6 torch.save wrote pickles one after the other, and the data without a directory. */
static status check_beginning(const char *path, const mapped_file *map, alibi_error *error)
{
  if (map->size >= 4 && memcmp(map->data, "PK\3\4", 4) == 0) return ALIBI_OK;
  if (map->size >= 2 && map->data[0] == 0x80)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected the zip format of torch.save, found the one before PyTorch 1.6: load it there and "
                "save it anew",
                path);
  return fail(error, ALIBI_BAD_INPUT, "%s: expected the zip format of torch.save, found no zip archive", path);
}

static status read_file(const char *path, torch_file *file, alibi_error *error)
{
  archive a = {.path = path, .map = &file->map, .error = error};
  status result;
  TRY(mapped_file_open(path, &file->map, error));
  TRY(check_beginning(path, &file->map, error));
  TRY(zip_directory_read(path, file->map.data, file->map.size, &a.zip, error));
  TRY(find_folder(&a));
  TRY(check_kind(&a));
  const zip_entry *pickle = find_entry(&a, "", "data.pkl");
  TRY(torch_pickle_read(path, file->map.data + pickle->begin, pickle->size, &file->list, error));
  TRY(memory_new(&file->tensors, file->list.count, sizeof *file->tensors, path, error));
  for (; file->count < file->list.count; file->count++)
    TRY(place_tensor(&a, &file->list.items[file->count], &file->tensors[file->count]));
  TRY(check_names(&a, file->tensors, file->count));
done:
  memory_free(a.name);
  zip_directory_free(&a.zip);
  return result;
}

status torch_file_open(const char *path, torch_file **file, alibi_error *error)
{
  status result = memory_new(file, 1, sizeof **file, path, error);
  if (result == ALIBI_OK) result = read_file(path, *file, error);
  if (result != ALIBI_OK) {
    torch_file_close(*file);
    *file = NULL;
  }
  return result;
}

void torch_file_close(torch_file *file)
{
  if (!file) return;
  memory_free(file->tensors);
  torch_tensor_list_free(&file->list);
  mapped_file_close(&file->map);
  memory_free(file);
}

size_t torch_file_count(const torch_file *file)
{
  return file->count;
}

const file_tensor *torch_file_at(const torch_file *file, size_t index)
{
  return index < file->count ? &file->tensors[index] : NULL;
}
