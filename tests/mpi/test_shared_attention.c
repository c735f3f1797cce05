/* Attention of sequences that lie over the ranks, against the operator on whole sequences: outputs, gradients, the
 * same bits in two runs, and how many keys travel. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/comm.h"
#include "model/shared_attention.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

#include "mpi/ranks_case.h"

enum { HEADS = 4, KV_HEADS = 2, D = 16, SEQUENCES = 2, QKV = (HEADS + 2 * KV_HEADS) * D };

static alibi_context *context;

/* The rows of all sequences, one after the other; [rows, QKV] and so on. */
typedef struct rows {
  size_t count;
  float *qkv, *out, *lse, *dout, *dqkv;
  int32_t *visited;
  double slope_grad[HEADS];
} rows;

static rows rows_new(size_t count)
{
  rows r = {.count = count};
  expect_ok(memory_new(&r.qkv, count * QKV, sizeof(float), "a test", &error));
  expect_ok(memory_new(&r.dqkv, count * QKV, sizeof(float), "a test", &error));
  expect_ok(memory_new(&r.out, count * HEADS * D, sizeof(float), "a test", &error));
  expect_ok(memory_new(&r.dout, count * HEADS * D, sizeof(float), "a test", &error));
  expect_ok(memory_new(&r.lse, count * HEADS, sizeof(float), "a test", &error));
  expect_ok(memory_new(&r.visited, count * HEADS * 2, sizeof(int32_t), "a test", &error));
  return r;
}

static void rows_free(rows *r)
{
  memory_free(r->qkv);
  memory_free(r->dqkv);
  memory_free(r->out);
  memory_free(r->dout);
  memory_free(r->lse);
  memory_free(r->visited);
}

/* Row `position` of a sequence: the same numbers on every rank.  Keys are what a model's are, near a few centres.
 */
static void fill_row(rows *r, size_t row, size_t sequence, size_t position, double size)
{
  for (size_t i = 0; i < QKV; i++) {
    bool key = i >= HEADS * D && i < (HEADS + KV_HEADS) * D;
    double centre = key ? random_normal(3, sequence * 3 + position % 3, i) : 0;
    r->qkv[row * QKV + i] = (float)(size * (centre + random_normal(1, sequence << 32 | position, i)));
  }
  for (size_t i = 0; i < HEADS * D; i++)
    r->dout[row * HEADS * D + i] = (float)random_normal(2, sequence << 32 | position, i);
}

typedef struct test_case {
  const char *name;
  size_t length, window;
  bias_kind bias;
  double tolerance, size;
  float slopes[HEADS], cap;
} test_case;

static op_attention call_of(const test_case *t, rows *r)
{
  const size_t keys = HEADS * D, values = (HEADS + KV_HEADS) * D;
  return (op_attention){.heads = HEADS,
                        .kv_heads = KV_HEADS,
                        .head_size = D,
                        .q = {r->qkv, QKV, D},
                        .k = {r->qkv + keys, QKV, D},
                        .v = {r->qkv + values, QKV, D},
                        .scale = 0.25f,
                        .cap = t->cap,
                        .window = t->window,
                        .bias = t->bias,
                        .slopes = t->slopes,
                        .tolerance = t->tolerance,
                        .out = {r->out, HEADS * D, D},
                        .lse = r->lse,
                        .visited = t->tolerance > 0 ? r->visited : NULL,
                        .overwrites = true,
                        .dout = {r->dout, HEADS * D, D},
                        .dq = {r->dqkv, QKV, D},
                        .dk = {r->dqkv + keys, QKV, D},
                        .dv = {r->dqkv + values, QKV, D},
                        .slope_grad = t->bias == BIAS_SLOPE ? r->slope_grad : NULL};
}

