/* What caches keep and who reads them: a pool keeps the tables of what it holds, with the bits of a cache that
 * keeps all, in a place that does not grow with what was read; any instruction set reads what another one stored;
 * and heads are handed out by their slopes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/attention.h"
#include "base/context.h"
#include "base/random.h"
#include "op/attend_plan.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "threads.h"

static alibi_error error;

static float *numbers(size_t count, uint64_t seed)
{
  float *x = malloc(count * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < count; i++) x[i] = (float)random_normal(seed, 9, i);
  return x;
}

/* ---- the tables of a pool ---- */

enum { LISTS = 3, SHARE = 2, SIZE = 6, KEPT = 8, BLOCKS = 400 };

static const float slopes[LISTS][SHARE] = {{1, 0.5f}, {0.25f, 0.125f}, {0.0625f, 0.03125f}};
static const double tolerance = 0x1p-24;

static block_cache *new_cache(size_t kept)
{
  block_cache *cache;
  size_t capacity = BLOCKS * ATTENTION_BLOCK;
  status result;
  if (kept) {
    result = block_cache_new_pool(kernel_table_best(), LISTS, SIZE, 0, capacity, kept, SHARE, tolerance, &cache,
                                  &error);
  } else {
    result = block_cache_new(kernel_table_best(), LISTS, SIZE, 0, capacity, &cache, &error);
    if (result == ALIBI_OK) result = block_cache_prepare_proof(cache, SHARE, &error);
  }
  if (result != ALIBI_OK) fail_msg("%s", error.message);
  return cache;
}

