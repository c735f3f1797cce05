/* Reading and writing a struct whose size its caller knows better than we do.  A size is believed only where it
 * can be true: whole words, and not absurdly many, for an uninitialised struct has any. */
#include "base/settings.h"

#include <stdbool.h>
#include <string.h>

enum { SIZE_MOST = 16384 };

static bool is_zero(const unsigned char *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (bytes[i] != 0) return false;
  return true;
}

status settings_size(const void *given, size_t own_size, const char *name, size_t *size, alibi_error *error)
{
  memcpy(size, given, sizeof *size);
  if (*size == 0 || *size % sizeof *size != 0 || *size > SIZE_MOST)
    return fail(error, ALIBI_INVALID,
                "%s: expected its size in its first field, %zu bytes here, found %zu (call %s_init)", name,
                own_size, *size, name);
  return ALIBI_OK;
}

void settings_give(const void *own, size_t own_size, void *given)
{
  size_t size = 0;
  memcpy(&size, given, sizeof size);
  size_t bytes = size < own_size ? size : own_size;
  memcpy((unsigned char *)given + sizeof size, (const unsigned char *)own + sizeof size, bytes - sizeof size);
}

status settings_take(const void *given, void *own, size_t own_size, const char *name, alibi_error *error)
{
  size_t size = 0;
  if (!given)
    return fail(error, ALIBI_INVALID, "%s: expected a struct, begun with %s_init, found NULL", name, name);
  status result = settings_size(given, own_size, name, &size, error);
  if (result != ALIBI_OK) return result;
  if (size > own_size && !is_zero((const unsigned char *)given + own_size, size - own_size))
    return fail(error, ALIBI_INVALID,
                "%s: expected at most the %zu bytes that this version knows, found %zu with more of them set "
                "(call %s_init)",
                name, own_size, size, name);
  memcpy(own, given, size < own_size ? size : own_size);
  memcpy(own, &own_size, sizeof own_size);
  return ALIBI_OK;
}
