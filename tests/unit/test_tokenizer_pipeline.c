/* Tokenizers of tokenizer.json files as programs see them: options, control tokens, streams, names of special
 * tokens, saving; and damaged files.  (That ids and texts are those of the library whose files these are:
 * golden/test_tokenizer_json_golden.c, scripts/make_tokenizer_json_golden.py.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/random.h"
#include "text/base64.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fingerprint.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

#define MARK "\xe2\x96\x81" /* U+2581 */

static alibi_error error;

static const char whole[] =
    "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n"
    "\"added_tokens\": [\n"
    "{\"id\": 12, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false,"
    " \"normalized\": false, \"special\": true},\n"
    "{\"id\": 13, \"content\": \"</s>\", \"single_word\": false, \"lstrip\": true, \"rstrip\": false,"
    " \"normalized\": false, \"special\": true},\n"
    "{\"id\": 14, \"content\": \"bb\", \"single_word\": true, \"lstrip\": false, \"rstrip\": false,"
    " \"normalized\": true, \"special\": false}],\n"
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"},\n"
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}]},\n"
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" MARK "?[^" MARK "]+|" MARK "+\"},"
    " \"behavior\": \"Isolated\", \"invert\": false},\n"
    "{\"type\": \"Digits\", \"individual_digits\": true}]},\n"
    "\"post_processor\": {\"type\": \"TemplateProcessing\",\n"
    "\"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}},"
    " {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [],\n"
    "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [12], \"tokens\": [\"<s>\"]}}},\n"
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"}, \"content\": \" \"},\n"
    "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"},"
    " {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]},\n"
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<unk>\","
    " \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,\n"
    "\"fuse_unk\": false, \"byte_fallback\": true, \"ignore_merges\": false,\n"
    "\"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"" MARK "\": 3, \"ab\": 4, \"" MARK "ab\": 5,"
    " \"<0xC3>\": 6, \"<0xA9>\": 7, \"c\": 8, \"N\": 9, \"1\": 10, \"<0xE2>\": 11},\n"
    "\"merges\": [\"a b\", [\"" MARK "\", \"ab\"]]}}\n";

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

/* The text with its first `old` replaced. */
static char *replaced(const char *content, const char *old, const char *new)
{
  const char *at = strstr(content, old);
  if (!at) fail_msg("the file does not hold %s", old);
  char *changed = malloc(strlen(content) + strlen(new) + 1);
  assert_non_null(changed);
  sprintf(changed, "%.*s%s%s", (int)(at - content), content, new, at + strlen(old));
  return changed;
}

static status open_text(const char *content, size_t size, alibi_tokenizer **t)
{
  const char *path = scratch_path("tokenizer.json");
  scratch_write(path, content, size);
  alibi_error_init(&error);
  status found = alibi_tokenizer_open(path, t, &error);
  if (found != ALIBI_OK) {
    assert_null(*t);
    scratch_says(error.message, "tokenizer.json");
  }
  return found;
}

static alibi_tokenizer *opened(const char *content)
{
  alibi_tokenizer *t;
  if (open_text(content, strlen(content), &t) != ALIBI_OK) fail_msg("%s", error.message);
  return t;
}

static alibi_tokenizer *changed_tokenizer(const char *old, const char *new)
{
  char *changed = replaced(whole, old, new);
  alibi_tokenizer *t = opened(changed);
  free(changed);
  return t;
}

