/* Operations that treat every row or every number on its own: norm, activation, rotation, embedding, loss,
 * optimiser.  Rows are cut into fixed blocks; what sums over rows (gains, shifts, embedding rows) is cut by
 * columns instead, so that each sum runs over the rows in order. */
#include <string.h>

#include "base/random.h"
#include "op/op.h"
#include "op/parts.h"
#include "op/team.h"

enum { ROW_BLOCK = 32, COLUMN_BLOCK = 64, FLAT_BLOCK = 16384 };

/* An exponential or a square root for each of `numbers`, or little but memory: 16 multiply-adds. */
#define FOR_BLOCKS(items, numbers, ...) OP_FOR_ITEMS(context, static, items, 16.0 * (double)(numbers), __VA_ARGS__)

void op_norm_forward(alibi_context *context, op_norm n, size_t rows, size_t groups, size_t columns, const float *x,
                     size_t x_stride, const float *gain, const float *shift, float *y, size_t y_stride,
                     float *mean, float *rstd)
{
  const kernel_table *k = context->kernel;
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  FOR_BLOCKS(items, rows * groups * columns, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    if (groups == 1) {
      norm_shape s = {b.count, columns, x_stride, y_stride, n.epsilon, n.centre};
      k->norm_forward(&s, x + b.start * x_stride, gain, shift, y + b.start * y_stride,
                      mean ? mean + b.start : NULL, rstd ? rstd + b.start : NULL);
      continue;
    }
    norm_shape s = {groups, columns, columns, columns, n.epsilon, n.centre};
    for (size_t r = b.start; r < b.start + b.count; r++)
      k->norm_forward(&s, x + r * x_stride, gain, shift, y + r * y_stride, mean ? mean + r * groups : NULL,
                      rstd ? rstd + r * groups : NULL);
  });
}

void op_norm_again(alibi_context *context, size_t rows, size_t columns, const float *x, const float *gain,
                   const float *shift, const float *mean, const float *rstd, float *y)
{
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  FOR_BLOCKS(items, rows * columns, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    size_t at = b.start * columns;
    norm_shape s = {.rows = b.count, .columns = columns, .in_stride = columns, .out_stride = columns};
    context->kernel->norm_again(&s, x + at, gain, shift, mean + b.start, rstd + b.start, y + at);
  });
}

static void norm_backward_gain(alibi_context *context, op_norm n, size_t rows, size_t groups, size_t columns,
                               const float *x, size_t x_stride, const float *mean, const float *rstd,
                               const float *dy, size_t dy_stride, float *dgain, float *dshift)
{
  const kernel_table *k = context->kernel;
  size_t column_items = op_pieces_of(columns, COLUMN_BLOCK);
  FOR_BLOCKS(column_items, rows * groups * columns, {
    op_piece b = op_piece_at(columns, COLUMN_BLOCK, item);
    size_t to = b.start + b.count;
    if (groups == 1) {
      norm_shape s = {rows, columns, x_stride, dy_stride, n.epsilon, n.centre};
      k->norm_backward_gain(&s, b.start, to, x, mean, rstd, dy, dgain, dshift);
      continue;
    }
    norm_shape s = {groups, columns, columns, columns, n.epsilon, n.centre};
    for (size_t r = 0; r < rows; r++)
      k->norm_backward_gain(&s, b.start, to, x + r * x_stride, mean + r * groups, rstd + r * groups,
                            dy + r * dy_stride, dgain, dshift);
  });
}

void op_norm_backward(alibi_context *context, op_norm n, size_t rows, size_t groups, size_t columns,
                      const float *x, size_t x_stride, const float *gain, const float *mean, const float *rstd,
                      const float *dy, size_t dy_stride, float *dx, size_t dx_stride, bool accumulate,
                      float *dgain, float *dshift)
{
  const kernel_table *k = context->kernel;
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  if (dgain || dshift)
    norm_backward_gain(context, n, rows, groups, columns, x, x_stride, mean, rstd, dy, dy_stride, dgain, dshift);
  FOR_BLOCKS(items, rows * groups * columns, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    if (groups == 1) {
      norm_shape s = {b.count, columns, x_stride, dy_stride, n.epsilon, n.centre};
      k->norm_backward(&s, x + b.start * x_stride, gain, mean + b.start, rstd + b.start, dy + b.start * dy_stride,
                       dx + b.start * dx_stride, dx_stride, accumulate);
      continue;
    }
    norm_shape s = {groups, columns, columns, columns, n.epsilon, n.centre};
    for (size_t r = b.start; r < b.start + b.count; r++)
      k->norm_backward(&s, x + r * x_stride, gain, mean + r * groups, rstd + r * groups, dy + r * dy_stride,
                       dx + r * dx_stride, columns, accumulate);
  });
}

