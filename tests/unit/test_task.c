/* Tasks: prompts of exactly the length that was asked for, by the seed alone, that hold what they ask for; a model
 * that knows the prompt is right, one that knows nothing is not; what cannot be done is said. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "evaluate/task.h"
#include "evaluate/task_questions.h"
#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/task_oracle.h"
#include "unit/tiny_model.h"

enum { TEXT_SIZE = 60000 };

static alibi_context *context;
static alibi_tokenizer *tokenizers[2]; /* bytes; a BPE of the text */
static uint32_t *texts[2];
static size_t text_counts[2];
static word_list words;

static int setup(void **state)
{
  (void)state;
  static char text[TEXT_SIZE + 64];
  static const char *const some[] = {"harbour", "lantern", "seven",  "walked",  "slowly", "towards",
                                     "the",     "old",     "bridge", "because", "winter", "had",
                                     "come",    "early",   "again",  "there"};
  size_t used = 0;
  for (uint64_t i = 0; used < TEXT_SIZE; i++)
    used += (size_t)sprintf(text + used, "%s%s", some[random_below(5, 0, i, 16)], i % 9 == 8 ? ".\n" : " ");
  const char *list[] = {text};
  context = tiny_context(NULL, 1);
  assert_int_equal(alibi_tokenizer_new_bytes(&tokenizers[0], NULL), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_train(list, &used, 1, 300, &tokenizers[1], NULL), ALIBI_OK);
  for (int t = 0; t < 2; t++)
    assert_int_equal(alibi_tokenizer_encode(tokenizers[t], text, used, &texts[t], &text_counts[t], NULL),
                     ALIBI_OK);
  assert_int_equal(word_list_read(text, used, &words, NULL), ALIBI_OK);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  word_list_free(&words);
  for (int t = 0; t < 2; t++) {
    alibi_tokens_free(texts[t]);
    alibi_tokenizer_free(tokenizers[t]);
  }
  alibi_context_free(context);
  return 0;
}

static task_material material_of(int tokenizer)
{
  return (task_material){.tokenizer = tokenizers[tokenizer],
                         .vocabulary = alibi_tokenizer_vocabulary(tokenizers[tokenizer]),
                         .text = texts[tokenizer],
                         .text_count = text_counts[tokenizer],
                         .words = &words};
}

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

/* --- all of them --- */

static void prompts_have_exactly_their_length(void **state)
{
  (void)state;
  static const size_t lengths[] = {640, 641, 1000, 2047};
  size_t made = 0;
  for (size_t i = 0; i < task_count(); i++)
    for (int t = 0; t < 2; t++)
      for (size_t l = 0; task_at(i)->make && l < 4; l++)
        for (int d = 0; d <= 2; d++) {
          task_material m = material_of(t);
          task_test_options options;
          task_prompts p = {0}, again = {0}, other = {0};
          oracle_options(task_at(i), ORACLE_SMALL, &options);
          oracle_make(task_at(i), &m, &options, lengths[l], d / 2.0, 7, 3, &p);
          assert_int_equal(p.tokens.count, lengths[l]);
          assert_int_equal(p.plan.count, 1);
          assert_int_equal(p.plan.windows[0].start, 0);
          assert_true(p.plan.windows[0].inputs < lengths[l]);
          assert_true(p.answer_count > 0);
          for (size_t k = 0; k < p.tokens.count; k++) assert_true(p.tokens.ids[k] < m.vocabulary);
          for (size_t a = 0; a < p.answer_count; a++) {
            assert_true(p.answers[a].target + p.answers[a].count <= p.plan.targets);
            assert_true(p.answers[a].depth >= 0 && p.answers[a].depth <= 1);
          }
          oracle_make(task_at(i), &m, &options, lengths[l], d / 2.0, 7, 3, &again);
          oracle_make(task_at(i), &m, &options, lengths[l], d / 2.0, 8, 3, &other);
          assert_memory_equal(p.tokens.ids, again.tokens.ids, lengths[l] * sizeof *p.tokens.ids);
          assert_true(memcmp(p.tokens.ids, other.tokens.ids, lengths[l] * sizeof *p.tokens.ids) != 0);
          prompts_free(&p);
          prompts_free(&again);
          prompts_free(&other);
          made++;
        }
  assert_int_equal(made, 10 * 2 * 4 * 3);
}

