/* One head of attention for the tests, with every operand in guarded memory, and the formula in double.
 * The formula here stores the whole row of weights: it shares nothing with the kernels but the definition. */
#ifndef ATTENTION_CASE_H
#define ATTENTION_CASE_H

#include "kernel_test.h"

typedef struct attention_options {
  size_t queries, keys, head_size;
  ptrdiff_t first;
  bias_kind bias;
  bool factors;    /* with BIAS_DISTANCE */
  bool both_sides;
  size_t window;
  bool positions;  /* explicit, with gaps */
  float cap;
  bool blocks;     /* keys and values behind key_blocks, value_blocks */
  size_t gap;      /* floats between the rows */
  double spread;   /* size of the scores, about */
} attention_options;

/* ---- what a row sees, pair by pair ---- */

static inline int64_t distance_of(const attention_head *h, size_t r, size_t j)
{
  if (h->query_positions) return h->query_positions[r] - h->key_positions[j];
  return (int64_t)h->first + (int64_t)r - (int64_t)j;
}

static inline bool sees(const attention_head *h, size_t r, size_t j)
{
  int64_t distance = distance_of(h, r, j);
  if (distance < 0 && !h->both_sides) return false;
  return h->window == 0 || (distance < (int64_t)h->window && -distance < (int64_t)h->window);
}

static inline bool block_visited(const attention_head *h, const int32_t *visited, size_t r, size_t block)
{
  if (!visited) return true;
  const int32_t *range = visited + 2 * r * h->row_stride;
  return (int32_t)block >= range[0] && (int32_t)block < range[1];
}

/* Seen, and in a block that was visited: all are where visited is NULL. */
static inline bool meets(const attention_head *h, const int32_t *visited, size_t r, size_t j)
{
  return sees(h, r, j) && block_visited(h, visited, r, j / ATTENTION_BLOCK);
}

/* The least and the largest distance that any query sees; false: none sees anything.  A table holds these entries
 * and no other. */
static inline bool distances_seen(const attention_head *h, int64_t *low, int64_t *high)
{
  *low = INT64_MAX;
  *high = INT64_MIN;
  for (size_t r = 0; r < h->queries; r++)
    for (size_t j = 0; j < h->keys; j++) {
      if (!sees(h, r, j)) continue;
      int64_t distance = distance_of(h, r, j);
      if (distance < *low) *low = distance;
      if (distance > *high) *high = distance;
    }
  return *low <= *high;
}

/* A table of these distances, with all entries the same, or random where `value` is NaN; points at distance 0. */
static inline float *distance_table(const attention_head *h, float value)
{
  int64_t low, high;
  if (!distances_seen(h, &low, &high)) return guarded_floats(0);
  size_t entries = (size_t)(high - low + 1);
  float *table = isnan(value) ? random_floats(entries) : filled_floats(entries, value);
  return (float *)((uintptr_t)table + (uintptr_t)(high * (int64_t)sizeof *table));
}

/* ---- BIAS_ROWS: any number, but NaN for a pair that is not seen ---- */

static attention_head rows_owner;
static float *rows_gradients; /* [queries, keys] of the owner, added to; or NULL */

static inline float bias_of_pair(int64_t query, int64_t key)
{
  uint64_t z = ((uint64_t)query * 0x9e3779b97f4a7c15u) ^ ((uint64_t)key * 0xbf58476d1ce4e5b9u);
  z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
  return (float)((double)(z >> 11) * 0x1p-52 - 1);
}

/* A piece lies in one block of the keys. */
static inline void check_piece(int head, int64_t query, int64_t key, int64_t count)
{
  const attention_head *h = &rows_owner;
  int64_t r = query - h->query_row, j = key - h->key_row;
  assert_int_equal(head, h->head);
  assert_true(r >= 0 && r < (int64_t)h->queries);
  assert_true(j >= 0 && count > 0 && j + count <= (int64_t)h->keys);
  assert_true(j / ATTENTION_BLOCK == (j + count - 1) / ATTENTION_BLOCK);
}

