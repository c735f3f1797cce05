/* The communicator among as many ranks as mpiexec starts: sums against double, the same bits in every run, blocks
 * of every size on their way together, agreement on a failure, bytes to rank 0, messages between ranks.  Every
 * rank runs every test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "comm/comm.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "mpi/ranks_case.h"

/* What rank r brings at i: of many sizes, so that another order of summing shows in the bits. */
static float brought(int r, uint64_t block, size_t i)
{
  uint64_t stream = block * 1000 + (uint64_t)r;
  return (float)(random_normal(7, stream, 2 * i) * exp(4 * random_normal(7, stream, 2 * i + 1)));
}

static void fill(float *x, uint64_t block, size_t count)
{
  for (size_t i = 0; i < count; i++) x[i] = brought(rank, block, i);
}

/* The sum of element i of chunk k in the order that comm.h promises. */
static float ring_sum(int k, uint64_t block, size_t i)
{
  float sum = brought((k + 1) % ranks, block, i);
  for (int s = 2; s <= ranks; s++) sum += brought((k + s) % ranks, block, i);
  return sum;
}

static void expect_block(const float *x, uint64_t block, size_t count)
{
  for (int k = 0; k < ranks; k++) {
    size_t from, n;
    comm_chunk(ranks, k, count, &from, &n);
    for (size_t i = from; i < from + n; i++) {
      float sum = ring_sum(k, block, i);
      double exact = 0, magnitude = 0;
      for (int r = 0; r < ranks; r++) {
        exact += brought(r, block, i);
        magnitude += fabs(brought(r, block, i));
      }
      if (memcmp(&x[i], &sum, sizeof sum) != 0)
        fail_msg("block of %zu, %zu: %a, expected %a", count, i, x[i], sum);
      assert_true(fabs(x[i] - exact) <= ranks * 0x1p-24 * magnitude);
    }
  }
}

static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 33, 63, 64, 65, 100, 255, 1000, 4099, 70001};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void chunks_cover_a_block(void **unused)
{
  (void)unused;
  for (size_t s = 0; s < SIZES; s++)
    for (int n = 1; n <= 9; n++) {
      size_t next = 0, largest = 0, smallest = SIZE_MAX;
      for (int r = 0; r < n; r++) {
        size_t from, count;
        comm_chunk(n, r, sizes[s], &from, &count);
        assert_int_equal(from, next);
        assert_true(from % 16 == 0 || count == 0);
        next = from + count;
        if (count > largest) largest = count;
        if (count < smallest) smallest = count;
      }
      assert_int_equal(next, sizes[s]);
      assert_true(largest - smallest < 32); /* a grain, and what the last chunk lacks of one */
    }
}

static void a_block_is_summed_in_the_fixed_order(void **unused)
{
  (void)unused;
  for (size_t s = 0; s < SIZES; s++) {
    size_t count = sizes[s], from, n;
    float *x = malloc((count + 1) * sizeof *x);
    fill(x, s, count);
    x[count] = 42; /* what follows is not touched */
    expect_ok(comm_reduce_begin(c, x, count, NULL, &error));
    expect_ok(comm_finish(c, &error));
    comm_chunk(ranks, rank, count, &from, &n);
    for (size_t i = from; i < from + n; i++) assert_true(x[i] == ring_sum(rank, s, i));
    expect_ok(comm_gather_begin(c, x, count, NULL, &error));
    expect_ok(comm_finish(c, &error));
    expect_block(x, s, count);
    assert_true(x[count] == 42);
    free(x);
  }
}

/* Many blocks at once, sums and spreading mixed, waited for one by one and progressed in between. */
static void many_blocks_are_on_their_way_together(void **unused)
{
  (void)unused;
  enum { BLOCKS = 40 };
  float *x[BLOCKS];
  uint64_t tickets[BLOCKS];
  for (size_t b = 0; b < BLOCKS; b++) {
    size_t count = sizes[b % SIZES];
    x[b] = malloc((count + 1) * sizeof **x);
    fill(x[b], b, count);
    expect_ok(comm_reduce_begin(c, x[b], count, &tickets[b], &error));
    if ((int)(b % 3) == rank % 3) expect_ok(comm_progress(c, &error)); /* ranks are not equally fast */
  }
  for (size_t b = 0; b < BLOCKS; b++) {
    size_t from, n;
    expect_ok(comm_wait(c, tickets[b], &error));
    comm_chunk(ranks, rank, sizes[b % SIZES], &from, &n);
    for (size_t i = from; i < from + n; i++) assert_true(x[b][i] == ring_sum(rank, b, i));
    expect_ok(comm_gather_begin(c, x[b], sizes[b % SIZES], NULL, &error));
  }
  expect_ok(comm_finish(c, &error));
  for (size_t b = 0; b < BLOCKS; b++) {
    expect_block(x[b], b, sizes[b % SIZES]);
    free(x[b]);
  }
}

