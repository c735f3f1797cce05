/* xPos: RoPE whose pairs also fade with the distance, the fast ones first: zeta_p = (2p + 0.4 r) / (1.4 r),
 * queries are multiplied by zeta_p^(pos/B), keys by zeta_p^(-pos/B), so that a score holds zeta_p^((i-j)/B);
 * B: scale_base.  Sun et al., "A length-extrapolatable transformer", ACL 2023.
 *
 * Counted from 0 the factor of a key leaves the range of fp32 (with B = 512 at position 36000).  Positions are
 * therefore counted from a centre C: zeta_p^(+-(pos - C)/B) is the same score, and every factor lies within
 * 2^-100 .. 2^100 up to position 2C, where positions end (with B = 512: 56657 of them).  That leaves 2^27 to the
 * values themselves and to sums of them.  Products of a far query and key that fall below the range are 0, as they
 * should be. */
#include <math.h>
#include <stddef.h>

#include "position/rope_frequencies.h"

static const double FADE = 0.4; /* gamma of the paper */

typedef struct xpos_options {
  rope_settings rope;
  double scale_base;
} xpos_options;

static const field fields[] = {
    ROPE_FIELDS(xpos_options, rope),
    {.name = "scale_base",
     .kind = FIELD_REAL,
     .offset = offsetof(xpos_options, scale_base),
     .minimum = 16,
     .maximum = 1e6,
     .initial = 512,
     .help = "positions over which a pair fades by zeta; positions end at 110 times this"},
};

/* Pair 0 fades fastest: its factor at distance `centre` from the centre is 2^100. */
static size_t centre(const xpos_options *options)
{
  return (size_t)floor(100 * log(2) * options->scale_base / log((1 + FADE) / FADE));
}

static size_t limit(const position_shape *shape, const void *options)
{
  (void)shape;
  return 2 * centre(options) + 1;
}

/* Of a query; of a key the inverse. */
static double scale(const xpos_options *options, size_t rotary, size_t pair, size_t position)
{
  double r = (double)rotary, zeta = (2 * (double)pair + FADE * r) / ((1 + FADE) * r);
  return pow(zeta, ((double)position - (double)centre(options)) / options->scale_base);
}

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  return rope_check("xpos", shape, &((const xpos_options *)options)->rope, error);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  rope_layout(request, &((const xpos_options *)request->options)->rope, plan, a);
  size_t count = size_mul(request->length, plan->rotary / 2);
  plan->key_cosine = arena_floats(a, count);
  plan->key_sine = arena_floats(a, count);
}

static void fill(const position_request *request, position_plan *plan)
{
  const xpos_options *options = request->options;
  double w[ROPE_PAIRS_MAX];
  rope_frequencies(request, &options->rope, 1, w);
  size_t half = plan->rotary / 2;
  float *cosine = (float *)plan->cosine, *sine = (float *)plan->sine;
  float *key_cosine = (float *)plan->key_cosine, *key_sine = (float *)plan->key_sine;
  for (size_t position = 0; position < request->length; position++)
    for (size_t p = 0; p < half; p++) {
      double phase = (double)position * w[p], query = scale(options, plan->rotary, p, position);
      size_t at = position * half + p;
      cosine[at] = (float)(query * cos(phase));
      sine[at] = (float)(query * sin(phase));
      key_cosine[at] = (float)(cos(phase) / query);
      key_sine[at] = (float)(sin(phase) / query);
    }
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  const xpos_options *options = request->options;
  double r = floor(options->rope.fraction * (double)request->shape.head_size + 1e-6);
  double zeta = ((double)pair / (r / 2) + 0.4) / 1.4, end = (double)limit(&request->shape, options);
  double phase = rope_angle(request, &options->rope, 1, pair, position, magnitude);
  *magnitude = exp((key ? -1 : 1) * ((double)position - (end - 1) / 2) / options->scale_base * log(zeta));
  return phase;
}

const position_method position_method_xpos = {
    .name = "xpos",
    .title = "xPos: rotary positions that fade with the distance, up to an end",
    .formula = "RoPE; q times zeta_p^(pos/scale_base), k times zeta_p^(-pos/scale_base)",
    .source = "Sun et al., ACL 2023",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(xpos_options),
    .check = check,
    .limit = limit,
    .further = "a larger scale_base",
    .layout = layout,
    .fill = fill,
    .angle = angle,
};
