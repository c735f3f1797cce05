/* position_rows.h - what the conformance suite loops over: every position method, then every extension with each
 * method that it extends. */
#ifndef CONFORMANCE_POSITION_ROWS_H
#define CONFORMANCE_POSITION_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "position/position.h"

typedef struct position_row_pair {
  const position_method *method;
  const position_extension *extension; /* NULL: as trained */
} position_row_pair;

/* False past the last row. */
static inline bool position_row_at(size_t row, position_row_pair *pair)
{
  size_t methods = position_method_count();
  *pair = (position_row_pair){position_method_at(row), NULL};
  if (row < methods) return true;
  row -= methods;
  for (size_t e = 0; e < position_extension_count(); e++)
    for (size_t m = 0; m < methods; m++) {
      if (!position_extends(position_extension_at(e), position_method_at(m))) continue;
      *pair = (position_row_pair){position_method_at(m), position_extension_at(e)};
      if (row-- == 0) return true;
    }
  return false;
}

static inline size_t position_row_count(void)
{
  position_row_pair pair;
  size_t rows = 0;
  while (position_row_at(rows, &pair)) rows++;
  return rows;
}

static inline void position_row_name(const position_row_pair *pair, char *text, size_t size)
{
  snprintf(text, size, "%s%s%s", pair->method->name, pair->extension ? " + " : "",
           pair->extension ? pair->extension->name : "");
}

#endif
