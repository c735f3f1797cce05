/* Keys and values that stay.  A table of the proof is made once its block is full, from what the block then holds,
 * so chunks leave no trace.  Which block a pool gives up is a guess that may turn out wrong, never a silent one:
 * the rows ask the table of the newest block that is gone, and whether all of them stop there is known after the
 * call. */
#include "op/block_cache.h"

#include <math.h>
#include <string.h>

#include "kernel/attention_offsets.h"

enum { FLOATS_A_DOUBLE = sizeof(double) / sizeof(float) };

static size_t value_width(const block_cache *c)
{
  return size_round_up(c->head_size, ATTENTION_PAD);
}

static size_t block_count(size_t capacity)
{
  return size_round_up(capacity, ATTENTION_BLOCK) / ATTENTION_BLOCK;
}

static void layout(block_cache *c, arena *a)
{
  c->key_blocks = arena_take(a, size_mul(c->lists, c->blocks), sizeof *c->key_blocks);
  c->value_blocks = arena_take(a, size_mul(c->lists, c->blocks), sizeof *c->value_blocks);
  c->first_block = arena_take(a, c->lists, sizeof *c->first_block);
  if (c->pool) c->free_blocks = arena_take(a, c->pool, sizeof *c->free_blocks);
  if (c->gates) c->ends = arena_take(a, size_mul(size_mul(c->lists, c->gates), c->blocks), sizeof *c->ends);
}

/* Of a block: its keys, its values, its offsets. */
static size_t block_floats(const block_cache *c)
{
  size_t floats = size_add(size_add(c->head_size, value_width(c)), size_mul(c->gates, FLOATS_A_DOUBLE));
  return size_mul(ATTENTION_BLOCK, floats);
}

/* Of `blocks` blocks of each list, or of the pool. */
static size_t store_bytes(const block_cache *c, size_t blocks)
{
  return size_mul(size_mul(c->pool ? c->pool : size_mul(c->lists, blocks), block_floats(c)), sizeof(float));
}

static block_cache shape_of(size_t lists, size_t head_size, size_t gates, size_t capacity)
{
  return (block_cache){.lists = lists, .head_size = head_size, .gates = gates, .capacity = capacity,
                       .blocks = block_count(capacity)};
}

static void store_release(block_store *store)
{
  while (store && --store->users == 0) {
    block_store *parent = store->parent;
    arena_free(&store->memory);
    memory_free(store);
    store = parent;
  }
}

/* All blocks of the pool are free. */
static void pool_fill(block_cache *c)
{
  size_t floats = block_floats(c);
  float *base = (float *)(void *)c->store->memory.base;
  for (size_t i = 0; i < c->pool; i++) c->free_blocks[i] = base + (c->pool - 1 - i) * floats;
  c->free_count = c->pool;
  memset(c->key_blocks, 0, c->lists * c->blocks * sizeof *c->key_blocks);
  memset(c->value_blocks, 0, c->lists * c->blocks * sizeof *c->value_blocks);
  memset(c->first_block, 0, c->lists * sizeof *c->first_block);
  memset(c->first_table, 0, c->lists * sizeof *c->first_table);
  memset(c->proved, 0, c->lists * sizeof *c->proved);
  for (size_t i = 0; i < c->lists * c->share; i++) c->reach[i] = 0;
}

/* A store of the blocks from `first` on of every list; or of the pool. */
static status store_new(block_cache *c, size_t first, block_store *parent, alibi_error *error)
{
  block_store *store = NULL;
  size_t key = ATTENTION_BLOCK * c->head_size, floats = block_floats(c);
  status result;
  TRY(memory_new(&store, 1, sizeof *store, "a store of keys and values", error));
  store->memory.used = store_bytes(c, c->blocks - first);
  TRY(arena_allocate_untouched(&store->memory, "the keys and values of a session", error));
  float *next = (float *)(void *)store->memory.base;
  for (size_t l = 0; !c->pool && l < c->lists; l++)
    for (size_t b = c->blocks; b-- > first; next += floats) { /* as rows walk: memory likes to be read upwards */
      c->key_blocks[l * c->blocks + b] = next;
      c->value_blocks[l * c->blocks + b] = next + key;
    }
  store->users = 1;
  store->parent = parent;
  if (parent) parent->users++;
  c->store = store;
  return ALIBI_OK;
done:
  memory_free(store);
  return result;
}

