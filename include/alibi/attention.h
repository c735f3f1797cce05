/* alibi/attention.h - attention with linear biases.
 *
 * ALiBi: softmax(scale * q.k - m_h * (i - j)) with one slope m_h per head (Press, Smith, Lewis, "Train short, test
 * long: attention with linear biases enables input length extrapolation", ICLR 2022). */
#ifndef ALIBI_ATTENTION_H
#define ALIBI_ATTENTION_H

#include "alibi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ALIBI_MAX_HEADS 65536

/* Where the number of heads H is a power of two, both rules give m_h = 2^(-B (h+1)/H).  Else:
 *   INTERLEAVED  the slopes of F heads, F the largest power of two below H, then every second slope of 2F heads: the
 *                authors' code, and what BLOOM, MPT, Falcon and Baichuan do;
 *   GEOMETRIC    m_h = 2^(-B (h+1)/H) all the same: the paper's text. */
typedef enum alibi_slope_rule { ALIBI_SLOPES_INTERLEAVED = 0, ALIBI_SLOPES_GEOMETRIC } alibi_slope_rule;

/* Writes the slopes of heads 0 .. heads-1 to slopes[heads].  heads: 1 .. ALIBI_MAX_HEADS.  max_bias: the exponent B,
 * above 0 and at most 100; 8 in the paper. */
ALIBI_API alibi_status alibi_slopes(int heads, double max_bias, alibi_slope_rule rule, double *slopes,
                                    alibi_error *error);

#ifdef __cplusplus
}
#endif
#endif
