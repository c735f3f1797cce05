/* Rotary positions: channel pairs (p, p + r/2), or neighbours (2p, 2p + 1), of every query and key turn by
 * position * w_p, w_p = base^(-2p/r), so that a score depends on the distance alone.  Su et al., "RoFormer:
 * enhanced transformer with rotary position embedding", 2021.  r: fraction of the head size. */
#include <stddef.h>

#include "position/rope_frequencies.h"

typedef struct rope_options {
  rope_settings rope;
} rope_options;

static const field fields[] = {ROPE_FIELDS(rope_options, rope)};

static const rope_settings *settings_of(const void *options)
{
  return &((const rope_options *)options)->rope;
}

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  return rope_check("rope", shape, settings_of(options), error);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  rope_layout(request, settings_of(request->options), plan, a);
}

static void fill(const position_request *request, position_plan *plan)
{
  rope_fill(request, settings_of(request->options), 1, plan);
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  (void)key;
  return rope_angle(request, settings_of(request->options), 1, pair, position, magnitude);
}

const position_method position_method_rope = {
    .name = "rope",
    .title = "RoPE: rotary positions",
    .formula = "q, k turned by pos base^(-2p/r)",
    .source = "Su et al., 2021",
    .family = "rope",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(rope_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .angle = angle,
};
