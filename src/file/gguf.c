/* The GGUF format: opening a file.  The one idea: a cursor walks the keys and the descriptions of tensors once,
 * and before each step asks whether the file has that many bytes left.  Nothing is allocated by a count that the
 * file claims: lists grow as their members are found, and an array's index is at most half as large as the array.
 */
#include "file/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_at.h"
#include "base/memory.h"
#include "base/system.h"
#include "file/gguf_private.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF data is little-endian and is used in place"
#endif

enum { HEADER_BYTES = 4 + 4 + 8 + 8, SHOWN = 80 /* bytes of a long name in a sentence */ };

typedef struct cursor {
  const char *path;
  const unsigned char *data;
  size_t at, end; /* end: of what may hold keys and descriptions */
  bool cut;       /* the file goes on after `end` */
  char what[160]; /* where we are, for sentences */
  alibi_error *error;
} cursor;

/* A tensor's description as it was read; its name is still inside the mapping. */
typedef struct description {
  gguf_text name;
  file_tensor tensor;
  uint64_t offset;
} description;

/* ---- the cursor ---- */

static status need(const cursor *c, uint64_t bytes, const char *part)
{
  if (bytes <= c->end - c->at) return ALIBI_OK;
  if (c->cut)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected all keys and tensor descriptions within %d MiB",
                c->path, c->what, GGUF_METADATA_MOST >> 20);
  return fail(c->error, ALIBI_BAD_INPUT,
              "%s: %s: expected %s of %llu bytes at byte %zu, found the file's end at %zu", c->path, c->what, part,
              (unsigned long long)bytes, c->at, c->end);
}

static status take_u32(cursor *c, const char *part, uint32_t *value)
{
  status result = need(c, 4, part);
  if (result != ALIBI_OK) return result;
  *value = u32_at(c->data, c->at);
  c->at += 4;
  return ALIBI_OK;
}

static status take_u64(cursor *c, const char *part, uint64_t *value)
{
  status result = need(c, 8, part);
  if (result != ALIBI_OK) return result;
  *value = u64_at(c->data, c->at);
  c->at += 8;
  return ALIBI_OK;
}

static status take_text(cursor *c, const char *part, gguf_text *text)
{
  uint64_t size = 0;
  status result = take_u64(c, part, &size);
  if (result == ALIBI_OK) result = need(c, size, part);
  if (result != ALIBI_OK) return result;
  *text = (gguf_text){(const char *)c->data + c->at, (size_t)size};
  c->at += (size_t)size;
  return ALIBI_OK;
}

static int shown(size_t size)
{
  return size < SHOWN ? (int)size : SHOWN;
}

/* ---- keys ---- */

static status take_key_name(cursor *c, gguf_key *key, size_t *name_size)
{
  gguf_text name = {0};
  status result = take_text(c, "its name", &name);
  if (result != ALIBI_OK) return result;
  if (name.size == 0 || name.size > GGUF_KEY_MOST)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a name of 1 to %d bytes, found %zu", c->path, c->what,
                GGUF_KEY_MOST, name.size);
  if (!gguf_is_name(name.data, name.size))
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected its name in UTF-8 without control characters",
                c->path, c->what);
  key->name = name.data;
  *name_size = name.size;
  snprintf(c->what, sizeof c->what, "key '%.*s'", shown(name.size), name.data);
  return ALIBI_OK;
}

static status check_booleans(const cursor *c, const unsigned char *data, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (data[i] > 1)
      return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a boolean as 0 or 1, found %d", c->path, c->what,
                  data[i]);
  return ALIBI_OK;
}

static status take_texts(cursor *c, gguf_key *key)
{
  uint32_t *places = NULL;
  size_t capacity = 0, begin = c->at;
  status result = ALIBI_OK;
  TRY(memory_grow(&places, &capacity, key->count, sizeof *places, c->path, c->error));
  key->places = places;
  for (size_t i = 0; i < key->count; i++) {
    gguf_text text = {0};
    places[i] = (uint32_t)(c->at - begin); /* below GGUF_METADATA_MOST */
    TRY(take_text(c, "a text", &text));
    if (key->utf8) key->utf8 = gguf_is_utf8(text.data, text.size);
  }
done:
  return result;
}

