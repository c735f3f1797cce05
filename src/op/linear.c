/* The linear operation y = x W^T + b and its gradients, on the packed matrix product.
 * Work items are fixed blocks of rows and of columns; since an output element is one chain over the inner index, the
 * cut changes no bits. */
#include "base/memory.h"
#include "op/op.h"
#include "op/team.h"

enum { ROW_BLOCK = 192, COLUMN_BLOCK = 256 }; /* rows: whole register tiles of 6 and of 8 */

/* What a number costs in multiply-adds of a full register tile: to fetch a weight (decoding one text, 6 blocks of 512 channels,
 * takes 0.17 ns a weight, many rows 0.018 ns a multiply-add), and to move a number to another place. */
enum { FETCH = 8, MOVE = 16 };

size_t op_panel_floats(const alibi_context *context, size_t inner, size_t columns)
{
  return size_mul(inner, size_round_up(columns, context->kernel->tile_columns));
}

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

size_t op_linear_panel_floats(const alibi_context *context, size_t rows, size_t out, size_t in)
{
  size_t forward = op_panel_floats(context, in, out), to_x = op_panel_floats(context, out, in);
  return larger(larger(forward, to_x), op_panel_floats(context, rows, in));
}

/* B [inner, columns] into panels, a block of columns per item. */
static void pack(alibi_context *context, size_t inner, size_t columns, const float *b, size_t inner_stride,
                 size_t column_stride, float *panels)
{
  const kernel_table *k = context->kernel;
  size_t items = (columns + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
  OP_FOR_ITEMS(context, static, items, (double)inner * (double)columns * MOVE, {
    size_t start = item * COLUMN_BLOCK;
    size_t width = columns - start < COLUMN_BLOCK ? columns - start : COLUMN_BLOCK;
    k->pack(inner, width, b + start * column_stride, inner_stride, column_stride, panels + start * inner);
  });
}

/* C (+)= A B, bias first where there is one. */
static void product(alibi_context *context, size_t rows, size_t columns, size_t inner, const float *a,
                    size_t row_stride, size_t inner_stride, const float *panels, const float *bias, float *c,
                    size_t c_stride, bool accumulate)
{
  const kernel_table *k = context->kernel;
  size_t row_items = (rows + ROW_BLOCK - 1) / ROW_BLOCK, column_items = (columns + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
  size_t items = row_items * column_items;
  OP_FOR_ITEMS(context, dynamic, items, (double)(rows + FETCH) * (double)columns * (double)inner, {
    size_t r0 = item / column_items * ROW_BLOCK, c0 = item % column_items * COLUMN_BLOCK;
    size_t height = rows - r0 < ROW_BLOCK ? rows - r0 : ROW_BLOCK;
    size_t width = columns - c0 < COLUMN_BLOCK ? columns - c0 : COLUMN_BLOCK;
    float *out = c + r0 * c_stride + c0;
    for (size_t r = 0; bias && r < height; r++) {
      float *row = out + r * c_stride;
      if (accumulate)
        k->add(width, bias + c0, row);
      else
        for (size_t i = 0; i < width; i++) row[i] = bias[c0 + i];
    }
    k->matmul(height, width, inner, a + r0 * row_stride, row_stride, inner_stride, panels + c0 * inner, out, c_stride,
              accumulate || bias);
  });
}

void op_pack_weight(alibi_context *context, const matrix *w, float *packed)
{
  pack(context, w->columns, w->rows, w->data, 1, w->stride, packed);
}

void op_linear_forward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                       size_t x_stride, const matrix *w, const float *bias, float *y, size_t y_stride,
                       bool accumulate)
{
  const float *panels = w->packed;
  if (!panels) {
    op_pack_weight(context, w, work->panels);
    panels = work->panels;
  }
  product(context, rows, w->rows, w->columns, x, x_stride, 1, panels, bias, y, y_stride, accumulate);
}

static void add_column_sums(alibi_context *context, size_t rows, size_t columns, const float *dy, size_t stride,
                            float *sums)
{
  const kernel_table *k = context->kernel;
  size_t items = (columns + COLUMN_BLOCK - 1) / COLUMN_BLOCK;
  norm_shape s = {.rows = rows, .columns = columns, .in_stride = stride, .out_stride = stride};
  OP_FOR_ITEMS(context, static, items, (double)rows * (double)columns * MOVE, {
    size_t from = item * COLUMN_BLOCK, to = columns - from < COLUMN_BLOCK ? columns : from + COLUMN_BLOCK;
    k->norm_backward_gain(&s, from, to, NULL, NULL, NULL, dy, NULL, sums);
  });
}

void op_linear_backward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                        size_t x_stride, const matrix *w, const float *dy, size_t dy_stride, float *dx,
                        size_t dx_stride, float *dw, float *dbias)
{
  if (dx) {
    pack(context, w->rows, w->columns, w->data, w->stride, 1, work->panels);
    product(context, rows, w->columns, w->rows, dy, dy_stride, 1, work->panels, NULL, dx, dx_stride, false);
  }
  if (dw) {
    pack(context, rows, w->columns, x, x_stride, 1, work->panels);
    product(context, w->rows, w->columns, rows, dy, 1, dy_stride, work->panels, NULL, dw, w->columns, true);
  }
  if (dbias) add_column_sums(context, rows, w->rows, dy, dy_stride, dbias);
}
