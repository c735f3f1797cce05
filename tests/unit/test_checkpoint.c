/* Checkpoints: k steps, stop, resume and the rest are the straight run to the bit; what is damaged is named; the
 * newest whole one is found; what the run was trained on cannot be swapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/system.h"
#include "train/checkpoint.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { VOCABULARY = 29, CORPUS = 500, STEPS = 9 };

static alibi_error error;
static alibi_context *context;
static uint32_t corpus[CORPUS];
static const uint64_t documents[] = {0, 10, 50, 51, 200, 333};

static token_source source_of(uint32_t *ids)
{
  token_source source;
  if (token_source_of_ids("corpus", ids, CORPUS, documents, sizeof documents / sizeof documents[0], &source,
                          &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  return source;
}

static alibi_train_options quick(void)
{
  alibi_train_options o;
  alibi_train_options_init(&o);
  o.steps = STEPS;
  o.batch_tokens = 4 * 24;
  o.warmup_steps = 2;
  return o;
}

typedef struct variant {
  const char *what, *model;
  void (*change)(alibi_train_options *o);
} variant;

/* 500 tokens are 19 windows: the epoch ends in the fifth step. */
static void nothing(alibi_train_options *o)
{
  (void)o;
}
static void random_places(alibi_train_options *o)
{
  o->order = ALIBI_ORDER_RANDOM;
}
static void accumulate(alibi_train_options *o)
{
  o->micro_tokens = 48;
  o->documents = ALIBI_DOCUMENTS_APART;
}
static void noise(alibi_train_options *o)
{
  o->dropout = 0.1;
  o->z_loss = 1e-3;
  o->recompute = true;
}
static void lengths(alibi_train_options *o)
{
  strcpy(o->length_schedule, "8:3,12:2");
}
static void guarded(alibi_train_options *o)
{
  o->spike_limit = 3;
  o->schedule = ALIBI_SCHEDULE_WSD;
}

static const variant variants[] = {{"epochs", "", nothing},
                                   {"random places", "position=rope", random_places},
                                   {"accumulation, documents apart", "position=t5", accumulate},
                                   {"dropout, z-loss, recompute", TINY_MODERN, noise},
                                   {"a schedule of lengths", "position=sinusoidal", lengths},
                                   {"the guard, another schedule", "position=learned bias=true", guarded}};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

static alibi_trainer *start(const variant *v, const token_source *source)
{
  alibi_model_config config = tiny_config(v->model);
  alibi_train_options options = quick();
  alibi_trainer *trainer;
  v->change(&options);
  if (trainer_new(context, NULL, &config, &options, source, NULL, 1, &trainer, &error) != ALIBI_OK)
    fail_msg("%s: %s", v->what, error.message);
  return trainer;
}

static void run(alibi_trainer *trainer, int64_t until, alibi_train_report *reports)
{
  while (trainer->step < until) {
    alibi_train_report *report = &reports[trainer->step];
    if (alibi_trainer_step(trainer, report, &error) != ALIBI_OK) fail_msg("%s", error.message);
  }
}

static void expect_same(const char *what, const alibi_trainer *a, const alibi_trainer *b)
{
  size_t floats = a->model->list.floats;
  assert_int_equal(floats, b->model->list.floats);
  if (tiny_floats_differ(a->model->values, b->model->values, floats)) fail_msg("%s: other weights", what);
  if (tiny_floats_differ(a->moments, b->moments, floats)) fail_msg("%s: other first moments", what);
  if (tiny_floats_differ(a->variances, b->variances, floats)) fail_msg("%s: other second moments", what);
  assert_int_equal(a->step, b->step);
  assert_int_equal(a->tokens_done, b->tokens_done);
  assert_memory_equal(&a->guard, &b->guard, sizeof a->guard);
}

