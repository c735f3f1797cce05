/* What the prompts of tasks say, read as a text: each holds what it asks for, as often as it should. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/task.h"
#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/task_oracle.h"
#include "unit/task_text.h"

/* The bytes of ids as a text; free() it. */
static char *decode(const uint32_t *ids, size_t count, const alibi_tokenizer *tokenizer)
{
  char *text = calloc(1, count * 1024 + 1), *end = text;
  assert_non_null(text);
  for (size_t i = 0; i < count; i++) {
    size_t size;
    const unsigned char *bytes = alibi_tokenizer_bytes(tokenizer, ids[i], &size);
    memcpy(end, bytes, size);
    end += size;
  }
  return text;
}

static size_t occurrences(const char *text, const char *part)
{
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) count++;
  return count;
}

/* The text of answer `index`, without the blank before it. */
static void answer_text(const task_prompts *p, size_t index, const alibi_tokenizer *tokenizer, char *text,
                        size_t size)
{
  const task_answer *a = &p->answers[index];
  const plan_window *w = &p->plan.windows[0];
  assert_int_equal(p->plan.count, 1);
  char *all = decode(p->tokens.ids + plan_target(w, a->target), a->count, tokenizer);
  snprintf(text, size, "%s", all[0] == ' ' ? all + 1 : all);
  free(all);
}

static void make_text(const char *name, const char *settings, int tokenizer, size_t length, double depth,
                      uint64_t trial, task_prompts *p, char **text)
{
  const evaluation_task *task = task_find(name);
  task_material m = material_of(tokenizer);
  task_test_options options;
  assert_non_null(task);
  oracle_options(task, settings, &options);
  memset(p, 0, sizeof *p);
  oracle_make(task, &m, &options, length, depth, 1, trial, p);
  *text = decode(p->tokens.ids, p->tokens.count, tokenizers[tokenizer]);
}

static void pass_keys_lie_at_their_depth(void **state)
{
  (void)state;
  for (int t = 0; t < 2; t++)
    for (int d = 0; d <= 10; d++) {
      task_prompts p;
      char *text, key[16], needle[128], tail[64];
      make_text("passkey", "", t, 3000, d / 10.0, (uint64_t)d, &p, &text);
      assert_int_equal(p.answer_count, 1);
      answer_text(&p, 0, tokenizers[t], key, sizeof key);
      assert_int_equal(strlen(key), 5);
      snprintf(needle, sizeof needle, " The pass key is %s. Remember it. %s is the pass key.", key, key);
      snprintf(tail, sizeof tail, " What is the pass key? The pass key is %s", key);
      assert_int_equal(occurrences(text, needle), 1);
      assert_string_equal(text + strlen(text) - strlen(tail), tail);
      assert_int_equal(strncmp(text, "There is an important info hidden inside a lot of irrelevant text.", 66), 0);
      double at = (double)(strstr(text, needle) - text) / (double)strlen(text);
      assert_true(fabs(at - d / 10.0) < 0.1);
      assert_int_equal(text[strstr(text, needle) - text - 1], '.');
      free(text);
      prompts_free(&p);
    }
}

static void needles_are_as_many_as_asked_for(void **state)
{
  (void)state;
  static const struct {
    const char *name, *settings;
    size_t needles, answers; /* needles: 0: many */
  } cases[] = {{"needle", "", 1, 1},
               {"needle", "haystack=noise value_kind=uuids", 1, 1},
               {"needle", "haystack=others key_kind=uuids value_kind=words", 0, 1},
               {"multi-key", "keys=5", 5, 1},
               {"multi-value", "values=3", 3, 3},
               {"multi-query", "queries=4 key_kind=numbers", 4, 4}};
  for (size_t c = 0; c < 6; c++) {
    task_prompts p;
    char *text, value[64];
    double before = -1;
    make_text(cases[c].name, cases[c].settings, (int)(c % 2), 3000, 0.3, c, &p, &text);
    if (cases[c].needles) assert_int_equal(occurrences(text, " is: "), cases[c].needles);
    else assert_true(occurrences(text, " is: ") > 10);
    assert_int_equal(p.answer_count, cases[c].answers);
    for (size_t a = 0; a < p.answer_count; a++) {
      char end[80];
      answer_text(&p, a, tokenizers[c % 2], value, sizeof value);
      snprintf(end, sizeof end, " is: %s.", value);
      assert_non_null(strstr(text, end));
      if (strcmp(cases[c].name, "multi-value") == 0) {
        assert_true(p.answers[a].depth >= before);
        before = p.answers[a].depth;
      }
    }
    free(text);
    prompts_free(&p);
  }
}

