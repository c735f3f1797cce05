/* plain_block.h - a decoder or encoder with every field of its configuration, in plain double precision, a number
 * at a time: what the passes of the library are held against.  Shares nothing with them but the list of parameters
 * and the formulas of position methods.  Include after cmocka.h. */
#ifndef UNIT_PLAIN_BLOCK_H
#define UNIT_PLAIN_BLOCK_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

typedef struct plain {
  const alibi_model *model;
  const alibi_model_config *c;
  position_request request;
  size_t tokens, width, heads, kv_heads, d;
} plain;

/* A parameter by its name; NULL: the configuration has none. */
__attribute__((format(printf, 2, 3))) static const float *plain_value(const plain *p, const char *format, ...)
{
  char name[96];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  const parameter *found = parameter_find(&p->model->list, name);
  return found ? p->model->values + found->offset : NULL;
}

static double *plain_new(size_t count)
{
  double *x = calloc(count, sizeof *x);
  assert_non_null(x);
  return x;
}

/* y [n, out] = x [n, in] w^T + bias */
static void plain_linear(size_t n, size_t in, size_t out, const double *x, const float *w, const float *bias,
                         double *y)
{
  for (size_t r = 0; r < n; r++)
    for (size_t o = 0; o < out; o++) {
      double sum = bias ? (double)bias[o] : 0;
      for (size_t i = 0; i < in; i++) sum += x[r * in + i] * (double)w[o * in + i];
      y[r * out + o] = sum;
    }
}

