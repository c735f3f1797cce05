/* log.jsonl: what is written comes back; jumps back, half lines and full disks; what is refused. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "file/training_log.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/allocations.h"
#include "unit/scratch_case.h"

static training_step step_of(int64_t number)
{
  return (training_step){.step = number,
                         .loss = 7.0 / (double)number,
                         .gradient_norm = 0.1 * (double)number,
                         .learning_rate = 6e-5,
                         .tokens = 2048,
                         .tokens_done = 2048 * number,
                         .length = 128,
                         .tokens_per_second = 13000.5,
                         .share_of_peak = 0.55,
                         .seconds = 0.16};
}

static void write_text(const char *name, const char *text)
{
  scratch_write(scratch_path(name), text, strlen(text));
}

static training_log read_log(const char *name)
{
  training_log log;
  ok(training_log_read(scratch_path(name), &log, &error));
  return log;
}

static void writes_the_lines_of_the_plan(void **unused)
{
  (void)unused;
  training_log_writer writer;
  training_step step = step_of(1);
  const training_evaluation list[] = {{.length = 128, .loss = 3, .perplexity = 20}, {.length = 512, .loss = NAN}};
  ok(training_log_begin(scratch_path("log"), -1, &writer, &error));
  ok(training_log_step(&writer, &step, &error));
  step = (training_step){.step = 2, .loss = INFINITY, .learning_rate = 0.1, .seconds = 1e-7};
  ok(training_log_step(&writer, &step, &error));
  ok(training_log_evaluation(&writer, 2, list, 2, &error));
  ok(training_log_event(&writer, 2, "spike", "loss \"inf\"\n", &error));
  ok(training_log_event(&writer, 2, "stopped", NULL, &error));
  training_log_end(&writer);
  scratch_expect(scratch_path("log"),
                 "{\"step\":1,\"loss\":7,\"gradient_norm\":0.1,\"learning_rate\":6e-05,\"tokens\":2048,"
                 "\"tokens_done\":2048,\"length\":128,\"tokens_per_second\":13000.5,\"share_of_peak\":0.55,"
                 "\"seconds\":0.16}\n"
                 "{\"step\":2,\"loss\":null,\"gradient_norm\":0,\"learning_rate\":0.1,\"tokens\":0,"
                 "\"tokens_done\":0,\"length\":0,\"tokens_per_second\":0,\"share_of_peak\":0,\"seconds\":1e-07}\n"
                 "{\"step\":2,\"evaluation\":[{\"length\":128,\"loss\":3.0,\"perplexity\":20.0},"
                 "{\"length\":512,\"loss\":null,\"perplexity\":0.0}]}\n"
                 "{\"step\":2,\"event\":\"spike\",\"text\":\"loss \\\"inf\\\"\\n\"}\n"
                 "{\"step\":2,\"event\":\"stopped\"}\n");
}

static void numbers_come_back_to_the_bit(void **unused)
{
  (void)unused;
  training_log_writer writer;
  ok(training_log_begin(scratch_path("log"), -1, &writer, &error));
  for (int64_t i = 1; i <= 100; i++) {
    training_step step = step_of(i);
    if (i == 50) step.loss = step.share_of_peak = NAN;
    ok(training_log_step(&writer, &step, &error));
  }
  training_log_end(&writer);
  training_log log = read_log("log");
  assert_int_equal(log.step_count, 100);
  for (int64_t i = 1; i <= 100; i++) {
    training_step step = step_of(i), *found = &log.steps[i - 1];
    if (i == 50) {
      assert_true(isnan(found->loss) && isnan(found->share_of_peak));
      found->loss = step.loss;
      found->share_of_peak = step.share_of_peak;
    }
    assert_memory_equal(found, &step, sizeof step);
  }
  training_log_free(&log);
}

static void a_step_allocates_nothing(void **unused)
{
  (void)unused;
#ifdef COUNTS_ALLOCATIONS
  training_log_writer writer;
  training_step step = step_of(3);
  ok(training_log_begin(scratch_path("log"), -1, &writer, &error));
  ok(training_log_step(&writer, &step, &error)); /* the stream's buffer */
  size_t before = allocations;
  for (int i = 0; i < 100; i++) ok(training_log_step(&writer, &step, &error));
  assert_int_equal(allocations - before, 0);
  training_log_end(&writer);