static status cache_new(const kernel_table *kernel, size_t lists, size_t head_size, size_t gates, size_t capacity,
                        size_t kept, block_cache **cache, alibi_error *error)
{
  status result;
  TRY(memory_new(cache, 1, sizeof **cache, "a cache", error));
  **cache = shape_of(lists, head_size, gates, capacity);
  (*cache)->kernel = kernel;
  if (kept) (*cache)->pool = size_mul(lists, kept < (*cache)->blocks ? kept : (*cache)->blocks);
  layout(*cache, &(*cache)->memory);
  TRY(arena_allocate(&(*cache)->memory, "the lists of a cache", error));
  layout(*cache, &(*cache)->memory);
done:
  if (result != ALIBI_OK) {
    memory_free(*cache);
    *cache = NULL;
  }
  return result;
}

status block_cache_new(const kernel_table *kernel, size_t lists, size_t head_size, size_t gates, size_t capacity,
                       block_cache **cache, alibi_error *error)
{
  status result;
  TRY(cache_new(kernel, lists, head_size, gates, capacity, 0, cache, error));
  TRY(store_new(*cache, 0, NULL, error));
  return ALIBI_OK;
done:
  block_cache_free(*cache);
  *cache = NULL;
  return result;
}

status block_cache_new_pool(const kernel_table *kernel, size_t lists, size_t head_size, size_t gates,
                            size_t capacity, size_t kept, size_t share, double tolerance, block_cache **cache,
                            alibi_error *error)
{
  status result;
  TRY(cache_new(kernel, lists, head_size, gates, capacity, kept, cache, error));
  TRY(store_new(*cache, 0, NULL, error));
  TRY(block_cache_prepare_proof(*cache, share, error));
  (*cache)->log_tolerance = log(tolerance);
  for (size_t l = 0; l < lists; l++) (*cache)->score_limit[l] = INFINITY;
  pool_fill(*cache);
  return ALIBI_OK;
done:
  block_cache_free(*cache);
  *cache = NULL;
  return result;
}

void block_cache_free(block_cache *cache)
{
  if (!cache) return;
  store_release(cache->store);
  arena_free(&cache->proof_memory);
  arena_free(&cache->memory);
  memory_free(cache);
}

/* [gates, ATTENTION_BLOCK] of a block. */
static double *offsets_of(const block_cache *c, size_t list, size_t block)
{
  return (double *)(void *)(c->value_blocks[list * c->blocks + block] + ATTENTION_BLOCK * value_width(c));
}

/* Of a block that is not shared whole: its first `rows` positions, which are at least 1. */
static void copy_begun(const block_cache *from, block_cache *to, size_t list, size_t block, size_t rows)
{
  const float *key = from->key_blocks[list * from->blocks + block];
  float *copy = to->key_blocks[list * to->blocks + block];
  for (size_t c = 0; c < to->head_size; c++) {
    memset(copy + c * ATTENTION_BLOCK, 0, ATTENTION_BLOCK * sizeof *copy);
    memcpy(copy + c * ATTENTION_BLOCK, key + c * ATTENTION_BLOCK, rows * sizeof *copy);
  }
  copy = to->value_blocks[list * to->blocks + block];
  memset(copy, 0, ATTENTION_BLOCK * value_width(to) * sizeof *copy);
  memcpy(copy, from->value_blocks[list * from->blocks + block], rows * value_width(to) * sizeof *copy);
  for (size_t h = 0; h < to->gates; h++)
    memcpy(offsets_of(to, list, block) + h * ATTENTION_BLOCK, offsets_of(from, list, block) + h * ATTENTION_BLOCK,
           rows * sizeof(double));
}

static void copy_ends(const block_cache *from, block_cache *to, size_t list, size_t blocks)
{
  for (size_t h = 0; h < to->gates; h++)
    memcpy(block_cache_ends(to, list, h), block_cache_ends(from, list, h), blocks * sizeof(double));
}

