/* A model split over GGUF files, NAME-00001-of-00003.gguf and so on.  The one idea: each file says which it is and
 * how many there are, and so does its name; the names find the files, and what the files say must agree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/gguf.h"
#include "file/gguf_private.h"

typedef struct gguf_split {
  size_t number, count; /* number from 0 */
  size_t tensors;       /* in all files together */
} gguf_split;

static status read_split(const gguf_file *file, gguf_split *split, alibi_error *error)
{
  status result = ALIBI_OK;
  int64_t count = 1, number = 0, tensors = (int64_t)file->count;
  TRY(gguf_integer_or(file, "split.count", 0, UINT16_MAX, 1, &count, error));
  if (count > 1) {
    TRY(gguf_integer(file, "split.no", 0, count - 1, &number, error));
    TRY(gguf_integer(file, "split.tensors.count", tensors, INT64_MAX, &tensors, error));
  }
  *split = (gguf_split){(size_t)number, count > 1 ? (size_t)count : 1, (size_t)tensors};
done:
  return result;
}

/* "-00001-of-00003.gguf": two numbers of five digits. */
enum { SPLIT_END = 20 };

static bool is_split_end(const char *end)
{
  static const char form[] = "-#####-of-#####.gguf";
  for (size_t i = 0; i < SPLIT_END; i++)
    if (form[i] == '#' ? end[i] < '0' || end[i] > '9' : end[i] != form[i]) return false;
  return true;
}

static status part_path(const char *path, size_t number, size_t count, char **part, alibi_error *error)
{
  size_t size = strlen(path);
  *part = NULL;
  if (size < SPLIT_END || !is_split_end(path + size - SPLIT_END) || number >= count || count > 99999)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: one of %zu files of a split model: expected a name such as model-%05zu-of-%05zu.gguf", path,
                count, number + 1, count);
  *part = malloc(size + 32);
  if (!*part) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  snprintf(*part, size + 32, "%.*s-%05zu-of-%05zu.gguf", (int)(size - SPLIT_END), path, number + 1, count);
  return ALIBI_OK;
}

static status check_part(const gguf_file *file, size_t number, const gguf_split *expected, alibi_error *error)
{
  gguf_split found;
  status result = read_split(file, &found, error);
  if (result != ALIBI_OK) return result;
  if (found.number != number || found.count != expected->count || found.tensors != expected->tensors)
    return fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected file %zu of %zu with %zu tensors in all, as its name and the other files say, found %zu "
        "of %zu with %zu",
        file->path, number + 1, expected->count, expected->tensors, found.number + 1, found.count, found.tensors);
  return ALIBI_OK;
}

status gguf_open_parts(const char *path, gguf_file ***parts, size_t *count, alibi_error *error)
{
  status result = ALIBI_OK;
  gguf_file *given = NULL;
  char *name = NULL;
  gguf_split split = {0};
  size_t tensors = 0;
  *parts = NULL;
  *count = 0;
  TRY(gguf_open(path, &given, error));
  TRY(read_split(given, &split, error));
  TRY(memory_new(parts, split.count, sizeof **parts, path, error));
  *count = split.count;
  for (size_t i = 0; i < split.count; i++) {
    if (split.count > 1) TRY(part_path(path, i, split.count, &name, error));
    if (!name || strcmp(name, path) == 0) {
      (*parts)[i] = given;
      given = NULL;
    } else {
      uint64_t unused;
      if (path_exists(name) && !path_size(name, &unused))
        RAISE(error, ALIBI_BAD_INPUT, "%s: expected a plain file", name); /* a pipe may never end */
      TRY(gguf_open(name, &(*parts)[i], error));
    }
    TRY(check_part((*parts)[i], i, &split, error));
    tensors += gguf_count((*parts)[i]);
    free(name);
    name = NULL;
  }
  if (tensors != split.tensors)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected %zu tensors in its %zu files, found %zu", path, split.tensors,
          split.count, tensors);
done:
  free(name);
  gguf_close(given);
  if (result != ALIBI_OK) gguf_close_parts(parts, count);
  return result;
}

void gguf_close_parts(gguf_file ***parts, size_t *count)
{
  for (size_t i = 0; *parts && i < *count; i++) gguf_close((*parts)[i]);
  memory_free(*parts);
  *parts = NULL;
  *count = 0;
}
