/* Turns and medians.  Processor time, not time on the wall: other programs may take the core in between. */
#include "bench/bench_measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/system.h"

typedef struct peak_row {
  const char *isa;
  double (*run)(size_t rounds);
} peak_row;

#include "peak_registry.inc" /* peaks[] */

/* A turn lasts about this long: longer than the clock's noise, shorter than a change of the machine's speed. */
static const double turn_seconds = 1e-3;

static double median(double *x, size_t n)
{
  for (size_t i = 1; i < n; i++)
    for (size_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
      double swap = x[j];
      x[j] = x[j - 1];
      x[j - 1] = swap;
    }
  return x[n / 2];
}

static double peak_speed(const char *isa, size_t rounds)
{
  size_t i = 0; /* the reference has no vectors: it is compared with the least of the others */
  for (size_t k = 0; k < sizeof peaks / sizeof peaks[0]; k++)
    if (strcmp(peaks[k].isa, isa) == 0) i = k;
  double start = system_cpu_seconds(), operations = peaks[i].run(rounds);
  return operations / (system_cpu_seconds() - start);
}

static double run_seconds(const contestant *c, size_t times)
{
  double start = system_cpu_seconds();
  for (size_t i = 0; i < times; i++) c->run(c->user);
  return (system_cpu_seconds() - start) / (double)times;
}

double bench_take_turns(const char *isa, contestant *contestants, size_t count)
{
  double peak[BENCH_TURNS], share[BENCH_CONTESTANTS][BENCH_TURNS], seconds[BENCH_CONTESTANTS][BENCH_TURNS];
  size_t times[BENCH_CONTESTANTS] = {0}, rounds = 20000;
  for (size_t k = 0; k < count; k++)
    if (contestants[k].run) {
      double once = run_seconds(&contestants[k], 1);
      once = run_seconds(&contestants[k], 1);
      times[k] = once > turn_seconds ? 1 : (size_t)(turn_seconds / once) + 1;
    }
  for (size_t turn = 0; turn < BENCH_TURNS; turn++) {
    double before = peak_speed(isa, rounds);
    for (size_t k = 0; k < count; k++) {
      if (!contestants[k].run) continue;
      seconds[k][turn] = run_seconds(&contestants[k], times[k]);
      double after = peak_speed(isa, rounds);
      share[k][turn] = contestants[k].operations / seconds[k][turn] / ((before + after) / 2);
      before = after;
    }
    peak[turn] = before;
  }
  for (size_t k = 0; k < count; k++) {
    contestants[k].share = times[k] ? median(share[k], BENCH_TURNS) : 0;
    contestants[k].seconds = times[k] ? median(seconds[k], BENCH_TURNS) : 0;
  }
  return median(peak, BENCH_TURNS);
}
