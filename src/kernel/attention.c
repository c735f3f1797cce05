/* Attention of one head, forward and backward, in tiles of 64 queries by 64 keys.
 * No matrix of queries by keys is ever stored: forward keeps a running maximum and sum per row (online softmax; Milakov and
 * Gimelshein 2018; Dao et al., FlashAttention, 2022), backward makes the weights anew from the log-sum-exp.  Key blocks lie
 * on absolute multiples of 64 and are walked from the diagonal outwards, so a row does the same sums in the same order alone,
 * in a chunk, or in a full prefill; a row that sees no key of a block is left as it was. */
#include <math.h>

#include "kernel/matmul.h"
#include "kernel/tables.h"
#include "kernel/vector_math.h"

enum { BLOCK = ATTENTION_BLOCK, BLOCK_VECTORS = BLOCK / LANES };

static size_t padded(size_t head_size)
{
  return (head_size + LANES - 1) / LANES * LANES;
}

size_t KERNEL(attention_scratch)(size_t head_size)
{
  size_t d = padded(head_size);
  return 9 * BLOCK * d + 2 * BLOCK * BLOCK + 8 * BLOCK;
}

static float *take(float **scratch, size_t floats)
{
  float *piece = *scratch;
  *scratch += floats;
  return piece;
}

/* C [rows, columns] (+)= A B on padded buffers; columns a multiple of LANES. */
static void product(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                    size_t inner_stride, const float *b, size_t b_stride, float *c, size_t c_stride,
                    bool accumulate)
{
  for (size_t c0 = 0; c0 < columns; c0 += TILE_COLUMNS)
    for (size_t r = 0; r < rows; r += TILE_ROWS) {
      size_t height = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
      const float *left = a + r * row_stride;
      float *out = c + r * c_stride + c0;
      if (columns - c0 >= TILE_COLUMNS)
        tile_of(height, TILE_VECTORS, inner, left, row_stride, inner_stride, b + c0, b_stride, out, c_stride,
                accumulate);
      else
        tile_of(height, 1, inner, left, row_stride, inner_stride, b + c0, b_stride, out, c_stride, accumulate);
    }
}

/* Rows of d floats to rows of padded(d), the rest 0. */
static void copy_rows(size_t rows, size_t d, const float *from, size_t from_stride, float *to)
{
  size_t width = padded(d);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < d; c += LANES)
      vf_store(to + r * width + c, vf_load_part(from + r * from_stride + c, part(d, c)));
}

static void add_rows(size_t rows, size_t d, const float *from, float *to, size_t to_stride)
{
  size_t width = padded(d);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < d; c += LANES) {
      float *at = to + r * to_stride + c;
      vf_store_part(at, vf_load_part(at, part(d, c)) + vf_load(from + r * width + c), part(d, c));
    }
}

static void zero(float *x, size_t floats)
{
  memset(x, 0, floats * sizeof *x);
}

/* Key or value rows of a block, turned: to [d, BLOCK].  Rows beyond `rows` are 0. */
static void turn_block(size_t rows, size_t d, const float *from, size_t stride, float *to)
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

typedef struct block_rows {
  const float *key, *value;
  size_t rows, key_stride;
} block_rows;

static block_rows find_block(const attention_head *h, size_t block)
{
  size_t start = block * BLOCK;
  size_t rows = h->keys - start < BLOCK ? h->keys - start : BLOCK;
  if (h->key_blocks) return (block_rows){h->key_blocks[block], h->value_blocks[block], rows, h->head_size};
  return (block_rows){h->k + start * h->k_stride, h->v + start * h->k_stride, rows, h->k_stride};
}

/* How many keys of the block that starts at `start` the query at `position` sees: 0 .. BLOCK. */
static int count_visible(const attention_head *h, size_t position, size_t start)
{
  size_t end = position + 1 < h->keys ? position + 1 : h->keys;
  if (end <= start) return 0;
  return end - start < BLOCK ? (int)(end - start) : BLOCK;
}

/* Scale and bias of one row of products, in place: lane j of the row is the key at start + j. */
static inline void bias_row(const attention_head *h, size_t position, size_t start, float *s)
{
  vf scale = vf_splat(h->scale);
  if (h->bias == BIAS_SLOPE) {
    vf lane = vf_from_int(vi_lanes()), nearest = vf_splat((float)((ptrdiff_t)position - (ptrdiff_t)start));
    for (int v = 0; v < BLOCK; v += LANES) {
      vf distance = nearest - (lane + (float)v);
      vf_store(s + v, vf_load(s + v) * scale - distance * h->slope);
    }
  } else {
    for (int v = 0; v < BLOCK; v += LANES) vf_store(s + v, vf_load(s + v) * scale);
  }
}

/* A table holds no entries for keys after the query, so it is read for the visible lanes only. */
static inline void table_row(const attention_head *h, size_t position, size_t start, int visible, float *s)
{
  const float *entry = h->table - (position - start);
  for (int v = 0; v < visible; v += LANES) {
    size_t n = part((size_t)visible, (size_t)v);
    vf_store_part(s + v, vf_load_part(s + v, n) + vf_load_part(entry + v, n), n);
  }
}

