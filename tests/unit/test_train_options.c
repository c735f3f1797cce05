/* Settings of training: rates of every schedule, lengths of every phase, and texts that are none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "train/train_options.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

static alibi_error error;

static alibi_train_options options_of(alibi_schedule schedule, int64_t steps, int64_t warmup)
{
  alibi_train_options o;
  alibi_train_options_init(&o);
  o.schedule = schedule;
  o.steps = steps;
  o.warmup_steps = warmup;
  o.learning_rate = 2;
  o.final_rate = 0.1;
  return o;
}

static void rates_follow_their_formulas(void **unused)
{
  (void)unused;
  static const struct {
    alibi_schedule schedule;
    int64_t step;
    double rate;
  } rows[] = {
      {ALIBI_SCHEDULE_COSINE, 0, 0.2},
      {ALIBI_SCHEDULE_COSINE, 10, 2},
      {ALIBI_SCHEDULE_COSINE, 55, 1.1},
      {ALIBI_SCHEDULE_COSINE, 100, 0.2},
      {ALIBI_SCHEDULE_COSINE, 999, 0.2},
      {ALIBI_SCHEDULE_CONSTANT, 4, 1},
      {ALIBI_SCHEDULE_CONSTANT, 10, 2},
      {ALIBI_SCHEDULE_CONSTANT, 100, 2},
      {ALIBI_SCHEDULE_LINEAR, 10, 2},
      {ALIBI_SCHEDULE_LINEAR, 55, 1.1},
      {ALIBI_SCHEDULE_LINEAR, 100, 0.2},
      {ALIBI_SCHEDULE_LINEAR, 500, 0.2},
      {ALIBI_SCHEDULE_WSD, 9, 2},
      {ALIBI_SCHEDULE_WSD, 80, 2},
      {ALIBI_SCHEDULE_WSD, 90, 1.1},
      {ALIBI_SCHEDULE_WSD, 100, 0.2},
      {ALIBI_SCHEDULE_INVERSE_SQRT, 9, 2},
      {ALIBI_SCHEDULE_INVERSE_SQRT, 39, 1},
      {ALIBI_SCHEDULE_INVERSE_SQRT, 89, 2.0 / 3},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    alibi_train_options o = options_of(rows[i].schedule, 101, 10);
    o.decay_steps = 20;
    double found = train_rate(&o, rows[i].step);
    if (fabs(found - rows[i].rate) > 1e-12)
      fail_msg("schedule %d, step %d: expected %.12g, found %.12g", (int)rows[i].schedule, (int)rows[i].step,
               rows[i].rate, found);
  }
  for (int schedule = ALIBI_SCHEDULE_COSINE; schedule <= ALIBI_SCHEDULE_INVERSE_SQRT; schedule++)
    for (int64_t steps = 1; steps < 4; steps++) { /* short ones have no holes */
      alibi_train_options o = options_of((alibi_schedule)schedule, steps, 0);
      for (int64_t step = 0; step < steps + 2; step++) {
        double found = train_rate(&o, step);
        if (!(found > 0 && found <= 2))
          fail_msg("schedule %d, %d steps, step %d: found %g", schedule, (int)steps, (int)step, found);
      }
    }
}

static void usual_numbers_stand_for_minus_one(void **unused)
{
  (void)unused;
  alibi_train_options o = options_of(ALIBI_SCHEDULE_WSD, 50, -1);
  assert_int_equal(train_warmup(&o), 5);
  assert_int_equal(train_decay(&o), 10);
  o.steps = 100000;
  assert_int_equal(train_warmup(&o), 100);
  o.warmup_steps = 0;
  o.decay_steps = 0;
  assert_int_equal(train_warmup(&o), 0);
  assert_true(train_rate(&o, 99999) == 2);
}

static void lengths_follow_their_schedule(void **unused)
{
  (void)unused;
  train_phase phases[TRAIN_PHASES];
  size_t count;
  alibi_train_options o = options_of(ALIBI_SCHEDULE_COSINE, 100, 0);
  assert_int_equal(train_phases(&o, 512, phases, &count, &error), ALIBI_OK);
  assert_int_equal(count, 1);
  assert_int_equal(phases[0].length, 512);
  strcpy(o.length_schedule, "128:1000, 256:500");
  assert_int_equal(train_phases(&o, 512, phases, &count, &error), ALIBI_OK);
  assert_int_equal(count, 3);
  static const train_phase expected[] = {{0, 1000, 128}, {1000, 1500, 256}, {1500, INT64_MAX, 512}};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(phases[i].first, expected[i].first);
    assert_int_equal(phases[i].end, expected[i].end);
    assert_int_equal(phases[i].length, expected[i].length);
  }
  o.batch_tokens = 1024;
  assert_int_equal(train_check_batch(&o, 512, &error), ALIBI_OK);
  strcpy(o.length_schedule, "192:1");
  assert_int_equal(train_check_batch(&o, 512, &error), ALIBI_INVALID);
  assert_string_equal(
      error.message,
      "batch_tokens: expected a multiple of the length in length_schedule, of 192 tokens, found 1024");
}

static void texts_that_are_no_schedule_are_refused(void **unused)
{
  (void)unused;
  static const char *const wrong[] = {",",
                                      "128",
                                      "128:",
                                      ":5",
                                      "128:0",
                                      "0:5",
                                      "-1:5",
                                      "128:5,",
                                      "a:b",
                                      "128:5:6",
                                      "1.5:5",
                                      "128:2000000000",
                                      "1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1"};
  train_phase phases[TRAIN_PHASES];
  size_t count;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    alibi_train_options o = options_of(ALIBI_SCHEDULE_COSINE, 100, 0);
    strcpy(o.length_schedule, wrong[i]);
    if (train_phases(&o, 512, phases, &count, &error) != ALIBI_INVALID || !strstr(error.message, "LENGTH:STEPS"))
      fail_msg("'%s': expected to be refused, found '%s'", wrong[i], error.message);
  }
  alibi_train_options o = options_of(ALIBI_SCHEDULE_COSINE, 100, 0);
  strcpy(o.length_schedule, "1024:5");
  assert_int_equal(train_phases(&o, 512, phases, &count, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "up to the training length of 512 tokens"));
}

int main(void)
{
  alibi_error_init(&error);
  const struct CMUnitTest tests[] = {cmocka_unit_test(rates_follow_their_formulas),
                                     cmocka_unit_test(usual_numbers_stand_for_minus_one),
                                     cmocka_unit_test(lengths_follow_their_schedule),
                                     cmocka_unit_test(texts_that_are_no_schedule_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
