/* How far heads read: weights made again against plain attention in double, figures against plain sums over those,
 * and horizons against what weighs beyond them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/horizon.h"
#include "model/walk.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "conformance/position_rows.h"
#include "unit/tiny_model.h"

enum { LENGTH = 400, TEXT = 1000, VOCABULARY = 29 };

static alibi_error error;

/* ---- a model, a text, and a pass that keeps everything ---- */

typedef struct subject {
  alibi_context *context;
  alibi_model *model;
  size_t length;
  model_pass *pass; /* over the first `length` tokens; opened by subject_read */
  uint32_t tokens[TEXT];
} subject;

static void subject_open(subject *s, const char *settings, int threads)
{
  s->context = tiny_context(NULL, threads);
  s->model = tiny_model(s->context, settings);
  s->pass = NULL;
  const alibi_model_config *c = &s->model->config;
  position_shape shape = model_config_position_shape(c);
  size_t limit = position_method_limit(s->model->method, &shape, c->position_options.bytes, NULL);
  s->length = limit < LENGTH ? limit : LENGTH;
  tiny_tokens(s->tokens, TEXT, 31, VOCABULARY);
}

static void subject_read(subject *s, size_t start)
{
  pass_shape shape = {.rows = s->length, .segments = 1, .length = s->length, .head_rows = 1, .keep = true};
  model_pass_free(s->pass);
  if (model_pass_new(s->model, &shape, &s->pass, &error) != ALIBI_OK) fail_msg("%s", error.message);
  pass_segment segment = {.count = s->length};
  assert_int_equal(model_forward(s->pass, s->tokens + start, &segment, 1, &error), ALIBI_OK);
}

static void subject_close(subject *s)
{
  model_pass_free(s->pass);
  alibi_model_free(s->model);
  alibi_context_free(s->context);
}

static horizon_options options_of(const subject *s)
{
  return (horizon_options){.length = s->length, .windows = 2, .rows = 0, .threshold = 0x1p-24};
}

