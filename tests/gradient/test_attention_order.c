/* What must not depend on who runs first: gradients of tables that distant spans of keys add to, on several threads; and
 * rows beside keys that they do not see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/attention.h"
#include "base/memory.h"
#include "base/random.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "threads.h"

enum { SIZE = 32, ROUNDS = 60 };

static float *numbers(int64_t n, uint64_t seed)
{
  float *x = NULL;
  assert_int_equal(memory_new(&x, (size_t)n, sizeof *x, "numbers", NULL), ALIBI_OK);
  for (int64_t i = 0; i < n; i++) x[i] = (float)random_normal(seed, 1, (uint64_t)i) * 0.3f;
  return x;
}

static alibi_context *context_of(int threads)
{
  alibi_context_options options;
  alibi_context *context;
  alibi_context_options_init(&options);
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  threads_share_all_work(context);
  return context;
}

/* Keys of three spans a million apart; queries beside the first and the last: nobody meets the one between, so a turn
 * that spoke for its own span only would let two spans add to the table at once. */
static void spans_that_nobody_meets_keep_the_order(void **unused)
{
  (void)unused;
  enum { KEYS = 768, QUERIES = 512, DISTANCES = 512 };
  int64_t queries[QUERIES], keys[KEYS];
  for (int64_t j = 0; j < KEYS; j++) keys[j] = j / 256 * 1000000 + j % 256;
  for (int64_t r = 0; r < QUERIES; r++) queries[r] = r < 64 ? r : 2000000 + r - 64;
  float *q = numbers(QUERIES * SIZE, 1), *k = numbers(KEYS * SIZE, 2), *v = numbers(KEYS * SIZE, 3);
  float *dout = numbers(QUERIES * SIZE, 4), *out = numbers(QUERIES * SIZE, 5), *lse = numbers(QUERIES, 6);
  float *sink = numbers((QUERIES + 2 * KEYS) * SIZE, 7), *added = numbers(DISTANCES, 8);
  float gradients[2][DISTANCES];
  for (int round = 0; round < ROUNDS; round++)
    for (int threads = 1; threads <= 3; threads++) {
      alibi_context *context = context_of(threads);
      alibi_attention a;
      alibi_attention_gradients g;
      alibi_attention_init(&a);
      alibi_attention_gradients_init(&g);
      a.queries = QUERIES;
      a.keys = KEYS;
      a.heads = 1;
      a.head_size = SIZE;
      a.q.data = q;
      a.k.data = k;
      a.v.data = v;
      a.query_positions = queries;
      a.key_positions = keys;
      a.window = DISTANCES;
      a.bias = (alibi_bias){.kind = ALIBI_BIAS_DISTANCE, .added = added, .distances = DISTANCES};
      a.tolerance = 0;
      a.out.data = out;
      a.lse = lse;
      g.dout.data = dout;
      g.dq.data = sink;
      g.dk.data = sink + QUERIES * SIZE;
      g.dv.data = sink + (QUERIES + KEYS) * SIZE;
      g.added = gradients[threads > 1];
      memset(g.added, 0, sizeof gradients[0]);
      assert_int_equal(alibi_attention_forward(context, &a, NULL, 0, NULL), ALIBI_OK);
      assert_int_equal(alibi_attention_backward(context, &a, &g, NULL, 0, NULL), ALIBI_OK);
      alibi_context_free(context);
      if (threads > 1) assert_memory_equal(gradients[0], gradients[1], sizeof gradients[0]);
    }
  float *all[] = {q, k, v, dout, out, lse, sink, added};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) memory_free(all[i]);
}

/* The same rows, alone and before keys that stand ten million further on in the same block. */
static void keys_far_behind_leave_no_trace(void **unused)
{
  (void)unused;
  enum { KEYS = 64, NEAR = 40 };
  int64_t positions[KEYS];
  for (int64_t j = 0; j < KEYS; j++) positions[j] = j < NEAR ? 3 * j : 10000000 + j;
  float *qkv = numbers(3 * KEYS * SIZE, 1), *out = numbers(2 * KEYS * SIZE, 2);
  alibi_context *context = context_of(1);
  double slope = 0.3;
  for (int with = 0; with < 2; with++) {
    alibi_attention a;
    alibi_attention_init(&a);
    a.queries = a.keys = with ? KEYS : NEAR;
    a.heads = 1;
    a.head_size = SIZE;
    a.q.data = qkv;
    a.k.data = qkv + KEYS * SIZE;
    a.v.data = qkv + 2 * KEYS * SIZE;
    a.query_positions = a.key_positions = positions;
    a.bias.slopes = &slope;
    a.out.data = out + with * KEYS * SIZE;
    assert_int_equal(alibi_attention_forward(context, &a, NULL, 0, NULL), ALIBI_OK);
  }
  assert_memory_equal(out, out + KEYS * SIZE, NEAR * SIZE * sizeof *out);
  alibi_context_free(context);
  memory_free(qkv);
  memory_free(out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_that_nobody_meets_keep_the_order),
      cmocka_unit_test(keys_far_behind_leave_no_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
