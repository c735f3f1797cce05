/* The sentences that a study makes from its numbers, and the steps that it plans from its speeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/cost.h"
#include "position/position.h"
#include "study/answer.h"
#include "study/schedule.h"

#include <cmocka.h>

#include "unit/scratch.h"

enum { LENGTHS = 3 };
static const int64_t lengths[LENGTHS] = {64, 128, 256};

/* perplexity < 0: cannot be done there */
static method_result method(const char *name, const char *role, int64_t trained, const double *perplexity)
{
  method_result m = {.train_length = trained, .train_tokens_per_second = 1000, .peak_memory_bytes = 1000000};
  snprintf(m.name, sizeof m.name, "%s", name);
  snprintf(m.role, sizeof m.role, "%s", role);
  assert_int_equal(memory_new(&m.curves, 1, sizeof *m.curves, "test", NULL), ALIBI_OK);
  assert_int_equal(memory_new(&m.curves[0].points, LENGTHS, sizeof *m.curves[0].points, "test", NULL), ALIBI_OK);
  m.curve_count = 1;
  snprintf(m.curves[0].protocol, sizeof m.curves[0].protocol, "fixed-target");
  m.curves[0].count = LENGTHS;
  for (int i = 0; i < LENGTHS; i++) {
    curve_point *p = &m.curves[0].points[i];
    p->length = lengths[i];
    p->perplexity = perplexity[i];
    if (perplexity[i] < 0)
      snprintf(p->error, sizeof p->error, "position %lld does not exist", (long long)lengths[i]);
  }
  return m;
}

static char *answer_of(const method_result *methods, size_t count, char **rival)
{
  static study_plan plan;
  study_results results = {.train_length = 64, .method_count = count};
  plan =
      (study_plan){.length_count = LENGTHS, .protocol_count = 1, .entry_count = count, .command = "alibi study"};
  memcpy(plan.lengths, lengths, sizeof lengths);
  snprintf(plan.protocols[0], sizeof plan.protocols[0], "fixed-target");
  assert_int_equal(memory_new(&results.methods, count, sizeof *results.methods, "test", NULL), ALIBI_OK);
  memcpy(results.methods, methods, count * sizeof *methods);
  assert_int_equal(study_answer(&plan, &results, NULL), ALIBI_OK);
  char *answer = strdup(results.answer);
  if (rival) *rival = results.rival_answer ? strdup(results.rival_answer) : NULL;
  study_results_free(&results);
  return answer;
}

static void check_answer(const double (*perplexity)[LENGTHS], const char *const *names, size_t count,
                         const char *expected)
{
  method_result methods[4];
  for (size_t i = 0; i < count; i++) methods[i] = method(names[i], "method", 64, perplexity[i]);
  char *answer = answer_of(methods, count, NULL);
  assert_string_equal(answer, expected);
  free(answer);
}

static void flat_worse_and_unable(void **unused)
{
  (void)unused;
  check_answer((const double[][LENGTHS]){{30, 30.1, 30.2}, {20, 50, 40}, {40, -1, -1}},
               (const char *[]){"alibi", "rope", "learned"}, 3,
               "Trained at 64 tokens, ALiBi keeps the perplexity of the training length up to 256 tokens (at most "
               "1 % worse anywhere); "
               "RoPE (2.50 times at 128) gets worse beyond it; learned cannot go beyond 64. "
               "At the training length itself RoPE is best (perplexity 20.00).");
}

static void level_methods_are_named_together(void **unused)
{
  (void)unused;
  check_answer((const double[][LENGTHS]){{30.1, 31, 32}, {30, 40, 50}}, (const char *[]){"t5", "none"}, 2,
               "Trained at 64 tokens, no method keeps the perplexity of the training length up to 256 tokens; "
               "T5 (1.06 times at 256) and none (1.67 times at 256) get worse beyond it. "
               "At the training length itself T5 and none are best, within 1 % of each other (perplexity 30.00).");
}

/* A perplexity that overflows is the worst there is, and one that is missing at the training length proves
 * nothing. */
