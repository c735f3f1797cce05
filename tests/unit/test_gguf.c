/* The GGUF format: what is written is read back to the bit, keys have types and ranges, what does not agree with
 * itself is refused by name (most of that: scripts/make_malformed_gguf.py), and no truncation and no changed byte
 * of a file does worse than an error. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system.h"
#include "file/gguf.h"
#include "file/tensor_file.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static const float matrix[] = {1, 2, 3, 4, 5, 6}, scalar[] = {7};
static const unsigned char blocks[2 * 18] = {1, 2, 3};
static const file_tensor tensors[] = {
    {"b.weight", TENSOR_F32, 2, {2, 3}, matrix, sizeof matrix},
    {"empty", TENSOR_F16, 2, {0, 5}, NULL, 0},
    {"a", TENSOR_F32, 0, {0}, scalar, sizeof scalar},
    {"quantised", TENSOR_Q4_0, 3, {2, 1, 32}, blocks, sizeof blocks},
};

static gguf_keys *make_keys(void)
{
  static const gguf_text tokens[] = {{"a", 1}, {"", 0}, {"\xC3\xA9", 2}, {"longer", 6}};
  static const gguf_text raw[] = {{"\xFF", 1}, {"\0", 1}};
  static const float scores[] = {0, -1.5f, 0.1f};
  static const int32_t kinds[] = {1, -6, INT32_MAX};
  static const bool flags[] = {true, false};
  gguf_keys *keys = gguf_keys_new();
  assert_non_null(keys);
  gguf_put_text(keys, "general.architecture", "llama");
  gguf_put_integer(keys, "u8", GGUF_U8, 255);
  gguf_put_integer(keys, "i8", GGUF_I8, -128);
  gguf_put_integer(keys, "u16", GGUF_U16, 65535);
  gguf_put_integer(keys, "i16", GGUF_I16, -32768);
  gguf_put_integer(keys, "u32", GGUF_U32, UINT32_MAX);
  gguf_put_integer(keys, "i32", GGUF_I32, INT32_MIN);
  gguf_put_integer(keys, "u64", GGUF_U64, INT64_MAX);
  gguf_put_integer(keys, "i64", GGUF_I64, INT64_MIN);
  gguf_put_real(keys, "f32", GGUF_F32, 1e-5);
  gguf_put_real(keys, "f64", GGUF_F64, 0.1);
  gguf_put_real(keys, "nan", GGUF_F32, (double)NAN);
  gguf_put_boolean(keys, "yes", true);
  gguf_put_text(keys, "text", "caf\xC3\xA9 \"x\"\n");
  gguf_put_texts(keys, "tokens", tokens, 4);
  gguf_put_texts(keys, "raw", raw, 2);
  gguf_put_texts(keys, "none", NULL, 0);
  gguf_put_reals(keys, "scores", scores, 3);
  gguf_put_integers(keys, "kinds", kinds, 3);
  gguf_put_booleans(keys, "flags", flags, 2);
  return keys;
}

static gguf_file *write_and_open(const char *name, gguf_keys *keys, const file_tensor *list, size_t count)
{
  gguf_file *file = NULL;
  if (gguf_write(scratch_path(name), keys, list, count, NULL, &error) != ALIBI_OK) fail_msg("%s", error.message);
  gguf_keys_free(keys);
  if (gguf_open(scratch_path(name), &file, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return file;
}

static void expect_tensor(const file_tensor *found, const file_tensor *expected)
{
  assert_non_null(found);
  assert_string_equal(found->name, expected->name);
  assert_int_equal(found->type, expected->type);
  assert_int_equal(found->dimensions, expected->dimensions);
  for (int i = 0; i < expected->dimensions; i++) assert_int_equal(found->shape[i], expected->shape[i]);
  assert_int_equal(found->bytes, expected->bytes);
  if (found->bytes > 0) assert_memory_equal(found->data, expected->data, found->bytes);
}

static void tensors_are_read_back(void **unused)
{
  (void)unused;
  gguf_file *file = write_and_open("model.gguf", make_keys(), tensors, 4);
  assert_int_equal(gguf_version(file), 3);
  assert_int_equal(gguf_alignment(file), 32);
  assert_string_equal(gguf_path(file), scratch_path("model.gguf"));
  assert_int_equal(gguf_count(file), 4);
  for (size_t i = 0; i < 4; i++) {
    expect_tensor(gguf_at(file, i), &tensors[i]);
    assert_ptr_equal(gguf_find(file, tensors[i].name), gguf_at(file, i));
    assert_int_equal((uintptr_t)gguf_at(file, i)->data % 32, 0);
  }
  assert_null(gguf_at(file, 4));
  assert_null(gguf_find(file, "c"));
  gguf_close(file);
  gguf_close(NULL);
}

static void expect_integer(const gguf_file *file, const char *key, int64_t expected)
{
  int64_t value = 0;
  if (gguf_integer(file, key, INT64_MIN, INT64_MAX, &value, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(value, expected);
}

static void scalars_are_read_back(void **unused)
{
  (void)unused;
  gguf_file *file = write_and_open("model.gguf", make_keys(), NULL, 0);
  expect_integer(file, "u8", 255);
  expect_integer(file, "i8", -128);
  expect_integer(file, "u16", 65535);
  expect_integer(file, "i16", -32768);
  expect_integer(file, "u32", UINT32_MAX);
  expect_integer(file, "i32", INT32_MIN);
  expect_integer(file, "u64", INT64_MAX);
  expect_integer(file, "i64", INT64_MIN);
  double real = 0;
  assert_int_equal(gguf_real(file, "f32", &real, &error), ALIBI_OK);
  assert_true(real == (double)1e-5f);
  assert_int_equal(gguf_real(file, "f64", &real, &error), ALIBI_OK);
  assert_true(real == 0.1);
  assert_int_equal(gguf_real(file, "i8", &real, &error), ALIBI_OK);
  assert_true(real == -128);
  bool yes = false;
  assert_int_equal(gguf_boolean(file, "yes", &yes, &error), ALIBI_OK);
  assert_true(yes);
  gguf_text text = {0};
  assert_int_equal(gguf_string(file, "text", &text, &error), ALIBI_OK);
  assert_int_equal(text.size, 10);
  assert_memory_equal(text.data, "caf\xC3\xA9 \"x\"\n", 10);
  int64_t integer = 0;
  assert_int_equal(gguf_integer_or(file, "absent", 0, 9, 5, &integer, &error), ALIBI_OK);
  assert_int_equal(integer, 5);
  assert_int_equal(gguf_integer_or(file, "u8", 0, 300, 5, &integer, &error), ALIBI_OK);
  assert_int_equal(integer, 255);
  assert_int_equal(gguf_boolean_or(file, "absent", true, &yes, &error), ALIBI_OK);
  assert_true(yes);
  gguf_close(file);
}

static void expect_refused(status found, const char *part)
{
  assert_int_equal(found, ALIBI_BAD_INPUT);
  scratch_says(error.message, scratch_path("model.gguf"));
  scratch_says(error.message, part);
}

static void other_kinds_are_refused(void **unused)
{
  (void)unused;
  int64_t integer = 77;
  double real = 77;
  bool yes = true;
  gguf_text text = {0};
  const gguf_key *array;
  gguf_file *file = write_and_open("model.gguf", make_keys(), NULL, 0);
  expect_refused(gguf_integer(file, "absent", 0, 9, &integer, &error), "expected a key 'absent', found none");
  expect_refused(gguf_integer(file, "u8", 0, 254, &integer, &error), "key 'u8': expected 0 to 254, found 255");
  expect_refused(gguf_integer(file, "i8", 0, 254, &integer, &error), "key 'i8': expected 0 to 254, found -128");
  expect_refused(gguf_integer(file, "f32", 0, 9, &integer, &error), "key 'f32': expected an integer, found f32");
  expect_refused(gguf_integer(file, "yes", 0, 9, &integer, &error), "expected an integer, found boolean");
  expect_refused(gguf_integer(file, "kinds", 0, 9, &integer, &error),
                 "expected an integer, found an array of i32");
  expect_refused(gguf_integer_or(file, "text", 0, 9, 5, &integer, &error), "expected an integer, found text");
  expect_refused(gguf_real(file, "nan", &real, &error), "key 'nan': expected a finite number, found");
  expect_refused(gguf_real(file, "text", &real, &error), "expected a number, found text");
  expect_refused(gguf_boolean(file, "u8", &yes, &error), "key 'u8': expected a boolean, found u8");
  expect_refused(gguf_boolean(file, "flags", &yes, &error), "expected a boolean, found an array of boolean");
  expect_refused(gguf_string(file, "tokens", &text, &error), "expected a text, found an array of text");
  expect_refused(gguf_array(file, "absent", GGUF_TEXT, &array, &error), "expected a key 'absent'");
  expect_refused(gguf_array(file, "text", GGUF_TEXT, &array, &error), "expected an array of texts, found text");
  expect_refused(gguf_array(file, "scores", GGUF_TEXT, &array, &error),
                 "expected an array of texts, found an array");
  expect_refused(gguf_array(file, "scores", GGUF_I64, &array, &error), "expected an array of integers");
  expect_refused(gguf_array(file, "tokens", GGUF_F32, &array, &error), "expected an array of numbers");
  expect_refused(gguf_array(file, "kinds", GGUF_BOOL, &array, &error), "expected an array of booleans");
  assert_true(integer == 77 || integer == 5);
  assert_true(real == 77);
  gguf_close(file);
}

static void arrays_are_views(void **unused)
{
  (void)unused;
  static const char *const expected[] = {"a", "", "\xC3\xA9", "longer"};
  const gguf_key *array;
  gguf_file *file = write_and_open("model.gguf", make_keys(), tensors, 4);
  assert_int_equal(gguf_array(file, "tokens", GGUF_TEXT, &array, &error), ALIBI_OK);
  assert_int_equal(array->count, 4);
  assert_true(array->utf8);
  for (size_t i = 4; i-- > 0;) {
    gguf_text text = gguf_text_at(array, i);
    assert_int_equal(text.size, strlen(expected[i]));
    assert_memory_equal(text.data, expected[i], text.size);
  }
  assert_int_equal(gguf_array(file, "raw", GGUF_TEXT, &array, &error), ALIBI_OK);
  assert_false(array->utf8);
  assert_memory_equal(gguf_text_at(array, 0).data, "\xFF", 1);
  assert_int_equal(gguf_text_at(array, 1).size, 1);
  assert_int_equal(gguf_array(file, "none", GGUF_TEXT, &array, &error), ALIBI_OK);
  assert_int_equal(array->count, 0);
  assert_int_equal(gguf_array(file, "scores", GGUF_F32, &array, &error), ALIBI_OK);
  assert_true(gguf_real_at(array, 1) == -1.5 && gguf_real_at(array, 2) == (double)0.1f);
  assert_int_equal(gguf_array(file, "kinds", GGUF_I64, &array, &error), ALIBI_OK);
  assert_int_equal(gguf_integer_at(array, 1), -6);
  assert_int_equal(gguf_integer_at(array, 2), INT32_MAX);
  assert_int_equal(gguf_array(file, "kinds", GGUF_F32, &array, &error), ALIBI_OK);
  assert_true(gguf_real_at(array, 1) == -6);
  assert_int_equal(gguf_array(file, "flags", GGUF_BOOL, &array, &error), ALIBI_OK);
  assert_int_equal(gguf_integer_at(array, 0), 1);
  assert_int_equal(gguf_integer_at(array, 1), 0);
  gguf_close(file);
}

static void scalars_are_an_object(void **unused)
{
  (void)unused;
  json_node *object = NULL;
  gguf_file *file = write_and_open("model.gguf", make_keys(), NULL, 0);
  assert_int_equal(gguf_scalars(file, &object, &error), ALIBI_OK);
  char *text = node_to_text(object);
  assert_string_equal(text,
                      "{\"general.architecture\":\"llama\",\"u8\":255,\"i8\":-128,\"u16\":65535,\"i16\":-32768,"
                      "\"u32\":4294967295,\"i32\":-2147483648,\"u64\":9223372036854775807,"
                      "\"i64\":-9223372036854775808,\"f32\":1e-05,\"f64\":0.1,\"nan\":null,\"yes\":true,"
                      "\"text\":\"caf\xC3\xA9 \\\"x\\\"\\n\",\"scores\":[0.0,-1.5,0.1],"
                      "\"kinds\":[1,-6,2147483647],\"flags\":[true,false]}");
  free(text);
  node_free(object);
  gguf_close(file);
}

/* Short arrays are listed, but not so many that the object is large out of all proportion to the file. */
static void listed_numbers_have_an_end(void **unused)
{
  (void)unused;
  static bool flags[GGUF_LISTED_MOST];
  json_node *object = NULL;
  gguf_keys *keys = gguf_keys_new();
  for (int i = 0; i <= GGUF_LISTED_ALL / GGUF_LISTED_MOST; i++) {
    char name[16];
    snprintf(name, sizeof name, "flags%d", i);
    gguf_put_booleans(keys, name, flags, i == 0 ? 1 : GGUF_LISTED_MOST);
  }
  gguf_file *file = write_and_open("model.gguf", keys, NULL, 0);
  assert_int_equal(gguf_scalars(file, &object, &error), ALIBI_BAD_INPUT);
  assert_null(object);
  scratch_says(error.message, "expected at most 262144 numbers in the arrays of its keys");
  gguf_close(file);
}

