/* The list of parameters, made from the configuration in the order in which they are stored. */
#include "model/parameters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "op/op.h"
#include "position/score_scaling.h"

enum { OFFSET_MULTIPLE = 16 };

size_t parameter_elements(const parameter *p)
{
  return size_mul(p->rows, p->columns);
}

enum { NOT_PLACEABLE = -1 };

/* slot: where a weight may lie elsewhere, else NOT_PLACEABLE. */
static status add_at(parameter_list *list, ptrdiff_t slot, const char *prefix, const char *name, size_t rows,
                     size_t columns, parameter_initial initial, bool decay, alibi_error *error)
{
  status result = memory_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items,
                              "the list of parameters", error);
  if (result != ALIBI_OK) return result;
  parameter *p = &list->items[list->count++];
  *p = (parameter){.rows = rows,
                   .columns = columns ? columns : 1,
                   .vector = columns == 0,
                   .decay = decay,
                   .initial = initial,
                   .offset = list->floats,
                   .placeable = slot != NOT_PLACEABLE,
                   .slot = slot != NOT_PLACEABLE ? (size_t)slot : SIZE_MAX};
  snprintf(p->name, sizeof p->name, "%.31s%.63s", prefix, name);
  if (!(list->placed && p->placeable))
    list->floats = size_add(list->floats, size_round_up(parameter_elements(p), OFFSET_MULTIPLE));
  return ALIBI_OK;
}

static status add(parameter_list *list, const char *prefix, const char *name, size_t rows, size_t columns,
                  parameter_initial initial, bool decay, alibi_error *error)
{
  return add_at(list, NOT_PLACEABLE, prefix, name, rows, columns, initial, decay, error);
}

static status add_norm(parameter_list *list, const alibi_model_config *c, const char *prefix, const char *name,
                       size_t channels, alibi_error *error)
{
  char full[64];
  status result;
  snprintf(full, sizeof full, "%s.gain", name);
  TRY(add(list, prefix, full, channels, 0, INITIAL_ONE, false, error));
  snprintf(full, sizeof full, "%s.shift", name);
  if (c->norm_bias) TRY(add(list, prefix, full, channels, 0, INITIAL_ZERO, false, error));
done:
  return result;
}

static status add_linear(parameter_list *list, size_t slot, bool bias, const char *prefix, const char *name,
                         size_t out, size_t in, parameter_initial initial, alibi_error *error)
{
  char full[64];
  status result;
  snprintf(full, sizeof full, "%s.weight", name);
  TRY(add_at(list, (ptrdiff_t)slot, prefix, full, out, in, initial, true, error));
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) TRY(add(list, prefix, full, out, 0, INITIAL_ZERO, false, error));
done:
  return result;
}

static status add_qk_norm(parameter_list *list, const alibi_model_config *c, const char *prefix,
                          alibi_error *error)
{
  size_t d = (size_t)c->head_size;
  status result = ALIBI_OK;
  if (!c->qk_norm) return ALIBI_OK;
  if (c->qk_norm_kind != ALIBI_QK_NORM_HEAD) {
    bool full = c->qk_norm_kind == ALIBI_QK_NORM_FULL;
    TRY(add_norm(list, c, prefix, "attention.query_norm", full ? (size_t)c->heads * d : d, error));
    TRY(add_norm(list, c, prefix, "attention.key_norm", full ? (size_t)c->kv_heads * d : d, error));
    goto done;
  }
  TRY(add(list, prefix, "attention.query_norm.gain", d, 0, INITIAL_ONE, false, error));
  TRY(add(list, prefix, "attention.key_norm.gain", d, 0, INITIAL_ONE, false, error));
done:
  return result;
}

static status add_block(parameter_list *list, const alibi_model_config *c, size_t layer, alibi_error *error)
{
  size_t width = (size_t)c->width, d = (size_t)c->head_size, forward = (size_t)c->feed_forward;
  size_t inner = forward * op_activation_parts(model_config_activation(c));
  size_t attended = size_mul((size_t)c->heads, d), qkv = size_mul((size_t)(c->heads + 2 * c->kv_heads), d);
  size_t slot = layer * WEIGHTS_A_BLOCK;
  char prefix[32];
  status result;
  snprintf(prefix, sizeof prefix, "blocks.%zu.", layer);
  TRY(add_norm(list, c, prefix, "attention_norm", width, error));
  TRY(add_linear(list, slot + WEIGHT_QKV, model_config_bias(c, c->qkv_bias), prefix, "attention.qkv", qkv, width,
                 INITIAL_NORMAL, error));
  TRY(add_qk_norm(list, c, prefix, error));
  TRY(add_linear(list, slot + WEIGHT_ATTENTION_OUTPUT, model_config_bias(c, c->attention_output_bias), prefix,
                 "attention.output", width, attended, INITIAL_RESIDUAL, error));
  if (c->attention_output_norm) TRY(add_norm(list, c, prefix, "attention.output_norm", width, error));
  if (c->parallel != ALIBI_PARALLEL_ONE_NORM) TRY(add_norm(list, c, prefix, "feed_forward_norm", width, error));
  TRY(add_linear(list, slot + WEIGHT_INPUT, model_config_bias(c, c->input_bias), prefix, "feed_forward.input",
                 inner, width, INITIAL_NORMAL, error));
  TRY(add_linear(list, slot + WEIGHT_OUTPUT, model_config_bias(c, c->output_bias), prefix, "feed_forward.output",
                 width, forward, INITIAL_RESIDUAL, error));
done:
  return result;
}

