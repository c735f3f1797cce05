/* What must not depend on who runs first: gradients of tables that distant spans of keys add to, on several
 * threads; and rows beside keys that they do not see. */
#include "unit/attention_expect.h"

/* Keys of three spans a million apart; queries beside the first and the last: nobody meets the one between, so a
 * turn that spoke for its own span only would let two spans add to the table at once. */
static void spans_that_nobody_meets_keep_the_order(void **unused)
{
  (void)unused;
  enum { KEYS = 768, QUERIES = 512, DISTANCES = 512, ROUNDS = 60 };
  call_options o = call_defaults();
  o.heads = 1;
  o.size = 32;
  o.queries = QUERIES;
  o.keys = KEYS;
  o.window = DISTANCES;
  o.bias = ALIBI_BIAS_DISTANCE;
  for (int round = 0; round < ROUNDS; round++) {
    call *calls[3];
    snprintf(call_name, sizeof call_name, "spans, round %d", round);
    for (int n = 0; n < 3; n++) {
      call *c = calls[n] = call_new(&o);
      int64_t *queries = call_memory(QUERIES, sizeof *queries), *keys = call_memory(KEYS, sizeof *keys);
      for (int64_t j = 0; j < KEYS; j++) keys[j] = j / 256 * 1000000 + j % 256;
      for (int64_t r = 0; r < QUERIES; r++) queries[r] = r < 64 ? r : 2000000 + r - 64;
      c->a.query_positions = queries;
      c->a.key_positions = keys;
      c->a.bias.added = call_numbers(DISTANCES, 8, 0.5); /* all of it matters */
      assert_true(c->a.bias.lowest == 0 && c->a.bias.distances == DISTANCES);
      context = call_context(n + 1);
      call_forward(c);
      call_backward(c);
      alibi_context_free(context);
      call_same_gradients(c, call_gradients_of(calls[0]));
    }
    call_free_all();
  }
}

/* The same rows, alone and before keys that stand ten million further on in the same block. */
static void keys_far_behind_leave_no_trace(void **unused)
{
  (void)unused;
  enum { KEYS = 64, NEAR = 40 };
  static const double slope[] = {0.3};
  int64_t positions[KEYS];
  for (int64_t j = 0; j < KEYS; j++) positions[j] = j < NEAR ? 3 * j : 10000000 + j;
  call_options o = call_defaults();
  strcpy(call_name, "keys far behind");
  o.heads = 1;
  o.size = 32;
  o.queries = o.keys = KEYS;
  o.slopes = slope;
  o.tolerance = ALIBI_TOLERANCE;
  call *alone = call_new(&o), *beside = call_new(&o);
  alone->a.query_positions = alone->a.key_positions = beside->a.query_positions = beside->a.key_positions =
      positions;
  alone->a.queries = alone->a.keys = NEAR;
  context = call_context(1);
  call_forward(alone);
  call_forward(beside);
  call_same_rows("out", &beside->out, 0, &alone->out, 0, NEAR);
  alibi_context_free(context);
  call_free_all();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_that_nobody_meets_keep_the_order),
      cmocka_unit_test(keys_far_behind_leave_no_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
