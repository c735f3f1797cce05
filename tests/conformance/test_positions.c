/* What every position method and every extension must keep, for each row of the two registries: the tables are the
 * formula, gradients are finite differences, what is said to be relative is, limits and options are enforced, far
 * positions are finite.  A new row is tested here before it has a test of its own. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "file/json.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

enum { HEADS = 12, HEAD_SIZE = 16, WIDTH = HEADS * HEAD_SIZE, LONG = 300 };

typedef union options {
  max_align_t align;
  char bytes[POSITION_OPTIONS_SIZE];
} options;

/* One row under test: a method, perhaps extended, with default options and parameters that are not zero. */
typedef struct subject {
  char name[64]; /* for messages */
  const position_method *method;
  options options, extension_options;
  size_t parameter_count, sizes[POSITION_MAX_PARAMETERS];
  float *parameters[POSITION_MAX_PARAMETERS];
  position_request request;
  position_tables tables;
} subject;

static size_t rows(void)
{
  return position_method_count() + position_extension_count();
}

static size_t at_most(const subject *s, size_t length)
{
  if (!s->method->limit) return length;
  size_t limit = s->method->limit(&s->request.shape, s->request.options);
  return length < limit ? length : limit;
}

static void subject_open(subject *s, size_t row, size_t train_length)
{
  memset(s, 0, sizeof *s);
  const position_extension *extension = NULL;
  if (row < position_method_count()) {
    s->method = position_method_at(row);
  } else {
    extension = position_extension_at(row - position_method_count());
    s->method = position_method_find(extension->family);
    field_init(extension->fields, s->extension_options.bytes);
  }
  snprintf(s->name, sizeof s->name, "%s%s%s", s->method->name, extension ? " + " : "",
           extension ? extension->name : "");
  field_init(s->method->fields, s->options.bytes);
  s->request = (position_request){
      .shape = {.layers = 2, .heads = HEADS, .head_size = HEAD_SIZE, .width = WIDTH, .train_length = train_length},
      .options = s->options.bytes,
      .extension = extension,
      .extension_options = extension ? s->extension_options.bytes : NULL};
  position_parameter list[POSITION_MAX_PARAMETERS];
  if (s->method->parameters) s->parameter_count = s->method->parameters(&s->request.shape, s->options.bytes, list);
  assert_true(s->parameter_count <= POSITION_MAX_PARAMETERS);
  for (size_t i = 0; i < s->parameter_count; i++) {
    s->sizes[i] = list[i].rows * list[i].columns;
    s->parameters[i] = malloc(s->sizes[i] * sizeof(float));
    assert_non_null(s->parameters[i]);
    for (size_t k = 0; k < s->sizes[i]; k++) s->parameters[i][k] = (float)random_normal(1, i, k);
    s->request.parameters[i] = s->parameters[i];
  }
}

static void subject_prepare(subject *s, size_t length)
{
  alibi_error error;
  alibi_error_init(&error);
  position_release(&s->tables);
  s->request.length = length;
  if (position_prepare(s->method, &s->request, &s->tables, &error) != ALIBI_OK)
    fail_msg("%s: %s", s->name, error.message);
}

static void subject_close(subject *s)
{
  position_release(&s->tables);
  for (size_t i = 0; i < s->parameter_count; i++) free(s->parameters[i]);
}

static float bias_of(const position_plan *plan, size_t h, size_t i, size_t j)
{
  if (plan->bias == BIAS_SLOPE) return -plan->slopes[h] * (float)(i - j);
  if (plan->bias == BIAS_DISTANCE) return plan->table[(h + 1) * plan->length - 1 - (i - j)];
  return 0;
}

static void assert_close(const subject *s, const char *what, double found, double expected, double tolerance)
{
  if (!(fabs(found - expected) <= tolerance))
    fail_msg("%s: %s: expected %.17g, found %.17g", s->name, what, expected, found);
}

static void check_bias(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  assert_int_equal(plan->bias != BIAS_NONE, s->method->bias != NULL);
  if (!s->method->bias) return;
  for (size_t h = 0; h < HEADS; h++)
    for (size_t i = 0; i < plan->length; i++)
      for (size_t j = 0; j <= i; j++) {
        double expected = s->method->bias(&s->request, 0, h, i, j);
        assert_close(s, "bias", bias_of(plan, h, i, j), expected, FLT_EPSILON * fabs(expected));
      }
}

