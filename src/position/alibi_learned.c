/* ALiBi with learned slopes: a bias of -m (i - j) with an m of its own for each layer and head, which begins at
 * ALiBi's.  Press, Smith, Lewis, "Train short, test long", ICLR 2022, who tried it and kept fixed slopes.  The
 * parameter is ln m: a slope stays above 0, and a step of training changes steep and gentle slopes by the same
 * share. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "position/position.h"
#include "position/slopes.h"

typedef struct learned_slopes_options {
  slope_settings start;
} learned_slopes_options;

static const field fields[] = {SLOPE_FIELDS(learned_slopes_options, start)};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)options;
  return slope_check_heads("alibi-learned", shape, error);
}

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  list[0] = (position_parameter){.rows = shape->layers, .columns = shape->heads, .decay = false};
  snprintf(list[0].name, sizeof list[0].name, "position.log_slopes");
  return 1;
}

static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)which, (void)normal;
  const learned_slopes_options *own = options;
  return (float)log(slope_by_settings(&own->start, index % shape->heads, shape->heads));
}

static double trained_slope(const position_request *request, size_t layer, size_t head)
{
  return exp(request->parameters[0][layer * request->shape.heads + head]);
}

static void fill(const position_request *request, position_plan *plan)
{
  slope_fill(request, trained_slope, plan);
}

/* Extensions multiply: the derivative by ln m is the slope itself in any case. */
static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  size_t heads = request->shape.heads;
  for (size_t l = 0; l < plan->sets; l++)
    for (size_t h = 0; h < heads; h++)
      parameter_grads[0][l * heads + h] +=
          (float)(grad->slopes[l * heads + h] * slope_extended(request, trained_slope, l, h));
}

static double slope_of_formula(const position_request *request, size_t layer, size_t head)
{
  const float *of_layer = request->parameters[0] + layer * request->shape.heads;
  return exp((double)of_layer[head]);
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  return slope_bias(request, slope_of_formula, layer, head, i, j);
}

const position_method position_method_alibi_learned = {
    .name = "alibi-learned",
    .title = "ALiBi with learned slopes",
    .formula = "score - m_lh (i - j)",
    .source = "Press, Smith, Lewis, ICLR 2022",
    .family = "alibi",
    .relative = true,
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(learned_slopes_options),
    .check = check,
    .parameters = parameters,
    .initial = initial,
    .layout = slope_layout_by_layer,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
