/* kernel/kernel.h - single-thread kernels on plain pointers, one table of them per instruction set.
 *
 * Every vector table is compiled from the same sources (CMakeLists.txt lists them) with other compiler flags;
 * `reference` is plain C in double.  A table is chosen once, when a context is made.
 *
 * The promise of every kernel: the bits of an output row depend on that row's inputs, the shared operands and the
 * table, never on how many rows came with it.  All pointers are fp32, unaligned is fine, strides are in floats.
 * Tolerances against the reference: docs/design.md, Numbers. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/weight_type.h"

/* Keys per block, on absolute multiples, and queries per tile.  Rows of values in a cached block are padded to
 * whole multiples of ATTENTION_PAD floats.  Forward takes up to ATTENTION_CREW tiles through the blocks
 * together. */
enum { ATTENTION_BLOCK = 64, ATTENTION_PAD = 16, ATTENTION_CREW = 16, ATTENTION_SPAN = 4 };

enum { WEIGHT_CHUNK = 64 }; /* numbers of a weight that are turned together, at least */

/* 32 numbers of a row of x rounded to 8 bits: scale * q.  The sums are those of q, of 16 numbers each. */
enum { ROUNDED_RUN = 32 };
typedef struct rounded_run {
  float scale;
  int32_t sum[2];
  int8_t q[ROUNDED_RUN];
} rounded_run;

/* n numbers, a multiple of ROUNDED_RUN. */
void rounded_row(size_t n, const float *x, rounded_run *to);

/* What is added to the scores: the only thing an attention kernel knows of a position method. */
typedef enum bias_kind {
  BIAS_NONE,
  BIAS_SLOPE,    /* -slope * |distance| */
  BIAS_DISTANCE, /* factors[distance] * score + table[distance], both stored reversed: see `table` */
  BIAS_KEY,      /* query_offsets[query] + offsets[key] */
  BIAS_ROWS      /* whatever a function says */
} bias_kind;

typedef struct attention_rows {
  void (*bias)(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias);
  void (*gradient)(void *user, int head, int64_t query, int64_t key, int64_t count, const float *gradient);
  void *user;
} attention_rows;

/* What a call did. */
typedef struct attention_tally {
  int64_t pairs_visible, pairs_visited, blocks_visible, blocks_visited;
  double skipped; /* largest share of a row that was not visited, by the proof */
  int64_t missed; /* rows that would have gone on to blocks that are gone (first_block): they are wrong */
} attention_tally;

/* What the proof knows of a run of keys: PROOF_CLUSTERS centres near which they lie, and for each cluster the
 * logarithm of sum_j exp(x |k_j - centre| + bias_j) at x = 0, 2^-4, 2^-3, .. 2^5, then the largest |k_j - centre|.
 * A table is [PROOF_POINTS + 1, PROOF_CLUSTERS]; docs/attention.md derives it. */
enum { PROOF_CLUSTERS = 4, PROOF_POINTS = 11, PROOF_TABLE = (PROOF_POINTS + 1) * PROOF_CLUSTERS };

/* Rows that stand in the first so many blocks never stop: nothing there is worth a proof. */
enum { PROOF_FROM = 4 };

/* What a row needs to stop; natural logarithms.  Nothing stops where log_tolerance is -infinity. */
typedef struct attention_proof {
  float log_tolerance;
  const float *clusters; /* [PROOF_CLUSTERS, d] */
  /* Tables: [blocks] of all keys in blocks 0 .. b, with the bias (SLOPE) as seen from the last key of b, (KEY)
   * beyond that key's, (DISTANCE) 0.  And of all keys in blocks b .. last, as seen from the first key of b; NULL
   * where causal. */
  const float *tables_before, *tables_after;
  const double *ends_before, *ends_after; /* KEY: [blocks] the offsets of these last and first keys */
  /* DISTANCE: log of the sum of exp(bias) at distances tails_before_from + ATTENTION_BLOCK i and beyond; to the
   * other side, where distances are negative, as absolute values; and the largest of the absolute factors. */
  const float *tails_before, *tails_after;
  int64_t tails_before_from, tails_after_from;
  float largest_factor;
} attention_proof;

/* One head of one sequence.  Queries r = 0 .. queries-1 stand at positions first + r, keys j at positions j, or
 * both where the arrays say.  Rows are `*_stride` floats apart.  What a row sees: kernel/attention_sight.h. */
