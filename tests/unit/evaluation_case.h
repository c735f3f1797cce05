/* Small models and texts of ids for tests of alibi_evaluation, and its calls, which must not fail. */
#ifndef UNIT_EVALUATION_CASE_H
#define UNIT_EVALUATION_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/random.h"
#include "model/model.h"
#include <cmocka.h>

#include "threads.h"
#include "unit/scratch.h"

enum { VOCABULARY = 37, TEXT = 3000 };

static uint32_t text[TEXT];

static inline void make_text(void)
{
  for (size_t i = 0; i < TEXT; i++) text[i] = (uint32_t)(random_bits(7, 1, i) % VOCABULARY);
}

static inline alibi_context *make_context(int threads)
{
  alibi_context_options options;
  alibi_context *context;
  alibi_context_options_init(&options);
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  threads_share_all_work(context);
  return context;
}

static inline alibi_model *make_model(alibi_context *context, const char *position, uint64_t seed)
{
  alibi_model_config config;
  alibi_model *model;
  alibi_model_config_init(&config);
  config.vocabulary = VOCABULARY;
  config.layers = 2;
  config.width = 24;
  config.heads = 2;
  config.train_length = 16;
  config.initial_deviation = 0.5;
  assert_int_equal(alibi_model_config_set(&config, "position", position, NULL), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &config, seed, &model, NULL), ALIBI_OK);
  return model;
}

static inline alibi_evaluate_options with(int protocol, int64_t window, int64_t stride)
{
  alibi_evaluate_options o;
  alibi_evaluate_options_init(&o);
  o.protocol = protocol;
  o.window = window;
  o.stride = stride;
  return o;
}

static inline alibi_evaluation *begin(alibi_model *model, size_t count, const size_t *documents,
                                      size_t document_count)
{
  alibi_error error = {0};
  alibi_evaluation *e;
  if (alibi_evaluation_new(model, text, count, documents, document_count, &e, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return e;
}

static inline size_t add(alibi_evaluation *e, alibi_evaluate_options o)
{
  alibi_error error = {0};
  size_t row;
  if (alibi_evaluation_add(e, &o, &row, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return row;
}

static inline void run(alibi_evaluation *e)
{
  alibi_error error = {0};
  if (alibi_evaluation_run(e, NULL, NULL, NULL, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static inline alibi_evaluate_result result(const alibi_evaluation *e, size_t row, int64_t document)
{
  alibi_error error = {0};
  alibi_evaluate_result r;
  if (alibi_evaluation_result(e, row, document, NULL, &r, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return r;
}

static inline alibi_target target(const alibi_evaluation *e, size_t row, int64_t i)
{
  alibi_error error = {0};
  alibi_target t;
  if (alibi_evaluation_target(e, row, i, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return t;
}

static inline void expect_same_losses(const alibi_evaluation *a, size_t row_a, const alibi_evaluation *b,
                                      size_t row_b)
{
  int64_t count = alibi_evaluation_target_count(a, row_a);
  assert_int_equal(count, alibi_evaluation_target_count(b, row_b));
  for (int64_t i = 0; i < count; i++) {
    alibi_target s = target(a, row_a, i), t = target(b, row_b, i);
    assert_int_equal(s.token, t.token);
    assert_int_equal(s.context, t.context);
    assert_true(s.nll == t.nll);
  }
}

#endif
