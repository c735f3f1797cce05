/* Logs side by side: names, means, places, ranges; pictures of odd names and of no numbers; long logs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "report/training_chart.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch_case.h"

/* A log of steps from `first` on whose losses are given; NaN becomes null. */
static const char *write_log(const char *name, int64_t first, const double *losses, size_t count)
{
  const char *path = scratch_path(name);
  training_log_writer writer;
  ok(training_log_begin(path, -1, &writer, &error));
  for (size_t i = 0; i < count; i++) {
    int64_t number = first + (int64_t)i;
    training_step step = {.step = number,
                          .loss = losses[i],
                          .gradient_norm = 1,
                          .learning_rate = 0.5,
                          .tokens = 10,
                          .tokens_done = 10 * number,
                          .length = 5,
                          .tokens_per_second = i == 0 ? 1 : 40.0 + (double)i,
                          .share_of_peak = NAN,
                          .seconds = 0.25};
    ok(training_log_step(&writer, &step, &error));
  }
  training_log_end(&writer);
  return path;
}

static training_chart read_chart(const char *const *paths, size_t count, training_axis axis, int64_t smooth)
{
  training_chart trainings;
  ok(training_chart_read(paths, count, axis, smooth, &trainings, &error));
  return trainings;
}

static void means_stay_where_their_steps_are(void **unused)
{
  (void)unused;
  const double losses[] = {10, 8, 6, NAN, 2, 4, 0};
  const char *path = write_log("log", 1, losses, 7);
  training_chart trainings = read_chart(&path, 1, AGAINST_STEPS, 4); /* an even number counts as the next */
  assert_int_equal(trainings.smooth, 5);
  const double *mean = trainings.runs[0].smooth[PANEL_LOSS];
  const double expected[] = {10, 8, 6.5, NAN, 3, 2, 2};
  for (int i = 0; i < 7; i++) {
    if (isnan(expected[i])) assert_true(isnan(mean[i]));
    else if (fabs(mean[i] - expected[i]) > 1e-12)
      fail_msg("mean %d: expected %g, found %g", i, expected[i], mean[i]);
  }
  assert_true(trainings.runs[0].smooth[PANEL_RATE][3] == 0.5);
  assert_true(trainings.runs[0].tokens_per_second == 43); /* the first step is slow: the median does not care */
  assert_true(trainings.runs[0].final_loss == 0 && trainings.runs[0].best == NULL);
  training_chart_free(&trainings);
  trainings = read_chart(&path, 1, AGAINST_STEPS, 1);
  assert_memory_equal(trainings.runs[0].smooth[PANEL_LOSS], losses, 3 * sizeof *losses);
  training_chart_free(&trainings);
}

static void the_end_is_the_last_twentieth(void **unused)
{
  (void)unused;
  double losses[40];
  for (int i = 0; i < 40; i++) losses[i] = 40 - i;
  const char *path = write_log("log", 1, losses, 40);
  training_chart trainings = read_chart(&path, 1, AGAINST_STEPS, 0);
  assert_true(trainings.runs[0].final_loss == 1.5);
  assert_int_equal(trainings.smooth, 1);
  training_chart_free(&trainings);
  losses[38] = NAN;
  path = write_log("log", 1, losses, 40);
  trainings = read_chart(&path, 1, AGAINST_STEPS, 0);
  assert_true(trainings.runs[0].final_loss == 1);
  training_chart_free(&trainings);
  losses[39] = INFINITY;
  path = write_log("log", 1, losses, 40);
  trainings = read_chart(&path, 1, AGAINST_STEPS, 0);
  assert_true(isnan(trainings.runs[0].final_loss));
  training_chart_free(&trainings);
}

static void names_tell_runs_apart(void **unused)
{
  (void)unused;
  static const char *const folders[] = {"one", "x", "x/same", "y", "y/same"};
  const double loss = 1;
  for (size_t i = 0; i < 5; i++) assert_int_equal(mkdir(scratch_path(folders[i]), 0700), 0);
  write_log("one/log.jsonl", 1, &loss, 1);
  write_log("x/same/log.jsonl", 1, &loss, 1);
  write_log("y/same/log.jsonl", 1, &loss, 1);
  const char *paths[] = {scratch_path("one///"), scratch_path("x/same/log.jsonl"), scratch_path("y/same"),
                         write_log("other.jsonl", 1, &loss, 1)};
  training_chart trainings = read_chart(paths, 4, AGAINST_STEPS, 0);
  assert_string_equal(trainings.runs[0].name, "one");
  assert_string_equal(trainings.runs[1].name, paths[1]);
  assert_string_equal(trainings.runs[2].name, paths[2]);
  assert_string_equal(trainings.runs[3].name, "other.jsonl");
  training_chart_free(&trainings);
}

