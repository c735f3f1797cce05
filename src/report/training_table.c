/* Logs as numbers: the table for people, JSON and CSV for programs.  Both of these hold every step with the keys
 * of log.jsonl, from its one table. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "report/drawing.h"
#include "report/training_chart.h"

/* ---- the table ---- */

enum { COLUMNS = 6, CELL = 160 };

static const char *const headings[COLUMNS] = {"run", "steps", "final loss", "best evaluation", "tokens/s", "time"};

static void put_time(double seconds, char *text, size_t size)
{
  long whole = lround(fmin(seconds, 1e9));
  if (!(seconds > 0)) snprintf(text, size, "-");
  else if (seconds < 9.95) number_print(text, size, "%.1f s", seconds);
  else if (whole < 3600) snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
  else snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

static void fill_row(const logged_run *run, char cells[COLUMNS][CELL])
{
  const training_log *log = &run->log;
  snprintf(cells[0], CELL, "%s", run->name);
  snprintf(cells[1], CELL, "%" PRId64, log->steps[log->step_count - 1].step);
  number_print(cells[2], CELL, isfinite(run->final_loss) ? "%.4f" : "nan", run->final_loss);
  if (run->best)
    number_print(cells[3], CELL, "%.4f at %" PRId64 " tokens, step %" PRId64, run->best->loss, run->best->length,
             run->best->step);
  else snprintf(cells[3], CELL, "-");
  if (run->tokens_per_second > 0) number_print(cells[4], CELL, "%.0f", run->tokens_per_second);
  else snprintf(cells[4], CELL, "-");
  put_time(run->elapsed[log->step_count - 1], cells[5], CELL);
}

static void add_row(draft *d, const char *const cells[COLUMNS], const size_t widths[COLUMNS])
{
  for (int c = 0; c < COLUMNS; c++) {
    draft clean = {0};
    draft_add_clean(&clean, cells[c]);
    const char *text = clean.data ? clean.data : "";
    size_t columns = utf8_columns(text), pad = widths[c] > columns ? widths[c] - columns : 0;
    bool left = c == 0 || c == 3;
    draft_add(d, "%s%*s%s", c ? "  " : "", left ? 0 : (int)pad, "", text);
    if (left && c < COLUMNS - 1) draft_add(d, "%*s", (int)pad, "");
    free(clean.data);
  }
  draft_add(d, "\n");
}

char *training_table(const training_chart *trainings)
{
  draft d = {0};
  char(*cells)[COLUMNS][CELL] = calloc(trainings->count, sizeof *cells);
  size_t widths[COLUMNS];
  if (!cells) return NULL;
  for (int c = 0; c < COLUMNS; c++) widths[c] = strlen(headings[c]);
  for (size_t i = 0; i < trainings->count; i++) {
    fill_row(&trainings->runs[i], cells[i]);
    for (int c = 0; c < COLUMNS; c++)
      if (utf8_columns(cells[i][c]) > widths[c]) widths[c] = utf8_columns(cells[i][c]);
  }
  add_row(&d, headings, widths);
  for (size_t i = 0; i < trainings->count; i++) {
    const char *row[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) row[c] = cells[i][c];
    add_row(&d, row, widths);
  }
  for (size_t i = 0; i < trainings->count; i++)
    for (size_t k = 0; k < trainings->runs[i].log.event_count; k++) {
      const training_event *event = &trainings->runs[i].log.events[k];
      if (!training_event_warns(event)) continue;
      draft_add_clean(&d, trainings->runs[i].name);
      draft_add(&d, ", step %" PRId64 ": ", event->step);
      draft_add_clean(&d, event->name);
      draft_add(&d, "%s", event->text[0] ? ", " : "");
      draft_add_clean(&d, event->text);
      draft_add(&d, "\n");
    }
  free(cells);
  return draft_take(&d);
}

/* ---- CSV ---- */

static void add_csv_text(draft *d, const char *s)
{
  draft clean = {0};
  draft_add_clean(&clean, s);
  const char *text = clean.data ? clean.data : "";
  draft_put(d, "\"", 1);
  for (const char *c = text; *c; c++) draft_put(d, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
  draft_put(d, "\"", 1);
  free(clean.data);
}

static void add_csv_number(draft *d, double value)
{
  char text[40];
  number_exact(value, text, sizeof text);
  draft_add(d, ",%s", text);
}

/* An evaluation is a row too: its length and loss stand in the columns of a step's. */
static void add_csv_evaluation(draft *d, field_table keys, const training_evaluation *one)
{
  for (size_t f = 0; f < keys.count; f++) {
    const char *name = keys.fields[f].name;
    if (strcmp(name, "step") == 0) draft_add(d, ",%" PRId64, one->step);
    else if (strcmp(name, "length") == 0) draft_add(d, ",%" PRId64, one->length);
    else if (strcmp(name, "loss") == 0) add_csv_number(d, one->loss);
    else draft_add(d, ",");
  }
  add_csv_number(d, one->perplexity);
  draft_add(d, "\n");
}

char *training_csv(const training_chart *trainings)
{
  field_table keys = training_step_fields();
  draft d = {0};
  draft_add(&d, "run,kind");
  for (size_t f = 0; f < keys.count; f++) draft_add(&d, ",%s", keys.fields[f].name);
  draft_add(&d, ",perplexity\n");
  for (size_t i = 0; i < trainings->count; i++) {
    const training_log *log = &trainings->runs[i].log;
    for (size_t k = 0; k < log->step_count; k++) {
      add_csv_text(&d, trainings->runs[i].name);
      draft_add(&d, ",step");
      for (size_t f = 0; f < keys.count; f++) {
        double value = field_get_number(&keys.fields[f], &log->steps[k]);
        add_csv_number(&d, value);
      }
      draft_add(&d, ",\n");
    }
    for (size_t k = 0; k < log->evaluation_count; k++) {
      add_csv_text(&d, trainings->runs[i].name);
      draft_add(&d, ",evaluation");
      add_csv_evaluation(&d, keys, &log->evaluations[k]);
    }
  }
  return draft_take(&d);
}

/* ---- JSON ---- */

static json_node *evaluation_node(const training_evaluation *one)
{
  json_node *node = node_new_object();
  node_set_integer(node, "step", one->step);
  node_set_integer(node, "length", one->length);
  node_set_number(node, "loss", one->loss);
  node_set_number(node, "perplexity", one->perplexity);
  return node;
}

/* Columns, as a program wants them: {"step":[1,2,...],"loss":[...]}. */
static json_node *steps_node(const training_log *log)
{
  field_table keys = training_step_fields();
  json_node *steps = node_new_object();
  for (size_t f = 0; f < keys.count; f++) {
    const field *key = &keys.fields[f];
    json_node *column = node_new_array();
    for (size_t k = 0; k < log->step_count; k++) {
      double value = field_get_number(key, &log->steps[k]);
      if (key->kind == FIELD_INTEGER) node_append_integer(column, (int64_t)value);
      else node_append_number(column, value);
    }
    node_set(steps, key->name, column);
  }
  return steps;
}

static json_node *run_node(const logged_run *run)
{
  const training_log *log = &run->log;
  json_node *node = node_new_object(), *evaluations = node_new_array(), *events = node_new_array();
  node_set_text(node, "name", run->name);
  node_set_text(node, "path", run->path);
  node_set_integer(node, "last_step", log->steps[log->step_count - 1].step);
  node_set_number(node, "final_loss", run->final_loss);
  if (run->best) node_set(node, "best_evaluation", evaluation_node(run->best));
  else node_set_null(node, "best_evaluation");
  node_set_number(node, "tokens_per_second", run->tokens_per_second);
  node_set_number(node, "seconds", run->elapsed[log->step_count - 1]);
  node_set(node, "steps", steps_node(log));
  for (size_t k = 0; k < log->evaluation_count; k++)
    node_append(evaluations, evaluation_node(&log->evaluations[k]));
  node_set(node, "evaluations", evaluations);
  for (size_t k = 0; k < log->event_count; k++) {
    json_node *event = node_new_object();
    node_set_integer(event, "step", log->events[k].step);
    node_set_text(event, "event", log->events[k].name);
    node_set_text(event, "text", log->events[k].text);
    node_append(events, event);
  }
  node_set(node, "events", events);
  return node;
}

json_node *training_node(const training_chart *trainings)
{
  json_node *root = node_new_object(), *runs = node_new_array();
  node_set_integer(root, "schema", 1);
  for (size_t i = 0; i < trainings->count; i++) node_append(runs, run_node(&trainings->runs[i]));
  node_set(root, "runs", runs);
  return root;
}
