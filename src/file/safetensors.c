/* The safetensors format.  The one idea: a file is believed only where its claims agree with each other.  Each
 * tensor's bytes must follow from its type and shape, and the tensors, sorted by place, must fill the data
 * exactly; then no two overlap, none lies outside the file, and the numbers given to the caller need no further
 * check. */
#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/json.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and is used in place"
#endif

enum { PREFIX_BYTES = 8, HEADER_MOST = 100000000 };

struct safetensors_file {
  mapped_file map;
  json_node *header; /* owns the names and the metadata */
  file_tensor *tensor;
  size_t count;
  const file_tensor **by_name;
  void **copy; /* count; aligned copies of tensors that the file holds misaligned, else NULL */
};

typedef struct type_row {
  const char *name;
  unsigned bits;
  tensor_type type;
} type_row;

static const type_row type_rows[] = {
    {"F32", 32, TENSOR_F32},      {"F16", 16, TENSOR_F16},      {"BF16", 16, TENSOR_BF16},
    {"F64", 64, TENSOR_OTHER},    {"C64", 64, TENSOR_OTHER},    {"I64", 64, TENSOR_OTHER},
    {"U64", 64, TENSOR_OTHER},    {"I32", 32, TENSOR_OTHER},    {"U32", 32, TENSOR_OTHER},
    {"I16", 16, TENSOR_OTHER},    {"U16", 16, TENSOR_OTHER},    {"I8", 8, TENSOR_OTHER},
    {"U8", 8, TENSOR_OTHER},      {"BOOL", 8, TENSOR_OTHER},    {"F8_E4M3", 8, TENSOR_OTHER},
    {"F8_E5M2", 8, TENSOR_OTHER}, {"F8_E8M0", 8, TENSOR_OTHER}, {"F6_E2M3", 6, TENSOR_OTHER},
    {"F6_E3M2", 6, TENSOR_OTHER}, {"F4", 4, TENSOR_OTHER},
};

static const type_row *find_type(const char *name)
{
  for (size_t i = 0; name && i < sizeof type_rows / sizeof type_rows[0]; i++)
    if (strcmp(type_rows[i].name, name) == 0) return &type_rows[i];
  return NULL;
}

/* A size of the header: an integer that is not negative and fits. */
static bool read_size(const json_node *node, size_t *size)
{
  int64_t value = node_kind_of(node) == NODE_INTEGER ? node_integer(node, -1) : -1;
  if (value < 0 || (uint64_t)value > PTRDIFF_MAX) return false;
  *size = (size_t)value;
  return true;
}

/* Bytes of a tensor; false where they do not fit a size or are no whole number (4-bit and 6-bit types). */
static bool tensor_bytes(const file_tensor *t, unsigned bits, size_t *bytes)
{
  size_t product = bits;
  for (int i = 0; i < t->dimensions; i++) product = size_mul(product, t->shape[i]);
  for (int i = 0; i < t->dimensions; i++)
    if (t->shape[i] == 0) product = 0; /* also where the other dimensions would overflow */
  *bytes = product / 8;
  return product != SIZE_MAX && product % 8 == 0;
}

static status read_shape(const char *path, const json_node *shape, file_tensor *t, alibi_error *error)
{
  if (node_kind_of(shape) != NODE_ARRAY)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected its shape as an array", path, t->name);
  if (node_count(shape) > TENSOR_MAX_DIMENSIONS)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected at most %d dimensions, found %zu", path,
                t->name, TENSOR_MAX_DIMENSIONS, node_count(shape));
  t->dimensions = (int)node_count(shape);
  for (int i = 0; i < t->dimensions; i++)
    if (!read_size(node_at(shape, (size_t)i), &t->shape[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': dimension %d is no size", path, t->name, i);
  return ALIBI_OK;
}

static status read_tensor(const char *path, const json_node *node, const unsigned char *data, size_t data_size,
                          file_tensor *t, alibi_error *error)
{
  if (node_kind_of(node) != NODE_OBJECT)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected an object", path, t->name);
  for (size_t i = 0; i < node_count(node); i++) {
    const char *key;
    node_member(node, i, &key);
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': unknown key '%s'", path, t->name, key);
  }
  const char *type_name = node_text(node_get(node, "dtype"), NULL);
  const type_row *row = find_type(type_name);
  if (!row)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a known dtype, found %s", path, t->name,
                type_name ? type_name : "none");
  t->type = row->type;
  status result = read_shape(path, node_get(node, "shape"), t, error);
  if (result != ALIBI_OK) return result;
  size_t begin, end;
  const json_node *offsets = node_get(node, "data_offsets");
  if (node_count(offsets) != 2 || !read_size(node_at(offsets, 0), &begin) ||
      !read_size(node_at(offsets, 1), &end) || begin > end)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected data_offsets as [begin, end]", path, t->name);
  if (end > data_size)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected to end within %zu bytes of data, found %zu",
                path, t->name, data_size, end);
  if (!tensor_bytes(t, row->bits, &t->bytes) || t->bytes != end - begin)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': its %zu bytes do not fit its shape and type %s", path,
                t->name, end - begin, row->name);
  t->data = data + begin;
  return ALIBI_OK;
}

