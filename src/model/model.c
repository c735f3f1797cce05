/* Making a model in memory, and its weights as operands. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#include "op/pointwise.h"

static status allocate(alibi_context *context, const alibi_model_config *config, bool placed, alibi_model **out,
                       alibi_error *error)
{
  alibi_model *model = NULL;
  status result;
  TRY(memory_new(&model, 1, sizeof *model, "a model", error));
  model->context = context;
  model->config = *config;
  TRY(model_config_resolve(&model->config, error));
  model->method = model_config_method(&model->config);
  TRY((placed ? parameter_list_new_placed : parameter_list_new)(&model->config, &model->list, error));
  if (placed)
    TRY(memory_new(&model->placed, weight_slots(&model->config), sizeof *model->placed, "the list of weights",
                   error));
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
  return result == ALIBI_OK ? allocate(context, &own, false, model, error) : result;
}

status model_allocate_placed(alibi_context *context, const alibi_model_config *config, alibi_model **model,
                             alibi_error *error)
{
  alibi_model_config own;
  *model = NULL;
  status result = model_config_take(config, &own, error);
  return result == ALIBI_OK ? allocate(context, &own, true, model, error) : result;
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
  for (size_t i = 0; model->placed && i < weight_slots(&model->config); i++)
    memory_free((void *)model->placed[i].parts);
  memory_free(model->placed);
  model_parameters_free(&model->parameters);
  parameter_list_free(&model->list);
  memory_free(model->values);
  if (model->close_file) model->close_file(model->file);
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

/* ---- weights that lie elsewhere ---- */

bool model_is_placed(const alibi_model *model)
{
  return model->placed != NULL;
}

/* One block: the parts, and their row scales behind them. */
static status copy_parts(const matrix_part *parts, size_t count, matrix_part **copy, alibi_error *error)
{
  size_t scales = 0, bytes = size_mul(count, sizeof *parts);
  for (size_t i = 0; i < count; i++)
    if (parts[i].row_scales) scales = size_add(scales, parts[i].rows);
  char *memory;
  status result =
      memory_new(&memory, size_add(bytes, size_mul(scales, sizeof(float))), 1, "the parts of a weight", error);
  if (result != ALIBI_OK) return result;
  float *scale = (float *)(memory + bytes);
  *copy = (matrix_part *)memory;
  memcpy(*copy, parts, bytes);
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].row_scales) continue;
    memcpy(scale, parts[i].row_scales, parts[i].rows * sizeof *scale);
    (*copy)[i].row_scales = scale;
    scale += parts[i].rows;
  }
  return ALIBI_OK;
}

static status check_part(const parameter *p, size_t index, const matrix_part *part, alibi_error *error)
{
  size_t elements = (unsigned)part->type < WEIGHT_TYPES ? weight_block_elements(part->type) : 0;
  bool plain = elements == 1;
  if (elements == 0)
    return fail(error, ALIBI_INVALID, "weight '%s', part %zu: expected a known type, found %d", p->name, index,
                (int)part->type);
  if (part->rows == 0 || !part->data)
    return fail(error, ALIBI_INVALID, "weight '%s', part %zu: expected rows and their data, found none", p->name,
                index);
  if (p->columns % elements != 0)
    return fail(error, ALIBI_INVALID,
                "weight '%s', part %zu: expected rows of whole blocks of %zu numbers for the type %s, found %zu "
                "numbers a row",
                p->name, index, elements, weight_type_name(part->type), p->columns);
  if (part->group > 0 && part->rows % part->group != 0)
    return fail(error, ALIBI_INVALID, "weight '%s', part %zu: expected whole groups of %zu rows, found %zu rows",
                p->name, index, part->group, part->rows);
  if (part->turned && (!plain || part->group > 0))
    return fail(error, ALIBI_INVALID,
                "weight '%s', part %zu: expected a turned matrix of single numbers without groups, found %s",
                p->name, index, weight_type_name(part->type));
  return ALIBI_OK;
}

