/* RoPE with a sliding window: queries and keys turn as in RoPE, and a query sees the keys at i - j < window only.
 * Su et al., "RoFormer", 2021, with the window of Beltagy, Peters, Cohan, "Longformer: the long-document
 * transformer", 2020.  With a window no wider than the trained length, the default, no distance is ever new, at
 * any length of text, and nothing farther is seen: the control for methods that do see farther.  ALiBi's
 * gentlest head reaches about 24 ln 2 / m_h keys; a window that wide is asked for by its number, and shows
 * angles that training did not. */
#include <stddef.h>

#include "position/rope_frequencies.h"

typedef struct rope_window_options {
  rope_settings rope;
  int64_t window;
} rope_window_options;

static const field fields[] = {
    ROPE_FIELDS(rope_window_options, rope),
    {.name = "window",
     .kind = FIELD_INTEGER,
     .offset = offsetof(rope_window_options, window),
     .minimum = 0,
     .maximum = 1e9,
     .initial = 0,
     .help = "keys that a query sees, its own among them; 0: the trained length"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  return rope_check("rope-window", shape, &((const rope_window_options *)options)->rope, error);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  const rope_window_options *options = request->options;
  rope_layout(request, &options->rope, plan, a);
  plan->window = options->window > 0 ? (size_t)options->window : request->shape.train_length;
}

static void fill(const position_request *request, position_plan *plan)
{
  rope_fill(request, &((const rope_window_options *)request->options)->rope, 1, plan);
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  (void)key;
  return rope_angle(request, &((const rope_window_options *)request->options)->rope, 1, pair, position, magnitude);
}

const position_method position_method_rope_window = {
    .name = "rope-window",
    .title = "RoPE with a sliding window",
    .formula = "q, k turned by pos base^(-2p/r); keys at i - j < window",
    .source = "Su et al., 2021; Beltagy et al., 2020",
    .family = "rope",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(rope_window_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .angle = angle,
};
