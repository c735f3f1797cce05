/* Attention backward: against the formula in double, whose own gradients are checked by finite differences; over
 * the pairs that forward visited; and with numbers that are not finite where no query may look. */
#include "attention_case.h"

/* ---- a head with everything that backward reads and writes ---- */

static const float START = 0.5f; /* gradients are added to what is there */

static void fresh_gradients(attention_head *h)
{
  size_t d = h->head_size;
  h->dq = filled_floats(span(h->queries, d, h->dq_stride), START);
  h->dk = filled_floats(span(h->keys, d, h->dk_stride), START);
  h->dv = filled_floats(span(h->keys, d, h->dv_stride), START);
  if (h->slope_grad) *h->slope_grad = (double)START;
  if (h->table_grad) h->table_grad = distance_table(h, START);
  if (h->factor_grad) h->factor_grad = distance_table(h, START);
  if (h->offset_grad) h->offset_grad = filled_floats(span(h->keys, 1, h->offset_stride), START);
}

/* What its bias has. */
static void want_gradients(attention_head *h)
{
  static double slope;
  static float any;
  if (h->bias == BIAS_SLOPE) h->slope_grad = &slope;
  if (h->bias == BIAS_DISTANCE) h->table_grad = &any;
  if (h->bias == BIAS_DISTANCE && h->factors) h->factor_grad = &any;
  if (h->bias == BIAS_KEY) h->offset_grad = &any;
}

/* out, lse as fp32, from the formula over the pairs visited; dout at random. */
static void prepare(attention_head *h, const int32_t *visited, bool want)
{
  double *weights = malloc((h->keys + 1) * sizeof *weights), *slack = malloc((h->keys + 1) * sizeof *slack);
  for (size_t r = 0; r < h->queries; r++) {
    size_t count;
    h->lse[r * h->row_stride] = (float)formula_row(h, visited, r, weights, slack, &count);
    for (size_t c = 0; c < h->head_size; c++) {
      double sum = 0;
      for (size_t j = 0; j < h->keys; j++)
        if (meets(h, visited, r, j)) sum += weights[j] * h->v[j * h->v_stride + c];
      h->out[r * h->out_stride + c] = (float)sum;
    }
  }
  free(weights);
  free(slack);
  h->visited = (int32_t *)(uintptr_t)visited;
  h->dout = random_floats(span(h->queries, h->head_size, h->dout_stride));
  if (want) want_gradients(h);
  fresh_gradients(h);
}

/* ---- the formula ---- */

/* Sums and bounds in double. */
typedef struct sums {
  double *value, *bound;
} sums;

static sums make_sums(size_t n, double start)
{
  sums s = {malloc((n + 1) * sizeof *s.value), calloc(n + 1, sizeof *s.bound)};
  for (size_t i = 0; i < n; i++) s.value[i] = start;
  return s;
}

static void free_sums(sums s)
{
  free(s.value);
  free(s.bound);
}

static void add_term(sums *s, size_t i, double value, double slack, size_t n)
{
  s->value[i] += value;
  s->bound[i] += slack + 8 * EPS * sqrt((double)n) * fabs(value);
}

typedef struct formula_gradients {
  sums dq, dk, dv, table, factor, offset, slope, pair; /* table, factor: index = distance - low */
  int64_t low, high;
} formula_gradients;

