/* Writing numbers of a model.  The one idea: a type that is narrower than fp32 has a largest number, and a weight
 * beyond it would silently become infinite, so every row is looked at before it is narrowed. */
#include "model/tensor_writing.h"

#include <math.h>

#include "base/context.h"
#include "base/system.h"
#include "kernel/weight_plain.h"

enum { PIECE = 4 << 20 };

tensor_writing tensor_writing_of(alibi_context *context, const alibi_convert_options *options,
                                 const file_tensor *tensors, size_t count)
{
  tensor_writing writing = {.context = context, .progress = options->progress, .user = options->user};
  for (size_t i = 0; i < count; i++) writing.total += (int64_t)tensors[i].bytes;
  return writing;
}

status writing_tell(tensor_writing *writing, size_t bytes, alibi_error *error)
{
  writing->done += (int64_t)bytes;
  if (writing->progress) writing->progress(writing->user, writing->done, writing->total);
  return context_check_cancel(writing->context, error);
}

status writing_put(tensor_writing *writing, tensor_sink *sink, const void *data, size_t bytes, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t done = 0; result == ALIBI_OK && done < bytes;) {
    size_t some = bytes - done < PIECE ? bytes - done : PIECE;
    result = tensor_sink_write(sink, (const char *)data + done, some, error);
    if (result == ALIBI_OK) result = writing_tell(writing, some, error);
    done += some;
  }
  return result;
}

/* Beyond it a number, or a block's scale in fp16, is infinite.  (Q4_0's scale is an eighth of the largest number,
 * Q4_K's is one of fp16 times 63 at most, of steps of a fifteenth.) */
static double largest_of(weight_type type)
{
  static const double half = 65504;
  switch (type) {
  case WEIGHT_F16: return half;
  case WEIGHT_BF16: return 0x1.FEp127;
  case WEIGHT_Q8_0: return 127 * half;
  case WEIGHT_Q4_0: return 8 * half;
  case WEIGHT_Q4_K: return 15 * half;
  default: return INFINITY;
  }
}

status writing_narrow(tensor_writing *writing, tensor_sink *sink, weight_type type, size_t n, const float *wide,
                      void *room, alibi_error *error)
{
  size_t bytes = n / weight_block_elements(type) * weight_block_bytes(type);
  float largest = (float)largest_of(type);
  for (size_t i = 0; type != WEIGHT_F32 && i < n; i++)
    if (!(fabsf(wide[i]) <= largest))
      return fail(error, ALIBI_INVALID,
                  "%s: tensor '%s': expected numbers of at most %g, which is what %s holds, found %g", sink->path,
                  sink->tensor->name, (double)largest, weight_type_name(type), (double)wide[i]);
  weight_narrow(type, n, wide, room);
  return writing_put(writing, sink, room, bytes, error);
}

void writing_forget(const matrix *weight)
{
  for (size_t i = 0; i < weight->part_count; i++) {
    const matrix_part *part = &weight->parts[i];
    size_t rows = part->turned ? weight->columns : part->rows;
    if (part->group && !part->turned)
      system_forget(part->data, (rows / part->group - 1) * part->group_bytes + part->group * part->row_bytes);
    else system_forget(part->data, rows * part->row_bytes);
  }
}
