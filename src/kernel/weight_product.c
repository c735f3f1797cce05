/* Stored weights times a few rows of x, number by number as they are turned: what decoding does.  Nothing is
 * written but the sums, each the chain that the packed product adds up, so they are the same bits. */
#include "kernel/tables.h"
#include "kernel/weight_turn.h"

enum { AHEAD = 512 }; /* bytes before they are needed */

/* After the last AHEAD bytes of the rows come those of `next`. */
INLINE void multiply_all(const int count, weight_type type, byte_rows rows, byte_rows next, size_t n, sink *s)
{
  const size_t block = type <= WEIGHT_BF16 ? 1 : type <= WEIGHT_Q5_1 ? RUN : 256, size = weight_bytes_of(type);
  const size_t step = block > 1 ? block : TRAY / size, step_bytes = step / block * size;
  size_t bytes = n / block * size, there = bytes > AHEAD ? bytes - AHEAD : 0;
  size_t first = (there + step_bytes - 1) / step_bytes * step;
  ahead_rows later = {rows, AHEAD};
  for (size_t from = 0, to = first < n ? first : n; from < n; from = to, to = n) {
    if (to == n) later = (ahead_rows){next, AHEAD - (ptrdiff_t)bytes};
    turn_rows(count, type, rows, from, to - from, &later, s);
  }
}

INLINE void multiply_rows(const int count, weight_type type, byte_rows rows, byte_rows next, size_t n,
                          const float *x,
                          size_t x_stride, float *c, size_t c_stride)
{
  sink s;
  UNROLLED for (int r = 0; r < count; r++) {
    s.x[r] = x + (size_t)r * x_stride;
    EACH_VECTOR s.sum[r][v] = vf_load(c + (size_t)r * c_stride + v * LANES);
  }
  multiply_all(count, type, rows, next, n, &s);
  UNROLLED for (int r = 0; r < count; r++)
    EACH_VECTOR vf_store(c + (size_t)r * c_stride + v * LANES, s.sum[r][v]);
}

INLINE void multiply_type(weight_type type, byte_rows rows, byte_rows next, size_t n, size_t count, const float *x,
                          size_t x_stride, float *c, size_t c_stride)
{
  for (; count >= SINK_ROWS; count -= SINK_ROWS, x += SINK_ROWS * x_stride, c += SINK_ROWS * c_stride)
    multiply_rows(SINK_ROWS, type, rows, next, n, x, x_stride, c, c_stride);
  for (; count > 0; count--, x += x_stride, c += c_stride)
    multiply_rows(1, type, rows, next, n, x, x_stride, c, c_stride);
}

#define MULTIPLY(type) \
  case type: multiply_type(type, (byte_rows)rows, (byte_rows)next, n, count, x, x_stride, c, c_stride); break;

void KERNEL(multiply)(weight_type type, const void *const *rows, const void *const *next, size_t n, size_t count,
                      const float *x, size_t x_stride, float *c, size_t c_stride)
{
  switch (type) {
    MULTIPLY(WEIGHT_F32)
    MULTIPLY(WEIGHT_F16)
    MULTIPLY(WEIGHT_BF16)
    MULTIPLY(WEIGHT_Q8_0)
    MULTIPLY(WEIGHT_Q4_0)
    MULTIPLY(WEIGHT_Q4_1)
    MULTIPLY(WEIGHT_Q5_0)
    MULTIPLY(WEIGHT_Q5_1)
    MULTIPLY(WEIGHT_Q4_K)
    MULTIPLY(WEIGHT_Q5_K)
    MULTIPLY(WEIGHT_Q6_K)
  case WEIGHT_TYPES: break;
  }
}