static void check_rotation(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  assert_int_equal(plan->rotary != 0, s->method->angle != NULL);
  assert_true(plan->rotary % 2 == 0 && plan->rotary <= HEAD_SIZE);
  if (!s->method->angle) return;
  size_t half = plan->rotary / 2;
  for (size_t i = 0; i < plan->length; i++)
    for (size_t p = 0; p < half; p++) {
      double magnitude, angle = s->method->angle(&s->request, false, p, i, &magnitude);
      assert_close(s, "cosine", plan->cosine[i * half + p], magnitude * cos(angle), FLT_EPSILON * magnitude);
      assert_close(s, "sine", plan->sine[i * half + p], magnitude * sin(angle), FLT_EPSILON * magnitude);
    }
}

static void check_embedding(const subject *s)
{
  const position_plan *plan = &s->tables.plan;
  assert_int_equal(plan->embedding != NULL, s->method->embedding != NULL);
  if (!s->method->embedding) return;
  for (size_t i = 0; i < plan->length; i++)
    for (size_t c = 0; c < WIDTH; c++) {
      double expected = s->method->embedding(&s->request, i, c);
      assert_close(s, "embedding", plan->embedding[i * WIDTH + c], expected,
                   FLT_EPSILON * fmax(1, fabs(expected)));
    }
}

static void tables_are_the_formula(void **unused)
{
  (void)unused;
  static const size_t train_lengths[] = {10, 64, 300, 2048};
  for (size_t row = 0; row < rows(); row++)
    for (size_t k = 0; k < sizeof train_lengths / sizeof train_lengths[0]; k++) {
      subject s;
      subject_open(&s, row, train_lengths[k]);
      subject_prepare(&s, at_most(&s, LONG));
      assert_true(s.tables.plan.length == at_most(&s, LONG));
      check_bias(&s);
      check_rotation(&s);
      check_embedding(&s);
      subject_close(&s);
    }
}

/* The score of head h as the model would compute it, of a query and a key that are the same at every position. */
static double score(const position_plan *plan, size_t h, size_t i, size_t j)
{
  size_t half = plan->rotary / 2;
  double sum = 0;
  for (size_t c = 0; c < HEAD_SIZE; c++) {
    double q = random_normal(2, h, c), k = random_normal(3, h, c);
    if (c < plan->rotary) {
      size_t p = c % half, other = c < half ? c + half : c - half;
      double sign = c < half ? -1 : 1;
      q = q * plan->cosine[i * half + p] + sign * random_normal(2, h, other) * plan->sine[i * half + p];
      k = k * plan->cosine[j * half + p] + sign * random_normal(3, h, other) * plan->sine[j * half + p];
    }
    sum += q * k;
  }
  return plan->score_scale * sum / sqrt(HEAD_SIZE) + bias_of(plan, h, i, j);
}

static void relative_methods_do_not_see_a_shift(void **unused)
{
  (void)unused;
  static const size_t shifts[] = {1, 17, 64, 200};
  for (size_t row = 0; row < rows(); row++) {
    subject s;
    subject_open(&s, row, 64);
    subject_prepare(&s, at_most(&s, LONG));
    const position_plan *plan = &s.tables.plan;
    bool moves = plan->embedding != NULL;
    assert_int_equal(s.method->relative, !moves);
    for (size_t k = 0; k < 4 && !moves; k++)
      for (size_t h = 0; h < HEADS; h++)
        for (size_t i = 0; i < 100; i += 7)
          for (size_t j = 0; j <= i; j += 5)
            assert_close(&s, "shifted score", score(plan, h, i + shifts[k], j + shifts[k]), score(plan, h, i, j),
                         1e-5);
    if (moves) assert_memory_not_equal(plan->embedding, plan->embedding + WIDTH, WIDTH * sizeof(float));
    subject_close(&s);
  }
}

/* A method marked as decaying lets far keys be skipped, so its bias must fall from key to key, in every head. */
static void decaying_methods_decay(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < rows(); row++) {
    subject s;
    subject_open(&s, row, 64);
    subject_prepare(&s, at_most(&s, LONG));
    if (s.method->decays) assert_non_null(s.method->bias);
    for (size_t h = 0; h < HEADS && s.method->decays; h++)
      for (size_t j = 1; j < s.tables.plan.length; j++) {
        size_t i = s.tables.plan.length - 1;
        if (!(bias_of(&s.tables.plan, h, i, j - 1) < bias_of(&s.tables.plan, h, i, j)))
          fail_msg("%s: head %zu: the bias does not fall at distance %zu", s.name, h, i - j + 1);
      }
    subject_close(&s);
  }
}

