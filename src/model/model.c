/* Making a model in memory, and its weights as operands. */
#include "model/model.h"

#include <math.h>

static status allocate(alibi_context *context, const alibi_model_config *config, alibi_model **out,
                       alibi_error *error)
{
  alibi_model *model = NULL;
  status result;
  TRY(memory_new(&model, 1, sizeof *model, "a model", error));
  model->context = context;
  model->config = *config;
  TRY(model_config_resolve(&model->config, error));
  model->method = model_config_method(&model->config);
  TRY(parameter_list_new(&model->config, &model->list, error));
  TRY(memory_new(&model->values, model->list.floats, sizeof *model->values, "the parameters", error));
  TRY(model_parameters_new(&model->list, &model->config, model->values, &model->parameters, error));
  *out = model;
  return ALIBI_OK;
done:
  alibi_model_free(model);
  return result;
}

status model_allocate(alibi_context *context, const alibi_model_config *config, alibi_model **model,
                      alibi_error *error)
{
  alibi_model_config own;
  *model = NULL;
  status result = model_config_take(config, &own, error);
  return result == ALIBI_OK ? allocate(context, &own, model, error) : result;
}

status alibi_model_new(alibi_context *context, const alibi_model_config *config, uint64_t seed,
                       alibi_model **model, alibi_error *error)
{
  status result = model_allocate(context, config, model, error);
  if (result == ALIBI_OK) parameter_list_initialise(&(*model)->list, &(*model)->config, seed, (*model)->values);
  return result;
}

void alibi_model_free(alibi_model *model)
{
  if (!model) return;
  model_unpack(model);
  model_parameters_free(&model->parameters);
  parameter_list_free(&model->list);
  memory_free(model->values);
  memory_free(model);
}

const alibi_model_config *alibi_model_get_config(const alibi_model *model)
{
  return &model->config;
}

int64_t alibi_model_parameter_count(const alibi_model *model)
{
  size_t total = 0;
  for (size_t i = 0; i < model->list.count; i++) total += parameter_elements(&model->list.items[i]);
  return (int64_t)total;
}

enum { WEIGHTS_A_BLOCK = 4 };

static matrix weight(const alibi_model *model, const float *data, size_t rows, size_t columns, size_t index)
{
  matrix w = matrix_f32(data, rows, columns);
  if (model->packed) w.packed = model->packed[index];
  return w;
}

block_weights model_block_weights(const alibi_model *model, size_t layer)
{
  const alibi_model_config *c = &model->config;
  const block_parameters *b = &model->parameters.blocks[layer];
  size_t width = (size_t)c->width, d = (size_t)c->head_size, forward = (size_t)c->feed_forward;
  size_t inner = forward * op_activation_parts(model_config_activation(c));
  size_t index = layer * WEIGHTS_A_BLOCK;
  return (block_weights){
      .qkv = weight(model, b->qkv_weight, (size_t)(c->heads + 2 * c->kv_heads) * d, width, index),
      .attention_output = weight(model, b->output_weight, width, (size_t)c->heads * d, index + 1),
      .input = weight(model, b->input_weight, inner, width, index + 2),
      .output = weight(model, b->feed_forward_output_weight, width, forward, index + 3)};
}

size_t model_block_offset(const alibi_model *model, size_t layer)
{
  const model_parameters *p = &model->parameters;
  bool is_last = layer == (size_t)model->config.layers;
  return (size_t)((is_last ? p->final_norm_gain : p->blocks[layer].attention_norm_gain) - model->values);
}

matrix model_output_weight(const alibi_model *model)
{
  const alibi_model_config *c = &model->config;
  return weight(model, model->parameters.output_weight, (size_t)c->vocabulary, (size_t)c->width,
                (size_t)c->layers * WEIGHTS_A_BLOCK);
}

static void pack_one(alibi_model *model, matrix w, size_t index, const float **packed, arena *a)
{
  float *panels = arena_floats(a, op_panel_floats(model->context, w.columns, w.rows));
  if (!panels) return;
  op_pack_weight(model->context, &w, panels);
  packed[index] = panels;
}

