/* Rotary frequencies and their extensions against figures computed elsewhere: YaRN's, Llama 3's and the bases of
 * dynamic NTK are published to the digits that stand here, the rest follows from the formulas. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/position_under_test.h"

static position_options extension_options;
static double w[2048];

static void set(field_table table, void *object, const char *name, double value)
{
  const field *f = field_find(table, name);
  assert_non_null(f);
  if (f->kind == FIELD_BOOLEAN)
    assert_int_equal(field_set_text(f, object, name, value != 0 ? "true" : "false", &error), ALIBI_OK);
  else assert_int_equal(field_set_number(f, object, name, value, &error), ALIBI_OK);
}

static void set_text(field_table table, void *object, const char *name, const char *value)
{
  assert_int_equal(field_set_text(field_find(table, name), object, name, value, &error), ALIBI_OK);
}

static void use_rotary(const char *name, size_t head_size, size_t train_length)
{
  use_method(name, (position_shape){1, 1, head_size, head_size, train_length}, train_length);
}

/* factor: of the extensions, all of which have one. */
static void use(size_t head_size, size_t train_length, const char *extension, double factor)
{
  use_rotary("rope", head_size, train_length);
  if (!extension) return;
  request.extension = position_extension_find("rope", extension);
  assert_non_null(request.extension);
  request.extension_options = extension_options.bytes;
  field_init(request.extension->fields, extension_options.bytes);
  set(request.extension->fields, extension_options.bytes, "factor", factor);
}

/* The frequencies: the angles at position 1. */
static double frequencies(void)
{
  double magnitude = 0;
  for (size_t p = 0; p < request.shape.head_size / 2; p++)
    w[p] = method->angle(&request, false, p, 1, &magnitude);
  return magnitude;
}

static void assert_near(double found, double expected, double relative)
{
  if (!(fabs(found - expected) <= relative * fabs(expected)))
    fail_msg("expected %.17g, found %.17g", expected, found);
}

static double plain(size_t p)
{
  return pow(10000, -2.0 * (double)p / 128);
}

static void plain_frequencies(void **unused)
{
  (void)unused;
  use(128, 4096, NULL, 0);
  assert_true(frequencies() == 1);
  assert_true(w[0] == 1);
  assert_near(w[32], 0.01, 1e-15);
  assert_near(w[16], 0.1, 1e-15);
  for (size_t p = 0; p < 64; p++) assert_near(w[p], plain(p), 1e-15);
}

/* A float holds 24 bits: the phase of a position near 2^20 leaves only four of them for the fraction of a turn. */
static void far_phases_keep_their_digits(void **unused)
{
  (void)unused;
  use(8, 64, NULL, 0);
  request.length = (1 << 20) + 1;
  prepare();
  const position_plan *plan = &tables.plan;
  assert_int_equal(plan->rotary, 8);
  /* cos and sin of 1048576 * 10^-p, p = 0 .. 3, by mpmath with 40 digits */
  static const double cosine[] = {0.94380839390131198, -0.78876372188676831, 0.6400156581479349,
                                  0.75447249311818817};
  static const double sine[] = {0.33049314002173467, -0.614696503191073, -0.76836186613175028,
                                -0.65633166701601828};
  for (size_t p = 0; p < 4; p++) {
    assert_true(fabs(plan->cosine[((size_t)1 << 20) * 4 + p] - cosine[p]) <= FLT_EPSILON);
    assert_true(fabs(plan->sine[((size_t)1 << 20) * 4 + p] - sine[p]) <= FLT_EPSILON);
  }
}

