/* model/families/family_write.h - a public model as a GGUF file, made from what we know of it: our parameters by
 * the rules that GGUF files are read by, and the keys that say what its configuration says. */
#ifndef MODEL_FAMILIES_FAMILY_WRITE_H
#define MODEL_FAMILIES_FAMILY_WRITE_H

#include "alibi/tokenizer.h"
#include "file/gguf.h"
#include "model/families/family.h"
#include "model/tensor_writing.h"

/* type: of matrices, or WEIGHT_TYPES: as stored.  tokenizer may be NULL.  Before its numbers are written a file of
 * the same form without them is opened, and has to be the same model: where GGUF has no words for something the
 * sentence names the field.  writing: a context, and whom to tell; its total is set here. */
status family_write_gguf(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                         weight_type type, const char *path, tensor_writing *writing, alibi_error *error);

/* The type that a matrix with so many columns gets. */
weight_type family_type_for(weight_type wanted, weight_type stored, size_t columns);

/* Of a file whose matrices have that type: general.file_type, and general.quantization_version where it is
 * quantised. */
void family_put_type(gguf_keys *keys, weight_type type);

#endif
