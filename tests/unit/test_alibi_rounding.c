/* ALiBi as models were trained with it: biases in bfloat16 by keys, and scaled with the scores.
 *
 * The figures were written by transformers 5.24 with torch 2.15, the two functions build_alibi_tensor of BLOOM
 * (dtype bfloat16) and of Falcon (dtype float32), for 12 heads and a mask of 5002 ones: [h, 0, j]. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { HEADS = 12, PLACES = 8, FAR = 5002 };

static const size_t places[PLACES] = {1, 5, 100, 257, 299, 1001, 2047, 5001};

static const struct {
  size_t head;
  double bloom[PLACES], falcon[PLACES];
} figures[] = {
    {0, {0.5, 2.5, 50, 128, 150, 500, 1024, 2496}, {0.5, 2.5, 50, 128, 150, 500, 1024, 2496}},
    {1, {0.25, 1.25, 25, 64, 75, 250, 512, 1248}, {0.25, 1.25, 25, 64, 75, 250, 512, 1248}},
    {7,
     {0.00390625, 0.01953125, 0.390625, 1, 1.171875, 3.90625, 8, 19.5},
     {0.00390625, 0.01953125, 0.390625, 1, 1.171875, 3.90625, 8, 19.5}},
    {8,
     {0.70703125, 3.53125, 70.5, 182, 211, 708, 1448, 3536},
     {0.70703125, 3.53125, 70.5, 181, 212, 708, 1448, 3536}},
    {11,
     {0.08837890625, 0.44140625, 8.8125, 22.75, 26.375, 88.5, 181, 442},
     {0.08837890625, 0.44140625, 8.8125, 22.625, 26.5, 88.5, 181, 442}},
};

static alibi_error error;

static alibi_model_config config_of(const char *settings)
{
  char all[256];
  snprintf(all, sizeof all, "heads=%d width=48 head_size=4 train_length=64 %s", HEADS, settings);
  alibi_model_config config = tiny_config(all);
  if (model_config_resolve(&config, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return config;
}

static position_tables plan_of(const alibi_model_config *config, size_t length)
{
  position_request request = {
      .shape = model_config_position_shape(config), .options = config->position_options.bytes, .length = length};
  position_tables tables;
  if (position_prepare(model_config_method(config), &request, &tables, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return tables;
}

static double bias_at(const position_plan *plan, size_t head, size_t query, size_t key)
{
  float bias = NAN;
  if (plan->bias == BIAS_SLOPE) return -(double)plan->slopes[head] * (double)(query - key);
  plan->rows.bias(plan->rows.user, (int)head, (int64_t)query, (int64_t)key, 1, &bias);
  return (double)bias;
}

/* Of the first key 0, so what a query sees there is minus its own figure. */
static void figures_of_others(void **unused)
{
  (void)unused;
  for (int falcon = 0; falcon < 2; falcon++)
    for (int scaled = 0; scaled < 2; scaled++) {
      alibi_model_config config =
          config_of(falcon   ? scaled ? "alibi_rounding=falcon alibi_slope_scale=0.125" : "alibi_rounding=falcon"
                    : scaled ? "alibi_rounding=bfloat16-keys alibi_slope_scale=0.125"
                             : "alibi_rounding=bfloat16-keys");
      position_tables tables = plan_of(&config, FAR);
      assert_int_equal(tables.plan.bias, BIAS_ROWS);
      for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        for (size_t k = 0; k < PLACES; k++) {
          double of = falcon ? figures[i].falcon[k] : figures[i].bloom[k], expected = -of * (scaled ? 0.125 : 1);
          double found = bias_at(&tables.plan, figures[i].head, places[k], 0);
          if (found != expected)
            fail_msg("%s, head %zu, position %zu: expected %.9g, found %.9g", falcon ? "falcon" : "bloom",
                     figures[i].head, places[k], expected, found);
        }
      position_release(&tables);
    }
}

