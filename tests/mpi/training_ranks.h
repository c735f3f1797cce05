/* training_ranks.h - the same for tests of training: a folder that all ranks know, tokens, gradients beside those
 * of one rank.  Include after cmocka.h and the headers of the house, among them comm/comm.h and train/trainer.h.
 */
#ifndef MPI_TRAINING_RANKS_H
#define MPI_TRAINING_RANKS_H

#include "unit/scratch.h"
#include "unit/tiny_model.h"

#include "mpi/ranks_case.h" /* last: its static error would be in the shadow of theirs */

static alibi_context *together, *single; /* with the other ranks, and without */

/* The tokens of all tests here. */
static inline void training_ranks_begin(uint32_t *corpus, size_t count, uint32_t vocabulary)
{
  tiny_tokens(corpus, count, 31, vocabulary);
  alibi_error_init(&error);
  if (rank == 0) scratch_make();
  expect_ok(comm_broadcast(c, scratch_folder, sizeof scratch_folder, 0, &error));
  together = tiny_context(NULL, 1);
  together->comm = c;
  single = tiny_context(NULL, 1);
}

static inline int training_ranks_end(void **unused)
{
  (void)unused;
  expect_ok(comm_barrier(c, &error));
  if (rank == 0) scratch_remove();
  alibi_context_free(together);
  alibi_context_free(single);
  return 0;
}

static inline alibi_train_report step(alibi_trainer *trainer)
{
  alibi_train_report report;
  expect_ok(alibi_trainer_step(trainer, &report, &error));
  return report;
}

/* The gradient of a step of all ranks, where each owns it, against that of one: the relative norm of the
 * difference. */
static inline double gradients_apart(const alibi_trainer *all, const alibi_trainer *one)
{
  double apart = 0, norm = 0;
  for (size_t b = 0; b < all->shards.bucket_count; b++) {
    shard_span own = shards_own(&all->shards, b);
    for (size_t i = own.from; i < own.from + own.count; i++) {
      double d = (double)all->gradients[i] - one->gradients[i];
      apart += d * d;
    }
  }
  for (size_t i = 0; i < one->shards.floats; i++) norm += (double)one->gradients[i] * one->gradients[i];
  expect_ok(comm_sum_doubles(c, &apart, 1, &error));
  return sqrt(apart / norm);
}

#endif
