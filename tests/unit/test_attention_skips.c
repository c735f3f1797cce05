/* Attention that skips where a bound is easily got wrong: caps that lift negative scores, tables that do not hold
 * distance 0, and the cap's own function. */
#include "unit/attention_expect.h"

/* What is not visited weighs no more than reported, and that is within the tolerance; the rest is the formula, as
 * are the gradients of what was visited. */
static void expect_proven(call *c)
{
  call_forward(c);
  formula visited = formula_of(&c->a, &c->g.dout, c->a.visited), all = formula_of(&c->a, NULL, NULL);
  call_expect_report(c, &visited);
  call_expect_outputs(c, &visited, 0);
  call_expect("out with skipping", &c->out, NULL, &all.out, c->report.bound * call_largest(&c->v));
  call_gradients before = call_gradients_copy(c);
  call_backward(c);
  call_expect_gradients(c, &visited, &before);
  formula_free(&visited);
  formula_free(&all);
}

/* ---- a cap lifts what is below 0 ---- */

/* Products of about -30 become -5 under a cap of 5, near and far: a bound by the products themselves would let
 * nearly all far keys go. */
static void a_cap_lifts_negative_scores(void **unused)
{
  (void)unused;
  static const double slopes[] = {1.0 / 256, 1.0 / 64};
  static const alibi_bias_kind kinds[] = {ALIBI_BIAS_SLOPE, ALIBI_BIAS_DISTANCE, ALIBI_BIAS_DISTANCE,
                                          ALIBI_BIAS_KEY};
  for (size_t k = 0; k < 4; k++)
    for (int nearer = 0; nearer < 2; nearer++)
      for (int sides = 0; sides < 2; sides++) {
        call_options o = call_defaults();
        snprintf(call_name, sizeof call_name, "a cap, bias %zu, nearer %d, sides %d", k, nearer, sides);
        o.heads = 2;
        o.size = 4;
        o.queries = 2;
        o.keys = 8000;
        o.both_sides = sides;
        o.offset = sides ? 4000 : ALIBI_BOTTOM_RIGHT;
        o.bias = kinds[k];
        o.factor = k == 2;
        o.slopes = slopes;
        o.scale = 1;
        o.cap = 5;
        o.tolerance = ALIBI_TOLERANCE;
        call *c = call_new(&o);
        for (int64_t r = 0; r < 2; r++)
          for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++) call_at(&c->q, r, h)[i] = 1;
        for (int64_t j = 0; j < o.keys; j++)
          for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++) /* nearer keys may be lower still: -7.5 is -30 of four */
              call_at(&c->k, j, h)[i] = nearer && llabs(formula_distance(&c->a, 0, 0, j)) < 200 ? -20 : -7.5f;
        for (int h = 0; h < 2; h++) {
          for (int64_t e = 0; k == 1 || k == 2 ? e < c->a.bias.distances : false; e++) {
            float t = (float)llabs(c->a.bias.lowest + e);
            call_floats(c->a.bias.added)[h * c->a.bias.distances + e] = (float)(-slopes[h] * (double)t);
            if (k == 2) call_floats(c->a.bias.factor)[h * c->a.bias.distances + e] = 1;
          }
          for (int64_t j = 0; k == 3 && j < o.keys; j++)
            call_doubles(c->a.bias.offsets)[j * 2 + h] =
                -slopes[h] * (double)llabs(formula_distance(&c->a, 0, 0, j));
          if (k == 3) c->a.bias.query_offsets = NULL;
        }
        expect_proven(c);
        if (call_skips()) assert_true(c->report.pairs_visited < c->report.pairs_visible);
        call_free_all();
      }
}

/* ---- tables without distance 0 ---- */

/* Queries far beyond the last key, or, where both sides are seen, far before the first: a table as long as what is
 * seen begins at a large distance.  It lies in memory of just its size. */