static task_cell run_one(const evaluation_task *task, const task_material *m, const task_test_options *options,
                         alibi_model *model, int64_t length, size_t batch)
{
  double depth = 0.5;
  task_settings s = {.lengths = &length,
                     .length_count = 1,
                     .depths = &depth,
                     .depth_count = 1,
                     .trials = 1,
                     .seed = 1,
                     .options = options->bytes,
                     .batch_tokens = batch};
  task_result r;
  alibi_error error = {0};
  if (task_run(model, task, m, &s, &r, &error) != ALIBI_OK) fail_msg("%s: %s", task->name, error.message);
  if (r.rows[0].why[0]) fail_msg("%s: %s", task->name, r.rows[0].why);
  task_cell all = r.rows[0].all;
  if (r.columns) assert_memory_equal(&all, &r.rows[0].cells[0], sizeof all);
  task_result_free(&r);
  assert_null(model->packed);
  return all;
}

static void an_oracle_is_right_and_a_uniform_model_is_not(void **state)
{
  (void)state;
  enum { LENGTH = 640 };
  for (size_t i = 0; i < task_count(); i++) {
    const evaluation_task *task = task_at(i);
    if (!task->make) continue;
    task_material m = material_of(0);
    task_test_options options;
    task_prompts p = {0};
    oracle_options(task, ORACLE_SMALL, &options);
    oracle_make(task, &m, &options, LENGTH, task->spreads || !task->depths ? 0 : 0.5, 1, 0, &p);
    size_t spoilt = plan_target(&p.plan.windows[0], p.answers[0].target);
    alibi_model *oracle = oracle_model(context, p.tokens.ids, LENGTH, m.vocabulary, 0);
    task_cell all = run_one(task, &m, &options, oracle, LENGTH, 0);
    assert_int_equal(all.answers, p.answer_count);
    assert_int_equal(all.exact, all.answers);
    assert_int_equal(all.hits, all.tokens);
    assert_true(task_accuracy(task, &all) == 1 && all.nll < 1e-3);
    alibi_model *wrong = oracle_model(context, p.tokens.ids, LENGTH, m.vocabulary, spoilt);
    all = run_one(task, &m, &options, wrong, LENGTH, 0);
    assert_int_equal(all.exact, all.answers - 1);
    assert_int_equal(all.hits, all.tokens - 1);
    memset(wrong->values, 0,
           wrong->list.floats * sizeof *wrong->values); /* every token as likely: the first is said */
    all = run_one(task, &m, &options, wrong, LENGTH, 0);
    assert_true(fabs(all.nll / (double)all.tokens - log(m.vocabulary)) < 1e-5);
    assert_true(task_accuracy(task, &all) < 0.05);
    alibi_model_free(oracle);
    alibi_model_free(wrong);
    prompts_free(&p);
  }
}

static void a_random_model_copies_by_chance(void **state)
{
  (void)state;
  const evaluation_task *task = task_find("copy");
  alibi_model *model = tiny_model(context, "vocabulary=16 position=rope");
  task_material m = {.vocabulary = 16};
  task_test_options options;
  int64_t lengths[] = {2001, 64};
  oracle_options(task, "", &options);
  task_settings s = {.lengths = lengths, .length_count = 2, .trials = 6, .seed = 3, .options = options.bytes};
  task_result r;
  assert_int_equal(task_run(model, task, &m, &s, &r, NULL), ALIBI_OK);
  assert_int_equal(r.rows[0].all.tokens, 6 * 1000);
  assert_int_equal(r.rows[1].all.tokens, 6 * 31);
  assert_true(fabs(task_accuracy(task, &r.rows[0].all) - 1.0 / 15) < 0.04);
  assert_true(task_accuracy_error(task, &r.rows[0].all) < 0.02);
  assert_int_equal(task_reach(task, &r, 0.8), 0);
  task_result_free(&r);
  alibi_model_free(model);
}

