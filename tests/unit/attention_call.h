/* attention_call.h - calls of the public attention operator for its tests: memory of exactly the size that a call
 * may touch, random operands, contexts and caches, every option and every pair of options.  What they must give:
 * attention_expect.h. */
#ifndef UNIT_ATTENTION_CALL_H
#define UNIT_ATTENTION_CALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alibi/attention.h"
#include "base/context.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/attention_formula.h"

#include "threads.h"

typedef enum call_layout {
  LAYOUT_PLAIN,      /* strides 0 */
  LAYOUT_GAPS,       /* unused floats behind every row of every head, and behind every token */
  LAYOUT_HEAD_MAJOR, /* [heads, rows, D] */
  LAYOUT_FUSED /* q, k and v side by side in one row a token, and dq, dk, dv likewise; as GAPS where T is not S */
} call_layout;

typedef struct call_options {
  int heads, kv_heads, size;
  int64_t queries, keys; /* where sequences is 0 */
  int64_t sequences;
  const int64_t *query_lengths, *key_lengths;
  bool both_sides, positions;
  int64_t window, offset, shift, query_shift; /* shifts: added to all positions, and to those of queries as well */
  double scale, cap, tolerance, spread;       /* spread: size of the scores, about */
  alibi_bias_kind bias;
  bool factor;
  const double *slopes;
  int total_heads, head_offset;
  alibi_slope_rule rule;
  call_layout layout;
  uint64_t seed;
} call_options;

/* [rows, heads, size] somewhere in a buffer. */
typedef struct call_tensor {
  float *data, *buffer;
  size_t floats; /* of the buffer */
  int64_t rows, row_stride, head_stride;
  int heads, size;
  bool alone; /* in its buffer */
} call_tensor;

typedef struct call_rows {
  int64_t queries, keys;
  float *bias, *gradient; /* [H, T, S] */
  unsigned char *given;   /* how often a piece of the gradient came */
  int64_t first_query;    /* of the call among the queries */
  /* With caches keys are counted in their own. */
  int64_t sequences;
  const int64_t *query_starts, *key_starts;
} call_rows;

typedef struct call {
  alibi_attention a;
  alibi_attention_gradients g;
  alibi_attention_report report;
  call_options options;
  call_tensor q, k, v, out, dout, dq, dk, dv;
  call_rows rows;
  size_t table; /* entries of the distance table of all heads */
} call;

/* What is being tried, for the sentences. */
static char call_name[256] = "";
static alibi_error call_error;

/* Of all calls; call_setup makes it. */
static alibi_context *context;

/* ---- memory and numbers ---- */

enum { CALL_BLOCKS_MAX = 4096 };

static void *call_blocks[CALL_BLOCKS_MAX];
static size_t call_block_count;

/* Of no more bytes than asked for, so that a sanitizer sees what lies beyond; until call_free_all. */
static inline void *call_memory(size_t count, size_t size)
{
  assert_true(call_block_count < CALL_BLOCKS_MAX);
  void *block = count ? calloc(count, size) : malloc(1);
  assert_non_null(block);
  return call_blocks[call_block_count++] = block;
}

static inline void call_free_all(void)
{
  while (call_block_count > 0) free(call_blocks[--call_block_count]);
}

