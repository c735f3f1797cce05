/* Rotary positions: channel pairs (p, p + r/2) of every query and key turn by position * w_p, w_p = base^(-2p/r),
 * so that a score depends on the distance alone.  Su et al., "RoFormer", 2021.  Phases are taken in double: a
 * float has no digits left for the angle of a far position.  An extension changes the w_p and nothing else. */
#include <math.h>
#include <stddef.h>

#include "position/position.h"

enum { PAIRS_MAX = 2048 }; /* of the frequencies kept on the stack */

typedef struct rope_options {
  double base, fraction;
} rope_options;

static const field fields[] = {
    {.name = "base",
     .kind = FIELD_REAL,
     .offset = offsetof(rope_options, base),
     .minimum = 2,
     .maximum = 1e12,
     .initial = 10000,
     .help = "longest wavelength is 2 pi times this"},
    {.name = "fraction",
     .kind = FIELD_REAL,
     .offset = offsetof(rope_options, fraction),
     .minimum = 0,
     .maximum = 1,
     .initial = 1,
     .help = "share of the head's channels that turn"},
};

/* The product of a decimal fraction may miss a whole number by a rounding error. */
static size_t rotary_of(const position_shape *shape, const rope_options *options)
{
  return (size_t)floor(options->fraction * (double)shape->head_size + 1e-6);
}

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  const rope_options *rope = options;
  size_t rotary = rotary_of(shape, rope);
  if (rotary < 2 || rotary % 2 != 0 || rotary > 2 * PAIRS_MAX)
    return fail(error, ALIBI_INVALID,
                "position method 'rope': expected an even number of turning channels from 2 to %d, found %zu "
                "(fraction %g of a head of %zu)",
                2 * PAIRS_MAX, rotary, rope->fraction, shape->head_size);
  return ALIBI_OK;
}

/* w[rotary/2]; returns the factor on cos and sin. */
static double frequencies(const position_request *request, size_t rotary, double *w)
{
  const rope_options *options = request->options;
  for (size_t p = 0; p < rotary / 2; p++) w[p] = pow(options->base, -2.0 * (double)p / (double)rotary);
  if (!request->extension) return 1;
  return request->extension->frequencies(request, rotary, options->base, w);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->rotary = rotary_of(&request->shape, request->options);
  size_t count = size_mul(request->length, plan->rotary / 2);
  plan->cosine = arena_floats(a, count);
  plan->sine = arena_floats(a, count);
}

static void fill(const position_request *request, position_plan *plan)
{
  double w[PAIRS_MAX];
  double magnitude = frequencies(request, plan->rotary, w);
  size_t half = plan->rotary / 2;
  float *cosine = (float *)plan->cosine, *sine = (float *)plan->sine;
  for (size_t position = 0; position < request->length; position++) {
    for (size_t p = 0; p < half; p++) {
      double phase = (double)position * w[p];
      cosine[position * half + p] = (float)(magnitude * cos(phase));
      sine[position * half + p] = (float)(magnitude * sin(phase));
    }
  }
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  (void)key;
  double w[PAIRS_MAX];
  *magnitude = frequencies(request, rotary_of(&request->shape, request->options), w);
  return (double)position * w[pair];
}

const position_method position_method_rope = {
    .name = "rope",
    .title = "RoPE: rotary positions",
    .formula = "q, k turned by pos base^(-2p/r)",
    .source = "Su et al., 2021",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(rope_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .angle = angle,
};
