/* Every other kernel, at the shapes of a small study (heads of 16, windows of 64) and of a larger model. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "bench/bench.h"
#include "bench/bench_measure.h"
#include "kernel/kernel.h"

/* A little more than a power of two: buffers at equal places of their pages would wait for each other's stores. */
enum { FLOATS = (1 << 18) + 272, BUFFERS = 8, ROWS = 256, MOST_KEYS = 1024 };

typedef struct kernels_case {
  const kernel_table *t;
  size_t n, d; /* keys and head size, or the length of a row */
  bias_kind bias;
  float *memory, *x[BUFFERS]; /* FLOATS each */
  float *scratch;
} kernels_case;

static attention_head head_of(const kernels_case *k)
{
  return (attention_head){.queries = k->n,
                          .keys = k->n,
                          .head_size = k->d,
                          .scale = 1 / sqrtf((float)k->d),
                          .bias = k->bias,
                          .slope = 0.0625f,
                          .table = k->x[7] + FLOATS / 4,
                          .table_grad = k->bias == BIAS_DISTANCE ? k->x[7] + FLOATS / 2 : NULL,
                          .q = k->x[0],
                          .k = k->x[1],
                          .v = k->x[2],
                          .q_stride = k->d,
                          .k_stride = k->d,
                          .v_stride = k->d,
                          .proof = {.log_tolerance = -INFINITY},
                          .out = k->x[3],
                          .out_stride = k->d,
                          .lse = k->x[7] + FLOATS / 2 + FLOATS / 4,
                          .row_stride = 1,
                          .dout = k->x[0],
                          .dout_stride = k->d,
                          .delta = k->x[7] + FLOATS / 2 + FLOATS / 4 + MOST_KEYS,
                          .dq = k->x[4],
                          .dk = k->x[5],
                          .dv = k->x[6],
                          .dq_stride = k->d,
                          .dk_stride = k->d,
                          .dv_stride = k->d};
}

static void attention_forward(void *user)
{
  kernels_case *k = user;
  attention_head h = head_of(k);
  k->t->attention_forward(&h, k->scratch);
}