static void make_of_words(const char *name, const char *settings, const char *const *some, size_t count,
                          size_t length, uint64_t trial, task_prompts *p, char **text)
{
  const evaluation_task *task = task_find(name);
  task_material m = material_of(0);
  task_test_options options;
  word_list few = {0};
  char all[256] = "";
  for (size_t i = 0; i < count; i++) strcat(strcat(all, some[i]), " ");
  assert_int_equal(word_list_read(all, strlen(all), &few, NULL), ALIBI_OK);
  assert_int_equal(few.count, count);
  m.words = &few;
  oracle_options(task, settings, &options);
  memset(p, 0, sizeof *p);
  oracle_make(task, &m, &options, length, 0.5, 1, trial, p);
  *text = decode(p->tokens.ids, p->tokens.count, tokenizers[0]);
  word_list_free(&few);
}

/* Reads the keys of all needles; *more: those that stand there for the `wanted` one. */
static size_t read_keys(const char *text, char (*keys)[64], size_t most, const char *wanted, size_t *more)
{
  static const char before[] = " The special magic number for ";
  size_t count = 0;
  *more = 0;
  for (const char *at = text; (at = strstr(at, before)) && count < most; at++) {
    const char *end = strstr(at, " is: ");
    size_t size = end ? (size_t)(end - at) - (sizeof before - 1) : 64;
    if (size >= sizeof *keys) continue; /* the question */
    memcpy(keys[count], at + sizeof before - 1, size);
    keys[count][size] = '\0';
    if (strcmp(keys[count++], wanted) == 0) (*more)++;
  }
  return count;
}

/* Pairs of a text's few words are soon used up. */
static void few_words_make_keys_enough(void **state)
{
  (void)state;
  static const char *const some[] = {"harbour", "lantern", "seven", "walked", "slowly"};
  static const size_t asked[] = {12, 13, 64};
  static char keys[512][64];
  for (size_t i = 0; i < 3; i++) {
    task_prompts p;
    char *text, settings[32];
    size_t more;
    snprintf(settings, sizeof settings, "keys=%zu", asked[i]);
    make_of_words("multi-key", settings, some, 4, 8000, 1, &p, &text);
    assert_int_equal(read_keys(text, keys, 512, "", &more), asked[i]);
    for (size_t k = 0; k < asked[i]; k++)
      for (size_t other = 0; other < k; other++) assert_string_not_equal(keys[k], keys[other]);
    free(text);
    prompts_free(&p);
  }
}

/* Among nothing but needles the key that is asked for stands once. */
static void other_needles_have_other_keys(void **state)
{
  (void)state;
  static const char *const some[] = {"harbour", "lantern", "seven", "walked", "slowly"};
  static char keys[512][64];
  for (uint64_t trial = 0; trial < 5; trial++) {
    task_prompts p;
    char *text, wanted[64] = "";
    size_t more;
    make_of_words("needle", "haystack=others", some, 5, 8000, trial, &p, &text);
    const char *question = strstr(text, "What is the special magic number for ");
    assert_non_null(question);
    assert_int_equal(sscanf(question, "What is the special magic number for %63s in", wanted), 1);
    assert_true(strchr(wanted, '-') != NULL);
    assert_true(read_keys(text, keys, 512, wanted, &more) > 50);
    assert_int_equal(more, 1);
    free(text);
    prompts_free(&p);
  }
}

