/* The gradient of a whole model, for every position method and every kind of block.
 *
 * The reference kernels (double inside, fp32 stored) are held against finite differences of the loss, parameter by
 * parameter, along directions; every other instruction set is then held against the reference, number by number.
 * Along a direction v, central differences at two step sizes give (L(w + e v) - L(w - e v)) / 2e without its e^2
 * term (Richardson). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/train.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

/* Two sequences, one shorter than the model's length: 37 rows. */
enum { VOCABULARY = 29, LENGTH = 24, SEQUENCES = 2, ROWS = 37, DIRECTIONS = 3 };

static const size_t counts[SEQUENCES] = {24, 13};

/* A model with a pass over one fixed batch. */
typedef struct bench {
  alibi_context *context;
  alibi_model *model;
  model_pass *pass;
  float *gradients, *saved;
  model_parameters pointers;
  uint32_t tokens[ROWS], targets[ROWS];
  bool with_target[ROWS];
  double loss; /* as backward tells it */
  char name[256];
} bench;

static alibi_error error;

static void bench_open(bench *b, const char *isa, int threads, const char *settings)
{
  *b = (bench){0};
  snprintf(b->name, sizeof b->name, "%s, %s", settings, isa);
  b->context = tiny_context(isa, threads);
  b->model = tiny_model(b->context, settings);
  pass_shape shape = {.rows = ROWS, .segments = SEQUENCES, .length = LENGTH, .head_rows = 10, .keep = true};
  if (model_pass_new(b->model, &shape, &b->pass, &error) != ALIBI_OK) fail_msg("%s: %s", b->name, error.message);
  b->gradients = calloc(b->model->list.floats, sizeof(float));
  b->saved = malloc(b->model->list.floats * sizeof(float));
  assert_non_null(b->gradients);
  assert_non_null(b->saved);
  assert_int_equal(model_parameters_new(&b->model->list, &b->model->config, b->gradients, &b->pointers, &error),
                   ALIBI_OK);
  tiny_tokens(b->tokens, ROWS, 21, VOCABULARY);
  tiny_tokens(b->targets, ROWS, 22, VOCABULARY);
  for (size_t r = 0; r < ROWS; r++) b->with_target[r] = true;
}

static void bench_close(bench *b)
{
  model_parameters_free(&b->pointers);
  free(b->gradients);
  free(b->saved);
  model_pass_free(b->pass);
  alibi_model_free(b->model);
  alibi_context_free(b->context);
}

static void forward(bench *b)
{
  pass_segment segments[SEQUENCES] = {{.count = counts[0]}, {.count = counts[1]}};
  if (model_forward(b->pass, b->tokens, segments, SEQUENCES, &error) != ALIBI_OK)
    fail_msg("%s: %s", b->name, error.message);
}

/* z (log sum exp)^2 of the rows with a target. */
static double z_loss_of(bench *b)
{
  float logits[VOCABULARY];
  double total = 0;
  for (size_t r = 0; r < ROWS; r++) {
    double sum = 0;
    if (!b->with_target[r]) continue;
    model_logits(b->pass, r, logits);
    for (size_t i = 0; i < VOCABULARY; i++) sum += exp(logits[i]);
    total += (double)b->pass->z_loss * log(sum) * log(sum);
  }
  return total;
}

/* Sum of the rows' losses. */
static double loss_of(bench *b)
{
  static const size_t rows[ROWS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18,
                                    19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36};
  float losses[ROWS];
  double sum = 0;
  model_pass_refresh(b->pass);
  forward(b);
  model_losses(b->pass, rows, b->targets, ROWS, losses);
  for (size_t r = 0; r < ROWS; r++) sum += b->with_target[r] ? losses[r] : 0;
  return b->pass->z_loss > 0 ? sum + z_loss_of(b) : sum;
}

/* Of `rows` rows from `first`, those without a target told so. */
static double backward(bench *b, const uint32_t *all, size_t first, size_t rows, const backward_hooks *hooks)
{
  uint32_t targets[ROWS];
  for (size_t r = 0; r < rows; r++) targets[r] = b->with_target[first + r] ? all[first + r] : OP_NO_TARGET;
  return model_backward(b->pass, targets, &b->pointers, hooks);
}

static void gradient(bench *b)
{
  memset(b->gradients, 0, b->model->list.floats * sizeof(float));
  forward(b);
  b->loss = backward(b, b->targets, 0, ROWS, NULL);
}

/* Direction 0 is the gradient's own: no other has so large a derivative, so an error of scale cannot hide.  The
 * others are random signs, in which every element has its share. */
