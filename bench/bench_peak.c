/* The peak of one core: independent chains of multiply-adds that never leave the registers, in the vector type of
 * the instruction set.  Twelve chains hide the latency of every processor we know and fit into 16 registers. */
#include "kernel/vector.h"

#define PEAK_JOIN_(isa) bench_peak_##isa
#define PEAK_JOIN(isa) PEAK_JOIN_(isa)

enum { CHAINS = 12 };

double PEAK_JOIN(KERNEL_ISA)(size_t rounds);

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