status model_pack(alibi_model *model, alibi_error *error)
{
  if (model->packed) return ALIBI_OK;
  size_t layers = (size_t)model->config.layers, count = layers * WEIGHTS_A_BLOCK + 1;
  arena a = {0};
  const float **packed = NULL;
  for (int round = 0; round < 2; round++) {
    packed = arena_take(&a, count, sizeof *packed);
    for (size_t layer = 0; layer < layers; layer++) {
      block_weights w = model_block_weights(model, layer);
      pack_one(model, w.qkv, layer * WEIGHTS_A_BLOCK, packed, &a);
      pack_one(model, w.attention_output, layer * WEIGHTS_A_BLOCK + 1, packed, &a);
      pack_one(model, w.input, layer * WEIGHTS_A_BLOCK + 2, packed, &a);
      pack_one(model, w.output, layer * WEIGHTS_A_BLOCK + 3, packed, &a);
    }
    pack_one(model, model_output_weight(model), count - 1, packed, &a);
    if (round == 0) {
      status result = arena_allocate(&a, "packed weights", error);
      if (result != ALIBI_OK) return result;
    }
  }
  model->packed = packed;
  model->packed_memory = a;
  return ALIBI_OK;
}

void model_unpack(alibi_model *model)
{
  arena_free(&model->packed_memory);
  model->packed = NULL;
}

/* ---- caches ---- */

static double largest(const float *x, size_t count)
{
  double most = 0;
  for (size_t i = 0; i < count; i++) { /* not fmax, on which gcc 12 for ARM breaks */
    double size = fabs((double)x[i]);
    if (size > most) most = size;
  }
  return most;
}

/* Of the scores of a layer's rows. */
static double largest_scale(const model_pass *pass, size_t layer)
{
  const position_plan *plan = &pass->position.plan;
  size_t entries = (size_t)pass->model->config.heads * plan->length;
  return plan->row_scale ? largest(plan->row_scale + (plan->row_scale_sets > 1 ? layer * entries : 0), entries)
                         : 1;
}

/* With QK-norm no query and no key is longer than its largest gain times sqrt(D), where rows are scaled times the
 * largest of these; without it, who knows. */
static void limit_scores(const model_pass *pass, block_cache *cache)
{
  const alibi_model_config *c = &pass->model->config;
  size_t d = (size_t)c->head_size, kv_heads = (size_t)c->kv_heads;
  double scale = sqrt((double)d) * (1 + 1e-5);
  for (size_t l = 0; c->qk_norm && l < cache->lists; l++) {
    const block_parameters *b = &pass->model->parameters.blocks[l / kv_heads];
    cache->score_limit[l] = scale * largest(b->query_norm_gain, d) * largest(b->key_norm_gain, d) *
                            largest_scale(pass, l / kv_heads);
  }
}

status model_cache_new(const model_pass *pass, size_t capacity, size_t kept, block_cache **cache,
                       alibi_error *error)
{
  const alibi_model *model = pass->model;
  const alibi_model_config *c = &model->config;
  size_t lists = (size_t)(c->layers * c->kv_heads), share = (size_t)(c->heads / c->kv_heads);
  size_t gates = pass->position.plan.gated ? share : 0;
  status result;
  if (kept) {
    TRY(block_cache_new_pool(model->context->kernel, lists, (size_t)c->head_size, gates, capacity, kept, share,
                             model->context->tolerance, cache, error));
    limit_scores(pass, *cache);
    return ALIBI_OK;
  }
  TRY(block_cache_new(model->context->kernel, lists, (size_t)c->head_size, gates, capacity, cache, error));
  if (model->method->decays && model->context->tolerance > 0)
    TRY(block_cache_prepare_proof(*cache, share, error));
  return ALIBI_OK;
done:
  block_cache_free(*cache);
  *cache = NULL;
  return result;
}

status model_cache_share(const model_pass *pass, block_cache *from, size_t length, size_t capacity, size_t kept,
                         block_cache **cache, alibi_error *error)
{
  if (!kept) return block_cache_share(from, length, capacity, cache, error);
  status result = block_cache_copy(from, length, capacity, kept, pass->model->context->tolerance, cache, error);
  if (result == ALIBI_OK) limit_scores(pass, *cache);
  return result;
}
