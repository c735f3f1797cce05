/* The scaling of Llama 3.1: wavelengths that fit often into the original length are kept, those longer than
 * it are divided by s, and between the two bounds the share z of the unchanged frequency goes from 0 to 1 with the
 * turns that a pair makes in the original length.  Grattafiori et al., "The Llama 3 herd of models", 2024. */
#include <math.h>
#include <stddef.h>

#include "position/extension_factor.h"

typedef struct llama3_options {
  double factor, low_freq_factor, high_freq_factor;
  int64_t original_length;
} llama3_options;

static const field fields[] = {
    EXTENSION_FACTOR_FIELD(llama3_options),
    {.name = "low_freq_factor",
     .kind = FIELD_REAL,
     .offset = offsetof(llama3_options, low_freq_factor),
     .minimum = 1e-3,
     .maximum = 1e6,
     .initial = 1,
     .help = "turns within the original length below which a pair is interpolated"},
    {.name = "high_freq_factor",
     .kind = FIELD_REAL,
     .offset = offsetof(llama3_options, high_freq_factor),
     .minimum = 1e-3,
     .maximum = 1e6,
     .initial = 4,
     .help = "turns above which a pair is kept"},
    EXTENSION_ORIGINAL_FIELD(llama3_options),
};

static status check(const position_request *request, size_t rotary, alibi_error *error)
{
  const llama3_options *options = request->extension_options;
  if (!(options->low_freq_factor < options->high_freq_factor))
    return fail(error, ALIBI_INVALID,
                "position extension 'llama3': expected low_freq_factor below high_freq_factor, found %g and %g",
                options->low_freq_factor, options->high_freq_factor);
  return extension_factor_check(request, rotary, error);
}

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  (void)base;
  const llama3_options *options = request->extension_options;
  double s = extension_factor(request, options->factor, options->original_length);
  double length = extension_original(request, options->original_length);
  double low = options->low_freq_factor, high = options->high_freq_factor;
  for (size_t p = 0; p < rotary / 2 && s != 1; p++) {
    double turns = length * w[p] / (2 * acos(-1.0)), z = (turns - low) / (high - low);
    if (turns > high) continue;
    w[p] = turns < low ? w[p] / s : (1 - z) * w[p] / s + z * w[p];
  }
  return 1;
}

const position_extension position_extension_rope_llama3 = {
    .name = "llama3",
    .title = "Llama 3: interpolation of the long wavelengths",
    .formula = "w_p / s, w_p, or between, by the turns within the original length",
    .source = "Grattafiori et al., 2024",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(llama3_options),
    .check = check,
    .follows_length = extension_factor_follows,
    .frequencies = frequencies,
};