/* A file copied by its keys and tensors is the same file. */
static void copies_are_equal_to_the_bit(void **unused)
{
  (void)unused;
  gguf_keys *keys = make_keys();
  gguf_put_integer(keys, "general.alignment", GGUF_U32, 64);
  gguf_file *file = write_and_open("model.gguf", keys, tensors, 4);
  assert_int_equal(gguf_alignment(file), 64);
  keys = gguf_keys_new();
  for (size_t i = 0; i < gguf_key_count(file); i++) gguf_put_key(keys, gguf_key_at(file, i));
  assert_int_equal(gguf_write(scratch_path("copy.gguf"), keys, gguf_at(file, 0), 4, NULL, &error), ALIBI_OK);
  gguf_keys_free(keys);
  gguf_close(file);
  mapped_file first, second;
  assert_int_equal(mapped_file_open(scratch_path("model.gguf"), &first, &error), ALIBI_OK);
  assert_int_equal(mapped_file_open(scratch_path("copy.gguf"), &second, &error), ALIBI_OK);
  assert_int_equal(first.size, second.size);
  assert_int_equal(first.size % 64, 0);
  assert_memory_equal(first.data, second.data, first.size);
  mapped_file_close(&first);
  mapped_file_close(&second);
}

static status give_halves(void *state, size_t index, tensor_sink *sink, alibi_error *sentence)
{
  const file_tensor *t = &((const file_tensor *)state)[index];
  const char *data = t->data;
  status result = tensor_sink_write(sink, data, t->bytes / 2, sentence);
  return result == ALIBI_OK && t->bytes > 0
             ? tensor_sink_write(sink, data + t->bytes / 2, t->bytes - t->bytes / 2, sentence)
             : result;
}

