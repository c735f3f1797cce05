/* model/families/rope_keys.h - rotary positions as configurations have them: a base, a share of the channels, and
 * a scaling, which becomes the extension that the model always runs with. */
#ifndef MODEL_FAMILIES_ROPE_KEYS_H
#define MODEL_FAMILIES_ROPE_KEYS_H

#include "model/families/family.h"

/* How a family spells them; each may be several names with '|' between them.  fraction NULL: whole heads turn. */
typedef struct rope_keys {
  const char *base, *fraction;
  double usual_base, usual_fraction;
  int64_t window; /* keys that a query sees; 0: all */
} rope_keys;

/* config.json: `rope_scaling` or `rope_parameters`, type linear, dynamic, yarn, llama3, longrope.  config: sizes
 * and train_length are known. */
void rope_keys_read(family_opening *o, alibi_model_config *config, const rope_keys *names);
/* The other way round, for config.json: base and scaling.  base: what the key is called. */
void rope_keys_put(json_node *object, const alibi_model_config *config, const char *base);
/* A setting of the rotary method by its name. */
double rope_keys_setting(const alibi_model_config *config, const char *name);
/* The keys of GGUF, and rope_freqs.weight.  adjacent: pairs are neighbours there. */
void rope_keys_read_gguf(family_opening *o, alibi_model_config *config, bool adjacent);

#endif