static void part_of_a_head_turns(void **unused)
{
  (void)unused;
  use(80, 64, NULL, 0);
  field_table fields = method->fields;
  set(fields, options.bytes, "fraction", 0.4);
  prepare();
  assert_int_equal(tables.plan.rotary, 32); /* the exponent is over the turning channels */
  double magnitude;
  assert_near(method->angle(&request, false, 8, 1, &magnitude), 0.01, 1e-15);
  use(100, 64, NULL, 0);
  set(fields, options.bytes, "fraction", 0.58); /* 0.58 * 100 is 57.99... in double */
  prepare();
  assert_int_equal(tables.plan.rotary, 58);
  use(80, 64, NULL, 0);
  set(fields, options.bytes, "fraction", 0.39);
  refused_with("found 31");
  set(fields, options.bytes, "fraction", 0);
  refused_with("even number");
  use(63, 64, NULL, 0);
  refused_with("found 63 (fraction 1 of a head of 63)");
}

static void linear_divides(void **unused)
{
  (void)unused;
  use(128, 4096, "linear", 0);
  request.length = 3 * 4096;
  assert_true(frequencies() == 1);
  for (size_t p = 0; p < 64; p++) assert_near(w[p], plain(p) / 3, 1e-15);
  use(128, 4096, "linear", 8); /* a configured factor holds at any length */
  frequencies();
  for (size_t p = 0; p < 64; p++) assert_near(w[p], plain(p) / 8, 1e-15);
  use(128, 4096, "linear", 0.5); /* and never quickens */
  frequencies();
  for (size_t p = 0; p < 64; p++) assert_near(w[p], plain(p), 1e-15);
}

/* base 10000 * 4^(128/126) = 40889.9...; the shortest wavelength stays, the longest is stretched by s. */
static void ntk_stretches_the_base(void **unused)
{
  (void)unused;
  use(128, 2048, "ntk", 0);
  request.length = 4 * 2048;
  assert_true(frequencies() == 1);
  double base = 10000 * pow(4, 128.0 / 126);
  for (size_t p = 0; p < 64; p++) assert_near(w[p], pow(base, -(double)p / 64), 1e-14);
  assert_true(w[0] == 1);
  assert_near(w[63], plain(63) / 4, 1e-13);
  use(2, 64, "ntk", 4); /* d - 2 = 0 */
  frequencies();
  assert_true(w[0] == 1);
}

static void yarn_has_the_published_figures(void **unused)
{
  (void)unused;
  use(128, 4096, "yarn", 16);
  assert_near(frequencies(), 0.1 * log(16) + 1, 1e-15);
  assert_near(w[20], .056234133, 1e-8);
  assert_near(w[21], .04694086, 1e-7);
  assert_near(w[30], .0085268438, 1e-8);
  assert_near(w[45], .0001517716, 1e-6);
  assert_near(w[46], 8.334509e-05, 1e-7);
  for (size_t p = 0; p <= 20; p++) assert_true(w[p] == plain(p)); /* low 20, high 46 */
  for (size_t p = 21; p < 46; p++) assert_true(w[p] < plain(p) && w[p] > plain(p) / 16);
  for (size_t p = 46; p < 64; p++) assert_near(w[p], plain(p) / 16, 1e-15);
  use(128, 2048, "yarn", 16); /* low 16, high 41 */
  frequencies();
  assert_true(w[16] == plain(16) && w[17] < plain(17));
  assert_true(w[40] > plain(40) / 16);
  assert_near(w[41], plain(41) / 16, 1e-15);
}

