/* base/field.h - one table of fields per configuration struct.  The table drives JSON files, command-line
 * options and --help, so a setting is described once.
 *
 * A field lives at `offset` in its struct.  Its kind says how it is stored:
 *   FIELD_INTEGER int64_t   FIELD_REAL double   FIELD_BOOLEAN bool
 *   FIELD_CHOICE  int, an index into the NULL-terminated list `choices`; files store the name
 *   FIELD_TEXT    char[`maximum`], or char[FIELD_TEXT_SIZE] where that is 0 */
#ifndef BASE_FIELD_H
#define BASE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { FIELD_TEXT_SIZE = 64 };

typedef enum field_kind { FIELD_INTEGER, FIELD_REAL, FIELD_BOOLEAN, FIELD_CHOICE, FIELD_TEXT } field_kind;

typedef struct field {
  const char *name; /* snake_case; the option is --name with '-' for '_' */
  field_kind kind;
  size_t offset;
  double minimum, maximum, initial; /* numbers; initial also for BOOLEAN and CHOICE; maximum: bytes of a TEXT */
  const char *const *choices;       /* FIELD_CHOICE */
  const char *initial_text;         /* FIELD_TEXT; of others: how --help says what `initial` stands for, or NULL */
  const char *help;                 /* half a line; units named */
} field;

typedef struct field_table {
  const field *fields;
  size_t count;
} field_table;

#define FIELD_TABLE(array) {(array), sizeof(array) / sizeof((array)[0])}

/* Sets every field of the struct at `object` to its initial value. */
void field_init(field_table table, void *object);

const field *field_find(field_table table, const char *name);

/* Sets one field from text ("8", "0.1", "true", "gelu").  `option` is how the user knows it, for the sentence:
 * "--layers: expected an integer from 1 to 1024, found 'x'". */
status field_set_text(const field *f, void *object, const char *option, const char *text, alibi_error *error);

/* Writes the value as text that field_set_text reads back to the same value. */
void field_get_text(const field *f, const void *object, char *text, size_t size);

/* Every number inside its range, every choice inside its list? */
status field_check(field_table table, const void *object, const char *what, alibi_error *error);

bool field_equal(const field *f, const void *a, const void *b);

/* Typed access for JSON.  field_set_number refuses numbers out of range and fractions for integers. */
double field_get_number(const field *f, const void *object);
status field_set_number(const field *f, void *object, const char *option, double value, alibi_error *error);

/* How a command line calls a field: "--train-length"; with the prefix "rope-": "--rope-base". */
void field_option(const char *prefix, const char *name, char *option, size_t size);

/* Makes a sentence about fields one for somebody who typed options: "model configuration: heads: expected ..."
 * becomes "--heads: expected ...", and a name with an underscore, or after the word "option", its option wherever
 * it stands outside quotes.  The table: only fields that are options there. */
void field_say_option(field_table table, const char *prefix, alibi_error *error);

#endif