static horizon measure(subject *s, const horizon_options *options)
{
  horizon h;
  if (horizon_measure(s->model, s->tokens, TEXT, options, NULL, NULL, &h, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return h;
}

/* ---- attention, plainly ---- */

static double gate_sum(const block_activations *b, size_t heads, size_t h, size_t i, size_t j)
{
  double sum = 0;
  for (size_t k = j + 1; k <= i; k++) sum -= log(1 + exp(-(double)b->gates[k * heads + h]));
  return sum;
}

static double plain_product(const float *a, const float *b, size_t n)
{
  double sum = 0;
  for (size_t c = 0; c < n; c++) sum += (double)a[c] * (double)b[c];
  return sum;
}

/* By the formula of the method, not by its plan; weights[j] of key j. */
static void plain_weights(const subject *s, size_t layer, size_t h, size_t i, double *weights)
{
  const position_method *m = s->model->method;
  const position_request *request = &s->pass->request;
  const block_activations *b = &s->pass->blocks[layer];
  walk_shape w = walk_shape_of(s->pass);
  size_t window = s->pass->position.plan.window, d = w.head_size, group = h / (w.heads / w.kv_heads);
  double most = -INFINITY, sum = 0;
  const float *q = b->qkv + i * w.qkv + h * d;
  for (size_t j = 0; j <= i; j++) {
    const float *k = b->qkv + j * w.qkv + (w.heads + group) * d;
    const alibi_model_config *c = &s->model->config;
    double score = plain_product(q, k, d) * (c->score_scale > 0 ? c->score_scale : 1 / sqrt((double)d));
    if (c->score_cap > 0) score = c->score_cap * tanh(score / c->score_cap);
    if (m->factor) score *= m->factor(request, layer, h, i, j);
    if (m->bias) score += m->bias(request, layer, h, i, j);
    if (b->gates) score += gate_sum(b, w.heads, h, i, j);
    weights[j] = window && i - j >= window ? -INFINITY : score;
    if (weights[j] > most) most = weights[j];
  }
  for (size_t j = 0; j <= i; j++) sum += weights[j] = exp(weights[j] - most);
  for (size_t j = 0; j <= i; j++) weights[j] /= sum;
}

static void assert_weights(subject *s, const char *settings)
{
  double *found = calloc(s->length, sizeof *found), *expected = calloc(s->length, sizeof *expected);
  walk_shape w;
  subject_read(s, 0);
  w = walk_shape_of(s->pass);
  for (size_t layer = 0; layer < 2; layer++) {
    op_attention a = walk_attention(s->pass, &w, layer, &s->pass->blocks[layer]);
    for (size_t h = 0; h < w.heads; h++)
      for (size_t i = 0; i < s->length; i += 7) {
        double sum = 0;
        size_t count = horizon_weights(&a, h, i, found);
        plain_weights(s, layer, h, i, expected);
        for (size_t t = 0; t < count; t++) {
          sum += found[t];
          if (!(fabs(found[t] - expected[i - t]) <= 1e-5))
            fail_msg("%s: layer %zu head %zu query %zu, %zu back: expected %.9g, found %.9g", settings, layer, h,
                     i, t, expected[i - t], found[t]);
        }
        for (size_t t = count; t <= i; t++) assert_true(expected[i - t] == 0);
        if (!(fabs(sum - 1) <= 1e-5)) fail_msg("%s: weights sum to %.9g", settings, sum);
      }
  }
  free(found);
  free(expected);
}

static void test_weights_of_every_method(void **state)
{
  (void)state;
  position_row_pair pair;
  for (size_t row = 0; position_row_at(row, &pair); row++) {
    char settings[128];
    subject s;
    snprintf(settings, sizeof settings, "position=%s%s%s", pair.method->name, pair.extension ? " extension=" : "",
             pair.extension ? pair.extension->name : "");
    subject_open(&s, settings, 1);
    assert_weights(&s, settings);
    horizon_options options = options_of(&s);
    horizon h = measure(&s, &options); /* which makes queries and keys again */
    if (!(h.deviation <= 1e-5)) fail_msg("%s: sums of weights are off by %g", settings, h.deviation);
    horizon_free(&h);
    subject_close(&s);
  }
}

static void test_weights_of_every_block(void **state)
{
  (void)state;
  for (size_t v = 0; v < TINY_VARIANTS; v++) {
    subject s;
    subject_open(&s, tiny_variants[v], 1);
    assert_weights(&s, tiny_variants[v]);
    subject_close(&s);
  }
}

/* ---- figures ---- */

static void assert_near(const char *what, double found, double expected, double tolerance)
{
  if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: expected %.9g, found %.9g", what, expected, found);
}

/* Where the running sum of the weights from distance 0 reaches the share. */
static size_t plain_within(const double *by_distance, size_t count, double share)
{
  double sum = 0, all = 0;
  size_t t = 0;
  for (size_t i = 0; i < count; i++) all += by_distance[i];
  while ((sum += by_distance[t]) < share * all) t++;
  return t;
}

typedef struct plain_head {
  double mass[LENGTH], within[2 * LENGTH][HORIZON_SHARES];
  double zero, below, pairs, farthest, visited, visible, query_norm, key_norm, rise, centre[64];
  size_t rows;
} plain_head;

static void plain_norms(const subject *s, size_t layer, size_t h, bool first, plain_head *p)
{
  walk_shape w = walk_shape_of(s->pass);
  size_t d = w.head_size, group = h / (w.heads / w.kv_heads);
  const float *qkv = s->pass->blocks[layer].qkv;
  for (size_t i = 0; first && i < s->length; i++)
    for (size_t c = 0; c < d; c++)
      p->centre[c] += (double)qkv[i * w.qkv + (w.heads + group) * d + c] / (double)s->length;
  for (size_t i = 0; i < s->length; i++) {
    const float *q = qkv + i * w.qkv + h * d, *k = qkv + i * w.qkv + (w.heads + group) * d;
    double off = 0, norm = sqrt(plain_product(q, q, d));
    for (size_t c = 0; c < d; c++) off += ((double)k[c] - p->centre[c]) * ((double)k[c] - p->centre[c]);
    if (norm > p->query_norm) p->query_norm = norm;
    if (sqrt(off) > p->key_norm) p->key_norm = sqrt(off);
  }
}

/* How far the score of a key is above that of the query's own. */
static double plain_rise(const subject *s, size_t layer, size_t h, size_t i)
{
  walk_shape w = walk_shape_of(s->pass);
  const float *qkv = s->pass->blocks[layer].qkv;
  size_t d = w.head_size, group = h / (w.heads / w.kv_heads);
  const float *q = qkv + i * w.qkv + h * d, *own = qkv + i * w.qkv + (w.heads + group) * d;
  double most = -INFINITY;
  for (size_t j = 0; j <= i; j++) most = fmax(most, plain_product(q, qkv + j * w.qkv + (w.heads + group) * d, d));
  return (most - plain_product(q, own, d)) / sqrt((double)d);
}

static void plain_window(const subject *s, size_t layer, size_t h, plain_head *p)
{
  double weights[LENGTH], by_distance[LENGTH];
  const block_activations *b = &s->pass->blocks[layer];
  size_t heads = (size_t)s->model->config.heads;
  for (size_t i = 0; i < s->length; i++) {
    p->visible += (double)(i / 64 + 1);
    p->visited += b->visited ? (double)(b->visited[2 * (i * heads + h) + 1] - b->visited[2 * (i * heads + h)])
                             : (double)(i / 64 + 1);
  }
  for (size_t i = s->length / 2; i < s->length; i++) {
    plain_weights(s, layer, h, i, weights);
    p->rise = fmax(p->rise, plain_rise(s, layer, h, i));
    for (size_t t = 0; t <= i; t++) {
      by_distance[t] = weights[i - t];
      p->mass[t] += weights[i - t];
      p->pairs++;
      p->zero += (float)weights[i - t] == 0;
      p->below += weights[i - t] <= 0x1p-24;
      if (weights[i - t] > 0x1p-24 && (double)t > p->farthest) p->farthest = (double)t;
    }
    for (size_t n = 0; n < HORIZON_SHARES; n++)
      p->within[p->rows][n] = (double)plain_within(by_distance, i + 1, horizon_shares[n]);
    p->rows++;
  }
}

static void assert_head(const horizon *h, const horizon_head *found, const plain_head *p)
{
  double all = 0;
  assert_near("farthest", found->farthest, p->farthest, 1);
  assert_near("zero", found->zero, p->zero / p->pairs, 1e-4);
  assert_near("below", found->below, p->below / p->pairs, 1e-4);
  assert_near("visited", found->visited, p->visited / p->visible, 1e-12);
  assert_near("query norm", found->query_norm, p->query_norm, 1e-5);
  assert_near("key norm", found->key_norm, p->key_norm, 1e-5);
  if (isfinite(found->any_text)) {
    assert_near("gap by norms", found->norms_gap, 2 * p->query_norm * p->key_norm / sqrt(8), 1e-4);
    assert_near("gap by scores", found->scores_gap, p->rise, 1e-5);
    assert_true(found->scores_gap <= found->norms_gap && found->scores_gap <= found->any_gap);
  }
  for (size_t n = 0; n < HORIZON_SHARES; n++) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < p->rows; i++) mean += p->within[i][n] / (double)p->rows;
    for (size_t i = 0; i < p->rows; i++) squares += (p->within[i][n] - mean) * (p->within[i][n] - mean);
    assert_near("mean distance", found->within[n].mean, mean, 0.01);
    assert_near("its deviation", found->within[n].deviation, sqrt(squares / (double)(p->rows - 1)), 0.05);
    assert_near("of all attention", found->within[n].pooled,
                (double)plain_within(p->mass, LENGTH, horizon_shares[n]), 0);
  }
  for (size_t b = 0; b < h->bins; b++) {
    double mass = 0;
    for (size_t t = h->edges[b]; t < h->edges[b + 1]; t++) mass += p->mass[t] / (double)p->rows;
    assert_near("mass of a bin", h->mass[(size_t)(found - h->list) * h->bins + b], mass, 1e-5);
    all += mass;
  }
  assert_near("all bins", all, 1, 1e-9);
}

