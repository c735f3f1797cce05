/* base/random.h - counter-based random numbers: a number is a pure function of (seed, stream, index), so the
 * order of drawing, the number of threads and a resume cannot change it.
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

typedef struct random_block {
  uint32_t word[4];
} random_block;

random_block random_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

/* 64 random bits, a double in [0, 1), an integer in [0, bound), a standard normal deviate. */
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);
double random_uniform(uint64_t seed, uint64_t stream, uint64_t index);
uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);
double random_normal(uint64_t seed, uint64_t stream, uint64_t index);

#endif
