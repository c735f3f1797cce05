/* A task's results in characters. */
#include "report/task_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "report/drawing.h"

const double task_found_share = 0.8;

enum { COLUMN = 14, NOTES = 32 };

bool task_has_reach(const task_report *r)
{
  return !r->task->run;
}

const char *task_counts(const task_report *r)
{
  return r->task->by_token ? "tokens right" : "answers right";
}

void task_percent(double share, char *text, size_t size)
{
  if (!isfinite(share)) snprintf(text, size, "-");
  else number_print(text, size, "%.1f", 100 * share);
}

void task_number(double value, char *text, size_t size)
{
  if (!isfinite(value)) snprintf(text, size, "-");
  else if (fabs(value) >= 1000 || value == floor(value)) number_print(text, size, "%.0f", value);
  else number_print(text, size, fabs(value) < 10 ? "%.4f" : "%.2f", value);
}

/* Right-aligned by columns, as bytes of UTF-8 are not. */
static void add_right(draft *d, const char *text, size_t width)
{
  size_t columns = utf8_columns(text);
  for (size_t i = columns; i < width; i++) draft_put(d, " ", 1);
  draft_add_clean(d, text);
}

/* Why cells are empty, numbered. */
typedef struct notes {
  const char *sentences[NOTES];
  size_t count;
} notes;

static size_t note(notes *n, const char *sentence)
{
  size_t i = 0;
  while (i < n->count && strcmp(n->sentences[i], sentence) != 0) i++;
  if (i == n->count && n->count < NOTES) n->sentences[n->count++] = sentence;
  return i < NOTES ? i + 1 : NOTES;
}

static void add_notes(draft *d, const notes *n)
{
  for (size_t i = 0; i < n->count; i++) {
    draft_add(d, "[%zu] ", i + 1);
    draft_add_clean(d, n->sentences[i]);
    draft_add(d, "\n");
  }
}

static size_t column_width(const task_report *r, size_t line)
{
  size_t name = utf8_columns(r->lines[line].name) + 2;
  return name > COLUMN ? name : COLUMN;
}

static void add_names(draft *d, const task_report *r, const char *first)
{
  add_right(d, first, 10);
  for (size_t i = 0; i < r->count; i++) add_right(d, r->lines[i].name, column_width(r, i));
  draft_add(d, "\n");
}

static void add_accuracy(draft *d, const task_report *r, const task_cell *c, size_t width)
{
  char share[32], error[32], text[96];
  double deviation = task_accuracy_error(c);
  task_percent(task_accuracy(r->task, c), share, sizeof share);
  task_percent(deviation, error, sizeof error);
  if (isfinite(deviation)) snprintf(text, sizeof text, "%s +- %4s", share, error);
  else snprintf(text, sizeof text, "%s", share);
  add_right(d, text, width);
}

/* ---- accuracy: lengths against models ---- */

static void add_comparison(draft *d, const task_report *r, notes *n)
{
  add_names(d, r, "length");
  for (size_t row = 0; row < r->lines[0].result.count; row++) {
    draft_add(d, "%10" PRId64, r->lines[0].result.rows[row].length);
    for (size_t i = 0; i < r->count; i++) {
      const task_row *one = &r->lines[i].result.rows[row];
      char mark[16];
      if (!one->why[0]) {
        add_accuracy(d, r, &one->all, column_width(r, i));
        continue;
      }
      snprintf(mark, sizeof mark, "[%zu]", note(n, one->why));
      add_right(d, mark, column_width(r, i));
    }
    draft_add(d, "\n");
  }
}

static void add_reach(draft *d, const task_report *r)
{
  for (size_t i = 0; i < r->count; i++) {
    int64_t reach = task_reach(r->task, &r->lines[i].result, task_found_share);
    draft_add_clean(d, r->lines[i].name);
    if (reach > 0) draft_add(d, ": %.0f %% or more up to %" PRId64 " tokens\n", 100 * task_found_share, reach);
    else draft_add(d, ": not %.0f %% even at the shortest length\n", 100 * task_found_share);
  }
}

/* ---- grids ---- */

