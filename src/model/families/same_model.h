/* model/families/same_model.h - does a file say all that a model is?  Asked of a sketch, a file of the same form
 * whose tensors are holes, before any number is written.  Within families/ only. */
#ifndef MODEL_FAMILIES_SAME_MODEL_H
#define MODEL_FAMILIES_SAME_MODEL_H

#include "model/model.h"

/* Opens the sketch, and compares the configurations.  ALIBI_INVALID names a field that differs, or what the reader
 * missed; `what` begins the sentence: "GGUF, architecture mpt". */
status same_model_check(const alibi_model *model, const char *sketch, const char *what, alibi_error *error);

/* Where the sentence names a file that stood for another, that other. */
void same_model_say_path(alibi_error *error, const char *stood, const char *path);

#endif
