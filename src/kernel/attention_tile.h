/* kernel/attention_tile.h - what attention forward and backward share: a tile of at most 64 queries meets a block
 * of 64 keys, their products, and the scores made of them.
 *
 * Each row sees one run of the block's keys, or none.  Products are taken over what a register tile's rows see
 * together; where a row sees less, its weight is 0, and a term of 0 changes no sum (the sign of a zero is settled
 * when a row is finished).  Where what the weights meet may be infinite or NaN, `exact` takes the rows one by one,
 * each as far as it sees. */
#ifndef KERNEL_ATTENTION_TILE_H
#define KERNEL_ATTENTION_TILE_H

#include "kernel/attention_offsets.h"
#include "kernel/attention_sight.h"
#include "kernel/matmul.h"
#include "kernel/vector_math.h"

enum { BLOCK = ATTENTION_BLOCK, RUN = 2 }; /* RUN: blocks that a single row meets together, forward */

static inline size_t padded(size_t head_size)
{
  return (head_size + LANES - 1) / LANES * LANES;
}

static inline float *take(float **scratch, size_t floats)
{
  float *piece = *scratch;
  *scratch += floats;
  return piece;
}

static inline void zero(float *x, size_t floats)
{
  memset(x, 0, floats * sizeof *x);
}

/* Rows of d floats to rows of padded(d), the rest 0. */
static inline void copy_rows(size_t rows, size_t d, const float *from, size_t from_stride, float *to)
{
  size_t width = padded(d);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < d; c += LANES)
      vf_store(to + r * width + c, vf_load_part(from + r * from_stride + c, part(d, c)));
}

/* Asks for rows that are copied next: they may lie a page apart, where no processor looks ahead by itself. */
static inline void fetch_rows(size_t rows, size_t d, const float *from, size_t stride)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < d; c += LINE) __builtin_prefetch(from + r * stride + c, 0, 2);
}

static inline void add_rows(size_t rows, size_t d, const float *from, float *to, size_t to_stride)
{
  size_t width = padded(d);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < d; c += LANES) {
      float *at = to + r * to_stride + c;
      vf_store_part(at, vf_load_part(at, part(d, c)) + vf_load(from + r * width + c), part(d, c));
    }
}

/* Key or value rows of a block, turned: to [d, BLOCK].  Rows beyond `rows` are 0. */
static inline void turn_block(size_t rows, size_t d, const float *from, size_t stride, float *to)
{
  for (size_t j = 0; j < BLOCK; j += LANES)
    for (size_t c = 0; c < d; c += LANES) {
      vf square[LANES];
      size_t depth = part(d, c);
      for (size_t l = 0; l < LANES; l++)
        square[l] = j + l < rows ? vf_load_part(from + (j + l) * stride + c, depth) : (vf){0};
      transpose(square);
      for (size_t l = 0; l < depth; l++) vf_store(to + (c + l) * BLOCK + j, square[l]);
    }
}

/* Rows of whole vectors without infinity or NaN. */
static inline bool all_finite(size_t rows, size_t width, const float *x, size_t stride)
{
  vf sum = {0};
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < width; c += LANES) sum += vf_load(x + r * stride + c) * 0.0f;
  return vf_sum(sum) == 0;
}

/* ---- a tile of queries meets a block of keys ---- */

typedef struct meeting {
  size_t rows, keys; /* of the tile, of the block */
  bool whole;        /* every row sees every key, and the block is full */
  bool any;          /* some row sees some key */
  uint8_t from[BLOCK], to[BLOCK]; /* row r sees keys from[r] .. to[r]-1 of the block */
} meeting;

static inline size_t clamped(size_t key, size_t start, size_t keys)
{
  return key <= start ? 0 : key - start < keys ? key - start : keys;
}

static inline void meeting_start(meeting *m, size_t rows, size_t keys)
{
  m->rows = rows;
  m->keys = keys;
  m->whole = keys == BLOCK;
  m->any = false;
}

static inline void meeting_row(meeting *m, size_t r, attention_range seen, size_t start)
{
  size_t from = clamped(seen.from, start, m->keys), to = clamped(seen.to, start, m->keys);
  if (from >= to) from = to = 0;
  m->from[r] = (uint8_t)from;
  m->to[r] = (uint8_t)to;
  m->whole = m->whole && from == 0 && to == BLOCK;
  m->any = m->any || from < to;
}

