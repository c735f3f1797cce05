/* Attention of one head, backward, by key blocks: the weights are made anew from the log-sum-exp,
 *   P = exp(S - lse),  dV += P^T dO,  dS = P (dO V^T - delta),  dQ += dS K,  dK += dS^T Q
 * (Dao et al., FlashAttention, 2022).  A block's own gradients stay in the scratch from open to close; what several
 * blocks add to, `give` adds by itself, so that the caller decides the order.  Exactly the pairs that forward visited are
 * met. */
#include "kernel/attention_tile.h"
#include "kernel/tables.h"

enum { STRIP = 2 * BLOCK - 1 }; /* distances between a tile and a block */

typedef struct backward_tile {
  float *turned_keys, *turned_values, *keys, *q, *dout, *dq, *dk, *dv;
  float *weights, *ds, *steep, *capped; /* [BLOCK, BLOCK] */
  float *places, *strip, *finite;
} backward_tile;

static backward_tile backward_layout(size_t head_size, float *scratch)
{
  size_t width = padded(head_size);
  return (backward_tile){.turned_keys = take(&scratch, BLOCK * width),
                         .turned_values = take(&scratch, BLOCK * width),
                         .keys = take(&scratch, BLOCK * width),
                         .q = take(&scratch, BLOCK * width),
                         .dout = take(&scratch, BLOCK * width),
                         .dq = take(&scratch, BLOCK * width),
                         .dk = take(&scratch, BLOCK * width),
                         .dv = take(&scratch, BLOCK * width),
                         .weights = take(&scratch, BLOCK * BLOCK),
                         .ds = take(&scratch, BLOCK * BLOCK),
                         .steep = take(&scratch, BLOCK * BLOCK),
                         .capped = take(&scratch, BLOCK * BLOCK),
                         .places = take(&scratch, BLOCK),
                         .strip = take(&scratch, 2 * BLOCK),
                         .finite = take(&scratch, 1)};
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

void KERNEL(attention_open)(const attention_head *h, size_t block, float *scratch)
{
  backward_tile t = backward_layout(h->head_size, scratch);
  size_t d = h->head_size, width = padded(d), start = block * BLOCK, rows = rows_from(start, h->keys);
  turn_block(rows, d, h->k + start * h->k_stride, h->k_stride, t.turned_keys);
  turn_block(rows, d, h->v + start * h->v_stride, h->v_stride, t.turned_values);
  copy_rows(rows, d, h->k + start * h->k_stride, h->k_stride, t.keys);
  zero(t.dk, rows * width);
  zero(t.dv, rows * width);
  count_places(t.places);
  fill_places(h, start, rows, t.places);
  *t.finite = all_finite(rows, width, t.keys, width);
}

void KERNEL(attention_close)(const attention_head *h, size_t block, float *scratch)
{
  backward_tile t = backward_layout(h->head_size, scratch);
  size_t start = block * BLOCK, rows = rows_from(start, h->keys);
  add_rows(rows, h->head_size, t.dk, h->dk + start * h->dk_stride, h->dk_stride);
  add_rows(rows, h->head_size, t.dv, h->dv + start * h->dv_stride, h->dv_stride);
}

/* What the tile's rows see of the block and have visited. */
static void backward_see(const attention_head *h, meeting *m, size_t r0, size_t block)
{
  meeting_start(m, rows_from(r0, h->queries), rows_from(block * BLOCK, h->keys));
  for (size_t r = 0; r < m->rows; r++) {
    const int32_t *visited = h->visited ? h->visited + 2 * (r0 + r) * h->row_stride : NULL;
    bool skipped = visited && ((int64_t)block < visited[0] || (int64_t)block >= visited[1]);
    meeting_row(m, r, skipped ? (attention_range){0, 0} : keys_seen(h, r0 + r), block * BLOCK);
  }
}

/* Weights of one row and the gradients of its scores: p = exp(s - lse), ds = p (dp - delta), and in the end dproduct =
 * ds * steep.  What the slope's gradient needs goes to sum and moment: of ds, and of ds times the place (TWO_SIDED: the
 * distance). */
INLINE void backward_row(const score_kind kind, const bool whole, const bool sloped, const attention_head *h,
                         const backward_tile *t, const meeting *m, size_t r, size_t r0, int64_t distance, vf *sum,
                         vf *moment)
{
  score_row row = score_row_of(kind, h, m, r, distance, t->places);
  float *p = t->weights + r * BLOCK, *ds = t->ds + r * BLOCK;
  float lse = h->lse[(r0 + r) * h->row_stride], delta = h->delta[(r0 + r) * h->row_stride];
  float *strip = kind == SCORE_TABLE && h->table_grad ? t->strip + BLOCK - 1 - r : NULL;
  for (size_t v = whole ? 0 : row.from / LANES * LANES; v < (whole ? BLOCK : row.to); v += LANES) {
    vf weight = vf_exp(score_at(kind, whole, &row, vf_load(p + v), v) - lse);
    vf slope = weight * (vf_load(ds + v) - delta);
    if (!whole) {
      vi seen = seen_lanes(&row, v);
      weight = vf_and(seen, weight);
      slope = vf_and(seen, slope);
    }
    vf_store(p + v, weight);
    vf_store(ds + v, kind == SCORE_READY ? slope : slope * row.scale);
    if (sloped) {
      vf place = vf_load(t->places + v);
      *sum += slope;
      *moment = vf_fma(slope, kind == SCORE_TWO_SIDED ? vf_abs(row.near - place) : place, *moment);
    }
    if (strip) {
      size_t n = part(BLOCK, v);
      vf_store_part(strip + v, vf_load_part(strip + v, n) + slope, n);
    }
  }
  if (whole) return;
  zero_unseen(m, r, p);
  zero_unseen(m, r, ds);
}

/* The gradient of the slope: -sum of ds * distance, where the distance is that of the block's first key less the place. */
static void add_slope(const attention_head *h, score_kind kind, const meeting *m, size_t r, int64_t distance, vf sum,
                      vf moment)
{
  if (m->from[r] >= m->to[r] && !m->whole) return;
  double far = kind == SCORE_TWO_SIDED ? 0 : (double)distance * (double)vf_sum(sum);
  *h->slope_grad -= kind == SCORE_TWO_SIDED ? (double)vf_sum(moment) : far - (double)vf_sum(moment);
}

#define BACKWARD_KIND(kind, sloped)                                                                          \
  static void backward_##kind##_##sloped(const attention_head *h, const backward_tile *t, const meeting *m,  \
                                         size_t r0, int64_t block_position)                                  \
  {                                                                                                          \
    for (size_t r = 0; r < m->rows; r++) {                                                                   \
      vf sum = {0}, moment = {0};                                                                            \
      int64_t distance = query_position(h, r0 + r) - block_position;                                         \
      if (m->whole)                                                                                          \
        backward_row(kind, true, sloped, h, t, m, r, r0, distance, &sum, &moment);                           \
      else                                                                                                   \
        backward_row(kind, false, sloped, h, t, m, r, r0, distance, &sum, &moment);                          \
      if (sloped) add_slope(h, kind, m, r, distance, sum, moment);                                           \
    }                                                                                                        \
  }
