/* The bytes tokenizer: ids are the bytes, and its file says so to us and to any reader of BPE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "text/byte_level.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;
static alibi_tokenizer *bytes;

static int setup(void **unused)
{
  (void)unused;
  alibi_error_init(&error);
  scratch_make();
  return alibi_tokenizer_new_bytes(&bytes, &error) == ALIBI_OK ? 0 : -1;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_tokenizer_free(bytes);
  scratch_remove();
  return 0;
}

static void a_token_is_its_byte(void **unused)
{
  (void)unused;
  unsigned char text[256];
  uint32_t *tokens;
  size_t count, size;
  for (int i = 0; i < 256; i++) text[i] = (unsigned char)(255 - i);
  assert_int_equal(alibi_tokenizer_encode(bytes, text, sizeof text, &tokens, &count, &error), ALIBI_OK);
  assert_int_equal(count, 256);
  for (uint32_t i = 0; i < 256; i++) {
    assert_int_equal(tokens[i], 255 - i);
    const unsigned char *spelled = alibi_tokenizer_bytes(bytes, i, &size);
    assert_int_equal(size, 1);
    assert_int_equal(spelled[0], i);
  }
  alibi_tokens_free(tokens);
  assert_null(alibi_tokenizer_bytes(bytes, 256, &size));
  assert_int_equal(size, 0);
  assert_int_equal(alibi_tokenizer_vocabulary(bytes), 256);
  assert_string_equal(alibi_tokenizer_kind(bytes), "bytes");
}

static void an_empty_text_has_no_tokens(void **unused)
{
  (void)unused;
  uint32_t *tokens = NULL;
  size_t count = 1;
  assert_int_equal(alibi_tokenizer_encode(bytes, NULL, 0, &tokens, &count, &error), ALIBI_OK);
  assert_int_equal(count, 0);
  assert_non_null(tokens);
  alibi_tokens_free(tokens);
}

static void its_file_opens_as_bytes(void **unused)
{
  (void)unused;
  const char *first = scratch_path("first.json"), *second = scratch_path("second.json");
  alibi_tokenizer *opened;
  assert_int_equal(alibi_tokenizer_save(bytes, first, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_open(first, &opened, &error), ALIBI_OK);
  assert_string_equal(alibi_tokenizer_kind(opened), "bytes");
  assert_int_equal(alibi_tokenizer_save(opened, second, &error), ALIBI_OK);
  char *content = scratch_read(first);
  scratch_expect(second, content);
  free(content);
  alibi_tokenizer_free(opened);
}

/* With two ids exchanged it is still a BPE without merges, but no longer one where a token is its byte. */
static void exchanged_ids_are_not_bytes(void **unused)
{
  (void)unused;
  const char *path = scratch_path("exchanged.json");
  alibi_tokenizer *opened;
  uint32_t *tokens;
  size_t count;
  assert_int_equal(alibi_tokenizer_save(bytes, path, &error), ALIBI_OK);
  char *content = scratch_read(path), *a = strstr(content, "\"a\": 97"), *b = strstr(content, "\"b\": 98");
  assert_non_null(a);
  assert_non_null(b);
  memcpy(a, "\"a\": 98", 7);
  memcpy(b, "\"b\": 97", 7);
  scratch_write(path, content, strlen(content));
  free(content);
  assert_int_equal(alibi_tokenizer_open(path, &opened, &error), ALIBI_OK);
  assert_string_equal(alibi_tokenizer_kind(opened), "bpe");
  assert_int_equal(alibi_tokenizer_encode(opened, "abc", 3, &tokens, &count, &error), ALIBI_OK);
  assert_int_equal(count, 3);
  assert_int_equal(tokens[0], 98);
  assert_int_equal(tokens[1], 97);
  assert_int_equal(tokens[2], 99);
  alibi_tokens_free(tokens);
  alibi_tokenizer_free(opened);
}

static void unsupported_parts_are_refused_here_too(void **unused)
{
  (void)unused;
  const char *path = scratch_path("part.json");
  alibi_tokenizer *opened;
  assert_int_equal(alibi_tokenizer_save(bytes, path, &error), ALIBI_OK);
  char *content = scratch_read(path), *part = strstr(content, "\"normalizer\": null");
  assert_non_null(part);
  memcpy(part, "\"normalizer\": true", 18);
  scratch_write(path, content, strlen(content));
  free(content);
  assert_int_equal(alibi_tokenizer_open(path, &opened, &error), ALIBI_BAD_INPUT);
  assert_null(opened);
  scratch_says(error.message, "normalizer");
}

/* The printable alphabet: GPT-2's table, as far as it can be told in a few points, and both ways for all. */
static void the_printable_alphabet(void **unused)
{
  (void)unused;
  static const struct {
    unsigned char byte;
    const char *spelled;
  } points[] = {{0x00, "Ā"}, {'\n', "Ċ"}, {' ', "Ġ"},  {'!', "!"},  {'~', "~"},  {0x7f, "ġ"},
                {0x80, "Ģ"}, {0xa0, "ł"}, {0xa1, "¡"}, {0xac, "¬"}, {0xad, "Ń"}, {0xff, "ÿ"}};
  unsigned char all[256], back[256];
  char spelled[256 * BYTE_LEVEL_WIDTH + 1];
  for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
    byte_level_spell(&points[i].byte, 1, spelled);
    assert_string_equal(spelled, points[i].spelled);
  }
  for (int i = 0; i < 256; i++) all[i] = (unsigned char)i;
  byte_level_spell(all, sizeof all, spelled);
  assert_int_equal(byte_level_length(spelled), 256);
  byte_level_parse(spelled, back);
  assert_memory_equal(all, back, sizeof all);
  static const char *const foreign[] = {"",         " ", "a b", "\n",   "\x7f", "\xc2\xa0",
                                        "\xc2\xad", "ń", "中",  "\xc3", "\xff", "\xc1\xa1"};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
    assert_int_equal(byte_level_length(foreign[i]), 0);
}

static void wrong_calls_are_refused(void **unused)
{
  (void)unused;
  uint32_t *tokens;
  size_t count;
  assert_int_equal(alibi_tokenizer_encode(NULL, "a", 1, &tokens, &count, &error), ALIBI_INVALID);
  assert_int_equal(alibi_tokenizer_encode(bytes, NULL, 1, &tokens, &count, &error), ALIBI_INVALID);
  assert_int_equal(alibi_tokenizer_new_bytes(NULL, NULL), ALIBI_INVALID);
  alibi_tokenizer_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_token_is_its_byte),
      cmocka_unit_test(an_empty_text_has_no_tokens),
      cmocka_unit_test(its_file_opens_as_bytes),
      cmocka_unit_test(exchanged_ids_are_not_bytes),
      cmocka_unit_test(unsupported_parts_are_refused_here_too),
      cmocka_unit_test(the_printable_alphabet),
      cmocka_unit_test(wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