status model_place(alibi_model *model, const parameter *p, const matrix_part *parts, size_t count,
                   alibi_error *error)
{
  size_t rows = 0;
  matrix_part *copy;
  if (!model->placed || !p->placeable)
    return fail(error, ALIBI_INVALID, "parameter '%s': expected a weight that may lie elsewhere", p->name);
  for (size_t i = 0; i < count; i++) {
    status result = check_part(p, i, &parts[i], error);
    if (result != ALIBI_OK) return result;
    rows = size_add(rows, parts[i].rows);
  }
  if (rows != p->rows)
    return fail(error, ALIBI_INVALID, "weight '%s': expected %zu rows in all of its parts, found %zu", p->name,
                p->rows, rows);
  status result = copy_parts(parts, count, &copy, error);
  if (result != ALIBI_OK) return result;
  memory_free((void *)model->placed[p->slot].parts);
  model->placed[p->slot] = matrix_of_parts(copy, count, p->rows, p->columns);
  return ALIBI_OK;
}

status model_check_placed(const alibi_model *model, alibi_error *error)
{
  for (size_t i = 0; model->placed && i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    if (p->placeable && !model->placed[p->slot].parts)
      return fail(error, ALIBI_INVALID, "weight '%s': expected it placed, found it nowhere", p->name);
  }
  return ALIBI_OK;
}

void model_read_rows(const alibi_model *model, const parameter *p, size_t first, size_t count, float *out)
{
  if (!(model->placed && p->placeable)) {
    memcpy(out, model->values + p->offset + first * p->columns, count * p->columns * sizeof *out);
    return;
  }
  enum { SOME = 64 };
  uint32_t rows[SOME];
  for (size_t r = 0, n; r < count; r += n) { /* a token's embedding is a row, of any matrix */
    n = count - r < SOME ? count - r : SOME;
    for (size_t i = 0; i < n; i++) rows[i] = (uint32_t)(first + r + i);
    op_embedding_forward(model->context, n, p->columns, rows, NULL, 1, &model->placed[p->slot], NULL,
                         out + r * p->columns);
  }
}

static void add_part_to_fingerprint(const matrix_part *part, size_t columns, fingerprint *f)
{
  size_t lines = part->turned ? columns : part->rows, numbers = part->turned ? part->rows : columns;
  size_t bytes = numbers / weight_block_elements(part->type) * weight_block_bytes(part->type);
  int type = (int)part->type;
  fingerprint_add(f, &type, sizeof type);
  for (size_t i = 0; i < lines; i++) {
    size_t at = part->group ? i / part->group * part->group_bytes + i % part->group * part->row_bytes
                            : i * part->row_bytes;
    fingerprint_add(f, (const char *)part->data + at, bytes);
  }
  if (part->row_scales) fingerprint_add(f, part->row_scales, part->rows * sizeof *part->row_scales);
}

void model_add_to_fingerprint(const alibi_model *model, fingerprint *f)
{
  fingerprint_add(f, model->values, model->list.floats * sizeof *model->values);
  for (size_t i = 0; model->placed && i < weight_slots(&model->config); i++)
    for (size_t k = 0; k < model->placed[i].part_count; k++)
      add_part_to_fingerprint(&model->placed[i].parts[k], model->placed[i].columns, f);
  if (model->placed && model->placed->rounded)
    fingerprint_add(f, &model->placed->rounded, sizeof model->placed->rounded);
}

void model_round_activations(alibi_model *model)
{
  for (size_t i = 0; model->placed && i < weight_slots(&model->config); i++) model->placed[i].rounded = true;
}

/* ---- what it may be used for ---- */

status model_check_trainable(const alibi_model *model, alibi_error *error)
{
  if (model->placed)
    return fail(error, ALIBI_INVALID,
                "a model whose weights lie in the file they were opened from cannot be trained: expected one in "
                "memory (save it, and open what was saved)");
  return model_check_causal(model, "training", error);
}

status model_check_causal(const alibi_model *model, const char *what, alibi_error *error)
{
  if (model->config.causal) return ALIBI_OK;
  return fail(
      error, ALIBI_INVALID,
      "%s: expected a model whose tokens see only those before them (causal), found one that sees both sides",
      what);
}

/* ---- weights as operands ---- */

static matrix weight(const alibi_model *model, const float *data, size_t rows, size_t columns, size_t index)
{
  if (model->placed) return model->placed[index];
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
      .qkv = weight(model, b->qkv_weight, (size_t)(c->heads + 2 * c->kv_heads) * d, width, index + WEIGHT_QKV),
      .attention_output =
          weight(model, b->output_weight, width, (size_t)c->heads * d, index + WEIGHT_ATTENTION_OUTPUT),
      .input = weight(model, b->input_weight, inner, width, index + WEIGHT_INPUT),
      .output = weight(model, b->feed_forward_output_weight, width, forward, index + WEIGHT_OUTPUT)};
}

