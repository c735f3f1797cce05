/* file/tensor_file.h - tensors by name, whatever the format of the file or files that hold them: safetensors,
 * GGUF, PyTorch's zip; one file or its shards.  Opening maps and checks; no tensor's data is read. */
#ifndef FILE_TENSOR_FILE_H
#define FILE_TENSOR_FILE_H

#include "base/error.h"
#include "file/tensor.h"

typedef struct tensor_file tensor_file;
typedef struct gguf_file gguf_file; /* file/gguf.h */

/* path: a file (its content says which format; an index of shards is named *.index.json; any file of a split GGUF
 * stands for all of them), or a directory that holds one of, the first that is there,
 *   model.safetensors, model.safetensors.index.json, *.gguf (one, or one split), pytorch_model.bin,
 *   pytorch_model.bin.index.json.
 * ALIBI_BAD_INPUT where nothing of that is there, or what is there does not agree with itself or with its index.
 */
status tensor_file_open(const char *path, tensor_file **file, alibi_error *error);
void tensor_file_close(tensor_file *file); /* NULL is fine */

size_t tensor_file_count(const tensor_file *file);
/* Shard after shard, in the order of their data. */
const file_tensor *tensor_file_at(const tensor_file *file, size_t index);       /* NULL past the end */
const file_tensor *tensor_file_find(const tensor_file *file, const char *name); /* NULL where it is absent */

const char *tensor_file_format(const tensor_file *file); /* "safetensors", "gguf", "torch" */
/* The file that holds the tensor, for a sentence about it; of index 0 also where there are no tensors. */
const char *tensor_file_path(const tensor_file *file, size_t index);
const char *tensor_file_path_of(const tensor_file *file, const file_tensor *tensor); /* one of at or find */

/* safetensors: the value of a __metadata__ key, of the first shard that has it; NULL when absent. */
const char *tensor_file_metadata(const tensor_file *file, const char *key);
/* The (first) GGUF file, for its keys; NULL for other formats. */
const gguf_file *tensor_file_gguf(const tensor_file *file);

#endif
