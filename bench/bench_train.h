/* bench/bench_train.h - `alibi bench train`: whole steps of training (sampling, forward, backward, clipping,
 * AdamW) of one shape of model, in turns with the multiply-add loop.
 *
 * What runs in turns are runs: one method, tolerance and number of threads each.  What counts are medians of
 * ratios within a turn, so that other load on the machine cancels out. */
#ifndef BENCH_BENCH_TRAIN_H
#define BENCH_BENCH_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

enum { BENCH_TRAIN_RUNS = 32, BENCH_TRAIN_TURNS = 99, BENCH_TRAIN_REPEATS = 7 };

typedef struct bench_train_shape {
  int64_t layers, width, heads, length, vocabulary, batch; /* batch: sequences a step */
  bool recompute;                                          /* keep block inputs alone */
} bench_train_shape;

/* The models A, B and C that figures of speed are given for. */
bool bench_train_named(const char *name, bench_train_shape *shape);

typedef struct bench_train_run {
  const char *position;
  double tolerance;
  int threads;
  /* results */
  double seconds;                /* of a step: processor time where all runs have one thread, else on the wall */
  double peak;                   /* operations a second of the multiply-add loop, on as many threads */
  double share;                  /* of the peak */
  double fastest;                /* seconds of the step that was disturbed least: what the program can do */
  double beside;                 /* time over that of the first run */
  double parameters, operations; /* a step: see bench_train_operations */
  size_t weight_bytes, pass_bytes;
} bench_train_run;

/* 6 a parameter and token, and 12 a layer, channel, query and key seen in causal attention: half of the length on
 * average.  All keys count, also those that are skipped. */
double bench_train_operations(const bench_train_shape *shape, double parameters);

/* progress: steps done of all, may be NULL.  ALIBI_CANCELLED where the context was. */
status bench_train(alibi_context *context, const bench_train_shape *shape, int64_t repeats, bench_train_run *runs,
                   size_t count, void (*progress)(void *user, size_t done, size_t total), void *user,
                   alibi_error *error);

#endif
