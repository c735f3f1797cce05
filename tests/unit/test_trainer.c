/* Training: the rate's schedule, the same bits on any number of threads, batches that do not depend on the method,
 * micro-batches, learning something, and refusals that leave the weights alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "alibi/train.h"
#include "train/trainer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

enum { VOCABULARY = 29, CORPUS = 500, STEPS = 5 };

static alibi_error error;
static uint32_t corpus[CORPUS];

static int setup(void **unused)
{
  (void)unused;
  tiny_tokens(corpus, CORPUS, 31, VOCABULARY);
  alibi_error_init(&error);
  return 0;
}

/* Four sequences a step. */
static alibi_train_options quick(int64_t steps)
{
  alibi_train_options o;
  alibi_train_options_init(&o);
  o.steps = steps;
  o.batch_tokens = 4 * 24;
  o.warmup_steps = 2;
  return o;
}

static alibi_trainer *open_trainer(alibi_context *context, const char *settings,
                                   const alibi_train_options *options)
{
  alibi_model_config config = tiny_config(settings);
  alibi_trainer *trainer;
  if (alibi_trainer_new(context, &config, options, corpus, CORPUS, &trainer, &error) != ALIBI_OK)
    fail_msg("%s: %s", settings, error.message);
  return trainer;
}

static alibi_train_report step(alibi_trainer *trainer)
{
  alibi_train_report report;
  if (alibi_trainer_step(trainer, &report, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return report;
}

static void rate_rises_then_falls_as_a_cosine(void **unused)
{
  (void)unused;
  alibi_train_options o = quick(101);
  o.warmup_steps = 10;
  o.learning_rate = 1;
  o.final_rate = 0.1;
  static const struct { int64_t step; double rate; } rows[] = {
      {0, 0.1}, {4, 0.5}, {9, 1}, {10, 1}, {55, 0.55}, {100, 0.1}, {5000, 0.1},
      {40, 0.1 + 0.9 * 0.75} /* a third of the way: cos(60 degrees) = 1/2 */};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double found = train_rate(&o, rows[i].step);
    if (fabs(found - rows[i].rate) > 1e-12)
      fail_msg("step %lld: expected %.12g, found %.12g", (long long)rows[i].step, rows[i].rate, found);
  }
  o.warmup_steps = 0;
  assert_true(train_rate(&o, 0) == 1);
  o.steps = 1;
  o.warmup_steps = 5; /* longer than the training: it never gets past the rise */
  assert_true(fabs(train_rate(&o, 0) - 0.2) < 1e-12);
}

static void same_bits_on_any_number_of_threads(void **unused)
{
  (void)unused;
  char settings[256];
  for (size_t row = 0; row < position_method_count() + TINY_VARIANTS; row++) {
    if (row < position_method_count())
      snprintf(settings, sizeof settings, "position=%s", position_method_at(row)->name);
    else snprintf(settings, sizeof settings, "%s", tiny_variants[row - position_method_count()]);
    double losses[STEPS];
    float *values = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      alibi_context *context = tiny_context(NULL, threads);
      alibi_train_options options = quick(STEPS);
      alibi_trainer *trainer = open_trainer(context, settings, &options);
      const alibi_model *model = alibi_trainer_model(trainer);
      for (int i = 0; i < STEPS; i++) {
        alibi_train_report report = step(trainer);
        assert_int_equal(report.step, i + 1);
        assert_int_equal(report.tokens, 4 * 24);
        if (values && memcmp(&losses[i], &report.loss, sizeof report.loss) != 0)
          fail_msg("%s: step %d on %d threads: expected the loss %.17g, found %.17g", settings, i, threads,
                   losses[i], report.loss);
        losses[i] = report.loss;
      }
      size_t floats = model->list.floats;
      if (!values) {
        values = malloc(floats * sizeof *values);
        assert_non_null(values);
        memcpy(values, model->values, floats * sizeof *values);
      } else if (tiny_floats_differ(values, model->values, floats)) {
        fail_msg("%s: other weights on %d threads", settings, threads);
      }
      alibi_trainer_free(trainer);
      alibi_context_free(context);
    }
    free(values);
  }
}

