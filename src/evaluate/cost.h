/* evaluate/cost.h - what an evaluation will take, for those who plan time. */
#ifndef EVALUATE_COST_H
#define EVALUATE_COST_H

#include "alibi/evaluate.h"

/* Tokens that go through the model when `options` run on a text of `count` tokens; 0 where they cannot. */
double evaluate_input_tokens(const alibi_evaluate_options *options, size_t count);

#endif