/* p = exp(s - lse), ds = p (dout.v - dout.out), of the score; ds/d(q.k) = chain; see docs/attention.md. */
static formula_gradients formula(const attention_head *h)
{
  size_t d = h->head_size, n = h->keys > h->queries ? h->keys : h->queries;
  formula_gradients g = {.dq = make_sums(h->queries * d, START), .dk = make_sums(h->keys * d, START),
                         .dv = make_sums(h->keys * d, START), .offset = make_sums(h->keys, START),
                         .slope = make_sums(1, START), .pair = make_sums(h->queries * h->keys, 0)};
  size_t distances = distances_seen(h, &g.low, &g.high) ? (size_t)(g.high - g.low + 1) : 0;
  double block_width =
      ATTENTION_BLOCK * (h->key_positions ? 3 : 1); /* distances may be taken from its first key */
  g.table = make_sums(distances, START);
  g.factor = make_sums(distances, START);
  for (size_t r = 0; r < h->queries; r++) {
    const float *q = h->q + r * h->q_stride, *dout = h->dout + r * h->dout_stride;
    double delta_terms, delta = dot_terms(d, h->out + r * h->out_stride, dout, &delta_terms);
    double lse = h->lse[r * h->row_stride];
    for (size_t j = 0; j < h->keys; j++) {
      if (!meets(h, h->visited, r, j)) continue;
      const float *k = h->k + j * h->k_stride, *v = h->v + j * h->v_stride;
      pair_score s = formula_score(h, r, j);
      double dp_terms, dp = dot_terms(d, dout, v, &dp_terms), p = exp(s.value - lse), ds = p * (dp - delta);
      double slack = s.slack + EPS * (fabs(s.value - lse) + fabs(lse)) + 4 * EPS;
      double ds_slack = fabs(ds) * (slack + 4 * EPS) + p * reduction(d, dp_terms + delta_terms);
      double far = fabs((double)s.distance), dot = ds * s.chain;
      double dot_slack = ds_slack * fabs(s.chain) + fabs(ds) * s.chain_slack;
      add_term(&g.table, (size_t)(s.distance - g.low), ds, ds_slack, n);
      add_term(&g.factor, (size_t)(s.distance - g.low), ds * s.capped,
               ds_slack * fabs(s.capped) + fabs(ds) * s.capped_slack, n);
      add_term(&g.offset, j, ds, ds_slack, n);
      add_term(&g.slope, 0, -ds * far, ds_slack * far + 8 * EPS * fabs(ds) * block_width, n);
      add_term(&g.pair, r * h->keys + j, ds, ds_slack, 1);
      for (size_t c = 0; c < d; c++) {
        add_term(&g.dq, r * d + c, dot * k[c], dot_slack * fabs((double)k[c]), n);
        add_term(&g.dk, j * d + c, dot * q[c], dot_slack * fabs((double)q[c]), n);
        add_term(&g.dv, j * d + c, p * dout[c], p * slack * fabs((double)dout[c]), n);
      }
    }
  }
  return g;
}

static void free_formula(formula_gradients g)
{
  sums all[] = {g.dq, g.dk, g.dv, g.table, g.factor, g.offset, g.slope, g.pair};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free_sums(all[i]);
}

static void compare(const char *what, const char *isa, size_t rows, size_t d, const float *found, size_t stride,
                    const sums *s)
{
  for (size_t r = 0; r < rows; r++) {
    for (size_t c = 0; c < d; c++)
      expect_near(what, isa, r * d + c, found[r * stride + c], s->value[r * d + c], s->bound[r * d + c] + 4 * EPS);
    for (size_t c = d; c < stride && r + 1 < rows; c++) assert_true(found[r * stride + c] == START);
  }
}

static void compare_table(const char *what, const char *isa, const float *found, const formula_gradients *g,
                          const sums *s)
{
  for (int64_t distance = g->low; found && distance <= g->high; distance++)
    expect_near(what, isa, (size_t)(distance - g->low), found[-distance], s->value[distance - g->low],
                s->bound[distance - g->low] + 4 * EPS);
}

/* After a run of backward. */
static void expect_gradients(const kernel_table *t, const attention_head *h)
{
  formula_gradients g = formula(h);
  compare("dq", t->name, h->queries, h->head_size, h->dq, h->dq_stride, &g.dq);
  compare("dk", t->name, h->keys, h->head_size, h->dk, h->dk_stride, &g.dk);
  compare("dv", t->name, h->keys, h->head_size, h->dv, h->dv_stride, &g.dv);
  compare_table("table", t->name, h->table_grad, &g, &g.table);
  compare_table("factors", t->name, h->factor_grad, &g, &g.factor);
  if (h->offset_grad) compare("offsets", t->name, h->keys, 1, h->offset_grad, h->offset_stride, &g.offset);
  if (h->slope_grad)
    expect_near("slope", t->name, 0, *h->slope_grad, *g.slope.value, *g.slope.bound + 4 * EPS);
  if (rows_gradients)
    compare("pairs", t->name, h->queries, h->keys, rows_gradients, h->keys, &g.pair);
  free_formula(g);
}

