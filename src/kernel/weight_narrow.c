/* fp32 weights to the types that files are written in.  Half precision rounds to the nearest, ties to even.
 * The quantised types keep the largest number (Q8_0, Q4_0) or, in Q4_K, look for the scale and minimum of every
 * 32 numbers that make the sum of weighted squared errors least: from several guesses of the scale, each
 * improved by a least-squares fit. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/weight_plain.h"

typedef unsigned char byte;

static uint32_t bits_of(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void write_16(uint32_t x, byte *to)
{
  to[0] = (byte)x;
  to[1] = (byte)(x >> 8);
}

static uint32_t half_bits(float x)
{
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00 | (size >> 13 & 0x1ff);
  if (size >= 0x477ff000) return sign | 0x7c00;                                /* 65520 and above */
  /* the sum has 2^-24 as its last place */
  if (size < 0x38800000) return sign | (bits_of(fabsf(x) + 0.5f) - 0x3f000000);
  return sign | (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
}

static uint32_t bfloat_bits(float x)
{
  uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* A scale as the file holds it. */
static float write_half(float x, byte *to)
{
  float back;
  write_16(half_bits(x), to);
  weight_widen(WEIGHT_F16, 1, to, &back);
  return back;
}

/* x times y, rounded once and never fused with what follows. */
static float product(float x, float y)
{
  return (float)((double)x * y);
}

static float inverse(float x)
{
  return x != 0 ? 1 / x : 0;
}

/* A whole number from `least` to `most`; NaN becomes the least. */
static int whole(float x, int least, int most)
{
  return !(x > (float)least) ? least : x >= (float)most ? most : (int)x;
}

static int nearest(float x, int least, int most)
{
  return whole(floorf(x + 0.5f), least, most);
}

static float furthest(const float *x, int n)
{
  float most = 0;
  for (int i = 0; i < n; i++)
    if (fabsf(x[i]) > fabsf(most)) most = x[i];
  return most;
}

static void narrow_q8_0(const float *x, byte *to)
{
  float d = fabsf(furthest(x, 32)) / 127, to_steps = inverse(d);
  write_half(d, to);
  for (int i = 0; i < 32; i++) {
    float steps = product(x[i], to_steps);
    to[2 + i] = (byte)(whole(roundf(steps), -127, 127) & 255);
  }
}

static void narrow_q4_0(const float *x, byte *to)
{
  float d = furthest(x, 32) / -8, to_steps = inverse(d);
  int q[32];
  write_half(d, to);
  for (int i = 0; i < 32; i++) q[i] = whole(product(x[i], to_steps) + 8.5f, 0, 15);
  for (int i = 0; i < 16; i++) to[2 + i] = (byte)(q[i] | q[i + 16] << 4);
}

/* x ~ step q - minimum, q 0 .. 15, neither negative. */
typedef struct fit {
  float step, minimum;
  double error;
} fit;

static void round_to(const float *x, float step, float minimum, int *q)
{
  float to_steps = inverse(step);
  for (int i = 0; i < 32; i++) q[i] = nearest((x[i] + minimum) * to_steps, 0, 15);
}

static fit fit_to(const float *x, const float *weight, const int *q)
{
  double w = 0, wq = 0, wqq = 0, wx = 0, wqx = 0, wxx = 0;
  for (int i = 0; i < 32; i++) {
    double a = weight[i];
    w += a, wq += a * q[i], wqq += a * q[i] * q[i], wx += a * x[i], wqx += a * q[i] * x[i], wxx += a * x[i] * x[i];
  }
  double determinant = w * wqq - wq * wq;
  double step = determinant > 0 ? (w * wqx - wq * wx) / determinant : 0, shift = w > 0 ? (wx - step * wq) / w : 0;
  if (shift > 0) {
    shift = 0;
    step = wqq > 0 ? wqx / wqq : 0;
  }
  if (!(step >= 0)) step = 0;
  double error =
    wxx + step * step * wqq + shift * shift * w - 2 * step * wqx - 2 * shift * wx + 2 * step * shift * wq;
  return (fit){(float)step, (float)-shift, error};
}

static fit best_fit(const float *x)
{
  enum { GUESSES = 16 };
  float low = 0, high = x[0], weight[32];
  double squares = 0;
  for (int i = 0; i < 32; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    squares += (double)x[i] * x[i];
  }
  fit best = {0, -low, HUGE_VAL};
  if (!(high > low)) return best;
  for (int i = 0; i < 32; i++) weight[i] = (float)sqrt(squares / 32) + fabsf(x[i]);
  for (int guess = 0; guess < GUESSES; guess++) { /* the range is 14 to 17 steps */
    int q[32];
    round_to(x, (high - low) / (14 + 0.2f * (float)guess), -low, q);
    fit first = fit_to(x, weight, q);
    round_to(x, first.step, first.minimum, q);
    fit second = fit_to(x, weight, q);
    if (first.error < best.error) best = first;
    if (second.error < best.error) best = second;
  }
  return best;
}

static void narrow_q4_k(const float *x, byte *to)
{
  fit fits[8];
  float step = 0, minimum = 0;
  for (int part = 0; part < 8; part++) {
    fits[part] = best_fit(x + part * 32);
    step = fits[part].step > step ? fits[part].step : step;
    minimum = fits[part].minimum > minimum ? fits[part].minimum : minimum;
  }
  float d = write_half(step / 63, to), least = write_half(minimum / 63, to + 2);
  memset(to + 4, 0, 140);
  byte *scales = to + 4, *numbers = to + 16;
  for (int part = 0; part < 8; part++) {
    int q[32], i = part % 4, s = nearest(fits[part].step * inverse(d), 0, 63);
    int m = nearest(fits[part].minimum * inverse(least), 0, 63);
    scales[i] = (byte)(part < 4 ? s : scales[i] | s >> 4 << 6);
    scales[4 + i] = (byte)(part < 4 ? m : scales[4 + i] | m >> 4 << 6);
    if (part >= 4) scales[8 + i] = (byte)((s & 15) | (m & 15) << 4);
    round_to(x + part * 32, d * (float)s, least * (float)m, q);
    for (int l = 0; l < 32; l++) numbers[part / 2 * 32 + l] |= (byte)(q[l] << part % 2 * 4);
  }
}

bool weight_can_narrow(weight_type type)
{
  return type == WEIGHT_F32 || type == WEIGHT_F16 || type == WEIGHT_BF16 || type == WEIGHT_Q8_0 ||
         type == WEIGHT_Q4_0 || type == WEIGHT_Q4_K;
}

void weight_narrow(weight_type type, size_t n, const float *from, void *to)
{
  size_t elements = weight_block_elements(type), size = weight_block_bytes(type);
  byte *out = to;
  if (type == WEIGHT_F32 && n) memcpy(to, from, n * sizeof *from);
  for (size_t i = 0; i < n && type != WEIGHT_F32; i += elements, out += size)
    switch (type) {
    case WEIGHT_F16: write_16(half_bits(from[i]), out); break;
    case WEIGHT_BF16: write_16(bfloat_bits(from[i]), out); break;
    case WEIGHT_Q8_0: narrow_q8_0(from + i, out); break;
    case WEIGHT_Q4_0: narrow_q4_0(from + i, out); break;
    case WEIGHT_Q4_K: narrow_q4_k(from + i, out); break;
    default: return;
    }
}
