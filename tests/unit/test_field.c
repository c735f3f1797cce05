/* One table of fields: every kind from text and back, and the sentence for everything that does not fit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/field.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

typedef struct settings {
  int64_t layers;
  double rate;
  bool tied;
  int activation;
  char name[FIELD_TEXT_SIZE];
} settings;

static const char *const activations[] = {"gelu", "relu", NULL};
static const field fields[] = {
    {"layers", FIELD_INTEGER, offsetof(settings, layers), 1, 1024, 4, NULL, NULL, "layers"},
    {"rate", FIELD_REAL, offsetof(settings, rate), 0, 1, 1e-3, NULL, NULL, "rate"},
    {"tied", FIELD_BOOLEAN, offsetof(settings, tied), 0, 0, 1, NULL, NULL, "tied"},
    {"activation", FIELD_CHOICE, offsetof(settings, activation), 0, 0, 1, activations, NULL, "activation"},
    {"name", FIELD_TEXT, offsetof(settings, name), 0, 0, 0, NULL, "small", "name"},
};
static const field_table table = FIELD_TABLE(fields);
static alibi_error error;

static settings initial(void)
{
  settings s;
  memset(&s, 0x55, sizeof s);
  field_init(table, &s);
  return s;
}

static status set(settings *s, const char *name, const char *text)
{
  return field_set_text(field_find(table, name), s, "--option", text, &error);
}

static void starts_from_initial_values(void **unused)
{
  (void)unused;
  settings s = initial();
  assert_true(s.layers == 4 && s.rate == 1e-3 && s.tied && s.activation == 1);
  assert_string_equal(s.name, "small");
  assert_int_equal(field_check(table, &s, "config", &error), ALIBI_OK);
  assert_ptr_equal(field_find(table, "tied"), &fields[2]);
  assert_null(field_find(table, "tie"));
  assert_null(field_find(table, ""));
}

static void sets_every_kind(void **unused)
{
  (void)unused;
  settings s = initial();
  assert_int_equal(set(&s, "layers", "1024"), ALIBI_OK);
  assert_int_equal(set(&s, "rate", "6e-3"), ALIBI_OK);
  assert_int_equal(set(&s, "tied", "false"), ALIBI_OK);
  assert_int_equal(set(&s, "activation", "gelu"), ALIBI_OK);
  assert_int_equal(set(&s, "name", "x y"), ALIBI_OK);
  assert_true(s.layers == 1024 && s.rate == 6e-3 && !s.tied && s.activation == 0);
  assert_string_equal(s.name, "x y");
  assert_int_equal(set(&s, "tied", "yes"), ALIBI_OK);
  assert_true(s.tied);
  assert_int_equal(set(&s, "name", ""), ALIBI_OK);
  assert_string_equal(s.name, "");
}

static void refuses_with_a_sentence(void **unused)
{
  (void)unused;
  static const struct {
    const char *name, *text, *sentence;
  } rows[] = {
      {"layers", "x", "--option: expected an integer from 1 to 1024, found 'x'"},
      {"layers", "", "--option: expected an integer from 1 to 1024, found ''"},
      {"layers", "8x", "--option: expected an integer from 1 to 1024, found '8x'"},
      {"layers", "1.5", "--option: expected an integer from 1 to 1024, found 1.5"},
      {"layers", "0.99999999999999999", "--option: expected an integer from 1 to 1024, found 0.99999999999999999"},
      {"layers", "0", "--option: expected an integer from 1 to 1024, found 0"},
      {"layers", "1025", "--option: expected an integer from 1 to 1024, found 1025"},
      {"layers", "nan", "--option: expected an integer from 1 to 1024, found 'nan'"},
      {"layers", "0x10", "--option: expected an integer from 1 to 1024, found '0x10'"},
      {"layers", " 8", "--option: expected an integer from 1 to 1024, found ' 8'"},
      {"layers", "1e999", "--option: expected an integer from 1 to 1024, found '1e999'"},
      {"rate", "inf", "--option: expected a number from 0 to 1, found 'inf'"},
      {"rate", "1e-400", "--option: expected a number from 0 to 1, found '1e-400', too small to be told from 0"},
      {"rate", "-0.1", "--option: expected a number from 0 to 1, found -0.1"},
      {"tied", "maybe", "--option: expected true or false, found 'maybe'"},
      {"activation", "tanh", "--option: expected one of gelu, relu, found 'tanh'"},
      {"activation", "", "--option: expected one of gelu, relu, found ''"},
      {"name", "0123456789012345678901234567890123456789012345678901234567890123",
       "--option: expected at most 63 bytes, found 64"},
  };
  settings before = initial(), s = before;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(set(&s, rows[i].name, rows[i].text), ALIBI_INVALID);
    assert_string_equal(error.message, rows[i].sentence);
  }
  for (size_t i = 0; i < table.count; i++) assert_true(field_equal(&fields[i], &s, &before));
}

/* 2^53 + 1 is no double: the nearest one would be another seed. */
static void large_integers_are_exact(void **unused)
{
  (void)unused;
  static const field seed = {.name = "seed", .kind = FIELD_INTEGER, .maximum = 9007199254740992.0};
  int64_t value = 0;
  assert_int_equal(field_set_text(&seed, &value, "--seed", "9007199254740992", &error), ALIBI_OK);
  assert_true(value == 9007199254740992);
  assert_int_equal(field_set_text(&seed, &value, "--seed", "9007199254740993", &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "to 9007199254740992, found 9007199254740993"));
  assert_int_equal(field_set_text(&seed, &value, "--seed", "9.007199254740992e15", &error), ALIBI_OK);
  assert_true(value == 9007199254740992);
  assert_int_equal(field_set_text(&seed, &value, "--seed", "1e3", &error), ALIBI_OK);
  assert_true(value == 1000);
}

