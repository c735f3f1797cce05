/* bench/bench.h - what `alibi bench` measures: kernels on one core, beside the peak of that core.
 *
 * On a machine that others use, the clock and the share of a core change from second to second.  So a kernel and
 * the peak are timed in turns, and what counts is the median of their ratios. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct bench_row {
  char name[64];         /* what was measured: "rows 128, inner 128, columns 512" */
  size_t rows, inner, columns; /* matmul; else 0 */
  double operations;     /* floating-point operations a run; 0 where they say nothing */
  double seconds;        /* median of a run */
  double peak;           /* operations per second of the multiply-add loop, median */
  double share;          /* of the peak: median of the ratios */
  double share_with_packing; /* matmul: B packed anew every time */
  double share_turned;   /* matmul: A given by columns */
  double share_onednn;   /* matmul: oneDNN's sgemm, 0 where it is not installed */
  double bytes, numbers; /* weights: of the weight; else 0 */
  double reading;        /* weights: bytes per second of reading it, median */
  double share_of_reading; /* weights: median of the ratios */
} bench_row;

/* isa: a name that kernel_table_find knows.  Row number `index` of a group, of as many as the count says. */
size_t bench_matmul_count(void);
status bench_matmul(const char *isa, size_t index, bench_row *row, alibi_error *error);
size_t bench_kernels_count(void);
status bench_kernels(const char *isa, size_t index, bench_row *row, alibi_error *error);
size_t bench_weights_count(void);
status bench_weights(const char *isa, size_t index, bench_row *row, alibi_error *error);

/* The name of the oneDNN library found, or NULL. */
const char *bench_onednn_name(void);

#endif
