/* The forward pass: embedding, blocks, final norm.  A block is attention and a feed-forward part, each added to
 * the residual stream; where their norms stand, whether the two follow each other, and what else varies between
 * families is data in the configuration. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/model.h"
#include "model/walk.h"
#include "op/pointwise.h"

walk_shape walk_shape_of(const model_pass *p)
{
  const alibi_model_config *c = &p->model->config;
  size_t d = (size_t)c->head_size, heads = (size_t)c->heads, kv = (size_t)c->kv_heads;
  bool full = c->qk_norm_kind == ALIBI_QK_NORM_FULL, own = c->qk_norm_kind != ALIBI_QK_NORM_HEAD;
  return (walk_shape){.rows = p->rows,
                      .width = (size_t)c->width,
                      .heads = heads,
                      .kv_heads = kv,
                      .head_size = d,
                      .qkv = (heads + 2 * kv) * d,
                      .attended = heads * d,
                      .forward = (size_t)c->feed_forward,
                      .inner = (size_t)c->feed_forward * op_activation_parts(model_config_activation(c)),
                      .norm = {c->norm == ALIBI_NORM_LAYER, (float)c->norm_epsilon},
                      .qk_norm = {own && c->norm == ALIBI_NORM_LAYER, (float)c->norm_epsilon},
                      .activation = model_config_activation(c),
                      .post = c->norm_place == ALIBI_NORM_POST,
                      .output_norm = c->attention_output_norm,
                      .parallel = c->parallel != ALIBI_PARALLEL_NONE,
                      .one_norm = c->parallel == ALIBI_PARALLEL_ONE_NORM,
                      .full_norm = full,
                      .scale = model_config_score_scale(c),
                      .clip = (float)c->clip_qkv,
                      .residual = (float)c->residual_scale};
}

void walk_drop(const model_pass *p, const walk_shape *s, size_t layer, dropout_place place, size_t r0, size_t rows,
               const float *x, float *out, bool adds)
{
  const pass_dropout *d = &p->dropout;
  uint64_t places = (uint64_t)p->model->config.layers * DROP_PLACES;
  op_dropout drop = {d->rate, d->seed, d->step * places + layer * DROP_PLACES + place, d->first_row + r0};
  if (!p->shared) {
    op_drop(p->model->context, &drop, rows, s->width, x, out, adds);
    return;
  }
  assert(r0 == 0 && rows == s->rows);
  for (size_t i = 0; i < p->segment_count; i++) { /* rows of other ranks lie between */
    const shared_sequence *q = &p->sequences[i];
    drop.first_row = d->first_row + i * q->length + q->first;
    op_drop(p->model->context, &drop, q->rows, s->width, x + q->row * s->width, out + q->row * s->width, adds);
  }
}

op_attention walk_attention(const model_pass *p, const walk_shape *s, size_t layer, const block_activations *b)
{
  const position_plan *plan = &p->position.plan;
  size_t first_head = walk_set(plan, layer) * s->heads, first_entry = first_head * plan->length;
  const position_tails *tails = &p->tails;
  size_t first_tail = first_head * op_tail_entries(plan->length);
  return (op_attention){.heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .head_size = s->head_size,
                        .scale = walk_scale(s),
                        .cap = (float)p->model->config.score_cap,
                        .both_sides = !p->model->config.causal,
                        .bias = plan->bias,
                        .slopes = plan->slopes ? plan->slopes + first_head : NULL,
                        .table = plan->table ? plan->table + first_entry : NULL,
                        .factors = plan->factors ? plan->factors + first_entry : NULL,
                        .table_length = plan->bias == BIAS_DISTANCE ? plan->length : 0,
                        .tails_before = tails->before ? tails->before + first_tail : NULL,
                        .largest_factors = tails->largest_factors ? tails->largest_factors + first_head : NULL,
                        .offsets = b->key_offsets,
                        .query_offsets = b->query_offsets,
                        .rows = plan->bias == BIAS_ROWS ? &plan->rows : NULL,
                        .rows_by_position = true,
                        .window = plan->window,
                        .segments = p->attention,
                        .segment_count = p->segment_count,
                        .q = {b->qkv, s->qkv, s->head_size},
                        .k = {b->qkv + s->attended, s->qkv, s->head_size},
                        .v = {b->qkv + s->attended + s->kv_heads * s->head_size, s->qkv, s->head_size},
                        .tolerance = p->model->method->decays ? model_pass_tolerance(p) : 0,
                        .out = {b->attended, s->attended, s->head_size},
                        .lse = b->lse,
                        .visited = b->visited};
}