static void what_is_not_finite_is_not_flat(void **unused)
{
  (void)unused;
  check_answer((const double[][LENGTHS]){{30, 31, INFINITY}, {NAN, 30, 30}}, (const char *[]){"rope", "none"}, 2,
               "Trained at 64 tokens, no method keeps the perplexity of the training length up to 256 tokens; "
               "RoPE (without bound at 256) gets worse beyond it. "
               "At the training length itself RoPE is best (perplexity 30.00).");
}

static void rival_is_asked_at_its_own_length(void **unused)
{
  (void)unused;
  method_result methods[] = {method("alibi", "method", 64, (const double[]){30, 30, 30}),
                             method("sinusoidal", "rival", 256, (const double[]){60, 50, 33})};
  char *rival, *answer = answer_of(methods, 2, &rival);
  assert_non_null(strstr(
      rival, "Tested at 256 tokens, ALiBi trained at 64 reads 30.00 and sinusoidal trained at 256 reads 33.00: "
             "ALiBi wins on this text by 10.0 %."));
  free(rival);
  free(answer);
}

/* Two entries side by side take as long as one; with evaluation at no cost the steps follow from the speed alone.
 */
static void steps_fill_the_minutes(void **unused)
{
  (void)unused;
  static study_plan plan;
  plan = (study_plan){.entry_count = 2,
                      .length_count = 1,
                      .protocol_count = 1,
                      .jobs = 2,
                      .lengths = {64},
                      .valid_tokens = 10000,
                      .settings = {.minutes = 1, .max_targets = 1000, .fixed_targets = 1000}};
  plan.train.batch_tokens = 1000;
  snprintf(plan.protocols[0], sizeof plan.protocols[0], "nonoverlapping");
  for (int i = 0; i < 2; i++) plan.entries[i].train_tokens_per_second = 10000;
  assert_int_equal(schedule_fix_steps(&plan, 60, NULL), ALIBI_OK);
  assert_int_equal(plan.train.steps, 600);
  plan.jobs = 1;
  assert_int_equal(schedule_fix_steps(&plan, 60, NULL), ALIBI_OK);
  assert_int_equal(plan.train.steps, 300);
  plan.evaluate_seconds[0] = 0.01; /* 1000 tokens, 10 seconds an entry */
  assert_int_equal(schedule_fix_steps(&plan, 60, NULL), ALIBI_OK);
  assert_int_equal(plan.train.steps, 200);
  alibi_error error = {0};
  assert_int_equal(schedule_fix_steps(&plan, 20, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "--minutes"));
}

static study_request asking_for(const char *methods)
{
  study_request q = {.methods = methods, .extend = "none", .train_lengths = "64", .test_lengths = "64,128"};
  field_init(study_fields(), &q.settings);
  alibi_model_config_init(&q.model);
  alibi_train_options_init(&q.train);
  return q;
}

/* Every method once, whichever sets name it; a method that is asked for twice by itself is a slip. */
static void sets_of_methods(void **unused)
{
  (void)unused;
  static study_plan sets;
  static const char *const known[] = {"all", "classic", "modern", "rope-family", "alibi-family"};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    study_request q = asking_for(known[i]);
    alibi_error error = {0};
    sets = (study_plan){.entry_count = 0};
    if (study_plan_make(&q, &sets, &error) != ALIBI_OK) fail_msg("%s: %s", known[i], error.message);
    assert_true(sets.entry_count >= 5);
    if (i == 0) assert_int_equal(sets.entry_count, position_method_count());
    study_plan_free(&sets);
  }
  study_request q = asking_for("rope-family,classic,alibi");
  alibi_error error = {0};
  sets = (study_plan){.entry_count = 0};
  assert_int_equal(study_plan_make(&q, &sets, &error), ALIBI_INVALID); /* alibi is in the set */
  assert_non_null(strstr(error.message, "'alibi' stands there twice"));
  study_plan_free(&sets);
  q = asking_for("rope-family,classic");
  sets = (study_plan){.entry_count = 0};
  assert_int_equal(study_plan_make(&q, &sets, &error), ALIBI_OK);
  for (size_t i = 0; i < sets.entry_count; i++)
    for (size_t j = 0; j < i; j++) assert_string_not_equal(sets.entries[i].label, sets.entries[j].label);
  study_plan_free(&sets);
}

