/* The public operator: a checked struct becomes the op_attention that models use as well.  What the caller leaves
 * out is made here in the scratch: slopes, the segments of packed sequences, tables turned round so that a block
 * of keys reads them forwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "op/attend.h"
#include "op/attention_check.h"

struct alibi_cache {
  block_cache *blocks;
  int kv_heads, head_size;
  size_t length;
  bool cleared; /* what others share must be left to them before anything is stored */
};

void alibi_attention_init(alibi_attention *attention)
{
  *attention = (alibi_attention){.size = sizeof *attention, .causal = 1, .query_offset = ALIBI_BOTTOM_RIGHT,
                                 .bias.kind = ALIBI_BIAS_SLOPE, .tolerance = ALIBI_TOLERANCE};
}

void alibi_attention_gradients_init(alibi_attention_gradients *gradients)
{
  *gradients = (alibi_attention_gradients){.size = sizeof *gradients};
}

void alibi_attention_report_init(alibi_attention_report *report)
{
  *report = (alibi_attention_report){.size = sizeof *report};
}

/* ---- a call ---- */

typedef struct attention_call {
  alibi_attention a;
  alibi_attention_gradients g;
  attention_task task;
  alibi_cache *const *caches;
  int64_t *key_counts; /* of decode */
  op_attention op;
  attention_rows rows;
  attention_tally tally;
  /* in the scratch */
  attention_segment *segments;
  float *slopes, *table, *factors, *tails_before, *tails_after, *largest_factors, *table_grad, *factor_grad;
  void *memory;
} attention_call;

static bool has_table(const attention_call *c)
{
  return c->a.bias.kind == ALIBI_BIAS_DISTANCE;
}

static void layout(const alibi_context *context, attention_call *c, arena *memory)
{
  const alibi_attention *a = &c->a;
  size_t heads = (size_t)a->heads, length = has_table(c) ? (size_t)a->bias.distances : 0;
  size_t table = size_mul(heads, length);
  size_t tails = size_mul(heads, op_tail_entries(length));
  bool backward = c->task == TASK_BACKWARD, proves = !backward && a->tolerance > 0 && has_table(c);
  size_t keys = c->task == TASK_DECODE ? 0 : (size_t)a->keys;
  for (int64_t n = 0; c->key_counts && !a->causal && n < a->sequences; n++)
    keys = size_add(keys, (size_t)c->key_counts[n]);
  c->segments = arena_take(memory, (size_t)a->sequences, sizeof *c->segments);
  if (a->bias.kind == ALIBI_BIAS_SLOPE) c->slopes = arena_floats(memory, heads);
  if (has_table(c)) c->table = arena_floats(memory, table);
  if (has_table(c) && a->bias.factor) c->factors = arena_floats(memory, table);
  if (proves) {
    c->tails_before = arena_floats(memory, tails);
    if (!a->causal) c->tails_after = arena_floats(memory, tails);
    c->largest_factors = arena_floats(memory, heads);
  }
  if (backward && c->g.added) c->table_grad = arena_floats(memory, table);
  if (backward && c->g.factor) c->factor_grad = arena_floats(memory, table);
  attention_size size = {.segments = (size_t)a->sequences, .queries = (size_t)a->queries, .keys = keys,
                         .heads = heads, .kv_heads = (size_t)a->kv_heads, .head_size = (size_t)a->head_size,
                         .table_length = length, .skips = a->tolerance > 0,
                         .key_offsets = a->bias.kind == ALIBI_BIAS_KEY, .both_sides = !a->causal,
                         .positions = a->query_positions != NULL, .backward = backward,
                         .slope_grad = c->g.slopes != NULL, .table_grad = c->g.added != NULL,
                         .factor_grad = c->g.factor != NULL};
  c->memory = arena_take(memory, op_attention_bytes(context, &size), 1);
}

/* Rows of [heads, length] the other way round. */
static void reverse(const float *from, size_t heads, size_t length, float *to)
{
  for (size_t h = 0; h < heads; h++)
    for (size_t t = 0; t < length; t++) to[h * length + length - 1 - t] = from[h * length + t];
}

static void add_reversed(const float *from, size_t heads, size_t length, float *to)
{
  for (size_t h = 0; h < heads; h++)
    for (size_t t = 0; t < length; t++) to[h * length + t] += from[h * length + length - 1 - t];
}

