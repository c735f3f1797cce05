/* SentencePiece vocabularies against implementations that are obvious and slow: BPE that looks for the best pair
 * from the left at every step, unigram over all cuts of a short text.  And the laws: control pieces never come
 * from text, what is saved opens again, damaged models never crash.  (Equality with the library: tests/golden.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/random.h"
#include "base/system.h"
#include "text/sentencepiece.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static const char *golden(const char *name)
{
  static char path[1024];
  strcpy(path, __FILE__);
  char *slash = strrchr(path, '/');
  assert_non_null(slash);
  snprintf(slash, sizeof path - (size_t)(slash - path), "/../golden/pieces/%s.model", name);
  return path;
}

typedef struct word {
  char text[16];
  float score;
  int type;
} word;

static sentencepiece *make(sentencepiece_kind kind, const word *words, size_t count)
{
  sentencepiece *s;
  assert_int_equal(sentencepiece_new(count, &s, &error), ALIBI_OK);
  s->kind = kind;
  s->dummy_prefix = s->trim_spaces = false;
  for (uint32_t id = 0; id < count; id++)
    assert_int_equal(sentencepiece_set(s, id, words[id].text, strlen(words[id].text), words[id].score,
                                       (piece_type)words[id].type, "by hand", &error),
                     ALIBI_OK);
  if (sentencepiece_finish(s, "by hand", &error) != ALIBI_OK) fail_msg("%s", error.message);
  return s;
}

/* Words over "ab_" ('_' is the space), each with a score of few values, so that there are ties; two words of one
 * text would be refused by no one here: the later one counts. */
static size_t draw_words(uint64_t seed, word *words, size_t most)
{
  static const char *const letters[] = {"a", "b", "\xe2\x96\x81"};
  size_t count = 0;
  words[count++] = (word){"<unk>", 0, PIECE_UNKNOWN};
  for (size_t i = 0; count < most; i++) {
    word w = {"", -(float)(1 + random_below(seed, 1, i, 6)), PIECE_NORMAL};
    size_t length = 1 + random_below(seed, 2, i, i < 2 ? 1 : 4);
    for (size_t k = 0; k < length; k++) strcat(w.text, letters[random_below(seed, 3 + k, i, 3)]);
    bool there = false;
    for (size_t k = 0; k < count; k++) there |= strcmp(words[k].text, w.text) == 0;
    if (!there) words[count++] = w;
  }
  return count;
}

static int id_of(const word *words, size_t count, const char *text, size_t size)
{
  for (size_t i = 1; i < count; i++)
    if (strlen(words[i].text) == size && memcmp(words[i].text, text, size) == 0) return (int)i;
  return -1;
}

static size_t width(char first)
{
  return (unsigned char)first == 0xe2 ? 3 : 1;
}

static size_t slow_bpe(const word *words, size_t count, const char *text, uint32_t *ids)
{
  size_t start[64], symbols = 0, made = 0;
  for (size_t i = 0; text[i]; i += width(text[i])) start[symbols++] = i;
  start[symbols] = strlen(text);
  for (;;) {
    int best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols; i++) {
      int id = id_of(words, count, text + start[i], start[i + 2] - start[i]);
      if (id >= 0 && (best < 0 || words[id].score > words[best].score)) {
        best = id;
        at = i;
      }
    }
    if (best < 0) break;
    memmove(start + at + 1, start + at + 2, (symbols - at) * sizeof *start);
    symbols--;
  }
  for (size_t i = 0; i < symbols; i++) {
    int id = id_of(words, count, text + start[i], start[i + 1] - start[i]);
    if (id >= 0) ids[made++] = (uint32_t)id;
    else if (made == 0 || ids[made - 1] != 0) ids[made++] = 0;
  }
  return made;
}

/* The best sum over all cuts; characters that are no piece cost ten more than the worst one. */
static double slow_unigram(const word *words, size_t count, const char *text)
{
  if (!*text) return 0;
  double best = -1e300, worst = 0;
  for (size_t i = 1; i < count; i++)
    if (words[i].score < worst) worst = words[i].score;
  for (size_t size = 1; size <= strlen(text); size++) {
    int id = id_of(words, count, text, size);
    bool single = size == width(*text);
    if (id < 0 && !single) continue;
    double sum = (id < 0 ? worst - 10 : words[id].score) + slow_unigram(words, count, text + size);
    if (sum > best) best = sum;
  }
  return best;
}

