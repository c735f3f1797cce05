/* position_vary.h - settings of a position method or an extension that are not the initial ones: each field gets
 * another value where what is checked about the whole allows one. */
#ifndef CONFORMANCE_POSITION_VARY_H
#define CONFORMANCE_POSITION_VARY_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "position/position.h"

typedef enum vary_kind { VARY_NOTHING, VARY_NUMBERS, VARY_TEXTS } vary_kind; /* NUMBERS: all that is no text */
enum { VARY_KINDS = 3 };

typedef bool vary_accepts(void *user);

/* The k-th value to try, as text; false past the last one. */
static inline bool vary_value(const field *f, size_t heads, size_t k, char *text, size_t size)
{
  const double reals[] = {f->initial / 2, f->initial + 3}, integers[] = {f->initial + 2, 40};
  if (k >= 2) return false;
  switch (f->kind) {
  case FIELD_INTEGER: snprintf(text, size, "%.0f", integers[k]); break;
  case FIELD_REAL: snprintf(text, size, "%.17g", reals[k]); break;
  case FIELD_BOOLEAN: snprintf(text, size, "%s", f->initial == 0 ? "true" : "false"); break;
  case FIELD_CHOICE: snprintf(text, size, "%s", f->choices[f->initial == 0]); break;
  case FIELD_TEXT: /* a list of factors, one of slopes */
    snprintf(text, size, "%s", k == 0 ? "1/1.5/2" : "0.5");
    for (size_t h = 1; k == 1 && h < heads; h++)
      snprintf(text + strlen(text), size - strlen(text), ",%g", 0.5 / (double)(h + 1));
  }
  return true;
}

/* values: of ALIBI_POSITION_OPTIONS_SIZE bytes; accepts(user) looks at them.  Returns the number of fields that
 * have another value. */
static inline size_t vary(field_table table, void *values, vary_kind kind, size_t heads, vary_accepts *accepts,
                          void *user)
{
  size_t count = 0;
  for (size_t i = 0; i < table.count && kind != VARY_NOTHING; i++) {
    const field *f = &table.fields[i];
    char text[512], before[ALIBI_POSITION_OPTIONS_SIZE];
    alibi_error error;
    if ((f->kind == FIELD_TEXT) != (kind == VARY_TEXTS)) continue;
    memcpy(before, values, sizeof before);
    for (size_t k = 0; vary_value(f, heads, k, text, sizeof text); k++) {
      bool taken = field_set_text(f, values, f->name, text, &error) == ALIBI_OK && !field_equal(f, before, values);
      if (taken && accepts(user)) {
        count++;
        break;
      }
      memcpy(values, before, sizeof before);
    }
  }
  return count;
}

#endif
