/* Reading what people type, more strictly than strtod does: that takes blanks, hexadecimal, "inf" and "nan", and
 * makes a 0 of 1e-400 without a word. */
#include "base/number.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/plain_locale.h"

int number_print_list(char *text, size_t size, const char *format, va_list arguments)
{
  void *own = plain_locale_enter();
  int length = vsnprintf(text, size, format, arguments);
  plain_locale_leave(own);
  return length;
}

int number_print(char *text, size_t size, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = number_print_list(text, size, format, arguments);
  va_end(arguments);
  return length;
}

double number_parse(const char *text, char **end)
{
  void *own = plain_locale_enter();
  double value = strtod(text, end);
  plain_locale_leave(own);
  return value;
}

void number_text(double value, char text[NUMBER_SIZE])
{
  for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
    number_print(text, NUMBER_SIZE, "%.*g", digits, value);
    if (number_parse(text, NULL) == value) break;
  }
}

void number_text_float(float value, char text[NUMBER_SIZE])
{
  for (int digits = 1; digits <= FLT_DECIMAL_DIG; digits++) {
    number_print(text, NUMBER_SIZE, "%.*g", digits, (double)value);
    if ((float)number_parse(text, NULL) == value) break;
  }
}

static const char *past_digits(const char *text)
{
  return text + strspn(text, "0123456789");
}

static const char *past_sign(const char *text)
{
  return text + (*text == '-' || *text == '+');
}

bool number_read(const char *text, double *value)
{
  const char *first = past_sign(text), *point = past_digits(first);
  const char *end = *point == '.' ? past_digits(point + 1) : point;
  bool digits = point > first || end > point + 1, zero = first + strspn(first, "0.") >= end;
  *value = NAN;
  if (digits && (*end == 'e' || *end == 'E')) {
    const char *exponent = past_sign(end + 1);
    end = past_digits(exponent);
    digits = end > exponent;
  }
  if (!digits || *end != '\0') return false;
  *value = number_parse(text, NULL);
  return isfinite(*value) && (zero || *value != 0);
}

bool integer_read(const char *text, int64_t *value)
{
  enum { FAR = 1 << 24 }; /* more digits than an argument has */
  double checked;
  const char *digit = past_sign(text), *e = text + strcspn(text, "eE");
  if (!number_read(text, &checked) && !isinf(checked)) return false;
  long exponent = *e ? strtol(e + 1, NULL, 10) : 0;
  exponent = exponent > FAR ? FAR : exponent < -FAR ? -FAR : exponent;
  bool large = false;
  int64_t sum = 0;
  const char *point = memchr(text, '.', (size_t)(e - text));
  long places =
      (long)((point ? point : e) - digit) + exponent; /* before the point, once the exponent has moved it */
  for (; digit < e; digit++) {
    if (digit == point) continue;
    if (places-- <= 0 && *digit != '0') return false;
    if (places < 0) continue;
    large = large || sum > INT64_MAX / 100;
    if (!large) sum = 10 * sum + (*digit - '0');
  }
  for (; places > 0 && sum > 0 && !large; places--) {
    large = sum > INT64_MAX / 100;
    sum *= large ? 1 : 10;
  }
  *value = *text == '-' ? (large ? INT64_MIN : -sum) : large ? INT64_MAX : sum;
  return true;
}

bool list_next(const char **rest, const char **item, size_t *size)
{
  if (!*rest) return false;
  size_t length = strcspn(*rest, ",");
  const char *end = *rest + length;
  *item = *rest + strspn(*rest, " ");
  *rest = *end ? end + 1 : NULL;
  while (end > *item && end[-1] == ' ') end--;
  *size = (size_t)(end - *item);
  return true;
}

status list_check(const char *option, const char *list, alibi_error *error)
{
  const char *rest = list, *item;
  size_t size;
  for (size_t i = 1; list_next(&rest, &item, &size); i++)
    if (size == 0) return fail(error, ALIBI_INVALID, "%s: item %zu of '%.200s' is empty", option, i, list);
  return ALIBI_OK;
}

status list_item(const char *option, const char *item, size_t size, char text[LIST_ITEM_SIZE], alibi_error *error)
{
  if (size >= LIST_ITEM_SIZE)
    return fail(error, ALIBI_INVALID, "%s: expected at most %d characters between commas, found '%.*s...'", option,
                LIST_ITEM_SIZE - 1, LIST_ITEM_SIZE - 1, item);
  memcpy(text, item, size);
  text[size] = '\0';
  return ALIBI_OK;
}

status list_lengths(const char *option, const char *list, int64_t longest, int64_t *lengths, size_t most,
                    size_t *count, alibi_error *error)
{
  return list_lengths_from(option, list, 1, longest, lengths, most, count, error);
}

status list_lengths_from(const char *option, const char *list, int64_t least, int64_t longest, int64_t *lengths,
                         size_t most, size_t *count, alibi_error *error)
{
  const field length_field = {
      .name = "length", .kind = FIELD_INTEGER, .minimum = (double)least, .maximum = (double)longest};
  char text[LIST_ITEM_SIZE];
  const char *item;
  size_t size;
  status result;
  *count = 0;
  TRY(list_check(option, list, error));
  while (list_next(&list, &item, &size)) {
    int64_t length;
    TRY(list_item(option, item, size, text, error));
    TRY(field_set_text(&length_field, &length, option, text, error));
    for (size_t i = 0; i < *count; i++)
      if (lengths[i] == length) RAISE(error, ALIBI_INVALID, "%s: %" PRId64 " stands there twice", option, length);
    if (*count == most) RAISE(error, ALIBI_INVALID, "%s: expected at most %zu lengths, found more", option, most);
    lengths[(*count)++] = length;
  }
done:
  return result;
}
