/* model/families/llama_keys.h - what the families share that are built like Llama: RMSNorm before each part,
 * queries, keys and values apart, a gated feed-forward part. */
#ifndef MODEL_FAMILIES_LLAMA_KEYS_H
#define MODEL_FAMILIES_LLAMA_KEYS_H

#include "model/families/family.h"

extern const char *const llama_prefixes[], *const llama_ignored[];
extern const tensor_rule llama_rules[];

/* Sizes, norm, activation, vocabulary, tied or not; not positions and not biases (none so far). */
void llama_keys_read(family_opening *o, alibi_model_config *config);
/* And rotary positions with their scaling.  window: keys that a query sees; 0: all */
void llama_keys_read_rope(family_opening *o, alibi_model_config *config, int64_t window);
/* GGUF: the same.  adjacent: how pairs of channels lie there. */
void llama_keys_read_gguf(family_opening *o, alibi_model_config *config, bool adjacent);
/* Of qwen's kind: use_sliding_window, sliding_window, max_window_layers, layer_types.  0: all keys are seen. */
int64_t llama_keys_window(family_opening *o, const alibi_model_config *config);

/* The other way round: sizes, norm, activation, rotary positions; no biases. */
void llama_keys_put(json_node *object, const alibi_model_config *config);

#endif
