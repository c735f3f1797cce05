/* Forgetting gates in whole models: constant gates are ALiBi; sums that reach thousands keep what near keys differ
 * by; any cut of a text, any sharing and dropping of keys gives the bits of one pass; and gradients are those of
 * the loss. */
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

#include "unit/tiny_model.h"

enum { VOCABULARY = 29, LONG = 1500 };

static alibi_error error;

/* ---- a model and a pass over one text ---- */

typedef struct reader {
  alibi_context *context;
  alibi_model *model;
  model_pass *pass;
  size_t length;
  uint32_t *tokens, *targets;
  float *gradients;
  model_parameters pointers;
} reader;

static void reader_open(reader *r, const char *isa, int threads, const char *settings, size_t length)
{
  *r = (reader){.context = tiny_context(isa, threads), .length = length};
  r->model = tiny_model(r->context, settings);
  pass_shape shape = {.rows = length, .segments = 1, .length = length, .head_rows = 64, .keep = true};
  if (model_pass_new(r->model, &shape, &r->pass, &error) != ALIBI_OK) fail_msg("%s: %s", settings, error.message);
  r->tokens = calloc(length, sizeof *r->tokens);
  r->targets = calloc(length, sizeof *r->targets);
  r->gradients = calloc(r->model->list.floats, sizeof *r->gradients);
  assert_true(r->tokens && r->targets && r->gradients);
  assert_int_equal(
      model_parameters_new(&r->model->list, &r->model->config, r->gradients, &r->pointers, &error), ALIBI_OK);
  tiny_tokens(r->tokens, length, 31, VOCABULARY);
  tiny_tokens(r->targets, length, 32, VOCABULARY);
}

static void reader_close(reader *r)
{
  model_parameters_free(&r->pointers);
  model_pass_free(r->pass);
  free(r->tokens);
  free(r->targets);
  free(r->gradients);
  alibi_model_free(r->model);
  alibi_context_free(r->context);
}

