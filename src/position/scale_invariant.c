/* Scale-invariant attention: a score at distance t becomes a_t times itself plus b_t, so that tokens 10 to 100,
 * 100 to 1000, .. away keep the same share of the attention however long the text.  Anson, Wang, Aitchison,
 * "Scale-invariant attention", 2025:
 *
 *     a_t = sqrt(2 (ln(t/tau + 1) - ln alpha + beta/alpha)),  b_t = -a_t^2 + beta/alpha,  alpha = beta = e^0.5,
 *
 * which is a_t = sqrt(2 ln(t/tau + 1) + 1), b_t = -2 ln(t/tau + 1): near keys are left as they are.  Queries and
 * keys turn as in p-RoPE (Barbero et al., "Round and round we go!", ICLR 2025): only the highest frequencies, for
 * a far key must not depend on angles that training has not met.  All heads and layers alike, no parameters; b_t
 * is a logarithm, so nothing is skipped. */
#include <math.h>
#include <stddef.h>

#include "position/distance_table.h"
#include "position/position.h"
#include "position/rope_frequencies.h"

typedef struct scale_invariant_options {
  rope_settings rope;
  double share, tau;
} scale_invariant_options;

static const field fields[] = {
    ROPE_FIELDS(scale_invariant_options, rope),
    {.name = "share",
     .kind = FIELD_REAL,
     .offset = offsetof(scale_invariant_options, share),
     .minimum = 0,
     .maximum = 1,
     .initial = 0.5,
     .help = "share of the frequencies, highest first, that turn; 0: none (so is 0.5 of one)"},
    {.name = "tau",
     .kind = FIELD_REAL,
     .offset = offsetof(scale_invariant_options, tau),
     .minimum = 0.01,
     .maximum = 1e6,
     .initial = 10,
     .help = "distance from which on scales are alike"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  const scale_invariant_options *own = options;
  return rope_check_share("scale-invariant", (field_table)FIELD_TABLE(fields), shape, &own->rope, own->share,
                          error);
}

/* ln(t/tau + 1). */
static double log_scale(const position_request *request, size_t t)
{
  const scale_invariant_options *options = request->options;
  return log1p((double)t / options->tau);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  const scale_invariant_options *options = request->options;
  rope_layout(request, &options->rope, plan, a);
  distance_layout(request, plan, a);
  plan->factors = arena_floats(a, size_mul(request->shape.heads, request->length));
}

static void fill(const position_request *request, position_plan *plan)
{
  const scale_invariant_options *options = request->options;
  size_t length = request->length;
  float *table = (float *)plan->table, *factors = (float *)plan->factors;
  rope_fill(request, &options->rope, options->share, plan);
  for (size_t t = 0; t < length; t++) {
    double scale = log_scale(request, t);
    for (size_t h = 0; h < request->shape.heads; h++) {
      table[distance_at(length, h, t)] = (float)(-2 * scale);
      factors[distance_at(length, h, t)] = (float)sqrt(2 * scale + 1);
    }
  }
}

/* As the paper writes them. */
static double factor(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer, (void)head;
  const scale_invariant_options *options = request->options;
  double alpha = exp(0.5), beta = alpha;
  return sqrt(2 * (log((double)(i - j) / options->tau + 1) - log(alpha) + beta / alpha));
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  double alpha = exp(0.5), beta = alpha, a = factor(request, layer, head, i, j);
  return -a * a + beta / alpha;
}

static double angle(const position_request *request, bool key, size_t pair, size_t position, double *magnitude)
{
  const scale_invariant_options *options = request->options;
  (void)key;
  return rope_angle(request, &options->rope, options->share, pair, position, magnitude);
}

const position_method position_method_scale_invariant = {
    .name = "scale-invariant",
    .title = "scale-invariant attention on p-RoPE",
    .formula = "a_t score + b_t, b_t = -2 ln(t/tau + 1), a_t^2 = 1 - b_t",
    .source = "Anson, Wang, Aitchison, 2025",
    .family = "rope",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(scale_invariant_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .bias = bias,
    .factor = factor,
    .angle = angle,
};
