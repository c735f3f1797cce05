/* Byte-level BPE against an implementation that is obvious and slow: training that recounts every pair at every
 * step, encoding that looks for the best pair from the left, cutting by hand.  And its file, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/random.h"
#include "text/bpe_model.h"
#include "text/tokenizer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

/* `size` bytes drawn from the letters. */
static void draw(unsigned char *text, size_t size, const char *letters, size_t letter_count, uint64_t seed)
{
  for (size_t i = 0; i < size; i++) text[i] = (unsigned char)letters[random_below(seed, 0, i, letter_count)];
}

static alibi_tokenizer *train(const void *text, size_t size, uint32_t vocabulary)
{
  alibi_tokenizer *made;
  const char *texts[1] = {text};
  if (alibi_tokenizer_train(texts, &size, 1, vocabulary, &made, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return made;
}

static alibi_tokenizer *train_text(const char *text, uint32_t vocabulary)
{
  return train(text, strlen(text), vocabulary);
}

static const bpe *model_of(const alibi_tokenizer *t)
{
  assert_string_equal(alibi_tokenizer_kind(t), "bpe");
  return t->state;
}

static void expect_token(const alibi_tokenizer *t, uint32_t id, const char *spelled)
{
  size_t size;
  const unsigned char *bytes = alibi_tokenizer_bytes(t, id, &size);
  assert_non_null(bytes);
  assert_int_equal(size, strlen(spelled));
  assert_memory_equal(bytes, spelled, size);
}

static void expect_round_trip(const alibi_tokenizer *t, const unsigned char *text, size_t size)
{
  uint32_t *tokens;
  size_t count, at = 0, length;
  if (alibi_tokenizer_encode(t, text, size, &tokens, &count, &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < count; i++) {
    const unsigned char *bytes = alibi_tokenizer_bytes(t, tokens[i], &length);
    assert_non_null(bytes);
    assert_true(length <= size - at);
    assert_memory_equal(bytes, text + at, length);
    at += length;
  }
  assert_int_equal(at, size);
  alibi_tokens_free(tokens);
}

/* --- training ------------------------------------------------------------------------------------------ */

static void a_small_example_by_hand(void **unused)
{
  (void)unused;
  /* " low" 5 times, " lower" 2, " newest" 6, " widest" 3.  The counts of the pairs, bytes as letters, _ the blank:
   * e s 9, s t 9, w e 8, _ l 7, l o 7, o w 7, _ n 6, n e 6, e w 6, the others 3 or 2. */
  alibi_tokenizer *t = train_text(" low low low low low lower lower newest newest newest newest newest newest"
                                  " widest widest widest",
                                  266);
  expect_token(t, 256, "es");      /* 9, as s t: e is before s.  Of w e 8 are left 2, w es is 6 */
  expect_token(t, 257, "est");     /* es t 9 */
  expect_token(t, 258, " l");      /* 7, as l o and o w: the blank is before letters */
  expect_token(t, 259, "ow");      /* 7, as " l" o: o is 111, " l" is 258 */
  expect_token(t, 260, " low");    /* 7 */
  expect_token(t, 261, " n");      /* 6, as n e, e w, w est */
  expect_token(t, 262, "ew");      /* 6, as w est and " n" e: e is before w and 261 */
  expect_token(t, 263, " new");    /* 6, as ew est: 261 is before 262 */
  expect_token(t, 264, " newest"); /* 6 */
  expect_token(t, 265, " w");      /* 3, as w i, i d, d est */
  assert_int_equal(alibi_tokenizer_vocabulary(t), 266);
  alibi_tokenizer_free(t);
}

static void ties_go_to_the_smaller_ids(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = train_text("zy zy\nba ba\nbc bc", 259);
  /* Words: zy, " zy", "ba", " ba", "bc", " bc" and the newlines: every inner pair twice, " b" twice, " z" once. */
  expect_token(t, 256, " b");
  expect_token(t, 257, "zy");
  assert_int_equal(alibi_tokenizer_vocabulary(t), 258); /* now b a, b c, " b" a, " b" c, " " zy are once each */
  alibi_tokenizer_free(t);
}

static void merges_do_not_cross_pieces(void **unused)
{
  (void)unused;
  /* x1 is frequent, but a letter and a digit are never in one piece. */
  alibi_tokenizer *t = train_text("x1x1x1x1x1", 300);
  assert_int_equal(alibi_tokenizer_vocabulary(t), 256);
  alibi_tokenizer_free(t);
}

/* The slow trainer.  Words as arrays of ids; every pair counted anew for every merge. */
typedef struct slow_word {
  uint32_t ids[256];
  size_t size;
} slow_word;

static size_t count_pair(const slow_word *words, size_t count, uint32_t left, uint32_t right)
{
  size_t found = 0;
  for (size_t w = 0; w < count; w++)
    for (size_t i = 0; i + 1 < words[w].size; i++)
      found += words[w].ids[i] == left && words[w].ids[i + 1] == right;
  return found;
}

static size_t most_frequent_pair(const slow_word *words, size_t count, uint32_t *left, uint32_t *right)
{
  size_t best = 0;
  for (size_t w = 0; w < count; w++) {
    for (size_t i = 0; i + 1 < words[w].size; i++) {
      uint32_t l = words[w].ids[i], r = words[w].ids[i + 1];
      if (best && l == *left && r == *right) continue;
      size_t found = count_pair(words, count, l, r);
      if (found < best || (found == best && (l > *left || (l == *left && r > *right)))) continue;
      best = found;
      *left = l;
      *right = r;
    }
  }
  return best;
}

static void merge_in_word(slow_word *word, uint32_t left, uint32_t right, uint32_t merged)
{
  size_t kept = 0;
  for (size_t i = 0; i < word->size; i++) {
    bool here = i + 1 < word->size && word->ids[i] == left && word->ids[i + 1] == right;
    word->ids[kept++] = here ? merged : word->ids[i];
    i += here;
  }
  word->size = kept;
}

/* Text of letters and single blanks, so that a piece is a blank and the letters after it. */
static void compare_with_slow_training(const unsigned char *text, size_t size, uint32_t vocabulary)
{
  alibi_tokenizer *t = train(text, size, vocabulary);
  const bpe *model = model_of(t);
  slow_word *words = calloc(size + 1, sizeof *words);
  assert_non_null(words);
  size_t count = 0, merges = 0;
  for (size_t i = 0; i < size; i++) {
    if (i == 0 || text[i] == ' ') count++;
    slow_word *word = &words[count - 1];
    assert_true(word->size < 256);
    word->ids[word->size++] = text[i];
  }
  uint32_t left = 0, right = 0;
  for (; 256 + merges < vocabulary && most_frequent_pair(words, count, &left, &right) >= 2; merges++) {
    assert_true(merges < model->merge_count);
    assert_int_equal(model->merges[merges].left, left);
    assert_int_equal(model->merges[merges].right, right);
    assert_int_equal(model->merges[merges].result, 256 + merges);
    for (size_t w = 0; w < count; w++) merge_in_word(&words[w], left, right, (uint32_t)(256 + merges));
  }
  assert_int_equal(merges, model->merge_count);
  assert_int_equal(256 + merges, alibi_tokenizer_vocabulary(t));
  free(words);
  alibi_tokenizer_free(t);
}

/* Few letters give runs: "aaa" holds a a twice, but is one merge. */
static void training_equals_the_slow_one(void **unused)
{
  (void)unused;
  static const struct {
    const char *letters;
    size_t count;
  } alphabets[] = {{"aaaab ", 6}, {"ab ", 3}, {"abcd ", 5}, {"aaaaaaaaaaaaaaab ", 17}, {"ababababababababc ", 18}};
  unsigned char text[1200];
  for (uint64_t seed = 0; seed < 60; seed++) {
    size_t kind = seed % 5, size = 60 + 19 * seed;
    draw(text, size, alphabets[kind].letters, alphabets[kind].count, seed);
    for (size_t i = 0; i < size; i++) {
      if (i % 199 == 0) text[i] = ' ';
      if (i > 0 && text[i] == ' ' && text[i - 1] == ' ') text[i] = 'a';
    }
    compare_with_slow_training(text, size, 256 + 40 + (uint32_t)seed);
  }
}

static void training_is_deterministic(void **unused)
{
  (void)unused;
  unsigned char text[4000];
  draw(text, sizeof text, "etaoin shrdlu\n", 14, 7);
  alibi_tokenizer *whole = train(text, sizeof text, 500), *again = train(text, sizeof text, 500), *halves;
  /* In two texts, cut where a piece ends, and the other way round: the counts are the same, so is the result. */
  size_t cut = 2000;
  while (text[cut] != '\n' || text[cut - 1] == '\n' || text[cut - 1] == ' ' || text[cut + 1] == '\n' ||
         text[cut + 1] == ' ')
    cut++;
  const char *texts[2] = {(const char *)text + cut, (const char *)text};
  size_t sizes[2] = {sizeof text - cut, cut};
  assert_int_equal(alibi_tokenizer_train(texts, sizes, 2, 500, &halves, &error), ALIBI_OK);
  const char *paths[3] = {scratch_path("a.json"), scratch_path("b.json"), scratch_path("c.json")};
  assert_int_equal(alibi_tokenizer_save(whole, paths[0], &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_save(again, paths[1], &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_save(halves, paths[2], &error), ALIBI_OK);
  char *content = scratch_read(paths[0]);
  scratch_expect(paths[1], content);
  scratch_expect(paths[2], content);
  free(content);
  alibi_tokenizer_free(whole);
  alibi_tokenizer_free(again);
  alibi_tokenizer_free(halves);
}

static void without_merges_it_is_bytes(void **unused)
{
  (void)unused;
  alibi_tokenizer *smallest = train_text("aa aa aa aa", 256), *empty = train_text("", 1000), *none;
  assert_string_equal(alibi_tokenizer_kind(smallest), "bytes");
  assert_int_equal(alibi_tokenizer_vocabulary(smallest), 256);
  assert_string_equal(alibi_tokenizer_kind(empty), "bytes");
  assert_int_equal(alibi_tokenizer_train(NULL, NULL, 0, 1000, &none, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_vocabulary(none), 256);
  alibi_tokenizer_free(smallest);
  alibi_tokenizer_free(empty);
  alibi_tokenizer_free(none);
}

static void a_vocabulary_out_of_range_is_refused(void **unused)
{
  (void)unused;
  alibi_tokenizer *t;
  const char *texts[1] = {"a"};
  size_t size = 1;
  assert_int_equal(alibi_tokenizer_train(texts, &size, 1, 255, &t, &error), ALIBI_INVALID);
  assert_null(t);
  scratch_says(error.message, "256 to 1000000, found 255");
  assert_int_equal(alibi_tokenizer_train(texts, &size, 1, 1000001, &t, &error), ALIBI_INVALID);
  assert_int_equal(alibi_tokenizer_train(NULL, &size, 1, 300, &t, &error), ALIBI_INVALID);
}

/* --- encoding ------------------------------------------------------------------------------------------ */

static void any_bytes_come_back(void **unused)
{
  (void)unused;
  unsigned char text[5000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)random_below(1, 0, i, 256);
  alibi_tokenizer *t = train(text, sizeof text, 400);
  for (size_t size = 0; size < 600; size++) expect_round_trip(t, text + size, size);
  for (uint64_t seed = 0; seed < 40; seed++) { /* lead and tail bytes of UTF-8, whole and broken */
    draw(text, sizeof text, "a \xe4\xb8\xad\xc3\xa9\xf0\x9f\x98\x80\xed\xa0\x80\xc0\xaf\xff", 18, seed);
    expect_round_trip(t, text, sizeof text);
  }
  alibi_tokenizer_free(t);
}

static void an_empty_text_has_no_tokens(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = train_text("aa aa", 300);
  uint32_t *tokens = NULL;
  size_t count = 1;
  assert_int_equal(alibi_tokenizer_encode(t, "", 0, &tokens, &count, &error), ALIBI_OK);
  assert_int_equal(count, 0);
  assert_non_null(tokens);
  alibi_tokens_free(tokens);
  alibi_tokenizer_free(t);
}

/* One piece; the pair of lowest rank, leftmost first, until none has a rank. */
static size_t encode_slowly(const bpe *b, const unsigned char *text, size_t size, uint32_t *ids)
{
  for (size_t i = 0; i < size; i++) ids[i] = b->byte_token[text[i]];
  for (;;) {
    size_t at = 0;
    uint32_t best = PAIR_ABSENT;
    for (size_t i = 0; i + 1 < size; i++) {
      uint32_t rank = PAIR_ABSENT;
      for (uint32_t k = 0; k < b->merge_count; k++)
        if (b->merges[k].left == ids[i] && b->merges[k].right == ids[i + 1]) rank = k;
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == PAIR_ABSENT) return size;
    ids[at] = b->merges[best].result;
    memmove(ids + at + 1, ids + at + 2, (size - at - 2) * sizeof *ids);
    size--;
  }
}

/* Around 64 bytes the way of merging changes. */
static void encoding_equals_the_slow_one(void **unused)
{
  (void)unused;
  static const size_t sizes[] = {1, 2, 3, 7, 31, 63, 64, 65, 66, 100, 255};
  unsigned char text[3000];
  uint32_t expected[255], *tokens;
  size_t count;
  draw(text, sizeof text, "aaab ", 5, 99);
  alibi_tokenizer *t = train(text, sizeof text, 330);
  const bpe *model = model_of(t);
  for (uint64_t seed = 0; seed < 10; seed++) {
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      draw(text, sizes[k], seed % 2 ? "aaab" : "ab", seed % 2 ? 4 : 2, 1000 + seed);
      size_t expected_count = encode_slowly(model, text, sizes[k], expected);
      assert_int_equal(alibi_tokenizer_encode(t, text, sizes[k], &tokens, &count, &error), ALIBI_OK);
      assert_int_equal(count, expected_count);
      assert_memory_equal(tokens, expected, count * sizeof *tokens);
      alibi_tokens_free(tokens);
    }
  }
  alibi_tokenizer_free(t);
}

/* A quadratic way would take minutes here. */
static void a_long_run_of_one_letter(void **unused)
{
  (void)unused;
  size_t size = 1000003, count, length;
  unsigned char *text = malloc(size);
  assert_non_null(text);
  memset(text, 'a', size);
  alibi_tokenizer *t = train(text, size, 1000);
  /* aa, aaaa, ... up to 1024 letters, and no farther. */
  assert_int_equal(alibi_tokenizer_vocabulary(t), 256 + 10);
  expect_token(t, 257, "aaaa");
  expect_round_trip(t, text, size);
  uint32_t *tokens;
  assert_int_equal(alibi_tokenizer_encode(t, text, size, &tokens, &count, &error), ALIBI_OK);
  assert_int_equal(count, size / 1024 + 4); /* 1000003 = 976 * 1024 + 512 + 64 + 2 + 1 */
  alibi_tokenizer_bytes(t, tokens[0], &length);
  assert_int_equal(length, 1024);
  alibi_tokens_free(tokens);
  alibi_tokenizer_free(t);
  free(text);
}

/* Text, and the pieces it falls into, divided by |. */
static void text_is_cut_as_gpt2_cuts_it(void **unused)
{
  (void)unused;
  static const char *const cases[] = {
      "Hello| world",
      "don|'t| we|'ll| I|'m| they|'ve| you|'re| he|'d| it|'s",
      "'|S|'s", /* only small letters; an apostrophe that opens nothing goes alone */
      "a|  | b|   ",
      "a| \n|\n|b",
      "x|\t|y|\r|\n|z", /* the last blank before what is none goes alone */
      "12|abc|34| 56| ,.!| a",
      "_|under|__|score|_",
      "caf\xc3\xa9| \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82",   /* letters of any script */
      "a|\xc2\xa0|b|\xc2\xa0|\xc2\xa0|c",                     /* no-break spaces are blanks, but not the blank */
      "a|\xc2\x85|b|\xe3\x80\x80|c",                          /* U+0085, U+3000 */
      "a|\xe1\xa0\x8e|b",                                     /* U+180E is a blank no more */
      "e|\xcc\x81|x",                                         /* a combining mark is no letter */
      "a|\xff\xfe|b| |\xc3|\xc3\xa9",                         /* bytes that are not UTF-8 */
      " |\xed\xa0\x80|x| |\xf4\x90\x80\x80|\xf0\x9f\x98\x80", /* surrogates, beyond U+10FFFF */
  };
  splitter *pattern;
  assert_int_equal(splitter_new(&pattern, &error), ALIBI_OK);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    unsigned char text[128];
    size_t size = 0, start, length, at = 0;
    for (const char *p = cases[c]; *p; p++)
      if (*p != '|') text[size++] = (unsigned char)*p;
    split_walk walk;
    assert_int_equal(split_begin(&walk, pattern, text, size, &error), ALIBI_OK);
    char found[256] = "";
    size_t used = 0;
    for (;;) {
      assert_int_equal(split_next(&walk, &start, &length, &error), ALIBI_OK);
      if (length == 0) break;
      assert_int_equal(start, at);
      if (at > 0) found[used++] = '|';
      memcpy(found + used, text + start, length);
      used += length;
      at += length;
    }
    found[used] = '\0';
    split_end(&walk);
    assert_int_equal(at, size);
    assert_string_equal(found, cases[c]);
  }
  splitter_free(pattern);
}

/* --- files --------------------------------------------------------------------------------------------- */

static char *saved_content(const char *path)
{
  alibi_tokenizer *t =
      train_text("she sells sea shells by the sea shore, the shells she sells are sea shells", 264);
  if (alibi_tokenizer_save(t, path, &error) != ALIBI_OK) fail_msg("%s", error.message);
  alibi_tokenizer_free(t);
  return scratch_read(path);
}

static void saved_opened_and_saved_it_is_the_same(void **unused)
{
  (void)unused;
  const char *path = scratch_path("one.json"), *second = scratch_path("two.json");
  char *content = saved_content(path);
  alibi_tokenizer *t;
  if (alibi_tokenizer_open(path, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_string_equal(alibi_tokenizer_kind(t), "bpe");
  assert_int_equal(alibi_tokenizer_vocabulary(t), 264);
  assert_int_equal(alibi_tokenizer_save(t, second, &error), ALIBI_OK);
  scratch_expect(second, content);
  free(content);
  alibi_tokenizer_free(t);
}

/* The content with its first `old` replaced. */
static char *replaced(const char *content, const char *old, const char *new)
{
  const char *at = strstr(content, old);
  if (!at) fail_msg("the file does not hold %s", old);
  char *changed = malloc(strlen(content) + strlen(new) + 1);
  assert_non_null(changed);
  sprintf(changed, "%.*s%s%s", (int)(at - content), content, new, at + strlen(old));
  return changed;
}

static status open_content(const char *content, size_t size, alibi_tokenizer **t)
{
  const char *path = scratch_path("changed.json");
  scratch_write(path, content, size);
  alibi_error_init(&error);
  status found = alibi_tokenizer_open(path, t, &error);
  if (found != ALIBI_OK) {
    assert_null(*t);
    scratch_says(error.message, "changed.json");
  }
  return found;
}

static void merges_may_be_arrays(void **unused)
{
  (void)unused;
  char *content = saved_content(scratch_path("plain.json"));
  char *changed = replaced(content, "\"h e\"", "[\"h\", \"e\"]");
  alibi_tokenizer *t;
  if (open_content(changed, strlen(changed), &t) != ALIBI_OK) fail_msg("%s", error.message);
  const char *again = scratch_path("again.json");
  assert_int_equal(alibi_tokenizer_save(t, again, &error), ALIBI_OK);
  scratch_expect(again, content);
  alibi_tokenizer_free(t);
  free(changed);
  free(content);
}

static void wrong_files_are_refused_in_a_sentence(void **unused)
{
  (void)unused;
  static const struct {
    const char *old, *new, *says;
  } cases[] = {
      {"\"version\": \"1.0\"", "\"version\": \"2.0\"", "version: expected '1.0', found '2.0'"},
      {"\"post_processor\": null", "\"post_processor\": {\"type\": \"TemplateProcessing\"}", "'single'"},
      {"\"use_regex\": true", "\"use_regexp\": true", "'use_regexp'"},
      {"\"type\": \"BPE\"", "\"type\": \"Monogram\"", "type 'Monogram' is not supported"},
      {"\"model\": {", "\"modell\": {", "'modell'"},
      {"\"dropout\": null", "\"dropout\": 0.1", "dropout"},
      {"\"ignore_merges\": false", "\"speed\": 3", "'speed'"},
      {"\"vocab\": {", "\"vocab\": null, \"other\": {", "'other'"},
      {"\"a\": 97", "\"a\": 98", "id 98 is taken"},
      {"\"a\": 97", "\"a\": -1", "expected an id from 0"},
      {"\"a\": 97", "\"a\": 9999999", "expected an id from 0"},
      {"\"a\": 97", "\"a\": 97.5", "expected an id from 0"},
      {"\"a\": 97", "\"a\": \"97\"", "expected an id from 0"},
      {"\"h e\"", "\"h  e\"", "expected two tokens"},
      {"\"h e\"", "\"he\"", "expected two tokens"},
      {"\"h e\"", "\"h zz\"", "'zz' is not in the vocabulary"},
      {"\"h e\"", "\"h z\"", "'hz' is not in the vocabulary"},
      {"\"h e\"", "[\"h\"]", "expected two tokens"},
      {"\"h e\"", "[\"h\", 5]", "expected two tokens"},
      {"\"h e\"", "7", "expected two tokens"},
  };
  char *content = saved_content(scratch_path("good.json"));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_tokenizer *t;
    char *changed = replaced(content, cases[i].old, cases[i].new);
    if (open_content(changed, strlen(changed), &t) != ALIBI_BAD_INPUT) fail_msg("accepted: %s", cases[i].new);
    scratch_says(error.message, cases[i].says);
    free(changed);
  }
  free(content);
}

static void what_training_does_not_write_is_a_pipeline(void **unused)
{
  (void)unused;
  static const char *const cases[][2] = {
      {"\"truncation\": null", "\"truncation\": {\"max_length\": 5}"},
      {"\"padding\": null", "\"padding\": {}"},
      {"\"added_tokens\": []", "\"added_tokens\": [{\"id\": 264, \"content\": \"<s>\"}]"},
      {"\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"},
      {"\"add_prefix_space\": false", "\"add_prefix_space\": true"},
      {"\"use_regex\": true", "\"use_regex\": false"},
      {"\"unk_token\": null", "\"unk_token\": \"h\""},
      {"\"ignore_merges\": false", "\"ignore_merges\": true"},
      {"\"z\": 122", "\"zz\": 122"},   /* a byte without a token */
      {"\"z\": 122", "\"a b\": 122"},  /* a token of none of ByteLevel's characters */
      {"\"z\": 122", "\"z\": 300"},    /* a hole */
      {"\"h e\"", "\"h e\", \"h e\""}, /* a merge twice */
  };
  char *content = saved_content(scratch_path("good.json"));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_tokenizer *t;
    char *changed = replaced(content, cases[i][0], cases[i][1]);
    if (open_content(changed, strlen(changed), &t) != ALIBI_OK) fail_msg("%s: %s", cases[i][1], error.message);
    assert_string_equal(alibi_tokenizer_kind(t), "pipeline");
    alibi_tokenizer_free(t);
    free(changed);
  }
  free(content);
}

static void no_truncation_and_no_flipped_byte_crashes(void **unused)
{
  (void)unused;
  char *content = saved_content(scratch_path("whole.json"));
  size_t size = strlen(content), whole = size;
  alibi_tokenizer *t;
  while (whole > 0 && content[whole - 1] != '}') whole--;
  for (size_t cut = 0; cut < whole; cut += cut < 600 || whole - cut < 600 ? 7 : 53)
    assert_int_equal(open_content(content, cut, &t), ALIBI_BAD_INPUT);
  for (uint64_t i = 0; i < 400; i++) {
    size_t at = (size_t)random_below(5, 0, i, size);
    char kept = content[at];
    content[at] = (char)random_below(5, 1, i, 256);
    status found = open_content(content, size, &t);
    assert_true(found == ALIBI_OK || found == ALIBI_BAD_INPUT);
    if (found == ALIBI_OK && strcmp(alibi_tokenizer_kind(t), "bpe") == 0)
      expect_round_trip(t, (const unsigned char *)"the sea shells", 14);
    if (found == ALIBI_OK) alibi_tokenizer_free(t);
    content[at] = kept;
  }
  free(content);
}

static void a_missing_file_is_a_sentence(void **unused)
{
  (void)unused;
  alibi_tokenizer *t;
  assert_int_equal(alibi_tokenizer_open(scratch_path("nowhere.json"), &t, &error), ALIBI_BAD_INPUT);
  assert_null(t);
  scratch_says(error.message, "nowhere.json");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_example_by_hand),
      cmocka_unit_test(ties_go_to_the_smaller_ids),
      cmocka_unit_test(merges_do_not_cross_pieces),
      cmocka_unit_test(training_equals_the_slow_one),
      cmocka_unit_test(training_is_deterministic),
      cmocka_unit_test(without_merges_it_is_bytes),
      cmocka_unit_test(a_vocabulary_out_of_range_is_refused),
      cmocka_unit_test(any_bytes_come_back),
      cmocka_unit_test(an_empty_text_has_no_tokens),
      cmocka_unit_test(encoding_equals_the_slow_one),
      cmocka_unit_test(a_long_run_of_one_letter),
      cmocka_unit_test(text_is_cut_as_gpt2_cuts_it),
      cmocka_unit_test(saved_opened_and_saved_it_is_the_same),
      cmocka_unit_test(merges_may_be_arrays),
      cmocka_unit_test(wrong_files_are_refused_in_a_sentence),
      cmocka_unit_test(what_training_does_not_write_is_a_pipeline),
      cmocka_unit_test(no_truncation_and_no_flipped_byte_crashes),
      cmocka_unit_test(a_missing_file_is_a_sentence),
  };
  return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
