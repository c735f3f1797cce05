/* ALiBi over the logarithm of the distance: a bias of -m_h ln(1 + i - j), not below a floor if one is set.  The kernel is that
 * of Chi, Fan, Ramadge, Rudnicky, "KERPLE: kernelized relative positional embedding for length extrapolation", NeurIPS
 * 2022, with ALiBi's slopes in the place of what is learned there.  A power of the distance is not enough to prove far keys
 * invisible, so nothing is skipped. */
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

static double bias_at(const position_request *request, size_t head, size_t t)
{
  const log_options *options = request->options;
  double b = -slope_by_settings(&options->rule, head, request->shape.heads) * log1p((double)t);
  return options->clamp > 0 && b < -options->clamp ? -options->clamp : b;
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  distance_layout(request, 1, plan, a);
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t length = request->length;
  float *table = (float *)plan->table;
  for (size_t h = 0; h < request->shape.heads; h++)
    for (size_t t = 0; t < length; t++) table[distance_at(length, h, t)] = (float)bias_at(request, h, t);
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
    .layout = layout,
    .fill = fill,
    .bias = bias,
};
