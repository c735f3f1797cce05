/* Exponential, activations, sums, rotation and the optimiser: against formulas in double.  Promised, exactly:
 *
 *   exp            4 ulp of max(y, 2^-126); a true 0 from -104 down
 *   GELU (erf)     4 ulp of y, 8 ulp for x < -1, also far out where y is almost nothing (of 2^-126 at least)
 *   GELU (tanh)    4 ulp of y, 8 ulp of max(|y|, |x| / 16) for x < -1
 *   SiLU           4 ulp of y, 8 ulp for x < -1 (of |x| 2^-126 at least)
 *   their slopes   8 ulp of the sum of their terms' magnitudes (tanh for x < -1: of |x| / 16 at least)
 *   SwiGLU         8 ulp of y; its gradients 8 ulp of the sum of their terms' magnitudes
 *   add, rotate, adamw: 4 ulp of the sum of magnitudes
 */
#include "kernel_test.h"

static const size_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 1000};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], SWEEP = 1 << 16 };

static float *sweep(double from, double to)
{
  float *x = guarded_floats(SWEEP);
  for (size_t i = 0; i < SWEEP; i++) x[i] = (float)(from + (to - from) * (double)i / (SWEEP - 1));
  return x;
}

static void exponential(void **unused)
{
  (void)unused;
  static const double ranges[][2] = {{-1, 1}, {-20, 0}, {-90, 90}, {-104.5, -86}, {88, 89}, {-1e-6, 1e-6}};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 6; k++) {
      float *x = sweep(ranges[k][0], ranges[k][1]), *y = guarded_floats(SWEEP);
      t->exp(SWEEP, x, y);
      for (size_t i = 0; i < SWEEP; i++) {
        double expected = exp(x[i]);
        if ((float)expected == INFINITY) expected = INFINITY;
        expect_near("exp", t->name, i, y[i], expected, 4 * ulp(expected));
      }
      guarded_free();
    }
}

static void exponential_at_the_ends(void **unused)
{
  (void)unused;
  float x[16] = {0,       -0.0f, -INFINITY, INFINITY, NAN,  -104,   -1e30f, -FLT_MAX,
                 FLT_MAX, 89,    FLT_MIN,   -FLT_MIN, -103, 88.72f, -NAN,   1};
  float y[16];
  FOR_EACH_TABLE(t) {
    t->exp(16, x, y);
    assert_true(y[0] == 1 && y[1] == 1);
    assert_true(y[2] == 0 && y[5] == 0 && y[6] == 0 && y[7] == 0);
    assert_true(y[3] == INFINITY && y[8] == INFINITY && y[9] == INFINITY);
    assert_true(isnan(y[4]) && isnan(y[14]));
    assert_true(y[10] == 1 && y[11] == 1);
    assert_true(y[12] > 0 && y[12] < FLT_MIN); /* a denormal, not flushed */
    assert_true(isfinite(y[13]) && y[13] > 3e38f);
  }
}

static const activation_kind plain_kinds[] = {ACTIVATION_GELU_ERF, ACTIVATION_GELU_TANH, ACTIVATION_SILU,
                                              ACTIVATION_RELU};
static const activation_kind gated_kinds[] = {ACTIVATION_SWIGLU, ACTIVATION_GEGLU, ACTIVATION_GEGLU_TANH,
                                              ACTIVATION_REGLU};
enum { KINDS = sizeof plain_kinds / sizeof plain_kinds[0] };

static double formula(activation_kind kind, double x, double *slope, double *slope_terms)
{
  if (kind == ACTIVATION_RELU) {
    *slope = *slope_terms = x > 0;
    return x > 0 ? x : 0;
  }
  if (kind == ACTIVATION_SILU) {
    double gate = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));
    *slope = gate + x * gate * rest;
    *slope_terms = gate + fabs(x) * gate * rest;
    return x * gate;
  }
  if (kind == ACTIVATION_GELU_ERF) {
    double phi = 0.5 * erfc(-x / sqrt(2.0)), density = exp(-0.5 * x * x) / sqrt(2 * acos(-1.0));
    *slope = phi + x * density;
    *slope_terms = phi + fabs(x) * density;
    return x * phi;
  }
  double c = sqrt(2 / acos(-1.0)), u = c * (x + 0.044715 * x * x * x), gate = 0.5 * (1 + tanh(u));
  if (u < -3) gate = exp(2 * u) / (1 + exp(2 * u)); /* 1 + tanh has no digits left there */
  double second = x * gate * (1 - gate) * 2 * c * (1 + 3 * 0.044715 * x * x);
  *slope = gate + second;
  *slope_terms = gate + fabs(second);
  return x * gate;
}