static void forward(reader *r)
{
  pass_segment all = {.count = r->length};
  if (model_forward(r->pass, r->tokens, &all, 1, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

/* Losses of all rows. */
static float *losses(reader *r)
{
  size_t *rows = calloc(r->length, sizeof *rows);
  float *each = calloc(r->length, sizeof *each);
  assert_true(rows && each);
  for (size_t i = 0; i < r->length; i++) rows[i] = i;
  forward(r);
  model_losses(r->pass, rows, r->targets, r->length, each);
  free(rows);
  return each;
}

static double total_loss(reader *r)
{
  double sum = 0;
  float *each = losses(r);
  for (size_t i = 0; i < r->length; i++) sum += (double)each[i];
  free(each);
  return sum;
}

static double gradient(reader *r)
{
  memset(r->gradients, 0, r->model->list.floats * sizeof *r->gradients);
  forward(r);
  return model_backward(r->pass, r->targets, &r->pointers, NULL);
}

static const parameter *find(const reader *r, const char *name)
{
  const parameter *p = parameter_find(&r->model->list, name);
  if (!p) fail_msg("no parameter %s", name);
  return p;
}

static float *values_of(const reader *r, const char *name)
{
  return r->model->values + find(r, name)->offset;
}

/* Gates as a new model has them: of ALiBi's slopes. */
static void begin_gates(const reader *r)
{
  const parameter *weight = find(r, "position.gate.weight"), *bias = find(r, "position.gate.bias");
  const alibi_model_config *c = &r->model->config;
  position_shape shape = model_config_position_shape(c);
  const position_method *fox = r->model->method;
  for (size_t i = 0; i < parameter_elements(weight); i++)
    r->model->values[weight->offset + i] = fox->initial(&shape, c->position_options.bytes, 0, i, 1);
  for (size_t i = 0; i < parameter_elements(bias); i++)
    r->model->values[bias->offset + i] = fox->initial(&shape, c->position_options.bytes, 1, i, 1);
}

/* All that both models have. */
static void copy_values(const reader *from, const reader *to)
{
  for (size_t i = 0; i < from->model->list.count; i++) {
    const parameter *p = &from->model->list.items[i], *same = parameter_find(&to->model->list, p->name);
    if (same)
      memcpy(to->model->values + same->offset, from->model->values + p->offset,
             parameter_elements(p) * sizeof(float));
  }
}

/* Not fmax, on which gcc 12 for ARM breaks; NaN is kept, and fails whatever it is compared with. */
static void keep_larger(double x, double *largest)
{
  if (!(x <= *largest)) *largest = x;
}

/* ---- ALiBi ---- */

static void constant_gates_are_alibi(void **unused)
{
  (void)unused;
  static const char *const kinds[] = {"", "kv_heads=2 qk_norm=true", "heads=6 head_size=8 kv_heads=1"};
  for (size_t k = 0; k < 3; k++) {
    char settings[2][128];
    reader fox, alibi;
    snprintf(settings[0], sizeof settings[0], "position=fox %s%s", kinds[k], k == 2 ? " fox_max_bias=5" : "");
    snprintf(settings[1], sizeof settings[1], "position=alibi %s%s", kinds[k], k == 2 ? " alibi_max_bias=5" : "");
    reader_open(&fox, NULL, 2, settings[0], LONG);
    reader_open(&alibi, NULL, 2, settings[1], LONG);
    begin_gates(&fox);
    copy_values(&alibi, &fox);
    float *found = losses(&fox), *expected = losses(&alibi);
    for (size_t i = 0; i < LONG; i++)
      if (!(fabsf(found[i] - expected[i]) <= 2e-5f))
        fail_msg("%s: token %zu: expected a loss of %.8g, found %.8g", settings[0], i, (double)expected[i],
                 (double)found[i]);
    free(found);
    free(expected);
    reader_close(&fox);
    reader_close(&alibi);
  }
}

/* ---- gates near 0 and 1 ---- */

/* Gates that forget everything at once leave each token itself; gates of 1 are no positions at all. */
static void gates_may_be_0_and_1(void **unused)
{
  (void)unused;
  static const float logits[] = {-1e4f, 1e4f};
  for (size_t k = 0; k < 2; k++) {
    reader fox, none;
    reader_open(&fox, NULL, 2, "position=fox", 300);
    reader_open(&none, NULL, 2, "position=none", 300);
    copy_values(&none, &fox);
    memset(values_of(&fox, "position.gate.weight"), 0,
           parameter_elements(find(&fox, "position.gate.weight")) * sizeof(float));
    for (size_t i = 0; i < 8; i++) values_of(&fox, "position.gate.bias")[i] = logits[k];
    float *found = losses(&fox), *expected = losses(&none);
    assert_true(isfinite(gradient(&fox)));
    for (size_t i = 0; i < fox.model->list.floats; i++) assert_true(isfinite(fox.gradients[i]));
    if (k == 1) /* as without positions */
      for (size_t i = 0; i < 300; i++) assert_true(fabsf(found[i] - expected[i]) <= 1e-5f);
    for (size_t i = 0; k == 0 && i < 300; i++) /* a loss depends on the token and its target alone */
      for (size_t j = 0; j < i; j++)
        if (fox.tokens[i] == fox.tokens[j] && fox.targets[i] == fox.targets[j])
          assert_true(fabsf(found[i] - found[j]) <= 1e-5f);
    free(found);
    free(expected);
    reader_close(&fox);
    reader_close(&none);
  }
}

/* Sums of tens of thousands, in which a near key is a matter of thousandths: the second half of a text, which the
 * steep gates in its middle cut off from the first, has the losses that it has alone. */
static void long_sums_keep_near_keys(void **unused)
{
  (void)unused;
  enum { HALF = 700 };
  reader whole, half;
  reader_open(&whole, NULL, 2, "position=fox layers=1", 2 * HALF);
  reader_open(&half, NULL, 2, "position=fox layers=1", HALF);
  for (reader *r = &whole; r; r = r == &whole ? &half : NULL) {
    float *weight = values_of(r, "position.gate.weight");
    for (size_t i = 0; i < 4 * 32; i++) weight[i] = 30 * weight[i]; /* logits of a hundred to both sides */
    for (size_t i = 0; i < 4; i++) values_of(r, "position.gate.bias")[i] = -60;
  }
  memcpy(half.tokens, whole.tokens + HALF, HALF * sizeof *half.tokens);
  memcpy(half.targets, whole.targets + HALF, HALF * sizeof *half.targets);
  float *all = losses(&whole), *alone = losses(&half);
  double sum = -whole.pass->blocks[0].key_offsets[(2 * HALF - 1) * 4];
  assert_true(sum < -20000);
  for (size_t i = 40; i < HALF; i++)
    if (!(fabsf(all[HALF + i] - alone[i]) <= 1e-5f))
      fail_msg("token %zu: expected a loss of %.8g, found %.8g", i, (double)alone[i], (double)all[HALF + i]);
  free(all);
  free(alone);
  reader_close(&whole);
  reader_close(&half);
}

/* ---- skipping, threads, cuts ---- */

/* What skipping may move a parameter's gradient by, as a share of the largest of its kind.  In exact numbers it is
 * 2e-8: that is by how much gradients by differences, in double, of a model that sees the visited keys only are
 * off from those of the whole one.  The rest is rounding, of both runs: the gradient at a gate is a sum over all
 * rows after it, which keeps their roundings though what they are of cancels.  Against double it is off by up to
 * 3.3e-5 with skipping or without (AVX-512; 2e-5 the other sets, 1.1e-5 the reference), and the two runs were up
 * to 1.4e-5 apart; the other parameters' up to 1.1e-6. */
static double limit_of(const parameter *p)
{
  return strncmp(p->name, "position.gate.", 14) == 0 ? 2 * 3.3e-5 : 4e-6;
}

static void skipping_changes_no_loss(void **unused)
{
  (void)unused;
  reader on, off;
  size_t skipped = 0;
  reader_open(&on, NULL, 2, "position=fox", LONG);
  reader_open(&off, NULL, 2, "position=fox", LONG);
  off.context->tolerance = 0;
  double with = gradient(&on), without = gradient(&off);
  for (size_t n = 0; n < 2; n++)
    for (size_t i = 0; i < LONG * 4; i++) skipped += on.pass->blocks[n].visited[2 * i] > 0;
  if (strcmp(on.context->kernel->name, "reference") != 0) assert_true(skipped > LONG);
  assert_true(fabs(with - without) <= 1e-8 * without);
  for (size_t i = 0; i < on.model->list.count; i++) {
    const parameter *p = &on.model->list.items[i];
    double largest = 0, worst = 0;
    for (size_t e = p->offset; e < p->offset + parameter_elements(p); e++) {
      keep_larger(fabs((double)off.gradients[e]), &largest);
      keep_larger(fabs((double)on.gradients[e] - (double)off.gradients[e]), &worst);
    }
    if (!(worst <= limit_of(p) * largest))
      fail_msg("%s: skipping moves a gradient by %g of %g", p->name, worst, largest);
  }
  reader_close(&on);
  reader_close(&off);
}

static void bits_do_not_depend_on_threads(void **unused)
{
  (void)unused;
  reader one, three;
  reader_open(&one, NULL, 1, "position=fox kv_heads=2", 500);
  reader_open(&three, NULL, 3, "position=fox kv_heads=2", 500);
  assert_true(gradient(&one) == gradient(&three));
  assert_memory_equal(one.gradients, three.gradients, one.model->list.floats * sizeof(float));
  reader_close(&one);
  reader_close(&three);
}

static alibi_session *open_session(alibi_model *model, int64_t keep)
{
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.capacity = LONG;
  options.keep = keep;
  if (alibi_session_new(model, &options, &session, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return session;
}

static void feed(alibi_session *session, const uint32_t *tokens, size_t count)
{
  if (alibi_session_feed(session, tokens, count, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void expect_logits(const alibi_session *s, const float *all, const char *how, size_t argument)
{
  size_t length = (size_t)alibi_session_length(s);
  size_t at = tiny_floats_differ(alibi_session_logits(s), all + (length - 1) * VOCABULARY, VOCABULARY);
  if (at)
    fail_msg("%s %zu: logit %zu after %zu tokens: expected the bits of one pass", how, argument, at - 1, length);
}

static float *logits_of(reader *r)
{
  float *all = calloc(r->length * VOCABULARY, sizeof *all);
  assert_non_null(all);
  forward(r);
  for (size_t i = 0; i < r->length; i++) model_logits(r->pass, i, all + i * VOCABULARY);
  return all;
}

static void any_cut_is_one_pass(void **unused)
{
  (void)unused;
  static const size_t cuts[] = {1, 7, 64, LONG};
  reader r;
  reader_open(&r, NULL, 1, "position=fox kv_heads=2", LONG);
  float *all = logits_of(&r);
  alibi_session *session = open_session(r.model, 0);
  for (size_t c = 0; c < 4; c++) {
    for (size_t start = 0; start < LONG; start += cuts[c]) {
      feed(session, r.tokens + start, LONG - start < cuts[c] ? LONG - start : cuts[c]);
      expect_logits(session, all, "chunks of", cuts[c]);
    }
    alibi_session_clear(session);
  }
  alibi_session_free(session);
  free(all);
  reader_close(&r);
}

static void a_shared_beginning_keeps_its_sums(void **unused)
{
  (void)unused;
  static const size_t lengths[] = {1, 63, 64, 65, 128, 200, 640, 700};
  reader r;
  reader_open(&r, NULL, 2, "position=fox kv_heads=2", LONG);
  float *all = logits_of(&r);
  for (size_t n = 0; n < 8; n++) {
    alibi_session *from = open_session(r.model, 0), *to;
    feed(from, r.tokens, 700);
    assert_int_equal(alibi_session_share(from, (int64_t)lengths[n], NULL, &to, &error), ALIBI_OK);
    if (n % 2) alibi_session_clear(from);
    if (n % 2) feed(from, r.tokens + 5, 700); /* other keys where the shared ones were */
    for (size_t i = lengths[n]; i < lengths[n] + 70; i++) {
      feed(to, r.tokens + i, 1);
      expect_logits(to, all, "shared", lengths[n]);
    }
    alibi_session_free(from);
    alibi_session_free(to);
  }
  free(all);
  reader_close(&r);
}

/* Sessions that keep few keys drop sums with them, and have the same bits. */
static void dropped_keys_are_not_missed(void **unused)
{
  (void)unused;
  reader r;
  reader_open(&r, NULL, 2, "position=fox", LONG);
  /* Gates of about 1/2 and 4/5. */
  for (size_t i = 0; i < 8; i++) values_of(&r, "position.gate.bias")[i] = i % 2 ? 1.5f : 0;
  float *all = logits_of(&r);
  alibi_session *few = r.context->kernel->proof_sums ? open_session(r.model, 512) : NULL, *again;
  for (size_t start = 0; few && start < LONG - 50; start += 50) {
    feed(few, r.tokens + start, 50);
    expect_logits(few, all, "keeping", 512);
    assert_true(alibi_session_kept(few) <= 512);
  }
  if (few) {
    assert_int_equal(alibi_session_share(few, alibi_session_length(few), NULL, &again, &error), ALIBI_OK);
    for (size_t i = LONG - 50; i < LONG; i++) {
      feed(again, r.tokens + i, 1);
      expect_logits(again, all, "a copy of one keeping", 512);
    }
    alibi_session_free(again);
  }
  alibi_session_free(few);
  free(all);
  reader_close(&r);
}

/* ---- gradients ---- */

/* d loss / d values along v, by central differences without their error of second order. */
static double difference(reader *r, const parameter *p, const float *v)
{
  size_t n = parameter_elements(p);
  float *w = r->model->values + p->offset, *was = calloc(n, sizeof *was);
  double slope[2];
  assert_non_null(was);
  memcpy(was, w, n * sizeof *w);
  for (int half = 0; half < 2; half++) {
    double e = half ? 0.01 : 0.02, sides[2];
    for (int side = 0; side < 2; side++) {
      for (size_t i = 0; i < n; i++) w[i] = (float)((double)was[i] + (side ? -e : e) * (double)v[i]);
      sides[side] = total_loss(r);
    }
    slope[half] = (sides[0] - sides[1]) / (2 * e);
  }
  memcpy(w, was, n * sizeof *w);
  free(was);
  return (4 * slope[1] - slope[0]) / 3;
}

/* A text of several blocks; the reference rounds least. */
static void gradients_are_differences(void **unused)
{
  (void)unused;
  static const char *const names[] = {"position.gate.weight", "position.gate.bias"};
  reader r;
  reader_open(&r, "reference", 2, "position=fox kv_heads=2", 150);
  gradient(&r);
  float *found = calloc(r.model->list.floats, sizeof *found);
  assert_non_null(found);
  memcpy(found, r.gradients, r.model->list.floats * sizeof *found);
  for (size_t k = 0; k < 2; k++) {
    const parameter *p = find(&r, names[k]);
    size_t n = parameter_elements(p);
    double norm = 0;
    float v[2 * 4 * 32];
    assert_true(n <= sizeof v / sizeof v[0]);
    for (size_t i = 0; i < n; i++) norm += pow((double)found[p->offset + i], 2);
    assert_true(norm > 1e-3);
    for (size_t i = 0; i < n; i++) v[i] = (float)((double)found[p->offset + i] / sqrt(norm));
    double expected = difference(&r, p, v);
    if (!(fabs(expected - sqrt(norm)) <= 2e-3 * sqrt(norm)))
      fail_msg("%s: expected a derivative of %.8g, found %.8g", names[k], expected, sqrt(norm));
  }
  free(found);
  reader_close(&r);
}

/* Each instruction set, where sums over hundreds of rows round. */
static void instruction_sets_agree(void **unused)
{
  (void)unused;
  reader expected;
  reader_open(&expected, "reference", 2, "position=fox", 600);
  gradient(&expected);
  for (size_t isa = 1; isa < kernel_table_count(); isa++) {
    if (!kernel_table_at(isa)) continue;
    reader found;
    reader_open(&found, kernel_table_at(isa)->name, 2, "position=fox", 600);
    gradient(&found);
    for (size_t i = 0; i < found.model->list.count; i++) {
      const parameter *p = &found.model->list.items[i];
      double largest = 0, worst = 0;
      for (size_t e = p->offset; e < p->offset + parameter_elements(p); e++) {
        keep_larger(fabs((double)expected.gradients[e]), &largest);
        keep_larger(fabs((double)found.gradients[e] - (double)expected.gradients[e]), &worst);
      }
      if (!(worst <= 5e-5 * largest))
        fail_msg("%s: %s: expected within %g of the reference, found %g", kernel_table_at(isa)->name, p->name,
                 5e-5 * largest, worst);
    }
    reader_close(&found);
  }
  reader_close(&expected);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constant_gates_are_alibi),
      cmocka_unit_test(gates_may_be_0_and_1),
      cmocka_unit_test(long_sums_keep_near_keys),
      cmocka_unit_test(skipping_changes_no_loss),
      cmocka_unit_test(bits_do_not_depend_on_threads),
      cmocka_unit_test(any_cut_is_one_pass),
      cmocka_unit_test(a_shared_beginning_keeps_its_sums),
      cmocka_unit_test(dropped_keys_are_not_missed),
      cmocka_unit_test(gradients_are_differences),
      cmocka_unit_test(instruction_sets_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
