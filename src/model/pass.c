/* The memory of a pass: one arena, laid out by the function that is also used to count it. */
#include <string.h>

#include "model/model.h"

/* Where activations of blocks lie: in `lent` as long as that lasts, else in the pass's own memory. */
typedef struct block_memory {
  arena *own, lent;
} block_memory;

static void *take(block_memory *m, size_t count, size_t size)
{
  size_t bytes = size_round_up(size_mul(count, size), MEMORY_ALIGNMENT);
  return arena_take(size_add(m->lent.used, bytes) <= m->lent.size ? &m->lent : m->own, count, size);
}

static float *take_floats(block_memory *m, size_t count)
{
  return take(m, count, sizeof(float));
}

/* What a pass with recompute keeps of every block. */
static void layout_kept(block_activations *b, const model_pass *p, block_memory *m)
{
  const alibi_model_config *c = &p->model->config;
  size_t rows = p->shape.rows, heads = (size_t)c->heads, of_heads = size_mul(rows, heads);
  b->x = take_floats(m, size_mul(rows, (size_t)c->width));
  b->attended = take_floats(m, size_mul(rows, heads * (size_t)c->head_size));
  b->lse = take_floats(m, of_heads);
  if (p->position.plan.gated) {
    b->gates = take_floats(m, of_heads);
    b->query_offsets = take(m, of_heads, sizeof *b->query_offsets);
    b->key_offsets = take(m, of_heads, sizeof *b->key_offsets);
  }
  if ((p->shape.keep || p->shape.drops) && p->model->method->decays)
    b->visited = take(m, size_mul(of_heads, 2), sizeof *b->visited);
  if (c->norm_place == ALIBI_NORM_POST) b->summed = take_floats(m, size_mul(rows, (size_t)c->width));
}

/* Where QK-norm, or turning, takes from the numbers that a later step of backward needs. */
static bool keeps_raw(const model_pass *p)
{
  return p->model->config.qk_norm || (p->shape.keep && p->model->config.clip_qkv > 0);
}

static void layout_rest(block_activations *b, const model_pass *p, block_memory *m)
{
  const alibi_model_config *c = &p->model->config;
  size_t rows = p->shape.rows, width = (size_t)c->width, d = (size_t)c->head_size, heads = (size_t)c->heads;
  size_t kv = (size_t)c->kv_heads, parts = op_activation_parts(model_config_activation(c));
  b->mean1 = take_floats(m, rows);
  b->rstd1 = take_floats(m, rows);
  b->qkv = take_floats(m, size_mul(rows, (heads + 2 * kv) * d));
  if (keeps_raw(p)) {
    b->raw = take_floats(m, size_mul(rows, (heads + kv) * d));
    b->raw_mean = take_floats(m, size_mul(rows, heads + kv));
    b->raw_rstd = take_floats(m, size_mul(rows, heads + kv));
  }
  if (c->attention_output_norm) {
    b->joined = take_floats(m, size_mul(rows, width));
    b->joined_mean = take_floats(m, rows);
    b->joined_rstd = take_floats(m, rows);
  }
  b->middle = take_floats(m, size_mul(rows, width));
  b->mean2 = take_floats(m, rows);
  b->rstd2 = take_floats(m, rows);
  b->inner = take_floats(m, size_mul(rows, (size_t)c->feed_forward * parts));
}

/* With in_gradients, from the last block back: what a block has there ends where its own gradients begin, and
 * gradients before these are not written until backward is done with the block. */
static void layout_blocks(model_pass *p, arena *a)
{
  size_t layers = p->shape.keep ? (size_t)p->model->config.layers : 1, begin = model_block_offset(p->model, 0);
  float *gradients = p->shape.gradients;
  block_memory memory = {.own = a, .lent = {.base = gradients ? (char *)(gradients + begin) : NULL}};
  block_activations shared = {0};
  p->blocks = arena_take(a, layers, sizeof *p->blocks);
  if (p->shape.recompute) layout_rest(&shared, p, &memory);
  for (size_t layer = layers; layer-- > 0;) {
    block_activations own = shared;
    if (p->shape.in_gradients) memory.lent.size = (model_block_offset(p->model, layer) - begin) * sizeof(float);
    layout_kept(&own, p, &memory);
    if (!p->shape.recompute) layout_rest(&own, p, &memory);
    if (p->blocks) p->blocks[layer] = own;
  }
}

