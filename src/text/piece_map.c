/* A hash map from byte strings to numbers: open addressing over indices into an array of entries, so that growing
 * moves four bytes a slot and walking the entries is in order of arrival. */
#include "text/piece_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_SLOTS = 64 };

static uint64_t hash_bytes(const unsigned char *text, size_t size)
{
  const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t hash = size * odd;
  for (;;) {
    uint64_t word = 0;
    memcpy(&word, text, size < 8 ? size : 8);
    hash = (hash ^ word) * odd;
    hash ^= hash >> 32;
    if (size <= 8) return hash * odd ^ hash >> 29;
    text += 8;
    size -= 8;
  }
}

void piece_map_free(piece_map *map)
{
  free(map->pieces);
  free(map->slots);
  *map = (piece_map){0};
}

/* The slot that holds the string, or the empty one where it would go. */
static size_t find_slot(const piece_map *map, const unsigned char *text, size_t size, uint64_t hash)
{
  size_t mask = map->slot_count - 1, slot = hash & mask;
  for (; map->slots[slot] != 0; slot = (slot + 1) & mask) {
    const piece *p = &map->pieces[map->slots[slot] - 1];
    if (p->hash == hash && p->size == size && memcmp(p->text, text, size) == 0) break;
  }
  return slot;
}

static status grow_slots(piece_map *map, alibi_error *error)
{
  size_t wanted = map->slot_count ? size_mul(map->slot_count, 2) : FIRST_SLOTS;
  uint32_t *slots = map->count < UINT32_MAX / 2 ? calloc(wanted, sizeof *slots) : NULL;
  if (!slots) return fail(error, ALIBI_FAILED, "not enough memory for %zu different pieces of text", map->count);
  for (size_t i = 0; i < map->count; i++) {
    size_t slot = map->pieces[i].hash & (wanted - 1);
    while (slots[slot] != 0) slot = (slot + 1) & (wanted - 1);
    slots[slot] = (uint32_t)i + 1;
  }
  free(map->slots);
  map->slots = slots;
  map->slot_count = wanted;
  return ALIBI_OK;
}

piece *piece_map_find(const piece_map *map, const unsigned char *text, size_t size)
{
  if (map->slot_count == 0) return NULL;
  size_t slot = find_slot(map, text, size, hash_bytes(text, size));
  return map->slots[slot] ? &map->pieces[map->slots[slot] - 1] : NULL;
}

status piece_map_add(piece_map *map, const unsigned char *text, size_t size, piece **found, alibi_error *error)
{
  status result = ALIBI_OK;
  if (map->count >= map->slot_count / 2) TRY(grow_slots(map, error));
  uint64_t hash = hash_bytes(text, size);
  size_t slot = find_slot(map, text, size, hash);
  if (map->slots[slot] == 0) {
    TRY(memory_grow(&map->pieces, &map->capacity, map->count + 1, sizeof *map->pieces, "pieces of text", error));
    map->pieces[map->count++] = (piece){text, size, hash, 0, 0};
    map->slots[slot] = (uint32_t)map->count;
  }
  *found = &map->pieces[map->slots[slot] - 1];
done:
  return result;
}
