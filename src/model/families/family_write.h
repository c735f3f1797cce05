/* model/families/family_write.h - a public model as a GGUF file, made from what we know of it: our parameters by the
 * rules that GGUF files are read by, and the keys that say what its configuration says. */
#ifndef MODEL_FAMILIES_FAMILY_WRITE_H
#define MODEL_FAMILIES_FAMILY_WRITE_H

#include "alibi/tokenizer.h"
#include "model/families/family.h"

/* type: of matrices, or WEIGHT_TYPES: as stored.  tokenizer may be NULL.  What was written is opened again, and has to be
 * the same model: where GGUF has no words for something the file is removed, and the sentence names the field. */
status family_write_gguf(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                         weight_type type, const char *path, alibi_error *error);

/* The type that a matrix with so many columns gets. */
weight_type family_type_for(weight_type wanted, weight_type stored, size_t columns);

#endif
