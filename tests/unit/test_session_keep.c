/* What a session keeps: sessions that begin with the tokens of another have the bits of one that was fed them;
 * sessions that keep few keys have the bits of one that keeps all, or say that they cannot, and never more blocks
 * than they were given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/allocations.h"
#include "unit/tiny_model.h"

enum { VOCABULARY = 29, LONG = 200, MANY = 4000 };

static alibi_error error;

static alibi_session *open_session(alibi_model *model, int64_t capacity, int64_t keep, const char *extend)
{
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.capacity = capacity;
  options.keep = keep;
  options.extend = extend;
  if (alibi_session_new(model, &options, &session, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return session;
}

static alibi_session *share(alibi_session *from, size_t length)
{
  alibi_session *session;
  if (alibi_session_share(from, (int64_t)length, NULL, &session, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  assert_int_equal(alibi_session_length(session), length);
  assert_int_equal(alibi_session_capacity(session), alibi_session_capacity(from));
  return session;
}

static void feed(alibi_session *session, const uint32_t *tokens, size_t count)
{
  if (alibi_session_feed(session, tokens, count, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void step(alibi_model *model, alibi_session *session, uint32_t token)
{
  if (alibi_step(model, &session, &token, 1, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void says(status found, status expected, const char *part)
{
  assert_int_equal(found, expected);
  if (!strstr(error.message, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, error.message);
}

static void same_logits(const alibi_session *found, const alibi_session *expected, const char *what)
{
  const float *x = alibi_session_logits(found), *y = alibi_session_logits(expected);
  assert_int_equal(alibi_session_length(found), alibi_session_length(expected));
  assert_non_null(x);
  assert_non_null(y);
  size_t at = tiny_floats_differ(x, y, VOCABULARY);
  if (at) fail_msg("%s: logit %zu after %zu tokens differs", what, at - 1, (size_t)alibi_session_length(found));
}

/* ---- the same beginning ---- */

/* Goes on with tokens of its own, and has the logits of a session that was fed all of them. */
static void goes_on(alibi_model *model, alibi_session *session, const char *extend, const uint32_t *tokens,
                    uint64_t seed, size_t more)
{
  size_t length = (size_t)alibi_session_length(session);
  uint32_t others[LONG];
  tiny_tokens(others, LONG, seed, VOCABULARY);
  alibi_session *fed = open_session(model, alibi_session_capacity(session), 0, extend);
  feed(fed, tokens, length);
  for (size_t i = 0; i < more; i++) {
    if (i % 2) {
      feed(session, &others[i], 1);
    } else {
      step(model, session, others[i]);
    }
    feed(fed, &others[i], 1);
    same_logits(session, fed, "shared");
  }
  alibi_session_free(fed);
}

static void shares(alibi_model *model, const char *extend, const uint32_t *tokens, size_t length)
{
  alibi_session *from = open_session(model, LONG, 0, extend);
  feed(from, tokens, 150);
  alibi_session *all = share(from, 150), *part = share(from, length), *again = share(part, length / 2);
  same_logits(all, from, "all tokens shared");
  if (length < 150) assert_null(alibi_session_logits(part));
  assert_null(alibi_session_logits(again));
  goes_on(model, part, extend, tokens, 21, 20);
  feed(from, tokens + 150, 10);
  goes_on(model, all, extend, tokens, 22, 3);
  goes_on(model, again, extend, tokens, 23, 70);
  alibi_session_clear(part);
  assert_null(alibi_session_logits(part));
  goes_on(model, part, extend, tokens, 24, 70);
  alibi_session_clear(from); /* writes where the others read, if it may */
  feed(from, tokens + 7, 140);
  alibi_session *fresh = open_session(model, LONG, 0, extend);
  feed(fresh, tokens + 7, 140);
  same_logits(from, fresh, "cleared, and fed anew");
  alibi_session_free(fresh);
  alibi_session_free(from);
  uint32_t next = 5;
  from = open_session(model, LONG, 0, extend);
  feed(from, tokens, 150);
  alibi_session_free(all);
  all = share(from, 150);
  alibi_session_free(from);
  step(model, all, next);
  from = open_session(model, LONG, 0, extend);
  feed(from, tokens, 150);
  step(model, from, next);
  same_logits(all, from, "the other one freed");
  alibi_session_free(part);
  alibi_session_free(again);
  alibi_session_free(all);
  alibi_session_free(from);
}