static void plain_norm_one(size_t n, const double *x, bool centre, double epsilon, const float *gain,
                           const float *shift, double *y)
{
  double mean = 0, square = 0;
  for (size_t i = 0; i < n && centre; i++) mean += x[i] / (double)n;
  for (size_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
  for (size_t i = 0; i < n; i++)
    y[i] = (x[i] - mean) / sqrt(square + epsilon) * (double)gain[i] + (shift ? (double)shift[i] : 0);
}

/* The norm with this name of every row [C]. */
static void plain_norm(const plain *p, const char *name, const double *x, double *y)
{
  const float *gain = plain_value(p, "%s.gain", name), *shift = plain_value(p, "%s.shift", name);
  assert_non_null(gain);
  for (size_t t = 0; t < p->tokens; t++)
    plain_norm_one(p->width, x + t * p->width, p->c->norm == ALIBI_NORM_LAYER, p->c->norm_epsilon, gain, shift,
                   y + t * p->width);
}

static double plain_act(int kind, double x)
{
  double c = sqrt(2 / acos(-1.0));
  switch (kind) {
  case ALIBI_GELU_ERF:
  case ALIBI_GEGLU: return x * 0.5 * erfc(-x / sqrt(2.0));
  case ALIBI_GELU_TANH:
  case ALIBI_GEGLU_TANH: return 0.5 * x * (1 + tanh(c * (x + 0.044715 * x * x * x)));
  case ALIBI_RELU:
  case ALIBI_REGLU: return x > 0 ? x : 0;
  default: return x / (1 + exp(-x));
  }
}

static bool plain_is_gated(int kind)
{
  return kind == ALIBI_SWIGLU || kind == ALIBI_GEGLU || kind == ALIBI_GEGLU_TANH || kind == ALIBI_REGLU;
}

/* The heads of a row of queries or keys: normed, turned. */
static void plain_head_row(const plain *p, size_t layer, size_t t, bool key, double *x)
{
  const position_method *method = p->model->method;
  const char *name = key ? "key" : "query";
  const float *gain = plain_value(p, "blocks.%zu.attention.%s_norm.gain", layer, name);
  const float *shift = plain_value(p, "blocks.%zu.attention.%s_norm.shift", layer, name);
  size_t heads = key ? p->kv_heads : p->heads, d = p->d;
  assert_int_equal(gain != NULL, p->c->qk_norm);
  if (gain && p->c->qk_norm_kind == ALIBI_QK_NORM_FULL)
    plain_norm_one(heads * d, x, p->c->norm == ALIBI_NORM_LAYER, p->c->norm_epsilon, gain, shift, x);
  for (size_t h = 0; h < heads; h++) {
    double *head = x + h * d, turned[256];
    if (gain && p->c->qk_norm_kind == ALIBI_QK_NORM_GROUP)
      plain_norm_one(d, head, p->c->norm == ALIBI_NORM_LAYER, p->c->norm_epsilon, gain, shift, head);
    if (gain && p->c->qk_norm_kind == ALIBI_QK_NORM_HEAD)
      plain_norm_one(d, head, false, p->c->norm_epsilon, gain, NULL, head);
    if (!method->angle) continue;
    for (size_t pair = 0; pair < d / 2; pair++) {
      double magnitude, angle = method->angle(&p->request, key, pair, t, &magnitude);
      double a = head[pair], b = head[pair + d / 2];
      turned[pair] = magnitude * (a * cos(angle) - b * sin(angle));
      turned[pair + d / 2] = magnitude * (b * cos(angle) + a * sin(angle));
    }
    memcpy(head, turned, d * sizeof *head);
  }
}

static double plain_score(const plain *p, size_t layer, size_t h, size_t i, size_t j, const double *q,
                          const double *k)
{
  const position_method *method = p->model->method;
  double sum = 0, cap = p->c->score_cap, scale = p->c->score_scale;
  for (size_t c = 0; c < p->d; c++) sum += q[c] * k[c];
  sum *= scale > 0 ? scale : 1 / sqrt((double)p->d);
  if (cap > 0) sum = cap * tanh(sum / cap);
  if (method->bias)
    sum += i > j ? method->bias(&p->request, layer, h, i, j) : method->bias(&p->request, layer, h, j, i);
  return sum;
}

/* out [T, H D] */
static void plain_attend(const plain *p, size_t layer, const double *qkv, double *out)
{
  size_t d = p->d, row = (p->heads + 2 * p->kv_heads) * d, share = p->heads / p->kv_heads;
  double *weights = plain_new(p->tokens);
  for (size_t i = 0; i < p->tokens; i++)
    for (size_t h = 0; h < p->heads; h++) {
      size_t seen = p->c->causal ? i + 1 : p->tokens, group = h / share;
      double most = -INFINITY, sum = 0, *to = out + (i * p->heads + h) * d;
      for (size_t j = 0; j < seen; j++) {
        weights[j] = plain_score(p, layer, h, i, j, qkv + i * row + h * d, qkv + j * row + (p->heads + group) * d);
        most = weights[j] > most ? weights[j] : most;
      }
      for (size_t j = 0; j < seen; j++) sum += weights[j] = exp(weights[j] - most);
      for (size_t c = 0; c < d; c++) to[c] = 0;
      for (size_t j = 0; j < seen; j++)
        for (size_t c = 0; c < d; c++)
          to[c] += weights[j] / sum * qkv[j * row + (p->heads + p->kv_heads + group) * d + c];
    }
  free(weights);
}

/* What attention adds: from x [T, C] to out. */
static void plain_attention(const plain *p, size_t layer, const double *x, double *out)
{
  size_t columns = (p->heads + 2 * p->kv_heads) * p->d;
  double *qkv = plain_new(p->tokens * columns), *attended = plain_new(p->tokens * p->heads * p->d);
  plain_linear(p->tokens, p->width, columns, x, plain_value(p, "blocks.%zu.attention.qkv.weight", layer),
               plain_value(p, "blocks.%zu.attention.qkv.bias", layer), qkv);
  for (size_t i = 0; i < p->tokens * columns && p->c->clip_qkv > 0; i++)
    if (fabs(qkv[i]) > p->c->clip_qkv) qkv[i] = copysign(p->c->clip_qkv, qkv[i]);
  for (size_t t = 0; t < p->tokens; t++) {
    plain_head_row(p, layer, t, false, qkv + t * columns);
    plain_head_row(p, layer, t, true, qkv + t * columns + p->heads * p->d);
  }
  plain_attend(p, layer, qkv, attended);
  plain_linear(p->tokens, p->heads * p->d, p->width, attended,
               plain_value(p, "blocks.%zu.attention.output.weight", layer),
               plain_value(p, "blocks.%zu.attention.output.bias", layer), out);
  free(qkv);
  free(attended);
}

static void plain_feed_forward(const plain *p, size_t layer, const double *x, double *out)
{
  size_t forward = (size_t)p->c->feed_forward, parts = plain_is_gated(p->c->activation) ? 2 : 1;
  double *inner = plain_new(p->tokens * forward * parts), *through = plain_new(p->tokens * forward);
  plain_linear(p->tokens, p->width, forward * parts, x,
               plain_value(p, "blocks.%zu.feed_forward.input.weight", layer),
               plain_value(p, "blocks.%zu.feed_forward.input.bias", layer), inner);
  for (size_t t = 0; t < p->tokens; t++)
    for (size_t f = 0; f < forward; f++) {
      const double *row = inner + t * forward * parts;
      through[t * forward + f] = plain_act(p->c->activation, row[f]) * (parts > 1 ? row[forward + f] : 1);
    }
  plain_linear(p->tokens, forward, p->width, through,
               plain_value(p, "blocks.%zu.feed_forward.output.weight", layer),
               plain_value(p, "blocks.%zu.feed_forward.output.bias", layer), out);
  free(inner);
  free(through);
}

static void plain_block(const plain *p, size_t layer, double *x)
{
  size_t n = p->tokens * p->width;
  double *normed = plain_new(n), *attention = plain_new(n), *forward = plain_new(n), s = p->c->residual_scale;
  char first[64], second[64], output[64];
  snprintf(first, sizeof first, "blocks.%zu.attention_norm", layer);
  snprintf(second, sizeof second, "blocks.%zu.feed_forward_norm", layer);
  snprintf(output, sizeof output, "blocks.%zu.attention.output_norm", layer);
  if (p->c->norm_place == ALIBI_NORM_POST) {
    plain_attention(p, layer, x, attention);
    for (size_t i = 0; i < n; i++) attention[i] = x[i] + s * attention[i];
    if (p->c->attention_output_norm) {
      plain_norm(p, output, attention, attention);
      for (size_t i = 0; i < n; i++) attention[i] += x[i];
    }
    plain_norm(p, first, attention, x);
    plain_feed_forward(p, layer, x, forward);
    for (size_t i = 0; i < n; i++) x[i] += s * forward[i];
    plain_norm(p, second, x, x);
  } else {
    plain_norm(p, first, x, normed);
    plain_attention(p, layer, normed, attention);
    if (p->c->parallel == ALIBI_PARALLEL_NONE)
      for (size_t i = 0; i < n; i++) x[i] += s * attention[i];
    if (p->c->parallel != ALIBI_PARALLEL_ONE_NORM) plain_norm(p, second, x, normed);
    plain_feed_forward(p, layer, normed, forward);
    for (size_t i = 0; i < n; i++)
      x[i] += s * (forward[i] + (p->c->parallel == ALIBI_PARALLEL_NONE ? 0 : attention[i]));
  }
  free(normed);
  free(attention);
  free(forward);
}

static void plain_embed(const plain *p, const uint32_t *ids, double *x)
{
  const float *table = plain_value(p, "embedding.weight"), *shift = plain_value(p, "embedding.shift");
  const position_method *method = p->model->method;
  for (size_t t = 0; t < p->tokens; t++)
    for (size_t c = 0; c < p->width; c++) {
      double *at = &x[t * p->width + c];
      *at = p->c->embedding_scale * (double)table[ids[t] * p->width + c];
      if (method->embedding) *at += method->embedding(&p->request, t, c);
      if (shift) *at += (double)shift[c];
    }
  if (p->c->embedding_norm) plain_norm(p, "embedding_norm", x, x);
}

/* logits [count, V] of a whole sequence. */
static void plain_forward(const alibi_model *model, const uint32_t *ids, size_t count, double *logits)
{
  const alibi_model_config *c = &model->config;
  plain p = {
      .model = model,
      .c = c,
      .request = {.shape = model_config_position_shape(c), .options = c->position_options.bytes, .length = count},
      .tokens = count,
      .width = (size_t)c->width,
      .heads = (size_t)c->heads,
      .kv_heads = (size_t)c->kv_heads,
      .d = (size_t)c->head_size};
  for (size_t i = 0; i < POSITION_MAX_PARAMETERS; i++) p.request.parameters[i] = model->parameters.position[i];
  size_t vocabulary = (size_t)c->vocabulary;
  double *x = plain_new(count * p.width);
  plain_embed(&p, ids, x);
  for (size_t layer = 0; layer < (size_t)c->layers; layer++) plain_block(&p, layer, x);
  if (c->final_norm) plain_norm(&p, "final_norm", x, x);
  plain_linear(count, p.width, vocabulary, x, plain_value(&p, c->tied ? "embedding.weight" : "output.weight"),
               NULL, logits);
  for (size_t i = 0; i < count * vocabulary; i++) {
    logits[i] *= c->logit_scale;
    if (c->logit_cap > 0) logits[i] = c->logit_cap * tanh(logits[i] / c->logit_cap);
  }
  free(x);
}

#endif
