/* Attention of one head, backward, by spans of key blocks: the weights are made anew from the log-sum-exp,
 *   P = exp(S - lse),  dV += P^T dO,  dS = P (dO V^T - delta),  dQ += dS K,  dK += dS^T Q
 * (Dao et al., FlashAttention, 2022).  A span's own gradients stay in the scratch from open to close; what several
 * spans add to, `give` adds by itself, so that the caller decides the order.  Exactly the pairs that forward
 * visited are met. */
#include "kernel/attention_stop.h"
#include "kernel/tables.h"

/* One block of the span, from open to close. */
typedef struct backward_block {
  float *turned_keys, *turned_values, *keys, *dk, *dv; /* [d, BLOCK] twice, [BLOCK, padded d] */
  float *steep, *capped;                               /* [BLOCK, BLOCK] of the tile met last, for give */
  float *strip, *factor_strip; /* sums of ds: by distance, for give; times what a factor multiplies; KEY: by key */
  size_t start, rows;                                  /* keys of the head */
  bool finite;
  meeting m;
} backward_block;

/* The blocks, and the tile that they meet. */
typedef struct backward_tile {
  float *q, *dout, *dq;  /* [BLOCK, padded d] */
  float *row_sum, *row_mean; /* [BLOCK] sums over the span: of ds, and of the weights times the distance */
  float *weights, *ds;   /* [BLOCK, BLOCK] */
  void *biases;          /* of the pair that is met: see score_row_of */
  backward_block *blocks;
  size_t count;
} backward_tile;

size_t KERNEL(attention_span)(size_t head_size)
{
  return head_size <= 64 ? ATTENTION_SPAN : ATTENTION_SPAN / 2; /* they should fit into the second-level cache */
}

enum { BLOCKS_FLOATS = (ATTENTION_SPAN * sizeof(backward_block) + 63) / 64 * 16 };

static size_t backward_floats(size_t head_size)
{
  size_t width = padded(head_size), tile = BLOCK * BLOCK;
  return BLOCKS_FLOATS + 3 * BLOCK * width + 2 * tile + 2 * BLOCK + STRIP +
         KERNEL(attention_span)(head_size) * (5 * BLOCK * width + 2 * tile + 2 * STRIP);
}

static backward_tile backward_layout(const attention_head *h, size_t span, float *scratch)
{
  size_t width = padded(h->head_size), most = KERNEL(attention_span)(h->head_size);
  backward_tile t = {.blocks = (backward_block *)(void *)take(&scratch, BLOCKS_FLOATS)};
  t.q = take(&scratch, BLOCK * width);
  t.dout = take(&scratch, BLOCK * width);
  t.dq = take(&scratch, BLOCK * width);
  t.weights = take(&scratch, BLOCK * BLOCK);
  t.ds = take(&scratch, BLOCK * BLOCK);
  t.biases = take(&scratch, STRIP);
  t.row_sum = take(&scratch, BLOCK);
  t.row_mean = take(&scratch, BLOCK);
  for (size_t i = 0; i < most; i++) {
    size_t start = (span * most + i) * BLOCK;
    backward_block *b = &t.blocks[i];
    if (start >= h->keys) break;
    t.count++;
    b->start = start;
    b->rows = h->keys - start < BLOCK ? h->keys - start : BLOCK;
    float **wide[] = {&b->turned_keys, &b->turned_values, &b->keys, &b->dk, &b->dv};
    for (size_t k = 0; k < sizeof wide / sizeof wide[0]; k++) *wide[k] = take(&scratch, BLOCK * width);
    b->steep = take(&scratch, BLOCK * BLOCK);
    b->capped = take(&scratch, BLOCK * BLOCK);
    b->strip = take(&scratch, STRIP);
    b->factor_strip = take(&scratch, STRIP);
  }
  return t;
}

static size_t rows_from(size_t start, size_t rows)
{
  return rows - start < BLOCK ? rows - start : BLOCK;
}

