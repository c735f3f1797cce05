/* Token files: what is written is what is mapped; every damage is found and named; files of llm.c and nanoGPT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "file/token_file.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static unsigned char *load(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

/* Three documents, the second begun twice and an empty one at the end, which leave no trace. */
static uint64_t write_shard(const char *path, uint32_t vocabulary, uint32_t largest)
{
  token_writer w;
  uint64_t written;
  const uint32_t ids[] = {5, 4, 3, 2, largest, 0, 7};
  assert_int_equal(token_writer_begin(path, vocabulary, 99, &w, &error), ALIBI_OK);
  assert_int_equal(token_writer_document(&w, &error), ALIBI_OK);
  token_writer_ids(&w, ids, 2);
  token_writer_ids(&w, ids + 2, 1);
  for (int i = 0; i < 2; i++) assert_int_equal(token_writer_document(&w, &error), ALIBI_OK);
  token_writer_ids(&w, ids + 3, 3);
  assert_int_equal(token_writer_document(&w, &error), ALIBI_OK);
  token_writer_ids(&w, ids + 6, 1);
  assert_int_equal(token_writer_document(&w, &error), ALIBI_OK);
  assert_int_equal(token_writer_commit(&w, &written, &error), ALIBI_OK);
  return written;
}

static void maps_what_was_written(void **unused)
{
  (void)unused;
  for (int wide = 0; wide < 2; wide++) {
    const char *path = scratch_path("shard");
    uint32_t largest = wide ? 70000 : 65535;
    uint64_t written = write_shard(path, largest + 1, largest);
    token_file f;
    assert_true(token_file_recognises(path));
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_OK);
    assert_string_equal(f.format, "alibi");
    assert_int_equal(f.wide, wide);
    assert_int_equal(f.count, 7);
    assert_int_equal(f.document_count, 3);
    assert_int_equal(f.documents[1], 3);
    assert_int_equal(f.documents[2], 6);
    assert_int_equal(f.largest, largest);
    assert_int_equal(f.vocabulary, largest + 1);
    assert_int_equal(f.tokenizer, 99);
    assert_true(f.fingerprint == written);
    for (size_t i = 0; i < 7; i++) {
      uint32_t expected = (uint32_t[]){5, 4, 3, 2, largest, 0, 7}[i];
      assert_int_equal(wide ? ((const uint32_t *)f.ids)[i] : ((const uint16_t *)f.ids)[i], expected);
    }
    token_file_close(&f);
  }
}

/* Every single byte of the file matters, and every shorter or longer file is refused. */
static void finds_every_damage(void **unused)
{
  (void)unused;
  const char *path = scratch_path("shard"), *bad = scratch_path("bad");
  size_t size;
  token_file f;
  write_shard(path, 500, 400);
  unsigned char *bytes = load(path, &size);
  assert_int_equal(size, 64 + 16 + 24);
  for (size_t i = 0; i < size; i++) {
    bytes[i] ^= 0x10;
    scratch_write(bad, bytes, size);
    assert_int_equal(token_file_open(bad, &f, &error), ALIBI_BAD_INPUT);
    scratch_says(error.message, "bad: ");
    bytes[i] ^= 0x10;
  }
  scratch_says(error.message, "damaged: the ids are not those that were written");
  for (size_t shorter = 0; shorter < size; shorter++) {
    scratch_write(bad, bytes, shorter);
    assert_int_equal(token_file_open(bad, &f, &error), ALIBI_BAD_INPUT);
  }
  scratch_says(error.message, "cut off: 7 tokens and 3 documents take 104 bytes, the file has 103");
  bytes[size] = 0;
  scratch_write(bad, bytes, size + 1);
  assert_int_equal(token_file_open(bad, &f, &error), ALIBI_BAD_INPUT);
  free(bytes);
}

