/* Directories: their names in order, removing, replacing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/system.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static void write_file(const char *directory, const char *name, const char *text)
{
  char *path = path_join(directory, name);
  assert_int_equal(file_write_atomic(path, text, strlen(text), &error), ALIBI_OK);
  free(path);
}

static void names_come_in_order(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("names");
  directory_list list;
  assert_int_equal(directory_make(folder, &error), ALIBI_OK);
  write_file(folder, "b", "1");
  write_file(folder, "a", "2");
  write_file(folder, ".c", "3");
  assert_int_equal(directory_read(folder, &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 3);
  assert_string_equal(list.names[0], ".c");
  assert_string_equal(list.names[1], "a");
  assert_string_equal(list.names[2], "b");
  directory_list_free(&list);
  assert_int_equal(directory_remove(folder, &error), ALIBI_OK);
  assert_false(path_exists(folder));
  assert_int_equal(directory_remove(folder, &error), ALIBI_OK);
  assert_int_equal(directory_read(folder, &list, &error), ALIBI_BAD_INPUT);
  assert_non_null(strstr(error.message, "cannot read the directory"));
}

static void a_directory_takes_the_place_of_another(void **unused)
{
  (void)unused;
  const char *old = scratch_path("there"), *young = scratch_path("beside");
  alibi_error_init(&error);
  directory_list list;
  for (int round = 0; round < 2; round++) { /* where none is, and where one is */
    assert_int_equal(directory_make(young, &error), ALIBI_OK);
    write_file(young, round ? "second" : "first", "x");
    assert_int_equal(directory_replace(young, old, &error), ALIBI_OK);
    assert_false(path_exists(young));
    assert_int_equal(directory_read(old, &list, &error), ALIBI_OK);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.names[0], round ? "second" : "first");
    directory_list_free(&list);
  }
  assert_int_equal(scratch_entries(), 1); /* nothing is left beside */
  assert_int_not_equal(directory_replace(young, old, &error), ALIBI_OK);
  assert_int_equal(directory_read(old, &list, &error), ALIBI_OK); /* the old one stays */
  assert_int_equal(list.count, 1);
  directory_list_free(&list);
}

static void what_holds_a_directory_is_not_removed(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("nested");
  char *inside = path_join(folder, "inside");
  assert_int_equal(directory_make(inside, &error), ALIBI_OK);
  assert_int_equal(directory_remove(folder, &error), ALIBI_FAILED);
  assert_true(path_is_directory(inside));
  free(inside);
}

static void what_killed_writers_left_goes(void **unused)
{
  (void)unused;
  static const char *const ours[] = {"log.jsonl.", "shard-", NULL};
  static const char *const names[] = {"log.jsonl.12-0.part", "shard-00001.tokens.1-7.part", /* go */
                                      "log.jsonl",           "notes.part",
                                      "shard-00001.tokens",  ".part"};
  const char *folder = scratch_path("leftovers");
  directory_list list;
  assert_int_equal(directory_make(folder, &error), ALIBI_OK);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char *path = path_join(folder, names[i]);
    scratch_write(path, "half", 4);
    free(path);
  }
  assert_int_equal(directory_remove_parts(folder, ours, &error), ALIBI_OK);
  assert_int_equal(directory_read(folder, &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 4);
  assert_string_equal(list.names[0], ".part");
  assert_string_equal(list.names[1], "log.jsonl");
  assert_string_equal(list.names[2], "notes.part");
  directory_list_free(&list);
  assert_int_equal(directory_remove_parts(scratch_path("nowhere"), ours, &error), ALIBI_BAD_INPUT);
}

static int setup(void **unused)
{
  (void)unused;
  scratch_make();
  alibi_error_init(&error);
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  scratch_remove();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_come_in_order), cmocka_unit_test(a_directory_takes_the_place_of_another),
      cmocka_unit_test(what_holds_a_directory_is_not_removed), cmocka_unit_test(what_killed_writers_left_goes)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
