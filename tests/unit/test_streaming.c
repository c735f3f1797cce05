/* Streaming: every position method against a transformer in plain double that is told, row by row, which keys a
 * query sees; and what must not change a bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/engine.h"
#include <cmocka.h>

#include "unit/tiny_model.h"

enum { TEXT = 80, VOCABULARY = 29, MOST = TEXT * 160 };

static uint32_t text[TEXT];

static void make_text(void)
{
  for (size_t i = 0; i < TEXT; i++) text[i] = (uint32_t)(random_bits(5, 2, i) % VOCABULARY);
}

/* ---- a transformer from its definition ---- */

typedef struct naive {
  const alibi_model *model;
  const model_pass *pass; /* for the request of its positions */
  size_t rows, width, heads, size;
  const size_t *from; /* [rows] the first key that a row sees */
  double x[MOST], normed[MOST], qkv[3 * MOST], attended[MOST];
} naive;

static void norm(const naive *n, const double *x, const float *gain, const float *shift, double *out)
{
  for (size_t r = 0; r < n->rows; r++, x += n->width, out += n->width) {
    double mean = 0, square = 0;
    for (size_t c = 0; c < n->width; c++) mean += x[c] / (double)n->width;
    for (size_t c = 0; c < n->width; c++) square += (x[c] - mean) * (x[c] - mean) / (double)n->width;
    double scale = 1 / sqrt(square + n->model->config.norm_epsilon);
    for (size_t c = 0; c < n->width; c++)
      out[c] = (x[c] - mean) * scale * (double)gain[c] + (shift ? (double)shift[c] : 0);
  }
}

static double product(const double *x, const float *weight, size_t count)
{
  double sum = 0;
  for (size_t c = 0; c < count; c++) sum += x[c] * (double)weight[c];
  return sum;
}

static void linear(size_t rows, const double *x, size_t columns, const float *weight, const float *bias,
                   size_t outputs, bool adds, double *out)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t o = 0; o < outputs; o++) {
      double value = product(x + r * columns, weight + o * columns, columns) + (bias ? (double)bias[o] : 0);
      out[r * outputs + o] = value + (adds ? out[r * outputs + o] : 0);
    }
}

static void rotate(const naive *n)
{
  const position_method *method = n->model->method;
  const position_plan *tables = &n->pass->position.plan;
  size_t pairs = tables->rotary / 2;
  for (size_t r = 0; r < n->rows; r++)
    for (size_t h = 0; h < 2 * n->heads; h++)
      for (size_t p = 0; p < pairs; p++) {
        double magnitude = 1;
        double angle = method->angle(&n->pass->request, h >= n->heads, p, r, &magnitude);
        double *head = (double *)n->qkv + (r * 3 * n->heads + h) * n->size;
        double *a = head + (tables->adjacent ? 2 * p : p), *b = head + (tables->adjacent ? 2 * p + 1 : p + pairs);
        double turned = magnitude * (*a * cos(angle) - *b * sin(angle));
        *b = magnitude * (*a * sin(angle) + *b * cos(angle));
        *a = turned;
      }
}

/* ln of the forgetting gate of a row and head, where the method has gates. */
static double log_gate(const naive *n, size_t layer, size_t head, size_t row)
{
  const model_parameters *w = &n->model->parameters;
  size_t at = layer * n->heads + head;
  double logit = product(n->normed + row * n->width, w->position[0] + at * n->width, n->width);
  return -log1p(exp(-logit - (double)w->position[1][at]));
}

