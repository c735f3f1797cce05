/* Tokenizers in GGUF files: what is written comes back with the same ids and texts; files made by hand, one kind
 * after the other; and what is refused, with its sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/random.h"
#include "base/system.h"
#include "file/gguf.h"
#include "text/gguf_vocabulary.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static alibi_tokenizer *open_tokenizer(const char *path)
{
  alibi_tokenizer *made;
  if (alibi_tokenizer_open(path, &made, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return made;
}

static const char *write_keys(gguf_keys *keys, const char *name)
{
  const char *path = scratch_path(name);
  if (gguf_write(path, keys, NULL, 0, NULL, &error) != ALIBI_OK) fail_msg("%s", error.message);
  gguf_keys_free(keys);
  return path;
}

static alibi_tokenizer *through_gguf(const alibi_tokenizer *t)
{
  gguf_keys *keys = gguf_keys_new();
  gguf_put_text(keys, "general.architecture", "none");
  if (gguf_vocabulary_put(t, 0, keys, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return open_tokenizer(write_keys(keys, "vocabulary.gguf"));
}

static void expect_same(const alibi_tokenizer *a, const alibi_tokenizer *b, const void *text, size_t size)
{
  uint32_t *left, *right;
  size_t left_count, right_count, left_size, right_size;
  char *left_text, *right_text;
  alibi_encode_options options;
  alibi_encode_options_init(&options);
  options.add_special = 1;
  if (alibi_tokenizer_encode_with(a, &options, text, size, &left, &left_count, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  if (alibi_tokenizer_encode_with(b, &options, text, size, &right, &right_count, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  assert_int_equal(left_count, right_count);
  assert_memory_equal(left, right, left_count * sizeof *left);
  assert_int_equal(alibi_tokenizer_decode(a, NULL, left, left_count, &left_text, &left_size, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_decode(b, NULL, right, right_count, &right_text, &right_size, &error),
                   ALIBI_OK);
  assert_int_equal(left_size, right_size);
  assert_memory_equal(left_text, right_text, left_size);
  alibi_text_free(left_text);
  alibi_text_free(right_text);
  alibi_tokens_free(left);
  alibi_tokens_free(right);
}

static void expect_same_on_texts(const alibi_tokenizer *a, const alibi_tokenizer *b)
{
  static const char *const parts[] = {
      "the", " ",  "  ",    "ships", "ab", "\n",           "\xc3\xa9",         "e\xcc\x81", "<s>", "</s>",
      "1",   "42", "[SYM]", "x",     "\t", "\xe2\x96\x81", "\xf0\x9f\x98\x80", "'s",        ".",   "A"};
  for (uint64_t i = 0; i < 300; i++) {
    char text[400] = "";
    size_t count = random_below(7, i, 0, 20);
    for (size_t k = 0; k < count; k++)
      strcat(text, parts[random_below(7, i, k + 1, sizeof parts / sizeof parts[0])]);
    expect_same(a, b, text, strlen(text));
  }
}

/* ---- what is written comes back ---- */

