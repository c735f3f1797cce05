/* file/safetensors.h - the safetensors format: 8-byte little-endian header size, JSON header, data.
 * Source: the format description of huggingface/safetensors.  Reading maps the file; every offset, shape,
 * product and alignment is checked against the file before use: overlaps, holes, duplicates, absurd sizes are
 * refused with the tensor's name.  An fp32, fp16 or bf16 tensor that an old writer left at an odd address is
 * handed out as an aligned copy. */
#ifndef FILE_SAFETENSORS_H
#define FILE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { TENSOR_MAX_DIMENSIONS = 8 };
typedef enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_OTHER } tensor_type;

typedef struct file_tensor {
  const char *name; /* borrowed from the file object */
  tensor_type type;
  int dimensions;
  size_t shape[TENSOR_MAX_DIMENSIONS];
  const void *data; /* inside the mapping, or a copy; aligned to its type; lives as long as the file object */
  size_t bytes;
} file_tensor;

typedef struct safetensors_file safetensors_file;

status safetensors_open(const char *path, safetensors_file **file, alibi_error *error);
void safetensors_close(safetensors_file *file);
/* Tensors in the order of their data. */
size_t safetensors_count(const safetensors_file *file);
const file_tensor *safetensors_at(const safetensors_file *file, size_t index);
const file_tensor *safetensors_find(const safetensors_file *file, const char *name);
/* Value of a __metadata__ key, NULL when absent. */
const char *safetensors_metadata(const safetensors_file *file, const char *key);

/* Writes fp32 tensors (type TENSOR_F32) atomically; the data begins at a multiple of 64 bytes.  metadata: pairs of
 * key and value, NULL-terminated; may be NULL. */
status safetensors_write(const char *path, const file_tensor *tensors, size_t count, const char *const *metadata,
                         alibi_error *error);

#endif