/* The first loss, before any method has learnt, comes from the same tokens and the same shared weights. */
static void batches_depend_on_seed_and_step_alone(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 2);
  alibi_train_options options = quick(STEPS), reseeded = quick(STEPS);
  alibi_trainer *none = open_trainer(context, "position=none", &options),
                *t5 = open_trainer(context, "position=t5", &options);
  /* t5 begins with a table of zeros: it is `none` until it learns */
  double first = step(none).loss;
  assert_true(first == step(t5).loss);
  assert_true(step(none).loss != step(t5).loss);
  reseeded.seed = 2;
  alibi_trainer *other = open_trainer(context, "position=none", &reseeded),
                *again = open_trainer(context, "position=none", &options);
  assert_true(step(other).loss != first);
  assert_true(step(again).loss == first);
  alibi_trainer_free(none);
  alibi_trainer_free(t5);
  alibi_trainer_free(other);
  alibi_trainer_free(again);
  alibi_context_free(context);
}

static void micro_batches_train_the_same_model(void **unused)
{
  (void)unused;
  static const int64_t cuts[] = {1, 24, 60, 72, 96, 1000};
  alibi_context *context = tiny_context(NULL, 2);
  alibi_train_options options = quick(STEPS);
  alibi_trainer *whole = open_trainer(context, "position=t5 bias=true", &options);
  alibi_train_report expected[STEPS];
  for (int i = 0; i < STEPS; i++) expected[i] = step(whole);
  for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
    options.micro_tokens = cuts[c];
    alibi_trainer *parts = open_trainer(context, "position=t5 bias=true", &options);
    for (int i = 0; i < STEPS; i++) {
      alibi_train_report found = step(parts);
      assert_true(fabs(found.loss / expected[i].loss - 1) < 1e-5);
      assert_true(fabs(found.gradient_norm / expected[i].gradient_norm - 1) < 1e-4);
      if (i == 0)
        assert_true(found.loss == expected[i].loss &&
                    fabs(found.gradient_norm / expected[i].gradient_norm - 1) < 1e-6);
    }
    alibi_trainer_free(parts);
  }
  alibi_trainer_free(whole);
  alibi_context_free(context);
}

/* ---- over documents ---- */

static const uint64_t documents[] = {0,   3,   10,  90,  91,  92,  93,  94,  95, 180,
                                     300, 301, 302, 303, 304, 305, 306, 340, 480};

static alibi_trainer *open_over_documents(alibi_context *context, token_source *source,
                                          const alibi_train_options *options)
{
  alibi_model_config config = tiny_config("position=t5 bias=true");
  alibi_trainer *trainer = NULL;
  size_t count = sizeof documents / sizeof documents[0];
  if (token_source_of_ids("corpus", corpus, CORPUS, documents, count, source, &error) != ALIBI_OK ||
      trainer_new(context, NULL, &config, options, source, NULL, 1, &trainer, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return trainer;
}

/* Where documents end nothing is predicted, so parts of a batch have unequal numbers of tokens; the gradient does
 * not see the cut: at most 1e-6 of its norm. */
static void parts_of_unequal_tokens_give_one_gradient(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 2);
  alibi_train_options options = quick(STEPS);
  token_source source, other;
  options.documents = ALIBI_DOCUMENTS_APART;
  options.micro_tokens = 0;
  alibi_trainer *whole = open_over_documents(context, &source, &options);
  for (int64_t sequences = 1; sequences <= 3; sequences++) { /* of 4: 1+1+1+1, 2+2, 3+1 */
    options.micro_tokens = 24 * sequences;
    alibi_trainer *parts = open_over_documents(context, &other, &options);
    options.micro_tokens = 0;
    if (sequences == 1) step(whole);
    alibi_train_report report = step(parts);
    assert_true(report.tokens < 4 * 24 && report.tokens > 2 * 24);
    double apart = 0, norm = 0;
    for (size_t i = 0; i < whole->model->list.floats; i++) {
      double a = whole->gradients[i], b = parts->gradients[i];
      apart += (a - b) * (a - b);
      norm += a * a;
    }
    if (!(sqrt(apart / norm) <= 1e-6))
      fail_msg("%d sequences at once: expected 1e-6, found %g", (int)sequences, sqrt(apart / norm));
    alibi_trainer_free(parts);
    token_source_close(&other);
  }
  alibi_trainer_free(whole);
  token_source_close(&source);
  alibi_context_free(context);
}

/* A model that learns at all comes to know one batch by heart. */
static void one_batch_is_learnt_by_heart(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 2);
  alibi_train_options options = quick(200);
  options.order = ALIBI_ORDER_ONE_BATCH;
  options.weight_decay = 0;
  alibi_trainer *trainer = open_trainer(context, "position=alibi initial_deviation=0.05", &options);
  double first = step(trainer).loss, last = first;
  for (int i = 1; i < 200; i++) last = step(trainer).loss;
  if (!(first > 2.5 && last < 0.05))
    fail_msg("expected a loss from above 2.5 to below 0.05, found %g to %g", first, last);
  alibi_trainer_free(trainer);
  alibi_context_free(context);
}

