/* The block as data: models of 200 configurations by chance against a plain one in double precision; the same bits
 * on any number of threads, whatever else is in a pass, token by token from a cache, and carried from run to run;
 * what a configuration cannot be; what a model that sees both sides cannot do. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/session.h"
#include "alibi/train.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"
#include "unit/block_draw.h"
#include "unit/plain_block.h"

enum { VOCABULARY = 29, FIRST = 24, SECOND = 13, ROWS = FIRST + SECOND, CONFIGURATIONS = 200 };

static alibi_error error;

typedef struct outcome {
  float logits[ROWS * VOCABULARY];
} outcome;

static void run(alibi_model *model, const uint32_t *tokens, const pass_segment *segments, size_t count,
                size_t rows, const char *settings, float *logits)
{
  pass_shape shape = {.rows = rows, .segments = count, .length = FIRST, .head_rows = 3};
  model_pass *pass;
  if (model_pass_new(model, &shape, &pass, &error) != ALIBI_OK) fail_msg("%s: %s", settings, error.message);
  if (model_forward(pass, tokens, segments, count, &error) != ALIBI_OK)
    fail_msg("%s: %s", settings, error.message);
  for (size_t r = 0; r < rows; r++) model_logits(pass, r, logits + r * VOCABULARY);
  model_pass_free(pass);
}

static void run_both(const char *isa, int threads, const char *settings, bool packs, outcome *out)
{
  alibi_context *context = tiny_context(isa, threads);
  alibi_model *model = tiny_model(context, settings);
  uint32_t tokens[ROWS];
  const pass_segment segments[] = {{.count = FIRST}, {.count = SECOND}};
  tiny_tokens(tokens, ROWS, 5, VOCABULARY);
  if (packs) assert_int_equal(model_pack(model, &error), ALIBI_OK);
  run(model, tokens, segments, 2, ROWS, settings, out->logits);
  alibi_model_free(model);
  alibi_context_free(context);
}

static double spread_of(const double *x, size_t count)
{
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < count; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  return most - least;
}

/* Relative to the spread of a row's logits: ten times what was found at most. */
static void expect_plain(const char *settings, const char *isa, const float *found, const double *expected,
                         size_t rows)
{
  for (size_t r = 0; r < rows; r++) {
    double allowed = 1e-5 * spread_of(expected + r * VOCABULARY, VOCABULARY);
    for (size_t i = r * VOCABULARY; i < (r + 1) * VOCABULARY; i++)
      if (!(fabs((double)found[i] - expected[i]) <= allowed))
        fail_msg("%s, %s: row %zu, logit %zu: expected %.9g within %g, found %.9g", settings, isa, r,
                 i % VOCABULARY, expected[i], allowed, (double)found[i]);
  }
}

static void configurations_by_chance(void **unused)
{
  (void)unused;
  char settings[DRAW_TEXT];
  uint32_t tokens[ROWS];
  tiny_tokens(tokens, ROWS, 5, VOCABULARY);
  double *expected = malloc(ROWS * VOCABULARY * sizeof *expected);
  assert_non_null(expected);
  uint64_t index = 0;
  for (size_t n = 0; n < CONFIGURATIONS; n++, index++) {
    index = draw_possible(index, false, settings);
    const kernel_table *other = kernel_table_at(n / 2 % kernel_table_count()); /* NULL: not on this machine */
    const char *isa = n % 2 && other ? other->name : NULL;
    alibi_context *context = tiny_context(isa, 1);
    alibi_model *model = tiny_model(context, settings);
    plain_forward(model, tokens, FIRST, expected);
    plain_forward(model, tokens + FIRST, SECOND, expected + FIRST * VOCABULARY);
    outcome found;
    run_both(isa, 2, settings, false, &found);
    expect_plain(settings, isa ? isa : "best", found.logits, expected, ROWS);
    alibi_model_free(model);
    alibi_context_free(context);
  }
  free(expected);
}

/* Each field's value is told from the initial one: nothing above is compared with itself. */
static void fields_matter_beside(const char *base)
{
  outcome initial, other;
  run_both(NULL, 1, base, false, &initial);
  for (size_t i = 0; i < DRAW_FIELDS; i++)
    for (size_t v = 1; v < 9 && draw_fields[i].values[v]; v++) {
      char settings[DRAW_TEXT];
      snprintf(settings, sizeof settings, "%s %s=%s", base, draw_fields[i].name, draw_fields[i].values[v]);
      alibi_model_config config = tiny_config(settings);
      if (alibi_model_config_check(&config, NULL) != ALIBI_OK) continue;
      if (strcmp(draw_fields[i].values[v], "yes") == 0 || strstr(base, settings + strlen(base)))
        continue; /* as it is */
      run_both(NULL, 1, settings, false, &other);
      double most = 0;
      for (size_t k = 0; k < ROWS * VOCABULARY; k++) {
        double apart = fabs((double)initial.logits[k] - (double)other.logits[k]);
        if (apart > most) most = apart;
      }
      if (!(most > 2e-4)) fail_msg("%s changes no logit by more than %g", settings + strlen(base), most);
    }
}