/* The question names every key, however long. */
static void many_long_keys_are_all_asked_for(void **state)
{
  (void)state;
  task_prompts p;
  char *text;
  make_text("multi-query", "queries=64 key_kind=uuids value_kind=uuids haystack=noise", 0, 20000, 0, 1, &p, &text);
  char *question = strstr(text, "\nWhat are all the special magic uuids for "), *again;
  assert_non_null(question);
  assert_int_equal(p.answer_count, 64);
  assert_non_null(again = strstr(question, "? The special magic uuids for "));
  char *end = strstr(again, " in the text above are ");
  assert_non_null(end);
  *end = '\0';
  assert_int_equal(end - again, (ptrdiff_t)strlen("? The special magic uuids for ") + 64 * 36 + 62 * 2 + 5);
  for (char *key = again + strlen("? The special magic uuids for "); key < end;) {
    char sentence[128];
    snprintf(sentence, sizeof sentence, "uuid for %.36s is: ", key);
    assert_int_equal(occurrences(text, sentence), 1);
    key += 36;
    key += strncmp(key, ", ", 2) == 0 ? 2 : 5;
  }
  free(text);
  prompts_free(&p);
}

/* Writing a long prompt ends when the context is cancelled. */
static void writing_notices_a_cancel(void **state)
{
  (void)state;
  static const struct {
    const char *name, *settings;
  } cases[] = {{"passkey", ""},
               {"needle", "haystack=others"},
               {"variable-tracking", ""},
               {"common-words", "often=4 seldom=1"},
               {"frequent-words", ""}};
  alibi_context *own = tiny_context(NULL, 1);
  task_material m = material_of(0);
  for (int cancelled = 0; cancelled < 2; cancelled++) {
    if (cancelled) alibi_context_cancel(own);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
      const evaluation_task *task = task_find(cases[c].name);
      task_test_options options;
      task_prompts p = {0};
      oracle_options(task, cases[c].settings, &options);
      task_request request = {.context = own,
                              .material = &m,
                              .options = options.bytes,
                              .length = 3000,
                              .random = task_random_of(task, 1, 3000, 0, 0)};
      assert_int_equal(task->make(&request, &p, NULL), cancelled ? ALIBI_CANCELLED : ALIBI_OK);
      prompts_free(&p);
    }
  }
  alibi_context_free(own);
}

/* Follows the assignments in the text. */
static void variables_have_the_value_asked_for(void **state)
{
  (void)state;
  for (int haystack = 0; haystack < 2; haystack++) {
    task_prompts p;
    char *text, names[32][8], sources[32][8], found[32][8];
    unsigned value = 0;
    size_t count = 0, hits = 0;
    make_text("variable-tracking", haystack ? "chains=3 hops=4 haystack=text" : "chains=3 hops=4", haystack, 4000,
              0, 1, &p, &text);
    assert_int_equal(sscanf(strstr(text, "have the value "), "have the value %u", &value), 1);
    for (const char *at = text; (at = strstr(at, "VAR ")) && sscanf(at, "VAR %5s = ", names[count]) == 1;
         count++) {
      at = strstr(at, " = ") + 3;
      if (sscanf(at, "VAR %5s", sources[count]) == 1) at += 4;
      else assert_int_equal(sscanf(at, "%5s", sources[count]), 1);
    }
    assert_int_equal(count, 15);
    for (size_t i = 0; i < count; i++) {
      bool has = (unsigned)atoi(sources[i]) == value;
      for (size_t k = 0; k < hits; k++) has = has || strcmp(found[k], sources[i]) == 0;
      if (has) strcpy(found[hits++], names[i]);
    }
    assert_int_equal(hits, 5);
    assert_int_equal(p.answer_count, 5);
    for (size_t a = 0; a < 5; a++) {
      char name[16];
      answer_text(&p, a, tokenizers[haystack], name, sizeof name);
      assert_string_equal(name, found[a]);
    }
    free(text);
    prompts_free(&p);
  }
}

/* How often each answer stands in the list as a word of its own. */
static size_t count_word(const char *text, const char *word)
{
  char part[64];
  snprintf(part, sizeof part, " %s ", word);
  return occurrences(text, part);
}

