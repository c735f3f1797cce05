/* Sinusoidal positions: sines and cosines of geometric wavelengths, added to the word embedding, which is first
 * multiplied by sqrt(C) so that neither drowns the other.  Vaswani et al., "Attention is all you need", 2017. */
#include <math.h>
#include <stddef.h>

#include "position/position.h"

typedef struct sinusoidal_options {
  double base;
} sinusoidal_options;

static const field fields[] = {
    {.name = "base",
     .kind = FIELD_REAL,
     .offset = offsetof(sinusoidal_options, base),
     .minimum = 2,
     .maximum = 1e12,
     .initial = 10000,
     .help = "longest wavelength is 2 pi times this"},
};

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->embedding_scale = (float)sqrt((double)request->shape.width);
  plan->embedding = arena_floats(a, size_mul(request->length, request->shape.width));
}

static double frequency(const position_request *request, size_t pair)
{
  const sinusoidal_options *options = request->options;
  return pow(options->base, -2.0 * (double)pair / (double)request->shape.width);
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t width = request->shape.width;
  float *table = (float *)plan->embedding;
  for (size_t pair = 0; 2 * pair < width; pair++) {
    double w = frequency(request, pair);
    float *column = table + 2 * pair;
    bool both = 2 * pair + 1 < width;
    for (size_t position = 0; position < request->length; position++) {
      double phase = (double)position_row(request, position) * w;
      column[position * width] = (float)sin(phase);
      if (both) column[position * width + 1] = (float)cos(phase);
    }
  }
}

static double embedding(const position_request *request, size_t position, size_t channel)
{
  const sinusoidal_options *options = request->options;
  double even = (double)(channel - channel % 2);
  double phase = (double)position_row(request, position) / pow(options->base, even / (double)request->shape.width);
  return channel % 2 ? cos(phase) : sin(phase);
}

const position_method position_method_sinusoidal = {
    .name = "sinusoidal",
    .title = "sinusoidal absolute positions",
    .formula = "sqrt(C) x + sin, cos of pos base^(-2p/C)",
    .source = "Vaswani et al., NeurIPS 2017",
    .family = "absolute",
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(sinusoidal_options),
    .layout = layout,
    .fill = fill,
    .embedding = embedding,
};
