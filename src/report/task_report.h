/* report/task_report.h - what a task found of one or several models, as people and programs read it: a table,
 * grids in characters, JSON, CSV, a heat map, a page.  docs/tasks.md is the user's page. */
#ifndef REPORT_TASK_REPORT_H
#define REPORT_TASK_REPORT_H

#include "evaluate/task.h"
#include "file/json.h"

enum { TASK_SCHEMA = 1 };

/* A model with what it did. */
typedef struct task_line {
  char *name;       /* what tells it from the others: the last part of its path where that does */
  const char *path; /* as given */
  char position[ALIBI_NAME_SIZE];
  char *extension; /* its own; NULL: none */
  int64_t train_length, parameters, vocabulary;
  const char *tokenizer; /* kind; NULL: none */
  int64_t text_tokens;
  task_result result;
} task_line;

/* Texts are borrowed unless said otherwise, and need not be UTF-8. */
typedef struct task_report {
  const evaluation_task *task;
  const task_settings *settings;
  const char *extend;                       /* how all models are run; NULL: as trained */
  const char *text, *questions, *evaluator; /* paths; NULL: none */
  int64_t text_bytes;
  const char *command, *machine;
  double seconds;
  task_line *lines;
  size_t count;
} task_report;

/* A row a length, a column a model; then a grid a model where there are depths.  malloc'd, NULL when memory is
 * out. */
char *task_table(const task_report *r);
json_node *task_node(const task_report *r);
status task_write_csv(const task_report *r, const char *directory, alibi_error *error);
/* Is any value a number, so that there is something to draw? */
bool task_has_values(const task_report *r);
/* directory/task.svg and task.png from task.gp and task.dat beside them.  Without gnuplot, and without values:
 * ALIBI_OK, *drawn false, and no older picture stays. */
status task_write_pictures(const task_report *r, const char *directory, bool *drawn, alibi_error *error);
/* directory/report.html, with the picture in it where it was drawn. */
status task_write_html(const task_report *r, const char *directory, alibi_error *error);

/* ---- what several of them say ---- */

/* Share of lengths from which on it counts as not found: the protocol of the pass key. */
extern const double task_found_share; /* 0.8 */
bool task_has_reach(const task_report *r);
/* "98.3", "-" where unknown. */
void task_percent(double share, char *text, size_t size);
/* "0.123", "12.3", "12345": of a measure. */
void task_number(double value, char *text, size_t size);
/* What the accuracy counts: "answers right" or "tokens right". */
const char *task_counts(const task_report *r);

#endif
