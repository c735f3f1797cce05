/* Many rows at once: what is shared against separate runs, documents, a beginning token, and what is computed from
 * losses against its definition. */
#include "evaluate/evaluation.h"
#include "unit/evaluation_case.h"

/* --- models that are known --- */

static void test_oracle_has_perplexity_1(void **state)
{
  (void)state;
  enum { CYCLE = 16 };
  alibi_context *context = make_context(1);
  alibi_model_config config;
  alibi_model *model;
  static uint32_t cycle[300];
  static const size_t documents[] = {0, 100, 101, 103};
  for (uint32_t i = 0; i < 300; i++) cycle[i] = i % CYCLE;
  alibi_model_config_init(&config);
  config.vocabulary = config.width = CYCLE;
  config.layers = 1;
  config.heads = 2;
  config.train_length = 16;
  config.tied = false;
  assert_int_equal(alibi_model_new(context, &config, 3, &model, NULL), ALIBI_OK);
  memset(model->values, 0, model->list.floats * sizeof *model->values);
  for (size_t c = 0; c < CYCLE; c++) {
    model->parameters.final_norm_gain[c] = 1;
    model->parameters.embedding[c * CYCLE + c] = 1;
    model->parameters.output_weight[(c + 1) % CYCLE * CYCLE + c] = 50;
  }
  for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++)
    for (int64_t beginning = -1; beginning < 2; beginning++) {
      alibi_evaluation *e;
      alibi_evaluate_options o = with(protocol, 10, 3);
      o.beginning = beginning;
      assert_int_equal(alibi_evaluation_new(model, cycle, 300, documents, 4, &e, NULL), ALIBI_OK);
      size_t row = add(e, o);
      run(e);
      alibi_evaluate_result r = result(e, row, -1);
      assert_true(fabs(r.perplexity - 1) < 1e-6 && fabs(r.nll) < 1e-6);
      if (protocol != ALIBI_FIXED_TARGET) assert_int_equal(r.tokens, 99 + 0 + 1 + 196);
      alibi_evaluation_free(e);
    }
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_uniform_model_with_documents_and_a_beginning(void **state)
{
  (void)state;
  static const size_t documents[] = {0, 1500, 1502, 2100};
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  memset(model->values, 0, model->list.floats * sizeof *model->values);
  for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++) {
    alibi_evaluation *e = begin(model, TEXT, documents, 4);
    alibi_evaluate_options o = with(protocol, 20, 0);
    o.beginning = 5;
    size_t row = add(e, o);
    run(e);
    assert_true(fabs(result(e, row, -1).perplexity - VOCABULARY) < 1e-6 * VOCABULARY);
    assert_true(fabs(result(e, row, 3).perplexity - VOCABULARY) < 1e-6 * VOCABULARY);
    alibi_evaluation_free(e);
  }
  alibi_model_free(model);
  alibi_context_free(context);
}

/* --- rows together --- */