static size_t wanted_rows(const pass_segment *s)
{
  return s->wanted > 0 && s->wanted < s->count ? s->wanted : s->count;
}

/* A product of a block.  Where a run may be cancelled, so many rows at a time that one piece takes a moment; what
 * follows in the block then works on anything, until the block's end. */
static void linear(model_pass *p, size_t rows, const float *x, const matrix *w, const float *bias,
                   const float *residual, float *out, size_t out_stride)
{
  alibi_context *context = p->model->context;
  size_t few = (size_t)(1e10 / ((double)w->rows * (double)w->columns)), most = few < 256 ? 256 : few;
  if (!p->shape.stops_when_cancelled) most = rows;
  for (size_t r = 0; r < rows; r += most) {
    size_t n = rows - r < most ? rows - r : most;
    if (p->shape.stops_when_cancelled && context_cancelled(context)) return;
    op_linear_forward(context, &p->work, n, x + r * w->columns, w->columns, w, bias,
                      residual ? residual + r * out_stride : NULL, out + r * out_stride, out_stride);
  }
}

/* Forgetting gates of a block, and their running sums, which go on from what a cache holds. */
static void gate(model_pass *p, const walk_shape *s, size_t layer, block_activations *b)
{
  matrix weight = walk_gate_weight(p, s, layer);
  size_t share = s->heads / s->kv_heads;
  op_linear_forward(p->model->context, &p->work, s->rows, p->normed, s->width, &weight,
                    p->model->parameters.position[1] + layer * s->heads, NULL, b->gates, s->heads);
  for (size_t i = 0; i < p->segment_count; i++) {
    const pass_segment *run = &p->segments[i];
    const double *carried = run->carry && run->first > 0 ? carry_last_offsets(run->carry, layer) : NULL;
    double *before = (run->cache && run->first > 0) || carried ? p->gate_sums + i * s->heads : NULL;
    for (size_t h = 0; before && h < s->heads; h++) {
      size_t list = layer * s->kv_heads + h / share;
      before[h] = carried ? -carried[h] : -block_cache_offset(run->cache, list, h % share, run->first - 1);
    }
    p->gate_runs[i] = (gate_run){p->attention[i].row, run->count, before};
  }
  op_gates_forward(p->model->context, s->rows, s->heads, b->gates, p->gate_runs, p->segment_count,
                   b->query_offsets, b->key_offsets);
}

/* Keys and values of a run into its cache. */
static void store(const model_pass *p, const walk_shape *s, size_t layer, size_t segment,
                  const block_activations *b)
{
  const pass_segment *run = &p->segments[segment];
  size_t d = s->head_size;
  const float *keys = b->qkv + p->attention[segment].row * s->qkv + s->attended, *values = keys + s->kv_heads * d;
  for (size_t g = 0; g < s->kv_heads; g++)
    block_cache_store(run->cache, layer * s->kv_heads + g, run->first, run->count, keys + g * d, s->qkv,
                      values + g * d, s->qkv);
  for (size_t g = 0; b->key_offsets && g < s->kv_heads; g++)
    block_cache_store_offsets(run->cache, layer * s->kv_heads + g, run->first, run->count,
                              b->key_offsets + p->attention[segment].row * s->heads + g * (s->heads / s->kv_heads),
                              s->heads);
}

/* Queries and keys by their heads, or all heads together. */
static void qk_norm(const model_pass *p, const walk_shape *s, size_t layer, block_activations *b)
{
  alibi_context *context = p->model->context;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t raw = (s->heads + s->kv_heads) * s->head_size, of_queries = s->full_norm ? 1 : s->heads;
  size_t of_keys = s->full_norm ? 1 : s->kv_heads;
  op_norm_forward(context, s->qk_norm, s->rows, of_queries, s->attended / of_queries, b->raw, raw,
                  w->query_norm_gain, w->query_norm_shift, b->qkv, s->qkv, b->raw_mean, b->raw_rstd);
  op_norm_forward(context, s->qk_norm, s->rows, of_keys, (raw - s->attended) / of_keys, b->raw + s->attended, raw,
                  w->key_norm_gain, w->key_norm_shift, b->qkv + s->attended, s->qkv,
                  b->raw_mean + s->rows * s->heads, b->raw_rstd + s->rows * s->heads);
}

