/* bench/bench_attention_parts.h - what the files of bench_attention share: inputs, and the reference in double. */
#ifndef BENCH_BENCH_ATTENTION_PARTS_H
#define BENCH_BENCH_ATTENTION_PARTS_H

#include "bench/bench_attention.h"

struct model_pass; /* model/model.h */

/* One layer's queries, keys and values; a random input has one layer. */
typedef struct bench_layer {
  alibi_heads q, k, v;
  double largest_query, largest_key, largest_value; /* norms of rows; |component| of v */
} bench_layer;

/* Everything that a call reads, for one length.  T = S = length, H heads, G key-value heads, D head size. */
typedef struct bench_inputs {
  int64_t length;
  int heads, kv_heads, head_size;
  size_t layers;
  bench_layer *layer; /* [layers] */
  double scale, score;
  size_t sets;              /* of slopes and tables; 1: the layers share them */
  int64_t window;
  double *slopes;           /* [sets, H], or NULL */
  float *added, *factor;    /* [sets, H, length], or NULL */
  float *power;             /* [H, length], or NULL */
  bool gated;               /* the model's keys have offsets, of each layer its own */
  double *offsets, *query_offsets; /* [length, H], or NULL */
  const char *model_method; /* NULL: random */
  float *dout;              /* [T, H, D], or NULL */
  float *memory;            /* of random q, k, v */
  struct model_pass *pass;
} bench_inputs;

/* dout is made where `gradients`.  Free what there is also after a failure. */
status bench_inputs_new(alibi_context *context, const bench_attention_options *options, int64_t length,
                        bool gradients, bench_inputs *inputs, alibi_error *error);
void bench_inputs_free(bench_inputs *inputs);

/* An attention over layer `layer` with everything but outputs and tolerance set. */
void bench_inputs_attention(const bench_inputs *inputs, size_t layer, bench_method bias,
                            alibi_attention *attention);

typedef struct bench_errors {
  double error, skip_error;
} bench_errors;

/* NaN stays: nothing is above it. */
static inline void bench_keep_worst(double x, double *worst)
{
  if (x != x || x > *worst) *worst = x;
}

/* Compares sampled rows of attention->out, after a call that filled `visited`.  dq NULL: out over max |v|; else
 * dq, gradients of sum(out dout), over the largest |dq| of the sample.  The context's threads work. */
status bench_compare(alibi_context *context, const bench_inputs *inputs, size_t layer,
                     const alibi_attention *attention, const float *dq, bench_errors *errors, alibi_error *error);

#endif
