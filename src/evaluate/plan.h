/* evaluate/plan.h - a protocol as data: the windows that a model reads, and which of their outputs are scored.
 *
 * Output i of a window predicts the token after its input i.  The targets of a plan are its scored outputs, window
 * after window; everything that is measured later is computed from one loss a target, in this order. */
#ifndef EVALUATE_PLAN_H
#define EVALUATE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Reads tokens start .. start+inputs-1; outputs first .. first+count-1 are scored. */
typedef struct plan_window {
  size_t start, inputs, first, count;
  size_t begins;   /* 1: a beginning token stands before them, counted in inputs: one token less is read */
  size_t position; /* of its first input; above 0 it goes on from the window before it, and */
  size_t past;     /* sees the last so many inputs of those that came before, as they were computed then */
} plan_window;

typedef struct plan {
  plan_window *windows;
  size_t count, capacity;
  size_t longest;   /* inputs of the longest window */
  size_t positions; /* of all windows: the largest, and one */
  size_t past;      /* the largest */
  size_t inputs;    /* of all windows */
  size_t targets;
  bool streams; /* some window goes on from the one before it */
} plan;

/* Which token the scored output `i` (0 .. count-1) of a window predicts. */
static inline size_t plan_target(const plan_window *w, size_t i)
{
  return w->start + w->first + i + 1 - w->begins;
}

/* Inputs that it is predicted from. */
static inline size_t plan_context(const plan_window *w, size_t i)
{
  return w->past + w->first + i + 1;
}

/* One document of the text: N >= 2 tokens. */
typedef struct plan_text {
  size_t start, tokens;
} plan_text;

/* window: W >= 1 inputs, >= 2 with a beginning token; stride: S, 1 .. W. */
typedef struct plan_shape {
  size_t window, stride;
  bool begins; /* every window begins with a beginning token, in streaming the first one */
} plan_shape;

/* All of these add a document's windows to a plan, which begins as {0}: N - 1 targets, in the order of the text.
 * When they fail the plan is still to be freed. */

status plan_nonoverlapping(plan_text text, plan_shape shape, plan *p, alibi_error *error);

/* The last window starts W inputs before the end of the text; where windows do not overlap the last one is shorter
 * instead, as in nonoverlapping. */
status plan_sliding(plan_text text, plan_shape shape, plan *p, alibi_error *error);

/* The first piece is the first window of sliding; each later one, S inputs or what is left, sees the W - S before
 * it. */
status plan_streaming(plan_text text, plan_shape shape, plan *p, alibi_error *error);

/* Targets a probe: min(200, shortest / 4), at least 1. */
size_t plan_probe_targets(size_t shortest);

typedef struct plan_sweep {
  size_t shortest, longest; /* windows */
  size_t max_targets;       /* 0: all */
} plan_sweep;

/* Of `count` documents, in each of which the longest window has room: probes at every T tokens from the first
 * target that has it before it; or, where max_targets > 0, as many of these as make max_targets (one at least),
 * spread evenly over all documents. */
status plan_fixed_target(const plan_text *texts, size_t count, plan_shape shape, plan_sweep sweep, plan *p,
                         alibi_error *error);

status plan_add(plan *p, plan_window window, alibi_error *error);
void plan_free(plan *p);

#endif
