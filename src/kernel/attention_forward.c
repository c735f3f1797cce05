/* Attention of one head, forward, in tiles of 64 queries by 64 keys.
 * No matrix of queries by keys is ever stored: a row keeps a running maximum and sum (online softmax; Milakov and
 * Gimelshein 2018; Dao et al., FlashAttention, 2022).  Key blocks lie on absolute multiples of 64 and are walked
 * from the row's own position outwards, so the bias falls all the way, and a row stops where everything farther
 * away is proven to weigh less than the tolerance.  A row does the same sums in the same order, and stops at the
 * same block, alone, in a chunk, or in a full prefill; a block of which it sees nothing leaves it as it was.
 *
 * Tiles walk in crews, so that a block is turned and copied once for all of them. */
#include "kernel/attention_stop.h"
#include "kernel/tables.h"

void KERNEL(attention_turn)(size_t rows, size_t d, const float *k, size_t k_stride, float *turned)
{
  turn_block(rows, d, k, k_stride, turned);
}

/* Rows of queries that walk together, with what they have gathered.  Aligned, since gcc 12 takes the ends of loops
 * over a member of an array of these to be. */
typedef struct forward_tile {
  _Alignas(64) size_t first;     /* row of the head */
  size_t rows, home;             /* home: the block of their own position */
  float *q, *out;                /* [BLOCK, padded d] */
  float *maximum, *sum, *shrink; /* [BLOCK], of the rows */
  stop_rows proof;
  float *left_gap, *right_gap;   /* logarithm of the share of a row that its stop left behind; -infinity: none */
  attention_range seen[BLOCK], all, common;      /* keys that a row sees; that any does; that every one does */
  size_t visited_from[BLOCK], visited_to[BLOCK]; /* blocks */
  bool stopped[BLOCK], some_stopped;
  meeting m;
} forward_tile;

/* Tiles, and the block that they meet. */
typedef struct forward_crew {
  forward_tile tiles[ATTENTION_CREW];
  size_t count;
  float *turned_keys, *values, *s;
  float *biases; /* [RUN, STRIP], of the block or of a run of them: see score_row_of */
} forward_crew;

/* ---- the proof ---- */

/* The row sees nothing more on that side, from `block` outwards. */
static bool row_done(const forward_tile *t, size_t r, bool left, size_t block)
{
  return left ? t->seen[r].from >= (block + 1) * BLOCK : t->seen[r].to <= block * BLOCK;
}

enum { EXACT = (1 << 24) - BLOCK }; /* whole numbers up to here, and some more, are exact in fp32 */

/* What the offset of the key that a table is counted from adds, for LANES rows from r on. */
static vf key_tails(const attention_head *h, const forward_tile *t, bool left, size_t block, size_t r)
{
  double end = (left ? h->proof.ends_before : h->proof.ends_after)[block];
  vf tail = {0};
  for (size_t l = 0; l < LANES && r + l < t->rows; l++) tail[l] = (float)(query_offset(h, t->first + r + l) + end);
  return tail;
}

/* What the distance from the nearest key of blocks .. block (right: block ..) adds to the logarithm of the weight
 * of them all, for LANES rows from r on. */
static vf distance_tails(const attention_head *h, const forward_tile *t, bool left, size_t block, size_t r)
{
  const float *tails = left ? h->proof.tails_before : h->proof.tails_after;
  size_t nearest = left ? block * BLOCK + BLOCK - 1 : block * BLOCK;
  int64_t position = key_position(h, nearest), sign = left ? 1 : -1;
  if (h->bias == BIAS_KEY) return key_tails(h, t, left, block, r);
  int64_t first = sign * (query_position(h, t->first + r) - position);
  if (h->bias == BIAS_SLOPE && !h->query_positions && first < EXACT)
    return (vf_from_int(vi_lanes()) * (float)sign + (float)first) * -h->slope;
  int64_t from = left ? h->proof.tails_before_from : h->proof.tails_after_from;
  vf tail = {0};
  for (size_t l = 0; l < LANES && r + l < t->rows; l++) {
    if (row_done(t, r + l, left, block)) continue; /* a table may not reach so far */
    int64_t distance = sign * (query_position(h, t->first + r + l) - position);
    if (h->bias == BIAS_SLOPE)
      tail[l] = -h->slope * (float)distance;
    else
      tail[l] = tails[distance > from ? (distance - from) / BLOCK : 0];
  }
  return tail;
}