/* Two windows, at the beginning and at the end of the text. */
static void test_figures(void **state)
{
  (void)state;
  static const char *const settings[] = {"position=alibi alibi_max_bias=4", "position=fox kv_heads=2",
                                         "position=bam", "position=rope", "position=t5 qk_norm=true"};
  for (size_t n = 0; n < sizeof settings / sizeof settings[0]; n++) {
    subject s;
    subject_open(&s, settings[n], 2);
    horizon_options options = options_of(&s);
    horizon h = measure(&s, &options);
    assert_int_equal(h.windows, 2);
    assert_int_equal(h.rows, LENGTH);
    assert_int_equal(h.edges[0], 0);
    assert_int_equal(h.edges[h.bins], LENGTH);
    plain_head *plain = calloc(8, sizeof *plain);
    for (size_t window = 0; window < 2; window++) {
      subject_read(&s, window * (TEXT - LENGTH));
      for (size_t i = 0; i < 8; i++) {
        plain_norms(&s, i / 4, i % 4, window == 0, &plain[i]);
        plain_window(&s, i / 4, i % 4, &plain[i]);
      }
    }
    for (size_t i = 0; i < 8; i++) {
      assert_int_equal(h.list[i].layer, i / 4);
      assert_int_equal(h.list[i].head, i % 4);
      assert_head(&h, &h.list[i], &plain[i]);
    }
    free(plain);
    horizon_free(&h);
    subject_close(&s);
  }
}