/* What rows r .. r+height-1 see together; empty where none sees anything. */
static inline attention_range keys_of_rows(const meeting *m, size_t r, size_t height)
{
  if (m->whole) return (attention_range){0, BLOCK};
  attention_range all = {BLOCK, 0};
  for (size_t i = r; i < r + height; i++) {
    if (m->from[i] >= m->to[i]) continue;
    if (m->from[i] < all.from) all.from = m->from[i];
    if (m->to[i] > all.to) all.to = m->to[i];
  }
  return all;
}

static inline bool sees(const meeting *m, size_t r, size_t key)
{
  return key >= m->from[r] && key < m->to[r];
}

/* The rows from `after` on that see any of the keys j .. j+height-1; exact: only as far as there is no gap. */
static inline attention_range rows_of_keys(const meeting *m, size_t j, size_t height, size_t after, bool exact)
{
  if (m->whole) return (attention_range){after, m->rows};
  attention_range all = {m->rows, m->rows};
  for (size_t r = after; r < m->rows; r++) {
    if (m->from[r] < j + height && m->to[r] > j) {
      if (all.from == m->rows) all.from = r;
      all.to = r + 1;
    } else if (exact && all.from < m->rows)
      break;
  }
  return all;
}

/* C [width] = a B, or *shrink C + a B, for one row a [inner]; ahead: see row_tile. */
static inline void row_columns(size_t width, size_t inner, const float *a, const float *b, size_t b_stride,
                               float *c, const float *shrink, const float *ahead)
{
  for (size_t v = 0; v < width;) {
    const float *next = ahead ? ahead + v : NULL;
    if (width - v >= 8 * LANES) {
      row_tile(8, inner, a, b + v, b_stride, c + v, shrink, next);
      v += 8 * LANES;
    } else if (width - v >= 4 * LANES) {
      row_tile(4, inner, a, b + v, b_stride, c + v, shrink, next);
      v += 4 * LANES;
    } else {
      row_tile(1, inner, a, b + v, b_stride, c + v, shrink, next);
      v += LANES;
    }
  }
}

/* S [rows, BLOCK] = A B for B [inner, BLOCK], as far as the rows see; the rest is left as it was. */
static inline void product_seen(const meeting *m, size_t inner, const float *a, size_t row_stride, const float *b,
                                float *s)
{
  for (size_t c = 0; c < BLOCK; c += TILE_COLUMNS)
    for (size_t r = 0; r < m->rows; r += TILE_ROWS) {
      size_t height = m->rows - r < TILE_ROWS ? m->rows - r : TILE_ROWS;
      attention_range seen = keys_of_rows(m, r, height);
      const float *left = a + r * row_stride;
      float *out = s + r * BLOCK + c;
      if (seen.to <= c || seen.from >= c + TILE_COLUMNS) continue;
      if (seen.to <= c + LANES)
        tile_of(height, 1, inner, left, row_stride, 1, b + c, BLOCK, out, BLOCK, false);
      else
        tile_of(height, TILE_VECTORS, inner, left, row_stride, 1, b + c, BLOCK, out, BLOCK, false);
    }
}

/* C [height, width] (+)= A B with B's rows b_stride apart; shrink: see tile. */
static inline void tile_columns(size_t height, size_t width, size_t inner, const float *a, size_t row_stride,
                                size_t inner_stride, const float *b, size_t b_stride, float *c, bool accumulate,
                                const float *shrink)
{
  size_t v = 0;
  for (; width - v >= TILE_COLUMNS; v += TILE_COLUMNS)
    tile_shrinking(height, TILE_VECTORS, inner, a, row_stride, inner_stride, b + v, b_stride, c + v, width,
                   accumulate, shrink);
  if (v < width)
    tile_shrinking(height, 1, inner, a, row_stride, inner_stride, b + v, b_stride, c + v, width, accumulate,
                   shrink);
}

/* C [rows, width] (+)= P B, or shrink C + P B: row r of P [rows, BLOCK] meets the rows of B that r sees. */
static inline void product_below(const meeting *m, size_t width, const float *p, const float *b, size_t b_stride,
                                 float *c, bool accumulate, const float *shrink, bool exact)
{
  size_t step = exact ? 1 : TILE_ROWS;
  for (size_t r = 0; r < m->rows; r += step) {
    size_t height = m->rows - r < step ? m->rows - r : step;
    attention_range seen = keys_of_rows(m, r, height);
    if (seen.from < seen.to)
      tile_columns(height, width, seen.to - seen.from, p + r * BLOCK + seen.from, BLOCK, 1,
                   b + seen.from * b_stride, b_stride, c + r * width, accumulate, shrink ? shrink + r : NULL);
    else if (!accumulate && !shrink)
      zero(c + r * width, height * width);
  }
}