/* Rows of `columns` numbers in blocks of about FLAT_BLOCK. */
static size_t rows_of_block(size_t columns)
{
  return columns < FLAT_BLOCK ? FLAT_BLOCK / columns : 1;
}

void op_activation_forward(alibi_context *context, activation_kind kind, size_t rows, size_t columns,
                           const float *x, float *y)
{
  const kernel_table *k = context->kernel;
  size_t block = rows_of_block(columns), items = op_pieces_of(rows, block);
  FOR_BLOCKS(items, rows * columns, {
    op_piece b = op_piece_at(rows, block, item);
    size_t to = b.start + b.count;
    if (op_activation_parts(kind) == 1) {
      k->activation_forward(kind, b.count * columns, x + b.start * columns, y + b.start * columns);
      continue;
    }
    for (size_t r = b.start; r < to; r++)
      k->activation_gate(kind, columns, x + 2 * r * columns, x + (2 * r + 1) * columns, y + r * columns);
  });
}

void op_activation_backward(alibi_context *context, activation_kind kind, size_t rows, size_t columns, float *x,
                            float *y)
{
  const kernel_table *k = context->kernel;
  size_t block = rows_of_block(columns), items = op_pieces_of(rows, block);
  FOR_BLOCKS(items, rows * columns, {
    op_piece b = op_piece_at(rows, block, item);
    for (size_t r = b.start; r < b.start + b.count; r++) {
      float *own = x + r * columns * op_activation_parts(kind), *value = own + columns, *out = y + r * columns;
      if (op_activation_parts(kind) > 1)
        k->activation_gate_backward(kind, columns, own, value, out, own, value, out);
      else k->activation_backward(kind, columns, own, out, own, out);
    }
  });
}

void op_copy(alibi_context *context, size_t n, const float *x, float *y)
{
  size_t items = op_pieces_of(n, FLAT_BLOCK);
  FOR_BLOCKS(items, n, {
    op_piece b = op_piece_at(n, FLAT_BLOCK, item);
    memcpy(y + b.start, x + b.start, b.count * sizeof *y);
  });
}

void op_copy_rows(alibi_context *context, size_t rows, size_t columns, const float *x, size_t x_stride, float *y,
                  size_t y_stride)
{
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  FOR_BLOCKS(items, rows * columns, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    for (size_t r = b.start; r < b.start + b.count; r++)
      memcpy(y + r * y_stride, x + r * x_stride, columns * sizeof *y);
  });
}

void op_add(alibi_context *context, size_t n, const float *x, float *y)
{
  size_t items = op_pieces_of(n, FLAT_BLOCK);
  FOR_BLOCKS(items, n, {
    op_piece b = op_piece_at(n, FLAT_BLOCK, item);
    context->kernel->add(b.count, x + b.start, y + b.start);
  });
}

/* The seed of dropout's own stream. */
#define DROPOUT_STREAM 0x64726f706f757421u

void op_drop(alibi_context *context, const op_dropout *d, size_t rows, size_t channels, const float *x, float *y,
             bool accumulate)
{
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  uint32_t threshold = (uint32_t)(d->rate * 0x1p24);
  float scale = (float)(1 / (1 - d->rate));
  FOR_BLOCKS(items, rows * channels, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    for (size_t r = b.start; r < b.start + b.count; r++) {
      random_block bits = random_philox(d->seed ^ DROPOUT_STREAM, d->first_row + r, d->place);
      dropout_row row = {{bits.word[0], bits.word[1]}, threshold, scale};
      context->kernel->drop(channels, &row, x + r * channels, y + r * channels, accumulate);
    }
  });
}

void op_embedding_forward(alibi_context *context, size_t rows, size_t channels, const uint32_t *tokens,
                          const size_t *positions, float scale, const matrix *table, const float *position,
                          float *x)
{
  const kernel_table *k = context->kernel;
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  FOR_BLOCKS(items, rows * channels, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    for (size_t r = b.start; r < b.start + b.count; r++) {
      float *row = x + r * channels;
      if (table->parts) parts_read(k, table, tokens[r], 0, channels, row);
      else memcpy(row, table->data + tokens[r] * table->stride, channels * sizeof *row);
      if (scale != 1) k->scale(channels, scale, row);
      if (position) k->add(channels, position + positions[r] * channels, row);
    }
  });
}

