/* report.html of a task: what was asked, the picture, the numbers with their colours, every setting.
 * Self-contained; every text from outside passes draft_add_escaped. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_parts.h"
#include "report/task_report.h"

static const char *class_of(double share)
{
  return !isfinite(share) ? "none"
         : share >= 0.95  ? "good"
         : share >= 0.8   ? "near"
         : share >= 0.5   ? "worse"
         : share >= 0.2   ? "bad"
                          : "broken";
}

static void add_why(draft *d, const char *why, size_t columns)
{
  draft_add(d, "<td class=\"none\" colspan=\"%zu\" style=\"text-align:left;white-space:normal\">", columns);
  draft_add_escaped(d, why);
  draft_add(d, "</td>");
}

static void add_cell(draft *d, const task_report *r, const task_cell *c)
{
  char text[32];
  double share = task_accuracy(r->task, c), error = task_accuracy_error(c);
  task_percent(share, text, sizeof text);
  draft_add(d, "<td class=\"%s\">%s", class_of(share), text);
  if (isfinite(error)) draft_add(d, "<span class=\"error\"> &plusmn;&nbsp;%.1f</span>", 100 * error);
  draft_add(d, "</td>");
}

static void add_comparison(draft *d, const task_report *r)
{
  draft_add(d, "<h2>By length</h2>\n<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>tokens</th>");
  for (size_t i = 0; i < r->count; i++) {
    draft_add(d, "<th>");
    draft_add_escaped(d, r->lines[i].name);
    draft_add(d, "<small>%s, trained at %" PRId64 "</small></th>", r->lines[i].position, r->lines[i].train_length);
  }
  draft_add(d, "</tr></thead><tbody>\n");
  for (size_t k = 0; k < r->lines[0].result.count; k++) {
    draft_add(d, "<tr><td>%" PRId64 "</td>", r->lines[0].result.rows[k].length);
    for (size_t i = 0; i < r->count; i++) {
      const task_row *row = &r->lines[i].result.rows[k];
      if (row->why[0]) add_why(d, row->why, 1);
      else add_cell(d, r, &row->all);
    }
    draft_add(d, "</tr>\n");
  }
  draft_add(d, "</tbody></table></div>\n<p class=\"foot\">%% of %s, &plusmn; its standard error.</p>\n",
            task_counts(r));
}

static void add_reach(draft *d, const task_report *r)
{
  draft_add(d, "<h2>How far</h2>\n<dl>\n");
  for (size_t i = 0; i < r->count; i++) {
    int64_t reach = task_reach(r->task, &r->lines[i].result, task_found_share);
    html_element(d, "<dt>", r->lines[i].name, "</dt>");
    if (reach > 0)
      draft_add(d, "<dd>%.0f %% or more up to %" PRId64 " tokens</dd>\n", 100 * task_found_share, reach);
    else draft_add(d, "<dd>not %.0f %% even at the shortest length</dd>\n", 100 * task_found_share);
  }
  draft_add(d, "</dl>\n");
}

static void add_grid(draft *d, const task_report *r, const task_line *line)
{
  const task_result *t = &line->result;
  html_element(d, "<h3>", line->name, "</h3>");
  draft_add(d, "<div class=\"scroll\"><table><thead><tr><th>tokens</th>");
  for (size_t c = 0; c < t->columns; c++) draft_add(d, "<th>%.4g %%</th>", 100 * r->settings->depths[c]);
  draft_add(d, "</tr></thead><tbody>\n");
  for (size_t k = 0; k < t->count; k++) {
    draft_add(d, "<tr><td>%" PRId64 "</td>", t->rows[k].length);
    if (t->rows[k].why[0]) add_why(d, t->rows[k].why, t->columns);
    for (size_t c = 0; !t->rows[k].why[0] && c < t->columns; c++) add_cell(d, r, &t->rows[k].cells[c]);
    draft_add(d, "</tr>\n");
  }
  draft_add(d, "</tbody></table></div>\n");
}

static void add_measures(draft *d, const task_report *r)
{
  size_t columns = 0;
  draft_add(d, "<h2>Results</h2>\n<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>model</th>");
  if (!r->task->own_length) draft_add(d, "<th>tokens</th>");
  for (; r->task->measures[columns]; columns++) draft_add(d, "<th>%s</th>", r->task->measures[columns]);
  draft_add(d, "</tr></thead><tbody>\n");
  for (size_t i = 0; i < r->count; i++)
    for (size_t k = 0; k < r->lines[i].result.count; k++) {
      const task_row *row = &r->lines[i].result.rows[k];
      html_element(d, "<tr><td>", r->lines[i].name, "</td>");
      if (!r->task->own_length) draft_add(d, "<td>%" PRId64 "</td>", row->length);
      if (row->why[0]) add_why(d, row->why, columns);
      for (size_t m = 0; !row->why[0] && m < columns; m++) {
        char value[32], error[32];
        task_number(row->measures[m].value, value, sizeof value);
        task_number(row->measures[m].standard_error, error, sizeof error);
        draft_add(d, "<td>%s", value);
        if (isfinite(row->measures[m].standard_error))
          draft_add(d, "<span class=\"error\"> &plusmn;&nbsp;%s</span>", error);
        draft_add(d, "</td>");
      }
      draft_add(d, "</tr>\n");
    }
  draft_add(d, "</tbody></table></div>\n");
}

static void add_setting(draft *d, const char *name, const char *value)
{
  if (!value || !value[0]) return;
  draft_add(d, "<tr><td>%s</td><td>", name);
  draft_add_escaped(d, value);
  draft_add(d, "</td></tr>\n");
}

static void add_settings(draft *d, const task_report *r)
{
  char text[128];
  draft_add(d, "<h2>Every setting</h2>\n<table class=\"settings\"><tbody>\n");
  snprintf(text, sizeof text, "%" PRId64, r->settings->trials);
  add_setting(d, "trials", text);
  snprintf(text, sizeof text, "%" PRIu64, r->settings->seed);
  add_setting(d, "seed", text);
  for (size_t i = 0; i < r->task->fields.count; i++) {
    field_get_text(&r->task->fields.fields[i], r->settings->options, text, sizeof text);
    add_setting(d, r->task->fields.fields[i].name, text);
  }
  add_setting(d, "text", r->text);
  add_setting(d, "questions", r->questions);
  add_setting(d, "evaluator", r->evaluator);
  add_setting(d, "positions by", r->extend);
  add_setting(d, "task after", r->task->source);
  add_setting(d, "machine", r->machine);
  add_setting(d, "command", r->command);
  draft_add(d, "</tbody></table>\n");
}

status task_write_html(const task_report *r, const char *directory, alibi_error *error)
{
  draft d = {0}, drawn = {0};
  html_begin(&d, r->task->title);
  draft_add(&d, "<h1>alibi task %s</h1>\n<p class=\"answer\">%s: ", r->task->name, r->task->title);
  draft_add_escaped(&d, r->task->about);
  draft_add(&d, "</p>\n");
  if (html_drawn(&drawn, directory, "task.svg", r->task->title)) {
    draft_add(&d, "<figure class=\"drawn\">\n");
    draft_put(&d, drawn.data, drawn.used);
    draft_add(&d, "</figure>\n");
  }
  free(draft_take(&drawn));
  if (r->task->run) {
    add_measures(&d, r);
  } else {
    add_comparison(&d, r);
    add_reach(&d, r);
  }
  if (!r->task->run && r->lines[0].result.columns > 1) {
    draft_add(&d, "<h2>By length and depth</h2>\n<p class=\"soft\">Depth is where in the context lies what is "
                  "asked for: 0 %% "
                  "its beginning, 100 %% its end.</p>\n");
    for (size_t i = 0; i < r->count; i++) add_grid(&d, r, &r->lines[i]);
  }
  add_settings(&d, r);
  draft_add(&d, "<footer>Made by alibi %s in ", alibi_version());
  html_seconds(&d, r->seconds);
  draft_add(&d, ".</footer>\n</main>\n</body>\n</html>\n");
  return draft_write(&d, directory, "report.html", error);
}