static void refuses(study_request q, const char *sentence)
{
  static study_plan plan;
  alibi_error error = {0};
  plan = (study_plan){.entry_count = 0};
  assert_int_equal(study_plan_make(&q, &plan, &error), ALIBI_INVALID);
  if (!strstr(error.message, sentence)) fail_msg("expected \"%s\", found \"%s\"", sentence, error.message);
}

static void empty_items_are_refused(void **unused)
{
  (void)unused;
  study_request q = asking_for("alibi,,rope");
  refuses(q, "--methods: item 2 of 'alibi,,rope' is empty");
  q = asking_for("rope");
  q.extend = ",";
  refuses(q, "--extend: item 1 of ',' is empty");
  q.extend = "yarn:factor=4,,ntk";
  refuses(q, "--extend: item 2 of 'yarn:factor=4,,ntk' is empty");
  q.extend = "none";
  q.test_lengths = "64,,128";
  refuses(q, "--test-lengths: item 2 of '64,,128' is empty");
  q.test_lengths = "64,0x80";
  refuses(q, "--test-lengths: expected an integer from 1 to 16777216, found '0x80'");
  q.test_lengths = "64";
  q.train_lengths = "64,";
  refuses(q, "--train-length: item 2 of '64,' is empty");
  q.train_lengths = "64";
  q.protocols = "sliding,";
  refuses(q, "--protocols: item 2 of 'sliding,' is empty");
  char longer[] = "rope,0123456789012345678901234567890123456789012345678901234567890123";
  refuses(asking_for(longer), "--methods: expected at most 63 characters between commas, found '01234567");
  refuses(asking_for("rope alibi"), "found 'rope alibi'"); /* commas part names, blanks do not */
}

static void methods_of_sets_are_used(void **unused)
{
  (void)unused;
  assert_true(study_uses("none,alibi", "alibi"));
  assert_true(study_uses("alibi-family", "nape"));
  assert_true(study_uses("none, classic", "alibi"));
  assert_true(study_uses("all", "fire"));
  assert_false(study_uses("alibi-family", "rope"));
  assert_false(study_uses("alibi-log,nape", "alibi"));
}

static void sentences_name_options(void **unused)
{
  (void)unused;
  study_request q = asking_for("rope");
  q.model.heads = 3;
  refuses(q, "--heads: expected a divisor of the width 128, found 3 (or set --head-size)");
  q = asking_for("rope");
  q.train_lengths = "100";
  refuses(q, "--batch-tokens: expected a multiple of the training length of 100 tokens");
  q = asking_for("rope");
  q.rival = "xpos";
  q.settings.rival_length = 1 << 20;
  refuses(q, "--rival-length: expected at most the ");
}

/* Where a window is longer than max_targets all lengths read as many tokens as it. */
static void every_length_is_read(void **unused)
{
  (void)unused;
  static study_plan plan;
  plan = (study_plan){
      .length_count = 2, .lengths = {64, 256}, .settings = {.max_targets = 100, .fixed_targets = 100}};
  for (size_t i = 0; i < plan.length_count; i++) {
    alibi_evaluate_options sliding = schedule_cell(&plan, ALIBI_SLIDING, plan.lengths[i], "");
    alibi_evaluate_options apart = schedule_cell(&plan, ALIBI_NONOVERLAPPING, plan.lengths[i], "");
    alibi_evaluate_options fixed = schedule_cell(&plan, ALIBI_FIXED_TARGET, plan.lengths[i], "");
    assert_int_equal(evaluate_cost_of(&sliding, 10000).targets, 256);
    assert_int_equal(evaluate_cost_of(&apart, 10000).targets, 256);
    assert_int_equal(evaluate_cost_of(&fixed, 10000).targets, 96);
  }
}

static void suggests(const char *command, const char *expected)
{
  static study_plan plan;
  method_result m = method("alibi", "method", 64, (const double[]){1, 2, 3});
  study_results results = {.train_length = 64, .method_count = 1};
  plan = (study_plan){.length_count = LENGTHS, .protocol_count = 1, .entry_count = 1, .command = (char *)command};
  memcpy(plan.lengths, lengths, sizeof lengths);
  snprintf(plan.protocols[0], sizeof plan.protocols[0], "fixed-target");
  assert_int_equal(memory_new(&results.methods, 1, sizeof *results.methods, "test", NULL), ALIBI_OK);
  results.methods[0] = m;
  assert_int_equal(study_answer(&plan, &results, NULL), ALIBI_OK);
  assert_string_equal(results.next_command, expected);
  study_results_free(&results);
}