static bool all_finite(const float *x, size_t count)
{
  for (size_t i = 0; x && i < count; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

static void far_positions_are_finite(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < rows(); row++) {
    subject s;
    subject_open(&s, row, 128);
    size_t length = at_most(&s, 64 * 128);
    subject_prepare(&s, length);
    const position_plan *plan = &s.tables.plan;
    assert_true(isfinite(plan->embedding_scale) && isfinite(plan->score_scale));
    assert_true(all_finite(plan->embedding, length * WIDTH));
    assert_true(all_finite(plan->cosine, length * plan->rotary / 2) &&
                all_finite(plan->sine, length * plan->rotary / 2));
    for (size_t h = 0; h < HEADS; h++)
      for (size_t i = 0; i < length; i += 97) assert_true(isfinite(bias_of(plan, h, length - 1, i)));
    subject_close(&s);
  }
}

static void assert_same_start(const subject *a, const subject *b)
{
  const position_plan *x = &a->tables.plan, *y = &b->tables.plan;
  size_t length = x->length < y->length ? x->length : y->length, half = x->rotary / 2;
  assert_true(x->embedding_scale == y->embedding_scale && x->score_scale == y->score_scale);
  assert_true(x->rotary == y->rotary && x->bias == y->bias);
  if (x->embedding) assert_memory_equal(x->embedding, y->embedding, length * WIDTH * sizeof(float));
  if (half) assert_memory_equal(x->cosine, y->cosine, length * half * sizeof(float));
  if (half) assert_memory_equal(x->sine, y->sine, length * half * sizeof(float));
  for (size_t h = 0; h < HEADS && x->bias != BIAS_NONE; h++)
    for (size_t t = 0; t < length; t++) assert_true(bias_of(x, h, t, 0) == bias_of(y, h, t, 0));
}

/* A model read with room for more text is the same model. */
static void a_longer_plan_begins_with_the_shorter(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_method_count(); row++) {
    subject a, b;
    subject_open(&a, row, 64);
    subject_open(&b, row, 64);
    subject_prepare(&a, 50);
    subject_prepare(&b, at_most(&b, LONG));
    assert_same_start(&a, &b);
    subject_close(&a);
    subject_close(&b);
  }
}

static void extensions_leave_the_trained_length_alone(void **unused)
{
  (void)unused;
  for (size_t row = position_method_count(); row < rows(); row++) {
    subject plain, extended;
    subject_open(&extended, row, 64);
    size_t base = 0;
    while (position_method_at(base) != extended.method) base++;
    subject_open(&plain, base, 64);
    for (size_t length = 1; length <= 64 && extended.request.extension->keeps_trained; length += 9) {
      subject_prepare(&plain, length);
      subject_prepare(&extended, length);
      assert_same_start(&plain, &extended);
    }
    subject_prepare(&plain, 65);
    subject_prepare(&extended, 65);
    assert_memory_not_equal(plain.tables.plan.cosine, extended.tables.plan.cosine,
                            65 * plain.tables.plan.rotary / 2 * sizeof(float));
    subject_close(&plain);
    subject_close(&extended);
  }
}

static void limits_are_enforced(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < rows(); row++) {
    subject s;
    subject_open(&s, row, 64);
    alibi_error error;
    alibi_error_init(&error);
    s.request.length = 0;
    assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
    assert_non_null(strstr(error.message, s.method->name));
    if (s.method->limit) {
      size_t limit = s.method->limit(&s.request.shape, s.request.options);
      subject_prepare(&s, limit);
      position_release(&s.tables);
      s.request.length = limit + 1;
      assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
      assert_non_null(strstr(error.message, s.method->name));
      assert_null(s.tables.memory.base);
    } else {
      subject_prepare(&s, 6400);
    }
    subject_close(&s);
  }
}