/* The ids of a text, written as "1 2 3". */
static const char *ids_of(const alibi_tokenizer *t, const char *text, size_t size, int special, int control)
{
  static char written[4096];
  alibi_encode_options options;
  uint32_t *ids;
  size_t count, used = 0;
  alibi_encode_options_init(&options);
  options.add_special = special;
  options.control = control;
  if (alibi_tokenizer_encode_with(t, &options, text, size, &ids, &count, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  written[0] = '\0';
  for (size_t i = 0; i < count; i++)
    used += (size_t)snprintf(written + used, sizeof written - used, "%s%u", i ? " " : "", (unsigned)ids[i]);
  alibi_tokens_free(ids);
  return written;
}

static void expect_ids(const alibi_tokenizer *t, const char *text, const char *ids)
{
  assert_string_equal(ids_of(t, text, strlen(text), 0, 0), ids);
}

static void expect_text(const alibi_tokenizer *t, const uint32_t *ids, size_t count, const char *text)
{
  char *found;
  size_t size;
  if (alibi_tokenizer_decode(t, NULL, ids, count, &found, &size, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  assert_string_equal(found, text);
  assert_int_equal(size, strlen(text));
  alibi_text_free(found);
}

static void text_goes_through_all_stages(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  assert_string_equal(alibi_tokenizer_kind(t), "pipeline");
  assert_int_equal(alibi_tokenizer_vocabulary(t), 15);
  expect_ids(t, "", "");
  expect_ids(t, "ab ab", "4 5");
  expect_ids(t, "ab1 1", "4 10 3 10");
  expect_ids(t, "e\xcc\x81", "6 7"); /* NFC, then bytes */
  expect_ids(t,
             "a\xc3\xa8"
             "c",
             "1 0 8");                   /* a byte is missing: unknown */
  expect_ids(t, "bb bbb", "14 3 2 2 2"); /* an added word is a word of its own */
  alibi_tokenizer_free(t);
}

static void text_never_becomes_control_tokens(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  expect_ids(t, "<s>", "0 0 0");
  expect_ids(t, "a </s>", "1 3 0 0 0 0");
  uint32_t *ids;
  size_t count;
  assert_int_equal(alibi_tokenizer_encode(t, "<s>a</s>", 8, &ids, &count, &error), ALIBI_OK);
  for (size_t i = 0; i < count; i++) assert_false(alibi_tokenizer_is_control(t, ids[i]));
  alibi_tokens_free(ids);
  assert_true(alibi_tokenizer_is_control(t, 12));
  assert_false(alibi_tokenizer_is_control(t, 14));
  assert_false(alibi_tokenizer_is_control(t, 99));
  assert_string_equal(ids_of(t, "<s>a  </s>", 10, 0, 1), "12 1 13"); /* lstrip takes the blanks */
  assert_string_equal(ids_of(t, "ab", 2, 1, 0), "12 4");
  assert_string_equal(ids_of(t, "", 0, 1, 0), "12");
  assert_string_equal(ids_of(t, "<s>", 3, 1, 0), "12 0 0 0");
  alibi_tokenizer_free(t);
}

static void any_bytes_are_a_text(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  /* Without spellings of bytes U+FFFD stands for what is no UTF-8: here an unknown character. */
  assert_string_equal(ids_of(t,
                             "a\xff"
                             "b\xe2\x96",
                             5, 0, 0),
                      "1 0 2 0");
  assert_string_equal(ids_of(t, "a\0b", 3, 0, 0), "1 0 2");
  alibi_tokenizer_free(t);

  /* With ByteLevel every byte comes back. */
  alibi_tokenizer *bytes;
  assert_int_equal(alibi_tokenizer_new_bytes(&bytes, &error), ALIBI_OK);
  const char *path = scratch_path("bytes.json");
  assert_int_equal(alibi_tokenizer_save(bytes, path, &error), ALIBI_OK);
  alibi_tokenizer_free(bytes);
  char *saved = scratch_read(path),
       *changed = replaced(saved, "\"ignore_merges\": false", "\"ignore_merges\": true");
  t = opened(changed);
  assert_string_equal(alibi_tokenizer_kind(t), "pipeline");
  for (uint64_t seed = 0; seed < 200; seed++) {
    static const unsigned char letters[] = "a \xc3\xa9\xe2\x96\x81\xff";
    unsigned char text[40];
    size_t size = (size_t)random_below(seed, 1, 0, sizeof text), count, length;
    for (size_t i = 0; i < size; i++)
      text[i] = seed % 2 ? (unsigned char)random_below(seed, 0, i, 256) : letters[random_below(seed, 0, i, 8)];
    uint32_t *ids;
    char *back;
    alibi_decode_options options;
    alibi_decode_options_init(&options);
    options.valid_utf8 = 0;
    assert_int_equal(alibi_tokenizer_encode(t, text, size, &ids, &count, &error), ALIBI_OK);
    assert_int_equal(alibi_tokenizer_decode(t, &options, ids, count, &back, &length, &error), ALIBI_OK);
    assert_int_equal(length, size);
    assert_memory_equal(back, text, size);
    alibi_text_free(back);
    alibi_tokens_free(ids);
  }
  alibi_tokenizer_free(t);
  free(changed);
  free(saved);
}

static void a_stream_gives_whole_characters(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  static const struct {
    uint32_t ids[6];
    size_t count;
    const char *parts[7]; /* of each id, then of the end */
  } cases[] = {
      {{5, 5}, 2, {"ab", " ab", ""}},            /* the first blank is stripped */
      {{6, 7, 1}, 3, {"", "\xc3\xa9", "a", ""}}, /* one character in two bytes */
      {{6, 1},
       2,
       {"",
        "\xef\xbf\xbd"
        "a",
        ""}},                                               /* one that stays half */
      {{1, 6}, 2, {"a", "", "\xef\xbf\xbd"}},               /* the same at the end */
      {{6, 6, 7}, 3, {"", "\xef\xbf\xbd", "\xc3\xa9", ""}}, /* half a one, then a whole one */
      {{12, 4, 13}, 3, {"", "ab", "", ""}},                 /* control tokens give none */
      {{11, 11, 11}, 3, {"", "\xef\xbf\xbd", "", "\xef\xbf\xbd\xef\xbf\xbd"}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    alibi_decoder *d;
    const char *text;
    size_t size;
    char together[64] = "";
    assert_int_equal(alibi_decoder_new(t, NULL, &d, &error), ALIBI_OK);
    for (int round = 0; round < 2; round++) { /* after its end a decoder begins anew */
      together[0] = '\0';
      for (size_t i = 0; i <= cases[c].count; i++) {
        status found = i < cases[c].count ? alibi_decoder_add(d, cases[c].ids[i], &text, &size, &error)
                                          : alibi_decoder_end(d, &text, &size, &error);
        assert_int_equal(found, ALIBI_OK);
        assert_string_equal(text, cases[c].parts[i]);
        strcat(together, text);
      }
    }
    expect_text(t, cases[c].ids, cases[c].count, together);
    alibi_decoder_free(d);
  }
  alibi_tokenizer_free(t);
}

static void decoding_says_what_is_wrong(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  char *text;
  size_t size;
  uint32_t id = 15, control[] = {12, 4};
  assert_int_equal(alibi_tokenizer_decode(t, NULL, &id, 1, &text, &size, &error), ALIBI_INVALID);
  scratch_says(error.message, "token 15");
  assert_null(text);
  alibi_decode_options options;
  alibi_decode_options_init(&options);
  options.skip_control = 0;
  assert_int_equal(alibi_tokenizer_decode(t, &options, control, 2, &text, &size, &error), ALIBI_OK);
  assert_string_equal(text, "<s>ab");
  alibi_text_free(text);
  options.size = 3;
  assert_int_equal(alibi_tokenizer_decode(t, &options, control, 2, &text, &size, &error), ALIBI_INVALID);
  alibi_tokenizer_free(t);
}

static void tokens_have_bytes(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  static const struct {
    uint32_t id;
    const char *bytes;
  } cases[] = {{0, "<unk>"}, {4, "ab"}, {5, " ab"}, {6, "\xc3"}, {12, ""}, {14, "bb"}};
  size_t size;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const unsigned char *bytes = alibi_tokenizer_bytes(t, cases[c].id, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(cases[c].bytes));
    assert_memory_equal(bytes, cases[c].bytes, size);
  }
  assert_null(alibi_tokenizer_bytes(t, 15, &size));
  alibi_tokenizer_free(t);

  /* What a word's begin adds is among the bytes. */
  t = changed_tokenizer("\"decoders\": [\n", "\"decoders\": [{\"type\": \"WordPiece\", \"prefix\": \"a\","
                                             " \"cleanup\": false}, ");
  assert_memory_equal(alibi_tokenizer_bytes(t, 8, &size), " c", 2);
  assert_int_equal(size, 2);
  assert_memory_equal(alibi_tokenizer_bytes(t, 4, &size), "b", 1);
  assert_int_equal(size, 1);
  alibi_tokenizer_free(t);
}

static void control_tokens_have_names(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_BEGIN), 12);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_END), 13);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_UNKNOWN), 0);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_PADDING), -1);
  assert_int_equal(alibi_tokenizer_special(t, (alibi_special)77), -1);
  assert_int_equal(alibi_tokenizer_find(t, "</s>"), 13);
  assert_int_equal(alibi_tokenizer_find(t, MARK "ab"), 5);
  assert_int_equal(alibi_tokenizer_find(t, "nowhere"), -1);
  alibi_tokenizer_free(t);
  /* The file beside it knows better. */
  static const char config[] = "{\"bos_token\": null, \"eos_token\": {\"content\": \"<s>\", \"lstrip\": false},"
                               " \"pad_token\": \"</s>\", \"model_max_length\": 1000000000000000019884624838656}";
  scratch_write(scratch_path("tokenizer_config.json"), config, strlen(config));
  t = opened(whole);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_BEGIN), -1);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_END), 12);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_UNKNOWN), 0);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_PADDING), 13);
  alibi_tokenizer_free(t);
  /* Begin and end have to be tokens; padding need not be. */
  static const char wrong[] = "{\"eos_token\": {\"content\": \"<end>\"}}",
                    padding[] = "{\"pad_token\": \"<pad>\"}";
  scratch_write(scratch_path("tokenizer_config.json"), wrong, strlen(wrong));
  assert_int_equal(open_text(whole, strlen(whole), &t), ALIBI_BAD_INPUT);
  scratch_says(error.message,
               "tokenizer_config.json: eos_token: expected a token of the vocabulary, found '<end>'");
  scratch_write(scratch_path("tokenizer_config.json"), padding, strlen(padding));
  t = opened(whole);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_PADDING), -1);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_END), 13);
  alibi_tokenizer_free(t);
  unlink(scratch_path("tokenizer_config.json"));
}

