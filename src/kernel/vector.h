/* kernel/vector.h - one vector type, as wide as the registers of the instruction set being compiled for, and the
 * few operations that vector extensions lack.  The only place, with quant files, that asks which instruction set
 * it is.
 *
 * Vectors wider than the registers cost 8.5 times with gcc, so the width is a constant of the instruction set. */
#ifndef KERNEL_VECTOR_H
#define KERNEL_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
#include <immintrin.h>
enum { VECTOR_BYTES = 32 };
#else
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
enum { VECTOR_BYTES = 16 };
#endif

enum { LANES = VECTOR_BYTES / 4 };

#define INLINE static inline __attribute__((always_inline))

/* Before a loop whose count is a constant, at most 16: arrays that it walks can then stay in registers. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vf vf_load(const float *p) { return *(const vf_anywhere *)p; }
INLINE void vf_store(float *p, vf v) { *(vf_anywhere *)p = v; }
INLINE vf vf_splat(float x) { return x - (vf){0}; } /* x - 0 is x, also for x = -0 */
INLINE vi vi_splat(int32_t x) { return x - (vi){0}; }

/* mask lanes are all ones or all zeros, as comparisons give them. */
INLINE vf vf_select(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
INLINE vf vf_and(vi mask, vf v) { return (vf)((vi)v & mask); }
INLINE vf vf_abs(vf v) { return (vf)((vi)v & 0x7fffffff); }

/* Where either is NaN: the second operand.  vf_fma rounds once where the instruction set can. */
#if defined(__AVX512F__)
INLINE vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vf_sqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__AVX2__)
INLINE vf vf_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf vf_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf vf_sqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(__SSE2__)
INLINE vf vf_max(vf a, vf b) { return (vf)_mm_max_ps((__m128)a, (__m128)b); }
INLINE vf vf_min(vf a, vf b) { return (vf)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vf vf_sqrt(vf a) { return (vf)_mm_sqrt_ps((__m128)a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
#else
INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
#if defined(__ARM_NEON)
INLINE vf vf_sqrt(vf a) { return (vf)vsqrtq_f32((float32x4_t)a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
#else
INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
INLINE vf vf_sqrt(vf a)
{
  for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]);
  return a;
}
#endif
#endif

/* a^2 - square, exactly, for square = a^2 rounded. */
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__ARM_NEON)
INLINE vf vf_square_error(vf a, vf square) { return vf_fma(a, a, -square); }
#else
INLINE vf vf_square_error(vf a, vf square)
{
  vf high = (vf)((vi)a & (int32_t)0xfffff000); /* 12 bits: its square is exact */
  return (a - high) * (a + high) - (square - high * high);
}
#endif

/* p * 2^n for whole n from -160 to 160; below the normal range rounded once, then a true 0; above it infinity. */
#if defined(__AVX512F__)
INLINE vf vf_times_power(vf p, vf n) { return (vf)_mm512_scalef_ps((__m512)p, (__m512)n); }
#else
INLINE vf vf_times_power(vf p, vf n) /* in two halves, each of which is a normal number */
{
  vi bits = (vi)(n + 12582912.0f); /* 1.5 * 2^23: n stands in the low bits, and NaN is never made an integer */
  vi exponent = bits - 0x4b400000, half = exponent >> 1;
  return p * (vf)((half + 127) << 23) * (vf)((exponent - half + 127) << 23);
}
#endif

/* x[0 .. LANES-1] + shift: summed in double, rounded once. */
#if defined(__AVX512F__)
INLINE vf vf_from_doubles(const double *x, double shift)
{
  __m512d by = _mm512_set1_pd(shift);
  __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_add_pd(_mm512_loadu_pd(x), by)));
  __m256 high = _mm512_cvtpd_ps(_mm512_add_pd(_mm512_loadu_pd(x + LANES / 2), by));
  return (vf)_mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(low), _mm256_castps_pd(high), 1));
}
#elif defined(__AVX2__)
INLINE vf vf_from_doubles(const double *x, double shift)
{
  __m256d by = _mm256_set1_pd(shift);
  __m128 low = _mm256_cvtpd_ps(_mm256_add_pd(_mm256_loadu_pd(x), by));
  __m128 high = _mm256_cvtpd_ps(_mm256_add_pd(_mm256_loadu_pd(x + LANES / 2), by));
  return (vf)_mm256_set_m128(high, low);
}
#elif defined(__SSE2__)
INLINE vf vf_from_doubles(const double *x, double shift)
{
  __m128d by = _mm_set1_pd(shift);
  __m128 low = _mm_cvtpd_ps(_mm_add_pd(_mm_loadu_pd(x), by));
  return (vf)_mm_movelh_ps(low, _mm_cvtpd_ps(_mm_add_pd(_mm_loadu_pd(x + LANES / 2), by)));
}
#elif defined(__ARM_NEON) && defined(__aarch64__)
INLINE vf vf_from_doubles(const double *x, double shift)
{
  float64x2_t by = vdupq_n_f64(shift);
  float32x2_t low = vcvt_f32_f64(vaddq_f64(vld1q_f64(x), by));
  return (vf)vcvt_high_f32_f64(low, vaddq_f64(vld1q_f64(x + LANES / 2), by));
}
#else
INLINE vf vf_from_doubles(const double *x, double shift)
{
  vf v;
  for (int i = 0; i < LANES; i++) v[i] = (float)(x[i] + shift);
  return v;
}
#endif