static void yarn_takes_its_options(void **unused)
{
  (void)unused;
  use(128, 4096, "yarn", 16);
  field_table fields = request.extension->fields;
  set(fields, extension_options.bytes, "attention_factor", 1.25);
  assert_true(frequencies() == 1.25);
  set(fields, extension_options.bytes, "factor", 0);
  assert_true(frequencies() == 1.25); /* one that is given holds at every length */
  for (size_t p = 0; p < 64; p++) assert_true(w[p] == plain(p)); /* as trained */
  set(fields, extension_options.bytes, "factor", 16);
  request.length = 8;
  prepare();
  assert_true(tables.plan.cosine[0] == 1.25f && tables.plan.sine[0] == 0);
  set(fields, extension_options.bytes, "truncate", 0);
  frequencies();
  /* dim(32) = 128 ln(4096 / (64 pi)) / (2 ln 10000) = 20.94..., dim(1) = 45.02...: pair 20 kept, 21 begins, 45 not
   * done */
  double low = 64 * log(4096 / (64 * acos(-1))) / log(10000), high = 64 * log(4096 / (2 * acos(-1))) / log(10000);
  double ramp = (30 - low) / (high - low);
  assert_near(w[30], plain(30) * (1 - ramp) + plain(30) / 16 * ramp, 1e-12);
  assert_near(w[46], plain(46) / 16, 1e-15);
  set(fields, extension_options.bytes, "beta_fast", 1);
  set(fields, extension_options.bytes, "beta_slow", 32);
  refused_with("beta_fast");
}

static void yarn_scales_by_mscale(void **unused)
{
  (void)unused;
  use(128, 4096, "yarn", 40);
  field_table fields = request.extension->fields;
  set(fields, extension_options.bytes, "mscale", 0.707);
  assert_near(frequencies(), 0.1 * log(40) + 1, 1e-15); /* one of the two alone is not used */
  set(fields, extension_options.bytes, "mscale_all_dim", 1);
  assert_near(frequencies(), (0.0707 * log(40) + 1) / (0.1 * log(40) + 1), 1e-15);
  set(fields, extension_options.bytes, "mscale_all_dim", 0.707);
  assert_true(frequencies() == 1);
  set(fields, extension_options.bytes, "attention_factor", 1.5);
  assert_true(frequencies() == 1.5);
}

/* A model stretched to 4 times its original length and trained there: the ramp is that of the original. */
static void extensions_take_an_original_length(void **unused)
{
  (void)unused;
  static const char *const names[] = {"yarn", "llama3", "longrope"};
  for (size_t k = 0; k < 3; k++) {
    double expected[64];
    use(128, 2048, names[k], 0);
    request.length = 4 * 2048;
    double magnitude = frequencies();
    memcpy(expected, w, sizeof expected);
    use(128, 8192, names[k], 0);
    set(request.extension->fields, extension_options.bytes, "original_length", 2048);
    assert_true(frequencies() == magnitude);
    assert_memory_equal(expected, w, sizeof expected);
    request.length = 2048;
    assert_true(frequencies() == 1 && w[63] == plain(63));
  }
}

/* Trained so short that no pair completes a turn, or so long that all do many. */
static void yarn_clamps_its_ramp(void **unused)
{
  (void)unused;
  use(16, 4, "yarn", 4);
  frequencies();
  assert_true(w[0] == 1);
  for (size_t p = 1; p < 8; p++) assert_near(w[p], pow(10000, -(double)p / 8) / 4, 1e-15);
  use(16, 1000000000, "yarn", 4);
  frequencies();
  for (size_t p = 0; p < 8; p++) assert_true(w[p] == pow(10000, -2.0 * (double)p / 16));
}

/* The base that the frequencies are powers of. */
static double base_of(size_t length)
{
  request.length = length;
  assert_true(frequencies() == 1);
  size_t half = request.shape.head_size / 2;
  double base = pow(w[half - 1], -(double)half / (double)(half - 1));
  for (size_t p = 0; p < half; p++) assert_near(w[p], pow(base, -(double)p / (double)half), 1e-12);
  return base;
}

static void dynamic_has_the_published_bases(void **unused)
{
  (void)unused;
  use(128, 2048, "dynamic", 2);
  assert_near(base_of(1), 10000, 1e-12);
  assert_near(base_of(2048), 10000, 1e-12);
  assert_near(base_of(2049), 10009.921, 5e-8);
  assert_near(base_of(4096), 30527.737, 5e-8);
  assert_near(base_of(8192), 72195.86, 1e-7);
  use(128, 2048, "dynamic", 1); /* NTK-aware scaling by n / L */
  assert_near(base_of(8192), 10000 * pow(4, 128.0 / 126), 1e-12);
}