static void a_resumed_run_is_the_straight_one(void **unused)
{
  static const int64_t stops[] = {1, 4, 5};
  (void)unused;
  token_source source = source_of(corpus);
  for (size_t v = 0; v < VARIANTS; v++) {
    alibi_train_report straight[STEPS], resumed[STEPS];
    memset(straight, 0, sizeof straight);
    memset(resumed, 0, sizeof resumed);
    alibi_trainer *whole = start(&variants[v], &source);
    run(whole, STEPS, straight);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) { /* twice in a row: at k and at a later step */
      const char *folder = scratch_path("checkpoint");
      alibi_trainer *part = start(&variants[v], &source);
      int64_t k = stops[i], second = k + (STEPS - k) / 2;
      run(part, k, resumed);
      for (int64_t stop = k; stop <= second; stop += second > k ? second - k : 1) {
        run(part, stop, resumed);
        if (checkpoint_save(part, NULL, NULL, folder, &error) != ALIBI_OK) fail_msg("%s", error.message);
        alibi_trainer_free(part);
        if (checkpoint_open(context, folder, &source, NULL, 1, &part, &error) != ALIBI_OK)
          fail_msg("%s", error.message);
        assert_int_equal(part->step, stop);
      }
      run(part, STEPS, resumed);
      expect_same(variants[v].what, whole, part);
      if (memcmp(straight, resumed, sizeof straight) != 0)
        fail_msg("%s: other reports after step %d", variants[v].what, (int)k);
      alibi_trainer_free(part);
    }
    alibi_trainer_free(whole);
  }
  token_source_close(&source);
}

static void ids_in_memory_are_enough(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("public");
  alibi_model_config config = tiny_config("");
  alibi_train_options options = quick();
  alibi_trainer *whole, *part;
  alibi_train_report reports[STEPS];
  assert_int_equal(alibi_trainer_new(context, &config, &options, corpus, CORPUS, &whole, &error), ALIBI_OK);
  run(whole, 4, reports);
  assert_int_equal(alibi_trainer_save(whole, folder, &error), ALIBI_OK);
  run(whole, STEPS, reports);
  assert_int_equal(alibi_trainer_open(context, folder, corpus, CORPUS, &part, &error), ALIBI_OK);
  run(part, STEPS, reports);
  expect_same("public calls", whole, part);
  alibi_trainer_free(part);
  alibi_model *model; /* and it is a model */
  assert_int_equal(alibi_model_open(context, folder, &model, &error), ALIBI_OK);
  alibi_model_free(model);
  alibi_trainer_free(whole);
}

/* ---- damage ---- */

static void damage(const char *path, long at, bool cut)
{
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  long place = at < 0 ? (long)about.st_size + at : at;
  if (cut) {
    assert_int_equal(truncate(path, place), 0);
    return;
  }
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, place, SEEK_SET), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, place, SEEK_SET), 0);
  fputc(byte ^ 1, file);
  assert_int_equal(fclose(file), 0);
}

static void every_damage_is_found_and_named(void **unused)
{
  (void)unused;
  static const char *const names[] = {"config.json", "model.safetensors", "optimiser.safetensors", "state.json"};
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source), *opened;
  alibi_train_report reports[STEPS];
  run(trainer, 2, reports);
  for (size_t i = 0; i < 4; i++)
    for (int kind = 0; kind < 4; kind++) {
      const char *folder = scratch_path("damaged");
      assert_int_equal(checkpoint_save(trainer, NULL, NULL, folder, &error), ALIBI_OK);
      char *path = path_join(folder, names[i]);
      if (kind == 3) assert_int_equal(remove(path), 0);
      else damage(path, kind == 0 ? 3 : kind == 1 ? -5 : 100, kind == 2);
      status result = checkpoint_open(context, folder, &source, NULL, 1, &opened, &error);
      if (result != ALIBI_BAD_INPUT || !strstr(error.message, names[i]))
        fail_msg("%s, damage %d: expected bad input with its name, found status %d: %s", names[i], kind,
                 (int)result, error.message);
      assert_null(opened);
      free(path);
    }
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

