/* The whole decoder against PyTorch in float64 (scripts/make_golden_model.py): loss, logits and every gradient,
 * for every position method, every extension and a few kinds of block, on every instruction set of this processor.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/model_figures.h"
#include "threads.h"

enum {
  CASES = sizeof golden_cases / sizeof golden_cases[0],
  SEQUENCES = sizeof golden_sequences / sizeof golden_sequences[0],
  ROWS_MAX = 1024
};

static alibi_error error;
static const char *running; /* case and instruction set, for messages */

static void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

static void expect_near(const char *what, double found, double expected, double tolerance)
{
  if (!(fabs(found - expected) <= tolerance))
    fail_msg("%s: %s: expected %.9g, found %.9g, allowed %.2g", running, what, expected, found, tolerance);
}

static uint32_t name_hash(const char *name)
{
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
  return h;
}

/* The script's numbers(name, ...)[index]. */
static double number(uint32_t hash, size_t index)
{
  uint32_t x = (uint32_t)index * 2654435761u + hash;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x ^= x >> 16;
  return ((double)(x >> 16) - 32768) / 65536;
}

static bool is_gain(const char *name)
{
  size_t n = strlen(name);
  return n >= 5 && strcmp(name + n - 5, ".gain") == 0;
}

static alibi_model *make_model(alibi_context *context, const golden_case *c)
{
  alibi_model_config config;
  alibi_model *model;
  alibi_model_config_init(&config);
  for (size_t i = 0; i < c->setting_count; i++)
    expect_ok(alibi_model_config_set(&config, c->settings[i][0], c->settings[i][1], &error));
  expect_ok(model_allocate(context, &config, &model, &error));
  assert_int_equal(model->list.count, c->parameter_count);
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    assert_string_equal(p->name, c->parameters[i].name);
    assert_true(p->rows == c->parameters[i].rows && p->columns == c->parameters[i].columns);
    for (size_t e = 0; e < parameter_elements(p); e++)
      model->values[p->offset + e] = (float)(number(name_hash(p->name), e) + is_gain(p->name));
  }
  return model;
}

/* Inputs and next tokens of all sequences, one after the other; returns the number of rows. */
static size_t make_tokens(size_t vocabulary, uint32_t *tokens, uint32_t *targets, pass_segment *segments)
{
  size_t row = 0, drawn = 0;
  uint32_t hash = name_hash("tokens");
  for (size_t s = 0; s < SEQUENCES; s++, drawn++) {
    segments[s] = (pass_segment){.count = golden_sequences[s]};
    for (size_t t = 0; t < golden_sequences[s]; t++, row++, drawn++) {
      assert_true(row < ROWS_MAX);
      tokens[row] = (uint32_t)((number(hash, drawn) + 0.5) * (double)vocabulary);
      targets[row] = (uint32_t)((number(hash, drawn + 1) + 0.5) * (double)vocabulary);
    }
  }
  return row;
}

/* Gradients: the product with a fixed direction sees every element in its place, the norm its size. */
static void check_gradients(const alibi_model *model, const golden_case *c, const float *grads)
{
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    uint32_t hash = name_hash("direction of ");
    for (const char *letter = p->name; *letter; letter++) hash = (hash ^ (unsigned char)*letter) * 16777619u;
    double along = 0, squares = 0;
    for (size_t e = 0; e < parameter_elements(p); e++) {
      double g = grads[p->offset + e];
      along += g * number(hash, e);
      squares += g * g;
    }
    expect_near(p->name, along, c->parameters[i].along, 1e-5 * c->parameters[i].norm);
    expect_near(p->name, sqrt(squares), c->parameters[i].norm, 1e-5 * c->parameters[i].norm);
  }
}

static void check_logits(model_pass *pass, const golden_case *c)
{
  float logits[ROWS_MAX];
  assert_true(pass->model->config.vocabulary <= ROWS_MAX);
  for (size_t i = 0; i < GOLDEN_LOGITS; i++) {
    model_logits(pass, c->logits[i].row, logits);
    expect_near("a logit", logits[c->logits[i].token], c->logits[i].value, 2e-5);
  }
}