/* Positions first .. first+count-1, as a model does it, with rows that see 3 / slope keys. */
static void read_some(block_cache *cache, size_t first, size_t count, uint64_t seed)
{
  float k[4 * ATTENTION_BLOCK * SIZE], v[4 * ATTENTION_BLOCK * SIZE];
  assert_true(count <= 4 * ATTENTION_BLOCK);
  if (block_cache_reserve(cache, first, count, &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (size_t l = 0; l < LISTS; l++) {
    for (size_t i = 0; i < count * SIZE; i++) {
      k[i] = (float)random_normal(seed, l, first * SIZE + i);
      v[i] = (float)random_normal(seed, LISTS + l, first * SIZE + i);
    }
    block_cache_store(cache, l, first, count, k, SIZE, v, SIZE);
    block_cache_prove(cache, l, (first + count) / ATTENTION_BLOCK, slopes[l]);
    for (size_t h = 0; cache->pool && h < SHARE; h++)
      for (size_t row = first; row < first + count; row++) {
        double seen = 3 / (double)slopes[l][h];
        block_cache_saw(cache, l, h, row, seen < (double)row ? (row - (size_t)seen) / ATTENTION_BLOCK : 0);
      }
  }
}

static void same_tables(const block_cache *few, const block_cache *all)
{
  for (size_t l = 0; l < LISTS; l++) {
    assert_int_equal(few->proved[l], all->proved[l]);
    assert_true(few->first_block[l] <= few->proved[l]);
    if (few->proved[l] > 0)
      assert_memory_equal(block_cache_clusters(few, l), block_cache_clusters(all, l),
                          PROOF_CLUSTERS * SIZE * sizeof(float));
    for (size_t h = 0; h < SHARE; h++)
      for (size_t b = block_cache_oldest_table(few, l); b < few->proved[l]; b++)
        assert_memory_equal(block_cache_tables(few, l, h) + b * PROOF_TABLE,
                            block_cache_tables(all, l, h) + b * PROOF_TABLE, PROOF_TABLE * sizeof(float));
  }
}

/* In room for twice what all lists may have together, each list in its own. */
static void stays_in_place(const block_cache *cache)
{
  assert_int_equal(cache->room, 2 * LISTS * (KEPT + 1));
  assert_true(cache->table_at[LISTS] <= cache->room);
  for (size_t l = 0; l < LISTS; l++) {
    assert_true(cache->first_table[l] <= block_cache_oldest_table(cache, l));
    assert_true(cache->proved[l] - cache->first_table[l] <= cache->table_at[l + 1] - cache->table_at[l]);
  }
}

static void a_pool_keeps_the_tables_of_what_it_holds(void **unused)
{
  (void)unused;
  block_cache *few = new_cache(KEPT), *all = new_cache(0);
  for (int round = 0; round < 2; round++) {
    size_t widest = 0, first = 0;
    for (size_t n = 0; first < BLOCKS * ATTENTION_BLOCK; n++) {
      size_t count = n % 3 ? 1 + n % (4 * ATTENTION_BLOCK) : 1;
      if (count > BLOCKS * ATTENTION_BLOCK - first) count = BLOCKS * ATTENTION_BLOCK - first;
      read_some(few, first, count, (uint64_t)round);
      read_some(all, first, count, (uint64_t)round);
      if (n % 16 == 0 && count > 1) { /* what failed is read again */
        read_some(few, first + count / 2, count - count / 2, (uint64_t)round + 7);
        read_some(few, first, count, (uint64_t)round);
      }
      first += count;
      same_tables(few, all);
      stays_in_place(few);
      for (size_t l = 0; l < LISTS; l++)
        if (few->table_at[l + 1] - few->table_at[l] > widest) widest = few->table_at[l + 1] - few->table_at[l];
    }
    assert_true(few->first_block[0] > BLOCKS / 2); /* else nothing was tried */
    assert_true(widest > 2 * (KEPT + 1)); /* lists had more or less room as they needed it */
    assert_int_equal(block_cache_held(few, first), LISTS * KEPT);
    assert_int_equal(block_cache_restart(few, &error), ALIBI_OK);
    assert_int_equal(block_cache_restart(all, &error), ALIBI_OK);
  }
  block_cache_free(few);
  block_cache_free(all);
}

static void a_copy_has_the_tables_of_what_it_holds(void **unused)
{
  (void)unused;
  enum { LENGTH = 100 * ATTENTION_BLOCK + 17 };
  block_cache *few = new_cache(KEPT), *all = new_cache(0), *copies[3];
  for (size_t first = 0; first < LENGTH; first += 17) {
    read_some(few, first, LENGTH - first < 17 ? LENGTH - first : 17, 3);
    read_some(all, first, LENGTH - first < 17 ? LENGTH - first : 17, 3);
  }
  for (size_t c = 0; c < 3; c++) {
    size_t kept = c == 2 ? KEPT + 5 : KEPT;
    if (block_cache_copy(c ? few : all, LENGTH, BLOCKS * ATTENTION_BLOCK, kept, tolerance, &copies[c], &error) !=
        ALIBI_OK)
      fail_msg("%s", error.message);
    same_tables(copies[c], all);
  }
  for (size_t first = LENGTH; first + 100 < BLOCKS * ATTENTION_BLOCK; first += 100) {
    read_some(all, first, 100, 3);
    for (size_t c = 0; c < 3; c++) {
      read_some(copies[c], first, 100, 3);
      same_tables(copies[c], all);
    }
  }
  for (size_t c = 0; c < 3; c++) {
    assert_true(copies[c]->first_block[0] > BLOCKS / 2);
    block_cache_free(copies[c]);
  }
  block_cache_free(few);
  block_cache_free(all);
}

/* ---- any instruction set ---- */

enum { HEADS = 4, KV_HEADS = 2, WIDTH = 19, QUERIES = 3, KEYS = 1000 };

static alibi_context *context_with(const char *isa)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = 1;
  options.isa = isa;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) fail_msg("%s", error.message);
  threads_share_all_work(context);
  return context;
}