static void shared_sessions_are_as_if_fed(void **unused)
{
  (void)unused;
  static const size_t lengths[] = {0, 1, 63, 64, 100, 128, 150};
  static const char *const subjects[][2] = {{"position=alibi alibi_max_bias=4"},
                                            {"position=alibi kv_heads=2"},
                                            {"position=t5"},
                                            {"position=rope"},
                                            {"position=rope", "ntk"},
                                            {"position=learned train_length=200"}};
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 3, VOCABULARY);
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
    alibi_context *context = tiny_context(NULL, 1);
    alibi_model *model = tiny_model(context, subjects[i][0]);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
      shares(model, subjects[i][1], tokens, lengths[n]);
    assert_null(model->engines);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* Proofs are shared too: long enough that rows stop. */
static void long_beginnings_are_shared(void **unused)
{
  (void)unused;
  enum { BEGINNING = 1500 };
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=alibi alibi_max_bias=6");
  uint32_t *tokens = malloc(MANY * sizeof *tokens);
  assert_non_null(tokens);
  tiny_tokens(tokens, MANY, 4, VOCABULARY);
  alibi_session *from = open_session(model, MANY, 0, NULL), *fed = open_session(model, MANY, 0, NULL);
  feed(from, tokens, BEGINNING);
  feed(fed, tokens, BEGINNING - 100);
  alibi_session *shared = share(from, BEGINNING - 100);
  alibi_session_free(from);
  for (size_t i = 0; i < 200; i++) {
    step(model, shared, tokens[i]);
    step(model, fed, tokens[i]);
    same_logits(shared, fed, "shared");
  }
  alibi_session_free(shared);
  alibi_session_free(fed);
  free(tokens);
  alibi_model_free(model);
  alibi_context_free(context);
}

static status try_share(alibi_session *from, int64_t length, int64_t capacity, int64_t keep, const char *extend)
{
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.capacity = capacity;
  options.keep = keep;
  options.extend = extend;
  status result = alibi_session_share(from, length, &options, &session, &error);
  if (result != ALIBI_OK) assert_null(session);
  alibi_session_free(session);
  return result;
}

static void refuses_what_cannot_be_shared(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=rope");
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 5, VOCABULARY);
  alibi_session *plain = open_session(model, 100, 0, NULL), *extended = open_session(model, 100, 0, "ntk");
  feed(plain, tokens, 70);
  feed(extended, tokens, 70);
  says(try_share(plain, 71, 0, 0, NULL), ALIBI_INVALID, "at most the 70 tokens");
  says(try_share(plain, -1, 0, 0, NULL), ALIBI_INVALID, "found -1");
  says(try_share(plain, 70, 69, 0, NULL), ALIBI_INVALID, "at least the 70 tokens shared, found 69");
  says(try_share(plain, 70, -2, 0, NULL), ALIBI_INVALID, "found -2");
  says(try_share(plain, 70, 0, 0, "ntk"), ALIBI_INVALID, "none, found 'ntk'");
  says(try_share(plain, 70, 0, 500, NULL), ALIBI_INVALID, "bias decays");
  says(try_share(extended, 70, 120, 0, NULL), ALIBI_INVALID, "'ntk' depends on it, found 120");
  says(try_share(extended, 70, 0, 0, "yarn"), ALIBI_INVALID, "ntk, found 'yarn'");
  assert_int_equal(try_share(extended, 70, 100, 0, "ntk"), ALIBI_OK);
  assert_int_equal(try_share(plain, 70, 70, 0, NULL), ALIBI_OK);
  assert_int_equal(try_share(plain, 70, 7000, 0, NULL), ALIBI_OK);
  says(try_share(plain, 70, INT64_MAX, 0, NULL), ALIBI_FAILED, "not enough memory");
  alibi_session_options unset = {0};
  alibi_session *session;
  says(alibi_session_share(plain, 1, &unset, &session, &error), ALIBI_INVALID, "alibi_session_options_init");
  assert_null(session);
  alibi_session_free(plain);
  alibi_session_free(extended);
  assert_null(model->engines);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* ---- fewer keys than tokens ---- */

