/* The safetensors format: what is written is read back, what does not agree with itself is refused by name, and no
 * truncation and no changed byte of a file does worse than an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/safetensors.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

/* Writes prefix, header and `size` bytes of data 0, 1, 2, ...; returns the path. */
static const char *make(const char *header, size_t size)
{
  const char *path = scratch_path("made.safetensors");
  size_t length = strlen(header);
  unsigned char *bytes = malloc(8 + length + size);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < size; i++) bytes[8 + length + i] = (unsigned char)i;
  scratch_write(path, bytes, 8 + length + size);
  free(bytes);
  return path;
}

static void refuse(const char *header, size_t size, const char *part)
{
  safetensors_file *file;
  const char *path = make(header, size);
  if (safetensors_open(path, &file, &error) != ALIBI_BAD_INPUT) fail_msg("accepted: %s", header);
  assert_null(file);
  scratch_says(error.message, path);
  scratch_says(error.message, part);
}

static void written_is_read_back(void **unused)
{
  (void)unused;
  static const float matrix[] = {1, 2, 3, 4, 5, 6}, scalar[] = {7};
  static const file_tensor tensors[] = {
      {"b.weight", TENSOR_F32, 2, {2, 3}, matrix, sizeof matrix},
      {"empty", TENSOR_F32, 2, {0, 5}, NULL, 0},
      {"a", TENSOR_F32, 0, {0}, scalar, sizeof scalar},
      {"b", TENSOR_F32, 3, {3, 1, 2}, matrix, sizeof matrix},
  };
  static const char *const metadata[] = {"format", "pt", "text \"x\"", "\xC3\xA9", NULL};
  const char *path = scratch_path("model.safetensors");
  safetensors_file *file;
  assert_int_equal(safetensors_write(path, tensors, 4, metadata, &error), ALIBI_OK);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_OK);
  assert_int_equal(safetensors_count(file), 4);
  assert_string_equal(safetensors_metadata(file, "format"), "pt");
  assert_string_equal(safetensors_metadata(file, "text \"x\""), "\xC3\xA9");
  assert_null(safetensors_metadata(file, "absent"));
  for (int i = 0; i < 4; i++) {
    const file_tensor *t = safetensors_find(file, tensors[i].name);
    assert_non_null(t);
    assert_string_equal(t->name, tensors[i].name);
    assert_int_equal(t->type, TENSOR_F32);
    assert_int_equal(t->dimensions, tensors[i].dimensions);
    for (int d = 0; d < t->dimensions; d++) assert_int_equal(t->shape[d], tensors[i].shape[d]);
    assert_int_equal(t->bytes, tensors[i].bytes);
    if (t->bytes) assert_memory_equal(t->data, tensors[i].data, t->bytes);
  }
  assert_true((uintptr_t)safetensors_at(file, 0)->data % 64 == 0);
  assert_null(safetensors_at(file, 4));
  assert_null(safetensors_find(file, "c"));
  assert_null(safetensors_find(file, "__metadata__"));
  safetensors_close(file);
  safetensors_close(NULL);
}

static void no_tensors_are_a_file_too(void **unused)
{
  (void)unused;
  const char *path = scratch_path("model.safetensors");
  safetensors_file *file;
  assert_int_equal(safetensors_write(path, NULL, 0, NULL, &error), ALIBI_OK);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_OK);
  assert_int_equal(safetensors_count(file), 0);
  assert_null(safetensors_find(file, "a"));
  assert_null(safetensors_metadata(file, "a"));
  safetensors_close(file);
}

/* A header as the format's description shows it: keys and tensors in any order, spaces at the end. */
static void foreign_headers_are_read(void **unused)
{
  (void)unused;
  const char *header =
      "{\"late\":{\"shape\":[2],\"data_offsets\":[12,16],\"dtype\":\"BF16\"},"
      "\"ids\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"__metadata__\":{\"format\":\"pt\"},"
      "\"half\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[8,12]},"
      "\"four\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]},"
      "\"none\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,4],\"data_offsets\":[8,8]}}   ";
  safetensors_file *file;
  assert_int_equal(safetensors_open(make(header, 18), &file, &error), ALIBI_OK);
  static const char *const order[] = {"ids", "none", "half", "late", "four"};
  static const tensor_type types[] = {TENSOR_I64, TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_F4};
  static const size_t bytes[] = {8, 0, 4, 4, 2};
  assert_int_equal(safetensors_count(file), 5);
  for (size_t i = 0, place = 0; i < 5; place += bytes[i++]) {
    const file_tensor *t = safetensors_at(file, i);
    assert_string_equal(t->name, order[i]);
    assert_int_equal(t->type, types[i]);
    assert_int_equal(t->bytes, bytes[i]);
    if (t->bytes) assert_int_equal(*(const unsigned char *)t->data, place);
    assert_ptr_equal(safetensors_find(file, order[i]), t);
  }
  safetensors_close(file);
}

