/* NTK-aware scaling: a larger base stretches the longest wavelength by s and leaves the shortest alone.  bloc97,
 * 2023; Peng et al., "YaRN: efficient context window extension of large language models", ICLR 2024. */
#include <stddef.h>

#include "position/extension_factor.h"
#include "position/rope_frequencies.h"

static const field fields[] = {EXTENSION_FACTOR_FIELDS};

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  rope_stretch(base, extension_factor_of(request), rotary, w);
  return 1;
}

const position_extension position_extension_rope_ntk = {
    .name = "ntk",
    .title = "NTK-aware scaling of the base",
    .formula = "base s^(r/(r-2))",
    .source = "bloc97, 2023; Peng et al., ICLR 2024",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(extension_factor_options),
    .check = extension_factor_check,
    .follows_length = extension_factor_follows,
    .frequencies = frequencies,
};
