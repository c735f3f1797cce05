/* Forgetting gates.  Functions of a single gate are shared among threads by rows; the running sums are a chain of
 * additions for each sequence and head, cheap beside them. */
#include "op/gates.h"

#include <math.h>

#include "op/team.h"

enum { CHUNK = 64, FUNCTION = 64 }; /* rows an item; a logarithm or an exponential, in multiply-adds */

/* ln sigmoid(z) = -ln(1 + exp(-z)), without loss on either side. */
static double log_gate(double z)
{
  return z < 0 ? z - log1p(exp(z)) : -log1p(exp(-z));
}

static size_t chunk_end(size_t item, size_t rows)
{
  return (item + 1) * CHUNK < rows ? (item + 1) * CHUNK : rows;
}

void op_gates_forward(alibi_context *context, size_t rows, size_t heads, const float *logits, const gate_run *runs,
                      size_t count, double *query_offsets, double *key_offsets)
{
  OP_FOR_ITEMS(context, static, (rows + CHUNK - 1) / CHUNK, (double)FUNCTION * 2 * (double)(rows * heads), {
    for (size_t i = item * CHUNK * heads; i < chunk_end(item, rows) * heads; i++)
      query_offsets[i] = log_gate((double)logits[i]);
  });
  OP_FOR_ITEMS(context, dynamic, count, 2 * (double)(rows * heads), {
    const gate_run *run = &runs[item];
    const double *before = run->before;
    for (size_t r = run->row; r < run->row + run->rows; r++) {
      double *sum = query_offsets + r * heads;
      for (size_t h = 0; h < heads; h++) {
        if (before) sum[h] += before[h];
        key_offsets[r * heads + h] = -sum[h];
      }
      before = sum;
    }
  });
}

void op_gates_backward(alibi_context *context, size_t rows, size_t heads, const float *logits,
                       const gate_run *runs, size_t count, const float *query_grad, const float *key_grad,
                       float *dlogits)
{
  OP_FOR_ITEMS(context, dynamic, count, 2 * (double)(rows * heads), {
    const gate_run *run = &runs[item];
    for (size_t h = 0; h < heads; h++) {
      double sum = 0; /* of what comes at a gate or after it */
      for (size_t r = run->row + run->rows; r-- > run->row;) {
        size_t i = r * heads + h;
        sum += (double)query_grad[i] - (double)key_grad[i];
        dlogits[i] = (float)sum;
      }
    }
  });
  OP_FOR_ITEMS(context, static, (rows + CHUNK - 1) / CHUNK, (double)FUNCTION * (double)(rows * heads), {
    for (size_t i = item * CHUNK * heads; i < chunk_end(item, rows) * heads; i++)
      dlogits[i] = (float)((double)dlogits[i] / (1 + exp((double)logits[i]))); /* d ln f / d logit = 1 - f */
  });
}