INLINE vi vi_lanes(void)
{
  vi v;
  for (int i = 0; i < LANES; i++) v[i] = i;
  return v;
}

/* Lanes 0 .. n-1 are set; n may be negative or above LANES. */
INLINE vi mask_below(int n) { return vi_lanes() < vi_splat(n); }

/* The first n lanes, the others 0; and the first n lanes only.  n from 1 to LANES.  With these a tail runs the
 * same arithmetic as the body: no scalar loops.  An expression whose contraction is ambiguous (a*b + c*d) says
 * vf_fma, so that the compiler cannot round it in two ways in two places. */
#if defined(__AVX512F__)
INLINE vf vf_load_part(const float *p, size_t n)
{
  return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
INLINE void vf_store_part(float *p, vf v, size_t n)
{
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#elif defined(__AVX2__)
INLINE vf vf_load_part(const float *p, size_t n)
{
  return n == LANES ? vf_load(p) : (vf)_mm256_maskload_ps(p, (__m256i)mask_below((int)n));
}
INLINE void vf_store_part(float *p, vf v, size_t n)
{
  if (n == LANES)
    vf_store(p, v);
  else
    _mm256_maskstore_ps(p, (__m256i)mask_below((int)n), (__m256)v);
}
#else
INLINE vf vf_load_part(const float *p, size_t n)
{
  if (n == LANES) return vf_load(p);
  vf v = {p[0]};
  if (n > 1) v[1] = p[1];
  if (n > 2) v[2] = p[2];
  return v;
}
INLINE void vf_store_part(float *p, vf v, size_t n)
{
  if (n == LANES) {
    vf_store(p, v);
    return;
  }
  p[0] = v[0];
  if (n > 1) p[1] = v[1];
  if (n > 2) p[2] = v[2];
}
#endif

INLINE size_t part(size_t n, size_t i) { return n - i < LANES ? n - i : LANES; }

INLINE vf vf_from_int(vi v) { return __builtin_convertvector(v, vf); }

/* Halves added pairwise: a fixed tree, the same for every caller. */
INLINE float vf_sum(vf v)
{
  float x[LANES];
  memcpy(x, &v, sizeof x);
  for (int width = LANES / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) x[i] += x[i + width];
  return x[0];
}

INLINE float vf_largest(vf v)
{
  float x[LANES];
  memcpy(x, &v, sizeof x);
  for (int width = LANES / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) x[i] = x[i] > x[i + width] ? x[i] : x[i + width];
  return x[0];
}

/* Two vectors interleaved: the first halves, the second halves. */
#if defined(__AVX512F__)
#define SWAP_HALVES 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define SWAP_NEIGHBOURS 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX2__)
#define SWAP_HALVES 4, 5, 6, 7, 0, 1, 2, 3
#define SWAP_NEIGHBOURS 1, 0, 3, 2, 5, 4, 7, 6
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define SWAP_HALVES 2, 3, 0, 1
#define SWAP_NEIGHBOURS 1, 0, 3, 2
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

INLINE vf vf_swap_halves(vf v) { return __builtin_shufflevector(v, v, SWAP_HALVES); }
INLINE vf vf_swap_neighbours(vf v) { return __builtin_shufflevector(v, v, SWAP_NEIGHBOURS); }

/* LANES x LANES transposed by log2(LANES) rounds of a perfect shuffle: round by round, row i and row i + LANES/2
 * are interleaved into rows 2i and 2i + 1. */
INLINE void transpose(vf row[LANES])
{
  for (int width = 1; width < LANES; width *= 2) {
    vf next[LANES];
    for (int i = 0; i < LANES / 2; i++) {
      next[2 * i] = ZIP_LOW(row[i], row[i + LANES / 2]);
      next[2 * i + 1] = ZIP_HIGH(row[i], row[i + LANES / 2]);
    }
    for (int i = 0; i < LANES; i++) row[i] = next[i];
  }
}

/* Sums (largest) of LANES vectors at once: lane r of the result is that of row r.  Round by round, rows i and i +
 * n are interleaved and their halves joined, so every row is summed by the same fixed tree.  row[] is used up. */
#define ROWS_JOINED(name, operation)                                                                         \
  INLINE vf name(vf row[LANES])                                                                              \
  {                                                                                                          \
    UNROLLED for (int n = LANES / 2; n > 0; n /= 2)                                           \
      UNROLLED for (int i = 0; i < n; i++)                                                   \
        row[i] = operation(ZIP_LOW(row[i], row[i + n]), ZIP_HIGH(row[i], row[i + n]));                       \
    return row[0];                                                                                           \
  }
INLINE vf vf_plus(vf a, vf b) { return a + b; }
ROWS_JOINED(vf_sums, vf_plus)
ROWS_JOINED(vf_maxima, vf_max)

#endif