static bool is_shared(const pass_shape *shape)
{
  return comm_ranks(shape->ranks) > 1;
}

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

static void layout_workspace(model_pass *p, arena *a)
{
  const alibi_model_config *c = &p->model->config;
  const alibi_context *context = p->model->context;
  size_t width = (size_t)c->width, d = (size_t)c->head_size, heads = (size_t)c->heads, kv = (size_t)c->kv_heads;
  size_t forward = (size_t)c->feed_forward, inner = forward * op_activation_parts(model_config_activation(c));
  size_t vocabulary = (size_t)c->vocabulary;
  size_t rows = p->shape.keep ? p->shape.rows : 0, head_rows = p->shape.keep ? p->shape.head_rows : 0;
  size_t panels = op_linear_panel_floats(context, rows, (heads + 2 * kv) * d, width);
  panels = larger(panels, op_linear_panel_floats(context, rows, width, heads * d));
  panels = larger(panels, op_linear_panel_floats(context, rows, inner, width));
  panels = larger(panels, op_linear_panel_floats(context, rows, width, forward));
  panels = larger(panels, op_linear_panel_floats(context, head_rows, vocabulary, width));
  if (p->model->packed && !p->shape.keep) panels = 0; /* nothing left to pack, but gates */
  if (p->position.plan.gated) panels = larger(panels, op_linear_panel_floats(context, rows, heads, width));
  p->work.panels = arena_floats(a, panels);
}

static attention_size attention_size_of(const model_pass *p, bool backward)
{
  const alibi_model_config *c = &p->model->config;
  const position_plan *plan = &p->position.plan;
  bool distance = plan->bias == BIAS_DISTANCE, learned = p->model->method->backward != NULL;
  return (attention_size){.segments = p->shape.segments,
                          .queries = p->shape.rows,
                          .keys = is_shared(&p->shape) ? size_mul(p->shape.segments, p->shape.length)
                                                       : size_add(p->shape.rows, p->shape.carried),
                          .heads = (size_t)c->heads,
                          .kv_heads = (size_t)c->kv_heads,
                          .head_size = (size_t)c->head_size,
                          .table_length = distance ? plan->length : 0,
                          .skips = p->model->method->decays,
                          .both_sides = !c->causal,
                          .key_offsets = plan->gated,
                          .backward = backward,
                          .table_grad = backward && distance && learned,
                          .slope_grad = backward && plan->bias == BIAS_SLOPE && learned,
                          .query_offset_grad = backward && plan->gated};
}

/* What attention needs at most. */
static size_t attention_bytes(const model_pass *p)
{
  attention_size forward = attention_size_of(p, false), backward = attention_size_of(p, true);
  if (is_shared(&p->shape)) return shared_attention_bytes(p->model->context, p->shape.keep ? &backward : &forward);
  size_t bytes = op_attention_bytes(p->model->context, &forward);
  return p->shape.keep ? larger(bytes, op_attention_bytes(p->model->context, &backward)) : bytes;
}

static void layout_attention(model_pass *p, arena *a)
{
  size_t layers = p->shape.keep ? (size_t)p->model->config.layers : 1;
  if (!is_shared(&p->shape)) {
    p->attention_memory = arena_take(a, attention_bytes(p), 1);
    return;
  }
  p->sequences = arena_take(a, p->shape.segments, sizeof *p->sequences);
  p->reach = arena_take(a, size_mul(layers, p->shape.segments), sizeof *p->reach);
}

static bool has_tails(const model_pass *p)
{
  return p->position.plan.bias == BIAS_DISTANCE && p->model->method->decays && model_pass_tolerance(p) > 0;
}

static void layout_tails(model_pass *p, arena *a)
{
  const position_plan *plan = &p->position.plan;
  size_t heads = size_mul(plan->sets, (size_t)p->model->config.heads);
  if (!has_tails(p)) return;
  p->tails.before = arena_floats(a, size_mul(heads, op_tail_entries(plan->length)));
  p->tails.largest_factors = arena_floats(a, heads);
}

/* The sets lie one after the other, like heads. */
static void fill_tails(model_pass *p)
{
  const position_plan *plan = &p->position.plan;
  if (!has_tails(p)) return;
  op_attention all = {.heads = plan->sets * (size_t)p->model->config.heads,
                      .bias = BIAS_DISTANCE,
                      .table = plan->table,
                      .factors = plan->factors,
                      .table_length = plan->length};
  op_table_tails(p->model->context, &all, p->tails.before, NULL, p->tails.largest_factors);
}