static const char *const dropping[] = {
    "position=alibi alibi_max_bias=6",
    "position=alibi alibi_max_bias=6 kv_heads=2 norm=rmsnorm",
    "position=alibi alibi_max_bias=5 kv_heads=1 head_size=6 qk_norm=true",
    "position=alibi alibi_max_bias=5 heads=3 head_size=12 layers=1",
};
enum { DROPPING = sizeof dropping / sizeof dropping[0], KEEP = 1280 };

/* Step by step, and in parts of any size, beside a session that keeps everything. */
static void decodes_on(const char *isa, int threads, const char *settings, size_t count)
{
  alibi_context *context = tiny_context(isa, threads);
  alibi_model *model = tiny_model(context, settings);
  uint32_t *tokens = malloc(count * sizeof *tokens);
  assert_non_null(tokens);
  tiny_tokens(tokens, count, 6, VOCABULARY);
  alibi_session *all = open_session(model, (int64_t)count, 0, NULL);
  alibi_session *few = open_session(model, (int64_t)count, KEEP, NULL);
  alibi_session *fed = open_session(model, (int64_t)count, KEEP, NULL);
  for (size_t i = 0; i < count;) {
    size_t part = i % 1000 < 500 ? 1 : 1 + i % 300;
    if (part > count - i) part = count - i;
    feed(fed, tokens + i, part);
    for (size_t end = i + part; i < end; i++) {
      alibi_session *both[] = {all, few};
      if (alibi_step(model, both, (uint32_t[]){tokens[i], tokens[i]}, 2, &error) != ALIBI_OK)
        fail_msg("%s: after %zu tokens: %s", settings, i, error.message);
      same_logits(few, all, settings);
      assert_true(alibi_session_kept(few) <= KEEP);
    }
    same_logits(fed, all, settings);
    assert_true(alibi_session_kept(fed) <= KEEP);
  }
  assert_int_equal(alibi_session_kept(few), KEEP);
  assert_int_equal(alibi_session_kept(all), (count + 63) / 64 * 64);
  alibi_session_free(all);
  alibi_session_free(few);
  alibi_session_free(fed);
  free(tokens);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void few_keys_give_the_same_bits(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < DROPPING; i++) decodes_on(NULL, 1, dropping[i], MANY);
  decodes_on(NULL, 2, dropping[0], MANY / 2);
  for (size_t isa = 0; isa < kernel_table_count(); isa++)
    if (kernel_table_at(isa) && kernel_table_at(isa)->proof_sums)
      decodes_on(kernel_table_at(isa)->name, 1, dropping[1], MANY / 2);
}

