/* comm/ring.h - the queue of blocks that are summed or spread around the ring. */
#ifndef COMM_RING_H
#define COMM_RING_H

#include "comm/comm.h"
#include "comm/transport.h"

typedef enum ring_kind { RING_REDUCE, RING_GATHER } ring_kind;

typedef struct ring_item {
  ring_kind kind;
  float *x;
  size_t count;
  uint64_t number; /* in the order of the queue, from 1 */
} ring_item;

/* A block on its way.  In step s of 0 .. ranks-2 a chunk goes to the next rank and another comes from the one
 * before. */
typedef struct ring_slot {
  ring_item item;
  bool active;
  int step;
  transport_request send, receive;
  float *received; /* of a reduction: room for the largest chunk so far */
  size_t received_capacity;
} ring_slot;

/* Blocks on their way at once: with many ranks a block needs many steps, and a call of progress takes each slot
 * one step further; the memory of all slots together stays that of one block. */
enum { RING_FEWEST_SLOTS = 4, RING_MOST_SLOTS = 64 };

typedef struct ring {
  const transport_calls *calls;
  int place, rank, ranks;
  ring_slot *slots;
  int slot_count;
  ring_item *queue; /* a circle of `capacity`: `count` waiting from `first` */
  size_t first, count, capacity;
  uint64_t begun; /* number of the last item */
  comm_cost cost;
} ring;

status ring_new(const transport_calls *calls, const transport_world *world, ring *r, alibi_error *error);
status ring_begin(ring *r, ring_kind kind, float *x, size_t count, uint64_t *ticket, alibi_error *error);
/* moved: something was done. */
status ring_progress(ring *r, bool *moved, alibi_error *error);
/* Are all items up to that number done? */
bool ring_is_done(const ring *r, uint64_t ticket);
void ring_free(ring *r);

#endif
