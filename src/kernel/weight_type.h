/* kernel/weight_type.h - the number types that weights are stored in.
 *
 * A row of a weight is a whole number of blocks of one size.  The quantised types are ggml's (GGUF files),
 * little-endian: a block holds small integers q and the scales d, minima m of its 32 numbers, or of the 16 or
 * 32 of each part of 256. */
#ifndef KERNEL_WEIGHT_TYPE_H
#define KERNEL_WEIGHT_TYPE_H

#include <stddef.h>

typedef enum weight_type {
  WEIGHT_F32,
  WEIGHT_F16,
  WEIGHT_BF16,
  WEIGHT_Q8_0,
  WEIGHT_Q4_0,
  WEIGHT_Q4_1,
  WEIGHT_Q5_0,
  WEIGHT_Q5_1,
  WEIGHT_Q4_K,
  WEIGHT_Q5_K,
  WEIGHT_Q6_K,
  WEIGHT_TYPES
} weight_type;

const char *weight_type_name(weight_type type); /* "F16", "Q4_K", .. */
size_t weight_block_elements(weight_type type); /* 1, 32 or 256 */
size_t weight_block_bytes(weight_type type);

/* The bytes of a block, where the type is a constant. */
static inline size_t weight_bytes_of(weight_type type)
{
  switch (type) {
  case WEIGHT_F32: return 4;
  case WEIGHT_F16:
  case WEIGHT_BF16: return 2;
  case WEIGHT_Q8_0: return 34;
  case WEIGHT_Q4_0: return 18;
  case WEIGHT_Q4_1: return 20;
  case WEIGHT_Q5_0: return 22;
  case WEIGHT_Q5_1: return 24;
  case WEIGHT_Q4_K: return 144;
  case WEIGHT_Q5_K: return 176;
  case WEIGHT_Q6_K: return 210;
  default: return 0;
  }
}

#endif