static inline void rows_bias(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias)
{
  const attention_head *h = user;
  check_piece(head, query, key, count);
  for (int64_t i = 0; i < count; i++)
    bias[i] = sees(h, (size_t)(query - h->query_row), (size_t)(key - h->key_row + i))
                  ? bias_of_pair(query, key + i)
                  : NAN;
}

static inline void rows_gradient(void *user, int head, int64_t query, int64_t key, int64_t count,
                                 const float *gradient)
{
  const attention_head *h = user;
  check_piece(head, query, key, count);
  if (!rows_gradients) return;
  for (int64_t i = 0; i < count; i++)
    rows_gradients[(query - h->query_row) * (int64_t)h->keys + key - h->key_row + i] += gradient[i];
}

static const attention_rows test_rows = {rows_bias, rows_gradient, &rows_owner};

/* ---- a head ---- */

/* Keys turned, rows of values padded.  Where a block holds no key, and in the padding, `filling`. */
static inline void cut_into_blocks(attention_head *h, float filling)
{
  enum { B = ATTENTION_BLOCK };
  size_t d = h->head_size, count = (h->keys + B - 1) / B;
  size_t width = (d + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
  static const float *keys[1024], *values[1024];
  assert_true(count <= 1024);
  for (size_t b = 0; b < count; b++) {
    float *key = filled_floats(B * d, filling), *value = filled_floats(B * width, filling);
    for (size_t j = b * B; j < h->keys && j < (b + 1) * B; j++)
      for (size_t c = 0; c < d; c++) {
        key[c * B + j % B] = h->k[j * h->k_stride + c];
        value[j % B * width + c] = h->v[j * h->v_stride + c];
      }
    keys[b] = key;
    values[b] = value;
  }
  h->key_blocks = keys;
  h->value_blocks = values;
}

static inline int64_t *guarded_positions(size_t n, int64_t from)
{
  int64_t *x = (int64_t *)(void *)guarded_floats(n * sizeof *x / sizeof(float));
  for (size_t i = 0; i < n; i++) {
    x[i] = from;
    from += 1 + (int64_t)(random_unit() * 3);
  }
  return x;
}

static inline double *guarded_doubles(size_t n)
{
  return (double *)(void *)guarded_floats(n * sizeof(double) / sizeof(float));
}

/* Within 1 of the middle. */
static inline double *random_doubles(size_t n, double middle)
{
  double *x = guarded_doubles(n);
  for (size_t i = 0; i < n; i++) x[i] = middle + 2 * random_unit() - 1;
  return x;
}

static inline int32_t *guarded_visited(const attention_head *h)
{
  return (int32_t *)(void *)filled_floats(span(h->queries, 2, 2 * h->row_stride), NAN);
}

/* Bias and positions; nothing here is asked for what no query sees. */
static inline void add_bias(attention_head *h, const attention_options *o)
{
  if (o->positions) {
    h->key_positions = guarded_positions(o->keys, -70);
    int64_t start = -70 + 2 * (int64_t)o->first;
    if (o->first >= 0 && (size_t)o->first < o->keys) start = h->key_positions[o->first];
    h->query_positions = guarded_positions(o->queries, start);
  }
  if (o->bias == BIAS_DISTANCE) {
    h->table = distance_table(h, NAN);
    if (o->factors) h->factors = distance_table(h, NAN);
  }
  if (o->bias == BIAS_KEY) {
    h->offset_stride = 1 + o->gap;
    double far = o->queries % 3 ? 5000 : 0; /* they cancel: fp32 would lose what is left */
    h->offsets = random_doubles(span(o->keys, 1, h->offset_stride), far);
    if (far > 0) h->query_offsets = random_doubles(span(o->queries, 1, h->offset_stride), -far);
  }
  if (o->bias == BIAS_ROWS) h->rows = &test_rows;
  h->head = 3;
  h->query_row = 1000;
  h->key_row = 5000;
}

static inline attention_head make_head(const attention_options *o)
{
  size_t d = o->head_size, stride = d + o->gap;
  attention_head h = {.queries = o->queries,
                      .keys = o->keys,
                      .first = o->first,
                      .head_size = d,
                      .scale = (float)(o->spread / sqrt((double)d)),
                      .cap = o->cap,
                      .both_sides = o->both_sides,
                      .window = o->window,
                      .bias = o->bias,
                      .slope = 0.125f,
                      .q_stride = stride,
                      .k_stride = stride + o->gap,
                      .v_stride = stride + 2 * o->gap,
                      .out_stride = stride + 3 * o->gap,
                      .dout_stride = stride + 4 * o->gap,
                      .dq_stride = stride + 5 * o->gap,
                      .dk_stride = stride + 6 * o->gap,
                      .dv_stride = stride + 7 * o->gap,
                      .row_stride = 1 + o->gap};
  h.proof.log_tolerance = -INFINITY;
  h.q = random_floats(span(o->queries, d, h.q_stride));
  h.k = random_floats(span(o->keys, d, h.k_stride));
  h.v = random_floats(span(o->keys, d, h.v_stride));
  h.out = filled_floats(span(o->queries, d, h.out_stride), 7);
  h.lse = filled_floats(span(o->queries, 1, h.row_stride), 7);
  h.visited = guarded_visited(&h);
  add_bias(&h, o);
  if (o->blocks) cut_into_blocks(&h, o->keys % 2 ? NAN : 0);
  rows_owner = h;
  return h;
}

static inline float *scratch_for(const kernel_table *t, size_t head_size)
{
  return filled_floats(t->attention_scratch(head_size), NAN); /* it promises nothing about what it finds there */
}

/* Where there are blocks the rows are not looked at. */
static inline attention_head as_given(const attention_head *h)
{
  attention_head given = *h;
  if (h->key_blocks) given.k = given.v = NULL;
  return given;
}

static inline void run_forward_in(float *scratch, const kernel_table *t, const attention_head *h)
{
  attention_head given = as_given(h);
  t->attention_forward(&given, scratch);
}

static inline void run_forward(const kernel_table *t, const attention_head *h)
{
  run_forward_in(scratch_for(t, h->head_size), t, h);
}

/* Heads that share their keys. */
static inline void run_backward(const kernel_table *t, const attention_head *heads, size_t count)
{
  attention_head given[4];
  assert_true(count <= 4);
  float *scratch = scratch_for(t, heads->head_size);
  for (size_t i = 0; i < count; i++) {
    given[i] = as_given(heads + i);
    float *delta = filled_floats(span(given[i].queries, 1, given[i].row_stride), 7);
    for (size_t r = 0; r < given[i].queries; r += 50)
      t->attention_delta(given + i, r, r + 50 < given[i].queries ? r + 50 : given[i].queries, delta);
    given[i].delta = delta;
    given[i].row_sums = filled_floats(span(given[i].queries, 2, 2 * given[i].row_stride), 0);
  }
  size_t keys = t->attention_span(heads->head_size) * ATTENTION_BLOCK;
  for (size_t span = 0; span * keys < heads->keys; span++) {
    t->attention_open(given, span, scratch);
    for (size_t i = 0; i < count; i++)
      for (size_t tile = 0; tile * ATTENTION_BLOCK < given[i].queries; tile++)
        if (t->attention_meet(given + i, span, tile, scratch)) t->attention_give(given + i, span, tile, scratch);
    t->attention_close(given, span, scratch);
  }
  for (size_t i = 0; i < count; i++)
    for (size_t r = 0; given[i].slope_grad && r < given[i].queries; r++) {
      const float *sums = given[i].row_sums + 2 * r * given[i].row_stride;
      *given[i].slope_grad += (double)sums[0] * sums[1];
    }
}

/* ---- the formula ---- */

static inline double dot_terms(size_t n, const float *a, const float *b, double *terms)
{
  double sum = 0;
  *terms = 0;
  for (size_t i = 0; i < n; i++) {
    sum += (double)a[i] * b[i];
    *terms += fabs((double)a[i] * b[i]);
  }
  return sum;
}

typedef struct pair_score {
  double value, slack;               /* the score, and how far an fp32 kernel may be from it */
  double capped, capped_slack;       /* scaled q.k under the cap */
  double chain, chain_slack;         /* d score / d q.k */
  int64_t distance;
} pair_score;

static inline pair_score formula_score(const attention_head *h, size_t r, size_t j)
{
  pair_score s = {.distance = distance_of(h, r, j), .chain = h->scale};
  double terms, bias = 0, factor = 1;
  s.capped = h->scale * dot_terms(h->head_size, h->q + r * h->q_stride, h->k + j * h->k_stride, &terms);
  s.capped_slack = reduction(h->head_size, terms * fabs(h->scale)) + EPS * fabs(s.capped);
  if (h->cap > 0) {
    double part = tanh(s.capped / h->cap);
    s.capped = h->cap * part;
    s.capped_slack += EPS * (4 * fabs(s.capped) + 2 * h->cap);
    s.chain *= 1 - part * part;
    s.chain_slack = fabs(h->scale) * (2 * fabs(part) * s.capped_slack / h->cap + 4 * EPS);
  }
  if (h->bias == BIAS_SLOPE) bias = -h->slope * fabs((double)s.distance);
  if (h->bias == BIAS_DISTANCE) bias = h->table[-s.distance];
  if (h->bias == BIAS_DISTANCE && h->factors) factor = h->factors[-s.distance];
  if (h->bias == BIAS_KEY)
    bias = h->offsets[j * h->offset_stride] + (h->query_offsets ? h->query_offsets[r * h->offset_stride] : 0);
  if (h->bias == BIAS_ROWS) bias = bias_of_pair(h->query_row + (int64_t)r, h->key_row + (int64_t)j);
  s.value = s.capped * factor + bias;
  s.slack = fabs(factor) * (s.capped_slack + EPS * fabs(s.capped)) + 2 * EPS * fabs(bias);
  s.chain *= factor;
  s.chain_slack = s.chain_slack * fabs(factor) + 4 * EPS * fabs(s.chain);
  return s;
}

/* weights [keys], slack [keys] of one row, 0 where it meets no key; returns the log-sum-exp. */
static inline double formula_row(const attention_head *h, const int32_t *visited, size_t r, double *weights,
                                 double *slack, size_t *count)
{
  double largest = -INFINITY, total = 0;
  *count = 0;
  for (size_t j = 0; j < h->keys; j++) {
    weights[j] = -INFINITY;
    slack[j] = 0;
    if (!meets(h, visited, r, j)) continue;
    pair_score s = formula_score(h, r, j);
    weights[j] = s.value;
    slack[j] = s.slack;
    largest = fmax(largest, s.value);
    ++*count;
  }
  for (size_t j = 0; j < h->keys; j++) {
    if (weights[j] != -INFINITY) slack[j] += EPS * fabs(weights[j] - largest);
    weights[j] = *count ? exp(weights[j] - largest) : 0;
    total += weights[j];
  }
  for (size_t j = 0; j < h->keys && *count; j++) weights[j] /= total;
  return *count ? largest + log(total) : -INFINITY;
}

/* out and lse are those of the pairs visited (NULL: seen). */
static inline void expect_formula(const kernel_table *t, const attention_head *h, const int32_t *visited)
{
  double *weights = malloc((h->keys + 1) * sizeof *weights), *slack = malloc((h->keys + 1) * sizeof *slack);
  for (size_t r = 0; r < h->queries; r++) {
    size_t count;
    double lse = formula_row(h, visited, r, weights, slack, &count), relative = reduction(count, 1);
    for (size_t j = 0; j < h->keys; j++) relative += weights[j] * (slack[j] + 4 * EPS);
    expect_near("lse", t->name, r, h->lse[r * h->row_stride], lse, relative + 2 * EPS * fabs(lse));
    for (size_t c = 0; c < h->head_size; c++) {
      double sum = 0, bound = 0, terms = 0;
      for (size_t j = 0; j < h->keys; j++) {
        if (!meets(h, visited, r, j)) continue;
        double value = h->v[j * h->v_stride + c];
        sum += weights[j] * value;
        terms += weights[j] * fabs(value);
        bound += weights[j] * fabs(value) * (slack[j] + 4 * EPS);
      }
      bound += terms * relative + reduction(count, terms);
      expect_near("out", t->name, r * h->head_size + c, h->out[r * h->out_stride + c], sum, count ? bound : 0);
    }
    for (size_t c = h->head_size; c < h->out_stride && r + 1 < h->queries; c++)
      assert_true(h->out[r * h->out_stride + c] == 7);
  }
  free(weights);
  free(slack);
}

/* A tally of pairs and blocks, counted pair by pair.  Rows that look to both sides may go in other tiles, of at
 * most 64 rows. */
static inline void expect_tally(const char *isa, const attention_head *h, const attention_tally *tally)
{
  enum { B = ATTENTION_BLOCK };
  attention_tally own = {0};
  assert_int_equal(tally->missed, 0);
  for (size_t r0 = 0; r0 < h->queries; r0 += B)
    for (size_t j0 = 0; j0 < h->keys; j0 += B) {
      int64_t visible = 0, visited = 0;
      for (size_t r = r0; r < r0 + B && r < h->queries; r++)
        for (size_t j = j0; j < j0 + B && j < h->keys; j++) {
          visible += sees(h, r, j);
          visited += meets(h, h->visited, r, j);
        }
      own.pairs_visible += visible;
      own.pairs_visited += visited;
      own.blocks_visible += visible > 0;
      own.blocks_visited += visited > 0;
    }
  bool same = tally->blocks_visible == own.blocks_visible && tally->blocks_visited == own.blocks_visited;
  if (h->both_sides)
    same = tally->blocks_visible >= tally->blocks_visited && tally->blocks_visited * B * B >= tally->pairs_visited;
  if (tally->pairs_visible != own.pairs_visible || tally->pairs_visited != own.pairs_visited || !same)
    fail_msg("tally, %s: pairs %lld of %lld, blocks %lld of %lld; found %lld of %lld, %lld of %lld", isa,
             (long long)own.pairs_visited, (long long)own.pairs_visible, (long long)own.blocks_visited,
             (long long)own.blocks_visible, (long long)tally->pairs_visited, (long long)tally->pairs_visible,
             (long long)tally->blocks_visited, (long long)tally->blocks_visible);
}

/* ---- rows in company and alone ---- */

/* The head cut down to the queries from .. to-1, writing to memory of its own. */
static inline attention_head part_of(const attention_head *h, size_t from, size_t to)
{
  attention_head p = *h;
  p.queries = to - from;
  p.first = h->first + (ptrdiff_t)from;
  if (h->query_positions) p.query_positions = h->query_positions + from;
  p.query_row = h->query_row + (int64_t)from;
  if (h->query_offsets) p.query_offsets = h->query_offsets + from * h->offset_stride;
  p.q = h->q + from * h->q_stride;
  p.out = filled_floats(span(p.queries, p.head_size, p.out_stride), 7);
  p.lse = filled_floats(span(p.queries, 1, p.row_stride), 7);
  p.visited = guarded_visited(&p);
  return p;
}

/* Rows from .. of the head have the bits of the part. */
static inline void expect_part(const char *isa, const attention_head *h, size_t from, const attention_head *p)
{
  for (size_t i = 0; i < p->queries; i++) {
    size_t r = from + i;
    expect_bits("row of a part", isa, h->head_size, p->out + i * p->out_stride, h->out + r * h->out_stride);
    expect_bits("lse of a part", isa, 1, p->lse + i * p->row_stride, h->lse + r * h->row_stride);
    assert_memory_equal(p->visited + 2 * i * p->row_stride, h->visited + 2 * r * h->row_stride,
                        2 * sizeof(int32_t));
  }
}

/* Frees what was made since. */
static inline void guarded_free_to(size_t count)
{
  for (; guard_count > count; guard_count--) munmap(guards[guard_count - 1].map, guards[guard_count - 1].bytes);
}

/* Chunks, also with no keys yet beyond the chunk, as in a cache. */
static inline void check_chunks(const kernel_table *t, const attention_head *h)
{
  static const size_t chunks[] = {1, 7, 64, 100}, steps[] = {3, 7, 64, 100};
  float *scratch = scratch_for(t, h->head_size);
  run_forward_in(scratch, t, h);
  for (size_t k = 0; k < 4; k++)
    for (size_t from = 0; from < h->queries; from += steps[k]) {
      size_t to = from + chunks[k] < h->queries ? from + chunks[k] : h->queries, before = guard_count;
      for (int later = 0; later < (h->both_sides ? 1 : 2); later++) {
        attention_head p = part_of(h, from, to);
        while (later && p.keys > 0 && distance_of(h, to - 1, p.keys - 1) < 0) p.keys--;
        run_forward_in(scratch, t, &p);
        expect_part(t->name, h, from, &p);
      }
      guarded_free_to(before);
    }
}

/* ---- cases ---- */

/* Every edge, table, bias and shape: queries, keys, first.  Square; the tail of a prefill; one decoded token;
 * queries beyond the last key, and before the first; windows that begin inside a block; no keys at all. */
static inline void for_shapes_around_the_tiles(void (*check)(const kernel_table *t, const attention_head *h))
{
  static const size_t sizes[] = {3, 7, 16, 17, 64, 80, 127, 128};
  static const ptrdiff_t shapes[][3] = {{1, 1, 0},     {63, 63, 0},   {64, 64, 0},    {65, 65, 0},   {129, 129, 0},
                                        {64, 128, 64}, {7, 135, 128}, {30, 100, 70},  {1, 200, 199}, {1, 64, 63},
                                        {70, 40, 0},   {20, 64, 100}, {130, 300, 17}, {5, 0, 3},     {64, 65, 1},
                                        {70, 40, -30}, {9, 4, -20},   {330, 330, 0}};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int bias = BIAS_NONE; bias <= BIAS_ROWS; bias++) {
          attention_options o = {.queries = (size_t)shapes[s][0],
                                 .keys = (size_t)shapes[s][1],
                                 .first = shapes[s][2],
                                 .head_size = sizes[(s + (size_t)bias) % 8],
                                 .bias = (bias_kind)bias,
                                 .blocks = (s + (size_t)bias) % 2,
                                 .gap = s % 3,
                                 .spread = 5};
          attention_head h = make_head(&o);
          check(t, &h);
          guarded_free();
        }
}

