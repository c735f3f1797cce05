/* Turns and medians.  One thread is timed by its processor time: other programs may take the core in between. */
#include "bench/bench_measure.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

typedef struct peak_row {
  const char *isa;
  double (*run)(size_t rounds);
  float (*read)(const float *x, size_t n);
} peak_row;

#include "peak_registry.inc" /* peaks[] */

/* A turn lasts about this long: longer than the clock's noise, shorter than a change of the machine's speed. */
static const double turn_seconds = 1e-3;

double bench_median(double *x, size_t n)
{
  for (size_t i = 1; i < n; i++)
    for (size_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
      double swap = x[j];
      x[j] = x[j - 1];
      x[j - 1] = swap;
    }
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double bench_clock(int threads)
{
  return threads == 1 ? system_cpu_seconds() : system_seconds();
}

static const peak_row *peak_of(const char *isa)
{
  size_t i = 0; /* the reference has no vectors: it is compared with the least of the others */
  for (size_t k = 0; k < sizeof peaks / sizeof peaks[0]; k++)
    if (strcmp(peaks[k].isa, isa) == 0) i = k;
  return &peaks[i];
}

static double peak_speed(const char *isa, size_t rounds)
{
  double start = system_cpu_seconds(), operations = peak_of(isa)->run(rounds);
  return operations / (system_cpu_seconds() - start);
}

/* Threads that are there already: the clock starts when all have come. */
static double peak_rounds(const peak_row *peak, int threads, size_t rounds, double *seconds)
{
  double operations = 0, start = 0, end = 0;
#pragma omp parallel num_threads(threads) reduction(+ : operations)
  {
#pragma omp barrier
#pragma omp master
    start = bench_clock(threads);
    operations = peak->run(rounds);
#pragma omp barrier
#pragma omp master
    end = bench_clock(threads);
  }
  *seconds = end - start;
  return operations;
}

double bench_peak(const char *isa, int threads, double seconds)
{
  const peak_row *peak = peak_of(isa);
  double spent, operations;
  for (size_t rounds = 20000;; rounds *= 4) {
    operations = peak_rounds(peak, threads, rounds, &spent);
    if (spent >= seconds) return operations / spent;
  }
}

static volatile float sink; /* where sums go, so that they have to be made */

double bench_read(const char *isa, int threads, const float *x, size_t floats, double seconds)
{
  const peak_row *peak = peak_of(isa);
  double start = 0, end = 0;
  size_t share = floats / (size_t)threads;
  for (size_t times = 1;; times *= 2) {
    float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
      const float *mine = x + (size_t)omp_get_thread_num() * share;
#pragma omp barrier
#pragma omp master
      start = bench_clock(threads);
      for (size_t i = 0; i < times; i++) sum += peak->read(mine, share);
#pragma omp barrier
#pragma omp master
      end = bench_clock(threads);
    }
    sink = sum;
    if (end - start >= seconds)
      return (double)times * (double)share * (double)threads * sizeof *x / (end - start);
  }
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
    contestants[k].share = times[k] ? bench_median(share[k], BENCH_TURNS) : 0;
    contestants[k].seconds = times[k] ? bench_median(seconds[k], BENCH_TURNS) : 0;
  }
  return bench_median(peak, BENCH_TURNS);
}
