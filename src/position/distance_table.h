/* position/distance_table.h - what the methods share whose bias follows from the distance alone: a table with a row for each head,
 * and where a distance lies in it.  Rows are reversed, so that the kernel reads them in the order of the keys. */
#ifndef POSITION_DISTANCE_TABLE_H
#define POSITION_DISTANCE_TABLE_H

#include "position/position.h"

/* sets: 1, or as many as there are layers. */
static inline void distance_layout(const position_request *request, size_t sets, position_plan *plan, arena *a)
{
  plan->bias = BIAS_DISTANCE;
  plan->sets = sets;
  plan->table = arena_floats(a, size_mul(size_mul(sets, request->shape.heads), request->length));
}

/* Where distance t lies in a row of the table, of its gradient or of the factors; row: set * H + head. */
static inline size_t distance_at(size_t length, size_t row, size_t t)
{
  return (row + 1) * length - 1 - t;
}

#endif
