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

enum {
  PREFIX_BYTES = 8,
  HEADER_MOST = 100000000,
  HEADER_LEVELS = 3,      /* the header, a tensor, its shape */
  HEADER_VALUES = 4000000 /* ten a tensor; the largest models have 100,000 tensors */
};

struct safetensors_file {
  mapped_file map;
  json_node *header; /* owns the names and the metadata */
  file_tensor *tensor;
  size_t count;
  const file_tensor **by_name;
};

/* A size of the header: an integer that is not negative and fits. */
static bool read_size(const json_node *node, size_t *size)
{
  int64_t value = node_kind_of(node) == NODE_INTEGER ? node_integer(node, -1) : -1;
  if (value < 0 || (uint64_t)value > PTRDIFF_MAX) return false;
  *size = (size_t)value;
  return true;
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
  if (strlen(t->name) > TENSOR_NAME_MOST)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%.40s...': expected a name of at most %d bytes, found %zu",
                path, t->name, TENSOR_NAME_MOST, strlen(t->name));
  if (node_kind_of(node) != NODE_OBJECT)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected an object", path, t->name);
  for (size_t i = 0; i < node_count(node); i++) {
    const char *key;
    node_member(node, i, &key);
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': unknown key '%.40s'", path, t->name, key);
  }
  const char *type_name = node_text(node_get(node, "dtype"), NULL);
  if (!tensor_type_find(type_name, &t->type) || !tensor_type_in_safetensors(t->type))
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a known dtype, found %.40s", path, t->name,
                type_name ? type_name : "none");
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
  if (!tensor_type_size(t->type, t->dimensions, t->shape, &t->bytes) || t->bytes != end - begin)
    return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': its %zu bytes do not fit its shape and type %s", path,
                t->name, end - begin, type_name);
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
      return fail(error, ALIBI_BAD_INPUT, "%s: __metadata__: %.40s: expected a text", path, key);
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

/* A tree of JSON takes a hundred times the memory of its text: what cannot be a header is refused before. */
static status check_form(const char *path, const char *text, size_t size, alibi_error *error)
{
  size_t level = 0, values = 1;
  bool quoted = false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == '"') quoted = !quoted;
    else if (quoted) i += c == '\\';
    else if (c == ',') values++;
    else if (c == ']' || c == '}') level -= level > 0;
    else if ((c == '[' || c == '{') && ++level > HEADER_LEVELS)
      return fail(error, ALIBI_BAD_INPUT, "%s: expected at most %d levels of JSON in the header, found more", path,
                  HEADER_LEVELS);
  }
  if (values > HEADER_VALUES)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected at most %d values in the header, found %zu", path,
                HEADER_VALUES, values);
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
  TRY(check_form(path, header, header_size, error));
  TRY(node_parse(header, header_size, path, &file->header, error));
  const json_node *metadata = node_get(file->header, "__metadata__");
  TRY(check_metadata(path, metadata, error));

  size_t members = node_count(file->header), data_size = file->map.size - PREFIX_BYTES - header_size;
  const unsigned char *data = file->map.data + PREFIX_BYTES + header_size;
  TRY(memory_new(&file->tensor, members, sizeof *file->tensor, path, error));
  TRY(memory_new(&file->by_name, members, sizeof *file->by_name, path, error));
  for (size_t i = 0; i < members; i++) {
    file_tensor *t = &file->tensor[file->count];
    const json_node *node = node_member(file->header, i, &t->name);
    if (node == metadata) continue;
    TRY(read_tensor(path, node, data, data_size, t, error));
    file->count++;
  }
  qsort(file->tensor, file->count, sizeof *file->tensor, compare_place);
  TRY(check_places(path, file, data, data_size, error));
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

/* ---- writing ---- */

static status add_to_header(json_node *header, const char *path, const file_tensor *t, size_t begin, size_t *end,
                            alibi_error *error)
{
  size_t bytes = 0;
  if (strcmp(t->name, "__metadata__") == 0 || node_get(header, t->name))
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected a name of its own", path, t->name);
  if (strlen(t->name) > TENSOR_NAME_MOST)
    return fail(error, ALIBI_INVALID, "%s: tensor '%.40s...': expected a name of at most %d bytes, found %zu",
                path, t->name, TENSOR_NAME_MOST, strlen(t->name));
  if (!tensor_type_in_safetensors(t->type))
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected a type that safetensors has, found %s", path,
                t->name, tensor_type_name(t->type));
  if (t->dimensions < 0 || t->dimensions > TENSOR_MAX_DIMENSIONS ||
      !tensor_type_size(t->type, t->dimensions, t->shape, &bytes) || bytes != t->bytes)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': its %zu bytes do not fit its shape and type %s", path,
                t->name, t->bytes, tensor_type_name(t->type));
  *end = size_add(begin, bytes);
  if (*end > PTRDIFF_MAX)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': the file gets too large", path, t->name);
  json_node *entry = node_new_object(), *shape = node_new_array(), *offsets = node_new_array();
  node_set_text(entry, "dtype", tensor_type_name(t->type));
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

/* Wider numbers first, else as they came: every size is then a multiple of the next type's, and each tensor is
 * aligned.  Types whose blocks are no power of two come last. */
static size_t *order_of(const file_tensor *tensors, size_t count, const char *path, alibi_error *error)
{
  size_t *order = NULL, used = 0;
  if (memory_new(&order, count, sizeof *order, path, error) != ALIBI_OK) return NULL;
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t i = 0; i < count; i++) {
      size_t bytes = tensor_type_bytes(tensors[i].type);
      if (bytes == width && tensor_type_elements(tensors[i].type) == 1) order[used++] = i;
    }
  for (size_t i = 0; i < count; i++)
    if (tensor_type_elements(tensors[i].type) != 1) order[used++] = i;
  return order;
}

status safetensors_write_from(const char *path, const file_tensor *tensors, size_t count,
                              const char *const *metadata, const tensor_source *source, alibi_error *error)
{
  status result = ALIBI_OK;
  replace_file r = {0};
  char *text = NULL;
  size_t used = 0;
  json_node *header = node_new_object();
  size_t *order = order_of(tensors, count, path, error);
  if (!order) TRY(ALIBI_FAILED);
  if (metadata) node_set(header, "__metadata__", metadata_node(metadata));
  for (size_t i = 0; i < count; i++) TRY(add_to_header(header, path, &tensors[order[i]], used, &used, error));
  text = node_to_text(header);
  if (!text) RAISE(error, ALIBI_FAILED, "%s: not enough memory to write it", path);
  if (strlen(text) > HEADER_MOST - MEMORY_ALIGNMENT)
    RAISE(error, ALIBI_INVALID, "%s: expected a header of at most %d bytes, found %zu", path, HEADER_MOST,
          strlen(text));
  TRY(replace_begin(path, &r, error));
  r.passing = source && source->passing;
  write_header(r.stream, text);
  for (size_t i = 0; i < count; i++) TRY(tensor_give(r.stream, path, tensors, order[i], source, error));
  TRY(replace_commit(&r, error));
done:
  replace_abandon(&r);
  memory_free(order);
  free(text);
  node_free(header);
  return result;
}

status safetensors_write(const char *path, const file_tensor *tensors, size_t count, const char *const *metadata,
                         alibi_error *error)
{
  return safetensors_write_from(path, tensors, count, metadata, NULL, error);
}