static void run_and_compare(const kernel_table *t, const attention_head *h)
{
  size_t pairs = h->queries * h->keys;
  rows_gradients = h->bias == BIAS_ROWS ? filled_floats(pairs, 0) : NULL;
  run_backward(t, h, 1);
  expect_gradients(t, h);
  rows_gradients = NULL;
}

/* Backward reads rows of keys and values, not cached blocks. */
static attention_head from_rows(const attention_head *h)
{
  attention_head own = *h;
  own.key_blocks = own.value_blocks = NULL;
  return own;
}

static void check_against_formula(const kernel_table *t, const attention_head *h)
{
  attention_head own = from_rows(h);
  prepare(&own, NULL, true);
  run_and_compare(t, &own);
}

static void formula_at_every_head_size(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d <= 256; d += d < 130 ? 1 : 7) {
        attention_options o = {.queries = 1 + d % 7,
                               .keys = 3 + d % 11,
                               .first = (ptrdiff_t)(d % 5),
                               .head_size = d,
                               .bias = (bias_kind)(d % 5),
                               .gap = d % 4,
                               .spread = 3};
        attention_head h = make_head(&o);
        prepare(&h, NULL, d % 7 != 0);
        run_and_compare(t, &h);
        guarded_free();
      }
}

static void formula_around_the_tiles(void **unused)
{
  (void)unused;
  for_shapes_around_the_tiles(check_against_formula);
}

/* Each row has visited a run of blocks of its own, some none. */
static const int32_t *random_visited(const attention_head *h)
{
  int32_t *visited = guarded_visited(h), blocks = (int32_t)((h->keys + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK);
  for (size_t r = 0; r < h->queries; r++) {
    int32_t from = (int32_t)(random_unit() * (blocks + 1)), to = (int32_t)(random_unit() * (blocks + 1));
    visited[2 * r * h->row_stride] = from < to ? from : to;
    visited[2 * r * h->row_stride + 1] = from < to ? to : from;
  }
  return visited;
}

static void check_options(const kernel_table *t, const attention_head *h)
{
  if (h->key_blocks) return;
  check_against_formula(t, h);
  attention_head part = *h;
  prepare(&part, random_visited(h), true);
  run_and_compare(t, &part);
}

static void formula_with_all_options(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    for (size_t k = 0; k < kernel_table_count(); k++)
      if (kernel_table_at(k)) for_all_options(kernel_table_at(k), check_options);
}

/* Heads that share their keys add to the same dk, dv. */
static void heads_that_share_keys(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int both_sides = 0; both_sides < 2; both_sides++) {
      attention_options o = {.queries = 70, .keys = 150, .first = 80, .head_size = 20, .bias = BIAS_SLOPE,
                             .both_sides = both_sides, .gap = 1, .spread = 4};
      attention_head heads[3];
      double slopes[3] = {(double)START, (double)START, (double)START};
      formula_gradients g[3];
      for (size_t i = 0; i < 3; i++) {
        heads[i] = make_head(&o);
        heads[i].slope = (float)(i + 1) / 16;
        heads[i].k = heads[0].k;
        heads[i].v = heads[0].v;
        prepare(heads + i, NULL, false);
        heads[i].slope_grad = slopes + i;
        heads[i].dk = heads[0].dk;
        heads[i].dv = heads[0].dv;
        g[i] = formula(heads + i);
      }
      run_backward(t, heads, 3);
      for (size_t i = 0; i < 3; i++) {
        compare("dq", t->name, 70, 20, heads[i].dq, heads[i].dq_stride, &g[i].dq);
        expect_near("slope", t->name, i, slopes[i], *g[i].slope.value, *g[i].slope.bound + 4 * EPS);
        for (size_t e = 0; i > 0 && e < 150 * 20; e++) {
          g[0].dk.value[e] += g[i].dk.value[e] - (double)START;
          g[0].dk.bound[e] += g[i].dk.bound[e];
          g[0].dv.value[e] += g[i].dv.value[e] - (double)START;
          g[0].dv.bound[e] += g[i].dv.bound[e];
        }
      }
      compare("dk", t->name, 150, 20, heads[0].dk, heads[0].dk_stride, &g[0].dk);
      compare("dv", t->name, 150, 20, heads[0].dv, heads[0].dv_stride, &g[0].dv);
      for (size_t i = 0; i < 3; i++) free_formula(g[i]);
      guarded_free();
    }
}

