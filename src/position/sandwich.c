/* Sandwich: the inner product of two sinusoidal position vectors as a bias,
 * (sum_k cos((i - j) / 10000^(2k/D)) - D/2) scale_h, k = 1 .. D/2, scale_h = H / (8 (h + 1)).  Chi, Fan, Rudnicky,
 * Ramadge, "Dissecting transformer length extrapolation via the lens of receptive field analysis", ACL 2023.  It
 * falls with the distance, but not without end: nothing is skipped. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "position/distance_table.h"
#include "position/position.h"

typedef struct sandwich_options {
  int64_t dimension;
} sandwich_options;

static const field fields[] = {
    {.name = "dimension",
     .kind = FIELD_INTEGER,
     .offset = offsetof(sandwich_options, dimension),
     .minimum = 2,
     .maximum = 65536,
     .initial = 128,
     .help = "channels D of the position vectors, even"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)shape;
  const sandwich_options *sandwich = options;
  if (sandwich->dimension % 2 != 0)
    return fail(error, ALIBI_INVALID, "position method 'sandwich': dimension: expected an even number, found %lld",
                (long long)sandwich->dimension);
  return ALIBI_OK;
}

/* Of all heads. */
static double shared_at(const position_request *request, size_t t)
{
  const sandwich_options *options = request->options;
  double sum = 0, step = pow(10000, -2.0 / (double)options->dimension), w = step;
  for (int64_t k = 1; k <= options->dimension / 2; k++, w *= step) sum += cos((double)t * w) - 1;
  return sum;
}

static double scale_of(const position_request *request, size_t head)
{
  return (double)request->shape.heads / (8 * ((double)head + 1));
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t length = request->length;
  float *table = (float *)plan->table;
  for (size_t t = 0; t < length; t++) {
    double shared = shared_at(request, t);
    for (size_t h = 0; h < request->shape.heads; h++)
      table[distance_at(length, h, t)] = (float)(shared * scale_of(request, h));
  }
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  double d = (double)((const sandwich_options *)request->options)->dimension, product = 0;
  for (double k = 1; k <= d / 2; k++) product += cos((double)(i - j) / pow(10000, 2 * k / d));
  return (product - d / 2) * (double)request->shape.heads / (8 * ((double)head + 1));
}

const position_method position_method_sandwich = {
    .name = "sandwich",
    .title = "Sandwich: inner product of sinusoids as a bias",
    .formula = "score + (sum_k cos((i - j) w_k) - D/2) scale_h",
    .source = "Chi et al., ACL 2023",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(sandwich_options),
    .check = check,
    .layout = distance_layout,
    .fill = fill,
    .bias = bias,
};
