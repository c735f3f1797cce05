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
#include "unit/task_text.h"
#include "unit/tiny_model.h"

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

/* A model that knows one prompt by heart is right in its cell alone. */
static void answers_count_in_their_columns(void **state)
{
  (void)state;
  enum { LENGTH = 640 };
  double depths[] = {0, 0.5, 1};
  int64_t length = LENGTH;
  task_material m = material_of(0);
  task_test_options options;
  task_result r;
  const evaluation_task *task = task_find("passkey");
  oracle_options(task, "", &options);
  task_settings s = {.lengths = &length,
                     .length_count = 1,
                     .depths = depths,
                     .depth_count = 3,
                     .trials = 1,
                     .seed = 1,
                     .options = options.bytes};
  for (int known = 0; known < 3; known++) {
    task_prompts p = {0};
    oracle_make(task, &m, &options, LENGTH, depths[known], 1, 0, &p);
    alibi_model *oracle = oracle_model(context, p.tokens.ids, LENGTH, m.vocabulary, 0);
    assert_int_equal(task_run(oracle, task, &m, &s, &r, NULL), ALIBI_OK);
    for (int c = 0; c < 3; c++) assert_true(task_accuracy(task, &r.rows[0].cells[c]) == (c == known ? 1 : 0));
    assert_int_equal(r.rows[0].all.exact, 1);
    task_result_free(&r);
    alibi_model_free(oracle);
    prompts_free(&p);
  }
  task = task_find("recall");
  oracle_options(task, "pairs=6", &options);
  task_prompts p = {0};
  oracle_make(task, &m, &options, LENGTH, 0, 1, 0, &p);
  for (size_t a = 0; a < p.answer_count; a++) {
    alibi_model *oracle = oracle_model(context, p.tokens.ids, LENGTH, m.vocabulary,
                                       plan_target(&p.plan.windows[0], p.answers[a].target));
    size_t wrong = p.answers[a].depth < 0.25 ? 0 : p.answers[a].depth < 0.75 ? 1 : 2;
    assert_int_equal(task_run(oracle, task, &m, &s, &r, NULL), ALIBI_OK);
    for (size_t c = 0; c < 3; c++)
      assert_int_equal(r.rows[0].cells[c].answers - r.rows[0].cells[c].exact, c == wrong);
    task_result_free(&r);
    alibi_model_free(oracle);
  }
  prompts_free(&p);
}

/* Of two prompts one is known by heart and the other is not: that is two independent things, however many answers
 * there are. */
static void errors_are_those_of_prompts(void **state)
{
  (void)state;
  enum { LENGTH = 200 };
  double depths[] = {0, 1};
  int64_t length = LENGTH;
  task_material m = {.vocabulary = 4000};
  task_test_options options;
  task_prompts p = {0};
  task_result r;
  static const char *const names[] = {"recall", "copy"};
  for (int n = 0; n < 2; n++) {
    const evaluation_task *task = task_find(names[n]);
    oracle_options(task, "", &options);
    task_settings s = {.lengths = &length,
                       .length_count = 1,
                       .depths = depths,
                       .depth_count = 2,
                       .trials = 2,
                       .seed = 1,
                       .options = options.bytes};
    oracle_make(task, &m, &options, LENGTH, 0, 1, 1, &p);
    alibi_model *oracle = oracle_model(context, p.tokens.ids, LENGTH, m.vocabulary, 0);
    assert_int_equal(task_run(oracle, task, &m, &s, &r, NULL), ALIBI_OK);
    assert_true(task_accuracy(task, &r.rows[0].all) == 0.5);
    assert_true(fabs(task_accuracy_error(&r.rows[0].all) - 0.5) < 1e-12);
    if (n == 0) { /* 8 answers in two columns, each of two prompts, which have not equally many there */
      int64_t rights = 0;
      for (int c = 0; c < 2; c++) {
        const task_cell *cell = &r.rows[0].cells[c];
        double share = task_accuracy(task, cell), known = (double)cell->exact,
               other = (double)(cell->answers - cell->exact),
               squares = pow(known - share * known, 2) + pow(share * other, 2);
        rights += cell->exact;
        assert_true(known > 0 && other > 0);
        assert_true(fabs(task_accuracy_error(cell) - sqrt(2 * squares) / (known + other)) < 1e-12);
      }
      assert_int_equal(rights, 8);
    }
    task_result_free(&r);
    alibi_model_free(oracle);
    prompts_free(&p);
  }
  assert_true(isnan(task_accuracy_error(&(task_cell){.answers = 8, .exact = 8})));
}