static void test_some_queries_of_each_window(void **state)
{
  (void)state;
  subject s;
  subject_open(&s, "position=alibi", 1);
  horizon_options options = options_of(&s);
  options.rows = 30;
  horizon h = measure(&s, &options);
  assert_int_equal(h.rows, 60);
  horizon_free(&h);
  options.rows = 100000;
  h = measure(&s, &options);
  assert_int_equal(h.rows, LENGTH);
  horizon_free(&h);
  options.windows = 100; /* those that the text has room for */
  options.length = 300;
  h = measure(&s, &options);
  assert_int_equal(h.windows, 3);
  horizon_free(&h);
  subject_close(&s);
}

static void test_a_window_hides(void **state)
{
  (void)state;
  subject s;
  subject_open(&s, "position=rope-window rope-window_window=20", 1);
  horizon_options options = options_of(&s);
  horizon h = measure(&s, &options);
  double visited = 0, visible = 0;
  for (size_t i = 0; i < LENGTH; i++) visible += (double)(i / 64 + 1), visited += i % 64 < 19 && i >= 64 ? 2 : 1;
  for (size_t i = 0; i < 8; i++) {
    assert_true(h.list[i].any_text == 20);
    assert_true(h.list[i].these_norms == 20);
    assert_true(h.list[i].farthest <= 19);
    assert_near("visited", h.list[i].visited, visited / visible, 1e-12);
  }
  horizon_free(&h);
  subject_close(&s);
}

static void test_threads_leave_no_trace(void **state)
{
  (void)state;
  horizon first;
  for (int threads = 1; threads <= 3; threads++) {
    subject s;
    subject_open(&s, "position=alibi kv_heads=2", threads);
    horizon_options options = options_of(&s);
    options.rows = 50;
    horizon h = measure(&s, &options);
    if (threads == 1) {
      first = h;
    } else {
      assert_memory_equal(h.list, first.list, 8 * sizeof *h.list);
      assert_memory_equal(h.mass, first.mass, 8 * h.bins * sizeof *h.mass);
      horizon_free(&h);
    }
    subject_close(&s);
  }
  horizon_free(&first);
}

/* ---- horizons ---- */

/* Nothing that lies at the horizon or beyond it, in any query of the text, weighs more than the threshold. */
static void test_nothing_beyond_the_horizon(void **state)
{
  (void)state;
  static const char *const settings[] = {"position=alibi alibi_max_bias=2",
                                         "position=alibi alibi_max_bias=3 norm_bias=true bias=true",
                                         "position=alibi alibi_max_bias=2 qk_norm=true",
                                         "position=alibi alibi_max_bias=2 norm=rmsnorm kv_heads=2",
                                         "position=alibi alibi_max_bias=2 score_scaling=ssmax",
                                         "position=alibi-learned alibi-learned_max_bias=2",
                                         "position=fox fox_max_bias=1",
                                         "position=bam bam_max_bias=2",
                                         "position=kerple-power",
                                         "position=alibi alibi_max_bias=2 clip_qkv=0.6",
                                         "position=alibi alibi_max_bias=2 score_cap=0.5",
                                         "position=alibi alibi_max_bias=2 qk_norm=true qk_norm_kind=full",
                                         "position=alibi alibi_max_bias=2 qk_norm=true qk_norm_kind=group",
                                         "position=alibi alibi_max_bias=2 norm_place=post",
                                         "alibi_max_bias=2 norm_place=post attention_output_norm=true",
                                         "position=alibi alibi_slope_scale=2 score_scale=0.2 parallel=one-norm"};
  size_t within = 0; /* horizons that the text is long enough to speak of */
  for (size_t n = 0; n < sizeof settings / sizeof settings[0]; n++) {
    subject s;
    double weights[LENGTH];
    subject_open(&s, settings[n], 1);
    horizon_options options = options_of(&s);
    options.threshold = 1e-3;
    horizon h = measure(&s, &options);
    subject_read(&s, 0);
    for (size_t i = 0; i < 8; i++) {
      const horizon_head *head = &h.list[i];
      assert_true(head->these_scores <= head->these_norms && head->these_norms <= head->any_text);
      within += head->these_norms < LENGTH;
      for (size_t row = 0; row < LENGTH; row += 3) {
        double beyond = 0;
        plain_weights(&s, i / 4, i % 4, row, weights);
        for (size_t j = 0; j <= row; j++) beyond += (double)(row - j) >= head->these_norms ? weights[j] : 0;
        if (!(beyond <= 1e-3)) fail_msg("%s: %g lies beyond %g", settings[n], beyond, head->these_norms);
        beyond = 0;
        for (size_t j = 0; j <= row; j++) beyond += (double)(row - j) >= head->these_scores ? weights[j] : 0;
        if (row >= LENGTH / 2 && !(beyond <= 1e-3))
          fail_msg("%s: %g lies beyond %g", settings[n], beyond, head->these_scores);
      }
    }
    horizon_free(&h);
    subject_close(&s);
  }
  assert_true(within >= 30);
}