static status take_array(cursor *c, gguf_key *key)
{
  uint32_t type = 0;
  uint64_t count = 0;
  status result = ALIBI_OK;
  TRY(take_u32(c, "the type of its elements", &type));
  TRY(take_u64(c, "the count of its elements", &count));
  if (type == GGUF_ARRAY)
    RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected an array of numbers or texts, found one of arrays", c->path,
          c->what);
  if (type >= GGUF_TYPES)
    RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected elements of a type from 0 to %d, found %u", c->path,
          c->what, GGUF_TYPES - 1, type);
  size_t least = type == GGUF_TEXT ? 8 : gguf_type_bytes(type);
  if (count > (c->end - c->at) / least && !c->cut)
    RAISE(c->error, ALIBI_BAD_INPUT,
          "%s: %s: expected at most the %zu elements for which %zu bytes are left, found %llu", c->path, c->what,
          (c->end - c->at) / least, c->end - c->at, (unsigned long long)count);
  if (count > (c->end - c->at) / least) TRY(need(c, UINT64_MAX, "its elements"));
  key->type = (gguf_type)type;
  key->is_array = true;
  key->count = (size_t)count;
  key->data = c->data + c->at;
  if (type == GGUF_TEXT) TRY(take_texts(c, key));
  else c->at += key->count * least;
  if (type == GGUF_BOOL) TRY(check_booleans(c, key->data, key->count));
done:
  return result;
}

static status take_value(cursor *c, gguf_key *key)
{
  uint32_t type = 0;
  status result = ALIBI_OK;
  key->utf8 = true;
  TRY(take_u32(c, "the type of its value", &type));
  if (type >= GGUF_TYPES)
    RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a value of a type from 0 to %d, found %u", c->path, c->what,
          GGUF_TYPES - 1, type);
  key->type = (gguf_type)type;
  key->count = 1;
  key->data = c->data + c->at;
  if (type == GGUF_ARRAY) {
    TRY(take_array(c, key));
  } else if (type == GGUF_TEXT) {
    gguf_text text = {0};
    TRY(take_text(c, "its text", &text));
    if (!gguf_is_utf8(text.data, text.size))
      RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected its text in UTF-8 without a zero byte", c->path, c->what);
  } else {
    TRY(need(c, gguf_type_bytes(type), "its value"));
    if (type == GGUF_BOOL) TRY(check_booleans(c, key->data, 1));
    c->at += gguf_type_bytes(type);
  }
  key->bytes = (size_t)(c->data + c->at - key->data);
done:
  return result;
}

static status take_keys(cursor *c, gguf_file *file, uint64_t count, size_t **name_sizes)
{
  size_t capacity = 0;
  status result = ALIBI_OK;
  for (uint64_t i = 0; i < count; i++) {
    snprintf(c->what, sizeof c->what, "key %llu of %llu", (unsigned long long)i + 1, (unsigned long long)count);
    TRY(memory_grow(&file->key, &file->key_capacity, file->key_count + 1, sizeof *file->key, c->path, c->error));
    TRY(memory_grow(name_sizes, &capacity, file->key_count + 1, sizeof **name_sizes, c->path, c->error));
    gguf_key *key = &file->key[file->key_count];
    *key = (gguf_key){0};
    TRY(take_key_name(c, key, &(*name_sizes)[file->key_count]));
    file->key_count++; /* now gguf_close frees what it holds */
    TRY(take_value(c, key));
  }
done:
  return result;
}

/* ---- descriptions of tensors ---- */

static status take_type(cursor *c, file_tensor *t)
{
  uint32_t number = 0;
  status result = take_u32(c, "its type", &number);
  if (result != ALIBI_OK) return result;
  if (!tensor_type_from_ggml(number, &t->type))
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a type of ggml, found the number %u", c->path,
                c->what, number);
  return ALIBI_OK;
}

static status take_shape(cursor *c, file_tensor *t)
{
  uint32_t dimensions = 0;
  status result = take_u32(c, "the count of its dimensions", &dimensions);
  if (result != ALIBI_OK) return result;
  if (dimensions > GGUF_DIMENSIONS_MOST)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected at most %d dimensions, found %u", c->path, c->what,
                GGUF_DIMENSIONS_MOST, dimensions);
  t->dimensions = (int)dimensions;
  for (int i = t->dimensions - 1; i >= 0; i--) { /* the file begins with the innermost */
    uint64_t size = 0;
    result = take_u64(c, "a dimension", &size);
    if (result != ALIBI_OK) return result;
    if (size > PTRDIFF_MAX)
      return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a dimension below 2^63, found %llu", c->path,
                  c->what, (unsigned long long)size);
    t->shape[i] = (size_t)size;
  }
  return ALIBI_OK;
}

