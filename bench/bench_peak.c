/* What a core can do at most: multiply-adds in registers, and reading.  The peak: independent chains of
 * multiply-adds that never leave the registers, in the vector type of the instruction set.  Twelve chains hide the
 * latency of every processor we know and fit into 16 registers. */
#include "kernel/vector.h"

#define PEAK_JOIN_(isa) bench_peak_##isa
#define PEAK_JOIN(isa) PEAK_JOIN_(isa)
#define READ_JOIN_(isa) bench_read_##isa
#define READ_JOIN(isa) READ_JOIN_(isa)

enum { CHAINS = 12 };

double PEAK_JOIN(KERNEL_ISA)(size_t rounds);
float READ_JOIN(KERNEL_ISA)(const float *x, size_t n);

/* Returns the operations done. */
double PEAK_JOIN(KERNEL_ISA)(size_t rounds)
{
  static volatile float memory[2] = {0.999f}; /* where the compiler cannot look: what goes in, what comes out */
  vf factor = vf_splat(memory[0]), term = vf_splat(memory[0]), sum[CHAINS];
  UNROLLED for (int k = 0; k < CHAINS; k++) sum[k] = vf_splat(memory[0] + (float)k);
  for (size_t i = 0; i < rounds; i++) {
    UNROLLED for (int k = 0; k < CHAINS; k++) sum[k] = sum[k] * factor + term;
  }
  vf total = {0};
  UNROLLED for (int k = 0; k < CHAINS; k++) total += sum[k];
  memory[1] = vf_sum(total);
  return 2.0 * CHAINS * LANES * (double)rounds;
}

/* The sum of x: as fast as memory, or the cache where it lies, gives it.  A rest below one turn is left out. */
float READ_JOIN(KERNEL_ISA)(const float *x, size_t n)
{
  vf sum[CHAINS];
  UNROLLED for (int k = 0; k < CHAINS; k++) sum[k] = vf_splat(0);
  for (; n >= CHAINS * LANES; n -= CHAINS * LANES, x += CHAINS * LANES) {
    UNROLLED for (int k = 0; k < CHAINS; k++) sum[k] += vf_load(x + k * LANES);
  }
  vf total = {0};
  UNROLLED for (int k = 0; k < CHAINS; k++) total += sum[k];
  return vf_sum(total);
}