static void the_same_bits_for_threads_and_batches(void **state)
{
  (void)state;
  const evaluation_task *task = task_find("recall");
  static const size_t batches[] = {0, 1, 100, 5000};
  double depths[] = {0, 0.5, 1};
  int64_t lengths[] = {40, 130};
  task_material m = {.vocabulary = 29};
  task_test_options options;
  task_result first = {0};
  oracle_options(task, "pairs=3", &options);
  for (int threads = 1; threads <= 2; threads++)
    for (int b = 0; b < 4; b++) {
      alibi_context *own = tiny_context(NULL, threads);
      alibi_model *model = tiny_model(own, "");
      task_settings s = {.lengths = lengths,
                         .length_count = 2,
                         .depths = depths,
                         .depth_count = 3,
                         .trials = 20,
                         .seed = 3,
                         .options = options.bytes,
                         .batch_tokens = batches[b]};
      task_result r;
      assert_int_equal(task_run(model, task, &m, &s, &r, NULL), ALIBI_OK);
      assert_int_equal(r.rows[0].all.answers, 60);
      if (!first.rows) first = r;
      for (size_t k = 0; k < 2; k++) {
        assert_memory_equal(&r.rows[k].all, &first.rows[k].all, sizeof r.rows[k].all);
        assert_memory_equal(r.rows[k].cells, first.rows[k].cells, 3 * sizeof *r.rows[k].cells);
      }
      if (r.rows != first.rows) task_result_free(&r);
      alibi_model_free(model);
      alibi_context_free(own);
    }
  task_result_free(&first);
}

/* --- one by one --- */

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

/* --- the two with a measure of their own --- */

/* Losses of ids[1 ..] one after another. */
static void session_losses(alibi_model *model, const uint32_t *ids, size_t count, int64_t declared, double *losses)
{
  alibi_session *session;
  alibi_session_options o;
  alibi_session_options_init(&o);
  o.capacity = declared;
  assert_int_equal(alibi_session_new(model, &o, &session, NULL), ALIBI_OK);
  for (size_t i = 0; i + 1 < count; i++) {
    double sum = 0;
    assert_int_equal(alibi_session_feed(session, ids + i, 1, NULL), ALIBI_OK);
    const float *logits = alibi_session_logits(session);
    for (int64_t v = 0; v < alibi_model_get_config(model)->vocabulary; v++) sum += exp(logits[v]);
    losses[i] = log(sum) - logits[ids[i + 1]];
  }
  alibi_session_free(session);
}

static void longppl_is_that_of_its_definition(void **state)
{
  (void)state;
  enum { LENGTH = 48, SHORT = 12, STEP = 5, WINDOWS = 3 };
  const evaluation_task *task = task_find("longppl");
  task_material m = material_of(0);
  task_test_options options;
  int64_t length = LENGTH;
  alibi_model *model = tiny_model(context, "vocabulary=256 initial_deviation=0.5"),
              *other = tiny_model(context, "vocabulary=256 position=rope initial_deviation=0.4");
  oracle_options(task, "short=12 step=5 gain=0.05 likely=5.6", &options);
  m.text_count = 1 + 7 * LENGTH + 5;
  task_settings s = {.lengths = &length, .length_count = 1, .trials = WINDOWS, .options = options.bytes};
  for (int evaluated = 0; evaluated < 2; evaluated++) {
    task_result r;
    double sum = 0, all = 0;
    size_t keys = 0;
    m.evaluator = evaluated ? other : NULL;
    assert_int_equal(task_run(model, task, &m, &s, &r, NULL), ALIBI_OK);
    for (size_t w = 0; w < WINDOWS; w++) {
      /* 7 places for 3 windows: the 0th, 2nd and 4th */
      const uint32_t *ids = m.text + 2 * w * LENGTH;
      double full[LENGTH], judged[LENGTH], part[LENGTH];
      session_losses(model, ids, LENGTH + 1, LENGTH, full);
      session_losses(evaluated ? other : model, ids, LENGTH + 1, LENGTH, judged);
      for (size_t i = SHORT; i < LENGTH; i++) {
        size_t from = (i - SHORT) / STEP * STEP + 1; /* of inputs that the short context has */
        session_losses(evaluated ? other : model, ids + from, i + 2 - from, SHORT + STEP - 1, part);
        all += full[i];
        if (part[i - from] - judged[i] > 0.05 && judged[i] < 5.6) sum += full[i], keys++;
      }
    }
    assert_true(keys > 5 && keys < WINDOWS * (LENGTH - SHORT) - 5);
    assert_true(r.rows[0].measures[3].value == (double)keys);
    assert_true(r.rows[0].measures[4].value == WINDOWS * (LENGTH - SHORT));
    assert_true(fabs(r.rows[0].measures[0].value / exp(sum / (double)keys) - 1) < 1e-4);
    assert_true(fabs(r.rows[0].measures[1].value / exp(all / (WINDOWS * (LENGTH - SHORT))) - 1) < 1e-4);
    assert_true(r.rows[0].measures[0].standard_error > 0);
    task_result_free(&r);
  }
  alibi_model_free(model);
  alibi_model_free(other);
}

