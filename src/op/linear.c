/* The linear operation y = x W^T + b and its gradients, on the packed matrix product.
 * Work items are blocks of rows and of columns; since an output element is one chain over the inner index, the cut
 * changes no bits.  An operand that is not packed already is packed by each item for itself, one slab after the
 * other in memory of its worker: what is packed is used at once, out of the second-level cache. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "op/op.h"
#include "op/parts.h"
#include "op/team.h"

/* Of operands that are packed: 192 rows are whole register tiles of 6 and of 8. */
enum { ROW_BLOCK = 192, COLUMN_BLOCK = 256 };
enum { SUM_BLOCK = 64 }; /* columns of a gradient that are summed at a time: four lines of each row */

/* Of slabs, the best of a search over the products of models of 1, 14 and 124 million parameters.  A strip of rows
 * of A (STRIP floats) meets one panel after the other.  Where A is turned, a block of it is copied for each slab
 * (kernel/matmul.c), so slabs there are wide. */
enum { SLAB_DEPTH = 768, SLAB_COLUMNS = 256, TURNED_DEPTH = 384, TURNED_COLUMNS = 384, STRIP = 144 << 10 };
enum { SLAB_ROWS = 2048, LEAST_ROWS = 48, LEAST_COLUMNS = 128, ITEMS_A_THREAD = 3 };
enum { TILE_UNIT = 24, DEPTH_UNIT = 16 }; /* whole register tiles; whole cache lines */

enum { FEW_ROWS = 4 };      /* so few rows meet a stored weight without panels */
enum { ROUNDED_ROWS = 64 }; /* of x are rounded together, before all items */

/* What a number costs in multiply-adds of a full register tile: to fetch a weight (decoding one text, 6 blocks of
 * 512 channels, takes 0.17 ns a weight, many rows 0.018 ns a multiply-add), and to move a number to another place.
 */
enum { FETCH = 8, MOVE = 16 };

/* C [rows, columns] = A [rows, inner] B [inner, columns], added to what `accumulate` leaves there, or to what is
 * given of addend and bias. */
typedef struct product_shape {
  size_t rows, columns, inner;
  const float *a;
  size_t row_stride, inner_stride;
  const float *bias, *addend; /* [columns]; rows as far apart as those of C, may be C */
  float *c;
  size_t c_stride;
  bool accumulate;
} product_shape;

typedef struct right_operand {
  const float *data;
  size_t inner_stride, column_stride;
} right_operand;

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

static size_t count_blocks(size_t n, size_t block)
{
  return (n + block - 1) / block;
}

size_t op_panel_floats(const alibi_context *context, size_t inner, size_t columns)
{
  return size_mul(inner, size_round_up(columns, context->kernel->tile_columns));
}

/* Pieces of about equal size, whole multiples of `unit`, as few as have about `most` at most. */
static size_t piece_of(size_t n, size_t most, size_t unit)
{
  size_t pieces = (n + most - 1) / most;
  return pieces > 1 ? size_round_up((n + pieces - 1) / pieces, unit) : larger(n, 1);
}

static size_t slab_depth(size_t inner, bool turned)
{
  return piece_of(inner, turned ? TURNED_DEPTH : SLAB_DEPTH, turned ? DEPTH_UNIT : WEIGHT_CHUNK);
}

static size_t slab_floats(const alibi_context *context, size_t columns, size_t inner, bool turned)
{
  size_t most = turned ? TURNED_COLUMNS : SLAB_COLUMNS;
  return op_panel_floats(context, slab_depth(inner, turned), smaller(columns, most));
}

/* Of a row of x that is rounded. */
static size_t rounded_floats(size_t inner)
{
  return size_mul(count_blocks(inner, ROUNDED_RUN), sizeof(rounded_run) / sizeof(float));
}

