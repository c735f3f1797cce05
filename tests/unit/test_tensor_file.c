/* Tensors of any format and of shards: the table of types agrees with itself, files and folders are found, an
 * index is believed only where it agrees with its shards, and what is written by parts is what was given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system.h"
#include "file/gguf.h"
#include "file/safetensors.h"
#include "file/tensor_file.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/torch_written.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static tensor_file *open_path(const char *path)
{
  tensor_file *file = NULL;
  if (tensor_file_open(path, &file, &error) != ALIBI_OK) fail_msg("refused: %s", error.message);
  return file;
}

static void refuse(const char *path, const char *part)
{
  tensor_file *file = NULL;
  if (tensor_file_open(path, &file, &error) != ALIBI_BAD_INPUT) fail_msg("not refused: %s", path);
  assert_null(file);
  scratch_says(error.message, part);
}

static void make_folder(const char *path)
{
  assert_int_equal(mkdir(path, 0777), 0);
}

/* ---- types ---- */

static void types_agree_with_themselves(void **unused)
{
  (void)unused;
  for (int i = 0; i < TENSOR_TYPES; i++) {
    tensor_type type = (tensor_type)i, found;
    weight_type weight;
    const char *name = tensor_type_name(type);
    assert_non_null(name);
    assert_true(tensor_type_find(name, &found));
    assert_int_equal(found, type);
    assert_true(tensor_type_elements(type) > 0 && tensor_type_bytes(type) > 0);
    assert_true(tensor_type_in_safetensors(type) || tensor_type_ggml(type) >= 0);
    if (tensor_type_ggml(type) >= 0) {
      assert_true(tensor_type_from_ggml((uint32_t)tensor_type_ggml(type), &found));
      assert_int_equal(found, type);
    }
    if (tensor_type_weight(type, &weight)) {
      assert_int_equal(tensor_type_of_weight(weight), type);
      assert_string_equal(weight_type_name(weight), name);
      assert_int_equal(weight_block_elements(weight), tensor_type_elements(type));
      assert_int_equal(weight_block_bytes(weight), tensor_type_bytes(type));
    }
  }
  tensor_type none;
  assert_false(tensor_type_find("F31", &none));
  assert_false(tensor_type_find(NULL, &none));
  assert_false(tensor_type_from_ggml(4, &none)); /* removed from ggml long ago */
  assert_false(tensor_type_from_ggml(UINT32_MAX, &none));
}

