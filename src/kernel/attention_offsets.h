/* kernel/attention_offsets.h - the bias of BIAS_KEY: a number of the query and one of the key.  Running sums reach
 * thousands where near keys differ by thousandths, so both are double and only their sum is rounded. */
#ifndef KERNEL_ATTENTION_OFFSETS_H
#define KERNEL_ATTENTION_OFFSETS_H

#include <math.h>

#include "kernel/kernel.h"

static inline double query_offset(const attention_head *h, size_t r)
{
  return h->query_offsets ? h->query_offsets[r * h->offset_stride] : 0;
}

/* Those of a cached block [ATTENTION_BLOCK] stand after its values. */
static inline const double *cached_offsets(const attention_head *h, size_t block)
{
  size_t width = (h->head_size + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
  return (const double *)(const void *)(h->value_blocks[block] + ATTENTION_BLOCK * width) + h->offset_place;
}

static inline double key_offset(const attention_head *h, size_t j)
{
  if (h->offsets) return h->offsets[j * h->offset_stride];
  return cached_offsets(h, j / ATTENTION_BLOCK)[j % ATTENTION_BLOCK];
}

/* As fp32, not below it: for bounds. */
static inline float rounded_up(double x)
{
  float rounded = (float)x;
  return rounded < x ? nextafterf(rounded, INFINITY) : rounded;
}

#endif