static status check_bytes(const cursor *c, file_tensor *t)
{
  size_t block = tensor_type_elements(t->type), row = t->dimensions ? t->shape[t->dimensions - 1] : 1;
  if (row % block != 0)
    return fail(c->error, ALIBI_BAD_INPUT,
                "%s: %s: expected rows of a multiple of %zu elements for type %s, found %zu", c->path, c->what,
                block, tensor_type_name(t->type), row);
  if (!tensor_type_size(t->type, t->dimensions, t->shape, &t->bytes))
    return fail(c->error, ALIBI_BAD_INPUT, "%s: %s: the product of its dimensions is too large", c->path, c->what);
  return ALIBI_OK;
}

static status take_description(cursor *c, description *d)
{
  status result = ALIBI_OK;
  *d = (description){0};
  TRY(take_text(c, "its name", &d->name));
  if (d->name.size == 0 || d->name.size > GGUF_NAME_MOST)
    RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected a name of 1 to %d bytes, found %zu", c->path, c->what,
          GGUF_NAME_MOST, d->name.size);
  if (!gguf_is_name(d->name.data, d->name.size))
    RAISE(c->error, ALIBI_BAD_INPUT, "%s: %s: expected its name in UTF-8 without control characters", c->path,
          c->what);
  snprintf(c->what, sizeof c->what, "tensor '%.*s'", shown(d->name.size), d->name.data);
  TRY(take_shape(c, &d->tensor));
  TRY(take_type(c, &d->tensor));
  TRY(check_bytes(c, &d->tensor));
  TRY(take_u64(c, "its offset", &d->offset));
done:
  return result;
}

static status take_descriptions(cursor *c, gguf_file *file, uint64_t count, description **list)
{
  size_t capacity = 0;
  status result = ALIBI_OK;
  for (uint64_t i = 0; i < count; i++) {
    snprintf(c->what, sizeof c->what, "tensor %llu of %llu", (unsigned long long)i + 1, (unsigned long long)count);
    TRY(memory_grow(list, &capacity, file->count + 1, sizeof **list, c->path, c->error));
    TRY(take_description(c, &(*list)[file->count]));
    file->count++;
  }
done:
  return result;
}

/* ---- what the parts say about each other ---- */

static int compare_keys(const void *a, const void *b)
{
  return strcmp((*(const gguf_key *const *)a)->name, (*(const gguf_key *const *)b)->name);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp((*(const file_tensor *const *)a)->name, (*(const file_tensor *const *)b)->name);
}

static int compare_places(const void *a, const void *b)
{
  const file_tensor *x = *(const file_tensor *const *)a, *y = *(const file_tensor *const *)b;
  if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty tensors before the one that begins here */
}

static void copy_name(const char **name, size_t size, char **to)
{
  memcpy(*to, *name, size);
  (*to)[size] = '\0';
  *name = *to;
  *to += size + 1;
}

/* Names get their end, tensors their list; then both can be sorted and found. */
static status name_all(gguf_file *file, const size_t *key_sizes, const description *list, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t bytes = 0;
  for (size_t i = 0; i < file->key_count; i++) bytes += key_sizes[i] + 1;
  for (size_t i = 0; i < file->count; i++) bytes += list[i].name.size + 1;
  TRY(memory_new(&file->names, bytes, 1, file->path, error));
  TRY(memory_new(&file->tensor, file->count, sizeof *file->tensor, file->path, error));
  TRY(memory_new(&file->by_name, file->count, sizeof *file->by_name, file->path, error));
  TRY(memory_new(&file->key_by_name, file->key_count, sizeof *file->key_by_name, file->path, error));
  char *to = file->names;
  for (size_t i = 0; i < file->key_count; i++) {
    copy_name(&file->key[i].name, key_sizes[i], &to);
    file->key_by_name[i] = &file->key[i];
  }
  for (size_t i = 0; i < file->count; i++) {
    file->tensor[i] = list[i].tensor;
    file->tensor[i].name = list[i].name.data;
    copy_name(&file->tensor[i].name, list[i].name.size, &to);
    file->by_name[i] = &file->tensor[i];
  }
  qsort(file->key_by_name, file->key_count, sizeof *file->key_by_name, compare_keys);
  for (size_t i = 1; i < file->key_count; i++)
    if (compare_keys(&file->key_by_name[i - 1], &file->key_by_name[i]) == 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: key '%.*s': expected once, found twice", file->path, SHOWN,
            file->key_by_name[i]->name);
done:
  return result;
}

