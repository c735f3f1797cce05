/* kernel/weight_plain.h - stored weights in plain C: the truth that the tables are tested against, and the way
 * back. */
#ifndef KERNEL_WEIGHT_PLAIN_H
#define KERNEL_WEIGHT_PLAIN_H

#include <stdbool.h>

#include "kernel/weight_type.h"

/* n numbers, whole blocks, to fp32.  Every result is one correctly rounded sum: scale times q is exact in fp32. */
void weight_widen(weight_type type, size_t n, const void *from, float *to);

/* And back, to the nearest: F32, F16, BF16, Q8_0, Q4_0, Q4_K.  What is not finite, or beyond F16 in a scale,
 * becomes what the type makes of it; nothing is checked. */
bool weight_can_narrow(weight_type type);
void weight_narrow(weight_type type, size_t n, const float *from, void *to);

#endif
