/* Philox4x32-10 and the distributions drawn from it. */
#include "base/random.h"

#include <math.h>

random_block random_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high)
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c[4] = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high,
                   (uint32_t)(counter_high >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                        (uint32_t)p0};
    for (int i = 0; i < 4; i++) c[i] = next[i];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (random_block){{c[0], c[1], c[2], c[3]}};
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
  random_block b = random_philox(seed, index, stream);
  return (uint64_t)b.word[1] << 32 | b.word[0];
}

double random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
  return (double)(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
  /* The high half of a 64 x 64 product: bias below bound / 2^64. */
  return (uint64_t)(((unsigned __int128)random_bits(seed, stream, index) * bound) >> 64);
}

double random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
  random_block b = random_philox(seed, index, stream);
  double u = ((double)(((uint64_t)b.word[1] << 32 | b.word[0]) >> 11) + 0.5) * 0x1p-53;
  double v = (double)(((uint64_t)b.word[3] << 32 | b.word[2]) >> 11) * 0x1p-53;
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * v); /* Box and Muller */
}
