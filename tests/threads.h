/* threads.h - for tests that ask for more than one thread: their work is so small that it would run on one. */
#ifndef TESTS_THREADS_H
#define TESTS_THREADS_H

#include "base/context.h"

static inline void threads_share_all_work(alibi_context *context)
{
  context->worth_a_team = 0;
}

#endif