static inline double call_uniform(uint64_t seed, uint64_t index)
{
  uint64_t z = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* From -size to size. */
static inline float *call_numbers(size_t count, uint64_t seed, double size)
{
  float *x = call_memory(count, sizeof *x);
  for (size_t i = 0; i < count; i++) x[i] = (float)((2 * call_uniform(seed, i) - 1) * size);
  return x;
}

/* Within 3 of the middle. */
static inline double *call_reals(size_t count, uint64_t seed, double middle)
{
  double *x = call_memory(count, sizeof *x);
  for (size_t i = 0; i < count; i++) x[i] = middle + (2 * call_uniform(seed, i) - 1) * 3;
  return x;
}

static inline void *call_copy(const void *from, size_t count, size_t size)
{
  void *copy = call_memory(count, size);
  if (count) memcpy(copy, from, count * size);
  return copy;
}

/* Owned by a call, const to the library. */
static inline float *call_floats(const float *x)
{
  return (float *)(uintptr_t)x;
}

static inline double *call_doubles(const double *x)
{
  return (double *)(uintptr_t)x;
}

static inline int64_t *call_integers(const int64_t *x)
{
  return (int64_t *)(uintptr_t)x;
}

/* ---- a call ---- */

static inline call_options call_defaults(void)
{
  return (call_options){.heads = 4,
                        .size = 5,
                        .queries = 140,
                        .keys = 140,
                        .offset = ALIBI_BOTTOM_RIGHT,
                        .bias = ALIBI_BIAS_SLOPE,
                        .spread = 2,
                        .seed = 1};
}

static inline call_tensor call_tensor_new(call_layout layout, int64_t rows, int heads, int size, uint64_t seed,
                                          double spread)
{
  call_tensor t = {.rows = rows,
                   .heads = heads,
                   .size = size,
                   .row_stride = (int64_t)heads * size,
                   .head_stride = size,
                   .alone = true};
  if (layout == LAYOUT_GAPS || layout == LAYOUT_FUSED) {
    t.head_stride = size + 3;
    t.row_stride = heads * t.head_stride + 5;
  } else if (layout == LAYOUT_HEAD_MAJOR) {
    t.row_stride = size;
    t.head_stride = rows * size;
  }
  int64_t last = rows > 0 ? (rows - 1) * t.row_stride + (heads - 1) * t.head_stride + size : 0;
  t.floats = (size_t)last;
  t.buffer = t.data = call_numbers(t.floats, seed, spread);
  return t;
}

/* Three tensors in one buffer. */
static inline void call_fuse(call_tensor *q, call_tensor *k, call_tensor *v, uint64_t seed, double spread)
{
  call_tensor *all[] = {q, k, v};
  int64_t width = (int64_t)q->heads * q->size + 2 * (int64_t)k->heads * k->size, at = 0;
  float *buffer = call_numbers((size_t)(q->rows * width), seed, spread);
  for (int i = 0; i < 3; i++) {
    all[i]->buffer = buffer;
    all[i]->data = buffer + at;
    all[i]->floats = (size_t)(q->rows * width);
    all[i]->row_stride = width;
    all[i]->head_stride = q->size;
    all[i]->alone = false;
    at += (int64_t)all[i]->heads * q->size;
  }
}

static inline float *call_at(const call_tensor *t, int64_t row, int head)
{
  return t->data + row * t->row_stride + head * t->head_stride;
}

static inline alibi_heads call_in(const call_tensor *t, bool plain)
{
  return (alibi_heads){t->data, plain ? 0 : t->row_stride, plain ? 0 : t->head_stride};
}

static inline alibi_heads_out call_out(const call_tensor *t, bool plain)
{
  return (alibi_heads_out){t->data, plain ? 0 : t->row_stride, plain ? 0 : t->head_stride};
}

static inline void call_rows_bias(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias)
{
  const call_rows *rows = user;
  query += rows->first_query;
  for (int64_t n = 0; n < rows->sequences; n++)
    if (query >= rows->query_starts[n] && query < rows->query_starts[n + 1]) {
      key += rows->key_starts[n];
      break;
    }
  memcpy(bias, rows->bias + (head * rows->queries + query) * rows->keys + key, (size_t)count * sizeof *bias);
}

static inline void call_rows_gradient(void *user, int head, int64_t query, int64_t key, int64_t count,
                                      const float *gradient)
{
  const call_rows *rows = user;
  size_t at = (size_t)((head * rows->queries + query) * rows->keys + key);
  for (size_t i = 0; i < (size_t)count; i++) {
    rows->gradient[at + i] += gradient[i];
    rows->given[at + i]++;
  }
}

static inline int64_t *call_starts(int64_t sequences, const int64_t *lengths)
{
  int64_t *starts = call_memory((size_t)sequences + 1, sizeof *starts);
  for (int64_t n = 0; n < sequences; n++) starts[n + 1] = starts[n] + lengths[n];
  return starts;
}

/* Increasing within each sequence, with gaps of 1 to 4, from anywhere. */
static inline int64_t *call_positions(int64_t sequences, const int64_t *lengths, int64_t count, int64_t shift,
                                      uint64_t seed)
{
  int64_t *positions = call_memory((size_t)count, sizeof *positions), at = 0;
  for (int64_t n = 0; n < (sequences ? sequences : 1); n++) {
    int64_t position = shift - 10 + (int64_t)(20 * call_uniform(seed, (uint64_t)n));
    for (int64_t r = 0; r < (sequences ? lengths[n] : count); r++, at++)
      positions[at] = position += 1 + (int64_t)(4 * call_uniform(seed + 1, (uint64_t)at));
  }
  return positions;
}

/* A table that covers what any query sees and nothing else. */
static inline void call_table(call *c)
{
  alibi_attention *a = &c->a;
  int64_t lowest = INT64_MAX, highest = INT64_MIN;
  for (int64_t n = 0; n < formula_sequences(a); n++)
    for (int64_t i = formula_query_start(a, n); i < formula_query_start(a, n + 1); i++)
      for (int64_t j = formula_key_start(a, n); j < formula_key_start(a, n + 1); j++) {
        int64_t distance = formula_distance(a, n, i, j);
        if (!formula_sees(a, distance)) continue;
        if (distance < lowest) lowest = distance;
        if (distance > highest) highest = distance;
      }
  if (lowest > highest) lowest = highest = 0;
  a->bias.lowest = lowest;
  a->bias.distances = highest - lowest + 1;
  c->table = (size_t)(a->heads * a->bias.distances);
  float *added = call_numbers(c->table, c->options.seed + 31, 2);
  for (size_t e = 0; e < c->table; e++) /* it falls, so that something can be skipped */
    added[e] -=
        0.5f * (float)llabs(lowest + (int64_t)e % a->bias.distances) / (float)(1 + e / (size_t)a->bias.distances);
  a->bias.added = added;
  if (c->options.factor) a->bias.factor = call_numbers(c->table, c->options.seed + 32, 1.5);
  c->g.added = call_numbers(c->table, c->options.seed + 33, 1);
  if (c->options.factor) c->g.factor = call_numbers(c->table, c->options.seed + 34, 1);
}

static inline void call_bias(call *c)
{
  alibi_attention *a = &c->a;
  const call_options *o = &c->options;
  size_t offsets = (size_t)(a->keys * a->heads), rows = offsets * (size_t)a->queries;
  a->bias.kind = o->bias;
  a->bias.slopes = o->slopes ? call_copy(o->slopes, (size_t)o->heads, sizeof *o->slopes) : NULL;
  a->bias.total_heads = o->total_heads;
  a->bias.head_offset = o->head_offset;
  a->bias.slope_rule = o->rule;
  if (o->bias == ALIBI_BIAS_DISTANCE) call_table(c);
  if (o->bias == ALIBI_BIAS_SLOPE) {
    c->g.slopes = call_memory((size_t)o->heads, sizeof(double));
    for (int h = 0; h < o->heads; h++) c->g.slopes[h] = 1.5 - h;
  }
  if (o->bias == ALIBI_BIAS_KEY) {
    double far = o->seed % 3 ? 6000 : 0; /* both cancel: fp32 would lose what is left */
    a->bias.offsets = call_reals(offsets, o->seed + 35, far);
    if (far > 0) a->bias.query_offsets = call_reals((size_t)(a->queries * a->heads), o->seed + 38, -far);
    c->g.offsets = call_numbers(offsets, o->seed + 36, 1);
  }
  if (o->bias == ALIBI_BIAS_ROWS) {
    c->rows = (call_rows){.queries = a->queries, .keys = a->keys, .bias = call_numbers(rows, o->seed + 37, 3),
                          .gradient = call_memory(rows, sizeof(float)), .given = call_memory(rows, 1)};
    a->bias.rows = call_rows_bias;
    a->bias.rows_gradient = call_rows_gradient;
    a->bias.user = &c->rows;
  }
}

static inline void call_tensors(call *c)
{
  const call_options *o = &c->options;
  alibi_attention *a = &c->a;
  int groups = o->kv_heads ? o->kv_heads : o->heads, d = o->size;
  double spread = sqrt(3 * o->spread); /* a score is scale * sum of D products, each of variance spread^2 */
  bool plain = o->layout == LAYOUT_PLAIN, fused = o->layout == LAYOUT_FUSED && a->queries == a->keys;
  c->q = call_tensor_new(o->layout, a->queries, o->heads, d, o->seed + 11, spread);
  c->k = call_tensor_new(o->layout, a->keys, groups, d, o->seed + 12, spread);
  c->v = call_tensor_new(o->layout, a->keys, groups, d, o->seed + 13, 1);
  c->out = call_tensor_new(o->layout, a->queries, o->heads, d, o->seed + 14, 1);
  c->dout = call_tensor_new(o->layout, a->queries, o->heads, d, o->seed + 15, 1);
  c->dq = call_tensor_new(o->layout, a->queries, o->heads, d, o->seed + 16, 1);
  c->dk = call_tensor_new(o->layout, a->keys, groups, d, o->seed + 17, 1);
  c->dv = call_tensor_new(o->layout, a->keys, groups, d, o->seed + 18, 1);
  if (fused) {
    call_fuse(&c->q, &c->k, &c->v, o->seed + 19, spread);
    call_fuse(&c->dq, &c->dk, &c->dv, o->seed + 20, 1);
  }
  a->q = call_in(&c->q, plain);
  a->k = call_in(&c->k, plain);
  a->v = call_in(&c->v, plain);
  a->out = call_out(&c->out, plain);
  c->g.dout = call_in(&c->dout, plain);
  c->g.dq = call_out(&c->dq, plain);
  c->g.dk = call_out(&c->dk, plain);
  c->g.dv = call_out(&c->dv, plain);
}

/* A call with all its outputs and gradients wanted. */
static inline call *call_new(const call_options *o)
{
  call *c = call_memory(1, sizeof *c);
  alibi_attention *a = &c->a;
  c->options = *o;
  alibi_attention_init(a);
  alibi_attention_gradients_init(&c->g);
  a->heads = o->heads;
  a->kv_heads = o->kv_heads;
  a->head_size = o->size;
  a->queries = o->queries;
  a->keys = o->keys;
  a->sequences = o->sequences;
  if (o->sequences) {
    a->query_starts = call_starts(o->sequences, o->query_lengths);
    a->key_starts = call_starts(o->sequences, o->key_lengths);
    a->queries = a->query_starts[o->sequences];
    a->keys = a->key_starts[o->sequences];
  }
  a->query_offset = o->offset;
  if (o->positions) {
    a->query_positions =
        call_positions(o->sequences, o->query_lengths, a->queries, o->shift + o->query_shift, o->seed + 21);
    a->key_positions = call_positions(o->sequences, o->key_lengths, a->keys, o->shift, o->seed + 23);
  }
  a->causal = !o->both_sides;
  a->window = o->window;
  a->scale = o->scale;
  a->soft_cap = o->cap;
  a->tolerance = o->tolerance;
  a->lse = call_numbers((size_t)(a->queries * a->heads), o->seed + 25, 1);
  a->visited = call_memory((size_t)(a->queries * a->heads * 2), sizeof *a->visited);
  alibi_attention_report_init(&c->report);
  a->report = &c->report;
  call_tensors(c);
  call_bias(c);
  return c;
}

/* Rows from .. to-1: no numbers. */
static inline void call_spoil(const call_tensor *t, int64_t from, int64_t to)
{
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int64_t r = from; r < to; r++)
    for (int h = 0; h < t->heads; h++)
      for (int c = 0; c < t->size; c++) call_at(t, r, h)[c] = bad[(r + h + c) % 3];
}

