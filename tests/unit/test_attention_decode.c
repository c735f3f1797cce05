/* Decoding with the public operator: a cache of keys, however it was filled, shared, cleared or filled again,
 * gives the bits of alibi_attention_forward on the same keys in rows; and a step costs no more because the cache
 * is long. */
#include "unit/attention_expect.h"

static const int64_t chunk_sizes[] = {1, 7, 64, 100000};
enum { CHUNKINGS = 4 };

static alibi_cache *cache_share(alibi_cache *from, int64_t length, int64_t capacity)
{
  alibi_cache *cache = NULL;
  call_ok("share", alibi_cache_share(from, length, capacity, &cache, &call_error));
  assert_int_equal(alibi_cache_length(cache), length);
  return cache;
}

/* A cache that ought to hold the first `keys` keys of `c`: rows at its end see what forward sees. */
static void expect_keys(alibi_cache *cache, const call *c, int64_t keys)
{
  call_options o = c->options;
  o.keys = keys;
  call *rows = call_new(&o), *cached = call_new(&o);
  rows->a.k = c->a.k;
  rows->a.v = c->a.v;
  assert_int_equal(alibi_cache_length(cache), keys);
  call_forward(rows);
  call_decode(cached, &cache);
  call_same_outputs(cached, rows);
}

/* ---- however it was filled ---- */

static bool has_keys_of_its_own(const call_options *o)
{
  return o->bias != ALIBI_BIAS_KEY && !o->positions;
}

static void filled_in_chunks(const call_options *o)
{
  if (!has_keys_of_its_own(o)) return;
  for (int skip = 0; skip < 2; skip++)
    for (int n = 0; n < CHUNKINGS; n++) {
      call_options one = skip ? call_stretched(o, ALIBI_TOLERANCE) : *o;
      call *rows = call_new(&one), *cached = call_new(&one);
      alibi_cache *caches[8];
      call_caches(rows, 3 * n, chunk_sizes[n], caches);
      call_forward(rows);
      call_decode(cached, caches);
      call_same_outputs(cached, rows);
      call_caches_free(formula_sequences(&rows->a), caches);
    }
}

static void every_pair_of_options_filled_in_chunks(void **unused)
{
  (void)unused;
  call_options o = call_defaults();
  o.queries = 5; /* few queries; more where an option says so */
  call_for_every_pair(o, filled_in_chunks);
}

static void head_sizes(void **unused)
{
  (void)unused;
  for (int size = 1; size <= 256; size += size < 40 ? 1 : 27) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "head size %d", size);
    o.size = size;
    o.heads = 2;
    o.kv_heads = 1;
    o.queries = 2;
    o.layout = size % 2 ? LAYOUT_GAPS : LAYOUT_HEAD_MAJOR;
    filled_in_chunks(&o);
    call_free_all();
  }
}

/* A prefill in chunks, each after its keys went into the cache: the rows of one forward call. */
static void a_prefill_in_chunks_is_a_prefill_at_once(void **unused)
{
  (void)unused;
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int n = 0; n < CHUNKINGS; n++) {
      call_options o = call_defaults();
      if (kind == ALIBI_BIAS_KEY) continue;
      snprintf(call_name, sizeof call_name, "bias %d, chunks of %lld", kind, (long long)chunk_sizes[n]);
      o.bias = (alibi_bias_kind)kind;
      o.slopes = call_steep;
      o.factor = true;
      o.tolerance = ALIBI_TOLERANCE;
      o.queries = o.keys = 450;
      call *whole = call_new(&o), *c = call_new(&o);
      alibi_attention chunk = c->a;
      alibi_cache *cache = call_cache(whole, o.keys);
      call_forward(whole);
      for (int64_t from = 0; from < o.keys; from += chunk_sizes[n]) {
        int64_t count = o.keys - from < chunk_sizes[n] ? o.keys - from : chunk_sizes[n];
        call_cache_fill(cache, whole, from, from + count, count);
        c->a = chunk;
        c->a.queries = count;
        c->rows.first_query = from;
        c->a.q.data = call_at(&c->q, from, 0);
        c->a.out.data = call_at(&c->out, from, 0);
        c->a.lse += from * o.heads;
        c->a.visited += from * o.heads * 2;
        call_decode(c, &cache);
      }
      alibi_cache_free(cache);
      c->a = chunk;
      call_same_rows("out", &c->out, 0, &whole->out, 0, o.queries);
      call_same_lse(c, whole, o.queries);
      call_same("visited", c->a.visited, whole->a.visited, (size_t)(o.queries * o.heads * 2) * sizeof(int32_t));
      call_free_all();
    }
}

