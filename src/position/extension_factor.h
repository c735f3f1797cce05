/* position/extension_factor.h - what the extensions share: the factor s by which a text outgrows the training, and the
 * settings that it comes from. */
#ifndef POSITION_EXTENSION_FACTOR_H
#define POSITION_EXTENSION_FACTOR_H

#include "position/position.h"

/* Settings of the extensions that have no others. */
typedef struct extension_factor_options {
  double factor;
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

/* The length before any extension; original: the setting, 0: L. */
double extension_original(const position_request *request, int64_t original);

/* A configured factor as it is, at every length; else the declared length / the original one.  Never below 1: a short text
 * needs no help. */
double extension_factor(const position_request *request, double configured, int64_t original);

#endif