/* Queries, keys and values of a block: projection, clipping, QK-norm, rotation. */
static void project(model_pass *p, const walk_shape *s, size_t layer, block_activations *b)
{
  alibi_context *context = p->model->context;
  const block_parameters *w = &p->model->parameters.blocks[layer];
  const position_plan *plan = &p->position.plan;
  block_weights weights = model_block_weights(p->model, layer);
  size_t d = s->head_size, turned = s->heads + s->kv_heads;
  if (!s->post)
    op_norm_forward(context, s->norm, s->rows, 1, s->width, b->x, s->width, w->attention_norm_gain,
                    w->attention_norm_shift, p->normed, s->width, b->mean1, b->rstd1);
  linear(p, s->rows, s->post ? b->x : p->normed, &weights.qkv, w->qkv_bias, NULL, b->qkv, s->qkv);
  if (s->clip > 0) op_clip(context, s->rows, s->qkv, s->clip, b->qkv, s->qkv);
  if (b->raw) op_copy_rows(context, s->rows, turned * d, b->qkv, s->qkv, b->raw, turned * d);
  if (w->query_norm_gain) qk_norm(p, s, layer, b);
  if (plan->rotary) {
    op_rotation queries = walk_rotation(plan, false), keys = walk_rotation(plan, true);
    op_rotate(context, s->rows, s->heads, d, &queries, p->positions, false, b->qkv, s->qkv);
    op_rotate(context, s->rows, s->kv_heads, d, &keys, p->positions, false, b->qkv + s->attended, s->qkv);
  }
  if (plan->row_scale)
    op_scale_heads(context, s->rows, s->heads, d, plan->row_scale + walk_first_scale(plan, s, layer), plan->length,
                   p->seen_before, b->qkv, s->qkv);
}

/* In the last block only the wanted rows ask; all of them give keys and values. */
static void narrow(model_pass *p)
{
  for (size_t i = 0; i < p->segment_count; i++) {
    attention_segment *a = &p->attention[i];
    size_t spared = a->rows - wanted_rows(&p->segments[i]);
    a->row += spared;
    a->rows -= spared;
    a->first += (ptrdiff_t)spared;
  }
}

/* A head for which a row may look back to what was dropped: its walk went to the first block of all. */
static status tell_of_miss(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                           alibi_error *error)
{
  for (size_t i = 0; i < p->segment_count; i++) {
    const attention_segment *a = &p->attention[i];
    for (size_t n = 0; a->cache && a->cache->pool && n < a->rows * s->heads; n++) {
      size_t row = a->row + n / s->heads, head = n % s->heads, list = a->list + head / (s->heads / s->kv_heads);
      size_t first = a->cache->first_block[list];
      if ((size_t)b->visited[2 * (row * s->heads + head)] >= first) continue;
      p->failed_segment = i;
      return fail(
          error, ALIBI_FAILED,
          "layer %zu, head %zu: expected a query that looks no farther back than the last %zu tokens, which are "
          "kept for this head, found one at position %zu that may: raise the option keep above %zu tokens, or set "
          "it "
          "to 0 (all)",
          layer, head, p->positions[row] + 1 - first * ATTENTION_BLOCK, p->positions[row],
          a->cache->pool / a->cache->lists * ATTENTION_BLOCK);
    }
  }
  return fail(error, ALIBI_FAILED, "layer %zu: a query may look farther back than what is kept", layer);
}

/* After a layer's attention, where caches have pools: no row missed anything, or the run fails.  How far they
 * looked helps to choose what goes next. */
static status watch(model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                    alibi_error *error)
{
  size_t share = s->heads / s->kv_heads;
  if (p->tally.missed > 0) return tell_of_miss(p, s, layer, b, error);
  for (size_t i = 0; i < p->segment_count; i++) {
    const attention_segment *a = &p->attention[i];
    if (!a->cache || !a->cache->pool) continue;
    for (size_t row = a->row; row < a->row + a->rows; row++)
      for (size_t h = 0; h < s->heads; h++)
        block_cache_saw(a->cache, a->list + h / share, h % share, p->positions[row],
                        (size_t)b->visited[2 * (row * s->heads + h)]);
  }
  return ALIBI_OK;
}

