/* One head of attention for the tests, with every operand in guarded memory, and the formula in double.
 * The formula here stores the whole row of weights: it shares nothing with the kernels but the definition. */
#ifndef ATTENTION_CASE_H
#define ATTENTION_CASE_H

#include "kernel_test.h"

typedef struct attention_options {
  size_t queries, keys, first, head_size;
  bias_kind bias;
  bool blocks;   /* keys and values behind key_blocks, value_blocks */
  size_t gap;    /* floats between the rows */
  double spread; /* size of the scores, about */
} attention_options;

/* The least and the largest distance that any query sees.  A table holds these entries and no other. */
static inline size_t largest_distance(const attention_head *h)
{
  return h->first + h->queries - 1;
}

static inline size_t least_distance(const attention_head *h)
{
  return h->first + 1 > h->keys ? h->first + 1 - h->keys : 0;
}

static inline void cut_into_blocks(attention_head *h)
{
  size_t d = h->head_size, count = (h->keys + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
  static const float *keys[1024], *values[1024];
  assert_true(count <= 1024);
  for (size_t b = 0; b < count; b++) {
    size_t rows =
        h->keys - b * ATTENTION_BLOCK < ATTENTION_BLOCK ? h->keys - b * ATTENTION_BLOCK : ATTENTION_BLOCK;
    float *key = guarded_floats(rows * d), *value = guarded_floats(rows * d);
    for (size_t r = 0; r < rows; r++) {
      memcpy(key + r * d, h->k + (b * ATTENTION_BLOCK + r) * h->k_stride, d * sizeof *key);
      memcpy(value + r * d, h->v + (b * ATTENTION_BLOCK + r) * h->k_stride, d * sizeof *value);
    }
    keys[b] = key;
    values[b] = value;
  }
  h->key_blocks = keys;
  h->value_blocks = values;
}

static inline attention_head make_head(const attention_options *o)
{
  size_t d = o->head_size, stride = d + o->gap;
  attention_head h = {.queries = o->queries,
                      .keys = o->keys,
                      .first = o->first,
                      .head_size = d,
                      .scale = (float)(o->spread / sqrt((double)d)),
                      .bias = o->bias,
                      .slope = 0.125f,
                      .q_stride = stride,
                      .k_stride = stride + 1,
                      .out_stride = stride + 2,
                      .lse_stride = 1 + o->gap};
  float *q = random_floats(span(o->queries, d, h.q_stride)), *k = random_floats(span(o->keys, d, h.k_stride));
  float *v = random_floats(span(o->keys, d, h.k_stride));
  h.q = q;
  h.k = k;
  h.v = v;
  h.out = filled_floats(span(o->queries, d, h.out_stride), 7);
  h.lse = filled_floats(span(o->queries, 1, h.lse_stride), 7);
  if (o->bias == BIAS_DISTANCE && o->keys > 0) {
    size_t entries = largest_distance(&h) - least_distance(&h) + 1;
    float *table = random_floats(entries); /* from the largest distance to the least */
    h.table = table + largest_distance(&h);
  }
  if (o->blocks) cut_into_blocks(&h);
  return h;
}

static inline size_t visible_keys(const attention_head *h, size_t r)
{
  size_t end = h->first + r + 1;
  return end < h->keys ? end : h->keys;
}

static inline double dot_terms(size_t n, const float *a, const float *b, double *terms)
{
  double sum = 0;
  *terms = 0;
  for (size_t i = 0; i < n; i++) {
    sum += (double)a[i] * b[i];
    *terms += fabs((double)a[i] * b[i]);
  }
  return sum;
}

/* Score of a pair, and how far an fp32 kernel may be from it. */
static inline double formula_score(const attention_head *h, size_t r, size_t j, double *slack)
{
  double terms, bias = 0, distance = (double)(h->first + r - j);
  double s = h->scale * dot_terms(h->head_size, h->q + r * h->q_stride, h->k + j * h->k_stride, &terms);
  if (h->bias == BIAS_SLOPE) bias = -h->slope * distance;
  if (h->bias == BIAS_DISTANCE) bias = h->table[-(ptrdiff_t)(h->first + r - j)];
  *slack = reduction(h->head_size, terms * fabs(h->scale)) + EPS * (fabs(s) + 2 * fabs(bias));
  return s + bias;
}

/* weights [keys], slack [keys] of one row; returns the log-sum-exp. */
static inline double formula_row(const attention_head *h, size_t r, double *weights, double *slack)
{
  size_t end = visible_keys(h, r);
  double largest = -INFINITY, total = 0;
  for (size_t j = 0; j < end; j++) {
    weights[j] = formula_score(h, r, j, slack + j);
    largest = fmax(largest, weights[j]);
  }
  for (size_t j = 0; j < end; j++) {
    slack[j] += EPS * fabs(weights[j] - largest);
    weights[j] = exp(weights[j] - largest);
    total += weights[j];
  }
  for (size_t j = 0; j < end; j++) weights[j] /= total;
  return end ? largest + log(total) : -INFINITY;
}

/* Every edge, table, bias and shape: queries, keys, first.  Square; the tail of a prefill; one decoded token; queries
 * beyond the last key; windows that begin inside a block; no keys at all. */
static inline void for_shapes_around_the_tiles(void (*check)(const kernel_table *t, const attention_head *h))
{
  static const size_t sizes[] = {3, 7, 16, 17, 64, 80, 127, 128};
  static const size_t shapes[][3] = {{1, 1, 0},     {63, 63, 0},   {64, 64, 0},    {65, 65, 0},   {129, 129, 0},
                                     {64, 128, 64}, {7, 135, 128}, {30, 100, 70},  {1, 200, 199}, {1, 64, 63},
                                     {70, 40, 0},   {20, 64, 100}, {130, 300, 17}, {5, 0, 3},     {64, 65, 1}};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++) {
          attention_options o = {.queries = shapes[s][0], .keys = shapes[s][1], .first = shapes[s][2],
                                 .head_size = sizes[(s + (size_t)bias) % 8], .bias = (bias_kind)bias,
                                 .blocks = (s + (size_t)bias) % 2, .gap = s % 3, .spread = 5};
          attention_head h = make_head(&o);
          check(t, &h);
          guarded_free();
        }
}

#endif
