/* position/distance_table.h - what the methods share whose bias follows from the distance alone: a table with a
 * row for each head, where a distance lies in it, and the loops of those whose rows are curves of one shape.  Rows
 * are reversed, so that the kernel reads them in the order of the keys. */
#ifndef POSITION_DISTANCE_TABLE_H
#define POSITION_DISTANCE_TABLE_H

#include "position/position.h"

/* The layout of a method whose layers share the table. */
static inline void distance_layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->bias = BIAS_DISTANCE;
  plan->table = arena_floats(a, size_mul(size_mul(plan->sets, request->shape.heads), request->length));
}

/* Of one that has a table for each layer. */
static inline void distance_layout_by_layer(const position_request *request, position_plan *plan, arena *a)
{
  plan->sets = request->shape.layers;
  distance_layout(request, plan, a);
}

/* Where distance t lies in a row of the table, of its gradient or of the factors; row: set * H + head. */
static inline size_t distance_at(size_t length, size_t row, size_t t)
{
  return (row + 1) * length - 1 - t;
}

/* ---- rows that are curves: a function of the distance and of two numbers ---- */

enum { DISTANCE_NUMBERS = 2 };

typedef struct distance_numbers {
  double x[DISTANCE_NUMBERS];
} distance_numbers;

typedef struct distance_curve {
  distance_numbers (*numbers)(const position_request *request, size_t row);
  double (*bias)(distance_numbers c, double t);
  /* Of methods that learn; number k follows from parameter k, which has an element a row.  Adds g times the
   * derivatives of the bias by the numbers: */
  void (*derive)(distance_numbers c, double t, double g, distance_numbers *sums);
  /* makes of those sums the derivatives by the parameters' elements. */
  distance_numbers (*chain)(const position_request *request, size_t row, distance_numbers sums);
} distance_curve;

static inline void distance_fill(const position_request *request, const distance_curve *curve, position_plan *plan)
{
  size_t length = request->length;
  float *table = (float *)plan->table;
  for (size_t row = 0; row < plan->sets * request->shape.heads; row++) {
    distance_numbers c = curve->numbers(request, row);
    for (size_t t = 0; t < length; t++) table[distance_at(length, row, t)] = (float)curve->bias(c, (double)t);
  }
}

static inline void distance_backward(const position_request *request, const distance_curve *curve,
                                     const position_plan *plan, const position_plan_grad *grad,
                                     float *const *parameter_grads)
{
  size_t length = request->length;
  for (size_t row = 0; row < plan->sets * request->shape.heads; row++) {
    distance_numbers c = curve->numbers(request, row), sums = {{0}};
    for (size_t t = 0; t < length; t++)
      curve->derive(c, (double)t, grad->table[distance_at(length, row, t)], &sums);
    sums = curve->chain(request, row, sums);
    for (size_t k = 0; k < DISTANCE_NUMBERS; k++) parameter_grads[k][row] += (float)sums.x[k];
  }
}

#endif
