/* Merging many symbols: a list of those that are left, and a heap of the pairs that have a rank.  An entry of the
 * heap is looked at again when it comes up, for its symbols may have been merged with others since. */
#include "text/merge.h"

#include <stdlib.h>

#include "base/memory.h"

#define GONE UINT32_MAX

void merge_memory_free(merge_memory *memory)
{
  free(memory->previous);
  free(memory->next);
  free(memory->heap);
  *memory = (merge_memory){0};
}

static status push(merge_memory *m, uint64_t entry, alibi_error *error)
{
  status result = memory_grow(&m->heap, &m->heap_capacity, m->heap_count + 1, sizeof *m->heap, "merges", error);
  if (result != ALIBI_OK) return result;
  size_t i = m->heap_count++;
  for (; i > 0 && m->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
  m->heap[i] = entry;
  return ALIBI_OK;
}

/* Of a heap that is not empty. */
static uint64_t pop(merge_memory *m)
{
  uint64_t top = m->heap[0], last = m->heap[--m->heap_count];
  size_t i = 0;
  for (size_t child = 1; child < m->heap_count; child = 2 * i + 1) {
    if (child + 1 < m->heap_count && m->heap[child + 1] < m->heap[child]) child++;
    if (m->heap[child] >= last) break;
    m->heap[i] = m->heap[child];
    i = child;
  }
  m->heap[i] = last;
  return top;
}

/* Pushes the pair that begins at `left`, if it has a rank. */
static status offer(const pair_map *ranks, merge_memory *m, const uint32_t *symbols, uint32_t left,
                    alibi_error *error)
{
  if (left == GONE || m->next[left] == GONE) return ALIBI_OK;
  uint32_t rank = merge_rank(ranks, symbols[left], symbols[m->next[left]]);
  return rank == PAIR_ABSENT ? ALIBI_OK : push(m, (uint64_t)rank << 32 | left, error);
}

status merge_many(const pair_map *ranks, const token_merge *merges, merge_memory *m, uint32_t *symbols,
                  size_t *count, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t size = *count, left_over = 0;
  if (size >= GONE)
    RAISE(error, ALIBI_FAILED, "a word of %zu symbols without a place to cut is too long to encode", size);
  TRY(memory_grow(&m->previous, &m->previous_capacity, size, sizeof *m->previous, "a long word", error));
  TRY(memory_grow(&m->next, &m->next_capacity, size, sizeof *m->next, "a long word", error));
  for (uint32_t i = 0; i < size; i++) {
    m->previous[i] = i == 0 ? GONE : i - 1;
    m->next[i] = i + 1 == size ? GONE : i + 1;
  }
  m->heap_count = 0;
  for (uint32_t i = 0; i < size; i++) TRY(offer(ranks, m, symbols, i, error));
  while (m->heap_count > 0) {
    uint64_t entry = pop(m);
    uint32_t left = (uint32_t)entry, right = m->next[left];
    const token_merge *merge = &merges[entry >> 32];
    /* An entry whose symbols have been merged since is stale. */
    if (right == GONE || symbols[left] != merge->left || symbols[right] != merge->right) continue;
    symbols[left] = merge->result;
    symbols[right] = GONE;
    m->next[left] = m->next[right];
    m->next[right] = GONE;
    if (m->next[left] != GONE) m->previous[m->next[left]] = left;
    TRY(offer(ranks, m, symbols, m->previous[left], error));
    TRY(offer(ranks, m, symbols, left, error));
  }
  for (uint32_t i = size > 0 ? 0 : GONE; i != GONE; i = m->next[i]) symbols[left_over++] = symbols[i];
  *count = left_over;
done:
  return result;
}