/* A batch of noise among others of a text that has been learnt: with a limit it leaves the weights as they are. */
static void a_spike_changes_nothing(void **unused)
{
  (void)unused;
  enum { QUIET = 200 };
  static uint32_t text[CORPUS];
  for (size_t i = 0; i < CORPUS; i++) text[i] = (uint32_t)(i % 5);
  alibi_context *context = tiny_context(NULL, 1);
  for (int guarded = 0; guarded < 2; guarded++) {
    alibi_model_config config = tiny_config("position=alibi initial_deviation=0.05");
    alibi_train_options options = quick(1000);
    alibi_trainer *trainer;
    options.spike_limit = guarded ? 8 : 0;
    assert_int_equal(alibi_trainer_new(context, &config, &options, text, CORPUS, &trainer, &error), ALIBI_OK);
    alibi_train_report report = {0};
    for (int i = 0; i < QUIET; i++) report = step(trainer);
    assert_int_equal(report.skipped, 0);
    float *before = malloc(trainer->model->list.floats * sizeof *before);
    assert_non_null(before);
    memcpy(before, trainer->model->values, trainer->model->list.floats * sizeof *before);
    trainer->own->parts[0].ids = corpus; /* 29 kinds of noise */
    report = step(trainer);
    trainer->own->parts[0].ids = text;
    assert_int_equal(report.step, QUIET + 1);
    assert_int_equal(report.skipped, guarded);
    bool same = tiny_floats_differ(before, trainer->model->values, trainer->model->list.floats) == 0;
    assert_int_equal(same, guarded);
    assert_int_equal(step(trainer).skipped, 0);
    free(before);
    alibi_trainer_free(trainer);
  }
  alibi_context_free(context);
}

static void lengths_change_as_scheduled(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_train_options options = quick(STEPS);
  strcpy(options.length_schedule, "8:2,12:1");
  alibi_trainer *trainer = open_trainer(context, "position=rope", &options);
  static const int64_t expected[] = {8, 8, 12, 24, 24};
  for (size_t i = 0; i < 5; i++) {
    alibi_train_report report = step(trainer);
    assert_int_equal(report.length, expected[i]);
    assert_int_equal(report.tokens, 4 * 24);
  }
  alibi_trainer_free(trainer);
  alibi_context_free(context);
}