static pass_carry *carry_of(const model_pass *p)
{
  return p->segment_count == 1 ? p->segments->carry : NULL;
}

/* Keys and values of a run beside those before it, which it sees too. */
static void carry_on(const model_pass *p, const walk_shape *s, size_t layer, const block_activations *b,
                     op_attention *a)
{
  pass_carry *carry = carry_of(p);
  carry_store(carry, layer, s->rows, a->k.data, a->v.data, s->qkv, b->key_offsets);
  a->k = carry_keys(carry, layer);
  a->v = carry_values(carry, layer);
  a->offsets = carry_offsets(carry, layer);
}

static status attend(model_pass *p, const walk_shape *s, size_t layer, block_activations *b, alibi_error *error)
{
  for (size_t i = 0; i < p->segment_count; i++) {
    if (!p->segments[i].cache) continue;
    store(p, s, layer, i, b);
    p->attention[i].cache = p->segments[i].cache;
    p->attention[i].list = layer * s->kv_heads;
  }
  if (layer + 1 == (size_t)p->model->config.layers) narrow(p);
  op_attention a = walk_attention(p, s, layer, b);
  if (carry_of(p)) carry_on(p, s, layer, b, &a);
  a.stops_when_cancelled = p->shape.stops_when_cancelled;
  if (p->drops) {
    p->tally = (attention_tally){0};
    a.tally = &p->tally;
  } else if (!p->shape.keep) {
    a.visited = NULL;
  }
  if (p->shared)
    return shared_attention_forward(p->shared, p->model->context, &a, p->sequences, p->segment_count,
                                    p->reach + (p->shape.keep ? layer * p->shape.segments : 0), error);
  op_attention_forward(p->model->context, &a, p->attention_memory);
  if (a.stops_when_cancelled && context_cancelled(p->model->context))
    return context_check_cancel(p->model->context, error);
  return p->drops ? watch(p, s, layer, b, error) : ALIBI_OK;
}

/* out [rows, C] = residual + x w^T + bias; the latter dropped out.  Rows r0 .. r0 + rows - 1. */
static void add_to_residual(model_pass *p, const walk_shape *s, size_t layer, dropout_place place, size_t r0,
                            size_t rows, const float *residual, const float *x, const matrix *w, const float *bias,
                            float *out)
{
  alibi_context *context = p->model->context;
  float *added = p->hidden + r0 * s->width; /* not needed before the end */
  if (!walk_drops(p) && s->residual == 1) {
    linear(p, rows, x, w, bias, residual, out, s->width);
    return;
  }
  linear(p, rows, x, w, bias, NULL, added, s->width);
  if (residual != out) op_copy(context, rows * s->width, residual, out);
  if (!walk_drops(p)) {
    op_add_scaled(context, rows * s->width, s->residual, added, out);
    return;
  }
  if (s->residual != 1) op_scale(context, rows * s->width, s->residual, added);
  walk_drop(p, s, layer, place, r0, rows, added, out, true);
}

/* What the feed-forward part takes, into p->normed, where one norm of both parts has left it already. */
static void norm_between(const model_pass *p, const walk_shape *s, size_t layer, block_activations *b, size_t r0,
                         size_t rows)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t c0 = r0 * s->width;
  if (s->one_norm) return;
  if (s->post)
    op_norm_forward(p->model->context, s->norm, rows, 1, s->width, b->middle + c0, s->width,
                    w->attention_norm_gain, w->attention_norm_shift, p->normed + c0, s->width, b->mean1 + r0,
                    b->rstd1 + r0);
  else
    op_norm_forward(p->model->context, s->norm, rows, 1, s->width, (s->parallel ? b->x : b->middle) + c0, s->width,
                    w->feed_forward_norm_gain, w->feed_forward_norm_shift, p->normed + c0, s->width, b->mean2 + r0,
                    b->rstd2 + r0);
}