static void draw_text(uint64_t seed, size_t most, char *text)
{
  static const char *const letters[] = {"a", "b", "\xe2\x96\x81", "a", "b", "c"};
  size_t length = random_below(seed, 0, 0, most + 1);
  *text = '\0';
  for (size_t i = 0; i < length; i++) strcat(text, letters[random_below(seed, 1, i, 6)]);
}

static void bpe_is_that_of_the_slow_way(void **unused)
{
  (void)unused;
  for (uint64_t seed = 0; seed < 300; seed++) {
    word words[20];
    size_t count = draw_words(seed, words, 6 + seed % 13);
    sentencepiece *s = make(SENTENCEPIECE_BPE, words, count);
    for (uint64_t i = 0; i < 20; i++) {
      char text[200];
      uint32_t expected[64];
      token_list found = {0};
      draw_text(seed * 1000 + i, 30, text);
      size_t expected_count = slow_bpe(words, count, text, expected);
      assert_int_equal(sentencepiece_encode(s, (const unsigned char *)text, strlen(text), &found, &error),
                       ALIBI_OK);
      assert_int_equal(found.count, expected_count);
      if (expected_count > 0) assert_memory_equal(found.ids, expected, expected_count * sizeof *expected);
      free(found.ids);
    }
    sentencepiece_free(s);
  }
}

static void unigram_has_the_best_of_all_sums(void **unused)
{
  (void)unused;
  for (uint64_t seed = 0; seed < 150; seed++) {
    word words[20];
    size_t count = draw_words(seed, words, 6 + seed % 13);
    sentencepiece *s = make(SENTENCEPIECE_UNIGRAM, words, count);
    unigram_lattice lattice = {0};
    for (uint64_t i = 0; i < 10; i++) {
      char text[200];
      double sum = 0, own = 0;
      draw_text(seed * 1000 + i, 10, text);
      size_t size = strlen(text);
      assert_int_equal(unigram_cut(&s->lattice, &lattice, (const unsigned char *)text, size, &sum, &error),
                       ALIBI_OK);
      assert_true(sum == slow_unigram(words, count, text)); /* whole numbers: no rounding */
      for (size_t at = 0; at < size; at = lattice.nodes[at].next) {
        uint32_t id = lattice.nodes[lattice.nodes[at].next].id;
        own += id == 0 ? s->lattice.unknown_score : words[id].score;
      }
      assert_true(own == sum);
    }
    free(lattice.nodes);
    sentencepiece_free(s);
  }
}

