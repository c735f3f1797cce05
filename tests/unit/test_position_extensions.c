/* Extensions of slopes and of absolute positions: what becomes of each head and each row, by hand, what all
 * extensions share, and the sentences of a refusal.  (Frequencies: test_rope.c.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "position/extension_text.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/position_under_test.h"

enum { L = 64, LAYERS = 2, WIDTH = 8 };

static extension_choice choice;
static float values[L * WIDTH];

static void use(const char *name, size_t heads, const char *extension, size_t length)
{
  use_method(name, (position_shape){LAYERS, heads, WIDTH / heads ? WIDTH / heads : 1, WIDTH, L}, length);
  if (extension_text_read("--extend", name, extension, &choice, &error) != ALIBI_OK) fail_msg("%s", error.message);
  request.parameters[0] = values;
  request.extension = choice.extension;
  request.extension_options = choice.options.bytes;
}

static void expect_slopes(const double *expected, size_t count)
{
  prepare();
  assert_int_equal(tables.plan.bias, BIAS_SLOPE);
  for (size_t h = 0; h < count; h++)
    if (!(fabs(tables.plan.slopes[h] - expected[h]) <= 1e-7 * expected[h]))
      fail_msg("%s: slope %zu: expected %.9g, found %.9g", choice.extension->name, h, expected[h],
               (double)tables.plan.slopes[h]);
}

static void slopes_are_divided(void **unused)
{
  (void)unused;
  static const double quarter[] = {1. / 16, 1. / 64, 1. / 256, 1. / 1024},
                      plain[] = {1. / 4, 1. / 16, 1. / 64, 1. / 256};
  use("alibi", 4, "linear", 4 * L);
  expect_slopes(quarter, 4);
  use("alibi", 4, "linear:factor=4", 10); /* a factor holds at any length */
  expect_slopes(quarter, 4);
  use("alibi", 4, "dynamic", 4 * L);
  expect_slopes(quarter, 4);
  use("alibi", 4, "dynamic", L);
  expect_slopes(plain, 4);
  use("alibi", 4, "ntk", 1);
  expect_slopes(plain, 4);
}

/* Ranks 0 .. 5 of the slopes 1/4, 1/16, 1/64, 1/256, 1/2, 1/8 from the steepest: 1, 3, 4, 5, 0, 2. */
static void ntk_goes_by_the_rank(void **unused)
{
  (void)unused;
  static const double expected[] = {1. / 8, 1. / 128, 1. / 1024, 1. / 8192, 1. / 2, 1. / 32};
  use("alibi", 6, "ntk:factor=32", 1); /* 32^(1/5) = 2 */
  expect_slopes(expected, 6);
  use("alibi", 6, "ntk", 32 * L);
  expect_slopes(expected, 6);
  static const double alone[] = {1. / 256};
  use("alibi", 1, "ntk", 32 * L);
  expect_slopes(alone, 1);
}

/* Of 8 heads with half of them flat, the other four are ranked among themselves: 1/4, 1/16, 1/64, 1/256. */
static void flat_heads_are_not_ranked(void **unused)
{
  (void)unused;
  size_t sloped = 0;
  use("nape", 8, "ntk:factor=8", L); /* 8^(1/3) = 2 */
  prepare();
  for (size_t h = 0; h < 8; h++) {
    double slope = tables.plan.slopes[h];
    if (slope == 0) continue;
    assert_true(fabs(slope - pow(4, -(double)(sloped + 1)) * pow(2, -(double)sloped)) <= 1e-7 * slope);
    sloped++;
  }
  assert_int_equal(sloped, 4);
}

/* Each layer has ranks of its own; the gradient of ln m is slope times that of the slope, extended or not. */
static void learned_slopes_are_ranked_in_their_layer(void **unused)
{
  (void)unused;
  static const float slopes[LAYERS * 2] = {0.5f, 0.25f, 0.125f, 0.75f};
  for (size_t i = 0; i < LAYERS * 2; i++) values[i] = logf(slopes[i]);
  use("alibi-learned", 2, "ntk", 4 * L);
  prepare();
  static const double expected[] = {0.5, 0.25 / 4, 0.125 / 4, 0.75};
  for (size_t i = 0; i < LAYERS * 2; i++)
    assert_true(fabs(tables.plan.slopes[i] - expected[i]) <= 1e-6 * expected[i]);
  double slope_grads[LAYERS * 2] = {1, 2, 3, 4};
  float grads[LAYERS * 2] = {0}, *all[] = {grads};
  position_plan_grad grad = {.slopes = slope_grads};
  method->backward(&request, &tables.plan, &grad, all);
  for (size_t i = 0; i < LAYERS * 2; i++)
    assert_true(fabs(grads[i] - expected[i] * slope_grads[i]) <= 1e-6 * expected[i] * slope_grads[i]);
}

