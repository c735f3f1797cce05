/* The models Unigram, WordPiece and WordLevel of a tokenizer.json: cuts worked out by hand, unknown text, what is
 * refused; and the search tree under them against a plain list.  (Equality with the library: tests/golden.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "file/json.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const token_model token_model_unigram, token_model_wordpiece, token_model_wordlevel;

static alibi_error error;

static void *open_model(const token_model *model, const char *text)
{
  json_node *node;
  void *state = NULL;
  alibi_error_init(&error);
  assert_int_equal(node_parse(text, strlen(text), "t.json", &node, &error), ALIBI_OK);
  if (model->open(node, "t.json", &state, &error) != ALIBI_OK) fail_msg("%s", error.message);
  node_free(node);
  assert_non_null(state);
  return state;
}

static void expect_refusal(const token_model *model, const char *text, const char *sentence)
{
  json_node *node;
  void *state = NULL;
  alibi_error_init(&error);
  assert_int_equal(node_parse(text, strlen(text), "t.json", &node, &error), ALIBI_OK);
  assert_int_equal(model->open(node, "t.json", &state, &error), ALIBI_BAD_INPUT);
  assert_null(state);
  if (!strstr(error.message, sentence) || strncmp(error.message, "t.json: ", 8) != 0)
    fail_msg("expected '%s' in '%s'", sentence, error.message);
  node_free(node);
}

static void expect_ids(const token_model *model, const void *state, const char *text, const char *expected)
{
  token_list found = {0};
  char list[300] = "";
  size_t used = 0;
  alibi_error_init(&error);
  if (model->encode_piece(state, NULL, (const unsigned char *)text, strlen(text), &found, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  for (size_t i = 0; i < found.count; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", i ? " " : "", (unsigned)found.ids[i]);
  assert_string_equal(list, expected);
  free(found.ids);
}

static void expect_failure(const token_model *model, const void *state, const char *text, const char *sentence)
{
  token_list found = {0};
  alibi_error_init(&error);
  assert_int_equal(model->encode_piece(state, NULL, (const unsigned char *)text, strlen(text), &found, &error),
                   ALIBI_FAILED);
  if (!strstr(error.message, sentence)) fail_msg("expected '%s' in '%s'", sentence, error.message);
  free(found.ids);
}

/* Describing and opening again is the same model. */
static void *again(const token_model *model, void *state)
{
  json_node *node;
  void *opened = NULL;
  assert_int_equal(model->describe(state, &node, &error), ALIBI_OK);
  assert_int_equal(model->open(node, "again.json", &opened, &error), ALIBI_OK);
  node_free(node);
  model->free(state);
  return opened;
}

static void unigram_cuts_where_the_scores_say(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_unigram;
  void *u = open_model(m, "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"b\",-1.5],"
                          "[\"ab\",-2.25],[\"aba\",-3.0],[\"\xc3\xa9\",-1]]}");
  for (int i = 0; i < 2; i++) {
    expect_ids(m, u, "ab", "3");
    expect_ids(m, u, "aba", "4");
    expect_ids(m, u, "abab", "3 3"); /* -4.5, as aba b: what is found first stays */
    expect_ids(m, u, "xyz", "0");    /* one token for a run of unknown characters */
    expect_ids(m, u, "axb\xc3\xa9", "1 0 2 5");
    expect_ids(m, u,
               "\xe2\x82\xac\xf0\x9f\x98\x80"
               "a",
               "0 1");
    assert_int_equal(m->vocabulary(u), 6);
    assert_int_equal(m->unknown(u), 0);
    assert_int_equal(m->find(u, (const unsigned char *)"aba", 3), 4);
    u = again(m, u);
  }
  m->free(u);
}

/* Of two cuts of one sum the first found stays; the library reads x's neighbour of 17 digits as x (measured with
 * tokenizers 0.23.3), and so their sums are one.  A saved model is the same model. */
static void unigram_reads_scores_as_the_library(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_unigram;
  void *u = open_model(m, "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"x\",-3.283983770535571],"
                          "[\"z\",0],[\"xz\",-3.2839837705355714]]}");
  for (int round = 0; round < 2; round++) {
    expect_ids(m, u, "xz", "3");
    u = again(m, u);
  }
  m->free(u);
}

static void unigram_without_an_unknown_token(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_unigram;
  void *u = open_model(m, "{\"type\":\"Unigram\",\"unk_id\":null,\"vocab\":[[\"a\",-1]]}");
  expect_ids(m, u, "aa", "0 0");
  expect_failure(m, u, "ab", "no piece for 'b'");
  m->free(u);
  u = open_model(m, "{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,"
                    "\"vocab\":[[\"?\",-1],[\"<0x62>\",0],[\"<0x63>\",0],[\"a\",-1]]}");
  expect_ids(m, u, "abca", "3 1 2 3"); /* bytes, where all of the run have one */
  expect_ids(m, u, "abda", "3 0 3");   /* else unknown as a whole */
  m->free(u);
}

