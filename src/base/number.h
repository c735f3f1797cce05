/* base/number.h - numbers as people type them, and lists with commas. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

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
