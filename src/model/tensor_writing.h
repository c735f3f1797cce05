/* model/tensor_writing.h - numbers of a model on their way to a file: in pieces, between which a cancel is noticed
 * and somebody is told how far it is. */
#ifndef MODEL_TENSOR_WRITING_H
#define MODEL_TENSOR_WRITING_H

#include "alibi/convert.h"
#include "file/tensor.h"
#include "op/op.h"

typedef struct tensor_writing {
  alibi_context *context;
  const char *from; /* the model whose numbers they are, for sentences */
  alibi_convert_progress *progress; /* or NULL */
  void *user;
  int64_t done, total; /* bytes of all tensors of the new file */
  int64_t not_finite;  /* numbers that went their way as they are, though they are NaN or infinite: */
  char first_not_finite[TENSOR_NAME_MOST + 1]; /* the tensor of the first of them */
} tensor_writing;

/* A writing of these tensors, of the model `from` (borrowed). */
tensor_writing tensor_writing_of(alibi_context *context, const char *from, const alibi_convert_options *options,
                                 const file_tensor *tensors, size_t count);

/* So many bytes went their way.  ALIBI_CANCELLED where the context is. */
status writing_tell(tensor_writing *writing, size_t bytes, alibi_error *error);
/* The next bytes of the sink's tensor, as they are; of the types that the kernels know, whole blocks. */
status writing_put(tensor_writing *writing, tensor_sink *sink, const void *data, size_t bytes, alibi_error *error);
/* The next n numbers (whole blocks) in another type; room: their bytes in it.  A number that the type has no place
 * for is ALIBI_INVALID, with the tensor's name; one that is NaN or infinite, where the type is not F32,
 * ALIBI_BAD_INPUT. */
status writing_narrow(tensor_writing *writing, tensor_sink *sink, weight_type type, size_t n, const float *wide,
                      void *room, alibi_error *error);

/* All is written: a warning where some of it is NaN or infinite. */
void writing_end(const tensor_writing *writing);

/* Of a weight that was written: its pages may leave memory, so that a model larger than that drives nothing else
 * out. */
void writing_forget(const matrix *weight);

#endif