static void dropping_allocates_nothing(void **unused)
{
  (void)unused;
  if (!COUNTS_ALLOCATIONS) skip();
  assert_true(allocations_are_counted());
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *model = tiny_model(context, dropping[0]);
  uint32_t *tokens = malloc(MANY * sizeof *tokens);
  assert_non_null(tokens);
  tiny_tokens(tokens, MANY, 7, VOCABULARY);
  alibi_session *session = open_session(model, 2 * MANY, KEEP, NULL);
  for (int round = 0; round < 2; round++) {
    feed(session, tokens, KEEP); /* the threads are made here */
    size_t before = allocations;
    feed(session, tokens, 200);
    for (size_t i = 0; i < 1000; i++) step(model, session, tokens[i]);
    if (allocations != before) fail_msg("%zu allocations", allocations - before);
    alibi_session_clear(session);
    assert_int_equal(alibi_session_kept(session), 0);
  }
  alibi_session_free(session);
  free(tokens);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* A session that has dropped, and one that keeps all, begin others that drop. */
static void sessions_that_drop_are_copied(void **unused)
{
  (void)unused;
  enum { LENGTH = 3000 };
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, dropping[1]);
  uint32_t *tokens = malloc(MANY * sizeof *tokens);
  assert_non_null(tokens);
  tiny_tokens(tokens, MANY, 8, VOCABULARY);
  alibi_session *all = open_session(model, MANY, 0, NULL), *few = open_session(model, MANY, KEEP, NULL),
                *copies[3];
  feed(all, tokens, LENGTH);
  feed(few, tokens, LENGTH);
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.keep = KEEP;
  copies[0] = share(few, LENGTH);
  assert_int_equal(alibi_session_share(all, LENGTH, &options, &copies[1], &error), ALIBI_OK);
  options.keep = MANY;
  assert_int_equal(alibi_session_share(few, LENGTH, &options, &copies[2], &error), ALIBI_OK);
  for (size_t c = 0; c < 3; c++) same_logits(copies[c], all, "copied");
  assert_true(alibi_session_kept(copies[0]) == KEEP && alibi_session_kept(copies[1]) <= KEEP);
  says(try_share(few, 200, 0, 0, NULL), ALIBI_INVALID, "found 200, of which some were dropped");
  alibi_session_clear(few);
  feed(few, tokens + 1, LENGTH); /* not in their blocks */
  for (size_t i = LENGTH; i < LENGTH + 300; i++) {
    step(model, all, tokens[i]);
    for (size_t c = 0; c < 3; c++) {
      step(model, copies[c], tokens[i]);
      same_logits(copies[c], all, "a copy");
    }
  }
  alibi_session_clear(all);
  feed(all, tokens + 1, LENGTH);
  same_logits(few, all, "cleared");
  for (size_t c = 0; c < 3; c++) alibi_session_free(copies[c]);
  alibi_session_free(all);
  alibi_session_free(few);
  free(tokens);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* ---- queries that look too far back ---- */

/* With scores so large that what is far away can always outweigh what is near. */
static alibi_model *far_looking_model(alibi_context *context)
{
  alibi_model *model = tiny_model(context, dropping[0]);
  for (int64_t layer = 0; layer < model->config.layers; layer++) {
    float *queries = model->parameters.blocks[layer].qkv_weight;
    for (int64_t i = 0; i < 32 * 32; i++) queries[i] *= 100;
  }
  return model;
}

static void a_query_that_looks_too_far_is_told(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *model = far_looking_model(context);
  uint32_t *tokens = malloc(MANY * sizeof *tokens);
  assert_non_null(tokens);
  tiny_tokens(tokens, MANY, 9, VOCABULARY);
  alibi_session *all = open_session(model, MANY, 0, NULL), *few = open_session(model, MANY, 400, NULL);
  status result = ALIBI_OK;
  size_t fed = 0;
  for (; fed < MANY; fed++) { /* what it gives until then is right */
    result = alibi_step(model, &few, &tokens[fed], 1, &error);
    if (result != ALIBI_OK) break;
    step(model, all, tokens[fed]);
    same_logits(few, all, "before it is told");
  }
  says(result, ALIBI_FAILED, "step: session 0: layer 0, head ");
  says(result, ALIBI_FAILED, "raise the option keep above 448 tokens, or set it to 0 (all)");
  assert_true(fed >= 400);
  same_logits(few, all, "after it is told");

  /* Nobody who was stepped along has taken a token, the one of another engine neither. */
  alibi_session *small = open_session(model, 50, 0, NULL), *three[] = {small, all, few};
  feed(small, tokens, 10);
  float before[VOCABULARY];
  memcpy(before, alibi_session_logits(small), sizeof before);
  says(alibi_step(model, three, (uint32_t[]){1, 2, tokens[fed]}, 3, &error), ALIBI_FAILED,
       "step: session 2: layer");
  assert_int_equal(alibi_session_length(small), 10);
  assert_int_equal(tiny_floats_differ(before, alibi_session_logits(small), VOCABULARY), 0);
  same_logits(few, all, "after it is told again");

  /* A long feed keeps the parts before. */
  alibi_session_clear(few);
  says(alibi_session_feed(few, tokens, MANY, &error), ALIBI_FAILED, "layer ");
  size_t kept = (size_t)alibi_session_length(few);
  assert_true(kept > 0 && kept % 128 == 0 && kept < MANY);
  alibi_session_clear(all);
  feed(all, tokens, kept);
  same_logits(few, all, "the parts before");
  alibi_session *again = share(few, kept);
  same_logits(again, all, "a copy of it");

  /* Fewer tokens than it keeps go well. */
  alibi_session_clear(few);
  alibi_session_clear(all);
  feed(few, tokens + 5, 300);
  feed(all, tokens + 5, 300);
  same_logits(few, all, "cleared");
  alibi_session *sessions[] = {all, few, small, again};
  for (size_t i = 0; i < 4; i++) alibi_session_free(sessions[i]);
  free(tokens);
  alibi_model_free(model);
  alibi_context_free(context);
}

static status try_keep(alibi_context *context, const char *settings, int64_t keep)
{
  alibi_model *model = tiny_model(context, settings);
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.keep = keep;
  status result = alibi_session_new(model, &options, &session, &error);
  if (result != ALIBI_OK) assert_null(session);
  alibi_session_free(session);
  assert_null(model->engines);
  alibi_model_free(model);
  return result;
}

static void refuses_where_nothing_may_be_dropped(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1), *reference = tiny_context("reference", 1);
  says(try_keep(context, "position=t5", 1000), ALIBI_INVALID, "found 't5'");
  says(try_keep(context, "position=alibi", -1), ALIBI_INVALID, "found -1");
  says(try_keep(context, "position=alibi", 383), ALIBI_INVALID, "at least 384 tokens, or 0 (all), found 383");
  says(try_keep(reference, "position=alibi", 1000), ALIBI_INVALID, "found 5.96046e-08 and reference");
  context->tolerance = 0;
  says(try_keep(context, "position=alibi", 1000), ALIBI_INVALID, "a tolerance above 0");
  context->tolerance = 0x1p-24;
  assert_int_equal(try_keep(context, "position=alibi", 384), ALIBI_OK);
  assert_int_equal(try_keep(context, "position=alibi", INT64_MAX), ALIBI_OK); /* no more than the capacity */
  alibi_context_free(context);
  alibi_context_free(reference);
}

