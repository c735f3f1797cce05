/* Perplexity: the plans against a count by the definitions, the engine against one pass a window, the statistics
 * against their formulas, and what a user may get wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/random.h"
#include "evaluate/engine.h"
#include "evaluate/plan.h"
#include "evaluate/statistics.h"
#include "model/model.h"
#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "threads.h"
#include "unit/scratch.h"

enum { VOCABULARY = 37, TEXT = 3000 };

static uint32_t text[TEXT];

static void make_text(void)
{
  for (size_t i = 0; i < TEXT; i++) text[i] = (uint32_t)(random_bits(7, 1, i) % VOCABULARY);
}

/* --- plans --- */

/* For every token how often it is scored, and how many inputs came before it then. */
typedef struct scored {
  size_t times, context;
} scored;

static plan_shape shape_of(size_t window, size_t stride)
{
  return (plan_shape){.window = window, .stride = stride};
}

static plan nonoverlapping(size_t n, size_t w)
{
  plan p = {0};
  assert_int_equal(plan_nonoverlapping((plan_text){0, n}, shape_of(w, w), &p, NULL), ALIBI_OK);
  return p;
}

static plan sliding(size_t n, size_t w, size_t s)
{
  plan p = {0};
  assert_int_equal(plan_sliding((plan_text){0, n}, shape_of(w, s), &p, NULL), ALIBI_OK);
  return p;
}

static plan fixed_target(size_t n, size_t w, size_t shortest, size_t longest, size_t max_targets)
{
  plan p = {0};
  plan_text text_of = {0, n};
  assert_int_equal(
      plan_fixed_target(&text_of, 1, shape_of(w, 0), (plan_sweep){shortest, longest, max_targets}, &p, NULL),
      ALIBI_OK);
  return p;
}

static void count_targets(const plan *p, size_t tokens, scored *found)
{
  memset(found, 0, tokens * sizeof *found);
  size_t inputs = 0, targets = 0, longest = 0, before = 0;
  for (size_t w = 0; w < p->count; w++) {
    const plan_window *window = &p->windows[w];
    assert_true(window->inputs >= 1 && window->count >= 1);
    assert_true(window->first + window->count <= window->inputs);
    assert_true(window->start + window->inputs < tokens);
    inputs += window->inputs;
    targets += window->count;
    if (window->inputs > longest) longest = window->inputs;
    for (size_t i = 0; i < window->count; i++) {
      size_t target = plan_target(window, i);
      assert_true(target > before);
      before = target;
      found[target].times++;
      found[target].context = target - window->start;
    }
  }
  assert_int_equal(inputs, p->inputs);
  assert_int_equal(targets, p->targets);
  assert_int_equal(longest, p->longest);
}

/* The inputs before token t, from the definition of sliding(W, S): t is scored by the first window that reaches
 * it. */
static size_t sliding_context(size_t tokens, size_t window, size_t stride, size_t t)
{
  if (t <= window) return t;
  size_t end = window; /* inputs 0 .. end-1 are covered; the last one predicts token `end` */
  while (end < t) end += stride;
  if (end > tokens - 1) {
    if (stride == window) return t - (end - stride);
    end = tokens - 1;
  }
  return t - (end - window);
}

static void test_plans_score_every_token_once(void **state)
{
  (void)state;
  scored found[40];
  for (size_t n = 2; n <= 40; n++)
    for (size_t w = 1; w <= 42; w++) {
      plan p = nonoverlapping(n, w);
      count_targets(&p, n, found);
      assert_int_equal(found[0].times, 0);
      for (size_t t = 1; t < n; t++) {
        assert_int_equal(found[t].times, 1);
        assert_int_equal(found[t].context, (t - 1) % w + 1);
      }
      plan_free(&p);
      for (size_t s = 1; s <= w; s++) {
        p = sliding(n, w, s);
        count_targets(&p, n, found);
        assert_int_equal(found[0].times, 0);
        for (size_t t = 1; t < n; t++) {
          assert_int_equal(found[t].times, 1);
          assert_int_equal(found[t].context, sliding_context(n, w, s, t));
          if (t > w) assert_true(found[t].context > w - s);
        }
        assert_int_equal(p.windows[p.count - 1].start + p.windows[p.count - 1].inputs, n - 1);
        plan_free(&p);
      }
    }
}

