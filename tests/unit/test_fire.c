/* FIRE: pieces of rows against the formula written out unit by unit in double, gathered gradients against that
 * formula's own derivatives, and both in a whole model. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

enum { UNITS = 32, HEADS = 3, TRAINED = 40, FAR = 64 * TRAINED, PARAMETERS = 5 };
enum { W1, B1, W2, SCALE, THRESHOLD };

static const size_t sizes[PARAMETERS] = {UNITS, UNITS, HEADS * UNITS, 1, 1};

typedef struct subject {
  const position_method *method;
  union {
    max_align_t align;
    char bytes[ALIBI_POSITION_OPTIONS_SIZE];
  } options;
  float values[PARAMETERS][HEADS * UNITS];
  position_request request;
  position_tables tables;
} subject;

static alibi_error error;

static void prepare(subject *s)
{
  position_release(&s->tables);
  if (position_prepare(s->method, &s->request, &s->tables, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(s->tables.plan.bias, BIAS_ROWS);
}

static void open_subject(subject *s, size_t length, uint64_t seed, float scale, float threshold)
{
  memset(s, 0, sizeof *s);
  s->method = position_method_find("fire");
  assert_non_null(s->method);
  field_init(s->method->fields, s->options.bytes);
  s->request = (position_request){
      .shape = {2, HEADS, 16, HEADS * 16, TRAINED}, .options = s->options.bytes, .length = length};
  for (size_t i = 0; i < PARAMETERS; i++) {
    for (size_t k = 0; k < sizes[i]; k++) s->values[i][k] = (float)random_normal(seed, i, k);
    s->request.parameters[i] = s->values[i];
  }
  s->values[SCALE][0] = scale;
  s->values[THRESHOLD][0] = threshold;
  prepare(s);
}

static void close_subject(subject *s)
{
  position_release(&s->tables);
}

/* ---- the truth ---- */

static double largest(double a, double b)
{
  return a > b ? a : b;
}

/* |L_m L0|, L0 a quarter of the trained length. */
static double most_of(const subject *s)
{
  return fabs((double)s->values[THRESHOLD][0]) * (TRAINED / 4.0);
}

static double share(const subject *s, size_t i, size_t j)
{
  double c = fabs((double)s->values[SCALE][0]);
  return i == j ? 0 : log(c * (double)(i - j) + 1) / log(c * largest((double)i, most_of(s)) + 1);
}

/* `steepness`: of the bias in x; both sides of a kink count, for tolerances. */
static double truth(const subject *s, size_t h, size_t i, size_t j, double *steepness)
{
  double x = share(s, i, j), b = 0, steep = 0;
  for (size_t u = 0; u < UNITS; u++) {
    double inner = (double)s->values[W1][u] * x + (double)s->values[B1][u], w2 = s->values[W2][h * UNITS + u];
    b += w2 * largest(inner, 0);
    if (inner > -1e-4) steep += fabs(w2 * (double)s->values[W1][u]) + fabs(w2 * (double)s->values[B1][u]);
  }
  *steepness = steep;
  return b;
}

static void piece(const subject *s, size_t h, size_t i, size_t j, size_t count, float *bias)
{
  const attention_rows *rows = &s->tables.plan.rows;
  rows->bias(rows->user, (int)h, (int64_t)i, (int64_t)j, (int64_t)count, bias);
}

static void check_row(const subject *s, size_t i)
{
  float bias[64];
  double steepness;
  for (size_t h = 0; h < HEADS; h++)
    for (size_t j = 0; j <= i; j += 64) {
      size_t count = i + 1 - j < 64 ? i + 1 - j : 64;
      piece(s, h, i, j, count, bias);
      for (size_t n = 0; n < count; n++) {
        double expected = truth(s, h, i, j + n, &steepness);
        double formula = s->method->bias(&s->request, 0, h, i, j + n);
        if (!(fabs(formula - expected) <= 1e-12 * (1 + steepness)))
          fail_msg("(%zu, %zu): the formula gives %.17g instead of %.17g", i, j + n, formula, expected);
        if (!(fabs((double)bias[n] - expected) <= 2 * FLT_EPSILON * steepness))
          fail_msg("head %zu, (%zu, %zu): expected %.9g, found %.9g", h, i, j + n, expected, (double)bias[n]);
      }
    }
}

