/* file/safetensors.h - the safetensors format: 8-byte little-endian header size, JSON header, data.
 * Source: the format description of huggingface/safetensors.  Reading maps the file; every offset, shape and
 * product is checked against the file before use: overlaps, holes, duplicates, absurd sizes are refused with the
 * tensor's name.  Data is handed out where it lies, at any address: old writers did not pad the header. */
#ifndef FILE_SAFETENSORS_H
#define FILE_SAFETENSORS_H

#include <stddef.h>

#include "base/error.h"
#include "file/tensor.h"

typedef struct safetensors_file safetensors_file;

status safetensors_open(const char *path, safetensors_file **file, alibi_error *error);
void safetensors_close(safetensors_file *file);
/* Tensors in the order of their data. */
size_t safetensors_count(const safetensors_file *file);
const file_tensor *safetensors_at(const safetensors_file *file, size_t index);
const file_tensor *safetensors_find(const safetensors_file *file, const char *name);
/* Value of a __metadata__ key, NULL when absent. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* Writes tensors of any type that safetensors has, atomically; the data begins at a multiple of 64 bytes, wider
 * types before narrower ones, so that each tensor lies at a multiple of its number's size.  metadata: pairs of key
 * and value, NULL-terminated; may be NULL. */
status safetensors_write(const char *path, const file_tensor *tensors, size_t count, const char *const *metadata,
                         alibi_error *error);
/* The same, with the data from `source` (the tensors' own is not read). */
status safetensors_write_from(const char *path, const file_tensor *tensors, size_t count,
                              const char *const *metadata, const tensor_source *source, alibi_error *error);

#endif
