/* Training on as many ranks as mpiexec starts, against the same training on one: gradients, bits from run to run
 * and from rank to rank, unequal parts, checkpoints that go on with another number of ranks, and failures of one
 * rank. */
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

enum { VOCABULARY = 29, CORPUS = 700, LENGTH = 24, STEPS = 4 };

static uint32_t corpus[CORPUS];

static alibi_train_options options_of(int64_t sequences)
{
  alibi_train_options o;
  alibi_train_options_init(&o);
  o.steps = 100;
  o.batch_tokens = sequences * LENGTH;
  o.warmup_steps = 2;
  return o;
}

static alibi_trainer *start(alibi_context *context, const char *settings, const alibi_train_options *options)
{
  alibi_model_config config = tiny_config(settings);
  alibi_trainer *trainer;
  expect_ok(alibi_trainer_new(context, &config, options, corpus, CORPUS, &trainer, &error));
  return trainer;
}

/* Every rank holds what rank 0 holds. */
static void expect_on_all_ranks(const void *data, size_t bytes)
{
  void *first = malloc(bytes);
  assert_non_null(first);
  memcpy(first, data, bytes);
  expect_ok(comm_broadcast(c, first, bytes, 0, &error));
  assert_memory_equal(first, data, bytes);
  free(first);
}

static double relative(const float *x, const float *y, size_t n)
{
  double apart = 0, norm = 0;
  for (size_t i = 0; i < n; i++) {
    apart += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    norm += (double)y[i] * y[i];
  }
  return sqrt(apart / norm);
}

static void compare_gradients(const alibi_trainer *all, const alibi_trainer *one, const char *what)
{
  double apart = gradients_apart(all, one);
  if (!(apart <= 1e-6)) fail_msg("%s: the gradient is off by %g of its norm", what, apart);
}

static void a_step_is_that_of_one_rank(void **unused)
{
  (void)unused;
  static const char *const settings[] = {"position=alibi", "position=sinusoidal " TINY_MODERN " tied=false",
                                         "position=learned bias=true norm_bias=true",
                                         "norm_place=post norm_bias=true embedding_norm=true final_norm=false"};
  /* As many sequences as ranks, more, fewer; in memory at once all or one. */
  static const int64_t sequences[] = {4, 7, 1, 3}, micro[] = {0, 1, 0, 2};
  for (size_t m = 0; m < sizeof settings / sizeof settings[0]; m++)
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
      alibi_train_options options = options_of(sequences[i]);
      options.micro_tokens = micro[i] * LENGTH;
      options.dropout = i == 1 ? 0.1 : 0;
      options.epsilon =
          1e-4; /* a gradient that is 0 but for rounding (of a bias of keys) must not make a whole step */
      alibi_trainer *all = start(together, settings[m], &options), *one = start(single, settings[m], &options);
      for (int s = 0; s < STEPS; s++) {
        alibi_train_report found = step(all), expected = step(one);
        assert_int_equal(found.tokens, expected.tokens);
        near(found.loss, expected.loss, s ? 1e-5 : 1e-7, "loss");
        near(found.gradient_norm, expected.gradient_norm, s ? 1e-4 : 1e-6, "norm");
        assert_true(found.rate == expected.rate);
        expect_on_all_ranks(&found, sizeof found);
        expect_on_all_ranks(all->model->values, all->shards.floats * sizeof(float));
        if (s == 0) compare_gradients(all, one, settings[m]);
      }
      double apart = relative(all->model->values, one->model->values, one->shards.floats);
      if (!(apart <= 1e-4)) fail_msg("%s: after %d steps the weights are off by %g", settings[m], STEPS, apart);
      alibi_trainer_free(all);
      alibi_trainer_free(one);
    }
}

static void two_runs_have_the_same_bits(void **unused)
{
  (void)unused;
  alibi_train_options options = options_of(5);
  alibi_trainer *a = start(together, "position=alibi", &options), *b = start(together, "position=alibi", &options);
  for (int s = 0; s < STEPS; s++) {
    alibi_train_report first = step(a), second = step(b);
    assert_memory_equal(&first, &second, sizeof first);
  }
  assert_memory_equal(a->model->values, b->model->values, a->shards.floats * sizeof(float));
  alibi_trainer_free(a);
  alibi_trainer_free(b);
}

