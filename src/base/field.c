/* Reading, writing and checking the values that a table of fields describes. */
#include "base/field.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

static void *at(const field *f, void *object)
{
  return (char *)object + f->offset;
}

static const void *at_const(const field *f, const void *object)
{
  return (const char *)object + f->offset;
}

static size_t text_size(const field *f)
{
  return f->maximum > 0 ? (size_t)f->maximum : FIELD_TEXT_SIZE;
}

static int choice_count(const field *f)
{
  int count = 0;
  while (f->choices[count]) count++;
  return count;
}

static void store_number(const field *f, void *object, double value)
{
  switch (f->kind) {
  case FIELD_INTEGER: *(int64_t *)at(f, object) = (int64_t)value; break;
  case FIELD_REAL: *(double *)at(f, object) = value; break;
  case FIELD_BOOLEAN: *(bool *)at(f, object) = value != 0; break;
  case FIELD_CHOICE: *(int *)at(f, object) = (int)value; break;
  case FIELD_TEXT: break;
  }
}

void field_init(field_table table, void *object)
{
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    if (f->kind == FIELD_TEXT)
      snprintf(at(f, object), text_size(f), "%s", f->initial_text ? f->initial_text : "");
    else
      store_number(f, object, f->initial);
  }
}

const field *field_find(field_table table, const char *name)
{
  for (size_t i = 0; i < table.count; i++)
    if (strcmp(table.fields[i].name, name) == 0) return &table.fields[i];
  return NULL;
}

double field_get_number(const field *f, const void *object)
{
  switch (f->kind) {
  case FIELD_INTEGER: return (double)*(const int64_t *)at_const(f, object);
  case FIELD_REAL: return *(const double *)at_const(f, object);
  case FIELD_BOOLEAN: return *(const bool *)at_const(f, object);
  case FIELD_CHOICE: return *(const int *)at_const(f, object);
  case FIELD_TEXT: break;
  }
  return 0;
}

/* The bounds of integers with all their digits. */
static int bound_digits(const field *f)
{
  return f->kind == FIELD_INTEGER ? 16 : 10;
}

/* found: as it was typed; beside it a word on what is wrong. */
static status refuse_number(const field *f, const char *option, const char *found, const char *beside,
                            alibi_error *error)
{
  int digits = bound_digits(f);
  return fail(error, ALIBI_INVALID, "%s: expected %s from %.*g to %.*g, found %.200s%s", option,
              f->kind == FIELD_INTEGER ? "an integer" : "a number", digits, f->minimum, digits, f->maximum, found,
              beside);
}

status field_set_number(const field *f, void *object, const char *option, double value, alibi_error *error)
{
  char found[32];
  bool whole = f->kind == FIELD_INTEGER;
  number_print(found, sizeof found, "%.*g", bound_digits(f), value);
  if (!isfinite(value) || value < f->minimum || value > f->maximum || (whole && value != floor(value)))
    return refuse_number(f, option, found, "", error);
  store_number(f, object, value);
  return ALIBI_OK;
}

static status set_choice(const field *f, void *object, const char *option, const char *text, alibi_error *error)
{
  char list[512] = "";
  for (int i = 0; f->choices[i]; i++) {
    if (strcmp(f->choices[i], text) == 0) {
      store_number(f, object, i);
      return ALIBI_OK;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", f->choices[i]);
  }
  return fail(error, ALIBI_INVALID, "%s: expected one of %s, found '%s'", option, list, text);
}

/* Integers by their digits: the nearest double of 0.99999999999999999 is 1, that of 2^53 + 1 is 2^53. */
static status set_number_text(const field *f, void *object, const char *option, const char *text,
                              alibi_error *error)
{
  double value;
  int64_t integer;
  char quoted[256];
  bool read = number_read(text, &value);
  snprintf(quoted, sizeof quoted, "'%.198s'", text);
  if (!read) return refuse_number(f, option, quoted, value == 0 ? ", too small to be told from 0" : "", error);
  if (f->kind != FIELD_INTEGER) {
    if (value < f->minimum || value > f->maximum) return refuse_number(f, option, text, "", error);
    store_number(f, object, value);
    return ALIBI_OK;
  }
  if (!integer_read(text, &integer) || integer < (int64_t)f->minimum || integer > (int64_t)f->maximum)
    return refuse_number(f, option, text, "", error);
  *(int64_t *)at(f, object) = integer;
  return ALIBI_OK;
}

status field_set_text(const field *f, void *object, const char *option, const char *text, alibi_error *error)
{
  switch (f->kind) {
  case FIELD_INTEGER:
  case FIELD_REAL: return set_number_text(f, object, option, text, error);
  case FIELD_BOOLEAN:
    if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "1") == 0)
      store_number(f, object, 1);
    else if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "0") == 0)
      store_number(f, object, 0);
    else
      return fail(error, ALIBI_INVALID, "%s: expected true or false, found '%s'", option, text);
    return ALIBI_OK;
  case FIELD_CHOICE: return set_choice(f, object, option, text, error);
  case FIELD_TEXT:
    if (strlen(text) >= text_size(f))
      return fail(error, ALIBI_INVALID, "%s: expected at most %zu bytes, found %zu", option, text_size(f) - 1,
                  strlen(text));
    snprintf(at(f, object), text_size(f), "%s", text);
    return ALIBI_OK;
  }
  assert(!"a field of no kind");
  return ALIBI_INVALID;
}