static const struct {
  float scale, threshold;
} places[] = {{0.1f, 1}, {-0.1f, -1.3f}, {3, 0.01f}, {1e-3f, 200}, {0.5f, 4}, {20, -0.9f}};
enum { PLACES = sizeof places / sizeof places[0] };

static void pieces_are_the_formula(void **unused)
{
  (void)unused;
  for (size_t k = 0; k < PLACES; k++) {
    subject s;
    open_subject(&s, FAR, 10 + k, places[k].scale, places[k].threshold);
    assert_true(s.tables.plan.length == FAR);
    for (size_t i = 0; i < 200; i++) check_row(&s, i); /* before and beyond the threshold */
    for (size_t i = 200; i < FAR; i += 157) check_row(&s, i);
    check_row(&s, FAR - 1);
    close_subject(&s);
  }
}

/* The same bits wherever a piece begins and ends: a row in chunks, or token by token, is the same row. */
static void pieces_do_not_depend_on_their_ends(void **unused)
{
  (void)unused;
  subject s;
  open_subject(&s, 300, 3, 0.1f, 1);
  for (size_t i = 0; i < 300; i += 13)
    for (size_t h = 0; h < HEADS; h++) {
      float single[300], run[300];
      for (size_t j = 0; j <= i; j++) piece(&s, h, i, j, 1, single + j);
      for (size_t j = 0; j <= i;) {
        size_t count = 1 + random_below(5, i * HEADS + h, j, 64);
        if (count > i + 1 - j) count = i + 1 - j;
        piece(&s, h, i, j, count, run + j);
        j += count;
      }
      assert_memory_equal(single, run, (i + 1) * sizeof *run);
    }
  close_subject(&s);
}

/* Units without a kink inside, with one at the ends, all at one place, or dead. */
static void kinks_at_odd_places(void **unused)
{
  (void)unused;
  static const float w1[] = {1, -1, 1, -1, 0, 0, 0, 2, -2, 1, -1, 3, 1, 1, 1, 1},
                     b1[] = {-0.5f, 0.5f, -0.5f, 0.5f, 1, -1, 0, 0, 0, -1, 1, 1, -2, -1e-30f, 1e30f, -1e-3f};
  subject s;
  open_subject(&s, 200, 4, 0.1f, 1);
  for (size_t u = 0; u < UNITS; u++) {
    s.values[W1][u] = w1[u % 16];
    s.values[B1][u] = b1[u % 16] == 1e30f ? 1 : b1[u % 16];
  }
  prepare(&s);
  for (size_t i = 0; i < 200; i++) check_row(&s, i);
  for (size_t u = 0; u < UNITS; u++) s.values[W1][u] = 1, s.values[B1][u] = -(float)(u + 1) / 40;
  prepare(&s); /* all units begin inside: as many lines as there can be */
  for (size_t i = 0; i < 200; i++) check_row(&s, i);
  close_subject(&s);
}

static void initial_values_are_those_of_the_paper(void **unused)
{
  (void)unused;
  /* Files store them by these names. */
  static const char *const names[PARAMETERS] = {"position.input_weight", "position.input_bias",
                                                "position.output_weight", "position.distance_scale",
                                                "position.threshold_scale"};
  subject s;
  open_subject(&s, 8, 1, 0.1f, 1);
  position_parameter list[POSITION_MAX_PARAMETERS];
  assert_int_equal(s.method->parameters(&s.request.shape, s.options.bytes, list), PARAMETERS);
  for (size_t i = 0; i < PARAMETERS; i++) {
    double bound = i == W2 ? 1 / sqrt(UNITS) : 1, sum = 0, squares = 0;
    enum { DRAWS = 4000 };
    assert_string_equal(list[i].name, names[i]);
    assert_int_equal(list[i].rows * list[i].columns, sizes[i]);
    assert_false(list[i].decay);
    for (size_t k = 0; k < DRAWS; k++) {
      double value = s.method->initial(&s.request.shape, s.options.bytes, i, 0, random_normal(9, i, k)) / bound;
      assert_true(fabs(value) <= 1);
      sum += value;
      squares += value * value;
    }
    if (i == SCALE) assert_true(fabs(sum / DRAWS - 0.1) < 1e-7);
    else if (i == THRESHOLD) assert_true(sum == DRAWS);
    else assert_true(fabs(sum / DRAWS) < 0.05 && fabs(squares / DRAWS - 1.0 / 3) < 0.02); /* uniform in -1 .. 1 */
  }
  close_subject(&s);
}