static status give_less(void *state, size_t index, tensor_sink *sink, alibi_error *sentence)
{
  (void)index;
  return tensor_sink_write(sink, state, 4, sentence);
}

static void data_comes_by_parts(void **unused)
{
  (void)unused;
  file_tensor without[4];
  for (size_t i = 0; i < 4; i++) {
    without[i] = tensors[i];
    without[i].data = NULL;
  }
  const tensor_source halves = {.give = give_halves, .state = (void *)(uintptr_t)tensors},
                      less = {.give = give_less, .state = (void *)(uintptr_t)matrix};
  gguf_keys *keys = gguf_keys_new();
  assert_int_equal(gguf_write(scratch_path("a.gguf"), keys, without, 4, &halves, &error), ALIBI_OK);
  gguf_file *file;
  assert_int_equal(gguf_open(scratch_path("a.gguf"), &file, &error), ALIBI_OK);
  for (size_t i = 0; i < 4; i++) expect_tensor(gguf_at(file, i), &tensors[i]);
  gguf_close(file);
  assert_int_equal(gguf_write(scratch_path("b.gguf"), keys, without, 4, &less, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'b.weight': expected 24 bytes, was given 4");
  assert_int_equal(gguf_write(scratch_path("b.gguf"), keys, without, 4, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'b.weight': expected the 24 bytes that its shape and type need, found 0");
  gguf_keys_free(keys);
  assert_int_equal(scratch_entries(), 1); /* nothing half written is left */
}

static void refuse_keys(gguf_keys *keys, const char *part)
{
  assert_int_equal(gguf_write(scratch_path("b.gguf"), keys, tensors, 4, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, scratch_path("b.gguf"));
  scratch_says(error.message, part);
  gguf_keys_free(keys);
}

static void refuse_tensor(const file_tensor *list, size_t count, const char *part)
{
  gguf_keys *keys = gguf_keys_new();
  assert_int_equal(gguf_write(scratch_path("b.gguf"), keys, list, count, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, scratch_path("b.gguf"));
  scratch_says(error.message, part);
  gguf_keys_free(keys);
}

static void what_cannot_be_written_is_refused(void **unused)
{
  (void)unused;
  static const struct {
    gguf_type type;
    int64_t value;
  } numbers[] = {{GGUF_U8, 256},    {GGUF_U8, -1},     {GGUF_I8, 128},        {GGUF_I8, -129},
                 {GGUF_U16, 65536}, {GGUF_I16, 32768}, {GGUF_U32, 1LL << 32}, {GGUF_I32, 1LL << 31},
                 {GGUF_U64, -1},    {GGUF_F32, 1},     {GGUF_BOOL, 1},        {GGUF_TEXT, 1}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    gguf_keys *keys = make_keys();
    gguf_put_integer(keys, "x", numbers[i].type, numbers[i].value);
    gguf_put_integer(keys, "y", GGUF_U8, 1); /* after a failure nothing happens */
    refuse_keys(keys, "key 'x': ");
  }
  gguf_keys *keys = make_keys();
  gguf_put_real(keys, "x", GGUF_F32, 1e300);
  refuse_keys(keys, "key 'x': 1e+300 is no value of type f32");
  keys = make_keys();
  gguf_put_boolean(keys, "u8", true);
  refuse_keys(keys, "key 'u8': expected once, found twice");
  keys = make_keys();
  gguf_put_text(keys, "", "x");
  refuse_keys(keys, "expected a name of 1 to 65535 bytes");
  keys = make_keys();
  gguf_put_text(keys, "x", "\xFF");
  refuse_keys(keys, "key 'x': expected a text in UTF-8");
  keys = make_keys();
  gguf_put_integer(keys, "general.alignment", GGUF_U32, 48);
  refuse_keys(keys, "'general.alignment': expected a u32, a power of two from 8 to 2097152");
  assert_int_equal(gguf_write(scratch_path("b.gguf"), NULL, NULL, 0, NULL, &error), ALIBI_FAILED);

  refuse_tensor((file_tensor[]){tensors[0], tensors[2], tensors[0]}, 3, "tensor 'b.weight': expected once");
  refuse_tensor(&(file_tensor){"", TENSOR_F32, 1, {1}, matrix, 4}, 1, "expected a name of 1 to 64 bytes");
  refuse_tensor(&(file_tensor){"w", TENSOR_U32, 1, {1}, matrix, 4}, 1, "tensor 'w': GGUF has no type U32");
  refuse_tensor(&(file_tensor){"w", TENSOR_F32, 5, {1, 1, 1, 1, 1}, matrix, 4}, 1,
                "at most 4 dimensions, found 5");
  refuse_tensor(&(file_tensor){"w", TENSOR_Q4_0, 1, {31}, blocks, 18}, 1, "for blocks of 32 elements (type Q4_0)");
  refuse_tensor(&(file_tensor){"w", TENSOR_F32, 2, {2, 3}, matrix, 20}, 1, "expected the 24 bytes");
  assert_int_equal(scratch_entries(), 0);
}

static void write_part(const char *name, int number, int count, int all, const file_tensor *list, size_t size)
{
  gguf_keys *keys = gguf_keys_new();
  if (number == 0) gguf_put_text(keys, "general.name", "split");
  gguf_put_integer(keys, "split.no", GGUF_U16, number);
  gguf_put_integer(keys, "split.count", GGUF_U16, count);
  gguf_put_integer(keys, "split.tensors.count", GGUF_I32, all);
  gguf_file *file = write_and_open(name, keys, list, size);
  gguf_close(file);
}

static void refuse_parts(const char *name, const char *part)
{
  tensor_file *file;
  assert_int_equal(tensor_file_open(scratch_path(name), &file, &error), ALIBI_BAD_INPUT);
  assert_null(file);
  scratch_says(error.message, part);
}

static void split_models_are_one(void **unused)
{
  (void)unused;
  static const char first[] = "m-00001-of-00002.gguf", second[] = "m-00002-of-00002.gguf";
  write_part(first, 0, 2, 4, tensors, 3);
  refuse_parts(first, second);
  write_part(second, 1, 2, 4, tensors + 3, 1);
  const char *const names[] = {first, second};
  for (int i = 0; i < 2; i++) {
    tensor_file *file;
    gguf_text text = {0};
    assert_int_equal(tensor_file_open(scratch_path(names[i]), &file, &error), ALIBI_OK);
    assert_string_equal(tensor_file_format(file), "gguf");
    assert_int_equal(tensor_file_count(file), 4);
    for (size_t t = 0; t < 4; t++) expect_tensor(tensor_file_find(file, tensors[t].name), &tensors[t]);
    assert_string_equal(tensor_file_path(file, 2), scratch_path(first));
    assert_string_equal(tensor_file_path(file, 3), scratch_path(second));
    assert_int_equal(gguf_string(tensor_file_gguf(file), "general.name", &text, &error), ALIBI_OK);
    tensor_file_close(file);
  }
  write_part(second, 0, 2, 4, tensors + 3, 1);
  refuse_parts(first, "expected file 2 of 2 with 4 tensors in all");
  write_part(second, 1, 3, 4, tensors + 3, 1);
  refuse_parts(first, "found 2 of 3 with 4");
  write_part(second, 1, 2, 5, tensors + 3, 1);
  refuse_parts(first, "found 2 of 2 with 5");
  write_part(second, 1, 2, 4, tensors + 2, 2);
  refuse_parts(first, "expected 4 tensors in its 2 files, found 5");
  write_part(first, 0, 2, 5, tensors, 3);
  write_part(second, 1, 2, 5, tensors + 2, 2);
  refuse_parts(first, "tensor 'a': is in ");
  write_part("other.gguf", 0, 2, 4, tensors, 3);
  refuse_parts("other.gguf", "expected a name such as model-00001-of-00002.gguf");
}

/* Every truncation, and every byte changed in five ways: opened or refused, with a sentence, and what is opened is
 * inside. */
static void damage_is_an_error_at_worst(void **unused)
{
  (void)unused;
  static const unsigned char changes[] = {0x01, 0x80, 0xFF, 0x20, 0x07};
  mapped_file map;
  gguf_close(write_and_open("model.gguf", make_keys(), tensors, 4));
  assert_int_equal(mapped_file_open(scratch_path("model.gguf"), &map, &error), ALIBI_OK);
  unsigned char *bytes = malloc(map.size);
  size_t opened = 0, refused = 0;
  for (size_t size = 0; size <= map.size * (1 + sizeof changes); size++) {
    bool cut = size < map.size;
    memcpy(bytes, map.data, map.size);
    if (!cut && size > map.size) bytes[(size - map.size - 1) / sizeof changes] ^= changes[size % sizeof changes];
    unlink(scratch_path("damaged.gguf")); /* a file cut to nothing and written anew is flushed to the disk */
    scratch_write(scratch_path("damaged.gguf"), bytes, cut ? size : map.size);
    gguf_file *file;
    error.message[0] = '\0';
    if (gguf_open(scratch_path("damaged.gguf"), &file, &error) != ALIBI_OK) {
      refused++;
      assert_null(file);
      assert_int_equal(error.status, ALIBI_BAD_INPUT);
      scratch_says(error.message, "damaged.gguf: ");
      continue;
    }
    opened++;
    unsigned sum = 0;
    for (size_t i = 0; i < gguf_count(file); i++)
      for (size_t b = 0; b < gguf_at(file, i)->bytes; b++)
        sum += ((const unsigned char *)gguf_at(file, i)->data)[b];
    json_node *object;
    assert_int_equal(gguf_scalars(file, &object, &error), ALIBI_OK);
    node_free(object);
    gguf_close(file);
    assert_true(sum < UINT32_MAX);
  }
  assert_true(opened > 100 && refused > 1000);
  free(bytes);
  mapped_file_close(&map);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tensors_are_read_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(scalars_are_read_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(other_kinds_are_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(arrays_are_views, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(scalars_are_an_object, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(listed_numbers_have_an_end, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(copies_are_equal_to_the_bit, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(data_comes_by_parts, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(what_cannot_be_written_is_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(split_models_are_one, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damage_is_an_error_at_worst, setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
