/* text/merge_heap.h - the next merge of a long word: a heap of rank << 32 | position, the smallest on top, so that of equal
 * ranks the leftmost comes first.  In a header, for it is pushed and popped once a symbol. */
#ifndef TEXT_MERGE_HEAP_H
#define TEXT_MERGE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

typedef struct merge_heap { /* start from {0}; free(entries) */
  uint64_t *entries;
  size_t count, capacity;
} merge_heap;

static inline status merge_heap_push(merge_heap *h, uint64_t entry, alibi_error *error)
{
  status result = memory_grow(&h->entries, &h->capacity, h->count + 1, sizeof *h->entries, "merges", error);
  if (result != ALIBI_OK) return result;
  size_t i = h->count++;
  for (; i > 0 && h->entries[(i - 1) / 2] > entry; i = (i - 1) / 2) h->entries[i] = h->entries[(i - 1) / 2];
  h->entries[i] = entry;
  return ALIBI_OK;
}

/* Of a heap that is not empty. */
static inline uint64_t merge_heap_pop(merge_heap *h)
{
  uint64_t top = h->entries[0], last = h->entries[--h->count];
  size_t i = 0;
  for (size_t child = 1; child < h->count; child = 2 * i + 1) {
    if (child + 1 < h->count && h->entries[child + 1] < h->entries[child]) child++;
    if (h->entries[child] >= last) break;
    h->entries[i] = h->entries[child];
    i = child;
  }
  h->entries[i] = last;
  return top;
}

#endif
