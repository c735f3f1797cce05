/* Spellings in one block of bytes, found by their ids and, through a hash map, by their bytes. */
#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { IDS_AN_ENTRY = 4, IDS_MORE = 1 << 16 }; /* ids < entries * 4 + 65536: holes cost little */
#define HOLE SIZE_MAX

void vocabulary_free(vocabulary *v)
{
  free(v->words);
  free(v->bytes);
  piece_map_free(&v->index);
  *v = (vocabulary){0};
}

status vocabulary_new(vocabulary *v, size_t count, alibi_error *error)
{
  size_t capacity = 0;
  *v = (vocabulary){0};
  if (count >= INT32_MAX) return fail(error, ALIBI_BAD_INPUT, "a vocabulary of %zu tokens is too large", count);
  status result = memory_grow(&v->words, &capacity, count + 1, sizeof *v->words, "a vocabulary", error);
  if (result != ALIBI_OK) return result;
  for (size_t id = 0; id < count; id++) v->words[id] = (vocabulary_word){HOLE, 0};
  v->count = (uint32_t)count;
  return ALIBI_OK;
}

status vocabulary_set(vocabulary *v, uint32_t id, const void *text, size_t size, alibi_error *error)
{
  size_t needed = size_add(v->used, size_add(size, 1));
  status result = memory_grow(&v->bytes, &v->capacity, needed, 1, "a vocabulary", error);
  if (result != ALIBI_OK) return result;
  if (size > 0) memcpy(v->bytes + v->used, text, size);
  v->bytes[v->used + size] = '\0';
  v->words[id] = (vocabulary_word){v->used, size};
  v->used = needed;
  return ALIBI_OK;
}

static const unsigned char *word_text(const vocabulary *v, uint32_t id)
{
  return (const unsigned char *)v->bytes + v->words[id].at;
}

status vocabulary_index(vocabulary *v, alibi_error *error)
{
  status result = ALIBI_OK;
  for (uint32_t id = 0; id < v->count; id++) {
    piece *entry = NULL;
    if (v->words[id].at == HOLE) continue;
    TRY(piece_map_add(&v->index, word_text(v, id), v->words[id].size, &entry, error));
    entry->value = id;
  }
done:
  return result;
}

int64_t vocabulary_find(const vocabulary *v, const void *text, size_t size)
{
  const piece *entry = piece_map_find(&v->index, text, size);
  return entry ? (int64_t)entry->value : -1;
}

const unsigned char *vocabulary_spelling(const vocabulary *v, uint32_t id, size_t *size)
{
  if (id >= v->count || v->words[id].at == HOLE) return NULL;
  *size = v->words[id].size;
  return word_text(v, id);
}

status vocabulary_trie(const vocabulary *v, piece_trie *trie, alibi_error *error)
{
  trie_key *keys = NULL;
  size_t count = 0, capacity = 0;
  status result = memory_grow(&keys, &capacity, (size_t)v->count + 1, sizeof *keys, "a search tree", error);
  for (uint32_t id = 0; result == ALIBI_OK && id < v->count; id++)
    if (v->words[id].at != HOLE) keys[count++] = (trie_key){word_text(v, id), v->words[id].size, id};
  if (result == ALIBI_OK) result = piece_trie_build(trie, keys, count, error);
  free(keys);
  return result;
}