/* ---- gradients ---- */

/* Adds the derivatives of g times the bias of a pair. */
static void truth_backward(const subject *s, size_t h, size_t i, size_t j, double g, double grads[][HEADS * UNITS])
{
  double c = fabs((double)s->values[SCALE][0]), t = (double)(i - j), m = largest((double)i, most_of(s));
  double x = share(s, i, j), above = log(c * t + 1), below = log(c * m + 1), dx = 0;
  for (size_t u = 0; u < UNITS; u++) {
    double w1 = s->values[W1][u], w2 = s->values[W2][h * UNITS + u], inner = w1 * x + (double)s->values[B1][u];
    if (!(inner > 0)) continue;
    grads[W2][h * UNITS + u] += g * inner;
    grads[W1][u] += g * w2 * x;
    grads[B1][u] += g * w2;
    dx += g * w2 * w1;
  }
  if (i == j) return;
  double by_scale = (t / (c * t + 1) * below - above * m / (c * m + 1)) / (below * below);
  double by_most = -above * (c / (c * m + 1)) / (below * below);
  grads[SCALE][0] += dx * by_scale * (s->values[SCALE][0] < 0 ? -1 : 1);
  if ((double)i < most_of(s))
    grads[THRESHOLD][0] += dx * by_most * (TRAINED / 4.0) * (s->values[THRESHOLD][0] < 0 ? -1 : 1);
}

typedef struct gradients {
  float values[PARAMETERS][HEADS * UNITS];
} gradients;

static void take(subject *s, gradients *to)
{
  float *pointers[PARAMETERS];
  for (size_t i = 0; i < PARAMETERS; i++) pointers[i] = to->values[i];
  s->method->backward(&s->request, &s->tables.plan, &(position_plan_grad){0}, pointers);
}

static double dice(size_t h, size_t i, size_t j)
{
  return (double)(float)random_normal(6, h, i * FAR + j);
}

/* Piece number p of all those of a text of `length`, in the order of heads, queries, blocks of keys. */
static bool gather(const subject *s, size_t length, size_t p)
{
  size_t blocks = (length + 63) / 64, h = p / (blocks * length), i = p / blocks % length, j = p % blocks * 64;
  const attention_rows *rows = &s->tables.plan.rows;
  float g[64];
  if (h >= HEADS) return false;
  if (j > i) return true;
  size_t count = i + 1 - j < 64 ? i + 1 - j : 64;
  for (size_t n = 0; n < count; n++) g[n] = (float)dice(h, i, j + n);
  rows->gradient(rows->user, (int)h, (int64_t)i, (int64_t)j, (int64_t)count, g);
  return true;
}

static void gather_all(const subject *s, size_t length)
{
  for (size_t p = 0; gather(s, length, p); p++) continue;
}

static void gradients_are_those_of_the_formula(void **unused)
{
  (void)unused;
  enum { LENGTH = 90 };
  for (size_t k = 0; k < PLACES; k++) {
    static double expected[PARAMETERS][HEADS * UNITS], norms[PARAMETERS];
    subject s;
    gradients found;
    open_subject(&s, FAR, 20 + k, places[k].scale, places[k].threshold);
    memset(expected, 0, sizeof expected);
    for (size_t h = 0; h < HEADS; h++)
      for (size_t i = 0; i < LENGTH; i++)
        for (size_t j = 0; j <= i; j++) truth_backward(&s, h, i, j, dice(h, i, j), expected);
    for (size_t i = 0; i < PARAMETERS; i++)
      for (size_t e = 0; e < sizes[i]; e++) found.values[i][e] = 0.5f; /* they are added to what is there */
    gather_all(&s, LENGTH);
    take(&s, &found);
    for (size_t i = 0; i < PARAMETERS; i++) {
      norms[i] = 0;
      for (size_t e = 0; e < sizes[i]; e++) norms[i] = largest(norms[i], fabs(expected[i][e]));
      assert_true(norms[i] > 0 || (i == THRESHOLD && most_of(&s) < 1)); /* which then no query divides by */
      for (size_t e = 0; e < sizes[i]; e++)
        if (!(fabs((double)found.values[i][e] - 0.5 - expected[i][e]) <= 1e-5 * norms[i] + 1e-6))
          fail_msg("place %zu, parameter %zu, element %zu: expected %.9g, found %.9g", k, i, e, expected[i][e],
                   (double)found.values[i][e] - 0.5);
    }
    close_subject(&s);
  }
}

