/* Whole training runs against PyTorch in fp32 (scripts/make_training_golden.py): the gradients of the first step,
 * and the loss of every step.  Both sides make the same weights, text and batches from formulas.  The schedule's
 * rates are such that rounding does not grow (PyTorch in fp32 and in float64 agree to the recorded drift), so the
 * limits can be narrow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alibi/train.h"
#include "base/random.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/training_figures.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum {
  RUNS = sizeof golden_runs / sizeof golden_runs[0],
  ROWS = GOLDEN_LENGTH * GOLDEN_SEQUENCES,
  SHORT_RUN = 10,
  STREAM_SAMPLES = 0x73616d70
};
static const double first_tolerance = 1e-6, tolerance = 2e-5, gradient_tolerance = 3e-6;

static alibi_error error;
static const char *running; /* run and instruction set, for messages */
static uint32_t text[GOLDEN_TOKENS];

static void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

/* The script's make_text. */
static int make_text(void **unused)
{
  (void)unused;
  for (uint32_t i = 0; i < GOLDEN_TOKENS; i++) {
    uint32_t x = i * 2654435761u;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    x ^= x >> 16;
    uint64_t high = x >> 16;
    if (i >= 2 && x % 8 < 5)
      text[i] = text[i - 1] < 64 ? (text[i - 1] * 5 + 3) % 64 : text[i - 2];
    else
      text[i] = (uint32_t)(high * high * high >> 38);
  }
  return 0;
}

static alibi_context *make_context(const char *isa, int threads)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  expect_ok(alibi_context_new(&options, &context, &error));
  return context;
}

static void make_config(const golden_run *run, alibi_model_config *config)
{
  alibi_model_config_init(config);
  config->vocabulary = GOLDEN_VOCABULARY;
  config->train_length = GOLDEN_LENGTH;
  for (size_t i = 0; i < run->setting_count; i++)
    expect_ok(alibi_model_config_set(config, run->settings[i][0], run->settings[i][1], &error));
}

/* ---- the gradients of the first step ---- */

static void first_batch(uint32_t *tokens, uint32_t *targets, pass_segment *segments)
{
  for (size_t s = 0; s < GOLDEN_SEQUENCES; s++) {
    size_t from = random_below(GOLDEN_SEED, STREAM_SAMPLES, s, GOLDEN_TOKENS - GOLDEN_LENGTH);
    memcpy(tokens + s * GOLDEN_LENGTH, text + from, GOLDEN_LENGTH * sizeof *tokens);
    memcpy(targets + s * GOLDEN_LENGTH, text + from + 1, GOLDEN_LENGTH * sizeof *targets);
    segments[s] = (pass_segment){.count = GOLDEN_LENGTH};
  }
}

/* Norm of the difference from PyTorch's gradient over the norm of that: as the signs are random, the mean square
 * of the products' differences is that of the norm, but for its spread. */
static double gradient_difference(const golden_gradient *expected, size_t elements, const float *gradient)
{
  double sketches[GOLDEN_SKETCHES] = {0}, squares = 0;
  uint64_t stream = 14695981039346656037u;
  char name[128];
  snprintf(name, sizeof name, "sketch of %s", expected->name);
  for (const char *c = name; *c; c++) stream = (stream ^ (unsigned char)*c) * 1099511628211u;
  for (size_t e = 0; e < elements; e++) {
    uint32_t signs = random_philox(GOLDEN_SEED, e, stream).word[0];
    double g = (double)gradient[e] / ROWS;
    for (int k = 0; k < GOLDEN_SKETCHES; k++) sketches[k] += signs >> k & 1 ? -g : g;
  }
  for (int k = 0; k < GOLDEN_SKETCHES; k++)
    squares += (sketches[k] - expected->sketches[k]) * (sketches[k] - expected->sketches[k]);
  return sqrt(squares / GOLDEN_SKETCHES) / expected->norm;
}

