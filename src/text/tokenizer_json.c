/* tokenizer.json: which parts of it may say what, and how tokens and merges become a BPE and back.  Tokens are
 * spelled with the printable alphabet of byte_level.h. */
#include "text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/byte_level.h"

static bool is_null(const json_node *node)
{
  return !node || node_kind_of(node) == NODE_NULL;
}

static bool is_null_or_empty(const json_node *node)
{
  return is_null(node) || (node_kind_of(node) == NODE_TEXT && *node_text(node, "") == '\0') ||
         (node_kind_of(node) == NODE_ARRAY && node_count(node) == 0);
}

bool tokenizer_json_is_bpe(const json_node *root)
{
  return strcmp(node_text(node_get(node_get(root, "model"), "type"), ""), "BPE") == 0;
}

/* Refuses a key that is not in the NULL-terminated list: what is not understood may change the ids. */
static status check_keys(const json_node *object, const char *where, const char *const *known, const char *path,
                         alibi_error *error)
{
  for (size_t i = 0; i < node_count(object); i++) {
    const char *key;
    size_t k = 0;
    node_member(object, i, &key);
    while (known[k] && strcmp(known[k], key) != 0) k++;
    if (!known[k])
      return fail(error, ALIBI_BAD_INPUT, "%s: %s has a part '%s' that is not supported", path, where, key);
  }
  return ALIBI_OK;
}

static status check_byte_level(const json_node *part, const char *name, const char *path, alibi_error *error)
{
  static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
  const char *type = node_text(node_get(part, "type"), "none");
  if (strcmp(type, "ByteLevel") != 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: %s: expected type ByteLevel, found '%s', which is not supported",
                path, name, type);
  return check_keys(part, name, known, path, error);
}