/* What is proved of the first `blocks` blocks of a list, but for the tables. */
static void copy_proof(const block_cache *from, block_cache *to, size_t list, size_t blocks)
{
  size_t share = to->share, proved = from->proved[list] < blocks ? from->proved[list] : blocks;
  to->proved[list] = proved;
  memcpy(to->slopes + list * share, from->slopes + list * share, share * sizeof *to->slopes);
  memcpy(block_cache_clusters(to, list), block_cache_clusters(from, list),
         PROOF_CLUSTERS * to->head_size * sizeof *to->clusters);
}

/* Those that a new cache will be asked for, once it is known which blocks it has. */
static void copy_tables(const block_cache *from, block_cache *to, size_t list)
{
  size_t oldest = block_cache_oldest_table(to, list), count = to->proved[list] - oldest;
  for (size_t h = 0; h < to->share; h++)
    memcpy(block_cache_tables(to, list, h) + oldest * PROOF_TABLE,
           block_cache_tables(from, list, h) + oldest * PROOF_TABLE, count * PROOF_TABLE * sizeof *to->tables);
}

status block_cache_share(block_cache *from, size_t length, size_t capacity, block_cache **cache,
                         alibi_error *error)
{
  status result;
  size_t whole = length / ATTENTION_BLOCK, rest = length % ATTENTION_BLOCK;
  TRY(cache_new(from->kernel, from->lists, from->head_size, from->gates, capacity, 0, cache, error));
  block_cache *c = *cache;
  TRY(store_new(c, whole, whole > 0 ? from->store : NULL, error));
  if (from->share) TRY(block_cache_prepare_proof(c, from->share, error));
  for (size_t l = 0; l < c->lists; l++) {
    for (size_t b = 0; b < whole; b++) {
      c->key_blocks[l * c->blocks + b] = from->key_blocks[l * from->blocks + b];
      c->value_blocks[l * c->blocks + b] = from->value_blocks[l * from->blocks + b];
    }
    if (rest > 0) copy_begun(from, c, l, whole, rest);
    copy_ends(from, c, l, whole);
    if (!from->share) continue;
    copy_proof(from, c, l, whole);
    copy_tables(from, c, l);
  }
  return ALIBI_OK;
done:
  block_cache_free(*cache);
  *cache = NULL;
  return result;
}

/* Tables that a list will have once its first `blocks` blocks are proved. */
static size_t tables_needed(const block_cache *c, size_t list, size_t blocks)
{
  size_t oldest = block_cache_oldest_table(c, list), end = c->proved[list] > blocks ? c->proved[list] : blocks;
  return end > oldest ? end - oldest : 0;
}

/* To each list what it needs, and of the rest as much as to any other. */
static void divide_room(block_cache *c, size_t blocks)
{
  size_t needed = 0;
  for (size_t l = 0; l < c->lists; l++) needed += tables_needed(c, l, blocks);
  c->table_at[0] = 0;
  for (size_t l = 0; l < c->lists; l++)
    c->table_at[l + 1] = c->table_at[l] + tables_needed(c, l, blocks) + (c->room - needed) / c->lists;
}

/* ---- the pool ---- */

/* The logarithm of a sum of rounded terms may be off by this much, in the tables and where a row asks them; a unit
 * of |scale| |q| |k| adds LIMIT_SLACK. */
#define PROOF_SLACK 0.1
#define LIMIT_SLACK 1e-3

double block_cache_offset(const block_cache *c, size_t list, size_t head, size_t position)
{
  size_t block = position / ATTENTION_BLOCK, place = position % ATTENTION_BLOCK;
  if (place == ATTENTION_BLOCK - 1) return block_cache_ends(c, list, head)[block];
  return offsets_of(c, list, block)[head * ATTENTION_BLOCK + place];
}

/* How far the last key of a block lies behind a row at `position`; with offsets, what they rose by from there to
 * the last full block before the row. */
static double far_behind(const block_cache *c, size_t list, size_t head, size_t position, size_t block)
{
  size_t own = position / ATTENTION_BLOCK;
  if (own <= block) return 0;
  if (!c->gates) return (double)(position - (block * ATTENTION_BLOCK + ATTENTION_BLOCK - 1));
  const double *ends = block_cache_ends(c, list, head);
  return ends[own - 1] - ends[block];
}

