/* Biases over distances against figures from the definitions in 40 digits (mpmath), the settings that choose them,
 * and the sentences of a refusal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/attention.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/position_under_test.h"

enum { LAYERS = 2, LENGTH = 5001, MOST_HEADS = 128 };

static float parameters[2][LAYERS * MOST_HEADS];

static void use(const char *name, size_t heads)
{
  use_method(name, (position_shape){LAYERS, heads, 16, heads * 16, 64}, LENGTH);
  for (size_t i = 0; i < 2; i++) request.parameters[i] = parameters[i];
}

/* Parameter `which` of all heads and layers. */
static void fill_parameter(int which, double value)
{
  for (size_t i = 0; i < LAYERS * MOST_HEADS; i++) parameters[which][i] = (float)value;
}

static void near(const char *what, double found, double expected)
{
  if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
    fail_msg("%s: %s: expected %.9g, found %.9g", method->name, what, expected, found);
}

typedef struct figure {
  size_t distance;
  double bias;
} figure;

/* Of one head, in the last set, by the table and by the formula. */
static void check_figures(size_t head, const figure *figures, size_t count)
{
  prepare();
  const position_plan *plan = &tables.plan;
  size_t row = (plan->sets - 1) * request.shape.heads + head;
  assert_int_equal(plan->bias, BIAS_DISTANCE);
  for (size_t k = 0; k < count; k++) {
    size_t t = figures[k].distance;
    near("table", plan->table[(row + 1) * plan->length - 1 - t], figures[k].bias);
    near("formula", method->bias(&request, LAYERS - 1, head, LENGTH - 1, LENGTH - 1 - t), figures[k].bias);
  }
}

static void kerple_has_its_figures(void **unused)
{
  (void)unused;
  static const figure logarithmic[] = {{0, 0},
                                       {1, -0.50683138513520548},
                                       {7, -1.8800967459703426},
                                       {100, -4.9147820409054072},
                                       {5000, -9.7805574135970238}}; /* p = 1.25, a = 0.5 */
  static const figure power[] = {{0, 0},
                                 {1, -0.75},
                                 {7, -2.5307400521754563},
                                 {100, -13.337095575291921},
                                 {5000, -153.78625321858492}}; /* a = 0.75, p = 0.625 */
  use("kerple-log", 4);
  fill_parameter(0, 0.89837661384444097); /* ln(e^(p - 0.01) - 1) */
  fill_parameter(1, -0.45836566193695452);
  check_figures(2, logarithmic, 5);
  use("kerple-power", 4);
  fill_parameter(0, 0.091608349654673044);
  fill_parameter(1, -0.8045867422941538); /* of the share (p - 0.01) / 1.99: ln(share / (1 - share)) */
  check_figures(3, power, 5);
}

static void bam_has_its_figures(void **unused)
{
  (void)unused;
  static const figure figures[] = {{0, -1.2547530994780285e-7},
                                   {1, -0.22313294927891808},
                                   {7, -2.5405725576665839},
                                   {100, -70.559960894711364},
                                   {5000, -9381.4676136437629}}; /* a = -1.5, b = 1.25 */
  use("bam", 4);
  fill_parameter(0, -1.5);
  fill_parameter(1, 0.51082562376599068); /* ln(b / (2 - b)) */
  check_figures(1, figures, 5);
}

static void sandwich_has_its_figures(void **unused)
{
  (void)unused;
  static const figure wide[] = {{0, 0},
                                {1, -0.54248193941269315},
                                {7, -6.3495269344931995},
                                {100, -12.494592813892633},
                                {5000, -23.895848068079723}}; /* D = 128, the fourth of 12 heads */
  static const figure narrow[] = {{0, 0},
                                  {1, -0.23380149346841766},
                                  {7, -3.1835910203151072},
                                  {100, -5.2453875325519183},
                                  {5000, -13.299323492691078}}; /* D = 64 */
  use("sandwich", 12);
  check_figures(3, wide, 5);
  set_option("dimension", "64");
  check_figures(3, narrow, 5);
  set_option("dimension", "65");
  refused("position method 'sandwich': dimension: expected an even number, found 65");
}

