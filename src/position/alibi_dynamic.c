/* ALiBi with slopes divided by max(1, n/L), n the declared length: nothing to configure, and what `linear` does with its factor
 * left at 0.  Al-Khateeb et al., "Position interpolation improves ALiBi extrapolation", 2023. */
#include <stddef.h>

#include "position/extension_factor.h"

static double slope(const position_request *request, size_t rank, size_t count)
{
  (void)rank, (void)count;
  return 1 / extension_factor(request, 0, 0);
}

const position_extension position_extension_alibi_dynamic = {
    .name = "dynamic",
    .title = "slopes divided by declared length / trained length",
    .formula = "m_h / max(1, n/L)",
    .source = "Al-Khateeb et al., 2023",
    .family = "alibi",
    .keeps_trained = true,
    .slope = slope,
};