static void nothing_is_gathered_twice(void **unused)
{
  (void)unused;
  subject s;
  gradients none = {{{0}}}, zero = {{{0}}}, once = {{{0}}}, again = {{{0}}};
  open_subject(&s, 64, 7, 0.1f, 1);
  take(&s, &none);
  assert_memory_equal(&none, &zero, sizeof zero);
  gather_all(&s, 50);
  take(&s, &once);
  assert_memory_not_equal(&once, &zero, sizeof zero);
  take(&s, &none); /* taken, and so gone */
  assert_memory_equal(&none, &zero, sizeof zero);
  gather_all(&s, 64);
  s.method->fill(&s.request, &s.tables.plan); /* so is what belonged to other parameters */
  take(&s, &none);
  assert_memory_equal(&none, &zero, sizeof zero);
  gather_all(&s, 50);
  take(&s, &again);
  assert_memory_equal(&once, &again, sizeof again);
  close_subject(&s);
}

/* Backwards, and by many threads as they come. */
static void the_order_leaves_no_trace(void **unused)
{
  (void)unused;
  enum { LENGTH = 130 };
  subject s;
  gradients expected = {{{0}}};
  size_t pieces = 0;
  open_subject(&s, LENGTH, 8, 0.2f, 1.5f);
  while (gather(&s, LENGTH, pieces)) pieces++;
  take(&s, &expected);
  for (int threads = 1; threads <= 24; threads = threads * 2 + 1) {
    gradients found = {{{0}}};
#pragma omp parallel for num_threads(threads) schedule(dynamic, 5)
    for (size_t p = 0; p < pieces; p++) gather(&s, LENGTH, pieces - 1 - p);
    take(&s, &found);
    assert_memory_equal(&found, &expected, sizeof found);
  }
  close_subject(&s);
}

/* What whole numbers cannot hold must not look like a gradient. */
static void numbers_beyond_the_sums_are_reported(void **unused)
{
  (void)unused;
  static const float wrong[] = {NAN, INFINITY, -INFINITY, 1e30f, -4e7f};
  subject s;
  open_subject(&s, 64, 7, 0.1f, 1);
  const attention_rows *rows = &s.tables.plan.rows;
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
    gradients found = {{{0}}}, after = {{{0}}}, zero = {{{0}}};
    float g[20] = {1, 2};
    g[11] = wrong[k];
    rows->gradient(rows->user, 1, 30, 3, 20, g);
    take(&s, &found);
    assert_true(isnan(found.values[THRESHOLD][0]));
    take(&s, &after);
    assert_memory_equal(&after, &zero, sizeof zero);
  }
  for (size_t count = 100; count <= 3000; count += 2900) { /* each has its place, so many have not */
    gradients found = {{{0}}};
    float g[1] = {1e6f};
    for (size_t n = 0; n < count; n++) rows->gradient(rows->user, 1, 3, 2, 1, g);
    take(&s, &found);
    assert_int_equal(isnan(found.values[THRESHOLD][0]) != 0, count > 100);
  }
  close_subject(&s);
}

/* ---- whole models ---- */

enum { ROWS = 40, VOCABULARY = 29 };

typedef struct bench {
  alibi_context *context;
  alibi_model *model;
  model_pass *pass;
  float *grads;
  model_parameters pointers;
  uint32_t tokens[ROWS], targets[ROWS];
} bench;

static void bench_open(bench *b, const char *isa, int threads, const char *settings)
{
  pass_shape shape = {.rows = ROWS, .segments = 2, .length = ROWS, .head_rows = ROWS, .keep = true};
  *b = (bench){.context = tiny_context(isa, threads)};
  b->model = tiny_model(b->context, settings);
  if (model_pass_new(b->model, &shape, &b->pass, &error) != ALIBI_OK) fail_msg("%s", error.message);
  b->grads = calloc(b->model->list.floats, sizeof(float));
  assert_non_null(b->grads);
  assert_int_equal(
      model_parameters_new(&b->model->list, &b->model->config, b->grads, &b->pointers, &error), ALIBI_OK);
  tiny_tokens(b->tokens, ROWS, 21, VOCABULARY);
  tiny_tokens(b->targets, ROWS, 22, VOCABULARY);
}