static void test_rows_together_have_the_bits_of_rows_alone(void **state)
{
  (void)state;
  static const size_t documents[] = {0, 150, 151, 200};
  static const struct {
    int protocol;
    int64_t window, stride;
  } kinds[] = {{ALIBI_SLIDING, 16, 4},      {ALIBI_NONOVERLAPPING, 16, 0}, {ALIBI_SLIDING, 16, 16},
               {ALIBI_FIXED_TARGET, 16, 0}, {ALIBI_SLIDING, 16, 6},        {ALIBI_NONOVERLAPPING, 32, 0},
               {ALIBI_STREAMING, 16, 4},    {ALIBI_SLIDING, 32, 8},        {ALIBI_FIXED_TARGET, 32, 0},
               {ALIBI_STREAMING, 16, 16},   {ALIBI_SLIDING, 2, 1},         {ALIBI_SLIDING, 2000, 0},
               {ALIBI_NONOVERLAPPING, 7, 0}};
  enum { KINDS = sizeof kinds / sizeof kinds[0] };
  static const char *const methods[] = {"alibi", "rope"};
  for (int m = 0; m < 2; m++)
    for (int cut = 0; cut < 2; cut++)
      for (int threads = 1; threads <= 2; threads++) {
        alibi_context *context = make_context(threads);
        alibi_model *model = make_model(context, methods[m], 3);
        const size_t *starts = cut ? documents : NULL;
        alibi_evaluation *all = begin(model, 400, starts, 4);
        for (size_t extended = 0; extended < 2; extended++)
          for (size_t k = 0; k < KINDS; k++) {
            alibi_evaluate_options o = with(kinds[k].protocol, kinds[k].window, kinds[k].stride);
            o.extend = extended && m ? "ntk" : NULL;
            o.shortest = o.window < 16 ? 0 : 16;
            o.longest = o.window > 32 ? 0 : 32;
            assert_int_equal(add(all, o), k + extended * KINDS);
          }
        run(all);
        for (size_t k = 0; k < 2 * KINDS; k++) {
          alibi_evaluate_options o =
              with(kinds[k % KINDS].protocol, kinds[k % KINDS].window, kinds[k % KINDS].stride);
          o.extend = k >= KINDS && m ? "ntk" : NULL;
          o.shortest = o.window < 16 ? 0 : 16;
          o.longest = o.window > 32 ? 0 : 32;
          o.batch_tokens = 1 + (int64_t)k * 17;
          alibi_evaluation *one = begin(model, 400, starts, 4);
          add(one, o);
          run(one);
          expect_same_losses(all, k, one, 0);
          alibi_evaluate_result a = result(all, k, -1), b = result(one, 0, -1);
          assert_true(a.nll == b.nll && a.tokens == b.tokens);
          assert_true(a.late_nll == b.late_nll || (isnan(a.late_nll) && isnan(b.late_nll)));
          assert_int_equal(a.stride, b.stride);
          alibi_evaluation_free(one);
        }
        alibi_evaluation_free(all);
        assert_null(model->packed);
        alibi_model_free(model);
        alibi_context_free(context);
      }
}