size_t model_block_offset(const alibi_model *model, size_t layer)
{
  const parameter_list *list = &model->list;
  return list->blocks_from + layer * ((list->blocks_to - list->blocks_from) / (size_t)model->config.layers);
}

matrix model_output_weight(const alibi_model *model)
{
  const alibi_model_config *c = &model->config;
  return weight(model, model->parameters.output_weight, (size_t)c->vocabulary, (size_t)c->width,
                (size_t)c->layers * WEIGHTS_A_BLOCK + (c->tied && model->placed ? WEIGHT_EMBEDDING : WEIGHT_HEAD));
}

matrix model_embedding_weight(const alibi_model *model)
{
  const alibi_model_config *c = &model->config;
  if (model->placed) return model->placed[(size_t)c->layers * WEIGHTS_A_BLOCK + WEIGHT_EMBEDDING];
  return matrix_f32(model->parameters.embedding, (size_t)c->vocabulary, (size_t)c->width);
}

void model_head(const alibi_model *model, const op_workspace *work, size_t rows, const float *hidden,
                float *logits)
{
  const alibi_model_config *c = &model->config;
  matrix head = model_output_weight(model);
  size_t count = rows * head.rows;
  op_linear_forward(model->context, work, rows, hidden, head.columns, &head, NULL, NULL, logits, head.rows);
  if (c->logit_scale != 1) op_scale(model->context, count, (float)c->logit_scale, logits);
  if (c->logit_cap > 0) op_bend(model->context, count, (float)c->logit_cap, logits);
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
  if (model->packed || model->placed) return ALIBI_OK;
  size_t layers = (size_t)model->config.layers, count = weight_slots(&model->config);
  arena a = {0};
  const float **packed = NULL;
  for (int round = 0; round < 2; round++) {
    packed = arena_take(&a, count, sizeof *packed);
    for (size_t layer = 0; layer < layers; layer++) {
      block_weights w = model_block_weights(model, layer);
      pack_one(model, w.qkv, layer * WEIGHTS_A_BLOCK + WEIGHT_QKV, packed, &a);
      pack_one(model, w.attention_output, layer * WEIGHTS_A_BLOCK + WEIGHT_ATTENTION_OUTPUT, packed, &a);
      pack_one(model, w.input, layer * WEIGHTS_A_BLOCK + WEIGHT_INPUT, packed, &a);
      pack_one(model, w.output, layer * WEIGHTS_A_BLOCK + WEIGHT_OUTPUT, packed, &a);
    }
    pack_one(model, model_output_weight(model), layers * WEIGHTS_A_BLOCK + WEIGHT_HEAD, packed, &a);
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

/* With QK-norm of heads, without a shift, no query and no key is longer than its largest gain times sqrt(D), where
 * rows are scaled times the largest of these; without it, who knows. */
static void limit_scores(const model_pass *pass, block_cache *cache)
{
  const alibi_model_config *c = &pass->model->config;
  size_t d = (size_t)c->head_size, kv_heads = (size_t)c->kv_heads;
  double scale = (double)d * (double)model_config_score_scale(c) * (1 + 1e-5);
  for (size_t l = 0; c->qk_norm && c->qk_norm_kind != ALIBI_QK_NORM_FULL && l < cache->lists; l++) {
    const block_parameters *b = &pass->model->parameters.blocks[l / kv_heads];
    if (b->query_norm_shift) break;
    cache->score_limit[l] =
        scale * largest(b->query_norm_gain, d) * largest(b->key_norm_gain, d) * largest_scale(pass, l / kv_heads);
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
                             model_pass_tolerance(pass), cache, error));
    limit_scores(pass, *cache);
    return ALIBI_OK;
  }
  TRY(block_cache_new(model->context->kernel, lists, (size_t)c->head_size, gates, capacity, cache, error));
  if (model->method->decays && model_pass_tolerance(pass) > 0)
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
  status result = block_cache_copy(from, length, capacity, kept, model_pass_tolerance(pass), cache, error);
  if (result == ALIBI_OK) limit_scores(pass, *cache);
  return result;
}
