/* The backward pass: the forward pass's list in reverse.  dx is the gradient of the residual stream; each part
 * adds its own to it. */
#include <assert.h>
#include <string.h>

#include "model/model.h"
#include "model/walk.h"
#include "op/pointwise.h"
#include "position/score_scaling.h"

static bool none_has_a_target(const uint32_t *targets, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (targets[i] != OP_NO_TARGET) return false;
  return true;
}

/* From logits [n, V] as the output weight gave them to their losses and gradients, in place. */
static void logits_backward(model_pass *p, size_t n, const uint32_t *targets, float *losses)
{
  alibi_context *context = p->model->context;
  const alibi_model_config *c = &p->model->config;
  size_t vocabulary = (size_t)c->vocabulary, count = n * vocabulary;
  float scale = (float)c->logit_scale, cap = (float)c->logit_cap;
  if (scale != 1) op_scale(context, count, scale, p->logits);
  if (cap > 0) {
    op_bend(context, count, cap, p->logits);
    op_copy(context, count, p->logits, p->bent);
  }
  op_cross_entropy(context, n, vocabulary, p->logits, targets, scale, p->z_loss, losses, p->logits);
  if (cap > 0) op_bend_backward(context, count, cap, p->bent, p->logits);
}

/* Loss and gradient through the output weight, a chunk of rows at a time, so that no [R, V] matrix is stored.
 * Turns hidden into its gradient. */
static double head_backward(model_pass *p, const walk_shape *s, const uint32_t *targets, model_parameters *grads)
{
  alibi_context *context = p->model->context;
  matrix head = model_output_weight(p->model);
  double total = 0;
  for (size_t r0 = 0; r0 < s->rows; r0 += p->shape.head_rows) {
    size_t n = s->rows - r0 < p->shape.head_rows ? s->rows - r0 : p->shape.head_rows;
    float *hidden = p->hidden + r0 * s->width;
    if (none_has_a_target(targets + r0, n)) {
      memset(p->losses + r0, 0, n * sizeof *p->losses);
      memset(hidden, 0, n * s->width * sizeof *hidden);
      continue;
    }
    op_linear_forward(context, &p->work, n, hidden, s->width, &head, NULL, NULL, p->logits, head.rows);
    logits_backward(p, n, targets + r0, p->losses + r0);
    op_linear_backward(context, &p->work, n, hidden, s->width, &head, p->logits, head.rows, NULL, 0,
                       grads->output_weight, NULL);
    op_linear_backward(context, &p->work, n, NULL, 0, &head, p->logits, head.rows, hidden, s->width, NULL, NULL);
  }
  for (size_t r = 0; r < s->rows; r++) total += p->losses[r];
  return total;
}

/* The gradient of what a part added to the residual stream. */
static const float *gradient_of_added(model_pass *p, const walk_shape *s, size_t layer, dropout_place place)
{
  alibi_context *context = p->model->context;
  size_t count = s->rows * s->width;
  if (!walk_drops(p) && s->residual == 1) return p->dx;
  if (walk_drops(p)) walk_drop(p, s, layer, place, 0, s->rows, p->dx, p->hidden, false);
  else op_copy(context, count, p->dx, p->hidden); /* hidden is done with since the final norm */
  if (s->residual != 1) op_scale(context, count, s->residual, p->hidden);
  return p->hidden;
}

/* What the feed-forward part took, again into p->normed. */
static void norm_between_again(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  bool first = s->post || s->one_norm;
  op_norm_again(p->model->context, s->rows, s->width, s->parallel ? b->x : b->middle,
                first ? w->attention_norm_gain : w->feed_forward_norm_gain,
                first ? w->attention_norm_shift : w->feed_forward_norm_shift, first ? b->mean1 : b->mean2,
                first ? b->rstd1 : b->rstd2, p->normed);
}

/* From the gradient of middle, in dx, to that of joined; the block's input, which was added again, asks for the
 * former too. */
static void norm_output_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                                 block_parameters *g)
{
  op_copy(p->model->context, s->rows * s->width, p->dx, p->dbeside);
  op_norm_backward(p->model->context, s->norm, s->rows, 1, s->width, b->joined, s->width,
                   p->model->parameters.blocks[layer].output_norm_gain, b->joined_mean, b->joined_rstd, p->dx,
                   s->width, p->dx, s->width, false, g->output_norm_gain, g->output_norm_shift);
}

/* From the gradient of what the feed-forward part took, in p->normed, to those of the residual stream and of its
 * norm. Parallel parts have one input and one output: what attention's part asks for is still in dx. */
