/* file/gguf.h - the GGUF format, versions 2 and 3: magic, version, keys with typed values, descriptions of
 * tensors, then their data.  Source: the format description of ggml (docs/gguf.md).  Reading maps the file; every
 * count, string, type, shape, offset and product is checked against the file before use, so that what a gguf_file
 * hands out needs no further check.  Refused, with one sentence that names the key or tensor: damage of any kind,
 * keys or tensors twice, tensors that overlap or leave holes, arrays of arrays, types that ggml does not know,
 * version 1, big-endian files, and whatever passes the limits below.
 *
 * One gguf_file is one file; tensor_file_open (file/tensor_file.h) takes a split model's files together. */
#ifndef FILE_GGUF_H
#define FILE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "file/tensor.h"

enum {
  GGUF_METADATA_MOST = 128 << 20, /* bytes before the data */
  GGUF_KEYS_MOST = 1 << 16,       /* public models have some fifty */
  GGUF_TENSORS_MOST = 1 << 18,    /* the largest models have 100,000 */
  GGUF_KEY_MOST = 65535,          /* bytes of a key */
  GGUF_NAME_MOST = 64,            /* bytes of a tensor's name */
  GGUF_DIMENSIONS_MOST = 4,
  GGUF_ALIGNMENT = 32 /* where the file does not say */
};

/* The numbers are those of the file. */
typedef enum gguf_type {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_TEXT,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_TYPES
} gguf_type;

const char *gguf_type_name(gguf_type type); /* "u32", "text", ... */

typedef struct gguf_text { /* not NUL-terminated; may hold any byte where it is an array's element */
  const char *data;
  size_t size;
} gguf_text;

/* A key and its value, which stays in the mapping.  All fields are for reading. */
typedef struct gguf_key {
  const char *name; /* UTF-8, NUL-terminated */
  gguf_type type;   /* of the value; of an array's elements */
  bool is_array;
  bool utf8;                 /* texts: every one is UTF-8 without a NUL; always true of a text that is no array */
  size_t count;              /* elements; 1 where it is no array */
  const unsigned char *data; /* as in the file, at any address: the elements in turn, a text after its u64 size */
  size_t bytes;
  const uint32_t *places; /* array of texts: where in data element i begins; else NULL */
} gguf_key;

typedef struct gguf_file gguf_file;

status gguf_open(const char *path, gguf_file **file, alibi_error *error);
void gguf_close(gguf_file *file);
const char *gguf_path(const gguf_file *file);
int gguf_version(const gguf_file *file);
size_t gguf_alignment(const gguf_file *file);

/* Tensors in the file's order; shapes outermost first, as everywhere (in the file they are turned round). */
size_t gguf_count(const gguf_file *file);
const file_tensor *gguf_at(const gguf_file *file, size_t index);
const file_tensor *gguf_find(const gguf_file *file, const char *name); /* NULL: none */

/* Keys in the file's order. */
size_t gguf_key_count(const gguf_file *file);
const gguf_key *gguf_key_at(const gguf_file *file, size_t index);
const gguf_key *gguf_key_find(const gguf_file *file, const char *name); /* NULL: none */

/* One value by its key.  A key that is absent, of another kind (any integer type is an integer; a real may be
 * stored as an integer), or outside least..most is ALIBI_BAD_INPUT with a sentence that names file and key; for a
 * key that may be absent ask gguf_key_find first.  Values that a file may leave out: _or takes a default instead.
 */
status gguf_integer(const gguf_file *file, const char *key, int64_t least, int64_t most, int64_t *value,
                    alibi_error *error);
status gguf_real(const gguf_file *file, const char *key, double *value, alibi_error *error); /* finite */
status gguf_boolean(const gguf_file *file, const char *key, bool *value, alibi_error *error);
status gguf_string(const gguf_file *file, const char *key, gguf_text *value, alibi_error *error);
status gguf_integer_or(const gguf_file *file, const char *key, int64_t least, int64_t most, int64_t otherwise,
                       int64_t *value, alibi_error *error);
