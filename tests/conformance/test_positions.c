/* What every position method and every extension must keep, for each row of the two registries: the tables are the
 * formula, what is said to be relative is, what is said to decay does, far positions are finite, a longer plan
 * begins as a shorter one, slopes hold to both sides where attention looks to both.  A new row is tested here
 * before it has a test of its own; its gradients in test_position_gradients.c, its settings in
 * test_position_settings.c, whole models with it in test_position_models.c. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/attention.h"
#include "base/random.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "conformance/position_subject.h"

/* ---- tables and formulas ---- */

/* What a pair's bias may be off by.  A function of rows computes in float; tables hold a rounded number, slopes
 * make a product of one; a formula may leave a rounding error of its terms where they cancel. */
static double bias_tolerance(const position_plan *plan, double expected)
{
  if (plan->bias == BIAS_ROWS) return 2e-5 * (1 + fabs(expected));
  return 2 * FLT_EPSILON * fabs(expected) + 1e-14;
}

static void check_pair(const subject *s, size_t layer, size_t h, size_t i, size_t j)
{
  const position_plan *plan = &s->tables.plan;
  if (s->method->bias) {
    double expected = s->method->bias(&s->request, layer, h, i, j);
    assert_close(s, "bias", subject_bias(plan, layer, h, i, j), expected, bias_tolerance(plan, expected));
  }
  if (s->method->factor) {
    double expected = s->method->factor(&s->request, layer, h, i, j);
    assert_close(s, "factor", subject_factor(plan, layer, h, i, j), expected, FLT_EPSILON * fabs(expected));
  }
}

static void check_scores(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  size_t last = plan->length - 1, queries[] = {last, last / 2, last / 3, 0};
  assert_true(plan->sets == 1 || plan->sets == LAYERS);
  assert_int_equal(subject_has_bias(plan), s->method->bias != NULL);
  assert_int_equal(plan->factors != NULL, s->method->factor != NULL);
  assert_true(!plan->factors || plan->bias == BIAS_DISTANCE);
  assert_true(!plan->gated || plan->bias == BIAS_KEY);
  for (size_t layer = 0; layer < LAYERS; layer++)
    for (size_t h = 0; h < HEADS; h++)
      for (size_t q = 0; q < sizeof queries / sizeof queries[0]; q++)
        for (size_t j = 0; j <= queries[q]; j++) check_pair(s, layer, h, queries[q], j);
}

/* A function of rows gives the same bits however a row is cut. */
static void check_pieces(const subject *s)
{
  static const size_t cuts[] = {1, 5, 64};
  const position_plan *plan = &s->tables.plan;
  float whole[LONG], pieces[LONG];
  if (plan->bias != BIAS_ROWS) return;
  for (size_t h = 0; h < HEADS; h++)
    for (size_t i = 0; i < plan->length; i += 23)
      for (size_t c = 0; c < 3; c++) {
        plan->rows.bias(plan->rows.user, (int)h, (int64_t)i, 0, (int64_t)i + 1, whole);
        for (size_t j = 0; j <= i; j += cuts[c]) {
          size_t count = i + 1 - j < cuts[c] ? i + 1 - j : cuts[c];
          plan->rows.bias(plan->rows.user, (int)h, (int64_t)i, (int64_t)j, (int64_t)count, pieces + j);
        }
        assert_memory_equal(whole, pieces, (i + 1) * sizeof(float));
      }
}

static void check_turn(const subject *s, bool key, const float *cosine, const float *sine)
{
  size_t half = s->tables.plan.rotary / 2;
  for (size_t i = 0; i < s->tables.plan.length; i++)
    for (size_t p = 0; p < half; p++) {
      double magnitude = 1, angle = s->method->angle(&s->request, key, p, i, &magnitude);
      double tolerance = FLT_EPSILON * fabs(magnitude);
      assert_close(s, key ? "cosine of a key" : "cosine", cosine[i * half + p], magnitude * cos(angle), tolerance);
      assert_close(s, key ? "sine of a key" : "sine", sine[i * half + p], magnitude * sin(angle), tolerance);
    }
}

static void check_rotation(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  bool own = plan->key_cosine != NULL;
  assert_int_equal(plan->rotary != 0, s->method->angle != NULL);
  assert_true(plan->rotary % 2 == 0 && plan->rotary <= HEAD_SIZE);
  assert_int_equal(own, plan->key_sine != NULL);
  assert_true(plan->rotary != 0 || !own);
  if (!s->method->angle) return;
  check_turn(s, false, plan->cosine, plan->sine);
  check_turn(s, true, own ? plan->key_cosine : plan->cosine, own ? plan->key_sine : plan->sine);
}