static void odd_addresses_are_handed_out(void **unused)
{
  (void)unused;
  char header[128] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                     "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]}}";
  for (int spaces = 0; spaces < 4; spaces++) {
    safetensors_file *file;
    assert_int_equal(safetensors_open(make(header, 12), &file, &error), ALIBI_OK);
    const unsigned char *a = safetensors_find(file, "a")->data, *b = safetensors_find(file, "b")->data;
    static const unsigned char expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    assert_memory_equal(a, expected, 8);
    assert_memory_equal(b, expected + 8, 4);
    assert_ptr_equal(a + 8, b); /* the mapping itself */
    safetensors_close(file);
    strcat(header, " ");
  }
}

static void disagreement_is_refused_by_name(void **unused)
{
  (void)unused;
  static const struct {
    const char *header, *part;
    size_t size;
  } rows[] = {
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,12]}}", "tensor 'w': its 12 bytes do not fit",
       12},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "'w': expected to end within 7 bytes",
       7},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "expected 8 bytes of data, found 9", 9},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}", "(a hole)", 9},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
       "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
       "tensor 'v': expected to begin at byte 4 of the data, found 2 (an overlap)", 6},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
       "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
       "(an overlap)", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
       "\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
       "duplicate", 0},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "expected data_offsets", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", "expected data_offsets", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "expected data_offsets", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", "expected data_offsets", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "dimension 0 is no size", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,0.5],\"data_offsets\":[0,4]}}", "dimension 1 is no size", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", "is no size", 4},
      /* 2^62 x 4 x 4 bytes is 0 where a product wraps. */
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", "do not fit", 0},
      {"{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", "do not fit", 1},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "at most 8 dimensions",
       4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", "shape as an array", 4},
      {"{\"w\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", "expected a known dtype, found F31", 4},
      {"{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "expected a known dtype, found none", 4},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", "unknown key 'x'", 4},
      {"{\"w\":[]}", "tensor 'w': expected an object", 0},
      {"{\"__metadata__\":{\"steps\":7}}", "__metadata__: steps: expected a text", 0},
      {"{\"__metadata__\":[]}", "__metadata__: expected an object", 0},
      {"[]", "begins with '{'", 0},
      {"", "begins with '{'", 4},
      {" {}", "begins with '{'", 0},
      {"{}", "expected 0 bytes of data, found 4", 4},
      {"{} x", "not valid JSON", 0},
      {"{\"\\u001b[31m\\n\":7}", "tensor '?[31m?': expected an object", 0}, /* one sentence, whatever the name */
      {"{\"w\":{\"dtype\":\"F32\"", "not valid JSON", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) refuse(rows[i].header, rows[i].size, rows[i].part);
}

static void absurd_header_sizes_are_refused(void **unused)
{
  (void)unused;
  const char *path = scratch_path("made.safetensors");
  safetensors_file *file;
  static const unsigned char huge[16] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, '{', '}'};
  static const unsigned char one_more[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  scratch_write(path, huge, sizeof huge);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected a header of at most 8 bytes, found 18446744073709551615");
  scratch_write(path, one_more, sizeof one_more);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected a header of at most 2 bytes, found 3");
  scratch_write(path, huge, 0);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "found 0 bytes");
  assert_int_equal(safetensors_open(scratch_path("absent"), &file, &error), ALIBI_BAD_INPUT);
  assert_int_equal(safetensors_open(scratch_folder, &file, &error), ALIBI_BAD_INPUT);
  /* A sparse file that has room for the claim: the cap itself. */
  unsigned char claim[9] = {0x01, 0xE1, 0xF5, 0x05, 0, 0, 0, 0, '{'}; /* 100,000,001 */
  scratch_write(path, claim, sizeof claim);
  assert_int_equal(truncate(path, 200000000), 0);
  assert_int_equal(safetensors_open(path, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "expected a header of at most 100000000 bytes, found 100000001");
}

