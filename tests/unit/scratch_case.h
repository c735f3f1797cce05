/* scratch_case.h - for tests whose calls fail with a sentence, each in a folder of its own.  Include after
 * cmocka.h. */
#ifndef UNIT_SCRATCH_CASE_H
#define UNIT_SCRATCH_CASE_H

#include "unit/scratch.h"

static alibi_error error;

static inline int scratch_case_setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static inline void ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s", error.message);
}

#endif
