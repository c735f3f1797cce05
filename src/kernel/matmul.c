/* The packed matrix product.  One idea carries it: an output element is a single chain of multiply-adds over the
 * inner index, in order.  Storing a partial sum to memory and going on from it is exact in fp32, so blocks of any
 * size, tails of any height and the one-row form all give the same bits. */
#include "kernel/tables.h"

#include "kernel/matmul.h"

/* Inner indices a block: a block of a panel (128 KiB with AVX-512) stays in the second-level cache. */
enum { INNER_BLOCK = 1024, ROW_PANELS = 4 };
enum { PACK_BLOCK = 16, CACHE_LINE = 16 }; /* rows of B at a time; floats */
enum { LEFT_TILES = 6, LEFT_DEPTH = 384 }; /* of A at a time, copied: at most 72 KiB */

/* LANES columns of B, each contiguous, become `depth` rows of a panel; `columns` of them are there. */
INLINE void pack_turned(size_t columns, size_t depth, const float *b, size_t column_stride, float *packed)
{
  vf block[LANES];
  for (size_t l = 0; l < LANES; l++)
    block[l] = l < columns ? vf_load_part(b + l * column_stride, depth) : (vf){0};
  transpose(block);
  for (size_t l = 0; l < depth; l++) vf_store(packed + l * TILE_COLUMNS, block[l]);
}

/* Inner indices from .. to-1 of one panel, `width` columns of it filled. */
static void pack_panel(size_t width, size_t from, size_t to, const float *b, size_t inner_stride,
                       size_t column_stride, float *packed)
{
  if (column_stride == 1 && width == TILE_COLUMNS) {
    for (size_t i = from; i < to; i++)
      for (size_t v = 0; v < TILE_COLUMNS; v += LANES)
        vf_store(packed + i * TILE_COLUMNS + v, vf_load(b + i * inner_stride + v));
  } else if (inner_stride == 1) {
    for (size_t line = from; line < to; line += CACHE_LINE) /* all of a line while it is there */
      for (size_t v = 0; v < TILE_COLUMNS; v += LANES)
        for (size_t i = line; i < line + CACHE_LINE && i < to; i += LANES)
          pack_turned(v < width ? width - v : 0, part(to, i), b + v * column_stride + i, column_stride,
                      packed + i * TILE_COLUMNS + v);
  } else {
    for (size_t i = from; i < to; i++)
      for (size_t c = 0; c < TILE_COLUMNS; c++)
        packed[i * TILE_COLUMNS + c] = c < width ? b[i * inner_stride + c * column_stride] : 0;
  }
}

void KERNEL(pack)(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
                  float *packed)
{
  size_t block = inner_stride == 1 ? inner : PACK_BLOCK; /* a panel's share of a row of B is a line or two */
  for (size_t i = 0; i < inner; i += block)
    for (size_t c = 0; c < columns; c += TILE_COLUMNS)
      pack_panel(columns - c < TILE_COLUMNS ? columns - c : TILE_COLUMNS, i, inner - i < block ? inner : i + block,
                 b + c * column_stride, inner_stride, column_stride, packed + c * inner);
}

/* One row against ROW_PANELS panels at once, or the last two: enough chains to hide a multiply-add's latency. */
INLINE void one_row(const int panels, size_t inner, size_t panel, const float *a, size_t inner_stride,
                    const float *b, float *c, bool accumulate)
{
  vf sum[ROW_PANELS][TILE_VECTORS];
  UNROLLED for (int p = 0; p < panels; p++)
    UNROLLED for (int v = 0; v < TILE_VECTORS; v++)
      sum[p][v] = accumulate ? vf_load(c + p * TILE_COLUMNS + v * LANES) : (vf){0};
  for (size_t i = 0; i < inner; i++) {
    vf left = vf_splat(a[i * inner_stride]);
    UNROLLED for (int p = 0; p < panels; p++)
      UNROLLED for (int v = 0; v < TILE_VECTORS; v++)
        sum[p][v] = vf_fma(left, vf_load(b + (size_t)p * panel + i * TILE_COLUMNS + (size_t)v * LANES), sum[p][v]);
  }
  UNROLLED for (int p = 0; p < panels; p++)
    UNROLLED for (int v = 0; v < TILE_VECTORS; v++) vf_store(c + p * TILE_COLUMNS + v * LANES, sum[p][v]);
}

