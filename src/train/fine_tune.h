/* train/fine_tune.h - what may change when a trained model is trained further. */
#ifndef TRAIN_FINE_TUNE_H
#define TRAIN_FINE_TUNE_H

#include "model/config.h"

/* May this setting of a method change? */
bool fine_tune_changes(const position_method *method, const field *setting);

/* config: what is asked for, resolved here; from: a trained model's.  They may differ in the trained length, the
 * rotary base and the extension; anything else is ALIBI_INVALID with a sentence that names it.  original_length is
 * set here, whatever it was: where the length changes, the length that positions refer to stays the first one.
 *
 * An extension refers to the length at which frequencies (slopes, rows) were trained as they are without it: the
 * latest, or the one before the extension that the model has already.  Where that is not the first, its
 * original_length says so.  A factor that would follow the declared length (0) becomes the ratio of the new length
 * to that one, so that the model has one set of frequencies at every length; dynamic and longrope go on following
 * the declared length.  Applied to its own result it changes nothing. */
status fine_tune_config(const alibi_model_config *from, alibi_model_config *config, alibi_error *error);

/* For a model that keeps its extension, since none was asked for: ALIBI_INVALID where the new length is longer
 * than what the extension's fixed factor reaches. */
status fine_tune_check_kept(const alibi_model_config *from, const alibi_model_config *config, alibi_error *error);

#endif