static size_t method_parameters(const alibi_model_config *c, position_parameter *list)
{
  const position_method *method = model_config_method(c);
  position_shape shape = model_config_position_shape(c);
  return method->parameters ? method->parameters(&shape, c->position_options.bytes, list) : 0;
}

static status add_score_scale(parameter_list *list, const alibi_model_config *c, alibi_error *error)
{
  position_shape shape = model_config_position_shape(c);
  position_parameter own;
  if (!score_scaling_parameters((score_scaling_kind)c->score_scaling, &shape, &own)) return ALIBI_OK;
  return add(list, "", own.name, own.rows, own.columns, INITIAL_SCORE_SCALE, own.decay, error);
}

static status list_new(const alibi_model_config *config, bool placed, parameter_list *list, alibi_error *error)
{
  position_parameter own[POSITION_MAX_PARAMETERS];
  size_t vocabulary = (size_t)config->vocabulary, width = (size_t)config->width;
  size_t own_count = method_parameters(config, own), beside = (size_t)config->layers * WEIGHTS_A_BLOCK;
  status result;
  *list = (parameter_list){.placed = placed};
  TRY(add_at(list, (ptrdiff_t)(beside + WEIGHT_EMBEDDING), "", "embedding.weight", vocabulary, width,
             INITIAL_EMBEDDING, true, error));
  if (config->embedding_shift) TRY(add(list, "", "embedding.shift", width, 0, INITIAL_ZERO, false, error));
  if (config->embedding_norm) TRY(add_norm(list, config, "", "embedding_norm", width, error));
  for (size_t i = 0; i < own_count; i++)
    TRY(add(list, "", own[i].name, own[i].rows, own[i].columns, INITIAL_POSITION, own[i].decay, error));
  TRY(add_score_scale(list, config, error));
  list->blocks_from = list->floats;
  for (size_t layer = 0; layer < (size_t)config->layers; layer++) TRY(add_block(list, config, layer, error));
  list->blocks_to = list->floats;
  if (config->final_norm) TRY(add_norm(list, config, "", "final_norm", width, error));
  if (!config->tied)
    TRY(add_at(list, (ptrdiff_t)(beside + WEIGHT_HEAD), "", "output.weight", vocabulary, width, INITIAL_NORMAL,
               true, error));
done:
  if (result != ALIBI_OK) parameter_list_free(list);
  return result;
}

status parameter_list_new(const alibi_model_config *config, parameter_list *list, alibi_error *error)
{
  return list_new(config, false, list, error);
}

status parameter_list_new_placed(const alibi_model_config *config, parameter_list *list, alibi_error *error)
{
  return list_new(config, true, list, error);
}

void parameter_list_free(parameter_list *list)
{
  free(list->items);
  *list = (parameter_list){0};
}

const parameter *parameter_find(const parameter_list *list, const char *name)
{
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].name, name) == 0) return &list->items[i];
  return NULL;
}