static void tables_that_begin_far_away(void **unused)
{
  (void)unused;
  static const int64_t starts[] = {700, 720, 5000, 100000, 10000000};
  for (size_t n = 0; n < sizeof starts / sizeof starts[0]; n++)
    for (int mask = 0; mask < 16; mask++) {
      bool before = mask & 1, factor = mask & 2, positions = mask & 4, cap = mask & 8;
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "a table from %lld, options %d", (long long)starts[n], mask);
      o.heads = 2;
      o.queries = 20;
      o.keys = 700;
      o.offset = before ? -starts[n] : starts[n];
      o.positions = positions;
      o.query_shift = before ? -starts[n] : 3 * starts[n];
      o.both_sides = before;
      o.bias = ALIBI_BIAS_DISTANCE;
      o.factor = factor;
      o.cap = cap ? 3 : 0;
      o.tolerance = ALIBI_TOLERANCE;
      o.seed = n;
      call *c = call_new(&o);
      alibi_bias *b = &c->a.bias;
      for (int64_t e = 0; e < b->distances * o.heads; e++) {
        int64_t t = e % b->distances, from_nearest = before ? b->distances - 1 - t : t;
        call_floats(b->added)[e] = -0.25f * (float)from_nearest;
        if (factor) call_floats(b->factor)[e] *= 0.5f;
      }
      assert_true(before ? b->lowest + b->distances - 1 < 0 : b->lowest > 0);
      expect_proven(c);
      if (call_skips() && !(c->report.pairs_visited * 4 < c->report.pairs_visible * 3))
        fail_msg("%s: expected less than 3/4 of %lld pairs, found %lld", call_name,
                 (long long)c->report.pairs_visible, (long long)c->report.pairs_visited);
      call_free_all();
    }
}

/* ---- the cap's function ---- */

static double unit_in_last_place(double x)
{
  int exponent;
  frexp(fmax(fabs(x), (double)FLT_MIN), &exponent);
  return ldexp(1, exponent - FLT_MANT_DIG);
}

static void a_cap_is_tanh_on(const char *isa)
{
  call_options o = call_defaults();
  snprintf(call_name, sizeof call_name, "tanh, %s", isa);
  o.heads = o.size = 1;
  o.queries = o.keys = 8000;
  o.window = 1;
  o.bias = ALIBI_BIAS_NONE;
  o.scale = o.cap = 1;
  call *c = call_new(&o);
  for (int64_t r = 0; r < o.queries; r++) { /* every size from 2^-20 to 12, closely around 1/2 */
    float x = (float)(exp2(-20 + 23.6 * (double)(r / 2) / 4000) * (r % 2 ? -1 : 1));
    if (r >= 7600) x = 0.5f + (float)(r - 7800) * 0x1p-24f;
    *call_at(&c->q, r, 0) = x;
    *call_at(&c->k, r, 0) = 1;
  }
  *call_at(&c->q, 0, 0) = 0;
  *call_at(&c->q, 1, 0) = FLT_MAX;
  *call_at(&c->q, 2, 0) = -FLT_MAX;
  call_forward(c);
  for (int64_t r = 0; r < o.queries; r++) {
    double x = (double)*call_at(&c->q, r, 0), expected = tanh(x), found = (double)c->a.lse[r];
    if (!(fabs(found - expected) <= 4 * unit_in_last_place(expected)))
      fail_msg("%s: of %.9g: expected %.9g, found %.9g, off by %.2f units", call_name, x, expected, found,
               fabs(found - expected) / unit_in_last_place(expected));
  }
  call_free_all();
}

/* A row that sees one key has its score as log-sum-exp: with a cap of 1, tanh of any number. */
static void a_cap_is_tanh_to_four_units(void **unused)
{
  (void)unused;
  call_on_every_isa(a_cap_is_tanh_on);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cap_lifts_negative_scores),
      cmocka_unit_test(tables_that_begin_far_away),
      cmocka_unit_test(a_cap_is_tanh_to_four_units),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
