/* Values of GGUF keys: typed, by name, as an object.  The one idea: opening has checked every byte, so that here a
 * value can only be of another kind than was asked for, absent, or out of range; the sentences for that are three.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_at.h"
#include "base/number.h"
#include "file/gguf.h"
#include "file/gguf_private.h"

typedef struct type_row {
  const char *name;
  size_t bytes;
} type_row;

static const type_row types[GGUF_TYPES] = {
    [GGUF_U8] = {"u8", 1},     [GGUF_I8] = {"i8", 1},       [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},     [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"boolean", 1},
    [GGUF_TEXT] = {"text", 0}, [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_name(gguf_type type)
{
  return types[type].name;
}

size_t gguf_type_bytes(uint32_t type)
{
  return type < GGUF_TYPES ? types[type].bytes : 0;
}

bool gguf_is_alignment(uint64_t bytes)
{
  return bytes >= GGUF_ALIGNMENT_LEAST && bytes <= GGUF_ALIGNMENT_MOST && (bytes & (bytes - 1)) == 0;
}

/* ---- texts ---- */

/* Bytes of the character at `text`, of which `left` bytes are there; 0: none. */
static size_t character_bytes(const unsigned char *text, size_t left)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (text[0] < 0x80) return 1;
  size_t size = (text[0] & 0xE0) == 0xC0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 : (text[0] & 0xF8) == 0xF0 ? 4 : 0;
  if (size == 0 || size > left) return 0;
  uint32_t point = text[0] & (0x7Fu >> size);
  for (size_t i = 1; i < size; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
    point = point << 6 | (text[i] & 0x3Fu);
  }
  return point < least[size] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) ? 0 : size;
}

bool gguf_is_utf8(const void *text, size_t size)
{
  const unsigned char *bytes = text;
  for (size_t at = 0, step; at < size; at += step) {
    step = bytes[at] ? character_bytes(bytes + at, size - at) : 0;
    if (step == 0) return false;
  }
  return true;
}

bool gguf_is_name(const void *text, size_t size)
{
  const unsigned char *bytes = text;
  for (size_t i = 0; i < size; i++)
    if (bytes[i] < 0x20 || bytes[i] == 0x7F) return false;
  return gguf_is_utf8(text, size);
}

/* ---- elements ---- */

static bool is_integer(gguf_type type)
{
  return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64;
}

static bool is_number(gguf_type type)
{
  return is_integer(type) || type == GGUF_F32 || type == GGUF_F64;
}

/* An integer of any type; *beyond: a u64 above INT64_MAX. */
static int64_t integer_of(gguf_type type, const unsigned char *at, bool *beyond)
{
  union {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
  } v = {.u64 = 0};
  memcpy(&v, at, types[type].bytes);
  *beyond = type == GGUF_U64 && v.u64 > INT64_MAX;
  switch (type) {
  case GGUF_BOOL:
  case GGUF_U8: return v.u8;
  case GGUF_I8: return v.i8;
  case GGUF_U16: return v.u16;
  case GGUF_I16: return v.i16;
  case GGUF_U32: return v.u32;
  case GGUF_I32: return v.i32;
  default: return *beyond ? INT64_MAX : v.i64;
  }
}

static double real_of(gguf_type type, const unsigned char *at)
{
  float single;
  double real;
  uint64_t whole;
  switch (type) {
  case GGUF_F32: memcpy(&single, at, sizeof single); return single;
  case GGUF_F64: memcpy(&real, at, sizeof real); return real;
  case GGUF_U64: memcpy(&whole, at, sizeof whole); return (double)whole;
  default: return (double)integer_of(type, at, &(bool){false});
  }
}

gguf_text gguf_text_at(const gguf_key *array, size_t i)
{
  const unsigned char *at = array->data + (array->places ? array->places[i] : 0);
  return (gguf_text){(const char *)at + 8, (size_t)u64_at(at, 0)};
}

double gguf_real_at(const gguf_key *array, size_t i)
{
  return real_of(array->type, array->data + i * types[array->type].bytes);
}

int64_t gguf_integer_at(const gguf_key *array, size_t i)
{
  return integer_of(array->type, array->data + i * types[array->type].bytes, &(bool){false});
}

/* ---- by name ---- */

static status other_kind(const gguf_file *file, const gguf_key *key, const char *expected, alibi_error *error)
{
  return fail(error, ALIBI_BAD_INPUT, "%s: key '%s': expected %s, found %s%s", file->path, key->name, expected,
              key->is_array ? "an array of " : "", gguf_type_name(key->type));
}

static status find(const gguf_file *file, const char *name, const gguf_key **key, alibi_error *error)
{
  *key = gguf_key_find(file, name);
  return *key ? ALIBI_OK : fail(error, ALIBI_BAD_INPUT, "%s: expected a key '%s', found none", file->path, name);
}

status gguf_integer(const gguf_file *file, const char *name, int64_t least, int64_t most, int64_t *value,
                    alibi_error *error)
{
  const gguf_key *key;
  bool beyond;
  status result = find(file, name, &key, error);
  if (result != ALIBI_OK) return result;
  if (key->is_array || !is_integer(key->type)) return other_kind(file, key, "an integer", error);
  int64_t found = integer_of(key->type, key->data, &beyond);
  if (found < least || found > most || beyond)
    return fail(error, ALIBI_BAD_INPUT, "%s: key '%s': expected %lld to %lld, found %s%lld", file->path, name,
                (long long)least, (long long)most, beyond ? "more than " : "", (long long)found);
  *value = found;
  return ALIBI_OK;
}

