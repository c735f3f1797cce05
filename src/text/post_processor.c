/* Post-processors.  All of them come down to a list: the text, and single ids. */
#include "text/post_processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/json_part.h"

typedef struct reader {
  post_processor *p;
  uint32_t vocabulary;
  bool has_template;
} reader;

static status add_item(const reader *r, const json_part *part, bool text, int64_t id, alibi_error *error)
{
  status result = ALIBI_OK;
  post_processor *p = r->p;
  if (!text && (id < 0 || id >= r->vocabulary))
    return json_part_wrong(part, error, "expected ids from 0 to %u, found %lld", (unsigned)r->vocabulary - 1,
                           (long long)id);
  TRY(memory_grow(&p->items, &p->capacity, p->count + 1, sizeof *p->items, "a post-processor", error));
  p->items[p->count++] = (post_item){text, text ? 0 : (uint32_t)id};
done:
  return result;
}

/* ["[CLS]", 101] */
static status add_pair(const reader *r, const json_part *part, const char *key, alibi_error *error)
{
  const json_node *pair = node_get(part->node, key), *id = node_at(pair, 1);
  if (node_kind_of(pair) != NODE_ARRAY || node_count(pair) != 2 || !node_text(node_at(pair, 0), NULL) ||
      node_kind_of(id) != NODE_INTEGER)
    return json_part_wrong(part, error, "expected '%s' to be a token and its id", key);
  return add_item(r, part, false, node_integer(id, -1), error);
}

static status read_bert(reader *r, const json_part *part, alibi_error *error)
{
  static const char *const known[] = {"sep", "cls", "trim_offsets", "add_prefix_space", NULL};
  status result = ALIBI_OK;
  TRY(json_part_keys(part, known, error));
  TRY(add_pair(r, part, "cls", error));
  TRY(add_item(r, part, true, 0, error));
  TRY(add_pair(r, part, "sep", error));
done:
  return result;
}

/* {"SpecialToken": {"id": "<s>", ...}} or {"Sequence": {"id": "A", ...}} */
static status read_piece(const reader *r, const json_part *part, const json_node *piece, alibi_error *error)
{
  status result = ALIBI_OK;
  const char *kind = "";
  const json_node *value = node_count(piece) == 1 ? node_member(piece, 0, &kind) : NULL;
  const char *name = node_text(node_get(value, "id"), NULL);
  if (!name) return json_part_wrong(part, error, "expected a template of SpecialToken and Sequence");
  if (strcmp(kind, "Sequence") == 0) {
    if (strcmp(name, "A") != 0)
      return json_part_wrong(part, error, "expected the template of one text to have no sequence '%.20s'", name);
    return add_item(r, part, true, 0, error);
  }
  if (strcmp(kind, "SpecialToken") != 0)
    return json_part_wrong(part, error, "'%.40s' in a template is not supported", kind);
  const json_node *ids = node_get(node_get(node_get(part->node, "special_tokens"), name), "ids");
  if (node_kind_of(ids) != NODE_ARRAY)
    return json_part_wrong(part, error, "expected the template's '%.60s' among special_tokens, with its ids",
                           name);
  for (size_t i = 0; i < node_count(ids); i++)
    TRY(add_item(r, part, false,
                 node_kind_of(node_at(ids, i)) == NODE_INTEGER ? node_integer(node_at(ids, i), -1) : -1, error));
done:
  return result;
}

static status read_template(const reader *r, const json_part *part, alibi_error *error)
{
  static const char *const known[] = {"single", "pair", "special_tokens", NULL};
  status result = ALIBI_OK;
  const json_node *single = node_get(part->node, "single");
  TRY(json_part_keys(part, known, error));
  if (node_kind_of(single) != NODE_ARRAY) return json_part_wrong(part, error, "expected 'single' to be an array");
  for (size_t i = 0; i < node_count(single); i++) TRY(read_piece(r, part, node_at(single, i), error));
done:
  return result;
}

static status read_processor(const json_part *part, const char *type, void *user, alibi_error *error)
{
  static const char *const byte_level[] = {"add_prefix_space", "trim_offsets", "use_regex", NULL};
  reader *r = user;
  if (strcmp(type, "ByteLevel") == 0) return json_part_keys(part, byte_level, error); /* about offsets only */
  bool is_template = strcmp(type, "TemplateProcessing") == 0;
  if (!is_template && strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
    return json_part_wrong(part, error, "type '%.60s' is not supported", type);
  if (r->has_template) return json_part_wrong(part, error, "a second template in a Sequence is not supported");
  r->has_template = true;
  return is_template ? read_template(r, part, error) : read_bert(r, part, error);
}

status post_processor_read(const json_node *node, const char *path, uint32_t vocabulary, post_processor *p,
                           alibi_error *error)
{
  reader r = {p, vocabulary, false};
  json_part nothing = {.path = path};
  status result = json_part_each(node, path, "post_processor", "processors", read_processor, &r, error);
  if (result == ALIBI_OK && !r.has_template) result = add_item(&r, &nothing, true, 0, error);
  if (result != ALIBI_OK) {
    free(p->items);
    *p = (post_processor){0};
  }
  return result;
}

status post_processor_run(const post_processor *p, bool add_special, token_list *ids, alibi_error *error)
{
  status result = ALIBI_OK;
  token_list made = {0};
  if (p->count == 1 && p->items[0].text) return ALIBI_OK;
  for (size_t i = 0; i < p->count; i++) {
    if (!p->items[i].text) {
      if (add_special) TRY(token_list_add(&made, p->items[i].id, error));
      continue;
    }
    TRY(memory_grow(&made.ids, &made.capacity, size_add(made.count, ids->count + 1), sizeof *made.ids, "tokens",
                    error));
    if (ids->count > 0) memcpy(made.ids + made.count, ids->ids, ids->count * sizeof *made.ids);
    made.count += ids->count;
  }
  free(ids->ids);
  *ids = made;
  made = (token_list){0};
done:
  free(made.ids);
  return result;
}
