/* alibi/train.h - training a model on token ids.
 *
 * AdamW with decoupled decay on matrices (Loshchilov and Hutter, ICLR 2019), linear warm-up, then a cosine to a fraction of the peak.
 * Which tokens a step sees is a pure function of (seed, step), the same for every position method; the weights after a step are the
 * same, to the bit, for any number of threads. */
#ifndef ALIBI_TRAIN_H
#define ALIBI_TRAIN_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alibi_train_options {
  size_t size;              /* sizeof(alibi_train_options) */
  int64_t steps;            /* length of the schedule */
  int64_t batch_tokens;     /* tokens a step: batch_tokens / train_length sequences, at least one */
  int64_t micro_tokens;     /* tokens held in memory at once; 0: the whole batch */
  double learning_rate;     /* peak */
  int64_t warmup_steps;
  double final_rate;        /* share of the peak at the end of the cosine */
  double weight_decay;
  double beta1, beta2, epsilon;
  double clip;              /* largest norm of the gradient (of the mean loss a token); 0: none */
  int64_t seed;
} alibi_train_options;

ALIBI_API void alibi_train_options_init(alibi_train_options *options);

typedef struct alibi_train_report {
  int64_t step;        /* steps done */
  double loss;         /* nats a token, mean over the step's tokens, before the update */
  double rate;         /* learning rate that was used */
  double gradient_norm; /* before clipping */
  int64_t tokens;      /* tokens of this step */
} alibi_train_report;

typedef struct alibi_trainer alibi_trainer;

/* tokens [count] are borrowed until alibi_trainer_free.  ALIBI_INVALID where they are fewer than train_length + 1 or an id is not
 * below the vocabulary. */
ALIBI_API alibi_status alibi_trainer_new(alibi_context *context, const alibi_model_config *config,
                                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                                         alibi_trainer **trainer, alibi_error *error);
ALIBI_API void alibi_trainer_free(alibi_trainer *trainer);

/* One step.  ALIBI_FAILED where the loss or the gradient is not finite (the weights are then those before the step). */
ALIBI_API alibi_status alibi_trainer_step(alibi_trainer *trainer, alibi_train_report *report, alibi_error *error);

/* The model as it stands; belongs to the trainer. */
ALIBI_API alibi_model *alibi_trainer_model(alibi_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