BACKWARD_KIND(SCORE_READY, false)
BACKWARD_KIND(SCORE_PLAIN, false)
BACKWARD_KIND(SCORE_SLOPE, false)
BACKWARD_KIND(SCORE_SLOPE, true)
BACKWARD_KIND(SCORE_TWO_SIDED, false)
BACKWARD_KIND(SCORE_TWO_SIDED, true)
BACKWARD_KIND(SCORE_TABLE, false)

static void backward_weights(score_kind kind, const attention_head *h, const backward_tile *t, const meeting *m,
                             size_t r0, int64_t block_position)
{
  switch (kind) {
  case SCORE_PLAIN: backward_SCORE_PLAIN_false(h, t, m, r0, block_position); break;
  case SCORE_SLOPE:
    (h->slope_grad ? backward_SCORE_SLOPE_true : backward_SCORE_SLOPE_false)(h, t, m, r0, block_position);
    break;
  case SCORE_TWO_SIDED:
    (h->slope_grad ? backward_SCORE_TWO_SIDED_true : backward_SCORE_TWO_SIDED_false)(h, t, m, r0, block_position);
    break;
  case SCORE_TABLE: backward_SCORE_TABLE_false(h, t, m, r0, block_position); break;
  default: backward_SCORE_READY_false(h, t, m, r0, block_position);
  }
}

/* The gradients of prepared scores: of what is the block's own or the caller's function.  ds stays that of the scores
 * until give has used it. */
