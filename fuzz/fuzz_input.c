/* The file that a reader under a fuzzer opens, and what must hold of what it hands out. */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t *given;
static size_t given_size;
static volatile unsigned sum;

void fuzz_give(const uint8_t *data, size_t size)
{
  given = data;
  given_size = size;
}

status __wrap_mapped_file_open(const char *path, mapped_file *file, alibi_error *error)
{
  (void)path;
  (void)error;
  unsigned char *copy = malloc(given_size ? given_size : 1);
  if (!copy) exit(2);
  if (given_size) memcpy(copy, given, given_size);
  *file = (mapped_file){copy, given_size};
  return ALIBI_OK;
}

void __wrap_mapped_file_close(mapped_file *file)
{
  free((void *)(uintptr_t)file->data);
  *file = (mapped_file){0};
}

/* The ends are enough: a block has no holes. */
void fuzz_check_tensor(const file_tensor *tensor)
{
  size_t bytes;
  const unsigned char *data = tensor->data;
  if (!tensor->name || !tensor_type_size(tensor->type, tensor->dimensions, tensor->shape, &bytes)) abort();
  if (bytes != tensor->bytes) abort();
  if (bytes > 0) sum += data[0] + data[bytes - 1] + (unsigned)strlen(tensor->name);
}

void fuzz_check_error(status result, const alibi_error *error)
{
  if (result != ALIBI_BAD_INPUT && result != ALIBI_FAILED) abort();
  if (error->status != result || !error->message[0]) abort();
}