static void scale_invariant_leaves_near_keys_alone(void **unused)
{
  (void)unused;
  use("scale-invariant", 4);
  prepare();
  const float *table = tables.plan.table + 2 * LENGTH - 1,
              *factors = tables.plan.factors + 2 * LENGTH - 1; /* head 1 */
  assert_true(table[0] == 0 && factors[0] == 1);
  /* At t = 10 (e - 1) the logarithm would be 1; at 90 it is ln 10. */
  near("table", table[-90], -2 * 2.3025850929940457);
  near("factors", factors[-90], sqrt(2 * 2.3025850929940457 + 1));
  /* As the paper writes them. */
  for (int t = 0; t < LENGTH; t += 371) {
    double alpha = exp(0.5), beta = alpha, a = sqrt(2 * (log(t / 10.0 + 1) - log(alpha) + beta / alpha));
    assert_true(fabs(factors[-t] - a) < 1e-6 * a && fabs(table[-t] - (-a * a + beta / alpha)) < 1e-6 * a * a);
  }
  assert_int_equal(tables.plan.rotary, 16);
  /* half of the pairs stand still */
  assert_true(tables.plan.cosine[3 * 8 + 4] == 1 && tables.plan.sine[3 * 8 + 4] == 0);
  assert_true(fabs(tables.plan.sine[3 * 8] - sin(3.0)) < 1e-7);
}

static void logarithmic_alibi_may_have_a_floor(void **unused)
{
  (void)unused;
  use("alibi-log", 8);
  prepare();
  const float *head = tables.plan.table + LENGTH - 1; /* slope 1/2 */
  near("table", head[-1], -0.5 * log(2));
  near("table", head[-5000], -0.5 * log(5001));
  set_option("clamp", "2");
  prepare();
  head = tables.plan.table + LENGTH - 1;
  near("table", head[-53], -0.5 * log(54));
  assert_true(head[-54] == -2 && head[-5000] == -2); /* ln 55 > 4 */
  assert_false(method->decays);
}

static void learned_ones_begin_as_alibi(void **unused)
{
  (void)unused;
  double slopes[MOST_HEADS];
  for (int heads = 1; heads <= MOST_HEADS; heads++) {
    assert_int_equal(alibi_slopes(heads, 8, ALIBI_SLOPES_INTERLEAVED, slopes, &error), ALIBI_OK);
    for (int m = 0; m < 2; m++) {
      use(m ? "bam" : "alibi-learned", (size_t)heads);
      request.length = 3;
      position_parameter list[POSITION_MAX_PARAMETERS];
      size_t count = method->parameters(&request.shape, request.options, list);
      for (size_t i = 0; i < count; i++) {
        assert_true(list[i].rows == LAYERS && list[i].columns == (size_t)heads && !list[i].decay);
        for (size_t e = 0; e < LAYERS * (size_t)heads; e++)
          parameters[i][e] = method->initial(&request.shape, request.options, i, e, 0.7);
      }
      prepare();
      assert_int_equal(tables.plan.sets, LAYERS);
      for (size_t row = 0; row < LAYERS * (size_t)heads; row++) {
        double slope = slopes[row % (size_t)heads];
        near("slope", m ? -tables.plan.table[row * 3 + 1] : tables.plan.slopes[row],
             m ? slope * (1 + 1e-5) : slope);
      }
    }
  }
}

/* Files store them.  What a smooth function makes of a parameter is not what its name may say. */
static void parameters_have_their_names(void **unused)
{
  (void)unused;
  static const struct {
    const char *method, *names[2];
  } known[] = {{"alibi-learned", {"position.log_slopes", NULL}},
               {"bam", {"position.log_scale", "position.exponent_raw"}},
               {"kerple-log", {"position.p_raw", "position.a_raw"}},
               {"kerple-power", {"position.a_raw", "position.p_raw"}}};
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    position_parameter list[POSITION_MAX_PARAMETERS];
    use(known[k].method, 4);
    size_t count = method->parameters(&request.shape, request.options, list);
    assert_int_equal(count, known[k].names[1] ? 2 : 1);
    for (size_t i = 0; i < count; i++) assert_string_equal(list[i].name, known[k].names[i]);
  }
}

/* Uniform where the deviate is normal: quartiles go to quartiles. */
static void kerple_begins_uniform(void **unused)
{
  (void)unused;
  static const double quartiles[] = {-0.67448975019608171, 0, 0.67448975019608171};
  for (int k = 0; k < 3; k++)
    for (int power = 0; power < 2; power++) {
      use(power ? "kerple-power" : "kerple-log", 1);
      request.length = 2;
      for (size_t i = 0; i < 2; i++)
        parameters[i][0] = method->initial(&request.shape, request.options, i, 0, quartiles[k]);
      prepare();
      double share = (k + 1) / 4.0, p = 2 * share, a = share;
      near("bias at 1", tables.plan.table[0], power ? -a : -p * log1p(a));
      if (!power) continue;
      near("bias at 9", method->bias(&request, 0, 0, 9, 0), -a * pow(9, p));
    }
}

