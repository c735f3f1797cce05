/* kernel/weight_steps.h - the scales inside blocks of 256, of LANES rows at once. */
#ifndef KERNEL_WEIGHT_STEPS_H
#define KERNEL_WEIGHT_STEPS_H

#include "kernel/vector_words.h"
#include "kernel/weight_type.h"

INLINE vf vf_from_bits(vu bits)
{
  return vf_from_int((vi)bits);
}

/* What is common to a block: Q4_K and Q5_K have 6 bits of scale and of minimum for each of 8 parts in 12 bytes,
 * those of the last four parts spread over two places; Q6_K a byte of scale for every 16 numbers. */
typedef struct block_head {
  vf d, least;
  vu word[4];
} block_head;

INLINE void open_head(weight_type type, const unsigned char *const *rows, size_t at, block_head *h)
{
  vu word[4];
  load_words(rows, type == WEIGHT_Q6_K ? at + 194 : at, word);
  if (type == WEIGHT_Q6_K) {
    vf_from_halves(word[3], &h->least, &h->d); /* at 208 */
    load_words(rows, at + 192, h->word);
  } else {
    vf_from_halves(word[0], &h->d, &h->least);
    UNROLLED for (int j = 1; j < 4; j++) h->word[j] = word[j];
  }
}

INLINE void step_of_part(const block_head *h, int s, vf *scale, vf *shift)
{
  int bit = s % 4 * 8;
  vu q = h->word[1] >> bit & 63, m = h->word[2] >> bit & 63;
  if (s >= 4) {
    q = (h->word[3] >> bit & 15) | (h->word[1] >> (bit + 6) & 3) << 4;
    m = (h->word[3] >> (bit + 4) & 15) | (h->word[2] >> (bit + 6) & 3) << 4;
  }
  *scale = h->d * vf_from_bits(q);
  *shift = -(h->least * vf_from_bits(m));
}

/* Q6_K: the scale of 16 numbers, `quarter` of a chunk of 64. */
INLINE vf step_of_16(const block_head *h, int chunk, const int quarter)
{
  return h->d * vf_from_int((vi)(h->word[chunk] << (24 - 8 * quarter)) >> 24);
}

#endif