/* The block of a row's own position lies so near to the end that its stop is not worth a proof. */
static bool too_near(const attention_head *h, const forward_tile *t, size_t r, bool left)
{
  size_t home = h->both_sides ? t->home : t->seen[r].to > 0 ? (t->seen[r].to - 1) / BLOCK : 0;
  return left ? home < PROOF_FROM : (h->keys + BLOCK - 1) / BLOCK - home <= PROOF_FROM;
}

/* Stops the rows for which all keys of blocks .. block (right: block ..) together weigh too little.  A row that
 * has seen nothing yet has -infinity to compare with, and goes on. */
static void stop_some(const attention_head *h, forward_tile *t, bool left, size_t block, float log_tolerance)
{
  const float *table = (left ? h->proof.tables_before : h->proof.tables_after) + block * PROOF_TABLE;
  float gaps[BLOCK];
  for (size_t r = 0; r < t->rows; r += LANES) {
    vf lse = vf_load(t->maximum + r) + vf_log(vf_load(t->sum + r));
    vf weight = stop_weight(h, &t->proof, table, r), tail = distance_tails(h, t, left, block, r);
    /* The terms may be large, and cancel. */
    vf slack = (vf_abs(weight) + vf_abs(tail) + vf_abs(lse)) * 0x1p-22f + 1e-3f;
    vf_store(gaps + r, weight + tail - lse + slack);
  }
  for (size_t r = 0; r < t->rows; r++) {
    if (!(gaps[r] <= log_tolerance) || t->stopped[r]) continue;
    if (row_done(t, r, left, block) || too_near(h, t, r, left)) continue;
    t->stopped[r] = t->some_stopped = true;
    *(left ? &t->left_gap[r] : &t->right_gap[r]) = gaps[r];
    if (left)
      t->visited_from[r] = block + 1;
    else
      t->visited_to[r] = block;
  }
}

/* ---- one block joins ---- */

/* One vector of products becomes scores; returns them, -infinity where nothing is seen. */
INLINE vf make_score(const score_kind kind, const bool whole, const score_row *row, float *s, size_t v)
{
  vf x = score_at(kind, whole, row, vf_load(s + v), v);
  if (kind != SCORE_READY) vf_store(s + v, x);
  return whole ? x : vf_select(seen_lanes(row, v), x, vf_splat(-INFINITY));
}

/* One vector of scores becomes weights. */
INLINE vf weigh(const bool whole, const score_row *row, float *s, size_t v, float shift)
{
  vf weight = vf_exp_weight(vf_load(s + v) - shift);
  if (!whole) weight = vf_and(seen_lanes(row, v), weight);
  vf_store(s + v, weight);
  return weight;
}

/* A row's scores with a block, in place; returns the largest in some lane. */
INLINE vf make_scores(const score_kind kind, const bool whole, const score_row *row, float *s)
{
  vf largest = vf_splat(-INFINITY); /* of its own: what is stored to s may alias an array */
  if (whole) {
    UNROLLED for (int v = 0; v < BLOCK / LANES; v++)
      largest = vf_max(make_score(kind, true, row, s, (size_t)v * LANES), largest);
  } else {
    for (size_t v = row->from / LANES * LANES; v < row->to; v += LANES)
      largest = vf_max(make_score(kind, false, row, s, v), largest);
  }
  return largest;
}

/* They become weights; returns lanes of their sum. */
INLINE vf weigh_row(const bool whole, const meeting *m, size_t r, float *s, float shift)
{
  score_row row = {.from = m->from[r], .to = m->to[r]};
  vf sum = {0};
  if (whole) {
    UNROLLED for (int v = 0; v < BLOCK / LANES; v++) sum += weigh(true, &row, s, (size_t)v * LANES, shift);
  } else {
    for (size_t v = row.from / LANES * LANES; v < row.to; v += LANES) sum += weigh(false, &row, s, v, shift);
    zero_unseen(m, r, s);
  }
  return sum;
}

/* What old sums are multiplied by when the maximum grows. */
INLINE vf shrink_of(vf before, vf now)
{
  return vf_exp(vf_select(now == -INFINITY, (vf){0}, before - now));
}

