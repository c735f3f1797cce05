/* Absolute positions beyond the trained length: every one of them is the last that was trained.  A plain policy so
 * that a model can be measured where it has no positions at all; no paper recommends it. */
#include <stddef.h>

#include "position/extension_factor.h"

static size_t row(const position_request *request, size_t position)
{
  size_t last = extension_rows(request) - 1;
  return position < last ? position : last;
}

const position_extension position_extension_absolute_clamp = {
    .name = "clamp",
    .title = "positions beyond the trained length are the last one",
    .formula = "min(pos, L - 1)",
    .source = "a policy, of no paper",
    .family = "absolute",
    .keeps_trained = true,
    .row = row,
};
