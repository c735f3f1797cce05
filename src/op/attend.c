/* Attention forward over all segments and heads: an item is a crew of tiles of one head of one segment, or a short
 * segment with all its heads.  Before it the proof of skipping is prepared: a table of each run of blocks from a
 * segment's first, so that a row asks one table for all that it has not visited. */
#include "op/attend.h"

#include <math.h>
#include <string.h>

#include "kernel/attention_offsets.h"
#include "op/attend_plan.h"
#include "op/team.h"

/* ---- memory ---- */

attend_plan attend_layout(const alibi_context *context, const attention_size *s, arena *memory)
{
  attend_plan p = {.blocks = size_add(s->keys / ATTENTION_BLOCK, s->segments)};
  if (!s->backward) /* of segments with a proof */
    p.blocks = s->skips ? s->keys / ATTENTION_BLOCK + s->keys / (PROOF_FROM * ATTENTION_BLOCK) : 0;
  size_t head_blocks = size_mul(s->heads, p.blocks), tables = size_mul(head_blocks, PROOF_TABLE);
  p.scratch_floats = size_round_up(context->kernel->attention_scratch(s->head_size), 16);
  p.scratch = arena_floats(memory, size_mul((size_t)context->threads, p.scratch_floats));
  p.block_start = arena_take(memory, size_add(s->segments, 1), sizeof *p.block_start);
  p.head_order = arena_take(memory, s->heads, sizeof *p.head_order);
  if (!s->backward) {
    p.tallies = arena_take(memory, (size_t)context->threads, sizeof *p.tallies);
    p.slots = p.blocks / (PROOF_FROM + 1) + 1 < s->segments ? p.blocks / (PROOF_FROM + 1) + 1 : s->segments;
    size_t centres = size_mul(PROOF_CLUSTERS, s->head_size);
    p.clusters = arena_floats(memory, size_mul(size_mul(s->kv_heads, p.slots), centres));
    p.tables_before = arena_floats(memory, tables);
    if (s->both_sides) p.tables_after = arena_floats(memory, tables);
    if (s->key_offsets) p.ends_before = arena_take(memory, head_blocks, sizeof *p.ends_before);
    if (s->key_offsets && s->both_sides) p.ends_after = arena_take(memory, head_blocks, sizeof *p.ends_after);
    return p;
  }
  p.span_start = arena_take(memory, size_add(s->segments, 1), sizeof *p.span_start);
  p.delta = arena_floats(memory, size_mul(s->queries, s->heads));
  p.visitors = arena_take(memory, size_mul(head_blocks, 2), sizeof *p.visitors);
  p.turns = arena_take(memory, size_mul(s->kv_heads, p.blocks), sizeof *p.turns);
  if (s->slope_grad) p.slope_parts = arena_take(memory, head_blocks, sizeof *p.slope_parts);
  if (s->slope_grad || s->query_offset_grad)
    p.row_sums = arena_floats(memory, size_mul(size_mul(s->queries, s->heads), 2));
  p.part_start = arena_take(memory, size_add(s->segments, 1), sizeof *p.part_start);
  p.parts = size_mul(s->segments, s->table_length);
  if (!s->positions && p.parts > size_add(s->queries, s->keys)) p.parts = size_add(s->queries, s->keys);
  tables = size_mul(s->heads, p.parts);
  if (s->table_grad) p.table_parts = arena_floats(memory, tables);
  if (s->factor_grad) p.factor_parts = arena_floats(memory, tables);
  return p;
}

size_t op_attention_bytes(const alibi_context *context, const attention_size *size)
{
  arena counted = {0};
  attend_layout(context, size, &counted);
  return counted.used;
}

static bool may_skip(const alibi_context *context, const op_attention *a)
{
  if (a->tolerance <= 0 || !context->kernel->proof_sums) return false;
  return a->bias == BIAS_SLOPE || a->bias == BIAS_KEY || (a->bias == BIAS_DISTANCE && a->tails_before);
}

/* Rows of a segment may stand so far from its ends that a proof is worth its while. */
static bool has_proof(const attention_segment *s)
{
  return s->keys > PROOF_FROM * ATTENTION_BLOCK;
}

