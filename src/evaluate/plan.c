/* The windows of each protocol (Press, Smith and Lewis, ICLR 2022, call the first two nonoverlapping and sliding
 * window evaluation).  A plan knows sizes only, neither tokens nor a model, so it can be compared with a count on
 * one's fingers. */
#include "evaluate/plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

enum { PROBE_TARGETS = 200, PROBE_SHARE = 4 };

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

status plan_add(plan *p, plan_window w, alibi_error *error)
{
  assert(w.inputs > w.begins && w.count > 0 && w.first >= w.begins && w.first + w.count <= w.inputs);
  assert(w.past <= w.position);
  status result =
      memory_grow(&p->windows, &p->capacity, p->count + 1, sizeof *p->windows, "the windows of a protocol", error);
  if (result != ALIBI_OK) return result;
  p->windows[p->count++] = w;
  p->inputs += w.inputs;
  p->targets += w.count;
  p->longest = larger(p->longest, w.inputs);
  p->positions = larger(p->positions, w.position + w.inputs);
  p->past = larger(p->past, w.past);
  if (w.position > 0) p->streams = true;
  return ALIBI_OK;
}

void plan_free(plan *p)
{
  free(p->windows);
  *p = (plan){0};
}

/* A window of so many of the text's tokens, from `start` on, the last `count` outputs of which are scored. */
static plan_window window_at(plan_text text, plan_shape shape, size_t start, size_t tokens, size_t count)
{
  size_t begins = shape.begins ? 1 : 0;
  return (plan_window){.start = text.start + start,
                       .inputs = tokens + begins,
                       .first = tokens + begins - count,
                       .count = count,
                       .begins = begins};
}

/* Tokens of the text in a window. */
static size_t room_of(plan_shape shape)
{
  assert(shape.window > (shape.begins ? 1 : 0));
  return shape.window - (shape.begins ? 1 : 0);
}

status plan_nonoverlapping(plan_text text, plan_shape shape, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t room = room_of(shape), targets = text.tokens - 1;
  assert(text.tokens >= 2);
  for (size_t start = 0, count; start < targets; start += count) {
    count = smaller(room, targets - start);
    TRY(plan_add(p, window_at(text, shape, start, count, count), error));
  }
done:
  return result;
}

status plan_sliding(plan_text text, plan_shape shape, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t room = room_of(shape), targets = text.tokens - 1, end = smaller(room, targets); /* end: read so far */
  assert(text.tokens >= 2 && shape.stride >= 1 && shape.stride <= shape.window);
  if (shape.stride >= room) return plan_nonoverlapping(text, shape, p, error);
  TRY(plan_add(p, window_at(text, shape, 0, end, end), error));
  while (end < targets) {
    size_t count = smaller(shape.stride, targets - end);
    end += count;
    TRY(plan_add(p, window_at(text, shape, end - room, room, count), error));
  }
done:
  return result;
}

status plan_streaming(plan_text text, plan_shape shape, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t targets = text.tokens - 1, end = smaller(room_of(shape), targets);
  assert(text.tokens >= 2 && shape.stride >= 1 && shape.stride <= shape.window);
  TRY(plan_add(p, window_at(text, shape, 0, end, end), error));
  while (end < targets) {
    size_t count = smaller(shape.stride, targets - end), position = end + (shape.begins ? 1 : 0);
    TRY(plan_add(p,
                 (plan_window){.start = text.start + end,
                               .inputs = count,
                               .count = count,
                               .position = position,
                               .past = smaller(shape.window - shape.stride, position)},
                 error));
    end += count;
  }
done:
  return result;
}

size_t plan_probe_targets(size_t shortest)
{
  size_t targets = smaller(PROBE_TARGETS, shortest / PROBE_SHARE);
  return targets ? targets : 1;
}

/* Probes that a document has room for: place i ends at the input before token longest + i * T of it. */
static size_t places_of(plan_text text, size_t longest, size_t targets)
{
  assert(longest < text.tokens);
  return (text.tokens - 1 - longest) / targets + 1;
}

status plan_fixed_target(const plan_text *texts, size_t count, plan_shape shape, plan_sweep sweep, plan *p,
                         alibi_error *error)
{
  status result = ALIBI_OK;
  size_t begins = shape.begins ? 1 : 0, room = room_of(shape), longest = sweep.longest - begins;
  size_t targets = plan_probe_targets(sweep.shortest), places = 0, text = 0, before = 0;
  assert(sweep.shortest > begins && sweep.shortest <= shape.window && shape.window <= sweep.longest);
  for (size_t i = 0; i < count; i++) places += places_of(texts[i], longest, targets);
  size_t probes = places;
  if (sweep.max_targets > 0) probes = smaller(places, larger(sweep.max_targets / targets, 1));
  size_t whole = probes ? places / probes : 0, rest = probes ? places % probes : 0;
  for (size_t i = 0; i < probes; i++) {
    size_t place = i * whole + i * rest / probes; /* i * places / probes */
    for (size_t here; place - before >= (here = places_of(texts[text], longest, targets)); text++) before += here;
    size_t end = longest + (place - before) * targets;
    TRY(plan_add(p, window_at(texts[text], shape, end - room, room, targets), error));
  }
done:
  return result;
}
