/* train/option_sentence.h - the sentences of a model's and a training's settings, for those who typed options. */
#ifndef TRAIN_OPTION_SENTENCE_H
#define TRAIN_OPTION_SENTENCE_H

#include "base/error.h"

/* Returns the result it is given.  Of ALIBI_INVALID the sentence is about fields of the model, the training or the
 * method ("heads: expected ..."); it then names options ("--heads: expected ...", "--alibi-slopes: expected ...").
 */
status option_sentence(status result, const char *method, alibi_error *error);

#endif