/* A head without a slope sees all keys, and no slope says what a table of distances may lose: a session would fail
 * once it is full, however late that is. */
static void refuses_heads_that_never_stop(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  static const char *const slopes =
      "session: keep 1000: expected a slope above 0 on every head, so that keys may be dropped, found 0 on ";
  static const char *const kinds =
      "session: keep 1000: expected a position method whose bias falls by slopes or gates";
  says(try_keep(context, "position=nape", 1000), ALIBI_INVALID, slopes);
  says(try_keep(context, "position=nape", 1000), ALIBI_INVALID, "head 1 of the position method 'nape'");
  says(try_keep(context, "position=nape nape_share=0.25 kv_heads=1", 1000), ALIBI_INVALID,
       "head 3 of the position method 'nape'");
  says(try_keep(context, "position=alibi alibi_slopes=0.5,0.25,0,0.1", 1000), ALIBI_INVALID,
       "head 2 of the position method 'alibi'");
  says(try_keep(context, "position=bam", 1000), ALIBI_INVALID, kinds);
  says(try_keep(context, "position=kerple-power", 1000), ALIBI_INVALID, "found 'kerple-power'");
  static const char *const able[] = {"position=alibi alibi_slopes=0.5,0.25,0.01,0.1", "position=alibi-learned",
                                     "position=fox", "position=nape nape_share=0"};
  for (size_t i = 0; i < sizeof able / sizeof able[0]; i++)
    if (try_keep(context, able[i], 1000) != ALIBI_OK) fail_msg("%s: %s", able[i], error.message);
  alibi_model *model = tiny_model(context, "position=nape");
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 5, VOCABULARY);
  alibi_session *all = open_session(model, LONG, 0, NULL);
  feed(all, tokens, 70);
  says(try_share(all, 70, 0, 1000, NULL), ALIBI_INVALID, slopes);
  alibi_session_options huge;
  alibi_session_options_init(&huge);
  huge.capacity = INT64_C(1) << 55; /* more than any machine has: keep is looked at before */
  huge.keep = 1000;
  alibi_session *none;
  says(alibi_session_new(model, &huge, &none, &error), ALIBI_INVALID, slopes);
  says(try_share(all, 70, huge.capacity, 1000, NULL), ALIBI_INVALID, slopes);
  alibi_session_free(all);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* ---- which block goes ---- */

enum { LISTS = 3, SIZE = 5, BLOCKS = 40 };

