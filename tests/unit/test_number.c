/* Numbers and lists as people type them: what is read, and what is refused rather than guessed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

static alibi_error error;

static void decimal_numbers_are_read(void **unused)
{
  (void)unused;
  static const struct {
    const char *text;
    double value;
  } rows[] = {{"0", 0},       {"-0", 0},          {"8", 8},
              {"+8", 8},      {"007", 7},         {"-12.5", -12.5},
              {".5", 0.5},    {"5.", 5},          {"1e3", 1000},
              {"1E-3", 1e-3}, {"2.5e+2", 250},    {"0e-999", 0},
              {"0.000", 0},   {"5e-324", 5e-324}, {"1.7976931348623157e308", 1.7976931348623157e308}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double value = 99;
    if (!number_read(rows[i].text, &value)) fail_msg("'%s' was refused", rows[i].text);
    if (value != rows[i].value) fail_msg("'%s' was read as %g", rows[i].text, value);
  }
}

static void everything_else_is_refused(void **unused)
{
  (void)unused;
  static const char *const none[] = {
      "",   " ", " 8", "8 ", "\t8", "0x10", "0x",  "inf", "-inf",  "infinity", "nan", "nan(1)", "1e",    "1e+",
      "e5", ".", "-",  "+",  "-.",  ".e5",  "--8", "+-8", "1.5.2", "1,5",      "8x",  "1e5.0",  "1_000", "1 000"};
  double value;
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    if (number_read(none[i], &value)) fail_msg("'%s' was read as %g", none[i], value);
    assert_true(isnan(value));
  }
  assert_false(number_read("1e-400", &value));
  assert_true(value == 0);
  assert_false(number_read("-0.00001e-330", &value));
  assert_true(value == 0);
  assert_false(number_read("1e999", &value));
  assert_true(isinf(value));
}

static void integers_are_read_by_their_digits(void **unused)
{
  (void)unused;
  static const struct {
    const char *text;
    int64_t value;
  } rows[] = {{"0", 0},
              {"-0.0e9", 0},
              {"12", 12},
              {"+007", 7},
              {"1.20e1", 12},
              {"1200e-2", 12},
              {"5.", 5},
              {"0.000e-99", 0},
              {"-1e3", -1000},
              {".5e1", 5},
              {"12.0", 12},
              {"9007199254740992", 9007199254740992},
              {"9.007199254740992e15", 9007199254740992},
              {"9007199254740993", 9007199254740993},
              {"1e30", INT64_MAX},
              {"-1e999", INT64_MIN},
              {"99999999999999999999", INT64_MAX},
              {"0e99999999999999999999", 0},
              {"1e99999999999999999999", INT64_MAX},
              {"10e-1", 1}};
  static const char *const none[] = {"0.99999999999999999",
                                     "1.00000000000000000001",
                                     "9007199254740992.5",
                                     "1e-1",
                                     "12e-1",
                                     "1.25e1",
                                     ".5",
                                     "1e-999",
                                     "x",
                                     "",
                                     "0x10",
                                     "1e"};
  int64_t value;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!integer_read(rows[i].text, &value)) fail_msg("'%s' was refused", rows[i].text);
    if (value != rows[i].value) fail_msg("'%s' was read as %lld", rows[i].text, (long long)value);
  }
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    if (integer_read(none[i], &value)) fail_msg("'%s' was read as %lld", none[i], (long long)value);
}

static void lists_have_items(void **unused)
{
  (void)unused;
  static const char *const expected[] = {"64", "a b", "", "c", ""};
  const char *rest = " 64 ,a b,  ,c,", *item;
  size_t size, count = 0;
  for (; list_next(&rest, &item, &size); count++) {
    assert_int_equal(size, strlen(expected[count]));
    assert_memory_equal(item, expected[count], size);
  }
  assert_int_equal(count, 5);
  assert_false(list_next(&rest, &item, &size));
  rest = "";
  assert_true(list_next(&rest, &item, &size));
  assert_int_equal(size, 0);
  assert_false(list_next(&rest, &item, &size));
}

static void empty_items_are_named(void **unused)
{
  (void)unused;
  static const struct {
    const char *list, *sentence;
  } rows[] = {{",", "--lengths: item 1 of ',' is empty"},
              {"64,,128", "--lengths: item 2 of '64,,128' is empty"},
              {"64, ,128", "--lengths: item 2 of '64, ,128' is empty"},
              {"64,128,", "--lengths: item 3 of '64,128,' is empty"},
              {" ", "--lengths: item 1 of ' ' is empty"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(list_check("--lengths", rows[i].list, &error), ALIBI_INVALID);
    assert_string_equal(error.message, rows[i].sentence);
  }
  assert_int_equal(list_check("--lengths", "64, 128", &error), ALIBI_OK);
}

static void long_items_are_not_cut(void **unused)
{
  (void)unused;
  char item[100], text[LIST_ITEM_SIZE];
  memset(item, '1', sizeof item);
  assert_int_equal(list_item("--lengths", item, LIST_ITEM_SIZE - 1, text, &error), ALIBI_OK);
  assert_int_equal(strlen(text), LIST_ITEM_SIZE - 1);
  assert_int_equal(list_item("--lengths", item, LIST_ITEM_SIZE, text, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "--lengths: expected at most 63 characters between commas, found '111"));
}

static void lengths_keep_their_order(void **unused)
{
  (void)unused;
  static const struct {
    const char *list, *sentence;
  } rows[] = {{"64,128,64", "--lengths: 64 stands there twice"},
              {"64,,128", "--lengths: item 2 of '64,,128' is empty"},
              {"0", "--lengths: expected an integer from 1 to 1000, found 0"},
              {"64,x", "--lengths: expected an integer from 1 to 1000, found 'x'"},
              {"64,1001", "--lengths: expected an integer from 1 to 1000, found 1001"},
              {"1,2,3,4", "--lengths: expected at most 3 lengths, found more"}};
  int64_t lengths[3];
  size_t count = 7;
  assert_int_equal(list_lengths("--lengths", "512, 64,1e3", 1000, lengths, 3, &count, &error), ALIBI_OK);
  assert_int_equal(count, 3);
  assert_int_equal(lengths[0], 512);
  assert_int_equal(lengths[1], 64);
  assert_int_equal(lengths[2], 1000);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(list_lengths("--lengths", rows[i].list, 1000, lengths, 3, &count, &error), ALIBI_INVALID);
    assert_string_equal(error.message, rows[i].sentence);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decimal_numbers_are_read),
      cmocka_unit_test(everything_else_is_refused),
      cmocka_unit_test(integers_are_read_by_their_digits),
      cmocka_unit_test(lists_have_items),
      cmocka_unit_test(empty_items_are_named),
      cmocka_unit_test(long_items_are_not_cut),
      cmocka_unit_test(lengths_keep_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