static void attend(naive *n, size_t layer)
{
  const position_method *method = n->model->method;
  const position_plan *tables = &n->pass->position.plan;
  const position_request *request = &n->pass->request;
  for (size_t h = 0; h < n->heads; h++)
    for (size_t i = 0; i < n->rows; i++) {
      double scores[TEXT], largest = -INFINITY, sum = 0, gates = 0;
      size_t from = n->from[i], seen = i - from + 1;
      if (tables->window && seen > tables->window) from = i + 1 - tables->window, seen = tables->window;
      double scale = 1 / sqrt((double)n->size);
      if (n->model->config.score_scaling == ALIBI_SCORE_SCALING_LOG_N &&
          seen > (size_t)n->model->config.train_length)
        scale *= log((double)seen) / log((double)n->model->config.train_length);
      for (size_t j = i + 1; j-- > from;) {
        const double *q = n->qkv + (i * 3 * n->heads + h) * n->size;
        const double *k = n->qkv + ((j * 3 + 1) * n->heads + h) * n->size;
        double score = 0;
        for (size_t c = 0; c < n->size; c++) score += q[c] * k[c] * scale;
        if (method->factor) score *= method->factor(request, layer, h, i, j);
        if (method->bias) score += method->bias(request, layer, h, i, j);
        if (tables->gated && j < i) score += gates += log_gate(n, layer, h, j + 1);
        scores[j] = score;
        if (score > largest) largest = score;
      }
      double *out = n->attended + (i * n->heads + h) * n->size;
      memset(out, 0, n->size * sizeof *out);
      for (size_t j = from; j <= i; j++) sum += exp(scores[j] - largest);
      for (size_t j = from; j <= i; j++)
        for (size_t c = 0; c < n->size; c++)
          out[c] += exp(scores[j] - largest) / sum * n->qkv[((j * 3 + 2) * n->heads + h) * n->size + c];
    }
}

/* Losses of rows 0 .. rows - 1, each for the token after it. */
static void run_naive(naive *n, double *losses)
{
  const alibi_model_config *c = &n->model->config;
  const model_parameters *w = &n->model->parameters;
  const position_method *method = n->model->method;
  static double inner[MOST];
  size_t forward = (size_t)c->feed_forward, vocabulary = (size_t)c->vocabulary;
  for (size_t r = 0; r < n->rows; r++)
    for (size_t i = 0; i < n->width; i++)
      n->x[r * n->width + i] =
          (double)(w->embedding[text[r] * n->width + i] * n->pass->position.plan.embedding_scale) +
          (method->embedding ? method->embedding(&n->pass->request, r, i) : 0);
  for (size_t layer = 0; layer < (size_t)c->layers; layer++) {
    const block_parameters *b = &w->blocks[layer];
    norm(n, n->x, b->attention_norm_gain, b->attention_norm_shift, n->normed);
    linear(n->rows, n->normed, n->width, b->qkv_weight, b->qkv_bias, 3 * n->width, false, n->qkv);
    if (n->pass->position.plan.rotary) rotate(n);
    attend(n, layer);
    linear(n->rows, n->attended, n->width, b->output_weight, b->output_bias, n->width, true, n->x);
    norm(n, n->x, b->feed_forward_norm_gain, b->feed_forward_norm_shift, n->normed);
    linear(n->rows, n->normed, n->width, b->input_weight, b->input_bias, forward, false, inner);
    for (size_t i = 0; i < n->rows * forward; i++) inner[i] *= 0.5 * erfc(-inner[i] * sqrt(0.5));
    linear(n->rows, inner, forward, b->feed_forward_output_weight, b->feed_forward_output_bias, n->width, true,
           n->x);
  }
  norm(n, n->x, w->final_norm_gain, w->final_norm_shift, n->normed);
  for (size_t r = 0; r < n->rows; r++) {
    double logits[VOCABULARY], sum = 0;
    linear(1, n->normed + r * n->width, n->width, w->output_weight, NULL, vocabulary, false, logits);
    for (size_t v = 0; v < vocabulary; v++) sum += exp(logits[v]);
    losses[r] = log(sum) - logits[text[r + 1]];
  }
}

/* The first key that the row sees, from the definition: a first piece of W, then pieces of S behind W - S. */
static size_t first_seen(size_t row, size_t window, size_t stride)
{
  if (row < window) return 0;
  size_t piece = window + (row - window) / stride * stride;
  return piece - (window - stride);
}

/* ---- streaming ---- */

static plan streaming(size_t tokens, size_t window, size_t stride)
{
  plan p = {0};
  plan_shape shape = {.window = window, .stride = stride};
  assert_int_equal(plan_streaming((plan_text){0, tokens}, shape, &p, NULL), ALIBI_OK);
  return p;
}