/* Below it a value has lost digits that nobody misses. */
static double least_of(activation_kind kind, double x)
{
  if (kind == ACTIVATION_SILU) return fabs(x) * FLT_MIN;
  return kind == ACTIVATION_GELU_TANH && x < -1 ? fabs(x) / 16.0 : 0;
}

static void activations(void **unused)
{
  (void)unused;
  static const double ranges[][2] = {{-1, 1}, {-6, 6}, {-15, 15}, {-14.5, -12}, {-1e-3, 1e-3}, {-100, 100}};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t kind = 0; kind < KINDS; kind++)
      for (size_t k = 0; k < 6; k++) {
        float *x = sweep(ranges[k][0], ranges[k][1]), *y = guarded_floats(SWEEP), *dy = random_floats(SWEEP),
              *dx = guarded_floats(SWEEP);
        t->activation_forward(plain_kinds[kind], SWEEP, x, y);
        t->activation_backward(plain_kinds[kind], SWEEP, x, dy, dx, NULL);
        for (size_t i = 0; i < SWEEP; i++) {
          double slope, terms, value = formula(plain_kinds[kind], x[i], &slope, &terms);
          double least = least_of(plain_kinds[kind], x[i]);
          double allowed = x[i] < -1 ? 8 : 4;
          expect_near("activation", t->name, i, y[i], value, allowed * ulp(fmax(fabs(value), least)));
          terms = fmax(terms, least);
          expect_near("its slope", t->name, i, dx[i], dy[i] * slope, 8 * ulp(fabs(dy[i]) * terms));
        }
        guarded_free();
      }
}

static void activations_at_the_ends(void **unused)
{
  (void)unused;
  float x[4] = {0, NAN, 50, -50}, one[4] = {1, 1, 1, 1}, y[4], dx[4];
  FOR_EACH_TABLE(t)
    for (size_t i = 0; i < KINDS; i++) {
      activation_kind kind = plain_kinds[i];
      t->activation_forward(kind, 4, x, y);
      t->activation_backward(kind, 4, x, one, dx, NULL);
      double least = kind == ACTIVATION_SILU ? 1e-20 : 0; /* it falls more slowly */
      if (kind == ACTIVATION_RELU) {
        assert_true(y[0] == 0 && isnan(y[1]) && y[2] == 50 && y[3] == 0);
        assert_true(dx[0] == 0 && dx[2] == 1 && dx[3] == 0);
        continue;
      }
      assert_true(y[0] == 0 && isnan(y[1]) && y[2] == 50 && y[3] <= 0 && fabs(y[3]) <= least);
      assert_true(fabsf(dx[0] - 0.5f) <= FLT_EPSILON && isnan(dx[1]) && dx[2] == 1 && fabs(dx[3]) <= least);
    }
}

static void gated_activation_of(activation_kind kind)
{
  static const double ranges[][2] = {{-1, 1}, {-15, 15}, {-100, 100}};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 3; k++) {
      float *gate = sweep(ranges[k][0], ranges[k][1]), *value = random_floats(SWEEP), *dy = random_floats(SWEEP);
      float *y = guarded_floats(SWEEP), *dgate = guarded_floats(SWEEP), *dvalue = guarded_floats(SWEEP);
      t->activation_gate(kind, SWEEP, gate, value, y);
      t->activation_gate_backward(kind, SWEEP, gate, value, dy, dgate, dvalue, NULL);
      for (size_t i = 0; i < SWEEP; i++) {
        activation_kind own = activation_of_gate(kind);
        double slope, terms, through = formula(own, gate[i], &slope, &terms), d = dy[i];
        double least = least_of(own, gate[i]);
        double factor = own == ACTIVATION_SILU ? 1 : fmax(fabs(value[i]), fabs(d)); /* of what was lost */
        expect_near("a gated activation", t->name, i, y[i], through * value[i],
                    8 * ulp(fmax(fabs(through * value[i]), least * factor)) + 4 * FLT_TRUE_MIN);
        expect_near("gradient of a gate", t->name, i, dgate[i], d * value[i] * slope,
                    8 * ulp(fmax(fabs(d * value[i] * terms), least)) + 4 * FLT_TRUE_MIN);
        expect_near("gradient of a value", t->name, i, dvalue[i], d * through,
                    8 * ulp(fmax(fabs(d * through), least * factor)) + 4 * FLT_TRUE_MIN);
      }
      guarded_free();
    }
}

static void gated_activation(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < KINDS; i++) gated_activation_of(gated_kinds[i]);
}

