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

/* A model in a folder, which is made where it is missing: shards model-0000i-of-0000n.safetensors of at most
 * `most` bytes of data each (one tensor may be larger), then model.safetensors.index.json; where one shard is
 * enough, model.safetensors alone.  Each file is atomic, and the index comes last.  ALIBI_FAILED where the folder
 * holds a model whose files a reader would prefer or mix up.  source: as above, or NULL for the tensors' own data.
 */
status safetensors_write_shards(const char *directory, const file_tensor *tensors, size_t count,
                                const char *const *metadata, const tensor_source *source, size_t most,
                                alibi_error *error);

#endif
