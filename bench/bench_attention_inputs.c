/* Queries, keys and values to measure with: random ones, whose largest norms give the score that was asked for, or
 * those of a trained model.  A model runs once with everything kept, and its blocks are read where they lie. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "bench/bench_attention_parts.h"
#include "model/model.h"

enum { SEED = 1, STREAM_QUERY = 1, STREAM_KEY, STREAM_VALUE, STREAM_GRADIENT, STREAM_GATE };

/* Between -1 and 1: four numbers a block of random bits. */
static void fill(alibi_context *context, uint64_t stream, size_t n, float *x)
{
  (void)context;
#pragma omp parallel for num_threads(context->threads)
  for (size_t i = 0; i < n; i += 4) {
    random_block block = random_philox(SEED, i, stream);
    for (size_t j = 0; j < 4 && i + j < n; j++) x[i + j] = (float)(block.word[j] >> 8) * 0x1p-23f - 1;
  }
}

static double row_norm(const float *x, int d)
{
  double sum = 0;
  for (int c = 0; c < d; c++) sum += (double)x[c] * x[c];
  return sqrt(sum);
}

/* The largest norm of a row, and the largest component. */
static double largest_norm(alibi_context *context, const alibi_heads *x, int64_t rows, int heads, int d,
                           double *component)
{
  (void)context;
  double norm = 0, most = 0;
#pragma omp parallel for num_threads(context->threads) reduction(max : norm, most)
  for (int64_t r = 0; r < rows; r++)
    for (int h = 0; h < heads; h++) {
      const float *row = x->data + r * x->row_stride + h * x->head_stride;
      norm = fmax(norm, row_norm(row, d));
      for (int c = 0; c < d; c++) most = fmax(most, fabs(row[c]));
    }
  if (component) *component = most;
  return norm;
}

static void measure_layer(alibi_context *context, bench_inputs *in, bench_layer *l)
{
  l->largest_query = largest_norm(context, &l->q, in->length, in->heads, in->head_size, NULL);
  l->largest_key = largest_norm(context, &l->k, in->length, in->kv_heads, in->head_size, NULL);
  largest_norm(context, &l->v, in->length, in->kv_heads, in->head_size, &l->largest_value);
}

/* Tables of distances and offsets of keys, of the methods that are asked for. */
static status make_biases(const bench_attention_options *o, bench_inputs *in, alibi_error *error)
{
  status result;
  size_t heads = (size_t)in->heads, length = (size_t)in->length, n = size_mul(heads, length);
  TRY(memory_new(&in->slopes, heads, sizeof *in->slopes, "the slopes", error));
  TRY(alibi_slopes(in->heads, 8, ALIBI_SLOPES_INTERLEAVED, in->slopes, error));
  if (o->methods[BENCH_POWER]) TRY(memory_new(&in->power, n, sizeof *in->power, "a table of distances", error));
  if (o->methods[BENCH_FACTOR]) TRY(memory_new(&in->added, n, sizeof *in->added, "a table of distances", error));
  if (o->methods[BENCH_FACTOR]) TRY(memory_new(&in->factor, n, sizeof *in->factor, "a table of factors", error));
  if (o->methods[BENCH_KEY]) TRY(memory_new(&in->offsets, n, sizeof *in->offsets, "offsets of keys", error));
  if (o->methods[BENCH_KEY])
    TRY(memory_new(&in->query_offsets, n, sizeof *in->offsets, "offsets of queries", error));
  for (size_t h = 0; h < heads; h++) {
    double slope = in->slopes[h], sum = 0;
    for (size_t t = 0; t < length; t++) {
      if (in->power) in->power[h * length + t] = (float)(-slope * sqrt((double)t));
      if (in->added) in->added[h * length + t] = (float)(-slope * (double)t);
      if (in->factor) in->factor[h * length + t] = (float)(0.5 + 0.5 / (1 + slope * (double)t));
      if (!in->offsets) continue;
      sum += 2 * slope * random_uniform(SEED, STREAM_GATE, t * heads + h);
      in->offsets[t * heads + h] = sum;
      in->query_offsets[t * heads + h] = -sum;
    }
  }
done:
  return result;
}

