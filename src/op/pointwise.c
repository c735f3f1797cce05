/* Operations on single numbers.  Work is cut into flat pieces or into rows; a sum over rows is cut by columns, so
 * that it runs over the rows in order. */
#include "op/pointwise.h"

#include <math.h>

#include "kernel/kernel.h"
#include "op/team.h"

enum { PIECE = 16384, SOME_ROWS = 32, SOME_COLUMNS = 64 };

/* Little but memory, and a hyperbolic tangent of the C library. */
#define MOVES(n) (16.0 * (double)(n))
#define TANGENTS(n) (256.0 * (double)(n))

void op_scale(alibi_context *context, size_t n, float scale, float *y)
{
  size_t items = op_pieces_of(n, PIECE);
  OP_FOR_ITEMS(context, static, items, MOVES(n), {
    op_piece p = op_piece_at(n, PIECE, item);
    context->kernel->scale(p.count, scale, y + p.start);
  });
}

void op_add_scaled(alibi_context *context, size_t n, float scale, const float *x, float *y)
{
  size_t items = op_pieces_of(n, PIECE);
  OP_FOR_ITEMS(context, static, items, MOVES(n), {
    op_piece p = op_piece_at(n, PIECE, item);
    context->kernel->add_scaled(p.count, scale, x + p.start, y + p.start);
  });
}

static inline float clipped(float x, float limit)
{
  return x > limit ? limit : x < -limit ? -limit : x; /* what is no number stays none */
}

void op_clip(alibi_context *context, size_t rows, size_t columns, float limit, float *y, size_t y_stride)
{
  size_t items = op_pieces_of(rows, SOME_ROWS);
  OP_FOR_ITEMS(context, static, items, MOVES(rows * columns), {
    op_piece p = op_piece_at(rows, SOME_ROWS, item);
    for (size_t r = p.start; r < p.start + p.count; r++)
      for (size_t c = 0; c < columns; c++) y[r * y_stride + c] = clipped(y[r * y_stride + c], limit);
  });
}

void op_clip_backward(alibi_context *context, size_t rows, size_t columns, float limit, const float *y,
                      size_t y_stride, float *dy, size_t dy_stride)
{
  size_t items = op_pieces_of(rows, SOME_ROWS);
  OP_FOR_ITEMS(context, static, items, MOVES(rows * columns), {
    op_piece p = op_piece_at(rows, SOME_ROWS, item);
    for (size_t r = p.start; r < p.start + p.count; r++)
      for (size_t c = 0; c < columns; c++)
        if (y[r * y_stride + c] >= limit || y[r * y_stride + c] <= -limit) dy[r * dy_stride + c] = 0;
  });
}

void op_bend(alibi_context *context, size_t n, float cap, float *y)
{
  size_t items = op_pieces_of(n, PIECE);
  OP_FOR_ITEMS(context, static, items, TANGENTS(n), {
    op_piece p = op_piece_at(n, PIECE, item);
    for (size_t i = p.start; i < p.start + p.count; i++) y[i] = cap * tanhf(y[i] / cap);
  });
}

void op_bend_backward(alibi_context *context, size_t n, float cap, const float *y, float *dy)
{
  size_t items = op_pieces_of(n, PIECE);
  OP_FOR_ITEMS(context, static, items, MOVES(n), {
    op_piece p = op_piece_at(n, PIECE, item);
    for (size_t i = p.start; i < p.start + p.count; i++) {
      float share = y[i] / cap;
      dy[i] *= (1 - share) * (1 + share);
    }
  });
}

void op_shift_rows(alibi_context *context, size_t rows, size_t columns, const float *shift, float *x)
{
  size_t items = op_pieces_of(rows, SOME_ROWS);
  OP_FOR_ITEMS(context, static, items, MOVES(rows * columns), {
    op_piece p = op_piece_at(rows, SOME_ROWS, item);
    for (size_t r = p.start; r < p.start + p.count; r++) context->kernel->add(columns, shift, x + r * columns);
  });
}

void op_shift_rows_backward(alibi_context *context, size_t rows, size_t columns, const float *dx, float *dshift)
{
  size_t items = op_pieces_of(columns, SOME_COLUMNS);
  OP_FOR_ITEMS(context, static, items, MOVES(rows * columns), {
    op_piece p = op_piece_at(columns, SOME_COLUMNS, item);
    for (size_t r = 0; r < rows; r++) context->kernel->add(p.count, dx + r * columns + p.start, dshift + p.start);
  });
}
