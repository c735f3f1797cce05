/* evaluate/plan.h - a protocol as data: the windows that a model reads, and which of their outputs are scored.
 *
 * Output i of a window predicts the token after its input i.  The targets of a plan are its scored outputs, window
 * after window; everything that is measured later is computed from one loss a target, in this order. */
#ifndef EVALUATE_PLAN_H
#define EVALUATE_PLAN_H

#include <stddef.h>

#include "base/error.h"

/* Reads tokens start .. start+inputs-1 as positions 0 .. inputs-1; outputs first .. first+count-1 are scored. */
typedef struct plan_window {
  size_t start, inputs, first, count;
} plan_window;

typedef struct plan {
  plan_window *windows;
  size_t count, capacity;
  size_t longest; /* inputs of the longest window */
  size_t inputs;  /* of all windows */
  size_t targets;
} plan;

/* Which token the scored output `i` (0 .. count-1) of a window predicts. */
static inline size_t plan_target(const plan_window *w, size_t i)
{
  return w->start + w->first + i + 1;
}

/* tokens: N >= 2; window: W >= 1.  N - 1 targets, in the order of the text. */
status plan_nonoverlapping(size_t tokens, size_t window, plan *p, alibi_error *error);

/* stride: 1 <= S <= W.  The last window starts W inputs before the end of the text; where S = W windows do not
 * overlap, so the last one is shorter instead, as in nonoverlapping. */
status plan_sliding(size_t tokens, size_t window, size_t stride, plan *p, alibi_error *error);

/* Targets a probe: min(200, shortest / 4), at least 1. */
size_t plan_probe_targets(size_t shortest);

/* Probes at every T tokens from the first target that has `longest` inputs before it; or, where max_targets > 0,
 * as many of these as make max_targets (one at least), spread evenly.  Needs longest < tokens. */
status plan_fixed_target(size_t tokens, size_t window, size_t shortest, size_t longest, size_t max_targets,
                         plan *p, alibi_error *error);

void plan_free(plan *p);

#endif