/* Any bit of state.json: refused, or (the last of 17 digits) without any meaning. */
static void no_flipped_bit_changes_the_state(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("flipped");
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source);
  alibi_train_report reports[STEPS];
  checkpoint_about about;
  run(trainer, 2, reports);
  assert_int_equal(checkpoint_save(trainer, NULL, NULL, folder, &error), ALIBI_OK);
  assert_int_equal(checkpoint_read(folder, &about, &error), ALIBI_OK);
  char *expected = node_to_text(about.root), *path = path_join(folder, "state.json");
  checkpoint_about_free(&about);
  struct stat file;
  assert_int_equal(stat(path, &file), 0);
  int refused = 0;
  for (long i = 0; i < (long)file.st_size; i++) {
    damage(path, i, false);
    status result = checkpoint_read(folder, &about, &error);
    if (result == ALIBI_OK) {
      char *found = node_to_text(about.root);
      if (strcmp(found, expected) != 0) fail_msg("byte %ld: expected it to be refused, found %s", i, found);
      free(found);
    } else if (result != ALIBI_BAD_INPUT || !strstr(error.message, "state.json")) {
      fail_msg("byte %ld: expected bad input with its name, found status %d: %s", i, (int)result, error.message);
    }
    checkpoint_about_free(&about);
    refused += result != ALIBI_OK;
    damage(path, i, false);
  }
  assert_true(refused > file.st_size * 9 / 10);
  free(path);
  free(expected);
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

static void other_tokens_are_refused(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("swapped");
  static uint32_t other[CORPUS];
  memcpy(other, corpus, sizeof other);
  other[250] = (other[250] + 1) % VOCABULARY;
  token_source source = source_of(corpus), swapped = source_of(other), both[2] = {source, source};
  alibi_trainer *trainer = start(&variants[0], &source), *opened;
  assert_int_equal(checkpoint_save(trainer, NULL, NULL, folder, &error), ALIBI_OK);
  assert_int_equal(checkpoint_open(context, folder, &swapped, NULL, 1, &opened, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "expected the tokens that it was trained on"));
  assert_int_equal(checkpoint_open(context, folder, both, NULL, 2, &opened, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "expected the 1 sources of tokens"));
  alibi_trainer_free(trainer);
  token_source_close(&source);
  token_source_close(&swapped);
}

/* ---- the checkpoints of a run ---- */