static void trained_tokenizers_come_back(void **unused)
{
  (void)unused;
  const char *text = "the ships passed the ships in the night, and the night passed the ships";
  size_t size = strlen(text);
  alibi_tokenizer *trained, *bytes;
  assert_int_equal(alibi_tokenizer_train(&text, &size, 1, 290, &trained, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_new_bytes(&bytes, &error), ALIBI_OK);
  alibi_tokenizer *all[] = {trained, bytes};
  for (int i = 0; i < 2; i++) {
    alibi_tokenizer *back = through_gguf(all[i]);
    assert_int_equal(alibi_tokenizer_vocabulary(back), alibi_tokenizer_vocabulary(all[i]));
    expect_same_on_texts(all[i], back);
    alibi_tokenizer_free(back);
    alibi_tokenizer_free(all[i]);
  }
}

static void sentencepiece_models_come_back(void **unused)
{
  (void)unused;
  static const char *const names[] = {"unigram_plain", "unigram_bytes", "unigram_rules", "unigram_unused",
                                      "bpe_llama",     "bpe_plain",     "bpe_rules",     "bpe_unused"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[1024] = __FILE__;
    char *slash = strrchr(path, '/');
    assert_non_null(slash);
    snprintf(slash, sizeof path - (size_t)(slash - path), "/../golden/pieces/%s.model", names[i]);
    alibi_tokenizer *t = open_tokenizer(path), *back = through_gguf(t);
    assert_int_equal(alibi_tokenizer_vocabulary(back), alibi_tokenizer_vocabulary(t));
    for (int k = 0; k < ALIBI_SPECIALS; k++)
      if (alibi_tokenizer_special(t, (alibi_special)k) >= 0)
        assert_int_equal(alibi_tokenizer_special(back, (alibi_special)k),
                         alibi_tokenizer_special(t, (alibi_special)k));
    expect_same_on_texts(t, back);
    alibi_tokenizer_free(back);
    alibi_tokenizer_free(t);
  }
}

static void what_gguf_has_no_words_for_is_refused(void **unused)
{
  (void)unused;
  char path[1024] = __FILE__;
  strcpy(strrchr(path, '/'), "/../golden/pieces/bpe_last.model");
  alibi_tokenizer *t = open_tokenizer(path);
  gguf_keys *keys = gguf_keys_new();
  assert_int_equal(gguf_vocabulary_put(t, 0, keys, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "its spaces follow words"));
  gguf_keys_free(keys);
  alibi_tokenizer_free(t);
}

/* GGUF keeps the text of an added token, and nothing of the blanks that it takes with it. */
static void added_tokens_that_take_blanks_are_refused(void **unused)
{
  (void)unused;
  static const char *const flags[] = {"\"lstrip\": false", "\"lstrip\": true", "\"rstrip\": true",
                                      "\"single_word\": true"};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 2, \"content\": \"<mask>\", \"special\": true, %s}], "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": "
        "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}",
        flags[i]);
    scratch_write(scratch_path("tokenizer.json"), text, strlen(text));
    alibi_tokenizer *t = open_tokenizer(scratch_path("tokenizer.json"));
    gguf_keys *keys = gguf_keys_new();
    assert_int_equal(gguf_vocabulary_put(t, 0, keys, &error), i == 0 ? ALIBI_OK : ALIBI_INVALID);
    if (i > 0) assert_non_null(strstr(error.message, "expected its token '<mask>' without "));
    gguf_keys_free(keys);
    alibi_tokenizer_free(t);
  }
}