static void words_come_as_often_as_they_should(void **state)
{
  (void)state;
  for (int t = 0; t < 2; t++) {
    task_prompts p;
    char *text, word[32], before[32] = "";
    make_text("common-words", "common=5 often=9 seldom=2", t, 4000, 0, 1, &p, &text);
    char *end = strstr(text, "\nWhich are");
    *end = ' ';
    *(end + 1) = '\0';
    assert_int_equal(p.answer_count, 5);
    for (size_t a = 0; a < 5; a++) {
      answer_text(&p, a, tokenizers[t], word, sizeof word);
      assert_int_equal(count_word(text, word), 9);
      assert_true(strcmp(before, word) < 0);
      strcpy(before, word);
    }
    free(text);
    prompts_free(&p);
    make_text("frequent-words", "", t, 4000, 0, 1, &p, &text);
    end = strstr(text, "\nWhich are");
    *end = ' ';
    *(end + 1) = '\0';
    size_t most = count_word(text, "...");
    assert_int_equal(p.answer_count, 3);
    for (size_t a = 0; a < 3; a++) {
      answer_text(&p, a, tokenizers[t], word, sizeof word);
      size_t times = count_word(text, word);
      /* neighbours in the text that share a blank are counted once */
      assert_true(times > 0 && times < most);
      double rank = (double)a + 2, expected = (double)most / (rank * rank);
      assert_true(fabs((double)times - expected) < 0.25 * expected + 2);
    }
    free(text);
    prompts_free(&p);
  }
}

static void recall_asks_for_what_it_shows(void **state)
{
  (void)state;
  const evaluation_task *task = task_find("recall");
  static const struct {
    const char *settings;
    size_t pairs, rounds, length;
    uint32_t vocabulary;
  } cases[] = {{"", 8, 2, 64, 64},
               {"", 8, 2, 4096, 64},
               {"pairs=12 rounds=1", 12, 1, 48, 26},
               {"pairs=1 rounds=3", 1, 3, 9, 5}};
  for (size_t c = 0; c < 4; c++)
    for (uint64_t trial = 0; trial < 20; trial++) {
      task_material m = {.vocabulary = cases[c].vocabulary};
      size_t pairs = cases[c].pairs, length = cases[c].length, context_size = length - 2 * pairs * cases[c].rounds;
      uint32_t half = m.vocabulary / 2, values[64] = {0}, *ids = NULL;
      task_test_options options;
      task_prompts p = {0};
      oracle_options(task, cases[c].settings, &options);
      oracle_make(task, &m, &options, length, 0, 1, trial, &p);
      ids = p.tokens.ids;
      size_t shown = 0;
      for (size_t i = 0; i < context_size; i++) {
        if (ids[i] == 0) continue;
        assert_true(ids[i] < half && values[ids[i]] == 0 && i + 1 < context_size);
        assert_true(ids[i + 1] >= half && ids[i + 1] < m.vocabulary);
        values[ids[i]] = ids[i + 1];
        shown++, i++;
      }
      assert_int_equal(shown, pairs);
      for (size_t i = context_size; i < length; i += 2) assert_int_equal(values[ids[i]], ids[i + 1]);
      assert_int_equal(p.answer_count, pairs);
      for (size_t a = 0; a < pairs; a++) {
        size_t at = plan_target(&p.plan.windows[0], p.answers[a].target), place = 0;
        assert_int_equal(at, context_size + 2 * a + 1);
        while (ids[place] != ids[at - 1]) place++;
        assert_true(fabs(p.answers[a].depth * (double)(context_size > 2 ? context_size - 2 : 1) - (double)place) <
                    1e-6);
        values[ids[at - 1]] = 0; /* each key once a round */
      }
      for (size_t i = 0; i < half; i++) assert_int_equal(values[i], 0);
      prompts_free(&p);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pass_keys_lie_at_their_depth),       cmocka_unit_test(needles_are_as_many_as_asked_for),
      cmocka_unit_test(few_words_make_keys_enough),         cmocka_unit_test(other_needles_have_other_keys),
      cmocka_unit_test(many_long_keys_are_all_asked_for),   cmocka_unit_test(writing_notices_a_cancel),
      cmocka_unit_test(variables_have_the_value_asked_for), cmocka_unit_test(words_come_as_often_as_they_should),
      cmocka_unit_test(recall_asks_for_what_it_shows),
  };
  return cmocka_run_group_tests(tests, task_text_setup, task_text_teardown);
}