/* Llama 3.1 8B. */
static void llama3_has_the_published_figures(void **unused)
{
  (void)unused;
  use(128, 8192, "llama3", 8);
  set(method->fields, options.bytes, "base", 500000);
  assert_true(frequencies() == 1);
  assert_near(w[29], .0021665708, 3e-8);
  assert_near(w[32], .00052484616, 1e-8);
  assert_near(w[34], .00017850781, 3e-8);
  assert_near(w[35], 9.5562124e-05, 1e-8);
  for (size_t p = 0; p < 64; p++) {
    double before = pow(500000, -2.0 * (double)p / 128);
    if (p <= 28) assert_near(w[p], before, 1e-15);
    else if (p <= 34) assert_true(w[p] < before && w[p] > before / 8);
    else assert_near(w[p], before / 8, 1e-15);
  }
  set(request.extension->fields, extension_options.bytes, "low_freq_factor", 4);
  refused_with("low_freq_factor below high_freq_factor, found 4 and 4");
}

static void longrope_has_two_lists(void **unused)
{
  (void)unused;
  static const double longer[] = {1, 1.5, 4, 16};
  use(8, 64, "longrope", 0);
  field_table fields = request.extension->fields;
  set_text(fields, extension_options.bytes, "short_factors", "1/1/1/2");
  set_text(fields, extension_options.bytes, "long_factors", "1/1.5/4/16");
  assert_true(frequencies() == 1);
  for (size_t p = 0; p < 4; p++) assert_near(w[p], pow(10, -(double)p) / (p == 3 ? 2 : 1), 1e-15);
  request.length = 65;
  assert_near(frequencies(), sqrt(1 + log(65.0 / 64) / log(64)), 1e-15);
  for (size_t p = 0; p < 4; p++) assert_near(w[p], pow(10, -(double)p) / longer[p], 1e-15);
  set(fields, extension_options.bytes, "factor", 16);
  assert_near(frequencies(), sqrt(1 + log(16) / log(64)), 1e-15);
  set(fields, extension_options.bytes, "attention_factor", 1.25);
  assert_true(frequencies() == 1.25);
  set_text(fields, extension_options.bytes, "long_factors", "1/7"); /* spread: 1, 3, 5, 7 */
  frequencies();
  for (size_t p = 0; p < 4; p++) assert_near(w[p], pow(10, -(double)p) / (double)(2 * p + 1), 1e-15);
  set_text(fields, extension_options.bytes, "long_factors", "3");
  frequencies();
  for (size_t p = 0; p < 4; p++) assert_near(w[p], pow(10, -(double)p) / 3, 1e-15);
  static const char *const wrong[] = {"1/2/3/4/5", "1/x", "1//2", "1/2/", "/1", "0", "1,2", "nan", "1/1e7"};
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
    set_text(fields, extension_options.bytes, "long_factors", wrong[k]);
    refused_with("long_factors: expected 1 to 4 numbers");
    refused_with(wrong[k]);
  }
}