/* A cache looks back only: where queries see both sides, its proof is made anew like that of keys in rows. */
static bool proof_is_cached(const op_attention *a, const attention_segment *s)
{
  return s->cache && !a->both_sides;
}

distance_range attend_distances(const op_attention *a, const attention_segment *s)
{
  distance_range table = {a->lowest, a->lowest + (int64_t)a->table_length};
  if (a->query_positions) return table;
  int64_t from = s->first - (int64_t)s->keys + 1, to = s->first + (int64_t)s->rows;
  if (!a->both_sides && from < 0) from = 0;
  if (from < table.from) from = table.from;
  if (to > table.to) to = table.to;
  return (distance_range){from, from < to ? to : from};
}

attend_plan attend_begin(const alibi_context *context, const op_attention *a, bool backward, void *memory)
{
  attention_size s = {.segments = a->segment_count, .heads = a->heads, .kv_heads = a->kv_heads,
                      .head_size = a->head_size, .table_length = a->table_length, .both_sides = a->both_sides,
                      .positions = a->query_positions != NULL, .skips = may_skip(context, a),
                      .key_offsets = a->bias == BIAS_KEY, .query_offset_grad = a->query_offset_grad != NULL,
                      .backward = backward, .slope_grad = a->slope_grad != NULL,
                      .table_grad = a->table_grad != NULL, .factor_grad = a->factor_grad != NULL};
  for (size_t i = 0; i < a->segment_count; i++) {
    size_t end = a->segments[i].row + a->segments[i].rows;
    if (end > s.queries) s.queries = end;
    if (!proof_is_cached(a, &a->segments[i])) s.keys += a->segments[i].keys;
  }
  arena given = {.base = memory, .size = SIZE_MAX};
  attend_plan p = attend_layout(context, &s, &given);
  size_t blocks = 0, spans = 0, parts = 0, most = context->kernel->attention_span(a->head_size);
  for (size_t i = 0; i < a->segment_count; i++) {
    p.block_start[i] = blocks;
    if (backward) p.span_start[i] = spans;
    if (backward) p.part_start[i] = parts;
    distance_range distances = attend_distances(a, &a->segments[i]);
    parts += (size_t)(distances.to - distances.from);
    spans += (tiles_of(a->segments[i].keys) + most - 1) / most;
    if (backward || (s.skips && has_proof(&a->segments[i]) && !proof_is_cached(a, &a->segments[i])))
      blocks += tiles_of(a->segments[i].keys);
  }
  p.block_start[a->segment_count] = blocks;
  if (backward) p.span_start[a->segment_count] = spans;
  if (backward) p.part_start[a->segment_count] = parts;
  return p;
}

size_t attend_segment_of(const size_t *starts, size_t segments, size_t place)
{
  size_t low = 0, high = segments; /* the last one that starts there or before */
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (starts[middle] <= place)
      low = middle;
    else
      high = middle;
  }
  return low;
}

double attend_operations(const op_attention *a)
{
  double pairs = 0;
  for (size_t s = 0; s < a->segment_count; s++) pairs += (double)a->segments[s].rows * (double)a->segments[s].keys;
  return pairs * (double)(a->heads * a->head_size);
}

/* ---- items ---- */

bool attend_whole_segments(const alibi_context *context, const op_attention *a)
{
  const size_t longest = PROOF_FROM * ATTENTION_BLOCK;
  size_t most = 0, all = 0; /* pairs of rows and keys */
  for (size_t i = 0; i < a->segment_count; i++) {
    const attention_segment *s = &a->segments[i];
    if (s->cache || s->keys > longest || s->rows > longest) return false;
    size_t pairs = s->rows * s->keys;
    if (pairs > most) most = pairs;
    all += pairs;
  }
  return all > 0 && most <= all / (4 * (size_t)context->threads);
}

