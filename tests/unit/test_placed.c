/* Models whose weights lie elsewhere: in any type and arrangement, at any address, they give the bits of a model
 * in memory that holds the same numbers; what is saved of one opens as that; what cannot be placed, or done with
 * it, is one sentence. */
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
#include "kernel/weight_plain.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { VOCABULARY = 29, LENGTH = 20, MOST_PARTS = 3, MOST_ROWS = 768 };

static alibi_context *context;
static alibi_error error;

typedef enum arrangement { WHOLE, IN_PARTS, IN_GROUPS, TURNED, SCALED, ARRANGEMENTS } arrangement;

static const char *const names[] = {"whole", "in parts", "in groups", "turned", "scaled"};

/* Files lie here; freed with the model that borrows them. */
typedef struct files {
  void *items[64];
  size_t count;
} files;

static void *file_new(files *f, size_t bytes)
{
  assert_true(f->count < 64);
  char *memory = malloc(bytes + 1);
  assert_non_null(memory);
  f->items[f->count++] = memory;
  return memory + 1; /* at an odd address */
}

static void files_free(void *user)
{
  files *f = user;
  for (size_t i = 0; i < f->count; i++) free(f->items[i]);
  free(f);
}

/* Row r of p, narrowed; what comes back when it is widened replaces it. */
static void narrow_row(const parameter *p, weight_type type, float *row, float scale, void *to)
{
  weight_narrow(type, p->columns, row, to);
  weight_widen(type, p->columns, to, row);
  for (size_t c = 0; c < p->columns && scale != 1; c++) row[c] *= scale;
}

static float scale_of_row(arrangement how, size_t r)
{
  return how == SCALED ? 0.75f + (float)(r % 5) / 7 : 1;
}

/* Of single numbers [rows, columns] the transpose. */
static void turn(const char *from, size_t rows, size_t columns, size_t size, char *to)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < columns; c++) memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
}

/* Half of the rows of p, of which group by group the others lie between. */
static matrix_part grouped(const char *data, size_t rows, size_t row_bytes, size_t group, weight_type type)
{
  return (matrix_part){.type = type,
                       .rows = rows,
                       .data = data,
                       .row_bytes = row_bytes,
                       .group = group,
                       .group_bytes = 2 * group * row_bytes};
}

/* Puts a parameter of `in`, whose values become what was stored, to a file, and places it in `out`. */
static void place_one(alibi_model *in, alibi_model *out, files *f, size_t index, weight_type type, arrangement how)
{
  const parameter *p = &in->list.items[index];
  float *values = in->values + p->offset;
  size_t row_bytes = p->columns / weight_block_elements(type) * weight_block_bytes(type), half = p->rows / 2;
  char *data = file_new(f, p->rows * row_bytes);
  float scales[MOST_ROWS];
  matrix_part parts[MOST_PARTS] = {{.type = type, .rows = p->rows, .data = data, .row_bytes = row_bytes}};
  size_t count = 1;
  assert_true(p->rows <= MOST_ROWS);
  for (size_t r = 0; r < p->rows; r++) {
    scales[r] = scale_of_row(how, r);
    size_t at = r;
    /* row r of the first half is row r % 4 of the even groups of 4 */
    if (how == IN_GROUPS && p->rows % 8 == 0)
      at = r < half ? r / 4 * 8 + r % 4 : (r - half) / 4 * 8 + 4 + (r - half) % 4;
    narrow_row(p, type, values + r * p->columns, scales[r], data + at * row_bytes);
  }
  if (how == SCALED) parts[0].row_scales = scales;
  if (how == IN_PARTS) {
    size_t first = p->rows / 3, second = 1;
    parts[0].rows = first;
    parts[1] =
        (matrix_part){.type = type, .rows = second, .data = data + first * row_bytes, .row_bytes = row_bytes};
    parts[2] = (matrix_part){.type = type,
                             .rows = p->rows - first - second,
                             .data = data + (first + second) * row_bytes,
                             .row_bytes = row_bytes};
    count = 3;
  }
  if (how == IN_GROUPS && p->rows % 8 == 0) {
    parts[0] = grouped(data, half, row_bytes, 4, type);
    parts[1] = grouped(data + 4 * row_bytes, half, row_bytes, 4, type);
    count = 2;
  }
  if (how == TURNED) {
    char *turned = file_new(f, p->rows * row_bytes);
    turn(data, p->rows, p->columns, weight_block_bytes(type), turned);
    parts[0].data = turned;
    parts[0].row_bytes = p->rows * weight_block_bytes(type);
    parts[0].turned = true;
  }
  if (model_place(out, p, parts, count, &error) != ALIBI_OK) fail_msg("%s", error.message);
  memset(scales, 0xff, sizeof scales); /* they were copied */
}