/* Gradients over the values, values over the gradients. */
static void activations_in_place(const kernel_table *t, size_t n, const float *x)
{
  for (size_t i = 0; i < KINDS; i++) {
    activation_kind kind = plain_kinds[i];
    float *dy = random_floats(n), *dx = guarded_floats(n), *y = guarded_floats(n);
    float *x2 = copied_floats(n, x), *dy2 = copied_floats(n, dy);
    t->activation_backward(kind, n, x, dy, dx, y);
    t->activation_backward(kind, n, x2, dy2, x2, dy2);
    expect_bits("slope in place", t->name, n, x2, dx);
    expect_bits("activation in place", t->name, n, dy2, y);
  }
}

static void gates_and_edges(const kernel_table *t, activation_kind kind, size_t n, const float *x)
{
  float *y = guarded_floats(n), *z = guarded_floats(n), *again = guarded_floats(n), *value = random_floats(n);
  float *dvalue = guarded_floats(n), parts[3];
  t->activation_gate(kind, n, x, value, y);
  t->activation_gate_backward(kind, n, x, value, y, z, dvalue, again);
  expect_bits("gated activation made again", t->name, n, again, y);
  for (size_t i = 0; i < n; i++) {
    t->activation_gate_backward(kind, 1, x + i, value + i, y + i, parts, parts + 1, parts + 2);
    expect_bits("gradient of a gate alone", t->name, 1, z + i, parts);
    expect_bits("gradient of a value alone", t->name, 1, dvalue + i, parts + 1);
    expect_bits("gated activation alone", t->name, 1, y + i, parts + 2);
  }
  float *x2 = copied_floats(n, x), *value2 = copied_floats(n, value), *y2 = copied_floats(n, y);
  t->activation_gate_backward(kind, n, x2, value2, y2, x2, value2, y2);
  expect_bits("gradient of gates in place", t->name, n, x2, z);
  expect_bits("gradient of values in place", t->name, n, value2, dvalue);
  expect_bits("gated activation in place", t->name, n, y2, again);
}

/* Every length, both edges: values, and the same bits for an element wherever it stands. */
static void lengths_and_edges(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < LENGTHS; k++) {
        size_t n = lengths[k];
        float *x = random_floats(n), *y = guarded_floats(n), *z = guarded_floats(n), one;
        float *again = guarded_floats(n);
        t->exp(n, x, y);
        for (size_t i = 0; i < n; i++) {
          t->exp(1, x + i, &one);
          expect_bits("exp alone", t->name, 1, y + i, &one);
        }
        for (size_t j = 0; j < KINDS; j++) {
          activation_kind kind = plain_kinds[j];
          t->activation_forward(kind, n, x, y);
          t->activation_backward(kind, n, x, y, z, again);
          expect_bits("activation made again", t->name, n, again, y);
          for (size_t i = 0; i < n; i++) {
            t->activation_forward(kind, 1, x + i, &one);
            expect_bits("activation alone", t->name, 1, y + i, &one);
            t->activation_backward(kind, 1, x + i, y + i, &one, NULL);
            expect_bits("its slope alone", t->name, 1, z + i, &one);
          }
        }
        activations_in_place(t, n, x);
        for (size_t j = 0; j < KINDS; j++) gates_and_edges(t, gated_kinds[j], n, x);
        guarded_free();
      }
}

static void sums(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < LENGTHS; k++) {
        size_t n = lengths[k];
        float *x = random_floats(n), *y = random_floats(n);
        float *added = copied_floats(n, y), *scaled = copied_floats(n, y), *times = copied_floats(n, y);
        t->add(n, x, added);
        t->add_scaled(n, -1.7f, x, scaled);
        t->scale(n, 0.3f, times);
        double squares = 0;
        for (size_t i = 0; i < n; i++) {
          double product = -(double)1.7f * x[i];
          expect_near("add", t->name, i, added[i], (double)y[i] + x[i], ulp(y[i] + (double)x[i]) / 2);
          expect_near("add_scaled", t->name, i, scaled[i], y[i] + product, 4 * ulp(fabs(y[i]) + fabs(product)));
          expect_near("scale", t->name, i, times[i], (double)0.3f * y[i], ulp((double)0.3f * y[i]) / 2);
          squares += (double)x[i] * x[i];
        }
        expect_near("sum_squares", t->name, 0, t->sum_squares(n, x), squares, reduction(n, squares));
        guarded_free();
      }
}

