/* kernel/matmul.h - the register tile that the matrix product and attention share.
 * A tile of `rows` x `vectors` accumulators runs one chain of multiply-adds per output element over the inner
 * index. rows and vectors are constants where it is called, so the loops unroll and the accumulators stay in
 * registers. */
#ifndef KERNEL_MATMUL_H
#define KERNEL_MATMUL_H

#include <stdbool.h>

#include "kernel/vector.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 8 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 6 };
#elif defined(__ARM_NEON)
enum { TILE_ROWS = 8 };
#else
enum { TILE_ROWS = 4 };
#endif
enum { TILE_VECTORS = 2, TILE_COLUMNS = TILE_VECTORS * LANES };

/* C [rows, vectors * LANES] (+)= A [rows, inner] B; B's row i lies at b + i * b_stride.  With `shrink` [rows]: C =
 * shrink C + A B, where the product is summed by itself first. */
INLINE void tile(const int rows, const int vectors, size_t inner, const float *a, size_t row_stride,
                 size_t inner_stride, const float *b, size_t b_stride, float *c, size_t c_stride,
                 bool accumulate, const float *shrink)
{
  vf sum[TILE_ROWS][TILE_VECTORS];
  UNROLLED for (int r = 0; r < rows; r++)
    UNROLLED for (int v = 0; v < vectors; v++)
      sum[r][v] = accumulate ? vf_load(c + (size_t)r * c_stride + (size_t)v * LANES) : (vf){0};
  for (size_t i = 0; i < inner; i++) {
    vf right[TILE_VECTORS];
    UNROLLED for (int v = 0; v < vectors; v++) right[v] = vf_load(b + (size_t)v * LANES);
    UNROLLED for (int r = 0; r < rows; r++) {
      vf left = vf_splat(a[(size_t)r * row_stride]);
      UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] = vf_fma(left, right[v], sum[r][v]);
    }
    a += inner_stride;
    b += b_stride;
  }
  UNROLLED for (int r = 0; r < rows; r++) {
    vf factor = vf_splat(shrink ? shrink[r] : 0);
    UNROLLED for (int v = 0; v < vectors; v++) {
      float *at = c + (size_t)r * c_stride + (size_t)v * LANES;
      vf_store(at, shrink ? vf_fma(vf_load(at), factor, sum[r][v]) : sum[r][v]);
    }
  }
}

/* One row: as many vectors at once as hide the latency of a multiply-add.  ahead: NULL, or what is read next,
 * fetched meanwhile row by row into the second-level cache (the first would lose B: 0.97 of the machine's read
 * speed, not 0.7); it lies like B. */
enum { ROW_VECTORS = 8, LINE = 16 };

INLINE void row_tile(const int vectors, size_t inner, const float *a, const float *b, size_t b_stride, float *c,
                     const float *shrink, const float *ahead)
{
  vf sum[ROW_VECTORS];
  UNROLLED for (int v = 0; v < vectors; v++) sum[v] = (vf){0};
  for (size_t i = 0; i < inner; i++, b += b_stride) {
    vf left = vf_splat(a[i]);
    UNROLLED for (int v = 0; v < vectors; v++) sum[v] = vf_fma(left, vf_load(b + (size_t)v * LANES), sum[v]);
    if (!ahead) continue;
    UNROLLED for (int f = 0; f < vectors * LANES; f += LINE) __builtin_prefetch(ahead + f, 0, 2);
    ahead += b_stride;
  }
  UNROLLED for (int v = 0; v < vectors; v++) {
    float *at = c + (size_t)v * LANES;
    vf_store(at, shrink ? vf_fma(vf_load(at), vf_splat(*shrink), sum[v]) : sum[v]);
  }
}

/* The same for 1 .. TILE_ROWS rows known at run time. */
#define TILE_CASE(n)                                                                                         \
  case n:                                                                                                    \
    tile(n, vectors, inner, a, row_stride, inner_stride, b, b_stride, c, c_stride, accumulate, shrink);      \
    break;

INLINE void tile_shrinking(size_t rows, const int vectors, size_t inner, const float *a, size_t row_stride,
                           size_t inner_stride, const float *b, size_t b_stride, float *c, size_t c_stride,
                           bool accumulate, const float *shrink)
{
  switch (rows) {
    TILE_CASE(1)
    TILE_CASE(2)
    TILE_CASE(3)
    TILE_CASE(4)
#if defined(__AVX2__) || defined(__ARM_NEON)
    TILE_CASE(5)
    TILE_CASE(6)
#endif
#if defined(__AVX512F__) || defined(__ARM_NEON)
    TILE_CASE(7)
    TILE_CASE(8)
#endif
  default: break;
  }
}

INLINE void tile_of(size_t rows, const int vectors, size_t inner, const float *a, size_t row_stride,
                    size_t inner_stride, const float *b, size_t b_stride, float *c, size_t c_stride,
                    bool accumulate)
{
  tile_shrinking(rows, vectors, inner, a, row_stride, inner_stride, b, b_stride, c, c_stride, accumulate, NULL);
}

#endif
