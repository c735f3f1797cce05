/* Public models against their references (scripts/make_family_golden.py; golden/families/README.md): every
 * directory there is opened as it is and run over its 300 tokens, in one pass and in a session in chunks.  The
 * difference is measured against the standard deviation of a position's results, of which at most 2e-4 are
 * allowed, at every position. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "file/safetensors.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#ifndef FAMILY_CASES
#error "FAMILY_CASES: where the directories are (tests/CMakeLists.txt)"
#endif

#define ALLOWED 2e-4

enum { CASES_MAX = 256, PATH_SIZE = 1024 };

/* Forms that we refuse; the models must be, with a sentence. */
static const char *const refused[] = {NULL};

static alibi_context *context;
static alibi_error error;
static char names[CASES_MAX][64];
static size_t name_count;
static const char *running;

static void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

/* What a case expects of one kind of numerics. */
typedef struct expectation {
  const int32_t *tokens, *ids, *positions;
  const float *at_ids, *full; /* [T, I], [P, V] */
  size_t length, id_count, position_count, width;
} expectation;

static const file_tensor *tensor(const safetensors_file *file, const char *kind, const char *name)
{
  char full[96];
  snprintf(full, sizeof full, "%s%s%s", kind, *kind ? "." : "", name);
  const file_tensor *t = safetensors_find(file, full);
  if (!t) fail_msg("%s: no tensor %s", running, full);
  if ((uintptr_t)t->data % 4 != 0) fail_msg("%s: %s is not aligned", running, full);
  return t;
}

static expectation read_expectation(const safetensors_file *file, const char *kind)
{
  const file_tensor *tokens = tensor(file, "", "tokens"), *ids = tensor(file, "", "ids"),
                    *positions = tensor(file, "", "positions");
  const file_tensor *full = tensor(file, kind, "full");
  return (expectation){.tokens = tokens->data,
                       .ids = ids->data,
                       .positions = positions->data,
                       .at_ids = tensor(file, kind, "at_ids")->data,
                       .full = full->data,
                       .length = tokens->shape[0],
                       .id_count = ids->shape[0],
                       .position_count = positions->shape[0],
                       .width = full->shape[1]};
}

static double deviation(const float *x, size_t count)
{
  double mean = 0, squares = 0;
  for (size_t i = 0; i < count; i++) mean += x[i] / (double)count;
  for (size_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean) / (double)count;
  return sqrt(squares);
}