/* The same numbers are dropped in every table, at the beginning of a row whatever its length. */
static void dropout(void **unused)
{
  (void)unused;
  static const uint32_t thresholds[] = {0, 1 << 20, 1 << 23, (1 << 24) - 1};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < LENGTHS; k++)
        for (size_t i = 0; i < 4; i++) {
          size_t n = lengths[k];
          dropout_row row = {{(uint32_t)(17 * k), (uint32_t)(i + 3)}, thresholds[i], 1.75f};
          float *x = random_floats(n), *y = guarded_floats(n), *sum = filled_floats(n, 3),
                *expected = guarded_floats(n);
          for (size_t c = 0; c < n; c++) x[c] += 2;
          reference_table()->drop(n, &row, x, expected, false);
          t->drop(n, &row, x, y, false);
          expect_bits("dropout", t->name, n, y, expected);
          for (size_t c = 0; c < n; c++) assert_true(y[c] == 0 || y[c] == x[c] * 1.75f);
          if (i == 0) assert_true(y[n - 1] != 0);
          t->drop(n, &row, x, sum, true);
          for (size_t c = 0; c < n; c++)
            expect_near("dropout added", t->name, c, sum[c], 3 + (double)y[c], ulp(3 + (double)y[c]));
          t->drop(n, &row, x, x, false);
          expect_bits("dropout in place", t->name, n, x, y);
          guarded_free();
        }
}

/* A norm of gradients: ten million squares must not lose themselves in a float. */
static void long_sum_of_squares(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  size_t n = 1 << 20;
  float *x = filled_floats(n, 0.1f);
  FOR_EACH_TABLE(t)
    expect_near("sum_squares", t->name, 0, t->sum_squares(n, x), (double)n * 0.1f * 0.1f,
                8 * EPS * (double)n * 0.01);
  guarded_free();
}

static void rotation(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < LENGTHS; k++)
        for (int variant = 0; variant < 4; variant++) {
          bool inverse = variant % 2, adjacent = variant / 2;
          size_t half = lengths[k];
          float *cosine = guarded_floats(half), *sine = guarded_floats(half), *x = random_floats(2 * half);
          for (size_t p = 0; p < half; p++) {
            double angle = 7 * random_unit();
            cosine[p] = (float)cos(angle);
            sine[p] = (float)sin(angle);
          }
          float *y = copied_floats(2 * half, x);
          (adjacent ? t->rotate_adjacent : t->rotate)(half, cosine, sine, inverse, y);
          for (size_t p = 0; p < half; p++) {
            size_t first = adjacent ? 2 * p : p, second = adjacent ? 2 * p + 1 : half + p;
            double c = cosine[p], s = inverse ? -(double)sine[p] : (double)sine[p], a = x[first], b = x[second];
            expect_near("rotate", t->name, first, y[first], a * c - b * s, 4 * ulp(fabs(a * c) + fabs(b * s)));
            expect_near("rotate", t->name, second, y[second], b * c + a * s, 4 * ulp(fabs(b * c) + fabs(a * s)));
          }
          guarded_free();
        }
}

static void adamw(void **unused)
{
  (void)unused;
  adamw_step s = {.rate = 3e-3f,
                  .decay = 3e-4f,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .epsilon = 1e-8f,
                  .correction1 = 1.25f,
                  .correction2 = 1.4f,
                  .grad_scale = 0.7f};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < LENGTHS; k++) {
        size_t n = lengths[k];
        float *grad = random_floats(n), *value = random_floats(n), *m = random_floats(n), *v = random_floats(n);
        for (size_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
        float *value2 = copied_floats(n, value), *m2 = copied_floats(n, m), *v2 = copied_floats(n, v);
        t->adamw(n, &s, grad, value2, m2, v2);
        for (size_t i = 0; i < n; i++) {
          double g = (double)grad[i] * s.grad_scale;
          double old1 = m[i] * (double)s.beta1, new1 = g * (double)(1 - s.beta1);
          double old2 = v[i] * (double)s.beta2, new2 = g * g * (double)(1 - s.beta2);
          double root = sqrt((old2 + new2) * s.correction2) + s.epsilon;
          double step = (old1 + new1) * s.correction1 / root * s.rate;
          double terms = (fabs(old1) + fabs(new1)) * s.correction1 / root * s.rate;
          double decay = (double)value[i] * s.decay;
          expect_near("m", t->name, i, m2[i], old1 + new1, 4 * ulp(fabs(old1) + fabs(new1)));
          expect_near("v", t->name, i, v2[i], old2 + new2, 4 * ulp(old2 + new2));
          expect_near("value", t->name, i, value2[i], value[i] - step - decay,
                      4 * ulp(fabs(value[i]) + terms + fabs(decay)));
        }
        guarded_free();
      }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exponential),       cmocka_unit_test(exponential_at_the_ends),
      cmocka_unit_test(activations),       cmocka_unit_test(activations_at_the_ends),
      cmocka_unit_test(gated_activation),
      cmocka_unit_test(lengths_and_edges), cmocka_unit_test(sums),
      cmocka_unit_test(dropout), cmocka_unit_test(long_sum_of_squares), cmocka_unit_test(rotation),
      cmocka_unit_test(adamw),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
