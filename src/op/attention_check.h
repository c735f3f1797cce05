/* op/attention_check.h - what a caller of the public operator may hand over. */
#ifndef OP_ATTENTION_CHECK_H
#define OP_ATTENTION_CHECK_H

#include <stdbool.h>

#include "alibi/attention.h"
#include "base/error.h"

typedef enum attention_task { TASK_FORWARD, TASK_BACKWARD, TASK_DECODE } attention_task;

/* First what the size of the scratch depends on: fills in kv_heads, sequences and scale where they are left out,
 * clears what the task does not use, and checks them. */
status attention_check_shape(alibi_attention *a, attention_task task, alibi_error *error);

/* Memory that a call works in. */
typedef struct attention_memory {
  const void *data; /* NULL: it takes its own */
  size_t bytes;
} attention_memory;

/* Then the rest: fills in strides, total_heads and max_bias, and checks everything that the task reads or writes.
 * key_counts: of decode, the keys of each sequence; else NULL.  gradients: of backward, else NULL. */
status attention_check(alibi_attention *a, attention_task task, const int64_t *key_counts,
                       alibi_attention_gradients *gradients, attention_memory scratch, alibi_error *error);

/* Rows of sequence n. */
typedef struct attention_rows_of {
  int64_t query, queries, key, keys;
} attention_rows_of;
attention_rows_of attention_sequence(const alibi_attention *a, const int64_t *key_counts, int64_t n);

/* Rows of a tensor that is read.  Strides of 0 become those of contiguous [rows, heads, D]. */
status attention_check_rows(const char *name, alibi_heads *x, int64_t rows, int heads, int head_size,
                            alibi_error *error);

#endif
