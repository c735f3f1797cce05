/* ALiBi with slopes divided by max(1, n/L), n the declared length.  For a model as trained that is `linear` with
 * its factor left at 0; in a model that is trained further with it, where that factor becomes a number for every
 * length, this one goes on following the text: up to L its slopes are the first ones, beyond they are divided as
 * far as the text asks.  Al-Khateeb et al., "Position interpolation improves ALiBi extrapolation", 2023. */
#include <stddef.h>

#include "position/extension_factor.h"

typedef struct dynamic_options {
  int64_t original_length;
} dynamic_options;

static const field fields[] = {EXTENSION_ORIGINAL_FIELD(dynamic_options)};

static bool follows_length(const position_request *request)
{
  (void)request;
  return true;
}

static double slope(const position_request *request, size_t rank, size_t count)
{
  (void)rank, (void)count;
  return 1 / extension_factor(request, 0, ((const dynamic_options *)request->extension_options)->original_length);
}

const position_extension position_extension_alibi_dynamic = {
    .name = "dynamic",
    .title = "slopes divided by declared length / trained length, in a model trained further too",
    .formula = "m_h / max(1, n/L)",
    .source = "Al-Khateeb et al., 2023",
    .family = "alibi",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(dynamic_options),
    .follows_length = follows_length,
    .slope = slope,
};
