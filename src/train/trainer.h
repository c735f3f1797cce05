/* train/trainer.h - the trainer inside the library: over sources of tokens, with a plan of its memory.  Its state
 * is here for the checkpoint (train/checkpoint.h), which is the other half of a trainer: what one holds, the other
 * writes. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "model/model.h"
#include "comm/comm.h"
#include "train/batches.h"
#include "train/parameter_shards.h"
#include "train/train_options.h"

/* Running means and variances of the steps that were applied, for spike_limit. */
typedef struct spike_guard {
  int64_t count;
  double loss_mean, loss_variance, norm_mean, norm_variance;
} spike_guard;

struct alibi_trainer {
  alibi_context *context;
  alibi_train_options options; /* warmup_steps resolved */
  alibi_model *model;
  token_source *own; /* the source of alibi_trainer_new, else NULL */
  batches batches;
  train_phase phases[TRAIN_PHASES];
  size_t phase_count;
  /* what the next steps depend on, beside the weights */
  int64_t step;
  int64_t tokens_done;
  spike_guard guard;
  float *moments, *variances; /* of the weights that this rank owns (train/parameter_shards.h); of one rank: as the
                                 model's values */
  comm *comm;  /* of the context; NULL: one rank */
  comm *group; /* of the context: ranks that cut each sequence among them; NULL: a rank has whole ones */
  shards shards;
  bool ranks_agree; /* that they train the same thing */
  /* the step */
  const train_phase *phase;
  size_t sequences, micro_sequences; /* of phase->length tokens: in a step of all ranks, in memory at once */
  size_t first, count;               /* the run of each that this rank holds */
  float *gradients;
  model_parameters gradient_pointers;
  model_pass *pass;
  uint32_t *tokens, *targets; /* [micro_sequences * count] */
  pass_segment *segments;
};

/* Where the context has other ranks, each makes a trainer of the same settings and tokens; a step computes a part
 * of the sequences on each, and all have the same weights and reports after it.  Where it has a sequence_comm, a
 * group computes a part of the sequences, and each of its ranks a run of each.  Making one concerns no other rank.
 *
 * sources are borrowed until the trainer is freed; shares as in batches_init.  from: NULL, or the model to go on
 * from (alibi_trainer_new_from). */
status trainer_new(alibi_context *context, const alibi_model *from, const alibi_model_config *config,
                   const alibi_train_options *options, const token_source *sources, const double *shares,
                   size_t count, alibi_trainer **trainer, alibi_error *error);

/* How a step is cut, and the bytes that training holds.  In the phase that needs most. */
typedef struct train_plan {
  size_t sequences,
      micro_sequences; /* in the last phase: of train_length tokens in a step, so many in memory at once */
  size_t weight_bytes;               /* of a rank: weights, gradients, two moments, what other ranks send */
  size_t pass_bytes;                 /* activations, logits and their gradients */
} train_plan;

/* A source over ids in memory, checked against the vocabulary; close it and free it with memory_free. */
status trainer_own_source(const alibi_model_config *config, const uint32_t *tokens, size_t count,
                          token_source **source, alibi_error *error);

/* ALIBI_INVALID where the context's sequence_comm cannot cut these sequences of this model. */
status train_check_ranks(alibi_model *model, const alibi_train_options *options, alibi_error *error);

train_plan train_plan_of(alibi_model *model, const alibi_train_options *options);

#endif
