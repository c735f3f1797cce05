/* Both plans are lists in the same order, so joining them and taking one out again are walks along both. */
#include "evaluate/sharing.h"

#include <assert.h>
#include <string.h>

/* Below 0: a comes first; 0: both read the same inputs. */
static int order_of(const plan_window *a, const plan_window *b)
{
  assert(a->begins == b->begins && a->position == 0 && b->position == 0);
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  if (a->inputs != b->inputs) return a->inputs < b->inputs ? -1 : 1;
  return 0;
}

static plan_window united(plan_window a, const plan_window *b)
{
  size_t end = a.first + a.count, other = b->first + b->count;
  if (b->first < a.first) a.first = b->first;
  a.count = (other > end ? other : end) - a.first;
  return a;
}

status sharing_join(const plan *a, const plan *b, plan *joint, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t i = 0, j = 0;
  *joint = (plan){0};
  while (i < a->count || j < b->count) {
    int order = i == a->count ? 1 : j == b->count ? -1 : order_of(&a->windows[i], &b->windows[j]);
    plan_window w = order <= 0 ? a->windows[i] : b->windows[j];
    if (order == 0) w = united(w, &b->windows[j]);
    TRY(plan_add(joint, w, error));
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
done:
  if (result != ALIBI_OK) plan_free(joint);
  return result;
}

void sharing_take(const plan *joint, const float *losses, const plan *own, float *own_losses)
{
  size_t at = 0;
  for (size_t i = 0; i < own->count; i++, at++) {
    const plan_window *w = &own->windows[i], *whole = &joint->windows[at];
    for (; order_of(whole, w) != 0; whole = &joint->windows[++at]) losses += whole->count;
    memcpy(own_losses, losses + (w->first - whole->first), w->count * sizeof *losses);
    own_losses += w->count;
    losses += whole->count;
  }
}
