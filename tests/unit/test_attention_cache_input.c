/* Caches of keys that cannot be: each is ALIBI_INVALID and one sentence, and what was there stays as it was. */
#include "unit/attention_refusal.h"

static void caches_that_do_not_fit(void **unused)
{
  (void)unused;
  static const int64_t lengths[] = {70, 70};
  call_options o = input_defaults();
  strcpy(call_name, "caches");
  o.sequences = 2;
  o.query_lengths = o.key_lengths = lengths;
  call *c = call_new(&o);
  alibi_error e;
  alibi_cache *fits, *wide, *few;
  assert_int_equal(alibi_cache_new(context, 4, 9, 70, &fits, &e), ALIBI_OK);
  assert_int_equal(alibi_cache_new(context, 4, 10, 70, &wide, &e), ALIBI_OK);
  assert_int_equal(alibi_cache_new(context, 2, 9, 70, &few, &e), ALIBI_OK);
  snapshot s = snapshot_of(c);
  alibi_cache *lists[3][2] = {{fits, NULL}, {fits, wide}, {few, fits}};
  for (int n = 0; n < 3; n++) {
    snprintf(call_name, sizeof call_name, "caches %d", n);
    expect_invalid("decode", alibi_attention_decode(context, &c->a, lists[n], NULL, 0, &e), &e, "cache");
  }
  alibi_cache *both[2] = {fits, fits};
  c->a.bias.kind = ALIBI_BIAS_KEY;
  expect_invalid("decode", alibi_attention_decode(context, &c->a, both, NULL, 0, &e), &e, "kind");
  c->a.bias.kind = ALIBI_BIAS_ROWS;
  c->a.bias.rows = NULL;
  expect_invalid("decode", alibi_attention_decode(context, &c->a, both, NULL, 0, &e), &e, "rows");
  expect_nothing_written(&s);
  alibi_cache_free(fits);
  alibi_cache_free(wide);
  alibi_cache_free(few);
  call_free_all();
}

static void caches_that_cannot_be(void **unused)
{
  (void)unused;
  alibi_cache *cache = NULL;
  alibi_error e;
  strcpy(call_name, "a cache");
  expect_invalid("new", alibi_cache_new(NULL, 4, 9, 70, &cache, &e), &e, "context");
  expect_invalid("new", alibi_cache_new(context, 0, 9, 70, &cache, &e), &e, "kv_heads");
  expect_invalid("new", alibi_cache_new(context, -1, 9, 70, &cache, &e), &e, "kv_heads");
  expect_invalid("new", alibi_cache_new(context, 4, 0, 70, &cache, &e), &e, "head_size");
  expect_invalid("new", alibi_cache_new(context, 4, 257, 70, &cache, &e), &e, "head_size");
  expect_invalid("new", alibi_cache_new(context, 4, 9, -1, &cache, &e), &e, "capacity");
  expect_invalid("new", alibi_cache_new(context, 4, 9, 70, NULL, &e), &e, "cache");
  static const int64_t huge[] = {INT64_MAX, INT64_MAX / 64, INT64_MAX / 4 / 9 / 4, INT64_C(1) << 57};
  for (size_t n = 0; n < sizeof huge / sizeof huge[0]; n++) {
    alibi_status found = alibi_cache_new(context, 4, 9, huge[n], &cache, &e);
    assert_true(found == ALIBI_INVALID || found == ALIBI_FAILED); /* it may be the world that says no */
    assert_true(e.message[0] != 0);
    assert_null(cache);
  }
}

static void appends_and_shares_that_cannot_be(void **unused)
{
  (void)unused;
  call_options o = input_defaults();
  call *c = call_new(&o);
  alibi_cache *cache, *other = NULL;
  alibi_error e;
  alibi_heads k = call_in(&c->k, false), v = call_in(&c->v, false), bad = k;
  strcpy(call_name, "a cache of 100");
  assert_int_equal(alibi_cache_new(context, 4, 9, 100, &cache, &e), ALIBI_OK);
  assert_int_equal(alibi_cache_append(cache, &k, &v, 60, &e), ALIBI_OK);
  expect_invalid("append", alibi_cache_append(cache, &k, &v, 41, &e), &e, "capacity|count");
  expect_invalid("append", alibi_cache_append(cache, &k, &v, INT64_MAX, &e), &e, "capacity|count");
  expect_invalid("append", alibi_cache_append(cache, &k, &v, -1, &e), &e, "count");
  expect_invalid("append", alibi_cache_append(NULL, &k, &v, 1, &e), &e, "cache");
  expect_invalid("append", alibi_cache_append(cache, NULL, &v, 1, &e), &e, "k");
  expect_invalid("append", alibi_cache_append(cache, &k, NULL, 1, &e), &e, "v");
  bad.data = NULL;
  expect_invalid("append", alibi_cache_append(cache, &bad, &v, 1, &e), &e, "k");
  expect_invalid("append", alibi_cache_append(cache, &k, &bad, 1, &e), &e, "v");
  bad = (alibi_heads){k.data, -36, 9};
  expect_invalid("append", alibi_cache_append(cache, &bad, &v, 2, &e), &e, "k");
  bad = (alibi_heads){k.data, INT64_MAX / 2, 9};
  expect_invalid("append", alibi_cache_append(cache, &k, &bad, 40, &e), &e, "v");
  static const int64_t far[][2] = {{INT64_MAX / 64, 9}, {36, INT64_MAX / 8}, {INT64_MAX / 160, 9}};
  for (size_t n = 0; n < sizeof far / sizeof far[0]; n++) { /* the last row lies beyond all addresses */
    bad = (alibi_heads){k.data, far[n][0], far[n][1]};
    expect_invalid("append", alibi_cache_append(cache, &bad, &v, 40, &e), &e, "k");
    expect_invalid("append", alibi_cache_append(cache, &k, &bad, 40, &e), &e, "v");
  }
  assert_int_equal(alibi_cache_length(cache), 60);
  expect_invalid("share", alibi_cache_share(NULL, 1, 100, &other, &e), &e, "from|cache");
  expect_invalid("share", alibi_cache_share(cache, 61, 100, &other, &e), &e, "length");
  expect_invalid("share", alibi_cache_share(cache, -1, 100, &other, &e), &e, "length");
  expect_invalid("share", alibi_cache_share(cache, 50, 49, &other, &e), &e, "capacity");
  assert_true(alibi_cache_share(cache, 50, INT64_MAX, &other, &e) != ALIBI_OK);
  expect_invalid("share", alibi_cache_share(cache, 50, 100, NULL, &e), &e, "cache");
  assert_null(other);

  /* What was refused left no trace. */
  o.queries = 2;
  o.keys = 100;
  call *rows = call_new(&o), *cached = call_new(&o);
  alibi_heads more_k = k, more_v = v;
  rows->a.k = k;
  rows->a.v = v;
  more_k.data += 60 * k.row_stride;
  more_v.data += 60 * v.row_stride;
  assert_int_equal(alibi_cache_append(cache, &more_k, &more_v, 40, &e), ALIBI_OK);
  call_forward(rows);
  call_decode(cached, &cache);
  call_same_outputs(cached, rows);
  alibi_cache_free(cache);
  call_free_all();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches_that_do_not_fit),
      cmocka_unit_test(caches_that_cannot_be),
      cmocka_unit_test(appends_and_shares_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
