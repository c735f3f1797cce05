/* Absolute positions beyond the trained length: they begin again at 0, so that tokens L apart share one.  A plain
 * policy so that a model can be measured where it has no positions at all; no paper recommends it. */
#include <stddef.h>

#include "position/extension_factor.h"

static size_t row(const position_request *request, size_t position)
{
  return position % extension_rows(request);
}

const position_extension position_extension_absolute_wrap = {
    .name = "wrap",
    .title = "positions beyond the trained length begin again",
    .formula = "pos mod L",
    .source = "a policy, of no paper",
    .family = "absolute",
    .keeps_trained = true,
    .row = row,
};
