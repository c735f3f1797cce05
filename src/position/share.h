/* position/share.h - a share of the heads or of the frequencies as a number of them, rounded down, and the
 * sentence for one that comes to none without saying so: a method would be another one under its own name. */
#ifndef POSITION_SHARE_H
#define POSITION_SHARE_H

#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "base/field.h"

/* The product of a decimal share may miss a whole number by a rounding error. */
static inline size_t share_of(double share, size_t count)
{
  return (size_t)floor(share * (double)count + 1e-6);
}

/* Of the setting `share` among the fields.  0 asks for none; another share must be one of the `things` at least.
 * The initial one may be none: nobody typed it, and a study of all methods goes on with small models. */
static inline status share_check(const char *method, field_table fields, double share, size_t count,
                                 const char *things, alibi_error *error)
{
  const field *f = field_find(fields, "share");
  if (share == 0 || share == f->initial || share_of(share, count) > 0) return ALIBI_OK;
  if (share_of(f->maximum, count) == 0)
    return fail(error, ALIBI_INVALID,
                "position method '%s': share: expected 0, since no share up to %g of %zu %s makes one, found %g",
                method, f->maximum, count, things, share);
  return fail(error, ALIBI_INVALID,
              "position method '%s': share: expected 0, or at least %.7g for one of %zu %s, found %g, "
              "which makes none",
              method, 1 / (double)count, count, things, share);
}

#endif
