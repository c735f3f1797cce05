/* op/attend_plan.h - what forward and backward of attention share: the memory of a call, and the heads that the
 * kernels see. */
#ifndef OP_ATTEND_PLAN_H
#define OP_ATTEND_PLAN_H

#include <stdatomic.h>

#include "op/attend.h"

/* Blocks are those of the keys of all segments, one after the other; in forward, of those whose proof is made in
 * this call. */
typedef struct attend_plan {
  float *scratch;      /* [threads, scratch_floats] */
  size_t scratch_floats;
  size_t *block_start; /* [segments + 1] */
  size_t *span_start;  /* [segments + 1] backward: of spans (kernel/kernel.h) instead of blocks */
  size_t *head_order;  /* [H] those that walk farthest first */
  /* proof */
  float *clusters;                     /* [G, slots, PROOF_CLUSTERS, D]: see clusters_of */
  float *tables_before, *tables_after; /* [H, blocks, PROOF_TABLE] */
  double *ends_before, *ends_after;    /* KEY: [H, blocks] offsets of the last and first keys of blocks */
  attention_tally *tallies;            /* [threads] */
  /* backward */
  float *delta;          /* [T, H] */
  int32_t *visitors;     /* [H, blocks, 2]: first tile that visits a block, last one + 1 */
  atomic_size_t *turns;  /* [G, spans]: see attend_backward.c */
  double *slope_parts;   /* [H, spans] */
  float *row_sums;       /* [T, H, 2], with slope_parts, or for the gradient of queries' offsets */
  size_t *part_start;    /* [segments + 1]: in entries of one head, where a segment's part of a table begins */
  float *table_parts, *factor_parts; /* [H, parts]: of each segment the distances that it has */
  size_t parts, slots;
  size_t blocks;         /* limit of the blocks, and of the spans; stride of the lists above */
} attend_plan;

attend_plan attend_layout(const alibi_context *context, const attention_size *size, arena *memory);
/* The same for the call itself, with block_start filled. */
attend_plan attend_begin(const alibi_context *context, const op_attention *a, bool backward, void *memory);

/* Head h of a segment, for forward, without a proof. */
attention_head attend_head(const op_attention *a, size_t segment, size_t h);

/* Heads in the order of their expected cost: the gentlest slope [heads] walks farthest; NULL: all alike. */
void attend_order_heads(const float *slopes, size_t heads, size_t *order);

/* Segments are short, and none is so much of the work that a thread would wait for it: then an item is a whole one
 * with all its heads, so that its rows are read once, as they lie. */
bool attend_whole_segments(const alibi_context *context, const op_attention *a);

/* Asks for rows of all heads: those of one lie strides apart, where no processor looks ahead by itself. */
void attend_fetch(const op_heads *x, size_t heads, size_t head_size, size_t row, size_t rows);

/* Asks for the q, k, v and out of a segment that comes soon; nothing where there is none. */
void attend_fetch_segment(const op_attention *a, size_t segment);

static inline op_heads attend_read(const op_heads_out *x)
{
  return (op_heads){x->data, x->row_stride, x->head_stride};
}

static inline size_t tiles_of(size_t rows)
{
  return (rows + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
}

/* The segment of a block or span, given where each one starts. */
size_t attend_segment_of(const size_t *starts, size_t segments, size_t place);

/* The distances of a table that a segment may have. */
typedef struct distance_range {
  int64_t from, to; /* to is not in it */
} distance_range;
distance_range attend_distances(const op_attention *a, const attention_segment *s);

/* Multiply-adds of one product of queries and keys, causal halves not taken off. */
double attend_operations(const op_attention *a);

#endif
