/* model/families/family_choice.h - as which family a model is written: its own, or, of one that was trained here,
 * the first that transformers has a class for and that has words for all of it. */
#ifndef MODEL_FAMILIES_FAMILY_CHOICE_H
#define MODEL_FAMILIES_FAMILY_CHOICE_H

#include "model/families/family.h"
#include "model/tensor_writing.h"

/* gguf: as a GGUF file at `out`; else as a directory, which is there.  Sketches are written there and removed.
 * ALIBI_INVALID where there is none: the sentence says what each takes. */
status family_choose(const alibi_model *model, bool gguf, const char *out, tensor_writing *writing,
                     const model_family **family, alibi_error *error);

#endif
