/* cli/run.h - what every command shares while it runs: the General options, the context, the signals. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>

#include "cli/command.h"

/* The General group: --threads, --quiet.  main.c adds it to every command. */
void cli_add_general(command_line *line);
int cli_threads(void); /* as given: 0 is all processors */
bool cli_quiet(void);

/* Where several processes share this machine: without --threads each has its part of the processors.  And all but
 * one are as if with --quiet. */
void cli_share_threads(int processes);
void cli_be_quiet(void);

/* A context with the threads of --threads.  The first SIGINT, SIGTERM or (where it is not ignored) SIGHUP cancels
 * it, a second one ends the program with exit code 130; what comes within a third of a second is one.  Its log
 * goes to stderr: warnings always, information without --quiet.  One at a time; release with cli_context_free,
 * which also takes the signals back. */
status cli_context(alibi_context **context, alibi_error *error);
void cli_context_free(alibi_context *context);

/* Between these calls a signal ends the program at once, as an interrupted one: for work that cannot be cancelled
 * in its midst and leaves nothing half done.  What was printed is written out first.  With a context or without.
 */
void cli_work_alone(void);
void cli_work_done(void);

/* From now on a second signal does not end the program: for a child that gets the terminal's Ctrl-C and its
 * parent's. */
void cli_stay_for_signals(void);

/* Was one of these received since cli_context? */
bool cli_interrupted(void);

#endif