static void expect_same_plan(const plan *a, const plan *b)
{
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->windows, b->windows, a->count * sizeof *a->windows);
}

static void test_plans_agree_where_they_should(void **state)
{
  (void)state;
  for (size_t n = 2; n <= 30; n++)
    for (size_t w = 1; w <= 30; w++) {
      plan a = nonoverlapping(n, w), b = sliding(n, w, w);
      expect_same_plan(&a, &b);
      plan_free(&b);
      for (size_t s = 1; n <= w && s <= w; s++) {
        b = sliding(n, w, s);
        expect_same_plan(&a, &b);
        plan_free(&b);
      }
      plan_free(&a);
    }
}

static void test_plan_by_hand(void **state)
{
  (void)state;
  /* 12 tokens, 11 targets: sliding(5, 2) reads 0-4, 2-6, 4-8, 6-10 (as inputs), scores 5, 2, 2, 2. */
  static const plan_window expected[] = {
      {0, 5, 0, 5, 0, 0, 0}, {2, 5, 3, 2, 0, 0, 0}, {4, 5, 3, 2, 0, 0, 0}, {6, 5, 3, 2, 0, 0, 0}};
  plan p = sliding(12, 5, 2);
  assert_int_equal(p.count, 4);
  assert_memory_equal(p.windows, expected, sizeof expected);
  plan_free(&p);
  /* One token more: the last window advances by one only. */
  p = sliding(13, 5, 2);
  assert_int_equal(p.count, 5);
  assert_memory_equal(&p.windows[4], (&(plan_window){7, 5, 4, 1, 0, 0, 0}), sizeof *p.windows);
  plan_free(&p);
  /* Probes for windows 8 and 16: T = 2; inputs end at 16, 18, 20. */
  static const plan_window probes[] = {{8, 8, 6, 2, 0, 0, 0}, {10, 8, 6, 2, 0, 0, 0}, {12, 8, 6, 2, 0, 0, 0}};
  p = fixed_target(21, 8, 8, 16, 0);
  assert_int_equal(p.count, 3);
  assert_memory_equal(p.windows, probes, sizeof probes);
  plan_free(&p);
}

static void test_probes_are_the_same_at_every_window(void **state)
{
  (void)state;
  static const size_t shortest[] = {1, 2, 3, 4, 7, 8, 64, 1000}, limits[] = {0, 1, 5, 16, 100, 100000};
  static scored found[6000], first[6000];
  for (size_t a = 0; a < 8; a++)
    for (size_t l = 0; l < 6; l++)
      for (size_t times = 1; times <= 3; times++) {
        size_t w0 = shortest[a], longest = w0 * times, t = plan_probe_targets(w0);
        for (size_t n = longest + 1; n <= longest + 2 * t + 900; n += 299) {
          for (size_t w = w0; w <= longest; w += w0) {
            plan p = fixed_target(n, w, w0, longest, limits[l]);
            count_targets(&p, n, w == w0 ? first : found);
            for (size_t i = 0; i < p.count; i++) assert_int_equal(p.windows[i].inputs, w);
            for (size_t i = 0; i < n && w > w0; i++) assert_int_equal(found[i].times, first[i].times);
            size_t all = ((n - 1 - longest) / t + 1) * t;
            size_t wanted = limits[l] == 0 ? all : limits[l] < t ? t : limits[l] / t * t;
            assert_int_equal(p.targets, wanted < all ? wanted : all);
            plan_free(&p);
          }
        }
      }
  assert_int_equal(plan_probe_targets(64), 16);
  assert_int_equal(plan_probe_targets(799), 199);
  assert_int_equal(plan_probe_targets(100000), 200);
}

static void test_probes_spread_over_the_text(void **state)
{
  (void)state;
  plan p = fixed_target(100000, 64, 64, 64, 160);
  assert_int_equal(p.count, 10);
  for (size_t i = 1; i < p.count; i++) {
    size_t gap = p.windows[i].start - p.windows[i - 1].start;
    assert_true(gap > 9950 && gap < 10050);
  }
  plan_free(&p);
}

/* --- statistics --- */

