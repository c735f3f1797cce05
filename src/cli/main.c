/* The command `alibi`: finds the subcommand in the registry, parses its options, runs it, and turns what it
 * returns into one sentence and an exit code.  Nothing else happens here; a new subcommand is a file and a row. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/run.h"
#include "cli/terminal.h"

#include "command_registry.inc"

static volatile sig_atomic_t pipe_closed;

static void on_closed_pipe(int number)
{
  (void)number;
  pipe_closed = 1;
}

/* A file that may not grow (ulimit -f) is then a write that fails, as on a full disk, and costs no training. */
static void on_file_limit(int number)
{
  (void)number;
}

/* A mapped file was cut off, or its disk failed, while it was in use: nothing can go on. */
static void on_lost_file(int number)
{
  (void)number;
  descriptor_say(2, "\nalibi: a file that is in use was cut off, or could not be read: ended at once; what was "
                    "saved before is whole\n");
  _Exit(command_exit_code(ALIBI_BAD_INPUT));
}

static void write_usage(FILE *stream)
{
  fputs("usage: alibi COMMAND [options]\n\n"
        "Train a language model short, test and run it long.\n\n"
        "Commands:\n",
        stream);
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (command_registry[i]->summary) /* a command without one is for the program itself */
      fprintf(stream, "  %-12s %s\n", command_registry[i]->name, command_registry[i]->summary);
  fputs("\nalibi COMMAND --help shows the options of a command; alibi --version the version.\n", stream);
}

static const command *find_command(const char *name)
{
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(command_registry[i]->name, name) == 0) return command_registry[i];
  return NULL;
}

static status unknown_command(const char *name, alibi_error *error)
{
  nearest_name nearest = {.typed = name};
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (command_registry[i]->summary) nearest_consider(&nearest, command_registry[i]->name);
  const char *kind = name[0] == '-' ? "option" : "command";
  if (nearest.best[0])
    return fail(error, ALIBI_INVALID, "unknown %s %s; did you mean %s?", kind, name, nearest.best);
  return fail(error, ALIBI_INVALID, "unknown %s %s; alibi --help lists the commands", kind, name);
}

static bool asks_help(int count, char **arguments)
{
  for (int i = 0; i < count && strcmp(arguments[i], "--") != 0; i++)
    if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) return true;
  return false;
}

static status run_command(const command *c, int count, char **arguments, alibi_error *error)
{
  static command_line line;
  c->options(&line);
  cli_add_general(&line);
  status result = ALIBI_OK;
  if (asks_help(count, arguments)) {
    command_help(c, &line, stdout);
    goto done;
  }
  TRY(command_line_parse(&line, c, count, arguments, error));
  progress_open(stderr,
                cli_quiet()           ? PROGRESS_SILENT
                : terminal_is(stderr) ? PROGRESS_TERMINAL
                                      : PROGRESS_LINES,
                -1);
  result = c->run(&line, error);
  progress_clear();
done:
  command_line_free(&line);
  return result;
}

static status run(int count, char **arguments, alibi_error *error)
{
  const char *name = count > 1 ? arguments[1] : "";
  if (strcmp(name, "--version") == 0) {
    printf("alibi %s\n", alibi_version());
    return ALIBI_OK;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    const command *about = count > 2 ? find_command(arguments[2]) : NULL;
    if (about) return run_command(about, 1, (char *[]){"--help"}, error);
    if (count > 2) return unknown_command(arguments[2], error);
    write_usage(stdout);
    return ALIBI_OK;
  }
  if (count < 2) {
    write_usage(stderr);
    return ALIBI_INVALID;
  }
  const command *c = find_command(name);
  if (!c) return unknown_command(name, error);
  return run_command(c, count - 2, arguments + 2, error);
}

/* A full disk shows only when the last byte is flushed.  A reader that went away (alibi ... | head) is no failure.
 */
static status finish_output(alibi_error *error)
{
  bool failed = ferror(stdout) != 0;
  errno = 0;
  if (fflush(stdout) != 0) failed = true;
  if (!failed || pipe_closed) return ALIBI_OK;
  if (errno) return fail_errno(error, ALIBI_FAILED, "cannot write to standard output");
  return fail(error, ALIBI_FAILED, "cannot write to standard output");
}

/* The threads of gcc's OpenMP spin while they wait for each other.  On a machine that does other work too this
 * burns most of the time (20 training steps beside two busy processes: 10.9 s against 5.3 s); waiting a thousand
 * turns and then sleeping costs 3 % on an idle one.  The library reads the number when it is loaded, so the
 * program starts itself again. */
static void wait_politely(char **arguments)
{
  if (!getenv("OMP_WAIT_POLICY")) system_restart_with("GOMP_SPINCOUNT", "1000", arguments);
}

int main(int count, char **arguments)
{
  wait_politely(arguments);
  terminal_guard_descriptors();
  signal(SIGPIPE, on_closed_pipe); /* a handler, not SIG_IGN: programs that we start get the default back */
  signal(SIGXFSZ, on_file_limit);
  signal(SIGBUS, on_lost_file);
  alibi_error error;
  alibi_error_init(&error);
  status result = run(count, arguments, &error);
  if (result != ALIBI_OK) {
    fflush(stdout);
    if (error.message[0]) fprintf(stderr, "alibi: %s\n", error.message);
  }
  status written = finish_output(&error);
  if (written != ALIBI_OK) {
    fprintf(stderr, "alibi: %s\n", error.message);
    if (result == ALIBI_OK) result = written;
  }
  ranks_close(result, command_exit_code(result));
  return command_exit_code(result);
}
