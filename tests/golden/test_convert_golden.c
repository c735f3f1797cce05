/* Public models (golden/families) from one format to another, in every direction that there is.  Numbers that keep
 * their type give the same logits, to the bit; in GGUF's Llamas, whose heads' channels are exchanged, sums have
 * another order.  What a format has no words for is refused, and leaves nothing behind. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/convert.h"
#include "base/system.h"
#include "file/safetensors.h"
#include "file/tensor_file.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

#ifndef FAMILY_CASES
#error "FAMILY_CASES: where the directories are (tests/CMakeLists.txt)"
#endif

enum { CASES_MAX = 256, PATH_SIZE = 1024, MOST_TOKENS = 300 };

/* Which GGUF has no words for, and what is said of them. */
static const struct {
  const char *name, *says;
} unwritten[] = {
    {"baichuan2-7b", "rows of the output weight are divided by their length"},
    {"baichuan2-13b", "rows of the output weight are divided by their length"},
    {"btlm-heads-6", "found 'btlm'"},
    {"btlm-slopes", "found 'btlm'"},
    {"falcon-rw-head-96-f16", "RoPE and parallel parts"},
    {"falcon-rw-heads-12", "RoPE and parallel parts"},
    {"gpt2-torch", "'activation' is \"gelu\""},
    {"jais-dynamic", "found 'jais'"},
    {"jais-heads-12", "found 'jais'"},
    {"jais-linear", "found 'jais'"},
    {"jais-unscaled", "found 'jais'"},
    {"jina-heads-12-reglu", "found 'jina-bert-v2'"},
    {"jina-heads-6", "found 'jina-bert-v2'"},
    {"jina-qk-norm", "found 'jina-bert-v2'"},
    {"llama-dynamic", "\"extension\":{\"name\":\"dynamic\""},
    {"llama-longrope", "\"extension\":{\"name\":\"longrope\""},
    {"llama-yarn-options", "\"beta_fast\":16.0"},
    {"mistral-window", "\"window\":96"},
    {"mpt-clip-f16", "'score_scale' is 0.3"},
    {"mpt-gated", "its file: tensor 'blk.0.ffn_gate.weight'"},
    {"mpt-grouped-biases", "no norm of queries and keys"},
    {"mpt-learned-positions", "no norm of queries and keys"},
    {"mpt-storywriter", "'logit_scale' is 0.14"},
    {"neox-sequential", "'activation' is \"gelu-tanh\""},
};

/* GGUF files that are not written as directories, and what is said of them. */
static const struct {
  const char *name, *says;
} unpublished[] = {
    {"gguf-jais", "found 'jais'"},
    {"gguf-jina", "found 'jina-bert-v2'"},
    {"gguf-jina-fused", "found 'jina-bert-v2'"},
    {"gguf-mpt", "8 as the largest exponent of slopes"}, /* transformers' MPT; llm-foundry's may have others */
    {"mistral-no-window", "a width that is a multiple of its heads"}, /* as a GGUF it is a llama */
    {"gguf-mpt-qk-norm", "no norm of queries and keys"},
};

static size_t own_published, own_written; /* models of our own format that became public ones */

static alibi_context *context;
static alibi_error error;
static char names[CASES_MAX][64];
static size_t name_count;
static const char *running;
static bool failed;

static void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

/* ---- what a model computes ---- */

typedef struct case_tokens {
  uint32_t ids[MOST_TOKENS];
  size_t count;
} case_tokens;

static case_tokens tokens;

static void read_tokens(const char *path)
{
  safetensors_file *file = NULL;
  expect_ok(safetensors_open(path, &file, &error));
  const file_tensor *t = safetensors_find(file, "tokens");
  assert_non_null(t);
  assert_true(t->shape[0] <= MOST_TOKENS);
  tokens.count = t->shape[0];
  memcpy(tokens.ids, t->data, t->bytes);
  safetensors_close(file);
}

typedef struct logits {
  float *values; /* [tokens, width]; of an encoder its hidden states */
  size_t width;
} logits;

static logits run(const char *path)
{
  alibi_model *model = NULL;
  model_pass *pass = NULL;
  expect_ok(alibi_model_open(context, path, &model, &error));
  const alibi_model_config *c = &model->config;
  logits l = {.width = (size_t)(c->causal ? c->vocabulary : c->width)};
  pass_shape shape = {.rows = tokens.count, .segments = 1, .length = tokens.count, .head_rows = 32};
  pass_segment segment = {.count = tokens.count};
  l.values = calloc(tokens.count * l.width, sizeof *l.values);
  assert_non_null(l.values);
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  expect_ok(model_forward(pass, tokens.ids, &segment, 1, &error));
  for (size_t t = 0; t < tokens.count; t++)
    if (c->causal) model_logits(pass, t, l.values + t * l.width);
    else memcpy(l.values + t * l.width, pass->hidden + t * l.width, l.width * sizeof *l.values);
  model_pass_free(pass);
  alibi_model_free(model);
  return l;
}