static void check_embedding(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  assert_int_equal(plan->embedding != NULL, s->method->embedding != NULL);
  if (!s->method->embedding) return;
  for (size_t i = 0; i < plan->length; i++)
    for (size_t c = 0; c < WIDTH; c++) {
      double expected = s->method->embedding(&s->request, i, c);
      assert_close(s, "embedding", plan->embedding[i * WIDTH + c], expected,
                   FLT_EPSILON * fmax(1, fabs(expected)));
    }
}

static void check_tables(subject *s)
{
  subject_prepare(s, subject_at_most(s, LONG));
  assert_true(s->tables.plan.length == subject_at_most(s, LONG));
  check_scores(s);
  check_pieces(s);
  check_rotation(s);
  check_embedding(s);
}

static void tables_are_the_formula(void **unused)
{
  (void)unused;
  static const size_t train_lengths[] = {10, 64, 300, 2048};
  size_t varied = 0;
  for (size_t n = 0; n < position_row_count() * VARY_KINDS; n++)
    for (size_t k = 0; k < sizeof train_lengths / sizeof train_lengths[0]; k++) {
      subject s;
      vary_kind kind = (vary_kind)(n % VARY_KINDS);
      size_t changes = subject_open_varied(&s, n / VARY_KINDS, train_lengths[k], kind);
      varied += changes;
      if (kind == VARY_NOTHING || changes > 0) check_tables(&s);
      subject_close(&s);
    }
  assert_true(varied > 100);
}

/* ---- relative or not ---- */

/* Channel c of a query or key of head h that is the same at every position. */
static double turned(const position_plan *plan, uint64_t seed, size_t h, size_t c, size_t i, bool key)
{
  size_t half = plan->rotary / 2;
  const float *cosine = key && plan->key_cosine ? plan->key_cosine : plan->cosine;
  const float *sine = key && plan->key_sine ? plan->key_sine : plan->sine;
  double x = random_normal(seed, h, c);
  if (c >= plan->rotary) return x;
  bool first = plan->adjacent ? c % 2 == 0 : c < half;
  size_t p = plan->adjacent ? c / 2 : c % half, distance = plan->adjacent ? 1 : half;
  double other = random_normal(seed, h, first ? c + distance : c - distance);
  return x * (double)cosine[i * half + p] + (first ? -1 : 1) * other * (double)sine[i * half + p];
}

/* The score as the model would compute it; what a window hides is -infinity. */
static double score(const position_plan *plan, size_t layer, size_t h, size_t i, size_t j)
{
  double sum = 0;
  if (plan->window && i - j >= plan->window) return -INFINITY;
  for (size_t c = 0; c < HEAD_SIZE; c++) sum += turned(plan, 2, h, c, i, false) * turned(plan, 3, h, c, j, true);
  if (plan->row_scale)
    sum *= plan->row_scale[(plan->row_scale_sets > 1 ? layer * HEADS + h : h) * plan->length + i];
  sum /= sqrt(HEAD_SIZE);
  return sum * subject_factor(plan, layer, h, i, j) + subject_bias(plan, layer, h, i, j);
}

/* Largest change of a score when both positions move. */
static double largest_change(const position_plan *plan)
{
  static const size_t shifts[] = {1, 17, 64, 200};
  double largest = 0;
  for (size_t k = 0; k < 4; k++)
    for (size_t layer = 0; layer < LAYERS; layer++)
      for (size_t h = 0; h < HEADS; h++)
        for (size_t i = 0; i < 100 && i + shifts[k] < plan->length; i += 7)
          for (size_t j = 0; j <= i; j += 5) {
            double here = score(plan, layer, h, i, j), there = score(plan, layer, h, i + shifts[k], j + shifts[k]);
            if (isinf(here) && here == there) continue;
            double change = fabs(here - there) / (1 + fabs(here));
            if (!(change <= largest)) largest = change;
          }
  return largest;
}

static void relative_methods_do_not_see_a_shift(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    subject_prepare(&s, subject_at_most(&s, LONG));
    const position_plan *plan = &s.tables.plan;
    double change = largest_change(plan);
    if (s.method->relative) {
      if (plan->embedding || plan->gated || !(change <= 1e-5))
        fail_msg("%s: not relative: a shift changes a score by %g", s.name, change);
    } else if (plan->embedding) {
      assert_memory_not_equal(plan->embedding, plan->embedding + WIDTH, WIDTH * sizeof(float));
    } else if (!plan->gated && !(change > 1e-3)) {
      fail_msg("%s: relative after all: a shift changes no score by more than %g", s.name, change);
    }
    subject_close(&s);
  }
}

/* ---- what lets keys be skipped ---- */

