/* alibi study: the main job.  Train every position method short, test it long, on the user's own text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/extend_option.h"
#include "cli/json_output.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "study/study.h"

typedef struct output_options {
  bool json, resume, overwrite;
} output_options;

static const field output_fields[] = {
    {.name = "resume",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(output_options, resume),
     .maximum = 1,
     .help = "go on with the study in --out; all other settings come from there"},
    {.name = "overwrite",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(output_options, overwrite),
     .maximum = 1,
     .help = "begin anew where --out holds a study already"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(output_options, json),
     .maximum = 1,
     .help = "print results.json instead of the table and the plot"},
};

static study_settings settings;
static model_options model;
static output_options output;
static const char *out, *methods, *extend, *train_lengths, *test_lengths, *protocols, *rival, *valid, *beyond,
    *config_path;

static const char *const hidden[] = {"vocabulary", "train_length", "position", "original_length", NULL};

static void study_add_options(command_line *line)
{
  out = "out/study";
  methods = "none,learned,sinusoidal,rope,t5,alibi";
  extend = "ntk,yarn";
  train_lengths = "64";
  protocols = "fixed-target,sliding,nonoverlapping";
  rival = "sinusoidal";
  test_lengths = valid = NULL;
  beyond = "error";
  command_add_config(line, &config_path);
  command_add_text(line, "out", "DIR", &out, "where the report goes");
  command_add_text(
      line, "methods", "LIST", &methods,
      "position methods or sets of them, between commas: all, classic, modern, rope-family, alibi-family");
  command_add_text(line, "extend", "LIST", &extend,
                   "ways to extend trained positions when testing, between commas, with settings as in "
                   "ntk,yarn:factor=4,beta_fast=16; all; none");
  command_add_text(
      line, "beyond", "POLICY", &beyond,
      "how to test absolute positions beyond the trained ones too: error (no), clamp (to the last), wrap (from "
      "the first on)");
  command_add_text(line, "train-length", "LIST", &train_lengths,
                   "tokens a training sequence; several lengths train every method at each");
  command_add_text(line, "test-lengths", "LIST", &test_lengths,
                   "tokens a test window; default 1, 2, 4, 8, 16 times the training length");
  command_add_text(line, "protocols", "LIST", &protocols, "how to measure; see docs/results.md");
  command_add_text(line, "rival", "METHOD", &rival, "method that --rival-length trains");
  command_add_text(line, "valid", "LIST", &valid,
                   "test on these texts, between commas; default: the end of each TEXT is held out");
  command_add_group(line, "Study", study_fields(), &settings, "");
  command_add_group(line, "Output", (field_table)FIELD_TABLE(output_fields), &output, "");
  model_options_add(line, &model, hidden);
}

static bool used(const char *method)
{
  return study_uses(methods, method) || (settings.rival_length && strcmp(rival, method) == 0);
}

/* With --resume everything but --out and how to print comes from the study's directory. */
static status check_resume(const command_line *line, alibi_error *error)
{
  if (line->operand_count)
    return fail(error, ALIBI_INVALID, "--resume: expected no TEXT (the study's own is used), found '%s'",
                line->operands[0]);
  if (output.overwrite)
    return fail(error, ALIBI_INVALID, "--resume goes on, --overwrite begins anew: give one of them");
  static const char *const free_options[] = {"out", "resume", "json", "threads", "quiet", NULL};
  const char *other = command_line_given_other(line, free_options);
  if (other)
    return fail(error, ALIBI_INVALID, "--resume: takes all settings from %s/study.json, found %s too", out, other);
  return ALIBI_OK;
}

/* Options that would change nothing beside the others are slips. */
static status check_line(const command_line *line, alibi_error *error)
{
  if (output.resume) return check_resume(line, error);
  if (line->operand_count == 0) return fail(error, ALIBI_INVALID, "study: expected at least one TEXT, found none");
  if (settings.bytes && command_line_given(line, &settings, "vocabulary"))
    return fail(error, ALIBI_INVALID, "--bytes has a vocabulary of 256: give --bytes or --vocabulary, not both");
  if (valid && command_line_given(line, &settings, "held_out"))
    return fail(error, ALIBI_INVALID, "--valid names the texts to test on: give --valid or --held-out, not both");
  if (settings.rival_length == 0 && command_line_given(line, &rival, "rival"))
    return fail(error, ALIBI_INVALID, "--rival: expected --rival-length too");
  return model_options_check(line, &model, used, error);
}

