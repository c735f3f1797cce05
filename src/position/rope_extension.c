/* The factor s of rope's extensions. */
#include "position/rope_extension.h"

double rope_factor(const position_request *request, double configured)
{
  double s = configured > 0 ? configured : (double)request->length / (double)request->shape.train_length;
  return s > 1 ? s : 1;
}