/* (A_q u).(A_k v) through the weights themselves: norms of the input are made extreme by going back and forth. */
static double steepest(const alibi_model *m, size_t layer, size_t head)
{
  const block_parameters *w = &m->parameters.blocks[layer];
  size_t width = (size_t)m->config.width, d = (size_t)m->config.head_size, heads = (size_t)m->config.heads;
  const float *query = w->qkv_weight + head * d * width, *key = w->qkv_weight + (heads + head) * d * width;
  double v[64], u[64], size = 0;
  for (size_t c = 0; c < width; c++) v[c] = 1.0 / (double)(c + 1);
  for (int round = 0; round < 3000; round++) {
    for (int side = 0; side < 2; side++) {
      const float *from = side ? query : key, *to = side ? key : query;
      double *x = side ? u : v, *y = side ? v : u, mean = 0, square = 0;
      for (size_t c = 0; c < width; c++) y[c] = 0;
      for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t c = 0; c < width; c++)
          sum += (double)from[i * width + c] * (double)w->attention_norm_gain[c] * x[c];
        for (size_t c = 0; c < width; c++)
          y[c] += sum * (double)to[i * width + c] * (double)w->attention_norm_gain[c];
      }
      for (size_t c = 0; c < width; c++) mean += y[c] / (double)width;
      for (size_t c = 0; c < width; c++) y[c] -= mean, square += y[c] * y[c];
      size = sqrt(square);
      for (size_t c = 0; c < width; c++) y[c] *= sqrt((double)width) / size;
    }
  }
  return size * sqrt((double)width); /* u^T A_q^T A_k v */
}

static void test_gap_of_any_text(void **state)
{
  (void)state;
  subject s;
  subject_open(&s, "position=alibi", 1);
  subject_read(&s, 0);
  for (size_t i = 0; i < 8; i++) {
    double gap, expected = 2 * steepest(s.model, i / 4, i % 4) * (double)(1 / sqrtf(8));
    assert_int_equal(horizon_any_gap(s.pass, i / 4, i % 4, &gap, &error), ALIBI_OK);
    if (!(gap >= expected * (1 - 1e-9) && gap <= expected * 1.02))
      fail_msg("expected %g, found %g", expected, gap);
  }
  subject_close(&s);
}

static void test_distance_by_slope(void **state)
{
  (void)state;
  for (double slope = 0.5; slope > 1e-4; slope /= 3) {
    horizon_fall fall = {.kind = FALLS_BY_SLOPE, .slope = slope};
    double gap = 12, far = horizon_distance(&fall, gap, 0x1p-24), tail = 0;
    assert_true(far == floor(far));
    for (double t = far + ceil(60 / slope); t >= far; t--) tail += exp(gap - slope * t);
    assert_true(tail <= 0x1p-24);
    assert_true(tail + exp(gap + 4e-3 - slope * (far - 1)) > 0x1p-24 * (1 - 1e-2));
  }
  horizon_fall flat = {.kind = FALLS_NEVER};
  assert_true(horizon_distance(&flat, 1, 0.5) == INFINITY);
  horizon_fall steep = {.kind = FALLS_BY_SLOPE, .slope = 1000};
  assert_true(horizon_distance(&steep, 0, 0.5) == 1);
}