/* A number of positions that no memory holds is a sentence. */
static void absurd_lengths_are_refused(void **unused)
{
  (void)unused;
  static const size_t absurd[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8};
  for (size_t row = 0; row < rows(); row++)
    for (size_t k = 0; k < 3; k++) {
      subject s;
      subject_open(&s, row, 64);
      subject_prepare(&s, 64);
      bool grows = s.tables.plan.embedding || s.tables.plan.rotary || s.tables.plan.table;
      position_release(&s.tables);
      s.request.length = absurd[k];
      alibi_error error;
      alibi_error_init(&error);
      status result = position_prepare(s.method, &s.request, &s.tables, &error);
      assert_int_equal(result == ALIBI_OK, !grows);
      assert_int_equal(error.message[0] != '\0', grows);
      subject_close(&s);
    }
}

/* A scalar of the plan with a known gradient: sum_k c_k x_k + x_k^2 / 2 over one table. */
static double scalar(const float *table, size_t count, uint64_t stream, float *grad)
{
  double sum = 0;
  for (size_t k = 0; table && k < count; k++) {
    double c = random_normal(4, stream, k), x = table[k];
    sum += c * x + x * x / 2;
    if (grad) grad[k] = (float)(c + x);
  }
  return sum;
}

static double scalar_of_plan(const position_plan *plan, float *embedding_grad, float *table_grad)
{
  return scalar(plan->embedding, plan->length * WIDTH, 0, embedding_grad) +
         scalar(plan->table, plan->length * HEADS, 1, table_grad);
}

static void check_gradient(subject *s)
{
  position_plan *plan = &s->tables.plan;
  position_plan_grad grad = {.embedding = calloc(plan->length * WIDTH, sizeof(float)),
                             .table = calloc(plan->length * HEADS, sizeof(float))};
  float *grads[POSITION_MAX_PARAMETERS] = {0};
  for (size_t i = 0; i < s->parameter_count; i++) {
    grads[i] = malloc(s->sizes[i] * sizeof(float));
    for (size_t k = 0; k < s->sizes[i]; k++) grads[i][k] = 0.5f; /* gradients are added to what is there */
  }
  scalar_of_plan(plan, grad.embedding, grad.table);
  assert_non_null(s->method->backward);
  s->method->backward(&s->request, plan, &grad, grads);
  for (size_t i = 0; i < s->parameter_count; i++)
    for (size_t k = 0; k < s->sizes[i]; k += s->sizes[i] / 97 + 1) {
      float step = 1.0f / 64, kept = s->parameters[i][k];
      volatile float up = kept + step, down = kept - step;
      s->parameters[i][k] = up;
      s->method->fill(&s->request, plan);
      double above = scalar_of_plan(plan, NULL, NULL);
      s->parameters[i][k] = down;
      s->method->fill(&s->request, plan);
      double below = scalar_of_plan(plan, NULL, NULL);
      s->parameters[i][k] = kept;
      double expected = (above - below) / ((double)up - (double)down);
      assert_close(s, "gradient", grads[i][k] - 0.5, expected, 1e-5 * (1 + fabs(expected)));
    }
  for (size_t i = 0; i < s->parameter_count; i++) free(grads[i]);
  free(grad.embedding);
  free(grad.table);
}

static void gradients_are_finite_differences(void **unused)
{
  (void)unused;
  size_t tested = 0;
  for (size_t row = 0; row < rows(); row++) {
    static const size_t lengths[] = {1, 33, 64, LONG};
    subject s;
    subject_open(&s, row, 64);
    for (size_t k = 0; k < 4 && s.parameter_count > 0; k++) {
      subject_prepare(&s, at_most(&s, lengths[k]));
      check_gradient(&s);
      tested++;
    }
    subject_close(&s);
  }
  assert_true(tested >= 8);
}

static void initial_values_are_modest(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_method_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    if (s.parameter_count > 0) assert_non_null(s.method->initial);
    position_parameter list[POSITION_MAX_PARAMETERS];
    if (s.parameter_count > 0) s.method->parameters(&s.request.shape, s.request.options, list);
    for (size_t i = 0; i < s.parameter_count; i++) {
      assert_true(strncmp(list[i].name, "position.", 9) == 0);
      for (size_t k = 0; k < s.sizes[i]; k++)
        assert_true(fabsf(s.method->initial(&s.request.shape, s.request.options, i, k, 3.0)) <= 1);
    }
    s.request.parameters[0] = NULL; /* a model that forgot them */
    s.request.length = 8;
    alibi_error error;
    status result = position_prepare(s.method, &s.request, &s.tables, &error);
    assert_int_equal(result, s.parameter_count > 0 ? ALIBI_INVALID : ALIBI_OK);
    if (s.parameter_count > 0) assert_non_null(strstr(error.message, list[0].name));
    subject_close(&s);
  }
}