static int compare_place(const void *a, const void *b)
{
  const file_tensor *x = a, *y = b;
  if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? -1 : 1; /* empty tensors before the one that begins here */
  return strcmp(x->name, y->name);
}

static int compare_name(const void *a, const void *b)
{
  return strcmp((*(const file_tensor *const *)a)->name, (*(const file_tensor *const *)b)->name);
}

static status check_places(const char *path, const safetensors_file *file, const unsigned char *data,
                           size_t data_size, alibi_error *error)
{
  size_t expected = 0;
  for (size_t i = 0; i < file->count; i++) {
    size_t begin = (size_t)((const unsigned char *)file->tensor[i].data - data);
    if (begin != expected)
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: tensor '%s': expected to begin at byte %zu of the data, found %zu (%s)", path,
                  file->tensor[i].name, expected, begin, begin < expected ? "an overlap" : "a hole");
    expected = begin + file->tensor[i].bytes;
  }
  if (expected != data_size)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected %zu bytes of data, found %zu", path, expected, data_size);
  return ALIBI_OK;
}

static status check_metadata(const char *path, const json_node *metadata, alibi_error *error)
{
  if (!metadata) return ALIBI_OK;
  if (node_kind_of(metadata) != NODE_OBJECT)
    return fail(error, ALIBI_BAD_INPUT, "%s: __metadata__: expected an object", path);
  for (size_t i = 0; i < node_count(metadata); i++) {
    const char *key;
    if (node_kind_of(node_member(metadata, i, &key)) != NODE_TEXT)
      return fail(error, ALIBI_BAD_INPUT, "%s: __metadata__: %s: expected a text", path, key);
  }
  return ALIBI_OK;
}

/* Old writers did not pad the header, so an fp32 tensor can lie at an odd address, which C may not read. */
static status align_tensors(const char *path, safetensors_file *file, alibi_error *error)
{
  for (size_t i = 0; i < file->count; i++) {
    file_tensor *t = &file->tensor[i];
    size_t unit = t->type == TENSOR_F32 ? 4 : t->type == TENSOR_OTHER ? 1 : 2;
    if (t->bytes == 0 || (uintptr_t)t->data % unit == 0) continue;
    status result = memory_new(&file->copy[i], t->bytes, 1, path, error);
    if (result != ALIBI_OK) return result;
    memcpy(file->copy[i], t->data, t->bytes);
    t->data = file->copy[i];
  }
  return ALIBI_OK;
}

static status read_header_size(const char *path, const mapped_file *map, size_t *size, alibi_error *error)
{
  if (map->size < PREFIX_BYTES)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a safetensors file, found %zu bytes", path, map->size);
  uint64_t claimed = 0;
  for (int i = PREFIX_BYTES - 1; i >= 0; i--) claimed = claimed << 8 | map->data[i];
  if (claimed > HEADER_MOST || claimed > map->size - PREFIX_BYTES)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a header of at most %zu bytes, found %llu", path,
                map->size - PREFIX_BYTES < HEADER_MOST ? map->size - PREFIX_BYTES : HEADER_MOST,
                (unsigned long long)claimed);
  *size = (size_t)claimed;
  return ALIBI_OK;
}

static status read_file(const char *path, safetensors_file *file, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t header_size = 0;
  TRY(mapped_file_open(path, &file->map, error));
  TRY(read_header_size(path, &file->map, &header_size, error));
  const char *header = (const char *)file->map.data + PREFIX_BYTES;
  if (header_size == 0 || header[0] != '{')
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a safetensors header, which begins with '{'", path);
  TRY(node_parse(header, header_size, path, &file->header, error));
  const json_node *metadata = node_get(file->header, "__metadata__");
  TRY(check_metadata(path, metadata, error));

  size_t members = node_count(file->header), data_size = file->map.size - PREFIX_BYTES - header_size;
  const unsigned char *data = file->map.data + PREFIX_BYTES + header_size;
  TRY(memory_new(&file->tensor, members, sizeof *file->tensor, path, error));
  TRY(memory_new(&file->by_name, members, sizeof *file->by_name, path, error));
  TRY(memory_new(&file->copy, members, sizeof *file->copy, path, error));
  for (size_t i = 0; i < members; i++) {
    file_tensor *t = &file->tensor[file->count];
    const json_node *node = node_member(file->header, i, &t->name);
    if (node == metadata) continue;
    TRY(read_tensor(path, node, data, data_size, t, error));
    file->count++;
  }
  qsort(file->tensor, file->count, sizeof *file->tensor, compare_place);
  TRY(check_places(path, file, data, data_size, error));
  TRY(align_tensors(path, file, error));
  for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensor[i];
  qsort(file->by_name, file->count, sizeof *file->by_name, compare_name);
done:
  return result;
}

