/* evaluate/evaluation.h - an evaluation inside: rows, the parts that they are run in, and what results need of
 * them. */
#ifndef EVALUATE_EVALUATION_H
#define EVALUATE_EVALUATION_H

#include "evaluate/losses_file.h"
#include "evaluate/protocol.h"
#include "model/model.h"

/* One evaluation that was asked for. */
typedef struct evaluation_row {
  alibi_evaluate_options options; /* none is 0 any more; extend is NULL, for it is: */
  extension_choice extension;
  plan plan;
  size_t *first_target; /* [plan.count + 1] of each window */
  size_t *ends;         /* [documents] targets up to the end of each document */
  bool entered;         /* in a part */
  float *losses;        /* [plan.targets]; NULL: not run */
  char *why;            /* it was run and memory was out: a sentence; NULL: all is well */
  size_t own_inputs;    /* of the windows that no row before it reads */
  double seconds;
} evaluation_row;

/* Rows whose windows are run together. */
typedef struct evaluation_part {
  size_t *rows, row_count;
  size_t length; /* declared */
  plan plan;
  losses_part done;
} evaluation_part;

struct alibi_evaluation {
  alibi_model *model;
  const uint32_t *tokens;
  size_t count;
  plan_text *documents;
  size_t document_count;
  evaluation_row *rows;
  size_t row_count, row_capacity;
  evaluation_part *parts; /* not yet all run */
  size_t part_count, part_capacity;
};

/* The window of a target of a row. */
size_t evaluation_window(const evaluation_row *row, size_t target);

#endif
