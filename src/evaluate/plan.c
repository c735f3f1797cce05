/* The windows of each protocol (Press, Smith and Lewis, ICLR 2022, call the first two nonoverlapping and sliding
 * window evaluation).  A plan knows sizes only, neither tokens nor a model, so it can be compared with a count on
 * one's fingers. */
#include "evaluate/plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

enum { PROBE_TARGETS = 200, PROBE_SHARE = 4 };

static status add(plan *p, plan_window w, alibi_error *error)
{
  assert(w.inputs > 0 && w.count > 0 && w.first + w.count <= w.inputs);
  status result =
      memory_grow(&p->windows, &p->capacity, p->count + 1, sizeof *p->windows, "the windows of a protocol", error);
  if (result != ALIBI_OK) return result;
  p->windows[p->count++] = w;
  p->inputs += w.inputs;
  p->targets += w.count;
  if (w.inputs > p->longest) p->longest = w.inputs;
  return ALIBI_OK;
}

void plan_free(plan *p)
{
  free(p->windows);
  *p = (plan){0};
}

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

status plan_nonoverlapping(size_t tokens, size_t window, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  *p = (plan){0};
  assert(tokens >= 2 && window >= 1);
  for (size_t start = 0; start < tokens - 1;) {
    size_t inputs = smaller(window, tokens - 1 - start);
    TRY(add(p, (plan_window){.start = start, .inputs = inputs, .count = inputs}, error));
    start += inputs;
  }
done:
  if (result != ALIBI_OK) plan_free(p);
  return result;
}

status plan_sliding(size_t tokens, size_t window, size_t stride, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  assert(stride >= 1 && stride <= window);
  if (stride == window) return plan_nonoverlapping(tokens, window, p, error);
  *p = (plan){0};
  assert(tokens >= 2);
  size_t end = smaller(window, tokens - 1); /* of the inputs read so far */
  TRY(add(p, (plan_window){.inputs = end, .count = end}, error));
  while (end < tokens - 1) {
    size_t count = smaller(stride, tokens - 1 - end);
    end += count;
    TRY(add(p, (plan_window){.start = end - window, .inputs = window, .first = window - count, .count = count},
            error));
  }
done:
  if (result != ALIBI_OK) plan_free(p);
  return result;
}

size_t plan_probe_targets(size_t shortest)
{
  size_t targets = smaller(PROBE_TARGETS, shortest / PROBE_SHARE);
  return targets ? targets : 1;
}

status plan_fixed_target(size_t tokens, size_t window, size_t shortest, size_t longest, size_t max_targets,
                         plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  *p = (plan){0};
  assert(shortest >= 1 && shortest <= window && window <= longest && longest < tokens);
  size_t count = plan_probe_targets(shortest);
  size_t places = (tokens - 1 - longest) / count + 1,
         probes = places; /* place i: inputs end at longest + i * count */
  if (max_targets > 0) probes = smaller(places, max_targets / count);
  if (probes == 0) probes = 1;
  size_t whole = places / probes, rest = places % probes;
  for (size_t i = 0; i < probes; i++) {
    size_t end = longest + (i * whole + i * rest / probes) * count; /* place i * places / probes */
    TRY(add(p, (plan_window){.start = end - window, .inputs = window, .first = window - count, .count = count},
            error));
  }
done:
  if (result != ALIBI_OK) plan_free(p);
  return result;
}
