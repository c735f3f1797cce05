/* p-RoPE: rotary positions whose lowest frequencies do not turn at all: pair p < floor(share r/2) turns by
 * position * base^(-2p/r), the others stand still and carry content alone, at any distance.  Barbero et al.,
 * "Round and round we go! What makes rotary positional encodings useful?", ICLR 2025.  share 1 is RoPE, 0 is no
 * position. */
#include <stddef.h>

#include "position/rope_frequencies.h"

typedef struct p_rope_options {
  rope_settings rope;
  double share;
} p_rope_options;

static const field fields[] = {
    ROPE_FIELDS(p_rope_options, rope),
    {.name = "share",
     .kind = FIELD_REAL,
     .offset = offsetof(p_rope_options, share),
     .minimum = 0,
     .maximum = 1,
     .initial = 0.75,
     .help = "share of the frequencies, highest first, that turn; 1: as rope, 0: as none (so is 0.75 of one)"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  const p_rope_options *own = options;
  return rope_check_share("p-rope", (field_table)FIELD_TABLE(fields), shape, &own->rope, own->share, error);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  rope_layout(request, &((const p_rope_options *)request->options)->rope, plan, a);
}

static void fill(const position_request *request, position_plan *plan)
{
  const p_rope_options *options = request->options;
  rope_fill(request, &options->rope, options->share, plan);
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  (void)key;
  const p_rope_options *options = request->options;
  return rope_angle(request, &options->rope, options->share, pair, position, magnitude);
}

const position_method position_method_p_rope = {
    .name = "p-rope",
    .title = "p-RoPE: rotary positions without the lowest frequencies",
    .formula = "q, k turned by pos base^(-2p/r) for p < share r/2",
    .source = "Barbero et al., ICLR 2025",
    .family = "rope",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(p_rope_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .angle = angle,
};