/* A text that repeats can be learnt: the loss falls far below that of knowing the letters alone. */
static void learns_a_repeating_text(void **unused)
{
  (void)unused;
  static const uint32_t word[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  uint32_t text[CORPUS];
  for (size_t i = 0; i < CORPUS; i++) text[i] = word[i % 12];
  alibi_context *context = tiny_context(NULL, 2);
  for (size_t row = 0; row < position_method_count(); row++) {
    char settings[128];
    snprintf(settings, sizeof settings, "position=%s initial_deviation=0.05", position_method_at(row)->name);
    alibi_model_config config = tiny_config(settings);
    alibi_train_options options = quick(120);
    alibi_trainer *trainer;
    assert_int_equal(alibi_trainer_new(context, &config, &options, text, CORPUS, &trainer, &error), ALIBI_OK);
    double first = step(trainer).loss, last = 0;
    for (int i = 1; i < 120; i++) last = step(trainer).loss;
    if (!(first > 2.5 && last < 0.6))
      fail_msg("%s: expected a loss from above 2.5 to below 0.6, found %g to %g", settings, first, last);
    alibi_trainer_free(trainer);
  }
  alibi_context_free(context);
}

/* Adam's first step moves every weight by the rate, whatever the gradient; decay pulls matrices only. */
static void first_step_is_adams(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_train_options options = quick(STEPS);
  options.learning_rate = 1e-3;
  options.warmup_steps = 0;
  options.weight_decay = 0.5;
  options.epsilon = 1e-20;
  alibi_trainer *trainer = open_trainer(context, "bias=true norm_bias=true position=learned", &options);
  const alibi_model *model = alibi_trainer_model(trainer);
  float *before = malloc(model->list.floats * sizeof *before);
  assert_non_null(before);
  memcpy(before, model->values, model->list.floats * sizeof *before);
  step(trainer);
  size_t moved = 0, all = 0;
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    for (size_t k = p->offset; k < p->offset + parameter_elements(p); k++, all++) {
      double decay = p->decay ? 1e-3 * 0.5 * before[k] : 0,
             move = fabs((double)model->values[k] - before[k] + decay);
      moved += fabs(move - 1e-3) < 1e-6;
      if (!(move < 1e-3 + 1e-6)) fail_msg("%s: a weight moved by %g", p->name, move);
    }
  }
  assert_true(moved * 10 > all * 9); /* the others: tokens that the batch has not */
  free(before);
  alibi_trainer_free(trainer);
  alibi_context_free(context);
}

static void clipping_bounds_the_gradient(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_train_options clipped = quick(STEPS), scaled = quick(STEPS);
  clipped.clip = 1e-6;
  clipped.epsilon = scaled.epsilon = 1; /* so large that Adam's step is in proportion to the gradient */
  clipped.warmup_steps = scaled.warmup_steps = 0;
  clipped.weight_decay = scaled.weight_decay = 0;
  scaled.clip = 0;
  alibi_trainer *a = open_trainer(context, "position=alibi", &clipped),
                *b = open_trainer(context, "position=alibi", &scaled);
  const alibi_model *ma = alibi_trainer_model(a), *mb = alibi_trainer_model(b);
  float *before = malloc(ma->list.floats * sizeof *before);
  assert_non_null(before);
  memcpy(before, ma->values, ma->list.floats * sizeof *before);
  double norm = step(a).gradient_norm, moved_a = 0, moved_b = 0;
  assert_true(norm == step(b).gradient_norm);
  for (size_t i = 0; i < ma->list.floats; i++) {
    moved_a += fabs((double)ma->values[i] - before[i]);
    moved_b += fabs((double)mb->values[i] - before[i]);
  }
  assert_true(norm > 1e-2);
  assert_true(moved_a < 1e-2 * moved_b);
  free(before);
  alibi_trainer_free(a);
  alibi_trainer_free(b);
  alibi_context_free(context);
}

