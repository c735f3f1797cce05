/* Dynamic NTK: the base grows with the declared length n once it passes L: base (f n/L - (f - 1))^(r/(r-2)).  With
 * f = 1 it is NTK-aware scaling by n/L; a larger f stretches more than the text needs.  emozilla, 2023, described
 * by Peng et al., "YaRN", ICLR 2024. */
#include <stddef.h>

#include "position/extension_factor.h"
#include "position/rope_frequencies.h"

typedef struct dynamic_options {
  double factor;
  int64_t original_length;
} dynamic_options;

static const field fields[] = {
    {.name = "factor",
     .kind = FIELD_REAL,
     .offset = offsetof(dynamic_options, factor),
     .minimum = 0.01,
     .maximum = 1e6,
     .initial = 2, /* of most published configurations */
     .help = "f: how much faster than the text the longest wavelength grows"},
    EXTENSION_ORIGINAL_FIELD(dynamic_options),
};

static bool follows_length(const position_request *request)
{
  (void)request;
  return true;
}

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  const dynamic_options *options = request->extension_options;
  double f = options->factor, n = (double)request->length;
  double trained = extension_original(request, options->original_length);
  if (n > trained) rope_stretch(base, f * n / trained - (f - 1), rotary, w);
  return 1;
}

const position_extension position_extension_rope_dynamic = {
    .name = "dynamic",
    .title = "dynamic NTK: a base that grows with the declared length",
    .formula = "base (f n/L - (f - 1))^(r/(r-2)) for n > L",
    .source = "emozilla, 2023; Peng et al., ICLR 2024",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(dynamic_options),
    .follows_length = follows_length,
    .frequencies = frequencies,
};