/* C [keys, width] += P^T B: key j meets the rows of B that see it. */
static inline void product_above(const meeting *m, size_t width, const float *p, const float *b, float *c,
                                 bool exact)
{
  size_t step = exact ? 1 : TILE_ROWS;
  for (size_t j = 0; j < m->keys; j += step) {
    size_t height = m->keys - j < step ? m->keys - j : step;
    attention_range see = {0, 0};
    do {
      see = rows_of_keys(m, j, height, see.to, exact);
      if (see.from < see.to)
        tile_columns(height, width, see.to - see.from, p + see.from * BLOCK + j, 1, BLOCK, b + see.from * width,
                     width, c + j * width, true, NULL);
    } while (exact && see.to < m->rows && see.from < see.to);
  }
}

/* ---- scores ---- */

/* How a product becomes a score inside the loops over a row.  READY: it is one already (prepare_scores). */
typedef enum score_kind {
  SCORE_READY,
  SCORE_PLAIN,
  SCORE_SLOPE,
  SCORE_TABLE,
  SCORE_FACTOR, /* a table with factors */
  SCORE_KEY,
  SCORE_KINDS
} score_kind;

/* Positions with gaps take their distances pair by pair: in fp32 a place beyond a wide gap would not be exact. */
static inline score_kind score_kind_of(const attention_head *h)
{
  if (h->cap > 0 || h->bias == BIAS_ROWS) return SCORE_READY;
  if (h->bias == BIAS_KEY) return SCORE_KEY;
  if (h->key_positions && h->bias != BIAS_NONE) return SCORE_READY;
  if (h->bias == BIAS_SLOPE) return SCORE_SLOPE;
  if (h->bias == BIAS_DISTANCE) return h->factors ? SCORE_FACTOR : SCORE_TABLE;
  return SCORE_PLAIN;
}

/* Biases of a slope where a tile meets a block: row r and key j at strip[BLOCK - 1 - r + j].  distance: from the
 * tile's first row to the block's first key.  An entry is the product of its own distance, whoever asks for it. */
enum { STRIP = 2 * BLOCK };

static inline void slope_strip(const attention_head *h, size_t rows, int64_t distance, float *strip)
{
  int64_t farthest = distance + BLOCK - 1;
  if (farthest < INT32_MAX && farthest > INT32_MIN + STRIP) {
    for (size_t v = (BLOCK - rows) / LANES * LANES; v < STRIP; v += LANES)
      vf_store(strip + v, vf_abs(vf_from_int(vi_splat((int32_t)farthest - (int32_t)v) - vi_lanes())) * -h->slope);
  } else {
    for (size_t x = 0; x < STRIP; x++) strip[x] = -h->slope * fabsf((float)(farthest - (int64_t)x));
  }
}

/* offsets [BLOCK]: those of a block's keys; 0 where there is no key. */
static inline void copy_offsets(const attention_head *h, size_t start, size_t keys, double *offsets)
{
  const double *from = h->offsets ? h->offsets + start * h->offset_stride : cached_offsets(h, start / BLOCK);
  size_t stride = h->offsets ? h->offset_stride : 1;
  for (size_t j = 0; j < BLOCK; j++) offsets[j] = j < keys ? from[j * stride] : 0;
}

/* The scores of one row, a vector at a time: score_at(kind, row, product, v) for v = 0, LANES, ... */
typedef struct score_row {
  vf scale;
  const float *entry, *factors; /* SLOPE, TABLE, FACTOR: of the block's first key */
  const double *offsets;        /* KEY: of the block's keys */
  double offset;                /* KEY: of the row */
  size_t from, to;
} score_row;

/* Row r of the tile, which is row `row` of the head; distance: from there to the block's first key.
 * biases: SLOPE: of slope_strip; KEY: of copy_offsets. */
INLINE score_row score_row_of(const score_kind kind, const attention_head *h, const meeting *m, size_t r,
                              size_t row, int64_t distance, const void *biases)
{
  score_row s = {.scale = vf_splat(h->scale), .from = m->from[r], .to = m->to[r]};
  if (kind == SCORE_SLOPE) s.entry = (const float *)biases + BLOCK - 1 - r;
  if (kind == SCORE_TABLE || kind == SCORE_FACTOR) s.entry = h->table - distance;
  if (kind == SCORE_FACTOR) s.factors = h->factors - distance;
  if (kind == SCORE_KEY) {
    s.offsets = biases;
    s.offset = query_offset(h, row);
  }
  return s;
}