/* A legal value that is not the initial one. */
static void change(const field *f, void *object)
{
  alibi_error error;
  if (f->kind == FIELD_TEXT) {
    assert_int_equal(field_set_text(f, object, f->name, "changed", &error), ALIBI_OK);
    return;
  }
  double value = f->initial < f->maximum ? f->initial + 0.37 * (f->maximum - f->initial) : 0.37 * f->maximum;
  if (f->kind == FIELD_INTEGER) value = f->initial + 1;
  if (f->kind == FIELD_BOOLEAN) value = !f->initial;
  if (f->kind == FIELD_CHOICE) value = f->initial == 0;
  if (f->kind == FIELD_CHOICE || f->kind == FIELD_BOOLEAN)
    assert_int_equal(field_set_text(f, object, f->name,
                                    f->kind == FIELD_BOOLEAN ? (value ? "true" : "false") : f->choices[(int)value],
                                    &error),
                     ALIBI_OK);
  else assert_int_equal(field_set_number(f, object, f->name, value, &error), ALIBI_OK);
}

static void check_round_trip(field_table table, size_t size)
{
  options initial, changed, text, json;
  alibi_error error;
  alibi_error_init(&error);
  assert_true(size <= POSITION_OPTIONS_SIZE);
  field_init(table, initial.bytes);
  field_init(table, changed.bytes);
  field_init(table, text.bytes);
  field_init(table, json.bytes);
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    char written[FIELD_TEXT_SIZE];
    assert_true(f->offset < size && f->help && f->help[0]);
    assert_true(field_find(table, f->name) == f);
    change(f, changed.bytes);
    assert_false(field_equal(f, initial.bytes, changed.bytes));
    field_get_text(f, changed.bytes, written, sizeof written);
    assert_int_equal(field_set_text(f, text.bytes, f->name, written, &error), ALIBI_OK);
    assert_true(field_equal(f, text.bytes, changed.bytes));
  }
  json_node *object = node_new_object(), *again = NULL;
  node_set_fields(object, table, changed.bytes);
  char *written = node_to_text(object);
  assert_non_null(written);
  assert_int_equal(node_parse(written, strlen(written), "options", &again, &error), ALIBI_OK);
  assert_int_equal(node_get_fields(again, table, json.bytes, "options", NULL, &error), ALIBI_OK);
  for (size_t i = 0; i < table.count; i++) assert_true(field_equal(&table.fields[i], json.bytes, changed.bytes));
  free(written);
  node_free(object);
  node_free(again);
}

static void options_survive_text_and_json(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < position_method_count(); i++)
    check_round_trip(position_method_at(i)->fields, position_method_at(i)->options_size);
  for (size_t i = 0; i < position_extension_count(); i++)
    check_round_trip(position_extension_at(i)->fields, position_extension_at(i)->options_size);
}

static void break_field(const field *f, void *object, double value)
{
  void *place = (char *)object + f->offset;
  if (f->kind == FIELD_REAL) *(double *)place = value;
  if (f->kind == FIELD_INTEGER) *(int64_t *)place = (int64_t)value;
  if (f->kind == FIELD_CHOICE) *(int *)place = 1000;
}

static void options_out_of_range_are_refused(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < rows(); row++) {
    subject s;
    subject_open(&s, row, 64);
    s.request.length = 32;
    const position_extension *extension = s.request.extension;
    field_table table = extension ? extension->fields : s.method->fields;
    void *values = extension ? s.extension_options.bytes : s.options.bytes;
    for (size_t i = 0; i < table.count; i++) {
      const field *f = &table.fields[i];
      if (f->kind == FIELD_TEXT || f->kind == FIELD_BOOLEAN) continue;
      double wrong[] = {f->minimum - 1, f->maximum * 2, f->kind == FIELD_REAL ? NAN : f->minimum - 2};
      for (size_t k = 0; k < 3; k++) {
        alibi_error error;
        field_init(table, values);
        break_field(f, values, wrong[k]);
        assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
        assert_non_null(strstr(error.message, extension ? extension->name : s.method->name));
        assert_non_null(strstr(error.message, f->name));
      }
    }
    subject_close(&s);
  }
}