/* middle = x + norm(joined) */
static void norm_output(const model_pass *p, const walk_shape *s, size_t layer, block_activations *b, size_t r0,
                        size_t rows)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t c0 = r0 * s->width;
  op_norm_forward(p->model->context, s->norm, rows, 1, s->width, b->joined + c0, s->width, w->output_norm_gain,
                  w->output_norm_shift, b->middle + c0, s->width, b->joined_mean + r0, b->joined_rstd + r0);
  op_add(p->model->context, rows * s->width, b->x + c0, b->middle + c0);
}

/* From what attention gave to the numbers before the activation, for rows r0 .. r0 + rows - 1. */
static void widen_rows(model_pass *p, const walk_shape *s, size_t layer, block_activations *b, size_t r0,
                       size_t rows)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  block_weights weights = model_block_weights(p->model, layer);
  size_t c0 = r0 * s->width;
  add_to_residual(p, s, layer, DROP_ATTENTION, r0, rows, b->x + c0, b->attended + r0 * s->attended,
                  &weights.attention_output, w->output_bias, (s->output_norm ? b->joined : b->middle) + c0);
  if (s->output_norm) norm_output(p, s, layer, b, r0, rows);
  norm_between(p, s, layer, b, r0, rows);
  linear(p, rows, p->normed + c0, &weights.input, w->input_bias, NULL, b->inner + r0 * s->inner, s->inner);
}

/* out = the norm that ends a block with norms after its parts. */
static void norm_after(const model_pass *p, const walk_shape *s, size_t layer, block_activations *b, float *out,
                       size_t r0, size_t rows)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  op_norm_forward(p->model->context, s->norm, rows, 1, s->width, b->summed + r0 * s->width, s->width,
                  w->feed_forward_norm_gain, w->feed_forward_norm_shift, out, s->width, b->mean2 + r0,
                  b->rstd2 + r0);
}

static void finish_rows(model_pass *p, const walk_shape *s, size_t layer, block_activations *b, float *out,
                        size_t r0, size_t rows)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  block_weights weights = model_block_weights(p->model, layer);
  size_t c0 = r0 * s->width, f0 = r0 * s->forward;
  widen_rows(p, s, layer, b, r0, rows);
  op_activation_forward(p->model->context, s->activation, rows, s->forward, b->inner + r0 * s->inner,
                        p->wide + f0);
  add_to_residual(p, s, layer, DROP_FEED_FORWARD, r0, rows, (s->post ? p->normed : b->middle) + c0, p->wide + f0,
                  &weights.output, w->feed_forward_output_bias, (s->post ? b->summed : out) + c0);
  if (s->post) norm_after(p, s, layer, b, out + c0, r0, rows);
}

void walk_again(model_pass *p, const walk_shape *s, size_t layer)
{
  project(p, s, layer, &p->blocks[layer]);
  widen_rows(p, s, layer, &p->blocks[layer], 0, s->rows);
  if (s->post) norm_after(p, s, layer, &p->blocks[layer], p->hidden, 0, s->rows); /* for its moments */
}

/* out = x of the next block; may be b->x. */
static status run_block(model_pass *p, const walk_shape *s, size_t layer, block_activations *b, float *out,
                        alibi_error *error)
{
  project(p, s, layer, b);
  if (b->gates) gate(p, s, layer, b);
  status result = attend(p, s, layer, b, error);
  if (result != ALIBI_OK) return result;
  if (layer + 1 < (size_t)p->model->config.layers || !p->spares_rows) {
    finish_rows(p, s, layer, b, out, 0, s->rows);
    return ALIBI_OK;
  }
  for (size_t i = 0; i < p->segment_count; i++)
    finish_rows(p, s, layer, b, out, p->attention[i].row, p->attention[i].rows);
  return ALIBI_OK;
}

/* A run of a sequence that several ranks hold. */
static status enter_shared(model_pass *p, const pass_segment *s, size_t row, size_t segment, alibi_error *error)
{
  size_t first = 0, rows = p->shape.length;
  if (p->shared)
    shared_rows(comm_ranks(p->shape.ranks), comm_rank(p->shape.ranks), p->shape.length, &first, &rows);
  if (s->first != first || s->cache || wanted_rows(s) < s->count || (p->shared && s->count != rows))
    return fail(error, ALIBI_INVALID,
                "a pass: expected a run of %zu tokens from position %zu on, all wanted and without a cache, found "
                "%zu from %zu on",
                rows, first, s->count, s->first);
  p->sequences[segment] = (shared_sequence){.length = p->shape.length, .row = row, .first = first, .rows = rows};
  return ALIBI_OK;
}

