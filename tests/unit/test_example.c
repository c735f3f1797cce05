/* The programs in examples/ do what they say: built and run here, on a model made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int example_main(int count, char **arguments);
#define main example_main
#include "../examples/generate.c"
#undef main

#include <cmocka.h>

#include "unit/scratch.h"

static int run(char *directory, char *text, const char *output)
{
  char *arguments[] = {"generate", directory, text, NULL};
  fflush(stdout);
  int kept = dup(1);
  assert_true(kept >= 0);
  assert_non_null(freopen(output, "w", stdout));
  int code = example_main(3, arguments);
  fflush(stdout);
  assert_true(dup2(kept, 1) == 1);
  close(kept);
  return code;
}

static void make_model(const char *directory)
{
  alibi_context *context;
  alibi_model_config config;
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  char path[600];
  alibi_model_config_init(&config);
  config.layers = 1;
  config.width = 32;
  assert_int_equal(alibi_context_new(NULL, &context, NULL), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &config, 1, &model, NULL), ALIBI_OK);
  assert_int_equal(alibi_model_save(model, directory, NULL), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_new_bytes(&tokenizer, NULL), ALIBI_OK);
  snprintf(path, sizeof path, "%s/tokenizer.json", directory);
  assert_int_equal(alibi_tokenizer_save(tokenizer, path, NULL), ALIBI_OK);
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void generates(void **unused)
{
  (void)unused;
  scratch_make();
  char directory[512];
  const char *first = scratch_path("first"), *second = scratch_path("second"), *third = scratch_path("third");
  snprintf(directory, sizeof directory, "%s", scratch_path("model"));
  make_model(directory);
  assert_int_equal(run(directory, "In the beginning", first), 0);
  assert_int_equal(run(directory, "In the beginning", second), 0);
  assert_int_equal(run(directory, "", third), 1); /* nothing to go on from */
  char a[1024], b[1024];
  FILE *one = fopen(first, "rb"), *two = fopen(second, "rb");
  assert_non_null(one);
  assert_non_null(two);
  size_t size = fread(a, 1, sizeof a, one);
  assert_int_equal(size, strlen("In the beginning") + 100 + 1); /* a token is a byte */
  assert_memory_equal(a, "In the beginning", strlen("In the beginning"));
  assert_int_equal(fread(b, 1, sizeof b, two), size);
  assert_memory_equal(a, b, size);
  fclose(one);
  fclose(two);
  scratch_remove();
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(generates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
