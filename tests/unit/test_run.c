/* A signal cancels the context of the command, and only while there is one. */
#include "base/context.h"
#include "cli/run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_signal_cancels_the_context(void **unused)
{
  (void)unused;
  static const int signals[] = {SIGINT, SIGTERM};
  for (size_t i = 0; i < 2; i++) {
    alibi_error error;
    alibi_error_init(&error);
    alibi_context *context;
    assert_int_equal(cli_context(&context, &error), ALIBI_OK);
    assert_int_equal(context_check_cancel(context, &error), ALIBI_OK);
    assert_false(cli_interrupted());
    raise(signals[i]);
    assert_true(cli_interrupted());
    assert_int_equal(context_check_cancel(context, &error), ALIBI_CANCELLED);
    assert_int_equal(command_exit_code(error.status), 130);
    cli_context_free(context);
    assert_true(signal(signals[i], SIG_DFL) == SIG_DFL); /* given back */
  }
}

static void general_options_reach_the_context(void **unused)
{
  (void)unused;
  static command_line line;
  cli_add_general(&line);
  const option_group *group = &line.groups[0];
  alibi_error error;
  alibi_context *context;
  assert_int_equal(field_set_text(field_find(group->table, "threads"), group->values, "--threads", "3", &error),
                   ALIBI_OK);
  assert_int_equal(cli_context(&context, &error), ALIBI_OK);
  assert_int_equal(alibi_context_threads(context), 3);
  cli_context_free(context);
  field_init(group->table, group->values);
  assert_int_equal(cli_threads(), 0);
  assert_false(cli_quiet());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_signal_cancels_the_context),
      cmocka_unit_test(general_options_reach_the_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