/* 0 where the bias is the same at all distances, 1 where it falls from key to key; else fails. */
static bool falls(const subject *s, size_t layer, size_t h)
{
  const position_plan *plan = &s->tables.plan;
  size_t last = plan->length - 1;
  bool flat = subject_bias(plan, layer, h, last, 0) == subject_bias(plan, layer, h, last, last);
  for (size_t j = 1; j < plan->length; j++) {
    float near = subject_bias(plan, layer, h, last, j), far = subject_bias(plan, layer, h, last, j - 1);
    if (flat ? far != near : !(far < near))
      fail_msg("%s: layer %zu, head %zu: the bias does not fall at distance %zu", s->name, layer, h, last - j + 1);
  }
  return !flat;
}

/* A method marked as decaying lets far keys be skipped: on some head its bias falls without end, so that far keys
 * weigh less than a rounding error within reach; on the others it may only be constant. */
static void decaying_methods_decay(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    subject_prepare(&s, subject_at_most(&s, LONG));
    bool some = false, far = false;
    bool decays = s.method->decays && !s.tables.plan.gated; /* gates: in the tests of models */
    for (size_t n = 0; n < LAYERS * HEADS && decays; n++) some |= falls(&s, n / HEADS, n % HEADS);
    if (decays && !some) fail_msg("%s: the bias falls on no head", s.name);
    size_t length = 64 * 64;
    if (decays) subject_prepare(&s, length);
    for (size_t n = 0; n < LAYERS * HEADS && decays; n++)
      far |= subject_bias(&s.tables.plan, n / HEADS, n % HEADS, length - 1, 0) < -24 * 0.693147f;
    if (decays && !far) fail_msg("%s: no head's bias is below 2^-24 at 64 times the trained length", s.name);
    subject_close(&s);
  }
}

/* ---- far positions, longer plans, extensions ---- */

static bool all_finite(const float *x, size_t count)
{
  for (size_t i = 0; x && i < count; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

static void far_positions_are_finite(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 128);
    size_t length = subject_at_most(&s, 64 * 128);
    subject_prepare(&s, length);
    const position_plan *plan = &s.tables.plan;
    size_t angles = length * plan->rotary / 2, heads = plan->sets * HEADS;
    assert_true(isfinite(plan->embedding_scale));
    assert_true(all_finite(plan->embedding, length * WIDTH));
    assert_true(all_finite(plan->cosine, angles) && all_finite(plan->sine, angles));
    assert_true(all_finite(plan->key_cosine, angles) && all_finite(plan->key_sine, angles));
    assert_true(all_finite(plan->table, heads * length) && all_finite(plan->factors, heads * length));
    assert_true(all_finite(plan->row_scale, plan->row_scale_sets * HEADS * length));
    for (size_t n = 0; n < LAYERS * HEADS; n++)
      for (size_t i = 0; i < length; i += 97)
        if (!isfinite(subject_bias(plan, n / HEADS, n % HEADS, length - 1, i)))
          fail_msg("%s: layer %zu, head %zu: the bias at distance %zu is not finite", s.name, n / HEADS, n % HEADS,
                   length - 1 - i);
    subject_close(&s);
  }
}

static bool same(const float *a, const float *b, size_t count)
{
  return !a == !b && (!a || memcmp(a, b, count * sizeof(float)) == 0);
}

/* Up to the shorter one's length. */
static bool same_start(const position_plan *x, const position_plan *y)
{
  size_t length = x->length < y->length ? x->length : y->length, angles = length * x->rotary / 2;
  if (x->embedding_scale != y->embedding_scale) return false;
  if (x->rotary != y->rotary || x->bias != y->bias || x->sets != y->sets || x->window != y->window) return false;
  if (!same(x->embedding, y->embedding, length * WIDTH)) return false;
  if (!same(x->cosine, y->cosine, angles) || !same(x->sine, y->sine, angles)) return false;
  if (!same(x->key_cosine, y->key_cosine, angles) || !same(x->key_sine, y->key_sine, angles)) return false;
  for (size_t n = 0; n < LAYERS * HEADS; n++)
    for (size_t t = 0; t < length; t++) {
      size_t layer = n / HEADS, h = n % HEADS;
      if (subject_bias(x, layer, h, t, 0) != subject_bias(y, layer, h, t, 0)) return false;
      if (subject_factor(x, layer, h, t, 0) != subject_factor(y, layer, h, t, 0)) return false;
    }
  return true;
}

/* A model read with room for more text is the same model. */
static void a_longer_plan_begins_with_the_shorter(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_method_count(); row++) {
    subject a, b;
    subject_open(&a, row, 64);
    subject_open(&b, row, 64);
    subject_prepare(&a, 50);
    subject_prepare(&b, subject_at_most(&b, LONG));
    if (!same_start(&a.tables.plan, &b.tables.plan)) fail_msg("%s: a longer plan is another", a.name);
    subject_close(&a);
    subject_close(&b);
  }
}

