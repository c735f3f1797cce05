/* PyTorch's files: what PyTorch itself wrote is read to the bit, tensors are views of the mapping, and no
 * truncation and no changed byte of a file does worse than an error.  Files that are wrong in one thing each are
 * made by scripts/make_malformed_torch.py and opened by tests/malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/tensor_file.h"
#include "file/torch_file.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/torch_written.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static torch_file *open_bytes(const unsigned char *bytes, size_t size)
{
  const char *path = scratch_path("pytorch_model.bin");
  torch_file *file = NULL;
  scratch_write(path, bytes, size);
  if (torch_file_open(path, &file, &error) != ALIBI_OK) fail_msg("refused: %s", error.message);
  return file;
}

static const file_tensor *find(const torch_file *file, const char *name)
{
  for (size_t i = 0; i < torch_file_count(file); i++)
    if (strcmp(torch_file_at(file, i)->name, name) == 0) return torch_file_at(file, i);
  fail_msg("no tensor '%s'", name);
  return NULL;
}

static void expect(const torch_file *file, const char *name, tensor_type type, int dimensions, const size_t *shape,
                   const void *data, size_t bytes)
{
  const file_tensor *t = find(file, name);
  assert_int_equal(t->type, type);
  assert_int_equal(t->dimensions, dimensions);
  for (int i = 0; i < dimensions; i++) assert_int_equal(t->shape[i], shape[i]);
  assert_int_equal(t->bytes, bytes);
  if (bytes > 0) assert_memory_equal(t->data, data, bytes);
}

/* scripts/make_torch_written.py says what is in the files. */
static void what_torch_wrote_is_read(void **unused)
{
  (void)unused;
  static const float matrix[] = {0, 1, 2, 3, 4, 5};
  static const uint16_t half[] = {0x3C00, 0xC000, 0x3555}, bf16[] = {0x3F80, 0xC000};
  static const int64_t ids[] = {-1, INT64_C(1) << 40};
  static const unsigned char flags[] = {1, 0, 1};
  torch_file *file = open_bytes(torch_views, sizeof torch_views);
  assert_int_equal(torch_file_count(file), 5);
  assert_string_equal(torch_file_at(file, 0)->name, "embedding.weight"); /* in the order of the dictionary */
  expect(file, "embedding.weight", TENSOR_F32, 2, (size_t[]){2, 3}, matrix, 24);
  expect(file, "head.weight", TENSOR_F32, 2, (size_t[]){2, 3}, matrix, 24);
  assert_ptr_equal(find(file, "head.weight")->data, find(file, "embedding.weight")->data); /* tied */
  expect(file, "row", TENSOR_F32, 1, (size_t[]){3}, matrix + 3, 12);
  expect(file, "scalar", TENSOR_F32, 0, NULL, matrix + 5, 4);
  expect(file, "none", TENSOR_F32, 2, (size_t[]){0, 5}, NULL, 0);
  assert_null(torch_file_at(file, 5));
  torch_file_close(file);

  file = open_bytes(torch_types, sizeof torch_types);
  assert_int_equal(torch_file_count(file), 4);
  expect(file, "half", TENSOR_F16, 3, (size_t[]){1, 3, 1}, half, 6);
  expect(file, "brain", TENSOR_BF16, 1, (size_t[]){2}, bf16, 4);
  expect(file, "ids", TENSOR_I64, 1, (size_t[]){2}, ids, 16);
  expect(file, "flags", TENSOR_BOOL, 1, (size_t[]){3}, flags, 3);
  torch_file_close(file);
  torch_file_close(NULL);
}

static void types_by_name_are_read(void **unused)
{
  (void)unused;
  static const uint16_t words[] = {1, 65535};
  static const unsigned char eighth[] = {0x38, 0xC0, 0x00};
  torch_file *file = open_bytes(torch_new_types, sizeof torch_new_types);
  assert_int_equal(torch_file_count(file), 2);
  expect(file, "u16", TENSOR_U16, 1, (size_t[]){2}, words, 4);
  expect(file, "f8", TENSOR_F8_E4M3, 1, (size_t[]){3}, eighth, 3);
  torch_file_close(file);
}

static void refuse(const unsigned char *bytes, size_t size, const char *part)
{
  const char *path = scratch_path("pytorch_model.bin");
  torch_file *file = NULL;
  scratch_write(path, bytes, size);
  assert_int_equal(torch_file_open(path, &file, &error), ALIBI_BAD_INPUT);
  assert_null(file);
  scratch_says(error.message, path);
  scratch_says(error.message, part);
}

static void what_is_not_read_is_refused_by_name(void **unused)
{
  (void)unused;
  refuse(torch_turned, sizeof torch_turned, "tensor 'turned': expected one that is contiguous");
  refuse(torch_legacy, sizeof torch_legacy, "the one before PyTorch 1.6");
  refuse(torch_foreign, sizeof torch_foreign, "found 'torch.device'");
  torch_file *file;
  assert_int_equal(torch_file_open(scratch_path("absent.bin"), &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "No such file");
}

/* Opens; where that works, every tensor must lie inside the file: reads all of it. */
static bool open_and_read(const unsigned char *bytes, size_t size)
{
  const char *path = scratch_path("damaged.bin");
  torch_file *file;
  scratch_write(path, bytes, size);
  alibi_error_init(&error);
  if (torch_file_open(path, &file, &error) != ALIBI_OK) {
    assert_int_equal(error.status, ALIBI_BAD_INPUT);
    assert_null(file);
    return false;
  }
  unsigned sum = 0;
  for (size_t i = 0; i < torch_file_count(file); i++) {
    const file_tensor *t = torch_file_at(file, i);
    assert_true(t->bytes <= size);
    for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
  }
  assert_true(sum < UINT32_MAX);
  torch_file_close(file);
  return true;
}

static void damage_is_an_error_or_a_valid_file(void **unused)
{
  (void)unused;
  static const unsigned char values[] = {0x00, 0x01, 0xFF, '(', '.', 'h'};
  static unsigned char bad[sizeof torch_views];
  size_t accepted = 0, tried = 0;
  for (size_t kept = 0; kept < sizeof torch_views; kept++)
    if (open_and_read(torch_views, kept)) fail_msg("accepted the first %zu bytes", kept);
  for (size_t at = 0; at < sizeof torch_views; at++)
    for (size_t k = 0; k < sizeof values; k++, tried++) {
      memcpy(bad, torch_views, sizeof bad);
      bad[at] = values[k];
      accepted += open_and_read(bad, sizeof bad);
    }
  assert_in_range(accepted, 1, tried - tried / 4); /* padding, dates and checksums say nothing */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_torch_wrote_is_read, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(types_by_name_are_read, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(what_is_not_read_is_refused_by_name, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damage_is_an_error_or_a_valid_file, setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("torch_file", tests, NULL, NULL);
}