#endif
}

static void a_resume_cuts_what_comes_again(void **unused)
{
  (void)unused;
  training_log_writer writer;
  write_text("log", "{\"step\":1,\"loss\":5.50}\n{\"step\":2,\"loss\":5}\nno JSON\n{\"step\":2,\"event\":\"x\"}\n"
                    "{\"step\":3,\"loss\":4}\n{\"step\":2,\"evaluation\":[]}\n{\"step\":3,\"ev");
  ok(training_log_begin(scratch_path("log"), 2, &writer, &error));
  ok(training_log_event(&writer, 2, TRAINING_RESUMED, "", &error));
  training_log_end(&writer);
  scratch_expect(scratch_path("log"),
                 "{\"step\":1,\"loss\":5.50}\n{\"step\":2,\"loss\":5}\n{\"step\":2,\"event\":\"x\"}\n"
                 "{\"step\":2,\"evaluation\":[]}\n{\"step\":2,\"event\":\"resumed\"}\n");
  ok(training_log_begin(scratch_path("log"), -1, &writer, &error));
  training_log_end(&writer);
  scratch_expect(scratch_path("log"), "");
  ok(training_log_begin(scratch_path("new"), 7, &writer, &error)); /* nothing there: a log that was deleted */
  training_log_end(&writer);
  scratch_expect(scratch_path("new"), "");
  assert_int_equal(training_log_begin(scratch_path("no/log"), -1, &writer, &error), ALIBI_FAILED);
  scratch_says(error.message, "no/log");
}

static void a_failed_write_loses_its_line_only(void **unused)
{
  (void)unused;
  training_log_writer writer;
  training_step step = step_of(1);
  ok(training_log_begin(scratch_path("log"), -1, &writer, &error));
  ok(training_log_event(&writer, 1, "first", NULL, &error));
  FILE *full = fopen("/dev/full", "ab");
  if (!full) skip();
  FILE *kept = writer.stream;
  writer.stream = full;
  assert_int_equal(training_log_step(&writer, &step, &error), ALIBI_FAILED);
  scratch_says(error.message, "log: cannot write");
  fputs("{\"step\":1,\"lo", kept); /* as much as the disk still took */
  fclose(kept);
  ok(training_log_event(&writer, 2, "second", NULL, &error));
  ok(training_log_event(&writer, 3, "third", NULL, &error));
  training_log_end(&writer);
  scratch_expect(scratch_path("log"), "{\"step\":1,\"event\":\"first\"}\n{\"step\":2,\"event\":\"second\"}\n"
                                      "{\"step\":3,\"event\":\"third\"}\n");
}

static void half_a_line_is_none(void **unused)
{
  (void)unused;
  write_text("log",
             "\n{\"step\":1,\"loss\":5,\"new_key\":[1]}\r\n{\"step\":1,\"other\":2}\n{\"step\":2,\"loss\":4");
  training_log log = read_log("log");
  assert_int_equal(log.step_count, 1);
  assert_true(log.steps[0].loss == 5 && isnan(log.steps[0].gradient_norm) && log.steps[0].tokens == 0);
  training_log_free(&log);
  write_text("log", "");
  log = read_log("log");
  assert_int_equal(log.step_count, 0);
  training_log_free(&log);
}