size_t op_linear_panel_floats(const alibi_context *context, size_t rows, size_t out, size_t in)
{
  size_t forward = slab_floats(context, out, in, false), to_x = slab_floats(context, in, out, false);
  /* Fewer rows may make deeper slabs: 360 are one piece, 640 are two of 320. */
  size_t deepest = size_round_up(smaller(rows, TURNED_DEPTH), DEPTH_UNIT);
  size_t to_w = op_panel_floats(context, deepest, smaller(in, TURNED_COLUMNS));
  size_t slabs = size_mul((size_t)context->threads, larger(larger(forward, to_x), to_w));
  return size_add(slabs, size_mul(smaller(rows, ROUNDED_ROWS), rounded_floats(in)));
}

/* One panel of rows that may lie in several parts, piece by piece: a row's whole blocks of every type. */
static void pack_parts(const kernel_table *k, const matrix *w, size_t start, size_t width, float *panel)
{
  enum { PIECE = 256 };
  float rows[PARTS_TILE * PIECE];
  for (size_t i = 0; i < w->columns; i += PIECE) {
    size_t n = smaller(w->columns - i, PIECE);
    for (size_t r = 0; r < width; r++) parts_read(k, w, start + r, i, n, rows + r * PIECE);
    k->pack(n, width, rows, 1, PIECE, panel + i * k->tile_columns);
  }
}

void op_pack_weight(alibi_context *context, const matrix *w, float *packed)
{
  const kernel_table *k = context->kernel;
  size_t block = w->parts ? k->tile_columns : COLUMN_BLOCK, items = count_blocks(w->rows, block);
  OP_FOR_ITEMS(context, static, items, (double)w->rows * (double)w->columns * MOVE, {
    size_t start = item * block, width = smaller(w->rows - start, block);
    if (w->parts) pack_parts(k, w, start, width, packed + start * w->columns);
    else k->pack(w->columns, width, w->data + start * w->stride, 1, w->stride, packed + start * w->columns);
  });
}

/* Does a product go on from what start_rows wrote, or what was there? */
static bool goes_on(const product_shape *p)
{
  return p->accumulate || p->addend || p->bias;
}

/* What the product is added to, into rows from r0 on and columns from c0 on. */
static void start_rows(const kernel_table *k, const product_shape *p, size_t r0, size_t c0, size_t height,
                       size_t width)
{
  for (size_t r = r0; r < r0 + height; r++) {
    float *row = p->c + r * p->c_stride + c0;
    const float *first = p->addend ? p->addend + r * p->c_stride + c0 : p->bias ? p->bias + c0 : NULL;
    if (first && first != row) memcpy(row, first, width * sizeof *row);
    if (p->addend && p->bias) k->add(width, p->bias + c0, row);
  }
}

static void packed_product(alibi_context *context, const product_shape *p, const float *panels)
{
  const kernel_table *k = context->kernel;
  size_t row_items = count_blocks(p->rows, ROW_BLOCK), column_items = count_blocks(p->columns, COLUMN_BLOCK);
  double operations = (double)(p->rows + FETCH) * (double)p->columns * (double)p->inner;
  OP_FOR_ITEMS(context, dynamic, row_items * column_items, operations, {
    size_t r0 = item / column_items * ROW_BLOCK, c0 = item % column_items * COLUMN_BLOCK;
    size_t height = smaller(p->rows - r0, ROW_BLOCK), width = smaller(p->columns - c0, COLUMN_BLOCK);
    start_rows(k, p, r0, c0, height, width);
    k->matmul(height, width, p->inner, p->a + r0 * p->row_stride, p->row_stride, p->inner_stride,
              panels + c0 * p->inner, p->c + r0 * p->c_stride + c0, p->c_stride, goes_on(p));
  });
}

/* How a product is cut into items of columns x rows, and its slabs. */
typedef struct slab_cut {
  size_t columns, column_items, rows, row_items, depth, floats;
} slab_cut;

/* Each item packs its slabs for itself, so there are no more items than it takes to give the threads equal shares,
 * or several each. */