/* A call all of whose rows except from .. to-1 are spoilt. */
static inline call *call_new_spoilt_around(const call_options *o, int64_t from, int64_t to)
{
  call *c = call_new(o);
  const call_tensor *all[] = {&c->q, &c->k, &c->v, &c->dout};
  for (int i = 0; i < 4; i++) {
    call_spoil(all[i], 0, from);
    call_spoil(all[i], to, all[i]->rows);
  }
  return c;
}

/* ---- running ---- */

/* NULL where the machine has no such instruction set. */
static inline alibi_context *call_try_context(const char *isa, int threads)
{
  alibi_context *made;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = threads;
  options.isa = isa;
  if (alibi_context_new(&options, &made, &call_error) != ALIBI_OK) return NULL;
  threads_share_all_work(made);
  return made;
}

static inline alibi_context *call_context(int threads)
{
  alibi_context *made = call_try_context(NULL, threads);
  if (!made) fail_msg("%s", call_error.message);
  return made;
}

static inline int call_setup(void **unused)
{
  (void)unused;
  context = call_context(2);
  return 0;
}

static inline int call_teardown(void **unused)
{
  (void)unused;
  alibi_context_free(context);
  return 0;
}

/* The reference kernels visit everything. */
static inline bool call_skips(void)
{
  return strcmp(alibi_context_isa(context), "reference") != 0;
}