/* Who forges the fingerprints too still cannot lead a reader beyond the file or the vocabulary. */
static void holds_numbers_against_the_file(void **unused)
{
  (void)unused;
  static const struct {
    size_t at;
    uint64_t value;
    size_t bytes;
    const char *says;
  } cases[] = {
      {16, UINT64_MAX, 8, "damaged"},
      {16, (UINT64_MAX >> 1) + 1, 8, "damaged"},
      {16, 0, 8, "damaged"},
      {24, UINT64_MAX, 8, "cut off"},
      {12, 3, 4, "expected ids of 2 or 4 bytes, found 3"},
      {8, 2, 4, "expected a shard of version 1, found version 2"},
      {32, 3, 4, "expected the largest id to be 3"},
      {36, 400, 4, "below the vocabulary of 400, found 400"},
      {64 + 16 + 8, 6, 8, "document 3 starts at token 6, out of order"},
      {64 + 16 + 16, 7, 8, "document 3 starts at token 7, out of order"},
      {64 + 16, 1, 8, "document 1 starts at token 1, out of order"},
  };
  const char *path = scratch_path("shard"), *bad = scratch_path("bad");
  size_t size;
  token_file f;
  write_shard(path, 500, 400);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char *bytes = load(path, &size);
    memcpy(bytes + cases[i].at, &cases[i].value, cases[i].bytes);
    uint64_t seal = fingerprint_of(bytes + 64, size - 64);
    memcpy(bytes + 48, &seal, 8);
    seal = fingerprint_of(bytes, 56);
    memcpy(bytes + 56, &seal, 8);
    scratch_write(bad, bytes, size);
    assert_int_equal(token_file_open(bad, &f, &error), ALIBI_BAD_INPUT);
    if (cases[i].at != 16) scratch_says(error.message, cases[i].says);
    free(bytes);
  }
}

static void abandoned_leaves_nothing(void **unused)
{
  (void)unused;
  token_writer w;
  assert_int_equal(token_writer_begin(scratch_path("shard"), 10, 0, &w, &error), ALIBI_OK);
  assert_int_equal(scratch_entries(), 1);
  token_writer_abandon(&w);
  assert_int_equal(scratch_entries(), 0);
  assert_int_equal(token_writer_begin(scratch_path("no/folder"), 10, 0, &w, &error), ALIBI_FAILED);
}

static void reads_files_of_llmc(void **unused)
{
  (void)unused;
  const char *path = scratch_path("data.bin");
  static const uint32_t kinds[][3] = {{20240520, 1, 2}, {20240801, 7, 4}};
  for (int k = 0; k < 2; k++) {
    unsigned char bytes[1024 + 12] = {0};
    uint32_t header[] = {kinds[k][0], kinds[k][1], 12 / kinds[k][2]}, *wide = (uint32_t *)(void *)(bytes + 1024);
    uint16_t *narrow = (uint16_t *)(void *)(bytes + 1024);
    memcpy(bytes, header, sizeof header);
    if (k == 0) narrow[5] = 50256;
    else wide[2] = 128000;
    scratch_write(path, bytes, sizeof bytes);
    token_file f;
    assert_true(token_file_recognises(path));
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_OK);
    assert_string_equal(f.format, "llm.c");
    assert_int_equal(f.count, k == 0 ? 6 : 3);
    assert_int_equal(f.wide, k);
    assert_int_equal(f.largest, k == 0 ? 50256 : 128000);
    assert_null(f.documents);
    uint64_t before = f.fingerprint;
    token_file_close(&f);
    bytes[1030] ^= 1;
    scratch_write(path, bytes, sizeof bytes);
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_OK);
    assert_true(f.fingerprint != before);
    token_file_close(&f);
    scratch_write(path, bytes, sizeof bytes - 1);
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_BAD_INPUT);
    scratch_says(error.message, "the header says");
    scratch_write(path, bytes, 1000);
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_BAD_INPUT);
    bytes[4] = 2;
    scratch_write(path, bytes, sizeof bytes);
    assert_int_equal(token_file_open(path, &f, &error), ALIBI_BAD_INPUT);
    scratch_says(error.message, "with version 2, expected version");
  }
}

static void reads_bare_ids_only_when_asked(void **unused)
{
  (void)unused;
  const char *path = scratch_path("train.bin");
  const uint16_t ids[] = {1, 2, 65, 3, 4};
  token_file f;
  scratch_write(path, ids, sizeof ids);
  assert_false(token_file_recognises(path));
  assert_int_equal(token_file_open(path, &f, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "say nanogpt:");
  assert_int_equal(token_file_open_bare(path, &f, &error), ALIBI_OK);
  assert_int_equal(f.count, 5);
  assert_int_equal(f.largest, 65);
  token_file_close(&f);
  scratch_write(path, ids, 9);
  assert_int_equal(token_file_open_bare(path, &f, &error), ALIBI_BAD_INPUT);
  scratch_write(path, ids, 0);
  assert_int_equal(token_file_open_bare(path, &f, &error), ALIBI_BAD_INPUT);
  write_shard(path, 500, 400);
  assert_int_equal(token_file_open_bare(path, &f, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "the header of another kind");
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {WITH_FOLDER(maps_what_was_written),
                                     WITH_FOLDER(finds_every_damage),
                                     WITH_FOLDER(holds_numbers_against_the_file),
                                     WITH_FOLDER(abandoned_leaves_nothing),
                                     WITH_FOLDER(reads_files_of_llmc),
                                     WITH_FOLDER(reads_bare_ids_only_when_asked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
