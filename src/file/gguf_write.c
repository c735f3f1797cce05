/* Writing the GGUF format, version 3.  The one idea: keys are kept as the bytes that the file will have, so that a
 * key of an open file is carried over to the bit, and the size of everything before the data is known before the
 * first byte is written. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_at.h"
#include "base/memory.h"
#include "base/system.h"
#include "file/gguf.h"
#include "file/gguf_private.h"

enum { VERSION = 3 };

/* A growing run of bytes.  What fails first stays, and everything after it does nothing. */
typedef struct bytes {
  unsigned char *data;
  size_t size, capacity;
} bytes;

struct gguf_keys {
  bytes body;
  size_t *places; /* of each key in body */
  size_t count, capacity;
  size_t alignment;
  alibi_error failure;
};

gguf_keys *gguf_keys_new(void)
{
  gguf_keys *keys = calloc(1, sizeof *keys);
  if (keys) keys->alignment = GGUF_ALIGNMENT;
  return keys;
}

void gguf_keys_free(gguf_keys *keys)
{
  if (!keys) return;
  free(keys->body.data);
  free(keys->places);
  free(keys);
}

/* ---- keys as bytes ---- */

static status append(bytes *b, const void *data, size_t size, alibi_error *error)
{
  size_t wanted = size_add(b->size, size);
  if (wanted > GGUF_METADATA_MOST)
    return fail(error, ALIBI_INVALID, "the keys and tensor descriptions of a GGUF file are more than %d MiB",
                GGUF_METADATA_MOST >> 20);
  status result = memory_grow(&b->data, &b->capacity, wanted, 1, "the keys of a GGUF file", error);
  if (result != ALIBI_OK) return result;
  if (size > 0) memcpy(b->data + b->size, data, size);
  b->size = wanted;
  return ALIBI_OK;
}

static status append_u32(bytes *b, uint32_t value, alibi_error *error)
{
  return append(b, &value, sizeof value, error);
}

static status append_u64(bytes *b, uint64_t value, alibi_error *error)
{
  return append(b, &value, sizeof value, error);
}

static status append_text(bytes *b, const char *text, size_t size, alibi_error *error)
{
  status result = append_u64(b, size, error);
  return result == ALIBI_OK ? append(b, text, size, error) : result;
}

/* The setters' form of TRY: the first failure stays in keys->failure. */
static void put(gguf_keys *keys, const void *data, size_t size)
{
  if (keys->failure.status == ALIBI_OK) append(&keys->body, data, size, &keys->failure);
}

static void put_text(gguf_keys *keys, const char *text, size_t size)
{
  if (keys->failure.status == ALIBI_OK) append_text(&keys->body, text, size, &keys->failure);
}

static void put_u32(gguf_keys *keys, uint32_t value)
{
  put(keys, &value, sizeof value);
}

static void put_u64(gguf_keys *keys, uint64_t value)
{
  put(keys, &value, sizeof value);
}

/* Begins a key: its name.  false where nothing should follow. */
static bool begin(gguf_keys *keys, const char *name)
{
  if (!keys || keys->failure.status != ALIBI_OK) return false;
  size_t size = strlen(name);
  if (size == 0 || size > GGUF_KEY_MOST || !gguf_is_name(name, size))
    fail(&keys->failure, ALIBI_INVALID, "GGUF key '%.80s': expected a name of 1 to %d bytes in UTF-8", name,
         GGUF_KEY_MOST);
  else if (memory_grow(&keys->places, &keys->capacity, keys->count + 1, sizeof *keys->places,
                       "the keys of a GGUF file", &keys->failure) == ALIBI_OK) {
    keys->places[keys->count++] = keys->body.size;
    put_text(keys, name, size);
  }
  return keys->failure.status == ALIBI_OK;
}

static bool begin_array(gguf_keys *keys, const char *name, gguf_type type, size_t count)
{
  if (!begin(keys, name)) return false;
  put_u32(keys, GGUF_ARRAY);
  put_u32(keys, type);
  put_u64(keys, count);
  return true;
}

static void check_alignment(gguf_keys *keys, const char *name, gguf_type type, uint64_t value)
{
  if (strcmp(name, "general.alignment") != 0) return;
  keys->alignment = (size_t)value;
  if (type != GGUF_U32 || !gguf_is_alignment(value))
    fail(&keys->failure, ALIBI_INVALID, "GGUF key '%s': expected a u32, a power of two from %d to %d", name,
         GGUF_ALIGNMENT_LEAST, GGUF_ALIGNMENT_MOST);
}