static rows whole(const test_case *t)
{
  rows r = rows_new(SEQUENCES * t->length);
  attention_segment segments[SEQUENCES];
  for (size_t s = 0; s < SEQUENCES; s++) {
    for (size_t i = 0; i < t->length; i++) fill_row(&r, s * t->length + i, s, i, t->size);
    segments[s] =
        (attention_segment){.row = s * t->length, .rows = t->length, .key_row = s * t->length, .keys = t->length};
  }
  op_attention a = call_of(t, &r);
  a.segments = segments;
  a.segment_count = SEQUENCES;
  attention_size size = {.segments = SEQUENCES,
                         .queries = r.count,
                         .keys = r.count,
                         .heads = HEADS,
                         .kv_heads = KV_HEADS,
                         .head_size = D,
                         .skips = t->tolerance > 0};
  size_t bytes = op_attention_bytes(context, &size);
  size.backward = size.slope_grad = true;
  if (op_attention_bytes(context, &size) > bytes) bytes = op_attention_bytes(context, &size);
  void *memory;
  expect_ok(memory_new(&memory, bytes, 1, "a test", &error));
  op_attention_forward(context, &a, memory);
  op_attention_backward(context, &a, memory);
  memory_free(memory);
  return r;
}

static rows shared(const test_case *t, shared_sequence sequences[SEQUENCES], shared_reach reach[SEQUENCES],
                   uint64_t *sent)
{
  size_t first, count;
  shared_attention *s;
  shared_rows(ranks, rank, t->length, &first, &count);
  rows r = rows_new(SEQUENCES * count);
  for (size_t q = 0; q < SEQUENCES; q++) {
    sequences[q] = (shared_sequence){.length = t->length, .row = q * count, .first = first, .rows = count};
    for (size_t i = 0; i < count; i++) fill_row(&r, q * count + i, q, first + i, t->size);
  }
  op_attention a = call_of(t, &r);
  expect_ok(shared_attention_new(c, &s, &error));
  expect_ok(shared_attention_forward(s, context, &a, sequences, SEQUENCES, reach, &error));
  expect_ok(shared_attention_backward(s, context, &a, sequences, SEQUENCES, reach, &error));
  *sent = shared_attention_sent(s);
  shared_attention_free(s);
  return r;
}

/* Row by row, against the largest number of all. */
static void compare(const char *name, const char *what, const float *found, const float *expected, size_t width,
                    const shared_sequence *q, size_t s)
{
  double largest = 0, apart = 0;
  for (size_t i = 0; i < q->length * width; i++)
    largest = fmax(largest, fabs(expected[s * q->length * width + i]));
  for (size_t i = 0; i < q->rows * width; i++) {
    double d = fabs((double)found[q->row * width + i] - expected[(s * q->length + q->first) * width + i]);
    if (!(d <= apart)) apart = d;
  }
  if (!(apart <= 4e-6 * largest)) fail_msg("%s: %s: rank %d is off by %g of %g", name, what, rank, apart, largest);
}

static const test_case cases[] = {
    {"slopes", 2048, 0, BIAS_SLOPE, 0x1p-24, 1, {0.5f, 0.25f, 0.125f, 0.0625f}, 0},
    {"gentle slopes", 1300, 0, BIAS_SLOPE, 0x1p-24, 1, {0.25f, 0.0625f, 0.015625f, 0.00390625f}, 0},
    {"large scores", 1500, 0, BIAS_SLOPE, 0x1p-24, 2.5, {0.5f, 0.25f, 0.5f, 0.25f}, 0},
    {"soft cap", 1500, 0, BIAS_SLOPE, 0x1p-24, 2.5, {0.5f, 0.25f, 0.5f, 0.25f}, 5},
    {"window", 1500, 100, BIAS_SLOPE, 0x1p-24, 1, {0.5f, 0.25f, 0.125f, 0.00390625f}, 0},
    {"one slope of 0", 700, 0, BIAS_SLOPE, 0x1p-24, 1, {0.5f, 0.25f, 0.125f, 0}, 0},
    {"tolerance 0", 700, 0, BIAS_SLOPE, 0, 1, {0.5f, 0.25f, 0.125f, 0.0625f}, 0},
    {"no bias", 700, 0, BIAS_NONE, 0x1p-24, 1, {0}, 0},
    {"no bias in a window", 900, 130, BIAS_NONE, 0, 1, {0}, 0},
    {"fewer blocks than ranks", 100, 0, BIAS_SLOPE, 0x1p-24, 1, {0.5f, 0.25f, 0.125f, 0.0625f}, 0},
};

