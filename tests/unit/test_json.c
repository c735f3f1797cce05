/* JSON: what is refused, what order and digits are kept, and tables of fields to and from objects. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "file/json.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

#include "unit/comma_locale.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static json_node *parse(const char *text)
{
  json_node *root = NULL;
  status found = node_parse(text, strlen(text), "x.json", &root, &error);
  if (found != ALIBI_OK) fail_msg("%s", error.message);
  return root;
}

static void refuse(const char *text, const char *part)
{
  json_node *root;
  if (node_parse(text, strlen(text), "x.json", &root, &error) != ALIBI_BAD_INPUT) fail_msg("accepted: %s", text);
  assert_null(root);
  scratch_says(error.message, "x.json: ");
  scratch_says(error.message, part);
}

/* Takes the tree over. */
static void expect_text(json_node *root, const char *expected)
{
  char *text = node_to_text(root);
  assert_string_equal(text, expected);
  free(text);
  node_free(root);
}

static void reads_every_kind(void **unused)
{
  (void)unused;
  json_node *root =
      parse("{\"z\": null, \"a\": true, \"i\": -9223372036854775808, \"r\": 1e-3,\n"
            " \"t\": \"\\u00e9\\n\\ud83d\\ude00\", \"l\": [1, 2.0, \"x\"], \"o\": {\"b\": 1, \"a\": 2}}");
  assert_int_equal(node_kind_of(root), NODE_OBJECT);
  assert_int_equal(node_count(root), 7);
  assert_int_equal(node_kind_of(node_get(root, "z")), NODE_NULL);
  assert_true(node_boolean(node_get(root, "a"), false));
  assert_true(node_integer(node_get(root, "i"), 0) == INT64_MIN);
  assert_true(node_number(node_get(root, "r"), 0) == 1e-3);
  assert_string_equal(node_text(node_get(root, "t"), ""), "\xC3\xA9\n\xF0\x9F\x98\x80");
  const json_node *list = node_get(root, "l");
  assert_int_equal(node_count(list), 3);
  assert_int_equal(node_kind_of(node_at(list, 0)), NODE_INTEGER);
  assert_int_equal(node_kind_of(node_at(list, 1)), NODE_REAL);
  assert_int_equal(node_integer(node_at(list, 1), 0), 2);
  assert_null(node_at(list, 3));
  const char *key;
  assert_int_equal(node_integer(node_member(node_get(root, "o"), 0, &key), 0), 1);
  assert_string_equal(key, "b");
  assert_null(node_member(node_get(root, "o"), 2, &key));
  assert_null(key);
  node_free(root);
}

static void absent_and_wrong_kinds_give_the_other_value(void **unused)
{
  (void)unused;
  json_node *root = parse("{\"t\": \"x\", \"half\": 0.5, \"n\": null}");
  const json_node *text = node_get(root, "t"), *absent = node_get(root, "absent");
  assert_null(absent);
  assert_null(node_get(text, "t"));
  assert_int_equal(node_count(text), 0);
  assert_int_equal(node_integer(text, -7), -7);
  assert_int_equal(node_integer(node_get(root, "half"), -7), -7);
  assert_int_equal(node_integer(absent, -7), -7);
  assert_true(node_number(node_get(root, "n"), 0.25) == 0.25);
  assert_true(node_boolean(text, true));
  assert_string_equal(node_text(absent, "other"), "other");
  assert_int_equal(node_kind_of(NULL), NODE_NULL);
  node_free(root);
  node_free(NULL);
}

static void refuses_what_is_not_json(void **unused)
{
  (void)unused;
  refuse("", "found nothing");
  refuse("{\"a\": 1, \"a\": 2}", "duplicate");
  refuse("{\"o\": {\"b\": 1, \"b\": 1}}", "duplicate");
  refuse("{\"a\": \"\xC3\x28\"}", "line 1");
  refuse("{\"a\": 1}\n{", "line 2");
  refuse("{\"a\": 1,}", "line 1");
  refuse("{\"a\": NaN}", "line 1");
  refuse("{\"a\": \"\\u0000\"}", "line 1");
  refuse("{\"a\": 1e999}", "line 1");
  refuse("{\"a\": 01}", "line 1");
  refuse("{'a': 1}", "line 1");
}

