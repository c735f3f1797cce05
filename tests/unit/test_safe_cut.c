/* Safe cuts: the ids of the parts are the ids of the whole, wherever a cut is allowed, on texts made to break it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "text/safe_cut.h"

#include <cmocka.h>

static alibi_error error;

/* Blanks of ASCII and Unicode, contractions, digits, halves of characters, bytes that are none. */
static const char *const shards[] = {"a",    "low",  "er",           " ",        "  ",    "\n",       "\n\n",
                                     "\t",   "\r\n", "'s",           "'ll",      "'",     "12",       "\xc2\xa0",
                                     "\xc2", "\xa0", "\xe3\x80\x80", "\xe2\x80", "\xff",  "\xc3\xa9", "\xc2\x85",
                                     "!",    "?!",   "\x1c",         "\x7f",     "newest"};
enum { SHARDS = sizeof shards / sizeof shards[0], TEXTS = 400, PIECES = 60 };

static size_t make_text(uint64_t number, char *text)
{
  size_t size = 0;
  for (uint64_t i = 0; i < PIECES; i++) {
    const char *shard = shards[random_below(number, 0, i, SHARDS)];
    memcpy(text + size, shard, strlen(shard));
    size += strlen(shard);
  }
  return size;
}

static void cut_or_whole_is_the_same(void **unused)
{
  (void)unused;
  alibi_tokenizer *tokenizer;
  char text[PIECES * 8];
  size_t cuts = 0;
  static const char sample[] =
      "low lower lowest  low\n\nlower newest\n newest 's 'll low's low'll 12 12 !! ?! low low  low";
  const char *samples[] = {sample};
  const size_t sizes[] = {sizeof sample - 1};
  assert_int_equal(alibi_tokenizer_train(samples, sizes, 1, 280, &tokenizer, &error), ALIBI_OK);
  for (uint64_t number = 0; number < TEXTS; number++) {
    size_t size = make_text(number, text), count, before, after;
    uint32_t *whole, *left, *right;
    assert_int_equal(alibi_tokenizer_encode(tokenizer, text, size, &whole, &count, &error), ALIBI_OK);
    size_t at = tokenizer_safe_cut(tokenizer, (unsigned char *)text, size, 1);
    for (; at < size; at = tokenizer_safe_cut(tokenizer, (unsigned char *)text, size, at + 1), cuts++) {
      assert_int_equal(alibi_tokenizer_encode(tokenizer, text, at, &left, &before, &error), ALIBI_OK);
      assert_int_equal(alibi_tokenizer_encode(tokenizer, text + at, size - at, &right, &after, &error), ALIBI_OK);
      assert_int_equal(before + after, count);
      assert_memory_equal(left, whole, before * sizeof *left);
      assert_memory_equal(right, whole + before, after * sizeof *right);
      alibi_tokens_free(left);
      alibi_tokens_free(right);
    }
    alibi_tokens_free(whole);
  }
  assert_true(cuts > TEXTS); /* it is not that there are none */
  alibi_tokenizer_free(tokenizer);
}

static void finds_the_first_place(void **unused)
{
  (void)unused;
  const unsigned char *text = (const unsigned char *)"ab cd  ef";
  alibi_tokenizer *bytes;
  assert_int_equal(tokenizer_safe_cut(NULL, text, 9, 1), 2);
  assert_int_equal(tokenizer_safe_cut(NULL, text, 9, 2), 2);
  assert_int_equal(tokenizer_safe_cut(NULL, text, 9, 3), 5);
  assert_int_equal(tokenizer_safe_cut(NULL, text, 9, 6), 9);
  assert_int_equal(tokenizer_safe_cut(NULL, text, 9, 20), 9);
  assert_int_equal(alibi_tokenizer_new_bytes(&bytes, &error), ALIBI_OK);
  assert_int_equal(tokenizer_safe_cut(bytes, text, 9, 4), 4);
  alibi_tokenizer_free(bytes);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(cut_or_whole_is_the_same),
                                     cmocka_unit_test(finds_the_first_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