/* ---- finite differences ---- */

/* The loss sum(dout * out) of the formula, entirely in double, with one number moved by `by`. */
typedef struct nudge {
  const void *at;
  double by;
} nudge;

static double nudged(const float *p, nudge n)
{
  return p == n.at ? *p + n.by : *p;
}

static double nudged_score(const attention_head *h, size_t r, size_t j, nudge n)
{
  int64_t distance = distance_of(h, r, j);
  double s = 0;
  for (size_t c = 0; c < h->head_size; c++)
    s += nudged(h->q + r * h->q_stride + c, n) * nudged(h->k + j * h->k_stride + c, n);
  s *= h->scale;
  if (h->cap > 0) s = h->cap * tanh(s / h->cap);
  if (h->bias == BIAS_DISTANCE && h->factors) s *= nudged(h->factors - distance, n);
  if (h->bias == BIAS_SLOPE) s -= nudged(&h->slope, n) * fabs((double)distance);
  if (h->bias == BIAS_DISTANCE) s += nudged(h->table - distance, n);
  if (h->bias == BIAS_KEY) {
    const double *offset = h->offsets + j * h->offset_stride;
    s += *offset + (offset == n.at ? n.by : 0) + (h->query_offsets ? h->query_offsets[r * h->offset_stride] : 0);
  }
  if (h->bias == BIAS_ROWS) s += bias_of_pair(h->query_row + (int64_t)r, h->key_row + (int64_t)j);
  return s;
}

static double loss(const attention_head *h, nudge n)
{
  double total = 0;
  for (size_t r = 0; r < h->queries; r++) {
    double sum = 0, row = 0;
    for (size_t j = 0; j < h->keys; j++) {
      if (!sees(h, r, j)) continue;
      double weight = exp(nudged_score(h, r, j, n)), value = 0;
      for (size_t c = 0; c < h->head_size; c++)
        value += nudged(h->v + j * h->v_stride + c, n) * h->dout[r * h->dout_stride + c];
      sum += weight;
      row += weight * value;
    }
    if (sum > 0) total += row / sum;
  }
  return total;
}

static double slope_at(const attention_head *h, const void *at)
{
  double by = 1e-4; /* fourth order: the error is about by^4 */
  return (8 * (loss(h, (nudge){at, by}) - loss(h, (nudge){at, -by})) -
          (loss(h, (nudge){at, 2 * by}) - loss(h, (nudge){at, -2 * by}))) /
         (12 * by);
}

static void expect_slope(const char *what, const char *isa, const attention_head *h, size_t i, double found,
                         const void *at)
{
  expect_near(what, isa, i, found - (double)START, slope_at(h, at), 1e-5);
}

