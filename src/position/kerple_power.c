/* KERPLE, power: a bias of -a_h (i - j)^p_h, shared by the layers, both learned, a at least 0.01 and p from 0.01 to 2.  Chi,
 * Fan, Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length extrapolation", NeurIPS 2022.  The
 * parameters are x with a = 0.01 + softplus(x) and p = 0.01 + 1.99 sigmoid(x); a begins uniform in (0, 1), p in (0, 2). */
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

static double scale_of(const position_request *request, size_t head)
{
  return LEAST + softplus(request->parameters[SCALE][head]);
}

static double exponent_of(const position_request *request, size_t head)
{
  return LEAST + (MOST - LEAST) * sigmoid(request->parameters[EXPONENT][head]);
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
    double a = scale_of(request, h), p = exponent_of(request, h);
    for (size_t t = 0; t < length; t++) table[distance_at(length, h, t)] = (float)(-a * pow((double)t, p));
  }
}

/* d bias / da = -t^p;  d bias / dp = -a t^p ln t;  at t = 0 both are 0. */
static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  (void)plan;
  size_t length = request->length;
  for (size_t h = 0; h < request->shape.heads; h++) {
    double a = scale_of(request, h), p = exponent_of(request, h), by_a = 0, by_p = 0;
    for (size_t t = 1; t < length; t++) {
      double g = grad->table[distance_at(length, h, t)] * pow((double)t, p);
      by_a -= g;
      by_p -= g * a * log((double)t);
    }
    double share = sigmoid(request->parameters[EXPONENT][h]);
    parameter_grads[SCALE][h] += (float)(by_a * sigmoid(request->parameters[SCALE][h]));
    parameter_grads[EXPONENT][h] += (float)(by_p * (MOST - LEAST) * share * (1 - share));
  }
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
    .layout = layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
