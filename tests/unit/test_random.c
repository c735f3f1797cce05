/* Philox4x32-10 against the known answers of Random123 1.14 (tests/kat_vectors, the lines "philox4x32 10"), and
 * the distributions against what their definitions say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "base/random.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

static void philox_gives_the_known_answers(void **unused)
{
  (void)unused;
  static const struct {
    uint32_t counter[4], key[2], answer[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int i = 0; i < 3; i++) {
    const uint32_t *c = rows[i].counter, *k = rows[i].key;
    random_block b =
        random_philox((uint64_t)k[1] << 32 | k[0], (uint64_t)c[1] << 32 | c[0], (uint64_t)c[3] << 32 | c[2]);
    for (int w = 0; w < 4; w++) assert_int_equal(b.word[w], rows[i].answer[w]);
  }
}

static void bits_come_from_the_block(void **unused)
{
  (void)unused;
  random_block b = random_philox(5, 7, 6);
  assert_true(random_bits(5, 6, 7) == ((uint64_t)b.word[1] << 32 | b.word[0]));
  assert_true(random_bits(0, 0, 0) == UINT64_C(0xe169c58d6627e8d5));
  /* Seed, stream and index each matter, and are not interchangeable. */
  assert_true(random_bits(1, 2, 3) != random_bits(2, 2, 3));
  assert_true(random_bits(1, 2, 3) != random_bits(1, 3, 3));
  assert_true(random_bits(1, 2, 3) != random_bits(1, 2, 4));
  assert_true(random_bits(1, 2, 3) != random_bits(1, 3, 2));
}

enum { DRAWS = 200000 };

static void uniform_is_uniform(void **unused)
{
  (void)unused;
  double sum = 0, squares = 0;
  int bin[16] = {0};
  for (uint64_t i = 0; i < DRAWS; i++) {
    double u = random_uniform(1, 0, i);
    assert_true(u >= 0 && u < 1);
    sum += u;
    squares += u * u;
    bin[(int)(u * 16)]++;
  }
  /* Six standard deviations of the mean of u, of u^2, and of a bin's count. */
  assert_true(fabs(sum / DRAWS - 0.5) < 6 * sqrt(1. / 12 / DRAWS));
  assert_true(fabs(squares / DRAWS - 1. / 3) < 6 * sqrt(4. / 45 / DRAWS));
  for (int b = 0; b < 16; b++) assert_true(fabs(bin[b] - DRAWS / 16.) < 6 * sqrt(DRAWS / 16. * 15 / 16));
}

static void below_covers_its_range_evenly(void **unused)
{
  (void)unused;
  static const uint64_t bounds[] = {1, 2, 3, 7, 10};
  for (int k = 0; k < 5; k++) {
    uint64_t bound = bounds[k];
    int count[10] = {0};
    for (uint64_t i = 0; i < DRAWS / 4; i++) {
      uint64_t value = random_below(3, bound, i, bound);
      assert_true(value < bound);
      count[value]++;
    }
    double expected = DRAWS / 4. / (double)bound;
    for (uint64_t v = 0; v < bound; v++) assert_true(fabs(count[v] - expected) <= 6 * sqrt(expected));
  }
  for (uint64_t i = 0; i < 1000; i++) assert_true(random_below(3, 0, i, UINT64_MAX) < UINT64_MAX);
}

static void normal_has_its_moments(void **unused)
{
  (void)unused;
  double sum = 0, squares = 0, fourth = 0, product = 0, last = 0;
  int beyond = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    double z = random_normal(9, 1, i);
    assert_true(isfinite(z));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    product += z * last;
    beyond += fabs(z) > 1.959963984540054; /* 5 % */
    last = z;
  }
  assert_true(fabs(sum / DRAWS) < 6 / sqrt(DRAWS));
  assert_true(fabs(squares / DRAWS - 1) < 6 * sqrt(2. / DRAWS));
  assert_true(fabs(fourth / DRAWS - 3) < 6 * sqrt(96. / DRAWS));
  assert_true(fabs(product / DRAWS) < 6 / sqrt(DRAWS));
  assert_true(fabs(beyond - 0.05 * DRAWS) < 6 * sqrt(0.05 * 0.95 * DRAWS));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_gives_the_known_answers),
      cmocka_unit_test(bits_come_from_the_block),
      cmocka_unit_test(uniform_is_uniform),
      cmocka_unit_test(below_covers_its_range_evenly),
      cmocka_unit_test(normal_has_its_moments),
  };
  return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