static void norm_between_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                                  block_parameters *g)
{
  alibi_context *context = p->model->context;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  if (s->one_norm) {
    op_copy(context, s->rows * s->width, p->normed, p->dbeside);
    return;
  }
  if (s->post) {
    op_add(context, s->rows * s->width, p->normed, p->dx);
    op_norm_backward(context, s->norm, s->rows, 1, s->width, b->middle, s->width, w->attention_norm_gain, b->mean1,
                     b->rstd1, p->dx, s->width, p->dx, s->width, false, g->attention_norm_gain,
                     g->attention_norm_shift);
    if (s->output_norm) norm_output_backward(p, s, layer, b, g);
    return;
  }
  op_norm_backward(context, s->norm, s->rows, 1, s->width, s->parallel ? b->x : b->middle, s->width,
                   w->feed_forward_norm_gain, b->mean2, b->rstd2, p->normed, s->width,
                   s->parallel ? p->dbeside : p->dx, s->width, !s->parallel, g->feed_forward_norm_gain,
                   g->feed_forward_norm_shift);
}

static void feed_forward_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                                  block_parameters *g)
{
  alibi_context *context = p->model->context;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  block_weights weights = model_block_weights(p->model, layer);
  if (s->post)
    op_norm_backward(context, s->norm, s->rows, 1, s->width, b->summed, s->width, w->feed_forward_norm_gain,
                     b->mean2, b->rstd2, p->dx, s->width, p->dx, s->width, false, g->feed_forward_norm_gain,
                     g->feed_forward_norm_shift);
  const float *dadded = gradient_of_added(p, s, layer, DROP_FEED_FORWARD);
  op_linear_backward(context, &p->work, s->rows, NULL, 0, &weights.output, dadded, s->width, p->wide, s->forward,
                     NULL, NULL);
  op_activation_backward(context, s->activation, s->rows, s->forward, b->inner, p->wide);
  op_linear_backward(context, &p->work, s->rows, p->wide, s->forward, &weights.output, dadded, s->width, NULL, 0,
                     g->feed_forward_output_weight, g->feed_forward_output_bias);
  norm_between_again(p, s, layer, b);
  op_linear_backward(context, &p->work, s->rows, p->normed, s->width, &weights.input, b->inner, s->inner, NULL, 0,
                     g->input_weight, g->input_bias);
  op_linear_backward(context, &p->work, s->rows, NULL, 0, &weights.input, b->inner, s->inner, p->normed, s->width,
                     NULL, NULL);
  norm_between_backward(p, s, layer, b, g);
}

/* Through QK-norm: from the gradient of the normed queries and keys to that of the projected ones, in place. */
static void qk_norm_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                             block_parameters *g)
{
  alibi_context *context = p->model->context;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t raw = (s->heads + s->kv_heads) * s->head_size;
  size_t of_queries = s->full_norm ? 1 : s->heads, of_keys = s->full_norm ? 1 : s->kv_heads;
  op_norm_backward(context, s->qk_norm, s->rows, of_queries, s->attended / of_queries, b->raw, raw,
                   w->query_norm_gain, b->raw_mean, b->raw_rstd, p->dqkv, s->qkv, p->dqkv, s->qkv, false,
                   g->query_norm_gain, g->query_norm_shift);
  float *dkeys = p->dqkv + s->attended;
  op_norm_backward(context, s->qk_norm, s->rows, of_keys, (raw - s->attended) / of_keys, b->raw + s->attended, raw,
                   w->key_norm_gain, b->raw_mean + s->rows * s->heads, b->raw_rstd + s->rows * s->heads, dkeys,
                   s->qkv, dkeys, s->qkv, false, g->key_norm_gain, g->key_norm_shift);
}

/* Queries and keys as they were clipped are kept; values nothing has changed since. */
static void clip_backward(model_pass *p, const walk_shape *s, const block_activations *b)
{
  size_t kept = (s->heads + s->kv_heads) * s->head_size;
  op_clip_backward(p->model->context, s->rows, kept, s->clip, b->raw, kept, p->dqkv, s->qkv);
  op_clip_backward(p->model->context, s->rows, s->qkv - kept, s->clip, b->qkv + kept, s->qkv, p->dqkv + kept,
                   s->qkv);
}