void attend_fetch(const op_heads *x, size_t heads, size_t head_size, size_t row, size_t rows)
{
  enum { LINE = 16, MOST = 64 << 10 }; /* floats; bytes: two segments, eight times, should fit a cache of 1 MB */
  if (rows * heads * head_size * sizeof *x->data > MOST) return;
  for (size_t r = row; r < row + rows; r++)
    for (size_t h = 0; h < heads; h++)
      for (size_t c = 0; c < head_size; c += LINE)
        __builtin_prefetch(x->data + r * x->row_stride + h * x->head_stride + c, 0, 2);
}

void attend_fetch_segment(const op_attention *a, size_t segment)
{
  if (segment >= a->segment_count) return;
  const attention_segment *s = &a->segments[segment];
  op_heads out = attend_read(&a->out);
  attend_fetch(&a->q, a->heads, a->head_size, s->row, s->rows);
  attend_fetch(&a->k, a->kv_heads, a->head_size, s->key_row, s->keys);
  attend_fetch(&a->v, a->kv_heads, a->head_size, s->key_row, s->keys);
  attend_fetch(&out, a->heads, a->head_size, s->row, s->rows);
}

/* ---- heads ---- */

static const float *table_at_zero(const op_attention *a, const float *table, size_t h)
{
  return table ? table + (ptrdiff_t)((h + 1) * a->table_length) - 1 + a->lowest : NULL;
}

attention_head attend_head(const op_attention *a, size_t segment, size_t h)
{
  const attention_segment *s = &a->segments[segment];
  size_t group = h / (a->heads / a->kv_heads), row = s->row;
  bool numbered = a->rows_by_position || s->cache; /* keys from 0 on */
  attention_head head = {
      .queries = s->rows, .keys = s->keys, .head_size = a->head_size, .scale = a->scale, .cap = a->cap,
      .first = s->first, .both_sides = a->both_sides, .window = a->window, .bias = a->bias,
      .slope = a->bias == BIAS_SLOPE ? a->slopes[h] : 0, .rows = a->rows, .head = (int)h,
      .query_row = a->rows_by_position ? (int64_t)(s->first + s->origin) : (int64_t)row,
      .key_row = numbered ? (int64_t)s->origin : (int64_t)s->key_row,
      .q = a->q.data + row * a->q.row_stride + h * a->q.head_stride, .q_stride = a->q.row_stride,
      .k_stride = a->k.row_stride, .v_stride = a->v.row_stride,
      .proof.log_tolerance = -INFINITY,
      .out = a->out.data + row * a->out.row_stride + h * a->out.head_stride, .out_stride = a->out.row_stride,
      .lse = a->lse ? a->lse + row * a->heads + h : NULL,
      .visited = a->visited ? a->visited + 2 * (row * a->heads + h) : NULL, .row_stride = a->heads};
  if (a->query_positions) {
    head.query_positions = a->query_positions + row;
    head.key_positions = a->key_positions + s->key_row;
  }
  if (a->bias == BIAS_DISTANCE) {
    head.table = table_at_zero(a, a->table, h);
    head.factors = table_at_zero(a, a->factors, h);
  }
  if (a->bias == BIAS_KEY) {
    head.offsets = s->cache ? NULL : a->offsets + s->key_row * a->heads + h;
    head.offset_place = h % (a->heads / a->kv_heads) * ATTENTION_BLOCK;
    if (a->query_offsets) head.query_offsets = a->query_offsets + row * a->heads + h;
    head.offset_stride = a->heads;
  }
  if (s->cache) {
    size_t list = (s->list + group) * s->cache->blocks;
    head.first_block = s->cache->first_block[s->list + group];
    head.key_blocks = (const float *const *)(s->cache->key_blocks + list);
    head.value_blocks = (const float *const *)(s->cache->value_blocks + list);
  } else {
    head.k = a->k.data + s->key_row * a->k.row_stride + group * a->k.head_stride;
    head.v = a->v.data + s->key_row * a->v.row_stride + group * a->v.head_stride;
  }
  return head;
}

/* ---- the proof ---- */

