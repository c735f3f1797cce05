/* The file that a reader under a fuzzer opens, and what must hold of what it hands out. */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

typedef struct given_file {
  const char *path;
  const uint8_t *data;
  size_t size;
} given_file;

enum { GIVEN_MOST = 4 };

static given_file given[GIVEN_MOST];
static size_t given_count;
static volatile unsigned sum;

void fuzz_give(const uint8_t *data, size_t size)
{
  given_count = 0;
  fuzz_give_file(FUZZ_PATH, data, size);
}

void fuzz_give_none(void)
{
  given_count = 0;
}

void fuzz_give_file(const char *path, const uint8_t *data, size_t size)
{
  if (given_count == GIVEN_MOST) abort();
  given[given_count++] = (given_file){path, data, size};
}

static const given_file *find(const char *path)
{
  for (size_t i = 0; i < given_count; i++)
    if (strcmp(given[i].path, path) == 0) return &given[i];
  return NULL;
}

status __wrap_mapped_file_open(const char *path, mapped_file *file, alibi_error *error)
{
  const given_file *found = find(path);
  *file = (mapped_file){0};
  if (!found) return fail(error, ALIBI_BAD_INPUT, "%s: cannot open", path);
  unsigned char *copy = malloc(found->size ? found->size : 1);
  if (!copy) exit(2);
  if (found->size) memcpy(copy, found->data, found->size);
  *file = (mapped_file){copy, found->size};
  return ALIBI_OK;
}

/* The runner's own questions, about files that are there, come through here too. */
bool __wrap_path_exists(const char *path)
{
  return find(path) || __real_path_exists(path);
}

bool __wrap_path_size(const char *path, uint64_t *size)
{
  const given_file *found = find(path);
  if (!found) return __real_path_size(path, size);
  *size = found->size;
  return true;
}

bool __wrap_path_is_directory(const char *path)
{
  return strcmp(path, FUZZ_FOLDER) == 0 || __real_path_is_directory(path);
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
