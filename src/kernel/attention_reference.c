/* Attention of the reference table: plain C, every sum and function in double, row by row and one block of keys at
 * a time.  It stops nowhere and believes no proof, so it says what the others may leave out. */
#include <math.h>

#include "kernel/attention_offsets.h"
#include "kernel/attention_sight.h"
#include "kernel/tables.h"

enum { BLOCK = ATTENTION_BLOCK };

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

static size_t padded(size_t head_size)
{
  return (head_size + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* ---- a piece: one row and those keys of one block that it meets ---- */

typedef struct piece {
  size_t row, block, from, to; /* keys */
} piece;

static piece piece_of(attention_range seen, size_t row, size_t block)
{
  piece p = {row, block, block * BLOCK, (block + 1) * BLOCK};
  if (p.from < seen.from) p.from = seen.from;
  if (p.to > seen.to) p.to = seen.to;
  if (p.to < p.from) p.to = p.from;
  return p;
}

static int64_t distance(const attention_head *h, const piece *p, size_t j)
{
  return query_position(h, p->row) - key_position(h, j);
}

/* Its channels are `step` floats apart. */
static const float *key_row(const attention_head *h, size_t j, size_t *step)
{
  *step = h->key_blocks ? BLOCK : 1;
  return h->key_blocks ? h->key_blocks[j / BLOCK] + j % BLOCK : h->k + j * h->k_stride;
}

static const float *value_row(const attention_head *h, size_t j)
{
  if (h->value_blocks) return h->value_blocks[j / BLOCK] + j % BLOCK * padded(h->head_size);
  return h->v + j * h->v_stride;
}

static double dot(size_t n, const float *a, const float *b)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
  return sum;
}

/* score[i], and capped[i] before factor and bias, of key from + i. */
static void score_piece(const attention_head *h, const piece *p, double *capped, double *score)
{
  const float *q = h->q + p->row * h->q_stride;
  float given[BLOCK];
  if (h->bias == BIAS_ROWS && p->from < p->to)
    h->rows->bias(h->rows->user, h->head, h->query_row + (int64_t)p->row, h->key_row + (int64_t)p->from,
                  (int64_t)(p->to - p->from), given);
  for (size_t j = p->from; j < p->to; j++) {
    size_t i = j - p->from, step;
    const float *key = key_row(h, j, &step);
    double s = 0;
    for (size_t c = 0; c < h->head_size; c++) s += (double)q[c] * key[c * step];
    s *= h->scale;
    if (h->cap > 0) s = h->cap * tanh(s / h->cap);
    capped[i] = s;
    if (h->bias == BIAS_SLOPE) s -= (double)h->slope * fabs((double)distance(h, p, j));
    if (h->bias == BIAS_DISTANCE)
      s = s * (h->factors ? h->factors[-distance(h, p, j)] : 1) + h->table[-distance(h, p, j)];
    if (h->bias == BIAS_KEY) s += query_offset(h, p->row) + key_offset(h, j);
    if (h->bias == BIAS_ROWS) s += given[i];
    score[i] = s;
  }
}

/* ---- forward ---- */

size_t attention_scratch_reference(size_t head_size)
{
  return ((2 * BLOCK + 1) * head_size + 2 * BLOCK * BLOCK + BLOCK) * (sizeof(double) / sizeof(float));
}

/* One row's pairs and blocks; blocks_to: of the rows of its tile before it. */
static void count_row(attention_tally *tally, attention_range seen, size_t *blocks_to)
{
  if (seen.from >= seen.to) return;
  size_t from = seen.from / BLOCK, to = (seen.to - 1) / BLOCK + 1, before = *blocks_to;
  if (from < before) from = before;
  int64_t pairs = (int64_t)(seen.to - seen.from), blocks = to > from ? (int64_t)(to - from) : 0;
  tally->pairs_visible += pairs;
  tally->pairs_visited += pairs;
  tally->blocks_visible += blocks;
  tally->blocks_visited += blocks;
  if (to > before) *blocks_to = to;
}

/* largest and total of the scores so far, sum[d] of the values: one piece more. */
static void forward_piece(const attention_head *h, const piece *p, double *largest, double *total, double *sum)
{
  double capped[BLOCK], score[BLOCK], now = *largest;
  score_piece(h, p, capped, score);
  for (size_t i = 0; i < p->to - p->from; i++) now = score[i] > now ? score[i] : now;
  double shrink = *largest == now ? 1 : exp(*largest - now);
  *total *= shrink;
  for (size_t c = 0; c < h->head_size; c++) sum[c] *= shrink;
  for (size_t j = p->from; j < p->to; j++) {
    double weight = exp(score[j - p->from] - now);
    const float *value = value_row(h, j);
    *total += weight;
    for (size_t c = 0; c < h->head_size; c++) sum[c] += weight * value[c];
  }
  *largest = now;
}

void attention_forward_reference(const attention_head *h, float *scratch)
{
  double *sum = (double *)(void *)scratch;
  size_t blocks_to = 0;
  for (size_t r = 0; r < h->queries; r++) {
    attention_range seen = keys_seen(h, r);
    bool any = seen.from < seen.to;
    size_t from = any ? seen.from / BLOCK : 0, to = any ? (seen.to - 1) / BLOCK + 1 : 0;
    double largest = -INFINITY, total = 0;
    for (size_t c = 0; c < h->head_size; c++) sum[c] = 0;
    for (size_t block = from; block < to; block++) {
      piece p = piece_of(seen, r, block);
      forward_piece(h, &p, &largest, &total, sum);
    }
    for (size_t c = 0; c < h->head_size; c++) h->out[r * h->out_stride + c] = any ? (float)(sum[c] / total) : 0;
    if (h->lse) h->lse[r * h->row_stride] = any ? (float)(largest + log(total)) : -INFINITY;
    if (h->visited) {
      h->visited[2 * r * h->row_stride] = (int32_t)from;
      h->visited[2 * r * h->row_stride + 1] = (int32_t)to;
    }
    if (r % BLOCK == 0) blocks_to = 0;
    if (h->tally) count_row(h->tally, seen, &blocks_to);
  }
}

void attention_turn_reference(size_t rows, size_t d, const float *k, size_t k_stride, float *turned)
{
  for (size_t c = 0; c < d; c++)
    for (size_t j = 0; j < BLOCK; j++) turned[c * BLOCK + j] = j < rows ? k[j * k_stride + c] : 0;
}

/* ---- backward ---- */

void attention_delta_reference(const attention_head *h, size_t from, size_t to, float *delta)
{
  for (size_t r = from; r < to; r++)
    delta[r * h->row_stride] = (float)dot(h->head_size, h->dout + r * h->dout_stride, h->out + r * h->out_stride);
}

/* Of an open block: sums [block, d]; of the pairs [tile row, key] of the last meeting what give needs; a row for
 * it. */
typedef struct open_block {
  double *dk, *dv, *dq, *capped, *ds;
  double *mean; /* of the tile's rows: sum of weight * |distance| */
} open_block;

static open_block open_block_in(const attention_head *h, float *scratch)
{
  size_t d = h->head_size;
  double *at = (double *)(void *)scratch, *pairs = at + (2 * BLOCK + 1) * d;
  return (open_block){at,    at + BLOCK * d,        at + 2 * BLOCK * d,
                      pairs, pairs + BLOCK * BLOCK, pairs + 2 * BLOCK * BLOCK};
}

/* One block: it keeps no table of a span. */
size_t attention_span_reference(size_t head_size)
{
  (void)head_size;
  return 1;
}

void attention_open_reference(const attention_head *h, size_t block, float *scratch)
{
  (void)block;
  open_block b = open_block_in(h, scratch);
  for (size_t i = 0; i < BLOCK * h->head_size; i++) b.dk[i] = b.dv[i] = 0;
}

/* Empty where forward did not visit the block. */
static piece visited_piece(const attention_head *h, size_t r, size_t block)
{
  piece p = piece_of(keys_seen(h, r), r, block);
  const int32_t *visited = h->visited ? h->visited + 2 * r * h->row_stride : NULL;
  if (visited && ((int64_t)block < visited[0] || (int64_t)block >= visited[1])) p.to = p.from;
  return p;
}

/* From the gradient of a score to that of its q.k. */
static double product_gradient(const attention_head *h, const piece *p, size_t j, double ds, double capped)
{
  if (h->bias == BIAS_DISTANCE && h->factors) ds *= h->factors[-distance(h, p, j)];
  if (h->cap > 0) ds *= 1 - capped / h->cap * (capped / h->cap);
  return ds * h->scale;
}

/* What is private to the block's keys: dk, dv, offset_grad, slope_grad, the caller's gradients. */
static void meet_piece(const attention_head *h, const piece *p, const open_block *b)
{
  size_t d = h->head_size, r = p->row;
  const float *q = h->q + r * h->q_stride, *dout = h->dout + r * h->dout_stride;
  double *capped = b->capped + r % BLOCK * BLOCK, *ds = b->ds + r % BLOCK * BLOCK, score[BLOCK];
  float gradient[BLOCK];
  score_piece(h, p, capped, score);
  b->mean[r % BLOCK] = 0;
  for (size_t j = p->from; j < p->to; j++) {
    size_t i = j - p->from;
    double *dk = b->dk + j % BLOCK * d, *dv = b->dv + j % BLOCK * d;
    double weight = exp(score[i] - h->lse[r * h->row_stride]);
    b->mean[r % BLOCK] += weight * fabs((double)distance(h, p, j));
    ds[i] = weight * (dot(d, dout, value_row(h, j)) - h->delta[r * h->row_stride]);
    gradient[i] = (float)ds[i];
    double dot_gradient = product_gradient(h, p, j, ds[i], capped[i]);
    for (size_t c = 0; c < d; c++) {
      dk[c] += dot_gradient * q[c];
      dv[c] += weight * dout[c];
    }
    if (h->slope_grad && h->bias == BIAS_SLOPE) *h->slope_grad -= ds[i] * fabs((double)distance(h, p, j));
    if (h->offset_grad && h->bias == BIAS_KEY) h->offset_grad[j * h->offset_stride] += gradient[i];
  }
  if (h->bias == BIAS_ROWS && h->rows->gradient)
    h->rows->gradient(h->rows->user, h->head, h->query_row + (int64_t)r, h->key_row + (int64_t)p->from,
                      (int64_t)(p->to - p->from), gradient);
}

bool attention_meet_reference(const attention_head *h, size_t block, size_t tile, float *scratch)
{
  open_block b = open_block_in(h, scratch);
  bool met = false;
  for (size_t r = tile * BLOCK; r < least((tile + 1) * BLOCK, h->queries); r++) {
    piece p = visited_piece(h, r, block);
    if (p.from == p.to) continue;
    meet_piece(h, &p, &b);
    met = true;
  }
  return met;
}

void attention_give_reference(const attention_head *h, size_t block, size_t tile, float *scratch)
{
  open_block b = open_block_in(h, scratch);
  for (size_t r = tile * BLOCK; r < least((tile + 1) * BLOCK, h->queries); r++) {
    piece p = visited_piece(h, r, block);
    const double *capped = b.capped + r % BLOCK * BLOCK, *ds = b.ds + r % BLOCK * BLOCK;
    if (p.from == p.to) continue;
    for (size_t c = 0; c < h->head_size; c++) b.dq[c] = 0;
    for (size_t j = p.from; j < p.to; j++) {
      size_t step;
      const float *key = key_row(h, j, &step);
      double dot_gradient = product_gradient(h, &p, j, ds[j - p.from], capped[j - p.from]);
      for (size_t c = 0; c < h->head_size; c++) b.dq[c] += dot_gradient * key[c * step];
    }
    for (size_t c = 0; c < h->head_size; c++) h->dq[r * h->dq_stride + c] += (float)b.dq[c];
    if (h->slope_grad || (h->bias == BIAS_KEY && h->offset_grad && h->row_sums)) {
      float *sums = h->row_sums + 2 * r * h->row_stride;
      for (size_t j = p.from; j < p.to; j++) sums[0] += (float)ds[j - p.from];
      sums[1] += (float)b.mean[r % BLOCK];
    }
    if (h->bias != BIAS_DISTANCE) continue;
    for (size_t j = p.from; j < p.to; j++) {
      if (h->table_grad) h->table_grad[-distance(h, &p, j)] += (float)ds[j - p.from];
      if (h->factor_grad && h->factors)
        h->factor_grad[-distance(h, &p, j)] += (float)(ds[j - p.from] * capped[j - p.from]);
    }
  }
}

void attention_close_reference(const attention_head *h, size_t block, float *scratch)
{
  open_block b = open_block_in(h, scratch);
  for (size_t j = block * BLOCK; j < least((block + 1) * BLOCK, h->keys); j++)
    for (size_t c = 0; c < h->head_size; c++) {
      h->dk[j * h->dk_stride + c] += (float)b.dk[j % BLOCK * h->head_size + c];
      h->dv[j * h->dv_stride + c] += (float)b.dv[j % BLOCK * h->head_size + c];
    }
}
