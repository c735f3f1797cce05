/* model/families/family_publish.h - a model as a directory for transformers: config.json in the words of a family,
 * and safetensors with the family's names, in the order of its rows. */
#ifndef MODEL_FAMILIES_FAMILY_PUBLISH_H
#define MODEL_FAMILIES_FAMILY_PUBLISH_H

#include "alibi/tokenizer.h"
#include "model/families/family.h"
#include "model/tensor_writing.h"

/* directory: is there, without a model in it; config.json comes last.  type: of matrices, F32, F16 or BF16, or
 * WEIGHT_TYPES: as stored, which has to be one of these; vectors get it too where it holds all of their numbers.
 * tokenizer: whose control tokens the configuration names; or NULL.  Before numbers are written a directory of the
 * same form without them is opened, and has to be the same model: where the family has no words for something the
 * sentence names the field. */
status family_publish(const alibi_model *model, const model_family *family, const alibi_tokenizer *tokenizer,
                      weight_type type, size_t shard_bytes, const char *directory, tensor_writing *writing,
                      alibi_error *error);
/* Only whether it can: nothing stays in the directory. */
status family_publish_check(const alibi_model *model, const model_family *family, const char *directory,
                            tensor_writing *writing, alibi_error *error);

/* For the put of a published_form: the name that transformers has for the activation function, of the half that
 * gates where there is one. */
const char *family_activation_name(const alibi_model_config *config);

#endif
