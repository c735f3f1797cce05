/* Whole models with every position method and every extension, for each row of the two registries: the gradient of
 * the loss by each of the method's parameters is that of finite differences; a text read in any pieces and then
 * token by token gives the bits of one pass; a model that is saved and opened is the same, its settings and those
 * of an extension of its own too; a text 64 times as long as those of the training has a finite loss; where a bias
 * decays, keys are left out and the loss is the same; what lies beyond a window is not seen.  Each without and
 * with scores that grow with ln n, and with an extension that follows the length or has a factor.  The models are
 * tiny, with random weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "conformance/position_rows.h"
#include "conformance/position_vary.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum {
  VOCABULARY = 29,
  TRAIN_LENGTH = 96,
  STEPS = 64,
  LONG_TEXT = 450,
  SHORT_TRAIN_LENGTH = 24,
  LONGEST = 64 * SHORT_TRAIN_LENGTH
};

static alibi_error error;

typedef struct subject {
  char settings[192], name[256], extend[ALIBI_NAME_SIZE + 16];
  const position_method *method;
  const position_extension *extension; /* NULL: as trained */
  union {
    max_align_t align;
    char bytes[ALIBI_POSITION_OPTIONS_SIZE];
  } extension_options;
  alibi_context *context;
  alibi_model *model;
} subject;

static const char *const variants[] = {"", " kv_heads=2 score_scaling=ssmax",
                                       (" qk_norm=true kv_heads=1 score_scaling=log-n norm=rmsnorm"
                                        " activation=swiglu"),
                                       " layers=1"};
/* That in which extensions have a factor of 4; that of one test; the others. */
enum { FACTOR = 1, ONE_LAYER = 3, VARIANTS = 3 };

/* The extension, at first as it is. */
static void extend(subject *s, bool by_factor)
{
  const field *factor = s->extension ? field_find(s->extension->fields, "factor") : NULL;
  if (!s->extension) return;
  field_init(s->extension->fields, s->extension_options.bytes);
  snprintf(s->extend, sizeof s->extend, "%s%s", s->extension->name, factor && by_factor ? ":factor=4" : "");
  if (factor && by_factor)
    assert_int_equal(field_set_number(factor, s->extension_options.bytes, "factor", 4, &error), ALIBI_OK);
}

/* Row of the registries, methods first; isa NULL: the best. */
static void subject_open(subject *s, size_t row, size_t variant, const char *isa, int threads, size_t train_length)
{
  memset(s, 0, sizeof *s);
  position_row_pair pair;
  char row_name[128];
  assert_true(position_row_at(row, &pair));
  position_row_name(&pair, row_name, sizeof row_name);
  s->method = pair.method;
  s->extension = pair.extension;
  extend(s, variant == FACTOR);
  snprintf(s->settings, sizeof s->settings, "position=%s train_length=%zu%s", s->method->name, train_length,
           variants[variant]);
  snprintf(s->name, sizeof s->name, "%s:%s", row_name, variants[variant]);
  s->context = tiny_context(isa, threads);
  s->model = tiny_model(s->context, s->settings);
}

static void subject_close(subject *s)
{
  alibi_model_free(s->model);
  alibi_context_free(s->context);
}

/* As many of `length` positions as there are. */
static size_t at_most(const subject *s, size_t length)
{
  position_shape shape = model_config_position_shape(&s->model->config);
  size_t limit = position_method_limit(s->method, &shape, s->model->config.position_options.bytes, s->extension);
  return length < limit ? length : limit;
}

static model_pass *new_pass(const subject *s, size_t length, bool keep)
{
  pass_shape shape = {.rows = length, .segments = 1, .length = length, .head_rows = 16, .keep = keep,
                      .extension = s->extension, .extension_options = s->extension_options.bytes};
  model_pass *pass;
  if (model_pass_new(s->model, &shape, &pass, &error) != ALIBI_OK) fail_msg("%s: %s", s->name, error.message);
  return pass;
}

