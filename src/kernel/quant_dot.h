/* kernel/quant_dot.h - products of bytes, by what each instruction set has for them. */
#ifndef KERNEL_QUANT_DOT_H
#define KERNEL_QUANT_DOT_H

#include <stdbool.h>

#include "kernel/vector.h"

/* Has the processor the one instruction of AVX-512 VNNI?  It is asked for as it runs: a table does not depend
 * on it. */
INLINE bool has_dot_instruction(void)
{
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

#if defined(__SSE2__)
#if defined(__AVX512F__)
#define DOT_VECTOR __m512i
#define DOT_OP(name) _mm512_##name
#elif defined(__AVX2__)
#define DOT_VECTOR __m256i
#define DOT_OP(name) _mm256_##name
#else
#define DOT_VECTOR __m128i
#define DOT_OP(name) _mm_##name
#endif

/* Bytes to numbers of 16 bits by halves; `is_signed` for w, x always is. */
INLINE vi dot_by_halves(const bool is_signed, vi sum, vu w, vi x)
{
  DOT_VECTOR a = (DOT_VECTOR)w, b = (DOT_VECTOR)x;
  DOT_VECTOR b_low = DOT_OP(srai_epi16)(DOT_OP(slli_epi16)(b, 8), 8), b_high = DOT_OP(srai_epi16)(b, 8);
  DOT_VECTOR a_low = DOT_OP(slli_epi16)(a, 8), a_high;
  a_low = is_signed ? DOT_OP(srai_epi16)(a_low, 8) : DOT_OP(srli_epi16)(a_low, 8);
  a_high = is_signed ? DOT_OP(srai_epi16)(a, 8) : DOT_OP(srli_epi16)(a, 8);
  return sum + (vi)DOT_OP(madd_epi16)(a_low, b_low) + (vi)DOT_OP(madd_epi16)(a_high, b_high);
}
#endif

/* sum + the four products of bytes of every lane.  w: 0 .. 63, or signed; x: -127 .. 127, the same in all
 * lanes. */
INLINE vi dot4(const bool has_instruction, const bool is_signed, vi sum, vu w, vi x)
{
#if defined(__AVX512F__)
  if (has_instruction && !is_signed) {
    __m512i total = (__m512i)sum;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(total) : "v"((__m512i)w), "v"((__m512i)x));
    return (vi)total;
  }
#endif
  (void)has_instruction, (void)is_signed;
#if defined(__AVX512F__)
  if (!is_signed)
    return sum + (vi)_mm512_madd_epi16(_mm512_maddubs_epi16((__m512i)w, (__m512i)x), _mm512_set1_epi16(1));
#elif defined(__AVX2__)
  if (!is_signed)
    return sum + (vi)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)w, (__m256i)x), _mm256_set1_epi16(1));
#endif
#if defined(__SSE2__)
  return dot_by_halves(is_signed, sum, w, x);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  int8x16_t a = (int8x16_t)w, b = (int8x16_t)x; /* 0 .. 63 is the same number signed */
  int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
  return sum + (vi)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
#else
  for (int bit = 0; bit < 32; bit += 8) {
    vi left = is_signed ? (vi)(w << (24 - bit)) >> 24 : (vi)(w >> bit & 255);
    sum += left * ((vi)((vu)x << (24 - bit)) >> 24);
  }
  return sum;
#endif
}

#endif
