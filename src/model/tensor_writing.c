/* Writing numbers of a model.  The one idea: no damage goes through in silence.  A type that is narrower than fp32
 * has a largest number, and a weight beyond it would become infinite, so every row is looked at before it is
 * narrowed; what is copied as it is, is looked at too, and NaN told of. */
#include "model/tensor_writing.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/context.h"
#include "base/system.h"
#include "kernel/kernel.h"
#include "kernel/weight_plain.h"

enum { PIECE = 4 << 20 };

tensor_writing tensor_writing_of(alibi_context *context, const char *from, const alibi_convert_options *options,
                                 const file_tensor *tensors, size_t count)
{
  tensor_writing writing = {
      .context = context, .from = from, .progress = options->progress, .user = options->user};
  for (size_t i = 0; i < count; i++) writing.total += (int64_t)tensors[i].bytes;
  return writing;
}

status writing_tell(tensor_writing *writing, size_t bytes, alibi_error *error)
{
  writing->done += (int64_t)bytes;
  if (writing->progress) writing->progress(writing->user, writing->done, writing->total);
  return context_check_cancel(writing->context, error);
}

static size_t count_not_finite(const float *numbers, size_t n)
{
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += !(fabsf(numbers[i]) <= FLT_MAX);
  return count;
}

/* Looks at whole blocks of the sink's type. */
static void look_at(tensor_writing *writing, const tensor_sink *sink, const char *data, size_t bytes)
{
  enum { SOME = 1024 }; /* whole blocks of every type */
  float wide[SOME];
  weight_type type;
  int64_t before = writing->not_finite;
  if (!tensor_type_weight(sink->tensor->type, &type)) return;
  size_t block = weight_block_bytes(type), count = bytes / block * weight_block_elements(type);
  for (size_t i = 0; i < count; i += SOME) {
    size_t n = count - i < SOME ? count - i : SOME;
    writing->context->kernel->widen(type, n, data + i / weight_block_elements(type) * block, wide);
    writing->not_finite += (int64_t)count_not_finite(wide, n);
  }
  if (before == 0 && writing->not_finite > 0)
    snprintf(writing->first_not_finite, sizeof writing->first_not_finite, "%s", sink->tensor->name);
}

void writing_end(const tensor_writing *writing)
{
  if (writing->not_finite > 0)
    context_log(writing->context, ALIBI_LOG_WARNING,
                "%s: %" PRId64
                " of its numbers %s NaN or infinite, and so %s the copy's; the first is in tensor '%s'",
                writing->from, writing->not_finite, writing->not_finite == 1 ? "is" : "are",
                writing->not_finite == 1 ? "is" : "are", writing->first_not_finite);
}

static status put(tensor_writing *writing, tensor_sink *sink, const void *data, size_t bytes, bool looks,
                  alibi_error *error)
{
  weight_type type;
  size_t block = tensor_type_weight(sink->tensor->type, &type) ? weight_block_bytes(type) : 1;
  size_t piece = PIECE / block * block;
  status result = ALIBI_OK;
  for (size_t done = 0; result == ALIBI_OK && done < bytes;) {
    size_t some = bytes - done < piece ? bytes - done : piece;
    if (looks) look_at(writing, sink, (const char *)data + done, some);
    result = tensor_sink_write(sink, (const char *)data + done, some, error);
    if (result == ALIBI_OK) result = writing_tell(writing, some, error);
    done += some;
  }
  return result;
}

status writing_put(tensor_writing *writing, tensor_sink *sink, const void *data, size_t bytes, alibi_error *error)
{
  return put(writing, sink, data, bytes, true, error);
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
  for (size_t i = 0; type != WEIGHT_F32 && i < n; i++) {
    if (!isfinite(wide[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected numbers, to be written as %s, found %g",
                  writing->from, sink->tensor->name, weight_type_name(type), (double)wide[i]);
    if (fabsf(wide[i]) > largest)
      return fail(error, ALIBI_INVALID,
                  "%s: tensor '%s': expected numbers of at most %g, which is what %s holds, found %g",
                  writing->from, sink->tensor->name, (double)largest, weight_type_name(type), (double)wide[i]);
  }
  weight_narrow(type, n, wide, room);
  return put(writing, sink, room, bytes, type == WEIGHT_F32, error);
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