static slab_cut cut_product(const alibi_context *context, const product_shape *p, bool turned)
{
  size_t threads = (size_t)context->threads, most = turned ? TURNED_COLUMNS : SLAB_COLUMNS;
  size_t pieces = count_blocks(p->rows, SLAB_ROWS), unit = context->kernel->tile_columns;
  if (count_blocks(p->columns, most) * pieces < threads) most = LEAST_COLUMNS;
  slab_cut cut = {.columns = piece_of(p->columns, most, unit), .depth = slab_depth(p->inner, turned)};
  cut.column_items = count_blocks(p->columns, cut.columns);
  while ((pieces + 1) * LEAST_ROWS <= p->rows && pieces * cut.column_items % threads != 0 &&
         pieces * cut.column_items < ITEMS_A_THREAD * threads)
    pieces++;
  cut.rows = piece_of(p->rows, larger(count_blocks(p->rows, larger(pieces, 1)), 1), context->kernel->tile_rows);
  cut.row_items = count_blocks(p->rows, cut.rows);
  cut.floats = op_panel_floats(context, cut.depth, cut.columns);
  return cut;
}

/* turned: A's rows lie side by side, its inner indices a stride apart. */
static void slab_product(alibi_context *context, const op_workspace *work, const product_shape *p, bool turned,
                         right_operand b)
{
  const kernel_table *k = context->kernel;
  slab_cut cut = cut_product(context, p, turned);
  size_t strip = turned ? cut.rows : larger(STRIP / cut.depth / TILE_UNIT, 1) * TILE_UNIT;
  double operations = (double)(p->rows + MOVE) * (double)p->columns * (double)p->inner;
  OP_FOR_ITEMS(context, dynamic, cut.row_items * cut.column_items, operations, {
    size_t r0 = item % cut.row_items * cut.rows, c0 = item / cut.row_items * cut.columns, i0 = 0;
    size_t last = smaller(r0 + cut.rows, p->rows), width = smaller(p->columns - c0, cut.columns);
    float *slab = work->panels + worker * cut.floats;
    do { /* also once for inner == 0, which writes zeros */
      size_t deep = smaller(p->inner - i0, cut.depth);
      k->pack(deep, width, b.data + i0 * b.inner_stride + c0 * b.column_stride, b.inner_stride, b.column_stride,
              slab);
      for (size_t r = r0; r < last; r += strip) {
        size_t height = smaller(last - r, strip);
        if (i0 == 0) start_rows(k, p, r, c0, height, width);
        k->matmul(height, width, deep, p->a + r * p->row_stride + i0 * p->inner_stride, p->row_stride,
                  p->inner_stride, slab, p->c + r * p->c_stride + c0, p->c_stride, goes_on(p) || i0 > 0);
      }
      i0 += deep;
    } while (i0 < p->inner);
  });
}

/* Of parts: how many blocks of columns, and which part the block `index` is of, its first column there and in
 * all. */
static size_t part_blocks(const matrix *w, size_t columns)
{
  size_t blocks = 0;
  for (size_t i = 0; i < w->part_count; i++) blocks += count_blocks(w->parts[i].rows, columns);
  return blocks;
}

typedef struct part_place {
  const matrix_part *part;
  size_t first, column;
} part_place;

static part_place place_of_block(const matrix *w, size_t columns, size_t index)
{
  part_place at = {w->parts, 0, 0};
  for (size_t blocks; index >= (blocks = count_blocks(at.part->rows, columns)); at.part++) {
    index -= blocks;
    at.column += at.part->rows;
  }
  at.first = index * columns;
  at.column += at.first;
  return at;
}

/* Rows r0 .. last-1 against the columns of an opened block, which begin at c0, in slabs `wide` and `depth` at
 * most. */
static void part_product(const product_shape *p, const parts_block *b, size_t r0, size_t last, size_t c0,
                         size_t wide, size_t depth, float *slab)
{
  const kernel_table *k = b->k;
  size_t strip = larger(STRIP / depth / TILE_UNIT, 1) * TILE_UNIT;
  for (size_t c = 0; c < b->width; c += wide) {
    size_t width = smaller(b->width - c, wide), i0 = 0;
    do {
      size_t deep = smaller(p->inner - i0, depth);
      parts_pack(b, c, width, i0, deep, slab);
      for (size_t r = r0; r < last; r += strip) {
        size_t height = smaller(last - r, strip);
        if (i0 == 0) start_rows(k, p, r, c0 + c, height, width);
        k->matmul(height, width, deep, p->a + r * p->row_stride + i0, p->row_stride, 1, slab,
                  p->c + r * p->c_stride + c0 + c, p->c_stride, goes_on(p) || i0 > 0);
      }
      i0 += deep;
    } while (i0 < p->inner);
  }
}