static status fill_slopes(attention_call *c, alibi_error *error)
{
  const alibi_bias *b = &c->a.bias;
  double *all = NULL;
  status result;
  if (b->slopes) {
    for (int h = 0; h < c->a.heads; h++) c->slopes[h] = (float)b->slopes[h];
    return ALIBI_OK;
  }
  TRY(memory_new(&all, (size_t)b->total_heads, sizeof *all, "slopes", error));
  TRY(alibi_slopes(b->total_heads, b->max_bias, b->slope_rule, all, error));
  for (int h = 0; h < c->a.heads; h++) c->slopes[h] = (float)all[b->head_offset + h];
done:
  memory_free(all);
  return result;
}

static void fill_segments(attention_call *c)
{
  for (int64_t n = 0; n < c->a.sequences; n++) {
    attention_rows_of s = attention_sequence(&c->a, c->key_counts, n);
    int64_t first = c->a.query_offset == ALIBI_BOTTOM_RIGHT ? s.keys - s.queries : c->a.query_offset;
    c->segments[n] = (attention_segment){.row = (size_t)s.query, .rows = (size_t)s.queries,
                                         .first = (ptrdiff_t)first, .key_row = (size_t)s.key,
                                         .keys = (size_t)s.keys,
                                         .cache = c->caches ? c->caches[n]->blocks : NULL};
  }
}

static op_heads rows_of(alibi_heads x)
{
  return (op_heads){x.data, (size_t)x.row_stride, (size_t)x.head_stride};
}

static op_heads_out rows_out(alibi_heads_out x)
{
  return (op_heads_out){x.data, (size_t)x.row_stride, (size_t)x.head_stride};
}

/* As alibi_bias_kind. */
static const bias_kind kinds[] = {BIAS_NONE, BIAS_SLOPE, BIAS_DISTANCE, BIAS_KEY, BIAS_ROWS};

static status fill(alibi_context *context, attention_call *c, alibi_error *error)
{
  const alibi_attention *a = &c->a;
  size_t heads = (size_t)a->heads, length = has_table(c) ? (size_t)a->bias.distances : 0;
  status result;
  if (c->slopes) TRY(fill_slopes(c, error));
  if (c->table) reverse(a->bias.added, heads, length, c->table);
  if (c->factors) reverse(a->bias.factor, heads, length, c->factors);
  fill_segments(c);
  c->rows = (attention_rows){a->bias.rows, a->bias.rows_gradient, a->bias.user};
  c->op = (op_attention){.heads = heads, .kv_heads = (size_t)a->kv_heads, .head_size = (size_t)a->head_size,
                         .segments = c->segments, .segment_count = (size_t)a->sequences, .q = rows_of(a->q),
                         .k = rows_of(a->k), .v = rows_of(a->v), .query_positions = a->query_positions,
                         .key_positions = a->key_positions, .scale = (float)a->scale, .cap = (float)a->soft_cap,
                         .both_sides = !a->causal, .window = (size_t)a->window, .bias = kinds[a->bias.kind],
                         .slopes = c->slopes, .table = c->table, .factors = c->factors,
                         .lowest = has_table(c) ? (ptrdiff_t)a->bias.lowest : 0, .table_length = length,
                         .offsets = a->bias.offsets, .query_offsets = a->bias.query_offsets, .rows = &c->rows,
                         .tolerance = a->tolerance, .out = rows_out(a->out), .lse = a->lse, .visited = a->visited,
                         .tally = a->report ? &c->tally : NULL, .stops_when_cancelled = true};
  if (c->tails_before) {
    op_table_tails(context, &c->op, c->tails_before, c->tails_after, c->largest_factors);
    c->op.tails_before = c->tails_before;
    c->op.tails_after = c->tails_after;
    c->op.largest_factors = c->largest_factors;
  }
  return ALIBI_OK;
done:
  return result;
}

static void write_report(const attention_call *c)
{
  if (!c->a.report) return;
  alibi_attention_report report = {
      .pairs_visible = c->tally.pairs_visible, .pairs_visited = c->tally.pairs_visited,
      .blocks_visible = c->tally.blocks_visible, .blocks_visited = c->tally.blocks_visited,
      .skipped = c->tally.skipped, .bound = 2 * c->tally.skipped};
  settings_give(&report, sizeof report, c->a.report);
}