/* Moments are held once, by all ranks together. */
static void moments_are_shared_out(void **unused)
{
  (void)unused;
  alibi_train_options options = options_of(4);
  alibi_trainer *t = start(together, "position=alibi", &options);
  int64_t owned = (int64_t)shards_place(&t->shards, t->shards.bucket_count), all = owned;
  assert_true(ranks == 1 || t->shards.bucket_count > 3);
  assert_true((size_t)owned <= shards_most(t->shards.floats, ranks));
  assert_true(shards_most(t->shards.floats, ranks) <=
              t->shards.floats / (size_t)ranks + 16 * t->shards.bucket_count);
  expect_ok(comm_sum_integers(c, &all, 1, &error));
  assert_int_equal(all, t->shards.floats);
  alibi_trainer_free(t);
}

/* Documents apart: the last token of each predicts nothing, so ranks have unequal numbers of tokens. */
static void unequal_tokens_are_counted(void **unused)
{
  (void)unused;
  static const uint64_t documents[] = {0, 5, 9, 11, 200, 210, 215, 444, 446, 450, 600};
  token_source source;
  expect_ok(token_source_of_ids("text", corpus, CORPUS, documents, sizeof documents / sizeof documents[0], &source,
                                &error));
  alibi_model_config config = tiny_config("position=alibi");
  alibi_train_options options = options_of(5);
  options.documents = ALIBI_DOCUMENTS_APART;
  alibi_trainer *all, *one;
  expect_ok(trainer_new(together, NULL, &config, &options, &source, NULL, 1, &all, &error));
  expect_ok(trainer_new(single, NULL, &config, &options, &source, NULL, 1, &one, &error));
  bool lost_some = false;
  for (int s = 0; s < STEPS; s++) {
    alibi_train_report found = step(all), expected = step(one);
    assert_int_equal(found.tokens, expected.tokens);
    lost_some = lost_some || found.tokens < 5 * LENGTH;
    near(found.loss, expected.loss, 1e-5, "loss");
    if (s == 0) compare_gradients(all, one, "documents apart");
  }
  assert_true(lost_some);
  alibi_trainer_free(all);
  alibi_trainer_free(one);
  token_source_close(&source);
}

static alibi_trainer *go_on(alibi_context *context, const char *directory)
{
  alibi_trainer *trainer;
  expect_ok(alibi_trainer_open(context, directory, corpus, CORPUS, &trainer, &error));
  return trainer;
}

static void a_run_goes_on_with_any_number_of_ranks(void **unused)
{
  (void)unused;
  char directory[512], alone_directory[512];
  snprintf(directory, sizeof directory, "%s/together", scratch_folder);
  snprintf(alone_directory, sizeof alone_directory, "%s/alone", scratch_folder);
  alibi_train_options options = options_of(5);
  alibi_trainer *all = start(together, "position=alibi", &options),
                *one = start(single, "position=alibi", &options);
  for (int s = 0; s < STEPS; s++) {
    step(all);
    step(one);
  }
  expect_ok(alibi_trainer_save(all, directory, &error));
  if (rank == 0) expect_ok(alibi_trainer_save(one, alone_directory, &error));
  expect_ok(comm_barrier(c, &error));
  /* On as many ranks: the same bits as without a stop.  On one, and from one on many: equal to rounding. */
  alibi_trainer *same = go_on(together, directory), *fewer = go_on(single, directory),
                *more = go_on(together, alone_directory);
  assert_memory_equal(same->moments, all->moments,
                      shards_place(&all->shards, all->shards.bucket_count) * sizeof(float));
  assert_memory_equal(fewer->model->values, all->model->values, all->shards.floats * sizeof(float));
  assert_memory_equal(more->model->values, one->model->values, one->shards.floats * sizeof(float));
  assert_true(relative(fewer->moments, one->moments, one->shards.floats) < 1e-4);
  assert_true(relative(fewer->variances, one->variances, one->shards.floats) < 1e-4);
  for (int s = 0; s < STEPS; s++) {
    alibi_train_report expected = step(all), found = step(same);
    assert_memory_equal(&found, &expected, sizeof found);
    near(step(fewer).loss, expected.loss, 1e-4, "loss on one rank");
    near(step(more).loss, expected.loss, 1e-4, "loss on all ranks");
  }
  assert_memory_equal(same->model->values, all->model->values, all->shards.floats * sizeof(float));
  /* What cannot be written is said by all. */
  char below_a_file[600];
  snprintf(below_a_file, sizeof below_a_file, "%s/config.json/below", directory);
  assert_int_equal(alibi_trainer_save(all, below_a_file, &error), ALIBI_FAILED);
  expect_on_all_ranks(&error, sizeof error);
  if (ranks > 1) assert_memory_equal(error.message, "rank 0: ", 8);
  step(all);
  alibi_trainer_free(all);
  alibi_trainer_free(one);
  alibi_trainer_free(same);
  alibi_trainer_free(fewer);
  alibi_trainer_free(more);
}