static void test_mean_and_blocks(void **state)
{
  (void)state;
  static float values[3500];
  for (size_t i = 0; i < 3500; i++) values[i] = (float)(i % 7) + (i < 1166 ? 0 : i < 2333 ? 1 : 3);
  /* 3 blocks of 1166, 1167, 1167 values. */
  double sums[3] = {0}, sizes[3] = {1166, 1167, 1167}, total = 0, squares = 0;
  for (size_t i = 0; i < 3500; i++) sums[i < 1166 ? 0 : i < 2333 ? 1 : 2] += values[i], total += values[i];
  for (size_t b = 0; b < 3; b++) squares += pow(sums[b] - sizes[b] * total / 3500, 2);
  mean_estimate e = statistics_mean(values, 3500);
  assert_true(fabs(e.mean - total / 3500) < 1e-12);
  assert_true(fabs(e.standard_error - sqrt(squares * 3 / 2) / 3500) < 1e-12);
  assert_true(isnan(statistics_mean(values, 1999).standard_error));
  assert_false(isnan(statistics_mean(values, 2000).standard_error));
  for (size_t i = 0; i < 3500; i++) values[i] = 2.5f;
  e = statistics_mean(values, 3500);
  assert_true(e.mean == 2.5 && e.standard_error == 0);
  assert_true(fabs(statistics_bits_per_byte(8 * log(2), 4) - 2) < 1e-15);
  assert_true(isnan(statistics_bits_per_byte(1, 0)));
}

/* --- models --- */

static alibi_context *make_context(int threads)
{
  alibi_context_options options;
  alibi_context *context;
  alibi_context_options_init(&options);
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  threads_share_all_work(context);
  return context;
}

/* A small model whose weights are large enough that positions matter. */
static alibi_model *make_model(alibi_context *context, const char *position)
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
  assert_int_equal(alibi_model_new(context, &config, 3, &model, NULL), ALIBI_OK);
  return model;
}