static inline void call_ok(const char *what, alibi_status found)
{
  if (found != ALIBI_OK) fail_msg("%s: %s: %s", call_name, what, call_error.message);
}

static inline void call_forward(call *c)
{
  call_ok("forward", alibi_attention_forward(context, &c->a, NULL, 0, &call_error));
}

static inline void call_backward(call *c)
{
  call_ok("backward", alibi_attention_backward(context, &c->a, &c->g, NULL, 0, &call_error));
}

/* What decoding does not use is spoilt. */
static inline void call_decode(call *c, alibi_cache *const *caches)
{
  alibi_attention *a = &c->a;
  c->rows.sequences = a->key_starts ? a->sequences : 0;
  c->rows.query_starts = a->query_starts;
  c->rows.key_starts = a->key_starts;
  a->keys = 0;
  a->k = a->v = (alibi_heads){NULL, 0, 0};
  a->key_starts = a->query_positions = a->key_positions = NULL;
  call_ok("decode", alibi_attention_decode(context, a, caches, NULL, 0, &call_error));
}

static inline alibi_cache *call_cache(const call *c, int64_t capacity)
{
  alibi_cache *cache = NULL;
  call_ok("a cache", alibi_cache_new(context, c->k.heads, c->k.size, capacity, &cache, &call_error));
  assert_int_equal(alibi_cache_length(cache), 0);
  return cache;
}