static void make_direction(const bench *b, size_t which, const parameter *p, float *v)
{
  size_t n = parameter_elements(p);
  const float *g = b->gradients + p->offset;
  double norm = 0;
  for (size_t i = 0; i < n; i++) {
    v[i] = which == 0 ? g[i] : random_below(which, p->offset, i, 2) ? 1.0f : -1.0f;
    norm += (double)v[i] * v[i];
  }
  for (size_t i = 0; i < n && norm > 0; i++) v[i] = (float)(v[i] / sqrt(norm));
}

static double difference(bench *b, const parameter *p, const float *v, double e)
{
  size_t n = parameter_elements(p);
  float *w = b->model->values + p->offset, *w0 = b->saved + p->offset;
  double sides[2], moved = 0, norm = 0;
  for (int side = 0; side < 2; side++) {
    for (size_t i = 0; i < n; i++) w[i] = (float)(w0[i] + (side ? -e : e) * v[i]);
    sides[side] = loss_of(b);
    /* what fp32 stored, along v */
    for (size_t i = 0; i < n; i++) moved += (side ? -1 : 1) * ((double)w[i] - w0[i]) * v[i];
  }
  memcpy(w, w0, n * sizeof *w);
  for (size_t i = 0; i < n; i++) norm += (double)v[i] * v[i];
  return (sides[0] - sides[1]) * norm / moved;
}

typedef struct slope_pair {
  double expected; /* by differences */
  double found;    /* gradient . v */
} slope_pair;

/* Is the loss bent where a number passes another one?  Then random directions, along which it hardly moves, meet
 * more bends than slope; that of the gradient tells. */
static bool has_corners(const bench *b)
{
  const alibi_model_config *c = &b->model->config;
  return c->activation == ALIBI_RELU || c->activation == ALIBI_REGLU || c->clip_qkv > 0;
}

static slope_pair along(bench *b, const parameter *p, size_t which, float *v)
{
  size_t n = parameter_elements(p);
  slope_pair pair = {0, 0};
  double norm = 0, scale = 0;
  make_direction(b, which, p, v);
  for (size_t i = 0; i < n; i++) {
    double g = b->gradients[p->offset + i];
    pair.found += g * v[i];
    norm += g * g;
  }
  scale = sqrt(norm);
  /* The loss moves by about 0.4 at the larger step along the gradient: far above its rounding (1e-5), far below
   * its curvature. */
  double e = fmin(0.2 / (scale + 1e-3), 0.1) * (has_corners(b) ? 0.1 : 1);
  pair.expected = (4 * difference(b, p, v, e / 2) - difference(b, p, v, e)) / 3;
  return pair;
}

static double gradient_norm(const bench *b, const parameter *p)
{
  double sum = 0;
  for (size_t i = 0; i < parameter_elements(p); i++)
    sum += (double)b->gradients[p->offset + i] * b->gradients[p->offset + i];
  return sqrt(sum);
}

/* The tolerance of a random direction is relative to what such a direction has: norm / sqrt(n). */
static bool agrees(const bench *b, const parameter *p, size_t which, slope_pair pair)
{
  double norm = gradient_norm(b, p), n = (double)parameter_elements(p);
  double scale = which == 0 ? norm : fmax(fabs(pair.expected), norm / sqrt(n));
  double off = fabs(pair.found - pair.expected);
  return off <= (has_corners(b) ? 0.03 : 0.01) * scale + 1e-4;
}

/* The bias of such a method bends where its parameters move by so much: smaller steps are taken in the tests of
 * its own. */
static bool bends(const bench *b, const parameter *p)
{
  return strcmp(b->model->method->name, "fire") == 0 && strncmp(p->name, "position.", 9) == 0;
}

/* Every third row has no target; the first ten, a block of the loss's rows, have none at all. */
static void take_targets_away(bench *b)
{
  for (size_t r = 0; r < ROWS; r++) b->with_target[r] = r >= 10 && r % 3 != 0;
}

static void check_against_differences(const char *settings, bool bare_rows, float z_loss)
{
  bench b;
  bench_open(&b, "reference", 1, settings);
  b.pass->z_loss = z_loss;
  if (bare_rows) take_targets_away(&b);
  memcpy(b.saved, b.model->values, b.model->list.floats * sizeof(float));
  gradient(&b);
  float *v = malloc(b.model->list.floats * sizeof(float));
  assert_non_null(v);
  for (size_t i = 0; i < b.model->list.count; i++) {
    const parameter *p = &b.model->list.items[i];
    if (bends(&b, p)) continue;
    if (!(gradient_norm(&b, p) > 1e-3))
      fail_msg("%s: %s: its gradient is nearly 0 and proves nothing", b.name, p->name);
    for (size_t which = 0; which < (has_corners(&b) ? 1 : DIRECTIONS); which++) {
      slope_pair pair = along(&b, p, which, v);
      if (!agrees(&b, p, which, pair))
        fail_msg("%s: %s, direction %zu: expected a derivative of %g, found %g", b.name, p->name, which,
                 pair.expected, pair.found);
      pair.found *= 1.05; /* the test can tell */
      if (which == 0 && agrees(&b, p, which, pair))
        fail_msg("%s: %s: a gradient 5 %% too large would pass", b.name, p->name);
    }
  }
  free(v);
  bench_close(&b);
}

