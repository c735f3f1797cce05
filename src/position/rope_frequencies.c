/* Frequencies and tables of the rotary methods.  Channel pair p of a query or key turns by position * w_p, so that
 * a score depends on the distance alone; phases are taken in double, because a float has no digits left for the
 * angle of a far position.  An extension changes the w_p (and perhaps the length of the turned vectors), nothing
 * else. */
#include "position/rope_frequencies.h"

#include <math.h>

#include "position/share.h"

const char *const rope_layouts[] = {"half", "adjacent", NULL};

size_t rope_rotary(const position_shape *shape, const rope_settings *settings)
{
  return share_of(settings->fraction, shape->head_size);
}

status rope_check(const char *method, const position_shape *shape, const rope_settings *settings,
                  alibi_error *error)
{
  size_t rotary = rope_rotary(shape, settings);
  if (rotary < 2 || rotary % 2 != 0 || rotary > 2 * ROPE_PAIRS_MAX)
    return fail(error, ALIBI_INVALID,
                "position method '%s': expected an even number of turning channels from 2 to %d, found %zu "
                "(fraction %g of a head of %zu)",
                method, 2 * ROPE_PAIRS_MAX, rotary, settings->fraction, shape->head_size);
  return ALIBI_OK;
}

status rope_check_share(const char *method, field_table fields, const position_shape *shape,
                        const rope_settings *settings, double share, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(rope_check(method, shape, settings, error));
  TRY(share_check(method, fields, share, rope_rotary(shape, settings) / 2, "frequencies", error));
done:
  return result;
}

void rope_powers(double base, size_t rotary, double *w)
{
  for (size_t p = 0; p < rotary / 2; p++) w[p] = pow(base, -2.0 * (double)p / (double)rotary);
}

void rope_stretch(double base, double s, size_t rotary, double *w)
{
  if (s == 1 || rotary == 2) return; /* one pair: its frequency is 1 for any base */
  double d = (double)rotary;
  rope_powers(base * pow(s, d / (d - 2)), rotary, w);
}

double rope_frequencies(const position_request *request, const rope_settings *settings, double kept, double *w)
{
  size_t rotary = rope_rotary(&request->shape, settings), pairs = rotary / 2;
  const position_extension *extension = request->extension;
  double magnitude = 1;
  rope_powers(settings->base, rotary, w);
  if (extension) magnitude = extension->frequencies(request, rotary, settings->base, w);
  for (size_t p = share_of(kept, pairs); p < pairs; p++) w[p] = 0;
  return magnitude;
}

void rope_layout(const position_request *request, const rope_settings *settings, position_plan *plan, arena *a)
{
  plan->rotary = rope_rotary(&request->shape, settings);
  plan->adjacent = settings->layout == 1;
  size_t count = size_mul(request->length, plan->rotary / 2);
  plan->cosine = arena_floats(a, count);
  plan->sine = arena_floats(a, count);
}

void rope_fill(const position_request *request, const rope_settings *settings, double kept, position_plan *plan)
{
  double w[ROPE_PAIRS_MAX];
  double magnitude = rope_frequencies(request, settings, kept, w);
  size_t half = plan->rotary / 2;
  float *cosine = (float *)plan->cosine, *sine = (float *)plan->sine;
  for (size_t position = 0; position < request->length; position++)
    for (size_t p = 0; p < half; p++) {
      double phase = (double)position * w[p];
      cosine[position * half + p] = (float)(magnitude * cos(phase));
      sine[position * half + p] = (float)(magnitude * sin(phase));
    }
}

/* The formula once more, from the settings on; what an extension makes of the frequencies is its own. */
double rope_angle(const position_request *request, const rope_settings *settings, double kept, size_t pair,
                  size_t position, double *magnitude)
{
  double r = floor(settings->fraction * (double)request->shape.head_size + 1e-6);
  double frequency = pow(settings->base, -2 * (double)pair / r);
  bool turns = (double)pair + 1 <= kept * r / 2 + 1e-6;
  *magnitude = 1;
  if (request->extension) {
    double w[ROPE_PAIRS_MAX];
    for (size_t p = 0; 2 * (double)p < r; p++) w[p] = pow(settings->base, -2 * (double)p / r);
    *magnitude = request->extension->frequencies(request, (size_t)r, settings->base, w);
    frequency = w[pair];
  }
  return turns ? (double)position * frequency : 0;
}