void KERNEL(attention_delta)(const attention_head *h, size_t from, size_t to, float *delta)
{
  size_t d = h->head_size;
  for (size_t g = from; g < to; g += LANES) {
    vf partial[LANES];
    float sums[LANES];
    for (size_t l = 0; l < LANES; l++) {
      partial[l] = (vf){0};
      if (g + l >= to) continue;
      const float *out = h->out + (g + l) * h->out_stride, *dout = h->dout + (g + l) * h->dout_stride;
      for (size_t c = 0; c < d; c += LANES)
        partial[l] = vf_fma(vf_load_part(out + c, part(d, c)), vf_load_part(dout + c, part(d, c)), partial[l]);
    }
    vf_store(sums, vf_sums(partial));
    for (size_t l = 0; l < LANES && g + l < to; l++) delta[(g + l) * h->row_stride] = sums[l];
  }
}

void KERNEL(attention_open)(const attention_head *h, size_t span, float *scratch)
{
  backward_tile t = backward_layout(h, span, scratch);
  size_t d = h->head_size, width = padded(d);
  for (size_t i = 0; i < t.count; i++) {
    backward_block *b = &t.blocks[i];
    turn_block(b->rows, d, h->k + b->start * h->k_stride, h->k_stride, b->turned_keys);
    turn_block(b->rows, d, h->v + b->start * h->v_stride, h->v_stride, b->turned_values);
    copy_rows(b->rows, d, h->k + b->start * h->k_stride, h->k_stride, b->keys);
    zero(b->dk, b->rows * width);
    zero(b->dv, b->rows * width);
    b->finite = all_finite(b->rows, width, b->keys, width);
  }
}

void KERNEL(attention_close)(const attention_head *h, size_t span, float *scratch)
{
  backward_tile t = backward_layout(h, span, scratch);
  for (size_t i = 0; i < t.count; i++) {
    const backward_block *b = &t.blocks[i];
    add_rows(b->rows, h->head_size, b->dk, h->dk + b->start * h->dk_stride, h->dk_stride);
    add_rows(b->rows, h->head_size, b->dv, h->dv + b->start * h->dv_stride, h->dv_stride);
  }
}

/* What the tile's rows see of a block and have visited. */
static void backward_see(const attention_head *h, backward_block *b, size_t r0)
{
  meeting *m = &b->m;
  int64_t block = (int64_t)(b->start / BLOCK);
  meeting_start(m, rows_from(r0, h->queries), b->rows);
  if (!h->visited && sees_all_before(h)) {
    int64_t shift = (int64_t)h->first + (int64_t)r0 + 1 - (int64_t)b->start, keys = (int64_t)b->rows;
    int64_t least = shift, most = shift + (int64_t)m->rows - 1;
    for (int64_t r = 0; r < (int64_t)m->rows; r++) {
      int64_t to = shift + r;
      m->from[r] = 0;
      m->to[r] = (uint8_t)(to < 0 ? 0 : to < keys ? to : keys);
    }
    m->whole = m->whole && least >= keys;
    m->any = most > 0;
    return;
  }
  for (size_t r = 0; r < m->rows; r++) {
    const int32_t *visited = h->visited ? h->visited + 2 * (r0 + r) * h->row_stride : NULL;
    bool skipped = visited && (block < visited[0] || block >= visited[1]);
    meeting_row(m, r, skipped ? (attention_range){0, 0} : keys_seen(h, r0 + r), b->start);
  }
}

/* What the gradient of the slope needs of a row: sums of ds, of ds times the distance, and of weights times it. */
typedef struct slope_sums {
  vf sum, moment, mean;
} slope_sums;

/* Weights of one row and the gradients of its scores: p = exp(s - lse), ds = p (dp - delta), and in the end
 * dproduct = ds * steep. */