/* What several rows read is read once, and counted with the first of them. */
static void test_shared_windows_are_run_once(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  alibi_evaluation *e = begin(model, 161, NULL, 0);
  size_t sliding = add(e, with(ALIBI_SLIDING, 16, 4)), apart = add(e, with(ALIBI_NONOVERLAPPING, 16, 0));
  size_t eight = add(e, with(ALIBI_SLIDING, 16, 8)), other = add(e, with(ALIBI_NONOVERLAPPING, 32, 0));
  size_t fixed = add(e, with(ALIBI_FIXED_TARGET, 16, 0)), streaming = add(e, with(ALIBI_STREAMING, 16, 8));
  run(e);
  assert_int_equal(result(e, sliding, -1).input_tokens, 37 * 16);
  assert_int_equal(result(e, apart, -1).input_tokens, 0);
  assert_int_equal(result(e, eight, -1).input_tokens, 0);
  assert_int_equal(result(e, other, -1).input_tokens, 160);
  assert_int_equal(result(e, fixed, -1).input_tokens, 0); /* T = 4: the windows of sliding(16, 4) */
  assert_int_equal(result(e, streaming, -1).input_tokens, 160);
  assert_true(result(e, sliding, -1).seconds > 0 && result(e, apart, -1).seconds == 0);
  size_t late = add(e, with(ALIBI_NONOVERLAPPING, 16, 0)); /* a later run shares nothing with the first */
  alibi_evaluate_result r;
  alibi_error error = {0};
  assert_int_equal(alibi_evaluation_result(e, late, -1, NULL, &r, &error), ALIBI_INVALID);
  scratch_says(error.message, "row 6: expected one that was run");
  run(e);
  assert_int_equal(result(e, late, -1).input_tokens, 160);
  expect_same_losses(e, late, e, apart);
  assert_int_equal(alibi_evaluation_result(e, 7, -1, NULL, &r, &error), ALIBI_INVALID);
  scratch_says(error.message, "row 7: expected one of the 7 that were added");
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* --- documents --- */

static void test_documents_are_texts_of_their_own(void **state)
{
  (void)state;
  static const size_t starts[] = {0, 0, 300, 301, 303, 330, 1000, 2400},
                      ends[] = {0, 300, 301, 303, 330, 1000, 2400, 2500};
  enum { DOCUMENTS = 8 };
  alibi_context *context = make_context(2);
  alibi_model *model = make_model(context, "rope", 3);
  for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++)
    for (int64_t beginning = -1; beginning <= 4; beginning += 5) {
      alibi_evaluate_options o = with(protocol, 32, 8);
      o.beginning = beginning;
      alibi_evaluation *e = begin(model, 2500, starts, DOCUMENTS);
      size_t row = add(e, o);
      run(e);
      double sum = 0;
      int64_t tokens = 0, at = 0, scored = 0;
      for (size_t d = 0; d < DOCUMENTS; d++) {
        alibi_evaluation *one;
        alibi_evaluate_result found;
        alibi_error error = {0};
        size_t length = ends[d] - starts[d], needed = protocol != ALIBI_FIXED_TARGET ? 2 : beginning < 0 ? 33 : 32;
        if (length < needed) {
          assert_int_equal(alibi_evaluation_result(e, row, (int64_t)d, NULL, &found, &error), ALIBI_INVALID);
          char expected[128];
          snprintf(expected, sizeof expected, "nothing of it is scored: it has %zu tokens, %zu are needed", length,
                   needed);
          scratch_says(error.message, expected);
          continue;
        }
        assert_int_equal(alibi_evaluation_new(model, text + starts[d], length, NULL, 0, &one, NULL), ALIBI_OK);
        add(one, o);
        run(one);
        alibi_evaluate_result a = result(e, row, (int64_t)d), b = result(one, 0, -1);
        assert_true(a.nll == b.nll && a.tokens == b.tokens && a.early_tokens == b.early_tokens);
        assert_true(isnan(a.nll_standard_error) == isnan(b.nll_standard_error));
        assert_int_equal(a.longest_window,
                         length - 1 + (beginning >= 0) < 32 ? length - 1 + (beginning >= 0) : 32);
        assert_int_equal(a.documents, 1);
        for (int64_t i = 0; i < b.tokens; i++, at++) {
          alibi_target s = target(e, row, at), t = target(one, 0, i);
          assert_int_equal(s.document, d);
          assert_int_equal(s.token, t.token + (int64_t)starts[d]);
          assert_int_equal(s.context, t.context);
          assert_true(s.nll == t.nll);
          sum += s.nll;
        }
        tokens += b.tokens;
        scored++;
        alibi_evaluation_free(one);
      }
      alibi_evaluate_result r = result(e, row, -1);
      assert_int_equal(r.tokens, tokens);
      assert_true(r.nll == sum / (double)tokens);
      assert_int_equal(r.documents, scored);
      assert_int_equal(r.documents_left_out, DOCUMENTS - scored);
      if (protocol != ALIBI_FIXED_TARGET) assert_int_equal(scored, 6); /* none of 0 and of 1 token */
      alibi_evaluation_free(e);
    }
  alibi_model_free(model);
  alibi_context_free(context);
}