static alibi_cache *cache_with(alibi_context *context, const float *k, const float *v)
{
  alibi_cache *cache;
  alibi_heads keys = {k, 0, 0}, values = {v, 0, 0};
  if (alibi_cache_new(context, KV_HEADS, WIDTH, KEYS, &cache, &error) != ALIBI_OK ||
      alibi_cache_append(cache, &keys, &values, KEYS, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return cache;
}

/* Returns the share of blocks that it visits. */
static double decode(alibi_context *context, alibi_cache *cache, double skips, const float *q, float *out,
                     float *lse)
{
  static const double steep[HEADS] = {0.5, 0.25, 0.125, 0.0625};
  alibi_attention a;
  alibi_attention_report report;
  alibi_attention_init(&a);
  alibi_attention_report_init(&report);
  a.heads = HEADS;
  a.kv_heads = KV_HEADS;
  a.head_size = WIDTH;
  a.queries = QUERIES;
  a.q.data = q;
  a.out.data = out;
  a.lse = lse;
  a.bias.slopes = steep;
  a.tolerance = skips;
  a.report = &report;
  if (alibi_attention_decode(context, &a, &cache, NULL, 0, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return (double)report.blocks_visited / (double)report.blocks_visible;
}

/* With tolerance 0 the bits are those of the set that decodes; else what the proof of the other one lets it skip
 * weighs no more. */
static void reads(const char *reader, const char *writer)
{
  enum { OUT = QUERIES * HEADS * WIDTH };
  float *q = numbers(OUT, 1), *k = numbers(KEYS * KV_HEADS * WIDTH, 2), *v = numbers(KEYS * KV_HEADS * WIDTH, 3);
  float expected[OUT], found[OUT], expected_lse[QUERIES * HEADS], lse[QUERIES * HEADS];
  alibi_context *own = context_with(reader), *other = context_with(writer);
  alibi_cache *native = cache_with(own, k, v), *foreign = cache_with(other, k, v);
  bool skips = strcmp(reader, "reference") != 0 && strcmp(writer, "reference") != 0;
  assert_true(decode(own, native, 0, q, expected, expected_lse) == 1);
  assert_true(decode(own, foreign, 0, q, found, lse) == 1);
  assert_memory_equal(found, expected, sizeof found);
  assert_memory_equal(lse, expected_lse, sizeof lse);
  double visited = decode(own, foreign, tolerance, q, found, lse);
  if ((visited < 1) != skips) fail_msg("%s, stored by %s: %g of the blocks visited", reader, writer, visited);
  for (size_t i = 0; i < OUT; i++)
    if (!(fabs((double)found[i] - expected[i]) <= 2e-6))
      fail_msg("%s, stored by %s: expected %g, found %g", reader, writer, (double)expected[i], (double)found[i]);
  alibi_cache_free(native);
  alibi_cache_free(foreign);
  alibi_context_free(own);
  alibi_context_free(other);
  free(q);
  free(k);
  free(v);
}

static void any_instruction_set_reads_what_another_one_stored(void **unused)
{
  (void)unused;
  for (size_t reader = 0; reader < kernel_table_count(); reader++)
    for (size_t writer = 0; writer < kernel_table_count(); writer++)
      if (kernel_table_at(reader) && kernel_table_at(writer))
        reads(kernel_table_at(reader)->name, kernel_table_at(writer)->name);
}

/* ---- the order of heads ---- */

static void in_order(const float *of_heads, size_t heads)
{
  size_t *order = malloc(heads * sizeof *order);
  bool *seen = calloc(heads, sizeof *seen);
  assert_true(order && seen);
  attend_order_heads(of_heads, heads, order);
  for (size_t i = 0; i < heads; i++) {
    assert_true(order[i] < heads);
    assert_false(seen[order[i]]);
    seen[order[i]] = true;
    if (i == 0) continue;
    float before = of_heads ? of_heads[order[i - 1]] : 0, here = of_heads ? of_heads[order[i]] : 0;
    assert_true(before < here || (before == here && order[i - 1] > order[i]));
  }
  free(order);
  free(seen);
}

static void gentle_heads_come_first(void **unused)
{
  (void)unused;
  enum { MOST = 65536 };
  float *x = numbers(MOST, 4);
  static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 100, 1023, MOST};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    size_t heads = counts[i];
    in_order(NULL, heads);
    for (size_t h = 0; h < heads; h++) x[h] = (float)h;
    in_order(x, heads);
    for (size_t h = 0; h < heads; h++) x[h] = (float)(heads - h);
    in_order(x, heads);
    for (uint64_t seed = 0; seed < (heads < 10 ? 200 : 2); seed++) {
      for (size_t h = 0; h < heads; h++) x[h] = (float)random_below(seed, 1, h, heads < 10 ? 5 : heads) - 2;
      in_order(x, heads);
    }
  }
  free(x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pool_keeps_the_tables_of_what_it_holds),
      cmocka_unit_test(a_copy_has_the_tables_of_what_it_holds),
      cmocka_unit_test(any_instruction_set_reads_what_another_one_stored),
      cmocka_unit_test(gentle_heads_come_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