/* The largest difference, in parts of its position's spread. */
static double difference(const logits *a, const logits *b)
{
  double largest = 0;
  if (a->width != b->width) return INFINITY;
  for (size_t t = 0; t < tokens.count; t++) {
    const float *x = a->values + t * a->width, *y = b->values + t * a->width;
    double low = INFINITY, high = -INFINITY, worst = 0;
    for (size_t v = 0; v < a->width; v++) {
      double d = fabs((double)x[v] - (double)y[v]);
      if (x[v] < low) low = x[v];
      if (x[v] > high) high = x[v];
      if (!(d <= worst)) worst = d;
    }
    if (!(worst / (high - low) <= largest)) largest = worst / (high - low);
  }
  return largest;
}

/* allowed 0: equal to the bit. */
static void expect_same(const char *path, const logits *truth, double allowed, const char *way)
{
  logits found = run(path);
  double largest = difference(truth, &found);
  bool same = allowed > 0 ? largest <= allowed : largest == 0;
  if (!same) {
    print_error("%s: %s: expected the same logits%s, found a difference of %.3g of the spread\n", running, way,
                allowed > 0 ? "" : " to the bit", largest);
    failed = true;
  }
  free(found.values);
}

/* ---- conversions ---- */

/* A path of the scratch folder that stays valid. */
static const char *place(const char *name)
{
  static char paths[16][PATH_SIZE];
  static const char *known[16];
  size_t i = 0;
  while (i < 16 && known[i] && strcmp(known[i], name) != 0) i++;
  assert_true(i < 16);
  known[i] = name;
  snprintf(paths[i], PATH_SIZE, "%s/%s", scratch_folder, name);
  return paths[i];
}

static status convert(const char *from, const char *to, int format, const char *type, int64_t shard_bytes)
{
  alibi_convert_options options;
  alibi_convert_options_init(&options);
  options.format = format;
  options.type = type;
  options.without_tokenizer = 1; /* those of the cases are made up */
  if (shard_bytes > 0) options.shard_bytes = shard_bytes;
  alibi_error_init(&error);
  return alibi_model_convert(context, from, to, &options, &error);
}

static void expect_same_file(const char *first, const char *second, const char *way)
{
  mapped_file a, b;
  expect_ok(mapped_file_open(first, &a, &error));
  expect_ok(mapped_file_open(second, &b, &error));
  if (a.size != b.size || memcmp(a.data, b.data, a.size) != 0) {
    print_error("%s: %s: expected the same file, found %zu and %zu bytes\n", running, way, a.size, b.size);
    failed = true;
  }
  mapped_file_close(&a);
  mapped_file_close(&b);
}

static const char *why_unpublished(const char *name)
{
  for (size_t i = 0; i < sizeof unpublished / sizeof unpublished[0]; i++)
    if (strcmp(unpublished[i].name, name) == 0) return unpublished[i].says;
  return NULL;
}

static const char *why_unwritten(const char *name)
{
  for (size_t i = 0; i < sizeof unwritten / sizeof unwritten[0]; i++)
    if (strcmp(unwritten[i].name, name) == 0) return unwritten[i].says;
  return NULL;
}

/* Some files have names without a prefix, and old ones another for the output weight. */
static const file_tensor *find_named(const tensor_file *file, const char *name)
{
  const file_tensor *t = tensor_file_find(file, name);
  const char *dot = strchr(name, '.');
  if (!t && strcmp(name, "embed_out.weight") == 0) return tensor_file_find(file, "lm_head.weight");
  return t || !dot ? t : tensor_file_find(file, dot + 1);
}

/* Every tensor of the copy is one of the first's, to the bit. */
static void expect_same_tensors(const char *first, const char *copy, const char *way)
{
  tensor_file *a = NULL, *b = NULL;
  expect_ok(tensor_file_open(first, &a, &error));
  expect_ok(tensor_file_open(copy, &b, &error));
  for (size_t i = 0; i < tensor_file_count(b); i++) {
    const file_tensor *t = tensor_file_at(b, i), *of = find_named(a, t->name);
    if (of && of->type == t->type && of->bytes == t->bytes && memcmp(of->data, t->data, t->bytes) == 0) continue;
    print_error("%s: %s: tensor '%s': expected it as it was, found %s\n", running, way, t->name,
                !of ? "no such tensor before" : of->type != t->type ? "another type" : "other numbers");
    failed = true;
  }
  tensor_file_close(b);
  tensor_file_close(a);
}

