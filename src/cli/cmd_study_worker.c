/* The part of a study that runs in a child process; started by alibi study, not by people. */
#include "cli/command.h"
#include "cli/run.h"
#include "study/study.h"

static void study_worker_add_options(command_line *line)
{
  (void)line;
}

static status study_worker_run(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  status result;
  if (line->operand_count != 2)
    RAISE(error, ALIBI_INVALID, "study_worker: expected a study's directory and an entry, found %zu operands",
          line->operand_count);
  cli_stay_for_signals();
  TRY(cli_context(&context, error));
  result = study_worker(context, line->operands[0], line->operands[1], error);
done:
  cli_context_free(context);
  return result;
}

const command command_study_worker = {
    .name = "study_worker",
    .summary = NULL,
    .operands = "DIR ENTRY",
    .details = NULL,
    .options = study_worker_add_options,
    .run = study_worker_run,
};