static void saved_opened_and_saved_it_is_the_same(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = opened(whole), *again;
  const char *first = scratch_path("first.json"), *second = scratch_path("second.json");
  uint64_t one, two;
  assert_int_equal(alibi_tokenizer_save(t, first, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_open(first, &again, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_save(again, second, &error), ALIBI_OK);
  char *content = scratch_read(first);
  scratch_expect(second, content);
  free(content);
  assert_int_equal(tokenizer_fingerprint(t, &one, &error), ALIBI_OK);
  assert_int_equal(tokenizer_fingerprint(again, &two, &error), ALIBI_OK);
  assert_true(one == two && one != 0);
  expect_ids(again, "ab ab e\xcc\x81", "4 5 3 6 7");
  alibi_tokenizer_free(again);
  /* Another normalizer is another tokenizer. */
  again = changed_tokenizer("\"type\": \"NFC\"", "\"type\": \"NFKC\"");
  assert_int_equal(tokenizer_fingerprint(again, &two, &error), ALIBI_OK);
  assert_true(one != two);
  alibi_tokenizer_free(again);
  alibi_tokenizer_free(t);
}

/* A quadratic way would take minutes here. */
static void long_words_are_encoded(void **unused)
{
  (void)unused;
  static const char *const units[] = {"a", "ab", " ", "1", "\xcc\x81\xcc\xa3", "\xf0\x9f\x9a\x80", "<", "bb "};
  static const char *const changes[][2] = {{"\"dropout\"", "\"dropout\""},
                                           {"\"type\": \"NFC\"", "\"type\": \"NFKD\""},
                                           {"\"type\": \"NFC\"", "\"type\": \"StripAccents\""},
                                           {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"\\\\s*x|" MARK "?"}};
  size_t size = 200000;
  char *text = malloc(size + 16);
  assert_non_null(text);
  for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++) {
    alibi_tokenizer *t = changed_tokenizer(changes[k][0], changes[k][1]);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
      size_t unit = strlen(units[u]), used = 0, count;
      for (; used + unit <= size; used += unit) memcpy(text + used, units[u], unit);
      uint32_t *ids;
      if (alibi_tokenizer_encode(t, text, used, &ids, &count, &error) != ALIBI_OK) fail_msg("%s", error.message);
      assert_true(count <= used);
      if (u == 1) assert_int_equal(count, used / 2);
      alibi_tokens_free(ids);
    }
    alibi_tokenizer_free(t);
  }
  free(text);
}

