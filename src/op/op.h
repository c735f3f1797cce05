/* op/op.h - the threaded operations of a transformer, forward beside backward.
 *
 * An operation cuts its work by shape, never by thread count, gives each output element to one work item, and
 * keeps every sum in a fixed order: the same bits for any number of threads.  Shapes are in comments: R rows
 * (tokens of all sequences together), C channels, F feed-forward, V vocabulary, H heads, G key-value heads, D head
 * size.  Strides are in floats. */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "kernel/kernel.h"
#include "kernel/weight_type.h"

/* Rows of a weight that lie together, in their own type; the data is borrowed and may be unaligned.  Rows are
 * row_bytes apart; with `group`, a multiple of which `rows` is, so are those of a group only, and groups are
 * group_bytes apart. */
typedef struct matrix_part {
  weight_type type;
  size_t rows; /* of the weight, after those of the part before */
  const void *data;
  size_t row_bytes;
  size_t group, group_bytes; /* rows a group; 0: all rows are one group */
  bool turned;               /* F32, F16, BF16, no groups: element r, c at data + c * row_bytes + r * its size */
  const float *row_scales;   /* [rows], which rows are multiplied by when they are read; or NULL */
} matrix_part;

/* A weight: [rows, columns].  parts NULL: fp32, row r at data + r * stride.  Else its rows are those of the parts,
 * one after the other.  `packed` are its panels for x W^T (op_pack_weight), or NULL. */
typedef struct matrix {
  size_t rows, columns, stride;
  const float *data;
  const float *packed;
  const matrix_part *parts;
  size_t part_count;
  bool rounded; /* x too is rounded to 8 bits, by runs of 32, where it meets quantised parts without row_scales */
} matrix;

static inline matrix matrix_f32(const float *data, size_t rows, size_t columns)
{
  return (matrix){.rows = rows, .columns = columns, .stride = columns, .data = data};
}

static inline matrix matrix_of_parts(const matrix_part *parts, size_t count, size_t rows, size_t columns)
{
  return (matrix){.rows = rows, .columns = columns, .parts = parts, .part_count = count};
}

/* Memory that linear operations share. */
typedef struct op_workspace {
  float *panels; /* as many floats as the largest op_linear_panel_floats of the weights that are not packed */
} op_workspace;

/* Floats of the panels of an operand with `inner` x `columns`. */
size_t op_panel_floats(const alibi_context *context, size_t inner, size_t columns);
/* Floats of panels that linear forward and backward of a weight [out, in] on R rows, or fewer, need. */
size_t op_linear_panel_floats(const alibi_context *context, size_t rows, size_t out, size_t in);
void op_pack_weight(alibi_context *context, const matrix *w, float *packed);

/* y [R, out] = addend + bias + x [R, in] w^T.  bias [out], addend (rows y_stride apart; may be y) may be NULL. */
void op_linear_forward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                       size_t x_stride, const matrix *w, const float *bias, const float *addend, float *y,
                       size_t y_stride);
/* Of a weight without parts.  dx [R, in] = dy w, or NULL; dw += dy^T x; dbias += column sums of dy, or NULL. */
void op_linear_backward(alibi_context *context, const op_workspace *work, size_t rows, const float *x,
                        size_t x_stride, const matrix *w, const float *dy, size_t dy_stride, float *dx,
                        size_t dx_stride, float *dw, float *dbias);

typedef struct op_norm {
  bool centre; /* LayerNorm, else RMSNorm */
  float epsilon;
} op_norm;

/* Each row in `groups` groups of `columns` channels, normalised on their own (groups 1: a plain norm; H: per
 * head).  Group g of row r lies at x + r * x_stride + g * columns.  mean, rstd [R, groups] may be NULL in
 * inference. */
void op_norm_forward(alibi_context *context, op_norm n, size_t rows, size_t groups, size_t columns, const float *x,
                     size_t x_stride, const float *gain, const float *shift, float *y, size_t y_stride,
                     float *mean, float *rstd);
/* y [R, C] of a plain norm again, to the bit, from what forward left. */
void op_norm_again(alibi_context *context, size_t rows, size_t columns, const float *x, const float *gain,
                   const float *shift, const float *mean, const float *rstd, float *y);
