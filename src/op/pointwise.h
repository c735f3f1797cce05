/* op/pointwise.h - what a block may do to numbers between its larger operations: clip, scale, bend below a cap,
 * add a vector to every row; forward beside backward.  Shapes and strides as in op.h. */
#ifndef OP_POINTWISE_H
#define OP_POINTWISE_H

#include "base/context.h"

void op_scale(alibi_context *context, size_t n, float scale, float *y);                      /* y *= scale */
void op_add_scaled(alibi_context *context, size_t n, float scale, const float *x, float *y); /* y += scale x */

/* y [R, C], rows y_stride apart, cut to -limit .. limit. */
void op_clip(alibi_context *context, size_t rows, size_t columns, float limit, float *y, size_t y_stride);
/* dy becomes 0 where y was cut: where it lies at the limit. */
void op_clip_backward(alibi_context *context, size_t rows, size_t columns, float limit, const float *y,
                      size_t y_stride, float *dy, size_t dy_stride);

/* y = cap tanh(y / cap). */
void op_bend(alibi_context *context, size_t n, float cap, float *y);
/* y as op_bend left it: dy *= 1 - (y / cap)^2. */
void op_bend_backward(alibi_context *context, size_t n, float cap, const float *y, float *dy);

/* x [R, C] += shift [C]. */
void op_shift_rows(alibi_context *context, size_t rows, size_t columns, const float *shift, float *x);
/* dshift += column sums of dx. */
void op_shift_rows_backward(alibi_context *context, size_t rows, size_t columns, const float *dx, float *dshift);

#endif