/* The largest difference over the positions' deviations; results [T, V]. */
static double largest_difference(const expectation *e, const float *results)
{
  double largest = 0;
  for (size_t t = 0; t < e->length; t++) {
    const float *row = e->at_ids + t * e->id_count;
    double allowed = deviation(row, e->id_count);
    for (size_t i = 0; i < e->id_count; i++) {
      double difference = fabs((double)results[t * e->width + (size_t)e->ids[i]] - row[i]) / allowed;
      if (!(difference <= largest)) largest = difference;
    }
  }
  for (size_t p = 0; p < e->position_count; p++) {
    const float *row = e->full + p * e->width;
    double allowed = deviation(row, e->width);
    for (size_t v = 0; v < e->width; v++) {
      double difference = fabs((double)results[(size_t)e->positions[p] * e->width + v] - row[v]) / allowed;
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

/* Logits of every position, or what an encoder makes of them. */
static void run_pass(alibi_model *model, const expectation *e, const uint32_t *tokens, float *results)
{
  model_pass *pass;
  pass_shape shape = {.rows = e->length, .segments = 1, .length = e->length, .head_rows = 32};
  pass_segment segment = {.count = e->length};
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  expect_ok(model_forward(pass, tokens, &segment, 1, &error));
  for (size_t t = 0; t < e->length; t++)
    if (model->config.causal) model_logits(pass, t, results + t * e->width);
    else memcpy(results + t * e->width, pass->hidden + t * e->width, e->width * sizeof *results);
  model_pass_free(pass);
}

/* A session's logits after every chunk are the pass's, to the bit: so it passes where the pass does. */
static void check_session(alibi_model *model, const expectation *e, const uint32_t *tokens, const float *results)
{
  static const size_t chunks[] = {1, 7, 64, 1, 1, 127, 2, 40, 1};
  alibi_session_options options;
  alibi_session *session = NULL;
  size_t done = 0;
  alibi_session_options_init(&options);
  options.capacity = (int64_t)e->length;
  expect_ok(alibi_session_new(model, &options, &session, &error));
  for (size_t c = 0; done < e->length; c++) {
    size_t count = c < sizeof chunks / sizeof chunks[0] ? chunks[c] : 11;
    if (count > e->length - done) count = e->length - done;
    expect_ok(alibi_session_feed(session, tokens + done, count, &error));
    done += count;
    if (memcmp(alibi_session_logits(session), results + (done - 1) * e->width, e->width * sizeof *results) != 0)
      fail_msg("%s: a session of %zu tokens has other logits than one pass", running, done);
  }
  alibi_session_free(session);
}

static double check_numerics(const char *model_path, const safetensors_file *file, const char *kind)
{
  alibi_model *model = NULL;
  alibi_open_options options;
  expectation e = read_expectation(file, kind);
  uint32_t *tokens = calloc(e.length, sizeof *tokens);
  float *results = calloc(e.length * e.width, sizeof *results);
  assert_true(tokens && results);
  for (size_t t = 0; t < e.length; t++) tokens[t] = (uint32_t)e.tokens[t];
  alibi_open_options_init(&options);
  options.numerics = strcmp(kind, "reference") == 0 ? ALIBI_NUMERICS_REFERENCE : ALIBI_NUMERICS_EXACT;
  expect_ok(alibi_model_open_with(context, model_path, &options, &model, &error));
  assert_int_equal(model->config.causal ? model->config.vocabulary : model->config.width, (int64_t)e.width);
  run_pass(model, &e, tokens, results);
  double largest = largest_difference(&e, results);
  if (model->config.causal) check_session(model, &e, tokens, results);
  alibi_model_free(model);
  free(results);
  free(tokens);
  return largest;
}

static void path_of(char path[PATH_SIZE], const char *name, const char *file)
{
  snprintf(path, PATH_SIZE, "%s/%s/%s", FAMILY_CASES, name, file);
}

static bool is_among(const char *const *list, const char *name)
{
  for (; *list; list++)
    if (strcmp(*list, name) == 0) return true;
  return false;
}

static void check_refused(const char *path)
{
  alibi_model *model = NULL;
  alibi_error_init(&error);
  if (alibi_model_open(context, path, &model, &error) != ALIBI_BAD_INPUT)
    fail_msg("%s: expected to be refused", running);
  assert_non_null(strstr(error.message, running));
}

/* One line of docs/model-families.md's table. */
static void check_case(const char *name, size_t *failed)
{
  char path[PATH_SIZE];
  json_node *about = NULL;
  safetensors_file *file = NULL;
  running = name;
  path_of(path, name, "case.json");
  expect_ok(node_read_file(path, &about, &error));
  path_of(path, name, "expected.safetensors");
  expect_ok(safetensors_open(path, &file, &error));
  path_of(path, name, node_text(node_get(about, "model"), "."));
  if (is_among(refused, name)) {
    check_refused(path);
    goto done;
  }
  const json_node *expectations = node_get(about, "expectations");
  assert_true(node_count(expectations) > 0);
  for (size_t i = 0; i < node_count(expectations); i++) {
    const char *kind;
    const json_node *said = node_member(expectations, i, &kind);
    double largest = check_numerics(path, file, kind);
    print_message("| %s | %s | %s | %s | %.1e | %.1e |\n", name, node_text(node_get(about, "family"), ""),
                  node_text(node_get(about, "type"), ""), kind, largest,
                  node_number(node_get(said, "float32_difference"), 0));
    if (!(largest <= ALLOWED)) {
      print_error("%s, %s: expected a difference of at most %g of a position's deviation, found %.3g\n", name,
                  kind, ALLOWED, largest);
      (*failed)++;
    }
  }
done:
  safetensors_close(file);
  node_free(about);
}

static void models_agree_with_their_references(void **unused)
{
  (void)unused;
  size_t failed = 0;
  assert_true(name_count > 0);
  const char *only = getenv("FAMILY_CASE");
  for (size_t i = 0; i < name_count; i++)
    if (!only || strcmp(only, names[i]) == 0) check_case(names[i], &failed);
  assert_int_equal(failed, 0);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

static int setup(void **state)
{
  (void)state;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = 1;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) return -1;
  DIR *folder = opendir(FAMILY_CASES);
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder)) && name_count < CASES_MAX;) {
    char path[PATH_SIZE];
    path_of(path, entry->d_name, "case.json");
    FILE *file = fopen(path, "rb");
    if (!file) continue;
    fclose(file);
    snprintf(names[name_count++], sizeof names[0], "%.60s", entry->d_name);
  }
  closedir(folder);
  qsort(names, name_count, sizeof names[0], by_name);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(models_agree_with_their_references)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
