/* Attention backward: against the formula in double, whose own gradients are checked by finite differences; and
 * with numbers that are not finite where no query may look. */
#include "attention_case.h"

typedef struct gradients {
  float *dq, *dk, *dv, *table; /* as the kernel leaves them: added to what was there */
} gradients;

static float *scratch_for(const kernel_table *t, size_t head_size)
{
  return filled_floats(t->attention_scratch(head_size), NAN);
}

/* out, lse as fp32 (from the formula), dout at random, gradients at some start value. */
static void prepare(attention_head *h, bool want_table)
{
  double *weights = malloc((h->keys + 1) * sizeof *weights), *slack = malloc((h->keys + 1) * sizeof *slack);
  for (size_t r = 0; r < h->queries; r++) {
    h->lse[r * h->lse_stride] = (float)formula_row(h, r, weights, slack);
    for (size_t c = 0; c < h->head_size; c++) {
      double sum = 0;
      for (size_t j = 0; j < visible_keys(h, r); j++) sum += weights[j] * h->v[j * h->k_stride + c];
      h->out[r * h->out_stride + c] = (float)sum;
    }
  }
  free(weights);
  free(slack);
  h->dout = random_floats(span(h->queries, h->head_size, h->out_stride));
  h->dq = filled_floats(span(h->queries, h->head_size, h->q_stride), 0.5f);
  h->dk = filled_floats(span(h->keys, h->head_size, h->k_stride), 0.5f);
  h->dv = filled_floats(span(h->keys, h->head_size, h->k_stride), 0.5f);
  if (want_table && h->bias == BIAS_DISTANCE && h->keys)
    h->table_grad = filled_floats(largest_distance(h) - least_distance(h) + 1, 0.5f) + largest_distance(h);
}

/* Sums and bounds in double, [rows, d] each. */
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
  sums dq, dk, dv, table; /* table: index = distance */
} formula_gradients;

/* p = exp(s - lse), ds = p (dout.v - dout.out); dq = scale ds k, dk = scale ds q, dv = p dout, dtable = ds. */
static formula_gradients formula(const attention_head *h)
{
  size_t d = h->head_size, n = h->keys > h->queries ? h->keys : h->queries;
  formula_gradients g = {make_sums(h->queries * d, 0.5), make_sums(h->keys * d, 0.5), make_sums(h->keys * d, 0.5),
                         make_sums(h->first + h->queries, 0.5)};
  for (size_t r = 0; r < h->queries; r++) {
    const float *q = h->q + r * h->q_stride, *dout = h->dout + r * h->out_stride;
    double delta_terms, delta = dot_terms(d, h->out + r * h->out_stride, dout, &delta_terms);
    double lse = h->lse[r * h->lse_stride];
    for (size_t j = 0; j < visible_keys(h, r); j++) {
      const float *k = h->k + j * h->k_stride, *v = h->v + j * h->k_stride;
      double slack, dp_terms, s = formula_score(h, r, j, &slack), dp = dot_terms(d, dout, v, &dp_terms);
      double p = exp(s - lse), ds = p * (dp - delta);
      slack += EPS * (fabs(s - lse) + fabs(lse)) + 4 * EPS;
      double ds_slack = fabs(ds) * (slack + 4 * EPS) + p * reduction(d, dp_terms + delta_terms);
      add_term(&g.table, h->first + r - j, ds, ds_slack, n);
      for (size_t c = 0; c < d; c++) {
        add_term(&g.dq, r * d + c, ds * h->scale * k[c], ds_slack * fabs((double)h->scale * k[c]), n);
        add_term(&g.dk, j * d + c, ds * h->scale * q[c], ds_slack * fabs((double)h->scale * q[c]), n);
        add_term(&g.dv, j * d + c, p * dout[c], p * slack * fabs((double)dout[c]), n);
      }
    }
  }
  return g;
}

static void free_formula(formula_gradients g)
{
  free_sums(g.dq);
  free_sums(g.dk);
  free_sums(g.dv);
  free_sums(g.table);
}

static void compare(const char *what, const char *isa, size_t rows, size_t d, const float *found, size_t stride,
                    const sums *s)
{
  for (size_t r = 0; r < rows; r++) {
    for (size_t c = 0; c < d; c++)
      expect_near(what, isa, r * d + c, found[r * stride + c], s->value[r * d + c], s->bound[r * d + c] + 4 * EPS);
    for (size_t c = d; c < stride && r + 1 < rows; c++) assert_true(found[r * stride + c] == 0.5f);
  }
}

