/* bench/bench_measure.h - taking turns: contestants run one after the other, again and again, beside the peak. */
#ifndef BENCH_BENCH_MEASURE_H
#define BENCH_BENCH_MEASURE_H

#include <stddef.h>

enum { BENCH_TURNS = 21, BENCH_CONTESTANTS = 4 };

typedef struct contestant {
  void (*run)(void *user); /* NULL: not there */
  void *user;
  double operations;       /* of a run */
  double share, seconds;   /* results: median share of the peak, median seconds of a run */
} contestant;

/* Returns the median peak in operations per second. */
double bench_take_turns(const char *isa, contestant *contestants, size_t count);

/* Sorts x.  n > 0. */
double bench_median(double *x, size_t n);

/* Seconds: processor time where one thread works, else time on the wall. */
double bench_clock(int threads);

/* For at least `seconds`, on so many threads at once: operations per second of the multiply-add loop; bytes per
 * second of reading x from its beginning to its end. */
double bench_peak(const char *isa, int threads, double seconds);
double bench_read(const char *isa, int threads, const float *x, size_t floats, double seconds);

/* oneDNN: C [rows, columns] = A [rows, inner] B [inner, columns]. */
int bench_onednn_sgemm(size_t rows, size_t columns, size_t inner, const float *a, const float *b, float *c);

#endif