static void rows_beyond_the_trained_length(void **unused)
{
  (void)unused;
  static const struct {
    const char *extension;
    size_t position, row;
  } known[] = {{"clamp", 0, 0},  {"clamp", 63, 63}, {"clamp", 64, 63}, {"clamp", 200, 63},
               {"wrap", 63, 63}, {"wrap", 64, 0},   {"wrap", 130, 2},  {"wrap", 191, 63}};
  for (size_t i = 0; i < L * WIDTH; i++) values[i] = (float)i;
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
    use("learned", 2, known[k].extension, 201);
    prepare();
    assert_memory_equal(tables.plan.embedding + known[k].position * WIDTH, values + known[k].row * WIDTH,
                        WIDTH * sizeof(float));
    use("sinusoidal", 2, known[k].extension, 201);
    prepare();
    const float *table = tables.plan.embedding;
    assert_memory_equal(table + known[k].position * WIDTH, table + known[k].row * WIDTH, WIDTH * sizeof(float));
    assert_true(fabs(table[known[k].row * WIDTH] - sin((double)known[k].row)) <= 0x1p-24);
  }
}

/* A row that stands for many positions collects their gradients. */
static void rows_collect_gradients(void **unused)
{
  (void)unused;
  static float embedding[200 * WIDTH], grads[L * WIDTH], *all[] = {grads};
  for (size_t i = 0; i < 200 * WIDTH; i++) embedding[i] = 1;
  position_plan_grad grad = {.embedding = embedding};
  use("learned", 2, "clamp", 200);
  prepare();
  method->backward(&request, &tables.plan, &grad, all);
  for (size_t i = 0; i < L * WIDTH; i++) assert_true(grads[i] == (i / WIDTH == 63 ? 200 - 63 : 1));
  memset(grads, 0, sizeof grads);
  use("learned", 2, "wrap", 200); /* 200 = 3 * 64 + 8 */
  prepare();
  method->backward(&request, &tables.plan, &grad, all);
  for (size_t i = 0; i < L * WIDTH; i++) assert_true(grads[i] == (i / WIDTH < 8 ? 4 : 3));
}

static void limits_are_lifted_by_rows_alone(void **unused)
{
  (void)unused;
  use("learned", 2, "clamp", L);
  assert_true(position_method_limit(method, &request.shape, options.bytes, NULL) == L);
  assert_true(position_method_limit(method, &request.shape, options.bytes, choice.extension) == SIZE_MAX);
  const position_extension *ntk = position_extension_find("rope", "ntk");
  assert_true(position_method_limit(method, &request.shape, options.bytes, ntk) == L);
}

static void one_name_means_what_the_family_says(void **unused)
{
  (void)unused;
  char names[128];
  const position_extension *extension;
  assert_ptr_not_equal(position_extension_find("rope", "ntk"), position_extension_find("alibi", "ntk"));
  assert_ptr_equal(position_extension_find("rope", "ntk"), position_extension_find("p-rope", "ntk"));
  assert_ptr_equal(position_extension_find("alibi", "ntk"), position_extension_find("nape", "ntk"));
  assert_null(position_extension_find("alibi", "yarn"));
  assert_null(position_extension_find("xpos", "ntk"));
  assert_null(position_extension_find("nothing", "ntk"));
  position_extension_names("sinusoidal", names, sizeof names);
  assert_string_equal(names, "clamp, wrap");
  assert_int_equal(position_extension_require("--extend", "alibi", "yarn", &extension, &error), ALIBI_INVALID);
  assert_string_equal(
      error.message,
      "--extend: expected an extension of position method 'alibi', one of linear, dynamic, ntk, found 'yarn'");
  use("alibi", 2, "linear", L);
  request.extension = position_extension_find("learned", "wrap");
  assert_int_equal(position_prepare(method, &request, &tables, &error), ALIBI_INVALID);
  assert_string_equal(error.message,
                      "position extension 'wrap': expected a model with a position method that it extends, one of "
                      "sinusoidal, learned, found 'alibi'");
}

static const char *method_of(const position_extension *extension)
{
  for (size_t i = 0; i < position_method_count(); i++)
    if (position_extends(extension, position_method_at(i))) return position_method_at(i)->name;
  fail();
  return NULL;
}