static status read_alignment(gguf_file *file, alibi_error *error)
{
  const gguf_key *key = gguf_key_find(file, "general.alignment");
  file->alignment = GGUF_ALIGNMENT;
  if (!key) return ALIBI_OK;
  if (key->is_array || key->type != GGUF_U32)
    return fail(error, ALIBI_BAD_INPUT, "%s: key 'general.alignment': expected a u32, found %s%s", file->path,
                key->is_array ? "an array of " : "", gguf_type_name(key->type));
  file->alignment = u32_at(key->data, 0);
  if (!gguf_is_alignment(file->alignment))
    return fail(error, ALIBI_BAD_INPUT,
                "%s: key 'general.alignment': expected a power of two from %d to %d, found %zu", file->path,
                GGUF_ALIGNMENT_LEAST, GGUF_ALIGNMENT_MOST, file->alignment);
  return ALIBI_OK;
}

/* The tensors, by place, follow each other with nothing but padding between them, and end with the file. */
static status check_places(gguf_file *file, size_t data_size, const unsigned char *data,
                           const file_tensor **by_place, alibi_error *error)
{
  size_t expected = 0, end = 0;
  for (size_t i = 0; i < file->count; i++) by_place[i] = &file->tensor[i];
  qsort(by_place, file->count, sizeof *by_place, compare_places);
  for (size_t i = 0; i < file->count; i++) {
    size_t begin = (size_t)((const unsigned char *)by_place[i]->data - data);
    if (begin != expected)
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: tensor '%s': expected to begin at byte %zu of the data, found %zu (%s)", file->path,
                  by_place[i]->name, expected, begin, begin < expected ? "an overlap" : "a hole");
    end = begin + by_place[i]->bytes; /* within the file, so that nothing overflows */
    expected = size_round_up(end, file->alignment);
  }
  if (data_size > expected)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected %zu bytes of data, found %zu", file->path, expected,
                data_size);
  return ALIBI_OK;
}

static status place_all(gguf_file *file, size_t metadata_end, const description *list, alibi_error *error)
{
  const file_tensor **by_place = NULL;
  status result = ALIBI_OK;
  size_t begin = size_round_up(metadata_end, file->alignment);
  size_t size = begin < file->map.size ? file->map.size - begin : 0;
  const unsigned char *data = file->map.data + (size > 0 ? begin : file->map.size);
  TRY(memory_new(&by_place, file->count, sizeof *by_place, file->path, error));
  for (size_t i = 0; i < file->count; i++) {
    file_tensor *t = &file->tensor[i];
    uint64_t offset = list[i].offset;
    if (offset % file->alignment != 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected an offset that is a multiple of %zu, found %llu",
            file->path, t->name, file->alignment, (unsigned long long)offset);
    if (offset > size || t->bytes > size - offset)
      RAISE(error, ALIBI_BAD_INPUT,
            "%s: tensor '%s': expected its %zu bytes at %llu within the %zu bytes of data: is the file cut short?",
            file->path, t->name, t->bytes, (unsigned long long)offset, size);
    t->data = data + offset;
  }
  TRY(check_places(file, size, data, by_place, error));
  qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
  for (size_t i = 1; i < file->count; i++)
    if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected once, found twice", file->path,
            file->by_name[i]->name);
done:
  memory_free(by_place);
  return result;
}

/* ---- the whole ---- */

static status check_count(const cursor *c, const char *what, uint64_t count, size_t least, size_t most)
{
  size_t fit = (c->end - c->at) / least;
  if (count > fit && !c->cut)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected at most the %zu %s for which it has bytes, found %llu",
                c->path, fit, what, (unsigned long long)count);
  if (count > most)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected at most %zu %s, found %llu", c->path, most, what,
                (unsigned long long)count);
  return ALIBI_OK;
}

