/* Sums and spreading around a ring, in steps that can be left and taken up again.  The one idea: rank r sends only
 * to r+1 and receives only from r-1, so a chunk meets the ranks in one order, and n-1 steps of count/n floats move
 * the fewest bytes that any way of summing needs.  A step ends when its chunk has come and the other is gone;
 * nobody waits inside. */
#include "comm/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"

enum { BLOCK_TAGS = TRANSPORT_TAGS / 2, GRAIN = 16 };

void comm_chunk(int ranks, int rank, size_t count, size_t *from, size_t *n)
{
  size_t grains = (count + GRAIN - 1) / GRAIN, all = (size_t)ranks, r = (size_t)rank;
  size_t share = grains / all, more = grains % all; /* the first `more` ranks have one grain more */
  size_t begin = (r * share + (r < more ? r : more)) * GRAIN;
  size_t end = begin + (share + (r < more ? 1 : 0)) * GRAIN;
  if (begin > count) begin = count;
  if (end > count) end = count;
  *from = begin;
  *n = end - begin;
}

static int around(const ring *r, int rank)
{
  int n = r->ranks;
  return ((rank % n) + n) % n;
}

/* Chunks of step s: a reduction sends what it has summed so far, of the chunk whose owner is farthest; a gather
 * sends the own one first. */
static int chunk_sent(const ring *r, const ring_slot *slot)
{
  return around(r, r->rank - slot->step - (slot->item.kind == RING_REDUCE));
}

static int chunk_received(const ring *r, const ring_slot *slot)
{
  return around(r, chunk_sent(r, slot) - 1);
}

status ring_new(const transport_calls *calls, const transport_world *world, ring *r, alibi_error *error)
{
  int slots = world->ranks;
  if (slots < RING_FEWEST_SLOTS) slots = RING_FEWEST_SLOTS;
  if (slots > RING_MOST_SLOTS) slots = RING_MOST_SLOTS;
  *r = (ring){.calls = calls,
              .place = world->place,
              .rank = world->rank,
              .ranks = world->ranks,
              .slot_count = slots};
  return memory_new(&r->slots, (size_t)slots, sizeof *r->slots, "a communicator", error);
}

status ring_begin(ring *r, ring_kind kind, float *x, size_t count, uint64_t *ticket, alibi_error *error)
{
  size_t from, largest;
  comm_chunk(r->ranks, 0, count, &from, &largest);
  if (largest > TRANSPORT_LARGEST / sizeof *x)
    return fail(error, ALIBI_INVALID, "block of %zu floats over %d ranks: expected chunks of at most %zu floats",
                count, r->ranks, (size_t)TRANSPORT_LARGEST / sizeof *x);
  if (r->count == r->capacity) {
    size_t capacity = r->capacity;
    status result =
        memory_grow(&r->queue, &capacity, r->capacity + 1, sizeof *r->queue, "the queue of blocks", error);
    if (result != ALIBI_OK) return result;
    /* The circle opens where the array ended: what had gone over the edge moves behind it. */
    for (size_t i = 0; i < r->first; i++) r->queue[r->capacity + i] = r->queue[i];
    r->capacity = capacity;
  }
  r->queue[(r->first + r->count) % r->capacity] = (ring_item){kind, x, count, ++r->begun};
  r->count++;
  if (ticket) *ticket = r->begun;
  return ALIBI_OK;
}

static status begin_step(ring *r, ring_slot *slot, alibi_error *error)
{
  const ring_item *item = &slot->item;
  int tag = (int)(item->number % BLOCK_TAGS), next = around(r, r->rank + 1), before = around(r, r->rank - 1);
  size_t from, n;
  status result = ALIBI_OK;
  comm_chunk(r->ranks, chunk_received(r, slot), item->count, &from, &n);
  float *to = item->kind == RING_REDUCE ? slot->received : item->x + from;
  if (n > 0) TRY(r->calls->receive(r->place, to, n * sizeof(float), before, tag, &slot->receive, error));
  comm_chunk(r->ranks, chunk_sent(r, slot), item->count, &from, &n);
  if (n > 0) TRY(r->calls->send(r->place, item->x + from, n * sizeof(float), next, tag, &slot->send, error));
  r->cost.bytes_sent += n * sizeof(float);
done:
  return result;
}

static status take_item(ring *r, ring_slot *slot, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t from, largest;
  const ring_item *item = &r->queue[r->first];
  comm_chunk(r->ranks, 0, item->count, &from, &largest);
  if (item->kind == RING_REDUCE && largest > slot->received_capacity) {
    memory_free(slot->received);
    slot->received_capacity = 0;
    TRY(memory_new(&slot->received, largest, sizeof *slot->received, "a chunk of gradients", error));
    slot->received_capacity = largest;
  }
  slot->item = *item;
  slot->active = true;
  slot->step = 0;
  r->first = (r->first + 1) % r->capacity;
  r->count--;
  r->cost.blocks++;
  TRY(begin_step(r, slot, error));
done:
  return result;
}

/* x += y; a sum of two has no order. */
static void add(size_t n, const float *restrict y, float *restrict x)
{
  for (size_t i = 0; i < n; i++) x[i] += y[i];
}

static status end_step(ring *r, ring_slot *slot, alibi_error *error)
{
  if (slot->item.kind == RING_REDUCE) {
    size_t from, n;
    double began = system_seconds();
    comm_chunk(r->ranks, chunk_received(r, slot), slot->item.count, &from, &n);
    add(n, slot->received, slot->item.x + from);
    r->cost.add_seconds += system_seconds() - began;
  }
  slot->step++;
  if (slot->step < r->ranks - 1) return begin_step(r, slot, error);
  slot->active = false;
  return ALIBI_OK;
}

static status test(ring *r, transport_request *request, bool *done, alibi_error *error)
{
  *done = true;
  return request->active ? r->calls->test(request, done, error) : ALIBI_OK;
}

status ring_progress(ring *r, bool *moved, alibi_error *error)
{
  status result = ALIBI_OK;
  bool again = true;
  *moved = false;
  while (again) {
    again = false;
    for (int i = 0; i < r->slot_count; i++) {
      ring_slot *slot = &r->slots[i];
      if (!slot->active) {
        if (r->count == 0) continue;
        TRY(take_item(r, slot, error));
        again = true;
        continue;
      }
      bool sent, received;
      TRY(test(r, &slot->receive, &received, error));
      TRY(test(r, &slot->send, &sent, error));
      if (!sent || !received) continue;
      TRY(end_step(r, slot, error));
      again = true;
    }
    if (again) *moved = true;
  }
done:
  return result;
}

bool ring_is_done(const ring *r, uint64_t ticket)
{
  if (r->count > 0 && r->queue[r->first].number <= ticket) return false;
  for (int i = 0; i < r->slot_count; i++)
    if (r->slots[i].active && r->slots[i].item.number <= ticket) return false;
  return true;
}

void ring_free(ring *r)
{
  for (int i = 0; i < r->slot_count; i++) memory_free(r->slots[i].received);
  memory_free(r->slots);
  free(r->queue);
  *r = (ring){0};
}
