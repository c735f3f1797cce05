/* The factor s of an extension.  It comes from the length that is declared for a pass or a session, never from how
 * many tokens were read so far: keys in a cache above the first layer were made with the old factor and cannot
 * follow a new one. */
#include "position/extension_factor.h"

double extension_original(const position_request *request, int64_t original)
{
  if (original > 0) return (double)original;
  return (double)(request->extension_length ? request->extension_length : request->shape.train_length);
}

double extension_factor(const position_request *request, double configured, int64_t original)
{
  double s = configured > 0 ? configured : (double)request->length / extension_original(request, original);
  return s > 1 ? s : 1;
}

size_t extension_rows(const position_request *request)
{
  size_t first = request->shape.train_length, latest = request->extension_length;
  return latest > first ? latest : first;
}

double extension_factor_of(const position_request *request)
{
  const extension_factor_options *options = request->extension_options;
  return extension_factor(request, options->factor, options->original_length);
}

status extension_factor_check(const position_request *request, size_t rotary, alibi_error *error)
{
  (void)rotary;
  double factor = *(const double *)request->extension_options;
  if (factor == 0 || factor >= 1) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "position extension '%s': factor: expected at least 1, or 0 (to follow the length), found %.10g",
              request->extension->name, factor);
}

bool extension_factor_follows(const position_request *request)
{
  return *(const double *)request->extension_options == 0;
}
