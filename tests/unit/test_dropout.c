/* Dropout: as many numbers go as the rate says, one independently of the other; which ones follows from the seed,
 * the step and the place alone, so that no cut into passes and no number of threads changes a bit; the gradient is
 * that of the function with these numbers taken out, by finite differences; without a rate, and in inference,
 * nothing is dropped. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

/* ---- the numbers that go ---- */

enum { TALL = 256, WIDE = 384, CELLS = TALL * WIDE };

/* 1 where a number stays. */
static unsigned char *kept(alibi_context *context, op_dropout d)
{
  float *x = malloc(CELLS * sizeof *x);
  unsigned char *stays = malloc(CELLS);
  assert_non_null(x);
  assert_non_null(stays);
  for (size_t i = 0; i < CELLS; i++) x[i] = 1;
  op_drop(context, &d, TALL, WIDE, x, x, false);
  for (size_t i = 0; i < CELLS; i++) {
    assert_true(x[i] == 0 || x[i] == (float)(1 / (1 - d.rate)));
    stays[i] = x[i] != 0;
  }
  free(x);
  return stays;
}

/* Of n trials that succeed with this chance the count lies within five deviations. */
static void expect_count(const char *what, size_t found, double n, double chance)
{
  double expected = n * chance, deviation = sqrt(n * chance * (1 - chance));
  if (fabs((double)found - expected) > 5 * deviation)
    fail_msg("%s: expected %.0f +- %.0f of %.0f, found %zu", what, expected, deviation, n, found);
}

static void as_many_go_as_the_rate_says(void **unused)
{
  (void)unused;
  static const double rates[] = {0.01, 0.1, 0.5, 0.9};
  alibi_context *context = tiny_context(NULL, 2);
  for (size_t k = 0; k < 4; k++) {
    unsigned char *stays = kept(context, (op_dropout){.rate = rates[k], .seed = 3});
    size_t all = 0, row = 0, column = 0, fewest = CELLS, most = 0;
    for (size_t i = 0; i < CELLS; i++) all += stays[i];
    expect_count("of all", all, CELLS, 1 - rates[k]);
    for (size_t r = 0; r < TALL; r++, row = 0) {
      for (size_t c = 0; c < WIDE; c++) row += stays[r * WIDE + c];
      expect_count("of a row", row, WIDE, 1 - rates[k]);
      fewest = row < fewest ? row : fewest;
      most = row > most ? row : most;
    }
    assert_true(fewest < most);
    for (size_t c = 0; c < WIDE; c++, column = 0) {
      for (size_t r = 0; r < TALL; r++) column += stays[r * WIDE + c];
      expect_count("of a column", column, TALL, 1 - rates[k]);
    }
    free(stays);
  }
  alibi_context_free(context);
}

/* Two stay together as often as chance has it: neighbours, and the same number elsewhere. */
static void one_says_nothing_of_another(void **unused)
{
  (void)unused;
  const double rate = 0.25, both = 0.75 * 0.75;
  alibi_context *context = tiny_context(NULL, 2);
  op_dropout first = {.rate = rate, .seed = 3}, seed = first, place = first, later = first;
  seed.seed++;
  place.place++;
  later.first_row = TALL;
  unsigned char *here = kept(context, first);
  unsigned char *others[] = {kept(context, seed), kept(context, place), kept(context, later)};
  for (size_t k = 0; k < 3; k++) {
    size_t together = 0;
    for (size_t i = 0; i < CELLS; i++) together += here[i] && others[k][i];
    expect_count("the same number elsewhere", together, CELLS, both);
    free(others[k]);
  }
  static const size_t apart[] = {1, 2, 4, 8, 16, 64, WIDE, WIDE + 1, 2 * WIDE};
  for (size_t k = 0; k < sizeof apart / sizeof apart[0]; k++) {
    size_t together = 0;
    for (size_t i = 0; i < CELLS; i++) together += here[i] && here[(i + apart[k]) % CELLS];
    expect_count("a number apart", together, CELLS, both);
  }
  free(here);
  alibi_context_free(context);
}