static void an_empty_cache_is_an_empty_sequence(void **unused)
{
  (void)unused;
  for (int both_sides = 0; both_sides < 2; both_sides++) {
    call_options o = call_defaults();
    strcpy(call_name, "an empty cache");
    o.keys = 0;
    o.queries = 3;
    o.both_sides = both_sides;
    call *c = call_new(&o);
    alibi_cache *cache = call_cache(c, 100);
    call_decode(c, &cache);
    for (size_t i = 0; i < c->out.floats; i++) assert_true(c->out.buffer[i] == 0);
    for (int64_t i = 0; i < o.queries * o.heads; i++) assert_true(c->a.lse[i] < 0 && isinf(c->a.lse[i]));
    o.queries = 0;
    c = call_new(&o);
    call_decode(c, &cache);
    alibi_cache_free(cache);
    call_free_all();
  }
}

/* A capacity that is no multiple of a block is used to its last key. */
static void a_cache_holds_its_capacity(void **unused)
{
  (void)unused;
  for (int64_t capacity = 1; capacity <= 130; capacity += capacity % 64 == 62 ? 1 : 3) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "capacity %lld", (long long)capacity);
    o.queries = 1;
    o.keys = capacity;
    call *c = call_new(&o);
    alibi_cache *cache = call_cache(c, capacity);
    call_cache_fill(cache, c, 0, capacity, 50);
    expect_keys(cache, c, capacity);
    alibi_cache_free(cache);
    call_free_all();
  }
}

/* ---- shared, cleared, freed ---- */

enum { KEYS = 460 };

static call *few_queries(uint64_t seed)
{
  call_options o = call_defaults();
  o.queries = 3;
  o.keys = KEYS;
  o.kv_heads = 2;
  o.slopes = call_steep;
  o.tolerance = ALIBI_TOLERANCE;
  o.seed = seed;
  return call_new(&o);
}

/* The first `keys` keys of one text, then those of another. */
static call *continued(const call *first, int64_t keys, const call *then)
{
  call *c = call_new(&first->options);
  for (int64_t j = 0; j < first->options.keys; j++)
    for (int h = 0; h < c->k.heads; h++) {
      const call *from = j < keys ? first : then;
      memcpy(call_at(&c->k, j, h), call_at(&from->k, j, h), (size_t)c->k.size * sizeof(float));
      memcpy(call_at(&c->v, j, h), call_at(&from->v, j, h), (size_t)c->v.size * sizeof(float));
    }
  return c;
}

static void a_prefix_is_shared_and_both_go_on(void **unused)
{
  (void)unused;
  static const int64_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 130, 200, 330, 384, 400};
  for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
    for (int order = 0; order < 4; order++) {
      snprintf(call_name, sizeof call_name, "%lld keys shared, order %d", (long long)lengths[n], order);
      call *text = few_queries(1), *other = continued(text, lengths[n], few_queries(2));
      alibi_cache *first = call_cache(text, KEYS), *second;
      call_cache_fill(first, text, 0, 400, 33);
      second = cache_share(first, lengths[n], KEYS);
      if (order == 0) call_cache_fill(first, text, 400, KEYS, 7);
      call_cache_fill(second, other, lengths[n], KEYS, 13);
      if (order == 1) call_cache_fill(first, text, 400, KEYS, 60);
      expect_keys(second, other, KEYS);
      if (order < 2) expect_keys(first, text, KEYS);
      if (order == 2) {
        alibi_cache_clear(first);
        call_cache_fill(first, other, 0, KEYS, 64);
        expect_keys(second, other, KEYS);
        expect_keys(first, other, KEYS);
      }
      if (order == 3) alibi_cache_free(second);
      if (order == 3) expect_keys(first, text, 400);
      alibi_cache_free(first);
      if (order != 3) expect_keys(second, other, KEYS);
      if (order != 3) alibi_cache_free(second);
      call_free_all();
    }
}

