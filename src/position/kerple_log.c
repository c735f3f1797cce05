/* KERPLE, logarithmic: a bias of -p_h ln(1 + a_h (i - j)), shared by the layers, both learned and at least 0.01.  Chi, Fan,
 * Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length extrapolation", NeurIPS 2022.  The
 * parameters are x with p = 0.01 + softplus(x), and the same for a; p begins uniform in (0, 2), a in (0, 1).  A weight
 * falls as a power of the distance, which proves no far key invisible: nothing is skipped. */
#include <math.h>
#include <stdio.h>

#include "position/constrained.h"
#include "position/distance_table.h"
#include "position/position.h"

enum { STRENGTH, RATE, KERPLE_PARAMETERS }; /* p, a */

static const double LEAST = 0.01;

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  list[STRENGTH] = list[RATE] = (position_parameter){.rows = 1, .columns = shape->heads, .decay = false};
  snprintf(list[STRENGTH].name, sizeof list[STRENGTH].name, "position.p_raw");
  snprintf(list[RATE].name, sizeof list[RATE].name, "position.a_raw");
  return KERPLE_PARAMETERS;
}

/* What is drawn below the least value begins a little above it. */
static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)shape, (void)options, (void)index;
  double drawn = (which == STRENGTH ? 2 : 1) * uniform_of_normal(normal) - LEAST;
  return (float)softplus_inverse(fmax(drawn, 1e-3));
}

static double value_of(const position_request *request, int which, size_t head)
{
  return LEAST + softplus(request->parameters[which][head]);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  distance_layout(request, 1, plan, a);
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t length = request->length;
  float *table = (float *)plan->table;
  for (size_t h = 0; h < request->shape.heads; h++) {
    double p = value_of(request, STRENGTH, h), a = value_of(request, RATE, h);
    for (size_t t = 0; t < length; t++) table[distance_at(length, h, t)] = (float)(-p * log1p(a * (double)t));
  }
}

/* d bias / dp = -ln(1 + a t);  d bias / da = -p t / (1 + a t);  the derivative of softplus is sigmoid. */
static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  (void)plan;
  size_t length = request->length;
  for (size_t h = 0; h < request->shape.heads; h++) {
    double p = value_of(request, STRENGTH, h), a = value_of(request, RATE, h), by_p = 0, by_a = 0;
    for (size_t t = 0; t < length; t++) {
      double g = grad->table[distance_at(length, h, t)], distance = (double)t;
      by_p -= g * log1p(a * distance);
      by_a -= g * p * distance / (1 + a * distance);
    }
    parameter_grads[STRENGTH][h] += (float)(by_p * sigmoid(request->parameters[STRENGTH][h]));
    parameter_grads[RATE][h] += (float)(by_a * sigmoid(request->parameters[RATE][h]));
  }
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  double p = 0.01 + log(1 + exp((double)request->parameters[STRENGTH][head]));
  double a = 0.01 + log(1 + exp((double)request->parameters[RATE][head]));
  return -p * log(1 + a * (double)(i - j));
}

const position_method position_method_kerple_log = {
    .name = "kerple-log",
    .title = "KERPLE: learned bias over logarithmic distance",
    .formula = "score - p_h ln(1 + a_h (i - j))",
    .source = "Chi et al., NeurIPS 2022",
    .relative = true,
    .parameters = parameters,
    .initial = initial,
    .layout = layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
