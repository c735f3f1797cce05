/* BAM, a generalised Gaussian prior: a bias of -e^a (i - j + 1e-5)^b with an a and a b of its own for each layer
 * and head, both learned.  Bianchessi, Aguirre, Barros, Kupssinskü, "Bayesian attention mechanism: a probabilistic
 * framework for positional encoding and context length extrapolation", 2025.  It begins as ALiBi: e^a is its slope
 * and b is 1.  The parameter of b is an x with b = 2 sigmoid(x), so that the bias falls (b > 0) and is at most a
 * Gaussian (b < 2). */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "position/constrained.h"
#include "position/distance_table.h"
#include "position/position.h"
#include "position/slopes.h"

typedef struct bam_options {
  slope_settings start;
} bam_options;

enum { SCALE, EXPONENT, BAM_PARAMETERS };

static const double SHIFT = 1e-5; /* of the paper: (i - j)^b has no derivative at 0 */

static const field fields[] = {SLOPE_FIELDS(bam_options, start)};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)options;
  return slope_check_heads("bam", shape, error);
}

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  list[SCALE] = list[EXPONENT] =
      (position_parameter){.rows = shape->layers, .columns = shape->heads, .decay = false};
  snprintf(list[SCALE].name, sizeof list[SCALE].name, "position.log_scale");
  snprintf(list[EXPONENT].name, sizeof list[EXPONENT].name, "position.exponent_raw");
  return BAM_PARAMETERS;
}

static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)normal;
  const bam_options *own = options;
  if (which == EXPONENT) return 0;
  return (float)log(slope_by_settings(&own->start, index % shape->heads, shape->heads));
}

/* e^a and b of a layer and head. */
static distance_numbers numbers(const position_request *request, size_t row)
{
  return (distance_numbers){
      {exp(request->parameters[SCALE][row]), 2 * sigmoid(request->parameters[EXPONENT][row])}};
}

static double bias_at(distance_numbers c, double t)
{
  return -c.x[SCALE] * pow(t + SHIFT, c.x[EXPONENT]);
}

/* d bias / da = bias;  d bias / db = bias ln(t + 1e-5). */
static void derive(distance_numbers c, double t, double g, distance_numbers *sums)
{
  g *= bias_at(c, t);
  sums->x[SCALE] += g;
  sums->x[EXPONENT] += g * log(t + SHIFT);
}

/* db / dx = b (1 - b/2). */
static distance_numbers chain(const position_request *request, size_t row, distance_numbers sums)
{
  double b = numbers(request, row).x[EXPONENT];
  sums.x[EXPONENT] *= b;
  sums.x[EXPONENT] *= 1 - b / 2;
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
  size_t row = layer * request->shape.heads + head;
  double a = request->parameters[SCALE][row], b = 2 / (1 + exp(-(double)request->parameters[EXPONENT][row]));
  return -exp(a) * pow((double)(i - j) + 1e-5, b);
}

const position_method position_method_bam = {
    .name = "bam",
    .title = "BAM: a learned scale and exponent of the distance",
    .formula = "score - e^a_lh (i - j + 1e-5)^b_lh",
    .source = "Bianchessi et al., 2025",
    .relative = true,
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(bam_options),
    .check = check,
    .parameters = parameters,
    .initial = initial,
    .layout = distance_layout_by_layer,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