static void sizes_follow_from_shapes(void **unused)
{
  (void)unused;
  static const struct {
    tensor_type type;
    int dimensions;
    size_t shape[4];
    bool fits;
    size_t bytes;
  } rows[] = {
      {TENSOR_F32, 0, {0}, true, 4},
      {TENSOR_F16, 2, {3, 5}, true, 30},
      {TENSOR_F64, 3, {2, 0, SIZE_MAX}, true, 0},
      {TENSOR_F4, 2, {2, 3}, true, 3}, /* blocks over rows */
      {TENSOR_F4, 1, {3}, false, 0},
      {TENSOR_F6_E3M2, 1, {8}, true, 6},
      {TENSOR_Q8_0, 2, {3, 64}, true, 3 * 2 * 34},
      {TENSOR_Q8_0, 2, {32, 3}, false, 0}, /* no row is a block */
      {TENSOR_Q4_K, 1, {512}, true, 288},
      {TENSOR_Q4_K, 0, {0}, false, 0},
      {TENSOR_U8, 1, {PTRDIFF_MAX}, true, PTRDIFF_MAX},
      {TENSOR_U8, 1, {(size_t)PTRDIFF_MAX + 1}, false, 0},
      {TENSOR_F32, 2, {(size_t)1 << 62, 4}, false, 0},
      {TENSOR_F32, 1, {((size_t)1 << 62) + 1}, false, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t bytes = 1;
    bool fits = tensor_type_size(rows[i].type, rows[i].dimensions, rows[i].shape, &bytes);
    if (fits != rows[i].fits || (fits && bytes != rows[i].bytes)) fail_msg("row %zu: %d, %zu", i, fits, bytes);
  }
}

/* ---- one file of each format ---- */

static const float numbers[] = {1, 2, 3, 4, 5, 6};
static const file_tensor two[] = {{"w", TENSOR_F32, 2, {2, 3}, numbers, 24},
                                  {"b", TENSOR_F32, 1, {2}, numbers, 8}};

static void write_safetensors(const char *path, const file_tensor *tensors, size_t count)
{
  static const char *const metadata[] = {"format", "pt", NULL};
  if (safetensors_write(path, tensors, count, metadata, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void write_gguf(const char *path)
{
  gguf_keys *keys = gguf_keys_new();
  gguf_put_text(keys, "general.architecture", "llama");
  if (gguf_write(path, keys, two, 2, NULL, &error) != ALIBI_OK) fail_msg("%s", error.message);
  gguf_keys_free(keys);
}

static void expect_two(const char *path, const char *format)
{
  tensor_file *file = open_path(path);
  assert_string_equal(tensor_file_format(file), format);
  assert_int_equal(tensor_file_count(file), 2);
  const file_tensor *w = tensor_file_find(file, "w"), *b = tensor_file_find(file, "b");
  assert_non_null(w);
  assert_non_null(b);
  assert_true(w->shape[0] == 2 && w->shape[1] == 3 && w->dimensions == 2);
  assert_memory_equal(w->data, numbers, 24);
  assert_memory_equal(b->data, numbers, 8);
  assert_null(tensor_file_find(file, "c"));
  assert_null(tensor_file_at(file, 2));
  scratch_says(tensor_file_path_of(file, w), scratch_folder);
  bool safetensors = strcmp(format, "safetensors") == 0;
  assert_int_equal(tensor_file_metadata(file, "format") != NULL, safetensors);
  assert_null(tensor_file_metadata(file, "absent"));
  assert_int_equal(tensor_file_gguf(file) != NULL, strcmp(format, "gguf") == 0);
  tensor_file_close(file);
}

static void every_format_is_known_by_its_content(void **unused)
{
  (void)unused;
  write_safetensors(scratch_path("a"), two, 2);
  expect_two(scratch_path("a"), "safetensors");
  write_gguf(scratch_path("b"));
  expect_two(scratch_path("b"), "gguf");
  scratch_write(scratch_path("c"), torch_views, sizeof torch_views);
  tensor_file *file = open_path(scratch_path("c"));
  assert_string_equal(tensor_file_format(file), "torch");
  assert_int_equal(tensor_file_count(file), 5);
  assert_null(tensor_file_metadata(file, "format"));
  assert_null(tensor_file_gguf(file));
  tensor_file_close(file);
  tensor_file_close(NULL);

  scratch_write(scratch_path("d"), "hello", 5);
  refuse(scratch_path("d"), "expected a file of safetensors, GGUF or PyTorch's, found none of these");
  scratch_write(scratch_path("d.safetensors"), "hello", 5);
  refuse(scratch_path("d.safetensors"), "expected a safetensors file, found 5 bytes");
  scratch_write(scratch_path("d.bin"), "hello", 5);
  refuse(scratch_path("d.bin"), "found no zip archive");
  refuse(scratch_path("absent"), "No such file");
  assert_int_equal(mkfifo(scratch_path("pipe"), 0666), 0);
  refuse(scratch_path("pipe"), "expected a plain file");
}

static void folders_are_searched_in_order(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("m");
  make_folder(folder);
  refuse(folder, "expected model.safetensors, its index and shards, a .gguf file or pytorch_model.bin");
  scratch_write(scratch_path("m/pytorch_model.bin"), torch_views, sizeof torch_views);
  tensor_file *file = open_path(folder);
  assert_string_equal(tensor_file_format(file), "torch");
  tensor_file_close(file);
  write_gguf(scratch_path("m/tiny.gguf"));
  expect_two(folder, "gguf");
  write_gguf(scratch_path("m/other.gguf"));
  refuse(folder, "expected one model, found other.gguf and tiny.gguf: name the file");
  write_safetensors(scratch_path("m/model.safetensors"), two, 2);
  expect_two(folder, "safetensors");
}

/* 14 GB of data, as a model of 7 billion numbers of 16 bits has: none of it is read. */
static void opening_reads_no_data(void **unused)
{
  (void)unused;
  enum { TENSORS = 7 };
  const uint64_t each = UINT64_C(2000000000);
  char header[TENSORS * 128] = "{";
  size_t used = 1;
  for (int i = 0; i < TENSORS; i++)
    used += (size_t)snprintf(header + used, sizeof header - used,
                             "%s\"w%d\":{\"dtype\":\"F16\",\"shape\":[1000000,1000],\"data_offsets\":[%llu,%llu]}",
                             i ? "," : "", i, (unsigned long long)(each * (unsigned)i),
                             (unsigned long long)(each * (unsigned)(i + 1)));
  header[used++] = '}';
  const char *path = scratch_path("large.safetensors");
  unsigned char file_start[8 + sizeof header];
  for (int i = 0; i < 8; i++) file_start[i] = (unsigned char)((uint64_t)used >> 8 * i);
  memcpy(file_start + 8, header, used);
  scratch_write(path, file_start, 8 + used);
  if (truncate(path, (off_t)(8 + used + TENSORS * each)) != 0) skip(); /* no holes in files here */
  size_t before = system_peak_memory();
  tensor_file *file = open_path(path);
  assert_int_equal(tensor_file_count(file), TENSORS);
  const file_tensor *last = tensor_file_find(file, "w6");
  assert_int_equal(last->bytes, each);
  assert_int_equal(((const unsigned char *)last->data)[each - 1], 0);
  assert_true(system_peak_memory() - before < (16u << 20));
  tensor_file_close(file);
}

/* ---- shards ---- */

static void write_text(const char *path, const char *text)
{
  scratch_write(path, text, strlen(text));
}

static void shards_are_one_model(void **unused)
{
  (void)unused;
  make_folder(scratch_path("m"));
  write_safetensors(scratch_path("m/x.safetensors"), two, 1);
  write_safetensors(scratch_path("m/y.safetensors"), two + 1, 1);
  write_text(scratch_path("m/model.safetensors.index.json"),
             "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"b\":\"y.safetensors\",\"w\":\"x.safetensors\"}}");
  expect_two(scratch_path("m"), "safetensors");
  expect_two(scratch_path("m/model.safetensors.index.json"), "safetensors");
  tensor_file *file = open_path(scratch_path("m"));
  assert_string_equal(tensor_file_at(file, 0)->name, "w"); /* by shards */
  assert_string_equal(tensor_file_path(file, 0), scratch_path("m/x.safetensors"));
  assert_string_equal(tensor_file_path_of(file, tensor_file_find(file, "b")), scratch_path("m/y.safetensors"));
  tensor_file_close(file);
}

static void pytorch_has_shards_too(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("m");
  make_folder(folder);
  scratch_write(scratch_path("m/pytorch_model-00001-of-00002.bin"), torch_types, sizeof torch_types);
  scratch_write(scratch_path("m/pytorch_model-00002-of-00002.bin"), torch_new_types, sizeof torch_new_types);
  write_text(scratch_path("m/pytorch_model.bin.index.json"),
             "{\"weight_map\":{\"half\":\"pytorch_model-00001-of-00002.bin\",\"brain\":\"pytorch_model-00001-of-"
             "00002.bin\","
             "\"ids\":\"pytorch_model-00001-of-00002.bin\",\"flags\":\"pytorch_model-00001-of-00002.bin\","
             "\"u16\":\"pytorch_model-00002-of-00002.bin\",\"f8\":\"pytorch_model-00002-of-00002.bin\"}}");
  tensor_file *file = open_path(folder);
  assert_string_equal(tensor_file_format(file), "torch");
  assert_int_equal(tensor_file_count(file), 6);
  assert_int_equal(tensor_file_find(file, "u16")->type, TENSOR_U16);
  tensor_file_close(file);
}

static void an_index_agrees_with_its_shards(void **unused)
{
  (void)unused;
  static const struct {
    const char *map, *part;
  } rows[] = {
      {"\"w\":\"x.safetensors\"", "tensor 'b': expected it in weight_map too"},
      {"\"w\":\"x.safetensors\",\"b\":\"x.safetensors\",\"c\":\"x.safetensors\"",
       "tensor 'c': expected it in the shard 'x.safetensors', found none"},
      {"\"w\":\"x.safetensors\",\"b\":\"x.safetensors\",\"c\":\"y.safetensors\"",
       "expected its shard 'y.safetensors' beside it, found none"},
      {"\"w\":\"x.safetensors\",\"b\":\"z.safetensors\"",
       "tensor 'b': expected it in the shard 'z.safetensors', found it in 'x.safetensors'"},
      {"\"w\":\"x.safetensors\",\"b\":\"x.safetensors\",\"q\":\"z.bin\"",
       "shard 'z.bin': expected safetensors, found torch"},
      {"\"w\":\"../m/x.safetensors\"", "'w': expected the name of a file beside it, found '../m/x.safetensors'"},
      {"\"w\":\"..\"", "expected the name of a file beside it, found '..'"},
      {"\"w\":\"x.safetensors\",\"b\":[]", "'b': expected the name of a file beside it, found no text"},
  };
  make_folder(scratch_path("m"));
  write_safetensors(scratch_path("m/x.safetensors"), two, 2);
  write_safetensors(scratch_path("m/z.safetensors"), two + 1, 1);
  scratch_write(scratch_path("m/z.bin"), torch_views, sizeof torch_views);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[512];
    snprintf(text, sizeof text, "{\"weight_map\":{%s}}", rows[i].map);
    write_text(scratch_path("m/model.safetensors.index.json"), text);
    refuse(scratch_path("m"), rows[i].part);
  }
  write_text(scratch_path("m/model.safetensors.index.json"), "{\"weight_map\":{}}");
  refuse(scratch_path("m"), "expected an object weight_map");
}

/* ---- writing by parts ---- */

/* A value for each byte of each tensor. */
static unsigned char made_byte(size_t index, size_t at)
{
  return (unsigned char)(index * 31 + at * 7 + 1);
}

static size_t called[8], calls;
static bool short_by_one, long_by_one;

static status give(void *state, size_t index, tensor_sink *sink, alibi_error *given)
{
  const file_tensor *tensors = state;
  assert_string_equal(sink->tensor->name, tensors[index].name);
  called[calls++] = index;
  size_t end = tensors[index].bytes - short_by_one + long_by_one;
  for (size_t at = 0; at < end; at++) {
    unsigned char byte = made_byte(index, at);
    status result = tensor_sink_write(sink, &byte, 1, given);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

static const file_tensor mixed[] = {
    {.name = "a", .type = TENSOR_U8, .dimensions = 1, .shape = {3}, .bytes = 3},
    {.name = "b", .type = TENSOR_F4, .dimensions = 2, .shape = {3, 2}, .bytes = 3},
    {.name = "c", .type = TENSOR_BF16, .dimensions = 1, .shape = {5}, .bytes = 10},
    {.name = "d", .type = TENSOR_I64, .dimensions = 2, .shape = {1, 2}, .bytes = 16},
    {.name = "e", .type = TENSOR_F32, .dimensions = 3, .shape = {2, 0, 9}, .bytes = 0},
    {.name = "f", .type = TENSOR_F32, .dimensions = 0, .bytes = 4},
    {.name = "g", .type = TENSOR_F8_E5M2, .dimensions = 1, .shape = {7}, .bytes = 7},
};
enum { MIXED = sizeof mixed / sizeof mixed[0] };

static void expect_mixed(const char *path)
{
  tensor_file *file = open_path(path);
  assert_int_equal(tensor_file_count(file), MIXED);
  for (size_t i = 0; i < MIXED; i++) {
    const file_tensor *t = tensor_file_find(file, mixed[i].name);
    assert_non_null(t);
    assert_int_equal(t->type, mixed[i].type);
    assert_int_equal(t->bytes, mixed[i].bytes);
    assert_memory_equal(t->shape, mixed[i].shape, sizeof t->shape);
    for (size_t at = 0; at < t->bytes; at++)
      assert_int_equal(((const unsigned char *)t->data)[at], made_byte(i, at));
    if (t->bytes > 0 && tensor_type_elements(t->type) == 1)
      assert_int_equal((uintptr_t)t->data % tensor_type_bytes(t->type), 0); /* wide types first */
  }
  tensor_file_close(file);
}

static void parts_are_written_in_the_order_of_the_file(void **unused)
{
  (void)unused;
  static const size_t order[] = {3, 4, 5, 2, 0, 6, 1};
  tensor_source source = {.give = give, .state = (void *)(uintptr_t)mixed};
  const char *path = scratch_path("mixed.safetensors");
  calls = 0;
  assert_int_equal(safetensors_write_from(path, mixed, MIXED, NULL, &source, &error), ALIBI_OK);
  assert_int_equal(calls, MIXED);
  assert_memory_equal(called, order, sizeof order);
  expect_mixed(path);
}

static void a_promised_size_is_kept(void **unused)
{
  (void)unused;
  tensor_source source = {.give = give, .state = (void *)(uintptr_t)(mixed + 2)};
  const char *path = scratch_path("mixed.safetensors");
  calls = 0;
  short_by_one = true;
  assert_int_equal(safetensors_write_from(path, mixed + 2, 2, NULL, &source, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'd': expected 16 bytes, was given 15");
  short_by_one = false;
  long_by_one = true;
  assert_int_equal(safetensors_write_from(path, mixed + 2, 1, NULL, &source, &error), ALIBI_INVALID);
  scratch_says(error.message, "tensor 'c': expected 10 bytes, was given more");
  long_by_one = false;
  assert_int_equal(scratch_entries(), 0);
}

static void a_model_is_cut_into_shards(void **unused)
{
  (void)unused;
  static const size_t mosts[] = {1, 10, 16, 26, 42, 43, SIZE_MAX}, entries[] = {8, 6, 4, 4, 3, 1, 1};
  tensor_source source = {.give = give, .state = (void *)(uintptr_t)mixed};
  for (size_t i = 0; i < sizeof mosts / sizeof mosts[0]; i++) {
    scratch_remove();
    calls = 0;
    assert_int_equal(safetensors_write_shards(scratch_folder, mixed, MIXED, NULL, &source, mosts[i], &error),
                     ALIBI_OK);
    if (scratch_entries() != entries[i]) fail_msg("at most %zu bytes: %zu files", mosts[i], scratch_entries());
    expect_mixed(scratch_folder);
  }
}

static void shards_never_mix_with_another_model(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("m"), *single = scratch_path("m/model.safetensors");
  assert_int_equal(safetensors_write_shards(folder, two, 2, NULL, NULL, 1 << 20, &error), ALIBI_OK);
  assert_int_equal(access(single, R_OK), 0);
  assert_int_equal(safetensors_write_shards(folder, two, 2, NULL, NULL, 8, &error), ALIBI_FAILED);
  scratch_says(error.message, "expected no model.safetensors in it, found one");
  assert_int_equal(safetensors_write_shards(folder, two, 2, NULL, NULL, 1 << 20, &error),
                   ALIBI_OK); /* over itself */
  unlink(single);
  assert_int_equal(safetensors_write_shards(folder, two, 2, NULL, NULL, 8, &error), ALIBI_OK);
  for (size_t most = 8; most <= 1024; most *= 128) {
    assert_int_equal(safetensors_write_shards(folder, two, 2, NULL, NULL, most, &error), ALIBI_FAILED);
    scratch_says(error.message, "expected no model.safetensors.index.json in it, found one");
  }
  tensor_file *file = open_path(folder);
  assert_int_equal(tensor_file_count(file), 2);
  tensor_file_close(file);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(types_agree_with_themselves, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(sizes_follow_from_shapes, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(every_format_is_known_by_its_content, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(folders_are_searched_in_order, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(opening_reads_no_data, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(shards_are_one_model, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(pytorch_has_shards_too, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(an_index_agrees_with_its_shards, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(parts_are_written_in_the_order_of_the_file, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_promised_size_is_kept, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_model_is_cut_into_shards, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(shards_never_mix_with_another_model, setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("tensor_file", tests, NULL, NULL);
}
