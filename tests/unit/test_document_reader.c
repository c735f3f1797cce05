/* Documents out of files and folders: which files, in which order, what is in them, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "file/compressed.h"
#include "train/document_reader.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/packed_bytes.h"
#include "unit/scratch.h"

static alibi_error error;

static void put(const char *name, const char *text)
{
  scratch_write(scratch_path(name), text, strlen(text));
}

static void walks_folders_in_order(void **unused)
{
  (void)unused;
  static const char *const names[] = {"b.txt",      "a.jsonl.gz",   "c.md.zst", "d.bin",    ".hidden.txt",
                                      "sub/z.text", "sub/y.ndjson", "txt",      "e.txt.bak"};
  static const struct {
    const char *name;
    bool lines;
  } expected[] = {
      {"a.jsonl.gz", true}, {"b.txt", false}, {"c.md.zst", false}, {"sub/y.ndjson", true}, {"sub/z.text", false}};
  assert_int_equal(mkdir(scratch_path("sub"), 0777), 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) put(names[i], "x");
  text_list list = {0};
  assert_int_equal(text_list_add(&list, scratch_folder, TEXT_BY_NAME, false, &error), ALIBI_OK);
  assert_int_equal(list.count, 5);
  assert_int_equal(list.left_out, 3);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(list.files[i].path, scratch_path(expected[i].name));
    assert_int_equal(list.files[i].lines, expected[i].lines);
    assert_int_equal(list.files[i].bytes, 1);
    assert_true(list.files[i].walked);
  }
  text_list_free(&list);
  assert_int_equal(text_list_add(&list, scratch_folder, TEXT_PLAIN, true, &error), ALIBI_OK);
  assert_int_equal(list.count, 8);
  assert_true(list.files[0].held_out && !list.files[0].lines);
  text_list_free(&list);
  assert_int_equal(text_list_add(&list, scratch_path("d.bin"), TEXT_BY_NAME, false, &error), ALIBI_OK);
  assert_false(list.files[0].lines || list.files[0].walked);
  text_list_free(&list);
  assert_int_equal(mkdir(scratch_path("none"), 0777), 0);
  assert_int_equal(text_list_add(&list, scratch_path("none"), TEXT_BY_NAME, false, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "none: expected texts in this folder");
  text_list_free(&list);
}

static void refuses_folders_without_end(void **unused)
{
  (void)unused;
  text_list list = {0};
  assert_int_equal(symlink(".", scratch_path("again")), 0);
  assert_int_equal(text_list_add(&list, scratch_folder, TEXT_BY_NAME, false, &error), ALIBI_BAD_INPUT);
  text_list_free(&list);
}

/* Opens, reads all, joins the documents with '|'. */
static status read_all(const char *name, bool lines, char *joined)
{
  text_file file = {.path = (char *)(uintptr_t)scratch_path(name), .lines = lines};
  document_reader *reader;
  document next;
  joined[0] = '\0';
  status result = document_reader_open(&file, &reader, &error);
  if (result != ALIBI_OK) return result;
  while ((result = document_reader_next(reader, &next, &error)) == ALIBI_OK && next.data) {
    assert_int_equal(next.line > 0, lines);
    sprintf(joined + strlen(joined), "%zu:%.*s|", next.line, (int)next.size, (const char *)next.data);
  }
  if (result == ALIBI_OK) assert_int_equal(document_reader_position(reader), document_reader_size(reader));
  document_reader_close(reader);
  return result;
}

static void reads_texts_and_lines(void **unused)
{
  (void)unused;
  char joined[256];
  put("plain", "one\ntwo\n");
  assert_int_equal(read_all("plain", false, joined), ALIBI_OK);
  assert_string_equal(joined, "0:one\ntwo\n|");
  assert_int_equal(read_all("plain", true, joined), ALIBI_OK);
  assert_string_equal(joined, "1:one|2:two|");
  put("plain", "\xef\xbb\xbf{}\r\n\n \t\r\nlast");
  assert_int_equal(read_all("plain", true, joined), ALIBI_OK);
  assert_string_equal(joined, "1:{}\r|4:last|");
  put("plain", "");
  assert_int_equal(read_all("plain", false, joined), ALIBI_OK);
  assert_string_equal(joined, "0:|");
  assert_int_equal(read_all("plain", true, joined), ALIBI_OK);
  assert_string_equal(joined, "");
}

static void reads_packed_files(void **unused)
{
  (void)unused;
  static const struct {
    const unsigned char *bytes;
    size_t size;
  } packed[] = {{gzip_bytes, sizeof gzip_bytes}, {zstd_bytes, sizeof zstd_bytes}};
  char joined[256];
  for (int i = 0; i < 2; i++) {
    scratch_write(scratch_path("packed"), packed[i].bytes, packed[i].size); /* its name says nothing */
    assert_int_equal(read_all("packed", false, joined), ALIBI_OK);
    assert_string_equal(joined, "0:first line\nsecond line\n|");
    assert_int_equal(read_all("packed", true, joined), ALIBI_OK);
    assert_string_equal(joined, "1:first line|2:second line|");
    /* twice in one file */
    unsigned char *twice = malloc(2 * packed[i].size);
    assert_non_null(twice);
    memcpy(twice, packed[i].bytes, packed[i].size);
    memcpy(twice + packed[i].size, packed[i].bytes, packed[i].size);
    scratch_write(scratch_path("packed"), twice, 2 * packed[i].size);
    assert_int_equal(read_all("packed", true, joined), ALIBI_OK);
    assert_string_equal(joined, "1:first line|2:second line|3:first line|4:second line|");
    free(twice);
  }
}

