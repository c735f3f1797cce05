/* Writing the one sentence that a failure carries. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plain_locale.h"

void alibi_error_init(alibi_error *error)
{
  if (error) memset(error, 0, sizeof *error);
}

static void write_sentence(alibi_error *error, status code, const char *format, va_list arguments)
{
  error->status = code;
  void *own = plain_locale_enter();
  vsnprintf(error->message, sizeof error->message, format, arguments);
  plain_locale_leave(own);
  /* A name out of a damaged file may hold anything; a sentence is one line and commands no terminal. */
  for (char *c = error->message; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
}

status fail(alibi_error *error, status code, const char *format, ...)
{
  if (!error) return code;
  va_list arguments;
  va_start(arguments, format);
  write_sentence(error, code, format, arguments);
  va_end(arguments);
  return code;
}

status fail_errno(alibi_error *error, status code, const char *format, ...)
{
  int number = errno;
  if (!error) return code;
  va_list arguments;
  va_start(arguments, format);
  write_sentence(error, code, format, arguments);
  va_end(arguments);
  size_t used = strlen(error->message);
  snprintf(error->message + used, sizeof error->message - used, ": %s", strerror(number));
  return code;
}
