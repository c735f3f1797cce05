/* position/slopes.h - one slope of ALiBi, for code that has no array for all of them. */
#ifndef POSITION_SLOPES_H
#define POSITION_SLOPES_H

#include "alibi/attention.h"

/* Arguments as alibi_slopes checks them; head: 0 .. heads-1. */
double slope_of_head(int head, int heads, double max_bias, alibi_slope_rule rule);

#endif
