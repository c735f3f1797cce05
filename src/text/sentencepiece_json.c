/* A SentencePiece vocabulary in the words of a tokenizer.json: the row of the registry of models, whose "model"
 * object is our own ({"type": "SentencePiece", ...}: no other program knows it), and the stages around it.  The
 * pipeline adds control tokens and decodes; everything before the ids is this model's own work. */
#include <math.h>

#include "text/base64.h"
#include "text/pipeline.h"
#include "text/pipeline_parts.h"
#include "text/sentencepiece.h"

enum { SPACES_MOST = 1 << 20 }; /* a text whose extra spaces are removed begins with none */

static const char *const kind_names[] = {"", "Unigram", "BPE"};

static void release(void *state)
{
  sentencepiece_free(state);
}

static status read_entries(sentencepiece *s, const json_node *list, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t id = 0; id < node_count(list); id++) {
    const json_node *entry = node_at(list, id);
    const char *text = node_text(node_at(entry, 0), NULL);
    int64_t type = node_integer(node_at(entry, 2), 0);
    if (node_count(entry) != 3 || !text)
      RAISE(error, ALIBI_BAD_INPUT, "%s: model: vocab %zu: expected a piece, its score and its type", path, id);
    if (type < 0 || type > PIECE_TYPES) type = PIECE_TYPES;
    TRY(sentencepiece_set(s, (uint32_t)id, text, strlen(text), (float)node_number(node_at(entry, 1), NAN),
                          (piece_type)type, path, error));
  }
done:
  return result;
}

static status read_rules(sentencepiece *s, const char *rules, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer bytes = {0};
  bool valid;
  if (!rules) return ALIBI_OK;
  TRY(base64_decode(rules, &bytes, &valid, error));
  if (!valid) RAISE(error, ALIBI_BAD_INPUT, "%s: model: precompiled_charsmap is no base64", path);
  TRY(sentencepiece_set_rules(s, bytes.data, bytes.size, error));
done:
  buffer_free(&bytes);
  return result;
}