/* How many nats the scores of a list would have to gain before a row at `first` needs its oldest block; INFINITY
 * where the weights do not let them, -INFINITY where the block may not go.
 * A row weighs its own key by exp(-U) at least, U the limit of the scores.  Centres of keys are no longer than
 * keys, keys no farther from them than twice that, so the bound of the keys at distance t and beyond is at most
 * 3 U - slope t - log(1 - exp(-slope)), and the row stops where that is below -U + log tolerance.  With offsets it
 * is 3 U + log(first) less what they rose by. */
static double spare_nats(const block_cache *c, size_t list, size_t first)
{
  size_t block = c->first_block[list], share = c->share;
  double least = INFINITY;
  if (block >= first / ATTENTION_BLOCK || !c->key_blocks[list * c->blocks + block] || c->proved[list] <= block)
    return -INFINITY;
  for (size_t h = 0; h < share; h++) {
    double slope = c->gates ? 1 : (double)c->slopes[list * share + h], limit = c->score_limit[list];
    if (!(slope > 0)) return -INFINITY;
    double distance = far_behind(c, list, h, first, block);
    double all = c->gates ? log((double)first) : -log(-expm1(-slope));
    double needed = (4 + LIMIT_SLACK) * limit + PROOF_SLACK + all - c->log_tolerance;
    double spare = slope * distance >= needed ? INFINITY : slope * (distance - c->reach[list * share + h]);
    if (spare < least) least = spare;
  }
  return least;
}

/* Takes the block whose loss is the least to be feared.  Rows in the first blocks never stop, so until then none
 * goes. */
static bool drop_one(block_cache *c, size_t first)
{
  double most = -INFINITY;
  size_t from = c->lists;
  for (size_t l = 0; first / ATTENTION_BLOCK >= PROOF_FROM && l < c->lists; l++) {
    double spare = spare_nats(c, l, first);
    if (!(spare > most)) continue;
    most = spare;
    from = l;
  }
  if (from == c->lists) return false;
  size_t at = from * c->blocks + c->first_block[from]++;
  c->free_blocks[c->free_count++] = c->key_blocks[at];
  c->key_blocks[at] = c->value_blocks[at] = NULL;
  return true;
}

static status draw(block_cache *c, size_t list, size_t block, size_t first, alibi_error *error)
{
  size_t at = list * c->blocks + block;
  if (c->key_blocks[at]) return ALIBI_OK;
  if (c->free_count == 0 && !drop_one(c, first))
    return fail(error, ALIBI_FAILED,
                "position %zu: expected a block of keys that may be dropped, found none: raise the option keep "
                "above %zu tokens, or set it to 0 (all)",
                first, c->pool / c->lists * ATTENTION_BLOCK);
  c->key_blocks[at] = c->free_blocks[--c->free_count];
  c->value_blocks[at] = c->key_blocks[at] + ATTENTION_BLOCK * c->head_size;
  return ALIBI_OK;
}

status block_cache_reserve(block_cache *c, size_t first, size_t count, alibi_error *error)
{
  status result = ALIBI_OK;
  if (!c->pool || count == 0) return ALIBI_OK;
  for (size_t b = first / ATTENTION_BLOCK; b <= (first + count - 1) / ATTENTION_BLOCK; b++)
    for (size_t l = 0; l < c->lists; l++) TRY(draw(c, l, b, first, error));
done:
  return result;
}

void block_cache_saw(block_cache *c, size_t list, size_t head, size_t position, size_t block)
{
  double *reach = &c->reach[list * c->share + head];
  if (position / ATTENTION_BLOCK < PROOF_FROM) return;
  double distance = far_behind(c, list, head, position, block);
  if (distance > *reach) *reach = distance;
}

size_t block_cache_held(const block_cache *c, size_t length)
{
  return c->pool ? c->pool - c->free_count : c->lists * block_count(length);
}