/* Names have eight digits, and more where the steps have. */
static void a_ninth_digit_is_newer(void **unused)
{
  (void)unused;
  static const int64_t steps[] = {99999999, 100000000, 100000001};
  const char *folder = scratch_path("digits");
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source);
  checkpoint_about about;
  directory_list list;
  char *newest, *expected = checkpoint_path(folder, steps[2]);
  assert_int_equal(directory_make(folder, &error), ALIBI_OK);
  for (size_t i = 0; i < 3; i++) {
    char *path = checkpoint_path(folder, steps[i]);
    assert_int_equal(checkpoint_save(trainer, NULL, NULL, path, &error), ALIBI_OK);
    free(path);
  }
  assert_int_equal(checkpoint_newest(folder, NULL, NULL, &newest, &about, &error), ALIBI_OK);
  assert_string_equal(newest, expected);
  checkpoint_about_free(&about);
  assert_int_equal(checkpoint_prune(folder, 1, &error), ALIBI_OK);
  assert_int_equal(directory_read(folder, &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 1);
  assert_string_equal(list.names[0], "step-100000001");
  directory_list_free(&list);
  free(expected);
  free(newest);
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

static char told[512];
static int told_times;

static void tell(void *unused, const char *sentence)
{
  (void)unused;
  snprintf(told, sizeof told, "%s", sentence);
  told_times++;
}

static void expect_newest(const char *folder, int64_t step)
{
  checkpoint_about about;
  char *path;
  assert_int_equal(checkpoint_newest(folder, tell, NULL, &path, &about, &error), ALIBI_OK);
  if (step < 0) {
    assert_null(path);
    return;
  }
  assert_non_null(path);
  assert_int_equal(about.step, step);
  assert_string_equal(node_text(node_get(about.run, "note"), "none"), "hello");
  checkpoint_about_free(&about);
  free(path);
}

static void the_newest_whole_one_is_found(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("run");
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source);
  alibi_train_report reports[STEPS];
  expect_newest(folder, -1); /* no folder yet */
  assert_int_equal(directory_make(folder, &error), ALIBI_OK);
  for (int64_t step = 2; step <= 6; step += 2) {
    json_node *note = node_new_object();
    node_set_text(note, "note", "hello");
    run(trainer, step, reports);
    char *path = checkpoint_path(folder, step);
    assert_int_equal(checkpoint_save(trainer, NULL, note, path, &error), ALIBI_OK);
    free(path);
  }
  expect_newest(folder, 6);
  assert_int_equal(told_times, 0);
  char *beside = path_join(folder, "step-00000009.new"); /* a save that was killed */
  assert_int_equal(directory_make(beside, &error), ALIBI_OK);
  expect_newest(folder, 6);
  char *newest = checkpoint_path(folder, 6), *state = path_join(newest, "state.json"),
       *weights = path_join(newest, "model.safetensors");
  damage(weights, -9, false);
  expect_newest(folder, 4);
  assert_int_equal(told_times, 1);
  assert_non_null(strstr(told, "step-00000006/model.safetensors"));
  assert_int_equal(remove(state), 0);
  expect_newest(folder, 4);
  assert_non_null(strstr(told, "step-00000006/state.json"));
  run(trainer, 6, reports);
  json_node *note = node_new_object();
  node_set_text(note, "note", "hello");
  assert_int_equal(checkpoint_save(trainer, NULL, note, newest, &error),
                   ALIBI_OK); /* takes the damaged one's place */
  expect_newest(folder, 6);
  assert_int_equal(checkpoint_prune(folder, 2, &error), ALIBI_OK);
  directory_list list;
  assert_int_equal(directory_read(folder, &list, &error), ALIBI_OK);
  assert_int_equal(list.count, 2);
  assert_string_equal(list.names[0], "step-00000004");
  assert_string_equal(list.names[1], "step-00000006");
  directory_list_free(&list);
  free(weights);
  free(state);
  free(newest);
  free(beside);
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

/* A removal that stops halfway leaves no damaged checkpoint: here because a directory lies in it, in use because
 * the process is killed when a training has come to its end. */
static void a_removal_that_stops_leaves_no_half(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("halfway");
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source);
  char *path = checkpoint_path(folder, 2), *within = path_join(path, "zz");
  assert_int_equal(directory_make(folder, &error), ALIBI_OK);
  assert_int_equal(checkpoint_save(trainer, NULL, NULL, path, &error), ALIBI_OK);
  assert_int_equal(directory_make(within, &error), ALIBI_OK);
  told_times = 0;
  assert_int_equal(checkpoint_prune(folder, 0, &error), ALIBI_FAILED);
  expect_newest(folder, -1);
  assert_int_equal(told_times, 0);
  free(within);
  free(path);
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

static void a_save_that_fails_leaves_the_old_one(void **unused)
{
  (void)unused;
  const char *folder = scratch_path("kept");
  token_source source = source_of(corpus);
  alibi_trainer *trainer = start(&variants[0], &source);
  checkpoint_about about;
  assert_int_equal(checkpoint_save(trainer, NULL, NULL, folder, &error), ALIBI_OK);
  const char *beside = scratch_path("kept.new");
  FILE *file = fopen(beside, "w"); /* a file where the directory would be made */
  assert_non_null(file);
  fclose(file);
  assert_int_not_equal(checkpoint_save(trainer, NULL, NULL, folder, &error), ALIBI_OK);
  assert_int_equal(checkpoint_read(folder, &about, &error), ALIBI_OK);
  checkpoint_about_free(&about);
  alibi_trainer_free(trainer);
  token_source_close(&source);
}

static int setup(void **unused)
{
  (void)unused;
  alibi_error_init(&error);
  context = tiny_context(NULL, 1);
  tiny_tokens(corpus, CORPUS, 31, VOCABULARY);
  scratch_make();
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  scratch_remove();
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_resumed_run_is_the_straight_one), cmocka_unit_test(ids_in_memory_are_enough),
      cmocka_unit_test(every_damage_is_found_and_named),   cmocka_unit_test(no_flipped_bit_changes_the_state),
      cmocka_unit_test(other_tokens_are_refused),
      cmocka_unit_test(a_ninth_digit_is_newer),
      cmocka_unit_test(the_newest_whole_one_is_found),
      cmocka_unit_test(a_removal_that_stops_leaves_no_half),
      cmocka_unit_test(a_save_that_fails_leaves_the_old_one)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
