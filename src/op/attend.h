/* op/attend.h - attention over all sequences and heads: forward, backward, and the memory that they need.
 *
 * Shapes: T queries and S keys of all segments together, H heads, G key-value heads, D head size.  Which pairs are
 * computed is the kernels' affair (kernel/kernel.h); here the work is cut, the proof of skipping prepared, and
 * every sum that several items share given an order. */
#ifndef OP_ATTEND_H
#define OP_ATTEND_H

#include "base/memory.h"
#include "kernel/attention_sight.h"
#include "op/block_cache.h"
#include "op/op.h"

/* Row r of head h at data + r * row_stride + h * head_stride. */
typedef struct op_heads {
  const float *data;
  size_t row_stride, head_stride;
} op_heads;

typedef struct op_heads_out {
  float *data;
  size_t row_stride, head_stride;
} op_heads_out;

/* Queries that attend to one set of keys. */
typedef struct attention_segment {
  size_t row, rows;         /* of q and out */
  ptrdiff_t first;          /* position of the first query, where key j stands at j; unused with positions */
  size_t key_row, keys;     /* of k and v; or */
  block_cache *cache;       /* not NULL: the first `keys` keys of its lists list .. list + G-1 */
  size_t list;
  ptrdiff_t origin; /* ROWS by position: where the first key stands for the function */
} attention_segment;

typedef struct op_attention {
  size_t heads, kv_heads, head_size;
  const attention_segment *segments;
  size_t segment_count;
  op_heads q, k, v;
  const int64_t *query_positions, *key_positions; /* [T], [S]; both or none */
  float scale, cap;
  bool both_sides;
  size_t window;

  bias_kind bias;
  const float *slopes;          /* [H] */
  /* [H, table_length], reversed: distance t at (h+1) * table_length - 1 - (t - lowest) */
  const float *table, *factors;
  ptrdiff_t lowest;
  size_t table_length;
  const double *offsets, *query_offsets; /* KEY: [S, H], of caches those that they hold; [T, H], NULL: 0 */
  const attention_rows *rows;
  bool rows_by_position;        /* ROWS: the function takes positions; else rows of q and k, of a cache its keys */

  double tolerance; /* 0: nothing is skipped */
  /* DISTANCE: as op_table_tails made them; NULL: nothing is skipped. */
  const float *tails_before, *tails_after;
  const float *largest_factors;

  op_heads_out out;
  float *lse;                 /* [T, H]; may be NULL in forward */
  int32_t *visited;           /* [T, H, 2]; NULL: not kept (forward), nothing was skipped (backward) */
  attention_tally *tally;     /* added to; may be NULL */
  bool stops_when_cancelled;  /* then what was not computed holds anything */

  /* backward: everything is added to; NULL: not wanted (dq, dk, dv always are) */
  bool overwrites; /* but dq, dk, dv: rows of the segments hold anything, and are set; others are left alone */
  op_heads dout;
  op_heads_out dq, dk, dv;
  double *slope_grad;                /* [H] */
  float *table_grad, *factor_grad;   /* [H, table_length] */
  float *offset_grad;                /* [S, H] */
  float *query_offset_grad;          /* [T, H] set: sums of a row's dS, 0 but for rounding; needs offset_grad */
} op_attention;

/* Upper limits of what one block of memory must serve. */
typedef struct attention_size {
  size_t segments, queries, keys; /* keys that are not cached, and with both_sides those that are */
  size_t heads, kv_heads, head_size, table_length;
  bool skips, both_sides, positions, key_offsets, backward, slope_grad, table_grad, factor_grad, query_offset_grad;
} attention_size;

size_t op_attention_bytes(const alibi_context *context, const attention_size *size);

/* memory: of op_attention_bytes for a size that this call fits into, aligned to MEMORY_ALIGNMENT. */
void op_attention_forward(alibi_context *context, const op_attention *a, void *memory);
void op_attention_backward(alibi_context *context, const op_attention *a, void *memory);

/* Entries of the tails of a head's table on each side. */
static inline size_t op_tail_entries(size_t table_length)
{
  return table_length / ATTENTION_BLOCK + 2;
}

/* What skipping needs of tables [H, length]: before, after [H, op_tail_entries(length)] logarithms of the sums of
 * exp(table) from every 64th distance outwards, to either side, beginning with the one nearest to 0 that the table
 * has there; largest_factors [H].  after may be NULL where no query sees keys beyond its position. */
void op_table_tails(alibi_context *context, const op_attention *a, float *before, float *after,
                    float *largest_factors);

#endif
