/* model/families/jais_keys.h - Jais and BTLM are one architecture whose configurations spell their scales
 * differently. */
#ifndef MODEL_FAMILIES_JAIS_KEYS_H
#define MODEL_FAMILIES_JAIS_KEYS_H

#include "model/families/family.h"

extern const tensor_rule jais_rules[];

void jais_keys_read(family_opening *o, alibi_model_config *config);

#endif
