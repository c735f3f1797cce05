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

/* Only whether it can: nothing stays at the path. */
status family_write_gguf_check(const alibi_model *model, const model_family *family, const char *path,
                               tensor_writing *writing, alibi_error *error);

/* For the put of a gguf_form: keys under the name of the architecture. */
typedef struct gguf_key_writer {
  gguf_keys *keys;
  const char *architecture;
} gguf_key_writer;

void family_put_integer(const gguf_key_writer *w, const char *key, int64_t value);
void family_put_real(const gguf_key_writer *w, const char *key, double value);
void family_put_boolean(const gguf_key_writer *w, const char *key, bool value);
/* For the lacks of one, where other readers ask for all of them. */
const char *family_lacks_biases(const alibi_model_config *config);
/* The same of rotary positions: NULL where all channels of a head turn. */
const char *family_lacks_whole_heads(const alibi_model_config *config);
bool family_has_biases(const alibi_model_config *config); /* any, of linear layers */
/* A setting of the position method by its name; 0 where it has none. */
double family_position_setting(const alibi_model_config *config, const char *name);

/* Of a file whose matrices have that type: general.file_type, and general.quantization_version where it is
 * quantised. */
void family_put_type(gguf_keys *keys, weight_type type);

#endif
