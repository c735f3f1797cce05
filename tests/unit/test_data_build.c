/* Building data: the ids, the documents, what is held out, and that neither threads nor a stop in the middle
 * change a byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "base/context.h"
#include "base/directory.h"
#include "base/random.h"
#include "base/system.h"
#include "train/data_build.h"
#include "train/dataset.h"
#include "train/token_source.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/packed_bytes.h"
#include "unit/scratch.h"

static alibi_error error;

static alibi_context *context_of(int threads)
{
  alibi_context_options options;
  alibi_context *context;
  alibi_context_options_init(&options);
  options.threads = threads;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return context;
}

/* Words of a few kinds, lines of some length; the same for the same seed. */
static char *make_words(uint64_t seed, size_t size)
{
  static const char *const words[] = {
      "the ", "low ", "lower ", "newest\n", "it's ", "  ", "12 ", "\xc3\xa9t\xc3\xa9 ", "\n\n"};
  char *text = malloc(size + 32);
  assert_non_null(text);
  size_t at = 0;
  for (uint64_t i = 0; at < size; i++) {
    const char *word = words[random_below(seed, 0, i, sizeof words / sizeof words[0])];
    memcpy(text + at, word, strlen(word));
    at += strlen(word);
  }
  text[at] = '\0';
  while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80) size--; /* no half characters */
  memset(text + size, 0, at - size + 1);
  return text;
}

static void put_words(const char *name, uint64_t seed, size_t size)
{
  char *text = make_words(seed, size);
  scratch_write(scratch_path(name), text, strlen(text));
  free(text);
}

/* `count` lines with a document of words each, every seventh empty. */
static void put_lines(const char *name, int count)
{
  FILE *file = fopen(scratch_path(name), "wb");
  assert_non_null(file);
  for (int i = 0; i < count; i++) {
    fputs("{\"n\": 1, \"text\": \"", file);
    char *text = make_words((uint64_t)i + 100, i % 7 == 6 ? 0 : 20 + (size_t)(i * 37 % 400));
    for (const char *c = text; *c; c++) {
      if (*c == '\n') fputs("\\n", file);
      else fputc(*c, file);
    }
    fputs("\"}\n", file);
    free(text);
  }
  fclose(file);
}

static data_build_request request_for(const char *const *texts, size_t count, const char *out)
{
  return (data_build_request){.texts = texts,
                              .text_count = count,
                              .name = "text",
                              .vocabulary = 280,
                              .sample_bytes = 100000000,
                              .shard_tokens = 30000,
                              .held_out = 0.1,
                              .out = out};
}

static void build(const data_build_request *request, int threads)
{
  alibi_context *context = context_of(threads);
  data_build_result built;
  if (data_build(context, request, &built, &error) != ALIBI_OK) fail_msg("%s", error.message);
  data_catalogue_free(&built.catalogue);
  alibi_context_free(context);
}

