/* kernel/weight_steps.h - the scales inside blocks of 256, of LANES rows at once. */
#ifndef KERNEL_WEIGHT_STEPS_H
#define KERNEL_WEIGHT_STEPS_H

#include "kernel/vector_words.h"

INLINE vf vf_from_bits(vu bits)
{
  return vf_from_int((vi)bits);
}

/* Q4_K, Q5_K: scale and shift of part s of 8, 6 bits each in 12 bytes, of the last four parts spread over two
 * places; head is the block's first 16 bytes. */
INLINE void step_of_part(const vu head[4], int s, vf *scale, vf *shift)
{
  vf d, least;
  int bit = s % 4 * 8;
  vf_from_halves(head[0], &d, &least);
  vu q = head[1] >> bit & 63, m = head[2] >> bit & 63;
  if (s >= 4) {
    q = (head[3] >> bit & 15) | (head[1] >> (bit + 6) & 3) << 4;
    m = (head[3] >> (bit + 4) & 15) | (head[2] >> (bit + 6) & 3) << 4;
  }
  *scale = d * vf_from_bits(q);
  *shift = -(least * vf_from_bits(m));
}

/* Q6_K: the scale of the block at `at`, and the scales of numbers 64 chunk .. 64 chunk + 63, one byte for every
 * 16. */
INLINE vu steps_of_chunk(const unsigned char *const *rows, size_t at, int chunk, vf *d)
{
  vu last[4], scales[4];
  vf unused;
  load_words(rows, at + 194, last);
  vf_from_halves(last[3], &unused, d); /* at 208 */
  load_words(rows, at + 192, scales);
  return chunk < 2 ? chunk ? scales[1] : scales[0] : chunk > 2 ? scales[3] : scales[2];
}

#endif