/* Segments with a proof have more than PROOF_FROM blocks: a part of all, or as many slots as segments. */
static float *clusters_of(const op_attention *a, const attend_plan *p, size_t group, size_t segment)
{
  size_t slot = p->slots == a->segment_count ? segment : p->block_start[segment] / (PROOF_FROM + 1);
  return p->clusters + (group * p->slots + slot) * PROOF_CLUSTERS * a->head_size;
}

/* The keys of a block, turned, into the thread's scratch; returns how many. */
static size_t turn_keys(const alibi_context *context, const op_attention *a, const attention_segment *s,
                        size_t group, size_t block, float *turned)
{
  size_t start = block * ATTENTION_BLOCK;
  size_t rows = s->keys - start < ATTENTION_BLOCK ? s->keys - start : ATTENTION_BLOCK;
  if (s->cache) {
    const float *key = s->cache->key_blocks[(s->list + group) * s->cache->blocks + block];
    memcpy(turned, key, ATTENTION_BLOCK * a->head_size * sizeof *key);
    return rows;
  }
  context->kernel->attention_turn(rows, a->head_size,
                                  a->k.data + (s->key_row + start) * a->k.row_stride + group * a->k.head_stride,
                                  a->k.row_stride, turned);
  return rows;
}

static void find_clusters(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t items = a->segment_count * a->kv_heads, d = a->head_size;
  OP_FOR_ITEMS(context, static, items, (double)(items * 64 * ATTENTION_BLOCK * d), {
    const attention_segment *s = &a->segments[item / a->kv_heads];
    float *turned = p->scratch + worker * p->scratch_floats;
    if (proof_is_cached(a, s) || !has_proof(s)) continue;
    turn_keys(context, a, s, item % a->kv_heads, 0, turned);
    context->kernel->proof_clusters(d, turned, clusters_of(a, p, item % a->kv_heads, item / a->kv_heads));
  });
}

static double offset_of(const op_attention *a, const attention_segment *s, size_t h, size_t key)
{
  return a->offsets[(s->key_row + key) * a->heads + h];
}

/* The biases of a block's keys, as seen from key `from` of the segment; KEY: beyond that key's. */
static void block_bias(const op_attention *a, const attention_segment *s, size_t h, size_t start, size_t rows,
                       size_t from, float *bias)
{
  const int64_t *positions = a->key_positions ? a->key_positions + s->key_row : NULL;
  for (size_t j = 0; j < ATTENTION_BLOCK; j++) {
    size_t key = start + (j < rows ? j : rows - 1);
    int64_t distance = positions ? positions[from] - positions[key] : (int64_t)from - (int64_t)key;
    bias[j] = 0;
    if (a->bias == BIAS_SLOPE) bias[j] = -a->slopes[h] * (float)(distance < 0 ? -distance : distance);
    if (a->bias == BIAS_KEY) bias[j] = rounded_up(offset_of(a, s, h, key) - offset_of(a, s, h, from));
  }
}

/* The table of each block by itself. */
static void sum_blocks(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t blocks = p->block_start[a->segment_count], items = blocks * a->kv_heads, d = a->head_size;
  size_t share = a->heads / a->kv_heads;
  OP_FOR_ITEMS(context, static, items, (double)(items * ATTENTION_BLOCK * d * (4 + share)), {
    size_t block = item / a->kv_heads, group = item % a->kv_heads;
    size_t segment = attend_segment_of(p->block_start, a->segment_count, block);
    size_t own = block - p->block_start[segment];
    const attention_segment *s = &a->segments[segment];
    float *turned = p->scratch + worker * p->scratch_floats;
    float bias[ATTENTION_BLOCK];
    if (!has_proof(s)) continue;
    size_t rows = turn_keys(context, a, s, group, own, turned), start = own * ATTENTION_BLOCK;
    const float *clusters = clusters_of(a, p, group, segment);
    for (size_t h = group * share; h < (group + 1) * share; h++) {
      size_t place = h * p->blocks + block, at = place * PROOF_TABLE;
      block_bias(a, s, h, start, rows, start + rows - 1, bias);
      context->kernel->proof_sums(rows, d, turned, clusters, bias, p->tables_before + at);
      if (p->ends_before) p->ends_before[place] = offset_of(a, s, h, start + rows - 1);
      if (!p->tables_after) continue;
      if (p->ends_after) p->ends_after[place] = offset_of(a, s, h, start);
      block_bias(a, s, h, start, rows, start, bias);
      context->kernel->proof_sums(rows, d, turned, clusters, bias, p->tables_after + at);
    }
  });
}

