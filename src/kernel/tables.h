/* kernel/tables.h - the functions of the table being compiled: KERNEL(matmul) is matmul_avx2 in the avx2 build. */
#ifndef KERNEL_TABLES_H
#define KERNEL_TABLES_H

#include "kernel/kernel.h"

#ifndef KERNEL_ISA
#define KERNEL_ISA reference
#endif
#define KERNEL_JOIN_(name, isa) name##_##isa
#define KERNEL_JOIN(name, isa) KERNEL_JOIN_(name, isa)
#define KERNEL(name) KERNEL_JOIN(name, KERNEL_ISA)
#define KERNEL_TEXT_(x) #x
#define KERNEL_TEXT(x) KERNEL_TEXT_(x)

void KERNEL(pack)(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
                  float *packed);
void KERNEL(matmul)(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                    size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate);
void KERNEL(widen)(weight_type type, size_t n, const void *from, float *to);
void KERNEL(turn)(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
                  float *packed);
void KERNEL(multiply)(weight_type type, const void *const *rows, const void *const *next, size_t n, size_t count,
                      const float *x, size_t x_stride, float *c, size_t c_stride);
void KERNEL(multiply_rounded)(weight_type type, const void *const *rows, const void *const *next, size_t n,
                              size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride);
size_t KERNEL(attention_scratch)(size_t head_size);
void KERNEL(attention_forward)(const attention_head *head, float *scratch);
void KERNEL(attention_turn)(size_t rows, size_t d, const float *k, size_t k_stride, float *turned);
void KERNEL(proof_clusters)(size_t d, const float *turned, float *clusters);
void KERNEL(proof_sums)(size_t rows, size_t d, const float *turned, const float *clusters, const float *bias,
                        float *table);
void KERNEL(proof_join)(const float *before, float shift, float *table);
void KERNEL(attention_delta)(const attention_head *head, size_t from, size_t to, float *delta);
size_t KERNEL(attention_span)(size_t head_size);
void KERNEL(attention_open)(const attention_head *head, size_t span, float *scratch);
bool KERNEL(attention_meet)(const attention_head *head, size_t span, size_t tile, float *scratch);
void KERNEL(attention_give)(const attention_head *head, size_t span, size_t tile, float *scratch);
void KERNEL(attention_close)(const attention_head *head, size_t span, float *scratch);
void KERNEL(norm_forward)(const norm_shape *s, const float *x, const float *gain, const float *shift, float *y,
                          float *mean, float *rstd);
void KERNEL(norm_again)(const norm_shape *s, const float *x, const float *gain, const float *shift,
                        const float *mean, const float *rstd, float *y);
void KERNEL(norm_backward)(const norm_shape *s, const float *x, const float *gain, const float *mean,
                           const float *rstd, const float *dy, float *dx, size_t dx_stride, bool accumulate);
void KERNEL(norm_backward_gain)(const norm_shape *s, size_t from, size_t to, const float *x, const float *mean,
                                const float *rstd, const float *dy, float *dgain, float *dshift);
void KERNEL(activation_forward)(activation_kind kind, size_t n, const float *x, float *y);
void KERNEL(activation_backward)(activation_kind kind, size_t n, const float *x, const float *dy, float *dx,
                                 float *y);
void KERNEL(activation_gate)(activation_kind kind, size_t n, const float *gate, const float *value, float *y);
void KERNEL(activation_gate_backward)(activation_kind kind, size_t n, const float *gate, const float *value,
                                      const float *dy, float *dgate, float *dvalue, float *y);
void KERNEL(exp)(size_t n, const float *x, float *y);
void KERNEL(add)(size_t n, const float *x, float *y);
void KERNEL(add_scaled)(size_t n, float scale, const float *x, float *y);
void KERNEL(scale)(size_t n, float scale, float *y);
double KERNEL(sum_squares)(size_t n, const float *x);
void KERNEL(drop)(size_t n, const dropout_row *row, const float *x, float *y, bool accumulate);
void KERNEL(rotate)(size_t half, const float *cosine, const float *sine, bool inverse, float *x);
void KERNEL(rotate_adjacent)(size_t half, const float *cosine, const float *sine, bool inverse, float *x);
void KERNEL(cross_entropy)(size_t n, const float *x, size_t target, float weight, float z_loss, float *loss,
                           float *d);
void KERNEL(adamw)(size_t n, const adamw_step *step, const float *grad, float *value, float *m, float *v);

enum { REFERENCE_PANEL = 8 }; /* columns of a panel of the reference table */

extern const kernel_table KERNEL(kernel_table);

#ifndef PROOF
#define PROOF(name) KERNEL(name)
#endif

/* The table that is being compiled. */
#define KERNEL_TABLE(lane_count, rows, columns)                                                                   \
  {                                                                                                               \
    .name = KERNEL_TEXT(KERNEL_ISA), .lanes = lane_count, .tile_rows = rows, .tile_columns = columns,             \
    .pack = KERNEL(pack), .matmul = KERNEL(matmul), .widen = KERNEL(widen), .turn = KERNEL(turn),                 \
    .multiply = KERNEL(multiply), .multiply_rounded = KERNEL(multiply_rounded),                                   \
    .attention_scratch = KERNEL(attention_scratch),                                                               \
    .attention_forward = KERNEL(attention_forward), .attention_turn = KERNEL(attention_turn),                     \
    .proof_clusters = PROOF(proof_clusters), .proof_sums = PROOF(proof_sums), .proof_join = PROOF(proof_join),    \
    .attention_delta = KERNEL(attention_delta), .attention_span = KERNEL(attention_span),                         \
    .attention_open = KERNEL(attention_open), .attention_meet = KERNEL(attention_meet),                           \
    .attention_give = KERNEL(attention_give), .attention_close = KERNEL(attention_close),                         \
    .norm_forward = KERNEL(norm_forward), .norm_again = KERNEL(norm_again),                                       \
    .norm_backward = KERNEL(norm_backward), .norm_backward_gain = KERNEL(norm_backward_gain),                     \
    .activation_forward = KERNEL(activation_forward), .activation_backward = KERNEL(activation_backward),         \
    .activation_gate = KERNEL(activation_gate), .activation_gate_backward = KERNEL(activation_gate_backward),     \
    .exp = KERNEL(exp), .add = KERNEL(add), .add_scaled = KERNEL(add_scaled), .scale = KERNEL(scale),             \
    .sum_squares = KERNEL(sum_squares), .drop = KERNEL(drop), .rotate = KERNEL(rotate),                           \
    .rotate_adjacent = KERNEL(rotate_adjacent), .cross_entropy = KERNEL(cross_entropy), .adamw = KERNEL(adamw)    \
  }

#endif