/* ---- a model with them ---- */

enum { VOCABULARY = 29, LENGTH = 24, ROWS = 2 * LENGTH };

static const pass_dropout usual = {.rate = 0.2, .seed = 9, .step = 4, .first_row = 100};
static alibi_error error;

typedef struct bench {
  alibi_context *context;
  alibi_model *model;
  model_pass *pass;
  float *gradients;
  model_parameters pointers;
  uint32_t tokens[ROWS], targets[ROWS];
} bench;

static void bench_open(bench *b, const char *isa, int threads, const char *settings)
{
  *b = (bench){0};
  b->context = tiny_context(isa, threads);
  b->model = tiny_model(b->context, settings);
  pass_shape shape = {.rows = ROWS, .segments = 2, .length = LENGTH, .head_rows = 16, .keep = true};
  assert_int_equal(model_pass_new(b->model, &shape, &b->pass, &error), ALIBI_OK);
  b->pass->dropout = usual;
  b->gradients = calloc(b->model->list.floats, sizeof(float));
  assert_non_null(b->gradients);
  assert_int_equal(model_parameters_new(&b->model->list, &b->model->config, b->gradients, &b->pointers, &error),
                   ALIBI_OK);
  tiny_tokens(b->tokens, ROWS, 21, VOCABULARY);
  tiny_tokens(b->targets, ROWS, 22, VOCABULARY);
}

static void bench_close(bench *b)
{
  model_parameters_free(&b->pointers);
  free(b->gradients);
  model_pass_free(b->pass);
  alibi_model_free(b->model);
  alibi_context_free(b->context);
}

/* Gradient and loss of the sequences from `first` on. */
static double step(bench *b, size_t first, size_t sequences)
{
  pass_segment segments[2] = {{.count = LENGTH}, {.count = LENGTH}};
  b->pass->dropout.first_row = usual.first_row + first * LENGTH;
  assert_int_equal(model_forward(b->pass, b->tokens + first * LENGTH, segments, sequences, &error), ALIBI_OK);
  return model_backward(b->pass, b->targets + first * LENGTH, &b->pointers, NULL);
}

/* Along the gradient of each parameter. */
static void differences(const char *settings)
{
  bench b;
  bench_open(&b, "reference", 1, settings);
  step(&b, 0, 2);
  size_t floats = b.model->list.floats;
  float *direction = malloc(floats * sizeof *direction), *values = malloc(floats * sizeof *values);
  assert_non_null(direction);
  assert_non_null(values);
  memcpy(direction, b.gradients, floats * sizeof *direction);
  memcpy(values, b.model->values, floats * sizeof *values);
  for (size_t i = 0; i < b.model->list.count; i++) {
    const parameter *p = &b.model->list.items[i];
    double norm = 0, losses[4];
    for (size_t k = p->offset; k < p->offset + parameter_elements(p); k++)
      norm += (double)direction[k] * direction[k];
    norm = sqrt(norm);
    assert_true(norm > 1e-3);
    double e = 0.1 / norm, reach[4] = {e, -e, e / 2, -e / 2};
    for (int side = 0; side < 4; side++) {
      for (size_t k = p->offset; k < p->offset + parameter_elements(p); k++)
        b.model->values[k] = (float)(values[k] + reach[side] * direction[k] / norm);
      losses[side] = step(&b, 0, 2);
    }
    memcpy(b.model->values, values, floats * sizeof *values);
    double slope = (4 * (losses[2] - losses[3]) / e - (losses[0] - losses[1]) / (2 * e)) / 3;
    if (fabs(slope - norm) > 0.01 * norm + 1e-3)
      fail_msg("%s: %s: expected a derivative of %g, found %g", settings, p->name, slope, norm);
  }
  free(values);
  free(direction);
  bench_close(&b);
}

