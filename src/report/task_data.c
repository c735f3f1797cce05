/* results.json and results.csv of a task; docs/tasks.md describes them.  What is not known is null, or empty. */
#include "report/task_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"

static void set_cell(json_node *node, const task_report *r, const task_cell *c)
{
  node_set_number(node, "accuracy", task_accuracy(r->task, c));
  node_set_number(node, "standard_error", task_accuracy_error(c));
  node_set_integer(node, "answers", c->answers);
  node_set_integer(node, "right", c->exact);
  node_set_integer(node, "tokens", c->tokens);
  node_set_integer(node, "tokens_right", c->hits);
  node_set_number(node, "nll", c->tokens > 0 ? c->nll / (double)c->tokens : NAN);
}

static json_node *row_node(const task_report *r, const task_result *t, const task_row *row)
{
  json_node *node = node_new_object();
  if (r->task->own_length) node_set_null(node, "length");
  else node_set_integer(node, "length", row->length);
  if (row->why[0]) {
    node_set_text(node, "error", row->why);
    return node;
  }
  if (r->task->run) {
    for (size_t m = 0; r->task->measures[m]; m++) {
      json_node *measure = node_new_object();
      node_set_number(measure, "value", row->measures[m].value);
      node_set_number(measure, "standard_error", row->measures[m].standard_error);
      node_set(node, r->task->measures[m], measure);
    }
  } else {
    set_cell(node, r, &row->all);
    json_node *depths = node_new_array();
    for (size_t c = 0; c < t->columns; c++) {
      json_node *cell = node_new_object();
      node_set_number(cell, "depth", r->settings->depths[c]);
      set_cell(cell, r, &row->cells[c]);
      node_append(depths, cell);
    }
    node_set(node, "depths", depths);
  }
  node_set_integer(node, "input_tokens", row->inputs);
  node_set_number(node, "seconds", row->seconds);
  return node;
}

static json_node *line_node(const task_report *r, const task_line *line)
{
  json_node *node = node_new_object(), *rows = node_new_array();
  node_set_text(node, "name", line->name);
  node_set_text(node, "path", line->path);
  node_set_text(node, "position", line->position);
  node_set_text(node, "extension", line->extension);
  node_set_integer(node, "train_length", line->train_length);
  node_set_integer(node, "parameters", line->parameters);
  node_set_text(node, "tokenizer", line->tokenizer);
  node_set_integer(node, "vocabulary", line->vocabulary);
  if (r->text) node_set_integer(node, "text_tokens", line->text_tokens);
  else node_set_null(node, "text_tokens");
  if (task_has_reach(r)) node_set_integer(node, "reach", task_reach(r->task, &line->result, task_found_share));
  for (size_t i = 0; i < line->result.count; i++)
    node_append(rows, row_node(r, &line->result, &line->result.rows[i]));
  node_set(node, "rows", rows);
  return node;
}

json_node *task_node(const task_report *r)
{
  json_node *root = node_new_object(), *settings = node_new_object(), *models = node_new_array(),
            *lengths = node_new_array(), *depths = node_new_array();
  for (size_t i = 0; i < r->settings->length_count; i++) node_append_integer(lengths, r->settings->lengths[i]);
  for (size_t i = 0; i < r->settings->depth_count; i++) node_append_number(depths, r->settings->depths[i]);
  node_set_integer(root, "schema", TASK_SCHEMA);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "task", r->task->name);
  node_set_text(root, "title", r->task->title);
  node_set_text(root, "source", r->task->source[0] ? r->task->source : NULL);
  node_set_text(root, "command", r->command);
  node_set_text(root, "machine", r->machine);
  node_set_number(root, "seconds", r->seconds);
  node_set(settings, "lengths", lengths);
  node_set(settings, "depths", depths);
  node_set_integer(settings, "trials", r->settings->trials);
  node_set_integer(settings, "seed", (int64_t)r->settings->seed);
  node_set_text(settings, "extend", r->extend);
  node_set_text(settings, "text", r->text);
  if (r->text) node_set_integer(settings, "text_bytes", r->text_bytes);
  else node_set_null(settings, "text_bytes");
  node_set_text(settings, "questions", r->questions);
  node_set_text(settings, "evaluator", r->evaluator);
  json_node *own = node_new_object();
  node_set_fields(own, r->task->fields, r->settings->options);
  node_set(settings, "task", own);
  node_set(root, "settings", settings);
  for (size_t i = 0; i < r->count; i++) node_append(models, line_node(r, &r->lines[i]));
  node_set(root, "models", models);
  return root;
}

/* ---- CSV ---- */

static void add_quoted(draft *d, const char *s)
{
  draft clean = {0};
  draft_add_clean(&clean, s);
  draft_put(d, "\"", 1);
  for (size_t i = 0; i < clean.used; i++) {
    if (clean.data[i] == '"') draft_put(d, "\"", 1);
    draft_put(d, clean.data + i, 1);
  }
  draft_put(d, "\"", 1);
  d->failed |= clean.failed;
  free(clean.data);
}

static void add_value(draft *d, double value)
{
  char text[40];
  number_exact(value, text, sizeof text);
  draft_add(d, ",%s", text);
}

static void add_start(draft *d, const task_line *line, const task_row *row)
{
  add_quoted(d, line->name);
  draft_add(d, ",%s,%" PRId64, line->position, row->length);
}

/* depth: NaN for all of a row. */
static void add_cell(draft *d, const task_report *r, const task_line *line, const task_row *row, double depth,
                     const task_cell *c)
{
  add_start(d, line, row);
  add_value(d, depth);
  add_value(d, task_accuracy(r->task, c));
  add_value(d, task_accuracy_error(c));
  draft_add(d, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, c->answers, c->exact, c->tokens, c->hits);
  add_value(d, c->tokens > 0 ? c->nll / (double)c->tokens : NAN);
  draft_add(d, ",\n");
}

static void add_row(draft *d, const task_report *r, const task_line *line, const task_row *row)
{
  if (row->why[0]) {
    add_start(d, line, row);
    for (size_t m = 0; r->task->run && r->task->measures[m]; m++) draft_add(d, ",,");
    draft_add(d, r->task->run ? "," : ",,,,,,,,,");
    add_quoted(d, row->why);
    draft_add(d, "\n");
  } else if (r->task->run) {
    add_start(d, line, row);
    for (size_t m = 0; r->task->measures[m]; m++) {
      add_value(d, row->measures[m].value);
      add_value(d, row->measures[m].standard_error);
    }
    draft_add(d, ",\n");
  } else {
    add_cell(d, r, line, row, NAN, &row->all);
    for (size_t c = 0; c < line->result.columns; c++)
      add_cell(d, r, line, row, r->settings->depths[c], &row->cells[c]);
  }
}

status task_write_csv(const task_report *r, const char *directory, alibi_error *error)
{
  draft d = {0};
  draft_add(&d, "model,position,length");
  for (size_t m = 0; r->task->run && r->task->measures[m]; m++)
    draft_add(&d, ",%s,%s_standard_error", r->task->measures[m], r->task->measures[m]);
  if (!r->task->run) draft_add(&d, ",depth,accuracy,standard_error,answers,right,tokens,tokens_right,nll");
  draft_add(&d, ",error\n");
  for (size_t i = 0; i < r->count; i++)
    for (size_t k = 0; k < r->lines[i].result.count; k++)
      add_row(&d, r, &r->lines[i], &r->lines[i].result.rows[k]);
  return draft_write(&d, directory, "results.csv", error);
}