static void check_case(alibi_context *context, const golden_case *c)
{
  static uint32_t tokens[ROWS_MAX], targets[ROWS_MAX];
  static float losses[ROWS_MAX];
  static size_t all[ROWS_MAX];
  pass_segment segments[SEQUENCES];
  union {
    max_align_t align;
    char bytes[ALIBI_EXTENSION_OPTIONS_SIZE];
  } extension_options;
  alibi_model *model = make_model(context, c);
  size_t rows = make_tokens((size_t)model->config.vocabulary, tokens, targets, segments);
  pass_shape shape = {.rows = rows, .segments = SEQUENCES, .length = GOLDEN_LENGTH, .head_rows = 32, .keep = true};
  if (c->extension) {
    expect_ok(position_extension_require(running, model->method->name, c->extension, &shape.extension, &error));
    field_init(shape.extension->fields, extension_options.bytes);
    shape.extension_options = extension_options.bytes;
  }

  model_pass *pass;
  model_parameters grads;
  float *block;
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  expect_ok(memory_new(&block, model->list.floats, sizeof *block, "gradients", &error));
  expect_ok(model_parameters_new(&model->list, &model->config, block, &grads, &error));
  expect_ok(model_forward(pass, tokens, segments, SEQUENCES, &error));
  check_logits(pass, c);
  expect_near("the loss", model_backward(pass, targets, &grads, NULL), c->loss, 1e-5 * c->loss);
  check_gradients(model, c, block);
  model_pass_free(pass);

  shape.keep = false; /* as an evaluation runs it */
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  expect_ok(model_forward(pass, tokens, segments, SEQUENCES, &error));
  for (size_t r = 0; r < rows; r++) all[r] = r;
  model_losses(pass, all, targets, rows, losses);
  double total = 0;
  for (size_t r = 0; r < rows; r++) total += losses[r];
  expect_near("the loss without gradients", total, c->loss, 1e-5 * c->loss);
  check_logits(pass, c);
  model_pass_free(pass);

  model_parameters_free(&grads);
  memory_free(block);
  alibi_model_free(model);
}

static void check_all_cases(const char *isa, int threads)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  running = isa;
  expect_ok(alibi_context_new(&options, &context, &error));
  threads_share_all_work(context);
  for (size_t i = 0; i < CASES; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s, %s", golden_cases[i].name, isa);
    running = name;
    check_case(context, &golden_cases[i]);
  }
  alibi_context_free(context);
}

static void every_case_on_every_instruction_set(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < kernel_table_count(); i++)
    if (kernel_table_at(i)) check_all_cases(kernel_table_at(i)->name, 1);
}

static void every_case_with_threads(void **unused)
{
  (void)unused;
  check_all_cases(kernel_table_best()->name, 3);
}

/* The figures cover what the registries hold: a new row needs a case. */
static void every_row_has_a_case(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < position_method_count(); i++) {
    size_t found = 0;
    for (size_t k = 0; k < CASES; k++)
      found += strcmp(golden_cases[k].settings[0][1], position_method_at(i)->name) == 0;
    if (!found)
      fail_msg("no case in scripts/make_golden_model.py for position method '%s'", position_method_at(i)->name);
  }
  for (size_t i = 0; i < position_extension_count(); i++) {
    const char *name = position_extension_at(i)->name;
    size_t found = 0;
    for (size_t k = 0; k < CASES; k++)
      found += golden_cases[k].extension && strcmp(golden_cases[k].extension, name) == 0;
    if (!found) fail_msg("no case in scripts/make_golden_model.py for extension '%s'", name);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case_on_every_instruction_set),
      cmocka_unit_test(every_case_with_threads),
      cmocka_unit_test(every_row_has_a_case),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