INLINE void backward_row(const score_kind kind, const bool whole, const bool summed, const attention_head *h,
                         const backward_tile *t, const backward_block *b, size_t r, size_t r0, int64_t distance,
                         slope_sums *sums)
{
  const meeting *m = &b->m;
  score_row row = score_row_of(kind, h, m, r, r0 + r, distance, t->biases);
  float *p = t->weights + r * BLOCK, *ds = t->ds + r * BLOCK;
  float lse = h->lse[(r0 + r) * h->row_stride], delta = h->delta[(r0 + r) * h->row_stride];
  bool table = kind == SCORE_TABLE || kind == SCORE_FACTOR;
  float *strip = table && h->table_grad ? b->strip + BLOCK - 1 - r : NULL;
  float *factor_strip = kind == SCORE_FACTOR && h->factor_grad ? b->factor_strip + BLOCK - 1 - r : NULL;
  if (kind == SCORE_KEY && h->offset_grad) strip = b->strip;
  for (size_t v = whole ? 0 : row.from / LANES * LANES; v < (whole ? BLOCK : row.to); v += LANES) {
    vf product = vf_load(p + v), weight = vf_exp_weight(score_at(kind, whole, &row, product, v) - lse);
    vf slope = weight * (vf_load(ds + v) - delta);
    if (!whole) {
      vi seen = seen_lanes(&row, v);
      weight = vf_and(seen, weight);
      slope = vf_and(seen, slope);
    }
    vf_store(p + v, weight);
    if (kind == SCORE_READY)
      vf_store(ds + v, slope);
    else if (kind == SCORE_FACTOR)
      vf_store(ds + v, slope * (row.scale * table_at(whole, &row, row.factors, v)));
    else
      vf_store(ds + v, slope * row.scale);
    if (summed && kind == SCORE_KEY) sums->sum += slope;
    if (summed && kind == SCORE_SLOPE) {
      vf far = vf_abs(vf_splat((float)distance) - vf_from_int(vi_splat((int32_t)v) + vi_lanes()));
      sums->sum += slope;
      sums->moment = vf_fma(slope, far, sums->moment);
      sums->mean = vf_fma(weight, far, sums->mean);
    }
    if (strip) vf_store(strip + v, vf_load(strip + v) + slope);
    if (factor_strip)
      vf_store(factor_strip + v, vf_fma(slope, product * row.scale, vf_load(factor_strip + v)));
  }
  if (whole) return;
  zero_unseen(m, r, p);
  zero_unseen(m, r, ds);
}

/* The gradient of the slope is -sum of ds (distance - c) for any c of the row's own, since ds sums to 0 over a
 * row.  What fp32 made of delta is a small error in every ds, the same times the weight: with the mean distance as
 * c it cancels.  The mean is known after the last span, so the sums go to row_sums. */
static void add_slope(const attention_head *h, const backward_tile *t, size_t r, const slope_sums *sums)
{
  t->row_sum[r] += vf_sum(sums->sum);
  if (!h->slope_grad) return;
  *h->slope_grad -= (double)vf_sum(sums->moment);
  t->row_mean[r] += vf_sum(sums->mean);
}

#define BACKWARD_KIND(kind, summed)                                                                          \
  static void backward_##kind##_##summed(const attention_head *h, const backward_tile *t,                    \
                                         const backward_block *b, size_t r0)                                 \
  {                                                                                                          \
    int64_t position = key_position(h, b->start);                                                            \
    for (size_t r = 0; r < b->m.rows; r++) {                                                                 \
      slope_sums sums = {0};                                                                                 \
      int64_t distance = query_position(h, r0 + r) - position;                                               \
      if (b->m.whole)                                                                                        \
        backward_row(kind, true, summed, h, t, b, r, r0, distance, &sums);                                    \
      else                                                                                                   \
        backward_row(kind, false, summed, h, t, b, r, r0, distance, &sums);                                   \
      if (summed) add_slope(h, t, r, &sums);                                                                 \
    }                                                                                                        \
  }
BACKWARD_KIND(SCORE_READY, false)
BACKWARD_KIND(SCORE_PLAIN, false)
BACKWARD_KIND(SCORE_SLOPE, false)
BACKWARD_KIND(SCORE_SLOPE, true)
BACKWARD_KIND(SCORE_TABLE, false)
BACKWARD_KIND(SCORE_FACTOR, false)
BACKWARD_KIND(SCORE_KEY, false)
BACKWARD_KIND(SCORE_KEY, true)

/* The sums of a row's ds are wanted. */
static bool wants_sums(const attention_head *h)
{
  return h->slope_grad || (h->bias == BIAS_KEY && h->offset_grad && h->row_sums);
}

