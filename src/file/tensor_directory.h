/* file/tensor_directory.h - which file of a directory has the weights. */
#ifndef FILE_TENSOR_DIRECTORY_H
#define FILE_TENSOR_DIRECTORY_H

#include "base/error.h"

/* *path (malloc'd): the first that is there of model.safetensors, its index of shards, the .gguf file (any of a
 * split one), pytorch_model.bin and its index.  ALIBI_BAD_INPUT where there is none, with what is there instead;
 * where two .gguf files are two models; where a name is a link to nothing, which is never passed over for the
 * next. */
status tensor_directory_find(const char *directory, char **path, alibi_error *error);

#endif
