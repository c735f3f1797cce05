/* train/trainer.h - the trainer's settings as a table of fields, and what they mean for a model. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "alibi/train.h"
#include "base/field.h"
#include "model/model.h"

field_table train_option_fields(void);

/* Learning rate of step 0 .. steps-1. */
double train_rate(const alibi_train_options *options, int64_t step);

/* Steps of warm-up, where -1 asks for the usual number. */
int64_t train_warmup(const alibi_train_options *options);

/* ALIBI_INVALID where batch_tokens is no whole number of sequences of `length` tokens. */
status train_check_batch(const alibi_train_options *options, int64_t length, alibi_error *error);

/* How a step is cut, and the bytes that training holds. */
typedef struct train_plan {
  size_t sequences, micro_sequences; /* a step: sequences of train_length tokens, so many in memory at once */
  size_t weight_bytes;               /* weights, gradients, two moments */
  size_t pass_bytes;                 /* activations and their gradients */
} train_plan;

train_plan train_plan_of(alibi_model *model, const alibi_train_options *options);

#endif
