/* position/constrained.h - parameters that must stay in a range: the model stores x without a range, and the
 * method uses a smooth function of it; the name of such a parameter ends in "_raw".  AdamW moves x by about the
 * learning rate a step whatever the gradient, so no value sticks at an end, as it does where a step is cut off. */
#ifndef POSITION_CONSTRAINED_H
#define POSITION_CONSTRAINED_H

#include <math.h>

/* ln(1 + e^x): above 0, and x itself where x is large.  Its derivative is sigmoid(x). */
static inline double softplus(double x)
{
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static inline double softplus_inverse(double y)
{
  return y + log(-expm1(-y));
}

/* In (0, 1).  Its derivative is s (1 - s). */
static inline double sigmoid(double x)
{
  return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static inline double sigmoid_inverse(double y)
{
  return log(y / (1 - y));
}

/* A standard normal deviate as one that is uniform in (0, 1). */
static inline double uniform_of_normal(double normal)
{
  return 0.5 * erfc(-normal * 0.70710678118654752440);
}

#endif
