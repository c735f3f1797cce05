/* file/torch_file.h - PyTorch's own files (pytorch_model.bin: torch.save of a dictionary of tensors, the zip
 * format of version 1.6 and later).  Reading maps the file; tensors are views of the mapping; nothing of the
 * pickle is executed (file/torch_pickle.h says what is known of it).  Refused with one sentence: the older format,
 * TorchScript archives, big-endian files, damage of any kind, and, by name, tensors whose rows do not lie one
 * after the other. */
#ifndef FILE_TORCH_FILE_H
#define FILE_TORCH_FILE_H

#include "base/error.h"
#include "file/tensor.h"

typedef struct torch_file torch_file;

status torch_file_open(const char *path, torch_file **file, alibi_error *error);
void torch_file_close(torch_file *file);
/* In the order of the dictionary; two tensors may share bytes (tied weights). */
size_t torch_file_count(const torch_file *file);
const file_tensor *torch_file_at(const torch_file *file, size_t index);

#endif