static void layout_backward(model_pass *p, arena *a)
{
  const alibi_model_config *c = &p->model->config;
  size_t width = (size_t)c->width, d = (size_t)c->head_size, heads = (size_t)c->heads, kv = (size_t)c->kv_heads;
  size_t rows = p->shape.rows;
  p->dx = p->residual;
  if (p->wide) {
    p->dqkv = p->wide;
    p->dattended = p->wide + rows * (heads + 2 * kv) * d;
  }
  float **of_gates[] = {&p->dgates, &p->dquery_offsets, &p->dkey_offsets};
  for (size_t i = 0; p->position.plan.gated && i < 3; i++) *of_gates[i] = arena_floats(a, size_mul(rows, heads));
  if (c->parallel != ALIBI_PARALLEL_NONE || c->attention_output_norm)
    p->dbeside = arena_floats(a, size_mul(rows, width));
  if (c->logit_cap > 0) p->bent = arena_floats(a, size_mul(p->shape.head_rows, (size_t)c->vocabulary));
  bool learned = p->model->method->backward != NULL;
  if (p->position.plan.embedding && learned)
    p->position_grad.embedding = arena_floats(a, size_mul(p->shape.length, width));
  const position_plan *plan = &p->position.plan;
  size_t entries = size_mul(size_mul(plan->sets, heads), p->shape.length);
  size_t scales = size_mul(size_mul(plan->row_scale_sets, heads), p->shape.length);
  bool scale_learned = learned || p->model->parameters.score_scale;
  if (plan->bias == BIAS_DISTANCE && learned) p->position_grad.table = arena_floats(a, entries);
  if (plan->row_scale && scale_learned) p->position_grad.row_scale = arena_floats(a, scales);
  if (plan->bias == BIAS_SLOPE && learned)
    p->position_grad.slopes = arena_take(a, size_mul(plan->sets, heads), sizeof *p->position_grad.slopes);
}

/* Memory of the activation's results in a block, of the gradients in backward of its attention, and of logits,
 * when all blocks are done with: one after the other. */
static size_t wide_floats(const model_pass *p)
{
  const alibi_model_config *c = &p->model->config;
  size_t of_attention = (size_t)(2 * c->heads + 2 * c->kv_heads) * (size_t)c->head_size;
  size_t columns = p->shape.keep ? larger((size_t)c->feed_forward, of_attention) : (size_t)c->feed_forward;
  return larger(size_mul(p->shape.rows, columns), size_mul(p->shape.head_rows, (size_t)c->vocabulary));
}

static void layout(model_pass *p, arena *a)
{
  const alibi_model_config *c = &p->model->config;
  size_t rows = p->shape.rows, width = (size_t)c->width;
  layout_workspace(p, a);
  layout_attention(p, a);
  layout_tails(p, a);
  p->positions = arena_take(a, rows, sizeof *p->positions);
  p->seen_before = p->shape.carries ? arena_take(a, rows, sizeof *p->seen_before) : p->positions;
  p->attention = arena_take(a, p->shape.segments, sizeof *p->attention);
  if (p->position.plan.gated) {
    p->gate_runs = arena_take(a, p->shape.segments, sizeof *p->gate_runs);
    p->gate_sums = arena_take(a, size_mul(p->shape.segments, (size_t)c->heads), sizeof *p->gate_sums);
  }
  layout_blocks(p, a);
  if (p->shape.keep) p->residual = arena_floats(a, size_mul(rows, width));
  else if (p->blocks) p->residual = p->blocks[0].x;
  p->final_mean = arena_floats(a, rows);
  p->final_rstd = arena_floats(a, rows);
  p->hidden = arena_floats(a, size_mul(rows, width));
  p->gathered = arena_floats(a, size_mul(p->shape.head_rows, width));
  p->losses = arena_floats(a, rows);
  p->normed = arena_floats(a, size_mul(rows, width));
  p->wide = p->logits = arena_floats(a, wide_floats(p));
  if (c->embedding_norm) {
    p->embedded =
        p->shape.keep ? arena_floats(a, size_mul(rows, width)) : p->hidden; /* not needed before the end */
    p->embedded_mean = arena_floats(a, rows);
    p->embedded_rstd = arena_floats(a, rows);
  }
  if (p->shape.keep) layout_backward(p, a);
}