static void method_settings(size_t row, char *settings, size_t size)
{
  snprintf(settings, size, "position=%s", position_method_at(row)->name);
}

static void differences_of_every_method(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t row = 0; row < position_method_count(); row++) {
    method_settings(row, settings, sizeof settings);
    check_against_differences(settings, false, 0);
  }
}

static void differences_of_every_block(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < TINY_VARIANTS; i++) check_against_differences(tiny_variants[i], false, 0);
  check_against_differences("position=t5 kv_heads=2 qk_norm=true bias=true", false, 0);
  check_against_differences("position=rope rope_fraction=0.5 kv_heads=2 qk_norm=true", false, 0);
  check_against_differences("alibi_rounding=falcon alibi_slope_scale=0.5", false, 0);
}

static void differences_of_what_a_loss_may_be(void **unused)
{
  (void)unused;
  check_against_differences("position=alibi", true, 0);
  check_against_differences("position=rope", false, 0.05f);
  check_against_differences("tied=false " TINY_MODERN, true, 0.05f);
}

/* What is told is the sum of the cross-entropies of the rows with a target, and no more. */
static void the_loss_that_is_told(void **unused)
{
  (void)unused;
  bench b;
  bench_open(&b, NULL, 2, "position=alibi");
  take_targets_away(&b);
  double expected = loss_of(&b);
  gradient(&b);
  assert_true(fabs(b.loss - expected) <= 1e-5 * expected);
  double before = b.loss;
  b.pass->z_loss = 0.1f;
  gradient(&b);
  assert_true(b.loss == before);
  memset(b.with_target, 0, sizeof b.with_target);
  gradient(&b);
  assert_true(b.loss == 0);
  for (size_t i = 0; i < b.model->list.floats; i++) assert_true(b.gradients[i] == 0);
  bench_close(&b);
}

/* ---- whom backward tells ---- */

typedef struct listener {
  const bench *b;
  float *told; /* the gradients as they were when they were called final */
  size_t from; /* those from here on were */
  size_t calls;
} listener;

static void listen(void *user, size_t from, size_t count)
{
  listener *l = user;
  assert_true(count > 0);
  assert_int_equal(from + count, l->from);
  memcpy(l->told + from, l->b->gradients + from, count * sizeof *l->told);
  l->from = from;
  l->calls++;
}

static void check_listening(const char *settings)
{
  bench b;
  bench_open(&b, NULL, 2, settings);
  size_t floats = b.model->list.floats, layers = (size_t)b.model->config.layers;
  listener l = {.b = &b, .told = calloc(floats, sizeof(float)), .from = floats};
  assert_non_null(l.told);
  forward(&b);
  backward(&b, b.targets, 0, ROWS, &(backward_hooks){listen, &l});
  assert_int_equal(l.from, 0);
  bool has_end = model_block_offset(b.model, layers) < floats;
  assert_int_equal(l.calls, layers + 1 + has_end); /* the end, each block, the rest */
  assert_int_equal(tiny_floats_differ(l.told, b.gradients, floats), 0);
  free(l.told);
  bench_close(&b);
}

static void final_gradients_are_told_once(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t row = 0; row < position_method_count(); row++) {
    method_settings(row, settings, sizeof settings);
    check_listening(settings);
  }
  for (size_t i = 0; i < TINY_VARIANTS; i++) check_listening(tiny_variants[i]);
}

static void compare_with_reference(const char *isa, const char *settings)
{
  bench expected, found;
  bench_open(&expected, "reference", 1, settings);
  bench_open(&found, isa, 2, settings);
  gradient(&expected);
  gradient(&found);
  for (size_t i = 0; i < expected.model->list.count; i++) {
    const parameter *p = &expected.model->list.items[i];
    const float *e = expected.gradients + p->offset, *f = found.gradients + p->offset;
    double largest = 0, off = 0;
    for (size_t k = 0; k < parameter_elements(p); k++) {
      largest = fmax(largest, fabs(e[k]));
      off = isnan(f[k]) ? INFINITY : fmax(off, fabs((double)e[k] - f[k]));
    }
    if (off > 1e-4 * largest)
      fail_msg("%s: %s: expected within %g of the reference, found %g", found.name, p->name, 1e-4 * largest, off);
  }
  bench_close(&expected);
  bench_close(&found);
}

