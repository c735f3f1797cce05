/* In a program whose locale writes 0,5: files, settings and sentences have the point all the same, and public
 * models open as they do elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/model.h"
#include "base/field.h"
#include "base/number.h"
#include "base/system.h"
#include "report/drawing.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

#include "unit/comma_locale.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  int made = scratch_setup(unused);
  comma_locale_enter();
  return made;
}

static int teardown(void **unused)
{
  comma_locale_leave();
  return scratch_teardown(unused);
}

static void numbers_are_written_with_a_point(void **unused)
{
  (void)unused;
  char text[NUMBER_SIZE];
  assert_int_equal(number_print(text, sizeof text, "%.2f|%d", 1234.5, 6), 9);
  assert_string_equal(text, "1234.50|6");
  assert_int_equal(number_print(text, 3, "%.2f", 1234.5), 7);
  assert_string_equal(text, "12");
  number_text(0.1, text);
  assert_string_equal(text, "0.1");
  number_text(1.0 / 3, text);
  assert_string_equal(text, "0.3333333333333333");
  number_text(0.1 + 0.2, text);
  assert_string_equal(text, "0.30000000000000004");
  number_text_float(0.1F, text);
  assert_string_equal(text, "0.1");
  number_text_float(16777216.0F, text);
  assert_string_equal(text, "16777216");
}

static void numbers_are_read_with_a_point(void **unused)
{
  (void)unused;
  char *end;
  double value;
  assert_true(number_parse("0.5,0.25", &end) == 0.5);
  assert_string_equal(end, ",0.25");
  assert_true(number_parse("2.5e-1", NULL) == 0.25);
  assert_true(number_read("12.5", &value));
  assert_true(value == 12.5);
  assert_false(number_read("12,5", &value));
}

/* The program's own numbers are as it wants them, also after a call of ours. */
static void the_locale_is_given_back(void **unused)
{
  (void)unused;
  char own[32], text[NUMBER_SIZE], expected[32];
  snprintf(expected, sizeof expected, "0%s5", localeconv()->decimal_point);
  number_text(0.5, text);
  snprintf(own, sizeof own, "%g", 0.5);
  assert_string_equal(own, expected);
}

static void settings_go_there_and_back(void **unused)
{
  (void)unused;
  typedef struct values {
    double share;
  } values;
  const field f = {.name = "share", .kind = FIELD_REAL, .offset = offsetof(values, share), .maximum = 1.5};
  values v = {0};
  char text[64];
  assert_int_equal(field_set_text(&f, &v, "--share", "0.7", &error), ALIBI_OK);
  assert_true(v.share == 0.7);
  field_get_text(&f, &v, text, sizeof text);
  assert_string_equal(text, "0.7");
  assert_int_equal(field_set_number(&f, &v, "--share", 2.5, &error), ALIBI_INVALID);
  assert_string_equal(error.message, "--share: expected a number from 0 to 1.5, found 2.5");
}

static void reports_have_points(void **unused)
{
  (void)unused;
  draft d = {0};
  char number[64];
  draft_add_csv_number(&d, 0.25);
  draft_add(&d, " %.1f %.600f", 2.5, 0.5); /* longer than what fits on the stack */
  number_short(3.25, number, sizeof number);
  draft_add(&d, " %s", number);
  number_tick(2.5e7, number, sizeof number);
  draft_add(&d, " %s", number);
  char *text = draft_take(&d);
  assert_non_null(text);
  assert_int_equal(strncmp(text, ",0.25 2.5 0.500", 15), 0);
  assert_string_equal(text + strlen(text) - 11, " 3.25 2.5e7");
  free(text);
}

/* The bytes of config.json, of a model opened and saved. */
static mapped_file config_of(alibi_context *context, const char *name, const char *folder)
{
  char path[1024] = __FILE__, saved[600];
  char *slash = strrchr(path, '/');
  alibi_model *model;
  mapped_file file;
  assert_non_null(slash);
  snprintf(slash, sizeof path - (size_t)(slash - path), "/../golden/families/%s", name);
  if (alibi_model_open(context, path, &model, &error) != ALIBI_OK) fail_msg("%s: %s", name, error.message);
  if (alibi_model_save(model, scratch_path(folder), &error) != ALIBI_OK) fail_msg("%s: %s", name, error.message);
  alibi_model_free(model);
  snprintf(saved, sizeof saved, "%s/config.json", scratch_path(folder));
  if (mapped_file_open(saved, &file, &error) != ALIBI_OK) fail_msg("%s: %s", name, error.message);
  return file;
}

static void models_are_the_same(void **unused)
{
  (void)unused;
  static const char *const names[] = {"btlm-slopes", "jais-linear",   "gguf-jais",      "llama-linear",
                                      "llama-yarn",  "llama-longrope", "gguf-llama-yarn", "mpt-heads-12"};
  alibi_context *context;
  assert_int_equal(alibi_context_new(NULL, &context, &error), ALIBI_OK);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char comma[64], plain[64];
    snprintf(comma, sizeof comma, "%s-comma", names[i]);
    snprintf(plain, sizeof plain, "%s-plain", names[i]);
    mapped_file here = config_of(context, names[i], comma);
    char *locale = strdup(setlocale(LC_NUMERIC, NULL));
    setlocale(LC_NUMERIC, "C");
    mapped_file there = config_of(context, names[i], plain);
    setlocale(LC_NUMERIC, locale);
    free(locale);
    assert_int_equal(here.size, there.size);
    assert_memory_equal(here.data, there.data, here.size);
    mapped_file_close(&here);
    mapped_file_close(&there);
  }
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(numbers_are_written_with_a_point, setup, teardown),
      cmocka_unit_test_setup_teardown(numbers_are_read_with_a_point, setup, teardown),
      cmocka_unit_test_setup_teardown(the_locale_is_given_back, setup, teardown),
      cmocka_unit_test_setup_teardown(settings_go_there_and_back, setup, teardown),
      cmocka_unit_test_setup_teardown(reports_have_points, setup, teardown),
      cmocka_unit_test_setup_teardown(models_are_the_same, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
