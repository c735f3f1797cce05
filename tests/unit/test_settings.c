/* Structs of settings from callers of another version: a shorter one gives what it has and leaves the rest at its
 * default, a longer one is taken while it asks for nothing unknown, and what cannot be a size is one sentence.
 * Older structs lie in blocks of exactly their size, so that a sanitizer sees a byte read beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/session.h"
#include "alibi/train.h"
#include "base/settings.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { TEXT = 60 };

static alibi_context *context;
static alibi_error error;
static uint32_t text[TEXT];

typedef struct sizes {
  size_t size;
  double a, b;
} sizes;

static status take(const void *given, sizes *own)
{
  *own = (sizes){sizeof *own, 1.5, 2.5};
  return settings_take(given, own, sizeof *own, "sizes", &error);
}

static void shorter_and_longer(void **unused)
{
  (void)unused;
  sizes own;
  size_t only = sizeof only;
  assert_int_equal(take(&only, &own), ALIBI_OK);
  assert_true(own.size == sizeof own && own.a == 1.5 && own.b == 2.5);
  struct {
    size_t size;
    double a;
  } older = {sizeof older, 7};
  assert_int_equal(take(&older, &own), ALIBI_OK);
  assert_true(own.size == sizeof own && own.a == 7 && own.b == 2.5);
  sizes same = {sizeof same, 8, 9};
  assert_int_equal(take(&same, &own), ALIBI_OK);
  assert_memory_equal(&own, &same, sizeof own);
  struct {
    sizes known;
    uint64_t more[2];
  } newer = {{sizeof newer, 3, 4}, {0, 0}};
  assert_int_equal(take(&newer, &own), ALIBI_OK);
  assert_true(own.size == sizeof own && own.a == 3 && own.b == 4);
  newer.more[1] = (uint64_t)1 << 63; /* the last byte, on this end or the other */
  assert_int_equal(take(&newer, &own), ALIBI_INVALID);
  assert_string_equal(
      error.message,
      "sizes: expected at most the 24 bytes that this version knows, found 40 with more of them set "
      "(call sizes_init)");
  newer.more[1] = 1;
  assert_int_equal(take(&newer, &own), ALIBI_INVALID);
  assert_true(own.a == 1.5 && own.b == 2.5);
}

/* The other way: a struct that is written has its own size, and gets no more than it has room for. */
static void given_back(void **unused)
{
  (void)unused;
  const sizes own = {sizeof own, 3, 4};
  double filled[4];
  for (size_t size = 8; size <= sizeof filled; size += 8) {
    size_t found = 0;
    for (size_t i = 0; i < 4; i++) filled[i] = 9;
    memcpy(filled, &size, sizeof size);
    assert_int_equal(settings_size(filled, sizeof own, "sizes", &found, &error), ALIBI_OK);
    assert_true(found == size);
    settings_give(&own, sizeof own, filled);
    assert_memory_equal(filled, &size, sizeof size);
    assert_true(filled[1] == (size >= 16 ? 3 : 9) && filled[2] == (size >= 24 ? 4 : 9) && filled[3] == 9);
  }
}

static void impossible_sizes(void **unused)
{
  (void)unused;
  static const size_t wrong[] = {0, 1, 7, 9, 23, 25, 1 << 20, SIZE_MAX, SIZE_MAX - 7};
  sizes own;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(take(&wrong[i], &own), ALIBI_INVALID);
    scratch_says(error.message, "sizes: expected its size in its first field, 24 bytes here, found");
    scratch_says(error.message, "sizes_init");
    assert_true(own.size == sizeof own && own.a == 1.5 && own.b == 2.5);
  }
  assert_int_equal(take(NULL, &own), ALIBI_INVALID);
  scratch_says(error.message, "sizes_init");
  assert_int_equal(settings_take(NULL, &own, sizeof own, "sizes", NULL), ALIBI_INVALID);
}

/* The first `size` bytes of a struct, as an older header has it; free() them. */
static void *older(const void *whole, size_t size)
{
  void *block = malloc(size);
  assert_non_null(block);
  memcpy(block, whole, size);
  memcpy(block, &size, sizeof size);
  return block;
}

static void invalid(status result, const char *name)
{
  assert_int_equal(result, ALIBI_INVALID);
  scratch_says(error.message, name);
}

static void contexts(void **unused)
{
  (void)unused;
  alibi_context_options whole;
  alibi_context *made;
  alibi_context_options_init(&whole);
  whole.threads = 3;
  whole.isa = "no such one";
  alibi_context_options *old = older(&whole, offsetof(alibi_context_options, isa));
  assert_int_equal(alibi_context_new(old, &made, &error), ALIBI_OK);
  assert_int_equal(alibi_context_threads(made), 3);
  alibi_context_free(made);
  free(old);
  whole.size = 0;
  invalid(alibi_context_new(&whole, &made, &error), "alibi_context_options_init");
  assert_null(made);
}