/* A table ends with the distances that are seen.  Not inlined: with it there would be 32 copies in a function. */
static __attribute__((noinline)) vf table_end(const score_row *row, const float *entry, size_t v)
{
  if (v >= row->from) return vf_load_part(entry + v, part(row->to, v));
  float few[LANES] = {0};
  for (size_t l = row->from - v; l < LANES && v + l < row->to; l++) few[l] = entry[v + l];
  return vf_load(few);
}

INLINE vf table_at(const bool whole, const score_row *row, const float *entry, size_t v)
{
  return whole ? vf_load(entry + v) : table_end(row, entry, v);
}

INLINE vf score_at(const score_kind kind, const bool whole, const score_row *row, vf product, size_t v)
{
  if (kind == SCORE_SLOPE) return vf_fma(product, row->scale, vf_load(row->entry + v));
  if (kind == SCORE_TABLE) return vf_fma(product, row->scale, table_at(whole, row, row->entry, v));
  if (kind == SCORE_FACTOR)
    return vf_fma(product * row->scale, table_at(whole, row, row->factors, v),
                  table_at(whole, row, row->entry, v));
  if (kind == SCORE_KEY) return vf_fma(product, row->scale, vf_from_doubles(row->offsets + v, row->offset));
  if (kind == SCORE_PLAIN) return product * row->scale;
  return product;
}

INLINE vi seen_lanes(const score_row *row, size_t v)
{
  return mask_below((int)row->to - (int)v) & ~mask_below((int)row->from - (int)v);
}

/* Weights outside what row r sees, as far as any row of its register tile may look. */
static inline void zero_unseen(const meeting *m, size_t r, float *p)
{
  for (size_t j = 0; j < m->from[r]; j++) p[j] = 0;
  for (size_t v = (m->to[r] + (size_t)LANES - 1) / LANES * LANES; v < BLOCK; v += LANES) vf_store(p + v, (vf){0});
}

/* Biases and factors of row r of the tile, which is row `row` of the head, with the keys start + from .. start +
 * to-1; bias, factor [BLOCK]. */
static inline void bias_of_row(const attention_head *h, const meeting *m, size_t r, size_t row, size_t start,
                               float *bias, float *factor)
{
  size_t from = m->from[r], to = m->to[r];
  int64_t p = query_position(h, row);
  if (h->bias == BIAS_ROWS) {
    h->rows->bias(h->rows->user, h->head, h->query_row + (int64_t)row, h->key_row + (int64_t)(start + from),
                  (int64_t)(to - from), bias + from);
    return;
  }
  for (size_t j = from; j < to; j++) {
    int64_t distance = p - key_position(h, start + j);
    if (h->bias == BIAS_SLOPE) bias[j] = -h->slope * (float)(distance < 0 ? -distance : distance);
    if (h->bias == BIAS_KEY) bias[j] = (float)(query_offset(h, row) + key_offset(h, start + j));
    if (h->bias == BIAS_DISTANCE) {
      bias[j] = h->table[-distance];
      if (h->factors) factor[j] = h->factors[-distance];
    }
  }
}

/* Products of a tile become scores, in place; for the kinds that are READY.  first_row: of the tile in its head.
 * Backward also wants `steep` (d score / d product) and, for the gradient of the factors, `capped` (the score that
 * they multiply); else NULL. */
static inline void prepare_scores(const attention_head *h, const meeting *m, size_t first_row, size_t start,
                                  float *s, float *steep, float *capped)
{
  bool bent = h->cap > 0 || h->factors;
  for (size_t r = 0; r < m->rows; r++) {
    float bias[BLOCK] = {0}, factor[BLOCK];
    if (m->from[r] >= m->to[r]) continue;
    for (size_t j = 0; j < BLOCK; j++) factor[j] = 1;
    bias_of_row(h, m, r, first_row + r, start, bias, factor);
    for (size_t v = m->from[r] / LANES * LANES; v < m->to[r]; v += LANES) {
      size_t at = r * BLOCK + v;
      if (!bent) { /* as the other kinds round it */
        vf_store(s + at, vf_fma(vf_load(s + at), vf_splat(h->scale), vf_load(bias + v)));
        if (steep) vf_store(steep + at, vf_splat(h->scale));
        continue;
      }
      vf x = vf_load(s + at) * h->scale, slope = vf_splat(h->scale) * vf_load(factor + v);
      if (h->cap > 0) {
        vf curve = vf_tanh(x * (1 / h->cap));
        x = curve * h->cap;
        slope *= 1.0f - curve * curve;
      }
      if (capped) vf_store(capped + at, x);
      if (steep) vf_store(steep + at, slope);
      vf_store(s + at, vf_fma(x, vf_load(factor + v), vf_load(bias + v)));
    }
  }
}

#endif
