/* Log-n scaling of the scores beside position methods: the tables are the formula, up to the trained length log-n
 * changes no bit, ssmax begins where scores are as they were on average, its gradient is that of its tables, and a
 * model keeps it in files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "position/score_scaling.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

enum { LAYERS = 3, HEADS = 4, TRAINED = 24 };

static alibi_error error;

static size_t window; /* of rope-window; 0: its own */

static position_tables prepare(const char *name, score_scaling_kind kind, const float *values, size_t length)
{
  static max_align_t options[ALIBI_POSITION_OPTIONS_SIZE / sizeof(max_align_t)];
  const position_method *method = position_method_find(name);
  position_tables tables;
  position_request request = {.shape = {LAYERS, HEADS, 8, 32, TRAINED},
                              .options = options,
                              .length = length,
                              .scaling = {.kind = kind, .values = values}};
  field_init(method->fields, options);
  const field *f = field_find(method->fields, "window");
  char text[32];
  snprintf(text, sizeof text, "%zu", window);
  if (f) assert_int_equal(field_set_text(f, options, f->name, text, &error), ALIBI_OK);
  if (position_prepare(method, &request, &tables, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return tables;
}

static void log_n_begins_beyond_the_trained_length(void **unused)
{
  (void)unused;
  position_tables t = prepare("alibi", SCORE_SCALING_LOG_N, NULL, TRAINED);
  assert_null(t.plan.row_scale);
  position_release(&t);
  t = prepare("alibi", SCORE_SCALING_LOG_N, NULL, 100);
  assert_true(t.plan.row_scale_sets == 1);
  for (size_t h = 0; h < HEADS; h++)
    for (size_t i = 0; i < 100; i++) {
      double expected = i + 1 <= TRAINED ? 1 : log((double)i + 1) / log(TRAINED);
      assert_true(fabs(t.plan.row_scale[h * 100 + i] - expected) <= 1e-7 * expected);
      if (i < TRAINED) assert_true(t.plan.row_scale[h * 100 + i] == 1);
    }
  assert_true(fabs(t.plan.row_scale[71] - 1.3456871) < 1e-6); /* ln 72 / ln 24 */
  position_release(&t);
}

static void ssmax_has_a_factor_for_each_layer_and_head(void **unused)
{
  (void)unused;
  float values[LAYERS * HEADS];
  for (size_t i = 0; i < LAYERS * HEADS; i++) values[i] = (float)random_normal(1, 0, i);
  position_tables t = prepare("rope", SCORE_SCALING_SSMAX, values, 50);
  assert_true(t.plan.sets == 1 && t.plan.row_scale_sets == LAYERS);
  for (size_t row = 0; row < LAYERS * HEADS; row++)
    for (size_t i = 0; i < 50; i++) {
      double expected = values[row] * log((double)i + 1);
      assert_true(fabs(t.plan.row_scale[row * 50 + i] - expected) <= 1e-7 * fabs(expected));
    }
  position_release(&t);
}

static void ssmax_begins_at_the_mean(void **unused)
{
  (void)unused;
  position_shape shape = {LAYERS, HEADS, 8, 32, 1024};
  double sum = 0, s = score_scaling_initial(&shape, 0);
  for (size_t n = 1; n <= 1024; n++) sum += s * log((double)n) / 1024;
  assert_true(fabs(sum - 1) < 1e-6);
  assert_true(fabs(s - 0.16847) < 1e-5);
  shape.train_length = 1;
  assert_true(score_scaling_initial(&shape, 0) == 1);
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model_config config = tiny_config("score_scaling=ssmax");
  alibi_model *model;
  assert_int_equal(alibi_model_new(context, &config, 1, &model, &error), ALIBI_OK);
  const parameter *p = parameter_find(&model->list, "position.score_scale");
  assert_non_null(p);
  assert_true(p->rows == 2 && p->columns == 4 && !p->decay);
  shape.train_length = TRAINED;
  for (size_t i = 0; i < 8; i++) assert_true(model->values[p->offset + i] == score_scaling_initial(&shape, 0));
  alibi_model_free(model);
  alibi_context_free(context);
}

/* Of sum_k c_k x_k + x_k^2 / 2 over the table. */
static double scalar(const float *table, size_t count, float *grad)
{
  double sum = 0;
  for (size_t k = 0; k < count; k++) {
    double c = random_normal(4, 0, k), x = table[k];
    sum += c * x + x * x / 2;
    if (grad) grad[k] = (float)(c + x);
  }
  return sum;
}

static void check_gradient(const char *name)
{
  enum { LENGTH = 40, COUNT = LAYERS * HEADS * LENGTH };
  float values[LAYERS * HEADS], table_grad[COUNT], found[LAYERS * HEADS];
  for (size_t i = 0; i < LAYERS * HEADS; i++) values[i] = (float)random_normal(1, 0, i), found[i] = 0.5f;
  window = 17;
  position_tables t = prepare(name, SCORE_SCALING_SSMAX, values, LENGTH);
  window = 0;
  position_request request = {.shape = {LAYERS, HEADS, 8, 32, TRAINED},
                              .length = LENGTH,
                              .scaling = {.kind = SCORE_SCALING_SSMAX, .values = values}};
  scalar(t.plan.row_scale, COUNT, table_grad);
  score_scaling_backward(&request, &t.plan, table_grad, found);
  for (size_t i = 0; i < LAYERS * HEADS; i++) {
    float kept = values[i], step = 1.0f / 64;
    volatile float up = kept + step, down = kept - step;
    values[i] = up;
    score_scaling_fill(&request, &t.plan);
    double above = scalar(t.plan.row_scale, COUNT, NULL);
    values[i] = down;
    score_scaling_fill(&request, &t.plan);
    double below = scalar(t.plan.row_scale, COUNT, NULL);
    values[i] = kept;
    double expected = (above - below) / ((double)up - down);
    if (!(fabs(found[i] - 0.5 - expected) <= 1e-4 * (1 + fabs(expected))))
      fail_msg("element %zu: expected %g, found %g", i, expected, found[i] - 0.5);
  }
  position_release(&t);
}

static void its_gradient_is_finite_differences(void **unused)
{
  (void)unused;
  check_gradient("none");
  check_gradient("rope-window");
}

/* n is what a query sees: with a window no more than that. */
static void a_window_limits_n(void **unused)
{
  (void)unused;
  float values[LAYERS * HEADS];
  for (size_t i = 0; i < LAYERS * HEADS; i++) values[i] = 1 + (float)i;
  window = 0; /* as long as the training */
  position_tables t = prepare("rope-window", SCORE_SCALING_LOG_N, NULL, 100);
  assert_null(t.plan.row_scale);
  position_release(&t);
  window = 40;
  t = prepare("rope-window", SCORE_SCALING_LOG_N, NULL, 100);
  for (size_t i = 0; i < 100; i++) {
    double n = i < 40 ? (double)i + 1 : 40, expected = n <= TRAINED ? 1 : log(n) / log(TRAINED);
    assert_true(fabs(t.plan.row_scale[i] - expected) <= 1e-7 * expected);
  }
  position_release(&t);
  window = 8;
  t = prepare("rope-window", SCORE_SCALING_SSMAX, values, 100);
  for (size_t i = 0; i < 100; i++) {
    double expected = values[5] * log(i < 8 ? (double)i + 1 : 8);
    assert_true(fabs(t.plan.row_scale[5 * 100 + i] - expected) <= 1e-7 * expected);
  }
  position_release(&t);
  window = 0;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model_config config = tiny_config("position=rope-window rope-window_window=8 score_scaling=ssmax");
  alibi_model *model;
  assert_int_equal(alibi_model_new(context, &config, 1, &model, &error), ALIBI_OK);
  double sum = (TRAINED - 8) * log(8);
  for (size_t n = 1; n <= 8; n++) sum += log((double)n);
  const parameter *p = parameter_find(&model->list, "position.score_scale");
  assert_true(fabs(model->values[p->offset] - TRAINED / sum) < 1e-6);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* After a step: what holds no parameters is left alone. */
static void only_what_changes_is_filled_again(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=sinusoidal score_scaling=ssmax");
  pass_shape shape = {.rows = 8, .segments = 1, .length = TRAINED, .head_rows = 1};
  model_pass *pass;
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  float *embedding = (float *)pass->position.plan.embedding, before = pass->position.plan.row_scale[5];
  embedding[3] = 77;
  model->parameters.score_scale[0] *= 2;
  model_pass_refresh(pass);
  assert_true(embedding[3] == 77);
  assert_true(before != 0 && fabsf(pass->position.plan.row_scale[5] - 2 * before) <= 1e-6f * fabsf(before));
  model_pass_free(pass);
  alibi_model_free(model);
  model = tiny_model(context, "position=t5");
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  before = pass->position.plan.table[TRAINED - 1];
  for (size_t i = 0; i < model->list.floats; i++) model->values[i] *= 2;
  model_pass_refresh(pass);
  assert_true(before != 0 && pass->position.plan.table[TRAINED - 1] == 2 * before);
  model_pass_free(pass);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void a_scale_without_values_is_refused(void **unused)
{
  (void)unused;
  position_tables t;
  position_request request = {.shape = {LAYERS, HEADS, 8, 32, TRAINED},
                              .length = 10,
                              .scaling = {.kind = SCORE_SCALING_SSMAX}};
  assert_int_equal(position_prepare(position_method_find("none"), &request, &t, &error), ALIBI_INVALID);
  assert_string_equal(error.message, "score scaling 'ssmax': expected values of its parameter, found none");
}

/* Up to L a model with log-n is the model without, to the bit; beyond it is another. */
static void log_n_leaves_the_trained_length_alone(void **unused)
{
  (void)unused;
  enum { LONG = 60 };
  static const size_t lengths[] = {TRAINED, LONG};
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *models[2] = {tiny_model(context, "score_scaling=none"), tiny_model(context, "score_scaling=log-n")};
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 3, 29);
  for (size_t k = 0; k < 2; k++) {
    float hidden[2][LONG * 32];
    for (size_t m = 0; m < 2; m++) {
      pass_shape shape = {.rows = LONG, .segments = 1, .length = lengths[k], .head_rows = 1};
      pass_segment segment = {.count = lengths[k]};
      model_pass *pass;
      assert_int_equal(model_pass_new(models[m], &shape, &pass, &error), ALIBI_OK);
      assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
      memcpy(hidden[m], pass->hidden, lengths[k] * 32 * sizeof(float));
      model_pass_free(pass);
    }
    assert_memory_equal(hidden[0], hidden[1], TRAINED * 32 * sizeof(float));
    size_t differ = k ? tiny_floats_differ(hidden[0], hidden[1], LONG * 32) : 0;
    if (k) assert_true(differ > TRAINED * 32);
  }
  for (size_t m = 0; m < 2; m++) alibi_model_free(models[m]);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(log_n_begins_beyond_the_trained_length),
      cmocka_unit_test(ssmax_has_a_factor_for_each_layer_and_head),
      cmocka_unit_test(ssmax_begins_at_the_mean),
      cmocka_unit_test(its_gradient_is_finite_differences),
      cmocka_unit_test(a_window_limits_n),
      cmocka_unit_test(only_what_changes_is_filled_again),
      cmocka_unit_test(a_scale_without_values_is_refused),
      cmocka_unit_test(log_n_leaves_the_trained_length_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