typedef struct heard {
  double last, total;
  size_t calls;
} heard;

static void hear(void *user, double done, double total)
{
  heard *h = user;
  assert_true(h->calls > 0 || done == 0);
  assert_true(h->calls == 0 || total == h->total);
  assert_true(done >= h->last && done <= total);
  *h = (heard){done, total, h->calls + 1};
}

/* From nothing to all, whatever a task reads, and also where a length is not possible. */
static void progress_goes_from_nothing_to_all(void **state)
{
  (void)state;
  static const char *const names[] = {"passkey", "recall", "copy", "longppl"};
  int64_t lengths[] = {300, 9, 600};
  double depths[] = {0, 1};
  alibi_model *model = tiny_model(context, "vocabulary=256"), *other = tiny_model(context, "vocabulary=256");
  for (int n = 0; n < 5; n++) {
    const evaluation_task *task = task_find(names[n < 4 ? n : 3]);
    task_material m = material_of(0);
    task_test_options options;
    task_result r;
    heard h = {0};
    if (n == 4) m.evaluator = other;
    oracle_options(task, "short=20", &options);
    task_settings s = {.lengths = lengths,
                       .length_count = 3,
                       .depths = depths,
                       .depth_count = 2,
                       .trials = 3,
                       .seed = 1,
                       .options = options.bytes,
                       .batch_tokens = 100,
                       .progress = hear,
                       .user = &h};
    assert_int_equal(task_run(model, task, &m, &s, &r, NULL), ALIBI_OK);
    assert_true(h.last == h.total);
    assert_true(h.calls > 8);
    assert_int_equal(r.rows[1].why[0] != '\0', n != 2);
    task_result_free(&r);
  }
  alibi_model_free(model);
  alibi_model_free(other);
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
  assert_true(task_accuracy_error(&r.rows[0].all) < 0.02);
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
  assert_int_equal(task_check(task_find(name), m, &s, &error), expected);
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
  check_refuses("needle", &m, &s, ALIBI_OK, ""); /* a row of it says why */
  s.length_count = 3;
  check_refuses("passkey", &m, &s, ALIBI_INVALID, "length: expected at least 2 tokens, found 1");
  s.length_count = 0;
  check_refuses("passkey", &m, &s, ALIBI_INVALID, "expected at least one length, found none");
  s.length_count = 1;
  m.text = NULL;
  check_refuses("needle", &m, &s, ALIBI_INVALID, "needle: expected a text, found none");
  check_refuses("longppl", &m, &s, ALIBI_INVALID, "longppl: expected a text, found none");
  assert_null(task_find("passkeys"));
  assert_string_equal(task_find("copy")->name, "copy");
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
  /* The last 5 are not read: the second round, and an answer.  No machine has memory for the longest. */
  int64_t lengths[] = {29, 30, 8, (int64_t)1 << 40};
  task_test_options options;
  task_result r;
  alibi_error error = {0};
  oracle_options(task, "pairs=2", &options);
  task_settings s = {.lengths = lengths,
                     .length_count = 4,
                     .depths = depths,
                     .depth_count = 2,
                     .trials = 2,
                     .options = options.bytes};
  assert_int_equal(task_run(model, task, &m, &s, &r, &error), ALIBI_OK);
  assert_string_equal(r.rows[0].why, "");
  assert_int_equal(r.rows[0].all.answers, 4);
  scratch_says(r.rows[1].why, "position 24 does not exist");
  scratch_says(r.rows[2].why, "2 pairs and their questions take 12 tokens, the length is 8");
  scratch_says(r.rows[3].why, "not enough memory");
  assert_int_equal(r.rows[1].all.answers + r.rows[2].all.answers, 0);
  assert_true(isnan(task_accuracy(task, &r.rows[1].all)));
  task_result_free(&r);
  alibi_context_cancel(context);
  assert_int_equal(task_run(model, task, &m, &s, &r, &error), ALIBI_CANCELLED);
  assert_null(r.rows);
  alibi_model_free(model);
}