static const char *shade(double share)
{
  static const char *const shades[] = {".", ":", "+", "#", "@"};
  return !isfinite(share) ? " "
                          : shades[share >= 0.95  ? 4
                                   : share >= 0.8 ? 3
                                   : share >= 0.5 ? 2
                                   : share >= 0.2 ? 1
                                                  : 0];
}

static bool any_done(const task_result *t)
{
  for (size_t i = 0; i < t->count; i++)
    if (!t->rows[i].why[0]) return true;
  return false;
}

static bool has_grid(const task_line *line)
{
  return line->result.columns > 1 && any_done(&line->result);
}

static void add_legend(draft *d)
{
  draft_add(d, "\n@ 95 %% or more, # 80, + 50, : 20, . less\n");
}

static void add_grid(draft *d, const task_report *r, const task_line *line)
{
  const task_result *t = &line->result;
  draft_add(d, "\n");
  draft_add_clean(d, line->name);
  draft_add(d, ": %% of %s by depth (0: the beginning, 100: the end)\n%10s", task_counts(r), "length");
  for (size_t c = 0; c < t->columns; c++) draft_add(d, " %6.4g ", 100 * r->settings->depths[c]);
  draft_add(d, "\n");
  for (size_t row = 0; row < t->count; row++) {
    if (t->rows[row].why[0]) continue;
    draft_add(d, "%10" PRId64, t->rows[row].length);
    for (size_t c = 0; c < t->columns; c++) {
      char text[32];
      double share = task_accuracy(r->task, &t->rows[row].cells[c]);
      task_percent(share, text, sizeof text);
      draft_add(d, " %6s%s", text, shade(share));
    }
    draft_add(d, "\n");
  }
}

/* ---- measures ---- */

static void add_measures(draft *d, const task_report *r, notes *n)
{
  const char *const *names = r->task->measures;
  size_t wide = 10;
  for (size_t i = 0; i < r->count; i++)
    if (utf8_columns(r->lines[i].name) > wide) wide = utf8_columns(r->lines[i].name);
  add_right(d, "model", wide);
  if (!r->task->own_length) draft_add(d, "%10s", "length");
  for (size_t m = 0; names[m]; m++) draft_add(d, " %20s", names[m]);
  draft_add(d, "\n");
  for (size_t i = 0; i < r->count; i++)
    for (size_t row = 0; row < r->lines[i].result.count; row++) {
      const task_row *one = &r->lines[i].result.rows[row];
      add_right(d, r->lines[i].name, wide);
      if (!r->task->own_length) draft_add(d, "%10" PRId64, one->length);
      if (one->why[0]) draft_add(d, "  [%zu]", note(n, one->why));
      for (size_t m = 0; names[m] && !one->why[0]; m++) {
        char value[32], error[32], text[80];
        task_number(one->measures[m].value, value, sizeof value);
        task_number(one->measures[m].standard_error, error, sizeof error);
        if (isfinite(one->measures[m].standard_error)) snprintf(text, sizeof text, "%s +- %s", value, error);
        else snprintf(text, sizeof text, "%s", value);
        draft_add(d, " %20s", text);
      }
      draft_add(d, "\n");
    }
}

char *task_table(const task_report *r)
{
  draft d = {0};
  notes n = {0};
  draft_add(&d, "%s: %s", r->task->name, r->task->about);
  if (r->extend) {
    draft_add(&d, "; positions by ");
    draft_add_clean(&d, r->extend);
  }
  draft_add(&d, "\n");
  for (size_t i = 0; i < r->count; i++) {
    draft_add_clean(&d, r->lines[i].name);
    draft_add(&d, ": %s, trained at %" PRId64 "\n", r->lines[i].position, r->lines[i].train_length);
  }
  draft_add(&d, "\n");
  if (r->task->run) {
    add_measures(&d, r, &n);
  } else {
    draft_add(&d, "%% of %s, +- its standard error\n", task_counts(r));
    add_comparison(&d, r, &n);
  }
  add_notes(&d, &n);
  if (!r->task->run) {
    draft_add(&d, "\n");
    add_reach(&d, r);
    bool grids = false;
    for (size_t i = 0; i < r->count; i++)
      if (has_grid(&r->lines[i])) {
        add_grid(&d, r, &r->lines[i]);
        grids = true;
      }
    if (grids) add_legend(&d);
  }
  return draft_take(&d);
}
