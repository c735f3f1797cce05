/* kernel/attention_sight.h - which keys a row of attention sees: one run of them, since positions increase. */
#ifndef KERNEL_ATTENTION_SIGHT_H
#define KERNEL_ATTENTION_SIGHT_H

#include "kernel/kernel.h"

typedef struct attention_range {
  size_t from, to; /* to is not in it */
} attention_range;

static inline int64_t query_position(const attention_head *h, size_t r)
{
  return h->query_positions ? h->query_positions[r] : (int64_t)h->first + (int64_t)r;
}

static inline int64_t key_position(const attention_head *h, size_t j)
{
  return h->key_positions ? h->key_positions[j] : (int64_t)j;
}

/* The first of n rows whose position is at least `position`; rows stand at first + r, or where the array says. */
static inline size_t first_at_least(const int64_t *positions, int64_t first, size_t n, int64_t position)
{
  if (!positions) return position <= first ? 0 : (uint64_t)(position - first) < n ? (size_t)(position - first) : n;
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (positions[middle] < position)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Row r sees all keys up to its own position: the case that is not worth a search. */
static inline bool sees_all_before(const attention_head *h)
{
  return !h->query_positions && !h->both_sides && h->window == 0;
}

/* The keys that row r sees. */
static inline attention_range keys_seen(const attention_head *h, size_t r)
{
  int64_t p = query_position(h, r), width = (int64_t)h->window;
  attention_range range = {0, h->keys};
  if (!h->both_sides) range.to = first_at_least(h->key_positions, 0, h->keys, p + 1);
  if (width == 0) return range;
  range.from = first_at_least(h->key_positions, 0, h->keys, p - width + 1);
  if (h->both_sides) range.to = first_at_least(h->key_positions, 0, h->keys, p + width);
  return range;
}

/* The rows that see any key of a block, and some between them that may not. */
static inline attention_range rows_seeing(const attention_head *h, size_t block)
{
  size_t start = block * ATTENTION_BLOCK;
  size_t end = start + ATTENTION_BLOCK < h->keys ? start + ATTENTION_BLOCK : h->keys;
  int64_t nearest = key_position(h, start), last = key_position(h, end - 1), width = (int64_t)h->window;
  attention_range range = {0, h->queries};
  if (!h->both_sides) range.from = first_at_least(h->query_positions, h->first, h->queries, nearest);
  if (width == 0) return range;
  range.to = first_at_least(h->query_positions, h->first, h->queries, last + width);
  if (h->both_sides) range.from = first_at_least(h->query_positions, h->first, h->queries, nearest - width + 1);
  return range;
}

#endif