static void ten_runs_have_the_same_bits(void **unused)
{
  (void)unused;
  enum { COUNT = 5000 };
  static float x[COUNT], first[COUNT];
  double sum = 0, first_sum = 0;
  for (int run = 0; run < 10; run++) {
    fill(x, 99, COUNT);
    expect_ok(comm_reduce_begin(c, x, COUNT, NULL, &error));
    expect_ok(comm_finish(c, &error));
    expect_ok(comm_gather_begin(c, x, COUNT, NULL, &error));
    expect_ok(comm_finish(c, &error));
    sum = brought(rank, 100, 0);
    expect_ok(comm_sum_doubles(c, &sum, 1, &error));
    if (run == 0) {
      memcpy(first, x, sizeof x);
      first_sum = sum;
    }
    assert_memory_equal(x, first, sizeof x);
    assert_true(sum == first_sum);
  }
  /* and every rank has them */
  float of_rank_0[COUNT];
  memcpy(of_rank_0, x, sizeof x);
  expect_ok(comm_broadcast(c, of_rank_0, sizeof of_rank_0, 0, &error));
  assert_memory_equal(of_rank_0, x, sizeof x);
}

static void numbers_are_summed_in_the_order_of_the_ranks(void **unused)
{
  (void)unused;
  double x[COMM_FEW], expected[COMM_FEW];
  int64_t n[2] = {rank + 1, INT64_C(1) << 60};
  for (size_t i = 0; i < COMM_FEW; i++) {
    x[i] = brought(rank, 5, i) / 3.0;
    expected[i] = brought(0, 5, i) / 3.0;
    for (int r = 1; r < ranks; r++) expected[i] += brought(r, 5, i) / 3.0;
  }
  expect_ok(comm_sum_doubles(c, x, COMM_FEW, &error));
  assert_memory_equal(x, expected, sizeof x);
  expect_ok(comm_sum_integers(c, n, 2, &error));
  int64_t largest = -5 - rank, other = rank == 1 ? 7 : -9;
  expect_ok(comm_largest(c, &largest, &error));
  expect_ok(comm_largest(c, &other, &error));
  assert_int_equal(largest, -5);
  assert_int_equal(other, ranks > 1 ? 7 : -9);
  assert_int_equal(n[0], ranks * (ranks + 1) / 2);
  assert_true(n[1] == ranks * (INT64_C(1) << 60));
}

static void bytes_are_broadcast(void **unused)
{
  (void)unused;
  char text[1001];
  for (int from = 0; from < ranks; from++) {
    memset(text, rank == from ? 'a' + from : 0, sizeof text);
    expect_ok(comm_broadcast(c, text, sizeof text, from, &error));
    for (size_t i = 0; i < sizeof text; i++) assert_int_equal(text[i], 'a' + from);
  }
  expect_ok(comm_barrier(c, &error));
  char mine[3] = {(char)rank, 7, (char)-rank}, all[3 * 16];
  expect_ok(comm_all_gather(c, mine, sizeof mine, all, &error));
  for (int r = 0; r < ranks; r++)
    assert_true(all[3 * r] == r && all[3 * r + 1] == 7 && all[3 * r + 2] == (char)-r);
}

static status agree(status own, const char *sentence)
{
  alibi_error_init(&error);
  if (own != ALIBI_OK) snprintf(error.message, sizeof error.message, "%s", sentence);
  return comm_agree(c, own, &error);
}

static void all_get_the_failure_of_one(void **unused)
{
  (void)unused;
  char expected[64];
  assert_int_equal(agree(ALIBI_OK, NULL), ALIBI_OK);
  for (int r = 0; r < ranks; r++) {
    assert_int_equal(agree(rank == r ? ALIBI_BAD_INPUT : ALIBI_OK, "it is damaged"), ALIBI_BAD_INPUT);
    snprintf(expected, sizeof expected, ranks > 1 ? "rank %d: it is damaged" : "it is damaged", r);
    assert_string_equal(error.message, expected);
    assert_int_equal(agree(ALIBI_OK, NULL), ALIBI_OK); /* it is over */
  }
  /* The lowest rank's, and an interruption only where nothing worse happened. */
  int last = ranks - 1;
  snprintf(expected, sizeof expected, ranks > 1 ? "rank %d: full disk" : "full disk", last);
  assert_int_equal(rank == last ? agree(ALIBI_FAILED, "full disk") : agree(ALIBI_CANCELLED, "interrupted"),
                   ALIBI_FAILED);
  assert_string_equal(error.message, expected);
  assert_int_equal(rank == last ? agree(ALIBI_CANCELLED, "interrupted") : agree(ALIBI_OK, NULL), ALIBI_CANCELLED);
  assert_string_equal(error.message, "interrupted");
  assert_int_equal(agree(ALIBI_INVALID, "wrong"), ALIBI_INVALID);
  assert_string_equal(error.message, "wrong"); /* of all alike */
  assert_int_equal(agree(ALIBI_OK, NULL), ALIBI_OK);
}