typedef struct pair {
  alibi_model *plain, *placed;
} pair;

static pair open_pair(const char *settings, weight_type type, arrangement how)
{
  pair m = {.plain = tiny_model(context, settings)};
  files *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(model_allocate_placed(context, &m.plain->config, &m.placed, &error), ALIBI_OK);
  m.placed->file = f;
  m.placed->close_file = files_free;
  assert_int_equal(m.plain->list.count, m.placed->list.count);
  assert_true(model_is_placed(m.placed) && !model_is_placed(m.plain));
  for (size_t i = 0; i < m.plain->list.count; i++) {
    const parameter *from = &m.plain->list.items[i], *to = &m.placed->list.items[i];
    assert_string_equal(from->name, to->name);
    if (to->placeable) place_one(m.plain, m.placed, f, i, type, how);
    else
      memcpy(m.placed->values + to->offset, m.plain->values + from->offset,
             parameter_elements(from) * sizeof(float));
  }
  return m;
}

static void close_pair(pair m)
{
  alibi_model_free(m.plain);
  alibi_model_free(m.placed);
}

static void run(alibi_model *model, const char *what, float *logits)
{
  uint32_t tokens[LENGTH];
  pass_shape shape = {.rows = LENGTH, .segments = 1, .length = LENGTH, .head_rows = 3};
  pass_segment segment = {.count = LENGTH};
  model_pass *pass;
  tiny_tokens(tokens, LENGTH, 3, VOCABULARY);
  if (model_pass_new(model, &shape, &pass, &error) != ALIBI_OK) fail_msg("%s: %s", what, error.message);
  if (model_forward(pass, tokens, &segment, 1, &error) != ALIBI_OK) fail_msg("%s: %s", what, error.message);
  for (size_t r = 0; r < LENGTH; r++) model_logits(pass, r, logits + r * VOCABULARY);
  model_pass_free(pass);
}

static void expect_same(alibi_model *a, alibi_model *b, const char *what)
{
  float expected[LENGTH * VOCABULARY], found[LENGTH * VOCABULARY];
  run(a, what, expected);
  run(b, what, found);
  size_t at = tiny_floats_differ(expected, found, LENGTH * VOCABULARY);
  if (at)
    fail_msg("%s: logit %zu: expected %.9g, found %.9g", what, at - 1, (double)expected[at - 1],
             (double)found[at - 1]);
}

/* The same token by token, where a step packs what it needs of every weight. */
static void expect_same_steps(alibi_model *a, alibi_model *b, const char *what)
{
  alibi_model *models[] = {a, b};
  float expected[LENGTH * VOCABULARY];
  uint32_t tokens[LENGTH];
  tiny_tokens(tokens, LENGTH, 3, VOCABULARY);
  run(a, what, expected);
  for (size_t m = 0; m < 2; m++) {
    alibi_session *session;
    if (alibi_session_new(models[m], NULL, &session, &error) != ALIBI_OK) fail_msg("%s: %s", what, error.message);
    for (size_t t = 0; t < LENGTH; t++) {
      assert_int_equal(alibi_step(models[m], &session, &tokens[t], 1, &error), ALIBI_OK);
      if (memcmp(alibi_session_logits(session), expected + t * VOCABULARY, VOCABULARY * sizeof *expected) != 0)
        fail_msg("%s, model %zu: other logits at step %zu", what, m, t);
    }
    alibi_session_free(session);
  }
}

#define SHAPE "width=64 heads=4 feed_forward=96 bias=true norm_bias=true "