/* What readers of GGUF take for granted of byte-level BPE. */
static void rules_of_bpe_that_gguf_has_not_are_refused(void **unused)
{
  (void)unused;
  static const char plain[] = "\"type\": \"ByteLevel\"";
  static const struct {
    const char *decoder, *model, *added, *sentence; /* added: of a tokenizer with NFC */
  } rows[] = {
      {plain, "", NULL, NULL},
      {plain, "\"unk_token\": null, \"byte_fallback\": false, \"fuse_unk\": false, ", NULL, NULL},
      {plain, "\"fuse_unk\": true, ", NULL, NULL}, /* of no unknown token */
      {"\"type\": \"Fuse\"", "", NULL, "expected the decoder ByteLevel"},
      {"\"type\": \"BPEDecoder\", \"suffix\": \"x\"", "", NULL, "expected the decoder ByteLevel"},
      {plain, "\"unk_token\": \"a\", ", NULL, "expected all 256 bytes"},
      {plain, "\"unk_token\": \"a\", \"fuse_unk\": true, ", NULL, "expected all 256 bytes"},
      {plain, "\"byte_fallback\": true, ", NULL, "expected all 256 bytes"},
      {plain, "", "false", NULL},
      {plain, "", "true", "expected its token '<mask>' to be looked for in the text before NFC"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[800];
    const char *added = rows[i].added;
    snprintf(text, sizeof text,
             "{\"version\": \"1.0\", \"normalizer\": %s, \"added_tokens\": [{\"id\": 2, \"content\": \"<mask>\", "
             "\"special\": true, \"normalized\": %s}], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
             "\"add_prefix_space\": false}, \"decoder\": {%s}, \"model\": {\"type\": \"BPE\", %s\"vocab\": "
             "{\"a\": 0, \"b\": 1}, \"merges\": []}}",
             added ? "{\"type\": \"NFC\"}" : "null", added ? added : "true", rows[i].decoder, rows[i].model);
    scratch_write(scratch_path("tokenizer.json"), text, strlen(text));
    alibi_tokenizer *t = open_tokenizer(scratch_path("tokenizer.json"));
    gguf_keys *keys = gguf_keys_new();
    error.message[0] = '\0';
    status result = gguf_vocabulary_put(t, 0, keys, &error);
    if (result != (rows[i].sentence ? ALIBI_INVALID : ALIBI_OK) ||
        (rows[i].sentence && !strstr(error.message, rows[i].sentence)))
      fail_msg("row %zu: '%s'", i, error.message);
    gguf_keys_free(keys);
    alibi_tokenizer_free(t);
  }
}

/* ---- by hand ---- */

typedef struct vocabulary_case {
  const char *model, *pre;
  const char *const *tokens;
  const float *scores;
  const int32_t *types;
  const char *const *merges;
} vocabulary_case;

static size_t length_of(const char *const *list)
{
  size_t count = 0;
  while (list[count]) count++;
  return count;
}

static void put_list(gguf_keys *keys, const char *key, const char *const *list)
{
  gguf_text texts[400];
  size_t count = length_of(list);
  for (size_t i = 0; i < count; i++) texts[i] = (gguf_text){list[i], strlen(list[i])};
  gguf_put_texts(keys, key, texts, count);
}

static gguf_keys *keys_of(const vocabulary_case *c)
{
  gguf_keys *keys = gguf_keys_new();
  if (c->model) gguf_put_text(keys, "tokenizer.ggml.model", c->model);
  if (c->pre) gguf_put_text(keys, "tokenizer.ggml.pre", c->pre);
  if (c->tokens) put_list(keys, "tokenizer.ggml.tokens", c->tokens);
  if (c->scores) gguf_put_reals(keys, "tokenizer.ggml.scores", c->scores, length_of(c->tokens));
  if (c->types) gguf_put_integers(keys, "tokenizer.ggml.token_type", c->types, length_of(c->tokens));
  if (c->merges) put_list(keys, "tokenizer.ggml.merges", c->merges);
  return keys;
}

static void expect_tokens(const alibi_tokenizer *t, bool special, bool control, const char *text,
                          const char *expected)
{
  alibi_encode_options options;
  uint32_t *ids;
  size_t count, used = 0;
  char found[500] = "";
  alibi_encode_options_init(&options);
  options.add_special = special;
  options.control = control;
  if (alibi_tokenizer_encode_with(t, &options, text, strlen(text), &ids, &count, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  for (size_t i = 0; i < count; i++)
    used += (size_t)snprintf(found + used, sizeof found - used, "%s%u", i ? " " : "", (unsigned)ids[i]);
  assert_string_equal(found, expected);
  alibi_tokens_free(ids);
}

static const char *const gpt2_tokens[] = {"a", "b", "ab", "\xc4\xa0", "<s>", "[x]", "<",    "s", ">",
                                          "1", "2", "12", "[",        "x",   "]",   "</s>", NULL};
static const int32_t gpt2_types[] = {1, 1, 1, 1, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3};
static const char *const gpt2_merges[] = {"a b", "1 2", NULL};

static void byte_level_bpe_by_hand(void **unused)
{
  (void)unused;
  const vocabulary_case c = {"gpt2", "gpt-2", gpt2_tokens, NULL, gpt2_types, gpt2_merges};
  gguf_keys *keys = keys_of(&c);
  gguf_put_integer(keys, "tokenizer.ggml.bos_token_id", GGUF_U32, 4);
  gguf_put_integer(keys, "tokenizer.ggml.eos_token_id", GGUF_U32, 15);
  gguf_put_boolean(keys, "tokenizer.ggml.add_bos_token", true);
  alibi_tokenizer *t = open_tokenizer(write_keys(keys, "gpt2.gguf"));
  expect_tokens(t, false, false, "ab ab12", "2 3 2 11");
  expect_tokens(t, true, false, "ab", "4 2");
  expect_tokens(t, false, false, "a<s>b", "0 6 7 8 1"); /* text is text ... */
  expect_tokens(t, false, true, "a<s>b", "0 4 1");      /* ... unless asked */
  expect_tokens(t, false, false, "a[x]b", "0 5 1");     /* user-defined ones always */
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_BEGIN), 4);
  assert_int_equal(alibi_tokenizer_special(t, ALIBI_SPECIAL_END), 15);
  assert_true(alibi_tokenizer_is_control(t, 4));
  assert_false(alibi_tokenizer_is_control(t, 5));
  alibi_tokenizer_free(t);
}

/* Digits one by one, where the name says so. */
static void the_name_says_how_texts_are_cut(void **unused)
{
  (void)unused;
  vocabulary_case c = {"gpt2", "refact", gpt2_tokens, NULL, gpt2_types, gpt2_merges};
  alibi_tokenizer *t = open_tokenizer(write_keys(keys_of(&c), "refact.gguf"));
  expect_tokens(t, false, false, "ab12", "2 9 10");
  alibi_tokenizer_free(t);
  for (size_t i = 0; gguf_pre_at(i); i++) { /* every name of the table is one that can be opened */
    char names[400], *rest = names;
    assert_true(strlen(gguf_pre_at(i)->names) < sizeof names);
    strcpy(names, gguf_pre_at(i)->names);
    for (char *name; (name = strtok(rest, " ")); rest = NULL) {
      c.pre = name;
      const gguf_pre *found = gguf_pre_named(name, strlen(name));
      assert_ptr_equal(found, gguf_pre_at(i));
      t = NULL;
      char file[80];
      snprintf(file, sizeof file, "pre-%s.gguf", name);
      gguf_keys *keys = keys_of(&c);
      const char *path = write_keys(keys, file);
      if (alibi_tokenizer_open(path, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
      expect_tokens(t, false, false, "ab", "2");
      alibi_tokenizer_free(t);
    }
  }
}

static void sentencepiece_by_hand(void **unused)
{
  (void)unused;
  static const char *const tokens[] = {"<unk>",
                                       "<s>",
                                       "</s>",
                                       "\xe2\x96\x81",
                                       "a",
                                       "b",
                                       "ab",
                                       "\xe2\x96\x81"
                                       "a",
                                       "s>",
                                       "<s",
                                       NULL};
  static const float scores[] = {0, 0, 0, -1, -2, -3, -0.5f, -0.75f, -1, -1};
  static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  const vocabulary_case c = {"llama", "default", tokens, scores, types, NULL};
  alibi_tokenizer *t = open_tokenizer(write_keys(keys_of(&c), "llama.gguf"));
  expect_tokens(t, true, false, "ab", "1 3 6"); /* ab has the better score, so the space stays alone */
  expect_tokens(t, false, false, "ac", "7 0");
  expect_tokens(t, false, false, "a<s>", "7 9 0"); /* of equals the leftmost */
  expect_tokens(t, false, true, "a<s>a", "7 1 7");
  alibi_tokenizer_free(t);
  gguf_keys *keys = keys_of(&c);
  gguf_put_boolean(keys, "tokenizer.ggml.add_space_prefix", false);
  gguf_put_boolean(keys, "tokenizer.ggml.add_bos_token", false);
  gguf_put_boolean(keys, "tokenizer.ggml.add_eos_token", true);
  t = open_tokenizer(write_keys(keys, "llama2.gguf"));
  expect_tokens(t, true, false, "a a", "4 7 2");
  alibi_tokenizer_free(t);
}

static void wordpiece_by_hand(void **unused)
{
  (void)unused;
  static const char *const tokens[] = {"[PAD]",
                                       "[UNK]",
                                       "[CLS]",
                                       "[SEP]",
                                       "\xe2\x96\x81ship",
                                       "s",
                                       "\xe2\x96\x81"
                                       "a",
                                       "\xe2\x96\x81,",
                                       NULL};
  static const int32_t types[] = {3, 2, 3, 3, 1, 1, 1, 1};
  const vocabulary_case c = {"bert", NULL, tokens, NULL, types, NULL};
  gguf_keys *keys = keys_of(&c);
  gguf_put_integer(keys, "tokenizer.ggml.cls_token_id", GGUF_U32, 2);
  gguf_put_integer(keys, "tokenizer.ggml.seperator_token_id", GGUF_U32, 3);
  gguf_put_integer(keys, "tokenizer.ggml.unknown_token_id", GGUF_U32, 1);
  alibi_tokenizer *t = open_tokenizer(write_keys(keys, "bert.gguf"));
  expect_tokens(t, true, false, "A SHIPS, as", "2 6 4 5 7 6 5 3");
  expect_tokens(t, false, false, "ship shipx", "4 1");
  alibi_tokenizer_free(t);
}

/* ---- refused ---- */

static void expect_refusal(gguf_keys *keys, const char *sentence)
{
  alibi_tokenizer *t = NULL;
  const char *path = write_keys(keys, "refused.gguf");
  assert_int_equal(alibi_tokenizer_open(path, &t, &error), ALIBI_BAD_INPUT);
  assert_null(t);
  if (!strstr(error.message, sentence) || !strstr(error.message, "refused.gguf"))
    fail_msg("expected '%s' in '%s'", sentence, error.message);
}

static void damage_is_named(void **unused)
{
  (void)unused;
  vocabulary_case c = {NULL, "gpt-2", gpt2_tokens, NULL, gpt2_types, gpt2_merges};
  expect_refusal(keys_of(&c), "tokenizer.ggml.model is missing");
  c.model = "rwkv";
  expect_refusal(keys_of(&c), "expected gpt2, llama, t5 or bert, found 'rwkv'");
  c.model = "gpt2";
  c.pre = "cuneiform";
  expect_refusal(keys_of(&c), "the pre-tokenizer 'cuneiform' is not known");
  c.pre = NULL;
  expect_refusal(keys_of(&c), "tokenizer.ggml.pre is missing");
  c.pre = "gpt-2";
  c.tokens = NULL;
  c.types = NULL;
  expect_refusal(keys_of(&c), "tokenizer.ggml.tokens");
  c.tokens = gpt2_tokens;
  c.merges = NULL;
  expect_refusal(keys_of(&c), "tokenizer.ggml.merges");
  c.merges = (const char *const[]){"ab", NULL};
  expect_refusal(keys_of(&c), "merge 0: expected two tokens");
  c.merges = (const char *const[]){"a b", "b a", NULL};
  expect_refusal(keys_of(&c), "merge 1");
  c.merges = gpt2_merges;
  gguf_keys *keys = keys_of(&c);
  gguf_put_integers(keys, "tokenizer.ggml.token_type", gpt2_types, 3);
  expect_refusal(keys, "expected a type for each of 16 tokens, found 3");
  c.model = "llama";
  expect_refusal(keys_of(&c), "tokenizer.ggml.scores");
  keys = keys_of(&c);
  gguf_put_reals(keys, "tokenizer.ggml.scores", (const float[]){1, 2}, 2);
  expect_refusal(keys, "expected a score for each of 16 tokens, found 2");
  c.model = "t5";
  keys = keys_of(&c);
  float scores[16] = {0};
  scores[3] = 0.0f / 0.0f;
  gguf_put_reals(keys, "tokenizer.ggml.scores", scores, 16);
  expect_refusal(keys, "its score is no finite number");
  scores[3] = 0;
  keys = keys_of(&c);
  gguf_put_reals(keys, "tokenizer.ggml.scores", scores, 16);
  expect_refusal(keys, "expected a piece for what is unknown");
}

/* Whatever the bytes are: refused with a sentence, or a tokenizer that encodes and decodes. */
static void damaged_files_are_refused_or_used(void **unused)
{
  (void)unused;
  static const char *const names[] = {"bpe_rules", "unigram_bytes"};
  for (size_t n = 0; n < 3; n++) {
    char path[1024] = __FILE__;
    mapped_file file;
    if (n < 2) {
      char *slash = strrchr(path, '/');
      snprintf(slash, sizeof path - (size_t)(slash - path), "/../golden/pieces/%s.model", names[n]);
      alibi_tokenizer *t = open_tokenizer(path);
      alibi_tokenizer_free(through_gguf(t));
      alibi_tokenizer_free(t);
    } else {
      const vocabulary_case c = {"gpt2", "llama-bpe", gpt2_tokens, NULL, gpt2_types, gpt2_merges};
      write_keys(keys_of(&c), "vocabulary.gguf");
    }
    assert_int_equal(mapped_file_open(scratch_path("vocabulary.gguf"), &file, &error), ALIBI_OK);
    unsigned char *copy = malloc(file.size);
    assert_non_null(copy);
    for (uint64_t i = 0; i < 300; i++) {
      alibi_tokenizer *t = NULL;
      uint32_t *ids;
      size_t count;
      memcpy(copy, file.data, file.size);
      for (uint64_t k = 0; k <= i % 3; k++)
        copy[random_below(n, i, 2 * k, file.size)] = (unsigned char)random_below(n, i, 2 * k + 1, 256);
      const char *damaged = scratch_path("damaged.gguf");
      scratch_write(damaged, copy, file.size);
      alibi_error_init(&error);
      status result = alibi_tokenizer_open(damaged, &t, &error);
      assert_true(result == ALIBI_OK ? t != NULL : result == ALIBI_BAD_INPUT && !t && error.message[0]);
      if (!t) continue;
      if (alibi_tokenizer_encode(t, "a [x]b12", 8, &ids, &count, &error) == ALIBI_OK) alibi_tokens_free(ids);
      alibi_tokenizer_free(t);
    }
    free(copy);
    mapped_file_close(&file);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(trained_tokenizers_come_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(sentencepiece_models_come_back, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(what_gguf_has_no_words_for_is_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(added_tokens_that_take_blanks_are_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(byte_level_bpe_by_hand, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_name_says_how_texts_are_cut, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(sentencepiece_by_hand, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(wordpiece_by_hand, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damage_is_named, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(rules_of_bpe_that_gguf_has_not_are_refused, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damaged_files_are_refused_or_used, setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
