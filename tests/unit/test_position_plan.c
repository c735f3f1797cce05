/* What single methods put into a plan, against published figures, and the sentences of a refusal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/attention.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/position_under_test.h"

static void use(const char *name, size_t heads, size_t width, size_t train_length, size_t length)
{
  use_method(name, (position_shape){1, heads, width / heads, width, train_length}, length);
}

static void alibi_has_the_published_slopes(void **unused)
{
  (void)unused;
  static const float twelve[] = {.5f,       .25f,       .125f,      .0625f,     .03125f,   .015625f,
                                 .0078125f, .00390625f, .70710678f, .35355339f, .1767767f, .088388348f};
  use("alibi", 12, 768, 1024, 2048);
  prepare();
  assert_int_equal(tables.plan.bias, BIAS_SLOPE);
  for (size_t h = 0; h < 12; h++) assert_true(fabsf(tables.plan.slopes[h] - twelve[h]) <= 1e-7f * twelve[h]);
  assert_true(tables.plan.embedding_scale == 1 && !tables.plan.embedding && !tables.plan.rotary);
  assert_true(method->bias(&request, 0, 3, 100, 84) == -1); /* 1/16 * 16 */
}

static void alibi_follows_its_options(void **unused)
{
  (void)unused;
  double slopes[12];
  use("alibi", 12, 768, 1024, 1);
  set_option("slope_rule", "geometric");
  set_option("max_bias", "4");
  prepare();
  assert_int_equal(alibi_slopes(12, 4, ALIBI_SLOPES_GEOMETRIC, slopes, &error), ALIBI_OK);
  for (size_t h = 0; h < 12; h++) assert_true(tables.plan.slopes[h] == (float)slopes[h]);
  assert_true(tables.plan.slopes[11] == 1.0f / 16);
  use("alibi", 65537, 65537, 64, 64);
  refused("position method 'alibi': expected at most 65536 heads, found 65537");
}

/* Channels 2p: sin, 2p + 1: cos of pos / 10000^(2p/C); by mpmath with 40 digits. */
static void sinusoids_are_the_formula(void **unused)
{
  (void)unused;
  static const struct {
    size_t width, position, channel;
    double value;
  } known[] = {
      {512, 5, 0, -0.95892427466313847},   {512, 5, 1, 0.28366218546322626},
      {512, 100, 10, 0.95992849411898141}, {512, 1000, 511, 0.99463177072680231},
      {128, 63, 127, 0.99997353638390004},
  };
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    use("sinusoidal", 8, known[k].width, 64, 1001);
    prepare();
    float found = tables.plan.embedding[known[k].position * known[k].width + known[k].channel];
    assert_true(fabs(found - known[k].value) <= 0x1p-24);
    assert_true(fabs(tables.plan.embedding_scale - sqrt((double)known[k].width)) < 1e-6);
  }
  use("sinusoidal", 1, 5, 64, 3); /* an odd width ends with a sine */
  prepare();
  assert_true(fabs(tables.plan.embedding[2 * 5 + 4] - sin(2 * pow(10000, -4.0 / 5))) < 1e-7);
  assert_true(tables.plan.embedding[0] == 0 && tables.plan.embedding[1] == 1);
}

static void learned_ends_where_training_ended(void **unused)
{
  (void)unused;
  static float table[64 * 8];
  for (size_t i = 0; i < 64 * 8; i++) table[i] = (float)i;
  use("learned", 2, 8, 64, 64);
  request.parameters[0] = table;
  prepare();
  assert_memory_equal(tables.plan.embedding, table, sizeof table);
  request.length = 128;
  refused("position method 'learned': position 64 does not exist: the model was trained with 64 positions "
          "(a length of 128 was asked for); extensions give later positions a row: clamp, wrap (--beyond)");
}

static void fill_follows_the_parameters(void **unused)
{
  (void)unused;
  static float table[32 * 2];
  use("t5", 2, 8, 64, 40);
  request.parameters[0] = table;
  prepare();
  for (size_t i = 0; i < 80; i++) assert_true(tables.plan.table[i] == 0);
  table[2 * 3 + 1] = 7; /* bucket 3 of head 1 */
  method->fill(&request, &tables.plan);
  for (size_t i = 0; i < 80; i++) assert_true(tables.plan.table[i] == (i == 80 - 1 - 3 ? 7 : 0));
}

static void nothing_is_nothing(void **unused)
{
  (void)unused;
  use("none", 2, 8, 64, 100000);
  prepare();
  assert_int_equal(tables.plan.bias, BIAS_NONE);
  assert_true(!tables.plan.embedding && !tables.plan.rotary && tables.plan.embedding_scale == 1);
  assert_true(tables.plan.length == 100000);
}

static void requests_without_a_model_are_refused(void **unused)
{
  (void)unused;
  use("alibi", 2, 8, 64, 64);
  request.shape.heads = 0;
  refused("position method 'alibi': expected heads, head size, width and trained length above 0, found 0, 4, 8 "
          "and 64");
  use("alibi", 2, 8, 64, 64);
  request.options = NULL;
  refused("position method 'alibi': expected its options, found none");
  use("none", 2, 8, 64, 0);
  refused("position method 'none': expected a length above 0, found 0");
  use("t5", 2, 8, 64, 64);
  refused("position method 't5': expected values of the parameter 'position.table', found none");
  position_release(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(alibi_has_the_published_slopes, teardown),
      cmocka_unit_test_teardown(alibi_follows_its_options, teardown),
      cmocka_unit_test_teardown(sinusoids_are_the_formula, teardown),
      cmocka_unit_test_teardown(learned_ends_where_training_ended, teardown),
      cmocka_unit_test_teardown(fill_follows_the_parameters, teardown),
      cmocka_unit_test_teardown(nothing_is_nothing, teardown),
      cmocka_unit_test_teardown(requests_without_a_model_are_refused, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
