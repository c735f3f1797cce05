/* cli/model_tokenizer.h - the tokenizer in the directory of a model. */
#ifndef CLI_MODEL_TOKENIZER_H
#define CLI_MODEL_TOKENIZER_H

#include "alibi/model.h"
#include "alibi/tokenizer.h"

/* directory/tokenizer.json, refused where it has not the model's vocabulary.  required false: a model that was
 * trained on ids that are no text has none, *tokenizer stays NULL. */
alibi_status model_tokenizer_open(const char *directory, const alibi_model *model, bool required,
                                  alibi_tokenizer **tokenizer, alibi_error *error);

#endif