status safetensors_open(const char *path, safetensors_file **file, alibi_error *error)
{
  status result = memory_new(file, 1, sizeof **file, path, error);
  if (result == ALIBI_OK) result = read_file(path, *file, error);
  if (result != ALIBI_OK) {
    safetensors_close(*file);
    *file = NULL;
  }
  return result;
}

void safetensors_close(safetensors_file *file)
{
  if (!file) return;
  for (size_t i = 0; file->copy && i < file->count; i++) memory_free(file->copy[i]);
  memory_free(file->copy);
  memory_free(file->by_name);
  memory_free(file->tensor);
  node_free(file->header);
  mapped_file_close(&file->map);
  memory_free(file);
}

size_t safetensors_count(const safetensors_file *file)
{
  return file->count;
}

const file_tensor *safetensors_at(const safetensors_file *file, size_t index)
{
  return index < file->count ? &file->tensor[index] : NULL;
}

const file_tensor *safetensors_find(const safetensors_file *file, const char *name)
{
  file_tensor wanted = {.name = name};
  const file_tensor *key = &wanted;
  const file_tensor *const *found = bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_name);
  return found ? *found : NULL;
}

const char *safetensors_metadata(const safetensors_file *file, const char *key)
{
  return node_text(node_get(node_get(file->header, "__metadata__"), key), NULL);
}

static status add_to_header(json_node *header, const char *path, const file_tensor *t, size_t begin, size_t *end,
                            alibi_error *error)
{
  size_t bytes = 0;
  if (strcmp(t->name, "__metadata__") == 0 || node_get(header, t->name))
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected a name of its own", path, t->name);
  if (t->type != TENSOR_F32 || t->dimensions < 0 || t->dimensions > TENSOR_MAX_DIMENSIONS ||
      !tensor_bytes(t, 32, &bytes) || bytes != t->bytes)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected fp32 whose %zu bytes fit its shape", path,
                t->name, t->bytes);
  *end = size_add(begin, bytes);
  if (*end > PTRDIFF_MAX)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': the file gets too large", path, t->name);
  json_node *entry = node_new_object(), *shape = node_new_array(), *offsets = node_new_array();
  node_set_text(entry, "dtype", "F32");
  for (int i = 0; i < t->dimensions; i++) node_append_integer(shape, (int64_t)t->shape[i]);
  node_append_integer(offsets, (int64_t)begin);
  node_append_integer(offsets, (int64_t)*end);
  node_set(entry, "shape", shape);
  node_set(entry, "data_offsets", offsets);
  node_set(header, t->name, entry);
  return ALIBI_OK;
}

static json_node *metadata_node(const char *const *metadata)
{
  json_node *node = node_new_object();
  for (; metadata[0]; metadata += 2) node_set_text(node, metadata[0], metadata[1]);
  return node;
}

/* Prefix, header, and spaces up to a cache line, so that the data can be used in place. */
static void write_header(FILE *stream, const char *text)
{
  size_t length = strlen(text), size = size_round_up(PREFIX_BYTES + length, MEMORY_ALIGNMENT) - PREFIX_BYTES;
  for (int i = 0; i < PREFIX_BYTES; i++) putc((int)((uint64_t)size >> (8 * i) & 0xFF), stream);
  fwrite(text, 1, length, stream);
  for (; length < size; length++) putc(' ', stream);
}

status safetensors_write(const char *path, const file_tensor *tensors, size_t count, const char *const *metadata,
                         alibi_error *error)
{
  status result = ALIBI_OK;
  replace_file r = {0};
  char *text = NULL;
  size_t used = 0;
  json_node *header = node_new_object();
  if (metadata) node_set(header, "__metadata__", metadata_node(metadata));
  for (size_t i = 0; i < count; i++) TRY(add_to_header(header, path, &tensors[i], used, &used, error));
  text = node_to_text(header);
  if (!text) RAISE(error, ALIBI_FAILED, "%s: not enough memory to write it", path);
  if (strlen(text) > HEADER_MOST - MEMORY_ALIGNMENT)
    RAISE(error, ALIBI_INVALID, "%s: expected a header of at most %d bytes, found %zu", path, HEADER_MOST,
          strlen(text));
  TRY(replace_begin(path, &r, error));
  write_header(r.stream, text);
  for (size_t i = 0; i < count; i++)
    if (tensors[i].bytes > 0) fwrite(tensors[i].data, 1, tensors[i].bytes, r.stream);
  TRY(replace_commit(&r, error));
done:
  replace_abandon(&r);
  free(text);
  node_free(header);
  return result;
}