status block_cache_copy(block_cache *from, size_t length, size_t capacity, size_t kept, double tolerance,
                        block_cache **cache, alibi_error *error)
{
  status result;
  size_t whole = length / ATTENTION_BLOCK;
  TRY(block_cache_new_pool(from->kernel, from->lists, from->head_size, from->gates, capacity, kept, from->share,
                           tolerance, cache, error));
  block_cache *c = *cache;
  for (size_t l = 0; l < c->lists; l++) {
    c->first_block[l] = from->first_block[l];
    copy_ends(from, c, l, whole);
    copy_proof(from, c, l, whole);
    for (size_t h = 0; from->pool && h < c->share; h++) c->reach[l * c->share + h] = from->reach[l * c->share + h];
  }
  for (size_t b = 0; b * ATTENTION_BLOCK < length; b++)
    for (size_t l = 0; l < c->lists; l++) {
      if (b < c->first_block[l]) continue;
      TRY(draw(c, l, b, length, error));
      copy_begun(from, c, l, b, b < whole ? ATTENTION_BLOCK : length % ATTENTION_BLOCK);
    }
  for (size_t l = 0; l < c->lists; l++) c->first_table[l] = block_cache_oldest_table(c, l);
  divide_room(c, 0);
  for (size_t l = 0; l < c->lists; l++) copy_tables(from, c, l);
  return ALIBI_OK;
done:
  block_cache_free(*cache);
  *cache = NULL;
  return result;
}

status block_cache_restart(block_cache *cache, alibi_error *error)
{
  if (cache->pool) pool_fill(cache);
  if (cache->store->users == 1 && !cache->store->parent) return ALIBI_OK;
  block_store *shared = cache->store;
  status result = store_new(cache, 0, NULL, error); /* where it fails, what was there still is */
  if (result == ALIBI_OK) store_release(shared);
  return result;
}

void block_cache_store(block_cache *c, size_t list, size_t first, size_t count, const float *k, size_t k_stride,
                       const float *v, size_t v_stride)
{
  size_t d = c->head_size, width = value_width(c);
  for (size_t done = 0; done < count;) {
    size_t block = (first + done) / ATTENTION_BLOCK, place = (first + done) % ATTENTION_BLOCK;
    size_t rows = ATTENTION_BLOCK - place < count - done ? ATTENTION_BLOCK - place : count - done;
    float *key = c->key_blocks[list * c->blocks + block], *value = c->value_blocks[list * c->blocks + block];
    if (place == 0) {
      c->kernel->attention_turn(rows, d, k + done * k_stride, k_stride, key);
      memset(value, 0, ATTENTION_BLOCK * width * sizeof *value);
    } else {
      for (size_t j = 0; j < rows; j++)
        for (size_t i = 0; i < d; i++) key[i * ATTENTION_BLOCK + place + j] = k[(done + j) * k_stride + i];
    }
    for (size_t j = 0; j < rows; j++)
      memcpy(value + (place + j) * width, v + (done + j) * v_stride, d * sizeof *v);
    if (c->share && c->proved[list] > block) c->proved[list] = block; /* written again */
    done += rows;
  }
}

void block_cache_store_offsets(block_cache *c, size_t list, size_t first, size_t count, const double *offsets,
                               size_t stride)
{
  for (size_t i = 0; i < count; i++) {
    size_t block = (first + i) / ATTENTION_BLOCK, place = (first + i) % ATTENTION_BLOCK;
    double *kept = offsets_of(c, list, block) + place;
    for (size_t h = 0; h < c->gates; h++) kept[h * ATTENTION_BLOCK] = offsets[i * stride + h];
    for (size_t h = 0; place == ATTENTION_BLOCK - 1 && h < c->gates; h++)
      block_cache_ends(c, list, h)[block] = offsets[i * stride + h];
  }
}

static void layout_proof(block_cache *c, arena *a)
{
  size_t heads = size_mul(c->lists, c->share);
  c->room = c->pool ? size_mul(2, size_add(c->pool, c->lists)) : size_mul(c->lists, c->blocks);
  c->clusters = arena_floats(a, size_mul(size_mul(c->lists, PROOF_CLUSTERS), c->head_size));
  c->slopes = arena_floats(a, heads);
  c->proved = arena_take(a, c->lists, sizeof *c->proved);
  c->first_table = arena_take(a, c->lists, sizeof *c->first_table);
  c->table_at = arena_take(a, size_add(c->lists, 1), sizeof *c->table_at);
  if (c->pool) {
    c->reach = arena_take(a, heads, sizeof *c->reach);
    c->score_limit = arena_take(a, c->lists, sizeof *c->score_limit);
    arena_floats(a, size_mul(c->blocks, PROOF_TABLE)); /* before all tables: never written, so never real */
  }
  c->tables = arena_floats(a, size_mul(size_mul(c->share, c->room), PROOF_TABLE));
}