static void nape_has_flat_heads_among_the_others(void **unused)
{
  (void)unused;
  /* 4 sloped heads: 2^-2 .. 2^-8 */
  static const float half[] = {0.25f, 0, 0.0625f, 0, 0.015625f, 0, 0.00390625f, 0};
  use("nape", 8);
  prepare();
  assert_memory_equal(tables.plan.slopes, half, sizeof half);
  static const char *const shares[] = {"0", "0.25", "0.34", "0.9", "0.99"};
  for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++)
    for (size_t heads = 1; heads <= MOST_HEADS; heads++) {
      double slopes[MOST_HEADS], share = strtod(shares[k], NULL);
      size_t flat = 0, sloped = 0, expected = (size_t)(share * (double)heads + 1e-9);
      use("nape", heads);
      request.length = 1;
      set_option("share", shares[k]);
      if (k > 0 && expected == 0) {
        refused_with("position method 'nape': share: expected 0");
        continue;
      }
      prepare();
      assert_int_equal(alibi_slopes((int)(heads - expected), 8, ALIBI_SLOPES_INTERLEAVED, slopes, &error),
                       ALIBI_OK);
      for (size_t h = 0; h < heads; h++) {
        if (tables.plan.slopes[h] == 0) flat++;
        else assert_true(tables.plan.slopes[h] == (float)slopes[sloped++]);
      }
      assert_int_equal(flat, expected);
    }
}

/* A share that no head has would be ALiBi under another name; 0 says so, and so does a default. */
static void a_share_of_no_head_is_refused(void **unused)
{
  (void)unused;
  use("nape", 2);
  set_option("share", "0.2");
  refused("position method 'nape': share: "
          "expected 0, or at least 0.5 for one of 2 heads, found 0.2, which makes none");
  use("nape", 3);
  set_option("share", "0.33");
  refused("position method 'nape': share: "
          "expected 0, or at least 0.3333333 for one of 3 heads, found 0.33, which makes none");
  use("nape", 1);
  set_option("share", "0.6");
  refused("position method 'nape': share: expected 0, since no share up to 0.99 of 1 heads makes one, found 0.6");
  use("nape", 1);
  prepare();
  assert_true(tables.plan.slopes[0] == 0x1p-8f);
  for (size_t heads = 2; heads <= MOST_HEADS; heads++) { /* what the sentence says is enough */
    char text[32];
    size_t flat = 0;
    snprintf(text, sizeof text, "%.7g", 1 / (double)heads);
    use("nape", heads);
    set_option("share", text);
    prepare();
    for (size_t h = 0; h < heads; h++) flat += tables.plan.slopes[h] == 0;
    assert_int_equal(flat, 1);
  }
}

static void a_share_of_0_is_alibi(void **unused)
{
  (void)unused;
  for (size_t heads = 1; heads <= MOST_HEADS; heads++) {
    float slopes[MOST_HEADS];
    use("alibi", heads);
    prepare();
    memcpy(slopes, tables.plan.slopes, heads * sizeof(float));
    use("nape", heads);
    set_option("share", "0");
    prepare();
    assert_memory_equal(tables.plan.slopes, slopes, heads * sizeof(float));
  }
}