static void tables_are_the_formula(void **unused)
{
  (void)unused;
  static const char *const settings[] = {
      "alibi_rounding=falcon alibi_slope_scale=0.3",
      "alibi_rounding=bfloat16-keys alibi_max_bias=16 extension=linear:factor=4",
      "alibi_rounding=exact alibi_slope_scale=0.3",
      "alibi_slopes=1,2,3,4,5,6,7,8,9,10,11,0.3 alibi_slope_scale=0.1 alibi_rounding=falcon"};
  for (size_t s = 0; s < 4; s++) {
    alibi_model_config config = config_of(settings[s]);
    extension_choice extension = model_config_extension(&config);
    position_request request = {.shape = model_config_position_shape(&config),
                                .options = config.position_options.bytes,
                                .extension = extension.extension,
                                .extension_options = extension.extension ? extension.options.bytes : NULL,
                                .length = 700};
    position_tables tables;
    assert_int_equal(position_prepare(model_config_method(&config), &request, &tables, &error), ALIBI_OK);
    for (size_t h = 0; h < HEADS; h++)
      for (size_t i = 0; i < 700; i += 23)
        for (size_t j = 0; j <= i; j += 7) {
          double expected = model_config_method(&config)->bias(&request, 0, h, i, j);
          double found = bias_at(&tables.plan, h, i, j);
          if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
            fail_msg("%s: head %zu, %zu to %zu: expected %.9g, found %.9g", settings[s], h, i, j, expected, found);
        }
    position_release(&tables);
  }
}

/* The rule has no word beside slopes; the scale and the rounding do. */
static void what_stands_beside_slopes(void **unused)
{
  (void)unused;
  alibi_model_config config = tiny_config("alibi_slopes=1,2,3,4 alibi_slope_scale=0.1 alibi_rounding=falcon");
  assert_int_equal(alibi_model_config_check(&config, &error), ALIBI_OK);
  config = tiny_config("alibi_slopes=1,2,3,4 alibi_max_bias=16");
  assert_int_equal(alibi_model_config_check(&config, &error), ALIBI_INVALID);
  scratch_says(error.message, "expected slopes or max_bias, found both");
  assert_int_equal(alibi_model_config_set(&config, "alibi_rounding", "half", &error), ALIBI_INVALID);
  scratch_says(error.message, "bfloat16-keys");
}

/* Many positions, more than a block of keys, read at once and token by token. */
static void decoding_gives_the_bits_of_one_pass(void **unused)
{
  (void)unused;
  enum { LONG = 200, VOCABULARY = 29 };
  static const char *const settings[] = {"train_length=200 alibi_rounding=falcon alibi_slope_scale=0.5",
                                         "train_length=200 alibi_rounding=bfloat16-keys kv_heads=2"};
  for (size_t s = 0; s < 2; s++) {
    alibi_context *context = tiny_context(NULL, 2);
    alibi_model *model = tiny_model(context, settings[s]);
    uint32_t tokens[LONG];
    float expected[VOCABULARY];
    pass_shape shape = {.rows = LONG, .segments = 1, .length = LONG, .head_rows = 1};
    pass_segment segment = {.count = LONG};
    model_pass *pass;
    alibi_session *session;
    tiny_tokens(tokens, LONG, 3, VOCABULARY);
    assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
    assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
    assert_int_equal(alibi_session_new(model, NULL, &session, &error), ALIBI_OK);
    assert_int_equal(alibi_session_feed(session, tokens, 90, &error), ALIBI_OK);
    for (size_t t = 90; t < LONG; t++) {
      assert_int_equal(alibi_step(model, &session, &tokens[t], 1, &error), ALIBI_OK);
      model_logits(pass, t, expected);
      if (tiny_floats_differ(expected, alibi_session_logits(session), VOCABULARY))
        fail_msg("%s: other logits at %zu", settings[s], t);
    }
    alibi_session_free(session);
    model_pass_free(pass);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* What is not asked for is not written. */
static void files_of_the_usual_method(void **unused)
{
  (void)unused;
  alibi_model_config plain = config_of(""), rounded = config_of("alibi_rounding=falcon"), read;
  json_node *node = model_config_node(&plain);
  const json_node *position = node_get(node, "position");
  assert_null(node_get(position, "rounding"));
  assert_null(node_get(position, "slope_scale"));
  assert_non_null(node_get(position, "max_bias"));
  assert_int_equal(model_config_read(node, "a file", &read, &error), ALIBI_OK);
  assert_memory_equal(&read, &plain, sizeof plain);
  node_free(node);
  node = model_config_node(&rounded);
  position = node_get(node, "position");
  assert_string_equal(node_text(node_get(position, "rounding"), ""), "falcon");
  assert_null(node_get(position, "slope_scale"));
  assert_int_equal(model_config_read(node, "a file", &read, &error), ALIBI_OK);
  assert_memory_equal(&read, &rounded, sizeof rounded);
  node_free(node);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_of_others),         cmocka_unit_test(tables_are_the_formula),
      cmocka_unit_test(what_stands_beside_slopes), cmocka_unit_test(decoding_gives_the_bits_of_one_pass),
      cmocka_unit_test(files_of_the_usual_method),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