typedef struct attention_head {
  size_t queries, keys, head_size;
  float scale, cap; /* cap 0: none */
  ptrdiff_t first;
  const int64_t *query_positions, *key_positions; /* increasing; both or none */
  bool both_sides;  /* not causal */
  size_t window;    /* keys at |distance| < window; 0: all */

  bias_kind bias;
  float slope;
  const float *table, *factors; /* DISTANCE: point at distance 0; distance t: table[-t]; factors may be NULL */
  const double *offsets;        /* KEY: [keys], offset_stride apart; NULL: in the value_blocks, offset_place
                                   doubles after the values (attention_offsets.h) */
  const double *query_offsets;  /* KEY: [queries], offset_stride apart; NULL: 0 */
  size_t offset_stride, offset_place;
  const attention_rows *rows;   /* ROWS: which knows this head and rows 0 of q and k by these numbers */
  int head;
  int64_t query_row, key_row;

  const float *q;      /* [queries, d] */
  const float *k, *v;  /* [keys, d]; unused where key_blocks is given */
  size_t q_stride, k_stride, v_stride;
  const float *const *key_blocks;   /* NULL, or of each block of ATTENTION_BLOCK keys: [d, block] (turned) */
  const float *const *value_blocks; /* [block, d padded to ATTENTION_PAD] */
  size_t first_block;               /* earlier ones are gone: a row that the proof does not stop there is missed */
  attention_proof proof;

  float *out;          /* [queries, d] */
  size_t out_stride;
  float *lse;          /* [queries], row_stride apart: log-sum-exp of the scores; -inf where no key is seen */
  int32_t *visited;    /* [queries, 2], 2 row_stride apart: first block visited, last + 1; NULL: all seen */
  size_t row_stride;
  attention_tally *tally; /* added to; may be NULL */

  /* backward only */
  const float *dout;   /* [queries, d] */
  size_t dout_stride;
  const float *delta;  /* [queries], row_stride apart: dout.out */
  float *dq;           /* [queries, d], added to */
  float *dk, *dv;      /* [keys, d], added to */
  size_t dq_stride, dk_stride, dv_stride;
  double *slope_grad;  /* -sum of ds * |distance| is added to it; NULL: not wanted */
  float *row_sums;     /* [queries, 2], 2 row_stride apart, added to where slope_grad is wanted: sums of ds, which
                          would be 0 in exact arithmetic, and of weight * |distance|; the gradient of the slope is
                          slope_grad plus the sum of their products.  KEY: sums of ds; NULL: not wanted */
  float *table_grad, *factor_grad; /* as table, factors; added to; NULL: not wanted */
  float *offset_grad;  /* [keys], offset_stride apart; added to; NULL: not wanted */
} attention_head;

typedef struct norm_shape {
  size_t rows, columns, in_stride, out_stride;
  float epsilon;
  bool centre; /* LayerNorm subtracts the mean, RMSNorm does not */
} norm_shape;

typedef enum activation_kind {
  ACTIVATION_GELU_ERF,
  ACTIVATION_GELU_TANH,
  ACTIVATION_SILU,   /* x sigmoid(x) */
  ACTIVATION_SWIGLU, /* silu(gate) * value (Shazeer 2020): activation_gate, activation_gate_backward */
  ACTIVATION_RELU,
  ACTIVATION_GEGLU,      /* gelu, in the form with erf, for silu */
  ACTIVATION_GEGLU_TANH, /* in the form with tanh */
  ACTIVATION_REGLU       /* relu */
} activation_kind;

/* What is done to the gate; of a kind without gates, the kind itself. */
static inline activation_kind activation_of_gate(activation_kind kind)
{
  switch (kind) {
  case ACTIVATION_SWIGLU: return ACTIVATION_SILU;
  case ACTIVATION_GEGLU: return ACTIVATION_GELU_ERF;
  case ACTIVATION_GEGLU_TANH: return ACTIVATION_GELU_TANH;
  case ACTIVATION_REGLU: return ACTIVATION_RELU;
  default: return kind;
  }
}

/* Which channels of a row are dropped: a function of the key and the channel, the same in every table. */
typedef struct dropout_row {
  uint32_t key[2];    /* random, of the row */
  uint32_t threshold; /* dropped are channels whose 24 random bits are below it: 2^24 times the rate */
  float scale;        /* of the others */
} dropout_row;

