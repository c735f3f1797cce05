/* The gradients of every position method's parameters, for each row of the registry.
 *
 * A sum of everything that a plan says, each number times a coefficient of its own, has the coefficients as the
 * gradient of its tables; `backward` must carry that to the parameters as finite differences of the formulas do,
 * which are in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "conformance/position_subject.h"

enum { EMBEDDING, SCORES }; /* streams of coefficients */

static double coefficient(uint64_t stream, size_t index)
{
  return (float)(2 * random_uniform(4, stream, index) - 1);
}

static size_t sets_of(const subject *s)
{
  return s->tables.plan.sets;
}

/* ---- the sum, by the formulas ---- */

static double sum_of_scores(const subject *s)
{
  size_t length = s->request.length;
  double sum = 0;
  if (!s->method->bias) return 0;
  for (size_t row = 0; row < sets_of(s) * HEADS; row++)
    for (size_t t = 0; t < length; t++) {
      size_t i = s->tables.plan.bias == BIAS_ROWS ? length - 1 : t; /* rows: those of one query */
      sum +=
          coefficient(SCORES, row * length + t) * s->method->bias(&s->request, row / HEADS, row % HEADS, i, i - t);
    }
  return sum;
}

static double sum_of_embedding(const subject *s)
{
  double sum = 0;
  for (size_t k = 0; s->method->embedding && k < s->request.length * WIDTH; k++)
    sum += coefficient(EMBEDDING, k) * s->method->embedding(&s->request, k / WIDTH, k % WIDTH);
  return sum;
}

static double sum_of(const subject *s)
{
  return sum_of_scores(s) + sum_of_embedding(s);
}

/* ---- its gradient, by the method ---- */

static float *coefficients(uint64_t stream, size_t count)
{
  float *values = malloc((count + 1) * sizeof *values);
  assert_non_null(values);
  for (size_t k = 0; k < count; k++) values[k] = (float)coefficient(stream, k);
  return values;
}

/* Distance t lies at length - 1 - t. */
static void reverse_rows(float *values, size_t rows, size_t length)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t t = 0; t < length / 2; t++) {
      float *a = &values[r * length + t], *b = &values[distance_at(length, r, t)], kept = *a;
      *a = *b;
      *b = kept;
    }
}

static double *slope_gradients(const float *reversed, size_t rows, size_t length)
{
  double *slopes = calloc(rows, sizeof *slopes);
  assert_non_null(slopes);
  for (size_t r = 0; r < rows; r++)
    for (size_t t = 0; t < length; t++) slopes[r] -= (double)t * (double)reversed[distance_at(length, r, t)];
  return slopes;
}

static void gather_rows(const position_plan *plan, const float *reversed)
{
  enum { PIECE = 50 }; /* as attention does: in pieces */
  size_t length = plan->length;
  for (size_t h = 0; h < HEADS; h++)
    for (size_t j = 0; j < length; j += PIECE) {
      size_t count = length - j < PIECE ? length - j : PIECE;
      plan->rows.gradient(plan->rows.user, (int)h, (int64_t)length - 1, (int64_t)j, (int64_t)count,
                          reversed + h * length + j);
    }
}

static void gradients_of(subject *s, float **grads)
{
  const position_plan *plan = &s->tables.plan;
  size_t length = plan->length, rows = sets_of(s) * HEADS;
  float *scores = coefficients(SCORES, rows * length);
  reverse_rows(scores, rows, length);
  position_plan_grad grad = {.embedding = coefficients(EMBEDDING, length * WIDTH),
                             .slopes = slope_gradients(scores, rows, length),
                             .table = scores};
  for (size_t i = 0; i < s->parameter_count; i++) {
    grads[i] = malloc(s->sizes[i] * sizeof(float));
    assert_non_null(grads[i]);
    for (size_t k = 0; k < s->sizes[i]; k++) grads[i][k] = 0.5f; /* gradients are added to what is there */
  }
  position_fill(s->method, &s->request, &s->tables.plan);
  if (plan->bias == BIAS_ROWS) gather_rows(plan, scores);
  assert_non_null(s->method->backward);
  s->method->backward(&s->request, plan, &grad, grads);
  free(grad.embedding);
  free(grad.slopes);
  free(scores);
}

/* ---- both beside each other ---- */