static status check_carry(const model_pass *p, const pass_segment *s, size_t count, alibi_error *error)
{
  if (p->shape.carries && count == 1 && !s->cache && !p->shape.keep && !p->shared && s->seen <= s->first &&
      s->seen <= p->shape.carried)
    return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "a pass: expected one run that sees at most %zu tokens before itself, found %zu, from %zu on, that "
              "see %zu",
              p->shape.carried, count, s->first, s->seen);
}

/* A run that goes on from others: attention counts positions from the first key that is seen. */
static void enter_carry(model_pass *p, const pass_segment *s)
{
  carry_enter(s->carry, s->seen, s->count, s->first == 0);
  p->attention[0].first = (ptrdiff_t)s->seen;
  p->attention[0].keys = s->seen + s->count;
  p->attention[0].key_row = carry_row(s->carry, s->seen);
  p->attention[0].origin = (ptrdiff_t)(s->first - s->seen);
  for (size_t t = 0; t < s->count; t++) p->seen_before[t] = s->seen + t;
}

/* Checks the run and writes down where each row stands. */
static status enter(model_pass *p, const uint32_t *tokens, const pass_segment *segments, size_t count,
                    alibi_error *error)
{
  size_t row = 0;
  p->spares_rows = p->drops = false;
  if (count > p->shape.segments)
    return fail(error, ALIBI_INVALID, "a pass: expected at most %zu runs, found %zu", p->shape.segments, count);
  for (size_t i = 0; i < count; i++) {
    const pass_segment *s = &segments[i];
    p->failed_segment = i;
    if (!p->model->config.causal && (s->cache || s->carry || s->first > 0))
      return model_check_causal(p->model, "sequences in parts", error);
    if (s->count > p->shape.rows - row)
      return fail(error, ALIBI_INVALID, "a pass: expected at most %zu tokens", p->shape.rows);
    if (s->first + s->count > p->shape.length || (s->cache && s->first + s->count > s->cache->capacity))
      return fail(error, ALIBI_INVALID, "position %zu: beyond the %zu that were prepared", s->first + s->count - 1,
                  s->cache ? s->cache->capacity : p->shape.length);
    status result = ALIBI_OK;
    if (s->carry) result = check_carry(p, s, count, error);
    else if (p->shared || (s->first > 0 && !s->cache)) result = enter_shared(p, s, row, i, error);
    if (result != ALIBI_OK) return result;
    if (wanted_rows(s) < s->count) p->spares_rows = true;
    if (s->cache && s->cache->pool) p->drops = true;
    p->attention[i] = (attention_segment){
        .row = row, .rows = s->count, .first = (ptrdiff_t)s->first, .keys = s->first + s->count, .key_row = row};
    for (size_t t = 0; t < s->count; t++, row++) {
      p->positions[row] = s->first + t;
      if (tokens[row] >= (uint64_t)p->model->config.vocabulary)
        return fail(error, ALIBI_INVALID, "token %u: expected an id below the vocabulary of %lld", tokens[row],
                    (long long)p->model->config.vocabulary);
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (!segments[i].cache) continue;
    p->failed_segment = i;
    status result = block_cache_reserve(segments[i].cache, segments[i].first, segments[i].count, error);
    if (result != ALIBI_OK) return result;
  }
  p->rows = row;
  p->tokens = tokens;
  p->segments = segments;
  p->segment_count = count;
  if (carry_of(p)) enter_carry(p, segments);
  return ALIBI_OK;
}

/* x of the first block: the tokens' embeddings and what a method adds, shifted, normed. */
static void embed(model_pass *p, const walk_shape *s, const uint32_t *tokens)
{
  alibi_context *context = p->model->context;
  const model_parameters *w = &p->model->parameters;
  const position_plan *plan = &p->position.plan;
  matrix table = model_embedding_weight(p->model);
  float *x = p->blocks[0].x, *first = p->embedded ? p->embedded : x;
  float scale = plan->embedding_scale * (float)p->model->config.embedding_scale;
  op_embedding_forward(context, s->rows, s->width, tokens, p->positions, scale, &table, plan->embedding, first);
  if (w->embedding_shift) op_shift_rows(context, s->rows, s->width, w->embedding_shift, first);
  if (p->embedded)
    op_norm_forward(context, s->norm, s->rows, 1, s->width, first, s->width, w->embedding_norm_gain,
                    w->embedding_norm_shift, x, s->width, p->embedded_mean, p->embedded_rstd);
  if (walk_drops(p)) walk_drop(p, s, 0, DROP_EMBEDDING, 0, s->rows, x, x, false);
}

/* hidden of the rows that segments want. */
static void finish(model_pass *p, const walk_shape *s)
{
  const model_parameters *w = &p->model->parameters;
  for (size_t i = 0; i < p->segment_count; i++) {
    size_t r0 = p->attention[i].row, rows = p->attention[i].rows, c0 = r0 * s->width;
    if (w->final_norm_gain)
      op_norm_forward(p->model->context, s->norm, rows, 1, s->width, p->residual + c0, s->width,
                      w->final_norm_gain, w->final_norm_shift, p->hidden + c0, s->width, p->final_mean + r0,
                      p->final_rstd + r0);
    else op_copy(p->model->context, rows * s->width, p->residual + c0, p->hidden + c0);
  }
}

status model_forward(model_pass *p, const uint32_t *tokens, const pass_segment *segments, size_t count,
                     alibi_error *error)
{
  status result = comm_agree(p->shape.ranks, enter(p, tokens, segments, count, error), error);
  if (result != ALIBI_OK) return result;
  walk_shape s = walk_shape_of(p);
  size_t layers = (size_t)p->model->config.layers;
  embed(p, &s, tokens);
  if (p->watch.see) p->watch.see(p->watch.user, 0, p->blocks[0].x);
  for (size_t layer = 0; layer < layers; layer++) {
    bool last = layer + 1 == layers;
    block_activations *b = &p->blocks[p->shape.keep ? layer : 0];
    float *out = last || !p->shape.keep ? p->residual : p->blocks[layer + 1].x;
    result = run_block(p, &s, layer, b, out, error);
    if (result == ALIBI_OK && p->shape.stops_when_cancelled)
      result = context_check_cancel(p->model->context, error);
    if (result != ALIBI_OK) return result;
    if (p->watch.see) p->watch.see(p->watch.user, layer + 1, out);
  }
  finish(p, &s);
  if (carry_of(p)) carry_leave(carry_of(p), s.rows);
  return ALIBI_OK;
}

/* Is logits[target] the first largest one? */
static bool is_first_largest(const float *logits, size_t vocabulary, size_t target)
{
  float value = logits[target];
  int not_above = 1; /* without a branch, so that it is done in vectors */
  for (size_t v = 0; v < target; v++) not_above &= logits[v] < value;
  for (size_t v = target; v < vocabulary; v++) not_above &= logits[v] <= value;
  return not_above;
}

void model_losses(model_pass *p, const size_t *rows, const uint32_t *targets, size_t count, float *losses)
{
  model_losses_and_hits(p, rows, targets, count, losses, NULL);
}

void model_losses_and_hits(model_pass *p, const size_t *rows, const uint32_t *targets, size_t count, float *losses,
                           unsigned char *hits)
{
  alibi_context *context = p->model->context;
  size_t width = (size_t)p->model->config.width, vocabulary = (size_t)p->model->config.vocabulary;
  for (size_t start = 0; start < count; start += p->shape.head_rows) {
    size_t n = count - start < p->shape.head_rows ? count - start : p->shape.head_rows;
    for (size_t i = 0; i < n; i++)
      memcpy(p->gathered + i * width, p->hidden + rows[start + i] * width, width * sizeof *p->gathered);
    model_head(p->model, &p->work, n, p->gathered, p->logits);
    op_cross_entropy(context, n, vocabulary, p->logits, targets + start, 0, 0, losses + start, NULL);
    for (size_t i = 0; hits && i < n; i++)
      hits[start + i] = is_first_largest(p->logits + i * vocabulary, vocabulary, targets[start + i]);
  }
}

void model_logits(model_pass *p, size_t row, float *logits)
{
  model_head(p->model, &p->work, 1, p->hidden + row * (size_t)p->model->config.width, logits);
}
