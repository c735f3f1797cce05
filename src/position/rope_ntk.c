/* NTK-aware scaling: a larger base stretches the longest wavelength by s and leaves the shortest alone. */
#include <math.h>
#include <stddef.h>

#include "position/rope_extension.h"

static const field fields[] = {ROPE_FACTOR_FIELD(rope_factor_options)};

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  const rope_factor_options *options = request->extension_options;
  double s = rope_factor(request, options->factor);
  if (s == 1 || rotary == 2) return 1; /* one pair: its frequency is 1 for any base */
  double d = (double)rotary;
  double stretched = base * pow(s, d / (d - 2));
  for (size_t p = 0; p < rotary / 2; p++) w[p] = pow(stretched, -2.0 * (double)p / d);
  return 1;
}

const position_extension position_extension_ntk = {
    .name = "ntk",
    .title = "NTK-aware scaling of the base",
    .formula = "base s^(r/(r-2))",
    .source = "bloc97, 2023; Peng et al., ICLR 2024",
    .method = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(rope_factor_options),
    .frequencies = frequencies,
};