static void backward_weights(score_kind kind, const attention_head *h, const backward_tile *t,
                             const backward_block *b, size_t r0)
{
  switch (kind) {
  case SCORE_PLAIN: backward_SCORE_PLAIN_false(h, t, b, r0); break;
  case SCORE_SLOPE: (wants_sums(h) ? backward_SCORE_SLOPE_true : backward_SCORE_SLOPE_false)(h, t, b, r0); break;
  case SCORE_TABLE: backward_SCORE_TABLE_false(h, t, b, r0); break;
  case SCORE_FACTOR: backward_SCORE_FACTOR_false(h, t, b, r0); break;
  case SCORE_KEY: (wants_sums(h) ? backward_SCORE_KEY_true : backward_SCORE_KEY_false)(h, t, b, r0); break;
  default: backward_SCORE_READY_false(h, t, b, r0);
  }
}

/* The gradients of prepared scores, of one row: to what is the block's own or the caller's function. */
static void use_score_gradients(const attention_head *h, const backward_tile *t, const backward_block *b, size_t r,
                                size_t r0)
{
  const float *ds = t->ds + r * BLOCK, *weights = t->weights + r * BLOCK;
  size_t from = b->m.from[r], to = b->m.to[r];
  if (from >= to) return;
  if (h->bias == BIAS_ROWS && h->rows->gradient)
    h->rows->gradient(h->rows->user, h->head, h->query_row + (int64_t)(r0 + r),
                      h->key_row + (int64_t)(b->start + from), (int64_t)(to - from), ds + from);
  for (size_t j = from; h->offset_grad && j < to; j++) h->offset_grad[(b->start + j) * h->offset_stride] += ds[j];
  if (!wants_sums(h)) return;
  double sum = 0, moment = 0, mean = 0;
  for (size_t j = from; j < to; j++) {
    double far = fabs((double)(query_position(h, r0 + r) - key_position(h, b->start + j)));
    sum += (double)ds[j];
    moment += ds[j] * far;
    mean += weights[j] * far;
  }
  t->row_sum[r] += (float)sum;
  if (!h->slope_grad) return;
  *h->slope_grad -= moment;
  t->row_mean[r] += (float)mean;
}

/* From the gradients of prepared scores to those of the products; give still needs the former. */
static void steepen(const attention_head *h, const backward_tile *t, const backward_block *b, size_t r0)
{
  for (size_t r = 0; r < b->m.rows; r++) {
    float *ds = t->ds + r * BLOCK, *steep = b->steep + r * BLOCK;
    use_score_gradients(h, t, b, r, r0);
    for (size_t j = b->m.from[r]; j < b->m.to[r]; j++) {
      float gradient = ds[j];
      ds[j] = gradient * steep[j];
      steep[j] = gradient;
    }
  }
}

/* A tile, copied, meets a block. */
static void backward_pair(const attention_head *h, const backward_tile *t, backward_block *b, size_t r0,
                          bool first)
{
  size_t d = h->head_size, width = padded(d);
  const meeting *m = &b->m;
  score_kind kind = score_kind_of(h);
  product_seen(m, d, t->q, width, b->turned_keys, t->weights);
  product_seen(m, d, t->dout, width, b->turned_values, t->ds);
  if (h->table_grad || h->offset_grad) zero(b->strip, STRIP);
  if (h->factor_grad) zero(b->factor_strip, STRIP);
  if (kind == SCORE_KEY) copy_offsets(h, b->start, b->rows, t->biases);
  if (kind == SCORE_READY) prepare_scores(h, m, r0, b->start, t->weights, b->steep, b->capped);
  if (kind == SCORE_SLOPE) slope_strip(h, m->rows, query_position(h, r0) - key_position(h, b->start), t->biases);
  backward_weights(kind, h, t, b, r0);
  if (kind == SCORE_READY) steepen(h, t, b, r0);
  for (size_t j = 0; kind == SCORE_KEY && h->offset_grad && j < b->rows; j++)
    h->offset_grad[(b->start + j) * h->offset_stride] += b->strip[j];
  product_below(m, width, t->ds, b->keys, width, t->dq, !first, NULL, !m->whole && !b->finite);
  product_above(m, width, t->weights, t->dout, b->dv, !m->whole && !all_finite(m->rows, width, t->dout, width));
  product_above(m, width, t->ds, t->q, b->dk, !m->whole && !all_finite(m->rows, width, t->q, width));
}

