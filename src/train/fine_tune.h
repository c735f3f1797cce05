/* train/fine_tune.h - what may change when a trained model is trained further. */
#ifndef TRAIN_FINE_TUNE_H
#define TRAIN_FINE_TUNE_H

#include "model/config.h"

/* May this setting of a method change? */
bool fine_tune_changes(const position_method *method, const field *setting);

/* config: what is asked for, resolved here; from: a trained model's.  They may differ in the trained length, the rotary base
 * and the extension; anything else is ALIBI_INVALID with a sentence that names it.  Where the length changes, the length
 * that positions refer to stays the first one, and a factor of the extension that would follow the declared length (0) becomes
 * the ratio of the two, so that the model has one set of frequencies at every length. */
status fine_tune_config(const alibi_model_config *from, alibi_model_config *config, alibi_error *error);

#endif
