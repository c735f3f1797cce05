/* BTLM: Jais's architecture under another name. */
#include "model/families/gpt2_keys.h"
#include "model/families/jais_keys.h"

static const char *const types[] = {"btlm", NULL};

const model_family model_family_btlm = {
    .name = "btlm",
    .types = types,
    .prefixes = gpt2_prefixes,
    .embedding = "wte.weight",
    .configure = jais_keys_read,
    .rules = jais_rules,
    .ignored = gpt2_ignored,
};