/* A text that is too short for one length is long enough for another. */
static void a_short_text_is_a_row_that_says_so(void **state)
{
  (void)state;
  static const char *const names[] = {"needle", "longppl"};
  alibi_model *model = tiny_model(context, "vocabulary=256");
  task_material m = material_of(0);
  double depths[] = {0.5};
  int64_t lengths[] = {600, 400};
  m.text_count = 450;
  for (int n = 0; n < 2; n++) {
    task_test_options options;
    task_result r;
    task_settings s = {.lengths = lengths,
                       .length_count = 2,
                       .depths = depths,
                       .depth_count = 1,
                       .trials = 1,
                       .options = options.bytes};
    oracle_options(task_find(names[n]), "key_kind=numbers short=99", &options);
    lengths[0] = n ? 600 : 1000;
    assert_int_equal(task_check(task_find(names[n]), &m, &s, NULL), ALIBI_OK);
    assert_int_equal(task_run(model, task_find(names[n]), &m, &s, &r, NULL), ALIBI_OK);
    scratch_says(r.rows[0].why, "not possible: the text has 450 tokens, ");
    assert_string_equal(r.rows[1].why, "");
    task_result_free(&r);
  }
  alibi_model_free(model);
}

static void a_short_context_is_short(void **state)
{
  (void)state;
  static const struct {
    const char *settings, *why;
  } cases[] = {{"short=12 step=13", "step: expected at most the 12 inputs of the short context, found 13"},
               {"short=48", "short: expected fewer inputs than the length of 48, found 48"},
               {"short=12 step=12", ""}};
  alibi_model *model = tiny_model(context, "vocabulary=256");
  task_material m = material_of(0);
  int64_t length = 48;
  for (size_t i = 0; i < 3; i++) {
    task_test_options options;
    task_result r;
    oracle_options(task_find("longppl"), cases[i].settings, &options);
    task_settings s = {.lengths = &length, .length_count = 1, .trials = 2, .options = options.bytes};
    assert_int_equal(task_run(model, task_find("longppl"), &m, &s, &r, NULL), ALIBI_OK);
    assert_string_equal(r.rows[0].why, cases[i].why);
    task_result_free(&r);
  }
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
      cmocka_unit_test(answers_count_in_their_columns),
      cmocka_unit_test(errors_are_those_of_prompts),
      cmocka_unit_test(progress_goes_from_nothing_to_all),
      cmocka_unit_test(a_random_model_copies_by_chance),
      cmocka_unit_test(the_same_bits_for_threads_and_batches),
      cmocka_unit_test(longppl_is_that_of_its_definition),
      cmocka_unit_test(choices_are_scored_three_ways),
      cmocka_unit_test(damaged_questions_are_refused),
      cmocka_unit_test(settings_are_checked),
      cmocka_unit_test(a_short_text_is_a_row_that_says_so),
      cmocka_unit_test(a_short_context_is_short),
      cmocka_unit_test(the_reach_is_that_of_all_lengths_up_to_it),
      cmocka_unit_test(lengths_that_cannot_be_done_say_why),
  };
  return cmocka_run_group_tests(tests, task_text_setup, task_text_teardown);
}
