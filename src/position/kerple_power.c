/* KERPLE, power: a bias of -a_h (i - j)^p_h, shared by the layers, both learned, a at least 0.01 and p from 0.01
 * to 2.  Chi, Fan, Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length extrapolation",
 * NeurIPS 2022.  The parameters are x with a = 0.01 + softplus(x) and p = 0.01 + 1.99 sigmoid(x); a begins uniform
 * in (0, 1), p in (0, 2). */
#include <math.h>
#include <stdio.h>

#include "position/constrained.h"
#include "position/distance_table.h"
#include "position/position.h"

enum { SCALE, EXPONENT, KERPLE_PARAMETERS }; /* a, p */

static const double LEAST = 0.01, MOST = 2;

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  list[SCALE] = list[EXPONENT] = (position_parameter){.rows = 1, .columns = shape->heads, .decay = false};
  snprintf(list[SCALE].name, sizeof list[SCALE].name, "position.a_raw");
  snprintf(list[EXPONENT].name, sizeof list[EXPONENT].name, "position.p_raw");
  return KERPLE_PARAMETERS;
}

/* What is drawn at an end begins a little inside. */
static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)shape, (void)options, (void)index;
  double drawn = uniform_of_normal(normal);
  if (which == SCALE) return (float)softplus_inverse(fmax(drawn - LEAST, 1e-3));
  double share = (MOST * drawn - LEAST) / (MOST - LEAST);
  return (float)sigmoid_inverse(fmin(fmax(share, 1e-3), 1 - 1e-3));
}

static distance_numbers numbers(const position_request *request, size_t head)
{
  return (distance_numbers){{LEAST + softplus(request->parameters[SCALE][head]),
                             LEAST + (MOST - LEAST) * sigmoid(request->parameters[EXPONENT][head])}};
}

static double bias_at(distance_numbers c, double t)
{
  return -c.x[SCALE] * pow(t, c.x[EXPONENT]);
}

/* d bias / da = -t^p;  d bias / dp = -a t^p ln t;  at t = 0 both are 0. */
static void derive(distance_numbers c, double t, double g, distance_numbers *sums)
{
  if (t == 0) return;
  g *= pow(t, c.x[EXPONENT]);
  sums->x[SCALE] -= g;
  sums->x[EXPONENT] -= g * c.x[SCALE] * log(t);
}

static distance_numbers chain(const position_request *request, size_t head, distance_numbers sums)
{
  double share = sigmoid(request->parameters[EXPONENT][head]);
  sums.x[SCALE] *= sigmoid(request->parameters[SCALE][head]);
  sums.x[EXPONENT] = sums.x[EXPONENT] * (MOST - LEAST) * share * (1 - share);
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
  double a = 0.01 + log(1 + exp((double)request->parameters[SCALE][head]));
  double p = 0.01 + 1.99 / (1 + exp(-(double)request->parameters[EXPONENT][head]));
  return -a * pow((double)(i - j), p);
}

const position_method position_method_kerple_power = {
    .name = "kerple-power",
    .title = "KERPLE: learned power of the distance",
    .formula = "score - a_h (i - j)^p_h",
    .source = "Chi et al., NeurIPS 2022",
    .relative = true,
    .decays = true,
    .parameters = parameters,
    .initial = initial,
    .layout = distance_layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
