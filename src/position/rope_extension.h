/* position/rope_extension.h - what the extensions of rope share: the factor s by which a text outgrows
 * the training. */
#ifndef POSITION_ROPE_EXTENSION_H
#define POSITION_ROPE_EXTENSION_H

#include "position/position.h"

typedef struct rope_factor_options {
  double factor;
} rope_factor_options;

/* The row of `factor` for a table of fields. */
#define ROPE_FACTOR_FIELD(type)                                                                              \
  {.name = "factor",                                                                                         \
   .kind = FIELD_REAL,                                                                                       \
   .offset = offsetof(type, factor),                                                                         \
   .minimum = 0,                                                                                             \
   .maximum = 1e6,                                                                                           \
   .initial = 0,                                                                                             \
   .help = "how much longer than trained; 0: declared length / trained length"}

/* A configured factor as it is, at every length; else length / L.  Never below 1: a short text needs no help. */
double rope_factor(const position_request *request, double configured);

#endif
