/* The data of a tensor on its way to a file.  The one idea: a header that is already written promises a size, so
 * what is given is counted. */
#include "file/tensor.h"

status tensor_sink_write(tensor_sink *sink, const void *data, size_t bytes, alibi_error *error)
{
  const file_tensor *t = sink->tensor;
  if (bytes > t->bytes - sink->written)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected %zu bytes, was given more", sink->path, t->name,
                t->bytes);
  sink->written += bytes;
  /* The reason of a failed write is found by whoever closes the stream; here it ends what would go on in vain. */
  if (bytes > 0 && fwrite(data, 1, bytes, sink->stream) != bytes)
    return fail_errno(error, ALIBI_FAILED, "%s: cannot write", sink->path);
  return ALIBI_OK;
}

status tensor_give(FILE *stream, const char *path, const file_tensor *tensors, size_t index,
                   const tensor_source *source, alibi_error *error)
{
  tensor_sink sink = {.stream = stream, .path = path, .tensor = &tensors[index]};
  status result = source ? source->give(source->state, index, &sink, error)
                         : tensor_sink_write(&sink, tensors[index].data, tensors[index].bytes, error);
  if (result == ALIBI_OK && sink.written != tensors[index].bytes)
    return fail(error, ALIBI_INVALID, "%s: tensor '%s': expected %zu bytes, was given %zu", path,
                tensors[index].name, tensors[index].bytes, sink.written);
  return result;
}
