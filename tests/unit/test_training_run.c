/* The loop of a whole training: what it writes, when it evaluates, samples, saves and ends; that a run in parts is
 * the run in one go; that what cannot be saved is said and costs nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/tokenizer.h"
#include "base/directory.h"
#include "base/system.h"
#include "train/training_run.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { CORPUS = 600, VALID = 120, STEPS = 12, LENGTH = 16 };

static alibi_error error;
static alibi_context *context;
static alibi_tokenizer *tokenizer;
static uint32_t corpus[CORPUS], valid[VALID];
static token_source source;

/* What the watch was told. */
static int steps_seen, notes, warnings, cancel_at;
static char last_note[2048], last_warning[2048];
static double losses[STEPS + 1];

static void on_step(void *user, const training_step *s)
{
  (void)user;
  steps_seen++;
  losses[s->step] = s->loss;
  if (s->step == cancel_at) alibi_context_cancel(context);
}

static void on_note(void *user, const char *sentence)
{
  (void)user;
  notes++;
  snprintf(last_note, sizeof last_note, "%s", sentence);
}

static void on_warning(void *user, const char *sentence)
{
  (void)user;
  warnings++;
  snprintf(last_warning, sizeof last_warning, "%s", sentence);
}

static run_task task_in(const char *folder)
{
  run_task task = {.context = context,
                   .folder = folder,
                   .lengths = {LENGTH, 48},
                   .length_count = 2,
                   .prompt = "ab",
                   .tokenizer = tokenizer,
                   .valid = valid,
                   .valid_count = VALID,
                   .watch = {.step = on_step, .note = on_note, .warn = on_warning}};
  field_init(run_setting_fields(), &task.settings);
  steps_seen = notes = warnings = cancel_at = 0;
  last_note[0] = last_warning[0] = '\0';
  return task;
}