/* What biases grow by when they are seen from key `to` instead of key `from`. */
static float shift_of(const op_attention *a, const attention_segment *s, size_t h, size_t from, size_t to)
{
  int64_t distance = (int64_t)to - (int64_t)from;
  if (a->bias == BIAS_KEY) return rounded_up(offset_of(a, s, h, from) - offset_of(a, s, h, to));
  if (a->bias != BIAS_SLOPE) return 0;
  if (a->key_positions) distance = a->key_positions[s->key_row + to] - a->key_positions[s->key_row + from];
  return -a->slopes[h] * (float)(distance < 0 ? -distance : distance);
}

/* Tables of blocks become those of all blocks before, and of all after. */
static void join_blocks(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t items = a->segment_count * a->heads, blocks = p->block_start[a->segment_count];
  OP_FOR_ITEMS(context, static, items, 256.0 * (double)(blocks * a->heads), {
    size_t segment = item / a->heads, h = item % a->heads;
    const attention_segment *s = &a->segments[segment];
    size_t count = tiles_of(s->keys), at = (h * p->blocks + p->block_start[segment]) * PROOF_TABLE;
    float *before = p->tables_before + at, *after = p->tables_after ? p->tables_after + at : NULL;
    if (proof_is_cached(a, s) || !has_proof(s)) continue;
    for (size_t b = 1; b < count; b++) {
      size_t end = b * ATTENTION_BLOCK - 1;
      size_t last = end + ATTENTION_BLOCK < s->keys ? end + ATTENTION_BLOCK : s->keys - 1;
      context->kernel->proof_join(before + (b - 1) * PROOF_TABLE, shift_of(a, s, h, end, last),
                                  before + b * PROOF_TABLE);
    }
    for (size_t b = count; after && b-- > 1;)
      context->kernel->proof_join(after + b * PROOF_TABLE,
                                  shift_of(a, s, h, b * ATTENTION_BLOCK, (b - 1) * ATTENTION_BLOCK),
                                  after + (b - 1) * PROOF_TABLE);
  });
}

static void prepare_proof(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  bool any = false;
  for (size_t i = 0; i < a->segment_count; i++) {
    const attention_segment *s = &a->segments[i];
    if (!has_proof(s)) continue;
    any = any || !proof_is_cached(a, s);
    for (size_t g = 0; proof_is_cached(a, s) && g < a->kv_heads; g++)
      block_cache_prove(s->cache, s->list + g, s->keys / ATTENTION_BLOCK,
                        a->bias == BIAS_SLOPE ? a->slopes + g * (a->heads / a->kv_heads) : NULL);
  }
  if (!any) return;
  find_clusters(context, a, p);
  sum_blocks(context, a, p);
  join_blocks(context, a, p);
}

/* The distance nearest to 0 that a table has to one side: an absolute value. */
static int64_t first_of_side(const op_attention *a, int sign)
{
  int64_t nearest = sign > 0 ? a->lowest : -(a->lowest + (int64_t)a->table_length - 1);
  return nearest > 0 ? nearest : 0;
}

