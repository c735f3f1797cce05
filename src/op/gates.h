/* op/gates.h - gates of forgetting attention: what a head keeps of a key is the product of the gates behind it, so
 * the bias is c_i - c_j, where c is the running sum of the logarithms of the gates (BIAS_KEY). */
#ifndef OP_GATES_H
#define OP_GATES_H

#include "op/op.h"

/* Consecutive positions of one sequence; runs follow each other, from row 0 to row R-1. */
typedef struct gate_run {
  size_t row, rows;
  const double *before; /* [H] c at the position before the first; NULL: 0 */
} gate_run;

/* f = sigmoid(logit) for logits [R, H]; query_offsets = c, key_offsets = -c [R, H].  Sums are double and go by
 * position, so how a sequence is cut into runs leaves no trace in the bits. */
void op_gates_forward(alibi_context *context, size_t rows, size_t heads, const float *logits, const gate_run *runs,
                      size_t count, double *query_offsets, double *key_offsets);
/* dlogits [R, H] = those of whole sequences, given the gradients of the offsets.  Those of queries would be 0 in
 * exact arithmetic: with them, rounding that belongs to no pair of query and key around a gate cancels in the sum
 * behind it. */
void op_gates_backward(alibi_context *context, size_t rows, size_t heads, const float *logits,
                       const gate_run *runs, size_t count, const float *query_grad, const float *key_grad,
                       float *dlogits);

#endif