static void places_are_those_of_the_axis(void **unused)
{
  (void)unused;
  const double losses[] = {3, 2, 1};
  const char *path = write_log("log", 101, losses, 3);
  const double expected[][3] = {{101, 102, 103}, {1010, 1020, 1030}, {0.25, 0.5, 0.75}};
  for (training_axis axis = AGAINST_STEPS; axis <= AGAINST_SECONDS; axis++) {
    double first, last;
    training_chart trainings = read_chart(&path, 1, axis, 0);
    const logged_run *run = &trainings.runs[0];
    assert_memory_equal(run->place, expected[axis], sizeof expected[axis]);
    assert_true(training_place(run, 102) == run->place[1] && training_place(run, 500) == run->place[2]);
    assert_true(training_place(run, 7) == 0);
    training_extent(&trainings, &first, &last);
    assert_true(last == run->place[2] && first == run->place[0]);
    training_chart_free(&trainings);
  }
}

static void ranges_hold_what_is_drawn(void **unused)
{
  (void)unused;
  const double losses[] = {3, 2, 2.5}, nothing[] = {NAN, INFINITY};
  double low, high;
  bool log_y;
  const char *path = write_log("log", 1, losses, 3);
  training_log_writer writer;
  const training_evaluation one = {.length = 8, .loss = 7, .perplexity = 1100};
  ok(training_log_begin(path, 3, &writer, &error));
  ok(training_log_evaluation(&writer, 3, &one, 1, &error));
  training_log_end(&writer);
  training_chart trainings = read_chart(&path, 1, AGAINST_STEPS, 1);
  assert_true(training_range(&trainings, PANEL_LOSS, &low, &high, &log_y) && !log_y);
  assert_true(low < 2 && low > 1 && high > 7 && high < 8);
  assert_true(training_range(&trainings, PANEL_NORM, &low, &high, &log_y) && log_y);
  assert_true(low > 0 && low < 1 && high > 1);
  assert_true(training_range(&trainings, PANEL_RATE, &low, &high, &log_y) && low == 0 && high > 0.5);
  assert_true(trainings.runs[0].best->loss == 7);
  training_chart_free(&trainings);
  path = write_log("log", 1, nothing, 2);
  trainings = read_chart(&path, 1, AGAINST_STEPS, 1);
  assert_false(training_range(&trainings, PANEL_LOSS, &low, &high, &log_y));
  assert_true(low == 0 && high == 1);
  char *plot = training_plot(&trainings, 0, true), *table = training_table(&trainings);
  assert_non_null(strstr(plot, "loss: no numbers\n"));
  assert_non_null(strstr(table, "nan"));
  free(plot);
  free(table);
  training_chart_free(&trainings);
}

static void the_beginning_does_not_flatten_the_rest(void **unused)
{
  (void)unused;
  double losses[60], low, high;
  bool log_y;
  for (int i = 0; i < 60; i++) losses[i] = i < 3 ? 10 : i == 50 ? 7 : 3 + 0.01 * i;
  const char *path = write_log("log", 1, losses, 60);
  training_chart trainings = read_chart(&path, 1, AGAINST_STEPS, 1);
  assert_true(training_range(&trainings, PANEL_LOSS, &low, &high, &log_y));
  assert_true(low < 3.03 && high > 7 && high < 8);
  training_chart_free(&trainings);
}

static bool whole_picture(const char *path)
{
  unsigned char tail[8] = {0};
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  assert_int_equal(fseek(file, -8, SEEK_END), 0);
  assert_int_equal(fread(tail, 1, sizeof tail, file), sizeof tail);
  fclose(file);
  return memcmp(tail, "IEND", 4) == 0;
}