/* Interrupted on the last rank only: no rank takes the step, and the next one is what it would have been. */
static void an_interruption_of_one_stops_all(void **unused)
{
  (void)unused;
  alibi_train_options options = options_of(5);
  alibi_trainer *all = start(together, "position=alibi", &options),
                *undisturbed = start(together, "position=alibi", &options);
  alibi_train_report report;
  step(all);
  step(undisturbed);
  if (rank == ranks - 1) alibi_context_cancel(together);
  assert_int_equal(alibi_trainer_step(all, &report, &error), ALIBI_CANCELLED);
  atomic_store(&together->cancelled, 0);
  alibi_train_report found = step(all), expected = step(undisturbed);
  assert_memory_equal(&found, &expected, sizeof found);
  alibi_trainer_free(all);
  alibi_trainer_free(undisturbed);
}

/* A weight of the last rank becomes no number: all refuse the step, with one sentence. */
static void a_gradient_that_is_no_number_stops_all(void **unused)
{
  (void)unused;
  alibi_train_options options = options_of(2 * ranks);
  alibi_trainer *all = start(together, "position=alibi", &options);
  alibi_train_report report;
  step(all);
  const parameter *p = parameter_find(&all->model->list, "blocks.1.attention.output.weight");
  if (!p) p = &all->model->list.items[all->model->list.count - 2];
  if (rank == ranks - 1) all->model->values[p->offset] = NAN;
  assert_int_equal(alibi_trainer_step(all, &report, &error), ALIBI_FAILED);
  scratch_says(error.message, "step 2: the loss is not finite");
  expect_on_all_ranks(&error, sizeof error);
  assert_int_equal(all->step, 1);
  alibi_trainer_free(all);
}

static void other_tokens_on_one_rank_are_refused(void **unused)
{
  (void)unused;
  alibi_train_options options = options_of(2 * ranks);
  if (rank == ranks - 1) corpus[3] ^= 1;
  alibi_trainer *all = start(together, "position=alibi", &options);
  alibi_train_report report;
  status result = alibi_trainer_step(all, &report, &error);
  if (rank == ranks - 1) corpus[3] ^= 1;
  alibi_trainer_free(all);
  if (ranks == 1) return;
  assert_int_equal(result, ALIBI_INVALID);
  scratch_says(error.message, "expected the same tokens");
  options.seed = rank + 1;
  all = start(together, "position=alibi", &options);
  assert_int_equal(alibi_trainer_step(all, &report, &error), ALIBI_INVALID);
  alibi_trainer_free(all);
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
      cmocka_unit_test(two_runs_have_the_same_bits),
      cmocka_unit_test(moments_are_shared_out),
      cmocka_unit_test(unequal_tokens_are_counted),
      cmocka_unit_test(a_run_goes_on_with_any_number_of_ranks),
      cmocka_unit_test(an_interruption_of_one_stops_all),
      cmocka_unit_test(a_gradient_that_is_no_number_stops_all),
      cmocka_unit_test(other_tokens_on_one_rank_are_refused),
  };
  ranks_open(count, arguments);
  return ranks_close(cmocka_run_group_tests(tests, setup, training_ranks_end));
}
