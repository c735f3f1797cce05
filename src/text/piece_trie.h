/* text/piece_trie.h - a tree over byte strings, walked byte by byte: which pieces begin here?  A double array: the
 * child of `node` by byte c is units[base of node + c], if that unit's parent is node.
 * Source: Aoe 1989, "An efficient digital search algorithm by using a double-array structure". */
#ifndef TEXT_PIECE_TRIE_H
#define TEXT_PIECE_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { TRIE_ROOT = 0, TRIE_NONE = -1 };

typedef struct trie_unit {
  uint32_t base, parent;
  int32_t value; /* of the string that ends here; TRIE_NONE: none does */
} trie_unit;

typedef struct trie_key {
  const unsigned char *text;
  size_t size;
  uint32_t value; /* < 2^31 */
} trie_key;

typedef struct piece_trie { /* start from {0} */
  trie_unit *units;
  size_t count, capacity;
  size_t longest; /* bytes of the longest string */
} piece_trie;

/* Sorts the keys.  Of equal strings the one of the largest value stays; the empty string is never found. */
status piece_trie_build(piece_trie *trie, trie_key *keys, size_t count, alibi_error *error);
void piece_trie_free(piece_trie *trie);

/* The child by one byte; TRIE_ROOT where there is none. */
static inline uint32_t piece_trie_step(const piece_trie *trie, uint32_t node, unsigned char byte)
{
  uint32_t child = trie->units[node].base + byte;
  return trie->units[child].parent == node ? child : TRIE_ROOT;
}

/* The value of the longest string that begins the text, and its size; TRIE_NONE and 0 where none does. */
static inline int32_t piece_trie_longest(const piece_trie *trie, const unsigned char *text, size_t size,
                                         size_t *length)
{
  int32_t found = TRIE_NONE;
  uint32_t node = TRIE_ROOT;
  *length = 0;
  for (size_t i = 0; i < size && (node = piece_trie_step(trie, node, text[i])) != TRIE_ROOT; i++)
    if (trie->units[node].value != TRIE_NONE) {
      found = trie->units[node].value;
      *length = i + 1;
    }
  return found;
}

/* The node at the end of the text; TRIE_ROOT where it begins no string. */
static inline uint32_t piece_trie_descend(const piece_trie *trie, const unsigned char *text, size_t size)
{
  uint32_t node = TRIE_ROOT;
  for (size_t i = 0; i < size; i++)
    if ((node = piece_trie_step(trie, node, text[i])) == TRIE_ROOT) break;
  return node;
}

/* The value of exactly this string, TRIE_NONE where it is not there. */
static inline int32_t piece_trie_find(const piece_trie *trie, const unsigned char *text, size_t size)
{
  uint32_t node = piece_trie_descend(trie, text, size);
  return node == TRIE_ROOT ? TRIE_NONE : trie->units[node].value;
}

#endif