/* From the gradients of offsets to those of the gates' weights; returns what they add to that of normed. */
static const float *gates_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                                   model_parameters *grads)
{
  alibi_context *context = p->model->context;
  matrix weight = walk_gate_weight(p, s, layer);
  float *through = p->hidden; /* done with since the final norm */
  for (size_t i = 0; i < p->segment_count; i++)
    p->gate_runs[i] = (gate_run){p->attention[i].row, p->attention[i].rows, NULL};
  op_gates_backward(context, s->rows, s->heads, b->gates, p->gate_runs, p->segment_count, p->dquery_offsets,
                    p->dkey_offsets, p->dgates);
  op_linear_backward(context, &p->work, s->rows, p->normed, s->width, &weight, p->dgates, s->heads, through,
                     s->width, grads->position[0] + layer * s->heads * s->width,
                     grads->position[1] + layer * s->heads);
  return through;
}

static status attention_backward(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                                 model_parameters *grads)
{
  block_parameters *g = &grads->blocks[layer];
  alibi_context *context = p->model->context;
  const position_plan *plan = &p->position.plan;
  const position_plan_grad *own = &p->position_grad;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t first_head = walk_set(plan, layer) * s->heads;
  block_weights weights = model_block_weights(p->model, layer);
  op_linear_backward(context, &p->work, s->rows, b->attended, s->attended, &weights.attention_output,
                     gradient_of_added(p, s, layer, DROP_ATTENTION), s->width, p->dattended, s->attended,
                     g->output_weight, g->output_bias);
  op_attention a = walk_attention(p, s, layer, b);
  a.overwrites = true;
  a.dout = (op_heads){p->dattended, s->attended, s->head_size};
  a.dq = (op_heads_out){p->dqkv, s->qkv, s->head_size};
  a.dk = (op_heads_out){p->dqkv + s->attended, s->qkv, s->head_size};
  a.dv = (op_heads_out){p->dqkv + s->attended + s->kv_heads * s->head_size, s->qkv, s->head_size};
  if (own->table) a.table_grad = own->table + first_head * plan->length;
  if (own->slopes) a.slope_grad = own->slopes + first_head;
  if (b->gates) {
    memset(p->dkey_offsets, 0, s->rows * s->heads * sizeof *p->dkey_offsets);
    a.offset_grad = p->dkey_offsets;
    a.query_offset_grad = p->dquery_offsets;
  }
  if (p->shared) {
    status result = shared_attention_backward(p->shared, context, &a, p->sequences, p->segment_count,
                                              p->reach + layer * p->shape.segments, &p->failure);
    if (result != ALIBI_OK) return result;
  } else {
    op_attention_backward(context, &a, p->attention_memory);
  }
  size_t first_scale = walk_first_scale(plan, s, layer);
  if (plan->row_scale)
    op_scale_heads_backward(context, s->rows, s->heads, s->head_size, plan->row_scale + first_scale, plan->length,
                            p->positions, b->qkv, p->dqkv, s->qkv,
                            own->row_scale ? own->row_scale + first_scale : NULL);
  if (plan->rotary) {
    op_rotation queries = walk_rotation(plan, false), keys = walk_rotation(plan, true);
    op_rotate(context, s->rows, s->heads, s->head_size, &queries, p->positions, true, p->dqkv, s->qkv);
    op_rotate(context, s->rows, s->kv_heads, s->head_size, &keys, p->positions, true, p->dqkv + s->attended,
              s->qkv);
  }
  if (w->query_norm_gain) qk_norm_backward(p, s, layer, b, g);
  if (s->clip > 0) clip_backward(p, s, b);
  if (!s->post)
    op_norm_again(context, s->rows, s->width, b->x, w->attention_norm_gain, w->attention_norm_shift, b->mean1,
                  b->rstd1, p->normed);
  const float *of_gates = b->gates ? gates_backward(p, s, layer, b, grads) : NULL;
  op_linear_backward(context, &p->work, s->rows, s->post ? b->x : p->normed, s->width, &weights.qkv, p->dqkv,
                     s->qkv, NULL, 0, g->qkv_weight, g->qkv_bias);
  op_linear_backward(context, &p->work, s->rows, NULL, 0, &weights.qkv, p->dqkv, s->qkv, p->normed, s->width, NULL,
                     NULL);
  if (of_gates) op_add(context, s->rows * s->width, of_gates, p->normed);
  if (s->one_norm) op_add(context, s->rows * s->width, p->dbeside, p->normed);
  if (s->post) op_add(context, s->rows * s->width, p->normed, p->dx);
  else
    op_norm_backward(context, s->norm, s->rows, 1, s->width, b->x, s->width, w->attention_norm_gain, b->mean1,
                     b->rstd1, p->normed, s->width, p->dx, s->width, true, g->attention_norm_gain,
                     g->attention_norm_shift);
  if (s->output_norm || (s->parallel && !s->one_norm)) op_add(context, s->rows * s->width, p->dbeside, p->dx);
  return ALIBI_OK;
}

