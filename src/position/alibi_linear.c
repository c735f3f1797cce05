/* ALiBi with slopes divided by s: the reach of every head grows as the text does.  The counterpart for slopes of
 * position interpolation (Chen et al., 2023); Al-Khateeb et al., "Position interpolation improves ALiBi
 * extrapolation", 2023. */
#include <stddef.h>

#include "position/extension_factor.h"

static const field fields[] = {EXTENSION_FACTOR_FIELDS};

static double slope(const position_request *request, size_t rank, size_t count)
{
  (void)rank, (void)count;
  return 1 / extension_factor_of(request);
}

const position_extension position_extension_alibi_linear = {
    .name = "linear",
    .title = "slopes divided by s",
    .formula = "m_h / s",
    .source = "Al-Khateeb et al., 2023",
    .family = "alibi",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(extension_factor_options),
    .check = extension_factor_check,
    .follows_length = extension_factor_follows,
    .slope = slope,
};
