/* Training whose sequences are cut among ranks, against the same training on one: every position method, losses
 * and gradients, dropout, recompute, groups beside each other, bits from run to run, checkpoints, and what is
 * refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "mpi/training_ranks.h"

enum { VOCABULARY = 29, CORPUS = 4000, LENGTH = 200, STEPS = 3 };

static uint32_t corpus[CORPUS];

static void enter_group(int size)
{
  expect_ok(comm_split(c, size, &together->sequence_comm, &error));
}

static void leave_group(void)
{
  comm_close(together->sequence_comm, ALIBI_OK, 1);
  together->sequence_comm = NULL;
}

static alibi_train_options options_of(int64_t sequences, int64_t length)
{
  alibi_train_options o;
  alibi_train_options_init(&o);
  o.steps = 100;
  o.batch_tokens = sequences * length;
  o.warmup_steps = 2;
  o.epsilon = 1e-4; /* a gradient that is 0 but for rounding must not make a whole step */
  return o;
}

static alibi_model_config config_of(const char *settings, int64_t length)
{
  alibi_model_config config = tiny_config(settings);
  config.train_length = length;
  return config;
}

static alibi_trainer *start(alibi_context *context, const char *settings, int64_t length,
                            const alibi_train_options *options)
{
  alibi_model_config config = config_of(settings, length);
  alibi_trainer *trainer;
  if (alibi_trainer_new(context, &config, options, corpus, CORPUS, &trainer, &error) != ALIBI_OK)
    fail_msg("rank %d: %s: %s", rank, settings, error.message);
  return trainer;
}

static void compare(const char *settings, int64_t length, const alibi_train_options *options)
{
  alibi_trainer *all = start(together, settings, length, options), *one = start(single, settings, length, options);
  for (int s = 0; s < STEPS; s++) {
    alibi_train_report found = step(all), expected = step(one);
    assert_int_equal(found.tokens, expected.tokens);
    near(found.loss, expected.loss, s ? 1e-5 : 1e-6, settings);
    double apart = s == 0 ? gradients_apart(all, one) : 0;
    if (!(apart <= 1e-6)) fail_msg("%s: the gradient is off by %g of its norm", settings, apart);
  }
  alibi_trainer_free(all);
  alibi_trainer_free(one);
}

/* Every group size, with the tolerance that models have and with none. */
static void a_step_is_that_of_one_rank(void **unused)
{
  (void)unused;
  static const char *const settings[] = {"position=alibi", "position=rope " TINY_MODERN " tied=false qk_norm=true",
                                         "position=t5 bias=true norm_bias=true", "position=none kv_heads=2",
                                         "position=alibi score_scaling=ssmax",
                                         ("parallel=one-norm score_cap=2 clip_qkv=1.5 logit_cap=3"
                                          " embedding_shift=true")};
  double tolerance = together->tolerance;
  assert_true(tolerance > 0);
  for (int size = ranks > 1 ? 2 : 1; size <= ranks; size++) {
    if (ranks % size != 0) continue;
    enter_group(size);
    for (size_t m = 0; m < sizeof settings / sizeof settings[0]; m++) {
      alibi_train_options options = options_of(3, LENGTH);
      compare(settings[m], LENGTH, &options);
      if (m > 0) continue;
      together->tolerance = single->tolerance = 0;
      compare(settings[m], LENGTH, &options);
      together->tolerance = single->tolerance = tolerance;
    }
    leave_group();
  }
}

static void every_position_method_is_right_or_refused(void **unused)
{
  (void)unused;
  enter_group(ranks);
  for (size_t i = 0; i < position_method_count(); i++) {
    const char *name = position_method_at(i)->name;
    char settings[160];
    snprintf(settings, sizeof settings, "position=%s", name);
    alibi_train_options options = options_of(1, LENGTH);
    if (ranks == 1 || (strcmp(name, "fox") != 0 && strcmp(name, "fire") != 0)) {
      compare(settings, LENGTH, &options);
      continue;
    }
    alibi_model_config config = config_of(settings, LENGTH);
    alibi_trainer *trainer;
    assert_int_equal(alibi_trainer_new(together, &config, &options, corpus, CORPUS, &trainer, &error),
                     ALIBI_INVALID);
    scratch_says(error.message, "its sequences cannot be cut among ranks");
    scratch_says(error.message, name);
  }
  leave_group();
}