static void prove(const op_attention *a, const attend_plan *p, size_t segment, size_t h, attention_head *head)
{
  const attention_segment *s = &a->segments[segment];
  size_t share = a->heads / a->kv_heads, group = h / share, place = h * p->blocks + p->block_start[segment];
  attention_proof *proof = &head->proof;
  if (!has_proof(s) || (a->bias == BIAS_SLOPE && !(a->slopes[h] > 0))) return;
  if (proof_is_cached(a, s) && s->cache->share != share) return;
  proof->log_tolerance = (float)log(a->tolerance);
  proof->largest_factor = 1;
  if (proof_is_cached(a, s)) {
    proof->clusters = block_cache_clusters(s->cache, s->list + group);
    proof->tables_before = block_cache_tables(s->cache, s->list + group, h % share);
    if (a->bias == BIAS_KEY) proof->ends_before = block_cache_ends(s->cache, s->list + group, h % share);
  } else {
    proof->clusters = clusters_of(a, p, group, segment);
    proof->tables_before = p->tables_before + place * PROOF_TABLE;
    proof->tables_after = p->tables_after ? p->tables_after + place * PROOF_TABLE : NULL;
    proof->ends_before = p->ends_before ? p->ends_before + place : NULL;
    proof->ends_after = p->ends_after ? p->ends_after + place : NULL;
  }
  if (a->bias == BIAS_DISTANCE) {
    size_t entries = op_tail_entries(a->table_length);
    proof->tails_before = a->tails_before + h * entries;
    proof->tails_before_from = first_of_side(a, 1);
    proof->tails_after_from = first_of_side(a, -1);
    proof->tails_after = a->tails_after ? a->tails_after + h * entries : NULL;
    if (a->factors) proof->largest_factor = a->largest_factors[h];
  }
}

/* exp(log_sum) + exp(x), as a logarithm. */
static double log_add(double log_sum, double x)
{
  double large = log_sum > x ? log_sum : x, small = log_sum > x ? x : log_sum;
  return large == -INFINITY ? large : large + log1p(exp(small - large));
}

/* From the far end inwards, so that every sum begins with its smallest terms. */
static void tails_of_side(const kernel_table *k, const float *table, int64_t first, int64_t farthest,
                          size_t entries, int sign, float *tails)
{
  double sum = -INFINITY;
  for (size_t e = entries; e-- > 0;) {
    float few[ATTENTION_BLOCK], largest = -INFINITY;
    size_t count = 0;
    for (int64_t t = first + (int64_t)e * ATTENTION_BLOCK; t <= farthest && count < ATTENTION_BLOCK; t++) {
      few[count++] = table[-sign * t];
      if (few[count - 1] > largest) largest = few[count - 1];
    }
    double block = 0;
    for (size_t i = 0; i < count; i++) few[i] -= largest;
    k->exp(count, few, few);
    for (size_t i = 0; i < count; i++) block += few[i];
    if (count > 0) sum = log_add(sum, largest + log(block));
    tails[e] = (float)sum;
  }
}

void op_table_tails(alibi_context *context, const op_attention *a, float *before, float *after,
                    float *largest_factors)
{
  size_t entries = op_tail_entries(a->table_length), length = a->table_length;
  OP_FOR_ITEMS(context, static, a->heads, 32.0 * (double)(a->heads * length), {
    const float *table = table_at_zero(a, a->table, item);
    tails_of_side(context->kernel, table, first_of_side(a, 1), a->lowest + (int64_t)length - 1, entries, 1,
                  before + item * entries);
    if (after)
      tails_of_side(context->kernel, table, first_of_side(a, -1), -a->lowest, entries, -1, after + item * entries);
    float largest = 0;
    for (size_t t = 0; a->factors && t < length; t++)
      if (!(fabsf(a->factors[item * length + t]) <= largest)) largest = fabsf(a->factors[item * length + t]);
    if (largest_factors) largest_factors[item] = largest;
  });
}

/* ---- forward ---- */

/* Between the same slopes the last head comes first, so that there is one order. */
static bool walks_farther(const float *slopes, size_t a, size_t b)
{
  return slopes[a] < slopes[b] || (slopes[a] == slopes[b] && a > b);
}

/* Lets the head at `place` sink until none below it walks less far, as heaps do. */
static void sink_head(const float *slopes, size_t *order, size_t place, size_t count)
{
  size_t head = order[place];
  for (size_t child; (child = 2 * place + 1) < count; place = child) {
    if (child + 1 < count && walks_farther(slopes, order[child], order[child + 1])) child++;
    if (!walks_farther(slopes, head, order[child])) break;
    order[place] = order[child];
  }
  order[place] = head;
}

