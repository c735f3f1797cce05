/* Position interpolation: positions are squeezed into the trained range by dividing every frequency by s. */
#include <stddef.h>

#include "position/rope_extension.h"

static const field fields[] = {ROPE_FACTOR_FIELD(rope_factor_options)};

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  (void)base;
  const rope_factor_options *options = request->extension_options;
  double s = rope_factor(request, options->factor);
  for (size_t p = 0; p < rotary / 2; p++) w[p] /= s;
  return 1;
}

const position_extension position_extension_linear = {
    .name = "linear",
    .title = "position interpolation (PI)",
    .formula = "w_p / s",
    .source = "Chen et al., 2023",
    .method = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(rope_factor_options),
    .frequencies = frequencies,
};