/* LANES rows from g on: scores, the new maximum and how the old sums shrink, weights, the new sum. */
INLINE void forward_rows(const score_kind kind, const bool whole, const attention_head *h, const forward_tile *t,
                         const forward_crew *crew, size_t start, size_t g)
{
  const meeting *m = &t->m;
  vf partial[LANES];
  size_t rows = m->rows - g < LANES ? m->rows - g : LANES;
  int64_t block_position = key_position(h, start);
  for (size_t l = 0; l < LANES; l++) {
    partial[l] = vf_splat(-INFINITY);
    if (l >= rows) continue;
    int64_t distance = query_position(h, t->first + g + l) - block_position;
    score_row row = score_row_of(kind, h, m, g + l, t->first + g + l, distance, crew->biases);
    partial[l] = make_scores(kind, whole, &row, crew->s + (g + l) * BLOCK);
  }
  vf before = vf_load(t->maximum + g), now = vf_max(vf_maxima(partial), before), shrink = shrink_of(before, now);
  vf_store(t->maximum + g, now);
  vf_store(t->shrink + g, shrink);
  for (size_t l = 0; l < LANES; l++)
    partial[l] = l < rows ? weigh_row(whole, m, g + l, crew->s + (g + l) * BLOCK, t->maximum[g + l]) : (vf){0};
  vf_store(t->sum + g, vf_fma(vf_load(t->sum + g), shrink, vf_sums(partial))); /* one tree of additions */
}

#define FORWARD_KIND(kind)                                                                                   \
  static void forward_##kind(const attention_head *h, const forward_tile *t, const forward_crew *crew,       \
                             size_t start)                                                                   \
  {                                                                                                          \
    for (size_t g = 0; g < t->rows; g += LANES) {                                                            \
      if (t->m.whole)                                                                                        \
        forward_rows(kind, true, h, t, crew, start, g);                                                      \
      else                                                                                                   \
        forward_rows(kind, false, h, t, crew, start, g);                                                     \
    }                                                                                                        \
  }
FORWARD_KIND(SCORE_READY)
FORWARD_KIND(SCORE_PLAIN)
FORWARD_KIND(SCORE_SLOPE)
FORWARD_KIND(SCORE_TABLE)
FORWARD_KIND(SCORE_FACTOR)
FORWARD_KIND(SCORE_KEY)

static void (*const forward_weights[SCORE_KINDS])(const attention_head *, const forward_tile *,
                                                  const forward_crew *, size_t) = {
    forward_SCORE_READY, forward_SCORE_PLAIN,  forward_SCORE_SLOPE,
    forward_SCORE_TABLE, forward_SCORE_FACTOR, forward_SCORE_KEY};

typedef struct forward_operands {
  const float *turned_keys, *values;
  const float *next_keys, *next_values; /* of the block that comes after this one, or NULL */
  size_t value_stride;
} forward_operands;

