/* base/context.h - what a context holds: threads, the table of kernels, the cancel flag, the log. */
#ifndef BASE_CONTEXT_H
#define BASE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

struct kernel_table; /* kernel/kernel.h */
struct comm;         /* comm/comm.h */

struct alibi_context {
  int threads;
  double worth_a_team; /* multiply-adds from which on work is shared among the threads; tests of threads set 0 */
  const struct kernel_table *kernel;
  struct comm *comm; /* the ranks that train together, borrowed; NULL: alone */
  struct comm *sequence_comm; /* the group of them that cuts each sequence among its ranks, borrowed; NULL: none */
  void (*between)(void *user); /* after each operation, by the thread that computes: messages move; or NULL */
  void *between_user;
  double tolerance; /* of attention in models: what may be skipped of a row */
  atomic_int cancelled;
  alibi_log_function log;
  void *log_user;
};

static inline bool context_cancelled(alibi_context *context)
{
  return atomic_load_explicit(&context->cancelled, memory_order_relaxed) != 0;
}

status context_check_cancel(alibi_context *context, alibi_error *error);
void context_log(alibi_context *context, alibi_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