static void alibi_takes_slopes_of_its_caller(void **unused)
{
  (void)unused;
  static const float own[] = {0.5f, 0.25f, 1e-3f, 0};
  use("alibi", 4);
  set_option("slopes", "0.5, 0.25,1e-3 ,0");
  prepare();
  assert_memory_equal(tables.plan.slopes, own, sizeof own);
  assert_true(method->bias(&request, 0, 1, 10, 2) == -2);
  set_option("slopes", "0.5,0.25");
  refused("position method 'alibi': slopes: expected one for each of the 4 heads, found 2");
  set_option("slopes", "0.5,0.25,0.125,0.1,0.1");
  refused("position method 'alibi': slopes: expected one for each of the 4 heads, found 5");
  static const struct {
    const char *list, *found;
  } bad[] = {
      {"0.5,0.25,steep,0.1", "expected numbers with commas between them, found 'steep'"},
      {"0.5;0.25,0.1,0.1", "expected numbers with commas between them, found '0.5;0.25'"},
      {"0.5 0.25 0.1 0.1", "expected numbers with commas between them, found '0.5 0.25 0.1 0.1'"},
      {"0.5,\t0.25,0.1,0.1", "expected numbers with commas between them, found '?0.25'"},
      {"0.5,0.25,0.1\n,0.1", "expected numbers with commas between them, found '0.1?'"},
      {"0.5,nan,0.1,0.1", "expected numbers with commas between them, found 'nan'"},
      {"0.5,inf,0.1,0.1", "expected numbers with commas between them, found 'inf'"},
      {"0.5,0x10,0.1,0.1", "expected numbers with commas between them, found '0x10'"},
      {"0.5,1e999,0.1,0.1", "expected numbers with commas between them, found '1e999'"},
      {"0.5,1e-400,0.1,0.1",
       "expected numbers with commas between them, found '1e-400', too small to be told from 0"},
      {"0.5,0.25,0.1,0.1,", "item 5 of '0.5,0.25,0.1,0.1,' is empty"},
      {"0.5,0.25, ,0.1,0.1", "item 3 of '0.5,0.25, ,0.1,0.1' is empty"},
      {",1,1,1,1", "item 1 of ',1,1,1,1' is empty"},
      {" ", "item 1 of ' ' is empty"},
  };
  for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
    char sentence[256];
    set_option("slopes", bad[k].list);
    snprintf(sentence, sizeof sentence, "position method 'alibi': slopes: %s", bad[k].found);
    refused(sentence);
  }
  static const char *const outside[] = {"0.5,-1,0.1,0.1", "0.5,2e6,0.1,0.1"};
  for (size_t k = 0; k < sizeof outside / sizeof outside[0]; k++) {
    set_option("slopes", outside[k]);
    assert_int_equal(position_prepare(method, &request, &tables, &error), ALIBI_INVALID);
    assert_non_null(strstr(error.message, "expected numbers from 0 to 1e+06"));
  }
  set_option("slopes", "0,0,0,0");
  refused("position method 'alibi': slopes: expected one above 0, found none (the method is 'none')");
}

/* Slopes of real models, with their digits. */
static void there_is_room_for_many_slopes(void **unused)
{
  (void)unused;
  static const size_t heads[] = {32, 71, MOST_HEADS};
  for (size_t k = 0; k < 3; k++) {
    char list[16 * MOST_HEADS] = "";
    for (size_t h = 0; h < heads[k]; h++)
      snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.10f", h ? ", " : "",
               exp2(-8.0 * (double)(h + 1) / 128));
    use("alibi", heads[k]);
    set_option("slopes", list);
    prepare();
    for (size_t h = 0; h < heads[k]; h++) near("slope", tables.plan.slopes[h], exp2(-8.0 * (double)(h + 1) / 128));
  }
}

static void slopes_and_a_rule_are_not_both_taken(void **unused)
{
  (void)unused;
  use("alibi", 2);
  set_option("slopes", "0.5,0.25");
  set_option("slope_rule", "geometric");
  refused("position method 'alibi': expected slopes or slope_rule, found both");
  set_option("slope_rule", "interleaved");
  set_option("max_bias", "4");
  refused("position method 'alibi': expected slopes or max_bias, found both");
  set_option("slopes", "");
  prepare();
  assert_true(tables.plan.slopes[1] == 0x1p-4f);
  set_option("max_bias", "8"); /* what a file says of a model with slopes of its own */
  set_option("slopes", "0.5,0.25");
  prepare();
  assert_true(tables.plan.slopes[1] == 0.25f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(kerple_has_its_figures, teardown),
      cmocka_unit_test_teardown(bam_has_its_figures, teardown),
      cmocka_unit_test_teardown(sandwich_has_its_figures, teardown),
      cmocka_unit_test_teardown(scale_invariant_leaves_near_keys_alone, teardown),
      cmocka_unit_test_teardown(logarithmic_alibi_may_have_a_floor, teardown),
      cmocka_unit_test_teardown(learned_ones_begin_as_alibi, teardown),
      cmocka_unit_test_teardown(parameters_have_their_names, teardown),
      cmocka_unit_test_teardown(kerple_begins_uniform, teardown),
      cmocka_unit_test_teardown(nape_has_flat_heads_among_the_others, teardown),
      cmocka_unit_test_teardown(a_share_of_no_head_is_refused, teardown),
      cmocka_unit_test_teardown(a_share_of_0_is_alibi, teardown),
      cmocka_unit_test_teardown(alibi_takes_slopes_of_its_caller, teardown),
      cmocka_unit_test_teardown(there_is_room_for_many_slopes, teardown),
      cmocka_unit_test_teardown(slopes_and_a_rule_are_not_both_taken, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