static int hexadecimal(unsigned char digit)
{
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

int vocabulary_byte(const void *text, size_t size)
{
  const unsigned char *s = text;
  if (size != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
  int high = hexadecimal(s[3]), low = hexadecimal(s[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

size_t vocabulary_bytes(const vocabulary *v, uint32_t ids[256])
{
  static const char digits[] = "0123456789ABCDEF";
  size_t found = 0;
  for (int byte = 0; byte < 256; byte++) {
    const char text[6] = {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
    int64_t id = vocabulary_find(v, text, sizeof text);
    ids[byte] = id < 0 ? VOCABULARY_NONE : (uint32_t)id;
    found += id >= 0;
  }
  return found;
}

const char *vocabulary_shown(const void *text, size_t size, char shown[VOCABULARY_SHOWN])
{
  const unsigned char *from = text;
  size_t used = size < VOCABULARY_SHOWN ? size : VOCABULARY_SHOWN - 1;
  while (used > 0 && used < size && (from[used] & 0xc0) == 0x80) used--; /* whole characters */
  for (size_t i = 0; i < used; i++) shown[i] = from[i] < 0x20 || from[i] == 0x7f ? '?' : (char)from[i];
  shown[used] = '\0';
  return shown;
}

/* ---- the "model" object of a tokenizer.json ---- */

status model_check_keys(const json_node *model, const char *const *known, const char *path, alibi_error *error)
{
  for (size_t i = 0; i < node_count(model); i++) {
    const char *key;
    size_t k = 0;
    node_member(model, i, &key);
    while (known[k] && strcmp(known[k], key) != 0) k++;
    if (!known[k])
      return fail(error, ALIBI_BAD_INPUT, "%s: model: '%s' is not understood, and it may change the ids", path,
                  key);
  }
  return ALIBI_OK;
}

status model_boolean(const json_node *model, const char *key, bool otherwise, const char *path, bool *value,
                     alibi_error *error)
{
  const json_node *node = node_get(model, key);
  *value = node_boolean(node, otherwise);
  if (!node || node_kind_of(node) == NODE_NULL || node_kind_of(node) == NODE_BOOLEAN) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: model: %s: expected true or false", path, key);
}

status model_text(const json_node *model, const char *key, const char *otherwise, const char *path,
                  const char **value, alibi_error *error)
{
  const json_node *node = node_get(model, key);
  *value = node_text(node, otherwise);
  if (!node || node_kind_of(node) == NODE_NULL || node_kind_of(node) == NODE_TEXT) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: model: %s: expected a text", path, key);
}

static status word_id(const json_node *node, const char *word, size_t most, const char *path, uint32_t *id,
                      alibi_error *error)
{
  int64_t value = node_kind_of(node) == NODE_INTEGER ? node_integer(node, -1) : -1;
  if (value < 0 || (uint64_t)value >= most)
    return fail(error, ALIBI_BAD_INPUT, "%s: model: vocab '%.40s': expected an id from 0 to %zu", path, word,
                most - 1);
  *id = (uint32_t)value;
  return ALIBI_OK;
}

status model_vocabulary(const json_node *model, const char *path, vocabulary *v, alibi_error *error)
{
  status result = ALIBI_OK;
  const json_node *words = node_get(model, "vocab");
  size_t entries = node_count(words), most = size_add(size_mul(entries, IDS_AN_ENTRY), IDS_MORE);
  uint32_t largest = 0, id = 0;
  const char *word;
  if (!words || node_kind_of(words) != NODE_OBJECT)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: expected an object 'vocab'", path);
  if (most > INT32_MAX) most = INT32_MAX;
  for (size_t i = 0; i < entries; i++) {
    const json_node *node = node_member(words, i, &word);
    TRY(word_id(node, word, most, path, &id, error));
    if (id > largest) largest = id;
  }
  TRY(vocabulary_new(v, entries > 0 ? (size_t)largest + 1 : 0, error));
  for (size_t i = 0; i < entries; i++) {
    const json_node *node = node_member(words, i, &word);
    TRY(word_id(node, word, most, path, &id, error));
    if (v->words[id].at != HOLE)
      RAISE(error, ALIBI_BAD_INPUT, "%s: model: vocab '%.40s': id %u is taken by '%.40s'", path, word,
            (unsigned)id, (const char *)word_text(v, id));
    TRY(vocabulary_set(v, id, word, strlen(word), error));
  }
  TRY(vocabulary_index(v, error));
done:
  return result;
}

json_node *model_vocabulary_node(const vocabulary *v)
{
  json_node *object = node_new_object();
  for (uint32_t id = 0; id < v->count; id++)
    if (v->words[id].at != HOLE) node_set_integer(object, (const char *)word_text(v, id), id);
  return object;
}