static void every_rank_has_its_part_of_the_whole(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const test_case *t = &cases[i];
    shared_sequence q[SEQUENCES];
    shared_reach reach[SEQUENCES];
    uint64_t sent, sent_again;
    rows expected = whole(t), found = shared(t, q, reach, &sent), again = shared(t, q, reach, &sent_again);
    for (size_t s = 0; s < SEQUENCES; s++) {
      compare(t->name, "out", found.out, expected.out, HEADS * D, &q[s], s);
      compare(t->name, "lse", found.lse, expected.lse, HEADS, &q[s], s);
      compare(t->name, "gradients", found.dqkv, expected.dqkv, QKV, &q[s], s);
    }
    assert_memory_equal(found.out, again.out, found.count * HEADS * D * sizeof(float));
    assert_memory_equal(found.dqkv, again.dqkv, found.count * QKV * sizeof(float));
    assert_int_equal(sent, sent_again);
    if (t->bias == BIAS_SLOPE) {
      expect_ok(comm_sum_doubles(c, found.slope_grad, HEADS, &error));
      for (size_t h = 0; h < HEADS; h++)
        if (!(fabs(found.slope_grad[h] - expected.slope_grad[h]) <= 1e-4 * fabs(expected.slope_grad[h]) + 1e-3))
          fail_msg("%s: slope %zu: expected the gradient %g, found %g", t->name, h, expected.slope_grad[h],
                   found.slope_grad[h]);
    }
    rows_free(&expected);
    rows_free(&found);
    rows_free(&again);
  }
}

/* With slopes that fall only neighbours' keys travel, and only a part of them. */
static void only_keys_that_can_be_seen_travel(void **unused)
{
  (void)unused;
  shared_sequence q[SEQUENCES];
  shared_reach reach[SEQUENCES];
  uint64_t sent;
  test_case all = cases[0];
  rows r = shared(&cases[0], q, reach, &sent);
  int64_t near = (int64_t)sent;
  for (size_t s = 0; s < SEQUENCES; s++) {
    assert_true(q[s].first - reach[s].from <= 512);
    assert_true(rank == 0 || reach[s].redone > 0);
    assert_true(ranks == 1 || reach[s].redone < q[s].rows);
  }
  rows_free(&r);
  all.tolerance = 0;
  r = shared(&all, q, reach, &sent);
  int64_t far = (int64_t)sent;
  rows_free(&r);
  expect_ok(comm_sum_integers(c, &near, 1, &error));
  expect_ok(comm_sum_integers(c, &far, 1, &error));
  if (ranks > 1) assert_true(near > 0 && 2 * near < far);
}

static void rows_are_cut_in_whole_blocks(void **unused)
{
  (void)unused;
  for (size_t length = 1; length < 2000; length += 37)
    for (int n = 1; n < 7; n++) {
      size_t next = 0, first, count;
      for (int r = 0; r < n; r++) {
        shared_rows(n, r, length, &first, &count);
        assert_true(count == 0 || first == next);
        assert_true(count == 0 || first % ATTENTION_BLOCK == 0);
        next += count;
      }
      assert_int_equal(next, length);
    }
}

int main(int count, char **arguments)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_cut_in_whole_blocks),
      cmocka_unit_test(every_rank_has_its_part_of_the_whole),
      cmocka_unit_test(only_keys_that_can_be_seen_travel),
  };
  ranks_open(count, arguments);
  context = tiny_context(NULL, 1);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  alibi_context_free(context);
  return ranks_close(failed);
}