static void every_field_matters(void **unused)
{
  (void)unused;
  fields_matter_beside("position=alibi norm_bias=true bias=true kv_heads=2 qk_norm=true");
  fields_matter_beside("position=alibi norm_bias=true bias=true kv_heads=2 qk_norm=true norm_place=post");
}

static void expect_bits(const char *settings, const char *what, const float *a, const float *b, size_t count)
{
  size_t at = tiny_floats_differ(a, b, count);
  if (at)
    fail_msg("%s: %s: other bits at row %zu: %.9g and %.9g", settings, what, (at - 1) / VOCABULARY,
             (double)a[at - 1], (double)b[at - 1]);
}

static void threads_packing_and_company_leave_no_trace(void **unused)
{
  (void)unused;
  char settings[DRAW_TEXT];
  uint32_t tokens[ROWS];
  tiny_tokens(tokens, ROWS, 5, VOCABULARY);
  uint64_t index = 1000;
  for (size_t n = 0; n < 40; n++, index++) {
    outcome one, other;
    index = draw_possible(index, false, settings);
    run_both(NULL, 1, settings, false, &one);
    run_both(NULL, 3, settings, false, &other);
    expect_bits(settings, "threads", one.logits, other.logits, ROWS * VOCABULARY);
    run_both(NULL, 2, settings, true, &other);
    expect_bits(settings, "packed", one.logits, other.logits, ROWS * VOCABULARY);
    alibi_context *context = tiny_context(NULL, 1);
    alibi_model *model = tiny_model(context, settings);
    const pass_segment alone = {.count = SECOND}, last = {.count = SECOND, .wanted = 1};
    run(model, tokens + FIRST, &alone, 1, SECOND, settings, other.logits);
    expect_bits(settings, "alone", one.logits + FIRST * VOCABULARY, other.logits, SECOND * VOCABULARY);
    run(model, tokens + FIRST, &last, 1, SECOND, settings, other.logits);
    expect_bits(settings, "only the last row", one.logits + (ROWS - 1) * VOCABULARY,
                other.logits + (SECOND - 1) * VOCABULARY, VOCABULARY);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* What backward keeps changes nothing in forward. */
static void a_kept_pass_gives_the_same(void **unused)
{
  (void)unused;
  char settings[DRAW_TEXT];
  uint32_t tokens[ROWS];
  tiny_tokens(tokens, ROWS, 5, VOCABULARY);
  uint64_t index = 2000;
  for (size_t n = 0; n < 40; n++, index++) {
    outcome one, other;
    index = draw_possible(index, false, settings);
    run_both(NULL, 1, settings, false, &one);
    alibi_context *context = tiny_context(NULL, 2);
    alibi_model *model = tiny_model(context, settings);
    const pass_segment segments[] = {{.count = FIRST}, {.count = SECOND}};
    pass_shape shape = {
        .rows = ROWS, .segments = 2, .length = FIRST, .head_rows = 5, .keep = true, .recompute = n % 2};
    model_pass *pass;
    assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
    assert_int_equal(model_forward(pass, tokens, segments, 2, &error), ALIBI_OK);
    for (size_t r = 0; r < ROWS; r++) model_logits(pass, r, other.logits + r * VOCABULARY);
    expect_bits(settings, "kept", one.logits, other.logits, ROWS * VOCABULARY);
    model_pass_free(pass);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* ---- a token at a time ---- */

static void decoding_gives_the_bits_of_one_pass(void **unused)
{
  (void)unused;
  char settings[DRAW_TEXT];
  uint32_t tokens[FIRST];
  tiny_tokens(tokens, FIRST, 6, VOCABULARY);
  uint64_t index = 3000;
  for (size_t n = 0; n < 60; n++, index++) {
    index = draw_possible(index, true, settings);
    alibi_context *context = tiny_context(NULL, 2);
    alibi_model *model = tiny_model(context, settings);
    alibi_session *session;
    alibi_session_options options;
    float logits[FIRST * VOCABULARY];
    const pass_segment whole = {.count = FIRST};
    run(model, tokens, &whole, 1, FIRST, settings, logits);
    alibi_session_options_init(&options);
    options.capacity = FIRST;
    if (alibi_session_new(model, &options, &session, &error) != ALIBI_OK)
      fail_msg("%s: %s", settings, error.message);
    assert_int_equal(alibi_session_feed(session, tokens, 5, &error), ALIBI_OK);
    assert_int_equal(alibi_session_feed(session, tokens + 5, 6, &error), ALIBI_OK);
    expect_bits(settings, "prefill", logits + 10 * VOCABULARY, alibi_session_logits(session), VOCABULARY);
    for (size_t t = 11; t < FIRST; t++) {
      assert_int_equal(alibi_step(model, &session, &tokens[t], 1, &error), ALIBI_OK);
      expect_bits(settings, "step", logits + t * VOCABULARY, alibi_session_logits(session), VOCABULARY);
    }
    alibi_session_free(session);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* Runs that see all before them. */
static void carried_runs_give_the_bits_of_one_pass(void **unused)
{
  (void)unused;
  static const size_t counts[] = {7, 1, 9, 7};
  char settings[DRAW_TEXT];
  uint32_t tokens[FIRST];
  tiny_tokens(tokens, FIRST, 7, VOCABULARY);
  uint64_t index = 4000;
  for (size_t n = 0; n < 40; n++, index++) {
    index = draw_possible(index, true, settings);
    alibi_context *context = tiny_context(NULL, 2);
    alibi_model *model = tiny_model(context, settings);
    float logits[FIRST * VOCABULARY], found[VOCABULARY];
    const pass_segment whole = {.count = FIRST};
    run(model, tokens, &whole, 1, FIRST, settings, logits);
    pass_shape shape = {
        .rows = 9, .segments = 1, .length = FIRST, .head_rows = 2, .carries = true, .carried = FIRST};
    model_pass *pass;
    pass_segment segment = {0};
    assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
    assert_int_equal(model_carry_new(pass, &segment.carry, &error), ALIBI_OK);
    for (size_t k = 0; k < 4; k++) {
      segment.count = counts[k];
      if (model_forward(pass, tokens + segment.first, &segment, 1, &error) != ALIBI_OK)
        fail_msg("%s: %s", settings, error.message);
      for (size_t r = 0; r < counts[k]; r++) {
        model_logits(pass, r, found);
        expect_bits(settings, "carried", logits + (segment.first + r) * VOCABULARY, found, VOCABULARY);
      }
      segment.first = segment.seen = segment.first + counts[k];
    }
    model_carry_free(segment.carry);
    model_pass_free(pass);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

/* Losses are those of the logits. */
static void losses_are_of_the_logits(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "logit_scale=0.4 logit_cap=1.5 final_norm=false residual_scale=0.5");
  pass_shape shape = {.rows = FIRST, .segments = 1, .length = FIRST, .head_rows = 5};
  pass_segment segment = {.count = FIRST};
  model_pass *pass;
  uint32_t tokens[FIRST], targets[FIRST];
  size_t rows[FIRST];
  float losses[FIRST], logits[VOCABULARY];
  tiny_tokens(tokens, FIRST, 8, VOCABULARY);
  tiny_tokens(targets, FIRST, 9, VOCABULARY);
  for (size_t r = 0; r < FIRST; r++) rows[r] = r;
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
  model_losses(pass, rows, targets, FIRST, losses);
  for (size_t r = 0; r < FIRST; r++) {
    double sum = 0;
    model_logits(pass, r, logits);
    for (size_t i = 0; i < VOCABULARY; i++) sum += exp((double)logits[i]);
    for (size_t i = 0; i < VOCABULARY; i++) assert_true(fabsf(logits[i]) < 1.5f);
    assert_true(fabs(log(sum) - (double)logits[targets[r]] - (double)losses[r]) < 1e-5);
  }
  model_pass_free(pass);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* ---- what cannot be ---- */

static void expect_refused(const char *settings, const char *part)
{
  alibi_model_config config = tiny_config(settings);
  if (alibi_model_config_check(&config, &error) != ALIBI_INVALID) fail_msg("accepted: %s", settings);
  scratch_says(error.message, part);
}

static void impossible_configurations(void **unused)
{
  (void)unused;
  expect_refused("parallel=one-norm norm_place=post", "parallel");
  expect_refused("qk_norm_kind=full", "qk_norm_kind");
  expect_refused("qk_norm_kind=group", "qk_norm_kind");
  expect_refused("attention_output_norm=true", "attention_output_norm: expected false");
  expect_refused("causal=false score_scaling=log-n", "score_scaling");
  expect_refused("causal=false position=t5", "causal: expected true with the position method 't5'");
  expect_refused("causal=false position=fox", "causal");
  expect_refused("causal=false position=rope-window", "causal");
  expect_refused("causal=false alibi_rounding=falcon", "causal");
  expect_refused("norm_place=post position=fox", "norm_place");
  alibi_model_config config = tiny_config("");
  assert_int_equal(alibi_model_config_set(&config, "activation", "gegelu", &error), ALIBI_INVALID);
  scratch_says(error.message, "geglu-tanh");
  assert_int_equal(alibi_model_config_set(&config, "logit_scale", "0", &error), ALIBI_INVALID);
  assert_int_equal(alibi_model_config_set(&config, "clip_qkv", "-1", &error), ALIBI_INVALID);
  config.activation = 8;
  assert_int_equal(alibi_model_config_check(&config, &error), ALIBI_INVALID);
  scratch_says(error.message, "activation");
}

static void a_model_that_sees_both_sides(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "causal=false");
  alibi_session *session;
  alibi_evaluation *evaluation;
  alibi_trainer *trainer;
  uint32_t tokens[FIRST + 1];
  pass_shape shape = {.rows = 8, .segments = 1, .length = FIRST, .head_rows = 1, .carries = true, .carried = 4};
  model_pass *pass;
  tiny_tokens(tokens, FIRST + 1, 8, VOCABULARY);
  assert_int_equal(alibi_session_new(model, NULL, &session, &error), ALIBI_INVALID);
  scratch_says(error.message, "a session: expected a model whose tokens see only those before them");
  assert_int_equal(alibi_evaluation_new(model, tokens, FIRST, NULL, 0, &evaluation, &error), ALIBI_INVALID);
  scratch_says(error.message, "an evaluation");
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_INVALID);
  scratch_says(error.message, "causal");
  alibi_train_options options;
  alibi_train_options_init(&options);
  options.batch_tokens = 24;
  assert_int_equal(alibi_trainer_new(context, &model->config, &options, tokens, FIRST + 1, &trainer, &error),
                   ALIBI_INVALID);
  scratch_says(error.message, "causal");
  alibi_model_free(model);
  alibi_context_free(context);
}

/* A long text, of which slopes put most keys out of sight on both sides. */
static void both_sides_of_a_long_text(void **unused)
{
  (void)unused;
  enum { LONG = 900 };
  const char *settings =
      "causal=false train_length=900 layers=1 alibi_max_bias=1 norm_place=post embedding_norm=true";
  static uint32_t tokens[LONG];
  double *expected = malloc(LONG * VOCABULARY * sizeof *expected);
  float *logits = malloc(LONG * VOCABULARY * sizeof *logits);
  assert_non_null(expected);
  assert_non_null(logits);
  tiny_tokens(tokens, LONG, 10, VOCABULARY);
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *model = tiny_model(context, settings);
  pass_shape shape = {.rows = LONG, .segments = 1, .length = LONG, .head_rows = 4, .keep = true};
  pass_segment segment = {.count = LONG};
  model_pass *pass;
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
  for (size_t r = 0; r < LONG; r++) model_logits(pass, r, logits + r * VOCABULARY);
  plain_forward(model, tokens, LONG, expected);
  expect_plain(settings, "best", logits, expected, LONG);
  size_t skips_before = 0, skips_after = 0, blocks = (LONG + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
  for (size_t i = 0; i < LONG * 4; i++) {
    skips_before += pass->blocks[0].visited[2 * i] > 0;
    skips_after += (size_t)pass->blocks[0].visited[2 * i + 1] < blocks;
  }
  assert_true(skips_before > LONG / 2 && skips_after > LONG / 2);
  model_pass_free(pass);
  alibi_model_free(model);
  alibi_context_free(context);
  free(expected);
  free(logits);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(configurations_by_chance),
      cmocka_unit_test(every_field_matters),
      cmocka_unit_test(threads_packing_and_company_leave_no_trace),
      cmocka_unit_test(a_kept_pass_gives_the_same),
      cmocka_unit_test(decoding_gives_the_bits_of_one_pass),
      cmocka_unit_test(carried_runs_give_the_bits_of_one_pass),
      cmocka_unit_test(both_sides_of_a_long_text),
      cmocka_unit_test(losses_are_of_the_logits),
      cmocka_unit_test(impossible_configurations),
      cmocka_unit_test(a_model_that_sees_both_sides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
