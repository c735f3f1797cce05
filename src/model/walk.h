/* model/walk.h - what forward and backward share: the shapes of a run and the attention of a block. */
#ifndef MODEL_WALK_H
#define MODEL_WALK_H

#include "model/model.h"

typedef struct walk_shape {
  size_t rows, width, heads, kv_heads, head_size;
  size_t qkv;      /* (H + 2G) D: one row of queries, keys, values */
  size_t attended; /* H D */
  size_t forward;  /* F */
  op_norm norm, qk_norm;
  activation_kind activation;
} walk_shape;

walk_shape walk_shape_of(const model_pass *pass);
op_attention walk_attention(const model_pass *pass, const walk_shape *s, const block_activations *b);

#endif
