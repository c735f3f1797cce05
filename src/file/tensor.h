/* file/tensor.h - a tensor of a file, whatever the file's format, and how the data of one that is too large to be
 * held reaches a writer. */
#ifndef FILE_TENSOR_H
#define FILE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "file/tensor_type.h"

enum { TENSOR_MAX_DIMENSIONS = 8, TENSOR_NAME_MOST = 512 /* bytes: one that fits a sentence */ };

typedef struct file_tensor {
  const char *name; /* borrowed from the file object */
  tensor_type type;
  int dimensions;                      /* 0: one number */
  size_t shape[TENSOR_MAX_DIMENSIONS]; /* outermost first, row-major; a matrix is {rows, columns} */
  const void *data; /* little-endian, inside the mapping, at ANY address (read it with memcpy or unaligned loads);
                       lives as long as the file object */
  size_t bytes;     /* what type and shape say */
} file_tensor;

/* ---- writing: data by parts ---- */

typedef struct tensor_sink {
  FILE *stream;
  const char *path;
  const file_tensor *tensor;
  size_t written;
} tensor_sink;

/* The next bytes of the tensor; more than it has are refused (ALIBI_INVALID). */
status tensor_sink_write(tensor_sink *sink, const void *data, size_t bytes, alibi_error *error);

/* Where a writer gets data from: it calls `give` once for each tensor, in the order of the file; give writes all
 * of the tensor's bytes by as many tensor_sink_write as it likes.  index: of the list that the writer was given.
 */
typedef struct tensor_source {
  status (*give)(void *state, size_t index, tensor_sink *sink, alibi_error *error);
  void *state;
  bool passing; /* the file is read once and removed (base/system.h) */
} tensor_source;

/* For writers of formats: all of tensors[index] to the stream, from the source, or from its data where source is
 * NULL. */
status tensor_give(FILE *stream, const char *path, const file_tensor *tensors, size_t index,
                   const tensor_source *source, alibi_error *error);

#endif