static double central(subject *s, float *value, double step)
{
  float kept = *value;
  volatile float up = kept + (float)step, down = kept - (float)step;
  *value = up;
  double above = sum_of(s);
  *value = down;
  double below = sum_of(s);
  *value = kept;
  return (above - below) / ((double)up - (double)down);
}

/* Without its e^2 term (Richardson). */
static double difference(subject *s, float *value, double step)
{
  return (4 * central(s, value, step / 2) - central(s, value, step)) / 3;
}

static void check_parameter(subject *s, size_t which, const float *grads)
{
  double largest = 0;
  char what[128];
  for (size_t k = 0; k < s->sizes[which]; k++) largest = fmax(largest, fabs(grads[k] - 0.5));
  for (size_t k = 0; k < s->sizes[which]; k += s->sizes[which] / 31 + 1) {
    double found = grads[k] - 0.5, tolerance = 1e-4 * largest + 1e-6, expected = 0;
    /* Finer where a kink of the formula lay within the step. */
    for (double step = 0x1p-8; step >= 0x1p-20; step /= 16) {
      expected = difference(s, &s->parameters[which][k], step);
      if (fabs(found - expected) <= tolerance) break;
    }
    snprintf(what, sizeof what, "gradient %zu of parameter %zu at length %zu", k, which, s->request.length);
    assert_close(s, what, found, expected, tolerance);
  }
}

static bool has_gradients(const subject *s)
{
  return s->parameter_count > 0 && !s->tables.plan.gated; /* gates are the model's: test_position_models.c */
}

static void gradients_are_finite_differences(void **unused)
{
  (void)unused;
  size_t tested = 0;
  for (size_t row = 0; row < position_row_count(); row++) {
    static const size_t lengths[] = {1, 33, 64, LONG};
    subject s;
    subject_open(&s, row, 64);
    for (size_t k = 0; k < 4; k++) {
      float *grads[POSITION_MAX_PARAMETERS] = {0};
      subject_prepare(&s, subject_at_most(&s, lengths[k]));
      if (!has_gradients(&s)) break;
      gradients_of(&s, grads);
      for (size_t i = 0; i < s.parameter_count; i++) check_parameter(&s, i, grads[i]);
      for (size_t i = 0; i < s.parameter_count; i++) free(grads[i]);
      tested++;
    }
    subject_close(&s);
  }
  assert_true(tested >= 8);
}

/* What one call gathered is not there in the next one. */
static void a_second_call_gives_the_same(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    float *first[POSITION_MAX_PARAMETERS] = {0}, *second[POSITION_MAX_PARAMETERS] = {0};
    subject_open(&s, row, 64);
    subject_prepare(&s, 64);
    if (has_gradients(&s)) {
      gradients_of(&s, first);
      gradients_of(&s, second);
    }
    for (size_t i = 0; i < s.parameter_count; i++) {
      if (first[i]) assert_memory_equal(first[i], second[i], s.sizes[i] * sizeof(float));
      free(first[i]);
      free(second[i]);
    }
    subject_close(&s);
  }
}

/* The plan follows the parameters. */
static void fill_follows_the_parameters(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s, other;
    subject_open(&s, row, 64);
    subject_open(&other, row, 64);
    for (size_t i = 0; i < s.parameter_count; i++)
      for (size_t k = 0; k < s.sizes[i]; k++) other.parameters[i][k] *= 0.75f;
    subject_prepare(&s, 64);
    subject_prepare(&other, 64);
    for (size_t i = 0; i < s.parameter_count; i++)
      memcpy(s.parameters[i], other.parameters[i], s.sizes[i] * sizeof(float));
    position_fill(s.method, &s.request, &s.tables.plan);
    for (size_t n = 0; n < LAYERS * HEADS; n++)
      for (size_t t = 0; t < 64; t++)
        assert_true(subject_bias(&s.tables.plan, n / HEADS, n % HEADS, t, 0) ==
                    subject_bias(&other.tables.plan, n / HEADS, n % HEADS, t, 0));
    if (s.tables.plan.embedding)
      assert_memory_equal(s.tables.plan.embedding, other.tables.plan.embedding, 64 * WIDTH * sizeof(float));
    subject_close(&s);
    subject_close(&other);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_finite_differences),
      cmocka_unit_test(a_second_call_gives_the_same),
      cmocka_unit_test(fill_follows_the_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