/* Lists of a real model have some 50 factors. */
static void longrope_has_room_for_long_lists(void **unused)
{
  (void)unused;
  char text[1024] = "";
  use(128, 64, "longrope", 0);
  request.length = 1000;
  for (size_t p = 0; p < 64; p++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.9g", p ? "/" : "", 1 + (double)p / 3);
  set_text(request.extension->fields, extension_options.bytes, "long_factors", text);
  prepare();
  frequencies();
  for (size_t p = 0; p < 64; p++) assert_near(w[p], plain(p) / (1 + (double)p / 3), 1e-8);
  memset(text, '1', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  const field *f = field_find(request.extension->fields, "long_factors");
  assert_int_equal(field_set_text(f, extension_options.bytes, f->name, text, &error), ALIBI_INVALID);
  assert_string_equal(error.message, "long_factors: expected at most 767 bytes, found 1023");
}

static void the_lowest_frequencies_of_p_rope_stand_still(void **unused)
{
  (void)unused;
  use_rotary("p-rope", 16, 64);
  frequencies();
  for (size_t p = 0; p < 8; p++)
    assert_true(p < 6 ? w[p] == pow(10000, -(double)p / 8) : w[p] == 0); /* share 0.75 */
  set(method->fields, options.bytes, "share", 0.3); /* 2.4 pairs */
  frequencies();
  assert_true(w[1] > 0 && w[2] == 0);
  set(method->fields, options.bytes, "share", 1);
  frequencies();
  assert_true(w[7] > 0);
  set(method->fields, options.bytes, "share", 0.5);
  request.extension = position_extension_find("p-rope", "ntk"); /* the new base moves no pair that stands */
  request.extension_options = extension_options.bytes;
  field_init(request.extension->fields, extension_options.bytes);
  request.length = 1000;
  frequencies();
  assert_true(w[3] > 0 && w[3] < pow(10000, -3.0 / 8) && w[4] == 0 && w[7] == 0);
  prepare();
  for (size_t i = 0; i < request.length; i++)
    assert_true(tables.plan.cosine[i * 8 + 4] == 1 && tables.plan.sine[i * 8 + 4] == 0);
}

/* A share in which no pair turns would be a model without positions; 0 says so. */
static void a_share_of_no_frequency_is_refused(void **unused)
{
  (void)unused;
  static const char *const names[] = {"p-rope", "scale-invariant"};
  for (size_t k = 0; k < 2; k++) {
    char sentence[256];
    use_rotary(names[k], 16, 64);
    set_option("share", "0.1");
    snprintf(sentence, sizeof sentence,
             "position method '%s': share: expected 0, or at least 0.125 for one of 8 frequencies, found 0.1, "
             "which makes none", names[k]);
    refused(sentence);
    set_option("share", "0.125");
    prepare();
    assert_true(tables.plan.sine[8] != 0 && tables.plan.sine[9] == 0); /* at position 1 */
    set_option("share", "0");
    prepare();
    for (size_t i = 0; i < 64 * 8; i++) assert_true(tables.plan.cosine[i] == 1 && tables.plan.sine[i] == 0);
    set_option("fraction", "0.125"); /* one pair */
    set_option("share", "0.6");
    snprintf(sentence, sizeof sentence,
             "position method '%s': share: expected 0, or at least 1 for one of 1 frequencies, found 0.6, "
             "which makes none", names[k]);
    refused(sentence);
    use_rotary(names[k], 2, 64); /* a default may make none */
    prepare();
    for (size_t i = 0; i < 64; i++) assert_true(tables.plan.cosine[i] == 1 && tables.plan.sine[i] == 0);
  }
  use_rotary("p-rope", 16, 64);
  set_option("share", "1");
  prepare();
  float cosine[64 * 8];
  memcpy(cosine, tables.plan.cosine, sizeof cosine);
  use_rotary("rope", 16, 64);
  prepare();
  assert_memory_equal(tables.plan.cosine, cosine, sizeof cosine);
}

static void a_window_is_the_trained_length(void **unused)
{
  (void)unused;
  use_rotary("rope-window", 16, 64);
  request.length = 1000;
  prepare();
  assert_int_equal(tables.plan.window, 64);
  set(method->fields, options.bytes, "window", 500);
  prepare();
  assert_int_equal(tables.plan.window, 500);
  assert_false(tables.plan.adjacent);
  set_text(method->fields, options.bytes, "layout", "adjacent");
  prepare();
  assert_true(tables.plan.adjacent);
}

/* zeta_p = (2p + 0.4 d) / (1.4 d); what a score holds of pair p at distance t is zeta_p^(t/512). */
static void xpos_fades_with_the_distance(void **unused)
{
  (void)unused;
  use_rotary("xpos", 16, 64);
  request.length = method->limit(&request.shape, options.bytes);
  assert_int_equal(request.length, 56657);
  prepare();
  const position_plan *plan = &tables.plan;
  static const size_t queries[] = {0, 5, 1000, 28328, 40000, 56656}, distances[] = {0, 1, 100, 512, 3000};
  for (size_t p = 0; p < 8; p++)
    for (size_t a = 0; a < 6; a++)
      for (size_t b = 0; b < 5; b++) {
        size_t i = queries[a], t = distances[b];
        if (t > i) continue;
        const float *qc = &plan->cosine[i * 8 + p], *qs = &plan->sine[i * 8 + p];
        const float *kc = &plan->key_cosine[(i - t) * 8 + p], *ks = &plan->key_sine[(i - t) * 8 + p];
        double zeta = (2 * (double)p + 0.4 * 16) / (1.4 * 16), fade = pow(zeta, (double)t / 512);
        double angle = (double)t * pow(10000, -(double)p / 8);
        assert_true(fabs((double)*qc * *kc + (double)*qs * *ks - fade * cos(angle)) <= 4 * FLT_EPSILON * fade);
        assert_true(fabs((double)*qs * *kc - (double)*qc * *ks - fade * sin(angle)) <= 4 * FLT_EPSILON * fade);
      }
  for (size_t i = 0; i < request.length * 8; i++) /* 2^-100 .. 2^100: normal numbers, with room above for values */
    assert_true(fabsf(plan->cosine[i]) < 0x1.1p100f && fabsf(plan->key_cosine[i]) < 0x1.1p100f);
  request.length++;
  refused_with("position 56657 does not exist: the method has 56657 positions (a length of 56658 was asked for); "
               "a larger scale_base moves the end");
  set(method->fields, options.bytes, "scale_base", 1024);
  prepare();
}

static void the_factor_follows_the_length(void **unused)
{
  (void)unused;
  static const char *const names[] = {"linear", "ntk", "yarn", "llama3", "longrope"};
  for (size_t k = 0; k < 5; k++) {
    double followed[64];
    use(128, 64, names[k], 0);
    request.length = 160;
    double magnitude = frequencies();
    memcpy(followed, w, sizeof followed);
    use(128, 64, names[k], 2.5);
    request.length = 1000;
    assert_true(frequencies() == magnitude);
    assert_memory_equal(followed, w, sizeof followed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_frequencies),
      cmocka_unit_test_teardown(far_phases_keep_their_digits, teardown),
      cmocka_unit_test_teardown(part_of_a_head_turns, teardown),
      cmocka_unit_test(linear_divides),
      cmocka_unit_test(ntk_stretches_the_base),
      cmocka_unit_test(yarn_has_the_published_figures),
      cmocka_unit_test_teardown(yarn_takes_its_options, teardown),
      cmocka_unit_test(yarn_scales_by_mscale),
      cmocka_unit_test(extensions_take_an_original_length),
      cmocka_unit_test(yarn_clamps_its_ramp),
      cmocka_unit_test(dynamic_has_the_published_bases),
      cmocka_unit_test_teardown(llama3_has_the_published_figures, teardown),
      cmocka_unit_test_teardown(longrope_has_two_lists, teardown),
      cmocka_unit_test_teardown(longrope_has_room_for_long_lists, teardown),
      cmocka_unit_test_teardown(the_lowest_frequencies_of_p_rope_stand_still, teardown),
      cmocka_unit_test_teardown(a_share_of_no_frequency_is_refused, teardown),
      cmocka_unit_test_teardown(a_window_is_the_trained_length, teardown),
      cmocka_unit_test_teardown(xpos_fades_with_the_distance, teardown),
      cmocka_unit_test(the_factor_follows_the_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
