/* The texts of a training: where they are split, what becomes of their bytes, which tokenizer reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/dataset.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/packed_bytes.h"
#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  (void)unused;
  scratch_make();
  return 0;
}

/* Decodes ids and compares. */
static void expect_text(const dataset *data, const uint32_t *ids, size_t count, const char *expected, size_t size)
{
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    size_t bytes;
    const unsigned char *text = alibi_tokenizer_bytes(data->tokenizer, ids[i], &bytes);
    assert_int_equal(bytes, data->token_bytes[ids[i]]);
    assert_true(at + bytes <= size);
    assert_memory_equal(text, expected + at, bytes);
    at += bytes;
  }
  assert_int_equal(at, size);
}

static void make(const dataset_request *request, dataset *data)
{
  if (dataset_make(request, data, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void splits_at_a_line_near_the_share(void **unused)
{
  (void)unused;
  /* 100 lines of 10 bytes: a tenth is 100 bytes, which begin in mid-line when the share is 0.095 */
  char text[1001];
  for (int i = 0; i < 100; i++) snprintf(text + 10 * i, 11, "line %04d\n", i);
  const char *paths[] = {scratch_path("text")};
  scratch_write(paths[0], text, 1000);
  static const struct {
    double held_out;
    size_t train;
  } cases[] = {{0.1, 900}, {0.095, 910}, {0, 1000}, {0.9, 100}, {0.0005, 1000}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    dataset data;
    dataset_request request = {
        .texts = paths, .text_count = 1, .held_out = cases[i].held_out, .tokenizer = "bytes"};
    make(&request, &data);
    assert_int_equal(data.train_bytes, cases[i].train);
    assert_int_equal(data.valid_bytes, 1000 - cases[i].train);
    expect_text(&data, data.train, data.train_count, text, cases[i].train);
    expect_text(&data, data.valid, data.valid_count, text + cases[i].train, 1000 - cases[i].train);
    dataset_free(&data);
  }
}

/* Any bytes, without a line: the split falls where the share says. */
static void splits_what_has_no_lines(void **unused)
{
  (void)unused;
  char text[1000];
  for (int i = 0; i < 1000; i++) text[i] = (char)(i % 256 == '\n' ? 0 : i % 256);
  const char *paths[] = {scratch_path("text")};
  scratch_write(paths[0], text, 1000);
  dataset data;
  dataset_request request = {.texts = paths, .text_count = 1, .held_out = 0.25, .vocabulary = 300};
  make(&request, &data);
  assert_int_equal(data.train_bytes, 750);
  expect_text(&data, data.train, data.train_count, text, 750);
  expect_text(&data, data.valid, data.valid_count, text + 750, 250);
  dataset_free(&data);
}

static void joins_texts_and_holds_out_of_each(void **unused)
{
  (void)unused;
  const char *paths[] = {scratch_path("one"), scratch_path("two")};
  scratch_write(paths[0], "aaaaaaaa\nB\n", 11);
  scratch_write(paths[1], "cccccccc\nD\n", 11);
  dataset data;
  dataset_request request = {.texts = paths, .text_count = 2, .held_out = 0.2, .tokenizer = "bytes"};
  make(&request, &data);
  expect_text(&data, data.train, data.train_count, "aaaaaaaa\ncccccccc\n", 18);
  expect_text(&data, data.valid, data.valid_count, "B\nD\n", 4);
  dataset_free(&data);
  request.valid = scratch_path("three");
  scratch_write(request.valid, "other", 5);
  make(&request, &data);
  expect_text(&data, data.train, data.train_count, "aaaaaaaa\nB\ncccccccc\nD\n", 22);
  expect_text(&data, data.valid, data.valid_count, "other", 5);
  dataset_free(&data);
  char list[1024];
  snprintf(list, sizeof list, "%s, %s", request.valid, request.valid);
  request.valid = list;
  make(&request, &data);
  expect_text(&data, data.valid, data.valid_count, "otherother", 10);
  dataset_free(&data);
  snprintf(list, sizeof list, "%s,%s,,%s", paths[0], paths[1], paths[0]);
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "--valid: item 3 of '"));
  scratch_write(scratch_path("c,,d"), "comma", 5); /* what is left is one file's name */
  snprintf(list, sizeof list, "%s,%s", paths[1], scratch_path("c,,d"));
  make(&request, &data);
  expect_text(&data, data.valid, data.valid_count, "cccccccc\nD\ncomma", 16);
  dataset_free(&data);
}

/* The held-out part must not shape the tokenizer. */
static void tokenizer_sees_the_training_part_alone(void **unused)
{
  (void)unused;
  const char *paths[] = {scratch_path("one"), scratch_path("two")};
  scratch_write(paths[0], "ab ab ab ab ab ab ab ab ab ab ab\nzq zq zq zq\n", 46);
  scratch_write(paths[1], "ab ab ab ab ab ab ab ab ab ab ab\nzzzzzzzzzzzz\n", 46);
  dataset data[2];
  for (int i = 0; i < 2; i++) {
    dataset_request request = {.texts = &paths[i], .text_count = 1, .held_out = 0.3, .vocabulary = 300};
    make(&request, &data[i]);
  }
  assert_true(alibi_tokenizer_vocabulary(data[0].tokenizer) > 256);
  assert_int_equal(alibi_tokenizer_vocabulary(data[0].tokenizer), alibi_tokenizer_vocabulary(data[1].tokenizer));
  for (uint32_t i = 256; i < alibi_tokenizer_vocabulary(data[0].tokenizer); i++) {
    size_t a, b;
    const unsigned char *x = alibi_tokenizer_bytes(data[0].tokenizer, i, &a),
                        *y = alibi_tokenizer_bytes(data[1].tokenizer, i, &b);
    assert_int_equal(a, b);
    assert_memory_equal(x, y, a);
    assert_null(memchr(x, 'z', a));
  }
  dataset_free(&data[0]);
  dataset_free(&data[1]);
}

/* Lines of JSON and packed texts, from a folder; every text is a document. */
static void reads_lines_packed_texts_and_folders(void **unused)
{
  (void)unused;
  static const char lines[] = "{\"text\": \"one\\nmore\"}\n{\"text\": \"\"}\n\n{\"text\": \"two\"}\n";
  scratch_write(scratch_path("a.txt.zst"), zstd_bytes, sizeof zstd_bytes);
  scratch_write(scratch_path("b.jsonl"), lines, strlen(lines));
  scratch_write(scratch_path("c.md"), "", 0);
  scratch_write(scratch_path("d.bin"), "waste", 5);
  const char *paths[] = {scratch_folder};
  dataset data;
  dataset_request request = {.texts = paths, .text_count = 1, .held_out = 0, .tokenizer = "bytes"};
  make(&request, &data);
  expect_text(&data, data.train, data.train_count, "first line\nsecond line\none\nmoretwo", 34);
  assert_int_equal(data.train_document_count, 3);
  assert_int_equal(data.train_documents[1], 23);
  assert_int_equal(data.train_documents[2], 31);
  dataset_free(&data);
  request.valid = scratch_path("b.jsonl");
  paths[0] = scratch_path("a.txt.zst");
  make(&request, &data);
  expect_text(&data, data.valid, data.valid_count, "one\nmoretwo", 11);
  assert_int_equal(data.train_document_count, 1);
  assert_int_equal(data.train_documents[0], 0);
  dataset_free(&data);
  scratch_write(scratch_path("b.jsonl"), "{}", 2);
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "b.jsonl: line 1: expected an object with a text field 'text'");
}

static void refuses_empty_and_missing(void **unused)
{
  (void)unused;
  const char *paths[] = {scratch_path("text"), scratch_path("empty")};
  scratch_write(paths[0], "text", 4);
  scratch_write(paths[1], "", 0);
  dataset data;
  dataset_request request = {.texts = paths, .text_count = 2, .held_out = 0.1, .tokenizer = "bytes"};
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "empty: expected text");
  request.text_count = 1;
  request.valid = scratch_path("nowhere");
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "nowhere");
  request.valid = NULL;
  request.tokenizer = scratch_path("nothing.json");
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "nothing.json");
  request.text_count = 0;
  assert_int_equal(dataset_make(&request, &data, &error), ALIBI_INVALID);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, scratch_teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {
      WITH_FOLDER(splits_at_a_line_near_the_share),      WITH_FOLDER(splits_what_has_no_lines),
      WITH_FOLDER(joins_texts_and_holds_out_of_each),    WITH_FOLDER(tokenizer_sees_the_training_part_alone),
      WITH_FOLDER(reads_lines_packed_texts_and_folders), WITH_FOLDER(refuses_empty_and_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