/* Keys from .. to-1 of a call, so many at a time. */
static inline void call_cache_fill(alibi_cache *cache, const call *c, int64_t from, int64_t to, int64_t chunk)
{
  bool plain = c->options.layout == LAYOUT_PLAIN;
  while (from < to) {
    int64_t count = to - from < chunk ? to - from : chunk, length = alibi_cache_length(cache);
    alibi_heads k = call_in(&c->k, plain), v = call_in(&c->v, plain);
    k.data = call_at(&c->k, from, 0);
    v.data = call_at(&c->v, from, 0);
    call_ok("append", alibi_cache_append(cache, &k, &v, count, &call_error));
    assert_int_equal(alibi_cache_length(cache), length + count);
    from += count;
  }
}

/* A cache for each sequence, with room for `spare` keys more (at least for one). */
static inline void call_caches(const call *c, int64_t spare, int64_t chunk, alibi_cache **caches)
{
  for (int64_t n = 0; n < formula_sequences(&c->a); n++) {
    int64_t from = formula_key_start(&c->a, n), to = formula_key_start(&c->a, n + 1);
    caches[n] = call_cache(c, to - from + spare + (to == from && spare == 0));
    call_cache_fill(caches[n], c, from, to, chunk);
  }
}

static inline void call_caches_free(int64_t count, alibi_cache *const *caches)
{
  for (int64_t n = 0; n < count; n++) alibi_cache_free(caches[n]);
}