static void the_next_command_is_whole(void **unused)
{
  (void)unused;
  char command[6000], expected[6100];
  snprintf(command, sizeof command, "alibi study --out o --overwrite --alibi-slopes %05000d text", 1);
  snprintf(expected, sizeof expected, "alibi study --out o-rival --alibi-slopes %05000d text --rival-length 256",
           1);
  suggests(command, expected);
  suggests("alibi study text", "alibi study text --out out/study-rival --rival-length 256");
  suggests("alibi study --out=o text", "alibi study --out=o-rival text --rival-length 256");
  suggests("alibi study --out o/ text", "alibi study --out o-rival text --rival-length 256");
  suggests("alibi study '--out=my o' 'a --overwrite --out b'",
           "alibi study '--out=my o'-rival 'a --overwrite --out b' --rival-length 256");
  suggests("alibi study --out 'it'\\''s o' --overwrite=yes t",
           "alibi study --out 'it'\\''s o'-rival t --rival-length 256");
  suggests("alibi study --rival-length 0 --no-overwrite --out o -- --overwrite --out t",
           "alibi study --out o-rival --rival-length 256 -- --overwrite --out t");
}

/* All settings of an extension, and lists of factors of a real model: whole in the plan, in study.json and in
 * results. */
static void long_settings_stay_whole(void **unused)
{
  (void)unused;
  static study_plan made, read;
  char extend[3000] = "yarn:factor=4,beta_fast=16,beta_slow=1.5,attention_factor=1.1,mscale=0.7,mscale_all_dim=0."
                      "8,original_length=64,"
                      "truncate=false,longrope:factor=4,long_factors=1";
  for (size_t i = 1; i < 48; i++)
    snprintf(extend + strlen(extend), sizeof extend - strlen(extend), "/%.9g", 1 + (double)i / 7);
  study_request q = asking_for("rope");
  alibi_error error = {0};
  q.extend = extend;
  q.model.head_size = 96;
  made = read = (study_plan){.entry_count = 0};
  if (study_plan_make(&q, &made, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(made.extension_count, 2);
  size_t first = strlen(made.extensions[0]);
  assert_true(strncmp(extend, made.extensions[0], first) == 0 &&
              strcmp(extend + first + 1, made.extensions[1]) == 0);
  made.text = strdup("a text");
  scratch_make();
  if (study_plan_write(&made, scratch_path(""), &error) != ALIBI_OK) fail_msg("%s", error.message);
  if (study_plan_read(scratch_path(""), &read, &error) != ALIBI_OK) fail_msg("%s", error.message);
  scratch_remove();
  assert_int_equal(read.extension_count, 2);
  for (size_t i = 0; i < 2; i++) assert_string_equal(read.extensions[i], made.extensions[i]);
  method_result m = method("rope", "method", 64, (double[]){1, 2, 3}), back;
  snprintf(m.curves[0].extend, sizeof m.curves[0].extend, "%s", made.extensions[1]);
  json_node *node = method_result_node(&m);
  if (method_result_read(node, "result", &back, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_non_null(method_find_curve(&back, "fixed-target", made.extensions[1]));
  node_free(node);
  method_result_free(&m);
  method_result_free(&back);
  study_plan_free(&made);
  study_plan_free(&read);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flat_worse_and_unable),          cmocka_unit_test(level_methods_are_named_together),
      cmocka_unit_test(what_is_not_finite_is_not_flat), cmocka_unit_test(rival_is_asked_at_its_own_length),
      cmocka_unit_test(steps_fill_the_minutes),         cmocka_unit_test(sets_of_methods),
      cmocka_unit_test(methods_of_sets_are_used),
      cmocka_unit_test(empty_items_are_refused),        cmocka_unit_test(sentences_name_options),
      cmocka_unit_test(every_length_is_read),           cmocka_unit_test(the_next_command_is_whole),
      cmocka_unit_test(long_settings_stay_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