static status read_header(cursor *c, gguf_file *file, uint64_t *tensors, uint64_t *keys)
{
  status result = ALIBI_OK;
  static const char *const ancestors[] = {"lmgg", "fmgg", "tjgg", "algg"};
  for (size_t i = 0; c->end >= 4 && i < sizeof ancestors / sizeof ancestors[0]; i++)
    if (memcmp(c->data, ancestors[i], 4) == 0)
      return fail(c->error, ALIBI_BAD_INPUT, "%s: expected a GGUF file, found one of ggml's formats before GGUF",
                  c->path);
  if (c->end < 4 || memcmp(c->data, "GGUF", 4) != 0)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected a GGUF file, which begins with 'GGUF'", c->path);
  if (c->end < 8)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected a GGUF file, found %zu bytes", c->path, c->end);
  uint32_t version = u32_at(c->data, 4);
  if (version != 0 && (version & 0xFFFF) == 0)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected a little-endian GGUF file, found a big-endian one",
                c->path);
  if (version == 1)
    return fail(c->error, ALIBI_BAD_INPUT,
                "%s: expected GGUF version 2 or 3, found 1, whose counts have 32 bits: convert the model again",
                c->path);
  if (version != 2 && version != 3)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected GGUF version 2 or 3, found %u", c->path, version);
  file->version = (int)version;
  if (c->end < HEADER_BYTES)
    return fail(c->error, ALIBI_BAD_INPUT, "%s: expected a GGUF header of %d bytes, found %zu bytes", c->path,
                HEADER_BYTES, c->end);
  *tensors = u64_at(c->data, 8);
  *keys = u64_at(c->data, 16);
  c->at = HEADER_BYTES;
  TRY(check_count(c, "keys", *keys, GGUF_KEY_LEAST, GGUF_KEYS_MOST));
  TRY(check_count(c, "tensors", *tensors, GGUF_TENSOR_LEAST, GGUF_TENSORS_MOST));
done:
  return result;
}

static status read_file(const char *path, gguf_file *file, alibi_error *error)
{
  status result = ALIBI_OK;
  uint64_t tensors = 0, keys = 0;
  size_t *key_sizes = NULL;
  description *list = NULL;
  file->path = strdup(path);
  if (!file->path) RAISE(error, ALIBI_FAILED, "not enough memory for %s", path);
  TRY(mapped_file_open(path, &file->map, error));
  bool cut = file->map.size > GGUF_METADATA_MOST;
  cursor c = {.path = path,
              .data = file->map.data,
              .end = cut ? GGUF_METADATA_MOST : file->map.size,
              .cut = cut,
              .error = error};
  TRY(read_header(&c, file, &tensors, &keys));
  TRY(take_keys(&c, file, keys, &key_sizes));
  TRY(take_descriptions(&c, file, tensors, &list));
  TRY(name_all(file, key_sizes, list, error));
  TRY(read_alignment(file, error));
  TRY(place_all(file, c.at, list, error));
done:
  free(key_sizes);
  free(list);
  return result;
}

status gguf_open(const char *path, gguf_file **file, alibi_error *error)
{
  status result = memory_new(file, 1, sizeof **file, path, error);
  if (result != ALIBI_OK) return result;
  result = read_file(path, *file, error);
  if (result != ALIBI_OK) {
    gguf_close(*file);
    *file = NULL;
  }
  return result;
}

void gguf_close(gguf_file *file)
{
  if (!file) return;
  for (size_t i = 0; i < file->key_count; i++) free((void *)(uintptr_t)file->key[i].places);
  free(file->key);
  memory_free(file->key_by_name);
  memory_free(file->tensor);
  memory_free(file->by_name);
  memory_free(file->names);
  mapped_file_close(&file->map);
  free(file->path);
  memory_free(file);
}

const char *gguf_path(const gguf_file *file)
{
  return file->path;
}

int gguf_version(const gguf_file *file)
{
  return file->version;
}

size_t gguf_alignment(const gguf_file *file)
{
  return file->alignment;
}

size_t gguf_count(const gguf_file *file)
{
  return file->count;
}

const file_tensor *gguf_at(const gguf_file *file, size_t index)
{
  return index < file->count ? &file->tensor[index] : NULL;
}

const file_tensor *gguf_find(const gguf_file *file, const char *name)
{
  const file_tensor wanted = {.name = name}, *key = &wanted;
  const file_tensor *const *found =
      bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
  return found ? *found : NULL;
}

size_t gguf_key_count(const gguf_file *file)
{
  return file->key_count;
}

const gguf_key *gguf_key_at(const gguf_file *file, size_t index)
{
  return index < file->key_count ? &file->key[index] : NULL;
}

const gguf_key *gguf_key_find(const gguf_file *file, const char *name)
{
  const gguf_key wanted = {.name = name}, *key = &wanted;
  const gguf_key *const *found =
      bsearch(&key, file->key_by_name, file->key_count, sizeof *file->key_by_name, compare_keys);
  return found ? *found : NULL;
}
