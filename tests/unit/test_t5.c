/* T5's buckets against the formula of the transformers library (float32, torch 2), and the rule for short models.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

enum { LENGTH = 300, BUCKETS_MAX = 64 };

static union {
  max_align_t align;
  char bytes[ALIBI_POSITION_OPTIONS_SIZE];
} options;
static position_request request;
static alibi_error error;
static size_t buckets[LENGTH]; /* of distances */
static float values[BUCKETS_MAX * 2];

static void set(const char *name, double value)
{
  const field *f = field_find(position_method_find("t5")->fields, name);
  assert_non_null(f);
  assert_int_equal(field_set_number(f, options.bytes, name, value, &error), ALIBI_OK);
}

/* A table whose values are the numbers of its buckets, minus those for the second head, shows the buckets. */
static void find_buckets(size_t train_length, int count, int max_distance)
{
  position_tables tables;
  const position_method *t5 = position_method_find("t5");
  alibi_error_init(&error);
  field_init(t5->fields, options.bytes);
  set("buckets", count);
  set("max_distance", max_distance);
  for (int b = 0; b < BUCKETS_MAX; b++) values[2 * b] = (float)b, values[2 * b + 1] = (float)-b;
  request = (position_request){
      .shape = {1, 2, 16, 32, train_length}, .options = options.bytes, .parameters = {values}, .length = LENGTH};
  if (position_prepare(t5, &request, &tables, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(tables.plan.bias, BIAS_DISTANCE);
  for (size_t t = 0; t < LENGTH; t++) {
    float value = tables.plan.table[LENGTH - 1 - t];
    assert_true(value >= 0 && value == -tables.plan.table[2 * LENGTH - 1 - t]);
    buckets[t] = (size_t)value;
  }
  position_release(&tables);
}

/* starts[k]: the first distance of bucket first + k; the last bucket has no end. */
static void assert_starts(size_t first, const size_t *starts, size_t count)
{
  for (size_t t = 0; t < LENGTH; t++) {
    size_t expected = t < first ? t : first;
    for (size_t k = 0; k < count && starts[k] <= t; k++) expected = first + k;
    if (buckets[t] != expected) fail_msg("distance %zu: expected bucket %zu, found %zu", t, expected, buckets[t]);
  }
}

/* From torch: e + (log(t.float() / e) / math.log(m / e) * (n - e)).long(), at most n - 1; n buckets, e = n // 2.
 */
static void buckets_are_the_published_ones(void **unused)
{
  (void)unused;
  static const size_t at_128[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  static const size_t at_64[] = {16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39, 42, 46, 50, 54, 59};
  static const size_t at_256[] = {16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216};
  static const size_t eight_at_20[] = {4, 6, 9, 14};
  find_buckets(4096, 32, 128);
  assert_starts(16, at_128, 16);
  find_buckets(4096, 32, 64);
  assert_starts(16, at_64, 16);
  find_buckets(64, 32, 256);
  assert_starts(16, at_256, 16);
  find_buckets(4096, 8, 20);
  assert_starts(4, eight_at_20, 4);
}

static void the_maximum_follows_the_trained_length(void **unused)
{
  (void)unused;
  size_t kept[LENGTH];
  static const size_t lengths[] = {64, 128, 129, 4096}, maxima[] = {64, 128, 128, 128};
  for (size_t k = 0; k < 4; k++) {
    find_buckets(lengths[k], 32, (int)maxima[k]);
    memcpy(kept, buckets, sizeof kept);
    find_buckets(lengths[k], 32, 0);
    assert_memory_equal(kept, buckets, sizeof kept);
  }
}

/* A deviation from the published buckets, and a wanted one: at a short L a far key has the bucket of distance L -
 * 1, and not the last of all, which such a training never met.  A maximum that is given is taken as published. */
static void far_keys_of_a_short_training_are_not_in_the_last_bucket(void **unused)
{
  (void)unused;
  static const size_t distances[] = {16, 17, 18, 19, 20, 21, 22, 23, 24};
  find_buckets(24, 32, 24); /* 16 + floor(16 ln(t/16) / ln(24/16)) */
  static const size_t expected[] = {16, 18, 20, 22, 24, 26, 28, 30, 31};
  for (size_t k = 0; k < 9; k++) assert_int_equal(buckets[distances[k]], expected[k]);
  assert_int_equal(buckets[LENGTH - 1], 31);
  find_buckets(24, 32, 0);
  for (size_t k = 0; k < 8; k++) assert_int_equal(buckets[distances[k]], expected[k]);
  for (size_t t = 24; t < LENGTH; t++) assert_int_equal(buckets[t], 30);
}

/* No distance, however far, falls into a bucket that training at this length never met. */
static void every_bucket_used_was_trained(void **unused)
{
  (void)unused;
  for (size_t train = 1; train < LENGTH; train++) {
    find_buckets(train, 32, 0);
    size_t last = buckets[train - 1];
    for (size_t t = 1; t < LENGTH; t++) assert_true(buckets[t] >= buckets[t - 1] && buckets[t] <= last);
    if (train <= 16) assert_int_equal(last, train - 1);
    if (train >= 64) assert_int_equal(last, 31);
  }
}

static void distances_without_room_for_their_buckets_are_refused(void **unused)
{
  (void)unused;
  position_tables tables;
  find_buckets(64, 32, 17);
  set("max_distance", 16);
  assert_int_equal(position_prepare(position_method_find("t5"), &request, &tables, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "max_distance above half of the 32 buckets, found 16"));
}

/* Gradients of many distances fall into one bucket: summed in double, a large one does not swallow the small. */
static void far_gradients_are_not_lost(void **unused)
{
  (void)unused;
  enum { LONG = 1 << 16 };
  const position_method *t5 = position_method_find("t5");
  find_buckets(128, 32, 0);
  request.length = LONG;
  float *table = malloc(2 * LONG * sizeof(float)), grads[64] = {0};
  assert_non_null(table);
  for (size_t t = 0; t < LONG; t++) {
    table[LONG - 1 - t] = t == 113 ? 16777216.0f : 1.0f; /* 113: the first of the last bucket */
    table[2 * LONG - 1 - t] = 2;
  }
  t5->backward(&request, NULL, &(position_plan_grad){.table = table}, (float *const[]){grads});
  assert_true(grads[2 * 31] == 16777216.0f + (LONG - 114));
  assert_true(grads[2 * 31 + 1] == 2.0f * (LONG - 113));
  assert_true(grads[2 * 16] == 3 && grads[2 * 16 + 1] == 6 && grads[0] == 1); /* 16, 17, 18; 0 */
  free(table);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buckets_are_the_published_ones),
      cmocka_unit_test(the_maximum_follows_the_trained_length),
      cmocka_unit_test(far_keys_of_a_short_training_are_not_in_the_last_bucket),
      cmocka_unit_test(every_bucket_used_was_trained),
      cmocka_unit_test(distances_without_room_for_their_buckets_are_refused),
      cmocka_unit_test(far_gradients_are_not_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
