/* The thread's own locale: setlocale would change that of the whole program, under its other threads' feet. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* newlocale, uselocale */
#endif
#include "base/plain_locale.h"

#include <locale.h>
#include <stddef.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

void *plain_locale_enter(void)
{
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return plain == (locale_t)0 ? NULL : (void *)uselocale(plain);
}

void plain_locale_leave(void *own)
{
  if (own) freelocale(uselocale((locale_t)own));
}
