/* kernel/vector_math.h - exp, log and the normal distribution on vectors.
 * Coefficients: minimax fits by a Remez exchange (scripts/fit_kernels.py prints them). */
#ifndef KERNEL_VECTOR_MATH_H
#define KERNEL_VECTOR_MATH_H

#include "kernel/vector.h"

#define ROUND_TO_INTEGER 12582912.0f /* 1.5 * 2^23: what is added to it keeps no fraction */
#define LN2_HIGH 0.693145751953125f  /* few bits, so that a whole number times it is exact */
#define LN2_LOW 1.42860677e-06f

/* exp(r) for |r| <= ln 2 / 2. */
INLINE vf vf_exp_near(vf r)
{
  vf p = r * 0.00139517199f + 0.0083695982f;
  p = p * r + 0.0416661872f;
  p = p * r + 0.166665129f;
  p = p * r + 0.50000001f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}

/* exp(x) = 2^n exp(r), r = x - n ln 2.  What is below the smallest denormal is a true 0.  NaN stays NaN. */
INLINE vf vf_exp(vf x)
{
  x = vf_max(vf_splat(-105.0f), x);
  x = vf_min(vf_splat(89.0f), x);
  vf n = (x * 1.44269504088896341f + ROUND_TO_INTEGER) - ROUND_TO_INTEGER;
  vf r = x - n * LN2_HIGH;
  r = r - n * LN2_LOW;
  return vf_times_power(vf_exp_near(r), n);
}

/* 2^r for |r| <= 1/2; exactly 1 at 0. */
INLINE vf vf_power_near(vf r)
{
  vf p = r * 0.00134087437f + 0.00967295803f;
  p = p * r + 0.0555030419f;
  p = p * r + 0.240222177f;
  p = p * r + 0.693147217f;
  return p * r + 1.0f;
}

/* exp(x) of a softmax, for x that are not above 0 but by rounding: the error beside exp(0) = 1 counts, so one
 * constant takes x to powers of two (x exp(x) 2^-26 at most), and what is below 2^-126 is a true 0, so that one
 * factor of two suffices.  NaN stays NaN. */
INLINE vf vf_exp_weight(vf x)
{
  const vf to_powers = vf_splat(1.44269504088896341f);
#if defined(__AVX512F__)
  x = vf_max(vf_splat(-105.0f), x);
  vf n = vf_fma(x, to_powers, vf_splat(ROUND_TO_INTEGER)) - ROUND_TO_INTEGER;
  return vf_times_power(vf_power_near(vf_fma(x, to_powers, -n)), n);
#else
  vf shifted = vf_fma(x, to_powers, vf_splat(ROUND_TO_INTEGER)), n = shifted - ROUND_TO_INTEGER;
  vf power = (vf)(((vu)shifted << 23) + (127u << 23)); /* n stands in the low bits; beyond the range it wraps */
  return vf_and(~(x < -87.33f), vf_power_near(vf_fma(x, to_powers, -n)) * power);
#endif
}

/* ln(x) for x > 0, finite and normal; 0 gives -infinity, NaN stays.  x = 2^n (1 + y), ln(1 + y) = y - y^2/2 + y^3
 * p(y). */
INLINE vf vf_log(vf x)
{
  const int32_t root_half = 0x3f3504f3; /* 1 + y runs from sqrt(1/2) to sqrt 2 */
  vi bits = (vi)x - root_half;
  vf n = vf_from_int(bits >> 23), y = (vf)((bits & 0x7fffff) + root_half) - 1.0f;
  vf p = y * 0.0891787380f - 0.143502030f;
  p = p * y + 0.148769604f;
  p = p * y - 0.165656343f;
  p = p * y + 0.199653982f;
  p = p * y - 0.250017469f;
  p = p * y + 0.333338581f;
  vf small = y * y * (y * p - 0.5f) + n * LN2_LOW;
  vf result = n * LN2_HIGH + (y + small);
  return vf_select(x > 0.0f, result, vf_select(x == 0.0f, vf_splat(-INFINITY), x));
}

/* tanh to some 4 units in the last place: an odd polynomial near 0 (interpolated at Chebyshev's points), else
 * (1 - e) / (1 + e) with e = exp(-2|x|). */
INLINE vf vf_tanh(vf x)
{
  vf a = vf_abs(x), square = x * x;
  vf p = square * -0.006942942f + 0.021470683f;
  p = p * square - 0.053933468f;
  p = p * square + 0.13333225f;
  p = p * square - 0.3333333f;
  vf near = vf_fma(x * square, p, x);
  vf e = vf_exp(a * -2.0f), far = (1.0f - e) / (1.0f + e);
  return vf_select(a < 0.5f, near, vf_select(x < 0.0f, -far, far));
}

/* What GELU and its slope need of the normal distribution, for a = |x|: with e = exp(-a^2/2) and t = 1 / (1 + 0.32
 * a), the tail beyond a is e t p, where p is a polynomial in u = a t.  (In t itself the rounding of t would count
 * three times near a = 0.)  The rounding error of a^2 is given back to the exponent, so the tail keeps its
 * relative accuracy far out. */
typedef struct normal_parts {
  vf e, t, u, p;
} normal_parts;

INLINE normal_parts vf_normal(vf a)
{
  normal_parts f;
  a = vf_min(vf_splat(14.7f), a); /* e is 0 from there on */
  vf square = a * a, error = vf_square_error(a, square);
  vf n = (square * -0.72134752044448170f + ROUND_TO_INTEGER) - ROUND_TO_INTEGER;
  vf r = square * -0.5f - n * LN2_HIGH;
  r = r - n * LN2_LOW;
  r = r - error * 0.5f;
  f.e = vf_times_power(vf_exp_near(r), n);
  f.t = 1.0f / (a * 0.32f + 1.0f);
  f.u = a * f.t;
  vf p = f.u * 5.61553359e-7f - 8.24410001e-6f;
  p = p * f.u + 3.84294397e-5f;
  p = p * f.u - 3.74841804e-5f;
  p = p * f.u - 5.20466537e-6f;
  p = p * f.u - 0.00122315746f;
  p = p * f.u + 0.000873873006f;
  p = p * f.u + 0.0458713639f;
  p = p * f.u - 0.238941805f;
  f.p = p * f.u + 0.499999993f;
  return f;
}

#endif