static const struct {
  const char *settings;
  weight_type type;
} stored[] = {
    {SHAPE, WEIGHT_F32},
    {SHAPE "tied=false kv_heads=2", WEIGHT_F16},
    {SHAPE "activation=swiglu embedding_norm=true", WEIGHT_BF16},
    {SHAPE "tied=false parallel=one-norm", WEIGHT_Q8_0},
    {SHAPE "position=rope qk_norm=true clip_qkv=1", WEIGHT_Q4_0},
    {"width=256 heads=4 feed_forward=256 layers=1 activation=geglu position=none tied=false", WEIGHT_Q4_K},
};

static void placed_models_give_the_same_bits(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < sizeof stored / sizeof stored[0]; i++)
    for (int how = WHOLE; how < ARRANGEMENTS; how++) {
      char what[256];
      if (how == TURNED && weight_block_elements(stored[i].type) > 1) continue;
      snprintf(what, sizeof what, "%s: %s, %s", stored[i].settings, weight_type_name(stored[i].type), names[how]);
      pair m = open_pair(stored[i].settings, stored[i].type, (arrangement)how);
      expect_same(m.plain, m.placed, what);
      expect_same_steps(m.plain, m.placed, what);
      close_pair(m);
    }
}

static void values_are_read_wherever_they_lie(void **unused)
{
  (void)unused;
  pair m = open_pair(SHAPE "tied=false", WEIGHT_F16, IN_GROUPS);
  float *rows = malloc(MOST_ROWS * 96 * sizeof *rows);
  assert_non_null(rows);
  for (size_t i = 0; i < m.placed->list.count; i++) {
    const parameter *p = &m.placed->list.items[i], *q = &m.plain->list.items[i];
    model_read_rows(m.placed, p, p->rows / 3, p->rows - p->rows / 3, rows);
    if (tiny_floats_differ(m.plain->values + q->offset + p->rows / 3 * p->columns, rows,
                           (p->rows - p->rows / 3) * p->columns))
      fail_msg("%s: other values", p->name);
  }
  free(rows);
  close_pair(m);
}