/* `height` rows of x against an opened block, at once to the sums, which begin at `c`: rows of x as they are,
 * or rounded. */
static void meet_rows(const parts_block *b, size_t inner, size_t height, const float *x, size_t x_stride,
                      const rounded_run *rounded, float *c, size_t c_stride)
{
  enum { ROWS = 4 };
  const kernel_table *k = b->k;
  weight_type type = b->part->type;
  size_t tile = k->tile_columns, runs = inner / ROUNDED_RUN;
  for (size_t from = 0; from < b->width; from += tile) {
    const void *const *rows = b->row + from, *const *next = rows + tile;
    size_t there = smaller(b->width - from, tile), bytes = there * sizeof *c;
    for (size_t i = 0, some; i < height; i += some) {
      float copy[ROWS * PARTS_TILE] = {0}, *at = c + i * c_stride + from, *out = there < tile ? copy : at;
      size_t stride = there < tile ? tile : c_stride;
      some = there < tile ? smaller(height - i, ROWS) : height; /* the last panel is narrow */
      for (size_t j = 0; j < some && there < tile; j++) memcpy(copy + j * tile, at + j * c_stride, bytes);
      if (rounded) k->multiply_rounded(type, rows, next, inner, some, rounded + i * runs, runs, out, stride);
      else k->multiply(type, rows, next, inner, some, x + i * x_stride, x_stride, out, stride);
      for (size_t j = 0; j < some && there < tile; j++) memcpy(at + j * c_stride, copy + j * tile, bytes);
    }
  }
}

static void start_sums(const kernel_table *k, const product_shape *p, size_t r0, size_t c0, size_t height,
                       size_t width)
{
  start_rows(k, p, r0, c0, height, width);
  for (size_t r = r0; r < r0 + height && !goes_on(p); r++)
    memset(p->c + r * p->c_stride + c0, 0, width * sizeof *p->c);
}

/* Rows r0 .. last-1 as above.  x: all rows of the product, rounded; or NULL. */
static void product_at_once(const product_shape *p, const parts_block *b, size_t r0, size_t last, size_t c0,
                            const rounded_run *x)
{
  size_t runs = p->inner / ROUNDED_RUN;
  start_sums(b->k, p, r0, c0, last - r0, b->width);
  meet_rows(b, p->inner, last - r0, p->a + r0 * p->row_stride, p->row_stride, x ? x + r0 * runs : NULL,
            p->c + r0 * p->c_stride + c0, p->c_stride);
}

/* Without panels items cost nothing of their own, so there are enough to give the threads equal shares. */
static size_t columns_at_once(const alibi_context *context, const product_shape *p, size_t most)
{
  enum { LEAST_PANELS = 2 };
  size_t threads = (size_t)context->threads, tile = context->kernel->tile_columns;
  if (threads == 1) return most;
  size_t share = size_round_up(larger(p->columns / (ITEMS_A_THREAD * threads), 1), tile);
  return smaller(most, larger(share, LEAST_PANELS * tile));
}

/* As slab_product, of a weight in parts.  A block of columns lies in one part.  x: as product_at_once. */
static void parts_items(alibi_context *context, const product_shape *p, const matrix *w, const rounded_run *x,
                        float *slabs)
{
  const kernel_table *k = context->kernel;
  slab_cut cut = cut_product(context, p, false);
  /* the reference rounds once a slab: all rows have the same ones */
  bool few = p->rows <= FEW_ROWS && k->lanes > 1;
  size_t columns = few || x ? columns_at_once(context, p, cut.columns) : cut.columns;
  double operations = (double)(p->rows + MOVE) * (double)p->columns * (double)p->inner;
  OP_FOR_ITEMS(context, dynamic, cut.row_items * part_blocks(w, columns), operations, {
    size_t r0 = item % cut.row_items * cut.rows, last = smaller(r0 + cut.rows, p->rows);
    part_place at = place_of_block(w, columns, item / cut.row_items);
    parts_block block;
    parts_open(&block, k, at.part, at.first, smaller(at.part->rows - at.first, columns));
    if (x && parts_rounds(at.part)) product_at_once(p, &block, r0, last, at.column, x);
    else if (few && !at.part->turned && !at.part->row_scales)
      product_at_once(p, &block, r0, last, at.column, NULL);
    else part_product(p, &block, r0, last, at.column, cut.columns, cut.depth, slabs + worker * cut.floats);
  });
}

