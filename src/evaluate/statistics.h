/* evaluate/statistics.h - what is said about a list of losses.  Sums are in double, in the order of the list. */
#ifndef EVALUATE_STATISTICS_H
#define EVALUATE_STATISTICS_H

#include <stddef.h>

enum { STATISTICS_BLOCK = 1000 };

typedef struct mean_estimate {
  double mean;
  double standard_error; /* NaN with fewer than two blocks */
} mean_estimate;

/* Neighbouring tokens are not independent, so the error is that of the means of consecutive blocks of at least
 * STATISTICS_BLOCK values: their standard deviation (n - 1) / sqrt(blocks).  count >= 1. */
mean_estimate statistics_mean(const float *values, size_t count);

/* Of total nats over so many bytes of text; NaN without bytes. */
double statistics_bits_per_byte(double nats, size_t bytes);

#endif
