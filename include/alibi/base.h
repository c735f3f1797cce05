/* alibi/base.h - what every other header stands on: status, error, context, version.
 *
 * Errors.  Every function that can fail returns an alibi_status and takes an alibi_error (may be NULL)
 * into which it writes one sentence: which file, tensor or option, what was expected, what was found.
 * The library never prints, never exits, never aborts on input.
 *
 * Threads.  A context is used by one thread at a time, except alibi_context_cancel, which any thread
 * or signal handler may call.  Different contexts are independent.
 */
#ifndef ALIBI_BASE_H
#define ALIBI_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ALIBI_API __attribute__((visibility("default")))
#else
#define ALIBI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ALIBI_VERSION_MAJOR 0
#define ALIBI_VERSION_MINOR 1
#define ALIBI_VERSION_PATCH 0

/* Version of the library that is linked, such as "0.1.0". */
ALIBI_API const char *alibi_version(void);

typedef enum alibi_status {
  ALIBI_OK = 0,
  ALIBI_FAILED,    /* the world refused: memory, disk, a child process */
  ALIBI_INVALID,   /* an argument, option or configuration is wrong */
  ALIBI_BAD_INPUT, /* the content of a file is wrong */
  ALIBI_CANCELLED  /* alibi_context_cancel was called; what was finished is kept */
} alibi_status;

/* The last error of a call.  Start from alibi_error_init or zeroed memory. */
typedef struct alibi_error {
  alibi_status status;
  char message[1024]; /* one sentence, NUL-terminated, "" where status is ALIBI_OK */
} alibi_error;

ALIBI_API void alibi_error_init(alibi_error *error);

typedef enum alibi_log_level { ALIBI_LOG_INFO = 0, ALIBI_LOG_WARNING } alibi_log_level;
typedef void (*alibi_log_function)(void *user, alibi_log_level level, const char *sentence);

/* Structs of settings (alibi_..._options, alibi_model_config, alibi_sampling) begin with their size, set by their
 * _init function.  A caller that knows an older, shorter struct of the kind may hand that over with its size: the
 * missing fields get their defaults.  A longer struct is taken where the bytes beyond are 0.  Size 0 is
 * ALIBI_INVALID. */

/* Settings of a context. */
typedef struct alibi_context_options {
  size_t size;            /* sizeof(alibi_context_options), set by alibi_context_options_init */
  int threads;            /* 0: as many as the process may use */
  const char *isa;        /* NULL: ALIBI_ISA from the environment, else the best of this processor */
  alibi_log_function log; /* NULL: silence */
  void *log_user;
  double tolerance; /* of attention in models: share of a row's weight that may be skipped (alibi/attention.h); 0:
                       nothing is skipped; 2^-24 by _init */
} alibi_context_options;

typedef struct alibi_context alibi_context;

ALIBI_API void alibi_context_options_init(alibi_context_options *options);

/* options may be NULL (defaults).  ALIBI_INVALID where the instruction set is unknown or unsupported. */
ALIBI_API alibi_status alibi_context_new(const alibi_context_options *options, alibi_context **context,
                                         alibi_error *error);
ALIBI_API void alibi_context_free(alibi_context *context);

/* Asks the running call to stop at the next safe point with ALIBI_CANCELLED.  It is for good: long calls that come
 * later with this context stop at once.  Safe in a signal handler. */
ALIBI_API void alibi_context_cancel(alibi_context *context);

/* Number of threads and name of the instruction set ("avx512", "avx2", "baseline", "neon", "reference"). */
ALIBI_API int alibi_context_threads(const alibi_context *context);
ALIBI_API const char *alibi_context_isa(const alibi_context *context);

#ifdef __cplusplus
}
#endif
#endif