void parameter_list_initialise(const parameter_list *list, const alibi_model_config *config, uint64_t seed,
                               float *values)
{
  const position_method *method = model_config_method(config);
  position_shape shape = model_config_position_shape(config);
  double deviation = config->initial_deviation, residual = deviation / sqrt(2.0 * (double)config->layers);
  double embedding =
      config->embedding_deviation > 0 ? config->embedding_deviation : 1 / sqrt((double)config->width);
  position_request request = {
      .shape = shape, .options = config->position_options.bytes, .length = (size_t)config->train_length};
  bool scaled = config->score_scaling == ALIBI_SCORE_SCALING_SSMAX;
  float score_scale = scaled ? score_scaling_initial(&shape, position_outline(method, &request).window) : 0;
  size_t own = 0;
  for (size_t i = 0; i < list->count; i++) {
    const parameter *p = &list->items[i];
    if (list->placed && p->placeable) continue;
    float *value = values + p->offset;
    size_t elements = parameter_elements(p);
    /* The stream is the parameter's own name, so that methods with other parameters share the rest. */
    uint64_t stream = 14695981039346656037u; /* FNV-1a */
    for (const char *c = p->name; *c; c++) stream = (stream ^ (unsigned char)*c) * 1099511628211u;
    for (size_t e = 0; e < elements; e++) {
      bool constant = p->initial == INITIAL_ONE || p->initial == INITIAL_ZERO || p->initial == INITIAL_SCORE_SCALE;
      double normal = constant ? 0 : random_normal(seed, stream, e);
      switch (p->initial) {
      case INITIAL_NORMAL: value[e] = (float)(deviation * normal); break;
      case INITIAL_EMBEDDING: value[e] = (float)(embedding * normal); break;
      case INITIAL_RESIDUAL: value[e] = (float)(residual * normal); break;
      case INITIAL_ONE: value[e] = 1; break;
      case INITIAL_ZERO: value[e] = 0; break;
      case INITIAL_POSITION:
        value[e] = method->initial ? method->initial(&shape, config->position_options.bytes, own, e, normal) : 0;
        break;
      case INITIAL_SCORE_SCALE: value[e] = score_scale; break;
      }
    }
    if (p->initial == INITIAL_POSITION) own++;
  }
}

static float *locate(const parameter_list *list, float *block, const char *prefix, const char *name)
{
  char full[96];
  snprintf(full, sizeof full, "%.31s%.63s", prefix, name);
  const parameter *p = parameter_find(list, full);
  return p && !(list->placed && p->placeable) ? block + p->offset : NULL;
}

status model_parameters_new(const parameter_list *list, const alibi_model_config *config, float *block,
                            model_parameters *pointers, alibi_error *error)
{
  position_parameter own[POSITION_MAX_PARAMETERS];
  size_t own_count = method_parameters(config, own);
  *pointers = (model_parameters){.block = block};
  status result = memory_new(&pointers->blocks, (size_t)config->layers, sizeof *pointers->blocks,
                             "pointers to parameters", error);
  if (result != ALIBI_OK) return result;
  pointers->embedding = locate(list, block, "", "embedding.weight");
  pointers->embedding_shift = locate(list, block, "", "embedding.shift");
  pointers->embedding_norm_gain = locate(list, block, "", "embedding_norm.gain");
  pointers->embedding_norm_shift = locate(list, block, "", "embedding_norm.shift");
  for (size_t i = 0; i < own_count; i++) pointers->position[i] = locate(list, block, "", own[i].name);
  pointers->score_scale = locate(list, block, "", "position.score_scale");
  for (size_t layer = 0; layer < (size_t)config->layers; layer++) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blocks.%zu.", layer);
    pointers->blocks[layer] =
        (block_parameters){.attention_norm_gain = locate(list, block, prefix, "attention_norm.gain"),
                           .attention_norm_shift = locate(list, block, prefix, "attention_norm.shift"),
                           .qkv_weight = locate(list, block, prefix, "attention.qkv.weight"),
                           .qkv_bias = locate(list, block, prefix, "attention.qkv.bias"),
                           .query_norm_gain = locate(list, block, prefix, "attention.query_norm.gain"),
                           .query_norm_shift = locate(list, block, prefix, "attention.query_norm.shift"),
                           .key_norm_gain = locate(list, block, prefix, "attention.key_norm.gain"),
                           .key_norm_shift = locate(list, block, prefix, "attention.key_norm.shift"),
                           .output_weight = locate(list, block, prefix, "attention.output.weight"),
                           .output_bias = locate(list, block, prefix, "attention.output.bias"),
                           .output_norm_gain = locate(list, block, prefix, "attention.output_norm.gain"),
                           .output_norm_shift = locate(list, block, prefix, "attention.output_norm.shift"),
                           .feed_forward_norm_gain = locate(list, block, prefix, "feed_forward_norm.gain"),
                           .feed_forward_norm_shift = locate(list, block, prefix, "feed_forward_norm.shift"),
                           .input_weight = locate(list, block, prefix, "feed_forward.input.weight"),
                           .input_bias = locate(list, block, prefix, "feed_forward.input.bias"),
                           .feed_forward_output_weight = locate(list, block, prefix, "feed_forward.output.weight"),
                           .feed_forward_output_bias = locate(list, block, prefix, "feed_forward.output.bias")};
  }
  pointers->final_norm_gain = locate(list, block, "", "final_norm.gain");
  pointers->final_norm_shift = locate(list, block, "", "final_norm.shift");
  pointers->output_weight = config->tied ? pointers->embedding : locate(list, block, "", "output.weight");
  return ALIBI_OK;
}

void model_parameters_free(model_parameters *pointers)
{
  memory_free(pointers->blocks);
  *pointers = (model_parameters){0};
}