/* dx, or dx += ... where accumulate; it may be dy where not.  dgain, dshift +=. */
void op_norm_backward(alibi_context *context, op_norm n, size_t rows, size_t groups, size_t columns,
                      const float *x, size_t x_stride, const float *gain, const float *mean, const float *rstd,
                      const float *dy, size_t dy_stride, float *dx, size_t dx_stride, bool accumulate,
                      float *dgain, float *dshift);

/* Columns of x for one of y: 2 where half of them gate the others. */
static inline size_t op_activation_parts(activation_kind kind)
{
  return activation_of_gate(kind) != kind ? 2 : 1;
}

/* y [R, F] = f(x [R, F]); with gates x is [R, 2F], of each row the gates first. */
void op_activation_forward(alibi_context *context, activation_kind kind, size_t rows, size_t columns,
                           const float *x, float *y);
/* In place: x becomes its gradient, and y, which holds its own gradient, what forward made of x, to the bit. */
void op_activation_backward(alibi_context *context, activation_kind kind, size_t rows, size_t columns, float *x,
                            float *y);

void op_copy(alibi_context *context, size_t n, const float *x, float *y);
void op_copy_rows(alibi_context *context, size_t rows, size_t columns, const float *x, size_t x_stride, float *y,
                  size_t y_stride);
void op_add(alibi_context *context, size_t n, const float *x, float *y); /* y += x */

/* Dropout (Srivastava et al. 2014).  Row r of a call is row first_row + r of the place; what is dropped there
 * follows from these numbers and the channel alone. */
typedef struct op_dropout {
  double rate; /* 0 .. 1, not 1: the others grow by 1 / (1 - rate) */
  uint64_t seed, place, first_row;
} op_dropout;

/* y [R, C] (+)= x but for what is dropped; y may be x. */
void op_drop(alibi_context *context, const op_dropout *d, size_t rows, size_t channels, const float *x, float *y,
             bool accumulate);

/* x [R, C] = scale * table[token] + position[row's position]; positions[r], position may be NULL. */
void op_embedding_forward(alibi_context *context, size_t rows, size_t channels, const uint32_t *tokens,
                          const size_t *positions, float scale, const matrix *table, const float *position,
                          float *x);
/* dtable[token] += scale dx; dposition[position] += dx. */
void op_embedding_backward(alibi_context *context, size_t rows, size_t channels, const uint32_t *tokens,
                           const size_t *positions, float scale, const float *dx, float *dtable, float *dposition);

/* Turns of the first `channels` channels of a head: pairs (p, p + channels/2), or (2p, 2p + 1) where adjacent, by
 * the angles whose cosines and sines, times a magnitude, are given for every position [.., channels/2]. */
typedef struct op_rotation {
  size_t channels;
  bool adjacent;
  const float *cosine, *sine;
} op_rotation;

/* Turns `heads` heads of `head_size` channels in each row: x + r * stride + h * head_size.  inverse: back. */
void op_rotate(alibi_context *context, size_t rows, size_t heads, size_t head_size, const op_rotation *rotation,
               const size_t *positions, bool inverse, float *x, size_t stride);

/* Head h of row r times scale[h * length + positions[r]]. */
void op_scale_heads(alibi_context *context, size_t rows, size_t heads, size_t head_size, const float *scale,
                    size_t length, const size_t *positions, float *x, size_t stride);
/* From what op_scale_heads made: dx times the same; dscale (or NULL) += x.dx / scale, in the order of the rows. */
void op_scale_heads_backward(alibi_context *context, size_t rows, size_t heads, size_t head_size,
                             const float *scale, size_t length, const size_t *positions, const float *x,
                             float *dx, size_t stride, float *dscale);

/* The target of a row that has none: its loss and its gradient are 0. */
#define OP_NO_TARGET UINT32_MAX

/* losses[r] = -log softmax(logits[r])[target[r]].  dlogits (may be logits, NULL: not wanted): the gradient of
 * weight * (loss + z_loss * lse^2), lse = log sum exp logits[r]: z-loss (Chowdhery et al. 2022, PaLM, section 5)
 * keeps lse near 0; it is in the gradient only, never in the loss that is told. */
void op_cross_entropy(alibi_context *context, size_t rows, size_t vocabulary, const float *logits,
                      const uint32_t *targets, float weight, float z_loss, float *losses, float *dlogits);

double op_sum_squares(alibi_context *context, size_t n, const float *x);
void op_adamw(alibi_context *context, size_t n, const adamw_step *step, const float *grad, float *value, float *m,
              float *v);

#endif