static void run_backward(alibi_context *context, attention_call *c)
{
  const alibi_attention_gradients *g = &c->g;
  size_t heads = (size_t)c->a.heads, length = c->op.table_length;
  c->op.dout = rows_of(g->dout);
  c->op.dq = rows_out(g->dq);
  c->op.dk = rows_out(g->dk);
  c->op.dv = rows_out(g->dv);
  c->op.slope_grad = g->slopes;
  c->op.offset_grad = g->offsets;
  c->op.table_grad = c->table_grad;
  c->op.factor_grad = c->factor_grad;
  if (!(c->a.tolerance > 0)) c->op.visited = NULL;
  if (c->table_grad) memset(c->table_grad, 0, heads * length * sizeof(float));
  if (c->factor_grad) memset(c->factor_grad, 0, heads * length * sizeof(float));
  op_attention_backward(context, &c->op, c->memory);
  if (c->table_grad) add_reversed(c->table_grad, heads, length, g->added);
  if (c->factor_grad) add_reversed(c->factor_grad, heads, length, g->factor);
}

/* ---- the way in ---- */

static status take_structs(const alibi_context *context, const alibi_attention *attention,
                           const alibi_attention_gradients *gradients, attention_call *c, alibi_error *error)
{
  status result;
  if (!context) RAISE(error, ALIBI_INVALID, "alibi_attention: expected a context, found NULL");
  alibi_attention_init(&c->a);
  alibi_attention_gradients_init(&c->g);
  TRY(settings_take(attention, &c->a, sizeof c->a, "alibi_attention", error));
  if (c->task == TASK_BACKWARD)
    TRY(settings_take(gradients, &c->g, sizeof c->g, "alibi_attention_gradients", error));
  return ALIBI_OK;
done:
  return result;
}

/* Lengths of the caches, once the shape is checked; key_counts is the caller's to free. */
static status count_keys(attention_call *c, alibi_error *error)
{
  status result;
  int kv_heads = c->a.kv_heads;
  if (!c->caches) RAISE(error, ALIBI_INVALID, "caches: expected one for each sequence, found NULL");
  TRY(memory_new(&c->key_counts, (size_t)c->a.sequences, sizeof *c->key_counts, "the lengths of caches", error));
  for (int64_t n = 0; n < c->a.sequences; n++) {
    const alibi_cache *cache = c->caches[n];
    if (!cache) RAISE(error, ALIBI_INVALID, "caches[%lld]: expected a cache, found NULL", (long long)n);
    if (cache->kv_heads != kv_heads || cache->head_size != c->a.head_size)
      RAISE(error, ALIBI_INVALID, "caches[%lld]: expected %d key-value heads of size %d, found %d of size %d",
            (long long)n, kv_heads, c->a.head_size, cache->kv_heads, cache->head_size);
    if (cache->blocks->kernel != c->caches[0]->blocks->kernel)
      RAISE(error, ALIBI_INVALID, "caches[%lld]: expected caches made for one instruction set, found two",
            (long long)n);
    c->key_counts[n] = (int64_t)cache->length;
  }
done:
  return result;
}

static status take_shape(const alibi_context *context, const alibi_attention *attention,
                         const alibi_attention_gradients *gradients, attention_call *c, alibi_error *error)
{
  status result;
  TRY(take_structs(context, attention, gradients, c, error));
  TRY(attention_check_shape(&c->a, c->task, error));
  if (c->task == TASK_DECODE) TRY(count_keys(c, error));
done:
  return result;
}

static status measure(const alibi_context *context, attention_call *c, size_t *bytes, alibi_error *error)
{
  arena counted = {0};
  layout(context, c, &counted);
  *bytes = size_add(counted.used, MEMORY_ALIGNMENT);
  if (*bytes > PTRDIFF_MAX)
    return fail(error, ALIBI_INVALID,
                "queries, keys: expected sizes whose product fits into memory, found %lld and %lld",
                (long long)c->a.queries, (long long)c->a.keys);
  return ALIBI_OK;
}

