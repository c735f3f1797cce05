/* alibi/train.h - training a model on token ids.
 *
 * AdamW with decoupled decay (Loshchilov and Hutter, ICLR 2019), linear warm-up, then a cosine to a fraction of
 * the peak.  Matrices are decayed, the embedding too; vectors (gains, shifts, biases) and the tables of position
 * methods (learned, t5) are not. Which tokens a step sees is a pure function of (seed, step), the same for every
 * position method; the weights after a step are the same, to the bit, for any number of threads. */
#ifndef ALIBI_TRAIN_H
#define ALIBI_TRAIN_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alibi_train_options {
  size_t size;          /* sizeof(alibi_train_options) */
  int64_t steps;        /* optimiser steps in the schedule, 1 to 1e9 */
  int64_t batch_tokens; /* tokens a step, a multiple of train_length */
  int64_t micro_tokens; /* tokens held in memory at once, at least one sequence; 0: the whole batch */
  double learning_rate; /* peak, 0 to 10 */
  int64_t warmup_steps; /* up to 1e9; -1: a tenth of the steps, at most 100 */
  double final_rate;    /* share of the peak at the end of the cosine, 0 to 1 */
  double weight_decay;  /* 0 to 10; a step takes rate * weight_decay of each decayed weight */
  double beta1, beta2;  /* decay of the two moments a step, 0 to 0.999999 */
  double epsilon;       /* added to the root of the second moment, 1e-20 to 1 */
  double clip;          /* largest norm of the gradient (of the mean loss a token), up to 1e9; 0: none */
  int64_t seed;         /* of weights and batches, 0 to 2^53 */
} alibi_train_options;

ALIBI_API void alibi_train_options_init(alibi_train_options *options);

typedef struct alibi_train_report {
  int64_t step;         /* steps done */
  double loss;          /* nats a token, mean over the step's tokens, before the update */
  double rate;          /* learning rate that was used */
  double gradient_norm; /* before clipping */
  int64_t tokens;       /* tokens of this step */
} alibi_train_report;

typedef struct alibi_trainer alibi_trainer;

/* tokens [count] are borrowed until alibi_trainer_free.  ALIBI_INVALID where they are fewer than train_length + 1
 * or an id is not below the vocabulary. */
ALIBI_API alibi_status alibi_trainer_new(alibi_context *context, const alibi_model_config *config,
                                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                                         alibi_trainer **trainer, alibi_error *error);
/* The same, going on from the weights of a trained model, which is copied.  config, usually that of alibi_model_get_config with
 * changes, may differ from the model's in train_length, the rotary base ("rope_base") and the extension alone; ALIBI_INVALID
 * names what else differs.  Positions still refer to the length of the first training (original_length, set here).  A new extension
 * refers to the latest length that was trained without one; its factor of 0 becomes train_length over that, at every length. */
ALIBI_API alibi_status alibi_trainer_new_from(alibi_context *context, const alibi_model *model,
                                              const alibi_model_config *config, const alibi_train_options *options,
                                              const uint32_t *tokens, size_t count, alibi_trainer **trainer,
                                              alibi_error *error);
ALIBI_API void alibi_trainer_free(alibi_trainer *trainer);

/* One step.  ALIBI_FAILED where the loss or the gradient is not finite (the weights are then those before the
 * step). */
ALIBI_API alibi_status alibi_trainer_step(alibi_trainer *trainer, alibi_train_report *report, alibi_error *error);

/* The model as it stands; belongs to the trainer. */
ALIBI_API alibi_model *alibi_trainer_model(alibi_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
