/* comma_locale.h - a locale whose numbers have a comma, whatever locales are installed.  Include after cmocka.h
 * and scratch.h; the folder of scratch.h is made. */
#ifndef UNIT_COMMA_LOCALE_H
#define UNIT_COMMA_LOCALE_H

#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What glibc's localedef makes of a decimal_point ",", a thousands_sep "." and groups of three. */
static inline void comma_locale_write(void)
{
  static const uint32_t head[] = {0x20031114, 6, 32, 34, 36, 40, 44, 48}, wide[] = {',', '.'};
  static const char narrow[8] = {',', 0, '.', 0, 3, 3, 0, 0}, codeset[] = "UTF-8";
  char file[sizeof head + sizeof narrow + sizeof wide + sizeof codeset];
  memcpy(file, head, sizeof head);
  memcpy(file + sizeof head, narrow, sizeof narrow);
  memcpy(file + sizeof head + sizeof narrow, &wide[1], sizeof wide[1]);
  memcpy(file + sizeof head + sizeof narrow + sizeof wide[1], &wide[0], sizeof wide[0]);
  memcpy(file + sizeof head + sizeof narrow + sizeof wide, codeset, sizeof codeset);
  assert_int_equal(mkdir(scratch_path("comma"), 0700), 0);
  scratch_write(scratch_path("comma/LC_NUMERIC"), file, sizeof file);
  assert_int_equal(setenv("LOCPATH", scratch_folder, 1), 0);
}

/* Until comma_locale_leave. */
static inline void comma_locale_enter(void)
{
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8", "comma"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
    if (i + 1 == sizeof names / sizeof names[0]) comma_locale_write();
    found = setlocale(LC_NUMERIC, names[i]) != NULL;
  }
#ifdef __GLIBC__
  assert_true(found); /* other C libraries: some know no locale with a comma */
  assert_string_equal(localeconv()->decimal_point, ",");
#endif
}

static inline void comma_locale_leave(void)
{
  setlocale(LC_NUMERIC, "C");
  unsetenv("LOCPATH");
}

#endif