static void bench_close(bench *b)
{
  model_parameters_free(&b->pointers);
  free(b->grads);
  model_pass_free(b->pass);
  alibi_model_free(b->model);
  alibi_context_free(b->context);
}

static void forward(bench *b)
{
  pass_segment segments[] = {{.count = 27}, {.count = 13}};
  model_pass_refresh(b->pass);
  if (model_forward(b->pass, b->tokens, segments, 2, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static double loss(bench *b)
{
  size_t rows[ROWS];
  float losses[ROWS];
  double sum = 0;
  for (size_t r = 0; r < ROWS; r++) rows[r] = r;
  forward(b);
  model_losses(b->pass, rows, b->targets, ROWS, losses);
  for (size_t r = 0; r < ROWS; r++) sum += losses[r];
  return sum;
}

static const parameter *own_parameter(const bench *b, size_t which)
{
  size_t seen = 0;
  for (size_t i = 0; i < b->model->list.count; i++)
    if (strncmp(b->model->list.items[i].name, "position.", 9) == 0 && seen++ == which)
      return &b->model->list.items[i];
  return NULL;
}

static double difference(bench *b, const parameter *p, const float *direction, double step)
{
  size_t n = parameter_elements(p);
  float *values = b->model->values + p->offset, kept[256];
  double sides[2], moved = 0;
  assert_true(n <= 256);
  memcpy(kept, values, n * sizeof *values);
  for (int side = 0; side < 2; side++) {
    for (size_t e = 0; e < n; e++) {
      values[e] = (float)(kept[e] + (side ? -step : step) * direction[e]);
      moved += (side ? -1 : 1) * ((double)values[e] - kept[e]) * direction[e];
    }
    sides[side] = loss(b);
  }
  memcpy(values, kept, n * sizeof *values);
  return (sides[0] - sides[1]) / moved;
}

/* Along the gradient of each tensor, by steps so small that few kinks are crossed. */
static void gradients_are_differences_of_a_models_loss(void **unused)
{
  (void)unused;
  bench b;
  bench_open(&b, "reference", 1, "position=fire train_length=48");
  forward(&b);
  model_backward(b.pass, b.targets, &b.pointers, NULL);
  for (size_t which = 0; which < PARAMETERS; which++) {
    const parameter *p = own_parameter(&b, which);
    float direction[256];
    double norm = 0;
    assert_non_null(p);
    for (size_t e = 0; e < parameter_elements(p); e++) norm += pow(b.grads[p->offset + e], 2);
    norm = sqrt(norm);
    if (!(norm > 1e-2)) fail_msg("%s: its gradient is nearly 0 and proves nothing", p->name);
    for (size_t e = 0; e < parameter_elements(p); e++) direction[e] = (float)(b.grads[p->offset + e] / norm);
    double found = difference(&b, p, direction, 0.001);
    if (!(fabs(found - norm) <= 0.01 * norm)) fail_msg("%s: expected %g, found %g", p->name, found, norm);
  }
  bench_close(&b);
}

/* Two sequences of two lengths and two layers in one pass. */
static void a_models_bits_do_not_depend_on_threads(void **unused)
{
  (void)unused;
  static const int threads[] = {1, 2, 3, 8};
  float *expected = NULL;
  size_t floats = 0;
  for (size_t k = 0; k < 4; k++) {
    bench b;
    bench_open(&b, NULL, threads[k], "position=fire");
    forward(&b);
    model_backward(b.pass, b.targets, &b.pointers, NULL);
    floats = b.model->list.floats;
    if (!expected) {
      expected = malloc(floats * sizeof *expected);
      assert_non_null(expected);
      memcpy(expected, b.grads, floats * sizeof *expected);
    }
    assert_int_equal(tiny_floats_differ(expected, b.grads, floats), 0);
    bench_close(&b);
  }
  free(expected);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_the_formula),
      cmocka_unit_test(pieces_do_not_depend_on_their_ends),
      cmocka_unit_test(kinks_at_odd_places),
      cmocka_unit_test(initial_values_are_those_of_the_paper),
      cmocka_unit_test(gradients_are_those_of_the_formula),
      cmocka_unit_test(nothing_is_gathered_twice),
      cmocka_unit_test(the_order_leaves_no_trace),
      cmocka_unit_test(numbers_beyond_the_sums_are_reported),
      cmocka_unit_test(gradients_are_differences_of_a_models_loss),
      cmocka_unit_test(a_models_bits_do_not_depend_on_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