static void configurations(void **unused)
{
  (void)unused;
  alibi_model_config whole = tiny_config("position=rope qk_norm=true");
  alibi_model *model;
  alibi_model_config *old = older(&whole, offsetof(alibi_model_config, initial_deviation));
  assert_int_equal(alibi_model_config_check(old, &error), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, old, 1, &model, &error), ALIBI_OK);
  const alibi_model_config *made = alibi_model_get_config(model);
  assert_true(made->size == sizeof *made);
  assert_int_equal(made->vocabulary, 29);
  assert_true(made->qk_norm);
  assert_true(made->initial_deviation == 0.02);
  assert_string_equal(made->position, "alibi");
  alibi_model_free(model);
  assert_int_equal(alibi_model_config_set(old, "layers", "3", &error), ALIBI_OK);
  int64_t layers;
  memcpy(&layers, (const char *)old + offsetof(alibi_model_config, layers), sizeof layers);
  assert_int_equal(layers, 3);
  invalid(alibi_model_config_set(old, "initial_deviation", "0.5", &error),
          "initial_deviation"); /* it has no such field */
  invalid(alibi_model_config_set(old, "position", "none", &error), "position");
  assert_int_equal(alibi_model_config_set(old, "position", "alibi", &error), ALIBI_OK); /* as it is */
  assert_true(*(size_t *)(void *)old == offsetof(alibi_model_config, initial_deviation));
  free(old);
  whole.size = 0;
  invalid(alibi_model_config_set(&whole, "layers", "3", &error), "alibi_model_config_init");
  invalid(alibi_model_config_check(&whole, &error), "alibi_model_config_init");
  invalid(alibi_model_new(context, &whole, 1, &model, &error), "alibi_model_config_init");
  assert_null(model);
}

static void sessions(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=rope");
  alibi_session *session;
  alibi_session_options whole;
  alibi_session_options_init(&whole);
  whole.capacity = 5;
  whole.extend = "no such one";
  alibi_session_options *old = older(&whole, offsetof(alibi_session_options, extend));
  assert_int_equal(alibi_session_new(model, old, &session, &error), ALIBI_OK);
  assert_int_equal(alibi_session_capacity(session), 5);
  alibi_session_free(session);
  free(old);
  whole.size = 0;
  invalid(alibi_session_new(model, &whole, &session, &error), "alibi_session_options_init");
  assert_null(session);
  alibi_model_free(model);
}

static void samplings(void **unused)
{
  (void)unused;
  static const float logits[] = {1, 3, 2, 0};
  alibi_sampling whole;
  uint32_t token = 9;
  alibi_sampling_init(&whole);
  whole.top_k = 1;
  whole.top_p = -1;
  alibi_sampling *old = older(&whole, offsetof(alibi_sampling, top_p));
  assert_int_equal(alibi_sample(logits, 4, old, 0, &token, &error), ALIBI_OK);
  assert_int_equal(token, 1);
  free(old);
  whole.size = 0;
  invalid(alibi_sample(logits, 4, &whole, 0, &token, &error), "alibi_sampling_init");
}

static void trainings(void **unused)
{
  (void)unused;
  alibi_model_config config = tiny_config("position=alibi");
  alibi_train_options whole;
  alibi_trainer *trainer;
  alibi_train_report report;
  alibi_train_options_init(&whole);
  whole.batch_tokens = 48;
  whole.clip = -1;
  alibi_train_options *old = older(&whole, offsetof(alibi_train_options, clip));
  alibi_model_config *old_config = older(&config, offsetof(alibi_model_config, initial_deviation));
  assert_int_equal(alibi_trainer_new(context, old_config, old, text, TEXT, &trainer, &error), ALIBI_OK);
  assert_int_equal(alibi_trainer_step(trainer, &report, &error), ALIBI_OK);
  assert_int_equal(report.tokens, 48);
  alibi_trainer_free(trainer);
  free(old);
  free(old_config);
  whole.clip = 1;
  whole.size = 0;
  invalid(alibi_trainer_new(context, &config, &whole, text, TEXT, &trainer, &error), "alibi_train_options_init");
  assert_null(trainer);
  alibi_train_options_init(&whole);
  config.size = 0;
  invalid(alibi_trainer_new(context, &config, &whole, text, TEXT, &trainer, &error), "alibi_model_config_init");
}

static void evaluations(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=alibi");
  alibi_evaluate_options whole;
  alibi_evaluate_result result;
  alibi_evaluate_options_init(&whole);
  whole.window = 8;
  whole.max_targets = 20;
  whole.extend = "no such one";
  whole.batch_tokens = -1;
  alibi_evaluate_options *old = older(&whole, offsetof(alibi_evaluate_options, extend));
  assert_int_equal(alibi_evaluate(model, text, TEXT, NULL, old, &result, &error), ALIBI_OK);
  assert_int_equal(result.tokens, 20);
  free(old);
  whole.size = 0;
  invalid(alibi_evaluate(model, text, TEXT, NULL, &whole, &result, &error), "alibi_evaluate_options_init");
  alibi_model_free(model);
}

static int setup(void **unused)
{
  (void)unused;
  context = tiny_context(NULL, 1);
  tiny_tokens(text, TEXT, 1, 29);
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shorter_and_longer), cmocka_unit_test(impossible_sizes), cmocka_unit_test(contexts),
      cmocka_unit_test(configurations),     cmocka_unit_test(sessions),         cmocka_unit_test(samplings),
      cmocka_unit_test(trainings),          cmocka_unit_test(evaluations),      cmocka_unit_test(given_back),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