static void expect_ids(const sentencepiece *s, const char *text, const char *expected)
{
  token_list found = {0};
  char list[300] = "";
  size_t used = 0;
  if (sentencepiece_encode(s, (const unsigned char *)text, strlen(text), &found, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  for (size_t i = 0; i < found.count; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", i ? " " : "", (unsigned)found.ids[i]);
  assert_string_equal(list, expected);
  free(found.ids);
}

static void every_type_of_piece_has_its_part(void **unused)
{
  (void)unused;
  static const word words[] = {{"<unk>", 0, PIECE_UNKNOWN}, {"<s>", 0, PIECE_CONTROL}, {"<", -1, PIECE_NORMAL},
                               {"s", -1, PIECE_NORMAL},     {">", -1, PIECE_NORMAL},   {"<s", -1, PIECE_NORMAL},
                               {"[u]", 0, PIECE_USER},      {"[u", 0, PIECE_USER},     {"ss", -2, PIECE_UNUSED},
                               {"sss", -3, PIECE_NORMAL},   {"z", 0, PIECE_CONTROL}};
  sentencepiece *s = make(SENTENCEPIECE_BPE, words, sizeof words / sizeof words[0]);
  expect_ids(s, "<s>", "5 4"); /* never the control piece */
  expect_ids(s, "z", "0");
  expect_ids(s, "s[u]s[u", "3 6 3 7");
  expect_ids(s, "ss", "3 3");   /* the unused piece comes apart again */
  expect_ids(s, "sss", "9");    /* but a merge passed through it */
  expect_ids(s, "xyxs", "0 3"); /* one for a run of unknown characters */
  sentencepiece_free(s);
}

static void spaces_are_treated_as_the_flags_say(void **unused)
{
  (void)unused;
  static const word words[] = {
      {"<unk>", 0, PIECE_UNKNOWN}, {"\xe2\x96\x81", -1, PIECE_NORMAL}, {"a", -1, PIECE_NORMAL}};
  struct {
    bool dummy, trim, last;
    const char *text, *expected;
  } cases[] = {
      {false, false, false, " a  a ", "1 2 1 1 2 1"},
      {true, false, false, " a", "1 1 2"},
      {true, true, false, "  a   a  ", "1 2 1 2"},
      {false, true, false, "  a   a  ", "2 1 2"},
      {true, true, true, " a a ", "2 1 2 1"},
      {true, true, false, "   ", ""},
      {true, false, false, "", ""},
      {true, false, false, " ", "1 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sentencepiece *s = make(SENTENCEPIECE_BPE, words, 3);
    s->dummy_prefix = cases[i].dummy;
    s->trim_spaces = cases[i].trim;
    s->space_last = cases[i].last;
    expect_ids(s, cases[i].text, cases[i].expected);
    sentencepiece_free(s);
  }
}

/* A word without a place to cut, as long as a file: memory and time that a text of words takes, or little more. */
static void a_word_may_be_very_long(void **unused)
{
  (void)unused;
  static const word words[] = {
      {"<unk>", 0, PIECE_UNKNOWN}, {"a", -3, PIECE_NORMAL}, {"aa", -2, PIECE_NORMAL}, {"aaaa", -1, PIECE_NORMAL}};
  enum { SIZE = 400000 };
  char *text = malloc(SIZE);
  assert_non_null(text);
  memset(text, 'a', SIZE);
  for (int kind = SENTENCEPIECE_UNIGRAM; kind <= SENTENCEPIECE_BPE; kind++) {
    sentencepiece *s = make((sentencepiece_kind)kind, words, 4);
    token_list found = {0};
    assert_int_equal(sentencepiece_encode(s, (const unsigned char *)text, SIZE, &found, &error), ALIBI_OK);
    assert_int_equal(found.count, SIZE / 4);
    free(found.ids);
    sentencepiece_free(s);
  }
  free(text);
}

static void what_is_saved_opens_again(void **unused)
{
  (void)unused;
  static const char *const names[] = {"bpe_llama", "bpe_rules", "bpe_last", "unigram_rules", "unigram_bytes"};
  static const char text[] = " the [SYM] Aab\tfi  \xef\xac\x81 x \xe2\x96\x81 <s> \xf0\x9f\x98\x80\xff";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    alibi_tokenizer *t, *back;
    uint32_t *ids, *again;
    size_t count, again_count;
    if (alibi_tokenizer_open(golden(names[i]), &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
    const char *path = scratch_path("tokenizer.json");
    if (alibi_tokenizer_save(t, path, &error) != ALIBI_OK) fail_msg("%s", error.message);
    if (alibi_tokenizer_open(path, &back, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_int_equal(alibi_tokenizer_encode(t, text, sizeof text - 1, &ids, &count, &error), ALIBI_OK);
    assert_int_equal(alibi_tokenizer_encode(back, text, sizeof text - 1, &again, &again_count, &error), ALIBI_OK);
    assert_int_equal(count, again_count);
    assert_memory_equal(ids, again, count * sizeof *ids);
    alibi_tokens_free(ids);
    alibi_tokens_free(again);
    alibi_tokenizer_free(t);
    alibi_tokenizer_free(back);
  }
}

/* Whether a text gets a begin, the file beside it says. */
static void the_configuration_beside_is_read(void **unused)
{
  (void)unused;
  static const struct {
    const char *config;
    size_t added;
  } cases[] = {{NULL, 0},
               {"{\"add_bos_token\": true}", 1},
               {"{\"add_bos_token\": true, \"add_eos_token\": true}", 2},
               {"{\"tokenizer_class\": \"LlamaTokenizer\"}", 1},
               {"{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": false}", 0}};
  mapped_file file;
  assert_int_equal(mapped_file_open(golden("bpe_llama"), &file, &error), ALIBI_OK);
  const char *path = scratch_path("tokenizer.model"), *config = scratch_path("tokenizer_config.json");
  scratch_write(path, file.data, file.size);
  mapped_file_close(&file);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_tokenizer *t;
    alibi_encode_options options;
    uint32_t *ids;
    size_t count;
    if (cases[i].config) scratch_write(config, cases[i].config, strlen(cases[i].config));
    if (alibi_tokenizer_open(path, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
    alibi_encode_options_init(&options);
    options.add_special = 1;
    assert_int_equal(alibi_tokenizer_encode_with(t, &options, "", 0, &ids, &count, &error), ALIBI_OK);
    assert_int_equal(count, cases[i].added);
    if (count > 0) assert_int_equal(ids[0], alibi_tokenizer_special(t, ALIBI_SPECIAL_BEGIN));
    alibi_tokens_free(ids);
    alibi_tokenizer_free(t);
  }
}

/* The text of a stream of tokens is that of all of them. */
static void decoding_streams(void **unused)
{
  (void)unused;
  static const char text[] = "  ab \xe2\x82\xac\xf0\x9f\x98\x80 the\xc3\xa9  x";
  alibi_tokenizer *t;
  alibi_decoder *decoder;
  uint32_t *ids;
  size_t count, size, used = 0;
  char *whole, joined[200];
  const char *part;
  if (alibi_tokenizer_open(golden("bpe_llama"), &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(alibi_tokenizer_encode(t, text, sizeof text - 1, &ids, &count, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_decode(t, NULL, ids, count, &whole, &size, &error), ALIBI_OK);
  assert_string_equal(whole, text);
  assert_int_equal(alibi_decoder_new(t, NULL, &decoder, &error), ALIBI_OK);
  for (size_t i = 0; i <= count; i++) {
    if (i < count) assert_int_equal(alibi_decoder_add(decoder, ids[i], &part, &size, &error), ALIBI_OK);
    else assert_int_equal(alibi_decoder_end(decoder, &part, &size, &error), ALIBI_OK);
    assert_int_equal(utf8_end((const unsigned char *)part, 0, size), size); /* whole characters */
    if (i == count) assert_int_equal(size, 0);                              /* nothing waits for the end */
    memcpy(joined + used, part, size);
    used += size;
  }
  assert_int_equal(used, sizeof text - 1);
  assert_memory_equal(joined, text, used);
  alibi_decoder_free(decoder);
  alibi_text_free(whole);
  alibi_tokens_free(ids);
  alibi_tokenizer_free(t);
}

static void use(const char *path)
{
  static const char text[] = "the [SYM] Aa \xe2\x96\x81 x\xff";
  alibi_tokenizer *t = NULL;
  uint32_t *ids;
  size_t count;
  alibi_error_init(&error);
  status result = alibi_tokenizer_open(path, &t, &error);
  if (result != ALIBI_OK) {
    assert_true(result == ALIBI_BAD_INPUT && error.message[0] && !t);
    return;
  }
  if (alibi_tokenizer_encode(t, text, sizeof text - 1, &ids, &count, &error) == ALIBI_OK) alibi_tokens_free(ids);
  alibi_tokenizer_free(t);
}

static void damaged_models_are_refused_or_used(void **unused)
{
  (void)unused;
  static const char *const names[] = {"bpe_rules", "unigram_bytes"};
  for (size_t n = 0; n < 2; n++) {
    mapped_file file;
    assert_int_equal(mapped_file_open(golden(names[n]), &file, &error), ALIBI_OK);
    unsigned char *copy = malloc(file.size);
    assert_non_null(copy);
    for (uint64_t i = 0; i < 400; i++) {
      size_t size = i % 4 == 0 ? random_below(n, i, 0, file.size) : file.size;
      memcpy(copy, file.data, file.size);
      for (uint64_t k = 0; k < i % 4; k++)
        copy[random_below(n, i, 2 * k + 1, i % 2 ? 200 : size)] =
            (unsigned char)random_below(n, i, 2 * k + 2, 256);
      const char *path = scratch_path("damaged.model");
      scratch_write(path, copy, size);
      use(path);
    }
    free(copy);
    mapped_file_close(&file);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(bpe_is_that_of_the_slow_way, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(unigram_has_the_best_of_all_sums, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(every_type_of_piece_has_its_part, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(spaces_are_treated_as_the_flags_say, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_word_may_be_very_long, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(what_is_saved_opens_again, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_configuration_beside_is_read, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(decoding_streams, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(damaged_models_are_refused_or_used, setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