static status read_settings(sentencepiece *s, const json_node *model, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  const char *kind, *surface, *rules;
  TRY(model_text(model, "kind", "", path, &kind, error));
  if (strcmp(kind, "BPE") == 0) s->kind = SENTENCEPIECE_BPE;
  else if (strcmp(kind, "Unigram") != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: kind: expected 'Unigram' or 'BPE', found '%.40s'", path, kind);
  TRY(model_boolean(model, "byte_fallback", false, path, &s->byte_fallback, error));
  TRY(model_boolean(model, "treat_whitespace_as_suffix", false, path, &s->space_last, error));
  TRY(model_boolean(model, "add_dummy_prefix", true, path, &s->dummy_prefix, error));
  TRY(model_boolean(model, "remove_extra_whitespaces", true, path, &s->trim_spaces, error));
  TRY(model_boolean(model, "escape_whitespaces", true, path, &s->escape_spaces, error));
  TRY(model_text(model, "unk_surface", NULL, path, &surface, error));
  if (surface) {
    s->unknown_text = malloc(strlen(surface) + 1);
    if (!s->unknown_text) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
    strcpy(s->unknown_text, surface);
  }
  TRY(model_text(model, "precompiled_charsmap", NULL, path, &rules, error));
  TRY(read_rules(s, rules, path, error));
done:
  return result;
}

static status open_model(const json_node *model, const char *path, void **state, alibi_error *error)
{
  static const char *const known[] = {"type",
                                      "kind",
                                      "byte_fallback",
                                      "treat_whitespace_as_suffix",
                                      "add_dummy_prefix",
                                      "remove_extra_whitespaces",
                                      "escape_whitespaces",
                                      "unk_surface",
                                      "precompiled_charsmap",
                                      "vocab",
                                      NULL};
  status result = ALIBI_OK;
  const json_node *list = node_get(model, "vocab");
  sentencepiece *s = NULL;
  *state = NULL;
  if (!node_get(model, "type")) return ALIBI_OK;
  TRY(model_check_keys(model, known, path, error));
  if (!list || node_kind_of(list) != NODE_ARRAY)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: expected an array 'vocab'", path);
  TRY(sentencepiece_new(node_count(list), &s, error));
  TRY(read_settings(s, model, path, error));
  TRY(read_entries(s, list, path, error));
  TRY(sentencepiece_finish(s, path, error));
  *state = s;
  s = NULL;
done:
  sentencepiece_free(s);
  return result;
}

static status describe(const void *state, json_node **model, alibi_error *error)
{
  const sentencepiece *s = state;
  status result = ALIBI_OK;
  text_buffer rules = {0};
  json_node *object = node_new_object(), *list = node_new_array();
  *model = NULL;
  node_set_text(object, "type", "SentencePiece");
  node_set_text(object, "kind", kind_names[s->kind]);
  node_set_boolean(object, "byte_fallback", s->byte_fallback);
  node_set_boolean(object, "treat_whitespace_as_suffix", s->space_last);
  node_set_boolean(object, "add_dummy_prefix", s->dummy_prefix);
  node_set_boolean(object, "remove_extra_whitespaces", s->trim_spaces);
  node_set_boolean(object, "escape_whitespaces", s->escape_spaces);
  if (s->unknown_text) node_set_text(object, "unk_surface", s->unknown_text);
  if (s->rules_size > 0) {
    result = base64_encode(s->rules, s->rules_size, &rules, error);
    if (result == ALIBI_OK) node_set_text(object, "precompiled_charsmap", (const char *)rules.data);
    buffer_free(&rules);
  }
  for (uint32_t id = 0; id < s->words.count; id++) {
    size_t size;
    json_node *entry = node_new_array();
    node_append_text(entry, (const char *)vocabulary_spelling(&s->words, id, &size));
    node_append_number(entry, s->scores[id]);
    node_append_integer(entry, s->types[id]);
    node_append(list, entry);
  }
  node_set(object, "vocab", list);
  if (result == ALIBI_OK) *model = object;
  else node_free(object);
  return result;
}

static status encode_piece(const void *state, void *memo, const unsigned char *text, size_t size, token_list *out,
                           alibi_error *error)
{
  (void)memo;
  return sentencepiece_encode(state, text, size, out, error);
}

static const unsigned char *spelling(const void *state, uint32_t id, size_t *size)
{
  return vocabulary_spelling(&((const sentencepiece *)state)->words, id, size);
}

static int64_t find(const void *state, const unsigned char *text, size_t size)
{
  return vocabulary_find(&((const sentencepiece *)state)->words, text, size);
}

static uint32_t count_of(const void *state)
{
  return ((const sentencepiece *)state)->words.count;
}

static int64_t unknown_of(const void *state)
{
  return ((const sentencepiece *)state)->special[ALIBI_SPECIAL_UNKNOWN];
}

const token_model token_model_sentencepiece = {
    .name = "SentencePiece",
    .open = open_model,
    .encode_piece = encode_piece,
    .spelling = spelling,
    .find = find,
    .vocabulary = count_of,
    .unknown = unknown_of,
    .describe = describe,
    .free = release,
    .any_bytes = true,
};

/* ---- the stages around it ---- */

static json_node *control_tokens(const sentencepiece *s)
{
  json_node *list = node_new_array();
  size_t size;
  for (uint32_t id = 0; id < s->words.count; id++)
    if (s->types[id] == PIECE_CONTROL)
      node_append(list, part_added_token(id, (const char *)vocabulary_spelling(&s->words, id, &size), true));
  return list;
}

/* Back: bytes are bytes, the space before the text goes, U+2581 is a space.  What stands for an unknown piece
 * begins with a space that stays: so the space before the text goes while it still is U+2581. */
static json_node *decoder_of(const sentencepiece *s)
{
  json_node *steps, *decoder = part_sequence("decoders", &steps);
  size_t size;
  const char *unknown = (const char *)vocabulary_spelling(&s->words, s->lattice.unknown, &size);
  node_append(steps, part_replace(unknown, s->unknown_text ? s->unknown_text : " \xe2\x81\x87 "));
  node_append(steps, part_step("ByteFallback"));
  node_append(steps, part_step("Fuse"));
  if (s->dummy_prefix || s->trim_spaces) {
    json_node *strip = part_step("Strip");
    node_set_text(strip, "content", "\xe2\x96\x81");
    node_set_integer(strip, "start", s->trim_spaces ? SPACES_MOST : 1);
    node_set_integer(strip, "stop", 0);
    node_append(steps, strip);
  }
  json_node *spaces = part_step("Metaspace");
  node_set_text(spaces, "replacement", "\xe2\x96\x81");
  node_set_text(spaces, "prepend_scheme", "never");
  node_append(steps, spaces);
  return decoder;
}

static const char *control_spelling(const sentencepiece *s, alibi_special special, bool wanted)
{
  size_t size;
  int64_t id = wanted ? s->special[special] : -1;
  return id < 0 ? NULL : (const char *)vocabulary_spelling(&s->words, (uint32_t)id, &size);
}

status sentencepiece_tokenizer(sentencepiece *s, bool add_begin, bool add_end, const char *path,
                               alibi_tokenizer **made, alibi_error *error)
{
  int64_t special[ALIBI_SPECIALS];
  json_node *parts = node_new_object();
  const char *begin = control_spelling(s, ALIBI_SPECIAL_BEGIN, add_begin);
  const char *end = control_spelling(s, ALIBI_SPECIAL_END, add_end);
  *made = NULL;
  memcpy(special, s->special, sizeof special);
  node_set(parts, "added_tokens", control_tokens(s));
  if (begin || end)
    node_set(parts, "post_processor",
             part_template(begin, special[ALIBI_SPECIAL_BEGIN], end, special[ALIBI_SPECIAL_END]));
  node_set(parts, "decoder", decoder_of(s));
  status result = pipeline_new(parts, path, &token_model_sentencepiece, s, made, error);
  for (int i = 0; result == ALIBI_OK && i < ALIBI_SPECIALS; i++)
    pipeline_set_special(*made, (alibi_special)i, special[i]);
  node_free(parts);
  return result;
}