bool KERNEL(attention_meet)(const attention_head *h, size_t span, size_t tile, float *scratch)
{
  backward_tile t = backward_layout(h, span, scratch);
  size_t d = h->head_size, r0 = tile * BLOCK, rows = rows_from(r0, h->queries);
  bool any = false;
  if (r0 + BLOCK < h->queries) { /* most often the next one */
    size_t next = rows_from(r0 + BLOCK, h->queries);
    fetch_rows(next, d, h->q + (r0 + BLOCK) * h->q_stride, h->q_stride);
    fetch_rows(next, d, h->dout + (r0 + BLOCK) * h->dout_stride, h->dout_stride);
    fetch_rows(next, d, h->dq + (r0 + BLOCK) * h->dq_stride, h->dq_stride);
  }
  for (size_t i = t.count; i-- > 0;) { /* from the diagonal outwards, as everywhere */
    backward_see(h, &t.blocks[i], r0);
    if (!t.blocks[i].m.any) continue;
    if (!any) {
      zero(t.row_sum, BLOCK);
      zero(t.row_mean, BLOCK);
      copy_rows(rows, d, h->q + r0 * h->q_stride, h->q_stride, t.q);
      copy_rows(rows, d, h->dout + r0 * h->dout_stride, h->dout_stride, t.dout);
    }
    backward_pair(h, &t, &t.blocks[i], r0, !any);
    any = true;
  }
  return any;
}

/* The gradients of a table, from the strip of distances or pair by pair. */
static void give_table(const attention_head *h, const backward_block *b, size_t r0)
{
  const meeting *m = &b->m;
  score_kind kind = score_kind_of(h);
  if (kind == SCORE_TABLE || kind == SCORE_FACTOR) {
    size_t from = STRIP, to = 0; /* of the strip; the table may end where the rows see nothing */
    for (size_t r = 0; r < m->rows; r++) {
      if (m->from[r] >= m->to[r]) continue;
      if (BLOCK - 1 - r + m->from[r] < from) from = BLOCK - 1 - r + m->from[r];
      if (BLOCK - 1 - r + m->to[r] > to) to = BLOCK - 1 - r + m->to[r];
    }
    int64_t first = query_position(h, r0) - key_position(h, b->start) + (BLOCK - 1);
    for (size_t i = from; h->table_grad && i < to; i++) h->table_grad[(int64_t)i - first] += b->strip[i];
    for (size_t i = from; h->factor_grad && i < to; i++) h->factor_grad[(int64_t)i - first] += b->factor_strip[i];
    return;
  }
  for (size_t r = 0; r < m->rows; r++)
    for (size_t j = m->from[r]; j < m->to[r]; j++) {
      int64_t distance = query_position(h, r0 + r) - key_position(h, b->start + j);
      float ds = b->steep[r * BLOCK + j];
      if (h->table_grad) h->table_grad[-distance] += ds;
      if (h->factor_grad) h->factor_grad[-distance] += ds * b->capped[r * BLOCK + j];
    }
}

void KERNEL(attention_give)(const attention_head *h, size_t span, size_t tile, float *scratch)
{
  backward_tile t = backward_layout(h, span, scratch);
  size_t r0 = tile * BLOCK;
  add_rows(rows_from(r0, h->queries), h->head_size, t.dq, h->dq + r0 * h->dq_stride, h->dq_stride);
  for (size_t r = 0; wants_sums(h) && r < rows_from(r0, h->queries); r++) {
    h->row_sums[2 * (r0 + r) * h->row_stride] += t.row_sum[r];
    h->row_sums[2 * (r0 + r) * h->row_stride + 1] += t.row_mean[r];
  }
  if (!h->table_grad && !h->factor_grad) return;
  for (size_t i = t.count; i-- > 0;)
    if (t.blocks[i].m.any) give_table(h, &t.blocks[i], r0);
}

/* Whichever direction needs more. */
size_t KERNEL(attention_scratch)(size_t head_size)
{
  size_t forward = (2 + 2 * ATTENTION_CREW) * BLOCK * padded(head_size) + BLOCK * BLOCK + RUN * STRIP +
                   ATTENTION_CREW * (5 * BLOCK + STOP_FLOATS);
  size_t backward = backward_floats(head_size);
  return forward > backward ? forward : backward;
}