static void gradients_are_those_of_differences(void **unused)
{
  (void)unused;
  differences("position=none");
  differences("position=alibi bias=true norm_bias=true tied=false");
  differences("position=rope " TINY_MODERN);
  differences("norm_place=post norm_bias=true embedding_norm=true residual_scale=0.6");
  differences("parallel=one-norm embedding_shift=true residual_scale=0.6 final_norm=false");
  differences("parallel=two-norms bias=true");
  differences("norm_place=post attention_output_norm=true norm_bias=true");
}

static void no_cut_and_no_thread_changes_a_bit(void **unused)
{
  (void)unused;
  const char *settings = "position=alibi bias=true norm_bias=true tied=false";
  bench one, other;
  bench_open(&one, NULL, 1, settings);
  double loss = step(&one, 0, 2);
  for (int threads = 1; threads <= 3; threads++)
    for (int cut = 0; cut < 2; cut++) {
      bench_open(&other, NULL, threads, settings);
      double found = cut ? step(&other, 0, 1) + step(&other, 1, 1) : step(&other, 0, 2);
      assert_true(cut ? fabs(found - loss) < 1e-9 * loss : found == loss);
      assert_int_equal(tiny_floats_differ(one.gradients, other.gradients, one.model->list.floats), 0);
      bench_close(&other);
    }
  bench_close(&one);
}

/* Another seed, step or row: other numbers.  The same again: the same. */
static void what_goes_follows_from_its_numbers(void **unused)
{
  (void)unused;
  bench b;
  bench_open(&b, NULL, 1, "position=alibi");
  double loss = step(&b, 0, 2);
  assert_true(step(&b, 0, 2) == loss);
  b.pass->dropout.step++;
  assert_true(step(&b, 0, 2) != loss);
  b.pass->dropout = usual;
  b.pass->dropout.seed++;
  assert_true(step(&b, 0, 2) != loss);
  bench_close(&b);
}

static void without_a_rate_and_in_inference_nothing_goes(void **unused)
{
  (void)unused;
  bench b, without;
  bench_open(&b, NULL, 1, "position=alibi");
  bench_open(&without, NULL, 1, "position=alibi");
  without.pass->dropout = (pass_dropout){0};
  double loss = step(&without, 0, 2);
  assert_true(step(&b, 0, 2) != loss);
  b.pass->dropout.rate = 0;
  memset(b.gradients, 0, b.model->list.floats * sizeof(float));
  assert_true(step(&b, 0, 2) == loss);
  assert_int_equal(tiny_floats_differ(b.gradients, without.gradients, b.model->list.floats), 0);

  pass_shape shape = {.rows = ROWS, .segments = 2, .length = LENGTH, .head_rows = 16};
  pass_segment segments[2] = {{.count = LENGTH}, {.count = LENGTH}};
  model_pass *inference;
  assert_int_equal(model_pass_new(b.model, &shape, &inference, &error), ALIBI_OK);
  inference->dropout = usual;
  assert_int_equal(model_forward(inference, b.tokens, segments, 2, &error), ALIBI_OK);
  assert_int_equal(model_forward(without.pass, b.tokens, segments, 2, &error), ALIBI_OK);
  assert_int_equal(
      tiny_floats_differ(inference->hidden, without.pass->hidden, ROWS * (size_t)b.model->config.width), 0);
  model_pass_free(inference);
  bench_close(&without);
  bench_close(&b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_go_as_the_rate_says),
      cmocka_unit_test(one_says_nothing_of_another),
      cmocka_unit_test(gradients_are_those_of_differences),
      cmocka_unit_test(no_cut_and_no_thread_changes_a_bit),
      cmocka_unit_test(what_goes_follows_from_its_numbers),
      cmocka_unit_test(without_a_rate_and_in_inference_nothing_goes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