static void forward(const subject *s, model_pass *pass, const uint32_t *tokens, size_t count)
{
  pass_segment segment = {.count = count};
  if (model_forward(pass, tokens, &segment, 1, &error) != ALIBI_OK) fail_msg("%s: %s", s->name, error.message);
}

static double loss_of(const subject *s, model_pass *pass, const uint32_t *tokens, const uint32_t *targets,
                      size_t count)
{
  size_t *rows = malloc(count * sizeof *rows);
  float *losses = malloc(count * sizeof *losses);
  double sum = 0;
  assert_non_null(rows);
  assert_non_null(losses);
  for (size_t r = 0; r < count; r++) rows[r] = r;
  forward(s, pass, tokens, count);
  model_losses(pass, rows, targets, count, losses);
  for (size_t r = 0; r < count; r++) sum += losses[r];
  free(rows);
  free(losses);
  return sum;
}

/* ---- gradients ---- */

enum { ROWS = 48, PROBES = 12 };

typedef struct text {
  uint32_t tokens[ROWS], targets[ROWS];
} text;

static double central(const subject *s, model_pass *pass, const text *t, float *value, double step)
{
  float kept = *value;
  volatile float up = kept + (float)step, down = kept - (float)step;
  *value = up;
  model_pass_refresh(pass);
  double above = loss_of(s, pass, t->tokens, t->targets, ROWS);
  *value = down;
  model_pass_refresh(pass);
  double below = loss_of(s, pass, t->tokens, t->targets, ROWS);
  *value = kept;
  model_pass_refresh(pass);
  return (above - below) / ((double)up - (double)down);
}

/* The loss is a sum of fp32 numbers: its differences are good to about 1e-5 / step. */
static void check_parameter(const subject *s, model_pass *pass, const text *t, const parameter *p,
                            const float *grads)
{
  size_t elements = parameter_elements(p);
  double largest = 0;
  for (size_t k = 0; k < elements; k++) largest = fmax(largest, fabs(grads[k]));
  if (!(largest > 1e-3)) fail_msg("%s: %s: its gradient is nearly 0 and proves nothing", s->name, p->name);
  for (size_t k = 0; k < elements; k += elements / PROBES + 1) {
    float *value = s->model->values + p->offset + k;
    double step = fmin(0.025, 0.05 / largest);
    double coarse = central(s, pass, t, value, step), fine = central(s, pass, t, value, step / 2);
    double expected = (4 * fine - coarse) / 3, tolerance = 2e-3 * largest + 2e-5 / step;
    /* Where a kink of a bias lay within the step, what is left of it falls with the step. */
    for (double finer = step / 4; finer > step / 100 && !(fabs(grads[k] - expected) <= tolerance); finer /= 4) {
      expected = central(s, pass, t, value, finer);
      tolerance = 2e-3 * largest + 4e-6 / finer;
    }
    if (!(fabs(grads[k] - expected) <= tolerance))
      fail_msg("%s: %s, element %zu: expected a derivative of %g, found %g (the largest is %g)", s->name, p->name,
               k, expected, grads[k], largest);
  }
}

static bool is_of_position(const parameter *p)
{
  return strncmp(p->name, "position.", 9) == 0;
}

static void check_gradients(const subject *s)
{
  text t;
  float *block = calloc(s->model->list.floats, sizeof *block);
  model_parameters grads;
  model_pass *pass = new_pass(s, ROWS, true);
  assert_non_null(block);
  assert_int_equal(model_parameters_new(&s->model->list, &s->model->config, block, &grads, &error), ALIBI_OK);
  tiny_tokens(t.tokens, ROWS, 21, VOCABULARY);
  tiny_tokens(t.targets, ROWS, 22, VOCABULARY);
  forward(s, pass, t.tokens, ROWS);
  model_backward(pass, t.targets, &grads, NULL);
  for (size_t i = 0; i < s->model->list.count; i++) {
    const parameter *p = &s->model->list.items[i];
    if (is_of_position(p)) check_parameter(s, pass, &t, p, block + p->offset);
  }
  model_pass_free(pass);
  model_parameters_free(&grads);
  free(block);
}