/* More sequences than are in memory at once, none for some groups, masks, what is made again, phases of other
 * lengths. */
static void each_setting_is_right(void **unused)
{
  (void)unused;
  for (int size = 2; size <= ranks; size++) {
    if (ranks % size != 0) continue;
    enter_group(size);
    for (int i = 0; i < 5; i++) {
      alibi_train_options options = options_of(i == 1 ? 1 : 5, LENGTH);
      options.micro_tokens = (i == 0 ? 2 : i == 2) * LENGTH;
      options.dropout = i == 2 || i == 3 ? 0.2 : 0;
      options.recompute = i == 3;
      if (i == 4) {
        snprintf(options.length_schedule, sizeof options.length_schedule, "250:1,400:1");
        options.batch_tokens = 2000;
      }
      compare("position=alibi bias=true norm_bias=true", LENGTH * (i == 4 ? 5 : 1), &options);
    }
    leave_group();
  }
}

static void two_runs_have_the_same_bits(void **unused)
{
  (void)unused;
  for (int size = 1; size <= ranks; size++) {
    if (ranks % size != 0) continue;
    enter_group(size);
    alibi_train_options options = options_of(3, LENGTH);
    alibi_trainer *a = start(together, "position=alibi", LENGTH, &options),
                  *b = start(together, "position=alibi", LENGTH, &options);
    for (int s = 0; s < STEPS; s++) {
      alibi_train_report first = step(a), second = step(b);
      assert_memory_equal(&first, &second, sizeof first);
    }
    assert_memory_equal(a->model->values, b->model->values, a->shards.floats * sizeof(float));
    alibi_trainer_free(a);
    alibi_trainer_free(b);
    leave_group();
  }
}

static alibi_trainer *go_on(alibi_context *context, const char *directory)
{
  alibi_trainer *trainer;
  expect_ok(alibi_trainer_open(context, directory, corpus, CORPUS, &trainer, &error));
  return trainer;
}

/* How sequences are cut is no part of a checkpoint. */
static void a_run_goes_on_with_sequences_in_parts(void **unused)
{
  (void)unused;
  char directory[512];
  snprintf(directory, sizeof directory, "%s/whole", scratch_folder);
  alibi_train_options options = options_of(3, LENGTH);
  alibi_trainer *one = start(single, "position=alibi", LENGTH, &options);
  for (int s = 0; s < STEPS; s++) step(one);
  if (rank == 0) expect_ok(alibi_trainer_save(one, directory, &error));
  expect_ok(comm_barrier(c, &error));
  enter_group(ranks);
  alibi_trainer *all = go_on(together, directory);
  for (int s = 0; s < STEPS; s++) near(step(all).loss, step(one).loss, 1e-4, "loss in parts");
  snprintf(directory, sizeof directory, "%s/parts", scratch_folder);
  expect_ok(alibi_trainer_save(all, directory, &error));
  alibi_trainer *same = go_on(together, directory), *whole = go_on(single, directory);
  for (int s = 0; s < STEPS; s++) {
    alibi_train_report expected = step(all), found = step(same);
    assert_memory_equal(&found, &expected, sizeof found);
    near(step(whole).loss, expected.loss, 1e-4, "loss in one");
  }
  alibi_trainer_free(one);
  alibi_trainer_free(all);
  alibi_trainer_free(same);
  alibi_trainer_free(whole);
  leave_group();
}

/* A rank counts its own rows, and the keys that may come to it. */
static void memory_is_shared_out(void **unused)
{
  (void)unused;
  enum { LONG = 2048 };
  alibi_model_config config = config_of("position=alibi", LONG);
  alibi_train_options options = options_of(1, LONG);
  alibi_model *model;
  expect_ok(model_allocate(single, &config, &model, &error));
  size_t whole = train_plan_of(model, &options).pass_bytes;
  enter_group(ranks);
  model->context = together;
  size_t part = train_plan_of(model, &options).pass_bytes;
  model->context = single;
  if (ranks == 1) assert_int_equal(part, whole);
  else assert_true(part < whole && part > whole / (size_t)ranks);
  alibi_model_free(model);
  leave_group();
}