/* All options with each other: both sides, window, positions, cap, cached blocks, with each bias. */
static inline void for_all_options(const kernel_table *t,
                                   void (*check)(const kernel_table *t, const attention_head *h))
{
  static const ptrdiff_t shapes[][3] = {{70, 150, 80}, {130, 130, 0},   {65, 200, 135}, {100, 60, -40},
                                        {3, 300, 290}, {64, 190, 100}, {90, 171, 33}};
  static const size_t windows[] = {1, 5, 64, 70, 100}, sizes[] = {8, 5, 16, 33, 12, 24};
  for (size_t mask = 0; mask < 32; mask++)
    for (size_t bias = 0; bias <= BIAS_ROWS + 1; bias++) {
      const ptrdiff_t *shape = shapes[(mask + 3 * bias) % 7];
      attention_options o = {.queries = (size_t)shape[0],
                             .keys = (size_t)shape[1],
                             .first = shape[2],
                             .head_size = sizes[(mask + bias) % 6],
                             .bias = bias > BIAS_ROWS ? BIAS_DISTANCE : (bias_kind)bias,
                             .factors = bias > BIAS_ROWS,
                             .both_sides = mask & 1,
                             .window = mask & 2 ? windows[(mask / 4 + bias) % 5] : 0,
                             .positions = mask & 4,
                             .cap = mask & 8 ? 3 : 0,
                             .blocks = mask & 16,
                             .gap = bias % 2,
                             .spread = 5};
      attention_head h = make_head(&o);
      check(t, &h);
      guarded_free();
    }
}

#endif
