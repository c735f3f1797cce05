/* model/walk.h - what forward and backward share: the shapes of a run and the attention of a block. */
#ifndef MODEL_WALK_H
#define MODEL_WALK_H

#include <math.h>

#include "model/model.h"

typedef struct walk_shape {
  size_t rows, width, heads, kv_heads, head_size;
  size_t qkv;      /* (H + 2G) D: one row of queries, keys, values */
  size_t attended; /* H D */
  size_t forward;  /* F */
  size_t inner;    /* F, with gates 2F */
  op_norm norm, qk_norm;
  activation_kind activation;
  bool post;        /* x = norm(x + part(x)) */
  bool output_norm; /* of attention: x = norm(x + norm(x + attention(x))) */
  bool parallel;    /* both parts take the block's input, */
  bool one_norm;    /* and by one norm */
  bool full_norm;   /* QK-norm over all heads */
  float scale;      /* what q.k is multiplied by */
  float clip;       /* of queries, keys and values; 0: none */
  float residual;   /* what parts are multiplied by */
} walk_shape;

walk_shape walk_shape_of(const model_pass *pass);

/* What q.k is multiplied by. */
static inline float walk_scale(const walk_shape *s)
{
  return s->scale;
}

/* Where numbers are dropped; of a layer, but for the embedding. */
typedef enum dropout_place { DROP_EMBEDDING, DROP_ATTENTION, DROP_FEED_FORWARD, DROP_PLACES } dropout_place;

static inline bool walk_drops(const model_pass *p)
{
  return p->shape.keep && p->dropout.rate > 0;
}

/* out = x, dropped out, for rows r0 .. r0 + rows - 1, which x and out begin with; or adds that.  Every row as if
 * one rank held all rows of the step. */
void walk_drop(const model_pass *pass, const walk_shape *s, size_t layer, dropout_place place, size_t r0,
               size_t rows, const float *x, float *out, bool adds);
op_attention walk_attention(const model_pass *pass, const walk_shape *s, size_t layer, const block_activations *b);

/* What a block shares with the others, made again from what it keeps. */
void walk_again(model_pass *pass, const walk_shape *s, size_t layer);

/* Where a layer's own set of the plan's tables begins. */
static inline size_t walk_set(const position_plan *plan, size_t layer)
{
  return plan->sets > 1 ? layer : 0;
}

/* Where a layer's entries of row_scale, and of its gradient, begin. */
static inline size_t walk_first_scale(const position_plan *plan, const walk_shape *s, size_t layer)
{
  return plan->row_scale_sets > 1 ? layer * s->heads * plan->length : 0;
}

/* Gates of a layer: weight [H, C]; rows of the parameters of all layers. */
static inline matrix walk_gate_weight(const model_pass *p, const walk_shape *s, size_t layer)
{
  return matrix_f32(p->model->parameters.position[0] + layer * s->heads * s->width, s->heads, s->width);
}

static inline op_rotation walk_rotation(const position_plan *plan, bool key)
{
  bool own = key && plan->key_cosine;
  return (op_rotation){plan->rotary, plan->adjacent, own ? plan->key_cosine : plan->cosine,
                       own ? plan->key_sine : plan->sine};
}

#endif
