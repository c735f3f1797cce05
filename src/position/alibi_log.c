/* ALiBi over the logarithm of the distance: a bias of -m_h ln(1 + i - j), not below a floor if one is set.  The
 * kernel is that of Chi, Fan, Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length
 * extrapolation", NeurIPS 2022, with ALiBi's slopes in the place of what is learned there.  A power of the
 * distance is not enough to prove far keys invisible, so nothing is skipped. */
#include <math.h>
#include <stddef.h>

#include "position/distance_table.h"
#include "position/position.h"
#include "position/slopes.h"

typedef struct log_options {
  slope_settings rule;
  double clamp;
} log_options;

static const field fields[] = {
    SLOPE_FIELDS(log_options, rule),
    {.name = "clamp",
     .kind = FIELD_REAL,
     .offset = offsetof(log_options, clamp),
     .minimum = 0,
     .maximum = 1e6,
     .initial = 0,
     .help = "no bias is below minus this; 0: no such floor"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)options;
  return slope_check_heads("alibi-log", shape, error);
}

enum { SLOPE, CLAMP };

static distance_numbers numbers(const position_request *request, size_t head)
{
  const log_options *options = request->options;
  return (distance_numbers){{slope_by_settings(&options->rule, head, request->shape.heads), options->clamp}};
}

static double bias_at(distance_numbers c, double t)
{
  double b = -c.x[SLOPE] * log1p(t);
  return c.x[CLAMP] > 0 && b < -c.x[CLAMP] ? -c.x[CLAMP] : b;
}

static void fill(const position_request *request, position_plan *plan)
{
  distance_fill(request, &(distance_curve){.numbers = numbers, .bias = bias_at}, plan);
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  const log_options *options = request->options;
  double b = -slope_by_definition(&options->rule, head, request->shape.heads) * log(1 + (double)(i - j));
  return options->clamp > 0 ? fmax(b, -options->clamp) : b;
}

const position_method position_method_alibi_log = {
    .name = "alibi-log",
    .title = "ALiBi over logarithmic distance",
    .formula = "score - m_h ln(1 + i - j)",
    .source = "after Chi et al., NeurIPS 2022",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(log_options),
    .check = check,
    .layout = distance_layout,
    .fill = fill,
    .bias = bias,
};