static void run(alibi_model *model, const plan *p, float *losses)
{
  alibi_error error = {0};
  engine_options o = {.length = p->positions, .batch_tokens = 512};
  double seconds;
  if (engine_run(model, text, p, &o, losses, &seconds, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void compare(alibi_context *context, const char *settings, size_t window, size_t stride)
{
  static naive n;
  alibi_model *model = tiny_model(context, settings);
  plan p = streaming(TEXT, window, stride);
  pass_shape shape = {.rows = 1, .segments = 1, .length = p.positions, .head_rows = 1};
  model_pass *pass;
  size_t from[TEXT];
  double expected[TEXT];
  float found[TEXT];
  assert_int_equal(model_pass_new(model, &shape, &pass, NULL), ALIBI_OK);
  for (size_t i = 0; i < TEXT; i++) from[i] = first_seen(i, window, stride);
  n.model = model, n.pass = pass, n.from = from, n.rows = TEXT - 1;
  n.width = (size_t)model->config.width, n.heads = (size_t)model->config.heads;
  n.size = (size_t)model->config.head_size;
  run_naive(&n, expected);
  assert_int_equal(p.targets, TEXT - 1);
  run(model, &p, found);
  for (size_t i = 0; i < TEXT - 1; i++)
    if (!(fabs((double)found[i] - expected[i]) < 2e-4 * (1 + fabs(expected[i]))))
      fail_msg("%s, window %zu, stride %zu: loss %zu: expected %.9g, found %.9g", settings, window, stride, i,
               expected[i], (double)found[i]);
  model_pass_free(pass);
  plan_free(&p);
  alibi_model_free(model);
}

static const struct {
  size_t window, stride;
} shapes[] = {{100, 3}, {24, 8}, {10, 3}, {7, 7}, {6, 1}, {2, 1}, {2, 2}, {70, 64}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_every_method_against_its_definition(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 1);
  for (size_t m = 0; m < position_method_count(); m++)
    for (size_t s = 0; s < SHAPES; s++) {
      char settings[128];
      bool limited = position_method_at(m)->limit != NULL; /* positions to the end of the text */
      snprintf(settings, sizeof settings, "position=%s%s", position_method_at(m)->name,
               limited ? " train_length=128" : "");
      compare(context, settings, shapes[s].window, shapes[s].stride);
    }
  for (size_t s = 0; s < SHAPES; s++) {
    compare(context, "score_scaling=log-n position=alibi", shapes[s].window, shapes[s].stride);
    compare(context, "layers=1 position=rope", shapes[s].window, shapes[s].stride);
  }
  alibi_context_free(context);
}

static void test_one_piece_is_one_window(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 2);
  for (size_t m = 0; m < position_method_count(); m++) {
    char settings[128];
    snprintf(settings, sizeof settings, "train_length=128 position=%s", position_method_at(m)->name);
    alibi_model *model = tiny_model(context, settings);
    for (size_t stride = 1; stride <= TEXT - 1; stride += 26) { /* also pieces that see all before them */
      plan p = streaming(TEXT, TEXT - 1, stride), q = {0};
      plan_shape shape = {.window = TEXT - 1};
      float a[TEXT], b[TEXT];
      assert_int_equal(plan_nonoverlapping((plan_text){0, TEXT}, shape, &q, NULL), ALIBI_OK);
      assert_int_equal(p.count, 1);
      run(model, &p, a);
      run(model, &q, b);
      assert_memory_equal(a, b, (TEXT - 1) * sizeof *a);
      plan_free(&p);
      plan_free(&q);
    }
    alibi_model_free(model);
  }
  alibi_context_free(context);
}

static void test_same_bits_for_threads(void **state)
{
  (void)state;
  static const char *const methods[] = {"alibi", "rope", "t5", "fire", "fox"};
  for (size_t m = 0; m < 5; m++) {
    float first[TEXT];
    for (int threads = 1; threads <= 3; threads++) {
      alibi_context *context = tiny_context(NULL, threads);
      char settings[64];
      snprintf(settings, sizeof settings, "position=%s", methods[m]);
      alibi_model *model = tiny_model(context, settings);
      plan p = streaming(TEXT, 20, 6);
      float found[TEXT];
      run(model, &p, found);
      if (threads == 1) memcpy(first, found, sizeof first);
      assert_memory_equal(found, first, (TEXT - 1) * sizeof *found);
      plan_free(&p);
      alibi_model_free(model);
      alibi_context_free(context);
    }
  }
}

/* A piece that was stopped is as if it had not been. */
static void test_a_cancelled_piece_leaves_no_trace(void **state)
{
  (void)state;
  enum { FIRST = 20, NEXT = 7, SEEN = 11 };
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=fox");
  float losses[2][NEXT];
  size_t rows[NEXT];
  for (size_t i = 0; i < NEXT; i++) rows[i] = i;
  for (int stopped = 0; stopped < 2; stopped++) {
    pass_shape shape = {.rows = FIRST,
                        .segments = 1,
                        .length = TEXT,
                        .head_rows = NEXT,
                        .carries = true,
                        .carried = SEEN,
                        .stops_when_cancelled = true};
    pass_segment first = {.count = FIRST}, next = {.count = NEXT, .first = FIRST, .seen = SEEN};
    model_pass *pass;
    alibi_error error = {0};
    assert_int_equal(model_pass_new(model, &shape, &pass, NULL), ALIBI_OK);
    assert_int_equal(model_carry_new(pass, &first.carry, NULL), ALIBI_OK);
    next.carry = first.carry;
    assert_int_equal(model_forward(pass, text, &first, 1, NULL), ALIBI_OK);
    if (stopped) {
      alibi_context_cancel(context);
      assert_int_equal(model_forward(pass, text + FIRST, &next, 1, NULL), ALIBI_CANCELLED);
      atomic_store(&context->cancelled, 0);
    }
    assert_int_equal(model_forward(pass, text + FIRST, &next, 1, NULL), ALIBI_OK);
    model_losses(pass, rows, text + FIRST + 1, NEXT, losses[stopped]);
    next.seen = SEEN + 1;
    assert_int_equal(model_forward(pass, text, &next, 1, &error), ALIBI_INVALID);
    assert_non_null(strstr(error.message, "expected one run that sees at most 11 tokens before itself"));
    model_carry_free(first.carry);
    model_pass_free(pass);
  }
  assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
  alibi_model_free(model);
  alibi_context_free(context);
}

/* By hand: a piece of 5, then of 2 behind 3, one token left. */
static void test_plan_by_hand(void **state)
{
  (void)state;
  static const plan_window expected[] = {
      {0, 5, 0, 5, 0, 0, 0}, {5, 2, 0, 2, 0, 5, 3}, {7, 2, 0, 2, 0, 7, 3}, {9, 1, 0, 1, 0, 9, 3}};
  plan p = streaming(11, 5, 2);
  assert_int_equal(p.count, 4);
  assert_memory_equal(p.windows, expected, sizeof expected);
  assert_true(p.streams);
  assert_int_equal(p.targets, 10);
  assert_int_equal(p.inputs, 10);
  assert_int_equal(p.positions, 10);
  assert_int_equal(p.past, 3);
  assert_int_equal(plan_context(&p.windows[0], 0), 1);
  assert_int_equal(plan_context(&p.windows[1], 1), 5);
  assert_int_equal(plan_target(&p.windows[3], 0), 10);
  plan_free(&p);
  /* With a beginning token: it and 4 tokens, then the same. */
  static const plan_window begun[] = {{100, 5, 1, 4, 1, 0, 0}, {104, 2, 0, 2, 0, 5, 3}, {106, 1, 0, 1, 0, 7, 3}};
  plan_shape shape = {.window = 5, .stride = 2, .begins = true};
  assert_int_equal(plan_streaming((plan_text){100, 8}, shape, &p, NULL), ALIBI_OK);
  assert_int_equal(p.count, 3);
  assert_memory_equal(p.windows, begun, sizeof begun);
  assert_int_equal(plan_target(&p.windows[0], 0), 101);
  assert_int_equal(plan_target(&p.windows[2], 0), 107);
  plan_free(&p);
}

int main(void)
{
  make_text();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plan_by_hand),
      cmocka_unit_test(test_every_method_against_its_definition),
      cmocka_unit_test(test_one_piece_is_one_window),
      cmocka_unit_test(test_same_bits_for_threads),
      cmocka_unit_test(test_a_cancelled_piece_leaves_no_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
