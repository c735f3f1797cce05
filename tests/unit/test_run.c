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
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < 3; i++) {
    alibi_error error;
    alibi_error_init(&error);
    alibi_context *context;
    assert_int_equal(cli_context(&context, &error), ALIBI_OK);
    assert_int_equal(context_check_cancel(context, &error), ALIBI_OK);
    assert_false(cli_interrupted());
    raise(signals[i]);
    raise(signals[i]); /* `timeout` sends its signal twice: that is one, and not the second that ends at once */
    raise(SIGTERM);
    assert_true(cli_interrupted());
    assert_int_equal(context_check_cancel(context, &error), ALIBI_CANCELLED);
    assert_int_equal(command_exit_code(error.status), 130);
    cli_context_free(context);
    assert_true(signal(signals[i], SIG_DFL) == SIG_DFL); /* given back */
  }
}

/* As nohup leaves it. */
static void an_ignored_hangup_stays_ignored(void **unused)
{
  (void)unused;
  alibi_error error;
  alibi_context *context;
  signal(SIGHUP, SIG_IGN);
  assert_int_equal(cli_context(&context, &error), ALIBI_OK);
  raise(SIGHUP);
  assert_false(cli_interrupted());
  cli_context_free(context);
  assert_true(signal(SIGHUP, SIG_DFL) == SIG_IGN);
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
      cmocka_unit_test(an_ignored_hangup_stays_ignored),
      cmocka_unit_test(general_options_reach_the_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