static void unigram_says_what_is_wrong(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_unigram;
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":{}}", "expected an array 'vocab'");
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}", "vocab 0: expected a piece and its score");
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}", "vocab 0: expected a piece and its score");
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":[[1,2]]}", "vocab 0: expected a piece and its score");
  expect_refusal(m, "{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}", "unk_id: expected an id below 1");
  expect_refusal(m, "{\"type\":\"Unigram\",\"unk_id\":-1,\"vocab\":[[\"a\",0]]}",
                 "unk_id: expected an id below 1");
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":[],\"nbest\":3}", "'nbest' is not understood");
  expect_refusal(m, "{\"type\":\"Unigram\",\"vocab\":[],\"byte_fallback\":3}",
                 "byte_fallback: expected true or false");
}

static void wordpiece_takes_the_longest(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_wordpiece;
  void *w = open_model(m, "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                          "\"max_input_chars_per_word\":8,\"vocab\":{\"[UNK]\":0,\"a\":1,\"ab\":2,\"##b\":3,"
                          "\"##bc\":4,\"\xc3\xa9\":5,\"##\xc3\xa9\":6,\"##\":7}}");
  for (int i = 0; i < 2; i++) {
    expect_ids(m, w, "abbc", "2 4");
    expect_ids(m, w, "abb", "2 3");
    expect_ids(m, w, "abc", "0"); /* greedy: ab, and then no ##c */
    expect_ids(m, w, "b", "0");
    expect_ids(m, w, "\xc3\xa9\xc3\xa9", "5 6");
    expect_ids(m, w, "abbbbbbb", "2 3 3 3 3 3 3");
    expect_ids(m, w, "abbbbbbbb", "0"); /* nine characters */
    expect_ids(m, w, "a##", "0");       /* the prefix itself is no piece of a text */
    w = again(m, w);
  }
  m->free(w);
  w = open_model(m, "{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}");
  expect_ids(m, w, "a", "0");
  expect_failure(m, w, "b", "its unknown token '[UNK]' is none");
  m->free(w);
  expect_refusal(m, "{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"max_input_chars_per_word\":-1}",
                 "max_input_chars_per_word");
  expect_refusal(m, "{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"merges\":[]}", "'merges' is not understood");
}

static void wordlevel_knows_words_or_not(void **unused)
{
  (void)unused;
  const token_model *m = &token_model_wordlevel;
  void *w = open_model(m, "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"the\":3,\"?\":7,\"ship\":0}}");
  for (int i = 0; i < 2; i++) {
    size_t size;
    expect_ids(m, w, "ship", "0");
    expect_ids(m, w, "ships", "7");
    assert_int_equal(m->vocabulary(w), 8); /* holes count ... */
    assert_null(m->spelling(w, 4, &size)); /* ... and have no spelling */
    w = again(m, w);
  }
  m->free(w);
  expect_refusal(m, "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":0}}", "id 0 is taken by 'a'");
  expect_refusal(m, "{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}", "expected an id from 0");
  expect_refusal(m, "{\"type\":\"WordLevel\",\"vocab\":{\"a\":2000000000}}", "expected an id from 0");
  expect_refusal(m, "{\"type\":\"WordLevel\",\"vocab\":{\"a\":\"0\"}}", "expected an id from 0");
  expect_refusal(m, "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":3}", "unk_token: expected a text");
}

static void the_tree_finds_what_a_list_finds(void **unused)
{
  (void)unused;
  for (uint64_t seed = 0; seed < 60; seed++) {
    enum { MOST = 300 };
    static unsigned char texts[MOST][8];
    trie_key keys[MOST];
    size_t count = random_below(seed, 0, 0, MOST), letters = 1 + random_below(seed, 0, 1, seed % 3 ? 4 : 256);
    for (size_t i = 0; i < count; i++) {
      size_t size = random_below(seed, 1, i, 8);
      for (size_t k = 0; k < size; k++) texts[i][k] = (unsigned char)random_below(seed, 2 + k, i, letters);
      keys[i] = (trie_key){texts[i], size, (uint32_t)i};
    }
    piece_trie trie;
    trie_key sorted[MOST];
    memcpy(sorted, keys, sizeof keys);
    assert_int_equal(piece_trie_build(&trie, sorted, count, &error), ALIBI_OK);
    for (size_t i = 0; i < 200; i++) {
      unsigned char text[8];
      size_t size = random_below(seed, 20, i, 9), length, best = 0;
      int32_t expected = TRIE_NONE;
      for (size_t k = 0; k < size; k++) text[k] = (unsigned char)random_below(seed, 21 + k, i, letters);
      for (size_t k = 0; k < count; k++) /* of equal ones the last */
        if (keys[k].size > 0 && keys[k].size <= size && keys[k].size >= best &&
            memcmp(keys[k].text, text, keys[k].size) == 0) {
          best = keys[k].size;
          expected = (int32_t)k;
        }
      assert_int_equal(piece_trie_longest(&trie, text, size, &length), expected);
      assert_int_equal(length, best);
    }
    piece_trie_free(&trie);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unigram_cuts_where_the_scores_say), cmocka_unit_test(unigram_reads_scores_as_the_library),
      cmocka_unit_test(unigram_without_an_unknown_token),  cmocka_unit_test(unigram_says_what_is_wrong),
      cmocka_unit_test(wordpiece_takes_the_longest),       cmocka_unit_test(wordlevel_knows_words_or_not),
      cmocka_unit_test(the_tree_finds_what_a_list_finds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