static void finds_damaged_packing(void **unused)
{
  (void)unused;
  char joined[256];
  for (size_t size = 4; size < sizeof gzip_bytes; size++) {
    scratch_write(scratch_path("x.gz"), gzip_bytes, size);
    assert_int_equal(read_all("x.gz", true, joined), ALIBI_BAD_INPUT);
    scratch_says(error.message, "x.gz: cut off");
  }
  for (size_t size = 4; size < sizeof zstd_bytes; size++) {
    scratch_write(scratch_path("x.zst"), zstd_bytes, size);
    assert_int_equal(read_all("x.zst", false, joined), ALIBI_BAD_INPUT);
    scratch_says(error.message, "x.zst: cut off");
  }
  unsigned char damaged[sizeof gzip_bytes];
  memcpy(damaged, gzip_bytes, sizeof damaged);
  damaged[sizeof damaged - 6] ^= 1; /* of the check sum */
  scratch_write(scratch_path("x.gz"), damaged, sizeof damaged);
  assert_int_equal(read_all("x.gz", false, joined), ALIBI_BAD_INPUT);
  scratch_says(error.message, "x.gz: damaged gzip data at byte");
  unsigned char more[sizeof zstd_bytes + 5] = {0};
  memcpy(more, zstd_bytes, sizeof zstd_bytes);
  memcpy(more + sizeof zstd_bytes, "waste", 5);
  scratch_write(scratch_path("x.zst"), more, sizeof more);
  assert_int_equal(read_all("x.zst", false, joined), ALIBI_BAD_INPUT);
  scratch_says(error.message, "x.zst: damaged zstd data");
  put("x.gz", "plain after all");
  assert_int_equal(read_all("x.gz", false, joined), ALIBI_BAD_INPUT);
  scratch_says(error.message, "x.gz: expected gzip or zstd data");
  assert_int_equal(read_all("nowhere", false, joined), ALIBI_BAD_INPUT);
}

/* A line longer than any window, out of a packed file. */
static void reads_long_packed_lines(void **unused)
{
  (void)unused;
  enum { LINES = 5, LONG = 700000 };
  text_file file = {.path = (char *)(uintptr_t)scratch_path("long.gz"), .lines = true};
  char command[256];
  snprintf(command, sizeof command,
           "for i in 1 2 3 4 5; do head -c %d /dev/zero | tr '\\0' $i; echo; done | gzip > %s/long.gz", LONG,
           scratch_folder);
  assert_int_equal(system(command), 0);
  document_reader *reader;
  document next;
  assert_int_equal(document_reader_open(&file, &reader, &error), ALIBI_OK);
  for (int i = 1; i <= LINES; i++) {
    assert_int_equal(document_reader_next(reader, &next, &error), ALIBI_OK);
    assert_int_equal(next.size, LONG);
    assert_int_equal(next.line, i);
    assert_int_equal(next.data[0], '0' + i);
    assert_int_equal(next.data[LONG - 1], '0' + i);
  }
  assert_int_equal(document_reader_next(reader, &next, &error), ALIBI_OK);
  assert_null(next.data);
  document_reader_close(reader);
}

static void takes_the_text_out_of_a_line(void **unused)
{
  (void)unused;
  static const struct {
    const char *line, *says; /* NULL: the text is "a\nb" */
  } cases[] = {
      {"{\"id\": 1, \"body\": \"a\\nb\"}", NULL},
      {"{\"id\": 1}", "c.jsonl: line 7: expected an object with a text field 'body', found no such field"},
      {"{\"body\": 1}", "found something else in that field"},
      {"[1]", "found no object"},
      {"{\"body\": ", "c.jsonl: line 7: not valid JSON: column"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    document line = {(const unsigned char *)cases[i].line, strlen(cases[i].line), 7};
    json_node *tree;
    const char *text;
    size_t size;
    status result = document_line_text("c.jsonl", &line, "body", &tree, &text, &size, &error);
    assert_int_equal(result, cases[i].says ? ALIBI_BAD_INPUT : ALIBI_OK);
    if (cases[i].says) scratch_says(error.message, cases[i].says);
    else assert_string_equal(text, "a\nb");
    if (!cases[i].says) assert_int_equal(size, 3);
    node_free(tree);
  }
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {WITH_FOLDER(walks_folders_in_order),
                                     WITH_FOLDER(refuses_folders_without_end),
                                     WITH_FOLDER(reads_texts_and_lines),
                                     WITH_FOLDER(reads_packed_files),
                                     WITH_FOLDER(finds_damaged_packing),
                                     WITH_FOLDER(reads_long_packed_lines),
                                     cmocka_unit_test(takes_the_text_out_of_a_line)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
