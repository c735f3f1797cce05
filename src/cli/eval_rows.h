/* cli/eval_rows.h - the rows of an evaluation: added to the library's evaluations, run, and read back as plain
 * data. */
#ifndef CLI_EVAL_ROWS_H
#define CLI_EVAL_ROWS_H

#include "cli/eval_subject.h"

/* Words that begin in scored tokens, and the loss of these tokens. */
typedef struct word_sum {
  int64_t words;
  double nats;
} word_sum;

/* Where each row of the results comes from. */
typedef struct eval_rows {
  size_t *ids;     /* in its model's evaluation; SIZE_MAX: not added, the row says why */
  size_t pooled;   /* rows before those of documents */
  bool room;       /* some length fits some text */
  word_sum *words; /* with --words: of each pooled row its documents, then all of them */
} eval_rows;

/* Adds every line at every protocol and length. */
status eval_rows_add(eval_subject *subject, eval_rows *rows, alibi_error *error);

/* Runs them, model after model.  keep: NULL, or a directory for what was done so far. */
status eval_rows_run(eval_subject *subject, const char *keep, alibi_error *error);

/* Fills subject->results.rows; with --documents a row for every text after each pooled one. */
status eval_rows_read(eval_subject *subject, eval_rows *rows, alibi_error *error);

/* The files of eval_rows_run in `directory`, of any evaluation: is there one; away with them. */
bool eval_rows_kept(const char *directory);
void eval_rows_forget(const char *directory);

void eval_rows_free(eval_rows *rows);

#endif