void gguf_put_integer(gguf_keys *keys, const char *name, gguf_type type, int64_t value)
{
  if (!begin(keys, name)) return;
  bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
  size_t size = type == GGUF_F32 || type == GGUF_F64 || type == GGUF_BOOL ? 0 : gguf_type_bytes(type);
  int bits = (int)size * 8 - is_signed;
  bool fits = size > 0 && (is_signed || value >= 0);
  if (fits && bits < 63) fits = value < (int64_t)1 << bits && value >= -((int64_t)1 << bits);
  if (!fits) {
    fail(&keys->failure, ALIBI_INVALID, "GGUF key '%s': %lld is no value of type %s", name, (long long)value,
         gguf_type_name(type));
    return;
  }
  check_alignment(keys, name, type, (uint64_t)value);
  put_u32(keys, type);
  put(keys, &value, size); /* little-endian: the low bytes come first */
}

void gguf_put_real(gguf_keys *keys, const char *name, gguf_type type, double value)
{
  if (!begin(keys, name)) return;
  bool single = type == GGUF_F32;
  if ((!single && type != GGUF_F64) || (single && isfinite(value) && fabs(value) > (double)FLT_MAX)) {
    fail(&keys->failure, ALIBI_INVALID, "GGUF key '%s': %g is no value of type %s", name, value,
         gguf_type_name(type));
    return;
  }
  float narrow = (float)value;
  put_u32(keys, type);
  if (single) put(keys, &narrow, sizeof narrow);
  else put(keys, &value, sizeof value);
}

void gguf_put_boolean(gguf_keys *keys, const char *name, bool value)
{
  if (!begin(keys, name)) return;
  unsigned char byte = value;
  put_u32(keys, GGUF_BOOL);
  put(keys, &byte, 1);
}

void gguf_put_text(gguf_keys *keys, const char *name, const char *value)
{
  if (!begin(keys, name)) return;
  if (!gguf_is_utf8(value, strlen(value)))
    fail(&keys->failure, ALIBI_INVALID, "GGUF key '%s': expected a text in UTF-8", name);
  put_u32(keys, GGUF_TEXT);
  put_text(keys, value, strlen(value));
}

void gguf_put_texts(gguf_keys *keys, const char *name, const gguf_text *values, size_t count)
{
  if (!begin_array(keys, name, GGUF_TEXT, count)) return;
  for (size_t i = 0; i < count; i++) put_text(keys, values[i].data, values[i].size);
}

void gguf_put_reals(gguf_keys *keys, const char *name, const float *values, size_t count)
{
  if (begin_array(keys, name, GGUF_F32, count)) put(keys, values, size_mul(count, sizeof *values));
}

void gguf_put_integers(gguf_keys *keys, const char *name, const int32_t *values, size_t count)
{
  if (begin_array(keys, name, GGUF_I32, count)) put(keys, values, size_mul(count, sizeof *values));
}

void gguf_put_booleans(gguf_keys *keys, const char *name, const bool *values, size_t count)
{
  if (!begin_array(keys, name, GGUF_BOOL, count)) return;
  for (size_t i = 0; i < count; i++) put(keys, &(unsigned char){values[i]}, 1);
}

void gguf_put_key(gguf_keys *keys, const gguf_key *key)
{
  if (!begin(keys, key->name)) return;
  if (strcmp(key->name, "general.alignment") == 0)
    check_alignment(keys, key->name, key->is_array ? GGUF_ARRAY : key->type,
                    key->bytes == sizeof(uint32_t) ? u32_at(key->data, 0) : 0);
  put_u32(keys, key->is_array ? GGUF_ARRAY : key->type);
  if (key->is_array) {
    put_u32(keys, key->type);
    put_u64(keys, key->count);
  }
  put(keys, key->data, key->bytes);
}

/* ---- tensors ---- */

static status describe(bytes *b, const char *path, const file_tensor *t, size_t offset, bool given,
                       alibi_error *error)
{
  status result = ALIBI_OK;
  size_t size = strlen(t->name), bytes_of = 0;
  int number = tensor_type_ggml(t->type);
  if (size == 0 || size > GGUF_NAME_MOST || !gguf_is_name(t->name, size))
    RAISE(error, ALIBI_INVALID, "%s: tensor '%.80s': expected a name of 1 to %d bytes in UTF-8", path, t->name,
          GGUF_NAME_MOST);
  if (number < 0)
    RAISE(error, ALIBI_INVALID, "%s: tensor '%s': GGUF has no type %s", path, t->name, tensor_type_name(t->type));
  if (t->dimensions < 0 || t->dimensions > GGUF_DIMENSIONS_MOST)
    RAISE(error, ALIBI_INVALID, "%s: tensor '%s': expected at most %d dimensions, found %d", path, t->name,
          GGUF_DIMENSIONS_MOST, t->dimensions);
  if (!tensor_type_size(t->type, t->dimensions, t->shape, &bytes_of))
    RAISE(error, ALIBI_INVALID, "%s: tensor '%s': its shape is none for blocks of %zu elements (type %s)", path,
          t->name, tensor_type_elements(t->type), tensor_type_name(t->type));
  if (bytes_of != t->bytes || (!given && bytes_of > 0 && !t->data))
    RAISE(error, ALIBI_INVALID, "%s: tensor '%s': expected the %zu bytes that its shape and type need, found %zu",
          path, t->name, bytes_of, t->data || given ? t->bytes : 0);
  TRY(append_text(b, t->name, size, error));
  TRY(append_u32(b, (uint32_t)t->dimensions, error));
  for (int i = t->dimensions - 1; i >= 0; i--) TRY(append_u64(b, t->shape[i], error));
  TRY(append_u32(b, (uint32_t)number, error));
  TRY(append_u64(b, offset, error));
done:
  return result;
}