status gguf_boolean_or(const gguf_file *file, const char *key, bool otherwise, bool *value, alibi_error *error);

/* An array by its key: GGUF_TEXT takes texts, GGUF_F32 any numbers, GGUF_I64 any integers, GGUF_BOOL booleans; one
 * of another kind, or absent, is a sentence as above.  The elements then need no check, and none is copied. */
status gguf_array(const gguf_file *file, const char *key, gguf_type kind, const gguf_key **array,
                  alibi_error *error);
/* Element i < count, in constant time. */
gguf_text gguf_text_at(const gguf_key *array, size_t i);
double gguf_real_at(const gguf_key *array, size_t i);     /* of any numbers; may be NaN or infinite */
int64_t gguf_integer_at(const gguf_key *array, size_t i); /* of integers, booleans; u64 above INT64_MAX: that */

/* The keys as an object, such as {"llama.context_length": 2048, ...}, for node_free: all values that are no arrays
 * (f32 by the fewest digits that give it back: 1e-05; u64 above INT64_MAX as real; NaN, infinity as null), and
 * arrays of at most GGUF_LISTED_MOST numbers or booleans; more than GGUF_LISTED_ALL of these in all are
 * ALIBI_BAD_INPUT.  Other arrays, texts among them, are left out. */
enum { GGUF_LISTED_MOST = 1024, GGUF_LISTED_ALL = 1 << 18 };
status gguf_scalars(const gguf_file *file, json_node **object, alibi_error *error);

/* All files of the model of which `path` is one, in their order: itself, or the parts NAME-00001-of-00003.gguf and
 * so on that lie beside it.  A part that is missing, or does not agree with the others, is named. */
status gguf_open_parts(const char *path, gguf_file ***parts, size_t *count, alibi_error *error);
void gguf_close_parts(gguf_file ***parts, size_t *count); /* leaves NULL and 0 */

/* ---- writing ---- */

/* Keys to be written, in the order in which they are put.  Setters need no checks: the first failure (memory, a
 * key twice or with a name that is none, a text that is not UTF-8, a value that its type does not hold) is
 * remembered, and gguf_write reports it. */
typedef struct gguf_keys gguf_keys;

gguf_keys *gguf_keys_new(void); /* NULL is fine for all below; gguf_write reports it */
void gguf_keys_free(gguf_keys *keys);
void gguf_put_integer(gguf_keys *keys, const char *key, gguf_type type, int64_t value);
void gguf_put_real(gguf_keys *keys, const char *key, gguf_type type, double value); /* GGUF_F32, GGUF_F64 */
void gguf_put_boolean(gguf_keys *keys, const char *key, bool value);
void gguf_put_text(gguf_keys *keys, const char *key, const char *value);
void gguf_put_texts(gguf_keys *keys, const char *key, const gguf_text *values, size_t count); /* any bytes */
void gguf_put_reals(gguf_keys *keys, const char *key, const float *values, size_t count);
void gguf_put_integers(gguf_keys *keys, const char *key, const int32_t *values, size_t count);
void gguf_put_booleans(gguf_keys *keys, const char *key, const bool *values, size_t count);
void gguf_put_key(gguf_keys *keys, const gguf_key *key); /* a key of an open file, to the bit */

/* Writes version 3, atomically.  Tensors in their order, each {name, type, shape outermost first, data, bytes};
 * where source is not NULL, it gives the data instead (file/tensor.h), so that none must be held.  Alignment of
 * the data: `general.alignment` of the keys, a u32, GGUF_ALIGNMENT where they have none.  ALIBI_INVALID names what
 * cannot be written; what is written is what gguf_open takes. */
status gguf_write(const char *path, const gguf_keys *keys, const file_tensor *tensors, size_t count,
                  const tensor_source *source, alibi_error *error);

#endif
