/* Attention over all segments and heads.  Forward: an item is one tile of queries of one head of one segment.  Backward: an
 * item is one key-value head of one segment, so that each gradient of a key has one owner and a fixed order. */
#include <string.h>

#include "op/op.h"
#include "op/team.h"

static attention_head head_of(const op_attention *a, const attention_segment *s, size_t h)
{
  size_t group = h / (a->heads / a->kv_heads), d = a->head_size;
  attention_head head = {
      .queries = s->rows, .keys = s->keys, .first = s->first, .head_size = d, .scale = a->scale, .bias = a->bias,
      .slope = a->bias == BIAS_SLOPE ? a->slopes[h] : 0,
      .table = a->bias == BIAS_DISTANCE ? a->table + (h + 1) * a->table_length - 1 : NULL,
      .q = a->q + s->row * a->stride + h * d, .q_stride = a->stride, .k_stride = a->stride,
      .out = a->out + (s->row * a->heads + h) * d, .out_stride = a->heads * d,
      .lse = a->lse ? a->lse + s->row * a->heads + h : NULL, .lse_stride = a->heads};
  if (s->key_blocks) {
    head.key_blocks = s->key_blocks[group];
    head.value_blocks = s->value_blocks[group];
  } else {
    head.k = a->k + s->key_row * a->stride + group * d;
    head.v = a->v + s->key_row * a->stride + group * d;
  }
  return head;
}

/* Multiply-adds of one product of queries and keys, causal halves not taken off. */
static double operations(const op_attention *a)
{
  double pairs = 0;
  for (size_t s = 0; s < a->segment_count; s++) pairs += (double)a->segments[s].rows * (double)a->segments[s].keys;
  return pairs * (double)(a->heads * a->head_size);
}

static size_t tiles_of(const attention_segment *s)
{
  return (s->rows + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
}

void op_attention_forward(alibi_context *context, const op_workspace *work, const op_attention *a)
{
  const kernel_table *k = context->kernel;
  size_t tiles = 0;
  for (size_t s = 0; s < a->segment_count; s++) tiles = tiles_of(&a->segments[s]) > tiles ? tiles_of(&a->segments[s]) : tiles;
  size_t items = a->segment_count * a->heads * tiles;
  OP_FOR_ITEMS(context, dynamic, items, 2 * operations(a), {
    const attention_segment *s = &a->segments[item / tiles / a->heads];
    size_t start = (tiles - 1 - item % tiles) * ATTENTION_BLOCK; /* the longest first */
    if (start >= s->rows) continue;
    attention_head head = head_of(a, s, item / tiles % a->heads);
    head.queries = s->rows - start < ATTENTION_BLOCK ? s->rows - start : ATTENTION_BLOCK;
    head.first += start;
    head.q += start * head.q_stride;
    head.out += start * head.out_stride;
    if (head.lse) head.lse += start * head.lse_stride;
    k->attention_forward(&head, work->scratch + worker * work->scratch_floats);
  });
}

/* The heads of one group share keys: they run in order within one item. */
static void backward_group(const kernel_table *k, const op_attention *a, size_t segment, size_t group, float *scratch)
{
  const attention_segment *s = &a->segments[segment];
  size_t share = a->heads / a->kv_heads, d = a->head_size;
  for (size_t h = group * share; h < (group + 1) * share; h++) {
    attention_head head = head_of(a, s, h);
    head.dout = a->dout + (s->row * a->heads + h) * d;
    head.dq = a->dq + s->row * a->stride + h * d;
    head.dk = a->dk + s->key_row * a->stride + group * d;
    head.dv = a->dv + s->key_row * a->stride + group * d;
    if (a->table_grad) {
      float *partial = a->table_partials + (segment * a->heads + h) * a->table_length;
      memset(partial, 0, a->table_length * sizeof *partial);
      head.table_grad = partial + a->table_length - 1;
    }
    k->attention_backward(&head, scratch);
  }
}

void op_attention_backward(alibi_context *context, const op_workspace *work, const op_attention *a)
{
  const kernel_table *k = context->kernel;
  size_t items = a->segment_count * a->kv_heads;
  OP_FOR_ITEMS(context, dynamic, items, 5 * operations(a), {
    backward_group(k, a, item / a->kv_heads, item % a->kv_heads, work->scratch + worker * work->scratch_floats);
  });
  if (!a->table_grad) return;
  size_t length = a->table_length;
  OP_FOR_ITEMS(context, static, a->heads, (double)(a->segment_count * a->heads * length), {
    for (size_t s = 0; s < a->segment_count; s++)
      k->add(length, a->table_partials + (s * a->heads + item) * length, a->table_grad + item * length);
  });
}