static void choices_are_scored_three_ways(void **state)
{
  (void)state;
  static const char lines[] =
      "{\"context\": \"Two and two \", \"choices\": [\"four\", \"f\", \"fourteen\"], \"answer\": 1}\n\n"
      "{\"answer\": 0, \"context\": \"the old\", \"choices\": [\" bridge\", \" harbour again\"], \"more\": 1}\n"
      "  {\"context\": \"come\", \"choices\": [\"x\", \"y\", \"z\", \"early\"], \"answer\": 3}";
  choice_questions q;
  const evaluation_task *task = task_find("choice");
  alibi_model *model = tiny_model(context, "vocabulary=300 initial_deviation=0.5");
  double right[3] = {0};
  scratch_make();
  scratch_write(scratch_path("q.jsonl"), lines, sizeof lines - 1);
  assert_int_equal(choice_questions_read(scratch_path("q.jsonl"), &q, NULL), ALIBI_OK);
  scratch_remove();
  assert_int_equal(q.count, 3);
  assert_int_equal(q.items[1].line, 3);
  task_material m = material_of(1);
  m.vocabulary = 300;
  m.questions = &q;
  for (size_t i = 0; i < q.count; i++) {
    double best[3] = {-1e9, -1e9, -1e9};
    size_t chosen[3] = {0};
    for (size_t k = 0; k < q.items[i].count; k++) {
      char context_text[64], choice[64];
      uint32_t *before, *after, ids[128];
      size_t before_count, after_count;
      double losses[128], sum = 0;
      snprintf(context_text, sizeof context_text, "%s", q.items[i].context);
      bool blank = context_text[strlen(context_text) - 1] == ' ';
      if (blank) context_text[strlen(context_text) - 1] = '\0';
      snprintf(choice, sizeof choice, "%s%s", blank ? " " : "", q.items[i].choices[k]);
      alibi_tokenizer_encode(tokenizers[1], context_text, strlen(context_text), &before, &before_count, NULL);
      alibi_tokenizer_encode(tokenizers[1], choice, strlen(choice), &after, &after_count, NULL);
      memcpy(ids, before, before_count * sizeof *ids);
      memcpy(ids + before_count, after, after_count * sizeof *ids);
      session_losses(model, ids, before_count + after_count, 100, losses);
      for (size_t t = 0; t < after_count; t++) sum -= losses[before_count - 1 + t];
      double scores[] = {sum, sum / (double)after_count, sum / (double)strlen(choice)};
      for (int n = 0; n < 3; n++)
        if (scores[n] > best[n]) best[n] = scores[n], chosen[n] = k;
      alibi_tokens_free(before);
      alibi_tokens_free(after);
    }
    for (int n = 0; n < 3; n++) right[n] += chosen[n] == q.items[i].answer;
  }
  task_test_options options;
  oracle_options(task, "", &options);
  task_settings s = {.trials = 1, .options = options.bytes};
  task_result r;
  assert_int_equal(task_run(model, task, &m, &s, &r, NULL), ALIBI_OK);
  for (int n = 0; n < 3; n++) assert_true(fabs(r.rows[0].measures[n].value - right[n] / 3) < 1e-12);
  assert_true(fabs(r.rows[0].measures[3].value - (1.0 / 3 + 1.0 / 2 + 1.0 / 4) / 3) < 1e-12);
  assert_true(r.rows[0].measures[4].value == 3);
  task_result_free(&r);
  choice_questions_free(&q);
  alibi_model_free(model);
}