static void check_gradients(alibi_context *context, const golden_run *run)
{
  static uint32_t tokens[ROWS], targets[ROWS];
  pass_segment segments[GOLDEN_SEQUENCES];
  alibi_model_config config;
  alibi_model *model;
  model_pass *pass;
  model_parameters pointers;
  float *block;
  double worst = 0;
  make_config(run, &config);
  expect_ok(alibi_model_new(context, &config, GOLDEN_SEED, &model, &error));
  assert_int_equal(model->list.count, run->gradient_count);
  pass_shape shape = {
      .rows = ROWS, .segments = GOLDEN_SEQUENCES, .length = GOLDEN_LENGTH, .head_rows = ROWS, .keep = true};
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  expect_ok(memory_new(&block, model->list.floats, sizeof *block, "gradients", &error));
  expect_ok(model_parameters_new(&model->list, &model->config, block, &pointers, &error));
  first_batch(tokens, targets, segments);
  expect_ok(model_forward(pass, tokens, segments, GOLDEN_SEQUENCES, &error));
  double loss = model_backward(pass, targets, &pointers, NULL) / ROWS;
  if (!(fabs(loss - run->losses[0]) <= first_tolerance * loss))
    fail_msg("%s: loss: expected %.9g, found %.9g", running, run->losses[0], loss);
  for (size_t i = 0; i < run->gradient_count; i++) {
    const parameter *p = parameter_find(&model->list, run->gradients[i].name);
    if (!p) fail_msg("%s: expected a parameter %s", running, run->gradients[i].name);
    double apart = gradient_difference(&run->gradients[i], parameter_elements(p), block + p->offset);
    if (!(apart <= gradient_tolerance)) fail_msg("%s: gradient of %s: %.2e apart", running, p->name, apart);
    if (apart > worst) worst = apart;
  }
  print_message("%s: gradients %.1e apart at most\n", running, worst);
  model_pass_free(pass);
  model_parameters_free(&pointers);
  memory_free(block);
  alibi_model_free(model);
}

static void first_gradients_are_those_of_pytorch(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < kernel_table_count(); i++) {
    const kernel_table *table = kernel_table_at(i);
    if (!table || (SANITIZED && table != kernel_table_best())) continue;
    alibi_context *context = make_context(table->name, 1);
    for (size_t r = 0; r < RUNS; r++) {
      char name[64];
      snprintf(name, sizeof name, "%s, %s", golden_runs[r].name, table->name);
      running = name;
      check_gradients(context, &golden_runs[r]);
    }
    alibi_context_free(context);
  }
}

/* ---- the curve of losses ---- */

static void check_curve(alibi_context *context, const golden_run *run)
{
  alibi_model_config config;
  alibi_train_options options;
  alibi_trainer *trainer;
  alibi_train_report report = {0};
  size_t steps = SANITIZED && run->step_count > SHORT_RUN ? SHORT_RUN : run->step_count;
  double worst = 0;
  running = run->name;
  make_config(run, &config);
  alibi_train_options_init(&options);
  options.steps = GOLDEN_STEPS;
  options.batch_tokens = ROWS;
  options.learning_rate = golden_rate;
  options.schedule = ALIBI_SCHEDULE_COSINE;
  options.order = ALIBI_ORDER_RANDOM;
  options.warmup_steps = GOLDEN_WARMUP;
  options.final_rate = golden_final_rate;
  options.weight_decay = golden_weight_decay;
  options.beta1 = golden_beta1;
  options.beta2 = golden_beta2;
  options.epsilon = golden_epsilon;
  options.clip = golden_clip;
  options.seed = GOLDEN_SEED;
  expect_ok(alibi_trainer_new(context, &config, &options, text, GOLDEN_TOKENS, &trainer, &error));
  for (size_t step = 0; step < steps; step++) {
    expect_ok(alibi_trainer_step(trainer, &report, &error));
    double expected = run->losses[step], apart = fabs(report.loss - expected) / expected;
    if (!(apart <= (step == 0 ? first_tolerance : tolerance)))
      fail_msg("%s: loss of step %zu: expected %.9g, found %.9g", running, step + 1, expected, report.loss);
    if (apart > worst) worst = apart;
  }
  print_message("%s: %zu of %zu steps, losses %.1e apart at most, %.1e at the last\n", running, steps,
                run->step_count, worst, fabs(report.loss - run->losses[steps - 1]) / run->losses[steps - 1]);
  alibi_trainer_free(trainer);
}

static void losses_follow_those_of_pytorch(void **unused)
{
  (void)unused;
  alibi_context *context = make_context(NULL, 1);
  if (SANITIZED)
    print_message("built with a sanitizer: at most %d steps a run, and one instruction set\n", SHORT_RUN);
  for (size_t r = 0; r < RUNS; r++) check_curve(context, &golden_runs[r]);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_gradients_are_those_of_pytorch),
      cmocka_unit_test(losses_follow_those_of_pytorch),
  };
  return cmocka_run_group_tests(tests, make_text, NULL);
}