/* The same queries with keys enough before them that some may be skipped. */
static inline call_options call_stretched(const call_options *o, double tolerance)
{
  enum { MORE = 320 };
  call_options longer = *o;
  longer.tolerance = tolerance;
  longer.keys += MORE;
  if (o->offset != ALIBI_BOTTOM_RIGHT) longer.offset += MORE;
  longer.query_shift = MORE * 5 / 2;
  if (o->queries > 60) longer.queries = 60;
  if (longer.layout == LAYOUT_FUSED) longer.queries = longer.keys;
  if (o->sequences) {
    int64_t *keys = call_memory((size_t)o->sequences, sizeof *keys),
            *queries = call_memory((size_t)o->sequences, sizeof *queries);
    for (int64_t n = 0; n < o->sequences; n++) {
      keys[n] = o->key_lengths[n] + (n % 2 ? 0 : MORE);
      queries[n] = longer.layout == LAYOUT_FUSED ? keys[n] : o->query_lengths[n];
    }
    longer.key_lengths = keys;
    longer.query_lengths = queries;
  }
  return longer;
}

/* ---- every option, and every pair ---- */

static const int64_t call_lengths[] = {70, 1, 64, 5}, call_other_lengths[] = {0, 70, 30, 0, 66},
                     call_key_lengths[] = {9, 40, 0, 0, 130};
static const int64_t call_documents[] = {330, 1, 400, 64}; /* long enough to skip in */
static const double call_steep[] = {8, 2, 0.5, 0, 3, 1, -0.01, 0.125};

typedef struct call_option {
  const char *name;
  int group; /* of one group, one at a time */
  void (*set)(call_options *o);
} call_option;

#define CALL_OPTION(name, ...)                                                                                    \
  static inline void call_set_##name(call_options *o)                                                             \
  {                                                                                                               \
    __VA_ARGS__                                                                                                   \
  }

CALL_OPTION(nothing, (void)o;)
CALL_OPTION(packed, o->sequences = 4; o->query_lengths = o->key_lengths = call_lengths;)
CALL_OPTION(packed_uneven, o->sequences = 5; o->query_lengths = call_other_lengths;
            o->key_lengths = call_key_lengths;)
CALL_OPTION(fewer_queries, o->queries = 30; o->keys = 170;)
CALL_OPTION(more_queries, o->queries = 150; o->keys = 67;)
CALL_OPTION(grouped, o->heads = 6; o->kv_heads = 2;)
CALL_OPTION(one_key_head, o->heads = 3; o->kv_heads = 1;)
CALL_OPTION(both_sides, o->both_sides = true;)
CALL_OPTION(window, o->window = 13;)
CALL_OPTION(wide_window, o->window = 90;)
CALL_OPTION(positions, o->positions = true;)
CALL_OPTION(later, o->offset = 37;)
CALL_OPTION(earlier, o->offset = -45;)
CALL_OPTION(scale, o->scale = -0.4; o->spread = 2;)
CALL_OPTION(cap, o->cap = 2.5;)
CALL_OPTION(none, o->bias = ALIBI_BIAS_NONE;)
CALL_OPTION(steep, o->slopes = call_steep;)
CALL_OPTION(sliced, o->total_heads = 24; o->head_offset = 13;)
CALL_OPTION(geometric, o->rule = ALIBI_SLOPES_GEOMETRIC; o->total_heads = 11; o->head_offset = 2;)
CALL_OPTION(table, o->bias = ALIBI_BIAS_DISTANCE;)
CALL_OPTION(factors, o->bias = ALIBI_BIAS_DISTANCE; o->factor = true;)
CALL_OPTION(offsets, o->bias = ALIBI_BIAS_KEY;)
CALL_OPTION(rows, o->bias = ALIBI_BIAS_ROWS;)
CALL_OPTION(gaps, o->layout = LAYOUT_GAPS;)
CALL_OPTION(head_major, o->layout = LAYOUT_HEAD_MAJOR;)
CALL_OPTION(fused, o->layout = LAYOUT_FUSED;)