static void writing_refuses_what_could_not_be_read(void **unused)
{
  (void)unused;
  static const float data[4] = {1, 2, 3, 4};
  const char *path = scratch_path("model.safetensors");
  file_tensor two[2] = {{"w", TENSOR_F32, 1, {2}, data, 8}, {"w", TENSOR_F32, 1, {2}, data, 8}};
  scratch_write(path, "old", 3);
  assert_int_equal(safetensors_write(path, two, 2, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'w': expected a name of its own");
  two[1].name = "__metadata__";
  assert_int_equal(safetensors_write(path, two, 2, NULL, &error), ALIBI_INVALID);
  two[1] = (file_tensor){"v", TENSOR_F32, 1, {3}, data, 8};
  assert_int_equal(safetensors_write(path, two, 2, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'v'");
  two[1] = (file_tensor){"v", TENSOR_Q4_0, 1, {32}, data, 18};
  assert_int_equal(safetensors_write(path, two, 2, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'v': expected a type that safetensors has, found Q4_0");
  two[1] = (file_tensor){"v", TENSOR_F16, 1, {3}, data, 8};
  assert_int_equal(safetensors_write(path, two, 2, NULL, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'v': its 8 bytes do not fit its shape and type F16");
  scratch_expect(path, "old");
  assert_int_equal(scratch_entries(), 1);
  assert_int_equal(safetensors_write(scratch_path("absent/x"), two, 1, NULL, &error), ALIBI_FAILED);
  struct stat about;
  if (stat("/dev/full", &about) != 0) return;
  assert_int_equal(safetensors_write("/dev/full", two, 1, NULL, &error), ALIBI_FAILED);
  scratch_says(error.message, "No space left");
}

/* Opens; where that works, every tensor must lie inside the data: reads all of it. */
static bool open_and_read(const char *path, size_t file_size)
{
  safetensors_file *file;
  alibi_error_init(&error);
  if (safetensors_open(path, &file, &error) != ALIBI_OK) {
    assert_int_equal(error.status, ALIBI_BAD_INPUT);
    assert_null(file);
    return false;
  }
  size_t total = 0;
  unsigned sum = 0;
  for (size_t i = 0; i < safetensors_count(file); i++) {
    const file_tensor *t = safetensors_at(file, i);
    assert_ptr_equal(safetensors_find(file, t->name), t);
    for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
    total += t->bytes;
  }
  assert_true(total <= file_size && sum <= 255 * total);
  safetensors_close(file);
  return true;
}

static void damage_is_an_error_or_a_valid_file(void **unused)
{
  (void)unused;
  static const float data[4] = {1, 2, 3, 4};
  static const file_tensor tensors[] = {{"w", TENSOR_F32, 2, {1, 3}, data, 12},
                                        {"b", TENSOR_F32, 1, {1}, data, 4}};
  static const char *const metadata[] = {"format", "pt", NULL};
  const char *path = scratch_path("model.safetensors");
  assert_int_equal(safetensors_write(path, tensors, 2, metadata, &error), ALIBI_OK);
  FILE *stream = fopen(path, "rb");
  static unsigned char good[1024], bad[1024];
  size_t size = fread(good, 1, sizeof good, stream), header = size - 16;
  fclose(stream);
  assert_in_range(size, 100, 1000);
  assert_true(open_and_read(path, size));
  for (size_t kept = 0; kept < size; kept++) {
    scratch_write(path, good, kept);
    if (open_and_read(path, kept)) fail_msg("accepted the first %zu of %zu bytes", kept, size);
  }
  /* Bit flips, and the characters that mean something in JSON. */
  static const char special[] = "\"\\{}[],:0-e ";
  size_t accepted = 0, tried = 0;
  for (size_t at = 0; at < header; at++)
    for (size_t k = 0; k < 8 + sizeof special; k++, tried++) {
      memcpy(bad, good, size);
      bad[at] = k < 8 ? (unsigned char)(bad[at] ^ 1 << k) : (unsigned char)special[k - 8];
      scratch_write(path, bad, size);
      accepted += open_and_read(path, size);
    }
  assert_in_range(accepted, 1, tried / 2); /* a name may become another name */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(written_is_read_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(no_tensors_are_a_file_too, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(foreign_headers_are_read, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(odd_addresses_are_handed_out, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(disagreement_is_refused_by_name, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(absurd_header_sizes_are_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(writing_refuses_what_could_not_be_read, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damage_is_an_error_or_a_valid_file, setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
