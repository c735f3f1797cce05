/* kernel/vector_words.h - what reading stored weights needs: words of many rows turned to vectors, and half
 * precision.  With vector.h, one of the places that ask which instruction set it is. */
#ifndef KERNEL_VECTOR_WORDS_H
#define KERNEL_VECTOR_WORDS_H

#include "kernel/vector.h"

typedef uint16_t v16 __attribute__((vector_size(VECTOR_BYTES / 2)));

/* Neighbours interleaved within each 16 bytes: words (..32), pairs of words (..64). */
#if defined(__AVX512F__)
#define JOIN_LOW32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define JOIN_HIGH32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define JOIN_LOW64 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define JOIN_HIGH64 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#elif defined(__AVX2__)
#define JOIN_LOW32 0, 8, 1, 9, 4, 12, 5, 13
#define JOIN_HIGH32 2, 10, 3, 11, 6, 14, 7, 15
#define JOIN_LOW64 0, 1, 8, 9, 4, 5, 12, 13
#define JOIN_HIGH64 2, 3, 10, 11, 6, 7, 14, 15
#else
#define JOIN_LOW32 0, 4, 1, 5
#define JOIN_HIGH32 2, 6, 3, 7
#define JOIN_LOW64 0, 1, 4, 5
#define JOIN_HIGH64 2, 3, 6, 7
#endif

/* 16 bytes each of LANES rows, rows `of`, of + 4, of + 8, .. */
INLINE vu load_every_fourth(const unsigned char *const *rows, size_t at, int of)
{
#if defined(__AVX512F__)
  __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(rows[of] + at)));
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(rows[of + 4] + at)), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(rows[of + 8] + at)), 2);
  return (vu)_mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(rows[of + 12] + at)), 3);
#elif defined(__AVX2__)
  __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(rows[of] + at)));
  return (vu)_mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)(rows[of + 4] + at)), 1);
#else
  vu v;
  memcpy(&v, rows[of] + at, sizeof v);
  return v;
#endif
}

/* word[j], lane r: the word at rows[r] + at + 4 j.  16 bytes of each row are read. */
INLINE void load_words(const unsigned char *const *rows, size_t at, vu word[4])
{
  vu a = load_every_fourth(rows, at, 0), b = load_every_fourth(rows, at, 1);
  vu c = load_every_fourth(rows, at, 2), d = load_every_fourth(rows, at, 3);
  vu ab = __builtin_shufflevector(a, b, JOIN_LOW32), cd = __builtin_shufflevector(c, d, JOIN_LOW32);
  word[0] = __builtin_shufflevector(ab, cd, JOIN_LOW64);
  word[1] = __builtin_shufflevector(ab, cd, JOIN_HIGH64);
  ab = __builtin_shufflevector(a, b, JOIN_HIGH32), cd = __builtin_shufflevector(c, d, JOIN_HIGH32);
  word[2] = __builtin_shufflevector(ab, cd, JOIN_LOW64);
  word[3] = __builtin_shufflevector(ab, cd, JOIN_HIGH64);
}

/* Byte k of every lane, as a number; and the 4 bits from `bit` on. */
INLINE vf vf_from_bytes(vu word, const int k)
{
#if defined(__AVX512F__)
  word = (vu)_mm512_shuffle_epi8((__m512i)word, _mm512_set4_epi32((int)0x8080800cu + k, (int)0x80808008u + k,
                                                                  (int)0x80808004u + k, (int)0x80808000u + k));
  return vf_from_int((vi)word);
#elif defined(__AVX2__)
  word = (vu)_mm256_shuffle_epi8((__m256i)word,
                                 _mm256_set_epi32((int)0x8080800cu + k, (int)0x80808008u + k, (int)0x80808004u + k,
                                                  (int)0x80808000u + k, (int)0x8080800cu + k, (int)0x80808008u + k,
                                                  (int)0x80808004u + k, (int)0x80808000u + k));
  return vf_from_int((vi)word);
#else
  return vf_from_int((vi)(word >> (8 * k) & 255));
#endif
}

INLINE vf vf_from_nibbles(vu word, const int bit)
{
#if defined(__AVX512F__)
  const __m512 numbers = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return (vf)_mm512_permutexvar_ps((__m512i)(word >> bit), numbers); /* which looks at 4 bits of each lane */
#else
  return vf_from_int((vi)(word >> bit & 15));
#endif
}

/* Bits 0 .. 3 of every lane, bit i to bit 4 of byte i. */
INLINE vu vu_spread_bits(vu bits)
{
  return (bits & 15) * 0x02040810u & 0x10101010u;
}

/* Half precision without an instruction for it: the low 16 bits of every lane.  Exact; NaN becomes quiet. */
INLINE vf vf_from_half_bits(vu half)
{
  vu size = half & 0x7fff, special = (vu)(size > 0x7bff);
  vu quiet = (vu)(size > 0x7c00) & (~size << 13 & 1u << 22);
  vu normal = (size << 13) + (112u << 23) + (special & (112u << 23)) + quiet;
  vu small = (vu)(vf_from_int((vi)size) * 0x1p-24f), is_small = (vu)(size < 0x400);
  return (vf)((small & is_small) | (normal & ~is_small) | (half & 0x8000) << 16);
}

/* The low and the high halves of all lanes. */
INLINE void vf_from_halves(vu pairs, vf *low, vf *high)
{
#if defined(__AVX512F__)
  const __m512i apart =
      _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1,
                       30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  __m512i both = _mm512_permutexvar_epi16(apart, (__m512i)pairs);
  *low = (vf)_mm512_cvtph_ps(_mm512_castsi512_si256(both));
  *high = (vf)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1));
#elif defined(__AVX2__)
  __m256i both = _mm256_packus_epi32((__m256i)(pairs & 0xffff), (__m256i)(pairs >> 16));
  both = _mm256_permute4x64_epi64(both, 0xd8);
  *low = (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(both));
  *high = (vf)_mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
#elif defined(__ARM_NEON) && defined(__aarch64__)
  *low = (vf)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)pairs)));
  *high = (vf)vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32((uint32x4_t)pairs, 16)));
#else
  *low = vf_from_half_bits(pairs & 0xffff);
  *high = vf_from_half_bits(pairs >> 16);
#endif
}

INLINE vu vu_from_16(const void *p) /* LANES numbers of 16 bits */
{
  v16 v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, vu);
}

INLINE vf vf_load_halves(const void *p)
{
#if defined(__AVX512F__)
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(__ARM_NEON) && defined(__aarch64__)
  v16 v;
  memcpy(&v, p, sizeof v);
  return (vf)vcvt_f32_f16((float16x4_t)v);
#else
  return vf_from_half_bits(vu_from_16(p));
#endif
}

INLINE vf vf_load_bfloats(const void *p)
{
  return (vf)(vu_from_16(p) << 16);
}

#endif
