/* ALiBi's slopes: the one place that knows the formula.  Exponents are kept as exact fractions of heads until the
 * last step, so that powers of two come out exact. */
#include <math.h>

#include "alibi/attention.h"
#include "base/error.h"
#include "position/slopes.h"

static int power_of_two_below(int heads)
{
  int power = 1;
  while (power <= heads / 2) power *= 2; /* not log(): it rounds down for some powers of two */
  return power;
}

double slope_of_head(int head, int heads, double max_bias, alibi_slope_rule rule)
{
  int first = rule == ALIBI_SLOPES_GEOMETRIC ? heads : power_of_two_below(heads);
  if (head < first) return exp2(-max_bias * (head + 1) / first);
  return exp2(-max_bias * (2 * (head - first) + 1) / (2.0 * first));
}

alibi_status alibi_slopes(int heads, double max_bias, alibi_slope_rule rule, double *slopes, alibi_error *error)
{
  if (heads < 1 || heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "slopes: heads: expected 1 to %d, found %d", ALIBI_MAX_HEADS, heads);
  if (!(max_bias > 0 && max_bias <= 100))
    return fail(error, ALIBI_INVALID, "slopes: maximum bias exponent: expected a number above 0 and at most 100, found %g",
                max_bias);
  if (rule != ALIBI_SLOPES_INTERLEAVED && rule != ALIBI_SLOPES_GEOMETRIC)
    return fail(error, ALIBI_INVALID, "slopes: rule: expected 0 (interleaved) or 1 (geometric), found %d", (int)rule);
  if (!slopes) return fail(error, ALIBI_INVALID, "slopes: expected an array for the result, found NULL");

  for (int h = 0; h < heads; h++) slopes[h] = slope_of_head(h, heads, max_bias, rule);
  return ALIBI_OK;
}