static status prepare_position(model_pass *p, alibi_error *error)
{
  const alibi_model *model = p->model;
  position_request request = {.shape = model_config_position_shape(&model->config),
                              .options = model->config.position_options.bytes,
                              .length = p->shape.length,
                              .extension = p->shape.extension,
                              .extension_options = p->shape.extension_options,
                              .scaling = {.kind = (score_scaling_kind)model->config.score_scaling,
                                          .values = model->parameters.score_scale}};
  for (size_t i = 0; i < POSITION_MAX_PARAMETERS; i++) request.parameters[i] = model->parameters.position[i];
  if (request.extension) {
    request.extension_length = (size_t)model->config.train_length;
  } else if (model->config.extension[0]) {
    request.extension = position_extension_find(model->config.position, model->config.extension);
    request.extension_options = model->config.extension_options.bytes;
  }
  p->request = request;
  return position_prepare(model->method, &p->request, &p->position, error);
}

/* What attention over ranks cannot do, and sequences that leave a rank without rows. */
static status check_shared(const model_pass *p, alibi_error *error)
{
  const position_plan *plan = &p->position.plan;
  size_t blocks = (p->shape.length + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
  int ranks = comm_ranks(p->shape.ranks);
  if (plan->gated || plan->bias == BIAS_ROWS)
    return fail(
        error, ALIBI_INVALID,
        "position '%s': its sequences cannot be cut among ranks: expected whole ones, found parts on %d ranks",
        p->model->method->name, ranks);
  if (blocks < (size_t)ranks)
    return fail(error, ALIBI_INVALID,
                "sequences on %d ranks: expected more than %d tokens, %d for each rank but the last, found %zu",
                ranks, (ranks - 1) * ATTENTION_BLOCK, ATTENTION_BLOCK, p->shape.length);
  return ALIBI_OK;
}

static status start(alibi_model *model, const pass_shape *shape, model_pass **pass, alibi_error *error)
{
  *pass = NULL;
  if (shape->rows == 0 || shape->segments == 0 || shape->length == 0 || shape->head_rows == 0)
    return fail(error, ALIBI_INVALID, "a pass: expected rows, segments and a length above 0");
  status result = memory_new(pass, 1, sizeof **pass, "a pass", error);
  if (result != ALIBI_OK) return result;
  (*pass)->model = model;
  (*pass)->shape = *shape;
  result = model_check_placed(model, error);
  if (result == ALIBI_OK && (shape->carries || is_shared(shape)))
    result = model_check_causal(model, "sequences in parts", error);
  if (result != ALIBI_OK) return result;
  result = prepare_position(*pass, error);
  return result == ALIBI_OK && is_shared(shape) ? check_shared(*pass, error) : result;
}

status model_pass_new(alibi_model *model, const pass_shape *shape, model_pass **pass, alibi_error *error)
{
  status result;
  TRY(start(model, shape, pass, error));
  layout(*pass, &(*pass)->memory);
  TRY(arena_allocate(&(*pass)->memory, "the activations of a pass", error));
  if (is_shared(shape)) TRY(shared_attention_new(shape->ranks, &(*pass)->shared, error));
  layout(*pass, &(*pass)->memory);
  fill_tails(*pass);
  return ALIBI_OK;
done:
  model_pass_free(*pass);
  *pass = NULL;
  return result;
}

void model_pass_free(model_pass *pass)
{
  if (!pass) return;
  shared_attention_free(pass->shared);
  position_release(&pass->position);
  arena_free(&pass->memory);
  memory_free(pass);
}

status model_pass_check(alibi_model *model, const pass_shape *shape, alibi_error *error)
{
  model_pass *pass;
  status result = start(model, shape, &pass, error);
  model_pass_free(pass);
  return result;
}

size_t model_pass_bytes(alibi_model *model, const pass_shape *shape)
{
  model_pass *pass;
  size_t bytes = 0;
  if (start(model, shape, &pass, NULL) == ALIBI_OK) {
    arena counted = {0};
    layout(pass, &counted);
    bytes = size_add(counted.used, pass->position.memory.size);
    if (is_shared(shape)) bytes = size_add(bytes, attention_bytes(pass)); /* taken as keys travel */
  }
  model_pass_free(pass);
  return bytes;
}

void model_pass_refresh(model_pass *pass)
{
  const position_method *method = pass->model->method;
  position_fill(method, &pass->request, &pass->position.plan);
  if (method->parameters) fill_tails(pass);
}
