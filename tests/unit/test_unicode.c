/* What Unicode says, over all code points: how many characters are of a kind and a hash of which, and of lower
 * case and normalization forms.  The figures were measured with tokenizers 0.23.3 (its normalizers and
 * pre-tokenizers on every character), whose tables are of Unicode 8, 9, 16 and 17; they hold whatever the version
 * of utf8proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/script_runs.h"
#include "text/text_buffer.h"
#include "text/unicode.h"

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define FIRST_HASH 0xcbf29ce484222325u

static uint64_t mix(uint64_t hash, uint32_t c)
{
  return (hash ^ c) * 0x100000001b3u;
}

static bool is_character(uint32_t c)
{
  return c < 0xd800 || c > 0xdfff;
}

static void check_kinds(void **state)
{
  static const struct {
    const char *name;
    bool (*is)(uint32_t c);
    size_t count;
    uint64_t hash;
  } kinds[] = {
      {"space", unicode_is_space, 25, 0x231591ad12ffe059u},
      {"mark", unicode_is_mark, 2097, 0xce04022e74abe72cu},
      {"nonspacing", unicode_is_nonspacing, 1567, 0x8a6f9eed3ef95933u},
      {"punctuation", unicode_is_punctuation, 726, 0xed67276710cf5944u},
      {"number", unicode_is_number, 1924, 0xcefe8c12e06f18ecu},
      {"other", unicode_is_other, 137683, 0xed478e80d5baed65u},
      {"word", unicode_is_word, 144667, 0x74e9e67363c9083fu},
  };
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    size_t count = 0;
    uint64_t hash = FIRST_HASH;
    for (uint32_t c = 0; c < 0x110000; c++) {
      if (!is_character(c) || !kinds[i].is(c)) continue;
      count++;
      hash = mix(hash, c);
    }
    if (count != kinds[i].count || hash != kinds[i].hash) fail_msg("%s: %zu characters", kinds[i].name, count);
  }
}

static void check_lower(void **state)
{
  size_t count = 0;
  uint64_t hash = FIRST_HASH;
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c++) {
    uint32_t lower[2];
    if (!is_character(c)) continue;
    size_t length = unicode_lower(c, lower);
    if (length == 1 && lower[0] == c) continue;
    count++;
    hash = mix(hash, c);
    for (size_t i = 0; i < length; i++) hash = mix(hash, lower[i]);
  }
  assert_int_equal(count, 1488);
  assert_true(hash == 0xb1ea558e7d0299abu);
}

static void check_forms(void **state)
{
  static const struct {
    const char *name;
    unicode_form form;
    size_t count;
    uint64_t hash;
  } forms[] = {
      {"NFC", UNICODE_NFC, 1120, 0x8171ea43b4bd9b29u},
      {"NFD", UNICODE_NFD, 13232, 0x9d517e8601758addu},
      {"NFKC", UNICODE_NFKC, 4794, 0x0a01b524c66c128du},
      {"NFKD", UNICODE_NFKD, 16894, 0xc166bdb358ba9bb8u},
  };
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    size_t count = 0;
    uint64_t hash = FIRST_HASH;
    text_buffer made = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
      unsigned char text[4];
      alibi_error error;
      if (!is_character(c)) continue;
      size_t size = utf8_spell(c, text), length;
      made.size = 0;
      assert_int_equal(unicode_normalize(forms[i].form, text, size, &made, &error), ALIBI_OK);
      if (made.size == size && memcmp(made.data, text, size) == 0) continue;
      count++;
      hash = mix(hash, c);
      for (size_t at = 0; at < made.size; at += length) hash = mix(hash, utf8_character(made.data + at, &length));
    }
    free(made.data);
    if (count != forms[i].count || hash != forms[i].hash) fail_msg("%s: %zu characters", forms[i].name, count);
  }
}

/* A character that Unicode 9 does not have stays as it is, and no mark goes past it or joins it. */
static void check_later_characters(void **state)
{
  static const struct {
    const char *text, *nfc;
  } cases[] = {
      {"e\u0301", "\u00e9"},
      {"a\u0301\u0316", "\u00e1\u0316"},
      {"e\U00010f46\u0301", "e\U00010f46\u0301"},       /* a mark of 11 */
      {"\U00011935\U00011930", "\U00011935\U00011930"}, /* 13: would be U+11938 */
      {"\U00011938e\u0301", "\U00011938\u00e9"},
      {"\U0001e8d0a\u0316\u0301", "\U0001e8d0\u00e1\u0316"}, /* a mark of 7 */
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    text_buffer made = {0};
    alibi_error error;
    assert_int_equal(
        unicode_normalize(UNICODE_NFC, (const unsigned char *)cases[i].text, strlen(cases[i].text), &made, &error),
        ALIBI_OK);
    assert_int_equal(made.size, strlen(cases[i].nfc));
    assert_memory_equal(made.data, cases[i].nfc, made.size);
    free(made.data);
  }
}

/* Characters that are cut off from Latin letters before them. */
static void check_scripts(void **state)
{
  size_t count = 0, start, end;
  uint64_t hash = FIRST_HASH;
  script_runs *scripts;
  static script_walk walk;
  unsigned char text[5] = "a";
  alibi_error error;
  (void)state;
  assert_int_equal(script_runs_new(&scripts, &error), ALIBI_OK);
  assert_int_equal(script_walk_begin(&walk, scripts, text, 0, &error), ALIBI_OK);
  for (uint32_t c = 0; c < 0x110000; c++) {
    if (!is_character(c)) continue;
    walk.text = text;
    walk.size = 1 + utf8_spell(c, text + 1);
    walk.at = 0;
    assert_int_equal(script_walk_next(&walk, &start, &end, &error), ALIBI_OK);
    if (end == walk.size) continue;
    count++;
    hash = mix(hash, c);
  }
  script_walk_end(&walk);
  script_runs_free(scripts);
  assert_int_equal(count, 126886);
  assert_true(hash == 0x85359ebaa0ba0f06u);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(check_kinds),   cmocka_unit_test(check_lower),
      cmocka_unit_test(check_forms),   cmocka_unit_test(check_later_characters),
      cmocka_unit_test(check_scripts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