/* --- what a user may get wrong --- */

static void damaged_questions_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *lines, *sentence;
  } cases[] = {
      {"", "expected questions, one a line, found none"},
      {"\n{\"context\": \"a\"", "line 2"},
      {"[1]", "line 1: expected an object with context, choices and answer, found a list"},
      {"{\"choices\": [\"a\", \"b\"], \"answer\": 0}",
       "line 1: \"context\": expected a text that is not empty, found nothing"},
      {"{\"context\": \"\", \"choices\": [\"a\", \"b\"], \"answer\": 0}",
       "\"context\": expected a text that is not empty, found an empty one"},
      {"{\"context\": \"a\", \"choices\": \"b\", \"answer\": 0}",
       "\"choices\": expected a list of texts, found a text"},
      {"{\"context\": \"a\", \"choices\": [\"b\"], \"answer\": 0}", "\"choices\": expected at least 2, found 1"},
      {"{\"context\": \"a\", \"choices\": [\"b\", 2], \"answer\": 0}",
       "\"choices\": item 2: expected a text that is not empty, found an integer"},
      {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"]}",
       "\"answer\": expected the number of a choice, found nothing"},
      {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 0.5}",
       "\"answer\": expected the number of a choice, found a number"},
      {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}", "\"answer\": expected 0 to 1, found 2"},
      {"{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": -1}",
       "\"answer\": expected 0 to 1, found -1"}};
  scratch_make();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_error error = {0};
    choice_questions q;
    scratch_write(scratch_path("q.jsonl"), cases[i].lines, strlen(cases[i].lines));
    assert_int_equal(choice_questions_read(scratch_path("q.jsonl"), &q, &error), ALIBI_BAD_INPUT);
    scratch_says(error.message, cases[i].sentence);
    scratch_says(error.message, "q.jsonl");
    assert_null(q.items);
  }
  scratch_remove();
}

static void check_refuses(const char *name, const task_material *m, const task_settings *given, status expected,
                          const char *sentence)
{
  alibi_error error = {0};
  task_test_options options;
  task_settings s = *given;
  oracle_options(task_find(name), "", &options);
  s.options = options.bytes;
  assert_int_equal(task_check(task_find(name), m, &s, "words.txt", &error), expected);
  if (expected != ALIBI_OK) scratch_says(error.message, sentence);
}

static void settings_are_checked(void **state)
{
  (void)state;
  task_material m = material_of(0), bare = {.vocabulary = 64};
  double depths[] = {0, 1.5};
  int64_t lengths[] = {200, TEXT_SIZE * 2, 1};
  task_settings s = {.lengths = lengths, .length_count = 1, .depths = depths, .depth_count = 1, .trials = 1};
  check_refuses("passkey", &m, &s, ALIBI_OK, "");
  check_refuses("recall", &bare, &s, ALIBI_OK, "");
  check_refuses("passkey", &bare, &s, ALIBI_INVALID, "expected a model with a tokenizer");
  check_refuses("choice", &m, &s, ALIBI_INVALID, "expected questions, found none");
  s.depth_count = 2;
  check_refuses("passkey", &m, &s, ALIBI_INVALID,
                "depth: expected numbers from 0 (the beginning) to 1 (the end), found 1.5");
  s.depth_count = 1, s.trials = 0;
  check_refuses("passkey", &m, &s, ALIBI_INVALID, "trials: expected at least 1, found 0");
  s.trials = 1, s.length_count = 2;
  check_refuses("needle", &m, &s, ALIBI_BAD_INPUT,
                "words.txt: expected at least the 120000 tokens of the longest length, found");
  check_refuses("passkey", &m, &s, ALIBI_OK, "");
  s.length_count = 3;
  check_refuses("passkey", &m, &s, ALIBI_INVALID, "length: expected at least 2 tokens, found 1");
  s.length_count = 0;
  check_refuses("passkey", &m, &s, ALIBI_INVALID, "expected at least one length, found none");
  s.length_count = 1;
  m.text = NULL;
  check_refuses("needle", &m, &s, ALIBI_INVALID, "needs a text");
  check_refuses("longppl", &m, &s, ALIBI_INVALID, "needs a text");
  alibi_error error = {0};
  const evaluation_task *task;
  assert_int_equal(task_require("passkeys", &task, &error), ALIBI_INVALID);
  scratch_says(error.message, "one of passkey, needle, multi-key");
  assert_int_equal(task_require("copy", &task, NULL), ALIBI_OK);
  assert_string_equal(task->name, "copy");
  char names[256];
  task_names(true, names, sizeof names);
  assert_string_equal(names, "recall, copy");
}

