/* block_draw.h - configurations by chance: every field of a block now and then at each of its values. */
#ifndef UNIT_BLOCK_DRAW_H
#define UNIT_BLOCK_DRAW_H

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "model/model.h"

enum { DRAW_TEXT = 1024 };

typedef struct draw_field {
  const char *name;
  const char *values[9]; /* the first is the initial one */
} draw_field;

static const draw_field draw_fields[] = {
    {"norm", {"layernorm", "rmsnorm"}},
    {"norm_bias", {"false", "true"}},
    {"activation", {"gelu", "gelu-tanh", "silu", "swiglu", "relu", "geglu", "geglu-tanh", "reglu"}},
    {"feed_forward", {"40", "20", "27"}},
    {"heads", {"4", "6", "3", "1"}},
    {"head_size", {"8", "6", "12"}},
    {"kv_heads", {"0", "1", "2"}},
    {"bias", {"false", "true"}},
    {"tied", {"true", "false"}},
    {"qk_norm", {"false", "true"}},
    {"qk_norm_kind", {"head", "full", "group"}},
    {"qkv_bias", {"as-bias", "yes", "no"}},
    {"attention_output_bias", {"as-bias", "yes", "no"}},
    {"input_bias", {"as-bias", "yes", "no"}},
    {"output_bias", {"as-bias", "yes", "no"}},
    {"norm_place", {"pre", "post"}},
    {"parallel", {"none", "one-norm", "two-norms"}},
    {"final_norm", {"true", "false"}},
    {"embedding_norm", {"false", "true"}},
    {"embedding_shift", {"false", "true"}},
    {"clip_qkv", {"0", "0.7"}},
    {"embedding_scale", {"1", "2.5"}},
    {"score_scale", {"0", "0.2"}},
    {"score_cap", {"0", "1.5"}},
    {"logit_scale", {"1", "0.3"}},
    {"logit_cap", {"0", "2"}},
    {"residual_scale", {"1", "0.4"}},
    {"causal", {"true", "false"}},
    {"attention_output_norm", {"false", "true"}},
};
enum { DRAW_FIELDS = sizeof draw_fields / sizeof draw_fields[0] };

static const char *const draw_positions[] = {"position=alibi",
                                             "position=rope",
                                             "position=none",
                                             "position=learned",
                                             "position=alibi alibi_slope_scale=0.25",
                                             "position=alibi alibi_rounding=bfloat16-keys",
                                             "position=alibi alibi_rounding=falcon alibi_slope_scale=0.5"};
enum { DRAW_POSITIONS = sizeof draw_positions / sizeof draw_positions[0] };

/* Configuration `index`, as settings for tiny_config: even ones have few fields changed, odd ones about half. */
static inline void draw_settings(uint64_t index, bool causal, char text[DRAW_TEXT])
{
  snprintf(text, DRAW_TEXT, "%s", draw_positions[random_below(1, index, 0, DRAW_POSITIONS)]);
  for (size_t i = 0; i < DRAW_FIELDS; i++) {
    const draw_field *f = &draw_fields[i];
    size_t values = 0, used = strlen(text);
    while (values < 9 && f->values[values]) values++;
    if (causal && strcmp(f->name, "causal") == 0) continue;
    bool changes = random_below(2, index, i, index % 2 ? 2 : 6) == 0;
    size_t choice = changes ? 1 + (size_t)random_below(3, index, i, values - 1) : 0;
    snprintf(text + used, DRAW_TEXT - used, " %s=%s", f->name, f->values[choice]);
  }
}

/* The next index, from `index` on, whose configuration can be. */
static inline uint64_t draw_possible(uint64_t index, bool causal, char text[DRAW_TEXT])
{
  for (;; index++) {
    draw_settings(index, causal, text);
    alibi_model_config config = tiny_config(text);
    if (alibi_model_config_check(&config, NULL) == ALIBI_OK) return index;
  }
}

#endif
