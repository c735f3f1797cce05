/* alibi eval: perplexity of models on texts, at one length after another.  A length that cannot be done is a row
 * that says why; the others go on. */
#include "base/system.h"
#include "cli/eval_output.h"
#include "cli/eval_request.h"
#include "cli/eval_rows.h"
#include "cli/eval_subject.h"
#include "cli/progress.h"
#include "cli/run.h"

extern const command command_eval;

static eval_request request;

static void eval_add_options(command_line *line)
{
  eval_request_add(line, &request);
}

/* What an evaluation that was interrupted has left is gone on with when that is asked for, and never lost by
 * chance. */
static status open_out(alibi_error *error)
{
  const char *out = request.out;
  status result = ALIBI_OK;
  if (!out) goto done;
  TRY(directory_make(out, error));
  bool kept = eval_rows_kept(out);
  if (kept && !request.options.resume)
    RAISE(error, ALIBI_INVALID,
          "--out %s: an evaluation was interrupted there: --resume goes on with it; to begin anew remove its "
          "evaluation-*.keep",
          out);
  if (!kept && request.options.resume && !cli_quiet())
    progress_note("%s: no interrupted evaluation: begins anew", out);
done:
  return result;
}

static status evaluate(eval_subject *subject, eval_rows *rows, token_table *table, alibi_error *error)
{
  double begun = system_seconds();
  status result;
  TRY(eval_rows_add(subject, rows, error));
  result = eval_rows_run(subject, request.out, error);
  if (result == ALIBI_CANCELLED && request.out && eval_rows_kept(request.out) && !cli_quiet())
    progress_note("What was read is kept in %s: the same command with --resume goes on.", request.out);
  if (result != ALIBI_OK) goto done;
  TRY(eval_rows_read(subject, rows, error));
  subject->results.seconds = system_seconds() - begun;
  TRY(eval_output_print(subject, error)); /* first: a file that cannot be written takes no numbers with it */
  if (request.out) TRY(eval_output_reports(subject, error));
  if (request.per_token) TRY(eval_output_tokens(subject, rows, table, error));
  if (request.out) eval_rows_forget(request.out);
  TRY(eval_output_judge(subject, rows, error));
done:
  return result;
}

static status eval_run(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  eval_subject subject = {0};
  eval_rows rows = {0};
  token_table table = {0};
  status result;
  TRY(eval_request_read(line, &request, error));
  TRY(cli_context(&context, error));
  TRY(eval_subject_open(context, &request, &subject, error));
  TRY(open_out(error));
  if (request.per_token) TRY(token_table_begin(request.per_token, &table, error));
  subject.results.command = command_line_text(line, &command_eval);
  TRY(eval_output_describe(&subject, context, error));
  TRY(evaluate(&subject, &rows, &table, error));
done:
  token_table_abandon(&table);
  eval_rows_free(&rows);
  eval_subject_free(&subject);
  cli_context_free(context);
  return result;
}

const command command_eval = {
    .name = "eval",
    .summary = "Measure perplexity of models on texts, at the training length and beyond.",
    .operands = "MODEL...",
    .details =
        "nonoverlapping cuts a text into windows. sliding advances a window by the stride and scores its last "
        "tokens, so "
        "that each has nearly a whole window before it. fixed-target scores the same tokens at every length, each "
        "with "
        "exactly that many tokens to read: the fairest comparison. streaming reads on behind a cache.\n\n"
        "A MODEL is a directory with config.json, model.safetensors and tokenizer.json. Several are compared with "
        "the "
        "first one token by token: better or worse is said where the difference is more than two of its standard "
        "errors.\n\n"
        "perplexity is per token, +- its standard error; tokens are those that were scored, tokens/s those that "
        "were "
        "read. docs/evaluation.md has the protocols, the JSON and how to use it in CI.",
    .options = eval_add_options,
    .run = eval_run,
};
