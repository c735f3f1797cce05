/* Attention of one head, forward and backward, in tiles of 64 queries by 64 keys.
 * No matrix of queries by keys is ever stored: forward keeps a running maximum and sum per row (online softmax;
 * Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022), backward makes the weights anew from the
 * log-sum-exp.  Key blocks lie on absolute multiples of 64 and are walked from the diagonal outwards, so a row
 * does the same sums in the same order alone, in a chunk, or in a full prefill; a row that sees no key of a block
 * is left as it was. */
#include <math.h>

#include "kernel/matmul.h"
#include "kernel/tables.h"
#include "kernel/vector_math.h"

enum { BLOCK = ATTENTION_BLOCK };

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

static void zero(float *x, size_t floats)
{
  memset(x, 0, floats * sizeof *x);
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

/* Padded rows without infinity or NaN. */
static bool all_finite(const float *x, size_t floats)
{
  vf sum = {0};
  for (size_t i = 0; i < floats; i += LANES) sum += vf_load(x + i) * 0.0f;
  return vf_sum(sum) == 0;
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

/* ---- a tile of queries meets a block of keys ---- */

/* Row r sees the first r + shift keys of the block: at least 0, at most limit. */

typedef struct meeting {
  size_t rows;      /* of the query tile */
  ptrdiff_t shift;  /* 1 + distance of row 0 from the first key */
  size_t limit;     /* keys in the block */
} meeting;

static inline size_t sees(const meeting *m, size_t r)
{
  ptrdiff_t count = m->shift + (ptrdiff_t)r;
  if (count <= 0) return 0;
  return (size_t)count < m->limit ? (size_t)count : m->limit;
}

/* Rows see differently far: the tile lies on the diagonal. */
static bool on_diagonal(const meeting *m)
{
  return sees(m, 0) != sees(m, m->rows - 1);
}

/* S [rows, BLOCK] = A B, as far as the rows see; the rest is left as it was. */
static void product_seen(const meeting *m, size_t inner, const float *a, size_t row_stride, const float *b,
                         float *s)
{
  for (size_t c = 0; c < BLOCK; c += TILE_COLUMNS)
    for (size_t r = 0; r < m->rows; r += TILE_ROWS) {
      size_t height = m->rows - r < TILE_ROWS ? m->rows - r : TILE_ROWS, seen = sees(m, r + height - 1);
      const float *left = a + r * row_stride;
      float *out = s + r * BLOCK + c;
      if (seen > c + LANES)
        tile_of(height, TILE_VECTORS, inner, left, row_stride, 1, b + c, BLOCK, out, BLOCK, false);
      else if (seen > c)
        tile_of(height, 1, inner, left, row_stride, 1, b + c, BLOCK, out, BLOCK, false);
    }
}

/* Weights are 0 from what a row sees to where its tile's last row sees; where what they meet may be infinite,
 * `exact` takes the rows one by one, each as far as it sees.  Both ways give the same bits: a term of 0 changes no
 * sum. */
static void tile_columns(size_t height, size_t width, size_t inner, const float *a, size_t row_stride,
                         size_t inner_stride, const float *b, float *c, bool accumulate)
{
  size_t v = 0;
  for (; width - v >= TILE_COLUMNS; v += TILE_COLUMNS)
    tile_of(height, TILE_VECTORS, inner, a, row_stride, inner_stride, b + v, width, c + v, width, accumulate);
  if (v < width) tile_of(height, 1, inner, a, row_stride, inner_stride, b + v, width, c + v, width, accumulate);
}

/* C [rows, width] (+)= P B: row r of P [rows, BLOCK] meets the rows of B that r sees. */
static void product_below(const meeting *m, size_t width, const float *p, const float *b, float *c,
                          bool accumulate, bool exact)
{
  size_t step = exact ? 1 : TILE_ROWS;
  for (size_t r = 0; r < m->rows; r += step) {
    size_t height = m->rows - r < step ? m->rows - r : step;
    tile_columns(height, width, sees(m, r + height - 1), p + r * BLOCK, BLOCK, 1, b, c + r * width, accumulate);
  }
}

/* C [keys, width] += P^T B: key j meets the rows of B from the first that sees it. */
static void product_above(const meeting *m, size_t width, const float *p, const float *b, float *c, bool exact)
{
  size_t step = exact ? 1 : TILE_ROWS;
  for (size_t j = 0; j < m->limit; j += step) {
    size_t height = m->limit - j < step ? m->limit - j : step;
    ptrdiff_t from = (ptrdiff_t)j + 1 - m->shift;
    size_t first = from > 0 ? (size_t)from : 0;
    if (first >= m->rows) break;
    tile_columns(height, width, m->rows - first, p + first * BLOCK + j, 1, BLOCK, b + first * width, c + j * width,
                 true);
  }
}

/* ---- scores ---- */

/* Bias and products of one row become its scores, a vector at a time: score(v) for v = 0, LANES, ... */
typedef struct score_row {
  const float *entry; /* BIAS_DISTANCE: of the block's first key */
  vf scale, slope, near;
  size_t visible;
} score_row;

INLINE score_row score_row_of(const bias_kind kind, const attention_head *h, const meeting *m, size_t r)
{
  ptrdiff_t distance = m->shift - 1 + (ptrdiff_t)r; /* of the block's first key: not negative where it is seen */
  score_row row = {.scale = vf_splat(h->scale), .visible = sees(m, r)};
  if (kind == BIAS_SLOPE) {
    row.slope = vf_splat(h->slope);
    row.near = vf_splat(-h->slope * (float)distance);
  }
  if (kind == BIAS_DISTANCE) row.entry = h->table - distance;
  return row;
}

INLINE vf score(const bias_kind kind, const score_row *row, vf product, size_t v)
{
  if (kind == BIAS_SLOPE)
    return vf_fma(product, row->scale, vf_fma(vf_from_int(vi_lanes() + (int32_t)v), row->slope, row->near));
  if (kind == BIAS_DISTANCE) /* the table may end at the last key that is seen */
    return vf_fma(product, row->scale, vf_load_part(row->entry + v, part(row->visible, v)));
  return product * row->scale;
}

/* A tile reads the weights of a row as far as its lowest row sees: at most so many beyond what this row sees. */
static inline void zero_beyond(size_t visible, size_t done, float *p)
{
  size_t end = visible + TILE_ROWS - 1 < BLOCK ? visible + TILE_ROWS - 1 : BLOCK;
  for (size_t v = done; v < end; v += LANES) vf_store(p + v, (vf){0});
}

/* ---- forward ---- */

typedef struct forward_tile {
  float *turned_keys, *values, *s, *out, *maximum, *sum, *shrink;
} forward_tile;

/* LANES rows from g on: scores, the new maximum and how the old sums shrink, weights, the new sum. */
INLINE void forward_rows(const bias_kind kind, const attention_head *h, const forward_tile *t, const meeting *m,
                         size_t g)
{
  vf partial[LANES], infinite = vf_splat(-INFINITY);
  size_t rows = m->rows - g < LANES ? m->rows - g : LANES;
  for (size_t l = 0; l < LANES; l++) {
    partial[l] = infinite;
    if (l >= rows) continue;
    score_row row = score_row_of(kind, h, m, g + l);
    float *s = t->s + (g + l) * BLOCK;
    for (size_t v = 0; v < row.visible; v += LANES) {
      vf x = score(kind, &row, vf_load(s + v), v);
      vf_store(s + v, x);
      partial[l] = vf_max(vf_select(mask_below((int)row.visible - (int)v), x, infinite), partial[l]);
    }
  }
  vf before = vf_load(t->maximum + g), now = vf_max(vf_maxima(partial), before);
  vf shrink = vf_exp(vf_select(now == -INFINITY, (vf){0}, before - now));
  vf_store(t->maximum + g, now);
  vf_store(t->shrink + g, shrink);
  for (size_t l = 0; l < LANES; l++) {
    partial[l] = (vf){0};
    if (l >= rows) continue;
    size_t visible = sees(m, g + l), v = 0;
    float *s = t->s + (g + l) * BLOCK, shift = t->maximum[g + l];
    for (; v < visible; v += LANES) {
      vf weight = vf_and(mask_below((int)visible - (int)v), vf_exp(vf_load(s + v) - shift));
      partial[l] += weight;
      vf_store(s + v, weight);
    }
    zero_beyond(visible, v, s);
  }
  vf_store(t->sum + g, vf_fma(vf_load(t->sum + g), shrink, vf_sums(partial)));
}

static void forward_weights(const attention_head *h, const forward_tile *t, const meeting *m)
{
  for (size_t g = 0; g < m->rows; g += LANES) {
    if (h->bias == BIAS_SLOPE)
      forward_rows(BIAS_SLOPE, h, t, m, g);
    else if (h->bias == BIAS_DISTANCE)
      forward_rows(BIAS_DISTANCE, h, t, m, g);
    else
      forward_rows(BIAS_NONE, h, t, m, g);
  }
}

/* One key block joins the rows of a tile. */
static void forward_block(const attention_head *h, const forward_tile *t, size_t rows, size_t position,
                          size_t block, const float *q, bool first)
{
  size_t width = padded(h->head_size);
  block_rows b = find_block(h, block);
  meeting m = {rows, (ptrdiff_t)position + 1 - (ptrdiff_t)(block * BLOCK), b.rows};
  turn_block(b.rows, h->head_size, b.key, b.key_stride, t->turned_keys);
  copy_rows(b.rows, h->head_size, b.value, b.key_stride, t->values);
  product_seen(&m, h->head_size, q, h->q_stride, t->turned_keys, t->s);
  forward_weights(h, t, &m);
  for (size_t r = 0; r < rows && !first; r++) {
    if (t->shrink[r] == 1) continue;
    float *out = t->out + r * width;
    for (size_t c = 0; c < width; c += LANES) vf_store(out + c, vf_load(out + c) * t->shrink[r]);
  }
  bool exact = on_diagonal(&m) && !all_finite(t->values, b.rows * width);
  product_below(&m, width, t->s, t->values, t->out, !first, exact);
}

/* Out of the tile: sums become means.  -0 becomes 0, since a term of 0 may have made it so in another chunk. */
static void forward_finish(const attention_head *h, const forward_tile *t, size_t r0, size_t rows)
{
  size_t width = padded(h->head_size);
  for (size_t g = 0; g < rows; g += LANES) {
    vf sum = vf_load(t->sum + g), lse = vf_load(t->maximum + g) + vf_log(sum);
    vf_store(t->shrink + g, vf_select(sum > 0.0f, 1.0f / sum, sum)); /* NaN stays NaN, no key gives 0 */
    vf_store(t->maximum + g, lse);
  }
  for (size_t r = 0; r < rows; r++) {
    float inverse = t->shrink[r], *out = h->out + (r0 + r) * h->out_stride;
    for (size_t c = 0; c < h->head_size; c += LANES)
      vf_store_part(out + c, vf_load(t->out + r * width + c) * inverse + 0.0f, part(h->head_size, c));
    if (h->lse) h->lse[(r0 + r) * h->lse_stride] = t->maximum[r];
  }
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
  t.shrink = take(&scratch, BLOCK);
  for (size_t r0 = 0; r0 < h->queries; r0 += BLOCK) {
    size_t rows = h->queries - r0 < BLOCK ? h->queries - r0 : BLOCK;
    size_t position = h->first + r0, last = position + rows - 1;
    for (size_t r = 0; r < BLOCK; r++) t.maximum[r] = -INFINITY;
    zero(t.sum, BLOCK);
    if (last >= h->keys) last = h->keys - 1;
    size_t blocks = h->keys ? last / BLOCK + 1 : 0;
    if (blocks == 0) zero(t.out, rows * width);
    for (size_t block = blocks; block-- > 0;)
      forward_block(h, &t, rows, position, block, h->q + r0 * h->q_stride, block + 1 == blocks);
    forward_finish(h, &t, r0, rows);
  }
}

/* ---- backward ---- */

typedef struct backward_tile {
  float *turned_keys, *turned_values, *keys, *q, *dout, *dq, *dk, *dv, *weights, *ds, *delta;
} backward_tile;

/* Weights and their gradients of one row: p = exp(s - lse), ds = scale p (dp - delta). */
INLINE void backward_row(const bias_kind kind, const attention_head *h, const backward_tile *t, const meeting *m,
                         size_t r, float lse)
{
  score_row row = score_row_of(kind, h, m, r);
  float *p = t->weights + r * BLOCK, *ds = t->ds + r * BLOCK, delta = t->delta[r];
  float *entry = kind == BIAS_DISTANCE && h->table_grad ? h->table_grad + (row.entry - h->table) : NULL;
  size_t v = 0;
  for (; v < row.visible; v += LANES) {
    vi mask = mask_below((int)row.visible - (int)v);
    vf weight = vf_and(mask, vf_exp(score(kind, &row, vf_load(p + v), v) - lse));
    vf slope = vf_and(mask, weight * (vf_load(ds + v) - delta));
    vf_store(p + v, weight);
    vf_store(ds + v, slope * row.scale);
    if (entry) {
      size_t n = part(row.visible, v);
      vf_store_part(entry + v, vf_load_part(entry + v, n) + slope, n);
    }
  }
  zero_beyond(row.visible, v, p);
  zero_beyond(row.visible, v, ds);
}

/* delta = dout.out, of rows r0 + g on. */
static void backward_delta(const attention_head *h, const backward_tile *t, size_t r0, size_t rows, size_t g)
{
  size_t d = h->head_size, width = padded(d);
  vf partial[LANES];
  for (size_t l = 0; l < LANES; l++) {
    partial[l] = (vf){0};
    if (g + l >= rows) continue;
    const float *out = h->out + (r0 + g + l) * h->out_stride, *dout = t->dout + (g + l) * width;
    for (size_t c = 0; c < d; c += LANES) partial[l] += vf_load_part(out + c, part(d, c)) * vf_load(dout + c);
  }
  vf_store(t->delta + g, vf_sums(partial));
}

/* The rows from r0 on meet one key block; keys_finite: of that block. */
static void backward_pair(const attention_head *h, const backward_tile *t, size_t r0, size_t start, size_t keys,
                          bool keys_finite)
{
  size_t d = h->head_size, width = padded(d), rows = h->queries - r0 < BLOCK ? h->queries - r0 : BLOCK;
  meeting m = {rows, (ptrdiff_t)(h->first + r0) + 1 - (ptrdiff_t)start, keys};
  copy_rows(rows, d, h->q + r0 * h->q_stride, h->q_stride, t->q);
  copy_rows(rows, d, h->dout + r0 * h->out_stride, h->out_stride, t->dout);
  product_seen(&m, d, t->q, width, t->turned_keys, t->weights);
  product_seen(&m, d, t->dout, width, t->turned_values, t->ds);
  for (size_t g = 0; g < rows; g += LANES) backward_delta(h, t, r0, rows, g);
  for (size_t r = 0; r < rows; r++) {
    float lse = h->lse[(r0 + r) * h->lse_stride];
    if (h->bias == BIAS_SLOPE)
      backward_row(BIAS_SLOPE, h, t, &m, r, lse);
    else if (h->bias == BIAS_DISTANCE)
      backward_row(BIAS_DISTANCE, h, t, &m, r, lse);
    else
      backward_row(BIAS_NONE, h, t, &m, r, lse);
  }
  bool diagonal = on_diagonal(&m);
  product_below(&m, width, t->ds, t->keys, t->dq, false, diagonal && !keys_finite);
  add_rows(rows, d, t->dq, h->dq + r0 * h->q_stride, h->q_stride);
  product_above(&m, width, t->weights, t->dout, t->dv, diagonal && !all_finite(t->dout, rows * width));
  product_above(&m, width, t->ds, t->q, t->dk, diagonal && !all_finite(t->q, rows * width));
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
  t.delta = take(&scratch, BLOCK);
  for (size_t start = 0; start < h->keys; start += BLOCK) {
    block_rows b = find_block(h, start / BLOCK);
    size_t r0 = start > h->first ? (start - h->first) / BLOCK * BLOCK : 0; /* earlier rows see nothing here */
    if (r0 >= h->queries) break;
    turn_block(b.rows, d, b.key, b.key_stride, t.turned_keys);
    turn_block(b.rows, d, b.value, b.key_stride, t.turned_values);
    copy_rows(b.rows, d, b.key, b.key_stride, t.keys);
    zero(t.dk, b.rows * width);
    zero(t.dv, b.rows * width);
    bool finite = all_finite(t.keys, b.rows * width);
    for (; r0 < h->queries; r0 += BLOCK) backward_pair(h, &t, r0, start, b.rows, finite);
    add_rows(b.rows, d, t.dk, h->dk + start * h->k_stride, h->k_stride);
    add_rows(b.rows, d, t.dv, h->dv + start * h->k_stride, h->k_stride);
  }
}