static void what_cannot_be_cut_is_refused(void **unused)
{
  (void)unused;
  alibi_trainer *trainer;
  comm *group;
  assert_int_equal(comm_split(c, ranks + 1, &group, &error), ALIBI_INVALID);
  scratch_says(error.message, "expected a number that divides");
  if (ranks == 1) return;
  enter_group(ranks);
  int64_t most = 64 * (ranks - 1);
  alibi_model_config config = config_of("position=alibi", most);
  alibi_train_options options = options_of(1, most);
  assert_int_equal(alibi_trainer_new(together, &config, &options, corpus, CORPUS, &trainer, &error),
                   ALIBI_INVALID);
  scratch_says(error.message, "expected more than");
  options = options_of(1, most + 1);
  compare("position=alibi", most + 1, &options); /* the last rank has one row */
  static const uint64_t documents[] = {0, 1000, 2000};
  token_source source;
  expect_ok(token_source_of_ids("text", corpus, CORPUS, documents, 3, &source, &error));
  config = config_of("position=alibi", LENGTH * 2);
  options = options_of(1, LENGTH * 2);
  options.documents = ALIBI_DOCUMENTS_APART;
  assert_int_equal(trainer_new(together, NULL, &config, &options, &source, NULL, 1, &trainer, &error),
                   ALIBI_INVALID);
  scratch_says(error.message, "documents apart");
  token_source_close(&source);
  leave_group();
}

/* Without ranks a pass does not take a run whose keys it would not find. */
static void a_run_without_its_keys_is_refused(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(single, "position=alibi");
  pass_shape shape = {.rows = 8, .segments = 1, .length = 24, .head_rows = 8, .keep = true};
  model_pass *pass;
  pass_segment segment = {.count = 8, .first = 8};
  expect_ok(model_pass_new(model, &shape, &pass, &error));
  assert_int_equal(model_forward(pass, corpus, &segment, 1, &error), ALIBI_INVALID);
  scratch_says(error.message, "from position 0 on");
  model_pass_free(pass);
  alibi_model_free(model);
}

/* Interrupted on the last rank only, wherever that is noticed: all ranks stop, and the next step is as it would
 * have been. */
static void an_interruption_of_one_stops_all(void **unused)
{
  (void)unused;
  for (int size = 1; size <= ranks; size++) {
    if (ranks % size != 0) continue;
    enter_group(size);
    alibi_train_options options = options_of(3, LENGTH);
    alibi_trainer *all = start(together, "position=alibi", LENGTH, &options),
                  *undisturbed = start(together, "position=alibi", LENGTH, &options);
    alibi_train_report report;
    if (rank == ranks - 1) alibi_context_cancel(together);
    assert_int_equal(alibi_trainer_step(all, &report, &error), ALIBI_CANCELLED);
    atomic_store(&together->cancelled, 0);
    alibi_train_report found = step(all), expected = step(undisturbed);
    assert_memory_equal(&found, &expected, sizeof found);
    alibi_trainer_free(all);
    alibi_trainer_free(undisturbed);
    leave_group();
  }
}

static int setup(void **unused)
{
  (void)unused;
  training_ranks_begin(corpus, CORPUS, VOCABULARY);
  return 0;
}

int main(int count, char **arguments)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_is_that_of_one_rank),
      cmocka_unit_test(every_position_method_is_right_or_refused),
      cmocka_unit_test(each_setting_is_right),
      cmocka_unit_test(two_runs_have_the_same_bits),
      cmocka_unit_test(a_run_goes_on_with_sequences_in_parts),
      cmocka_unit_test(memory_is_shared_out),
      cmocka_unit_test(what_cannot_be_cut_is_refused),
      cmocka_unit_test(a_run_without_its_keys_is_refused),
      cmocka_unit_test(an_interruption_of_one_stops_all),
  };
  ranks_open(count, arguments);
  return ranks_close(cmocka_run_group_tests(tests, setup, training_ranks_end));
}