status gguf_real(const gguf_file *file, const char *name, double *value, alibi_error *error)
{
  const gguf_key *key;
  status result = find(file, name, &key, error);
  if (result != ALIBI_OK) return result;
  if (key->is_array || !is_number(key->type)) return other_kind(file, key, "a number", error);
  double found = real_of(key->type, key->data);
  if (!isfinite(found))
    return fail(error, ALIBI_BAD_INPUT, "%s: key '%s': expected a finite number, found %g", file->path, name,
                found);
  *value = found;
  return ALIBI_OK;
}

status gguf_boolean(const gguf_file *file, const char *name, bool *value, alibi_error *error)
{
  const gguf_key *key;
  status result = find(file, name, &key, error);
  if (result != ALIBI_OK) return result;
  if (key->is_array || key->type != GGUF_BOOL) return other_kind(file, key, "a boolean", error);
  *value = key->data[0] != 0;
  return ALIBI_OK;
}

status gguf_string(const gguf_file *file, const char *name, gguf_text *value, alibi_error *error)
{
  const gguf_key *key;
  status result = find(file, name, &key, error);
  if (result != ALIBI_OK) return result;
  if (key->is_array || key->type != GGUF_TEXT) return other_kind(file, key, "a text", error);
  *value = gguf_text_at(key, 0);
  return ALIBI_OK;
}

status gguf_integer_or(const gguf_file *file, const char *name, int64_t least, int64_t most, int64_t otherwise,
                       int64_t *value, alibi_error *error)
{
  *value = otherwise;
  return gguf_key_find(file, name) ? gguf_integer(file, name, least, most, value, error) : ALIBI_OK;
}

status gguf_boolean_or(const gguf_file *file, const char *name, bool otherwise, bool *value, alibi_error *error)
{
  *value = otherwise;
  return gguf_key_find(file, name) ? gguf_boolean(file, name, value, error) : ALIBI_OK;
}

status gguf_array(const gguf_file *file, const char *name, gguf_type kind, const gguf_key **array,
                  alibi_error *error)
{
  status result = find(file, name, array, error);
  if (result != ALIBI_OK) return result;
  gguf_type type = (*array)->type;
  bool reals = kind == GGUF_F32 || kind == GGUF_F64;
  bool fits = reals ? is_number(type) : is_integer(kind) ? is_integer(type) : type == kind;
  const char *expected = reals               ? "an array of numbers"
                         : is_integer(kind)  ? "an array of integers"
                         : kind == GGUF_TEXT ? "an array of texts"
                                             : "an array of booleans";
  return (*array)->is_array && fits ? ALIBI_OK : other_kind(file, *array, expected, error);
}

/* ---- as an object ---- */

/* What people would write for it: 0.1, where the float's own value is 0.100000001490116. */
static double shortest(float value)
{
  char text[NUMBER_SIZE];
  number_text_float(value, text);
  return number_parse(text, NULL);
}

static void set_number(json_node *parent, const char *key, gguf_type type, const unsigned char *at)
{
  bool beyond = false;
  double real = real_of(type, at);
  json_node *list = key ? NULL : parent;
  if (type == GGUF_F32 && isfinite(real)) real = shortest((float)real);
  int64_t integer = is_integer(type) ? integer_of(type, at, &beyond) : 0;
  bool whole = is_integer(type) && !beyond;
  if (list && whole) node_append_integer(list, integer);
  else if (list) node_append_number(list, real);
  else if (whole) node_set_integer(parent, key, integer);
  else node_set_number(parent, key, real);
}

static status set_text(json_node *object, const gguf_file *file, const gguf_key *key, alibi_error *error)
{
  gguf_text text = gguf_text_at(key, 0);
  char *copy = malloc(text.size + 1);
  if (!copy) return fail(error, ALIBI_FAILED, "not enough memory for the keys of %s", file->path);
  memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  node_set_text(object, key->name, copy);
  free(copy);
  return ALIBI_OK;
}

static void set_list(json_node *object, const gguf_key *key)
{
  json_node *list = node_new_array();
  size_t bytes = types[key->type].bytes;
  for (size_t i = 0; i < key->count; i++) {
    if (key->type == GGUF_BOOL) node_append_boolean(list, key->data[i] != 0);
    else set_number(list, NULL, key->type, key->data + i * bytes);
  }
  node_set(object, key->name, list);
}

status gguf_scalars(const gguf_file *file, json_node **object, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t listed = 0;
  *object = node_new_object();
  if (!*object) RAISE(error, ALIBI_FAILED, "not enough memory for the keys of %s", file->path);
  for (size_t i = 0; i < file->key_count; i++) {
    const gguf_key *key = &file->key[i];
    if (key->is_array && (key->type == GGUF_TEXT || key->count > GGUF_LISTED_MOST)) continue;
    listed += key->is_array ? key->count : 0;
    if (listed > GGUF_LISTED_ALL)
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected at most %d numbers in the arrays of its keys, found more",
            file->path, GGUF_LISTED_ALL);
    if (key->is_array) set_list(*object, key);
    else if (key->type == GGUF_TEXT) TRY(set_text(*object, file, key, error));
    else if (key->type == GGUF_BOOL) node_set_boolean(*object, key->name, key->data[0] != 0);
    else set_number(*object, key->name, key->type, key->data);
  }
done:
  if (result != ALIBI_OK) {
    node_free(*object);
    *object = NULL;
  }
  return result;
}
