/* Position interpolation: positions are squeezed into the trained range by dividing every frequency by s.  Chen et al.,
 * "Extending context window of large language models via positional interpolation", 2023. */
#include <stddef.h>

#include "position/extension_factor.h"

static const field fields[] = {EXTENSION_FACTOR_FIELD(extension_factor_options)};

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  (void)base;
  const extension_factor_options *options = request->extension_options;
  double s = extension_factor(request, options->factor, 0);
  for (size_t p = 0; p < rotary / 2; p++) w[p] /= s;
  return 1;
}

const position_extension position_extension_rope_linear = {
    .name = "linear",
    .title = "position interpolation (PI)",
    .formula = "w_p / s",
    .source = "Chen et al., 2023",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(extension_factor_options),
    .frequencies = frequencies,
};