/* One more block of random keys for every list, with what they prove. */
static status grow(block_cache *cache, size_t block, const float *slopes)
{
  float keys[ATTENTION_BLOCK * SIZE];
  status result = block_cache_reserve(cache, block * ATTENTION_BLOCK, ATTENTION_BLOCK, &error);
  for (size_t l = 0; result == ALIBI_OK && l < LISTS; l++) {
    for (size_t i = 0; i < ATTENTION_BLOCK * SIZE; i++) keys[i] = (float)random_normal(l, block, i);
    block_cache_store(cache, l, block * ATTENTION_BLOCK, ATTENTION_BLOCK, keys, SIZE, keys, SIZE);
    block_cache_prove(cache, l, block + 1, &slopes[l]);
  }
  return result;
}

static block_cache *pool(size_t kept)
{
  block_cache *cache;
  const kernel_table *kernel = kernel_table_best();
  assert_int_equal(
      block_cache_new_pool(kernel, LISTS, SIZE, 0, BLOCKS * ATTENTION_BLOCK, kept, 1, 0x1p-24, &cache, &error),
      ALIBI_OK);
  return cache;
}

static void the_steepest_head_loses_first(void **unused)
{
  (void)unused;
  const float slopes[LISTS] = {0.01f, 0.5f, 0.1f};
  block_cache *cache = pool(6);
  size_t block = 0;
  for (; block < 6; block++) assert_int_equal(grow(cache, block, slopes), ALIBI_OK);
  for (size_t l = 0; l < LISTS; l++) assert_int_equal(cache->first_block[l], 0);
  assert_int_equal(block_cache_held(cache, 6 * ATTENTION_BLOCK), 18);
  assert_int_equal(grow(cache, block++, slopes), ALIBI_OK);
  assert_int_equal(cache->first_block[0], 0);
  assert_true(cache->first_block[1] >= 2);
  assert_null(cache->key_blocks[cache->blocks]);
  block_cache_free(cache);

  /* Unless it was seen to look back, and another was not. */
  cache = pool(6);
  for (block = 0; block < 6; block++) {
    assert_int_equal(grow(cache, block, slopes), ALIBI_OK);
    block_cache_saw(cache, 1, 0, block * ATTENTION_BLOCK + 63, 0);
    block_cache_saw(cache, 2, 0, block * ATTENTION_BLOCK + 63, block);
  }
  assert_int_equal(grow(cache, block, slopes), ALIBI_OK);
  assert_int_equal(cache->first_block[1], 0);
  assert_true(cache->first_block[2] > 0);

  /* Or its weights say that it never does. */
  cache->score_limit[1] = 0.5;
  size_t others = cache->first_block[0] + cache->first_block[2];
  assert_int_equal(grow(cache, ++block, slopes), ALIBI_OK);
  assert_int_equal(cache->first_block[0] + cache->first_block[2], others);
  assert_int_equal(cache->first_block[1], 3);
  block_cache_free(cache);
}

/* A head whose slope is 0 sees everything, and keeps it while there is room. */
static void a_slope_of_0_loses_nothing(void **unused)
{
  (void)unused;
  const float slopes[LISTS] = {0, 0.5f, 0};
  block_cache *cache = pool(6);
  size_t block = 0;
  while (block < BLOCKS && grow(cache, block, slopes) == ALIBI_OK) block++;
  assert_true(block > 6 && block < BLOCKS);
  says(error.status, ALIBI_FAILED, "may be dropped, found none: raise the option keep above 384 tokens");
  assert_int_equal(cache->first_block[0] + cache->first_block[2], 0);
  assert_int_equal(block_cache_restart(cache, &error), ALIBI_OK);
  for (size_t b = 0; b < block; b++) assert_int_equal(grow(cache, b, slopes), ALIBI_OK);
  block_cache_free(cache);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_sessions_are_as_if_fed),
      cmocka_unit_test(long_beginnings_are_shared),
      cmocka_unit_test(refuses_what_cannot_be_shared),
      cmocka_unit_test(few_keys_give_the_same_bits),
      cmocka_unit_test(dropping_allocates_nothing),
      cmocka_unit_test(sessions_that_drop_are_copied),
      cmocka_unit_test(a_query_that_looks_too_far_is_told),
      cmocka_unit_test(refuses_where_nothing_may_be_dropped),
      cmocka_unit_test(refuses_heads_that_never_stop),
      cmocka_unit_test(the_steepest_head_loses_first),
      cmocka_unit_test(a_slope_of_0_loses_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
