/* The last part of a path is a good name until two paths share it. */
#include "report/path_names.h"

#include <stdbool.h>
#include <string.h>

/* Without the slashes after it. */
static const char *last_part(const char *path, const char *tail, size_t *size)
{
  size_t end = strlen(path), cut = tail ? strlen(tail) : 0;
  if (cut > 0 && end > cut && strcmp(path + end - cut, tail) == 0) end -= cut;
  while (end > 1 && path[end - 1] == '/') end--;
  size_t start = end;
  while (start > 0 && path[start - 1] != '/') start--;
  *size = end - start;
  return path + start;
}

char *path_name(const char *const *paths, size_t count, size_t index, const char *tail)
{
  size_t size, other_size;
  const char *part = last_part(paths[index], tail, &size);
  bool clear = size > 0 && part[0] != '.';
  for (size_t i = 0; i < count && clear; i++) {
    const char *other = last_part(paths[i], tail, &other_size);
    clear = i == index || size != other_size || memcmp(part, other, size) != 0;
  }
  return clear ? strndup(part, size) : strdup(paths[index]);
}
