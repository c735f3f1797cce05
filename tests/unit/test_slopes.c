/* The slopes against figures computed elsewhere: the published ones for 8, 12 and 16 heads, and sums over the
 * heads from the definition in arbitrary precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alibi/attention.h"

static double slopes[ALIBI_MAX_HEADS];

static void compute(int heads, double max_bias, alibi_slope_rule rule)
{
  alibi_error error;
  alibi_error_init(&error);
  assert_int_equal(alibi_slopes(heads, max_bias, rule, slopes, &error), ALIBI_OK);
}

static void assert_near(double found, double expected, double relative)
{
  if (!(fabs(found - expected) <= relative * fabs(expected)))
    fail_msg("expected %.17g, found %.17g", expected, found);
}

static double sum(int heads)
{
  double total = 0;
  for (int h = 0; h < heads; h++) total += slopes[h];
  return total;
}

static void powers_of_two_are_exact(void **unused)
{
  (void)unused;
  compute(8, 8, ALIBI_SLOPES_INTERLEAVED);
  for (int h = 0; h < 8; h++) assert_true(slopes[h] == ldexp(1, -(h + 1)));
  compute(1, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_true(slopes[0] == 0x1p-8);
  compute(32, 32, ALIBI_SLOPES_INTERLEAVED); /* a logarithm in float takes 32 for less than 2^5 */
  for (int h = 0; h < 32; h++) assert_true(slopes[h] == ldexp(1, -(h + 1)));
  compute(128, 128 / 2, ALIBI_SLOPES_INTERLEAVED);
  for (int h = 1; h < 128; h += 2) assert_true(slopes[h] == ldexp(1, -(h + 1) / 2));
  compute(16, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_near(slopes[0], 0.70710678118654752, 1e-15);
  assert_true(slopes[15] == 0x1p-8);
}

static void other_numbers_interleave(void **unused)
{
  (void)unused;
  static const double six[] = {.25, .0625, .015625, .00390625, .5, .125};
  static const double twelve[] = {.5,      .25,       .125,       .0625,      .03125,    .015625,
                                  .0078125, .00390625, .70710678, .35355339, .1767767, .088388348};
  compute(6, 8, ALIBI_SLOPES_INTERLEAVED);
  for (int h = 0; h < 6; h++) assert_true(slopes[h] == six[h]);
  compute(12, 8, ALIBI_SLOPES_INTERLEAVED);
  for (int h = 0; h < 12; h++) assert_near(slopes[h], twelve[h], 3e-8);
  assert_near(sum(12), 2.321919, 5e-7);
  compute(20, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_near(sum(20), 4.558033, 5e-7);
  compute(40, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_near(sum(40), 9.5872428, 1e-8);
  compute(112, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_near(sum(112), 22.363291, 5e-8);
}

static void geometric_is_one_sequence(void **unused)
{
  (void)unused;
  compute(12, 8, ALIBI_SLOPES_GEOMETRIC);
  assert_near(sum(12), 1.6957643, 5e-8);
  for (int h = 1; h < 12; h++) assert_near(slopes[h] / slopes[h - 1], exp2(-8.0 / 12), 1e-14);
}

static void rules_agree_on_powers_of_two(void **unused)
{
  (void)unused;
  double kept[256];
  for (int heads = 1; heads <= 256; heads *= 2) {
    compute(heads, 5.5, ALIBI_SLOPES_GEOMETRIC);
    memcpy(kept, slopes, sizeof kept);
    compute(heads, 5.5, ALIBI_SLOPES_INTERLEAVED);
    assert_memory_equal(kept, slopes, (size_t)heads * sizeof *kept);
  }
}

/* The authors' definition, which never takes a power: the slopes of a power of two of heads are a geometric
 * sequence that ends at 2^-8, made by square roots of it; between them lie every second one of twice as many. */
static double defined(int head, int heads)
{
  int power = 1;
  while (power * 2 <= heads) power *= 2;
  if (head >= power) return defined(2 * (head - power), 2 * power);
  double ratio = 0x1p-8, slope = 1;
  for (int n = power; n > 1; n /= 2) ratio = sqrt(ratio);
  for (int h = 0; h <= head; h++) slope *= ratio;
  return slope;
}

static void both_rules_for_1_to_128_heads(void **unused)
{
  (void)unused;
  for (int heads = 1; heads <= 128; heads++) {
    compute(heads, 8, ALIBI_SLOPES_INTERLEAVED);
    for (int h = 0; h < heads; h++) assert_near(slopes[h], defined(h, heads), 1e-13);
    compute(heads, 8, ALIBI_SLOPES_GEOMETRIC);
    for (int h = 0; h < heads; h++) assert_near(pow(slopes[h], heads), pow(0x1p-8, h + 1), 1e-10);
  }
}

static void any_number_gives_distinct_slopes_in_range(void **unused)
{
  (void)unused;
  for (int heads = 1; heads <= 130; heads++) {
    compute(heads, 8, ALIBI_SLOPES_INTERLEAVED);
    for (int h = 0; h < heads; h++) {
      assert_true(slopes[h] >= 0x1p-8 && slopes[h] < 1);
      for (int other = 0; other < h; other++) assert_true(slopes[h] != slopes[other]);
    }
  }
  compute(ALIBI_MAX_HEADS, 8, ALIBI_SLOPES_INTERLEAVED);
  assert_true(slopes[ALIBI_MAX_HEADS - 1] == 0x1p-8);
}

static void wrong_arguments_are_sentences(void **unused)
{
  (void)unused;
  static const struct {
    int heads;
    double max_bias;
    int rule;
    const char *says;
  } wrong[] = {
      {0, 8, 0, "heads"},  {-1, 8, 0, "heads"}, {ALIBI_MAX_HEADS + 1, 8, 0, "heads"}, {8, 0, 0, "bias"},
      {8, -1, 0, "bias"},  {8, NAN, 0, "bias"}, {8, INFINITY, 0, "bias"},             {8, 101, 0, "bias"},
      {8, 8, 2, "rule"},   {8, 8, -1, "rule"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    alibi_error error;
    alibi_error_init(&error);
    assert_int_equal(alibi_slopes(wrong[i].heads, wrong[i].max_bias, (alibi_slope_rule)wrong[i].rule, slopes,
                                  &error),
                     ALIBI_INVALID);
    assert_int_equal(error.status, ALIBI_INVALID);
    assert_non_null(strstr(error.message, wrong[i].says));
  }
  assert_int_equal(alibi_slopes(8, 8, ALIBI_SLOPES_INTERLEAVED, NULL, NULL), ALIBI_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(powers_of_two_are_exact),
      cmocka_unit_test(other_numbers_interleave),
      cmocka_unit_test(geometric_is_one_sequence),
      cmocka_unit_test(rules_agree_on_powers_of_two),
      cmocka_unit_test(both_rules_for_1_to_128_heads),
      cmocka_unit_test(any_number_gives_distinct_slopes_in_range),
      cmocka_unit_test(wrong_arguments_are_sentences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