/* Every file of both folders is the same. */
static void expect_same_folders(const char *a, const char *b)
{
  directory_list one, two;
  assert_int_equal(directory_read(a, &one, &error), ALIBI_OK);
  assert_int_equal(directory_read(b, &two, &error), ALIBI_OK);
  assert_int_equal(one.count, two.count);
  for (size_t i = 0; i < one.count; i++) {
    mapped_file x, y;
    assert_string_equal(one.names[i], two.names[i]);
    char *first = path_join(a, one.names[i]), *second = path_join(b, two.names[i]);
    assert_int_equal(mapped_file_open(first, &x, &error), ALIBI_OK);
    assert_int_equal(mapped_file_open(second, &y, &error), ALIBI_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    mapped_file_close(&x);
    mapped_file_close(&y);
    free(first);
    free(second);
  }
  directory_list_free(&one);
  directory_list_free(&two);
}

/* The next document of a source is this text. */
static void expect_document(const token_source *source, const alibi_tokenizer *tokenizer, size_t *at,
                            const char *text, size_t size)
{
  uint32_t *ids, *found;
  size_t count, end = token_source_next_document(source, *at);
  assert_int_equal(alibi_tokenizer_encode(tokenizer, text, size, &ids, &count, &error), ALIBI_OK);
  if (end - *at != count) fail_msg("%zu tokens, expected %zu of %zu bytes: %s", end - *at, count, size, text);
  found = malloc((count + 1) * sizeof *found);
  assert_non_null(found);
  token_source_read(source, *at, count, found);
  assert_memory_equal(found, ids, count * sizeof *ids);
  *at = end;
  free(found);
  alibi_tokens_free(ids);
}

static alibi_tokenizer *tokenizer_of(const char *folder)
{
  alibi_tokenizer *tokenizer;
  char *path = path_join(folder, "tokenizer.json");
  if (alibi_tokenizer_open(path, &tokenizer, &error) != ALIBI_OK) fail_msg("%s", error.message);
  free(path);
  return tokenizer;
}

/* A text long enough for several pieces, lines, a packed text: each document is what the tokenizer makes of it. */
static void ids_are_those_of_the_tokenizer(void **unused)
{
  (void)unused;
  enum { LONG = 900000 };
  put_words("a.txt", 1, LONG);
  put_lines("b.jsonl", 300);
  scratch_write(scratch_path("c.txt.gz"), gzip_bytes, sizeof gzip_bytes);
  const char *texts[] = {scratch_folder};
  char out[4][128];
  for (int threads = 1; threads <= 3; threads++) {
    snprintf(out[threads], sizeof out[0], "%s/out%d", scratch_folder, threads);
    data_build_request request = request_for(texts, 1, out[threads]);
    request.held_out = 0;
    build(&request, threads);
  }
  expect_same_folders(out[1], out[2]);
  expect_same_folders(out[1], out[3]);
  token_source source;
  alibi_tokenizer *tokenizer = tokenizer_of(out[1]);
  assert_int_equal(token_source_open(out[1], "train", &source, &error), ALIBI_OK);
  assert_true(source.part_count > 1);
  char *text = make_words(1, LONG);
  size_t at = 0;
  expect_document(&source, tokenizer, &at, text, strlen(text));
  free(text);
  for (int i = 0; i < 300; i++) {
    size_t size = i % 7 == 6 ? 0 : 20 + (size_t)(i * 37 % 400);
    if (size == 0) continue;
    text = make_words((uint64_t)i + 100, size);
    expect_document(&source, tokenizer, &at, text, strlen(text));
    free(text);
  }
  expect_document(&source, tokenizer, &at, "first line\nsecond line\n", 23);
  assert_int_equal(at, source.count);
  token_source_close(&source);
  assert_int_equal(token_source_open(out[1], "valid", &source, &error), ALIBI_INVALID);
  scratch_says(error.message, "this data has no part 'valid'");
  alibi_tokenizer_free(tokenizer);
}

/* Plain texts and lines give the ids that a training on them would make itself. */
static void agrees_with_the_data_set(void **unused)
{
  (void)unused;
  put_words("a", 3, 30000);
  put_words("b", 4, 5000);
  put_lines("c.jsonl", 90);
  const char *texts[] = {scratch_path("a"), scratch_path("b"), scratch_path("c.jsonl")};
  data_build_request request = request_for(texts, 3, scratch_path("out"));
  build(&request, 2);
  dataset data;
  dataset_request wanted = {.texts = texts, .text_count = 3, .held_out = 0.1, .vocabulary = 280};
  if (dataset_make(&wanted, &data, &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (int s = 0; s < 2; s++) {
    token_source source;
    const uint32_t *ids = s == 0 ? data.train : data.valid;
    size_t count = s == 0 ? data.train_count : data.valid_count;
    if (token_source_open(request.out, s == 0 ? "train" : "valid", &source, &error) != ALIBI_OK)
      fail_msg("%s", error.message);
    assert_int_equal(source.count, count);
    uint32_t *found = malloc(count * sizeof *found);
    assert_non_null(found);
    token_source_read(&source, 0, count, found);
    assert_memory_equal(found, ids, count * sizeof *ids);
    free(found);
    if (s == 0) {
      assert_int_equal(source.document_count, data.train_document_count);
      for (size_t i = 0, at = 0; i < data.train_document_count; i++, at = token_source_next_document(&source, at))
        assert_int_equal(data.train_documents[i], at);
    }
    token_source_close(&source);
  }
  assert_true(data.valid_count > 0);
  dataset_free(&data);
}

/* Of lines about the share is held out, up to every document, and whole ones. */
static void holds_out_whole_lines(void **unused)
{
  (void)unused;
  held_out_rule rule = {.share = 0.1};
  size_t chosen = 0;
  for (size_t i = 1; i <= 1000; i++) {
    chosen += held_out_next(&rule, 100);
    assert_true((double)chosen <= 0.1 * (double)i + 0.5 && (double)chosen >= 0.1 * (double)i - 0.5);
  }
}

typedef struct stopper {
  alibi_context *context;
  uint64_t after; /* documents */
} stopper;

static void stop(void *user, const data_build_progress *progress)
{
  stopper *s = user;
  if (progress->documents >= s->after) alibi_context_cancel(s->context);
}

/* Stopped again and again at other places, with what a killed process leaves behind. */
static void goes_on_after_a_stop(void **unused)
{
  (void)unused;
  put_words("a.txt", 5, 100000);
  put_lines("b.jsonl", 1000);
  put_words("c.txt", 6, 3000);
  put_lines("d.jsonl", 2000);
  FILE *bad = fopen(scratch_path("d.jsonl"), "ab");
  assert_non_null(bad);
  fputs("no json\n{\"text\": \"end\"}\n", bad);
  fclose(bad);
  const char *texts[] = {scratch_path("a.txt"), scratch_path("b.jsonl"), scratch_path("c.txt"),
                         scratch_path("d.jsonl")};
  char whole[128], parts[128];
  snprintf(whole, sizeof whole, "%s/whole", scratch_folder);
  snprintf(parts, sizeof parts, "%s/parts", scratch_folder);
  data_build_request request = request_for(texts, 4, whole);
  request.leave_out_bad = true;
  build(&request, 1);
  request.out = parts;
  size_t stops = 0;
  for (uint64_t after = 1;; after += 700) {
    alibi_context *context = context_of(1 + (int)(stops % 2));
    stopper stopping = {context, after};
    data_build_result built;
    request.report = stop;
    request.user = &stopping;
    status result = data_build(context, &request, &built, &error);
    data_catalogue_free(&built.catalogue);
    alibi_context_free(context);
    if (result == ALIBI_OK) break;
    assert_int_equal(result, ALIBI_CANCELLED);
    stops++;
    token_source source;
    assert_true(token_source_recognises(parts));
    assert_int_equal(token_source_open(parts, "train", &source, &error), ALIBI_BAD_INPUT);
    scratch_says(error.message, stops > 1 ? "a build that is not finished: run alibi data build again" : "");
    char path[256];
    snprintf(path, sizeof path, "%s/train-00009.tokens.1-0.part", parts);
    scratch_write(path, "half", 4);
    snprintf(path, sizeof path, "%s/valid-00000.tokens.1-7.part", parts);
    scratch_write(path, "half", 4);
    snprintf(path, sizeof path, "%s/tokenizer.json.1-2.part", parts);
    scratch_write(path, "half", 4);
    request.report = NULL;
  }
  assert_true(stops >= 2);
  expect_same_folders(whole, parts);
}

/* What an earlier run left is looked at before it is believed. */
static void builds_damaged_shards_anew(void **unused)
{
  (void)unused;
  put_lines("b.jsonl", 4000);
  const char *texts[] = {scratch_path("b.jsonl")};
  char whole[128], parts[128], path[256];
  snprintf(whole, sizeof whole, "%s/whole", scratch_folder);
  snprintf(parts, sizeof parts, "%s/parts", scratch_folder);
  data_build_request request = request_for(texts, 1, whole);
  build(&request, 2);
  alibi_context *context = context_of(2);
  stopper stopping = {context, 2000};
  data_build_result built;
  request.out = parts;
  request.report = stop;
  request.user = &stopping;
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_CANCELLED);
  alibi_context_free(context);
  snprintf(path, sizeof path, "%s/train-00001.tokens", parts);
  FILE *shard = fopen(path, "r+b");
  assert_non_null(shard);
  fseek(shard, 200, SEEK_SET);
  fputc('x', shard);
  fputc('y', shard);
  fclose(shard);
  request.report = NULL;
  context = context_of(2);
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_OK);
  assert_true(built.kept_shards >= 1);
  data_catalogue_free(&built.catalogue);
  expect_same_folders(whole, parts);
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_OK);
  assert_true(built.was_finished && built.tokens == 0);
  data_catalogue_free(&built.catalogue);
  alibi_context_free(context);
}

