/* Fingerprints: those of the published function, in one go and in pieces, and as text; those of tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "text/tokenizer_fingerprint.h"

#include <cmocka.h>

#include "unit/scratch.h"

static alibi_error error;

static void is_xxh3(void **unused)
{
  (void)unused;
  /* printf abcdef | xxhsum -H3 */
  assert_true(fingerprint_of("abcdef", 6) == UINT64_C(0xda87bd32d3c47db6));
}

static void pieces_give_the_same(void **unused)
{
  (void)unused;
  unsigned char bytes[3000];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7 + i / 256);
  for (size_t size = 0; size < sizeof bytes; size += 97) {
    fingerprint *f;
    assert_int_equal(fingerprint_begin(&f, &error), ALIBI_OK);
    for (size_t at = 0, n; at < size; at += n) {
      n = size - at < 200 ? size - at : 200;
      fingerprint_add(f, bytes + at, n);
    }
    assert_true(fingerprint_value(f) == fingerprint_of(bytes, size));
    fingerprint_free(f);
  }
}

static void is_written_and_read(void **unused)
{
  (void)unused;
  char text[FINGERPRINT_TEXT_SIZE];
  uint64_t value;
  fingerprint_to_text(UINT64_C(0x0123456789abcdef), text);
  assert_string_equal(text, "0123456789abcdef");
  assert_true(fingerprint_from_text(text, &value) && value == UINT64_C(0x0123456789abcdef));
  static const char *const wrong[] = {
      "", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcde ", "-123456789abcdef"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_false(fingerprint_from_text(wrong[i], &value));
  assert_false(fingerprint_from_text(NULL, &value));
}

/* A tokenizer is the same after it was saved and opened; others are others, also where only the order of merges
 * is. */
static void tells_tokenizers_apart(void **unused)
{
  (void)unused;
  scratch_make();
  static const char *const texts[] = {"ab ab ab cd cd", "cd cd cd ab ab"};
  uint64_t values[3], again;
  alibi_tokenizer *t;
  for (int i = 0; i < 3; i++) {
    const size_t size = 14;
    status made = i == 2 ? alibi_tokenizer_new_bytes(&t, &error)
                         : alibi_tokenizer_train(&texts[i], &size, 1, 258, &t, &error);
    assert_int_equal(made, ALIBI_OK);
    assert_int_equal(tokenizer_fingerprint(t, &values[i], &error), ALIBI_OK);
    assert_int_equal(alibi_tokenizer_save(t, scratch_path("t.json"), &error), ALIBI_OK);
    alibi_tokenizer_free(t);
    assert_int_equal(alibi_tokenizer_open(scratch_path("t.json"), &t, &error), ALIBI_OK);
    assert_int_equal(tokenizer_fingerprint(t, &again, &error), ALIBI_OK);
    assert_true(again == values[i] && again != 0);
    alibi_tokenizer_free(t);
  }
  assert_true(values[0] != values[1] && values[1] != values[2] && values[0] != values[2]);
  scratch_remove();
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(is_xxh3), cmocka_unit_test(pieces_give_the_same),
                                     cmocka_unit_test(is_written_and_read),
                                     cmocka_unit_test(tells_tokenizers_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