/* A family of caches: each has a part of another; they are cleared, filled and freed in every order. */
static void shares_of_shares_in_any_order(void **unused)
{
  (void)unused;
  for (int order = 0; order < 6; order++) {
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    snprintf(call_name, sizeof call_name, "order %d", order);
    call *texts[3] = {few_queries(1), NULL, NULL};
    texts[1] = continued(texts[0], 350, few_queries(2));
    texts[2] = continued(texts[1], 390, few_queries(3));
    alibi_cache *caches[3] = {call_cache(texts[0], KEYS), NULL, NULL};
    call_cache_fill(caches[0], texts[0], 0, KEYS, 64);
    caches[1] = cache_share(caches[0], 350, KEYS);
    call_cache_fill(caches[1], texts[1], 350, KEYS, 1);
    caches[2] = cache_share(caches[1], 390, KEYS);
    call_cache_fill(caches[2], texts[2], 390, KEYS, 11);
    for (int gone = 0; gone < 3; gone++) {
      for (int n = gone; n < 3; n++) expect_keys(caches[orders[order][n]], texts[orders[order][n]], KEYS);
      alibi_cache_free(caches[orders[order][gone]]);
    }
    call_free_all();
  }
  alibi_cache_free(NULL);
}

/* A share may hold fewer keys than its source, and no more than its own capacity says. */
static void a_share_has_its_own_capacity(void **unused)
{
  (void)unused;
  strcpy(call_name, "a share of 100 in 110");
  call *text = few_queries(1);
  alibi_cache *first = call_cache(text, KEYS), *second;
  call_cache_fill(first, text, 0, 200, 200);
  second = cache_share(first, 100, 110);
  call_cache_fill(second, text, 100, 110, 3);
  alibi_heads k = call_in(&text->k, true), v = call_in(&text->v, true);
  assert_int_equal(alibi_cache_append(second, &k, &v, 1, &call_error), ALIBI_INVALID);
  assert_int_equal(alibi_cache_length(second), 110);
  expect_keys(second, text, 110);
  expect_keys(first, text, 200);
  alibi_cache_free(first);
  alibi_cache_free(second);
  call_free_all();
}

static void a_cleared_cache_has_forgotten(void **unused)
{
  (void)unused;
  strcpy(call_name, "cleared and filled again");
  call *text = few_queries(1), *other = few_queries(2);
  alibi_cache *cache = call_cache(text, KEYS);
  for (int64_t keys = KEYS; keys > 0; keys -= 57) {
    for (int64_t j = 0; j < KEYS; j++)
      call_at(&other->k, j, 0)[3] = call_at(&other->v, j, 1)[0] = j % 2 ? NAN : INFINITY;
    call_cache_fill(cache, other, 0, KEYS, 100);
    alibi_cache_clear(cache);
    assert_int_equal(alibi_cache_length(cache), 0);
    call_cache_fill(cache, text, 0, keys, 29);
    expect_keys(cache, text, keys);
    alibi_cache_clear(cache);
  }
  alibi_cache_free(cache);
  call_free_all();
}

/* What a cache learnt from one call must not tell another: other slopes, other heads, another bias. */
static void one_cache_serves_any_call(void **unused)
{
  (void)unused;
  static const double gentle[] = {0.01, 0.02, 0, 0.001}, steeper[] = {9, 7, 5, 3};
  call_options o = few_queries(1)->options;
  o.spread = 0.5;
  call *text = call_new(&o);
  alibi_cache *cache = call_cache(text, KEYS);
  call_cache_fill(cache, text, 0, 400, 400);
  for (int n = 0; n < 12; n++) {
    call_options other = o;
    snprintf(call_name, sizeof call_name, "one cache, call %d", n);
    other.slopes = n % 4 == 0 ? steeper : n % 4 == 1 ? gentle : n % 4 == 2 ? call_steep : NULL;
    other.heads = n % 3 == 2 ? 2 : 4;
    other.bias = n % 5 == 4 ? ALIBI_BIAS_NONE : n % 5 == 3 ? ALIBI_BIAS_DISTANCE : ALIBI_BIAS_SLOPE;
    other.tolerance = n % 7 == 6 ? 1e-3 : ALIBI_TOLERANCE;
    other.keys = n < 6 ? 400 : KEYS;
    if (n == 6) call_cache_fill(cache, text, 400, KEYS, 7);
    call *rows = call_new(&other), *cached = call_new(&other);
    rows->a.k = text->a.k;
    rows->a.v = text->a.v;
    call_forward(rows);
    call_decode(cached, &cache);
    call_same_outputs(cached, rows);
  }
  alibi_cache_free(cache);
  call_free_all();
}