static status random_inputs(alibi_context *context, const bench_attention_options *o, bench_inputs *in,
                            alibi_error *error)
{
  status result;
  size_t d = (size_t)in->head_size, rows = (size_t)in->length, q = size_mul(rows, (size_t)in->heads * d),
         kv = size_mul(rows, (size_t)in->kv_heads * d);
  TRY(memory_new(&in->memory, size_add(q, size_mul(2, kv)), sizeof(float), "queries, keys and values", error));
  float *query = in->memory, *key = query + q, *value = key + kv;
  fill(context, STREAM_QUERY, q, query);
  fill(context, STREAM_KEY, kv, key);
  fill(context, STREAM_VALUE, kv, value);
  int64_t width = in->heads * in->head_size, kv_width = in->kv_heads * in->head_size;
  in->layer[0] = (bench_layer){.q = {query, width, in->head_size},
                               .k = {key, kv_width, in->head_size},
                               .v = {value, kv_width, in->head_size}};
  measure_layer(context, in, &in->layer[0]);
  float factor = (float)sqrt(o->score / (in->scale * in->layer[0].largest_query * in->layer[0].largest_key));
  for (size_t i = 0; i < q; i++) query[i] *= factor;
  for (size_t i = 0; i < kv; i++) key[i] *= factor;
  in->layer[0].largest_query *= factor;
  in->layer[0].largest_key *= factor;
  TRY(make_biases(o, in, error));
done:
  return result;
}

/* A reversed table of the plan, as the operator takes it. */
static status take_table(const bench_inputs *in, const position_plan *plan, const float *reversed, float **table,
                         alibi_error *error)
{
  size_t rows = plan->sets * (size_t)in->heads, length = (size_t)in->length;
  status result = memory_new(table, size_mul(rows, length), sizeof **table, "the bias", error);
  for (size_t r = 0; result == ALIBI_OK && r < rows; r++)
    for (size_t t = 0; t < length; t++) (*table)[r * length + t] = reversed[(r + 1) * plan->length - 1 - t];
  return result;
}

/* The bias of the model's method. */
static status take_bias(bench_inputs *in, const position_plan *plan, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t slopes = plan->sets * (size_t)in->heads;
  in->sets = plan->sets;
  in->window = (int64_t)plan->window;
  in->gated = plan->gated;
  if (plan->bias == BIAS_SLOPE) {
    TRY(memory_new(&in->slopes, slopes, sizeof *in->slopes, "the slopes", error));
    for (size_t i = 0; i < slopes; i++) in->slopes[i] = (double)plan->slopes[i];
  } else if (plan->bias == BIAS_DISTANCE) {
    TRY(take_table(in, plan, plan->table, &in->added, error));
    if (plan->factors) TRY(take_table(in, plan, plan->factors, &in->factor, error));
  } else if (plan->bias == BIAS_ROWS) {
    RAISE(error, ALIBI_INVALID, "bench attention: the bias of position method '%s' cannot be measured here",
          in->model_method);
  }
done:
  return result;
}

static status model_inputs(alibi_context *context, const bench_attention_options *o, bench_inputs *in,
                           alibi_error *error)
{
  status result;
  size_t rows = (size_t)in->length;
  pass_shape shape = {.rows = rows, .segments = 1, .length = rows, .head_rows = 1, .keep = true};
  pass_segment all = {.count = rows};
  TRY(model_pass_new(o->model, &shape, &in->pass, error));
  TRY(model_forward(in->pass, o->tokens, &all, 1, error));
  TRY(take_bias(in, &in->pass->position.plan, error));
  int64_t d = in->head_size, stride = (in->heads + 2 * in->kv_heads) * d;
  for (size_t l = 0; l < in->layers; l++) {
    const float *q = in->pass->blocks[l].qkv, *k = q + in->heads * d, *v = k + in->kv_heads * d;
    in->layer[l] = (bench_layer){.q = {q, stride, d}, .k = {k, stride, d}, .v = {v, stride, d}};
    measure_layer(context, in, &in->layer[l]);
  }
done:
  return result;
}