static void use_score_gradients(const attention_head *h, const backward_tile *t, const meeting *m, size_t r0,
                                size_t start)
{
  for (size_t r = 0; r < m->rows; r++) {
    const float *ds = t->ds + r * BLOCK;
    size_t from = m->from[r], to = m->to[r];
    if (from >= to) continue;
    if (h->bias == BIAS_ROWS && h->rows->gradient)
      h->rows->gradient(h->rows->user, h->head, h->query_row + (int64_t)(r0 + r), h->key_row + (int64_t)(start + from),
                        (int64_t)(to - from), ds + from);
    for (size_t j = from; h->offset_grad && j < to; j++) h->offset_grad[(start + j) * h->offset_stride] += ds[j];
    if (!h->slope_grad) continue;
    double sum = 0;
    for (size_t j = from; j < to; j++)
      sum += (double)ds[j] * fabs((double)(query_position(h, r0 + r) - key_position(h, start + j)));
    *h->slope_grad -= sum;
  }
}

bool KERNEL(attention_meet)(const attention_head *h, size_t block, size_t tile, float *scratch)
{
  backward_tile t = backward_layout(h->head_size, scratch);
  size_t d = h->head_size, width = padded(d), r0 = tile * BLOCK, start = block * BLOCK;
  score_kind kind = score_kind_of(h, start, rows_from(start, h->keys));
  meeting m;
  backward_see(h, &m, r0, block);
  if (!m.any) return false;
  copy_rows(m.rows, d, h->q + r0 * h->q_stride, h->q_stride, t.q);
  copy_rows(m.rows, d, h->dout + r0 * h->dout_stride, h->dout_stride, t.dout);
  product_seen(&m, d, t.q, width, t.turned_keys, t.weights);
  product_seen(&m, d, t.dout, width, t.turned_values, t.ds);
  if (kind == SCORE_TABLE && h->table_grad) zero(t.strip, STRIP);
  if (kind == SCORE_READY) prepare_scores(h, &m, r0, start, t.weights, t.steep, t.capped);
  backward_weights(kind, h, &t, &m, r0, key_position(h, start));
  if (kind == SCORE_READY) {
    use_score_gradients(h, &t, &m, r0, start);
    for (size_t r = 0; r < m.rows; r++)
      for (size_t j = m.from[r]; j < m.to[r]; j++) {
        float ds = t.ds[r * BLOCK + j];
        t.ds[r * BLOCK + j] = ds * t.steep[r * BLOCK + j];
        t.steep[r * BLOCK + j] = ds;
      }
  }
  product_below(&m, width, t.ds, t.keys, width, t.dq, false, !m.whole && *t.finite == 0);
  product_above(&m, width, t.weights, t.dout, t.dv, !m.whole && !all_finite(m.rows, width, t.dout, width));
  product_above(&m, width, t.ds, t.q, t.dk, !m.whole && !all_finite(m.rows, width, t.q, width));
  return true;
}

/* The gradients of a table, from the strip of distances or pair by pair. */
static void give_table(const attention_head *h, const backward_tile *t, const meeting *m, size_t r0, size_t start)
{
  int64_t near = query_position(h, r0) - key_position(h, start);
  if (score_kind_of(h, start, m->keys) == SCORE_TABLE) {
    size_t from = STRIP, to = 0; /* of the strip; the table may end where the rows see nothing */
    for (size_t r = 0; r < m->rows; r++) {
      if (m->from[r] >= m->to[r]) continue;
      if (BLOCK - 1 - r + m->from[r] < from) from = BLOCK - 1 - r + m->from[r];
      if (BLOCK - 1 - r + m->to[r] > to) to = BLOCK - 1 - r + m->to[r];
    }
    float *entry = h->table_grad - near - (BLOCK - 1);
    for (size_t i = from; i < to; i++) entry[i] += t->strip[i];
    return;
  }
  for (size_t r = 0; r < m->rows; r++)
    for (size_t j = m->from[r]; j < m->to[r]; j++) {
      int64_t distance = query_position(h, r0 + r) - key_position(h, start + j);
      float ds = t->steep[r * BLOCK + j];
      if (h->table_grad) h->table_grad[-distance] += ds;
      if (h->factor_grad) h->factor_grad[-distance] += ds * t->capped[r * BLOCK + j];
    }
}

void KERNEL(attention_give)(const attention_head *h, size_t block, size_t tile, float *scratch)
{
  backward_tile t = backward_layout(h->head_size, scratch);
  size_t r0 = tile * BLOCK;
  add_rows(rows_from(r0, h->queries), h->head_size, t.dq, h->dq + r0 * h->dq_stride, h->dq_stride);
  if (!h->table_grad && !h->factor_grad) return;
  meeting m;
  backward_see(h, &m, r0, block);
  give_table(h, &t, &m, r0, block * BLOCK);
}
