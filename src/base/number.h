/* base/number.h - numbers as text: with a point whatever the locale of the host program writes, as people type
 * them, and in lists with commas. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* snprintf and strtod with a point, as in the locale "C"; end may be NULL.  By these alone, numbers with a
 * fraction go to files and sentences and come from there. */
int number_print(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int number_print_list(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
double number_parse(const char *text, char **end);

/* The fewest digits, from 15 on, that read back as the same double; of a float, from 1 on. */
enum { NUMBER_SIZE = 32 };
void number_text(double value, char text[NUMBER_SIZE]);
void number_text_float(float value, char text[NUMBER_SIZE]);

/* All of the text is a decimal number: digits with at most one point among them, perhaps a sign before and an
 * exponent after.  No blanks, no hexadecimal, no words.  false with *value NaN: it is none; 0 or infinite: it is
 * one, but so small or so large that no double comes near it. */
bool number_read(const char *text, double *value);

/* The integer that a decimal number is, "12", "1.20e1"; false where it is none, by its digits and not by the
 * nearest double.  Above 9e16 one may be INT64_MAX, below -9e16 INT64_MIN. */
bool integer_read(const char *text, int64_t *value);

/* The next item of a list, without the blanks around it, `size` bytes at *item; false at the end.  *rest begins as
 * the list. */
bool list_next(const char **rest, const char **item, size_t *size);

/* Something in every item?  option: how the user knows the list, for the sentence: "--lengths: item 2 of '64,,128'
 * is empty". */
status list_check(const char *option, const char *list, alibi_error *error);

/* An item as a text of its own; longer ones are refused. */
enum { LIST_ITEM_SIZE = 64 };
status list_item(const char *option, const char *item, size_t size, char text[LIST_ITEM_SIZE], alibi_error *error);

/* A list of lengths in tokens: each from `least`, or 1, to `longest`, none twice, at most `most` of them, in
 * their order. */
status list_lengths_from(const char *option, const char *list, int64_t least, int64_t longest, int64_t *lengths,
                         size_t most, size_t *count, alibi_error *error);
status list_lengths(const char *option, const char *list, int64_t longest, int64_t *lengths, size_t most,
                    size_t *count, alibi_error *error);

#endif
