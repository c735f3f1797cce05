/* Texts as vectors against the reference's mean over the tokens (golden/families/README.md), and with skipping
 * against without. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/embed.h"
#include "base/error.h"
#include "file/safetensors.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

enum { WIDTH_MAX = 256, LONG = 8192 };

static alibi_context *context;
static alibi_error error;

static alibi_model *open_case(const char *name, const char *file)
{
  char path[1024];
  alibi_model *model = NULL;
  snprintf(path, sizeof path, FAMILY_CASES "/%s%s%s", name, file ? "/" : "", file ? file : "");
  if (alibi_model_open(context, path, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_true(alibi_model_get_config(model)->width <= WIDTH_MAX);
  return model;
}

static double cosine(const float *a, const float *b, size_t n)
{
  double product = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; i++) {
    product += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  return product / sqrt(aa * bb);
}

static void compare(const char *name, const char *file)
{
  char path[1024];
  safetensors_file *expected;
  alibi_model *model = open_case(name, file);
  alibi_embed_options options;
  float vector[WIDTH_MAX], unit[WIDTH_MAX];
  size_t width = (size_t)alibi_model_get_config(model)->width;
  snprintf(path, sizeof path, FAMILY_CASES "/%s/expected.safetensors", name);
  assert_int_equal(safetensors_open(path, &expected, &error), ALIBI_OK);
  const file_tensor *tokens = safetensors_find(expected, "tokens");
  const file_tensor *mean = safetensors_find(expected, "exact.mean");
  assert_true(tokens && mean && mean->shape[0] == width);
  alibi_embed_options_init(&options);
  options.normalise = false;
  assert_int_equal(alibi_embed(model, tokens->data, tokens->shape[0], &options, vector, &error), ALIBI_OK);
  assert_int_equal(alibi_embed(model, tokens->data, tokens->shape[0], NULL, unit, &error), ALIBI_OK);
  double length = 0, largest = 0, similar = cosine(vector, mean->data, width);
  for (size_t i = 0; i < width; i++) {
    largest = fmax(largest, fabs((double)vector[i] - (double)((const float *)mean->data)[i]));
    length += (double)unit[i] * (double)unit[i];
  }
  printf("%s: 1 - cosine %.1e, largest difference %.1e\n", name, 1 - similar, largest);
  assert_true(similar > 0.99999);
  assert_true(largest < 1e-5);
  assert_true(fabs(length - 1) < 1e-6);
  assert_true(cosine(vector, unit, width) > 1 - 1e-12);
  safetensors_close(expected);
  alibi_model_free(model);
}

static void encoders_agree_with_the_reference(void **state)
{
  (void)state;
  compare("jina-heads-6", NULL);
  compare("jina-heads-12-reglu", NULL);
  compare("gguf-jina", "model.gguf");
}

static void skipping_changes_nothing_that_can_be_seen(void **state)
{
  (void)state;
  alibi_model *model = open_case("jina-heads-12-reglu", NULL);
  alibi_embed_options options;
  size_t width = (size_t)alibi_model_get_config(model)->width;
  uint32_t *tokens = malloc(LONG * sizeof *tokens), number = 1;
  float skipping[WIDTH_MAX], whole[WIDTH_MAX];
  for (size_t i = 0; i < LONG; i++) tokens[i] = (number = number * 1664525u + 1013904223u) >> 26;
  alibi_embed_options_init(&options);
  assert_int_equal(alibi_embed(model, tokens, LONG, &options, skipping, &error), ALIBI_OK);
  options.tolerance = 0;
  assert_int_equal(alibi_embed(model, tokens, LONG, &options, whole, &error), ALIBI_OK);
  for (size_t i = 0; i < width; i++) assert_true(fabs((double)skipping[i] - (double)whole[i]) < 1e-6);
  free(tokens);
  alibi_model_free(model);
}

static void wrong_calls_are_refused(void **state)
{
  (void)state;
  alibi_model *model = open_case("jina-heads-6", NULL);
  alibi_embed_options options;
  uint32_t tokens[2] = {1, 1u << 20};
  float vector[WIDTH_MAX];
  alibi_embed_options_init(&options);
  assert_int_equal(alibi_embed(model, tokens, 0, &options, vector, &error), ALIBI_INVALID);
  assert_int_equal(alibi_embed(model, tokens, 2, &options, vector, &error), ALIBI_INVALID);
  options.tolerance = 1;
  assert_int_equal(alibi_embed(model, tokens, 1, &options, vector, &error), ALIBI_INVALID);
  options.tolerance = NAN;
  assert_int_equal(alibi_embed(model, tokens, 1, &options, vector, &error), ALIBI_INVALID);
  options.tolerance = 0;
  assert_int_equal(alibi_embed(model, tokens, 1, &options, vector, &error), ALIBI_OK);
  assert_int_equal(alibi_embed(NULL, tokens, 1, &options, vector, &error), ALIBI_INVALID);
  assert_int_equal(alibi_embed(model, NULL, 1, &options, vector, &error), ALIBI_INVALID);
  assert_int_equal(alibi_embed(model, tokens, 1, &options, NULL, &error), ALIBI_INVALID);
  alibi_model_free(model);
}

/* Weights that are no numbers: the file's fault.  And a cancel before anything is done. */
static void no_vector_comes_of_no_numbers(void **state)
{
  (void)state;
  alibi_model *model = open_case("jina-heads-6", NULL);
  uint32_t tokens[2] = {1, 2};
  float vector[WIDTH_MAX];
  model->values[0] = NAN;
  assert_int_equal(alibi_embed(model, tokens, 2, NULL, vector, &error), ALIBI_BAD_INPUT);
  assert_non_null(strstr(error.message, "weights"));
  alibi_context_cancel(context); /* for good: the last test */
  assert_int_equal(alibi_embed(model, tokens, 2, NULL, vector, &error), ALIBI_CANCELLED);
  alibi_model_free(model);
}

static int setup(void **state)
{
  (void)state;
  return alibi_context_new(NULL, &context, &error) == ALIBI_OK ? 0 : -1;
}

static int teardown(void **state)
{
  (void)state;
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(encoders_agree_with_the_reference),
      cmocka_unit_test(skipping_changes_nothing_that_can_be_seen),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(no_vector_comes_of_no_numbers),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
