/* The scores of a query that sees n keys times a factor that grows as ln n, so that attention does not thin out as
 * a text grows; the model multiplies the query by it, a row at a time.
 *
 *   log-n   ln n / ln L for n > L, else 1: nothing is learned and up to L nothing changes.  Chiang and Cholak,
 *           "Overcoming a theoretical limitation of self-attention", ACL 2022.
 *   ssmax   s ln n at every n, s learned for each layer and head.  Nakanishi, "Scalable-softmax is superior for
 *           attention", 2025.  s starts as 1 over the mean of ln n over the trained positions: on average scores
 *           begin as they are without it. */
#include "position/score_scaling.h"

#include <math.h>
#include <stdio.h>

/* ln 1 divides nothing. */
static size_t length_of(const position_request *request)
{
  return request->shape.train_length < 2 ? 2 : request->shape.train_length;
}

/* n: a window hides what is further back, however long the text. */
static size_t keys_seen(size_t window, size_t position)
{
  return window && window <= position ? window : position + 1;
}

static bool acts(const position_request *request, size_t window)
{
  switch (request->scaling.kind) {
  case SCORE_SCALING_NONE: return false;
  case SCORE_SCALING_LOG_N: return keys_seen(window, request->length - 1) > length_of(request);
  case SCORE_SCALING_SSMAX: return true;
  }
  return false;
}

size_t score_scaling_parameters(score_scaling_kind kind, const position_shape *shape,
                                position_parameter *parameter)
{
  if (kind != SCORE_SCALING_SSMAX) return 0;
  *parameter = (position_parameter){.rows = shape->layers, .columns = shape->heads, .decay = false};
  snprintf(parameter->name, sizeof parameter->name, "position.score_scale");
  return 1;
}

float score_scaling_initial(const position_shape *shape, size_t window)
{
  double sum = 0, length = (double)shape->train_length;
  for (size_t i = 0; i < shape->train_length; i++) sum += log((double)keys_seen(window, i));
  return sum > 0 ? (float)(length / sum) : 1;
}

double score_scaling_factor(const position_request *request, size_t window, size_t layer, size_t head,
                            size_t position)
{
  size_t n = keys_seen(window, position), length = length_of(request);
  switch (request->scaling.kind) {
  case SCORE_SCALING_NONE: break;
  case SCORE_SCALING_LOG_N: return n > length ? log((double)n) / log((double)length) : 1;
  case SCORE_SCALING_SSMAX: return request->scaling.values[layer * request->shape.heads + head] * log((double)n);
  }
  return 1;
}

void score_scaling_layout(const position_request *request, position_plan *plan, arena *a)
{
  if (!acts(request, plan->window)) return;
  plan->row_scale_sets = request->scaling.kind == SCORE_SCALING_SSMAX ? request->shape.layers : 1;
  plan->row_scale =
      arena_floats(a, size_mul(size_mul(plan->row_scale_sets, request->shape.heads), request->length));
}

void score_scaling_fill(const position_request *request, position_plan *plan)
{
  if (!acts(request, plan->window)) return;
  size_t heads = request->shape.heads, length = request->length;
  float *scale = (float *)plan->row_scale;
  const float *values = request->scaling.kind == SCORE_SCALING_SSMAX ? request->scaling.values : NULL;
  for (size_t i = 0; i < length; i++) {
    double shared =
        values ? log((double)keys_seen(plan->window, i)) : score_scaling_factor(request, plan->window, 0, 0, i);
    for (size_t row = 0; row < plan->row_scale_sets * heads; row++)
      scale[row * length + i] = (float)(values ? values[row] * shared : shared);
  }
}

/* In double, first position first. */
void score_scaling_backward(const position_request *request, const position_plan *plan,
                            const float *row_scale_grad, float *parameter_grad)
{
  size_t rows = size_mul(request->shape.layers, request->shape.heads), length = request->length;
  if (request->scaling.kind != SCORE_SCALING_SSMAX || !row_scale_grad || !parameter_grad) return;
  for (size_t row = 0; row < rows; row++) {
    double sum = 0;
    for (size_t i = 0; i < length; i++)
      sum += row_scale_grad[row * length + i] * log((double)keys_seen(plan->window, i));
    parameter_grad[row] += (float)sum;
  }
}