static void extensions_leave_the_trained_length_alone(void **unused)
{
  (void)unused;
  for (size_t row = position_method_count(); row < position_row_count(); row++) {
    subject plain, extended;
    subject_open(&extended, row, 64);
    size_t base = 0;
    while (position_method_at(base) != extended.method) base++;
    subject_open(&plain, base, 64);
    for (size_t length = 1; length <= 64 && extended.request.extension->keeps_trained; length += 9) {
      subject_prepare(&plain, length);
      subject_prepare(&extended, length);
      if (!same_start(&plain.tables.plan, &extended.tables.plan))
        fail_msg("%s: expected the plan of %s at length %zu, found another", extended.name, plain.name, length);
    }
    subject_prepare(&extended, 65);
    if (subject_at_most(&plain, 65) == 65) subject_prepare(&plain, 65);
    else assert_int_equal(extended.tables.plan.length, 65); /* there is no other to compare with */
    if (plain.tables.plan.length == 65) assert_int_equal(extended.tables.plan.window, plain.tables.plan.window);
    if (plain.tables.plan.length == 65 && same_start(&plain.tables.plan, &extended.tables.plan))
      fail_msg("%s: expected another plan than that of %s at length 65", extended.name, plain.name);
    subject_close(&plain);
    subject_close(&extended);
  }
}

/* ---- both sides ---- */

enum { BOTH = 40 }; /* queries, keys and channels */

/* Queries of 0 and values that name their key: an output is the weight of a key, a softmax of biases alone. */
static void attend_to_all(alibi_context *context, const double *slopes, float *weights)
{
  static const float nothing[BOTH * HEADS * BOTH];
  static float values[BOTH * BOTH];
  alibi_attention a;
  alibi_error error;
  for (size_t j = 0; j < BOTH; j++) values[j * BOTH + j] = 1;
  alibi_attention_init(&a);
  a.queries = a.keys = a.head_size = BOTH;
  a.heads = HEADS, a.kv_heads = 1, a.causal = 0;
  a.q.data = a.k.data = nothing, a.v.data = values, a.out.data = weights;
  a.bias.kind = ALIBI_BIAS_SLOPE, a.bias.slopes = slopes;
  if (alibi_attention_forward(context, &a, NULL, 0, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

/* Models are decoders; the operator is not: there the formula holds with |i - j|. */
static void check_both_sides(const subject *s, alibi_context *context, size_t layer)
{
  static float weights[BOTH * HEADS * BOTH];
  double slopes[HEADS];
  for (size_t h = 0; h < HEADS; h++) slopes[h] = s->tables.plan.slopes[subject_head(&s->tables.plan, layer, h)];
  attend_to_all(context, slopes, weights);
  for (size_t i = 0; i < BOTH; i++)
    for (size_t h = 0; h < HEADS; h++) {
      double bias[BOTH], sum = 0;
      for (size_t j = 0; j < BOTH; j++) {
        bias[j] = s->method->bias(&s->request, layer, h, i > j ? i : j, i > j ? j : i);
        sum += exp(bias[j]);
      }
      for (size_t j = 0; j < BOTH; j++) {
        double expected = exp(bias[j]) / sum;
        assert_close(s, "weight to both sides", weights[(i * HEADS + h) * BOTH + j], expected,
                     4 * FLT_EPSILON * (2 - bias[j]) * expected + FLT_MIN);
      }
    }
}

static void slopes_hold_to_both_sides(void **unused)
{
  (void)unused;
  alibi_context *context;
  alibi_context_options options;
  alibi_error error;
  size_t rows = 0;
  alibi_context_options_init(&options);
  options.threads = 1;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 10);
    subject_prepare(&s, subject_at_most(&s, BOTH));
    bool slopes = s.tables.plan.bias == BIAS_SLOPE;
    rows += slopes;
    for (size_t layer = 0; layer < LAYERS && slopes; layer++) check_both_sides(&s, context, layer);
    subject_close(&s);
  }
  assert_true(rows >= 12); /* alibi, nape, alibi-learned, and each with three extensions */
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_the_formula),
      cmocka_unit_test(relative_methods_do_not_see_a_shift),
      cmocka_unit_test(decaying_methods_decay),
      cmocka_unit_test(far_positions_are_finite),
      cmocka_unit_test(a_longer_plan_begins_with_the_shorter),
      cmocka_unit_test(extensions_leave_the_trained_length_alone),
      cmocka_unit_test(slopes_hold_to_both_sides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
