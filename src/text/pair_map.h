/* text/pair_map.h - a hash map from a pair of token ids to a number, small enough to be inlined in the loops that
 * live on it. */
#ifndef TEXT_PAIR_MAP_H
#define TEXT_PAIR_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

enum { PAIR_ABSENT = UINT32_MAX };

typedef struct pair_slot {
  uint64_t key;
  uint32_t value; /* PAIR_ABSENT: empty */
} pair_slot;

typedef struct pair_map { /* start from {0} */
  pair_slot *slots;
  size_t count, mask;
} pair_map;

static inline uint64_t pair_key(uint32_t left, uint32_t right)
{
  return (uint64_t)left << 32 | right;
}

static inline size_t pair_hash(uint64_t key)
{
  key *= UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(key ^ key >> 32);
}

static inline uint32_t pair_map_find(const pair_map *map, uint64_t key)
{
  if (!map->slots) return PAIR_ABSENT;
  size_t slot = pair_hash(key) & map->mask;
  while (map->slots[slot].value != PAIR_ABSENT && map->slots[slot].key != key) slot = (slot + 1) & map->mask;
  return map->slots[slot].value;
}

/* Gives another value to a key that is there. */
static inline void pair_map_change(pair_map *map, uint64_t key, uint32_t value)
{
  size_t slot = pair_hash(key) & map->mask;
  while (map->slots[slot].key != key || map->slots[slot].value == PAIR_ABSENT) slot = (slot + 1) & map->mask;
  map->slots[slot].value = value;
}

static inline void pair_map_place(pair_map *map, uint64_t key, uint32_t value)
{
  size_t slot = pair_hash(key) & map->mask;
  while (map->slots[slot].value != PAIR_ABSENT) slot = (slot + 1) & map->mask;
  map->slots[slot] = (pair_slot){key, value};
}

static inline void pair_map_free(pair_map *map)
{
  free(map->slots);
  *map = (pair_map){0};
}

/* Adds a key that is not there yet. */
static inline status pair_map_add(pair_map *map, uint64_t key, uint32_t value, alibi_error *error)
{
  if (!map->slots || map->count >= (map->mask + 1) / 2) {
    pair_map grown = {.count = map->count, .mask = map->slots ? map->mask * 2 + 1 : 255};
    size_t bytes = size_mul(grown.mask + 1, sizeof *grown.slots);
    grown.slots = bytes > PTRDIFF_MAX ? NULL : malloc(bytes);
    if (!grown.slots) return fail(error, ALIBI_FAILED, "not enough memory for %zu pairs of tokens", map->count);
    for (size_t i = 0; i <= grown.mask; i++) grown.slots[i] = (pair_slot){0, PAIR_ABSENT};
    for (size_t i = 0; map->slots && i <= map->mask; i++)
      if (map->slots[i].value != PAIR_ABSENT) pair_map_place(&grown, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = grown;
  }
  pair_map_place(map, key, value);
  map->count++;
  return ALIBI_OK;
}

#endif