/* Items of the study are numbered as they begin, as progress items are; the map keeps the two apart. */
enum { MAX_ITEMS = 512 };
static int items[MAX_ITEMS];

static void begin(void *user, int item, const char *what, double total, const char *unit)
{
  (void)user;
  if (item < MAX_ITEMS) items[item] = progress_begin(what, total, unit);
}

static void update(void *user, int item, double done, const char *detail)
{
  (void)user;
  if (item < MAX_ITEMS) progress_update(items[item], done, detail);
}

static void end(void *user, int item, const char *summary)
{
  (void)user;
  if (item < MAX_ITEMS) progress_end(items[item], summary);
}

static void note(void *user, const char *sentence)
{
  (void)user;
  if (!cli_quiet()) progress_note("%s", sentence);
}

static void print_text(char *text)
{
  if (text) fputs(text, stdout);
  free(text);
}

static void print_results(const study_results *results, const char *protocol, bool written)
{
  int columns = terminal_columns(stdout, 100);
  progress_clear();
  printf("\n%s\n\nPerplexity, %s (trained at *; docs/results.md says how it is measured):\n\n", results->question,
         protocol);
  print_text(results_table(results, protocol, columns));
  printf("\n");
  print_text(results_plot(results, protocol, columns, terminal_utf8()));
  printf("\n");
  print_text(results_costs(results));
  printf("\n%s\n", results->answer);
  if (results->rival_answer) printf("\n%s\n", results->rival_answer);
  if (written)
    printf("\nThe report: %s/report.html (also results.json, results.csv, curves.svg, curves.png)\n", out);
}

static status print_json(const study_results *results, alibi_error *error)
{
  progress_clear();
  return print_node(study_results_node(results), error);
}

extern const command command_study;

static status study_run_command(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  study_results results = {0};
  char *text = NULL;
  status result;
  const char *policy;
  TRY(check_line(line, error));
  TRY(extend_option_beyond(beyond, &policy, error));
  text = command_line_text(line, &command_study);
  TRY(cli_context(&context, error));
  study_request request = {.settings = settings,
                           .model = model.config,
                           .options = model.method_pointers,
                           .train = model.train,
                           .steps_given = command_line_given(line, &model.train, "steps"),
                           .methods = methods,
                           .extend = command_line_given(line, &extend, "extend") ? extend : NULL,
                           .beyond = policy,
                           .train_lengths = train_lengths,
                           .test_lengths = test_lengths,
                           .protocols = protocols,
                           .rival = rival,
                           .texts = line->operands,
                           .text_count = line->operand_count,
                           .valid = valid,
                           .directory = out,
                           .command = text,
                           .resume = output.resume,
                           .overwrite = output.overwrite,
                           .threads = cli_threads(),
                           .observer = {NULL, begin, update, end, note}};
  result = study_run(context, &request, &results, error);
  if (results.method_count && output.json) { /* what is done, also where the rest failed */
    if (result == ALIBI_OK) TRY(print_json(&results, error));
    else print_json(&results, NULL);
  } else if (results.method_count)
    print_results(&results, results.methods[0].curve_count ? results.methods[0].curves[0].protocol : "",
                  result == ALIBI_OK || result == ALIBI_CANCELLED);
done:
  study_results_free(&results);
  cli_context_free(context);
  free(text);
  return result;
}

const command command_study = {
    .name = "study",
    .summary = "Train position methods short, test them long, and report (the main job).",
    .operands = "TEXT...",
    .details =
        "Trains a small model for every position method on the same batches of your text, at a short length, and "
        "measures its "
        "perplexity at longer ones. The report in --out says which methods still work there, and at what cost.\n\n"
        "An interrupted study keeps every finished method; --resume goes on.",
    .options = study_add_options,
    .run = study_run_command,
};