/* It would be taken for 1. */
static void a_factor_below_1_is_refused(void **unused)
{
  (void)unused;
  size_t seen = 0;
  for (size_t i = 0; i < position_extension_count(); i++) {
    const position_extension *extension = position_extension_at(i);
    const field *factor = field_find(extension->fields, "factor");
    char text[64];
    if (!factor || factor->initial != 0) continue;
    snprintf(text, sizeof text, "%s:factor=0.5", extension->name);
    use(method_of(extension), 2, text, 4 * L);
    refused_with("factor: expected at least 1, or 0 (to follow the length), found 0.5");
    snprintf(text, sizeof text, "%s:factor=1", extension->name);
    use(method_of(extension), 2, text, 4 * L);
    prepare();
    seen++;
  }
  assert_int_equal(seen, 7);
}

static double factor_on_cosines(const char *extension, size_t length)
{
  use("rope", 1, extension, length);
  prepare();
  return tables.plan.cosine[0]; /* of angle 0 */
}

static void a_given_attention_factor_holds_at_any_length(void **unused)
{
  (void)unused;
  static const char *const names[] = {"yarn", "longrope"};
  for (size_t i = 0; i < 2; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s:attention_factor=1.25", names[i]);
    assert_true(factor_on_cosines(text, 10) == 1.25 && factor_on_cosines(text, L) == 1.25);
    assert_true(factor_on_cosines(text, 4 * L) == 1.25);
    assert_true(factor_on_cosines(names[i], L) == 1 && factor_on_cosines(names[i], 4 * L) > 1);
  }
}

/* Of 8 channels half turn: two pairs. */
static void lists_of_factors_are_for_the_pairs_that_turn(void **unused)
{
  (void)unused;
  use("rope", 1, "longrope:long_factors=1/2", 4 * L);
  const field *fraction = field_find(method->fields, "fraction");
  assert_int_equal(field_set_text(fraction, options.bytes, "fraction", "0.5", &error), ALIBI_OK);
  prepare();
  assert_int_equal(tables.plan.rotary, 4);
  const field *list = field_find(choice.extension->fields, "long_factors");
  assert_int_equal(field_set_text(list, choice.options.bytes, "long_factors", "1/2/3", &error), ALIBI_OK);
  refused_with("long_factors: expected 1 to 2 numbers");
  static const char *const bad[] = {"1/0x1", "1/", "/1", "1//1", "1/1e-9", "1 /1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(field_set_text(list, choice.options.bytes, "long_factors", bad[i], &error), ALIBI_OK);
    refused_with("long_factors: expected 1 to 2 numbers");
  }
}

/* The same as a setting of the extension, a field of the request, and the shape's. */
static void an_extension_has_a_length_of_its_own(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < position_extension_count(); i++) {
    const position_extension *extension = position_extension_at(i);
    const field *original = field_find(extension->fields, "original_length");
    double expected[2 * L] = {0};
    for (size_t way = 0; original && way < 3; way++) {
      char text[64];
      snprintf(text, sizeof text, "%s%s", extension->name, way == 1 ? ":original_length=32" : "");
      use(method_of(extension), extension->slope ? 4 : 1, text, 2 * L);
      if (way == 0) request.shape.train_length = 32;
      if (way == 2) request.extension_length = 32;
      prepare();
      for (size_t p = 0; p < 2 * L; p++) {
        double found = extension->slope ? (double)tables.plan.slopes[p % 4] : (double)tables.plan.cosine[p];
        if (way == 0) expected[p] = found;
        assert_true(found == expected[p]);
      }
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(slopes_are_divided, teardown),
      cmocka_unit_test_teardown(ntk_goes_by_the_rank, teardown),
      cmocka_unit_test_teardown(flat_heads_are_not_ranked, teardown),
      cmocka_unit_test_teardown(learned_slopes_are_ranked_in_their_layer, teardown),
      cmocka_unit_test_teardown(rows_beyond_the_trained_length, teardown),
      cmocka_unit_test_teardown(rows_collect_gradients, teardown),
      cmocka_unit_test(limits_are_lifted_by_rows_alone),
      cmocka_unit_test_teardown(a_factor_below_1_is_refused, teardown),
      cmocka_unit_test_teardown(a_given_attention_factor_holds_at_any_length, teardown),
      cmocka_unit_test_teardown(lists_of_factors_are_for_the_pairs_that_turn, teardown),
      cmocka_unit_test_teardown(an_extension_has_a_length_of_its_own, teardown),
      cmocka_unit_test(one_name_means_what_the_family_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
