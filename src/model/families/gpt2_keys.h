/* model/families/gpt2_keys.h - what the families share whose configuration is GPT-2's. */
#ifndef MODEL_FAMILIES_GPT2_KEYS_H
#define MODEL_FAMILIES_GPT2_KEYS_H

#include "model/families/family.h"

extern const char *const gpt2_prefixes[], *const gpt2_ignored[];

/* Sizes, LayerNorm with shift, biases, vocabulary, scale of scores; not activation, not positions. */
void gpt2_keys_read(family_opening *o, alibi_model_config *config, bool tied_otherwise);
void gpt2_keys_read_inner(family_opening *o, alibi_model_config *config);

#endif