/* What the same tile reads after the rows of A at work; turned: inner indices lie a stride apart, else rows. */
typedef struct ahead {
  const float *at; /* NULL: nothing */
  size_t stride;
  bool turned;
} ahead;

/* A line's worth of inner indices.  Rows of A go into the second-level cache: the first has B. */
INLINE void fetch_ahead(ahead *next)
{
  if (!next->at) return;
  if (next->turned) {
    UNROLLED for (int i = 0; i < CACHE_LINE; i++) __builtin_prefetch(next->at + (size_t)i * next->stride);
    next->at += CACHE_LINE * next->stride;
  } else {
    UNROLLED for (int r = 0; r < TILE_ROWS; r++) __builtin_prefetch(next->at + (size_t)r * next->stride, 0, 2);
    next->at += CACHE_LINE;
  }
}

/* A whole tile.  The next rows of A and, at next_c (NULL: none), of C are fetched meanwhile: A and C come from the
 * third-level cache or farther, and a tile cannot begin without them.  Measured on a step's products: 5 % of their
 * time. */
static void whole_tile(size_t inner, const float *a, size_t row_stride, size_t inner_stride, const float *b,
                       float *c, size_t c_stride, bool accumulate, ahead next, const float *next_c)
{
  vf sum[TILE_ROWS][TILE_VECTORS];
  UNROLLED for (int r = 0; r < TILE_ROWS; r++)
    UNROLLED for (int v = 0; v < TILE_VECTORS; v++)
      sum[r][v] = accumulate ? vf_load(c + (size_t)r * c_stride + (size_t)v * LANES) : (vf){0};
  UNROLLED for (int r = 0; next_c && r < TILE_ROWS; r++)
    UNROLLED for (int f = 0; f < TILE_COLUMNS; f += CACHE_LINE)
      __builtin_prefetch(next_c + (size_t)r * c_stride + f, 1);
  for (size_t start = 0; start < inner; start += CACHE_LINE) {
    size_t end = inner - start < CACHE_LINE ? inner : start + CACHE_LINE;
    fetch_ahead(&next);
    for (size_t i = start; i < end; i++, a += inner_stride, b += TILE_COLUMNS) {
      vf right[TILE_VECTORS];
      UNROLLED for (int v = 0; v < TILE_VECTORS; v++) right[v] = vf_load(b + (size_t)v * LANES);
      UNROLLED for (int r = 0; r < TILE_ROWS; r++) {
        vf left = vf_splat(a[(size_t)r * row_stride]);
        UNROLLED for (int v = 0; v < TILE_VECTORS; v++) sum[r][v] = vf_fma(left, right[v], sum[r][v]);
      }
    }
  }
  UNROLLED for (int r = 0; r < TILE_ROWS; r++)
    UNROLLED for (int v = 0; v < TILE_VECTORS; v++)
      vf_store(c + (size_t)r * c_stride + (size_t)v * LANES, sum[r][v]);
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

/* All panels meet `rows` rows of A, `depth` inner indices deep.  A's tiles lie tile_step floats apart.  later:
 * what comes after these rows where A is a copy; else what comes after each tile is fetched ahead. */
INLINE void meet(size_t rows, size_t columns, size_t depth, const float *a, size_t tile_step, size_t row_stride,
                 size_t inner_stride, const float *b, size_t panel, float *c, size_t c_stride, bool accumulate,
                 const ahead *later)
{
  for (size_t c0 = 0; c0 < columns; c0 += TILE_COLUMNS, b += panel) {
    size_t width = columns - c0;
    const float *left = a;
    for (size_t r = 0; r < rows; r += TILE_ROWS, left += tile_step) {
      size_t height = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
      float *out = c + r * c_stride + c0;
      if (width < TILE_COLUMNS) {
        narrow_tile(height, width, depth, left, row_stride, inner_stride, b, out, c_stride, accumulate);
      } else if (height < TILE_ROWS) {
        tile_of(height, TILE_VECTORS, depth, left, row_stride, inner_stride, b, TILE_COLUMNS, out, c_stride,
                accumulate);
      } else {
        bool goes_on = r + 2 * TILE_ROWS <= rows;
        ahead next = {NULL, row_stride, false};
        if (c0 == 0 && later && later->at) next = (ahead){later->at + r, later->stride, true};
        if (c0 == 0 && !later && inner_stride == 1 && goes_on) next.at = left + tile_step;
        whole_tile(depth, left, row_stride, inner_stride, b, out, c_stride, accumulate, next,
                   goes_on ? out + TILE_ROWS * c_stride : NULL);
      }
    }
  }
}

/* Rows of A to tiles of TILE_ROWS rows, in the order in which one reads them; a last, lower one as far apart. */
static void pack_left(size_t rows, size_t depth, const float *a, size_t row_stride, size_t inner_stride, float *to)
{
  size_t whole = row_stride == 1 ? rows / TILE_ROWS * TILE_ROWS : 0;
  for (size_t i = 0; i < depth; i++) { /* along the cache lines of A, once */
    const float *from = a + i * inner_stride;
    float *at = to + i * TILE_ROWS;
    for (size_t r = 0; r < whole; r += TILE_ROWS) memcpy(at + r * depth, from + r, TILE_ROWS * sizeof *at);
    for (size_t r = whole; r < rows; r++)
      at[r / TILE_ROWS * TILE_ROWS * depth + r % TILE_ROWS] = from[r * row_stride];
  }
}

/* A given by columns: a tile's rows share cache lines, and inner indices lie a stride apart that is often a
 * multiple of 4 KiB, which all meet in one set of the cache.  Measured at 1024^3: 67 % of the peak without the
 * copy, see bench. */
static void matmul_turned(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                          size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate)
{
  float left[LEFT_TILES * TILE_ROWS * LEFT_DEPTH];
  for (size_t i0 = 0; i0 < inner; i0 += LEFT_DEPTH)
    for (size_t r0 = 0; r0 < rows; r0 += LEFT_TILES * TILE_ROWS) {
      size_t depth = inner - i0 < LEFT_DEPTH ? inner - i0 : LEFT_DEPTH;
      size_t height = rows - r0 < LEFT_TILES * TILE_ROWS ? rows - r0 : LEFT_TILES * TILE_ROWS;
      const float *from = a + r0 * row_stride + i0 * inner_stride;
      bool goes_on = row_stride == 1 && r0 + 2 * height <= rows;
      ahead later = {goes_on ? from + height : NULL, inner_stride, true};
      pack_left(height, depth, from, row_stride, inner_stride, left);
      meet(height, columns, depth, left, TILE_ROWS * depth, 1, TILE_ROWS, packed + i0 * TILE_COLUMNS,
           inner * TILE_COLUMNS, c + r0 * c_stride, c_stride, accumulate || i0 > 0, &later);
    }
}

void KERNEL(matmul)(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                    size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate)
{
  size_t panel = inner * TILE_COLUMNS, i0 = 0;
  if (inner_stride != 1 && rows > 1 && columns > TILE_COLUMNS && inner > 0) {
    matmul_turned(rows, columns, inner, a, row_stride, inner_stride, packed, c, c_stride, accumulate);
    return;
  }
  do { /* also once for inner == 0, which writes zeros */
    size_t depth = inner - i0 < INNER_BLOCK ? inner - i0 : INNER_BLOCK, c0 = 0;
    bool go_on = accumulate || i0 > 0;
    const float *b = packed + i0 * TILE_COLUMNS, *left = a + i0 * inner_stride;
    for (; rows == 1 && columns - c0 >= ROW_PANELS * TILE_COLUMNS; c0 += ROW_PANELS * TILE_COLUMNS)
      one_row(ROW_PANELS, depth, panel, left, inner_stride, b + c0 * inner, c + c0, go_on);
    for (; rows == 1 && columns - c0 >= 2 * TILE_COLUMNS; c0 += 2 * TILE_COLUMNS)
      one_row(2, depth, panel, left, inner_stride, b + c0 * inner, c + c0, go_on);
    meet(rows, columns - c0, depth, left, TILE_ROWS * row_stride, row_stride, inner_stride, b + c0 * inner, panel,
         c + c0, c_stride, go_on, NULL);
    i0 += depth;
  } while (i0 < inner);
}