status bench_inputs_new(alibi_context *context, const bench_attention_options *o, int64_t length, bool gradients,
                        bench_inputs *in, alibi_error *error)
{
  status result;
  *in = (bench_inputs){.length = length,
                       .heads = (int)o->heads,
                       .kv_heads = (int)(o->kv_heads ? o->kv_heads : o->heads),
                       .head_size = (int)o->head_size,
                       .layers = 1};
  if (o->model) {
    const alibi_model_config *c = alibi_model_get_config(o->model);
    in->heads = (int)c->heads;
    in->kv_heads = (int)c->kv_heads;
    in->head_size = (int)c->head_size;
    in->layers = (size_t)c->layers;
    in->model_method = c->position;
  }
  in->scale = 1 / sqrt((double)in->head_size);
  TRY(memory_new(&in->layer, in->layers, sizeof *in->layer, "the layers", error));
  TRY(o->model ? model_inputs(context, o, in, error) : random_inputs(context, o, in, error));
  for (size_t l = 0; l < in->layers; l++)
    in->score = fmax(in->score, in->layer[l].largest_query * in->layer[l].largest_key * in->scale);
  if (!gradients) goto done;
  size_t n = size_mul((size_t)length, (size_t)in->heads * (size_t)in->head_size);
  TRY(memory_new(&in->dout, n, sizeof(float), "gradients of the output", error));
  fill(context, STREAM_GRADIENT, n, in->dout);
done:
  return result;
}

void bench_inputs_free(bench_inputs *in)
{
  model_pass_free(in->pass);
  memory_free(in->layer);
  memory_free(in->memory);
  memory_free(in->slopes);
  memory_free(in->added);
  memory_free(in->factor);
  memory_free(in->power);
  memory_free(in->offsets);
  memory_free(in->query_offsets);
  memory_free(in->dout);
  *in = (bench_inputs){0};
}

void bench_inputs_attention(const bench_inputs *in, size_t layer, bench_method bias, alibi_attention *a)
{
  alibi_attention_init(a);
  a->queries = a->keys = in->length;
  a->heads = in->heads;
  a->kv_heads = in->kv_heads;
  a->head_size = in->head_size;
  a->q = in->layer[layer].q;
  a->k = in->layer[layer].k;
  a->v = in->layer[layer].v;
  a->scale = in->scale;
  a->window = in->window;
  a->bias = (alibi_bias){.kind = ALIBI_BIAS_NONE};
  size_t set = in->sets > 1 ? layer * (size_t)in->heads : 0, entry = set * (size_t)in->length;
  if (in->model_method)
    bias = in->slopes ? BENCH_ALIBI : in->gated ? BENCH_KEY : in->added ? BENCH_FACTOR : BENCH_NONE;
  if (bias == BENCH_ALIBI) a->bias = (alibi_bias){.kind = ALIBI_BIAS_SLOPE, .slopes = in->slopes + set};
  if (bias == BENCH_POWER)
    a->bias = (alibi_bias){.kind = ALIBI_BIAS_DISTANCE, .added = in->power, .distances = in->length};
  if (bias == BENCH_FACTOR)
    a->bias = (alibi_bias){.kind = ALIBI_BIAS_DISTANCE, .added = in->added + entry,
                           .factor = in->factor ? in->factor + entry : NULL, .distances = in->length};
  if (bias == BENCH_KEY)
    a->bias = (alibi_bias){.kind = ALIBI_BIAS_KEY, .offsets = in->offsets, .query_offsets = in->query_offsets};
  if (in->gated) {
    a->bias.offsets = in->pass->blocks[layer].key_offsets;
    a->bias.query_offsets = in->pass->blocks[layer].query_offsets;
  }
}