static void attention_backward(void *user)
{
  kernels_case *k = user;
  attention_head h = head_of(k);
  size_t most = k->t->attention_span(h.head_size), blocks = (h.keys + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
  k->t->attention_delta(&h, 0, h.queries, (float *)h.delta);
  for (size_t span = 0; span * most < blocks; span++) {
    k->t->attention_open(&h, span, k->scratch);
    for (size_t tile = span * most; tile < blocks; tile++)
      if (k->t->attention_meet(&h, span, tile, k->scratch)) k->t->attention_give(&h, span, tile, k->scratch);
    k->t->attention_close(&h, span, k->scratch);
  }
}

static norm_shape shape_of(const kernels_case *k)
{
  return (norm_shape){ROWS, k->n, k->n, k->n, 1e-5f, true};
}

static void norm_forward(void *user)
{
  kernels_case *k = user;
  norm_shape s = shape_of(k);
  k->t->norm_forward(&s, k->x[0], k->x[1], k->x[2], k->x[3], k->x[4], k->x[5]);
}

static void norm_backward(void *user)
{
  kernels_case *k = user;
  norm_shape s = shape_of(k);
  k->t->norm_backward(&s, k->x[0], k->x[1], k->x[2], k->x[2], k->x[3], k->x[4], k->n, true);
}

static void norm_backward_gain(void *user)
{
  kernels_case *k = user;
  norm_shape s = shape_of(k);
  k->t->norm_backward_gain(&s, 0, k->n, k->x[0], k->x[2], k->x[2], k->x[3], k->x[4], k->x[5]);
}

static void gelu_erf(void *user)
{
  kernels_case *k = user;
  k->t->activation_forward(ACTIVATION_GELU_ERF, k->n, k->x[0], k->x[1]);
}

static void gelu_erf_backward(void *user)
{
  kernels_case *k = user;
  k->t->activation_backward(ACTIVATION_GELU_ERF, k->n, k->x[0], k->x[1], k->x[2], NULL);
}

static void gelu_tanh(void *user)
{
  kernels_case *k = user;
  k->t->activation_forward(ACTIVATION_GELU_TANH, k->n, k->x[0], k->x[1]);
}

static void exponential(void *user)
{
  kernels_case *k = user;
  k->t->exp(k->n, k->x[0], k->x[1]);
}

static void add(void *user)
{
  kernels_case *k = user;
  k->t->add(k->n, k->x[0], k->x[1]);
}

static void sum_squares(void *user)
{
  kernels_case *k = user;
  k->x[7][0] += (float)k->t->sum_squares(k->n, k->x[0]) * 1e-20f;
}

static void rotate(void *user)
{
  kernels_case *k = user;
  for (size_t r = 0; r < ROWS; r++) k->t->rotate(k->n / 2, k->x[1], k->x[2], false, k->x[0] + r * k->n);
}

static void cross_entropy(void *user)
{
  kernels_case *k = user;
  k->t->cross_entropy(k->n, k->x[0], 3, 0.01f, 0, k->x[2], k->x[1]);
}

static void adamw(void *user)
{
  kernels_case *k = user;
  adamw_step s = {1e-4f, 1e-5f, 0.9f, 0.95f, 1e-8f, 1, 1, 1};
  k->t->adamw(k->n, &s, k->x[0], k->x[1], k->x[2], k->x[3]);
}

typedef struct kernels_row {
  const char *name;
  void (*run)(void *user);
  size_t n, d;
  double per_pair; /* attention: operations a visited pair and channel, as the field counts them: 4 and 10 */
  size_t rows;     /* others: elements are rows * n */
  bias_kind bias;
} kernels_row;

static const kernels_row kernel_rows[] = {
    {"attention forward, 64 keys, head 16", attention_forward, 64, 16, 4, 0, BIAS_SLOPE},
    {"attention forward, 64 keys, head 16, table", attention_forward, 64, 16, 4, 0, BIAS_DISTANCE},
    {"attention forward, 128 keys, head 16", attention_forward, 128, 16, 4, 0, BIAS_SLOPE},
    {"attention forward, 1024 keys, head 16", attention_forward, 1024, 16, 4, 0, BIAS_SLOPE},
    {"attention forward, 1024 keys, head 64", attention_forward, 1024, 64, 4, 0, BIAS_SLOPE},
    {"attention forward, 1024 keys, head 128", attention_forward, 1024, 128, 4, 0, BIAS_SLOPE},
    {"attention backward, 64 keys, head 16", attention_backward, 64, 16, 10, 0, BIAS_SLOPE},
    {"attention backward, 64 keys, head 16, table", attention_backward, 64, 16, 10, 0, BIAS_DISTANCE},
    {"attention backward, 1024 keys, head 16", attention_backward, 1024, 16, 10, 0, BIAS_SLOPE},
    {"attention backward, 1024 keys, head 64", attention_backward, 1024, 64, 10, 0, BIAS_SLOPE},
    {"attention backward, 1024 keys, head 128", attention_backward, 1024, 128, 10, 0, BIAS_SLOPE},
    {"norm forward, rows of 128", norm_forward, 128, 0, 0, ROWS, BIAS_NONE},
    {"norm backward, rows of 128", norm_backward, 128, 0, 0, ROWS, BIAS_NONE},
    {"norm backward of gain, rows of 128", norm_backward_gain, 128, 0, 0, ROWS, BIAS_NONE},
    {"GELU (erf) forward", gelu_erf, 1 << 15, 0, 0, 1, BIAS_NONE},
    {"GELU (erf) backward", gelu_erf_backward, 1 << 15, 0, 0, 1, BIAS_NONE},
    {"GELU (tanh) forward", gelu_tanh, 1 << 15, 0, 0, 1, BIAS_NONE},
    {"exp", exponential, 1 << 12, 0, 0, 1, BIAS_NONE},
    {"add", add, 1 << 12, 0, 0, 1, BIAS_NONE},
    {"sum of squares", sum_squares, 1 << 15, 0, 0, 1, BIAS_NONE},
    {"rotate, heads of 16", rotate, 16, 0, 0, ROWS, BIAS_NONE},
    {"cross-entropy, vocabulary 1024", cross_entropy, 1024, 0, 0, 1, BIAS_NONE},
    {"AdamW", adamw, 1 << 15, 0, 0, 1, BIAS_NONE},
};

size_t bench_kernels_count(void)
{
  return sizeof kernel_rows / sizeof kernel_rows[0];
}

/* Between -2.5 and 2.5, as activations are. */
static void fill(float *x, size_t n)
{
  for (size_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 1009) / 202.0f - 2.5f;
}

status bench_kernels(const char *isa, size_t index, bench_row *row, alibi_error *error)
{
  const kernels_row *what = &kernel_rows[index];
  kernels_case k = {.t = kernel_table_find(isa), .n = what->n, .d = what->d, .bias = what->bias};
  status result = ALIBI_OK;
  if (!k.t) return fail(error, ALIBI_INVALID, "instruction set '%s': expected one of this build", isa);
  TRY(memory_new(&k.memory, BUFFERS * FLOATS, sizeof(float), "the buffers", error));
  fill(k.memory, BUFFERS * FLOATS);
  for (size_t i = 0; i < BUFFERS; i++) k.x[i] = k.memory + i * FLOATS;
  for (size_t i = 0; i < FLOATS; i++) k.x[3][i] = (k.x[3][i] + 2.5f) * 0.1f; /* AdamW's second moment */
  TRY(memory_new(&k.scratch, k.t->attention_scratch(what->d), sizeof(float), "scratch", error));
  if (what->per_pair > 0) attention_forward(&k); /* its log-sum-exp is what backward starts from */
  contestant one = {.run = what->run, .user = &k};
  double pairs = (double)what->n * (double)(what->n + 1) / 2;
  one.operations = what->per_pair > 0 ? what->per_pair * (double)what->d * pairs : (double)(what->rows * what->n);
  *row = (bench_row){.operations = one.operations};
  snprintf(row->name, sizeof row->name, "%s", what->name);
  row->peak = bench_take_turns(isa, &one, 1);
  row->seconds = one.seconds;
  row->share = what->per_pair > 0 ? one.share : 0;
done:
  memory_free(k.memory);
  memory_free(k.scratch);
  return result;
}
