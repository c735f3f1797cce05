/* Training sets of ids: the bytes follow from the request, sequences are those of the task, training reads them
 * from their beginnings; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/data_catalogue.h"
#include "train/synthetic.h"
#include "train/train_data.h"
#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/task_oracle.h"
#include "unit/tiny_model.h"

static alibi_error error;

static synthetic_request request_of(const char *task, const task_test_options *options, const char *out)
{
  return (synthetic_request){.task = task_find(task),
                             .options = options->bytes,
                             .length = 64,
                             .sequences = 300,
                             .held_out = 20,
                             .vocabulary = 64,
                             .seed = 5,
                             .out = out};
}

static void sequences_are_those_of_the_task(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 1);
  const char *out = scratch_path("one");
  task_test_options options;
  oracle_options(task_find("recall"), "", &options);
  synthetic_request request = request_of("recall", &options, out);
  if (synthetic_make(context, &request, &error) != ALIBI_OK) fail_msg("%s", error.message);
  data_catalogue c;
  assert_int_equal(data_check(out, &c, NULL), ALIBI_OK);
  assert_int_equal(c.vocabulary, 64);
  assert_int_equal(c.tokenizer, 0);
  data_catalogue_free(&c);
  for (int valid = 0; valid < 2; valid++) {
    token_source source;
    uint32_t ids[64];
    size_t count = valid ? 20 : 300, differ = 0;
    assert_int_equal(token_source_open(out, valid ? "valid" : "train", &source, NULL), ALIBI_OK);
    assert_int_equal(source.count, 64 * count);
    assert_int_equal(source.document_count, count);
    assert_null(source.tokenizer_path);
    for (size_t i = 0; i < count; i++) {
      uint32_t values[32] = {0}, first[64];
      assert_int_equal(token_source_document(&source, i), 64 * i);
      token_source_read(&source, 64 * i, 64, ids);
      for (size_t k = 0; k + 1 < 32; k++)
        if (ids[k] > 0 && ids[k] < 32) values[ids[k]] = ids[k + 1];
      for (size_t k = 32; k < 64; k += 2) assert_int_equal(values[ids[k]], ids[k + 1]);
      token_source_read(&source, 0, 64, first);
      differ += memcmp(ids, first, sizeof ids) != 0;
    }
    assert_int_equal(differ, count - 1);
    token_source_close(&source);
  }
  alibi_context_free(context);
}

static void the_bytes_follow_from_the_request(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 1);
  uint64_t prints[4][2];
  task_test_options options;
  oracle_options(task_find("copy"), "", &options);
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "s%d", i);
    synthetic_request request = request_of("copy", &options, scratch_path(name));
    if (i == 2) request.seed = 6;
    if (i == 3) request.sequences = 100; /* what is held out stays the same */
    assert_int_equal(synthetic_make(context, &request, NULL), ALIBI_OK);
    for (int s = 0; s < 2; s++) {
      token_source source;
      assert_int_equal(token_source_open(request.out, s ? "valid" : "train", &source, NULL), ALIBI_OK);
      prints[i][s] = source.fingerprint;
      token_source_close(&source);
    }
  }
  for (int s = 0; s < 2; s++) {
    assert_true(prints[0][s] == prints[1][s]);
    assert_true(prints[0][s] != prints[2][s]);
  }
  assert_true(prints[0][1] == prints[3][1] && prints[0][0] != prints[3][0] && prints[0][0] != prints[0][1]);
  alibi_context_free(context);
}

static void training_data_needs_no_tokenizer(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 1);
  const char *out = scratch_path("trained");
  task_test_options options;
  train_data data;
  oracle_options(task_find("recall"), "", &options);
  synthetic_request request = request_of("recall", &options, out);
  assert_int_equal(synthetic_make(context, &request, NULL), ALIBI_OK);
  train_data_request wanted = {.paths = &out, .count = 1};
  if (train_data_open(&wanted, &data, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_null(data.tokenizer);
  assert_int_equal(data.vocabulary, 64);
  assert_int_equal(data.valid_count, 20 * 64);
  train_data_close(&data);
  alibi_context_free(context);
}

static void a_long_sequence_is_cancelled(void **state)
{
  (void)state;
  static uint32_t ids[(1 << 20) + 100];
  static const char *const names[] = {"recall", "copy"};
  alibi_context *context = tiny_context(NULL, 1);
  task_random random = {.seed = 5};
  alibi_context_cancel(context);
  for (int i = 0; i < 2; i++) {
    task_test_options options;
    const evaluation_task *task = task_find(names[i]);
    oracle_options(task, "", &options);
    assert_int_equal(task->sequence(context, options.bytes, (1 << 20) + 100, 64, random, ids, &error),
                     ALIBI_CANCELLED);
    assert_int_equal(task->sequence(NULL, options.bytes, (1 << 20) + 100, 64, random, ids, &error), ALIBI_OK);
  }
  alibi_context_free(context);
}

static void refuse(alibi_context *context, synthetic_request request, const char *sentence)
{
  assert_int_equal(synthetic_make(context, &request, &error), ALIBI_INVALID);
  scratch_says(error.message, sentence);
}

static void what_cannot_be_made_is_refused(void **state)
{
  (void)state;
  alibi_context *context = tiny_context(NULL, 1);
  task_test_options options;
  oracle_options(task_find("recall"), "", &options);
  synthetic_request request = request_of("recall", &options, scratch_path("there"));
  assert_int_equal(synthetic_make(context, &request, NULL), ALIBI_OK);
  refuse(context, request, "expected a folder without data, found data.json in it");
  request.out = scratch_path("new");
  request.length = 47;
  refuse(context, request, "8 pairs and their questions take 48 tokens, the length is 47");
  request.length = 48, request.vocabulary = 17;
  refuse(context, request, "expected a vocabulary of at least 18, found 17");
  request.vocabulary = 18;
  assert_int_equal(synthetic_make(context, &request, NULL), ALIBI_OK);
  request.out = scratch_path("stopped");
  request.sequences = 100000;
  alibi_context_cancel(context);
  assert_int_equal(synthetic_make(context, &request, NULL), ALIBI_CANCELLED);
  assert_false(token_source_recognises(request.out));
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(sequences_are_those_of_the_task, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_bytes_follow_from_the_request, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(training_data_needs_no_tokenizer, scratch_setup, scratch_teardown),
      cmocka_unit_test(a_long_sequence_is_cancelled),
      cmocka_unit_test_setup_teardown(what_cannot_be_made_is_refused, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
