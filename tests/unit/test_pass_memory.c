/* Passes that take less memory give the same bits of loss and gradient, for every position method and kind of
 * block, any number of threads, with dropout: with recompute, which keeps of each block only its input and what
 * attention gave and makes the rest again, and with activations where gradients will lie.  They take the memory
 * they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

enum { VOCABULARY = 29, LENGTH = 24, SEQUENCES = 2, ROWS = 37 };

static const size_t counts[SEQUENCES] = {24, 13};
static alibi_error error;

typedef struct outcome {
  double loss;
  float *gradients;
  size_t floats;
} outcome;

/* Two steps with one pass: nothing of the first may be left in the second, nor of what lay in the gradients. */
static outcome run(const char *isa, int threads, const char *settings, double dropout, bool recompute,
                   bool in_gradients)
{
  alibi_context *context = tiny_context(isa, threads);
  alibi_model *model = tiny_model(context, settings);
  pass_shape shape = {.rows = ROWS, .segments = SEQUENCES, .length = LENGTH, .head_rows = 10, .keep = true,
                      .recompute = recompute, .in_gradients = in_gradients};
  outcome o = {.floats = model->list.floats};
  model_parameters pointers;
  uint32_t tokens[2 * ROWS], targets[2 * ROWS];
  model_pass *pass;
  assert_int_equal(memory_new(&o.gradients, o.floats, sizeof(float), "gradients", &error), ALIBI_OK);
  shape.gradients = in_gradients ? o.gradients : NULL;
  if (model_pass_new(model, &shape, &pass, &error) != ALIBI_OK) fail_msg("%s: %s", settings, error.message);
  assert_int_equal(model_parameters_new(&model->list, &model->config, o.gradients, &pointers, &error), ALIBI_OK);
  tiny_tokens(tokens, 2 * ROWS, 21, VOCABULARY);
  tiny_tokens(targets, 2 * ROWS, 22, VOCABULARY);
  for (size_t step = 0; step < 2; step++) {
    pass_segment segments[SEQUENCES] = {{.count = counts[0]}, {.count = counts[1]}};
    memset(o.gradients, in_gradients ? 0xff : 0, o.floats * sizeof(float));
    pass->dropout = (pass_dropout){.rate = dropout, .seed = 3, .step = step};
    assert_int_equal(model_forward(pass, tokens + step * ROWS, segments, SEQUENCES, &error), ALIBI_OK);
    o.loss += model_backward(pass, targets + step * ROWS, &pointers, NULL);
  }
  model_parameters_free(&pointers);
  model_pass_free(pass);
  alibi_model_free(model);
  alibi_context_free(context);
  return o;
}

static void check(const char *isa, int threads, const char *settings, double dropout)
{
  outcome kept = run(isa, 1, settings, dropout, false, false);
  for (int way = 1; way < 4; way++) {
    bool recompute = way & 1, in_gradients = way & 2;
    outcome other = run(isa, threads, settings, dropout, recompute, in_gradients);
    size_t at = tiny_floats_differ(kept.gradients, other.gradients, kept.floats);
    if (kept.loss != other.loss || at)
      fail_msg("%s, %d threads, dropout %g, recompute %d, in gradients %d: expected the bits of a pass that keeps "
               "all in memory of its own: loss %.17g and %.17g, gradients differ from %zu on",
               settings, threads, dropout, recompute, in_gradients, kept.loss, other.loss, at);
    memory_free(other.gradients);
  }
  memory_free(kept.gradients);
}

static void every_method_and_block(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t row = 0; row < position_method_count() + TINY_VARIANTS; row++) {
    if (row < position_method_count())
      snprintf(settings, sizeof settings, "layers=3 position=%s", position_method_at(row)->name);
    else
      snprintf(settings, sizeof settings, "layers=3 %s", tiny_variants[row - position_method_count()]);
    check(NULL, 1 + (int)(row % 3), settings, row % 2 ? 0.1 : 0);
  }
}

static void every_instruction_set(void **unused)
{
  (void)unused;
  for (size_t isa = 0; isa < kernel_table_count(); isa++) {
    if (!kernel_table_at(isa)) continue;
    for (int threads = 1; threads <= 3; threads++) {
      check(kernel_table_at(isa)->name, threads, "bias=true norm_bias=true qk_norm=true", 0.1);
      check(kernel_table_at(isa)->name, threads, TINY_MODERN, 0);
    }
  }
}

/* A block of width C keeps 2 C a row instead of 10 C, and some numbers for each head; what it makes again all
 * blocks share. */
static void memory(void **unused)
{
  (void)unused;
  enum { WIDE = 128, LONG = 1024 };
  size_t bytes[2][2];
  alibi_context *context = tiny_context(NULL, 1);
  for (int deep = 0; deep < 2; deep++) {
    alibi_model *model = tiny_model(context, deep ? "width=128 feed_forward=512 layers=12 train_length=1024"
                                                  : "width=128 feed_forward=512 layers=6 train_length=1024");
    pass_shape shape = {.rows = LONG, .segments = 1, .length = LONG, .head_rows = 64, .keep = true};
    for (int recompute = 0; recompute < 2; recompute++) {
      model_pass *pass;
      shape.recompute = recompute;
      bytes[deep][recompute] = model_pass_bytes(model, &shape);
      assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
      assert_true(bytes[deep][recompute] >= pass->memory.size &&
                  bytes[deep][recompute] < pass->memory.size + (1 << 16));
      model_pass_free(pass);
    }
    alibi_model_free(model);
  }
  for (int recompute = 0; recompute < 2; recompute++) {
    double columns = (double)(bytes[1][recompute] - bytes[0][recompute]) / (6.0 * LONG * sizeof(float) * WIDE);
    double expected = recompute ? 2 : 10;
    if (!(columns >= expected && columns <= expected + 0.2))
      fail_msg("a block: expected %g numbers a row and channel, found %.2f", expected, columns);
  }
  assert_true(bytes[1][1] < 0.4 * (double)bytes[1][0]);
  alibi_context_free(context);
}

/* 6 blocks of 12 C^2 parameters and R rows of some 10 C activations each, R = C: gradients of the first three hold
 * activations of the last three. */
static void memory_in_gradients(void **unused)
{
  (void)unused;
  enum { WIDE = 128 };
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "width=128 feed_forward=512 layers=6 train_length=128");
  pass_shape shape = {.rows = WIDE, .segments = 1, .length = WIDE, .head_rows = WIDE, .keep = true};
  size_t own = model_pass_bytes(model, &shape);
  shape.in_gradients = true;
  double blocks = (double)(own - model_pass_bytes(model, &shape)) / (10.0 * WIDE * WIDE * sizeof(float));
  if (!(blocks > 3 && blocks < 3.6))
    fail_msg("expected activations of three blocks in gradients, found %.2f", blocks);
  alibi_model_free(model);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_method_and_block),
      cmocka_unit_test(every_instruction_set),
      cmocka_unit_test(memory),
      cmocka_unit_test(memory_in_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