static void says(status found, status expected, const char *part)
{
  assert_int_equal(found, expected);
  if (!strstr(error.message, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, error.message);
}

static void refuses_what_cannot_be(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model_config config = tiny_config("position=alibi");
  alibi_train_options options = quick(STEPS);
  alibi_trainer *trainer;
  says(alibi_trainer_new(context, &config, &options, corpus, 24, &trainer, &error), ALIBI_INVALID,
       "at least 25 tokens");
  assert_null(trainer);
  uint32_t *spoiled = malloc(sizeof corpus);
  assert_non_null(spoiled);
  memcpy(spoiled, corpus, sizeof corpus);
  spoiled[CORPUS - 1] = VOCABULARY;
  says(alibi_trainer_new(context, &config, &options, spoiled, CORPUS, &trainer, &error), ALIBI_INVALID,
       "token 499");
  free(spoiled);
  options.steps = 0;
  says(alibi_trainer_new(context, &config, &options, corpus, CORPUS, &trainer, &error), ALIBI_INVALID, "steps");
  options = quick(STEPS);
  config.heads = 5;
  says(alibi_trainer_new(context, &config, &options, corpus, CORPUS, &trainer, &error), ALIBI_INVALID, "heads");
  config = tiny_config("position=alibi");
  options.size = 0;
  says(alibi_trainer_new(context, &config, &options, corpus, CORPUS, &trainer, &error), ALIBI_INVALID,
       "alibi_train_options_init");
  alibi_context_free(context);
}

/* 25 tokens are enough: one sequence and its last target. */
static void shortest_text(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model_config config = tiny_config("position=rope");
  alibi_train_options options = quick(2);
  alibi_trainer *trainer;
  uint32_t *exact = malloc(25 * sizeof *exact); /* a read beyond is seen by the sanitizer */
  assert_non_null(exact);
  memcpy(exact, corpus, 25 * sizeof *exact);
  assert_int_equal(alibi_trainer_new(context, &config, &options, exact, 25, &trainer, &error), ALIBI_OK);
  step(trainer);
  step(trainer);
  alibi_trainer_free(trainer);
  free(exact);
  alibi_context_free(context);
}

static void failed_steps_leave_the_weights(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_train_options options = quick(STEPS);
  alibi_trainer *trainer = open_trainer(context, "position=rope", &options);
  alibi_model *model = alibi_trainer_model(trainer);
  alibi_train_report report;
  alibi_session *session;
  step(trainer);
  float *before = malloc(model->list.floats * sizeof *before);
  assert_non_null(before);
  memcpy(before, model->values, model->list.floats * sizeof *before);
  assert_int_equal(alibi_session_new(model, NULL, &session, &error), ALIBI_OK);
  says(alibi_trainer_step(trainer, &report, &error), ALIBI_INVALID, "no open session");
  alibi_session_free(session);
  assert_int_equal(tiny_floats_differ(before, model->values, model->list.floats), 0);
  float kept = model->values[0];
  model->values[0] = NAN;
  says(alibi_trainer_step(trainer, &report, &error), ALIBI_FAILED,
       "step 2: the loss is not finite, first the gradient of 'final_norm.gain'");
  model->values[0] = kept;
  assert_int_equal(tiny_floats_differ(before, model->values, model->list.floats), 0);
  assert_int_equal(step(trainer).step, 2); /* and goes on */
  alibi_context_cancel(context);
  assert_int_equal(alibi_trainer_step(trainer, &report, &error), ALIBI_CANCELLED);
  free(before);
  alibi_trainer_free(trainer);
  alibi_context_free(context);
}

/* A session between two steps does not change the training: packed weights are not used after they are old. */
static void sessions_in_between_change_nothing(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_train_options options = quick(STEPS);
  alibi_trainer *plain = open_trainer(context, "position=t5", &options),
                *watched = open_trainer(context, "position=t5", &options);
  for (int i = 0; i < STEPS; i++) {
    alibi_session *session;
    assert_true(step(plain).loss == step(watched).loss);
    assert_int_equal(alibi_session_new(alibi_trainer_model(watched), NULL, &session, &error), ALIBI_OK);
    assert_int_equal(alibi_session_feed(session, corpus, 5, &error), ALIBI_OK);
    alibi_session_free(session);
  }
  alibi_trainer_free(plain);
  alibi_trainer_free(watched);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rate_rises_then_falls_as_a_cosine),
      cmocka_unit_test(same_bits_on_any_number_of_threads),
      cmocka_unit_test(batches_depend_on_seed_and_step_alone),
      cmocka_unit_test(micro_batches_train_the_same_model),
      cmocka_unit_test(parts_of_unequal_tokens_give_one_gradient),
      cmocka_unit_test(one_batch_is_learnt_by_heart),
      cmocka_unit_test(a_spike_changes_nothing),
      cmocka_unit_test(lengths_change_as_scheduled),
      cmocka_unit_test(learns_a_repeating_text),
      cmocka_unit_test(first_step_is_adams),
      cmocka_unit_test(clipping_bounds_the_gradient),
      cmocka_unit_test(refuses_what_cannot_be),
      cmocka_unit_test(shortest_text),
      cmocka_unit_test(failed_steps_leave_the_weights),
      cmocka_unit_test(sessions_in_between_change_nothing),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