static void instruction_sets_agree_with_the_reference(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t isa = 1; isa < kernel_table_count(); isa++) {
    if (!kernel_table_at(isa)) continue;
    for (size_t row = 0; row < position_method_count(); row++) {
      method_settings(row, settings, sizeof settings);
      compare_with_reference(kernel_table_at(isa)->name, settings);
    }
    for (size_t i = 0; i < TINY_VARIANTS; i++)
      compare_with_reference(kernel_table_at(isa)->name, tiny_variants[i]);
  }
}

/* Changing a token changes no logit before it, to the bit, and some logit from it on. */
static void check_future(const char *isa, const char *settings)
{
  enum { CHANGED = 9 };
  bench b;
  bench_open(&b, isa, 2, settings);
  float *before = malloc(ROWS * VOCABULARY * sizeof *before), *after = malloc(ROWS * VOCABULARY * sizeof *after);
  assert_non_null(before);
  assert_non_null(after);
  forward(&b);
  for (size_t r = 0; r < ROWS; r++) model_logits(b.pass, r, before + r * VOCABULARY);
  b.tokens[CHANGED] = (b.tokens[CHANGED] + 1) % VOCABULARY;
  forward(&b);
  for (size_t r = 0; r < ROWS; r++) model_logits(b.pass, r, after + r * VOCABULARY);
  for (size_t r = 0; r < ROWS; r++) {
    size_t at = tiny_floats_differ(before + r * VOCABULARY, after + r * VOCABULARY, VOCABULARY);
    bool may = r >= CHANGED && r < counts[0];
    if (!may && at) fail_msg("%s: token %d was changed, and so was a logit at %zu", b.name, CHANGED, r);
    if (may && !at) fail_msg("%s: token %d was changed, but no logit at %zu", b.name, CHANGED, r);
  }
  free(before);
  free(after);
  bench_close(&b);
}

static void nothing_of_the_future_leaks(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t isa = 0; isa < kernel_table_count(); isa++) {
    if (!kernel_table_at(isa)) continue;
    for (size_t row = 0; row < position_method_count(); row++) {
      method_settings(row, settings, sizeof settings);
      check_future(kernel_table_at(isa)->name, settings);
    }
    for (size_t i = 0; i < TINY_VARIANTS; i++) check_future(kernel_table_at(isa)->name, tiny_variants[i]);
  }
}

/* Sums of biases come together within a pass, and a tied embedding is added to from two sides in every pass; all
 * others go on from pass to pass, row by row. */
static void expect_equal_gradients(const bench *whole, const bench *parts, const char *settings)
{
  for (size_t i = 0; i < whole->model->list.count; i++) {
    const parameter *p = &whole->model->list.items[i];
    const float *e = whole->gradients + p->offset, *f = parts->gradients + p->offset;
    bool tied = whole->model->config.tied && i == 0, exact = !tied && strncmp(p->name, "position.", 9) != 0;
    double largest = 0, off = 0;
    for (size_t k = 0; k < parameter_elements(p); k++) {
      largest = fmax(largest, fabs(e[k]));
      off = fmax(off, fabs((double)e[k] - f[k]));
    }
    if (exact && tiny_floats_differ(e, f, parameter_elements(p)))
      fail_msg("%s: %s: other bits", settings, p->name);
    if (!(off <= 1e-6 * largest)) fail_msg("%s: %s: off by %g of the largest", settings, p->name, off / largest);
  }
}

/* The sequences one by one, into the same gradient. */
static void micro_batches_add_up(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t row = 0; row < position_method_count() + TINY_VARIANTS; row++) {
    if (row < position_method_count()) method_settings(row, settings, sizeof settings);
    else snprintf(settings, sizeof settings, "%s", tiny_variants[row - position_method_count()]);
    bench whole, parts;
    bench_open(&whole, NULL, 1, settings);
    bench_open(&parts, NULL, 2, settings);
    if (row % 2 == 1) {
      take_targets_away(&whole);
      take_targets_away(&parts);
    }
    gradient(&whole);
    size_t start = 0;
    for (size_t s = 0; s < SEQUENCES; s++) {
      pass_segment segment = {.count = counts[s]};
      assert_int_equal(model_forward(parts.pass, parts.tokens + start, &segment, 1, &error), ALIBI_OK);
      backward(&parts, parts.targets, start, counts[s], NULL);
      start += counts[s];
    }
    expect_equal_gradients(&whole, &parts, settings);
    bench_close(&whole);
    bench_close(&parts);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differences_of_every_method),
      cmocka_unit_test(differences_of_every_block),
      cmocka_unit_test(differences_of_what_a_loss_may_be),
      cmocka_unit_test(the_loss_that_is_told),
      cmocka_unit_test(final_gradients_are_told_once),
      cmocka_unit_test(instruction_sets_agree_with_the_reference),
      cmocka_unit_test(nothing_of_the_future_leaks),
      cmocka_unit_test(micro_batches_add_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
