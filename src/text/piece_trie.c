/* Building a double array from sorted strings.  A node with one child, and most have one, takes the first free
 * unit; a node with many tries a few places and else goes to the end, so that building stays linear in the bytes
 * of the strings.  Free units are chained through their own fields. */
#include "text/piece_trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
  FIRST_UNIT = 257, /* a base is never negative, and that of a leaf, 0, leads to units that nobody has */
  TRIES = 48,
  BYTES = 256,
};
#define FREE UINT32_MAX

typedef struct trie_range { /* keys first .. last-1 share `depth` bytes, which lead to node */
  uint32_t node;
  size_t first, last, depth;
} trie_range;

typedef struct trie_builder {
  piece_trie *trie;
  trie_key *keys;
  trie_range *ranges; /* still to do */
  size_t range_count, range_capacity;
} trie_builder;

static int compare_keys(const void *a, const void *b)
{
  const trie_key *left = a, *right = b;
  size_t shared = left->size < right->size ? left->size : right->size;
  int order = shared > 0 ? memcmp(left->text, right->text, shared) : 0;
  if (order != 0) return order;
  if (left->size != right->size) return left->size < right->size ? -1 : 1;
  return left->value < right->value ? -1 : left->value > right->value;
}

/* A free unit's neighbours in the chain, whose head is the root: base is the next, value the one before. */
static void chain(piece_trie *trie, uint32_t before, uint32_t after)
{
  trie->units[before].base = after;
  trie->units[after].value = (int32_t)before;
}

/* While building, unit 1 is the head of the chain (nobody's place, see FIRST_UNIT). */
enum { HEAD = 1 };

static status grow(piece_trie *trie, size_t count, alibi_error *error)
{
  status result = ALIBI_OK;
  if (count > INT32_MAX)
    RAISE(error, ALIBI_BAD_INPUT, "the pieces of a vocabulary are too many or too long for a search tree");
  TRY(memory_grow(&trie->units, &trie->capacity, count, sizeof *trie->units, "a search tree", error));
  for (; trie->count < count; trie->count++) {
    uint32_t unit = (uint32_t)trie->count;
    trie->units[unit] = (trie_unit){0, FREE, TRIE_NONE};
    if (unit == HEAD) chain(trie, HEAD, HEAD);
    if (unit < FIRST_UNIT) continue;
    chain(trie, (uint32_t)trie->units[HEAD].value, unit);
    chain(trie, unit, HEAD);
  }
done:
  return result;
}

static void take(piece_trie *trie, uint32_t unit, uint32_t parent)
{
  chain(trie, (uint32_t)trie->units[unit].value, trie->units[unit].base);
  trie->units[unit] = (trie_unit){0, parent, TRIE_NONE};
}

static bool fits(const piece_trie *trie, size_t base, const unsigned char *labels, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (base + labels[i] < trie->count && trie->units[base + labels[i]].parent != FREE) return false;
  return true;
}

/* Gives `node` children by these bytes, which are in order. */
static status place(piece_trie *trie, uint32_t node, const unsigned char *labels, size_t count, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t base = trie->count - labels[0];
  uint32_t unit = trie->units[HEAD].base;
  for (int i = 0; i < TRIES && unit != HEAD; i++, unit = trie->units[unit].base)
    if (fits(trie, unit - labels[0], labels, count)) {
      base = unit - labels[0];
      break;
    }
  TRY(grow(trie, base + labels[count - 1] + 1 > trie->count ? base + labels[count - 1] + 1 : trie->count, error));
  for (size_t i = 0; i < count; i++) take(trie, (uint32_t)(base + labels[i]), node);
  trie->units[node].base = (uint32_t)base;
done:
  return result;
}

static status expand(trie_builder *b, trie_range range, alibi_error *error)
{
  status result = ALIBI_OK;
  unsigned char labels[BYTES];
  size_t starts[BYTES + 1], count = 0, i = range.first;
  for (; i < range.last && b->keys[i].size == range.depth; i++)
    if (range.node != TRIE_ROOT) b->trie->units[range.node].value = (int32_t)b->keys[i].value;
  for (; i < range.last; i++) {
    unsigned char label = b->keys[i].text[range.depth];
    if (count > 0 && labels[count - 1] == label) continue;
    labels[count] = label;
    starts[count++] = i;
  }
  if (count == 0) return ALIBI_OK;
  starts[count] = range.last;
  TRY(place(b->trie, range.node, labels, count, error));
  TRY(memory_grow(&b->ranges, &b->range_capacity, b->range_count + count, sizeof *b->ranges, "a search tree",
                  error));
  uint32_t base = b->trie->units[range.node].base;
  for (size_t k = count; k-- > 0;)
    b->ranges[b->range_count++] = (trie_range){base + labels[k], starts[k], starts[k + 1], range.depth + 1};
done:
  return result;
}

status piece_trie_build(piece_trie *trie, trie_key *keys, size_t count, alibi_error *error)
{
  status result = ALIBI_OK;
  trie_builder b = {.trie = trie, .keys = keys};
  *trie = (piece_trie){0};
  TRY(grow(trie, FIRST_UNIT, error));
  if (count > 0) qsort(keys, count, sizeof *keys, compare_keys);
  for (size_t i = 0; i < count; i++)
    if (keys[i].size > trie->longest) trie->longest = keys[i].size;
  TRY(memory_grow(&b.ranges, &b.range_capacity, 1, sizeof *b.ranges, "a search tree", error));
  b.ranges[b.range_count++] = (trie_range){TRIE_ROOT, 0, count, 0};
  while (b.range_count > 0) TRY(expand(&b, b.ranges[--b.range_count], error));
  TRY(grow(trie, trie->count + BYTES, error)); /* a step from any node stays inside */
done:
  free(b.ranges);
  if (result != ALIBI_OK) piece_trie_free(trie);
  return result;
}

void piece_trie_free(piece_trie *trie)
{
  free(trie->units);
  *trie = (piece_trie){0};
}