void attend_order_heads(const float *slopes, size_t heads, size_t *order)
{
  bool sorted = true;
  for (size_t i = 0; i < heads; i++) order[i] = heads - 1 - i; /* most often the last head is the gentlest */
  for (size_t h = 1; slopes && h < heads; h++) sorted = sorted && slopes[h - 1] >= slopes[h];
  if (sorted) return;
  for (size_t i = heads / 2; i-- > 0;) sink_head(slopes, order, i, heads);
  for (size_t last = heads - 1; last > 0; last--) {
    size_t head = order[0];
    order[0] = order[last];
    order[last] = head;
    sink_head(slopes, order, 0, last);
  }
}

/* The share of some rows. */
static attention_head rows_of_head(attention_head head, size_t start, size_t rows)
{
  head.queries = head.queries - start < rows ? head.queries - start : rows;
  head.first += (ptrdiff_t)start;
  head.query_row += (int64_t)start;
  if (head.query_offsets) head.query_offsets += start * head.offset_stride;
  if (head.query_positions) head.query_positions += start;
  head.q += start * head.q_stride;
  head.out += start * head.out_stride;
  if (head.lse) head.lse += start * head.row_stride;
  if (head.visited) head.visited += 2 * start * head.row_stride;
  return head;
}

/* Rows an item: a whole crew of tiles, unless that leaves threads without work. */
static size_t rows_of_item(const alibi_context *context, const op_attention *a, size_t longest)
{
  size_t rows = ATTENTION_CREW * ATTENTION_BLOCK, wanted = 8 * (size_t)context->threads;
  while (rows > ATTENTION_BLOCK && (longest + rows - 1) / rows * a->segment_count * a->heads < wanted) rows /= 2;
  return rows;
}

static void add_tallies(const alibi_context *context, const attend_plan *p, attention_tally *tally)
{
  for (int i = 0; i < context->threads; i++) {
    const attention_tally *t = &p->tallies[i];
    tally->pairs_visible += t->pairs_visible;
    tally->pairs_visited += t->pairs_visited;
    tally->blocks_visible += t->blocks_visible;
    tally->blocks_visited += t->blocks_visited;
    tally->missed += t->missed;
    if (t->skipped > tally->skipped) tally->skipped = t->skipped;
  }
}

void op_attention_forward(alibi_context *context, const op_attention *a, void *memory)
{
  const kernel_table *k = context->kernel;
  attend_plan p = attend_begin(context, a, false, memory);
  bool skips = may_skip(context, a), whole = attend_whole_segments(context, a);
  size_t longest = 0;
  for (size_t s = 0; s < a->segment_count; s++)
    if (a->segments[s].rows > longest) longest = a->segments[s].rows;
  size_t rows = whole ? longest : rows_of_item(context, a, longest), parts = (longest + rows - 1) / rows;
  size_t pieces = parts * a->segment_count, share = whole ? a->heads : 1; /* heads of an item */
  size_t items = pieces * (a->heads / share), team = (size_t)op_threads(context, items, 2 * attend_operations(a));
  memset(p.tallies, 0, (size_t)context->threads * sizeof *p.tallies);
  attend_order_heads(a->bias == BIAS_SLOPE ? a->slopes : NULL, a->heads, p.head_order);
  if (skips) prepare_proof(context, a, &p);
  OP_FOR_ITEMS(context, dynamic, items, 2 * attend_operations(a), {
    size_t segment = item / parts % a->segment_count, first = item / pieces * share;
    size_t start = (parts - 1 - item % parts) * rows; /* the longest first */
    if (start >= a->segments[segment].rows) continue;
    if (a->stops_when_cancelled && context_cancelled(context)) continue;
    if (whole) attend_fetch_segment(a, segment + team); /* most likely this thread's next */
    for (size_t i = first; i < first + share; i++) {
      attention_head head = attend_head(a, segment, p.head_order[i]);
      if (skips) prove(a, &p, segment, p.head_order[i], &head);
      head = rows_of_head(head, start, rows);
      head.tally = a->tally ? &p.tallies[worker] : NULL;
      k->attention_forward(&head, p.scratch + worker * p.scratch_floats);
    }
  });
  if (a->tally) add_tallies(context, &p, a->tally);
}
