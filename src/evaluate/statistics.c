/* Means and their errors.  Blocks are as equal as they can be: block b of n ends at (b + 1) * count / n. */
#include "evaluate/statistics.h"

#include <math.h>

static double sum_of(const float *values, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

static size_t block_start(size_t block, size_t blocks, size_t count)
{
  return block * (count / blocks) + block * (count % blocks) / blocks;
}

mean_estimate statistics_mean(const float *values, size_t count)
{
  mean_estimate e = {.mean = sum_of(values, count) / (double)count, .standard_error = NAN};
  size_t blocks = count / STATISTICS_BLOCK;
  if (blocks < 2) return e;
  double sum = 0, squares = 0;
  for (size_t b = 0; b < blocks; b++) {
    size_t start = block_start(b, blocks, count), size = block_start(b + 1, blocks, count) - start;
    double difference =
        sum_of(values + start, size) / (double)size - e.mean; /* small, so that squares cancel little */
    sum += difference;
    squares += difference * difference;
  }
  double variance = (squares - sum * sum / (double)blocks) / (double)(blocks - 1);
  e.standard_error = sqrt((variance > 0 ? variance : 0) / (double)blocks);
  return e;
}

double statistics_bits_per_byte(double nats, size_t bytes)
{
  return bytes ? nats / log(2.0) / (double)bytes : NAN;
}