/* In the words of its family again; quantised weights by a type that safetensors has. */
static void check_published(const char *gguf, const char *type, const logits *truth, double allowed,
                            const char *first)
{
  const char *published = place("published"), *says = why_unpublished(running);
  status result = convert(gguf, published, ALIBI_FORMAT_SAFETENSORS, type, 0);
  if (says && result == ALIBI_INVALID && strstr(error.message, says)) return;
  if (says) {
    print_error("%s: expected to be refused as a directory: %s\n", running, says);
    failed = true;
  }
  if (result != ALIBI_OK) {
    print_error("%s: expected it as a directory, found: %s\n", running, error.message);
    failed = true;
    return;
  }
  expect_same(published, truth, allowed, "GGUF to safetensors");
  if (first) expect_same_tensors(first, published, "GGUF to safetensors");
  scratch_remove_tree(published);
}

static void check_from_gguf(const char *source, const logits *truth)
{
  static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K"};
  const char *copy = place("copy.gguf"), *alibi = place("alibi");
  expect_ok(convert(source, copy, ALIBI_FORMAT_GGUF, NULL, 0));
  expect_same_file(source, copy, "GGUF to GGUF");
  expect_ok(convert(source, alibi, ALIBI_FORMAT_ALIBI, NULL, 0));
  expect_same(alibi, truth, 0, "GGUF to alibi");
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    const char *typed = place("typed.gguf"), *again = place("again.gguf");
    expect_ok(convert(source, typed, ALIBI_FORMAT_GGUF, types[i], 0));
    expect_ok(convert(typed, again, ALIBI_FORMAT_GGUF, types[i], 0));
    expect_same_file(typed, again, types[i]);
    if (i == 0) expect_same(typed, truth, 0, "GGUF to F32");
    else expect_same(typed, truth, 1, types[i]);
    unlink(typed);
    unlink(again);
  }
  unlink(copy);
  scratch_remove_tree(alibi);
}

static void check_to_gguf(const char *source, const logits *truth)
{
  const char *gguf = place("model.gguf"), *says = why_unwritten(running), *alibi = place("alibi");
  status result = convert(source, gguf, ALIBI_FORMAT_GGUF, NULL, 0);
  if (result != ALIBI_OK) {
    if (result == ALIBI_INVALID && says && strstr(error.message, says) && scratch_entries() == 0) return;
    print_error("%s: expected %s as GGUF, found: %s (%zu files left)\n", running, says ? says : "it to be written",
                error.message, scratch_entries());
    failed = true;
    return;
  }
  if (says) {
    print_error("%s: expected to be refused as GGUF: %s\n", running, says);
    failed = true;
  }
  alibi_model *model = NULL;
  expect_ok(alibi_model_open(context, gguf, &model, &error));
  bool exchanged =
      strcmp(alibi_model_family(model), "llama") == 0 || strcmp(alibi_model_family(model), "baichuan") == 0;
  alibi_model_free(model);
  expect_same(gguf, truth, exchanged ? 1e-5 : 0, "to GGUF");
  logits written = run(gguf);
  check_from_gguf(gguf, &written);
  expect_ok(convert(gguf, alibi, ALIBI_FORMAT_ALIBI, NULL, 0));
  expect_same(alibi, &written, 0, "GGUF to alibi");
  free(written.values);
  bool divides = strstr(running, "llama-3.") || strcmp(running, "llama-new-keys") == 0; /* rope_freqs are fp32 */
  check_published(gguf, NULL, truth, divides ? 1e-5 : 0, source);
  unlink(gguf);
  scratch_remove_tree(alibi);
}

/* Of our own format the first family with all its words is taken, else it is said that there is none. */
static void check_from_alibi(const char *alibi, const logits *truth)
{
  const char *published = place("published"), *gguf = place("own.gguf");
  status result = convert(alibi, published, ALIBI_FORMAT_SAFETENSORS, NULL, 0);
  if (result == ALIBI_OK) {
    expect_same(published, truth, 0, "alibi to safetensors");
    own_published++;
  } else if (!strstr(error.message, "a public family has words for")) {
    print_error("%s: expected a directory, or that no family has words, found: %s\n", running, error.message);
    failed = true;
  }
  if (convert(alibi, gguf, ALIBI_FORMAT_GGUF, NULL, 0) == ALIBI_OK) {
    expect_same(gguf, truth, 1e-5, "alibi to GGUF");
    own_written++;
  } else if (!strstr(error.message, "a public family has words for")) {
    print_error("%s: expected a GGUF file, or that no family has words, found: %s\n", running, error.message);
    failed = true;
  }
  scratch_remove_tree(published);
  unlink(gguf);
}

