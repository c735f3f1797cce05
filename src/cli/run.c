/* The context of a command and the signals that cancel it.  A signal only sets flags; the library notices them at
 * its next safe point, so that what is finished is kept. */
#include "cli/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "cli/progress.h"

typedef struct general_options {
  int64_t threads;
  bool quiet;
} general_options;

static const field general_fields[] = {
    {.name = "threads", .kind = FIELD_INTEGER, .offset = offsetof(general_options, threads), .minimum = 0,
     .maximum = 1024, .help = "threads to compute with; 0: one for each processor"},
    {.name = "quiet", .kind = FIELD_BOOLEAN, .offset = offsetof(general_options, quiet), .maximum = 1,
     .help = "no progress and no remarks on standard error"},
};

static general_options general;
static alibi_context *volatile interruptible;
static volatile sig_atomic_t signals_seen;

void cli_add_general(command_line *line)
{
  command_add_group(line, "General", (field_table)FIELD_TABLE(general_fields), &general, "");
}

int cli_threads(void)
{
  return (int)general.threads;
}

bool cli_quiet(void)
{
  return general.quiet;
}

void cli_share_threads(int processes)
{
  if (general.threads > 0) return;
  general.threads = system_processors() / processes;
  if (general.threads < 1) general.threads = 1;
}

void cli_be_quiet(void)
{
  general.quiet = true;
}

bool cli_interrupted(void)
{
  return signals_seen != 0;
}

static volatile sig_atomic_t stays;

void cli_stay_for_signals(void)
{
  stays = 1;
}

/* `timeout` and mpirun signal the process and then its whole group, so one wish arrives twice within a moment. */
static const double ONE_WISH = 0.3; /* seconds */
static double first_signal;

static volatile sig_atomic_t may_end;

static void on_signal(int number)
{
  (void)number;
  if (may_end) {
    descriptor_say(2, "alibi: interrupted\n");
    _Exit(130);
  }
  double now = system_seconds();
  if (!signals_seen) first_signal = now;
  else if (!stays && now - first_signal > ONE_WISH) _Exit(130);
  signals_seen = 1;
  if (interruptible) alibi_context_cancel(interruptible);
}

static void catch_signals(void)
{
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (signal(SIGHUP, on_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN); /* nohup */
}

static void let_signals_go(void)
{
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (signal(SIGHUP, SIG_DFL) == SIG_IGN) signal(SIGHUP, SIG_IGN);
}

void cli_work_alone(void)
{
  fflush(stdout);
  may_end = 1;
  if (!interruptible) catch_signals();
}

void cli_work_done(void)
{
  may_end = 0;
  if (!interruptible) let_signals_go();
}

static void on_log(void *user, alibi_log_level level, const char *sentence)
{
  (void)user;
  if (level == ALIBI_LOG_WARNING)
    progress_note("alibi: warning: %s", sentence);
  else if (!general.quiet)
    progress_note("%s", sentence);
}

status cli_context(alibi_context **context, alibi_error *error)
{
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = (int)general.threads;
  options.log = on_log;
  signals_seen = 0;
  catch_signals();
  status result = alibi_context_new(&options, context, error);
  if (result != ALIBI_OK) return result;
  interruptible = *context;
  if (signals_seen) alibi_context_cancel(*context); /* it came while the context was being made */
  return ALIBI_OK;
}

void cli_context_free(alibi_context *context)
{
  interruptible = NULL;
  let_signals_go();
  alibi_context_free(context);
}