static void gradients_are_finite_differences(void **unused)
{
  (void)unused;
  static const char *const sets[] = {"reference", NULL};
  for (size_t row = 0; row < position_method_count(); row++)
    for (size_t n = 0; n < 2 * VARIANTS; n++) {
      subject s;
      subject_open(&s, row, n / 2, sets[n % 2], 1, TRAIN_LENGTH);
      check_gradients(&s);
      subject_close(&s);
    }
}

/* ---- decoding ---- */

static alibi_session *new_session(const subject *s, size_t capacity)
{
  alibi_session_options options;
  alibi_session *session;
  alibi_session_options_init(&options);
  options.capacity = (int64_t)capacity;
  options.extend = s->extension ? s->extend : NULL;
  if (alibi_session_new(s->model, &options, &session, &error) != ALIBI_OK)
    fail_msg("%s: %s", s->name, error.message);
  return session;
}

static void feed(const subject *s, alibi_session *session, const uint32_t *tokens, size_t count)
{
  if (alibi_session_feed(session, tokens, count, &error) != ALIBI_OK) fail_msg("%s: %s", s->name, error.message);
}

/* The text but for its last tokens in pieces, and these one by one; all[n, V]: logits of one pass. */
static void check_decoding(const subject *s, const uint32_t *tokens, size_t length, size_t piece, const float *all)
{
  alibi_session *session = new_session(s, length);
  size_t read = length - STEPS;
  for (size_t at = 0; at < read; at += piece) feed(s, session, tokens + at, read - at < piece ? read - at : piece);
  for (size_t at = read; at < length; at++) {
    size_t different = tiny_floats_differ(all + (at - 1) * VOCABULARY, alibi_session_logits(session), VOCABULARY);
    if (different)
      fail_msg("%s: pieces of %zu: other logits at position %zu than in one pass", s->name, piece, at - 1);
    feed(s, session, tokens + at, 1);
  }
  assert_int_equal(
      tiny_floats_differ(all + (length - 1) * VOCABULARY, alibi_session_logits(session), VOCABULARY), 0);
  alibi_session_free(session);
}

static void decoding_is_one_pass(void **unused)
{
  (void)unused;
  uint32_t tokens[LONG_TEXT];
  tiny_tokens(tokens, LONG_TEXT, 5, VOCABULARY);
  for (size_t row = 0; row < position_row_count(); row++)
    for (size_t variant = 0; variant < VARIANTS; variant++) {
      subject s;
      subject_open(&s, row, variant, NULL, 1 + row % 2, TRAIN_LENGTH);
      size_t length = at_most(&s, LONG_TEXT), pieces[] = {1, 7, 64, length};
      float *all = malloc(length * VOCABULARY * sizeof *all);
      assert_non_null(all);
      model_pass *pass = new_pass(&s, length, false);
      forward(&s, pass, tokens, length);
      for (size_t r = 0; r < length; r++) model_logits(pass, r, all + r * VOCABULARY);
      model_pass_free(pass);
      for (size_t k = 0; k < 4; k++) check_decoding(&s, tokens, length, pieces[k], all);
      free(all);
      subject_close(&s);
    }
}

/* ---- files ---- */

static void last_logits(const subject *s, const alibi_model *model, const uint32_t *tokens, size_t length,
                        float *logits)
{
  subject one = *s;
  one.model = (alibi_model *)model;
  one.extension = NULL; /* if there is one it is the model's own */
  model_pass *pass = new_pass(&one, length, false);
  forward(&one, pass, tokens, length);
  model_logits(pass, length - 1, logits);
  model_pass_free(pass);
}

static bool config_is_fit(void *user)
{
  return alibi_model_config_check(user, &error) == ALIBI_OK;
}

/* Settings that are not the initial ones, of the method and of the extension.  Returns how many. */
static size_t change_settings(alibi_model_config *config, vary_kind kind)
{
  const position_extension *extension = position_extension_find(config->position, config->extension);
  size_t heads = (size_t)config->heads;
  size_t count = vary(model_config_method(config)->fields, config->position_options.bytes, kind, heads,
                      config_is_fit, config);
  if (extension)
    count += vary(extension->fields, config->extension_options.bytes, kind, heads, config_is_fit, config);
  return count;
}