static void check_against_formula(const kernel_table *t, attention_head *h, bool want_table)
{
  prepare(h, want_table);
  t->attention_backward(h, scratch_for(t, h->head_size));
  formula_gradients g = formula(h);
  compare("dq", t->name, h->queries, h->head_size, h->dq, h->q_stride, &g.dq);
  compare("dk", t->name, h->keys, h->head_size, h->dk, h->k_stride, &g.dk);
  compare("dv", t->name, h->keys, h->head_size, h->dv, h->k_stride, &g.dv);
  if (h->table_grad)
    for (size_t distance = least_distance(h); distance <= largest_distance(h); distance++)
      expect_near("table", t->name, distance, h->table_grad[-(ptrdiff_t)distance], g.table.value[distance],
                  g.table.bound[distance] + 4 * EPS);
  free_formula(g);
}

static void formula_at_every_head_size(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d <= 130; d++) {
        attention_options o = {.queries = 1 + d % 7, .keys = 3 + d % 11, .first = d % 5, .head_size = d,
                               .bias = (bias_kind)(d % 3), .blocks = d % 2, .gap = d % 4, .spread = 3};
        attention_head h = make_head(&o);
        check_against_formula(t, &h, d % 5 != 0);
        guarded_free();
      }
}

static void check_gradients(const kernel_table *t, const attention_head *h)
{
  attention_head own = *h;
  check_against_formula(t, &own, true);
}

static void formula_around_the_tiles(void **unused)
{
  (void)unused;
  for_shapes_around_the_tiles(check_gradients);
}

/* The loss sum(dout * out) of the formula, entirely in double, with one number moved by `by`. */
typedef struct nudge {
  const float *at;
  double by;
} nudge;

static double nudged(const float *p, nudge n)
{
  return p == n.at ? *p + n.by : *p;
}

static double loss(const attention_head *h, nudge n)
{
  double total = 0;
  double *weights = malloc((h->keys + 1) * sizeof *weights);
  for (size_t r = 0; r < h->queries; r++) {
    size_t end = visible_keys(h, r);
    double sum = 0;
    for (size_t j = 0; j < end; j++) {
      double s = 0;
      for (size_t c = 0; c < h->head_size; c++)
        s += nudged(h->q + r * h->q_stride + c, n) * nudged(h->k + j * h->k_stride + c, n);
      s *= h->scale;
      if (h->bias == BIAS_SLOPE) s -= (double)h->slope * (double)(h->first + r - j);
      if (h->bias == BIAS_DISTANCE) s += nudged(h->table - (ptrdiff_t)(h->first + r - j), n);
      sum += weights[j] = exp(s);
    }
    for (size_t j = 0; j < end; j++)
      for (size_t c = 0; c < h->head_size; c++)
        total += weights[j] / sum * nudged(h->v + j * h->k_stride + c, n) * h->dout[r * h->out_stride + c];
  }
  free(weights);
  return total;
}

static double slope_at(const attention_head *h, const float *at)
{
  double by = 1e-4; /* fourth order: the error is about by^4 */
  return (8 * (loss(h, (nudge){at, by}) - loss(h, (nudge){at, -by})) -
          (loss(h, (nudge){at, 2 * by}) - loss(h, (nudge){at, -2 * by}))) /
         (12 * by);
}

/* The formula's gradients, and with them those of every table, the reference included, are slopes of the loss. */
static void finite_differences(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  for (size_t k = 0; k < kernel_table_count(); k++) {
    const kernel_table *t = kernel_table_at(k);
    if (!t) continue;
    for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++) {
      attention_options o = {
          .queries = 6, .keys = 9, .first = 3, .head_size = 5, .bias = (bias_kind)bias, .spread = 2};
      attention_head h = make_head(&o);
      prepare(&h, true);
      t->attention_backward(&h, scratch_for(t, 5));
      for (size_t c = 0; c < 5; c++) {
        for (size_t r = 0; r < 6; r++)
          expect_near("slope by q", t->name, r * 5 + c, (double)h.dq[r * h.q_stride + c] - 0.5,
                      slope_at(&h, h.q + r * h.q_stride + c), 3e-6);
        for (size_t j = 0; j < 9; j++) {
          expect_near("slope by k", t->name, j * 5 + c, (double)h.dk[j * h.k_stride + c] - 0.5,
                      slope_at(&h, h.k + j * h.k_stride + c), 3e-6);
          expect_near("slope by v", t->name, j * 5 + c, (double)h.dv[j * h.k_stride + c] - 0.5,
                      slope_at(&h, h.v + j * h.k_stride + c), 3e-6);
        }
      }
      for (ptrdiff_t distance = 0; bias == BIAS_DISTANCE && distance <= 8; distance++)
        expect_near("slope by the table", t->name, (size_t)distance, (double)h.table_grad[-distance] - 0.5,
                    slope_at(&h, h.table - distance), 3e-6);
      guarded_free();
    }
  }
}

