/* evaluate/text_ids.h - a text of ids that a model can read. */
#ifndef EVALUATE_TEXT_IDS_H
#define EVALUATE_TEXT_IDS_H

#include "model/model.h"

/* Every id is below the vocabulary of the model, or a sentence says which is not. */
status text_ids_check(const alibi_model *model, const uint32_t *tokens, size_t count, alibi_error *error);

#endif