/* gnuplot must neither stop nor run what a name says. */
static void odd_names_and_no_numbers_are_drawn(void **unused)
{
  (void)unused;
  const double losses[] = {3, 2, NAN, 1}, nothing[] = {NAN}, constant[] = {1, 1};
  const char *paths[] = {write_log("it's {a}_^@ \"b\" `touch ran` $(touch ran) \\n %d.jsonl", 1, losses, 4),
                         write_log("\xff\x01.jsonl", 1, nothing, 1), write_log("constant", 1, constant, 2),
                         scratch_path("loss alone")};
  char kept[4][512]; /* the folder keeps the last eight paths */
  for (int i = 0; i < 4; i++) paths[i] = strcpy(kept[i], paths[i]);
  training_log_writer writer;
  const training_evaluation list[] = {{.length = 8, .loss = 2, .perplexity = 7},
                                      {.length = 16, .loss = NAN, .perplexity = NAN}};
  ok(training_log_begin(paths[0], 4, &writer, &error));
  ok(training_log_evaluation(&writer, 4, list, 2, &error));
  ok(training_log_event(&writer, 3, "it's `bad`\n", "{}_", &error));
  ok(training_log_event(&writer, 4, TRAINING_RESUMED, NULL, &error));
  training_log_end(&writer);
  for (training_axis axis = AGAINST_STEPS; axis <= AGAINST_SECONDS; axis++) {
    bool drawn;
    training_chart trainings = read_chart(paths, 3, axis, 3);
    const char *picture = scratch_path("a picture's.png");
    ok(training_picture(&trainings, picture, &drawn, &error));
    assert_int_equal(drawn, whole_picture(picture));
    assert_int_equal(access(scratch_path("a picture's.gp"), R_OK), 0);
    assert_int_equal(access(scratch_path("ran"), F_OK), -1);
    assert_int_equal(access("ran", F_OK), -1);
    training_chart_free(&trainings);
  }
  bool drawn;
  scratch_write(paths[3], "{\"step\":1,\"loss\":2}\n", 21);
  training_chart trainings = read_chart(&paths[3], 1, AGAINST_STEPS, 0);
  ok(training_picture(&trainings, scratch_path("p.png"), &drawn, &error));
  training_chart_free(&trainings);
}

/* A long log is thinned for the picture, but not its extremes. */
static void no_spike_is_lost(void **unused)
{
  (void)unused;
  enum { STEPS = 30000 };
  double *losses = malloc(STEPS * sizeof *losses);
  assert_non_null(losses);
  for (int i = 0; i < STEPS; i++) losses[i] = 3 + 0.1 * sin(i);
  losses[12345] = 9.875;
  losses[23456] = 0.125;
  const char *path = write_log("log", 1, losses, STEPS);
  training_chart trainings = read_chart(&path, 1, AGAINST_STEPS, 0);
  bool drawn;
  ok(training_picture(&trainings, scratch_path("p.png"), &drawn, &error));
  char *data = scratch_read(scratch_path("p.dat"));
  size_t rows = 0;
  for (const char *c = data; *c; c++) rows += *c == '\n';
  assert_true(rows > 3000 && rows < 4200);
  scratch_says(data, "\n12346 9.875 ");
  scratch_says(data, "\n23457 0.125 ");
  free(data);
  free(losses);
  training_chart_free(&trainings);
}

static void what_is_no_run_is_said(void **unused)
{
  (void)unused;
  training_chart trainings;
  const double loss = 1;
  const char *paths[] = {write_log("log", 1, &loss, 1), scratch_path("nothing")};
  assert_int_equal(training_chart_read(paths, 2, AGAINST_STEPS, 0, &trainings, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "nothing: expected the directory of a run or a log file");
  assert_null(trainings.runs);
  paths[1] = scratch_folder;
  assert_int_equal(training_chart_read(paths, 2, AGAINST_STEPS, 0, &trainings, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "no log.jsonl in it");
  scratch_write(scratch_path("zero"), "{\"step\":0,\"loss\":1}\n", 21);
  paths[0] = scratch_path("zero");
  assert_int_equal(training_chart_read(paths, 1, AGAINST_STEPS, 0, &trainings, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "--against");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(means_stay_where_their_steps_are, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_end_is_the_last_twentieth, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(names_tell_runs_apart, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(places_are_those_of_the_axis, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(ranges_hold_what_is_drawn, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_beginning_does_not_flatten_the_rest, scratch_case_setup,
                                      scratch_teardown),
      cmocka_unit_test_setup_teardown(odd_names_and_no_numbers_are_drawn, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(no_spike_is_lost, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(what_is_no_run_is_said, scratch_case_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