static alibi_evaluate_result evaluate(alibi_model *model, size_t count, const uint32_t *bytes,
                                      const alibi_evaluate_options *options)
{
  alibi_error error = {0};
  alibi_evaluate_result r;
  if (alibi_evaluate(model, text, count, bytes, options, &r, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return r;
}

static alibi_evaluate_options with(int protocol, int64_t window, int64_t stride)
{
  alibi_evaluate_options o;
  alibi_evaluate_options_init(&o);
  o.protocol = protocol;
  o.window = window;
  o.stride = stride;
  return o;
}

static void test_uniform_model_has_perplexity_of_its_vocabulary(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi");
  memset(model->values, 0, model->list.floats * sizeof *model->values);
  uint32_t bytes[VOCABULARY];
  for (uint32_t i = 0; i < VOCABULARY; i++) bytes[i] = i % 3 + 1;
  for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++) {
    alibi_evaluate_options o = with(protocol, 20, 0);
    alibi_evaluate_result r = evaluate(model, TEXT, bytes, &o);
    assert_true(fabs(r.perplexity - VOCABULARY) < 1e-6 * VOCABULARY);
    assert_true(r.nll_standard_error < 1e-6);
    int64_t read = 0;
    size_t first =
        protocol == ALIBI_FIXED_TARGET ? 16 : 1; /* T = 5: the first probe ends at 20 and predicts 16 .. 20 */
    for (size_t i = first; i < first + (size_t)r.tokens; i++) read += bytes[text[i]];
    assert_int_equal(r.bytes, read);
    assert_true(fabs(r.bits_per_byte - (double)r.tokens * log2(VOCABULARY) / (double)read) < 1e-6);
    assert_int_equal(r.tokens, protocol == ALIBI_FIXED_TARGET ? (TEXT - 1 - 20) / 5 * 5 + 5 : TEXT - 1);
    assert_int_equal(r.stride, protocol == ALIBI_NONOVERLAPPING ? 20 : 5);
    assert_true(isnan(evaluate(model, TEXT, NULL, &o).bits_per_byte));
  }
  alibi_model_free(model);
  alibi_context_free(context);
}

/* Losses of a plan, and whether each target is what the model holds most likely: each window in a pass of its own,
 * without packed weights. */
static void losses_one_by_one(alibi_model *model, const plan *p, size_t length, float *losses, unsigned char *hits)
{
  float logits[VOCABULARY];
  size_t rows[64];
  for (size_t w = 0; w < p->count; w++) {
    const plan_window *window = &p->windows[w];
    pass_shape shape = {.rows = window->inputs, .segments = 1, .length = length, .head_rows = 7};
    pass_segment segment = {.count = window->inputs};
    model_pass *pass;
    assert_int_equal(model_pass_new(model, &shape, &pass, NULL), ALIBI_OK);
    assert_int_equal(model_forward(pass, text + window->start, &segment, 1, NULL), ALIBI_OK);
    for (size_t i = 0; i < window->count; i++) rows[i] = window->first + i;
    model_losses(pass, rows, text + plan_target(window, 0), window->count, losses);
    losses += window->count;
    for (size_t i = 0; i < window->count; i++) {
      uint32_t best = 0;
      model_logits(pass, rows[i], logits);
      for (uint32_t v = 1; v < VOCABULARY; v++)
        if (logits[v] > logits[best]) best = v;
      *hits++ = best == text[plan_target(window, i)];
    }
    model_pass_free(pass);
  }
}

static void test_engine_gives_the_bits_of_single_windows(void **state)
{
  (void)state;
  static const char *const methods[] = {"alibi", "sinusoidal", "learned", "rope", "t5", "none"};
  static const size_t batches[] = {1, 16, 17, 40, 100, 1 << 20};
  enum { N = 90, W = 16 };
  for (size_t m = 0; m < 6; m++)
    for (int threads = 1; threads <= (m == 0 ? 3 : 1); threads++) {
      alibi_context *context = make_context(threads);
      alibi_model *model = make_model(context, methods[m]);
      for (int kind = 0; kind < 4; kind++) {
        plan p = kind == 0   ? nonoverlapping(N, W)
                 : kind == 1 ? sliding(N, W, 5)
                 : kind == 2 ? fixed_target(N, W, 8, 32, 0)
                             : nonoverlapping(7, W);
        float expected[N], found[N];
        unsigned char expected_hits[N], hits[N];
        losses_one_by_one(model, &p, W, expected, expected_hits);
        for (size_t b = 0; b < 6; b++) {
          engine_options o = {.length = W, .batch_tokens = batches[b], .hits = b % 2 ? hits : NULL};
          double seconds;
          memset(found, 0, sizeof found);
          memset(hits, 7, sizeof hits);
          assert_int_equal(engine_run(model, text, &p, &o, found, &seconds, NULL), ALIBI_OK);
          assert_memory_equal(found, expected, p.targets * sizeof *found);
          if (o.hits) assert_memory_equal(hits, expected_hits, p.targets);
          assert_null(model->packed); /* a trainer would go on with old weights */
        }
        plan_free(&p);
      }
      alibi_model_free(model);
      alibi_context_free(context);
    }
}

/* Of equal logits the first is the most likely one. */
static void test_a_hit_is_the_first_of_equal_logits(void **state)
{
  (void)state;
  enum { N = 300 };
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi");
  memset(model->values, 0, model->list.floats * sizeof *model->values);
  plan p = nonoverlapping(N, 16);
  float losses[N];
  unsigned char hits[N];
  double seconds;
  engine_options o = {.length = 16, .batch_tokens = 100, .hits = hits};
  assert_int_equal(engine_run(model, text, &p, &o, losses, &seconds, NULL), ALIBI_OK);
  size_t count = 0;
  for (size_t i = 0; i < N - 1; i++) {
    assert_int_equal(hits[i], text[i + 1] == 0);
    count += hits[i];
  }
  assert_true(count > 0);
  plan_free(&p);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_packed_weights_of_others_stay(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi");
  alibi_evaluate_options o = with(ALIBI_SLIDING, 16, 4);
  o.batch_tokens = 64;
  double nll = evaluate(model, 200, NULL, &o).nll;
  assert_int_equal(model_pack(model, NULL), ALIBI_OK);
  const float **packed = model->packed;
  assert_true(evaluate(model, 200, NULL, &o).nll == nll);
  assert_ptr_equal(model->packed, packed);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_same_bits_for_threads_and_batches(void **state)
{
  (void)state;
  alibi_evaluate_result first[ALIBI_PROTOCOL_COUNT];
  for (int threads = 1; threads <= 3; threads++)
    for (int64_t batch = 0; batch <= (threads == 1 ? 2 : 1); batch++) {
      alibi_context *context = make_context(threads);
      alibi_model *model = make_model(context, "alibi");
      for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++) {
        alibi_evaluate_options o = with(protocol, 128, 0);
        o.batch_tokens = batch == 0 ? 0 : batch == 1 ? 777 : 1;
        if (protocol == ALIBI_FIXED_TARGET) o.max_targets = 2048;
        alibi_evaluate_result r = evaluate(model, TEXT, NULL, &o);
        assert_true(isfinite(r.nll_standard_error));
        if (threads == 1 && batch == 0) first[protocol] = r;
        assert_true(r.nll == first[protocol].nll && r.perplexity == first[protocol].perplexity);
        assert_true(r.nll_standard_error == first[protocol].nll_standard_error);
        assert_true(r.standard_error == r.perplexity * r.nll_standard_error && r.perplexity == exp(r.nll));
      }
      alibi_model_free(model);
      alibi_context_free(context);
    }
}

static void test_limits_of_targets(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi");
  alibi_evaluate_options o = with(ALIBI_SLIDING, 16, 4), all = o;
  o.max_targets = 100;
  alibi_evaluate_result limited = evaluate(model, TEXT, NULL, &o), cut = evaluate(model, 101, NULL, &all);
  assert_int_equal(limited.tokens, 100);
  assert_true(limited.nll == cut.nll);
  o.max_targets = INT64_C(1) << 50;
  assert_int_equal(evaluate(model, 200, NULL, &o).tokens, 199);
  for (int protocol = ALIBI_NONOVERLAPPING; protocol <= ALIBI_SLIDING; protocol++)
    for (int64_t window = 16; window <= 256; window *= 4) { /* one text at every window of a sweep */
      o = with(protocol, window, 0);
      o.max_targets = 100;
      assert_int_equal(evaluate(model, TEXT, NULL, &o).tokens, window < 100 ? 100 : window);
      o.longest = 300; /* a text that cannot fill it is read as far as it goes */
      assert_int_equal(evaluate(model, TEXT, NULL, &o).tokens, 300);
      assert_int_equal(evaluate(model, 290, NULL, &o).tokens, 289);
    }
  o = with(ALIBI_FIXED_TARGET, 32, 0);
  o.shortest = 16;
  o.longest = 64;
  o.max_targets = 100;
  alibi_evaluate_result r = evaluate(model, TEXT, NULL, &o);
  assert_int_equal(r.tokens, 100);
  assert_int_equal(r.stride, 4);
  assert_int_equal(r.input_tokens, 25 * 32);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_extensions(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "rope");
  double plain[2], nll[2][4];
  for (int i = 0; i < 2; i++) { /* at the trained length 16 nothing changes, at 48 something does */
    static const char *const names[] = {"linear", "ntk", "yarn"};
    alibi_evaluate_options o = with(ALIBI_SLIDING, i ? 48 : 16, 0);
    plain[i] = evaluate(model, 400, NULL, &o).nll;
    for (int e = 0; e < 3; e++) {
      o.extend = names[e];
      nll[i][e] = evaluate(model, 400, NULL, &o).nll;
    }
  }
  for (int e = 0; e < 3; e++) {
    assert_true(fabs(nll[0][e] - plain[0]) < 1e-4);
    assert_true(fabs(nll[1][e] - plain[1]) > 1e-3);
  }
  alibi_model_free(model);
  alibi_context_free(context);
}

/* --- what a user may get wrong --- */

static void refuse(alibi_model *model, size_t count, const alibi_evaluate_options *o, const char *sentence)
{
  alibi_error error = {0};
  alibi_evaluate_result r;
  assert_int_equal(alibi_evaluate(model, text, count, NULL, o, &r, &error), ALIBI_INVALID);
  scratch_says(error.message, sentence);
}

/* A model whose weights are damaged may still give numbers: none of them is shown. */
static void test_weights_that_are_no_numbers(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi");
  alibi_evaluate_options o = with(ALIBI_SLIDING, 16, 4);
  alibi_evaluate_result r;
  alibi_error error = {0};
  model->values[parameter_find(&model->list, "final_norm.gain")->offset] = NAN;
  assert_int_equal(alibi_evaluate(model, text, 40, NULL, &o, &r, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected logits that are numbers, found NaN");
  alibi_model_free(model);
  alibi_context_free(context);
}

static void test_refusals(void **state)
{
  (void)state;
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "learned");
  alibi_evaluate_options o = with(ALIBI_SLIDING, 8, 0);
  refuse(model, 0, &o, "too short: expected at least 2 tokens, since the first is never scored, found 0");
  refuse(model, 1, &o, "found 1");
  assert_int_equal(evaluate(model, 9, NULL, &o).tokens, 8);
  o.stride = 9;
  refuse(model, 50, &o, "stride: expected at most the window of 8 tokens, found 9");
  o = with(ALIBI_SLIDING, 17, 0);
  refuse(model, 50, &o, "position 16 does not exist");
  o = with(ALIBI_SLIDING, 0, 0);
  refuse(model, 50, &o, "window: expected a number from 2");
  o.window = 1;
  refuse(model, 50, &o, "window: expected a number from 2");
  o = with(ALIBI_PROTOCOL_COUNT, 8, 0);
  refuse(model, 50, &o, "protocol: expected");
  o = with(-1, 8, 0);
  refuse(model, 50, &o, "protocol: expected");
  o = with(ALIBI_FIXED_TARGET, 8, 0);
  refuse(model, 8, &o, "not measured: the text has 8 tokens, 9 are needed");
  assert_int_equal(evaluate(model, 9, NULL, &o).tokens, 2);
  o.longest = 16;
  refuse(model, 16, &o, "not measured: the text has 16 tokens, 17 are needed");
  o.longest = 7;
  refuse(model, 50, &o, "to the longest, 7, found 8");
  o.longest = 0, o.shortest = 9;
  refuse(model, 50, &o, "the shortest of the sweep, 9,");
  o = with(ALIBI_SLIDING, 8, 0);
  o.extend = "ntk";
  refuse(model, 50, &o, "one of clamp, wrap, found 'ntk'");
  o.extend = NULL, o.size--;
  refuse(model, 50, &o, "alibi_evaluate_options_init");
  o.size++;
  text[5] = VOCABULARY;
  refuse(model, 50, &o, "token 5: expected an id below the vocabulary of 37, found 37");
  make_text();
  alibi_error error = {0};
  alibi_evaluate_result r;
  alibi_context_cancel(context);
  assert_int_equal(alibi_evaluate(model, text, 50, NULL, &o, &r, &error), ALIBI_CANCELLED);
  assert_null(model->packed);
  alibi_model_free(model);
  model = make_model(context, "rope");
  o.extend = "magic";
  refuse(model, 50, &o, "longrope, found 'magic'");
  alibi_model_free(model);
  alibi_context_free(context);
  assert_string_equal(alibi_protocol_name(ALIBI_NONOVERLAPPING), "nonoverlapping");
  assert_string_equal(alibi_protocol_name(ALIBI_SLIDING), "sliding");
  assert_string_equal(alibi_protocol_name(ALIBI_FIXED_TARGET), "fixed-target");
  assert_string_equal(alibi_protocol_name(ALIBI_STREAMING), "streaming");
  assert_null(alibi_protocol_name(4));
  assert_null(alibi_protocol_name(-1));
}

int main(void)
{
  make_text();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plans_score_every_token_once),
      cmocka_unit_test(test_plans_agree_where_they_should),
      cmocka_unit_test(test_plan_by_hand),
      cmocka_unit_test(test_probes_are_the_same_at_every_window),
      cmocka_unit_test(test_probes_spread_over_the_text),
      cmocka_unit_test(test_mean_and_blocks),
      cmocka_unit_test(test_uniform_model_has_perplexity_of_its_vocabulary),
      cmocka_unit_test(test_engine_gives_the_bits_of_single_windows),
      cmocka_unit_test(test_a_hit_is_the_first_of_equal_logits),
      cmocka_unit_test(test_packed_weights_of_others_stay),
      cmocka_unit_test(test_same_bits_for_threads_and_batches),
      cmocka_unit_test(test_limits_of_targets),
      cmocka_unit_test(test_extensions),
      cmocka_unit_test(test_weights_that_are_no_numbers),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