/* biases: KEY: for its offsets. */
static forward_operands forward_load(const attention_head *h, const forward_crew *crew, size_t block, bool left,
                                     float *biases)
{
  size_t d = h->head_size, start = block * BLOCK, keys = h->keys - start < BLOCK ? h->keys - start : BLOCK;
  if (h->bias == BIAS_KEY) copy_offsets(h, start, keys, (double *)(void *)biases);
  if (h->key_blocks) {
    size_t width = (d + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
    bool more = left && block > h->first_block;
    return (forward_operands){h->key_blocks[block], h->value_blocks[block], more ? h->key_blocks[block - 1] : NULL,
                              more ? h->value_blocks[block - 1] : NULL, width};
  }
  turn_block(keys, d, h->k + start * h->k_stride, h->k_stride, crew->turned_keys);
  copy_rows(keys, d, h->v + start * h->v_stride, h->v_stride, crew->values);
  if (left && block > 0) {
    fetch_rows(BLOCK, d, h->k + (start - BLOCK) * h->k_stride, h->k_stride);
    fetch_rows(BLOCK, d, h->v + (start - BLOCK) * h->v_stride, h->v_stride);
  }
  return (forward_operands){crew->turned_keys, crew->values, NULL, NULL, padded(d)};
}

/* What the rows that have not stopped see of a block. */
static void forward_meet(const attention_head *h, forward_tile *t, size_t start)
{
  meeting *m = &t->m;
  meeting_start(m, t->rows, h->keys - start < BLOCK ? h->keys - start : BLOCK);
  if (!t->some_stopped && start >= t->common.from && start + BLOCK <= t->common.to) {
    memset(m->from, 0, t->rows);
    memset(m->to, BLOCK, t->rows);
    m->any = true;
    return;
  }
  m->whole = false;
  for (size_t r = 0; r < t->rows; r++)
    meeting_row(m, r, t->stopped[r] ? (attention_range){0, 0} : t->seen[r], start);
}

/* ---- a single row ---- */

/* Blocks that a single row meets together, the nearest first.  The way from scores by a maximum to weights is a
 * long chain, in which memory has little to do; a row that no proof may stop goes it once for two blocks (5 to 7 %
 * of the time at 128k keys; longer runs lost it again), with the same operations in the same order as block by
 * block. */
typedef struct row_run {
  size_t count, start[RUN]; /* keys of the head */
  meeting m[RUN];
  forward_operands b[RUN];
  float shrink[RUN];
} row_run;

/* What is read as the n-th: all keys, all values, what comes after them. */
static const float *run_operand(const row_run *run, size_t n)
{
  if (n < run->count) return run->b[n].turned_keys;
  if (n < 2 * run->count) return run->b[n - run->count].values;
  const forward_operands *last = &run->b[run->count - 1];
  return n == 2 * run->count ? last->next_keys : last->next_values;
}

/* The beginning of what is read after the next sums, so that memory has work while they are made. */
static void fetch_some(const float *operand)
{
  enum { LINES = 64 };
  if (!operand) return;
  for (size_t i = 0; i < LINES; i++) __builtin_prefetch(operand + i * LINE, 0, 2);
}

/* Scores, running maxima, weights and their sum, one block after the other. */
INLINE void run_rows(const score_kind kind, const attention_head *h, const forward_tile *t,
                     const forward_crew *crew, row_run *run)
{
  float largest[RUN], maximum[RUN];
  int64_t position = query_position(h, t->first);
  for (size_t i = 0; i < run->count; i++) {
    int64_t distance = position - key_position(h, run->start[i]);
    score_row row = score_row_of(kind, h, &run->m[i], 0, t->first, distance, crew->biases + i * STRIP);
    float *s = crew->s + i * BLOCK;
    largest[i] = vf_largest(run->m[i].whole ? make_scores(kind, true, &row, s)
                                            : make_scores(kind, false, &row, s));
  }
  vf before = vf_splat(t->maximum[0]), sum = vf_splat(t->sum[0]);
  for (size_t i = 0; i < run->count; i++) {
    vf now = vf_max(vf_splat(largest[i]), before);
    run->shrink[i] = shrink_of(before, now)[0];
    maximum[i] = now[0];
    before = now;
  }
  t->maximum[0] = before[0];
  for (size_t i = 0; i < run->count; i++) {
    const meeting *m = &run->m[i];
    float *s = crew->s + i * BLOCK;
    vf weights = m->whole ? weigh_row(true, m, 0, s, maximum[i]) : weigh_row(false, m, 0, s, maximum[i]);
    sum = vf_fma(sum, vf_splat(run->shrink[i]), vf_splat(vf_sum(weights)));
  }
  t->sum[0] = sum[0];
}

static void run_weights(score_kind kind, const attention_head *h, const forward_tile *t, const forward_crew *crew,
                        row_run *run)
{
  switch (kind) {
  case SCORE_PLAIN: run_rows(SCORE_PLAIN, h, t, crew, run); break;
  case SCORE_SLOPE: run_rows(SCORE_SLOPE, h, t, crew, run); break;
  case SCORE_TABLE: run_rows(SCORE_TABLE, h, t, crew, run); break;
  case SCORE_FACTOR: run_rows(SCORE_FACTOR, h, t, crew, run); break;
  case SCORE_KEY: run_rows(SCORE_KEY, h, t, crew, run); break;
  default: run_rows(SCORE_READY, h, t, crew, run);
  }
}

/* The row visits the run: all its keys, then all its values, each while the next one is fetched. */
static void visit_run(const attention_head *h, const forward_tile *t, const forward_crew *crew, row_run *run)
{
  size_t d = h->head_size, width = padded(d), n = 0;
  score_kind kind = score_kind_of(h);
  bool cached = h->key_blocks; /* else both lie in the scratch */
  for (size_t i = 0; i < run->count; i++) {
    const meeting *m = &run->m[i];
    size_t from = m->from[0] / LANES * LANES, to = ((size_t)m->to[0] + LANES - 1) / LANES * LANES;
    float *s = crew->s + i * BLOCK, *biases = crew->biases + i * STRIP;
    const float *ahead = cached ? run_operand(run, ++n) : NULL;
    row_columns(to - from, d, t->q, run->b[i].turned_keys + from, BLOCK, s + from, NULL, ahead);
    if (kind == SCORE_READY) prepare_scores(h, m, t->first, run->start[i], s, NULL, NULL);
    if (kind == SCORE_SLOPE)
      slope_strip(h, 1, query_position(h, t->first) - key_position(h, run->start[i]), biases);
  }
  if (cached) fetch_some(run_operand(run, n + 1));
  run_weights(kind, h, t, crew, run);
  for (size_t i = 0; i < run->count; i++) {
    const forward_operands *b = &run->b[i];
    size_t from = run->m[i].from[0], to = run->m[i].to[0];
    const float *ahead = cached ? run_operand(run, ++n) : NULL;
    row_columns(width, to - from, crew->s + i * BLOCK + from, b->values + from * b->value_stride,
                b->value_stride, t->out, &run->shrink[i], ahead);
    if (h->tally) h->tally->pairs_visited += to - from;
  }
  if (cached) fetch_some(run_operand(run, n + 1));
  if (h->tally) h->tally->blocks_visited += (int64_t)run->count;
}

/* ---- a tile ---- */

/* Its rows visit the block that they meet. */
static void forward_visit(const attention_head *h, forward_tile *t, const forward_crew *crew, size_t start,
                          const forward_operands *b)
{
  size_t d = h->head_size, width = padded(d);
  const meeting *m = &t->m;
  score_kind kind = score_kind_of(h);
  if (t->rows == 1) {
    row_run run;
    run.count = 1;
    run.start[0] = start;
    run.m[0] = *m;
    run.b[0] = *b;
    visit_run(h, t, crew, &run);
    return;
  }
  product_seen(m, d, t->q, width, b->turned_keys, crew->s);
  if (kind == SCORE_READY) prepare_scores(h, m, t->first, start, crew->s, NULL, NULL);
  if (kind == SCORE_SLOPE)
    slope_strip(h, t->rows, query_position(h, t->first) - key_position(h, start), crew->biases);
  forward_weights[kind](h, t, crew, start);
  bool exact = !m->whole && !all_finite(m->keys, width, b->values, b->value_stride);
  product_below(m, width, crew->s, b->values, b->value_stride, t->out, false, t->shrink, exact);
  if (!h->tally) return;
  h->tally->blocks_visited++;
  for (size_t r = 0; r < t->rows; r++) h->tally->pairs_visited += m->to[r] - m->from[r];
}

static void forward_start(const attention_head *h, forward_tile *t)
{
  /* Rows far apart share cache sets. */
  copy_rows(t->rows, h->head_size, h->q + t->first * h->q_stride, h->q_stride, t->q);
  zero(t->out, t->rows * padded(h->head_size));
  zero(t->sum, BLOCK);
  for (size_t r = 0; r < BLOCK; r++) t->maximum[r] = t->left_gap[r] = t->right_gap[r] = -INFINITY;
  for (size_t r = 0; r < t->rows; r++) {
    attention_range seen = t->seen[r];
    t->visited_from[r] = seen.from < seen.to ? seen.from / BLOCK : 0;
    t->visited_to[r] = seen.from < seen.to ? (seen.to - 1) / BLOCK + 1 : 0;
  }
  if (h->proof.log_tolerance > -INFINITY) stop_measure(h, t->first, t->rows, &t->proof);
}

/* Out of the tile: sums become means.  -0 becomes 0, since a term of 0 may have made it so in another chunk. */
static void forward_finish(const attention_head *h, const forward_tile *t)
{
  size_t width = padded(h->head_size);
  for (size_t g = 0; g < t->rows; g += LANES) {
    vf sum = vf_load(t->sum + g), lse = vf_load(t->maximum + g) + vf_log(sum);
    vf_store(t->shrink + g, vf_select(sum > 0.0f, 1.0f / sum, sum)); /* NaN stays NaN, no key gives 0 */
    vf_store(t->maximum + g, lse);
  }
  for (size_t r = 0; r < t->rows; r++) {
    size_t row = t->first + r;
    float inverse = t->shrink[r], *out = h->out + row * h->out_stride;
    for (size_t c = 0; c < h->head_size; c += LANES)
      vf_store_part(out + c, vf_load(t->out + r * width + c) * inverse + 0.0f, part(h->head_size, c));
    if (h->lse) h->lse[row * h->row_stride] = t->maximum[r];
    if (!h->visited) continue;
    h->visited[2 * row * h->row_stride] = (int32_t)t->visited_from[r];
    h->visited[2 * row * h->row_stride + 1] = (int32_t)t->visited_to[r];
  }
}

static void count_tile(const attention_head *h, const forward_tile *t)
{
  attention_tally *tally = h->tally;
  if (t->all.from < t->all.to)
    tally->blocks_visible += (int64_t)((t->all.to - 1) / BLOCK + 1 - t->all.from / BLOCK);
  for (size_t r = 0; r < t->rows; r++) {
    double skipped = exp(t->left_gap[r]) + exp(t->right_gap[r]);
    if (t->seen[r].from < t->seen[r].to) tally->pairs_visible += (int64_t)(t->seen[r].to - t->seen[r].from);
    if (skipped > tally->skipped) tally->skipped = skipped;
  }
}

static void see(const attention_head *h, forward_tile *t)
{
  t->all = (attention_range){h->keys, 0};
  t->common = (attention_range){0, h->keys};
  for (size_t r = 0; r < t->rows; r++) {
    attention_range seen = t->seen[r] = keys_seen(h, t->first + r);
    if (seen.from > t->common.from) t->common.from = seen.from;
    if (seen.to < t->common.to) t->common.to = seen.to;
    if (seen.from >= seen.to) continue;
    if (seen.from < t->all.from) t->all.from = seen.from;
    if (seen.to > t->all.to) t->all.to = seen.to;
  }
}

/* Some row still wants `block` or what lies beyond it. */
static bool walks_on(const forward_tile *t, bool left, size_t block)
{
  if (t->all.from >= t->all.to) return false;
  if (left ? block > t->home : block <= t->home) return true; /* its walk has not begun */
  for (size_t r = 0; r < t->rows; r++)
    if (!t->stopped[r] && t->seen[r].from < t->seen[r].to && !row_done(t, r, left, block)) return true;
  return false;
}

/* Rows that are stopped by nothing but the want of blocks. */
static void count_missed(const attention_head *h, const forward_tile *t, size_t block)
{
  for (size_t r = 0; h->tally && r < t->rows; r++)
    h->tally->missed += !t->stopped[r] && t->seen[r].from < t->seen[r].to && !row_done(t, r, true, block);
}

static bool crew_walks_on(const forward_crew *crew, bool left, size_t block)
{
  for (size_t i = 0; i < crew->count; i++)
    if (walks_on(&crew->tiles[i], left, block)) return true;
  return false;
}

/* A single row with a cache, whose walk no proof ends. */
static void run_walk(const attention_head *h, forward_crew *crew)
{
  forward_tile *t = &crew->tiles[0];
  row_run run;
  run.count = 0;
  for (size_t block = t->home + 1; block-- > 0 && walks_on(t, true, block);) {
    if (block < h->first_block) {
      count_missed(h, t, block);
      break;
    }
    forward_meet(h, t, block * BLOCK);
    if (t->m.any) {
      run.start[run.count] = block * BLOCK;
      run.m[run.count] = t->m;
      run.b[run.count] = forward_load(h, crew, block, true, crew->biases + run.count * STRIP);
      run.count++;
    }
    if (run.count < RUN) continue;
    visit_run(h, t, crew, &run);
    run.count = 0;
  }
  if (run.count > 0) visit_run(h, t, crew, &run);
}

/* Each tile from the block of its own position to the left; or from the one after that to the right. */
static void forward_walk(const attention_head *h, forward_crew *crew, bool left, size_t from, size_t count)
{
  bool stops = h->proof.log_tolerance > -INFINITY;
  float log_tolerance = h->proof.log_tolerance - (h->both_sides ? 0.6931472f : 0);
  for (size_t i = 0; i < crew->count; i++) {
    memset(crew->tiles[i].stopped, 0, sizeof crew->tiles[i].stopped);
    crew->tiles[i].some_stopped = false;
  }
  if (left && !stops && h->key_blocks && crew->count == 1 && crew->tiles[0].rows == 1) {
    run_walk(h, crew);
    return;
  }
  for (size_t step = 0; step < count; step++) {
    size_t block = left ? from - step : from + step;
    forward_operands operands = {0};
    if (!crew_walks_on(crew, left, block)) break;
    for (size_t i = 0; i < crew->count; i++) {
      forward_tile *t = &crew->tiles[i];
      if (left ? block > t->home : block <= t->home) continue;
      if (stops && block != t->home) stop_some(h, t, left, block, log_tolerance);
      if (block < h->first_block) { /* gone; each row is counted once */
        if (left && (block + 1 == h->first_block || block == t->home)) count_missed(h, t, block);
        continue;
      }
      forward_meet(h, t, block * BLOCK);
      if (!t->m.any) continue;
      if (!operands.values) operands = forward_load(h, crew, block, left, crew->biases);
      forward_visit(h, t, crew, block * BLOCK, &operands);
    }
  }
}

/* The block of the last key at or before a row's position. */
static size_t home_of(const attention_head *h, size_t r)
{
  size_t end = first_at_least(h->key_positions, 0, h->keys, query_position(h, r) + 1);
  return end == 0 ? 0 : (end - 1) / BLOCK;
}

/* The next tiles, from row `first` on; returns the row after them. */
static size_t form_crew(const attention_head *h, forward_crew *crew, size_t first)
{
  crew->count = 0;
  while (first < h->queries && crew->count < ATTENTION_CREW) {
    forward_tile *t = &crew->tiles[crew->count++];
    t->first = first;
    t->rows = h->queries - first < BLOCK ? h->queries - first : BLOCK;
    t->home = home_of(h, first);
    if (h->both_sides) /* rows that start from different blocks would walk in different orders */
      for (size_t r = 1; r < t->rows; r++)
        if (home_of(h, first + r) != t->home) t->rows = r;
    t->home = home_of(h, first + t->rows - 1);
    see(h, t);
    forward_start(h, t);
    first += t->rows;
  }
  return first;
}

void KERNEL(attention_forward)(const attention_head *h, float *scratch)
{
  size_t width = padded(h->head_size), blocks = (h->keys + BLOCK - 1) / BLOCK;
  forward_crew crew;
  crew.turned_keys = take(&scratch, BLOCK * width);
  crew.values = take(&scratch, BLOCK * width);
  crew.s = take(&scratch, BLOCK * BLOCK);
  crew.biases = take(&scratch, RUN * STRIP);
  for (size_t i = 0; i < ATTENTION_CREW && (h->both_sides || i * BLOCK < h->queries); i++) {
    forward_tile *t = &crew.tiles[i];
    t->q = take(&scratch, BLOCK * width);
    t->out = take(&scratch, BLOCK * width);
    t->proof = stop_layout(take(&scratch, STOP_FLOATS));
    float **columns[] = {&t->maximum, &t->sum, &t->shrink, &t->left_gap, &t->right_gap};
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) *columns[c] = take(&scratch, BLOCK);
  }
  for (size_t first = 0; first < h->queries;) {
    first = form_crew(h, &crew, first);
    size_t last_home = crew.tiles[crew.count - 1].home, first_home = crew.tiles[0].home;
    forward_walk(h, &crew, true, last_home, last_home + 1);
    if (h->both_sides)
      forward_walk(h, &crew, false, first_home + 1, blocks > first_home + 1 ? blocks - first_home - 1 : 0);
    for (size_t i = 0; i < crew.count; i++) {
      forward_finish(h, &crew.tiles[i]);
      if (h->tally) count_tile(h, &crew.tiles[i]);
    }
  }
}
