/* KERPLE, logarithmic: a bias of -p_h ln(1 + a_h (i - j)), shared by the layers, both learned and at least 0.01.
 * Chi, Fan, Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length extrapolation",
 * NeurIPS 2022.  The parameters are x with p = 0.01 + softplus(x), and the same for a; p begins uniform in (0, 2),
 * a in (0, 1).  A weight falls as a power of the distance, which proves no far key invisible: nothing is
 * skipped. */
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

static distance_numbers numbers(const position_request *request, size_t head)
{
  distance_numbers c;
  for (int k = 0; k < KERPLE_PARAMETERS; k++) c.x[k] = LEAST + softplus(request->parameters[k][head]);
  return c;
}

static double bias_at(distance_numbers c, double t)
{
  return -c.x[STRENGTH] * log1p(c.x[RATE] * t);
}

/* d bias / dp = -ln(1 + a t);  d bias / da = -p t / (1 + a t). */
static void derive(distance_numbers c, double t, double g, distance_numbers *sums)
{
  double p = c.x[STRENGTH], a = c.x[RATE];
  sums->x[STRENGTH] -= g * log1p(a * t);
  sums->x[RATE] -= g * p * t / (1 + a * t);
}

/* The derivative of softplus is sigmoid. */
static distance_numbers chain(const position_request *request, size_t head, distance_numbers sums)
{
  for (int k = 0; k < KERPLE_PARAMETERS; k++) sums.x[k] *= sigmoid(request->parameters[k][head]);
  return sums;
}

static const distance_curve curve = {numbers, bias_at, derive, chain};

static void fill(const position_request *request, position_plan *plan)
{
  distance_fill(request, &curve, plan);
}

static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  distance_backward(request, &curve, plan, grad, parameter_grads);
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
    .layout = distance_layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
