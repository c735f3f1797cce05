/* The order of batches: every window once an epoch, sources in their shares, documents apart, nothing that depends
 * on what was read before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "train/batches.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

enum { TOKENS = 1000, LENGTH = 8, SOURCES = 3 };

static alibi_error error;
static uint32_t ids[TOKENS]; /* token i of source s is i + s * TOKENS */

static token_source source_of(size_t first, size_t count, const uint64_t *documents, size_t document_count)
{
  token_source source;
  if (token_source_of_ids("test", ids + first, count, documents, document_count, &source, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return source;
}

static batches batches_of(const token_source *sources, const double *shares, size_t count, alibi_order order,
                          alibi_documents documents)
{
  alibi_train_options options;
  batches b;
  alibi_train_options_init(&options);
  options.order = order;
  options.documents = documents;
  if (batches_init(&b, sources, shares, count, &options, LENGTH, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return b;
}

/* The first token's index; the rest must follow it. */
static uint32_t read_first(const batches *b, size_t phase, uint64_t sequence)
{
  uint32_t tokens[LENGTH], targets[LENGTH];
  pass_segment segments[LENGTH];
  assert_int_equal(batches_read(b, phase, LENGTH, sequence, tokens, targets, segments), 1);
  assert_int_equal(segments[0].count, LENGTH);
  for (uint32_t i = 0; i < LENGTH; i++) {
    assert_int_equal(tokens[i], tokens[0] + i);
    assert_int_equal(targets[i], tokens[0] + i + 1);
  }
  return tokens[0];
}

static void an_epoch_reads_every_window_once(void **unused)
{
  (void)unused;
  static const size_t counts[] = {9, 10, 17, 24, 25, 26, 100, 999, 1000};
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    size_t count = counts[c], windows = (count - LENGTH) / LENGTH > 0 ? (count - LENGTH) / LENGTH : 1,
           orders_differ = 0;
    token_source source = source_of(0, count, NULL, 0);
    batches b = batches_of(&source, NULL, 1, ALIBI_ORDER_EPOCHS, ALIBI_DOCUMENTS_JOINED);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
      unsigned char seen[TOKENS] = {0};
      for (size_t i = 0; i < windows; i++) {
        uint32_t first = read_first(&b, 0, epoch * windows + i);
        orders_differ += first != read_first(&b, 0, i);
        for (size_t t = 0; t < LENGTH; t++)
          if (seen[first + t]++)
            fail_msg("%zu tokens, epoch %d: token %zu comes twice", count, (int)epoch, first + t);
      }
      size_t covered = 0;
      for (size_t t = 0; t < count; t++) covered += seen[t];
      assert_int_equal(covered, windows * LENGTH);
    }
    if (windows > 4) assert_true(orders_differ > windows);
    token_source_close(&source);
  }
}

static void a_sequence_depends_on_its_place_alone(void **unused)
{
  (void)unused;
  token_source source = source_of(0, TOKENS, NULL, 0);
  for (int order = ALIBI_ORDER_EPOCHS; order <= ALIBI_ORDER_RANDOM; order++) {
    batches b = batches_of(&source, NULL, 1, (alibi_order)order, ALIBI_DOCUMENTS_JOINED), again = b, other = b;
    uint32_t forward[300];
    size_t phases_differ = 0, seeds_differ = 0;
    other.seed = 2;
    for (uint64_t i = 0; i < 300; i++) forward[i] = read_first(&b, 0, i);
    for (uint64_t i = 300; i-- > 0;) {
      assert_int_equal(read_first(&again, 0, i), forward[i]);
      phases_differ += read_first(&again, 1, i) != forward[i];
      seeds_differ += read_first(&other, 0, i) != forward[i];
    }
    assert_true(phases_differ > 200 && seeds_differ > 200);
  }
  token_source_close(&source);
}

/* The places of order `random` are those of alibi 0.1's first studies, which can be made again. */
static void random_places_are_the_counted_draws(void **unused)
{
  (void)unused;
  token_source source = source_of(0, TOKENS, NULL, 0);
  batches b = batches_of(&source, NULL, 1, ALIBI_ORDER_RANDOM, ALIBI_DOCUMENTS_JOINED);
  for (uint64_t i = 0; i < 100; i++)
    assert_int_equal(read_first(&b, 0, i), random_below(1, 0x73616d70, i, TOKENS - LENGTH));
  token_source_close(&source);
}

static void sources_come_in_their_shares(void **unused)
{
  (void)unused;
  static const double shares[SOURCES] = {1, 5, 0.25};
  token_source sources[SOURCES] = {source_of(0, 100, NULL, 0), source_of(100, 300, NULL, 0),
                                   source_of(400, 600, NULL, 0)};
  batches b = batches_of(sources, shares, SOURCES, ALIBI_ORDER_EPOCHS, ALIBI_DOCUMENTS_JOINED);
  size_t read[SOURCES] = {0};
  for (uint64_t i = 0; i < 5000; i++) {
    uint32_t first = read_first(&b, 0, i);
    size_t source = first < 100 ? 0 : first < 400 ? 1 : 2;
    read[source]++;
    for (size_t s = 0; s < SOURCES; s++) {
      double due = (double)(i + 1) * shares[s] / 6.25;
      if ((double)read[s] > due + 2 || (double)read[s] < due - 2)
        fail_msg("after %d sequences: source %zu: expected %.2f of them, found %zu", (int)i + 1, s, due, read[s]);
    }
  }
  for (size_t s = 0; s < SOURCES; s++) token_source_close(&sources[s]);
}

static void a_lone_source_has_every_turn(void **unused)
{
  (void)unused;
  token_source sources[2] = {source_of(0, 500, NULL, 0), source_of(0, 500, NULL, 0)};
  batches one = batches_of(sources, NULL, 1, ALIBI_ORDER_EPOCHS, ALIBI_DOCUMENTS_JOINED);
  assert_true(one.shares[0] == 1);
  uint32_t far = read_first(&one, 0, (uint64_t)1 << 40); /* nothing overflows */
  assert_true(far < 500);
  token_source_close(&sources[0]);
  token_source_close(&sources[1]);
}

static void documents_are_kept_apart(void **unused)
{
  (void)unused;
  static const uint64_t starts[] = {0, 3, 4, 20, 40, 41, 42, 43, 60};
  enum { DOCUMENTS = sizeof starts / sizeof starts[0], COUNT = 90 };
  token_source source = source_of(0, COUNT, starts, DOCUMENTS);
  batches b = batches_of(&source, NULL, 1, ALIBI_ORDER_RANDOM, ALIBI_DOCUMENTS_APART);
  for (uint64_t i = 0; i < 500; i++) {
    uint32_t tokens[LENGTH], targets[LENGTH];
    pass_segment segments[LENGTH];
    size_t count = batches_read(&b, 0, LENGTH, i, tokens, targets, segments), row = 0;
    for (size_t s = 0; s < count; s++)
      for (size_t t = 0; t < segments[s].count; t++, row++) {
        bool begins = false, ends = false;
        for (size_t d = 0; d < DOCUMENTS; d++) {
          begins = begins || tokens[row] == starts[d];
          ends = ends || tokens[row] + 1 == starts[d];
        }
        assert_int_equal(segments[s].first, 0);
        if (row > 0 && begins != (t == 0)) fail_msg("token %u: a segment of its own: %d", tokens[row], t == 0);
        assert_int_equal(targets[row], ends ? OP_NO_TARGET : tokens[row] + 1);
      }
    assert_int_equal(row, LENGTH);
  }
  token_source_close(&source);
}

/* Every document that has a sequence and a token after its beginning, once an epoch. */
static void sequences_begin_where_documents_do(void **unused)
{
  (void)unused;
  static const uint64_t starts[] = {0, 3, 11, 20, 40, 70, 80, 81, 82, 85};
  enum { DOCUMENTS = sizeof starts / sizeof starts[0], COUNT = 90, WHOLE = 8 }; /* 81 + 8 < 90; 82 + 8 is not */
  token_source source = source_of(0, COUNT, starts, DOCUMENTS);
  batches b = batches_of(&source, NULL, 1, ALIBI_ORDER_DOCUMENTS, ALIBI_DOCUMENTS_JOINED);
  uint32_t last[WHOLE] = {0};
  size_t changed = 0;
  for (uint64_t epoch = 0; epoch < 20; epoch++) {
    size_t read[COUNT] = {0};
    for (uint64_t i = 0; i < WHOLE; i++) {
      uint32_t first = read_first(&b, 0, epoch * (WHOLE) + i);
      read[first]++;
      changed += epoch > 0 && first != last[i];
      last[i] = first;
    }
    for (size_t d = 0; d < DOCUMENTS; d++) assert_int_equal(read[starts[d]], starts[d] + LENGTH < COUNT);
  }
  assert_true(changed > 50);
  token_source_close(&source);
}

static void sources_that_cannot_serve_are_refused(void **unused)
{
  (void)unused;
  alibi_train_options options;
  batches b;
  alibi_train_options_init(&options);
  token_source source = source_of(0, LENGTH, NULL, 0);
  assert_int_equal(batches_init(&b, &source, NULL, 1, &options, LENGTH, &error), ALIBI_INVALID);
  assert_string_equal(error.message,
                      "test: expected at least 9 tokens (the training length and one more), found 8");
  options.documents = ALIBI_DOCUMENTS_APART;
  assert_int_equal(batches_init(&b, &source, NULL, 1, &options, 4, &error), ALIBI_INVALID);
  assert_non_null(
      strstr(error.message, "expected to know where documents begin, since they are to be kept apart"));
  options.documents = ALIBI_DOCUMENTS_JOINED;
  options.order = ALIBI_ORDER_DOCUMENTS;
  assert_int_equal(batches_init(&b, &source, NULL, 1, &options, 4, &error), ALIBI_INVALID);
  assert_non_null(
      strstr(error.message, "expected to know where documents begin, since sequences are to begin there"));
  options.order = ALIBI_ORDER_EPOCHS;
  static const double wrong[] = {0, -1, 1.0 / 0.0};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(batches_init(&b, &source, &wrong[i], 1, &options, 4, &error), ALIBI_INVALID);
    assert_non_null(strstr(error.message, "expected a share above 0"));
  }
  token_source_close(&source);
}

int main(void)
{
  for (uint32_t i = 0; i < TOKENS; i++) ids[i] = i;
  alibi_error_init(&error);
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_epoch_reads_every_window_once),
                                     cmocka_unit_test(a_sequence_depends_on_its_place_alone),
                                     cmocka_unit_test(random_places_are_the_counted_draws),
                                     cmocka_unit_test(sources_come_in_their_shares),
                                     cmocka_unit_test(a_lone_source_has_every_turn),
                                     cmocka_unit_test(documents_are_kept_apart),
                                     cmocka_unit_test(sequences_begin_where_documents_do),
                                     cmocka_unit_test(sources_that_cannot_serve_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