static void test_distance_by_formula(void **state)
{
  (void)state;
  static const char *const settings[] = {"position=bam", "position=kerple-power"};
  for (size_t n = 0; n < 2; n++) {
    subject s;
    subject_open(&s, settings[n], 1);
    subject_read(&s, 0);
    for (size_t i = 0; i < 8; i++) {
      horizon_fall fall = horizon_fall_of(s.pass, i / 4, i % 4);
      const position_method *m = s.model->method;
      double gap = 3, threshold = 1e-4, far = horizon_distance(&fall, gap, threshold), tail = 0, nearer = 0;
      assert_int_equal(fall.kind, FALLS_BY_FORMULA);
      if (!(far < 1e5)) continue;
      double own = m->bias(&s.pass->request, i / 4, i % 4, 0, 0);
      for (size_t t = 10 * (size_t)far + 10000; t >= 1; t--) {
        double weight = exp(gap + m->bias(&s.pass->request, i / 4, i % 4, t, 0) - own);
        if ((double)t >= far) tail += weight;
        if ((double)t >= 0.96 * far - 1) nearer += weight;
      }
      assert_true(tail <= threshold);
      if (far > 1) assert_true(nearer > threshold);
    }
    subject_close(&s);
  }
}

static void test_parameters_alone(void **state)
{
  (void)state;
  subject s;
  horizon h;
  subject_open(&s, "position=alibi", 1);
  horizon_options options = options_of(&s);
  assert_int_equal(horizon_measure(s.model, NULL, 0, &options, NULL, NULL, &h, &error), ALIBI_OK);
  horizon with = measure(&s, &options);
  for (size_t i = 0; i < 8; i++) {
    assert_true(h.list[i].any_text == with.list[i].any_text);
    assert_true(isfinite(h.list[i].any_text));
    assert_true(isnan(h.list[i].these_norms) && isnan(h.list[i].visited) && isnan(h.list[i].within[0].mean));
    assert_near("slope", h.list[i].slope, pow(0.25, (double)(i % 4) + 1), 0);
  }
  horizon_free(&h);
  horizon_free(&with);
  subject_close(&s);
}

/* ---- what cannot be done ---- */

static void refused(const subject *s, const uint32_t *tokens, size_t count, const horizon_options *options,
                    status expected, const char *part)
{
  horizon h;
  error.message[0] = '\0';
  assert_int_equal(horizon_measure(s->model, tokens, count, options, NULL, NULL, &h, &error), expected);
  if (!strstr(error.message, part)) fail_msg("expected \"%s\", found \"%s\"", part, error.message);
  assert_null(h.list);
}

static void test_refusals(void **state)
{
  (void)state;
  subject s, learned;
  subject_open(&s, "position=alibi", 1);
  horizon_options good = options_of(&s), bad = good;
  bad.length = 1;
  refused(&s, s.tokens, TEXT, &bad, ALIBI_INVALID, "length: expected at least 2 tokens, found 1");
  bad = good;
  bad.threshold = 1;
  refused(&s, s.tokens, TEXT, &bad, ALIBI_INVALID, "threshold: expected a number above 0 and below 1, found 1");
  bad = good;
  bad.windows = 0;
  refused(&s, s.tokens, TEXT, &bad, ALIBI_INVALID, "windows: expected at least 1, found 0");
  refused(&s, s.tokens, LENGTH - 1, &good, ALIBI_INVALID,
          "expected at least the 400 tokens of a window, found 399");
  s.tokens[5] = VOCABULARY;
  refused(&s, s.tokens, TEXT, &good, ALIBI_INVALID,
          "token 5: expected an id below the vocabulary of 29, found 29");
  s.tokens[5] = 1;
  alibi_context_cancel(s.context);
  refused(&s, s.tokens, TEXT, &good, ALIBI_CANCELLED, "");
  subject_close(&s);
  subject_open(&learned, "position=learned", 1);
  good.length = 25;
  refused(&learned, learned.tokens, TEXT, &good, ALIBI_INVALID, "position 24 does not exist");
  learned.model->values[learned.model->list.items[0].offset] = NAN;
  learned.tokens[0] = 0;
  good.length = 24;
  refused(&learned, learned.tokens, TEXT, &good, ALIBI_BAD_INPUT, "layer 0, head 0: expected weights of");
  subject_close(&learned);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights_of_every_method),
      cmocka_unit_test(test_weights_of_every_block),
      cmocka_unit_test(test_figures),
      cmocka_unit_test(test_some_queries_of_each_window),
      cmocka_unit_test(test_a_window_hides),
      cmocka_unit_test(test_threads_leave_no_trace),
      cmocka_unit_test(test_nothing_beyond_the_horizon),
      cmocka_unit_test(test_gap_of_any_text),
      cmocka_unit_test(test_distance_by_slope),
      cmocka_unit_test(test_distance_by_formula),
      cmocka_unit_test(test_parameters_alone),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