static status check_model(const json_node *model, const char *path, alibi_error *error)
{
  static const char *const known[] = {"type",
                                      "dropout",
                                      "unk_token",
                                      "continuing_subword_prefix",
                                      "end_of_word_suffix",
                                      "fuse_unk",
                                      "byte_fallback",
                                      "ignore_merges",
                                      "vocab",
                                      "merges",
                                      NULL};
  static const char *const none[] = {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"};
  static const char *const off[] = {"fuse_unk", "byte_fallback", "ignore_merges"};
  const json_node *dropout = node_get(model, "dropout");
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    if (!is_null_or_empty(node_get(model, none[i])))
      return fail(error, ALIBI_BAD_INPUT, "%s: the model's %s is not supported", path, none[i]);
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
    if (!is_null(node_get(model, off[i])) && node_boolean(node_get(model, off[i]), true))
      return fail(error, ALIBI_BAD_INPUT, "%s: the model's %s is not supported", path, off[i]);
  if (!is_null(dropout) && node_number(dropout, 1) != 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: the model's dropout is not supported", path);
  return check_keys(model, "the model", known, path, error);
}

status tokenizer_json_check(const json_node *root, const char *path, alibi_error *error)
{
  static const char *const known[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                      "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
  static const char *const absent[] = {"truncation", "padding", "added_tokens", "normalizer"};
  status result = ALIBI_OK;
  const char *version = node_text(node_get(root, "version"), "none");
  if (strcmp(version, "1.0") != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: version: expected '1.0', found '%s'", path, version);
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
    if (!is_null_or_empty(node_get(root, absent[i])))
      RAISE(error, ALIBI_BAD_INPUT, "%s: %s is not supported, expected none", path, absent[i]);
  TRY(check_keys(root, "the file", known, path, error));

  const json_node *cut = node_get(root, "pre_tokenizer"), *post = node_get(root, "post_processor");
  TRY(check_byte_level(cut, "pre_tokenizer", path, error));
  if (node_boolean(node_get(cut, "add_prefix_space"), true))
    RAISE(error, ALIBI_BAD_INPUT, "%s: pre_tokenizer: add_prefix_space is not supported, expected false", path);
  if (!node_boolean(node_get(cut, "use_regex"), true))
    RAISE(error, ALIBI_BAD_INPUT, "%s: pre_tokenizer: use_regex false is not supported, expected true", path);
  TRY(check_byte_level(node_get(root, "decoder"), "decoder", path, error));
  /* Of ByteLevel's parts this one is about offsets only. */
  if (!is_null(post)) TRY(check_byte_level(post, "post_processor", path, error));
  TRY(check_model(node_get(root, "model"), path, error));
done:
  return result;
}

/* The token's bytes, into *bytes, which grows. */
static status parse_token(const char *text, const char *what, size_t index, const char *path,
                          unsigned char **bytes, size_t *capacity, bpe_token *token, alibi_error *error)
{
  size_t length = text ? byte_level_length(text) : 0;
  if (length == 0)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: %s %zu: expected a token in the printable alphabet of ByteLevel, found '%.40s'", path, what,
                index, text ? text : "");
  status result = memory_grow(bytes, capacity, length, 1, "a token", error);
  if (result != ALIBI_OK) return result;
  byte_level_parse(text, *bytes);
  *token = (bpe_token){*bytes, length};
  return ALIBI_OK;
}

static status read_vocabulary(bpe *b, const json_node *vocabulary, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  unsigned char *bytes = NULL;
  size_t capacity = 0, count = node_count(vocabulary);
  for (size_t i = 0; i < count; i++) {
    const char *key;
    const json_node *node = node_member(vocabulary, i, &key);
    int64_t id = node_kind_of(node) == NODE_INTEGER ? node_integer(node, -1) : -1;
    bpe_token token = {NULL, 0};
    TRY(parse_token(key, "vocabulary entry", i, path, &bytes, &capacity, &token, error));
    /* As many entries as ids, so an id that comes twice is the same as a hole. */
    if (id < 0 || (uint64_t)id >= count)
      RAISE(error, ALIBI_BAD_INPUT, "%s: vocabulary entry %zu ('%.40s'): expected an id from 0 to %zu", path, i,
            key, count - 1);
    if (b->tokens[id].bytes)
      RAISE(error, ALIBI_BAD_INPUT, "%s: vocabulary entry %zu ('%.40s'): id %lld is taken by an entry before",
            path, i, key, (long long)id);
    TRY(bpe_set_token(b, (size_t)id, token, (bpe_token){NULL, 0}, error));
  }
done:
  free(bytes);
  return result;
}

/* One side of a merge, spelled as `text`: its id. */
static status find_side(const bpe *b, const char *text, size_t rank, const char *path, unsigned char **bytes,
                        size_t *capacity, uint32_t *id, alibi_error *error)
{
  bpe_token token = {NULL, 0};
  status result = parse_token(text, "merge", rank, path, bytes, capacity, &token, error);
  if (result != ALIBI_OK) return result;
  const piece *entry = piece_map_find(&b->by_bytes, token.bytes, token.size);
  if (!entry)
    return fail(error, ALIBI_BAD_INPUT, "%s: merge %zu: '%.40s' is not in the vocabulary", path, rank, text);
  *id = (uint32_t)entry->value;
  return ALIBI_OK;
}

/* "a b" or ["a", "b"]: two strings, both in memory of their own at *copy. */
static status take_sides(const json_node *merge, size_t rank, const char *path, char **copy, const char *sides[2],
                         alibi_error *error)
{
  const char *text = node_text(merge, NULL);
  *copy = NULL;
  sides[0] = sides[1] = NULL;
  if (text) {
    *copy = malloc(strlen(text) + 1);
    if (!*copy) return fail(error, ALIBI_FAILED, "not enough memory for a merge");
    strcpy(*copy, text);
    char *blank = strchr(*copy, ' ');
    if (blank) {
      *blank = '\0';
      sides[0] = *copy;
      sides[1] = blank + 1;
    }
  } else if (node_kind_of(merge) == NODE_ARRAY && node_count(merge) == 2) {
    sides[0] = node_text(node_at(merge, 0), NULL);
    sides[1] = node_text(node_at(merge, 1), NULL);
  }
  if (sides[0] && sides[1]) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: merge %zu: expected two tokens", path, rank);
}

static status read_merges(bpe *b, const json_node *merges, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  unsigned char *bytes = NULL;
  char *copy = NULL;
  size_t capacity = 0;
  for (size_t rank = 0; rank < node_count(merges); rank++) {
    const char *sides[2];
    uint32_t left, right;
    int64_t joined;
    TRY(take_sides(node_at(merges, rank), rank, path, &copy, sides, error));
    TRY(find_side(b, sides[0], rank, path, &bytes, &capacity, &left, error));
    TRY(find_side(b, sides[1], rank, path, &bytes, &capacity, &right, error));
    TRY(bpe_find_joined(b, b->tokens[left], b->tokens[right], &joined, error));
    if (joined < 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: merge %zu: '%.40s' and '%.40s' together are not in the vocabulary", path,
            rank, sides[0], sides[1]);
    if (pair_map_find(&b->ranks, pair_key(left, right)) != PAIR_ABSENT)
      RAISE(error, ALIBI_BAD_INPUT, "%s: merge %zu ('%.40s' and '%.40s') is there a second time", path, rank,
            sides[0], sides[1]);
    TRY(bpe_add_merge(b, left, right, (uint32_t)joined, error));
    free(copy);
    copy = NULL;
  }
done:
  free(copy);
  free(bytes);
  return result;
}

status tokenizer_json_read(const json_node *root, const char *path, bpe **read, alibi_error *error)
{
  status result = ALIBI_OK;
  bpe *b = NULL;
  *read = NULL;
  const json_node *model = node_get(root, "model");
  const json_node *vocabulary = node_get(model, "vocab"), *merges = node_get(model, "merges");
  TRY(tokenizer_json_check(root, path, error));
  if (!vocabulary || node_kind_of(vocabulary) != NODE_OBJECT || !merges || node_kind_of(merges) != NODE_ARRAY)
    RAISE(error, ALIBI_BAD_INPUT, "%s: the model: expected an object 'vocab' and an array 'merges'", path);
  if (node_count(vocabulary) >= PAIR_ABSENT || node_count(merges) >= PAIR_ABSENT)
    RAISE(error, ALIBI_BAD_INPUT, "%s: the vocabulary or the merges are more than fit in 32 bits", path);
  TRY(bpe_new(node_count(vocabulary), &b, error));
  TRY(read_vocabulary(b, vocabulary, path, error));
  int missing = bpe_complete(b);
  if (missing >= 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: the vocabulary: expected a token for every byte, found none for byte %d",
          path, missing);
  TRY(read_merges(b, merges, path, error));
  *read = b;
  b = NULL;
done:
  bpe_free(b);
  return result;
}

static json_node *byte_level_node(void)
{
  json_node *node = node_new_object();
  node_set_text(node, "type", "ByteLevel");
  node_set_boolean(node, "add_prefix_space", false);
  node_set_boolean(node, "trim_offsets", true);
  node_set_boolean(node, "use_regex", true);
  return node;
}

status tokenizer_json_write(json_node *vocabulary, json_node *merges, const char *path, alibi_error *error)
{
  json_node *model = node_new_object();
  node_set_text(model, "type", "BPE");
  node_set_null(model, "dropout");
  node_set_null(model, "unk_token");
  node_set_null(model, "continuing_subword_prefix");
  node_set_null(model, "end_of_word_suffix");
  node_set_boolean(model, "fuse_unk", false);
  node_set_boolean(model, "byte_fallback", false);
  node_set_boolean(model, "ignore_merges", false);
  node_set(model, "vocab", vocabulary);
  node_set(model, "merges", merges);

  json_node *root = node_new_object();
  node_set_text(root, "version", "1.0");
  node_set_null(root, "truncation");
  node_set_null(root, "padding");
  node_set(root, "added_tokens", node_new_array());
  node_set_null(root, "normalizer");
  node_set(root, "pre_tokenizer", byte_level_node());
  node_set_null(root, "post_processor");
  node_set(root, "decoder", byte_level_node());
  node_set(root, "model", model);
  status result = node_write_file(root, path, error);
  node_free(root);
  return result;
}