/* Several sequences on caches of one prefix, and one cache twice. */
static void sequences_share_a_prefix(void **unused)
{
  (void)unused;
  static const int64_t queries[] = {2, 1, 0, 4}, keys[] = {150, 150, 150, 150};
  call_options o = call_defaults();
  strcpy(call_name, "sequences on one prefix");
  o.sequences = 4;
  o.query_lengths = queries;
  o.key_lengths = keys;
  o.tolerance = ALIBI_TOLERANCE;
  call *rows = call_new(&o), *cached = call_new(&o);
  for (int64_t j = 150; j < 600; j++) /* one text four times; the second ends otherwise */
    for (int h = 0; h < o.heads; h++)
      if (j < 290 || j >= 300) {
        memcpy(call_at(&rows->k, j, h), call_at(&rows->k, j % 150, h), (size_t)o.size * sizeof(float));
        memcpy(call_at(&rows->v, j, h), call_at(&rows->v, j % 150, h), (size_t)o.size * sizeof(float));
      }
  alibi_cache *first = call_cache(rows, 150), *second;
  call_cache_fill(first, rows, 0, 150, 150);
  second = cache_share(first, 140, 150);
  call_cache_fill(second, rows, 290, 300, 10);
  alibi_cache *caches[] = {first, second, first, first};
  call_forward(rows);
  call_decode(cached, caches);
  call_same_outputs(cached, rows);
  alibi_cache_free(first);
  alibi_cache_free(second);
  call_free_all();
}

/* ---- what is not seen, what it costs ---- */

static void unseen_keys_of_a_cache(void **unused)
{
  (void)unused;
  for (int skip = 0; skip < 2; skip++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "unseen keys, skip %d", skip);
    o.queries = 4;
    o.offset = 100;
    o.window = 30;
    o.tolerance = skip ? ALIBI_TOLERANCE : 0;
    call *clean = call_new(&o), *spoiled = call_new(&o);
    const call_tensor *keys_and_values[] = {&spoiled->k, &spoiled->v};
    for (int i = 0; i < 2; i++) {
      call_spoil(keys_and_values[i], 0, 71);
      call_spoil(keys_and_values[i], 104, o.keys);
    }
    alibi_cache *cache = call_cache(spoiled, o.keys);
    call_cache_fill(cache, spoiled, 0, o.keys, 9);
    call_decode(spoiled, &cache);
    formula f = formula_of(&clean->a, NULL, NULL);
    call_expect_outputs(spoiled, &f, 0);
    formula_free(&f);
    alibi_cache_free(cache);
    call_free_all();
  }
}

/* A key from long ago that speaks so loudly that no distance silences it: the proof must know of it, in rows and
 * cached. */
static void a_loud_key_from_long_ago_is_heard(void **unused)
{
  (void)unused;
  static const double slopes[] = {0.5, 0.125, 0.03, 2};
  static const int64_t places[] = {0, 1, 63, 64, 200, 511, 700, 1100};
  for (size_t n = 0; n < sizeof places / sizeof places[0]; n++)
    for (int louder = -25; louder <= 5; louder += 5) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "a loud key at %lld, %d above its distance", (long long)places[n],
               louder);
      o.queries = 1;
      o.keys = 1200;
      o.slopes = slopes;
      o.tolerance = ALIBI_TOLERANCE;
      o.seed = n;
      call *rows = call_new(&o), *cached = call_new(&o);
      for (int h = 0; h < o.heads; h++) {
        const float *q = call_at(&rows->q, 0, h);
        double square, scale = 1 / sqrt((double)o.size),
                       wanted = slopes[h] * (double)(1199 - places[n]) + louder;
        formula nothing = {.nudged = NULL};
        square = formula_dot(&nothing, q, q, o.size, &square);
        for (int c = 0; c < o.size; c++)
          call_at(&rows->k, places[n], h)[c] = (float)(wanted / scale / square * (double)q[c]);
      }
      alibi_cache *cache = call_cache(rows, o.keys);
      call_cache_fill(cache, rows, 0, o.keys, 77);
      call_forward(rows);
      formula all = formula_of(&rows->a, NULL, NULL);
      call_expect_outputs(rows, &all, rows->report.bound);
      formula_free(&all);
      call_decode(cached, &cache);
      call_same_outputs(cached, rows);
      alibi_cache_free(cache);
      call_free_all();
    }
}

