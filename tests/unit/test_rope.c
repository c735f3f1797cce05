/* Rotary frequencies and their extensions against figures computed elsewhere: YaRN's are those of the transformers
 * library (d=128, base 10000), the rest follows from the published formulas. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

typedef union options {
  max_align_t align;
  char bytes[POSITION_OPTIONS_SIZE];
} options;

static options method_options, extension_options;
static position_request request;
static position_tables tables;
static alibi_error error;
static double w[2048];

static void set(field_table table, void *object, const char *name, double value)
{
  const field *f = field_find(table, name);
  assert_non_null(f);
  if (f->kind == FIELD_BOOLEAN)
    assert_int_equal(field_set_text(f, object, name, value != 0 ? "true" : "false", &error), ALIBI_OK);
  else assert_int_equal(field_set_number(f, object, name, value, &error), ALIBI_OK);
}

static void use(size_t head_size, size_t train_length, const char *extension, double factor)
{
  alibi_error_init(&error);
  field_init(position_method_find("rope")->fields, method_options.bytes);
  request = (position_request){.shape = {1, 1, head_size, head_size, train_length},
                               .options = method_options.bytes,
                               .length = train_length};
  if (!extension) return;
  request.extension = position_extension_find("rope", extension);
  assert_non_null(request.extension);
  request.extension_options = extension_options.bytes;
  field_init(request.extension->fields, extension_options.bytes);
  set(request.extension->fields, extension_options.bytes, "factor", factor);
}

static void prepare(void)
{
  position_release(&tables);
  if (position_prepare(position_method_find("rope"), &request, &tables, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
}

static void refused(const char *says)
{
  position_release(&tables);
  assert_int_equal(position_prepare(position_method_find("rope"), &request, &tables, &error), ALIBI_INVALID);
  if (!strstr(error.message, says)) fail_msg("'%s' does not say '%s'", error.message, says);
}

/* The frequencies: the angles at position 1. */
static double frequencies(void)
{
  double magnitude = 0;
  for (size_t p = 0; p < request.shape.head_size / 2; p++)
    w[p] = position_method_find("rope")->angle(&request, false, p, 1, &magnitude);
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
  field_table fields = position_method_find("rope")->fields;
  set(fields, method_options.bytes, "fraction", 0.4);
  prepare();
  assert_int_equal(tables.plan.rotary, 32); /* the exponent is over the turning channels */
  double magnitude;
  assert_near(position_method_find("rope")->angle(&request, false, 8, 1, &magnitude), 0.01, 1e-15);
  use(100, 64, NULL, 0);
  set(fields, method_options.bytes, "fraction", 0.58); /* 0.58 * 100 is 57.99... in double */
  prepare();
  assert_int_equal(tables.plan.rotary, 58);
  use(80, 64, NULL, 0);
  set(fields, method_options.bytes, "fraction", 0.39);
  refused("found 31");
  set(fields, method_options.bytes, "fraction", 0);
  refused("even number");
  use(63, 64, NULL, 0);
  refused("found 63 (fraction 1 of a head of 63)");
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
  assert_true(frequencies() == 1); /* as trained */
  for (size_t p = 0; p < 64; p++) assert_true(w[p] == plain(p));
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
  refused("beta_fast");
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

static void the_factor_follows_the_length(void **unused)
{
  (void)unused;
  static const char *const names[] = {"linear", "ntk", "yarn"};
  for (size_t k = 0; k < 3; k++) {
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

static int teardown(void **unused)
{
  (void)unused;
  position_release(&tables);
  return 0;
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
      cmocka_unit_test(yarn_clamps_its_ramp),
      cmocka_unit_test(the_factor_follows_the_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
