/* alibi plot: logs of trainings as a picture, in characters, as a table, and as numbers for other programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "file/training_scalars.h"
#include "report/training_chart.h"

enum { MOST_RUNS = 64 };

typedef struct plot_options {
  int against;
  int64_t smooth;
  bool text;
} plot_options;

static const field plot_fields[] = {
    {.name = "against",
     .kind = FIELD_CHOICE,
     .offset = offsetof(plot_options, against),
     .maximum = 2,
     .choices = training_axis_names,
     .help = "what lies on the x axis"},
    {.name = "smooth",
     .kind = FIELD_INTEGER,
     .offset = offsetof(plot_options, smooth),
     .maximum = 1e9,
     .help =
         "steps of the mean that is drawn, the raw curve faint behind it; 1: none, 0: a fiftieth of the longest "
         "run"},
    {.name = "text",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(plot_options, text),
     .maximum = 1,
     .help = "draw in characters, on the terminal"},
};

static plot_options options;
static const char *out, *json, *csv, *events;

static void plot_add_options(command_line *line)
{
  out = json = csv = events = NULL;
  command_add_text(
      line, "out", "FILE", &out,
      "the picture, ending in .png, with its script and data beside it; without any of --out, --text, "
      "--json, --csv and --events: plot.png");
  command_add_text(line, "json", "FILE", &json,
                   "every number of all runs; -: to standard output, in place of the table");
  command_add_text(line, "csv", "FILE", &csv, "the same as a table; -: to standard output, in place of the table");
  command_add_text(line, "events", "DIR", &events,
                   "DIR/NAME/events.out.tfevents... for every run: for TensorBoard");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(plot_fields), &options, "");
}

static bool is_standard(const char *path)
{
  return path && strcmp(path, "-") == 0;
}

static status check_line(const command_line *line, alibi_error *error)
{
  if (line->operand_count == 0) return fail(error, ALIBI_INVALID, "plot: expected at least one RUN, found none");
  if (line->operand_count > MOST_RUNS)
    return fail(error, ALIBI_INVALID, "plot: expected at most %d runs, found %zu", MOST_RUNS, line->operand_count);
  for (size_t i = 0; i < line->operand_count; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp(line->operands[i], line->operands[j]) == 0)
        return fail(error, ALIBI_INVALID, "plot: %s stands there twice", line->operands[i]);
  size_t size = out ? strlen(out) : 0;
  bool picture = size > strlen(".png") && strcmp(out + size - strlen(".png"), ".png") == 0 && out[size - 5] != '/';
  if (out && !picture)
    return fail(error, ALIBI_INVALID, "--out: expected a name that ends in .png, found '%s'", out);
  if (is_standard(json) && is_standard(csv))
    return fail(error, ALIBI_INVALID, "--json and --csv: expected one of them on standard output, found both");
  if (options.text && (is_standard(json) || is_standard(csv)))
    return fail(error, ALIBI_INVALID, "--text: draws on standard output, found --%s - too",
                is_standard(json) ? "json" : "csv");
  return ALIBI_OK;
}

/* Takes the text over; NULL: there was no memory for it. */
static status write_text(char *text, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the numbers");
  if (is_standard(path)) fputs(text, stdout);
  else result = file_write_atomic(path, text, strlen(text), error);
  free(text);
  return result;
}

static status write_json(const training_chart *trainings, alibi_error *error)
{
  json_node *root = training_node(trainings);
  status result = ALIBI_OK;
  if (is_standard(json)) {
    result = write_text(node_to_text(root), json, error);
    if (result == ALIBI_OK) printf("\n");
  } else {
    result = node_write_file(root, json, error);
  }
  node_free(root);
  return result;
}

/* ---- for TensorBoard ---- */

static status add_evaluations(event_file *file, const logged_run *run, size_t *next, int64_t until, double time,
                              alibi_error *error)
{
  const training_log *log = &run->log;
  status result = ALIBI_OK;
  for (; result == ALIBI_OK && *next < log->evaluation_count && log->evaluations[*next].step <= until; ++*next)
    result = training_scalars_evaluations(file, &log->evaluations[*next], 1, time, error);
  return result;
}

/* The log tells how long steps took, not when: the last one is taken for now. */
static status write_events(const logged_run *run, double now, alibi_error *error)
{
  const training_log *log = &run->log;
  event_file file = {0};
  size_t next = 0;
  status result;
  double start = now - run->elapsed[log->step_count - 1];
  char *name = strdup(run->name), *directory = NULL;
  for (char *c = name; c && *c; c++)
    if (*c == '/') *c = '_'; /* where it is a path */
  directory = name ? path_join(events, name) : NULL;
  if (!directory) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(event_file_begin(directory, 0, start, &file, error));
  for (size_t k = 0; k < log->step_count; k++) {
    const training_step *step = &log->steps[k];
    double time = start + run->elapsed[k];
    TRY(training_scalars_step(&file, step, time, error));
    TRY(add_evaluations(&file, run, &next, step->step, time, error));
  }
  TRY(add_evaluations(&file, run, &next, INT64_MAX, now, error));
done:
  event_file_end(&file);
  free(directory);
  free(name);
  return result;
}

/* ---- for people ---- */

static status print_plot(const training_chart *trainings, alibi_error *error)
{
  char *text = training_plot(trainings, terminal_columns(stdout, 80), terminal_utf8());
  status result = write_text(text, "-", error);
  if (result == ALIBI_OK) printf("\n");
  return result;
}

/* Without gnuplot somebody who asked for no picture by name sees the lines all the same. */
static status draw(const training_chart *trainings, bool *drawn, alibi_error *error)
{
  const char *path = out ? out : "plot.png";
  status result = training_picture(trainings, path, drawn, error);
  if (result != ALIBI_OK || *drawn) return result;
  if (out)
    return fail(error, ALIBI_FAILED, "--out: gnuplot is not installed; %.*s.gp draws %s where it is",
                (int)(strlen(out) - strlen(".png")), out, out);
  if (!cli_quiet()) progress_note("gnuplot is not installed; plot.gp draws plot.png where it is");
  return print_plot(trainings, error);
}

static status plot_run(command_line *line, alibi_error *error)
{
  training_chart trainings = {0};
  status result;
  bool drawn = false;
  TRY(check_line(line, error));
  TRY(training_chart_read(line->operands, line->operand_count, (training_axis)options.against, options.smooth,
                          &trainings, error));
  if (json) TRY(write_json(&trainings, error));
  if (csv) TRY(write_text(training_csv(&trainings), csv, error));
  double now = (double)time(NULL);
  for (size_t i = 0; i < trainings.count && events; i++) TRY(write_events(&trainings.runs[i], now, error));
  if (options.text) TRY(print_plot(&trainings, error));
  if (out || !(options.text || json || csv || events)) TRY(draw(&trainings, &drawn, error));
  if (!is_standard(json) && !is_standard(csv)) {
    TRY(write_text(training_table(&trainings), "-", error));
    if (drawn && !cli_quiet()) printf("\nThe picture: %s\n", out ? out : "plot.png");
  }
done:
  training_chart_free(&trainings);
  return result;
}

const command command_plot = {
    .name = "plot",
    .summary = "Draw the logs of trainings: loss, learning rate, gradient norm, tokens/s.",
    .operands = "RUN...",
    .details =
        "RUN is a directory that `alibi train` writes, or a log.jsonl, also while the training runs. Several "
        "runs are compared in one picture and one table. A log that jumps back, because a training was resumed, "
        "is read as it went on.",
    .options = plot_add_options,
    .run = plot_run,
};
