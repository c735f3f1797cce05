/* kernel/vector_math.h - exp and the normal distribution on vectors.
 * Coefficients: minimax fits made for these ranges by a Remez exchange in 40 digits (scripts/fit_kernels.py). */
#ifndef KERNEL_VECTOR_MATH_H
#define KERNEL_VECTOR_MATH_H

#include "kernel/vector.h"

/* exp(x): 2^n * exp(r), r = x - n ln 2.  The power of two is applied in two halves, so that results below the normal
 * range are right and what is below the smallest denormal is a true 0.  NaN stays NaN. */
INLINE vf vf_exp(vf x)
{
  const float round_to_integer = 12582912.0f; /* 1.5 * 2^23 */
  x = vf_max(vf_splat(-105.0f), x);
  x = vf_min(vf_splat(89.0f), x);
  vf shifted = x * 1.44269504088896341f + round_to_integer;
  vf n = shifted - round_to_integer;
  vf r = x - n * 0.693145751953125f; /* ln 2 in two parts: the first has few bits, so n times it is exact */
  r = r - n * 1.42860677e-06f;
  vf p = r * 0.00139517199729f + 0.00836959819965f;
  p = p * r + 0.0416661872443f;
  p = p * r + 0.166665128907f;
  p = p * r + 0.500000010099f;
  p = p * (r * r) + r + 1.0f;
  vi exponent = __builtin_convertvector(n, vi);
  vi half = exponent >> 1;
  vf low = (vf)((half + 127) << 23), high = (vf)((exponent - half + 127) << 23);
  return p * low * high;
}

/* Phi(x), the normal distribution function, and *density = exp(-x^2/2) / sqrt(2 pi).
 * The small tail is E erfcx(z) / 2 with z = |x| / sqrt 2, E = exp(-z^2) and erfcx(z) = t P(t), t = 1 / (1 + 0.35 z):
 * relative error of P 7e-9 for z up to 10, where E is 0 in fp32.  The rounding error of x^2 is given back to E. */
INLINE vf vf_normal(vf x, vf *density)
{
  vf a = vf_abs(x);
  vf square = a * a;
  vf high = (vf)((vi)a & (int32_t)0xfffff000); /* 12 bits: its square is exact */
  vf error = (a - high) * (a + high) - (square - high * high);
  vf e = vf_exp(square * -0.5f);
  e = e - e * (error * 0.5f);
  vf t = 1.0f / (a * (0.35f * 0.70710678118654752f) + 1.0f);
  vf p = t * 0.03840104519f - 0.158928234f;
  p = p * t + 0.1814610801f;
  p = p * t - 0.02770542112f;
  p = p * t + 0.08701853312f;
  p = p * t + 0.1460423261f;
  p = p * t + 0.1511861309f;
  p = p * t + 0.1879024158f;
  p = p * t + 0.1971383525f;
  p = p * t + 0.1974837785f;
  vf tail = e * (p * t) * 0.5f;
  *density = e * 0.39894228040143268f;
  return vf_select(x < 0.0f, tail, 1.0f - tail);
}

#endif