typedef struct collected {
  unsigned char *bytes;
  size_t size, limit;
} collected;

static status collect(void *user, const void *data, size_t bytes, alibi_error *e)
{
  collected *all = user;
  if (all->size + bytes > all->limit) {
    snprintf(e->message, sizeof e->message, "no space left");
    return ALIBI_FAILED;
  }
  memcpy(all->bytes + all->size, data, bytes);
  all->size += bytes;
  return ALIBI_OK;
}

/* Rank r brings r * 700001 + 3 bytes, or none where r is 1. */
static size_t bytes_of(int r)
{
  return r == 1 ? 0 : (size_t)r * 700001 + 3;
}

static void bytes_come_to_rank_0_in_order(void **unused)
{
  (void)unused;
  size_t mine = bytes_of(rank), sum = 0;
  for (int r = 0; r < ranks; r++) sum += bytes_of(r);
  collected all = {malloc(sum), 0, sum};
  unsigned char *data = malloc(mine + 1);
  for (size_t i = 0; i < mine; i++) data[i] = (unsigned char)(i * 31 + (size_t)rank);
  expect_ok(comm_collect(c, data, mine, collect, &all, &error));
  assert_int_equal(all.size, rank == 0 ? sum : 0);
  for (size_t r = 0, at = 0; rank == 0 && (int)r < ranks; r++)
    for (size_t i = 0; i < bytes_of((int)r); i++, at++)
      if (all.bytes[at] != (unsigned char)(i * 31 + r)) fail_msg("byte %zu of rank %zu", i, r);
  /* A sink that fails on the way: all are told, and the next thing works. */
  all.size = 0;
  all.limit = sum - 1;
  alibi_error_init(&error);
  assert_int_equal(comm_collect(c, data, mine, collect, &all, &error), ALIBI_FAILED);
  assert_string_equal(error.message, ranks > 1 ? "rank 0: no space left" : "no space left");
  expect_ok(comm_agree(c, ALIBI_OK, &error));
  free(data);
  free(all.bytes);
}

/* Every rank sends two messages to every other, while blocks are summed. */
static void messages_between_all_pairs(void **unused)
{
  (void)unused;
  enum { FLOATS = 20000, MOST = 8 };
  comm_message messages[4 * MOST];
  static float sent[2][FLOATS], received[MOST][2][FLOATS], x[FLOATS];
  size_t count = 0, from, n;
  assert_true(ranks <= MOST);
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < FLOATS; i++) sent[k][i] = brought(rank, 200 + (uint64_t)k, i);
  for (int k = 0; k < 2; k++)
    for (int r = 0; r < ranks; r++)
      if (r != rank) {
        size_t bytes = (FLOATS - (size_t)k) * sizeof(float);
        messages[count++] = (comm_message){r, true, sent[k], bytes};
        messages[count++] = (comm_message){r, false, received[r][k], bytes};
      }
  fill(x, 300, FLOATS);
  expect_ok(comm_reduce_begin(c, x, FLOATS, NULL, &error));
  expect_ok(comm_exchange_begin(c, messages, count, &error));
  expect_ok(comm_exchange_finish(c, &error));
  expect_ok(comm_finish(c, &error));
  comm_chunk(ranks, rank, FLOATS, &from, &n);
  for (size_t i = from; i < from + n; i++) assert_true(x[i] == ring_sum(rank, 300, i));
  for (int r = 0; r < ranks; r++)
    for (int k = 0; k < 2 && r != rank; k++)
      for (size_t i = 0; i < FLOATS - (size_t)k; i++)
        assert_true(received[r][k][i] == brought(r, 200 + (uint64_t)k, i));
}

static void what_cannot_be_is_refused(void **unused)
{
  (void)unused;
  double x[COMM_FEW + 1] = {0};
  comm_message to_itself = {rank, true, x, sizeof x};
  if (ranks > 1) assert_int_equal(comm_sum_doubles(c, x, COMM_FEW + 1, &error), ALIBI_INVALID);
  assert_int_equal(comm_exchange_begin(c, &to_itself, 1, &error), ALIBI_INVALID);
  comm *other = NULL;
  assert_int_equal(comm_open("smoke", &other, &error), ALIBI_INVALID);
  assert_string_equal(error.message, "ranks: expected auto, self, mpi, found 'smoke'");
  assert_null(other);
}

int main(int count, char **arguments)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_cover_a_block),
      cmocka_unit_test(a_block_is_summed_in_the_fixed_order),
      cmocka_unit_test(many_blocks_are_on_their_way_together),
      cmocka_unit_test(ten_runs_have_the_same_bits),
      cmocka_unit_test(numbers_are_summed_in_the_order_of_the_ranks),
      cmocka_unit_test(bytes_are_broadcast),
      cmocka_unit_test(all_get_the_failure_of_one),
      cmocka_unit_test(bytes_come_to_rank_0_in_order),
      cmocka_unit_test(messages_between_all_pairs),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  ranks_open(count, arguments);
  return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