/* 32 random bits of a channel: two rounds of a mixer with low bias (multiplications and shifts as in C. Wellons'
 * lowbias32), a key before each.  `number` is an unsigned integer or a vector of them. */
#define DROPOUT_BITS(number, row, channel)                                                                        \
  do {                                                                                                            \
    (number) = ((channel) + (row)->key[0]) * 0x9e3779b1u;                                                         \
    (number) = ((number) ^ ((number) >> 16)) * 0x7feb352du ^ (row)->key[1];                                       \
    (number) = ((number) ^ ((number) >> 15)) * 0x846ca68bu;                                                       \
    (number) = (number) ^ ((number) >> 16);                                                                       \
  } while (0)

typedef struct adamw_step {
  float rate;           /* learning rate of this step */
  float decay;          /* rate * weight decay, 0 for vectors */
  float beta1, beta2, epsilon;
  float correction1, correction2; /* 1 / (1 - beta^t) */
  float grad_scale;     /* clipping and token normalisation */
} adamw_step;

typedef struct kernel_table {
  const char *name;
  int lanes;                   /* floats per vector */
  size_t tile_rows, tile_columns; /* register tile; packed panels are tile_columns wide */

  /* Matrix product.  pack: B [inner, columns] with strides into panels of tile_columns, zero-padded:
   * packed[(c / tile_columns) * inner * tile_columns + i * tile_columns + c % tile_columns].
   * matmul: C [rows, columns] = A [rows, inner] B, or += where accumulate.  Every C element is one chain of
   * multiply-adds over i = 0 .. inner-1 in order, starting at 0 or at C: so neither blocking nor company can
   * change its bits. */
  void (*pack)(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
               float *packed);
  void (*matmul)(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                 size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate);

  /* Stored weights, unaligned; the same bits in all tables.  widen: n numbers, whole blocks, to fp32.  turn:
   * numbers from .. from+n-1 of tile_columns rows (some may be the same one) to a panel of n inner indices, times
   * `scales` [tile_columns] if not NULL; from and n are multiples of 32 where blocks are of 32 numbers, of
   * WEIGHT_CHUNK where they are of 256. */
  void (*widen)(weight_type type, size_t n, const void *from, float *to);
  void (*turn)(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
               float *packed);
  /* c [count, tile_columns] += x [count, n] times tile_columns rows of n numbers, whole blocks: the chains of
   * matmul, from c on.  `next`: the rows that come after these, whose first bytes are fetched meanwhile. */
  void (*multiply)(weight_type type, const void *const *rows, const void *const *next, size_t n, size_t count,
                   const float *x, size_t x_stride, float *c, size_t c_stride);
  /* c [count, tile_columns] += rounded rows of x [count, n] times tile_columns rows of a quantised type; rows of x
   * are x_stride runs apart.  Within a run the products are exact; the same bits in all tables. */
  void (*multiply_rounded)(weight_type type, const void *const *rows, const void *const *next, size_t n,
                           size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride);

  /* Attention; scratch of attention_scratch(head_size) floats.  Forward: tiles of ATTENTION_BLOCK queries. */
  size_t (*attention_scratch)(size_t head_size);
  void (*attention_forward)(const attention_head *head, float *scratch);
  /* Keys turned to [d, ATTENTION_BLOCK], as a cached block holds them; those beyond `rows` are 0. */
  void (*attention_turn)(size_t rows, size_t d, const float *k, size_t k_stride, float *turned);
  /* The proof; NULL in a table that never skips.  clusters: centres [PROOF_CLUSTERS, d] of a full turned block.
   * sums: the table of one turned block with `rows` keys and biases [ATTENTION_BLOCK].  join: the table of what
   * lay `before`, whose biases all grow by `shift`, into that of a block. */
  void (*proof_clusters)(size_t d, const float *turned, float *clusters);
  void (*proof_sums)(size_t rows, size_t d, const float *turned, const float *clusters, const float *bias,
                     float *table);
  void (*proof_join)(const float *before, float shift, float *table);
  /* delta[r * row_stride] = dout.out, of queries from .. to-1. */
  void (*attention_delta)(const attention_head *head, size_t from, size_t to, float *delta);
  /* Backward goes by spans of attention_span(head_size) blocks of keys, at most ATTENTION_SPAN, on absolute
   * multiples; of keys in rows, not cached ones.  open: the span's keys into scratch, gradients 0.  Then for each
   * head that shares the keys and each tile of queries: meet, which is false where no row visits the span; and
   * give, which adds to what other spans add to as well (dq, table_grad, factor_grad).  close: adds to dk, dv. */
  size_t (*attention_span)(size_t head_size);
  void (*attention_open)(const attention_head *head, size_t span, float *scratch);
  bool (*attention_meet)(const attention_head *head, size_t span, size_t tile, float *scratch);
  void (*attention_give)(const attention_head *head, size_t span, size_t tile, float *scratch);
  void (*attention_close)(const attention_head *head, size_t span, float *scratch);

  /* y = (x - mean) * rstd * gain + shift; gain and shift may be NULL.  mean, rstd: [rows], may be NULL. */
  void (*norm_forward)(const norm_shape *s, const float *x, const float *gain, const float *shift, float *y,
                       float *mean, float *rstd);
  /* y again from mean and rstd, to the bit. */
  void (*norm_again)(const norm_shape *s, const float *x, const float *gain, const float *shift, const float *mean,
                     const float *rstd, float *y);
  /* dx, or dx += ... where accumulate; rows of dx dx_stride apart, of dy as y.  dx may be dy where not. */
  void (*norm_backward)(const norm_shape *s, const float *x, const float *gain, const float *mean,
                        const float *rstd, const float *dy, float *dx, size_t dx_stride, bool accumulate);
  /* Columns from .. to-1: dgain[c] += sum_r dy (x - mean) rstd, dshift[c] += sum_r dy: chains that start there and
   * go on row by row (of the reference: one rounding a call).  Either may be NULL. */
  void (*norm_backward_gain)(const norm_shape *s, size_t from, size_t to, const float *x, const float *mean,
                             const float *rstd, const float *dy, float *dgain, float *dshift);

  /* Of kinds without gates.  To 4 units in the last place of y, 8 where x < -1 (tanh form: of |x| / 16 at least);
   * slopes to 8 of their terms. */
  void (*activation_forward)(activation_kind kind, size_t n, const float *x, float *y);
  /* y: what forward gave, to the bit; NULL: not wanted.  dx may be x or dy, and y the other one. */
  void (*activation_backward)(activation_kind kind, size_t n, const float *x, const float *dy, /* dx = */
                              float *dx, float *y);
  /* The same of kinds with gates; dgate may be gate, dvalue value, y dy. */
  void (*activation_gate)(activation_kind kind, size_t n, const float *gate, const float *value, float *y);
  void (*activation_gate_backward)(activation_kind kind, size_t n, const float *gate, const float *value,
                                   const float *dy, float *dgate, float *dvalue, float *y);

  /* exp to 4 units in the last place (of 2^-126 at least); above 88.73 infinity, below -103.98 a true 0. */
  void (*exp)(size_t n, const float *x, float *y);

  void (*add)(size_t n, const float *x, float *y);                 /* y += x */
  void (*add_scaled)(size_t n, float scale, const float *x, float *y); /* y += scale x */
  void (*scale)(size_t n, float scale, float *y);                  /* y *= scale */
  double (*sum_squares)(size_t n, const float *x);
  /* y (+)= x scale, or 0 where dropped; y may be x. */
  void (*drop)(size_t n, const dropout_row *row, const float *x, float *y, bool accumulate);

  /* Rotates pairs (p, p + half), or adjacent ones (2p, 2p + 1), by the angles whose cos and sin are given [half];
   * inverse: by minus the angles. */
  void (*rotate)(size_t half, const float *cosine, const float *sine, bool inverse, float *x);
  void (*rotate_adjacent)(size_t half, const float *cosine, const float *sine, bool inverse, float *x);

  /* One row of logits: *loss = -log softmax(x)[target]; where d is given (it may be x), the gradient of weight *
   * (loss + z_loss * lse^2), lse = log sum exp x: d = ((1 + 2 z_loss lse) softmax - onehot) * weight. */
  void (*cross_entropy)(size_t n, const float *x, size_t target, float weight, float z_loss, float *loss,
                        float *d);

  void (*adamw)(size_t n, const adamw_step *step, const float *grad, float *value, float *m, float *v);
} kernel_table;

/* The tables of this build, best last; the first is the reference. */
size_t kernel_table_count(void);
const kernel_table *kernel_table_at(size_t index);
const kernel_table *kernel_table_find(const char *name);
const kernel_table *kernel_table_best(void); /* never the reference */

#endif
