/* train/train_options.h - the trainer's settings as a table of fields, the checks that need more than one of them,
 * and what they say about a step: its rate and the length of its sequences. */
#ifndef TRAIN_TRAIN_OPTIONS_H
#define TRAIN_TRAIN_OPTIONS_H

#include <stddef.h>

#include "alibi/train.h"
#include "base/error.h"
#include "base/field.h"

field_table train_option_fields(void);

/* Steps of warm-up, where -1 asks for the usual number; of the final decay of ALIBI_SCHEDULE_WSD. */
int64_t train_warmup(const alibi_train_options *options);
int64_t train_decay(const alibi_train_options *options);

/* Learning rate of step 0 .. steps-1. */
double train_rate(const alibi_train_options *options, int64_t step);

/* A run of steps with sequences of one length. */
typedef struct train_phase {
  int64_t first, end; /* steps; the last phase never ends */
  size_t length;
} train_phase;

enum { TRAIN_PHASES = 8 };

/* length_schedule and the length that follows it.  ALIBI_INVALID where the text is none, or a length is above
 * train_length. */
status train_phases(const alibi_train_options *options, int64_t train_length, train_phase *phases, size_t *count,
                    alibi_error *error);

/* ALIBI_INVALID where the text of length_schedule is none, or batch_tokens no whole number of sequences of each of
 * its lengths and of `train_length` tokens. */
status train_check_batch(const alibi_train_options *options, int64_t train_length, alibi_error *error);

#endif