/* With in_gradients: floats from .. to - 1 of the gradients, where activations lay, are now to be added to. */
static void begin_gradients(const model_pass *p, const model_parameters *grads, size_t from, size_t to)
{
  if (p->shape.in_gradients) memset(grads->block + from, 0, (to - from) * sizeof *grads->block);
}

/* Gradients from `from` to `end` are final; returns where they begin, the next ones' end. */
static size_t tell(const backward_hooks *hooks, size_t from, size_t end)
{
  if (hooks && end > from) hooks->ready(hooks->user, from, end - from);
  return from;
}

static void final_norm_backward(model_pass *p, const walk_shape *s, model_parameters *grads)
{
  alibi_context *context = p->model->context;
  const model_parameters *w = &p->model->parameters;
  if (w->final_norm_gain)
    op_norm_backward(context, s->norm, s->rows, 1, s->width, p->residual, s->width, w->final_norm_gain,
                     p->final_mean, p->final_rstd, p->hidden, s->width, p->dx, s->width, false,
                     grads->final_norm_gain, grads->final_norm_shift);
  else op_copy(context, s->rows * s->width, p->hidden, p->dx);
}

static void embed_backward(model_pass *p, const walk_shape *s, model_parameters *grads)
{
  alibi_context *context = p->model->context;
  float scale = p->position.plan.embedding_scale * (float)p->model->config.embedding_scale;
  if (walk_drops(p)) walk_drop(p, s, 0, DROP_EMBEDDING, 0, s->rows, p->dx, p->dx, false);
  if (p->embedded)
    op_norm_backward(context, s->norm, s->rows, 1, s->width, p->embedded, s->width,
                     p->model->parameters.embedding_norm_gain, p->embedded_mean, p->embedded_rstd, p->dx, s->width,
                     p->dx, s->width, false, grads->embedding_norm_gain, grads->embedding_norm_shift);
  if (grads->embedding_shift) op_shift_rows_backward(context, s->rows, s->width, p->dx, grads->embedding_shift);
  op_embedding_backward(context, s->rows, s->width, p->tokens, p->positions, scale, p->dx, grads->embedding,
                        p->position_grad.embedding);
}

double model_backward(model_pass *p, const uint32_t *targets, model_parameters *grads, const backward_hooks *hooks)
{
  const position_plan *plan = &p->position.plan;
  position_plan_grad *own = &p->position_grad;
  walk_shape s = walk_shape_of(p);
  alibi_error_init(&p->failure);
  assert(!model_is_placed(p->model) && p->model->config.causal); /* model_check_trainable */
  assert(!p->spares_rows); /* the gradients of a row that no segment holds would be anything */
  if (own->embedding) memset(own->embedding, 0, p->shape.length * s.width * sizeof *own->embedding);
  size_t heads = plan->sets * s.heads, entries = heads * p->shape.length;
  if (own->table) memset(own->table, 0, entries * sizeof *own->table);
  size_t scales = plan->row_scale_sets * s.heads * p->shape.length;
  if (own->row_scale) memset(own->row_scale, 0, scales * sizeof *own->row_scale);
  if (own->slopes) memset(own->slopes, 0, heads * sizeof *own->slopes);
  size_t layers = (size_t)p->model->config.layers, after = model_block_offset(p->model, layers);
  begin_gradients(p, grads, 0, model_block_offset(p->model, 0));
  begin_gradients(p, grads, after, p->model->list.floats);
  double loss = head_backward(p, &s, targets, grads);
  final_norm_backward(p, &s, grads);
  size_t final = tell(hooks, after, p->model->list.floats);
  for (size_t layer = layers; layer-- > 0;) {
    begin_gradients(p, grads, model_block_offset(p->model, layer), model_block_offset(p->model, layer + 1));
    if (p->shape.recompute && layer + 1 < layers) walk_again(p, &s, layer);
    feed_forward_backward(p, &s, layer, &p->blocks[layer], &grads->blocks[layer]);
    if (attention_backward(p, &s, layer, &p->blocks[layer], grads) != ALIBI_OK) return loss;
    final = tell(hooks, model_block_offset(p->model, layer), final);
  }
  embed_backward(p, &s, grads);
  if (p->model->method->backward) p->model->method->backward(&p->request, plan, own, grads->position);
  score_scaling_backward(&p->request, plan, own->row_scale, grads->score_scale);
  tell(hooks, 0, final);
  return loss;
}