/* Scores of a tile: s [rows, BLOCK] = scale q.k + bias; lanes that a row does not see hold anything. */
static void scores(const attention_head *h, size_t rows, size_t position, size_t start, const float *q,
                   size_t q_stride, const float *turned_keys, float *s)
{
  product(rows, BLOCK, h->head_size, q, q_stride, 1, turned_keys, BLOCK, s, BLOCK, false);
  for (size_t r = 0; r < rows; r++) {
    bias_row(h, position + r, start, s + r * BLOCK);
    int visible = count_visible(h, position + r, start);
    if (h->bias == BIAS_DISTANCE && visible) table_row(h, position + r, start, visible, s + r * BLOCK);
  }
}

static inline float row_maximum(const float *s, int visible)
{
  vf largest = vf_splat(-INFINITY);
  for (int v = 0; v < visible; v += LANES)
    largest = vf_max(vf_select(mask_below(visible - v), vf_load(s + v), vf_splat(-INFINITY)), largest);
  return vf_largest(largest);
}

/* Weights exp(s - shift) in place, 0 where not visible; returns their sum. */
static inline float row_weights(float *s, int visible, float shift)
{
  vf sum = {0};
  for (int v = 0; v < BLOCK; v += LANES) {
    vf weight = vf_and(mask_below(visible - v), vf_exp(vf_load(s + v) - shift));
    sum += weight;
    vf_store(s + v, weight);
  }
  return vf_sum(sum);
}

typedef struct forward_tile {
  float *turned_keys, *values, *s, *out, *maximum, *sum, *before, *shrink;
} forward_tile;

/* One key block joins the rows of a tile. */
static void forward_block(const attention_head *h, const forward_tile *t, size_t rows, size_t position,
                          size_t block, const float *q)
{
  size_t start = block * BLOCK, width = padded(h->head_size);
  block_rows b = find_block(h, block);
  turn_block(b.rows, h->head_size, b.key, b.key_stride, t->turned_keys);
  copy_rows(b.rows, h->head_size, b.value, b.key_stride, t->values);
  scores(h, rows, position, start, q, h->q_stride, t->turned_keys, t->s);
  memcpy(t->before, t->maximum, BLOCK * sizeof *t->before);
  for (size_t r = 0; r < rows; r++) {
    int visible = count_visible(h, position + r, start);
    if (!visible) continue;
    float largest = row_maximum(t->s + r * BLOCK, visible);
    if (largest > t->maximum[r]) t->maximum[r] = largest;
  }
  for (size_t r = 0; r < BLOCK; r += LANES) {
    vf now = vf_load(t->maximum + r);
    vf_store(t->shrink + r, vf_exp(vf_select(now == -INFINITY, (vf){0}, vf_load(t->before + r) - now)));
  }
  for (size_t r = 0; r < rows; r++) {
    int visible = count_visible(h, position + r, start);
    float *row = t->s + r * BLOCK, *out = t->out + r * width;
    if (!visible) {
      zero(row, BLOCK);
      continue;
    }
    t->sum[r] = t->sum[r] * t->shrink[r] + row_weights(row, visible, t->maximum[r]);
    for (size_t c = 0; c < width; c += LANES) vf_store(out + c, vf_load(out + c) * t->shrink[r]);
  }
  int deepest = count_visible(h, position + rows - 1, start); /* weights beyond are 0 in every row */
  product(rows, width, (size_t)deepest, t->s, BLOCK, 1, t->values, width, t->out, width, true);
}

void KERNEL(attention_forward)(const attention_head *h, float *scratch)
{
  size_t width = padded(h->head_size);
  forward_tile t;
  t.turned_keys = take(&scratch, BLOCK * width);
  t.values = take(&scratch, BLOCK * width);
  t.out = take(&scratch, BLOCK * width);
  t.s = take(&scratch, BLOCK * BLOCK);
  t.maximum = take(&scratch, BLOCK);
  t.sum = take(&scratch, BLOCK);
  t.before = take(&scratch, BLOCK);
  t.shrink = take(&scratch, BLOCK);
  zero(t.values, BLOCK * width);
  for (size_t r0 = 0; r0 < h->queries; r0 += BLOCK) {
    size_t rows = h->queries - r0 < BLOCK ? h->queries - r0 : BLOCK;
    size_t position = h->first + r0, last = position + rows - 1;
    for (size_t r = 0; r < BLOCK; r++) t.maximum[r] = -INFINITY;
    zero(t.sum, BLOCK);
    zero(t.out, BLOCK * width);
    if (last >= h->keys) last = h->keys - 1;
    for (size_t block = h->keys ? last / BLOCK + 1 : 0; block-- > 0;)
      forward_block(h, &t, rows, position, block, h->q + r0 * h->q_stride);
    for (size_t r = 0; r < rows; r++) {
      float sum = t.sum[r], inverse = sum > 0 ? 1.0f / sum : sum; /* NaN stays NaN, no key gives 0 */
      for (size_t c = 0; c < h->head_size; c += LANES)
        vf_store_part(h->out + (r0 + r) * h->out_stride + c, vf_load(t.out + r * width + c) * inverse,
                      part(h->head_size, c));
      if (h->lse) h->lse[(r0 + r) * h->lse_stride] = t.maximum[r] + logf(sum);
    }
  }
}