void field_get_text(const field *f, const void *object, char *text, size_t size)
{
  switch (f->kind) {
  case FIELD_INTEGER: snprintf(text, size, "%lld", (long long)*(const int64_t *)at_const(f, object)); break;
  case FIELD_REAL: {
    char number[NUMBER_SIZE];
    number_text(*(const double *)at_const(f, object), number);
    snprintf(text, size, "%s", number);
    break;
  }
  case FIELD_BOOLEAN: snprintf(text, size, "%s", *(const bool *)at_const(f, object) ? "true" : "false"); break;
  case FIELD_CHOICE: snprintf(text, size, "%s", f->choices[*(const int *)at_const(f, object)]); break;
  case FIELD_TEXT: snprintf(text, size, "%s", (const char *)at_const(f, object)); break;
  }
}

status field_check(field_table table, const void *object, const char *what, alibi_error *error)
{
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    double value = field_get_number(f, object);
    if (f->kind == FIELD_CHOICE && (value < 0 || value >= choice_count(f)))
      return fail(error, ALIBI_INVALID, "%s: %s: expected a choice below %d, found %g", what, f->name,
                  choice_count(f), value);
    if ((f->kind == FIELD_INTEGER || f->kind == FIELD_REAL) &&
        !(value >= f->minimum && value <= f->maximum))
      return fail(error, ALIBI_INVALID, "%s: %s: expected a number from %.*g to %.*g, found %.*g", what, f->name,
                  bound_digits(f), f->minimum, bound_digits(f), f->maximum, bound_digits(f), value);
  }
  return ALIBI_OK;
}

bool field_equal(const field *f, const void *a, const void *b)
{
  if (f->kind == FIELD_TEXT) return strcmp(at_const(f, a), at_const(f, b)) == 0;
  return field_get_number(f, a) == field_get_number(f, b);
}

void field_option(const char *prefix, const char *name, char *option, size_t size)
{
  snprintf(option, size, "--%s%s", prefix, name);
  for (char *c = option; *c; c++)
    if (*c == '_') *c = '-';
}

static size_t word_length(const char *text)
{
  return strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
}

static const field *find_word(field_table table, const char *word, size_t length)
{
  for (size_t i = 0; length > 0 && i < table.count; i++)
    if (strlen(table.fields[i].name) == length && strncmp(table.fields[i].name, word, length) == 0)
      return &table.fields[i];
  return NULL;
}

/* Is this word the name of a field, and what a sentence is about: "heads: ...", "keep 100: ..."? */
static bool is_subject(field_table table, const char *word)
{
  size_t length = word_length(word);
  const char *after = word + length;
  if (*after == ' ') after += 1 + strspn(after + 1, "-0123456789");
  return *after == ':' && find_word(table, word, length);
}

static bool is_quote(const char *text, const char *at, bool quoted)
{
  return *at == '\'' && !isalnum((unsigned char)(quoted      ? at[1]
                                                 : at > text ? at[-1]
                                                             : ' ')); /* not that of "model's" */
}

/* "raise the option keep". */
static bool is_called_option(const char *text, const char *at)
{
  static const char call[] = "option ";
  size_t size = sizeof call - 1;
  return (size_t)(at - text) >= size && strncmp(at - size, call, size) == 0;
}

void field_say_option(field_table table, const char *prefix, alibi_error *error)
{
  char own[sizeof error->message], option[2 * FIELD_TEXT_SIZE];
  if (!error) return;
  snprintf(own, sizeof own, "%s", error->message);
  const char *at = own, *second = strstr(own, ": ");
  bool quoted = false, subject = is_subject(table, own);
  if (!subject && second && is_subject(table, second + 2)) {
    subject = true;
    at = second + 2;
  }
  for (size_t used = 0, size = sizeof error->message; *at && used + 1 < size; subject = false) {
    size_t length = word_length(at);
    bool part = (at > own && (isalnum((unsigned char)at[-1]) || strchr("-/._", at[-1]))) ||
                (at[length] && strchr("-/.", at[length])); /* of a longer name */
    const field *f = quoted || part ? NULL : find_word(table, at, length);
    if (f && (subject || memchr(at, '_', length) || is_called_option(own, at))) {
      field_option(prefix, f->name, option, sizeof option);
      used += (size_t)snprintf(error->message + used, size - used, "%s", option);
    } else {
      if (length == 0) quoted ^= is_quote(own, at, quoted);
      used += (size_t)snprintf(error->message + used, size - used, "%.*s", length ? (int)length : 1, at);
    }
    at += length ? length : 1;
  }
}
