/* base/plain_locale.h - numbers with a point for a while, in a program whose locale has a comma. */
#ifndef BASE_PLAIN_LOCALE_H
#define BASE_PLAIN_LOCALE_H

/* Until plain_locale_leave this thread reads and writes numbers as in the locale "C"; others are not touched.
 * What was there before goes to plain_locale_leave. */
void *plain_locale_enter(void);
void plain_locale_leave(void *own);

#endif