static void every_truncation_is_refused(void **unused)
{
  (void)unused;
  const char *text = "{\"a\":[1,-2.5e3,true,null],\"b\":{\"c\":\"\\u00e9\xC3\xA9\"}}";
  json_node *root;
  for (size_t size = 0; size < strlen(text); size++) {
    char *exact = malloc(size + 1); /* so that a read beyond is seen */
    memcpy(exact, text, size);
    char *end = realloc(exact, size ? size : 1);
    assert_int_equal(node_parse(end, size, "x.json", &root, &error), ALIBI_BAD_INPUT);
    free(end);
  }
  expect_text(parse(text), "{\"a\":[1,-2500.0,true,null],\"b\":{\"c\":\"\xC3\xA9\xC3\xA9\"}}");
}

/* Whatever a changed bit makes of it, what is accepted can be written and read again. */
static void flipped_bits_do_no_harm(void **unused)
{
  (void)unused;
  const char *text = "{\"a\":[1,-2.5e3,true,null],\"b\":{\"c\":\"\\u00e9\xC3\xA9\"}}";
  size_t size = strlen(text), accepted = 0;
  for (size_t bit = 0; bit < 8 * size; bit++) {
    char *copy = malloc(size);
    memcpy(copy, text, size);
    copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
    json_node *root, *again;
    if (node_parse(copy, size, "x.json", &root, &error) == ALIBI_OK) {
      accepted++;
      char *written = node_to_text(root);
      assert_int_equal(node_parse(written, strlen(written), "x.json", &again, &error), ALIBI_OK);
      free(written);
      node_free(again);
      node_free(root);
    }
    free(copy);
  }
  assert_in_range(accepted, 1, 8 * size - 1);
}

static void nests_to_64_levels(void **unused)
{
  (void)unused;
  char text[512];
  for (int depth = 64; depth <= 65; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    text[2 * depth] = '\0';
    if (depth == 64) node_free(parse(text));
    else refuse(text, "64 levels");
  }
  enum { DEEP = 1000000 };
  char *deep = malloc(DEEP + 1);
  memset(deep, '[', DEEP);
  deep[DEEP] = '\0';
  refuse(deep, "line 1");
  free(deep);
}

static void too_large_integers_become_numbers(void **unused)
{
  (void)unused;
  json_node *root = parse("{\"most\": 1000000000000000019884624838656, \"n\": 12}");
  assert_true(node_number(node_get(root, "most"), 0) == 1e30);
  assert_int_equal(node_integer(node_get(root, "most"), -1), -1);
  assert_int_equal(node_kind_of(node_get(root, "n")), NODE_INTEGER);
  node_free(root);
}

static void large_objects_keep_order_and_find(void **unused)
{
  (void)unused;
  enum { COUNT = 20000 };
  json_node *built = node_new_object();
  char key[32];
  const char *found;
  for (int i = 0; i < COUNT; i++) {
    snprintf(key, sizeof key, "k%d", i * 7919 % COUNT);
    node_set_integer(built, key, i);
  }
  node_set_integer(built, "k7919", -1); /* replaces in place */
  char *text = node_to_text(built);
  json_node *root = parse(text);
  free(text);
  assert_int_equal(node_count(root), COUNT);
  for (int i = 0; i < COUNT; i++) {
    snprintf(key, sizeof key, "k%d", i * 7919 % COUNT);
    assert_int_equal(node_integer(node_get(root, key), -2), i == 1 ? -1 : i);
    assert_int_equal(node_integer(node_get(built, key), -2), i == 1 ? -1 : i);
    node_member(root, (size_t)i, &found);
    assert_string_equal(found, key);
  }
  assert_null(node_get(root, "k20000"));
  node_free(built);
  node_free(root);
}