static const call_option call_every_option[] = {
    {"nothing", 0, call_set_nothing},
    {"packed", 1, call_set_packed},
    {"packed, uneven", 1, call_set_packed_uneven},
    {"fewer queries", 1, call_set_fewer_queries},
    {"more queries", 1, call_set_more_queries},
    {"grouped", 2, call_set_grouped},
    {"one key head", 2, call_set_one_key_head},
    {"both sides", 3, call_set_both_sides},
    {"window", 4, call_set_window},
    {"wide window", 4, call_set_wide_window},
    {"positions", 5, call_set_positions},
    {"later queries", 5, call_set_later},
    {"earlier queries", 5, call_set_earlier},
    {"scale", 6, call_set_scale},
    {"cap", 7, call_set_cap},
    {"no bias", 8, call_set_none},
    {"steep slopes", 8, call_set_steep},
    {"sliced heads", 8, call_set_sliced},
    {"geometric slopes", 8, call_set_geometric},
    {"distance table", 8, call_set_table},
    {"distance table with factors", 8, call_set_factors},
    {"key offsets", 8, call_set_offsets},
    {"rows", 8, call_set_rows},
    {"gaps", 9, call_set_gaps},
    {"head-major", 9, call_set_head_major},
    {"fused", 9, call_set_fused},
};

enum { CALL_OPTIONS = sizeof call_every_option / sizeof call_every_option[0] };

/* Each option alone and with each other one, on top of `base`. */
static inline void call_for_every_pair(call_options base, void (*check)(const call_options *o))
{
  for (size_t i = 0; i < CALL_OPTIONS; i++)
    for (size_t j = i + 1; j < CALL_OPTIONS; j++) {
      const call_option *x = &call_every_option[i], *y = &call_every_option[j];
      if (x->group == y->group) continue;
      call_options o = base;
      o.seed = 100 * i + j;
      x->set(&o);
      y->set(&o);
      snprintf(call_name, sizeof call_name, "%s x %s", x->name, y->name);
      check(&o);
      call_free_all();
    }
}

/* With a context of each instruction set that the machine has. */
static inline void call_on_every_isa(void (*check)(const char *isa))
{
  static const char *const names[] = {"reference", "baseline", "avx2", "avx512", "neon"};
  alibi_context *mine = context;
  size_t tried = 0;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    context = call_try_context(names[n], 2);
    if (!context) continue;
    tried++;
    check(names[n]);
    alibi_context_free(context);
  }
  context = mine;
  assert_true(tried >= 2);
}

/* Each option alone, in a small call. */
static inline void call_for_every_option(const char *isa, void (*check)(const call_options *o))
{
  for (size_t i = 0; i < CALL_OPTIONS; i++) {
    call_options o = call_defaults();
    o.seed = i;
    o.size = i % 2 ? 17 : 32;
    o.heads = 2;
    o.queries = o.keys = 80;
    call_every_option[i].set(&o);
    snprintf(call_name, sizeof call_name, "%s, %s", isa, call_every_option[i].name);
    check(&o);
    call_free_all();
  }
}

#endif
