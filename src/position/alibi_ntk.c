/* ALiBi with slopes that stretch as NTK-aware scaling stretches frequencies: the steepest head, which tells near
 * keys apart, stays as it is, the gentlest reaches s times as far, the others between by their rank from the
 * steepest.  After bloc97, 2023. */
#include <math.h>
#include <stddef.h>

#include "position/extension_factor.h"

static const field fields[] = {EXTENSION_FACTOR_FIELDS};

static double slope(const position_request *request, size_t rank, size_t count)
{
  double s = extension_factor_of(request);
  return count > 1 ? pow(s, -(double)rank / (double)(count - 1)) : 1;
}

const position_extension position_extension_alibi_ntk = {
    .name = "ntk",
    .title = "slopes stretched by rank, the steepest kept",
    .formula = "m_h / s^(r_h/(H-1)), r_h the rank from the steepest",
    .source = "after bloc97, 2023",
    .family = "alibi",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(extension_factor_options),
    .check = extension_factor_check,
    .follows_length = extension_factor_follows,
    .slope = slope,
};