status block_cache_prepare_proof(block_cache *c, size_t share, alibi_error *error)
{
  status result;
  if (c->share == share || !c->kernel->proof_sums) return ALIBI_OK;
  arena_free(&c->proof_memory);
  c->share = share;
  layout_proof(c, &c->proof_memory);
  TRY(arena_allocate_untouched(&c->proof_memory, "the proofs of a cache", error));
  layout_proof(c, &c->proof_memory);
  memset(c->proved, 0, c->lists * sizeof *c->proved);
  memset(c->first_table, 0, c->lists * sizeof *c->first_table);
  memset(c->slopes, 0, c->lists * share * sizeof *c->slopes);
  divide_room(c, 0);
  return ALIBI_OK;
done:
  c->share = 0;
  return result;
}

/* Makes room for the tables of `blocks` blocks in every list: those of dropped blocks go, the others move
 * together, and apart again as the room is now divided.  As many are free as are needed, so it is some blocks
 * until the next time. */
static void move_tables(block_cache *c, size_t blocks)
{
  size_t table = PROOF_TABLE * sizeof *c->tables, place = 0;
  for (size_t l = 0; l < c->lists; l++) {
    size_t oldest = block_cache_oldest_table(c, l), count = c->proved[l] - oldest;
    for (size_t h = 0; h < c->share; h++, place += count)
      memmove(c->tables + place * PROOF_TABLE, block_cache_tables(c, l, h) + oldest * PROOF_TABLE, count * table);
  }
  for (size_t l = 0; l < c->lists; l++) c->first_table[l] = block_cache_oldest_table(c, l);
  divide_room(c, blocks);
  for (size_t l = c->lists; l-- > 0;) {
    size_t oldest = c->first_table[l], count = c->proved[l] - oldest;
    for (size_t h = c->share; h-- > 0;) {
      place -= count;
      memmove(block_cache_tables(c, l, h) + oldest * PROOF_TABLE, c->tables + place * PROOF_TABLE, count * table);
    }
  }
}

/* The biases of a full block's keys as seen from its last one; returns what earlier ones grow by from there. */
static float block_bias(const block_cache *c, size_t list, size_t head, size_t block, float *bias)
{
  float slope = c->slopes[list * c->share + head];
  if (!c->gates) {
    for (size_t j = 0; j < ATTENTION_BLOCK; j++) bias[j] = -slope * (float)(ATTENTION_BLOCK - 1 - j);
    return -slope * (float)ATTENTION_BLOCK;
  }
  const double *offsets = offsets_of(c, list, block) + head * ATTENTION_BLOCK;
  const double *ends = block_cache_ends(c, list, head);
  for (size_t j = 0; j < ATTENTION_BLOCK; j++) bias[j] = rounded_up(offsets[j] - ends[block]);
  return block > 0 ? rounded_up(ends[block - 1] - ends[block]) : 0;
}

void block_cache_prove(block_cache *c, size_t list, size_t blocks, const float *slopes)
{
  float bias[ATTENTION_BLOCK];
  if (c->share == 0) return;
  float *made_with = c->slopes + list * c->share;
  for (size_t h = 0; h < c->share; h++) {
    float slope = slopes ? slopes[h] : 0;
    if (made_with[h] != slope) c->proved[list] = 0;
    made_with[h] = slope;
  }
  if (c->proved[list] >= blocks) return;
  if (blocks - c->first_table[list] > c->table_at[list + 1] - c->table_at[list]) move_tables(c, blocks);
  if (c->proved[list] == 0)
    c->kernel->proof_clusters(c->head_size, c->key_blocks[list * c->blocks], block_cache_clusters(c, list));
  for (size_t h = 0; h < c->share; h++) {
    float *tables = block_cache_tables(c, list, h);
    for (size_t b = c->proved[list]; b < blocks; b++) {
      float shift = block_bias(c, list, h, b, bias);
      c->kernel->proof_sums(ATTENTION_BLOCK, c->head_size, c->key_blocks[list * c->blocks + b],
                            block_cache_clusters(c, list), bias, tables + b * PROOF_TABLE);
      if (b > 0) c->kernel->proof_join(tables + (b - 1) * PROOF_TABLE, shift, tables + b * PROOF_TABLE);
    }
  }
  c->proved[list] = blocks;
}