/* scratch, from its first aligned address on; or memory of our own. */
static status place(const alibi_context *context, attention_call *c, void *scratch, size_t needed, void **own,
                    alibi_error *error)
{
  status result = ALIBI_OK;
  if (!scratch) {
    arena untouched = {.used = needed};
    TRY(arena_allocate_untouched(&untouched, "the scratch of attention", error));
    scratch = *own = untouched.base;
  }
  uintptr_t start = ((uintptr_t)scratch + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
  arena given = {.base = (char *)start, .size = needed};
  layout(context, c, &given);
done:
  return result;
}

static status prepare_caches(const attention_call *c, alibi_error *error)
{
  size_t share = (size_t)(c->a.heads / c->a.kv_heads);
  status result = ALIBI_OK;
  bool falls = c->a.bias.kind == ALIBI_BIAS_SLOPE || has_table(c);
  if (c->a.tolerance <= 0 || !falls) return ALIBI_OK;
  for (int64_t n = 0; n < c->a.sequences; n++) TRY(block_cache_prepare_proof(c->caches[n]->blocks, share, error));
done:
  return result;
}

static status run(alibi_context *context, const alibi_attention *attention,
                  const alibi_attention_gradients *gradients, attention_task task, alibi_cache *const *caches,
                  void *scratch, size_t bytes, alibi_error *error)
{
  status result;
  attention_call c = {.task = task, .caches = caches};
  void *own = NULL;
  size_t needed = 0;
  TRY(take_shape(context, attention, gradients, &c, error));
  TRY(measure(context, &c, &needed, error));
  if (scratch && bytes < needed)
    RAISE(error, ALIBI_INVALID, "scratch: expected at least %zu bytes, found %zu", needed, bytes);
  TRY(attention_check(&c.a, task, c.key_counts, task == TASK_BACKWARD ? &c.g : NULL,
                      (attention_memory){scratch, needed}, error));
  if (task == TASK_DECODE) TRY(prepare_caches(&c, error));
  TRY(place(context, &c, scratch, needed, &own, error));
  TRY(fill(context, &c, error));
  if (task == TASK_BACKWARD)
    run_backward(context, &c);
  else
    op_attention_forward(context, &c.op, c.memory);
  TRY(context_check_cancel(context, error));
  if (task != TASK_BACKWARD) write_report(&c);
done:
  memory_free(own);
  memory_free(c.key_counts);
  return result;
}

static status scratch_of(alibi_context *context, const alibi_attention *attention,
                         const alibi_attention_gradients *gradients, attention_task task,
                         alibi_cache *const *caches, size_t *bytes, alibi_error *error)
{
  status result;
  attention_call c = {.task = task, .caches = caches};
  if (!bytes) RAISE(error, ALIBI_INVALID, "bytes: expected a pointer to the size, found NULL");
  *bytes = 0;
  TRY(take_shape(context, attention, gradients, &c, error));
  TRY(measure(context, &c, bytes, error));
done:
  memory_free(c.key_counts);
  return result;
}

alibi_status alibi_attention_forward_scratch(alibi_context *context, const alibi_attention *attention,
                                             size_t *bytes, alibi_error *error)
{
  return scratch_of(context, attention, NULL, TASK_FORWARD, NULL, bytes, error);
}

alibi_status alibi_attention_forward(alibi_context *context, const alibi_attention *attention, void *scratch,
                                     size_t scratch_bytes, alibi_error *error)
{
  return run(context, attention, NULL, TASK_FORWARD, NULL, scratch, scratch_bytes, error);
}

alibi_status alibi_attention_backward_scratch(alibi_context *context, const alibi_attention *attention,
                                              const alibi_attention_gradients *gradients, size_t *bytes,
                                              alibi_error *error)
{
  return scratch_of(context, attention, gradients, TASK_BACKWARD, NULL, bytes, error);
}

alibi_status alibi_attention_backward(alibi_context *context, const alibi_attention *attention,
                                      const alibi_attention_gradients *gradients, void *scratch,
                                      size_t scratch_bytes, alibi_error *error)
{
  return run(context, attention, gradients, TASK_BACKWARD, NULL, scratch, scratch_bytes, error);
}

alibi_status alibi_attention_decode_scratch(alibi_context *context, const alibi_attention *attention,
                                            alibi_cache *const *caches, size_t *bytes, alibi_error *error)
{
  return scratch_of(context, attention, NULL, TASK_DECODE, caches, bytes, error);
}

alibi_status alibi_attention_decode(alibi_context *context, const alibi_attention *attention,
                                    alibi_cache *const *caches, void *scratch, size_t scratch_bytes,
                                    alibi_error *error)
{
  return run(context, attention, NULL, TASK_DECODE, caches, scratch, scratch_bytes, error);
}

/* ---- the cache ---- */

static status cache_wrap(int kv_heads, int head_size, alibi_cache **cache, alibi_error *error)
{
  status result = memory_new(cache, 1, sizeof **cache, "a cache", error);
  if (result == ALIBI_OK) **cache = (alibi_cache){.kv_heads = kv_heads, .head_size = head_size};
  return result;
}

alibi_status alibi_cache_new(alibi_context *context, int kv_heads, int head_size, int64_t capacity,
                             alibi_cache **cache, alibi_error *error)
{
  status result;
  if (!cache) return fail(error, ALIBI_INVALID, "alibi_cache_new: expected a pointer for the cache, found NULL");
  *cache = NULL;
  if (!context) RAISE(error, ALIBI_INVALID, "alibi_cache_new: expected a context, found NULL");
  if (kv_heads < 1 || kv_heads > ALIBI_MAX_HEADS)
    RAISE(error, ALIBI_INVALID, "kv_heads: expected 1 to %d, found %d", ALIBI_MAX_HEADS, kv_heads);
  if (head_size < 1 || head_size > 256)
    RAISE(error, ALIBI_INVALID, "head_size: expected 1 to 256, found %d", head_size);
  if (capacity < 1) RAISE(error, ALIBI_INVALID, "capacity: expected 1 or more, found %lld", (long long)capacity);
  TRY(cache_wrap(kv_heads, head_size, cache, error));
  TRY(block_cache_new(context->kernel, (size_t)kv_heads, (size_t)head_size, 0, (size_t)capacity,
                      &(*cache)->blocks, error));
  return ALIBI_OK;
done:
  alibi_cache_free(*cache);
  *cache = NULL;
  return result;
}

void alibi_cache_free(alibi_cache *cache)
{
  if (!cache) return;
  block_cache_free(cache->blocks);
  memory_free(cache);
}

alibi_status alibi_cache_share(alibi_cache *from, int64_t length, int64_t capacity, alibi_cache **cache,
                               alibi_error *error)
{
  status result;
  if (!cache) return fail(error, ALIBI_INVALID, "alibi_cache_share: expected a pointer for the cache, found NULL");
  *cache = NULL;
  if (!from) RAISE(error, ALIBI_INVALID, "alibi_cache_share: expected a cache, found NULL");
  if (length < 0 || (size_t)length > from->length)
    RAISE(error, ALIBI_INVALID, "length: expected at most the %zu keys of the cache, found %lld", from->length,
          (long long)length);
  if (capacity < 1 || capacity < length)
    RAISE(error, ALIBI_INVALID, "capacity: expected at least the %lld keys shared, and 1, found %lld",
          (long long)length, (long long)capacity);
  TRY(cache_wrap(from->kv_heads, from->head_size, cache, error));
  TRY(block_cache_share(from->blocks, (size_t)length, (size_t)capacity, &(*cache)->blocks, error));
  (*cache)->length = (size_t)length;
  return ALIBI_OK;
done:
  alibi_cache_free(*cache);
  *cache = NULL;
  return result;
}

alibi_status alibi_cache_append(alibi_cache *cache, const alibi_heads *k, const alibi_heads *v, int64_t count,
                                alibi_error *error)
{
  status result;
  if (!cache || !k || !v)
    RAISE(error, ALIBI_INVALID, "alibi_cache_append: expected a cache, keys and values, found NULL");
  if (count < 0 || (size_t)count > cache->blocks->capacity - cache->length)
    RAISE(error, ALIBI_INVALID, "count: expected 0 to %zu (%zu keys are there, of %zu), found %lld",
          cache->blocks->capacity - cache->length, cache->length, cache->blocks->capacity, (long long)count);
  alibi_heads keys = *k, values = *v;
  TRY(attention_check_rows("k", &keys, count, cache->kv_heads, cache->head_size, error));
  TRY(attention_check_rows("v", &values, count, cache->kv_heads, cache->head_size, error));
  if (count == 0) return ALIBI_OK;
  if (cache->cleared) TRY(block_cache_restart(cache->blocks, error));
  cache->cleared = false;
  for (int g = 0; g < cache->kv_heads; g++)
    block_cache_store(cache->blocks, (size_t)g, cache->length, (size_t)count, keys.data + g * keys.head_stride,
                      (size_t)keys.row_stride, values.data + g * values.head_stride, (size_t)values.row_stride);
  cache->length += (size_t)count;
done:
  return result;
}

void alibi_cache_clear(alibi_cache *cache)
{
  if (!cache) return;
  cache->length = 0;
  cache->cleared = true;
}

int64_t alibi_cache_length(const alibi_cache *cache)
{
  return cache ? (int64_t)cache->length : 0;
}