static void a_pattern_that_runs_away_is_an_error(void **unused)
{
  (void)unused;
  alibi_tokenizer *t =
      changed_tokenizer("{\"Regex\": \"" MARK "?[^" MARK "]+|" MARK "+\"}", "{\"Regex\": \"(?:a|aa)+[xy]\"}");
  char text[64];
  uint32_t *ids;
  size_t count;
  memset(text, 'a', sizeof text);
  assert_int_equal(alibi_tokenizer_encode(t, text, sizeof text, &ids, &count, &error), ALIBI_FAILED);
  scratch_says(error.message, "a pattern of the tokenizer fails");
  assert_null(ids);
  alibi_tokenizer_free(t);
}

static void damaged_files_are_refused_in_a_sentence(void **unused)
{
  (void)unused;
  static const struct {
    const char *old, *new, *says;
  } cases[] = {
      /* the whole */
      {"\"version\": \"1.0\"", "\"version\": 1.0", "version: expected '1.0'"},
      {"\"version\": \"1.0\", ", "", "version"},
      {"\"padding\": null", "\"paddings\": null", "'paddings'"},
      {"\"model\": {", "\"type\": \"x\", \"model\": {", "'type'"},
      {"\"model\": {\"type\"", "\"model\": 7, \"decoder\": {\"type\"", "tokenizer.json"},
      {"\"truncation\"", "\"version\"", "not valid JSON"},
      {"\"padding\": null,", "\"padding\": null", "not valid JSON"},
      /* added tokens */
      {"\"added_tokens\": [", "\"added_tokens\": {\"x\": [", "not valid JSON"},
      {"\"added_tokens\": [\n", "\"added_tokens\": [7, ", "added_tokens 0: expected an object"},
      {"\"id\": 12", "\"id\": -1", "added_tokens 0: expected 'id'"},
      {"\"id\": 12", "\"id\": 4294967296", "expected 'id' to be a whole number"},
      {"\"id\": 12", "\"id\": \"12\"", "expected 'id'"},
      {"\"id\": 12", "\"id\": 13", "have the same id 13"},
      {"\"id\": 12", "\"id\": 9999999", "'<s>' has id 9999999, far from"},
      {"\"id\": 12", "\"id\": 3", "which is that of"},
      {"\"content\": \"<s>\"", "\"content\": \"ab\"", "but id 4 in the model's vocabulary"},
      {"\"content\": \"<s>\"", "\"content\": \"\"", "expected a content that is not empty"},
      {"\"content\": \"<s>\"", "\"content\": 5", "expected 'content' to be a text"},
      {"\"content\": \"<s>\"", "\"content\": \"</s>\"", "are the same text"},
      {"\"single_word\": false", "\"single_word\": 0", "expected 'single_word' to be true or false"},
      {"\"lstrip\": false", "\"strip\": false", "'strip' that is not supported"},
      /* normalizer */
      {"\"type\": \"NFC\"", "\"type\": \"NFX\"", "normalizer 1: type 'NFX' is not supported"},
      {"\"type\": \"NFC\"", "\"type\": \"NFC\", \"fast\": true", "'fast'"},
      {"{\"type\": \"NFC\"}", "7", "expected an object with a type"},
      {"\"normalizers\"", "\"normalizer\"", "'normalizer'"},
      {"\"content\": \"" MARK "\"", "\"content\": null", "expected 'content' to be a text"},
      {"\"pattern\": {\"String\": \" \"}", "\"pattern\": \" \"", "expected 'pattern' to be"},
      {"\"pattern\": {\"String\": \" \"}", "\"pattern\": {\"Glob\": \"*\"}", "expected 'pattern' to be"},
      {"\"pattern\": {\"String\": \" \"}", "\"pattern\": {\"Regex\": \"(\"}", "a ( without its )"},
      {"{\"type\": \"NFC\"}", "{\"type\": \"Strip\", \"strip_left\": true}", "'strip_right'"},
      {"{\"type\": \"NFC\"}", "{\"type\": \"Prepend\"}", "'prepend'"},
      {"{\"type\": \"NFC\"}", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA\"}", "base64"},
      {"{\"type\": \"NFC\"}", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////w==\"}",
       "expected a trie"},
      {"{\"type\": \"NFC\"}", "{\"type\": \"BertNormalizer\", \"clean_text\": 1}", "'clean_text'"},
      /* pre-tokenizer */
      {"\"behavior\": \"Isolated\"", "\"behavior\": \"Shredded\"", "behavior 'Shredded' is not supported"},
      {"\"behavior\": \"Isolated\", ", "", "expected 'behavior'"},
      {"\"invert\": false", "\"invert\": \"no\"", "expected 'invert'"},
      {"\"type\": \"Split\"", "\"type\": \"Splat\"", "pre_tokenizer 1: type 'Splat' is not supported"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"[a-", "a class without its closing ]"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"(?~x)", "absence (?~ is not supported"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"(*FAIL)", "a callout (* is not supported"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"\\\\p{Klingon}", "the property 'klingon' is not supported"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"*", "a repetition of nothing"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"(?i)ss", "ligature"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"\\\\x80", "a byte"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"(?<!a+)", "does not compile"},
      {"{\"Regex\": \"" MARK "?", "{\"Regex\": \"(?W)", "a group of this kind"},
      {"\"individual_digits\": true", "\"individual\": true", "'individual'"},
      {"{\"type\": \"Digits\", \"individual_digits\": true}", "{\"type\": \"FixedLength\", \"length\": 0}",
       "'length'"},
      {"{\"type\": \"Digits\", \"individual_digits\": true}",
       "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"ab\"}", "one character"},
      {"{\"type\": \"Digits\", \"individual_digits\": true}",
       "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}", "prepend_scheme 'last'"},
      {"{\"type\": \"Digits\", \"individual_digits\": true}",
       "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\", \"add_prefix_space\": "
       "false}",
       "contradict"},
      {"{\"type\": \"Digits\", \"individual_digits\": true}", "{\"type\": \"ByteLevel\"}", "'add_prefix_space'"},
      /* post-processor */
      {"\"ids\": [12]", "\"ids\": [99]", "expected ids from 0 to 14, found 99"},
      {"\"ids\": [12]", "\"ids\": 12", "with its ids"},
      {"\"id\": 12, \"content\": \"<s>\"", "\"id\": 15, \"content\": \"<s>\"", "id 12 is no token's"},
      {"\"ids\": [12]", "\"ids\": [\"<s>\"]", "expected ids"},
      {"{\"Sequence\": {\"id\": \"A\"", "{\"Sequence\": {\"id\": \"B\"", "no sequence 'B'"},
      {"{\"SpecialToken\": {\"id\": \"<s>\"", "{\"SpecialToken\": {\"id\": \"<t>\"", "'<t>' among special_tokens"},
      {"{\"SpecialToken\"", "{\"Token\"", "'Token' in a template"},
      {"\"single\": [", "\"single\": [7, ", "expected a template"},
      {"\"type\": \"TemplateProcessing\"", "\"type\": \"BertProcessing\"", "is not supported"},
      {"{\"type\": \"TemplateProcessing\",\n",
       "{\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 12], \"sep\": [\"</s>\"], \"x\": {", "not valid JSON"},
      /* decoder */
      {"{\"type\": \"Fuse\"}", "{\"type\": \"Confuse\"}", "decoder 3: type 'Confuse' is not supported"},
      {"{\"type\": \"Fuse\"}", "{\"type\": \"WordPiece\", \"prefix\": \"##\"}", "'cleanup'"},
      {"\"start\": 1", "\"start\": -1", "'start'"},
      {"\"content\": \" \", \"start\"", "\"content\": \"\", \"start\"", "one character"},
      {"\"decoders\": [", "\"decoders\": 3, \"pretokenizers\": [", "'pretokenizers'"},
      /* model */
      {"\"type\": \"BPE\"", "\"type\": \"Bigram\"", "model: type 'Bigram' is not supported"},
      {"\"dropout\": null", "\"dropout\": 0.5", "dropout is not supported"},
      {"\"dropout\": null", "\"dropin\": null", "'dropin'"},
      {"\"fuse_unk\": false", "\"fuse_unk\": \"no\"", "fuse_unk"},
      {"\"unk_token\": \"<unk>\"", "\"unk_token\": [0]", "unk_token"},
      {"\"vocab\": {", "\"vocab\": [], \"merges\": {", "tokenizer.json"},
      {"\"a\": 1", "\"a\": 2", "id 2 is taken"},
      {"\"a\": 1", "\"a\": 1.5", "expected an id"},
      {"\"a\": 1", "\"a\": 9999999999", "expected an id"},
      {"\"a\": 1", "\"a\": 1, \"a\": 1", "not valid JSON"},
      {"\"a b\"", "\"a x\"", "'x' is not in the vocabulary"},
      {"\"a b\"", "\"b a\"", "'ba' is not in the vocabulary"},
      {"\"a b\"", "\"a b c\"", "expected two tokens"},
      {"\"a b\"", "[\"a\"]", "expected two tokens"},
      {"\"merges\": [", "\"merges\": 5, \"ignore_merges\": [", "not valid JSON"},
      {"\"merges\": [\"a b\", [\"" MARK "\", \"ab\"]]", "\"merges\": {}", "expected an array 'merges'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_tokenizer *t;
    char *changed = replaced(whole, cases[i].old, cases[i].new);
    if (open_text(changed, strlen(changed), &t) != ALIBI_BAD_INPUT) fail_msg("accepted: %s", cases[i].new);
    scratch_says(error.message, cases[i].says);
    free(changed);
  }
}

/* `count` times the step, as a list. */
static char *steps(const char *step, size_t count)
{
  size_t size = strlen(step) + 1;
  char *list = malloc(size * count + 1);
  assert_non_null(list);
  for (size_t i = 0; i < count; i++) sprintf(list + size * i, "%s,", step);
  list[size * count - 1] = '\0';
  return list;
}

static void refuses_steps(const char *old, const char *step, size_t count, const char *says)
{
  alibi_tokenizer *t;
  char *list = steps(step, count), *changed = replaced(whole, old, list);
  assert_int_equal(open_text(changed, strlen(changed), &t), ALIBI_BAD_INPUT);
  scratch_says(error.message, says);
  free(changed);
  free(list);
}

/* A text goes from step to step by recursion; and replacements multiply. */
static void steps_have_an_end(void **unused)
{
  (void)unused;
  enum { MANY = 100000 };
  static const char digits[] = "{\"type\": \"Digits\", \"individual_digits\": true}",
                    fuse[] = "{\"type\": \"Fuse\"}";
  refuses_steps(digits, digits, MANY, "pre_tokenizer 257: expected at most 256 steps");
  refuses_steps(fuse, fuse, MANY, "decoder 257: expected at most 256 steps");
  refuses_steps("{\"type\": \"NFC\"}",
                "{\"type\": \"Replace\", \"pattern\": {\"String\": \"b\"}, \"content\": \"bb\"}", 60,
                "'bb': the tokenizer's normalizer makes more than");
}

/* A map of characters that knows the first byte of one: the character stays whole. */
static void a_map_never_cuts_a_character(void **unused)
{
  (void)unused;
  enum { BYTE = 0xc3, UNITS = BYTE + 1 };
  uint32_t units[1 + UNITS] = {UNITS * 4};
  unsigned char bytes[sizeof units + 2];
  text_buffer text = {0};
  char step[2048];
  units[1 + BYTE] =
      1u << 10 | 1u << 8 | BYTE; /* its value is in the unit before it: 0, where the text below begins */
  memcpy(bytes, units, sizeof units);
  memcpy(bytes + sizeof units, "a", 2);
  assert_int_equal(base64_encode(bytes, sizeof bytes, &text, &error), ALIBI_OK);
  snprintf(step, sizeof step, "{\"type\": \"Precompiled\", \"longest\": true, \"precompiled_charsmap\": \"%s\"}",
           (const char *)text.data);
  alibi_tokenizer *t = changed_tokenizer("{\"type\": \"NFC\"}", step);
  expect_ids(t, "b\xc3\xa9", "2 6 7");
  alibi_tokenizer_free(t);
  buffer_free(&text);
}

static void no_truncation_and_no_flipped_byte_crashes(void **unused)
{
  (void)unused;
  alibi_tokenizer *t;
  size_t size = strlen(whole);
  char *content = malloc(size + 1);
  assert_non_null(content);
  memcpy(content, whole, size + 1);
  for (size_t cut = 0; cut + 2 < size; cut += 13) assert_int_equal(open_text(content, cut, &t), ALIBI_BAD_INPUT);
  for (uint64_t i = 0; i < 1000; i++) {
    size_t at = (size_t)random_below(8, 0, i, size);
    char kept = content[at];
    content[at] = (char)(i % 3 ? whole[random_below(8, 1, i, size)] : (char)random_below(8, 2, i, 256));
    status found = open_text(content, size, &t);
    assert_true(found == ALIBI_OK || found == ALIBI_BAD_INPUT);
    if (found == ALIBI_OK) {
      uint32_t *ids;
      size_t count;
      found = alibi_tokenizer_encode(t, whole, 600, &ids, &count, &error);
      if (found != ALIBI_OK) assert_true(error.message[0] != '\0' && !ids);
      alibi_tokens_free(ids);
      alibi_tokenizer_free(t);
    }
    content[at] = kept;
  }
  free(content);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_goes_through_all_stages),
      cmocka_unit_test(text_never_becomes_control_tokens),
      cmocka_unit_test(any_bytes_are_a_text),
      cmocka_unit_test(a_stream_gives_whole_characters),
      cmocka_unit_test(decoding_says_what_is_wrong),
      cmocka_unit_test(tokens_have_bytes),
      cmocka_unit_test(control_tokens_have_names),
      cmocka_unit_test(saved_opened_and_saved_it_is_the_same),
      cmocka_unit_test(long_words_are_encoded),
      cmocka_unit_test(a_pattern_that_runs_away_is_an_error),
      cmocka_unit_test(damaged_files_are_refused_in_a_sentence),
      cmocka_unit_test(steps_have_an_end),
      cmocka_unit_test(a_map_never_cuts_a_character),
      cmocka_unit_test(no_truncation_and_no_flipped_byte_crashes),
  };
  return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
