/* What the checks call fields, told as the options of alibi train and study; what is no option keeps its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "train/option_sentence.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

static void only_options_are_named(void **unused)
{
  (void)unused;
  static const struct {
    const char *before, *after;
  } rows[] = {
      {"model configuration: heads: expected 1 (or set head_size)", "--heads: expected 1 (or set --head-size)"},
      {"position method 'alibi': slopes: expected numbers", "--alibi-slopes: expected numbers"},
      {"batch_tokens: expected a multiple", "--batch-tokens: expected a multiple"},
      {"original_length: expected at most train_length", "original_length: expected at most --train-length"},
      {"model configuration: original_length: expected 1", "model configuration: original_length: expected 1"},
  };
  alibi_error error;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    snprintf(error.message, sizeof error.message, "%s", rows[i].before);
    assert_int_equal(option_sentence(ALIBI_INVALID, "alibi", &error), ALIBI_INVALID);
    assert_string_equal(error.message, rows[i].after);
  }
  snprintf(error.message, sizeof error.message, "heads: a file");
  assert_int_equal(option_sentence(ALIBI_BAD_INPUT, "alibi", &error), ALIBI_BAD_INPUT);
  assert_string_equal(error.message, "heads: a file");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(only_options_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