void op_embedding_backward(alibi_context *context, size_t rows, size_t channels, const uint32_t *tokens,
                           const size_t *positions, float scale, const float *dx, float *dtable, float *dposition)
{
  const kernel_table *k = context->kernel;
  size_t items = op_pieces_of(channels, COLUMN_BLOCK);
  FOR_BLOCKS(items, rows * channels, {
    op_piece b = op_piece_at(channels, COLUMN_BLOCK, item);
    for (size_t r = 0; r < rows; r++) {
      const float *row = dx + r * channels + b.start;
      k->add_scaled(b.count, scale, row, dtable + tokens[r] * channels + b.start);
      if (dposition) k->add(b.count, row, dposition + positions[r] * channels + b.start);
    }
  });
}

void op_rotate(alibi_context *context, size_t rows, size_t heads, size_t head_size, const op_rotation *rotation,
               const size_t *positions, bool inverse, float *x, size_t stride)
{
  const kernel_table *k = context->kernel;
  size_t items = op_pieces_of(rows, ROW_BLOCK), half = rotation->channels / 2;
  FOR_BLOCKS(items, rows * heads * rotation->channels, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    for (size_t r = b.start; r < b.start + b.count; r++)
      for (size_t h = 0; h < heads; h++)
        (rotation->adjacent ? k->rotate_adjacent : k->rotate)(half, rotation->cosine + positions[r] * half,
                                                              rotation->sine + positions[r] * half, inverse,
                                                              x + r * stride + h * head_size);
  });
}

void op_scale_heads(alibi_context *context, size_t rows, size_t heads, size_t head_size, const float *scale,
                    size_t length, const size_t *positions, float *x, size_t stride)
{
  size_t items = op_pieces_of(rows, ROW_BLOCK);
  FOR_BLOCKS(items, rows * heads * head_size, {
    op_piece b = op_piece_at(rows, ROW_BLOCK, item);
    for (size_t r = b.start; r < b.start + b.count; r++)
      for (size_t h = 0; h < heads; h++)
        context->kernel->scale(head_size, scale[h * length + positions[r]], x + r * stride + h * head_size);
  });
}

/* A head is an item: no two write the same scale. */
void op_scale_heads_backward(alibi_context *context, size_t rows, size_t heads, size_t head_size,
                             const float *scale, size_t length, const size_t *positions, const float *x,
                             float *dx, size_t stride, float *dscale)
{
  FOR_BLOCKS(heads, rows * heads * head_size, {
    for (size_t r = 0; r < rows; r++) {
      size_t at = item * length + positions[r];
      const float *row = x + r * stride + item * head_size;
      float *drow = dx + r * stride + item * head_size;
      double sum = 0;
      for (size_t c = 0; dscale && c < head_size; c++) sum += (double)row[c] * drow[c];
      if (dscale && scale[at] != 0) dscale[at] += (float)(sum / scale[at]);
      context->kernel->scale(head_size, scale[at], drow);
    }
  });
}

void op_cross_entropy(alibi_context *context, size_t rows, size_t vocabulary, const float *logits,
                      const uint32_t *targets, float weight, float z_loss, float *losses, float *dlogits)
{
  FOR_BLOCKS(rows, rows * vocabulary, {
    float *d = dlogits ? dlogits + item * vocabulary : NULL;
    if (targets[item] == OP_NO_TARGET) {
      losses[item] = 0;
      if (d) memset(d, 0, vocabulary * sizeof *d);
      continue;
    }
    context->kernel->cross_entropy(vocabulary, logits + item * vocabulary, targets[item], weight, z_loss,
                                   losses + item, d);
  });
}

/* Partial sums of fixed blocks, added in order. */
double op_sum_squares(alibi_context *context, size_t n, const float *x)
{
  enum { BATCH = 256 };
  double total = 0, partial[BATCH];
  for (size_t start = 0; start < n; start += (size_t)BATCH * FLAT_BLOCK) {
    size_t left = n - start < (size_t)BATCH * FLAT_BLOCK ? n - start : (size_t)BATCH * FLAT_BLOCK;
    size_t items = op_pieces_of(left, FLAT_BLOCK);
    FOR_BLOCKS(items, left, {
      op_piece b = op_piece_at(left, FLAT_BLOCK, item);
      partial[item] = context->kernel->sum_squares(b.count, x + start + b.start);
    });
    for (size_t i = 0; i < items; i++) total += partial[i];
  }
  return total;
}

void op_adamw(alibi_context *context, size_t n, const adamw_step *step, const float *grad, float *value, float *m,
              float *v)
{
  size_t items = op_pieces_of(n, FLAT_BLOCK);
  FOR_BLOCKS(items, n, {
    op_piece b = op_piece_at(n, FLAT_BLOCK, item);
    context->kernel->adamw(b.count, step, grad + b.start, value + b.start, m + b.start, v + b.start);
  });
}