/* A key that nobody sees may hold anything, and so may a value; its gradients are 0, and nobody else notices. */
static void what_is_hidden_stays_hidden(void **unused)
{
  (void)unused;
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++)
      for (size_t queries = 1; queries < 100; queries += 14) {
        size_t d = 19, keys = 130;
        attention_options o = {
            .queries = queries, .keys = keys, .first = 10, .head_size = d, .bias = (bias_kind)bias, .spread = 4};
        attention_head h = make_head(&o);
        prepare(&h, true);
        t->attention_backward(&h, scratch_for(t, d));
        attention_head p = h;
        float *k = copied_floats(span(keys, d, h.k_stride), h.k),
              *v = copied_floats(span(keys, d, h.k_stride), h.v);
        for (size_t j = 10 + queries; j < keys; j++) {
          k[j * h.k_stride + 5] = poisons[j % 3];
          v[j * h.k_stride + 18] = poisons[j % 3];
        }
        p.k = k;
        p.v = v;
        if (queries % 2) cut_into_blocks(&p);
        p.dq = filled_floats(span(queries, d, h.q_stride), 0.5f);
        p.dk = filled_floats(span(keys, d, h.k_stride), 0.5f);
        p.dv = filled_floats(span(keys, d, h.k_stride), 0.5f);
        if (p.table_grad)
          p.table_grad = filled_floats(largest_distance(&h) - least_distance(&h) + 1, 0.5f) + largest_distance(&h);
        t->attention_backward(&p, scratch_for(t, d));
        expect_bits("dq", t->name, span(queries, d, h.q_stride), p.dq, h.dq);
        expect_bits("dk", t->name, span(keys, d, h.k_stride), p.dk, h.dk);
        expect_bits("dv", t->name, span(keys, d, h.k_stride), p.dv, h.dv);
        if (p.table_grad)
          expect_bits("table", t->name, 10 + queries, p.table_grad - (9 + queries), h.table_grad - (9 + queries));
        for (size_t j = 10 + queries; j < keys; j++)
          for (size_t c = 0; c < d; c++)
            assert_true(p.dk[j * h.k_stride + c] == 0.5f && p.dv[j * h.k_stride + c] == 0.5f);
        guarded_free();
      }
}

/* On the diagonal: a key that is not finite spoils the queries that see it, and no earlier one; a query or a
 * gradient that is not finite spoils the keys that it sees, and no later one. */
static void only_those_who_look_are_spoilt(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t poisoned = 1; poisoned < 80; poisoned += 13) {
      size_t d = 19, n = 80;
      attention_options o = {.queries = n, .keys = n, .head_size = d, .bias = BIAS_SLOPE, .spread = 4};
      attention_head clean = make_head(&o);
      prepare(&clean, false);
      t->attention_backward(&clean, scratch_for(t, d));
      attention_head p = clean;
      float *k = copied_floats(span(n, d, p.k_stride), clean.k);
      k[poisoned * p.k_stride + 2] = NAN;
      p.k = k;
      p.dq = filled_floats(span(n, d, p.q_stride), 0.5f);
      p.dk = filled_floats(span(n, d, p.k_stride), 0.5f);
      p.dv = filled_floats(span(n, d, p.k_stride), 0.5f);
      t->attention_backward(&p, scratch_for(t, d));
      expect_bits("dq of earlier queries", t->name, span(poisoned, d, p.q_stride), p.dq, clean.dq);
      assert_true(isnan(p.dq[poisoned * p.q_stride]));
      float *dout = copied_floats(span(n, d, p.out_stride), clean.dout);
      float *q = copied_floats(span(n, d, p.q_stride), clean.q);
      dout[poisoned * p.out_stride + 2] = INFINITY;
      q[poisoned * p.q_stride + 3] = NAN;
      p = clean;
      p.q = q;
      p.dout = dout;
      p.dq = filled_floats(span(n, d, p.q_stride), 0.5f);
      p.dk = filled_floats(span(n, d, p.k_stride), 0.5f);
      p.dv = filled_floats(span(n, d, p.k_stride), 0.5f);
      t->attention_backward(&p, scratch_for(t, d));
      size_t later = (poisoned + 1) * p.k_stride;
      expect_bits("dk of later keys", t->name, span(n - poisoned - 1, d, p.k_stride), p.dk + later,
                  clean.dk + later);
      expect_bits("dv of later keys", t->name, span(n - poisoned - 1, d, p.k_stride), p.dv + later,
                  clean.dv + later);
      assert_true(!isfinite(p.dv[poisoned * p.k_stride + 2]));
      guarded_free();
    }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formula_at_every_head_size),
      cmocka_unit_test(formula_around_the_tiles),
      cmocka_unit_test(finite_differences),
      cmocka_unit_test(what_is_hidden_stays_hidden),
      cmocka_unit_test(only_those_who_look_are_spoilt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
