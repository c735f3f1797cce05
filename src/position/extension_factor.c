/* The factor s of an extension.  It comes from the length that is declared for a pass or a session, never from how many
 * tokens were read so far: keys in a cache above the first layer were made with the old factor and cannot follow a new one. */
#include "position/extension_factor.h"

double extension_original(const position_request *request, int64_t original)
{
  return original > 0 ? (double)original : (double)request->shape.train_length;
}

double extension_factor(const position_request *request, double configured, int64_t original)
{
  double s = configured > 0 ? configured : (double)request->length / extension_original(request, original);
  return s > 1 ? s : 1;
}
