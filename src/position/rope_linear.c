/* Position interpolation: positions are squeezed into the trained range by dividing every frequency by s.  Chen et
 * al., "Extending context window of large language models via positional interpolation", 2023. */
#include <stddef.h>

#include "position/extension_factor.h"

static const field fields[] = {EXTENSION_FACTOR_FIELDS};

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  (void)base;
  double s = extension_factor_of(request);
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
    .check = extension_factor_check,
    .follows_length = extension_factor_follows,
    .frequencies = frequencies,
};
