/* SentencePiece's map of characters.  Layout: the size of the trie in bytes (32 bits, little-endian), its units
 * (32 bits each), then the replacements.  A unit holds a label, the way to its children and whether a value
 * follows. Source: the double array of Darts-clone, as SentencePiece stores it. */
#include "text/charsmap.h"

#include "base/bytes_at.h"
#include "text/base64.h"

struct charsmap {
  uint32_t *units;
  size_t unit_count;
  unsigned char *texts; /* ends with a NUL of our own */
  size_t text_size;
};

status charsmap_new(const unsigned char *bytes, size_t size, const char *what, charsmap **made, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t unit_capacity = 0, text_capacity = 0;
  *made = NULL;
  charsmap *map = calloc(1, sizeof *map);
  if (!map) return fail(error, ALIBI_FAILED, "%s: not enough memory for a map of characters", what);
  if (size > 0) {
    size_t trie = size >= 4 ? u32_at(bytes, 0) : 0;
    if (size < 4 || trie % 4 != 0 || trie == 0 || trie > size - 4)
      RAISE(error, ALIBI_BAD_INPUT,
            "%s: the precompiled map of characters: expected a trie in %zu bytes, found %zu", what, size, trie);
    map->unit_count = trie / 4;
    map->text_size = size - 4 - trie;
    TRY(memory_grow(&map->units, &unit_capacity, map->unit_count, sizeof *map->units, "a map of characters",
                    error));
    for (size_t i = 0; i < map->unit_count; i++) map->units[i] = u32_at(bytes, 4 + 4 * i);
    TRY(memory_grow(&map->texts, &text_capacity, map->text_size + 1, 1, "a map of characters", error));
    memcpy(map->texts, bytes + 4 + trie, map->text_size);
    map->texts[map->text_size] = '\0';
    if (utf8_end(map->texts, 0, map->text_size) != map->text_size)
      RAISE(error, ALIBI_BAD_INPUT, "%s: the precompiled map of characters: expected replacements in UTF-8", what);
  }
  *made = map;
  map = NULL;
done:
  charsmap_free(map);
  return result;
}

status charsmap_new_base64(const char *text, const char *what, charsmap **made, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer bytes = {0};
  bool valid;
  *made = NULL;
  TRY(base64_decode(text, &bytes, &valid, error));
  if (!valid) RAISE(error, ALIBI_BAD_INPUT, "%s: the precompiled map of characters is no base64", what);
  TRY(charsmap_new(bytes.data, bytes.size, what, made, error));
done:
  buffer_free(&bytes);
  return result;
}

void charsmap_free(charsmap *map)
{
  if (!map) return;
  free(map->units);
  free(map->texts);
  free(map);
}

static size_t offset_of(uint32_t unit)
{
  return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

const unsigned char *charsmap_find(const charsmap *map, const unsigned char *text, size_t size, bool longest,
                                   size_t *matched, size_t *length)
{
  const unsigned char *found = NULL;
  if (map->unit_count == 0) return NULL;
  size_t node = offset_of(map->units[0]);
  for (size_t i = 0; i < size && text[i] != 0; i++) {
    node ^= text[i];
    if (node >= map->unit_count) break;
    uint32_t unit = map->units[node];
    if ((unit & ((1u << 31) | 0xff)) != text[i]) break;
    node ^= offset_of(unit);
    if (node >= map->unit_count) break;
    if ((unit >> 8 & 1) == 0) continue;
    size_t place = map->units[node] & 0x7fffffffu;
    if (place > map->text_size) break;
    found = map->texts + place;
    *matched = i + 1;
    if (!longest) break;
  }
  if (found && (*found & 0xc0) == 0x80) found = NULL; /* inside a character: no text */
  if (found) *length = strlen((const char *)found);
  return found;
}
