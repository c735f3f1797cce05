/* Objects of a tokenizer.json, read with suspicion. */
#include "text/json_part.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/text_buffer.h"

bool json_part_is_null(const json_node *node)
{
  return !node || node_kind_of(node) == NODE_NULL;
}

status json_part_wrong(const json_part *part, alibi_error *error, const char *format, ...)
{
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return fail(error, ALIBI_BAD_INPUT, "%s: %s: %s", part->path, part->where, sentence);
}

status json_part_keys(const json_part *part, const char *const *known, alibi_error *error)
{
  for (size_t i = 0; i < node_count(part->node); i++) {
    const char *key;
    size_t k = 0;
    node_member(part->node, i, &key);
    if (strcmp(key, "type") == 0) continue;
    while (known[k] && strcmp(known[k], key) != 0) k++;
    if (!known[k]) return json_part_wrong(part, error, "has a part '%.60s' that is not supported", key);
  }
  return ALIBI_OK;
}

status json_part_boolean(const json_part *part, const char *key, const bool *otherwise, bool *value,
                         alibi_error *error)
{
  const json_node *node = node_get(part->node, key);
  if (json_part_is_null(node) && otherwise) return *value = *otherwise, ALIBI_OK;
  if (node_kind_of(node) != NODE_BOOLEAN)
    return json_part_wrong(part, error, "expected '%s' to be true or false", key);
  *value = node_boolean(node, false);
  return ALIBI_OK;
}

status json_part_integer(const json_part *part, const char *key, const int64_t *otherwise, int64_t least,
                         int64_t most, int64_t *value, alibi_error *error)
{
  const json_node *node = node_get(part->node, key);
  if (json_part_is_null(node) && otherwise) return *value = *otherwise, ALIBI_OK;
  *value = node_kind_of(node) == NODE_INTEGER ? node_integer(node, least) : least - 1;
  if (*value < least || *value > most)
    return json_part_wrong(part, error, "expected '%s' to be a whole number from %lld to %lld", key,
                           (long long)least, (long long)most);
  return ALIBI_OK;
}

status json_part_text(const json_part *part, const char *key, const char *const *otherwise, const char **value,
                      alibi_error *error)
{
  const json_node *node = node_get(part->node, key);
  if (json_part_is_null(node) && otherwise) return *value = *otherwise, ALIBI_OK;
  *value = node_text(node, NULL);
  return *value ? ALIBI_OK : json_part_wrong(part, error, "expected '%s' to be a text", key);
}

status json_part_character(const json_part *part, const char *key, const char *const *otherwise,
                           const char **value, alibi_error *error)
{
  status result = json_part_text(part, key, otherwise, value, error);
  if (result != ALIBI_OK) return result;
  size_t size = strlen(*value);
  if (size == 0 || utf8_size((const unsigned char *)*value, size) != size)
    return json_part_wrong(part, error, "expected '%s' to be one character, found '%.40s'", key, *value);
  return ALIBI_OK;
}

status json_part_word(const json_part *part, const char *key, const char *const *words, const int *otherwise,
                      int *value, alibi_error *error)
{
  const json_node *node = node_get(part->node, key);
  if (json_part_is_null(node) && otherwise) return *value = *otherwise, ALIBI_OK;
  const char *word = node_text(node, NULL);
  if (!word) return json_part_wrong(part, error, "expected '%s' to be a text", key);
  for (int i = 0; words[i]; i++)
    if (strcmp(words[i], word) == 0) return *value = i, ALIBI_OK;
  return json_part_wrong(part, error, "%s '%.40s' is not supported", key, word);
}

status json_part_pattern(const json_part *part, const char *key, bool *is_regex, const char **pattern,
                         alibi_error *error)
{
  const json_node *node = node_get(part->node, key);
  const char *kind = "";
  const json_node *value = node_count(node) == 1 ? node_member(node, 0, &kind) : NULL;
  *is_regex = value && strcmp(kind, "Regex") == 0;
  *pattern = node_text(value, NULL);
  if (!*pattern || (!*is_regex && strcmp(kind, "String") != 0))
    return json_part_wrong(part, error, "expected '%s' to be {\"String\": text} or {\"Regex\": text}", key);
  return ALIBI_OK;
}

enum { PARTS_MOST = 256 }; /* a text goes through them by recursion; files have under twenty */

typedef struct sequence {
  const char *path, *name, *list;
  json_part_reader read;
  void *user;
  size_t count; /* of parts so far; a part alone has no number */
} sequence;

static status each(sequence *s, const json_node *node, bool alone, alibi_error *error)
{
  status result = ALIBI_OK;
  json_part part = {.node = node, .path = s->path};
  if (alone) snprintf(part.where, sizeof part.where, "%s", s->name);
  else snprintf(part.where, sizeof part.where, "%s %zu", s->name, s->count + 1);
  if (node_kind_of(node) != NODE_OBJECT) return json_part_wrong(&part, error, "expected an object with a type");
  const char *type = node_text(node_get(node, "type"), NULL);
  if (!type) return json_part_wrong(&part, error, "expected an object with a type");
  if (strcmp(type, "Sequence") != 0) {
    if (s->count == PARTS_MOST) return json_part_wrong(&part, error, "expected at most %d steps", PARTS_MOST);
    s->count++;
    return s->read(&part, type, s->user, error);
  }
  const char *const known[] = {s->list, NULL};
  TRY(json_part_keys(&part, known, error));
  const json_node *list = node_get(node, s->list);
  if (node_kind_of(list) != NODE_ARRAY)
    return json_part_wrong(&part, error, "expected a Sequence to have an array '%s'", s->list);
  for (size_t i = 0; i < node_count(list); i++) TRY(each(s, node_at(list, i), false, error));
done:
  return result;
}

status json_part_each(const json_node *node, const char *path, const char *name, const char *list,
                      json_part_reader read, void *user, alibi_error *error)
{
  sequence s = {path, name, list, read, user, 0};
  return json_part_is_null(node) ? ALIBI_OK : each(&s, node, true, error);
}
