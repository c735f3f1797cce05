/* What progress writes: in plain lines, on a terminal, and with --quiet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/progress.h"

static FILE *stream;

static void start(progress_mode mode, double interval)
{
  if (stream) fclose(stream);
  stream = tmpfile();
  assert_non_null(stream);
  progress_open(stream, mode, interval);
}

static const char *written(void)
{
  static char text[8192];
  rewind(stream);
  size_t size = fread(text, 1, sizeof text - 1, stream);
  text[size] = '\0';
  fseek(stream, 0, SEEK_END);
  return text;
}

static void lines_say_what_and_how_far(void **unused)
{
  (void)unused;
  start(PROGRESS_LINES, 0);
  int item = progress_begin("training alibi", 200, "steps");
  progress_update(item, 50, NULL);
  progress_update(item, 99.9, "loss 3.21");
  progress_update(item, 500, NULL); /* more than the total: still 100 % */
  progress_end(item, "trained alibi");
  assert_string_equal(written(), "training alibi  25 %\ntraining alibi  49 %, loss 3.21\n"
                                 "training alibi 100 %, loss 3.21\ntrained alibi\n");
}

static void lines_wait_for_the_interval(void **unused)
{
  (void)unused;
  start(PROGRESS_LINES, 3600);
  int item = progress_begin("training", 10, "steps");
  for (int i = 0; i < 10; i++) progress_update(item, i, NULL);
  progress_end(item, NULL);
  assert_string_equal(written(), "");
}

static void a_terminal_has_one_line_that_joins_the_items(void **unused)
{
  (void)unused;
  start(PROGRESS_TERMINAL, 0);
  int a = progress_begin("alibi", 100, "steps"), b = progress_begin("rope", 0, "steps");
  progress_update(a, 10, "loss 3");
  progress_update(b, 5, NULL);
  assert_non_null(strstr(written(), "\ralibi  10 %, loss 3 | rope\r"));
  assert_null(strchr(written(), '\n'));
  progress_note("a %s", "remark");
  progress_end(a, "alibi done");
  progress_update(b, 6, NULL);
  const char *text = written();
  assert_non_null(strstr(text, "\ra remark\n"));
  assert_non_null(strstr(text, "alibi done\n"));
  assert_non_null(strstr(text, "\rrope"));
  progress_end(b, NULL);
  progress_clear();
}

/* 80 columns where the stream does not tell, the last one kept free. */
static void a_line_too_long_loses_its_details_first(void **unused)
{
  (void)unused;
  start(PROGRESS_TERMINAL, 0);
  int item = progress_begin("01234567890123456789012345678901234567890123456789", 100, "steps");
  progress_update(item, 1, "details that go beyond the end");
  assert_string_equal(written(), "\r01234567890123456789012345678901234567890123456789   1 %\r");
  progress_end(item, NULL);
}

static void a_cut_never_splits_a_character(void **unused)
{
  (void)unused;
  start(PROGRESS_TERMINAL, 0);
  int items[4];
  for (int i = 0; i < 4; i++) {
    items[i] = progress_begin("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
                              0, "steps");
  }
  progress_update(items[0], 1, NULL);
  const char *text = written(); /* 3 x (20 + separator of 3), 10 of the last */
  assert_int_equal(strlen(text), 1 + 3 * (40 + 3) + 2 * 10 + 1);
  for (int i = 0; i < 4; i++) progress_end(items[i], NULL);
}

static void silent_writes_nothing_but_notes(void **unused)
{
  (void)unused;
  start(PROGRESS_SILENT, 0);
  int item = progress_begin("training", 10, "steps");
  progress_update(item, 5, "loss");
  progress_end(item, "done");
  assert_string_equal(written(), "");
  progress_note("warning");
  assert_string_equal(written(), "warning\n");
}

static void more_items_than_a_line_holds_are_left_out(void **unused)
{
  (void)unused;
  start(PROGRESS_LINES, 0);
  int items[40];
  for (int i = 0; i < 40; i++) items[i] = progress_begin("x", 1, "steps");
  assert_int_equal(items[39], -1);
  for (int i = 0; i < 40; i++) {
    progress_update(items[i], 1, NULL);
    progress_end(items[i], NULL);
  }
  assert_true(progress_begin("y", 1, "steps") >= 0);
}

static void times_read_like_a_clock(void **unused)
{
  (void)unused;
  static const struct {
    double seconds;
    const char *text;
  } rows[] = {{0, "0:00"}, {7.4, "0:07"}, {754, "12:34"}, {3723, "1:02:03"}, {-1, "0:00"}, {1e30, "277777:46:40"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[32];
    progress_format_time(rows[i].seconds, text, sizeof text);
    assert_string_equal(text, rows[i].text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_say_what_and_how_far),
      cmocka_unit_test(lines_wait_for_the_interval),
      cmocka_unit_test(a_terminal_has_one_line_that_joins_the_items),
      cmocka_unit_test(a_line_too_long_loses_its_details_first),
      cmocka_unit_test(a_cut_never_splits_a_character),
      cmocka_unit_test(silent_writes_nothing_but_notes),
      cmocka_unit_test(more_items_than_a_line_holds_are_left_out),
      cmocka_unit_test(times_read_like_a_clock),
  };
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  if (stream) fclose(stream);
  return failures;
}