/* Where N <= W there is one window, whatever it is called. */
static void test_protocols_agree_on_a_short_text(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "t5", 3);
  for (size_t count = 2; count <= 33; count++) {
    alibi_evaluation *e = begin(model, count, NULL, 0);
    size_t first = add(e, with(ALIBI_NONOVERLAPPING, 32, 0));
    for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++)
      for (int64_t stride = 1; stride <= 32 && protocol != ALIBI_FIXED_TARGET; stride += 31)
        add(e, with(protocol, 32, stride));
    run(e);
    for (size_t row = 0; row < 7; row++) {
      expect_same_losses(e, row, e, first);
      assert_int_equal(result(e, row, -1).longest_window, count - 1);
      assert_int_equal(result(e, row, -1).tokens, count - 1);
      assert_int_equal(result(e, row, -1).window, 32);
    }
    alibi_evaluation_free(e);
  }
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_limits_over_documents(void **state)
{
  (void)state;
  static const size_t starts[] = {0, 100, 300};
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  alibi_evaluation *e = begin(model, 1000, starts, 3);
  alibi_evaluate_options o = with(ALIBI_SLIDING, 16, 0);
  o.max_targets = 150; /* 99 of the first, 51 of the second */
  size_t row = add(e, o);
  o = with(ALIBI_FIXED_TARGET, 16, 0);
  o.max_targets = 40; /* T = 4: 10 of 21 + 46 + 171 places */
  size_t fixed = add(e, o);
  run(e);
  alibi_evaluate_result none;
  alibi_error error = {0};
  assert_int_equal(alibi_evaluation_result(e, row, 2, NULL, &none, &error), ALIBI_INVALID);
  scratch_says(error.message, "document 2: nothing of it is scored: the others have the 150 of max_targets");
  alibi_evaluate_result r = result(e, row, -1);
  assert_int_equal(r.tokens, 150);
  assert_int_equal(r.documents, 2);
  assert_int_equal(r.documents_left_out, 1);
  assert_int_equal(result(e, row, 1).tokens, 51);
  assert_int_equal(result(e, fixed, -1).tokens, 40);
  for (int64_t i = 0; i < 10; i++) {
    size_t place = (size_t)i * 238 / 10, document = place < 21 ? 0 : place < 67 ? 1 : 2;
    size_t own = place - (document == 0 ? 0 : document == 1 ? 21 : 67);
    assert_int_equal(target(e, fixed, 4 * i + 3).token, starts[document] + 16 + 4 * own);
  }
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void refuse_documents(alibi_model *model, const size_t *starts, size_t count, const char *sentence)
{
  alibi_error error = {0};
  alibi_evaluation *e;
  assert_int_equal(alibi_evaluation_new(model, text, 50, starts, count, &e, &error), ALIBI_INVALID);
  assert_null(e);
  scratch_says(error.message, sentence);
}

static void test_refusals(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "learned", 3);
  size_t late[] = {1, 20}, back[] = {0, 30, 20}, beyond[] = {0, 51}, short_ones[] = {0, 1, 2, 49};
  refuse_documents(model, late, 2, "expected the first one at token 0, found it elsewhere");
  refuse_documents(model, late, 0, "expected the first one at token 0, found none");
  refuse_documents(model, back, 3, "document 2: expected to begin between");
  refuse_documents(model, beyond, 2, "document 1: expected to begin between");
  alibi_error error = {0};
  alibi_evaluation *e = begin(model, 50, short_ones, 4);
  alibi_evaluate_options o = with(ALIBI_FIXED_TARGET, 48, 0);
  assert_int_equal(alibi_evaluation_add(e, &o, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "the longest of 4 documents has 47 tokens, 49 are needed");
  o = with(ALIBI_STREAMING, 8, 4); /* positions go on beyond those that there are */
  assert_int_equal(alibi_evaluation_add(e, &o, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "does not exist");
  o = with(ALIBI_STREAMING, 8, 9);
  assert_int_equal(alibi_evaluation_add(e, &o, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "stride: expected at most the window of 8 tokens, found 9");
  o = with(ALIBI_SLIDING, 8, 4);
  o.beginning = VOCABULARY;
  assert_int_equal(alibi_evaluation_add(e, &o, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "beginning: expected a token below the vocabulary of 37, found 37");
  o.beginning = -1;
  o.shortest = 1;
  assert_int_equal(alibi_evaluation_add(e, &o, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "shortest: expected at least 2, found 1");
  run(e); /* of no rows */
  alibi_target t;
  assert_int_equal(alibi_evaluation_target_count(e, 0), 0);
  o.shortest = 0;
  add(e, o); /* what failed is not there */
  run(e);
  assert_int_equal(alibi_evaluation_target_count(e, 0), 46);
  assert_int_equal(alibi_evaluation_target(e, 0, 46, &t, &error), ALIBI_INVALID);
  scratch_says(error.message, "target 46: expected one of 46");
  assert_int_equal(alibi_evaluation_target(e, 0, -1, &t, &error), ALIBI_INVALID);
  alibi_evaluate_result r;
  assert_int_equal(alibi_evaluation_result(e, 0, 4, NULL, &r, &error), ALIBI_INVALID);
  scratch_says(error.message, "document 4: expected one of 4");
  alibi_evaluation_free(e);
  alibi_evaluation_free(NULL);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* --- a beginning token --- */

/* Windows of a text that has the token before each stretch. */
static void test_beginning_token_stands_in_every_window(void **state)
{
  (void)state;
  enum { N = 60, W = 10, ROOM = W - 1, BEGINNING = 9 };
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "sinusoidal", 3);
  for (int64_t stride = ROOM; stride > 0; stride -= 4) { /* 9: apart, 5, 1 */
    alibi_evaluation *e = begin(model, N, NULL, 0);
    alibi_evaluate_options o = with(ALIBI_SLIDING, W, stride);
    o.beginning = BEGINNING;
    size_t row = add(e, o);
    run(e);
    assert_int_equal(alibi_evaluation_target_count(e, row), N - 1);
    for (int64_t i = 0; i < N - 1; i++) {
      alibi_target t = target(e, row, i);
      uint32_t begun[W + 1] = {BEGINNING};
      size_t read = (size_t)t.context - 1; /* of the text */
      alibi_evaluation *one;
      assert_int_equal(t.token, i + 1);
      assert_true(t.context <= W);
      if (t.token <= ROOM) assert_int_equal(t.context, t.token + 1);
      else if (stride < ROOM) assert_true(t.context > W - stride);
      for (size_t k = 0; k <= read; k++) begun[k + 1] = text[(size_t)t.token - read + k];
      assert_int_equal(alibi_evaluation_new(model, begun, read + 2, NULL, 0, &one, NULL), ALIBI_OK);
      add(one, with(ALIBI_NONOVERLAPPING, W, 0));
      run(one);
      assert_true(target(one, 0, (int64_t)read).nll == t.nll);
      alibi_evaluation_free(one);
    }
    assert_int_equal(result(e, row, -1).stride, stride);
    alibi_evaluation_free(e);
  }
  alibi_evaluation *e = begin(model, N, NULL, 0);
  alibi_evaluate_options o = with(ALIBI_NONOVERLAPPING, W, 0), s = with(ALIBI_SLIDING, W, W),
                         f = with(ALIBI_STREAMING, W, W);
  o.beginning = s.beginning = f.beginning = BEGINNING;
  add(e, o), add(e, s), add(e, f);
  o.beginning = 3; /* another, and another bit of it: nothing is shared with the first */
  add(e, o);
  run(e);
  expect_same_losses(e, 0, e, 1);
  assert_int_equal(result(e, 0, -1).stride, ROOM);
  assert_int_equal(result(e, 1, -1).stride, ROOM);
  assert_int_equal(result(e, 2, -1).stride, W);
  for (int64_t i = 0; i < ROOM; i++) assert_true(target(e, 2, i).nll == target(e, 0, i).nll); /* the first piece */
  assert_true(target(e, 3, 20).nll != target(e, 0, 20).nll);
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* --- what is computed from losses --- */

static void test_early_tokens(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  alibi_evaluation *e = begin(model, TEXT, NULL, 0);
  alibi_evaluate_options o = with(ALIBI_NONOVERLAPPING, 16, 0);
  add(e, o);
  o.early = 9;
  add(e, o);
  o.early = 1;
  add(e, o);
  o.early = 17;
  add(e, o);
  run(e);
  static const int64_t few[] = {4, 9, 1, 17};
  for (size_t row = 0; row < 4; row++) {
    alibi_evaluate_result r = result(e, row, -1);
    double early = 0, late = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < TEXT - 1; i++) {
      alibi_target t = target(e, row, i);
      assert_int_equal(t.context, i % 16 + 1);
      if (t.context < few[row]) early += t.nll, count++;
      else late += t.nll;
    }
    assert_int_equal(r.early, few[row]);
    assert_int_equal(r.early_tokens, count);
    if (count) assert_true(r.early_nll == early / (double)count);
    else assert_true(isnan(r.early_nll));
    if (count < TEXT - 1) assert_true(r.late_nll == late / (double)(TEXT - 1 - count));
    else assert_true(isnan(r.late_nll) && isnan(r.late_standard_error));
    if (row < 2) assert_true(r.late_standard_error > 0 && r.late_standard_error != r.nll_standard_error);
    if (row == 2) assert_true(r.late_nll == r.nll && r.late_standard_error == r.nll_standard_error);
  }
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_differences(void **state)
{
  (void)state;
  static const size_t starts[] = {0, 2200}, other_starts[] = {0, 2201};
  alibi_context *context = make_context(1);
  alibi_model *first = make_model(context, "alibi", 3), *second = make_model(context, "rope", 4);
  alibi_evaluation *a = begin(first, TEXT, starts, 2), *b = begin(second, TEXT, starts, 2);
  alibi_evaluation *c = begin(second, TEXT, other_starts, 2);
  size_t row_a = add(a, with(ALIBI_NONOVERLAPPING, 16, 0)), row_b = add(b, with(ALIBI_SLIDING, 24, 5));
  size_t fixed = add(b, with(ALIBI_FIXED_TARGET, 24, 0)), row_c = add(c, with(ALIBI_SLIDING, 24, 5));
  alibi_difference d;
  alibi_error error = {0};
  assert_int_equal(alibi_evaluation_compare(a, row_a, b, row_b, &d, &error), ALIBI_INVALID);
  scratch_says(error.message, "row 0: expected one that was run");
  run(a), run(b), run(c);
  assert_int_equal(alibi_evaluation_compare(a, row_a, b, row_b, &d, NULL), ALIBI_OK);
  /* Blocks: 1100 and 1099 of the first document's 2199 targets (1099 first), all 799 of the second. */
  double sums[3] = {0}, sizes[3] = {1099, 1100, 799}, total = 0, squares = 0;
  for (int64_t i = 0; i < TEXT - 2; i++) {
    double difference = target(b, row_b, i).nll - target(a, row_a, i).nll;
    sums[i < 1099 ? 0 : i < 2199 ? 1 : 2] += difference;
    total += difference;
  }
  for (int i = 0; i < 3; i++) squares += pow(sums[i] - sizes[i] * total / (TEXT - 2), 2);
  assert_int_equal(d.tokens, TEXT - 2);
  assert_true(fabs(d.nll - total / (TEXT - 2)) < 1e-12);
  assert_true(fabs(d.standard_error - sqrt(squares * 3 / 2) / (TEXT - 2)) < 1e-12);
  assert_int_equal(alibi_evaluation_compare(a, row_a, a, row_a, &d, NULL), ALIBI_OK);
  assert_true(d.nll == 0 && d.standard_error == 0);
  assert_int_equal(alibi_evaluation_compare(a, row_a, b, fixed, &d, &error), ALIBI_INVALID);
  scratch_says(error.message, "expected rows that score the same tokens, found 2998 of nonoverlapping and");
  assert_int_equal(alibi_evaluation_compare(a, row_a, c, row_c, &d, &error), ALIBI_INVALID);
  scratch_says(error.message, "found two texts");
  alibi_evaluation_free(a), alibi_evaluation_free(b), alibi_evaluation_free(c);
  alibi_model_free(first), alibi_model_free(second);
  alibi_context_free(context);
}

static void test_losses_by_place(void **state)
{
  (void)state;
  enum { W = 150, WINDOWS = (TEXT - 1) / W };
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  alibi_evaluation *e = begin(model, TEXT, NULL, 0);
  size_t row = add(e, with(ALIBI_NONOVERLAPPING, W, 0)), sliding = add(e, with(ALIBI_SLIDING, W, 50));
  alibi_evaluate_options o = with(ALIBI_NONOVERLAPPING, W + 1, 0);
  o.beginning = 2;
  size_t begun = add(e, o), whole = add(e, with(ALIBI_NONOVERLAPPING, TEXT - 1, 0));
  run(e);
  static double nll[TEXT], band[TEXT];
  int64_t windows;
  assert_int_equal(alibi_evaluation_positions(e, row, nll, band, &windows, NULL), ALIBI_OK);
  assert_int_equal(windows, WINDOWS);
  for (int64_t i = 0; i < W; i++) {
    int64_t side = i < 50 ? i : 50;
    if (W - 1 - i < side) side = W - 1 - i;
    double mean = 0, square = 0, each[WINDOWS] = {0};
    for (int64_t w = 0; w < WINDOWS; w++) {
      for (int64_t k = i - side; k <= i + side; k++)
        each[w] += target(e, row, w * W + k).nll / (double)(2 * side + 1);
      mean += each[w] / WINDOWS;
    }
    for (int64_t w = 0; w < WINDOWS; w++) square += (each[w] - mean) * (each[w] - mean);
    assert_true(fabs(nll[i] - mean) < 1e-9);
    assert_true(fabs(band[i] - 1.959963984540054 * sqrt(square / (WINDOWS - 1) / WINDOWS)) < 1e-9);
  }
  assert_int_equal(alibi_evaluation_positions(e, begun, nll, band, &windows, NULL), ALIBI_OK);
  assert_true(isnan(nll[0]) && isnan(band[0]) && isfinite(nll[1]) && isfinite(band[W]));
  assert_int_equal(windows, WINDOWS);
  assert_int_equal(alibi_evaluation_positions(e, whole, nll, band, &windows, NULL), ALIBI_OK);
  assert_int_equal(windows, 1);
  assert_true(nll[0] == target(e, whole, 0).nll && isnan(band[0]));
  alibi_error error = {0};
  assert_int_equal(alibi_evaluation_positions(e, sliding, nll, band, &windows, &error), ALIBI_INVALID);
  scratch_says(error.message, "expected a row of nonoverlapping windows, found one of sliding");
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* More memory than any machine has, known before the run or, as when others take it meanwhile, only in it. */
static void test_rows_without_memory_leave_the_others(void **state)
{
  (void)state;
  const int64_t too_long = 1 << 30;
  alibi_context *context = make_context(1);
  alibi_model_config config;
  alibi_model *model;
  alibi_model_config_init(&config);
  config.vocabulary = VOCABULARY;
  config.layers = 1;
  config.width = 512; /* 2 TiB of embeddings */
  config.heads = 8;
  config.train_length = 16;
  assert_int_equal(alibi_model_config_set(&config, "position", "sinusoidal", NULL), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &config, 3, &model, NULL), ALIBI_OK);
  alibi_evaluation *e = begin(model, 300, NULL, 0), *alone = begin(model, 300, NULL, 0);
  alibi_evaluate_options o = with(ALIBI_SLIDING, too_long, 0);
  alibi_evaluate_result r;
  alibi_error error = {0};
  size_t row;
  assert_int_equal(alibi_evaluation_add(e, &o, &row, &error), ALIBI_INVALID);
  scratch_says(error.message, "length 1073741824: not enough memory");
  size_t first = add(e, with(ALIBI_SLIDING, 16, 0)), longer = add(e, with(ALIBI_SLIDING, 20, 0)),
         last = add(e, with(ALIBI_NONOVERLAPPING, 24, 0));
  e->rows[longer].options.window = too_long;
  for (int again = 0; again < 2; again++) {
    run(e);
    assert_int_equal(alibi_evaluation_result(e, longer, -1, NULL, &r, &error), ALIBI_FAILED);
    scratch_says(error.message, "not enough memory");
  }
  size_t same_first = add(alone, with(ALIBI_SLIDING, 16, 0)),
         same_last = add(alone, with(ALIBI_NONOVERLAPPING, 24, 0));
  run(alone);
  expect_same_losses(e, first, alone, same_first);
  expect_same_losses(e, last, alone, same_last);
  alibi_evaluation_free(alone);
  alibi_evaluation_free(e);
  alibi_model_free(model);
  alibi_context_free(context);
}

int main(void)
{
  make_text();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_oracle_has_perplexity_1),
      cmocka_unit_test(test_uniform_model_with_documents_and_a_beginning),
      cmocka_unit_test(test_rows_together_have_the_bits_of_rows_alone),
      cmocka_unit_test(test_shared_windows_are_run_once),
      cmocka_unit_test(test_documents_are_texts_of_their_own),
      cmocka_unit_test(test_protocols_agree_on_a_short_text),
      cmocka_unit_test(test_limits_over_documents),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_beginning_token_stands_in_every_window),
      cmocka_unit_test(test_early_tokens),
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_losses_by_place),
      cmocka_unit_test(test_rows_without_memory_leave_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