static void saved_models_open_as_plain_ones(void **unused)
{
  (void)unused;
  scratch_make();
  static const weight_type types[] = {WEIGHT_F32, WEIGHT_BF16, WEIGHT_Q8_0};
  for (size_t i = 0; i < 3; i++) {
    pair m = open_pair(SHAPE "tied=false", types[i], IN_PARTS);
    alibi_model *opened;
    const char *directory = scratch_path("model");
    if (alibi_model_save(m.placed, directory, &error) != ALIBI_OK) fail_msg("%s", error.message);
    if (alibi_model_open(context, directory, &opened, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_false(model_is_placed(opened));
    assert_int_equal(alibi_model_parameter_count(opened), alibi_model_parameter_count(m.placed));
    assert_int_equal(tiny_floats_differ(m.plain->values, opened->values, opened->list.floats), 0);
    expect_same(opened, m.placed, "opened");
    alibi_model_free(opened);
    close_pair(m);
  }
  scratch_remove();
}

/* A fingerprint is of all numbers: one that differs anywhere is another. */
static void fingerprints_see_every_part(void **unused)
{
  (void)unused;
  for (int how = WHOLE; how < ARRANGEMENTS; how++) {
    pair m = open_pair(SHAPE, WEIGHT_F16, (arrangement)how);
    const matrix *w = &m.placed->placed[WEIGHT_QKV];
    uint64_t values[3];
    for (size_t k = 0; k < 3; k++) {
      fingerprint *f;
      assert_int_equal(fingerprint_begin(&f, &error), ALIBI_OK);
      model_add_to_fingerprint(m.placed, f);
      values[k] = fingerprint_value(f);
      fingerprint_free(f);
      const matrix_part *last = &w->parts[w->part_count - 1];
      size_t end = last->turned ? w->columns * last->row_bytes
                   : last->group
                       ? (last->rows / last->group - 1) * last->group_bytes + last->group * last->row_bytes
                       : last->rows * last->row_bytes;
      if (k == 1) ((unsigned char *)last->data)[end - 1] ^= 1; /* the test's own memory */
    }
    assert_true(values[0] == values[1] && values[1] != values[2]);
    close_pair(m);
  }
}

static void what_cannot_be_placed(void **unused)
{
  (void)unused;
  pair m = open_pair(SHAPE, WEIGHT_F32, WHOLE);
  const parameter *qkv = parameter_find(&m.placed->list, "blocks.0.attention.qkv.weight");
  const parameter *gain = parameter_find(&m.placed->list, "final_norm.gain");
  float data[4];
  matrix_part part = {.type = WEIGHT_F32, .rows = qkv->rows, .data = data, .row_bytes = 256}, wrong = part;
  const struct {
    const parameter *p;
    const char *part;
  } refused[] = {{gain, "'final_norm.gain': expected a weight that may lie elsewhere"},
                 {qkv, "expected 192 rows in all of its parts, found 191"},
                 {qkv, "expected whole groups of 5 rows, found 192"},
                 {qkv, "expected rows of whole blocks of 256 numbers for the type Q4_K, found 64"},
                 {qkv, "expected a known type"},
                 {qkv, "turned"},
                 {qkv, "expected rows and their data, found none"}};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    wrong = part;
    if (i == 1) wrong.rows--;
    if (i == 2) wrong.group = 5;
    if (i == 3) wrong.type = WEIGHT_Q4_K;
    if (i == 4) wrong.type = (weight_type)99;
    if (i == 5) wrong.type = WEIGHT_Q8_0, wrong.turned = true;
    if (i == 6) wrong.data = NULL;
    assert_int_equal(model_place(m.placed, refused[i].p, &wrong, 1, &error), ALIBI_INVALID);
    scratch_says(error.message, refused[i].part);
  }
  assert_int_equal(model_place(m.plain, qkv, &part, 1, &error), ALIBI_INVALID);
  assert_int_equal(model_place(m.placed, qkv, NULL, 0, &error), ALIBI_INVALID);
  close_pair(m);
}

static void nothing_runs_before_all_is_placed(void **unused)
{
  (void)unused;
  alibi_model_config config = tiny_config(SHAPE);
  alibi_model *model;
  alibi_session *session;
  assert_int_equal(model_allocate_placed(context, &config, &model, &error), ALIBI_OK);
  assert_int_equal(alibi_session_new(model, NULL, &session, &error), ALIBI_INVALID);
  scratch_says(error.message, "'embedding.weight': expected it placed, found it nowhere");
  assert_int_equal(alibi_model_save(model, "/nowhere", &error), ALIBI_INVALID);
  alibi_model_free(model);
}

static void what_cannot_be_trained(void **unused)
{
  (void)unused;
  pair m = open_pair(SHAPE, WEIGHT_F32, WHOLE);
  alibi_train_options options;
  alibi_trainer *trainer;
  uint32_t tokens[100];
  alibi_train_options_init(&options);
  options.batch_tokens = 24;
  tiny_tokens(tokens, 100, 3, VOCABULARY);
  assert_int_equal(
      alibi_trainer_new_from(context, m.placed, &m.placed->config, &options, tokens, 100, &trainer, &error),
      ALIBI_INVALID);
  scratch_says(error.message, "cannot be trained");
  close_pair(m);
}

/* Packing would take the memory that lying elsewhere spares. */
static void evaluations_run(void **unused)
{
  (void)unused;
  pair m = open_pair(SHAPE, WEIGHT_F16, IN_GROUPS);
  alibi_model *models[] = {m.plain, m.placed};
  uint32_t tokens[150];
  alibi_evaluate_result results[2];
  tiny_tokens(tokens, 150, 3, VOCABULARY);
  for (size_t i = 0; i < 2; i++) {
    alibi_evaluate_options options;
    alibi_evaluate_options_init(&options);
    options.window = 30;
    if (alibi_evaluate(models[i], tokens, 150, NULL, &options, &results[i], &error) != ALIBI_OK)
      fail_msg("%s", error.message);
  }
  assert_true(results[0].nll == results[1].nll && isfinite(results[0].nll));
  assert_int_equal(model_pack(m.placed, &error), ALIBI_OK);
  assert_null(m.placed->packed);
  close_pair(m);
}

static int setup(void **unused)
{
  (void)unused;
  context = tiny_context(NULL, 2);
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(placed_models_give_the_same_bits),
      cmocka_unit_test(values_are_read_wherever_they_lie),
      cmocka_unit_test(saved_models_open_as_plain_ones),
      cmocka_unit_test(fingerprints_see_every_part),
      cmocka_unit_test(what_cannot_be_placed),
      cmocka_unit_test(nothing_runs_before_all_is_placed),
      cmocka_unit_test(what_cannot_be_trained),
      cmocka_unit_test(evaluations_run),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
