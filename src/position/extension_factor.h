/* position/extension_factor.h - what the extensions share: the factor s by which a text outgrows the training, and
 * the settings that it comes from. */
#ifndef POSITION_EXTENSION_FACTOR_H
#define POSITION_EXTENSION_FACTOR_H

#include "position/position.h"

/* Settings of the extensions that have no others. */
typedef struct extension_factor_options {
  double factor;
  int64_t original_length;
} extension_factor_options;

/* Rows for a table of fields of `type`: a double `factor`, and an int64_t `original_length`. */
#define EXTENSION_FACTOR_FIELD(type)                                                                         \
  {.name = "factor",                                                                                         \
   .kind = FIELD_REAL,                                                                                       \
   .offset = offsetof(type, factor),                                                                         \
   .minimum = 0,                                                                                             \
   .maximum = 1e6,                                                                                           \
   .initial = 0,                                                                                             \
   .help = "how much longer than trained, at every length; 0: declared length / trained length"}

#define EXTENSION_ORIGINAL_FIELD(type)                                                                       \
  {.name = "original_length",                                                                                \
   .kind = FIELD_INTEGER,                                                                                    \
   .offset = offsetof(type, original_length),                                                                \
   .minimum = 0,                                                                                             \
   .maximum = 1e9,                                                                                           \
   .initial = 0,                                                                                             \
   .help = "length before any extension, if it is not the trained length; 0: trained length"}

#define EXTENSION_FACTOR_FIELDS \
  EXTENSION_FACTOR_FIELD(extension_factor_options), EXTENSION_ORIGINAL_FIELD(extension_factor_options)

/* The length before any extension; original: the setting, 0: L. */
double extension_original(const position_request *request, int64_t original);

/* Positions that were trained, at first or later: rows of an absolute method that mean something. */
size_t extension_rows(const position_request *request);

/* A configured factor as it is, at every length; else the declared length / the original one.  Never below 1: a
 * short text needs no help. */
double extension_factor(const position_request *request, double configured, int64_t original);

/* The same from extension_factor_options. */
double extension_factor_of(const position_request *request);

/* Parts of an extension whose settings begin with such a factor.  One between 0 and 1 would do nothing. */
status extension_factor_check(const position_request *request, size_t rotary, alibi_error *error);
bool extension_factor_follows(const position_request *request);

#endif