static void sentences_about_fields_become_sentences_about_options(void **unused)
{
  (void)unused;
  static const field known[] = {{.name = "heads"}, {.name = "head_size"}, {.name = "keep"}, {.name = "position"}};
  static const struct {
    const char *prefix, *before, *after;
  } rows[] = {
      {"", "heads: expected a divisor of the width 8, found 3 heads (or set head_size)",
       "--heads: expected a divisor of the width 8, found 3 heads (or set --head-size)"},
      {"", "model configuration: heads: expected a number", "--heads: expected a number"},
      {"alibi-", "position method 'alibi': heads: expected one", "--alibi-heads: expected one"},
      {"", "session: keep 100: expected a bias, found 'keep'", "--keep 100: expected a bias, found 'keep'"},
      {"", "head_size: the model's head_size, 'head_size', x/head_size, head_size.txt, --head_size",
       "--head-size: the model's --head-size, 'head_size', x/head_size, head_size.txt, --head_size"},
      {"", "position method 'learned': position 16 does not exist",
       "position method 'learned': position 16 does not exist"},
      {"", "step: raise the option keep above 64", "step: raise the option --keep above 64"},
      {"", "heads are missing", "heads are missing"},
      {"", "", ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    strcpy(error.message, rows[i].before);
    field_say_option((field_table)FIELD_TABLE(known), rows[i].prefix, &error);
    assert_string_equal(error.message, rows[i].after);
  }
  field_say_option((field_table)FIELD_TABLE(known), "", NULL);
}

static void text_reads_back_to_the_same_value(void **unused)
{
  (void)unused;
  static const double rates[] = {0, 0.1, 1. / 3, 1e-300, 5e-324, 0.30000000000000004, 1};
  settings s = initial(), back;
  char text[128];
  for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
    s = (settings){(int64_t)r + 1, rates[r], r % 2, (int)(r % 2), "a name"};
    back = initial();
    for (size_t i = 0; i < table.count; i++) {
      field_get_text(&fields[i], &s, text, sizeof text);
      assert_int_equal(field_set_text(&fields[i], &back, "--option", text, &error), ALIBI_OK);
      assert_true(field_equal(&fields[i], &s, &back));
    }
    assert_true(back.rate == s.rate);
  }
  s.rate = 0.1;
  field_get_text(&fields[1], &s, text, sizeof text);
  assert_string_equal(text, "0.1");
  field_get_text(&fields[3], &s, text, sizeof text);
  assert_string_equal(text, "gelu");
}

static void check_finds_what_is_out_of_range(void **unused)
{
  (void)unused;
  settings s = initial();
  s.layers = 0;
  assert_int_equal(field_check(table, &s, "config.json", &error), ALIBI_INVALID);
  assert_string_equal(error.message, "config.json: layers: expected a number from 1 to 1024, found 0");
  s = initial();
  s.rate = NAN;
  assert_int_equal(field_check(table, &s, "config.json", &error), ALIBI_INVALID);
  s = initial();
  s.activation = 2;
  assert_int_equal(field_check(table, &s, "config.json", &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "activation"));
  s.activation = -1;
  assert_int_equal(field_check(table, &s, "config.json", &error), ALIBI_INVALID);
}

static void numbers_and_equality(void **unused)
{
  (void)unused;
  settings a = initial(), b = initial();
  assert_int_equal(field_set_number(&fields[0], &a, "layers", 12, &error), ALIBI_OK);
  assert_true(field_get_number(&fields[0], &a) == 12);
  assert_int_equal(field_set_number(&fields[0], &a, "layers", 12.5, &error), ALIBI_INVALID);
  assert_int_equal(field_set_number(&fields[1], &a, "rate", NAN, &error), ALIBI_INVALID);
  assert_true(a.layers == 12 && a.rate == 1e-3);
  assert_false(field_equal(&fields[0], &a, &b));
  assert_true(field_equal(&fields[1], &a, &b));
  assert_true(field_get_number(&fields[2], &a) == 1);
  strcpy(b.name, "other");
  assert_false(field_equal(&fields[4], &a, &b));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_from_initial_values),       cmocka_unit_test(sets_every_kind),
      cmocka_unit_test(large_integers_are_exact),
      cmocka_unit_test(sentences_about_fields_become_sentences_about_options),
      cmocka_unit_test(refuses_with_a_sentence),          cmocka_unit_test(text_reads_back_to_the_same_value),
      cmocka_unit_test(check_finds_what_is_out_of_range), cmocka_unit_test(numbers_and_equality),
  };
  return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