static int compare_texts(const void *a, const void *b)
{
  const gguf_text *x = a, *y = b;
  int order = memcmp(x->data, y->data, x->size < y->size ? x->size : y->size);
  return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

/* None twice?  what: of what they are the names. */
static status check_names(const char *path, const char *what, gguf_text *names, size_t count, alibi_error *error)
{
  if (count > 1) qsort(names, count, sizeof *names, compare_texts);
  for (size_t i = 1; i < count; i++)
    if (compare_texts(&names[i - 1], &names[i]) == 0)
      return fail(error, ALIBI_INVALID, "%s: %s '%.*s': expected once, found twice", path, what,
                  names[i].size < 80 ? (int)names[i].size : 80, names[i].data);
  return ALIBI_OK;
}

static status check_all_names(const char *path, const gguf_keys *keys, const file_tensor *tensors, size_t count,
                              alibi_error *error)
{
  gguf_text *names = NULL;
  status result = ALIBI_OK;
  TRY(memory_new(&names, count > keys->count ? count : keys->count, sizeof *names, path, error));
  for (size_t i = 0; i < count; i++) names[i] = (gguf_text){tensors[i].name, strlen(tensors[i].name)};
  TRY(check_names(path, "tensor", names, count, error));
  for (size_t i = 0; i < keys->count; i++) {
    const unsigned char *at = keys->body.data + keys->places[i];
    names[i] = (gguf_text){(const char *)at + 8, (size_t)u64_at(at, 0)};
  }
  TRY(check_names(path, "key", names, keys->count, error));
done:
  memory_free(names);
  return result;
}

static void pad(FILE *stream, size_t bytes_there, size_t alignment)
{
  for (size_t i = bytes_there; i % alignment != 0; i++) putc(0, stream);
}

static status write_all(FILE *stream, const char *path, const gguf_keys *keys, const bytes *list,
                        const file_tensor *tensors, size_t count, const tensor_source *source, alibi_error *error)
{
  const uint32_t version = VERSION;
  const uint64_t counts[2] = {count, keys->count};
  status result = ALIBI_OK;
  fwrite("GGUF", 1, 4, stream);
  fwrite(&version, sizeof version, 1, stream);
  fwrite(counts, sizeof counts, 1, stream);
  if (keys->body.size > 0) fwrite(keys->body.data, 1, keys->body.size, stream);
  if (list->size > 0) fwrite(list->data, 1, list->size, stream);
  if (count > 0) pad(stream, 4 + sizeof version + sizeof counts + keys->body.size + list->size, keys->alignment);
  for (size_t i = 0; i < count; i++) {
    TRY(tensor_give(stream, path, tensors, i, source, error));
    pad(stream, tensors[i].bytes, keys->alignment);
  }
done:
  return result;
}

status gguf_write(const char *path, const gguf_keys *keys, const file_tensor *tensors, size_t count,
                  const tensor_source *source, alibi_error *error)
{
  status result = ALIBI_OK;
  bytes list = {0};
  replace_file r = {0};
  size_t offset = 0;
  if (!keys) RAISE(error, ALIBI_FAILED, "%s: not enough memory for its keys", path);
  if (keys->failure.status != ALIBI_OK)
    RAISE(error, keys->failure.status, "%s: %.900s", path, keys->failure.message);
  TRY(check_all_names(path, keys, tensors, count, error));
  for (size_t i = 0; i < count; i++) {
    TRY(describe(&list, path, &tensors[i], offset, source != NULL, error));
    offset = size_round_up(size_add(offset, tensors[i].bytes), keys->alignment);
    if (offset > PTRDIFF_MAX) RAISE(error, ALIBI_INVALID, "%s: the file gets too large", path);
  }
  if (size_add(keys->body.size, list.size) > GGUF_METADATA_MOST - 64)
    RAISE(error, ALIBI_INVALID, "%s: its keys and tensor descriptions are more than %d MiB", path,
          GGUF_METADATA_MOST >> 20);
  TRY(replace_begin(path, &r, error));
  r.passing = source && source->passing;
  TRY(write_all(r.stream, path, keys, &list, tensors, count, source, error));
  TRY(replace_commit(&r, error));
done:
  replace_abandon(&r);
  free(list.data);
  return result;
}