static alibi_trainer *trainer_of(void (*change)(alibi_train_options *o))
{
  alibi_model_config config = tiny_config("vocabulary=256 layers=1 width=16 heads=2 train_length=16");
  alibi_train_options o;
  alibi_trainer *trainer;
  alibi_train_options_init(&o);
  o.steps = STEPS;
  o.batch_tokens = 4 * LENGTH;
  if (change) change(&o);
  if (trainer_new(context, NULL, &config, &o, &source, NULL, 1, &trainer, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return trainer;
}

static void run_whole(alibi_trainer *trainer, const run_task *task, run_state *state)
{
  if (training_run(trainer, task, state, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static size_t weights_differ(alibi_trainer *a, alibi_trainer *b)
{
  return tiny_floats_differ(a->model->values, b->model->values, a->model->list.floats);
}

static void diary_and_curve_say_what_happened(void **unused)
{
  (void)unused;
  alibi_trainer *trainer = trainer_of(NULL);
  run_task task = task_in(scratch_folder);
  run_state state = {0};
  training_log log;
  task.settings.evaluate_every = 5;
  task.settings.sample_every = 4;
  task.settings.sample_tokens = 3;
  task.settings.events = true;
  run_whole(trainer, &task, &state);
  assert_int_equal(steps_seen, STEPS);
  assert_int_equal(state.steps, STEPS);
  assert_int_equal(state.tokens, STEPS * 4 * LENGTH);
  assert_false(path_exists(scratch_path("checkpoints"))); /* ten minutes have not passed */
  assert_true(path_is_directory(scratch_path("events")));
  assert_int_equal(training_log_read(scratch_path("log.jsonl"), &log, &error), ALIBI_OK);
  assert_int_equal(log.step_count, STEPS);
  for (size_t i = 0; i < STEPS; i++) {
    assert_true(log.steps[i].loss == losses[i + 1]);
    assert_true(state.losses[i] == losses[i + 1]); /* fewer steps than points */
  }
  assert_int_equal(log.evaluation_count, 2 * 3); /* steps 5, 10 and the last */
  assert_int_equal(log.evaluations[5].step, STEPS);
  assert_int_equal(log.evaluations[5].length, 48);
  assert_int_equal(log.event_count, 3);
  assert_string_equal(log.events[0].name, "sample");
  assert_memory_equal(log.events[0].text, "ab", 2);
  assert_int_equal(notes, 3 + 3);
  assert_int_equal(warnings, 0);
  assert_true(state.first_loss == losses[1]);
  training_log_free(&log);
  alibi_trainer_free(trainer);
}

static char *best_checkpoint(checkpoint_about *about)
{
  char *path;
  assert_int_equal(checkpoint_newest(scratch_path("checkpoints"), NULL, NULL, &path, about, &error), ALIBI_OK);
  assert_non_null(path);
  return path;
}

/* Cancelled in every step, each time taken up from the checkpoint: state, log and weights are those of the run in
 * one go. */
static void a_run_in_parts_is_the_run_in_one_go(void **unused)
{
  (void)unused;
  alibi_trainer *straight = trainer_of(NULL);
  run_task task = task_in(scratch_path("straight"));
  run_state one = {0}, parts = {0};
  task.settings.evaluate_every = 3;
  task.settings.patience = 100;
  assert_int_equal(directory_make(task.folder, &error), ALIBI_OK);
  run_whole(straight, &task, &one);
  task = task_in(scratch_folder);
  task.settings.evaluate_every = 3;
  task.settings.patience = 100;
  for (int64_t step = 0; step < STEPS; step++) {
    checkpoint_about about = {0};
    char *path = step ? best_checkpoint(&about) : NULL;
    alibi_trainer *trainer = NULL;
    parts = (run_state){0};
    if (step) {
      assert_int_equal(about.step, step);
      assert_int_equal(checkpoint_open(context, path, &source, NULL, 1, &trainer, &error), ALIBI_OK);
      assert_int_equal(run_state_read(about.run, path, &parts, &error), ALIBI_OK);
    } else {
      trainer = trainer_of(NULL);
    }
    cancel_at = (int)step + 1;
    atomic_store(&context->cancelled, 0);
    status result = training_run(trainer, &task, &parts, &error);
    atomic_store(&context->cancelled, 0);
    /* In the last step there is nothing left to be cancelled, but an evaluation. */
    assert_int_equal(result, ALIBI_CANCELLED);
    assert_int_equal(parts.saved, step + 1);
    if (step + 1 == STEPS) assert_int_equal(weights_differ(trainer, straight), 0);
    alibi_trainer_free(trainer);
    checkpoint_about_free(&about);
    free(path);
  }
  checkpoint_about about = {0};
  char *path = best_checkpoint(&about);
  alibi_trainer *trainer;
  cancel_at = 0;
  assert_int_equal(checkpoint_open(context, path, &source, NULL, 1, &trainer, &error), ALIBI_OK);
  assert_int_equal(run_state_read(about.run, path, &parts, &error), ALIBI_OK);
  run_whole(trainer, &task, &parts);
  assert_int_equal(parts.steps, STEPS);
  assert_int_equal(parts.best_step, one.best_step);
  assert_true(parts.best_loss == one.best_loss);
  assert_int_equal(parts.evaluated, STEPS);
  assert_memory_equal(parts.losses, one.losses, sizeof one.losses);
  training_log log;
  assert_int_equal(training_log_read(scratch_path("log.jsonl"), &log, &error), ALIBI_OK);
  assert_int_equal(log.step_count, STEPS);
  assert_int_equal(log.evaluation_count, 2 * 4);
  training_log_free(&log);
  alibi_trainer_free(trainer);
  alibi_trainer_free(straight);
  checkpoint_about_free(&about);
  free(path);
}

static void checkpoints_come_by_steps_and_the_newest_are_kept(void **unused)
{
  (void)unused;
  alibi_trainer *trainer = trainer_of(NULL);
  run_task task = task_in(scratch_folder);
  run_state state = {0};
  directory_list list = {0};
  task.settings.checkpoint_every = 2;
  task.settings.keep_checkpoints = 3;
  run_whole(trainer, &task, &state);
  assert_int_equal(directory_read(scratch_path("checkpoints"), &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 3);
  assert_string_equal(list.names[0], "step-00000006");
  assert_string_equal(list.names[2], "step-00000010"); /* the last step leaves the model itself */
  assert_int_equal(state.saved, 10);
  directory_list_free(&list);
  alibi_trainer_free(trainer);

  /* A training that begins anew leaves none of the older, later ones. */
  trainer = trainer_of(NULL);
  task = task_in(scratch_folder);
  task.settings.checkpoint_every = 5;
  state = (run_state){0};
  run_whole(trainer, &task, &state);
  assert_int_equal(directory_read(scratch_path("checkpoints"), &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 2);
  assert_string_equal(list.names[1], "step-00000010");
  directory_list_free(&list);
  alibi_trainer_free(trainer);
}

static void what_cannot_be_saved_is_said_and_training_goes_on(void **unused)
{
  (void)unused;
  alibi_trainer *trainer = trainer_of(NULL), *straight = trainer_of(NULL);
  run_task task = task_in(scratch_folder);
  run_state state = {0};
  scratch_write(scratch_path("checkpoints"), "a file", 6); /* where the folder would be */
  task.settings.checkpoint_every = 4;
  run_whole(trainer, &task, &state);
  assert_int_equal(warnings, 2);
  scratch_says(last_warning, "the checkpoint of step 8 could not be saved, the training goes on: ");
  assert_int_equal(state.saved, 0);
  alibi_train_report report;
  for (int i = 0; i < STEPS; i++) assert_int_equal(alibi_trainer_step(straight, &report, &error), ALIBI_OK);
  assert_int_equal(weights_differ(trainer, straight), 0);
  alibi_trainer_free(straight);
  alibi_trainer_free(trainer);
}

static void too_fast(alibi_train_options *o)
{
  o->learning_rate = 3;
  o->warmup_steps = 0;
  o->clip = 0;
  o->schedule = ALIBI_SCHEDULE_CONSTANT;
  o->steps = 1000;
}

static void patience_ends_the_run_and_keeps_the_best(void **unused)
{
  (void)unused;
  alibi_trainer *trainer = trainer_of(too_fast);
  run_task task = task_in(scratch_folder);
  run_state state = {0};
  alibi_model *best;
  task.settings.evaluate_every = 1;
  task.settings.patience = 3;
  run_whole(trainer, &task, &state);
  assert_true(state.stopped_early);
  assert_true(state.has_best);
  assert_int_equal(state.steps, state.best_step + 3);
  scratch_says(last_note, "3 evaluations were no better than that of step");
  if (alibi_model_open(context, scratch_path("best"), &best, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_true(path_exists(scratch_path("best/tokenizer.json")));
  alibi_evaluate_options options;
  alibi_evaluate_result found;
  alibi_evaluate_options_init(&options);
  options.protocol = ALIBI_NONOVERLAPPING;
  options.window = options.shortest = LENGTH;
  options.longest = 48;
  options.max_targets = task.settings.evaluate_tokens;
  assert_int_equal(alibi_evaluate(best, valid, VALID, NULL, &options, &found, &error), ALIBI_OK);
  assert_true(found.nll == state.best_loss);
  alibi_model_free(best);
  alibi_trainer_free(trainer);
}

/* Weights that are no numbers: the next loss is none. */
static void on_step_spoil(void *user, const training_step *s)
{
  alibi_trainer *trainer = user;
  if (s->step == 5) trainer->model->values[3] = NAN;
}

static void a_loss_that_is_none_stops_with_what_is_left(void **unused)
{
  (void)unused;
  alibi_trainer *trainer = trainer_of(NULL);
  run_task task = task_in(scratch_folder);
  run_state state = {0};
  task.settings.checkpoint_every = 4;
  task.watch = (run_watch){.step = on_step_spoil, .user = trainer};
  assert_int_equal(training_run(trainer, &task, &state, &error), ALIBI_FAILED);
  scratch_says(error.message, "step 6: ");
  scratch_says(error.message, "is not finite");
  scratch_says(error.message, "the last good checkpoint is that of step 4");
  alibi_trainer_free(trainer);
  training_log log;
  assert_int_equal(training_log_read(scratch_path("log.jsonl"), &log, &error), ALIBI_OK);
  assert_int_equal(log.step_count, 5);
  assert_string_equal(log.events[log.event_count - 1].name, "stopped");
  training_log_free(&log);
}

static void foreign_records_are_refused(void **unused)
{
  (void)unused;
  run_state state;
  static const char *const records[] = {"{\"seconds\": -1}", "{\"evaluated\": \"x\"}", "{\"unknown\": 1}"};
  for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
    json_node *node;
    assert_int_equal(node_parse(records[i], strlen(records[i]), "record", &node, &error), ALIBI_OK);
    assert_true(run_state_read(node, "here", &state, &error) != ALIBI_OK);
    scratch_says(error.message, "here");
    node_free(node);
  }
  assert_int_equal(run_state_read(NULL, "here", &state, &error), ALIBI_BAD_INPUT);
}

static int make(void **unused)
{
  (void)unused;
  context = tiny_context(NULL, 1);
  assert_int_equal(alibi_tokenizer_new_bytes(&tokenizer, &error), ALIBI_OK);
  tiny_tokens(corpus, CORPUS, 1, 20);
  tiny_tokens(valid, VALID, 2, 20);
  assert_int_equal(token_source_of_ids("corpus", corpus, CORPUS, NULL, 0, &source, &error), ALIBI_OK);
  return 0;
}

static int unmake(void **unused)
{
  (void)unused;
  token_source_close(&source);
  alibi_tokenizer_free(tokenizer);
  alibi_context_free(context);
  return 0;
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(diary_and_curve_say_what_happened),
      IN_FOLDER(a_run_in_parts_is_the_run_in_one_go),
      IN_FOLDER(checkpoints_come_by_steps_and_the_newest_are_kept),
      IN_FOLDER(what_cannot_be_saved_is_said_and_training_goes_on),
      IN_FOLDER(patience_ends_the_run_and_keeps_the_best),
      IN_FOLDER(a_loss_that_is_none_stops_with_what_is_left),
      cmocka_unit_test(foreign_records_are_refused),
  };
  return cmocka_run_group_tests(tests, make, unmake);
}
