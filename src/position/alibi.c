/* ALiBi: a bias of -m_h (i - j) on the scores, one slope per head, the same in every layer, and nothing else.
 * Press, Smith, Lewis, "Train short, test long", ICLR 2022.  The bias is not multiplied by 1/sqrt(d). */
#include <stddef.h>

#include "position/position.h"
#include "position/slopes.h"

typedef struct alibi_options {
  int slope_rule; /* alibi_slope_rule */
  double max_bias;
} alibi_options;

static const char *const rules[] = {"interleaved", "geometric", NULL}; /* in the order of alibi_slope_rule */

static const field fields[] = {
    {.name = "slope_rule",
     .kind = FIELD_CHOICE,
     .offset = offsetof(alibi_options, slope_rule),
     .initial = ALIBI_SLOPES_INTERLEAVED,
     .choices = rules,
     .help = "slopes of a number of heads that is no power of two"},
    {.name = "max_bias",
     .kind = FIELD_REAL,
     .offset = offsetof(alibi_options, max_bias),
     .minimum = 0.01,
     .maximum = 100,
     .initial = 8,
     .help = "exponent of the gentlest slope, 2^-max_bias"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)options;
  if (shape->heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "position method 'alibi': expected at most %d heads, found %zu",
                ALIBI_MAX_HEADS, shape->heads);
  return ALIBI_OK;
}

static double slope(const position_request *request, size_t head)
{
  const alibi_options *options = request->options;
  return slope_of_head((int)head, (int)request->shape.heads, options->max_bias,
                       (alibi_slope_rule)options->slope_rule);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->bias = BIAS_SLOPE;
  plan->slopes = arena_floats(a, request->shape.heads);
}

static void fill(const position_request *request, position_plan *plan)
{
  float *slopes = (float *)plan->slopes;
  for (size_t h = 0; h < request->shape.heads; h++) slopes[h] = (float)slope(request, h);
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  return -slope(request, head) * (double)(i - j);
}

const position_method position_method_alibi = {
    .name = "alibi",
    .title = "ALiBi: attention with linear biases",
    .formula = "score - m_h (i - j)",
    .source = "Press, Smith, Lewis, ICLR 2022",
    .relative = true,
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(alibi_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .bias = bias,
};