static void writes_the_fewest_digits(void **unused)
{
  (void)unused;
  static const struct {
    double value;
    const char *text;
  } rows[] = {
      {0.1, "[0.1]"},    {1, "[1.0]"},           {-0.0, "[-0.0]"},      {1e300, "[1e+300]"},
      {1e15, "[1e+15]"}, {123456, "[123456.0]"}, {2.5e-7, "[2.5e-07]"}, {0.1 + 0.2, "[0.30000000000000004]"},
      {NAN, "[null]"},   {INFINITY, "[null]"},   {-INFINITY, "[null]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    json_node *array = node_new_array();
    node_append_number(array, rows[i].value);
    expect_text(array, rows[i].text);
  }
}

static void doubles_survive(void **unused)
{
  (void)unused;
  json_node *array = node_new_array();
  enum { COUNT = 5000 };
  double value[COUNT];
  for (int i = 0; i < COUNT; i++) {
    uint64_t bits = random_bits(1, 2, (uint64_t)i);
    memcpy(&value[i], &bits, sizeof bits);
    if (!isfinite(value[i])) value[i] = 5e-324;
    node_append_number(array, value[i]);
  }
  char *text = node_to_text(array);
  json_node *back = parse(text);
  for (int i = 0; i < COUNT; i++)
    assert_memory_equal(&value[i], &(double){node_number(node_at(back, (size_t)i), 0)}, 8);
  free(text);
  node_free(array);
  node_free(back);
}

static void comma_locales_change_nothing(void **unused)
{
  (void)unused;
  comma_locale_enter();
  json_node *root = parse("[0.5]");
  double value = node_number(node_at(root, 0), 0);
  char *text = node_to_text(root);
  comma_locale_leave();
  assert_true(value == 0.5);
  assert_string_equal(text, "[0.5]");
  free(text);
  node_free(root);
}

static void texts_are_escaped_and_valid(void **unused)
{
  (void)unused;
  json_node *array = node_new_array();
  node_append_text(array, "\"\\/\b\f\n\r\t\x01\x7F");
  node_append_text(array, "\xC3\xA9\xF0\x9F\x98\x80");
  node_append_text(array, "a\xFF\xC3z\xED\xA0\x80\xC0\x80\xF4\x90\x80\x80\xE2\x82"); /* a name may be any bytes */
  node_append_text(array, NULL);
  char *text = node_to_text(array);
  assert_string_equal(text,
                      "[\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u0001\x7F\",\"\xC3\xA9\xF0\x9F\x98\x80\","
                      "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                      "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\",null]");
  json_node *back = parse(text);
  assert_string_equal(node_text(node_at(back, 0), ""), "\"\\/\b\f\n\r\t\x01\x7F");
  free(text);
  node_free(back);
  node_free(array);
}

static void files_are_indented(void **unused)
{
  (void)unused;
  const char *path = scratch_path("x.json");
  json_node *root = node_new_object(), *list = node_new_array(), *numbers = node_new_array(), *back;
  node_set_text(root, "name", "x");
  node_append_integer(numbers, 1);
  node_append_number(numbers, 0.5);
  node_set(root, "numbers", numbers);
  node_append_text(list, "y");
  node_set(root, "list", list);
  node_set(root, "empty", node_new_object());
  node_set_boolean(root, "flag", false);
  node_set_null(root, "nothing");
  assert_int_equal(node_write_file(root, path, &error), ALIBI_OK);
  scratch_expect(path, "{\n  \"name\": \"x\",\n  \"numbers\": [1, 0.5],\n  \"list\": [\n    \"y\"\n  ],\n"
                       "  \"empty\": {},\n  \"flag\": false,\n  \"nothing\": null\n}\n");
  assert_int_equal(node_read_file(path, &back, &error), ALIBI_OK);
  assert_int_equal(node_count(back), 6);
  node_free(back);
  node_free(root);
  assert_int_equal(node_read_file(scratch_path("absent"), &back, &error), ALIBI_BAD_INPUT);
  assert_null(back);
}

static void memory_that_ran_out_is_remembered(void **unused)
{
  (void)unused;
  const char *path = scratch_path("x.json");
  json_node *root = node_new_object(), *inner = node_new_array();
  scratch_write(path, "old", 3);
  node_set(root, "inner", inner);
  node_append(inner, NULL); /* what node_new_object gives when memory is out */
  assert_null(node_to_text(root));
  assert_int_equal(node_write_file(root, path, &error), ALIBI_FAILED);
  scratch_says(error.message, "memory");
  scratch_expect(path, "old");
  node_free(root);
  node_set(NULL, "key", node_new_array());
  node_set_number(NULL, "key", 1);
  assert_null(node_to_text(NULL));
}

/* ---- tables of fields ---- */

typedef struct settings {
  int64_t layers, seed;
  double rate;
  bool tied;
  int activation;
  char name[FIELD_TEXT_SIZE];
} settings;

static const char *const activations[] = {"gelu", "relu", NULL};
static const field fields[] = {
    {"layers", FIELD_INTEGER, offsetof(settings, layers), 1, 64, 4, NULL, NULL, "layers"},
    {"seed", FIELD_INTEGER, offsetof(settings, seed), 0, 0x1p62, 1, NULL, NULL, "seed"},
    {"rate", FIELD_REAL, offsetof(settings, rate), 0, 1, 1e-3, NULL, NULL, "rate"},
    {"tied", FIELD_BOOLEAN, offsetof(settings, tied), 0, 0, 0, NULL, NULL, "tied"},
    {"activation", FIELD_CHOICE, offsetof(settings, activation), 0, 0, 0, activations, NULL, "activation"},
    {"name", FIELD_TEXT, offsetof(settings, name), 0, 0, 0, NULL, "none", "name"},
};
static const field_table table = FIELD_TABLE(fields);

static void fields_there_and_back(void **unused)
{
  (void)unused;
  settings out = {3, (INT64_C(1) << 60) + 1, 0.1, true, 1, "a \"name\""}, in;
  json_node *object = node_new_object();
  node_set_text(object, "family", "mine");
  node_set_fields(object, table, &out);
  char *text = node_to_text(object);
  assert_string_equal(text,
                      "{\"family\":\"mine\",\"layers\":3,\"seed\":1152921504606846977,\"rate\":0.1,\"tied\":true,"
                      "\"activation\":\"relu\",\"name\":\"a \\\"name\\\"\"}");
  json_node *back = parse(text);
  field_init(table, &in);
  const char *const others[] = {"family", NULL};
  assert_int_equal(node_get_fields(back, table, &in, "x.json", others, &error), ALIBI_OK);
  for (size_t i = 0; i < table.count; i++) assert_true(field_equal(&fields[i], &in, &out));
  assert_true(in.seed == out.seed);
  free(text);
  node_free(back);
  node_free(object);
}

static void absent_fields_keep_their_value(void **unused)
{
  (void)unused;
  settings in;
  field_init(table, &in);
  json_node *root = parse("{\"rate\": 1, \"layers\": 8.0}");
  assert_int_equal(node_get_fields(root, table, &in, "x.json", NULL, &error), ALIBI_OK);
  assert_true(in.rate == 1 && in.layers == 8 && in.seed == 1 && !in.tied);
  assert_string_equal(in.name, "none");
  node_free(root);
}

static void wrong_fields_are_named(void **unused)
{
  (void)unused;
  static const char *const rows[][2] = {
      {"{\"layer\": 1}", "x.json: unknown key 'layer'"},
      {"{\"family\": 1}", "x.json: unknown key 'family'"},
      {"{\"layers\": \"4\"}", "x.json: layers: expected an integer, found a text"},
      {"{\"layers\": 1.5}", "x.json: layers: expected an integer from 1 to 64, found 1.5"},
      {"{\"layers\": 65}", "x.json: layers: expected an integer from 1 to 64, found 65"},
      {"{\"layers\": null}", "x.json: layers: expected an integer, found null"},
      {"{\"rate\": []}", "x.json: rate: expected a number, found an array"},
      {"{\"rate\": -1}", "x.json: rate: expected a number from 0 to 1, found -1"},
      {"{\"tied\": 1}", "x.json: tied: expected true or false, found an integer"},
      {"{\"activation\": \"tanh\"}", "x.json: activation: expected one of gelu, relu, found 'tanh'"},
      {"{\"activation\": 0}", "x.json: activation: expected a text, found an integer"},
      {"{\"name\": {}}", "x.json: name: expected a text, found an object"},
      {"[1]", "x.json: expected an object, found an array"},
  };
  settings in;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    field_init(table, &in);
    json_node *root = parse(rows[i][0]);
    assert_int_equal(node_get_fields(root, table, &in, "x.json", NULL, &error), ALIBI_BAD_INPUT);
    assert_int_equal(error.status, ALIBI_BAD_INPUT);
    assert_string_equal(error.message, rows[i][1]);
    assert_int_equal(node_get_fields(root, table, &in, "x.json", NULL, NULL), ALIBI_BAD_INPUT);
    node_free(root);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_every_kind, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(absent_and_wrong_kinds_give_the_other_value, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(refuses_what_is_not_json, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(every_truncation_is_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(flipped_bits_do_no_harm, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(nests_to_64_levels, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(too_large_integers_become_numbers, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(large_objects_keep_order_and_find, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(writes_the_fewest_digits, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(doubles_survive, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(comma_locales_change_nothing, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(texts_are_escaped_and_valid, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(files_are_indented, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(memory_that_ran_out_is_remembered, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(fields_there_and_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(absent_fields_keep_their_value, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(wrong_fields_are_named, setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