static void check_same(const subject *s, field_table table, const void *a, const void *b)
{
  for (size_t i = 0; i < table.count; i++)
    if (!field_equal(&table.fields[i], a, b))
      fail_msg("%s: another %s after saving and opening", s->name, table.fields[i].name);
}

static void check_file(const subject *s, const alibi_model *written)
{
  uint32_t tokens[TRAIN_LENGTH];
  float expected[VOCABULARY], found[VOCABULARY];
  alibi_model *read;
  const char *directory = scratch_path("model");
  tiny_tokens(tokens, TRAIN_LENGTH, 6, VOCABULARY);
  if (alibi_model_save(written, directory, &error) != ALIBI_OK) fail_msg("%s: %s", s->name, error.message);
  if (alibi_model_open(s->context, directory, &read, &error) != ALIBI_OK)
    fail_msg("%s: %s", s->name, error.message);
  const alibi_model_config *a = alibi_model_get_config(written), *b = alibi_model_get_config(read);
  assert_string_equal(a->position, b->position);
  assert_string_equal(a->extension, b->extension);
  check_same(s, s->method->fields, a->position_options.bytes, b->position_options.bytes);
  if (s->extension) check_same(s, s->extension->fields, a->extension_options.bytes, b->extension_options.bytes);
  last_logits(s, written, tokens, TRAIN_LENGTH, expected);
  last_logits(s, read, tokens, TRAIN_LENGTH, found);
  if (tiny_floats_differ(expected, found, VOCABULARY))
    fail_msg("%s: other logits after saving and opening", s->name);
  alibi_model_free(read);
}

static void what_is_opened_is_what_was_saved(void **unused)
{
  (void)unused;
  size_t changes[VARY_KINDS] = {0};
  for (size_t row = 0; row < position_row_count(); row++)
    for (size_t n = 0; n < VARIANTS * VARY_KINDS; n++) {
      subject s;
      vary_kind kind = (vary_kind)(n % VARY_KINDS);
      alibi_model *model;
      if (row >= position_method_count() && n / VARY_KINDS != FACTOR)
        continue; /* the block is the method's affair */
      subject_open(&s, row, n / VARY_KINDS, NULL, 1, TRAIN_LENGTH);
      alibi_model_config config = *alibi_model_get_config(s.model);
      if (s.extension && alibi_model_config_set(&config, "extension", s.extend, &error) != ALIBI_OK)
        fail_msg("%s: %s", s.name, error.message);
      size_t changed = change_settings(&config, kind);
      changes[kind] += changed;
      if (kind == VARY_NOTHING && !s.extension) {
        check_file(&s, s.model);
      } else if (kind == VARY_NOTHING || changed > 0) {
        if (alibi_model_new(s.context, &config, 3, &model, &error) != ALIBI_OK)
          fail_msg("%s: %s", s.name, error.message);
        check_file(&s, model);
        alibi_model_free(model);
      }
      subject_close(&s);
    }
  assert_true(changes[VARY_NUMBERS] > 100 && changes[VARY_TEXTS] >= 5);
}

/* ---- far beyond the training ---- */

static void long_texts_have_a_finite_loss(void **unused)
{
  (void)unused;
  static uint32_t tokens[LONGEST + 1];
  tiny_tokens(tokens, LONGEST + 1, 7, VOCABULARY);
  for (size_t row = 0; row < position_row_count(); row++)
    for (size_t variant = 0; variant < VARIANTS; variant++) {
      subject s;
      subject_open(&s, row, variant, NULL, 2, SHORT_TRAIN_LENGTH);
      size_t length = at_most(&s, LONGEST);
      for (int fresh = 0; fresh < 2; fresh++) {
        if (fresh) parameter_list_initialise(&s.model->list, &s.model->config, 5, s.model->values);
        model_pass *pass = new_pass(&s, length, false);
        double loss = loss_of(&s, pass, tokens, tokens + 1, length) / (double)length;
        if (!(loss > 0 && loss < 100)) fail_msg("%s: a loss of %g at length %zu", s.name, loss, length);
        model_pass_free(pass);
      }
      subject_close(&s);
    }
}

