/* The packed matrix product.  One idea carries it: an output element is a single chain of multiply-adds over the inner
 * index, in order.  Storing a partial sum to memory and going on from it is exact in fp32, so blocks of any size, tails of any
 * height and the one-row form all give the same bits. */
#include "kernel/tables.h"

#include "kernel/matmul.h"

/* Inner indices a block: a panel block (2 KiB of floats a 16 inner) and the rows that meet it stay in the caches. */
enum { INNER_BLOCK = 1024, ROW_PANELS = 4 };

void KERNEL(pack)(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
                  float *packed)
{
  for (size_t c0 = 0; c0 < columns; c0 += TILE_COLUMNS, packed += inner * TILE_COLUMNS) {
    size_t width = columns - c0 < TILE_COLUMNS ? columns - c0 : TILE_COLUMNS;
    const float *source = b + c0 * column_stride;
    if (column_stride == 1) {
      for (size_t i = 0; i < inner; i++) {
        float *row = packed + i * TILE_COLUMNS;
        for (size_t v = 0; v < TILE_COLUMNS; v += LANES)
          vf_store(row + v, v < width ? vf_load_part(source + i * inner_stride + v, part(width, v)) : (vf){0});
      }
    } else if (inner_stride == 1) {
      for (size_t i = 0; i < inner; i += LANES) {
        size_t depth = part(inner, i);
        for (size_t v = 0; v < TILE_COLUMNS; v += LANES) {
          vf block[LANES];
          for (size_t l = 0; l < LANES; l++)
            block[l] = v + l < width ? vf_load_part(source + (v + l) * column_stride + i, depth) : (vf){0};
          transpose(block);
          for (size_t l = 0; l < depth; l++) vf_store(packed + (i + l) * TILE_COLUMNS + v, block[l]);
        }
      }
    } else {
      for (size_t i = 0; i < inner; i++)
        for (size_t c = 0; c < TILE_COLUMNS; c++)
          packed[i * TILE_COLUMNS + c] = c < width ? source[i * inner_stride + c * column_stride] : 0;
    }
  }
}

/* One row against ROW_PANELS panels at once: enough chains to hide the latency of a multiply-add. */
static void one_row(size_t inner, size_t panel, const float *a, size_t inner_stride, const float *b, float *c,
                    bool accumulate)
{
  vf sum[ROW_PANELS][TILE_VECTORS];
#pragma GCC unroll 4
  for (int p = 0; p < ROW_PANELS; p++)
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++)
      sum[p][v] = accumulate ? vf_load(c + p * TILE_COLUMNS + v * LANES) : (vf){0};
  for (size_t i = 0; i < inner; i++) {
    vf left = vf_splat(a[i * inner_stride]);
#pragma GCC unroll 4
    for (int p = 0; p < ROW_PANELS; p++)
#pragma GCC unroll 4
      for (int v = 0; v < TILE_VECTORS; v++)
        sum[p][v] += left * vf_load(b + (size_t)p * panel + i * TILE_COLUMNS + (size_t)v * LANES);
  }
#pragma GCC unroll 4
  for (int p = 0; p < ROW_PANELS; p++)
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) vf_store(c + p * TILE_COLUMNS + v * LANES, sum[p][v]);
}

/* The last panel is narrower than the tile: work on a padded copy of C. */
static void narrow_tile(size_t rows, size_t width, size_t inner, const float *a, size_t row_stride,
                        size_t inner_stride, const float *b, float *c, size_t c_stride, bool accumulate)
{
  float copy[TILE_ROWS * TILE_COLUMNS] = {0};
  if (accumulate)
    for (size_t r = 0; r < rows; r++) memcpy(copy + r * TILE_COLUMNS, c + r * c_stride, width * sizeof *c);
  tile_of(rows, TILE_VECTORS, inner, a, row_stride, inner_stride, b, TILE_COLUMNS, copy, TILE_COLUMNS,
          accumulate);
  for (size_t r = 0; r < rows; r++) memcpy(c + r * c_stride, copy + r * TILE_COLUMNS, width * sizeof *c);
}

void KERNEL(matmul)(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                    size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate)
{
  size_t panel = inner * TILE_COLUMNS;
  size_t i0 = 0;
  do { /* also once for inner == 0, which writes zeros */
    size_t depth = inner - i0 < INNER_BLOCK ? inner - i0 : INNER_BLOCK;
    bool go_on = accumulate || i0 > 0;
    for (size_t c0 = 0; c0 < columns; c0 += TILE_COLUMNS) {
      const float *b = packed + c0 / TILE_COLUMNS * panel + i0 * TILE_COLUMNS;
      if (rows == 1 && columns - c0 >= ROW_PANELS * TILE_COLUMNS) {
        one_row(depth, panel, a + i0 * inner_stride, inner_stride, b, c + c0, go_on);
        c0 += (ROW_PANELS - 1) * TILE_COLUMNS;
        continue;
      }
      size_t width = columns - c0;
      for (size_t r = 0; r < rows; r += TILE_ROWS) {
        size_t height = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
        const float *left = a + r * row_stride + i0 * inner_stride;
        float *out = c + r * c_stride + c0;
        if (width < TILE_COLUMNS)
          narrow_tile(height, width, depth, left, row_stride, inner_stride, b, out, c_stride, go_on);
        else
          tile_of(height, TILE_VECTORS, depth, left, row_stride, inner_stride, b, TILE_COLUMNS, out, c_stride,
                  go_on);
      }
    }
    i0 += depth;
  } while (i0 < inner);
}
