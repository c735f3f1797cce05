/* text/merge.h - the merges of a BPE applied to the symbols of one word: the adjacent pair of lowest rank is
 * merged, the leftmost of equals first, until no pair has a rank.  A few symbols are scanned; many (a run of one
 * letter may be the whole file) go through a heap, so that the work stays n log n.  The scan is in the header, for
 * words are short and it is what encoding does. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "text/pair_map.h"

enum { MERGE_FEW = 64 }; /* symbols; n^2 comparisons of one array beat a heap up to here */

typedef struct token_merge {
  uint32_t left, right, result; /* result spells left followed by right */
} token_merge;

typedef struct merge_memory { /* start from {0} */
  uint32_t *previous, *next;
  size_t previous_capacity, next_capacity;
  uint64_t *heap; /* rank << 32 | position, the smallest on top */
  size_t heap_count, heap_capacity;
} merge_memory;

void merge_memory_free(merge_memory *memory);

/* In place; *count symbols, and then how many are left.  merges: by rank. */
status merge_many(const pair_map *ranks, const token_merge *merges, merge_memory *memory, uint32_t *symbols,
                  size_t *count, alibi_error *error);

static inline uint32_t merge_rank(const pair_map *ranks, uint32_t left, uint32_t right)
{
  return pair_map_find(ranks, pair_key(left, right));
}

/* The same of at most MERGE_FEW symbols; how many are left. */
static inline size_t merge_few(const pair_map *pairs, const token_merge *merges, uint32_t *ids, size_t size)
{
  uint32_t ranks[MERGE_FEW];
  for (size_t i = 0; i + 1 < size; i++) ranks[i] = merge_rank(pairs, ids[i], ids[i + 1]);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; i++)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == PAIR_ABSENT) break;
    ids[best] = merges[ranks[best]].result;
    size--;
    memmove(ids + best + 1, ids + best + 2, (size - best - 1) * sizeof *ids);
    memmove(ranks + best, ranks + best + 1, (size - best - 1) * sizeof *ranks);
    if (best > 0) ranks[best - 1] = merge_rank(pairs, ids[best - 1], ids[best]);
    if (best + 1 < size) ranks[best] = merge_rank(pairs, ids[best], ids[best + 1]);
  }
  return size;
}

#endif
