/* evaluate/cost.h - what an evaluation will take, for those who plan time. */
#ifndef EVALUATE_COST_H
#define EVALUATE_COST_H

#include "alibi/evaluate.h"

/* Tokens that go through the model, and those scored. */
typedef struct evaluate_cost {
  int64_t inputs, targets;
} evaluate_cost;

/* When `options` run on a text of `count` tokens; all 0 where they cannot. */
evaluate_cost evaluate_cost_of(const alibi_evaluate_options *options, size_t count);

#endif
