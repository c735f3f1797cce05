/* evaluate/sharing.h - plans run as one: a window that several of them read is run once, and its losses are given
 * to each.  The bits are those of separate runs, for a window's outputs do not depend on what else is run. */
#ifndef EVALUATE_SHARING_H
#define EVALUATE_SHARING_H

#include "evaluate/plan.h"

/* joint = the windows of both, in the order of the text, each once; where both score outputs of a window, it
 * scores all from the first of these to the last.  Of plans that do not stream, whose windows are in that order.
 */
status sharing_join(const plan *a, const plan *b, plan *joint, alibi_error *error);

/* Losses of a plan, from those of a joint one that it is part of. */
void sharing_take(const plan *joint, const float *losses, const plan *own, float *own_losses);

#endif