static void expect_slopes(const char *isa, const attention_head *h)
{
  for (size_t c = 0; c < h->head_size; c++) {
    for (size_t r = 0; r < h->queries; r++)
      expect_slope("slope by q", isa, h, r * h->head_size + c, h->dq[r * h->dq_stride + c],
                   h->q + r * h->q_stride + c);
    for (size_t j = 0; j < h->keys; j++) {
      expect_slope("slope by k", isa, h, j * h->head_size + c, h->dk[j * h->dk_stride + c],
                   h->k + j * h->k_stride + c);
      expect_slope("slope by v", isa, h, j * h->head_size + c, h->dv[j * h->dv_stride + c],
                   h->v + j * h->v_stride + c);
    }
  }
  int64_t low, high;
  distances_seen(h, &low, &high);
  for (int64_t distance = low; distance <= high; distance++) {
    if (h->table_grad)
      expect_slope("slope by the table", isa, h, (size_t)(distance - low), h->table_grad[-distance],
                   h->table - distance);
    if (h->factor_grad)
      expect_slope("slope by a factor", isa, h, (size_t)(distance - low), h->factor_grad[-distance],
                   h->factors - distance);
  }
  for (size_t j = 0; h->offset_grad && j < h->keys; j++)
    expect_slope("slope by an offset", isa, h, j, h->offset_grad[j * h->offset_stride],
                 h->offsets + j * h->offset_stride);
  if (h->slope_grad) expect_slope("slope by the slope", isa, h, 0, *h->slope_grad, &h->slope);
}

/* The formula's gradients, and with them those of every table, the reference included, are slopes of the loss. */
static void finite_differences(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  for (size_t k = 0; k < kernel_table_count(); k++) {
    const kernel_table *t = kernel_table_at(k);
    for (size_t bias = 0; t && bias <= BIAS_ROWS + 1; bias++)
      for (size_t mask = 0; mask < 16; mask++) {
        attention_options o = {.queries = 5,
                               .keys = 7,
                               .first = mask % 3 == 0 ? -1 : 2,
                               .head_size = 3,
                               .bias = bias > BIAS_ROWS ? BIAS_DISTANCE : (bias_kind)bias,
                               .factors = bias > BIAS_ROWS,
                               .both_sides = mask & 1,
                               .window = mask & 2 ? 4 : 0,
                               .positions = mask & 4,
                               .cap = mask & 8 ? 2 : 0,
                               .spread = 2};
        attention_head h = make_head(&o);
        prepare(&h, NULL, true);
        run_backward(t, &h, 1);
        expect_slopes(t->name, &h);
        guarded_free();
      }
  }
}

/* ---- what is not finite ---- */

static const float poisons[] = {NAN, INFINITY, -INFINITY};

static bool anyone_sees(const attention_head *h, size_t j)
{
  for (size_t r = 0; r < h->queries; r++)
    if (meets(h, h->visited, r, j)) return true;
  return false;
}

/* A key that nobody sees may hold anything, and so may a value; its gradients are 0, and nobody else notices. */
static void check_hidden(const kernel_table *t, const attention_head *head)
{
  if (head->key_blocks) return;
  attention_head h = *head;
  size_t d = h.head_size;
  prepare(&h, head->queries % 2 ? random_visited(head) : NULL, true);
  double slope = 0;
  if (h.slope_grad) h.slope_grad = &slope;
  fresh_gradients(&h);
  run_backward(t, &h, 1);
  attention_head p = h;
  double poisoned_slope = 0;
  if (p.slope_grad) p.slope_grad = &poisoned_slope;
  float *k = copied_floats(span(h.keys, d, h.k_stride), h.k), *v = copied_floats(span(h.keys, d, h.v_stride), h.v);
  for (size_t j = 0; j < h.keys; j++) {
    if (anyone_sees(&h, j)) continue;
    k[j * h.k_stride + d / 3] = poisons[j % 3];
    v[j * h.v_stride + d - 1] = poisons[j % 3];
    for (size_t c = 0; c < d; c++)
      assert_true(h.dk[j * h.dk_stride + c] == START && h.dv[j * h.dv_stride + c] == START);
  }
  p.k = k;
  p.v = v;
  fresh_gradients(&p);
  run_backward(t, &p, 1);
  expect_bits("dq", t->name, span(h.queries, d, h.dq_stride), p.dq, h.dq);
  expect_bits("dk", t->name, span(h.keys, d, h.dk_stride), p.dk, h.dk);
  expect_bits("dv", t->name, span(h.keys, d, h.dv_stride), p.dv, h.dv);
  int64_t low, high;
  bool any = distances_seen(&h, &low, &high);
  if (h.table_grad && any)
    expect_bits("table", t->name, (size_t)(high - low + 1), p.table_grad - high, h.table_grad - high);
  if (h.factor_grad && any)
    expect_bits("factors", t->name, (size_t)(high - low + 1), p.factor_grad - high, h.factor_grad - high);
  if (h.offset_grad)
    expect_bits("offsets", t->name, span(h.keys, 1, h.offset_stride), p.offset_grad, h.offset_grad);
  assert_true(slope == poisoned_slope);
}