static void refuses_another_request(void **unused)
{
  (void)unused;
  put_words("a.txt", 7, 5000);
  put_words("b.txt", 8, 5000);
  const char *texts[] = {scratch_path("a.txt"), scratch_path("b.txt")};
  data_build_request first = request_for(texts, 1, scratch_path("out"));
  build(&first, 1);
  alibi_context *context = context_of(1);
  data_build_result built;
  data_build_request request = first;
  request.shard_tokens = 70;
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_INVALID);
  scratch_says(error.message, "holds data that was made with --shard-tokens 30000, not 70");
  request = first;
  request.tokenizer = "bytes";
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_INVALID);
  scratch_says(error.message, "--tokenizer null");
  request = first;
  request.text_count = 2;
  assert_int_equal(data_build(context, &request, &built, &error), ALIBI_INVALID);
  scratch_says(error.message, "holds data of 1 texts, not 2");
  put_words("a.txt", 7, 6000);
  assert_int_equal(data_build(context, &first, &built, &error), ALIBI_INVALID);
  scratch_says(error.message, " bytes), is ");
  alibi_context_free(context);
}

/* The first wrong line in the order of the texts, whoever met another one first; nothing passes for finished. */
static void refuses_bad_texts(void **unused)
{
  (void)unused;
  put_lines("b.jsonl", 5000);
  FILE *file = fopen(scratch_path("b.jsonl"), "ab");
  assert_non_null(file);
  fputs("{\"text\": 5}\n{\"body\": \"\"}\n", file);
  for (int i = 0; i < 50; i++) fputs("{\"text\": \n", file);
  fclose(file);
  scratch_write(scratch_path("empty.txt"), "", 0);
  scratch_write(scratch_path("none.jsonl"), "{\"text\": \"\"}\n\n", 15 - 1);
  const struct {
    const char *name, *says;
    double held_out;
  } cases[] = {
      {"b.jsonl", "b.jsonl: line 5001: expected an object with a text field 'text', found something else", 0.1},
      {"empty.txt", "empty.txt: expected text, found an empty file", 0.1},
      {"none.jsonl", "none.jsonl: expected text to train on, found none in these files", 0.1},
      {"nowhere", "nowhere: cannot open", 0.1}};
  for (int threads = 1; threads <= 3; threads++)
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      char out[128];
      snprintf(out, sizeof out, "%s/out%d-%zu", scratch_folder, threads, i);
      const char *texts[] = {scratch_path(cases[i].name)};
      alibi_context *context = context_of(threads);
      data_build_result built;
      data_build_request request = request_for(texts, 1, out);
      request.tokenizer = "bytes";
      assert_int_equal(data_build(context, &request, &built, &error), ALIBI_BAD_INPUT);
      scratch_says(error.message, cases[i].says);
      char *finished = path_join(out, DATA_FINISHED);
      assert_false(path_exists(finished));
      free(finished);
      alibi_context_free(context);
    }
}