static void rows_are_found_by_name(void **unused)
{
  (void)unused;
  char names[512];
  alibi_error error;
  position_method_names(names, sizeof names);
  assert_true(position_method_count() >= 6 && position_extension_count() >= 3);
  for (size_t i = 0; i < position_method_count(); i++) {
    const position_method *method = position_method_at(i), *found = NULL;
    assert_true(method->title && method->formula && method->source);
    assert_true(position_method_find(method->name) == method);
    assert_int_equal(position_method_require("--position", method->name, &found, &error), ALIBI_OK);
    assert_true(found == method);
    assert_non_null(strstr(names, method->name));
  }
  for (size_t i = 0; i < position_extension_count(); i++) {
    const position_extension *extension = position_extension_at(i), *found = NULL;
    assert_true(extension->title && extension->formula && extension->source);
    assert_non_null(position_method_find(extension->family));
    assert_int_equal(position_extension_require("--extension", extension->family, extension->name, &found, &error),
                     ALIBI_OK);
    assert_true(found == extension);
  }
  assert_null(position_method_at(position_method_count()));
  assert_null(position_extension_at(position_extension_count()));
}

static void unknown_names_are_refused_with_the_known_ones(void **unused)
{
  (void)unused;
  const position_method *method;
  const position_extension *extension;
  alibi_error error;
  char names[512];
  position_method_names(names, sizeof names);
  assert_int_equal(position_method_require("--position", "alibis", &method, &error), ALIBI_INVALID);
  assert_null(method);
  assert_non_null(strstr(error.message, "--position: "));
  assert_non_null(strstr(error.message, names));
  assert_non_null(strstr(error.message, "'alibis'"));
  assert_int_equal(position_extension_require("--extension", "rope", "dynamo", &extension, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "linear, ntk, yarn"));
  assert_int_equal(position_extension_require("--extension", "none", "ntk", &extension, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "'none' has no extensions"));
  assert_null(position_method_find(""));
  assert_null(position_extension_find("alibi", "ntk"));
}

static void an_extension_of_another_method_is_refused(void **unused)
{
  (void)unused;
  for (size_t row = position_method_count(); row < rows(); row++)
    for (size_t other = 0; other < position_method_count(); other++) {
      subject s, plain;
      alibi_error error;
      subject_open(&s, row, 64);
      subject_open(&plain, other, 64);
      plain.request.extension = s.request.extension;
      plain.request.extension_options = s.request.extension_options;
      plain.request.length = 64;
      status result = position_prepare(plain.method, &plain.request, &plain.tables, &error);
      assert_int_equal(result, plain.method == s.method ? ALIBI_OK : ALIBI_INVALID);
      if (result != ALIBI_OK) assert_non_null(strstr(error.message, s.request.extension->name));
      subject_close(&s);
      subject_close(&plain);
    }
}

static void small_buffers_hold_what_fits(void **unused)
{
  (void)unused;
  char names[8] = "xxxxxxx";
  position_method_names(names, 0);
  assert_string_equal(names, "xxxxxxx");
  position_method_names(names, 1);
  assert_string_equal(names, "");
  position_method_names(names, sizeof names);
  assert_true(strlen(names) == 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_the_formula),
      cmocka_unit_test(relative_methods_do_not_see_a_shift),
      cmocka_unit_test(decaying_methods_decay),
      cmocka_unit_test(far_positions_are_finite),
      cmocka_unit_test(a_longer_plan_begins_with_the_shorter),
      cmocka_unit_test(extensions_leave_the_trained_length_alone),
      cmocka_unit_test(limits_are_enforced),
      cmocka_unit_test(absurd_lengths_are_refused),
      cmocka_unit_test(gradients_are_finite_differences),
      cmocka_unit_test(initial_values_are_modest),
      cmocka_unit_test(options_survive_text_and_json),
      cmocka_unit_test(options_out_of_range_are_refused),
      cmocka_unit_test(rows_are_found_by_name),
      cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
      cmocka_unit_test(an_extension_of_another_method_is_refused),
      cmocka_unit_test(small_buffers_hold_what_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
