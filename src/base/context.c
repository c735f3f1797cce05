/* The log and the cancel flag of a context; its creation, which picks kernels, is kernel/dispatch.c. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>

status context_check_cancel(alibi_context *context, alibi_error *error)
{
  return context_cancelled(context) ? fail(error, ALIBI_CANCELLED, "interrupted") : ALIBI_OK;
}

void context_log(alibi_context *context, alibi_log_level level, const char *format, ...)
{
  if (!context->log) return;
  char sentence[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  context->log(context->log_user, level, sentence);
}

void alibi_context_cancel(alibi_context *context)
{
  atomic_store_explicit(&context->cancelled, 1, memory_order_relaxed);
}

int alibi_context_threads(const alibi_context *context)
{
  return context->threads;
}
