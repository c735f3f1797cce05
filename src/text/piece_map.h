/* text/piece_map.h - a hash map from byte strings to a number or two.  The strings are borrowed: they stay where
 * they are for as long as the map is used.  Entries keep the order in which they came. */
#ifndef TEXT_PIECE_MAP_H
#define TEXT_PIECE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct piece {
  const unsigned char *text;
  size_t size;
  uint64_t hash;
  size_t value, length; /* the user's; 0 in a new entry */
} piece;

typedef struct piece_map { /* start from {0} */
  piece *pieces;
  size_t count, capacity;
  uint32_t *slots; /* index + 1 of an entry; 0: empty */
  size_t slot_count;
} piece_map;

void piece_map_free(piece_map *map);

/* NULL when absent.  An entry's pointer is good until the next piece_map_add. */
piece *piece_map_find(const piece_map *map, const unsigned char *text, size_t size);

/* Finds the entry, or makes it. */
status piece_map_add(piece_map *map, const unsigned char *text, size_t size, piece **found, alibi_error *error);

#endif
