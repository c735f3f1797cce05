/* Sizes that do not fit become requests that no allocation grants; arenas hand out what they counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

static alibi_error error;

static void sizes_saturate(void **unused)
{
  (void)unused;
  assert_true(size_mul(6, 7) == 42);
  assert_true(size_mul(0, SIZE_MAX) == 0);
  assert_true(size_mul(SIZE_MAX / 2 + 1, 2) == SIZE_MAX);
  assert_true(size_mul((size_t)1 << 32, (size_t)1 << 32) == SIZE_MAX);
  assert_true(size_mul(SIZE_MAX, 1) == SIZE_MAX);
  assert_true(size_add(40, 2) == 42);
  assert_true(size_add(SIZE_MAX - 1, 1) == SIZE_MAX);
  assert_true(size_add(SIZE_MAX, SIZE_MAX) == SIZE_MAX);
  assert_true(size_round_up(0, 64) == 0);
  assert_true(size_round_up(1, 64) == 64);
  assert_true(size_round_up(64, 64) == 64);
  assert_true(size_round_up(65, 64) == 128);
  assert_true(size_round_up(10, 3) == 12);
  assert_true(size_round_up(SIZE_MAX - 3, 64) == SIZE_MAX);
  assert_true(size_round_up(SIZE_MAX, 64) == SIZE_MAX);
}

static void memory_is_aligned_and_zero(void **unused)
{
  (void)unused;
  for (size_t count = 0; count < 200; count++) {
    unsigned char *block;
    assert_int_equal(memory_new(&block, count, 3, "a block", &error), ALIBI_OK);
    assert_non_null(block);
    assert_true((uintptr_t)block % MEMORY_ALIGNMENT == 0);
    for (size_t i = 0; i < 3 * count; i++) assert_int_equal(block[i], 0);
    memset(block, 0xFF, 3 * count);
    memory_free(block);
  }
  memory_free(NULL);
}

static void absurd_sizes_are_a_sentence(void **unused)
{
  (void)unused;
  static const size_t rows[][2] = {{SIZE_MAX, 1}, {SIZE_MAX / 2, 4}, {SIZE_MAX - 63, 1}, {(size_t)1 << 63, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    void *block = &error;
    assert_int_equal(memory_new(&block, rows[i][0], rows[i][1], "the moon", &error), ALIBI_FAILED);
    assert_null(block);
    assert_non_null(strstr(error.message, "the moon"));
    assert_int_equal(memory_new(&block, rows[i][0], rows[i][1], "the moon", NULL), ALIBI_FAILED);
  }
}

static void growing_keeps_the_content(void **unused)
{
  (void)unused;
  int *list = NULL, *before;
  size_t capacity = 0, grown = 0;
  for (int i = 0; i < 10000; i++) {
    size_t had = capacity;
    assert_int_equal(memory_grow(&list, &capacity, (size_t)i + 1, sizeof *list, "a list", &error), ALIBI_OK);
    assert_true(capacity > (size_t)i);
    grown += capacity != had;
    list[i] = i;
  }
  assert_true(grown < 20); /* by doubling, not by ones */
  for (int i = 0; i < 10000; i++) assert_int_equal(list[i], i);
  before = list;
  size_t had = capacity;
  assert_int_equal(memory_grow(&list, &capacity, SIZE_MAX / 2, sizeof *list, "a list", &error), ALIBI_FAILED);
  assert_non_null(strstr(error.message, "a list"));
  assert_ptr_equal(list, before);
  assert_true(capacity == had);
  assert_int_equal(list[9999], 9999);
  free(list);
}

static void lay_out(arena *a, float **floats, char **bytes, double **doubles)
{
  *floats = arena_floats(a, 5);
  *bytes = arena_take(a, 65, 1);
  *doubles = arena_take(a, 3, sizeof(double));
}

static void arena_counts_then_hands_out(void **unused)
{
  (void)unused;
  arena a = {0};
  float *floats;
  char *bytes;
  double *doubles;
  lay_out(&a, &floats, &bytes, &doubles);
  assert_null(floats);
  assert_null(doubles);
  assert_int_equal(a.used, 64 + 128 + 64);
  assert_int_equal(arena_allocate(&a, "an arena", &error), ALIBI_OK);
  lay_out(&a, &floats, &bytes, &doubles);
  assert_int_equal(a.used, a.size);
  assert_true((uintptr_t)floats % MEMORY_ALIGNMENT == 0);
  assert_ptr_equal(bytes, (char *)floats + 64);
  assert_ptr_equal(doubles, bytes + 128);
  memset(bytes, 1, 65);
  assert_true(floats[4] == 0 && doubles[0] == 0 && doubles[2] == 0);
  arena_free(&a);
  assert_null(a.base);
  arena_free(&a);
}

static void arena_of_an_absurd_size_fails(void **unused)
{
  (void)unused;
  arena a = {0};
  arena_take(&a, SIZE_MAX / 2, 8);
  arena_floats(&a, 5);
  assert_true(a.used == SIZE_MAX);
  assert_int_equal(arena_allocate(&a, "an arena", &error), ALIBI_FAILED);
  assert_null(a.base);
  arena_free(&a);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_saturate),
      cmocka_unit_test(memory_is_aligned_and_zero),
      cmocka_unit_test(absurd_sizes_are_a_sentence),
      cmocka_unit_test(growing_keeps_the_content),
      cmocka_unit_test(arena_counts_then_hands_out),
      cmocka_unit_test(arena_of_an_absurd_size_fails),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