static void what_is_hidden_stays_hidden(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for_all_options(t, check_hidden);
}

/* A key that is not finite spoils the queries that see it, and no other. */
static void check_spoilt_key(const kernel_table *t, const attention_head *clean, size_t j)
{
  size_t d = clean->head_size;
  attention_head p = *clean;
  float *k = copied_floats(span(p.keys, d, p.k_stride), clean->k);
  k[j * p.k_stride + d / 2] = NAN;
  p.k = k;
  fresh_gradients(&p);
  run_backward(t, &p, 1);
  for (size_t r = 0; r < p.queries; r++) {
    if (meets(&p, p.visited, r, j))
      assert_true(isnan(p.dq[r * p.dq_stride]));
    else
      expect_bits("dq of a query that does not see it", t->name, d, p.dq + r * p.dq_stride,
                  clean->dq + r * p.dq_stride);
  }
}

/* A query or a gradient that is not finite spoils the keys that it sees, and no other. */
static void check_spoilt_query(const kernel_table *t, const attention_head *clean, size_t r)
{
  size_t d = clean->head_size;
  attention_head p = *clean;
  float *dout = copied_floats(span(p.queries, d, p.dout_stride), clean->dout);
  float *q = copied_floats(span(p.queries, d, p.q_stride), clean->q);
  dout[r * p.dout_stride + d / 2] = INFINITY;
  q[r * p.q_stride + d / 3] = NAN;
  p.q = q;
  p.dout = dout;
  fresh_gradients(&p);
  run_backward(t, &p, 1);
  for (size_t j = 0; j < p.keys; j++) {
    if (meets(&p, p.visited, r, j)) {
      assert_false(isfinite(p.dv[j * p.dv_stride + d / 2]));
      assert_false(isfinite(p.dk[j * p.dk_stride + d / 2]));
      continue;
    }
    expect_bits("dk of a key it does not see", t->name, d, p.dk + j * p.dk_stride, clean->dk + j * p.dk_stride);
    expect_bits("dv of a key it does not see", t->name, d, p.dv + j * p.dv_stride, clean->dv + j * p.dv_stride);
  }
}

static void check_spoilt(const kernel_table *t, const attention_head *head)
{
  if (head->key_blocks) return;
  attention_head clean = *head;
  prepare(&clean, head->queries % 4 ? NULL : random_visited(head), false);
  run_backward(t, &clean, 1);
  for (size_t j = head->queries % 5; j < head->keys; j += 31) check_spoilt_key(t, &clean, j);
  for (size_t r = head->keys % 3; r < head->queries; r += 23) check_spoilt_query(t, &clean, r);
}

static void only_those_who_look_are_spoilt(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    for_all_options(t, check_spoilt);
    attention_options o = {.queries = 80, .keys = 80, .head_size = 19, .bias = BIAS_SLOPE, .spread = 4};
    attention_head h = make_head(&o);
    check_spoilt(t, &h);
    guarded_free();
  }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formula_at_every_head_size), cmocka_unit_test(formula_around_the_tiles),
      cmocka_unit_test(formula_with_all_options),   cmocka_unit_test(heads_that_share_keys),
      cmocka_unit_test(finite_differences),         cmocka_unit_test(what_is_hidden_stays_hidden),
      cmocka_unit_test(only_those_who_look_are_spoilt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