/* ---- what decays is skipped ---- */

enum { SKIP_TEXT = 640 };

/* Blocks of keys that rows left out, of all layers and heads. */
static size_t left_out(const model_pass *pass)
{
  size_t heads = (size_t)pass->model->config.heads, count = 0;
  for (size_t layer = 0; layer < (size_t)pass->model->config.layers; layer++) {
    const int32_t *visited = pass->blocks[layer].visited;
    for (size_t n = 0; visited && n < pass->rows * heads; n++) count += (size_t)visited[2 * n];
  }
  return count;
}

static void decaying_methods_skip_and_say_the_same(void **unused)
{
  (void)unused;
  uint32_t tokens[SKIP_TEXT + 1];
  tiny_tokens(tokens, SKIP_TEXT + 1, 8, VOCABULARY);
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 0, NULL, 1, TRAIN_LENGTH);
    size_t length = at_most(&s, SKIP_TEXT);
    double losses[2];
    for (int exact = 0; exact < 2; exact++) {
      if (exact) s.context->tolerance = 0;
      model_pass *pass = new_pass(&s, length, true);
      losses[exact] = loss_of(&s, pass, tokens, tokens + 1, length);
      size_t count = left_out(pass);
      bool may = s.method->decays && !exact,
           must = may && !s.extension; /* an extension may reach over the whole text */
      if (count > 0 ? !may : must)
        fail_msg("%s: %zu blocks were left out, with a tolerance of %g", s.name, count, s.context->tolerance);
      model_pass_free(pass);
    }
    if (!(fabs(losses[0] - losses[1]) <= 1e-5 * losses[1]))
      fail_msg("%s: a loss of %.9g where keys are left out, %.9g where none is", s.name, losses[0], losses[1]);
    subject_close(&s);
  }
}

/* ---- windows ---- */

/* Token 0 is another one: the logits of queries that see it are others, those of queries whose window ends before
 * it the same. */
static void what_lies_beyond_a_window_is_not_seen(void **unused)
{
  (void)unused;
  enum { TEXT = 60, NEAR = 8 };
  size_t hidden = 0;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    uint32_t tokens[TEXT];
    float logits[2][TEXT][VOCABULARY];
    tiny_tokens(tokens, TEXT, 9, VOCABULARY);
    subject_open(&s, row, ONE_LAYER, NULL, 1, SHORT_TRAIN_LENGTH);
    size_t length = at_most(&s, TEXT), window = 0;
    for (int other = 0; other < 2; other++) {
      model_pass *pass = new_pass(&s, length, false);
      if (other) tokens[0] = (tokens[0] + 1) % VOCABULARY;
      forward(&s, pass, tokens, length);
      for (size_t r = 0; r < length; r++) model_logits(pass, r, logits[other][r]);
      window = pass->position.plan.window;
      model_pass_free(pass);
    }
    for (size_t r = 0; r < length; r++) {
      bool differs = tiny_floats_differ(logits[0][r], logits[1][r], VOCABULARY) != 0,
           beyond = window && r >= window;
      if (differs ? beyond : r < NEAR || (window && !beyond))
        fail_msg("%s: query %zu, a window of %zu: token 0 is %s", s.name, r, window,
                 differs ? "seen" : "not seen");
      hidden += beyond;
    }
    subject_close(&s);
  }
  assert_true(hidden > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_finite_differences),
      cmocka_unit_test(decoding_is_one_pass),
      cmocka_unit_test_setup_teardown(what_is_opened_is_what_was_saved, scratch_setup, scratch_teardown),
      cmocka_unit_test(long_texts_have_a_finite_loss),
      cmocka_unit_test(decaying_methods_skip_and_say_the_same),
      cmocka_unit_test(what_lies_beyond_a_window_is_not_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