static bool any_rounds(const matrix *w)
{
  for (size_t i = 0; w->rounded && i < w->part_count; i++)
    if (parts_rounds(&w->parts[i])) return true;
  return false;
}

static void parts_product(alibi_context *context, const op_workspace *work, const product_shape *p,
                          const matrix *w)
{
  bool rounds = any_rounds(w);
  size_t most = rounds ? ROUNDED_ROWS : p->rows, runs = p->inner / ROUNDED_RUN;
  size_t floats = rounds ? smaller(p->rows, most) * rounded_floats(p->inner) : 0;
  rounded_run *x = rounds ? (rounded_run *)(void *)work->panels : NULL;
  for (size_t r = 0; r < p->rows; r += most) {
    product_shape some = *p;
    some.rows = smaller(p->rows - r, most);
    some.a += r * p->row_stride;
    some.c += r * p->c_stride;
    if (p->addend) some.addend += r * p->c_stride;
    if (rounds)
      OP_FOR_ITEMS(context, static, some.rows, (double)some.rows * (double)p->inner * MOVE,
                   { rounded_row(p->inner, some.a + item * p->row_stride, x + item * runs); });
    parts_items(context, &some, w, x, work->panels + floats);
  }
}

void op_linear_forward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                       size_t x_stride, const matrix *w, const float *bias, const float *addend, float *y,
                       size_t y_stride)
{
  product_shape p = {.rows = rows,
                     .columns = w->rows,
                     .inner = w->columns,
                     .a = x,
                     .row_stride = x_stride,
                     .inner_stride = 1,
                     .bias = bias,
                     .addend = addend,
                     .c = y,
                     .c_stride = y_stride};
  if (w->packed) packed_product(context, &p, w->packed);
  else if (w->parts) parts_product(context, work, &p, w);
  else slab_product(context, work, &p, false, (right_operand){w->data, 1, w->stride});
}

static void add_column_sums(alibi_context *context, size_t rows, size_t columns, const float *dy, size_t stride,
                            float *sums)
{
  const kernel_table *k = context->kernel;
  size_t items = count_blocks(columns, SUM_BLOCK);
  norm_shape s = {.rows = rows, .columns = columns, .in_stride = stride, .out_stride = stride};
  OP_FOR_ITEMS(context, static, items, (double)rows * (double)columns * MOVE, {
    size_t from = item * SUM_BLOCK, to = smaller(columns, from + SUM_BLOCK);
    k->norm_backward_gain(&s, from, to, NULL, NULL, NULL, dy, NULL, sums);
  });
}

void op_linear_backward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                        size_t x_stride, const matrix *w, const float *dy, size_t dy_stride, float *dx,
                        size_t dx_stride, float *dw, float *dbias)
{
  assert(!w->parts);
  if (dx) {
    product_shape p = {.rows = rows,
                       .columns = w->columns,
                       .inner = w->rows,
                       .a = dy,
                       .row_stride = dy_stride,
                       .inner_stride = 1,
                       .c = dx,
                       .c_stride = dx_stride};
    slab_product(context, work, &p, false, (right_operand){w->data, w->stride, 1});
  }
  if (dw) {
    product_shape p = {.rows = w->rows,
                       .columns = w->columns,
                       .inner = rows,
                       .a = dy,
                       .row_stride = 1,
                       .inner_stride = dy_stride,
                       .c = dw,
                       .c_stride = w->columns,
                       .accumulate = true};
    slab_product(context, work, &p, true, (right_operand){x, x_stride, 1});
  }
  if (dbias) add_column_sums(context, rows, w->rows, dy, dy_stride, dbias);
}
