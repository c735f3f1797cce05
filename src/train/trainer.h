/* train/trainer.h - the trainer's settings as a table of fields. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "alibi/train.h"
#include "base/field.h"

field_table train_option_fields(void);

/* Learning rate of step 0 .. steps-1. */
double train_rate(const alibi_train_options *options, int64_t step);

#endif
