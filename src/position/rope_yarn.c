/* YaRN: pairs that turn often within the trained length keep their frequency, pairs that do not complete a turn
 * are interpolated by s, a ramp between; cos and sin are multiplied by a factor that sharpens the softmax. Peng et
 * al., "YaRN: efficient context window extension of large language models", ICLR 2024. */
#include <math.h>
#include <stddef.h>

#include "position/extension_factor.h"

typedef struct yarn_options {
  double factor, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim;
  int64_t original_length;
  bool truncate;
} yarn_options;

static const field fields[] = {
    EXTENSION_FACTOR_FIELD(yarn_options),
    {.name = "beta_fast",
     .kind = FIELD_REAL,
     .offset = offsetof(yarn_options, beta_fast),
     .minimum = 1e-3,
     .maximum = 1e6,
     .initial = 32,
     .help = "turns within the trained length above which a pair is kept"},
    {.name = "beta_slow",
     .kind = FIELD_REAL,
     .offset = offsetof(yarn_options, beta_slow),
     .minimum = 1e-3,
     .maximum = 1e6,
     .initial = 1,
     .help = "turns below which a pair is interpolated"},
    {.name = "attention_factor",
     .kind = FIELD_REAL,
     .offset = offsetof(yarn_options, attention_factor),
     .minimum = 0,
     .maximum = 100,
     .initial = 0,
     .help = "factor on cos and sin; 0: 0.1 ln s + 1, or by mscale"},
    {.name = "mscale",
     .kind = FIELD_REAL,
     .offset = offsetof(yarn_options, mscale),
     .minimum = 0,
     .maximum = 100,
     .initial = 0,
     .help = "with mscale_all_dim: factor (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1); 0: not used"},
    {.name = "mscale_all_dim",
     .kind = FIELD_REAL,
     .offset = offsetof(yarn_options, mscale_all_dim),
     .minimum = 0,
     .maximum = 100,
     .initial = 0,
     .help = "see mscale; 0: neither is used"},
    EXTENSION_ORIGINAL_FIELD(yarn_options),
    {.name = "truncate",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(yarn_options, truncate),
     .initial = 1,
     .help = "round the ends of the ramp to whole pairs"},
};

static status check(const position_request *request, size_t rotary, alibi_error *error)
{
  const yarn_options *options = request->extension_options;
  if (options->beta_fast < options->beta_slow)
    return fail(error, ALIBI_INVALID,
                "position extension 'yarn': expected beta_fast of at least beta_slow, found %g and %g",
                options->beta_fast, options->beta_slow);
  return extension_factor_check(request, rotary, error);
}

/* The pair, as a real number, that completes `turns` turns within L positions. */
static double pair_of_turns(double turns, double length, double d, double base)
{
  return d * log(length / (turns * 2 * acos(-1.0))) / (2 * log(base));
}

static double magnitude(const yarn_options *options, double s)
{
  if (options->attention_factor > 0) return options->attention_factor;
  if (options->mscale > 0 && options->mscale_all_dim > 0)
    return (0.1 * options->mscale * log(s) + 1) / (0.1 * options->mscale_all_dim * log(s) + 1);
  return 0.1 * log(s) + 1;
}

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  const yarn_options *options = request->extension_options;
  double s = extension_factor(request, options->factor, options->original_length);
  if (s == 1) return magnitude(options, s);
  double d = (double)rotary, length = extension_original(request, options->original_length);
  double low = pair_of_turns(options->beta_fast, length, d, base);
  double high = pair_of_turns(options->beta_slow, length, d, base);
  if (options->truncate) low = floor(low), high = ceil(high);
  low = fmin(fmax(low, 0), d - 1), high = fmin(fmax(high, 0), d - 1);
  if (low == high) high += 0.001;
  for (size_t p = 0; p < rotary / 2; p++) {
    double ramp = fmin(fmax(((double)p - low) / (high - low), 0), 1);
    w[p] = w[p] / s * ramp + w[p] * (1 - ramp);
  }
  return magnitude(options, s);
}

const position_extension position_extension_rope_yarn = {
    .name = "yarn",
    .title = "YaRN: interpolation by wavelength",
    .formula = "w_p / s ramp_p + w_p (1 - ramp_p)",
    .source = "Peng et al., ICLR 2024",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(yarn_options),
    .check = check,
    .follows_length = extension_factor_follows,
    .frequencies = frequencies,
};
