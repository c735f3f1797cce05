/* op/attention_check.h - what a caller of the public operator may hand over. */
#ifndef OP_ATTENTION_CHECK_H
#define OP_ATTENTION_CHECK_H

#include <stdbool.h>

#include "alibi/attention.h"
#include "base/error.h"

typedef enum attention_task { TASK_FORWARD, TASK_BACKWARD, TASK_DECODE } attention_task;

/* Fills in what may be left out (kv_heads, strides, sequences, scale, total_heads, max_bias) and checks everything that
 * the task reads or writes.  key_counts: of decode, the keys of each sequence; else NULL.  gradients: of backward. */
status attention_check(alibi_attention *a, attention_task task, const int64_t *key_counts,
                       alibi_attention_gradients *gradients, alibi_error *error);

/* The same for what the size of the scratch depends on. */
status attention_check_shape(alibi_attention *a, attention_task task, alibi_error *error);

/* Rows of sequence n. */
typedef struct attention_rows_of {
  int64_t query, queries, key, keys;
} attention_rows_of;
attention_rows_of attention_sequence(const alibi_attention *a, const int64_t *key_counts, int64_t n);

/* Strides of 0 become those of contiguous [rows, heads, D]. */
void attention_fill_strides(alibi_heads *x, int heads, int head_size);

#endif