static void check_from_directory(const char *source, const logits *truth)
{
  const char *alibi = place("alibi"), *one = place("one"), *parts = place("parts");
  const char *joined = place("joined"), *half = place("half"), *again = place("again");
  expect_ok(convert(source, alibi, ALIBI_FORMAT_ALIBI, NULL, 0));
  expect_same(alibi, truth, 0, "to alibi");
  check_from_alibi(alibi, truth);
  scratch_remove_tree(alibi);
  expect_ok(convert(source, one, ALIBI_FORMAT_SAFETENSORS, NULL, 0));
  expect_same(one, truth, 0, "to safetensors");
  expect_ok(convert(one, parts, ALIBI_FORMAT_SAFETENSORS, NULL, 20000));
  expect_same(parts, truth, 0, "to shards");
  expect_ok(convert(one, joined, ALIBI_FORMAT_SAFETENSORS, NULL, 0));
  expect_same_file(place("one/model.safetensors"), place("joined/model.safetensors"), "safetensors again");
  expect_ok(convert(parts, half, ALIBI_FORMAT_SAFETENSORS, "BF16", 0));
  expect_same(half, truth, 1, "to BF16");
  expect_ok(convert(half, again, ALIBI_FORMAT_SAFETENSORS, "BF16", 0));
  expect_same_file(place("half/model.safetensors"), place("again/model.safetensors"), "BF16 again");
  scratch_remove_tree(one);
  scratch_remove_tree(parts);
  scratch_remove_tree(joined);
  scratch_remove_tree(half);
  scratch_remove_tree(again);
  check_to_gguf(source, truth);
}

static void path_of(char path[PATH_SIZE], const char *name, const char *file)
{
  snprintf(path, PATH_SIZE, "%s/%s/%s", FAMILY_CASES, name, file);
}

static void check_case(const char *name)
{
  char path[PATH_SIZE];
  json_node *about = NULL;
  alibi_model *model = NULL;
  running = name;
  path_of(path, name, "case.json");
  expect_ok(node_read_file(path, &about, &error));
  path_of(path, name, "expected.safetensors");
  read_tokens(path);
  path_of(path, name, node_text(node_get(about, "model"), "."));
  if (alibi_model_open(context, path, &model, &error) == ALIBI_OK) {
    alibi_model_free(model);
    logits truth = run(path);
    if (path_is_directory(path)) check_from_directory(path, &truth);
    else {
      bool llama = strstr(name, "llama") || strstr(name, "baichuan"), quantised = strstr(name, "-q") != NULL;
      check_from_gguf(path, &truth);
      check_published(path, quantised ? "F32" : NULL, &truth, llama ? 1e-5 : 0, NULL);
    }
    free(truth.values);
  } else if (convert(path, place("none"), ALIBI_FORMAT_ALIBI, NULL, 0) == ALIBI_OK) {
    print_error("%s: expected that what is not opened is not converted\n", name);
    failed = true;
  }
  assert_int_equal(scratch_entries(), 0);
  node_free(about);
}

static void models_stay_the_same(void **unused)
{
  (void)unused;
  const char *only = getenv("FAMILY_CASE");
  assert_true(name_count > 0);
  for (size_t i = 0; i < name_count; i++)
    if (!only || strcmp(only, names[i]) == 0) check_case(names[i]);
  assert_false(failed);
  if (only) return;
  assert_int_equal(own_published, 34); /* of those that have no words the golden cases have many */
  assert_int_equal(own_written, 26);
}

/* ---- the folder ---- */

static int by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

static int setup(void **state)
{
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = 1;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) return -1;
  DIR *folder = opendir(FAMILY_CASES);
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder)) && name_count < CASES_MAX;) {
    char path[PATH_SIZE];
    path_of(path, entry->d_name, "case.json");
    if (path_exists(path)) snprintf(names[name_count++], sizeof names[0], "%.60s", entry->d_name);
  }
  closedir(folder);
  qsort(names, name_count, sizeof names[0], by_name);
  return scratch_setup(state);
}

static int teardown(void **state)
{
  alibi_context_free(context);
  return scratch_teardown(state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(models_stay_the_same)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