/* A folder whose parts do not belong together is refused. */
static void finds_what_does_not_match(void **unused)
{
  (void)unused;
  put_words("a.txt", 7, 40000);
  const char *texts[] = {scratch_path("a.txt")};
  data_build_request request = request_for(texts, 1, scratch_path("out"));
  build(&request, 1);
  request.out = scratch_path("bytes");
  request.tokenizer = "bytes";
  build(&request, 1);
  data_catalogue catalogue;
  assert_int_equal(data_check(scratch_path("out"), &catalogue, &error), ALIBI_OK);
  data_catalogue_free(&catalogue);
  token_source source;
  assert_int_equal(token_source_open(scratch_path("out/train-00000.tokens"), "train", &source, &error), ALIBI_OK);
  assert_int_equal(token_source_check(&source, source.vocabulary, source.tokenizer, &error), ALIBI_OK);
  assert_int_equal(token_source_check(&source, source.vocabulary, source.tokenizer + 1, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected the tokenizer that made its ids");
  token_source_close(&source);
  assert_int_equal(rename(scratch_path("bytes/train-00000.tokens"), scratch_path("out/train-00000.tokens")), 0);
  assert_int_equal(token_source_open(scratch_path("out"), "train", &source, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected the shard that the list beside it names");
  assert_int_equal(rename(scratch_path("bytes/tokenizer.json"), scratch_path("out/tokenizer.json")), 0);
  assert_int_equal(data_check(scratch_path("out"), &catalogue, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected the tokenizer that made the ids beside it");
  static const char *const wrong[] = {
      "[]", "{\"format\": \"alibi tokens\", \"version\": 2}", "{\"format\": \"alibi tokens\", \"version\": 1}",
      "{\"format\": \"alibi tokens\", \"version\": 1, \"tokenizer\": {\"vocabulary\": 3, "
      "\"fingerprint\": \"0123456789abcdef\"}, \"splits\": {\"train\": {\"shards\": "
      "[{\"file\": \"../train-00000.tokens\"}]}}}"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    scratch_write(scratch_path("out/data.json"), wrong[i], strlen(wrong[i]));
    assert_int_equal(token_source_open(scratch_path("out"), "train", &source, &error), ALIBI_BAD_INPUT);
  }
  scratch_says(error.message, "expected the file of shard 1 to be train-00000.tokens");
}

static void opens_files_of_nanogpt(void **unused)
{
  (void)unused;
  const uint16_t ids[] = {1, 2, 65, 3};
  char folder[256], file[256];
  token_source source;
  scratch_write(scratch_path("train.bin"), ids, sizeof ids);
  snprintf(folder, sizeof folder, "nanogpt:%s", scratch_folder);
  snprintf(file, sizeof file, "nanogpt:%s/train.bin", scratch_folder);
  assert_true(token_source_recognises(folder) && token_source_recognises(file));
  assert_true(token_source_has_split(folder, "train") && !token_source_has_split(folder, "valid"));
  for (int i = 0; i < 2; i++) {
    uint32_t read[4];
    assert_int_equal(token_source_open(i ? file : folder, "train", &source, &error), ALIBI_OK);
    token_source_read(&source, 0, 4, read);
    assert_int_equal(read[2], 65);
    assert_int_equal(source.largest, 65);
    assert_false(token_source_has_documents(&source));
    token_source_close(&source);
  }
  assert_int_equal(token_source_open(file, "valid", &source, &error), ALIBI_INVALID);
  assert_int_equal(token_source_open(folder, "valid", &source, &error), ALIBI_BAD_INPUT);
  assert_int_equal(token_source_open(folder, "test", &source, &error), ALIBI_INVALID);
  assert_int_equal(token_source_open(scratch_folder, "train", &source, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected data.json in this folder, found none");
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {WITH_FOLDER(ids_are_those_of_the_tokenizer),
                                     WITH_FOLDER(agrees_with_the_data_set),
                                     cmocka_unit_test(holds_out_whole_lines),
                                     WITH_FOLDER(goes_on_after_a_stop),
                                     WITH_FOLDER(builds_damaged_shards_anew),
                                     WITH_FOLDER(refuses_another_request),
                                     WITH_FOLDER(refuses_bad_texts),
                                     WITH_FOLDER(finds_what_does_not_match),
                                     WITH_FOLDER(opens_files_of_nanogpt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