static void the_later_lines_count(void **unused)
{
  (void)unused;
  write_text("log",
             "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":2,\"evaluation\":[{\"length\":8}]}\n"
             "{\"step\":2,\"event\":\"spike\",\"text\":\"high\"}\n{\"step\":3,\"loss\":3}\n"
             "{\"step\":3,\"evaluation\":[{\"length\":8,\"loss\":1},{\"length\":16,\"loss\":null}]}\n"
             "{\"step\":2,\"loss\":4.5}\n{\"step\":2,\"event\":\"spike\",\"text\":\"high\"}\n"
             "{\"step\":2,\"event\":\"spike\",\"text\":\"higher\"}\n"
             "{\"step\":2,\"evaluation\":[{\"length\":8,\"loss\":2}]}\n"
             "{\"step\":2,\"evaluation\":[{\"length\":16,\"loss\":3},{\"length\":8,\"loss\":2.5}]}\n");
  training_log log = read_log("log");
  assert_int_equal(log.step_count, 2);
  assert_true(log.steps[1].step == 2 && log.steps[1].loss == 4.5);
  assert_int_equal(log.evaluation_count, 2);
  assert_true(log.evaluations[0].length == 8 && log.evaluations[0].loss == 2.5);
  assert_true(log.evaluations[1].length == 16 && log.evaluations[1].loss == 3 && log.evaluations[1].step == 2);
  assert_int_equal(log.event_count, 2);
  training_log_free(&log);
  write_text("log",
             "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":2,\"evaluation\":[{\"length\":8}]}\n"
             "{\"step\":1,\"event\":\"resumed\"}\n");
  log = read_log("log");
  assert_int_equal(log.step_count, 1);
  assert_int_equal(log.evaluation_count, 0);
  assert_string_equal(log.events[0].name, TRAINING_RESUMED);
  training_log_free(&log);
}

static void says_which_line_is_wrong(void **unused)
{
  (void)unused;
  static const char *const cases[][2] = {
      {"{\"step\":1,\"loss\":5}\nhello\n", "log: line 2: not valid JSON: column "},
      {"\n\n[1]\n", "log: line 3: expected a JSON object"},
      {"{\"loss\":5}\n", "log: line 1: step: expected an integer that is not negative"},
      {"{\"step\":-1}\n", "log: line 1: step: expected an integer that is not negative"},
      {"{\"step\":1.5}\n", "log: line 1: step: expected an integer"},
      {"{\"step\":1,\"loss\":\"x\"}\n", "log: line 1: loss: expected a number"},
      {"{\"step\":1,\"loss\":1,\"tokens\":1.5}\n", "log: line 1: tokens: expected an integer from 0 to"},
      {"{\"step\":1,\"loss\":1,\"seconds\":-1}\n", "log: line 1: seconds: expected a number from 0 to"},
      {"{\"step\":1,\"evaluation\":3}\n", "log: line 1: evaluation: expected an array"},
      {"{\"step\":1,\"evaluation\":[{\"loss\":1}]}\n",
       "log: line 1: evaluation: expected a length in every object"},
      {"{\"step\":1,\"evaluation\":[{\"length\":0}]}\n", "log: line 1: length: expected an integer from 1"},
      {"{\"step\":1,\"event\":7}\n", "log: line 1: event: expected a text"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    training_log log;
    write_text("log", cases[i][0]);
    status found = training_log_read(scratch_path("log"), &log, &error);
    if (found != ALIBI_BAD_INPUT) fail_msg("accepted: %s", cases[i][0]);
    scratch_says(error.message, cases[i][1]);
    assert_null(log.steps);
  }
  training_log log;
  assert_int_equal(training_log_read(scratch_path("none"), &log, &error), ALIBI_BAD_INPUT);
  assert_int_equal(training_log_read(scratch_path("none"), &log, NULL), ALIBI_BAD_INPUT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(writes_the_lines_of_the_plan, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(numbers_come_back_to_the_bit, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_step_allocates_nothing, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_resume_cuts_what_comes_again, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_failed_write_loses_its_line_only, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(half_a_line_is_none, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_later_lines_count, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(says_which_line_is_wrong, scratch_case_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