typedef struct backward_tile {
  float *turned_keys, *turned_values, *keys, *q, *dout, *dq, *dk, *dv, *weights, *ds;
} backward_tile;

/* Weights and their gradients of one row: p = exp(s - lse), ds = scale p (dp - delta). */
static inline void backward_row(const attention_head *h, size_t position, size_t start, int visible, float lse,
                                float delta, float *p, float *ds)
{
  float *entry = h->table_grad ? h->table_grad - (ptrdiff_t)(position - start) : NULL;
  for (int v = 0; v < BLOCK; v += LANES) {
    vi mask = mask_below(visible - v);
    vf weight = vf_and(mask, vf_exp(vf_load(p + v) - lse));
    vf slope = vf_and(mask, weight * (vf_load(ds + v) - delta));
    vf_store(p + v, weight);
    vf_store(ds + v, slope * h->scale);
    if (entry && v < visible) {
      size_t n = part((size_t)visible, (size_t)v);
      vf_store_part(entry + v, vf_load_part(entry + v, n) + slope, n);
    }
  }
}

/* The rows from r0 on meet one key block. */
static void backward_pair(const attention_head *h, const backward_tile *t, size_t r0, size_t start)
{
  size_t d = h->head_size, width = padded(d);
  size_t rows = h->queries - r0 < BLOCK ? h->queries - r0 : BLOCK, position = h->first + r0;
  copy_rows(rows, d, h->q + r0 * h->q_stride, h->q_stride, t->q);
  copy_rows(rows, d, h->dout + r0 * h->out_stride, h->out_stride, t->dout);
  scores(h, rows, position, start, t->q, width, t->turned_keys, t->weights);
  product(rows, BLOCK, d, t->dout, width, 1, t->turned_values, BLOCK, t->ds, BLOCK, false);
  for (size_t r = 0; r < rows; r++) {
    int visible = count_visible(h, position + r, start);
    float *p = t->weights + r * BLOCK, *ds = t->ds + r * BLOCK;
    if (!visible) {
      zero(p, BLOCK);
      zero(ds, BLOCK);
      continue;
    }
    const float *out = h->out + (r0 + r) * h->out_stride;
    vf delta = {0};
    for (size_t c = 0; c < d; c += LANES)
      delta += vf_load_part(out + c, part(d, c)) * vf_load(t->dout + r * width + c);
    backward_row(h, position + r, start, visible, h->lse[(r0 + r) * h->lse_stride], vf_sum(delta), p, ds);
  }
  product(rows, width, BLOCK, t->ds, BLOCK, 1, t->keys, width, t->dq, width, false);
  add_rows(rows, d, t->dq, h->dq + r0 * h->q_stride, h->q_stride);
  product(BLOCK, width, rows, t->weights, 1, BLOCK, t->dout, width, t->dv, width, true);
  product(BLOCK, width, rows, t->ds, 1, BLOCK, t->q, width, t->dk, width, true);
}

void KERNEL(attention_backward)(const attention_head *h, float *scratch)
{
  size_t d = h->head_size, width = padded(d);
  backward_tile t;
  t.turned_keys = take(&scratch, BLOCK * width);
  t.turned_values = take(&scratch, BLOCK * width);
  t.keys = take(&scratch, BLOCK * width);
  t.q = take(&scratch, BLOCK * width);
  t.dout = take(&scratch, BLOCK * width);
  t.dq = take(&scratch, BLOCK * width);
  t.dk = take(&scratch, BLOCK * width);
  t.dv = take(&scratch, BLOCK * width);
  t.weights = take(&scratch, BLOCK * BLOCK);
  t.ds = take(&scratch, BLOCK * BLOCK);
  for (size_t start = 0; start < h->keys; start += BLOCK) {
    block_rows b = find_block(h, start / BLOCK);
    turn_block(b.rows, d, b.key, b.key_stride, t.turned_keys);
    turn_block(b.rows, d, b.value, b.key_stride, t.turned_values);
    zero(t.keys, BLOCK * width);
    copy_rows(b.rows, d, b.key, b.key_stride, t.keys);
    zero(t.dk, BLOCK * width);
    zero(t.dv, BLOCK * width);
    size_t r0 = start > h->first ? (start - h->first) / BLOCK * BLOCK : 0; /* earlier rows see none of these keys */
    for (; r0 < h->queries; r0 += BLOCK) backward_pair(h, &t, r0, start);
    add_rows(b.rows, d, t.dk, h->dk + start * h->k_stride, h->k_stride);
    add_rows(b.rows, d, t.dv, h->dv + start * h->k_stride, h->k_stride);
  }
}