static void a_step_costs_the_same_however_long_the_cache(void **unused)
{
  (void)unused;
  static const double slopes[] = {1, 0.25};
  if (!call_skips()) return;
  call_options o = call_defaults();
  strcpy(call_name, "a long cache");
  o.heads = 2;
  o.slopes = slopes;
  o.queries = 1;
  o.keys = 8000;
  o.tolerance = ALIBI_TOLERANCE;
  call *text = call_new(&o);
  alibi_cache *cache = call_cache(text, o.keys);
  int64_t visited[2];
  for (int n = 0; n < 2; n++) {
    call *c = call_new(&o);
    call_cache_fill(cache, text, alibi_cache_length(cache), n ? 8000 : 1000, 500);
    call_decode(c, &cache);
    assert_int_equal(c->report.pairs_visible, n ? 16000 : 2000);
    visited[n] = c->report.pairs_visited;
  }
  assert_true(visited[1] <= visited[0] + 2 * ALIBI_ATTENTION_BLOCK);
  assert_true(visited[0] > 0 && visited[0] < 1000);
  alibi_cache_free(cache);
  call_free_all();
}

static void what_is_not_wanted_may_be_null(void **unused)
{
  (void)unused;
  strcpy(call_name, "no lse, visited, report");
  call *all = few_queries(4), *little = few_queries(4);
  alibi_cache *cache = call_cache(all, KEYS);
  call_cache_fill(cache, all, 0, KEYS, KEYS);
  call_decode(all, &cache);
  little->a.lse = NULL;
  little->a.visited = NULL;
  little->a.report = NULL;
  call_decode(little, &cache);
  call_same_rows("out", &little->out, 0, &all->out, 0, 3);
  alibi_cache_free(cache);
  call_free_all();
}

static void scratch_of_the_caller(void **unused)
{
  (void)unused;
  strcpy(call_name, "scratch");
  call *own = few_queries(4), *given = few_queries(4);
  size_t bytes = 0;
  alibi_cache *cache = call_cache(own, KEYS);
  call_cache_fill(cache, own, 0, KEYS, KEYS);
  call_decode(own, &cache);
  assert_int_equal(alibi_attention_decode_scratch(context, &given->a, &cache, &bytes, &call_error), ALIBI_OK);
  void *scratch = call_memory(bytes, 1);
  memset(scratch, 0xff, bytes);
  if (bytes > 0) {
    assert_int_equal(alibi_attention_decode(context, &given->a, &cache, scratch, bytes - 1, &call_error),
                     ALIBI_INVALID);
    assert_non_null(strstr(call_error.message, "scratch"));
  }
  call_ok("decode", alibi_attention_decode(context, &given->a, &cache, scratch, bytes, &call_error));
  call_same_outputs(given, own);
  alibi_cache_free(cache);
  call_free_all();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_options_filled_in_chunks),
      cmocka_unit_test(head_sizes),
      cmocka_unit_test(a_prefill_in_chunks_is_a_prefill_at_once),
      cmocka_unit_test(an_empty_cache_is_an_empty_sequence),
      cmocka_unit_test(a_cache_holds_its_capacity),
      cmocka_unit_test(a_prefix_is_shared_and_both_go_on),
      cmocka_unit_test(shares_of_shares_in_any_order),
      cmocka_unit_test(a_share_has_its_own_capacity),
      cmocka_unit_test(a_cleared_cache_has_forgotten),
      cmocka_unit_test(one_cache_serves_any_call),
      cmocka_unit_test(sequences_share_a_prefix),
      cmocka_unit_test(unseen_keys_of_a_cache),
      cmocka_unit_test(a_loud_key_from_long_ago_is_heard),
      cmocka_unit_test(a_step_costs_the_same_however_long_the_cache),
      cmocka_unit_test(what_is_not_wanted_may_be_null),
      cmocka_unit_test(scratch_of_the_caller),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
