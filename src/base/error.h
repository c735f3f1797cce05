/* base/error.h - how a failure travels: one sentence, one macro, one clean-up label. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "alibi/base.h"

typedef alibi_status status;

/* Writes the sentence and returns `code`, so that `return fail(...)` reads well.  error may be NULL. */
status fail(alibi_error *error, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Same, with ": <strerror(errno)>" after the sentence. */
status fail_errno(alibi_error *error, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one way up: needs `status result` and a label `done` in the calling function. */
#define TRY(call)                                                                                            \
  do {                                                                                                       \
    result = (call);                                                                                         \
    if (result != ALIBI_OK) goto done;                                                                       \
  } while (0)

/* Raises a failure of one's own inside a function that uses TRY. */
#define RAISE(...)                                                                                           \
  do {                                                                                                       \
    result = fail(__VA_ARGS__);                                                                              \
    goto done;                                                                                               \
  } while (0)

#endif
