/* kernel/weight_lines.h - a vector's worth of bytes of each of LANES rows, turned.  With vector.h and
 * vector_words.h, one of the places that ask which instruction set it is.
 *
 * Most of the work is done within 16 bytes, where processors interleave fastest. */
#ifndef KERNEL_WEIGHT_LINES_H
#define KERNEL_WEIGHT_LINES_H

#include "kernel/vector_words.h"

enum { FETCH_LINE = 64 }; /* bytes */

typedef const unsigned char *const *byte_rows;

/* What is read later, asked for in time: `bytes` from place `at` of `count` rows on.  Into the second-level
 * cache, since rows often lie a multiple of 4 KiB apart and all meet in one set of the first. */
typedef struct ahead_rows {
  byte_rows rows;
  ptrdiff_t shift; /* from the place at work to the one asked for */
} ahead_rows;

INLINE void ask(const ahead_rows *a, const int count, size_t at, size_t bytes)
{
  for (size_t b = 0; b < bytes; b += FETCH_LINE) {
    ptrdiff_t from = (ptrdiff_t)(at + b) + a->shift;
    for (int r = 0; r < count; r += LANES)
      UNROLLED for (int i = r; i < r + LANES; i++) __builtin_prefetch(a->rows[i] + from, 0, 2);
  }
}

#define INTERLEAVED(a, b, order) __builtin_shufflevector(a, b, order)

/* Of four rows each: 16 bytes side by side become words. */
INLINE void turn_four(vu a, vu b, vu c, vu d, vu word[4])
{
  vu ab = INTERLEAVED(a, b, JOIN_LOW32), cd = INTERLEAVED(c, d, JOIN_LOW32);
  word[0] = INTERLEAVED(ab, cd, JOIN_LOW64);
  word[1] = INTERLEAVED(ab, cd, JOIN_HIGH64);
  ab = INTERLEAVED(a, b, JOIN_HIGH32), cd = INTERLEAVED(c, d, JOIN_HIGH32);
  word[2] = INTERLEAVED(ab, cd, JOIN_LOW64);
  word[3] = INTERLEAVED(ab, cd, JOIN_HIGH64);
}

INLINE vu vu_load(const unsigned char *p)
{
  vu v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* word[j], lane r: the word at rows[r] + at + 4 j, j below LANES. */
INLINE void load_lines(byte_rows rows, size_t at, vu word[LANES])
{
  vu four[LANES / 4][4]; /* [g][k]: words k, k + 4, .. of rows 4 g .. 4 g + 3, in 16 bytes each */
  UNROLLED for (int g = 0; g < LANES / 4; g++)
    turn_four(vu_load(rows[4 * g] + at), vu_load(rows[4 * g + 1] + at), vu_load(rows[4 * g + 2] + at),
              vu_load(rows[4 * g + 3] + at), four[g]);
#if defined(__AVX512F__)
#define EVEN_16 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD_16 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
  UNROLLED for (int k = 0; k < 4; k++) {
    vu even[2], odd[2];
    UNROLLED for (int h = 0; h < 2; h++) {
      even[h] = INTERLEAVED(four[2 * h][k], four[2 * h + 1][k], EVEN_16);
      odd[h] = INTERLEAVED(four[2 * h][k], four[2 * h + 1][k], ODD_16);
    }
    word[k] = INTERLEAVED(even[0], even[1], EVEN_16);
    word[4 + k] = INTERLEAVED(odd[0], odd[1], EVEN_16);
    word[8 + k] = INTERLEAVED(even[0], even[1], ODD_16);
    word[12 + k] = INTERLEAVED(odd[0], odd[1], ODD_16);
  }
#elif defined(__AVX2__)
  UNROLLED for (int k = 0; k < 4; k++) {
    word[k] = __builtin_shufflevector(four[0][k], four[1][k], 0, 1, 2, 3, 8, 9, 10, 11);
    word[4 + k] = __builtin_shufflevector(four[0][k], four[1][k], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  UNROLLED for (int k = 0; k < 4; k++) word[k] = four[0][k];
#endif
}

/* Numbers of half precision, LANES of one place beside each other in memory, from where the conversion takes
 * them for less than from a register.  That of place i lies at halves_place(i). */
#if defined(__AVX512F__) || defined(__AVX2__)
#define HAS_HALF_LINES 1
#if defined(__AVX512F__)
#define HALF_OP(name) _mm512_##name
typedef __m512i half_vector;
#else
#define HALF_OP(name) _mm256_##name
typedef __m256i half_vector;
#endif

INLINE size_t halves_place(size_t i)
{
  return i % 8 * (LANES / 4) + i / 8;
}

/* Within each 16 bytes: eight numbers of eight rows turned. */
INLINE void turn_eight(byte_rows rows, size_t at, half_vector out[8])
{
  half_vector a[8], b[8];
  UNROLLED for (int i = 0; i < 8; i++) a[i] = (half_vector)vu_load(rows[i] + at);
  UNROLLED for (int i = 0; i < 4; i++) { /* rows i and i + 4 */
    b[2 * i] = HALF_OP(unpacklo_epi16)(a[i], a[i + 4]);
    b[2 * i + 1] = HALF_OP(unpackhi_epi16)(a[i], a[i + 4]);
  }
  UNROLLED for (int i = 0; i < 4; i++) {
    a[2 * i] = HALF_OP(unpacklo_epi16)(b[i], b[i + 4]);
    a[2 * i + 1] = HALF_OP(unpackhi_epi16)(b[i], b[i + 4]);
  }
  UNROLLED for (int i = 0; i < 4; i++) {
    out[2 * i] = HALF_OP(unpacklo_epi16)(a[i], a[i + 4]);
    out[2 * i + 1] = HALF_OP(unpackhi_epi16)(a[i], a[i + 4]);
  }
}

/* 2 LANES numbers of each row. */
INLINE void load_half_lines(byte_rows rows, size_t at, v16 to[2 * LANES])
{
  half_vector low[8];
  turn_eight(rows, at, low);
#if defined(__AVX512F__)
  half_vector high[8];
  turn_eight(rows + 8, at, high);
  const half_vector first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
  const half_vector second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  UNROLLED for (int k = 0; k < 8; k++) {
    _mm512_store_si512(to + 4 * k, _mm512_permutex2var_epi64(low[k], first, high[k]));
    _mm512_store_si512(to + 4 * k + 2, _mm512_permutex2var_epi64(low[k], second, high[k]));
  }
#else
  UNROLLED for (int k = 0; k < 8; k++) _mm256_store_si256((half_vector *)(void *)(to + 2 * k), low[k]);
#endif
  __asm__("" : : "r"(to) : "memory"); /* what was written is read from there */
}
#endif

#endif