static void lengths_that_cannot_be_done_say_why(void **state)
{
  (void)state;
  const evaluation_task *task = task_find("recall");
  alibi_model *model = tiny_model(context, "position=learned");
  task_material m = {.vocabulary = 29};
  double depths[] = {0, 1};
  int64_t lengths[] = {24, 25, 8};
  task_test_options options;
  task_result r;
  alibi_error error = {0};
  oracle_options(task, "pairs=2", &options);
  task_settings s = {.lengths = lengths,
                     .length_count = 3,
                     .depths = depths,
                     .depth_count = 2,
                     .trials = 2,
                     .options = options.bytes};
  assert_int_equal(task_run(model, task, &m, &s, &r, &error), ALIBI_OK);
  assert_string_equal(r.rows[0].why, "");
  assert_int_equal(r.rows[0].all.answers, 4);
  scratch_says(r.rows[1].why, "position 24 does not exist");
  scratch_says(r.rows[2].why, "2 pairs and their questions take 12 tokens, the length is 8");
  assert_int_equal(r.rows[1].all.answers + r.rows[2].all.answers, 0);
  assert_true(isnan(task_accuracy(task, &r.rows[1].all)));
  task_result_free(&r);
  alibi_context_cancel(context);
  assert_int_equal(task_run(model, task, &m, &s, &r, &error), ALIBI_CANCELLED);
  assert_null(r.rows);
  alibi_model_free(model);
}

static void the_reach_is_that_of_all_lengths_up_to_it(void **state)
{
  (void)state;
  const evaluation_task *task = task_find("passkey");
  task_row rows[] = {{.length = 512, .all = {.answers = 10, .exact = 8}},
                     {.length = 128, .all = {.answers = 10, .exact = 10}},
                     {.length = 1024, .all = {.answers = 10, .exact = 7}},
                     {.length = 2048, .all = {.answers = 10, .exact = 10}}};
  task_result r = {.rows = rows, .count = 4};
  assert_int_equal(task_reach(task, &r, 0.8), 512);
  rows[0].why[0] = 'x';
  assert_int_equal(task_reach(task, &r, 0.8), 128);
  rows[1].all.exact = 7;
  assert_int_equal(task_reach(task, &r, 0.8), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prompts_have_exactly_their_length),
      cmocka_unit_test(an_oracle_is_right_and_a_uniform_model_is_not),
      cmocka_unit_test(a_random_model_copies_by_chance),
      cmocka_unit_test(the_same_bits_for_threads_and_batches),
      cmocka_unit_test(pass_keys_lie_at_their_depth),
      cmocka_unit_test(needles_are_as_many_as_asked_for),
      cmocka_unit_test(variables_have_the_value_asked_for),
      cmocka_unit_test(words_come_as_often_as_they_should),
      cmocka_unit_test(recall_asks_for_what_it_shows),
      cmocka_unit_test(longppl_is_that_of_its_definition),
      cmocka_unit_test(choices_are_scored_three_ways),
      cmocka_unit_test(damaged_questions_are_refused),
      cmocka_unit_test(settings_are_checked),
      cmocka_unit_test(the_reach_is_that_of_all_lengths_up_to_it),
      cmocka_unit_test(lengths_that_cannot_be_done_say_why),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
