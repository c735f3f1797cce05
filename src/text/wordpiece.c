/* The WordPiece model of a tokenizer.json: of every piece the longest token that begins it, then the longest that
 * goes on, spelled with a prefix ("##"), and so forth; where that ends before the piece does, all of it is
 * unknown.  Source: Wu et al. 2016; Devlin et al. 2019.  A search tree finds the longest token: where a piece goes
 * on, the walk begins at the node of the prefix. */
#include <stdlib.h>
#include <string.h>

#include "text/token_model.h"
#include "text/vocabulary.h"

extern const token_model token_model_wordpiece;

typedef struct wordpiece {
  vocabulary words;
  piece_trie trie;
  char *prefix, *unknown_text;
  int64_t unknown;
  int64_t longest;  /* characters; a longer piece is unknown */
  uint32_t goes_on; /* the node of the prefix; TRIE_ROOT: no token has it, or it is empty */
  bool has_goes_on;
} wordpiece;

static void wordpiece_free(void *state)
{
  wordpiece *w = state;
  if (!w) return;
  vocabulary_free(&w->words);
  piece_trie_free(&w->trie);
  free(w->prefix);
  free(w->unknown_text);
  free(w);
}

static char *copy_text(const char *text)
{
  char *copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

static bool is_wordpiece(const json_node *model)
{
  const json_node *words = node_get(model, "vocab");
  return node_get(model, "type") || (words && node_kind_of(words) == NODE_OBJECT && !node_get(model, "merges") &&
                                     node_get(model, "continuing_subword_prefix"));
}

static status wordpiece_open(const json_node *model, const char *path, void **state, alibi_error *error)
{
  static const char *const known[] = {
      "type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", NULL};
  status result = ALIBI_OK;
  const char *prefix, *unknown;
  const json_node *longest = node_get(model, "max_input_chars_per_word");
  wordpiece *w = NULL;
  *state = NULL;
  if (!is_wordpiece(model)) return ALIBI_OK;
  TRY(model_check_keys(model, known, path, error));
  TRY(model_text(model, "unk_token", "[UNK]", path, &unknown, error));
  TRY(model_text(model, "continuing_subword_prefix", "##", path, &prefix, error));
  if (longest && (node_kind_of(longest) != NODE_INTEGER || node_integer(longest, -1) < 0))
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: max_input_chars_per_word: expected a number of characters", path);
  w = calloc(1, sizeof *w);
  if (!w) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  w->longest = node_integer(longest, 100);
  w->prefix = copy_text(prefix);
  w->unknown_text = copy_text(unknown);
  if (!w->prefix || !w->unknown_text) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  TRY(model_vocabulary(model, path, &w->words, error));
  TRY(vocabulary_trie(&w->words, &w->trie, error));
  w->unknown = vocabulary_find(&w->words, unknown, strlen(unknown));
  w->goes_on = piece_trie_descend(&w->trie, (const unsigned char *)prefix, strlen(prefix));
  w->has_goes_on = w->goes_on != TRIE_ROOT || *prefix == '\0';
  *state = w;
  w = NULL;
done:
  wordpiece_free(w);
  return result;
}

/* The longest token from here that ends with a whole character. */
static int32_t longest_token(const piece_trie *trie, uint32_t node, const unsigned char *text, size_t size,
                             size_t *length)
{
  int32_t found = TRIE_NONE;
  for (size_t i = 0; i < size && (node = piece_trie_step(trie, node, text[i])) != TRIE_ROOT; i++)
    if (trie->units[node].value != TRIE_NONE && (i + 1 == size || (text[i + 1] & 0xc0) != 0x80)) {
      found = trie->units[node].value;
      *length = i + 1;
    }
  return found;
}

static status wordpiece_encode_piece(const void *state, void *memo, const unsigned char *text, size_t size,
                                     token_list *out, alibi_error *error)
{
  const wordpiece *w = state;
  const size_t before = out->count;
  status result = ALIBI_OK;
  int64_t characters = 0;
  (void)memo;
  for (size_t i = 0; i < size; i++) characters += (text[i] & 0xc0) != 0x80;
  for (size_t start = 0, length = 0; characters <= w->longest && start < size; start += length) {
    int32_t id = TRIE_NONE;
    if (start == 0) id = longest_token(&w->trie, TRIE_ROOT, text, size, &length);
    else if (w->has_goes_on) id = longest_token(&w->trie, w->goes_on, text + start, size - start, &length);
    if (id == TRIE_NONE) goto unknown;
    TRY(token_list_add(out, (uint32_t)id, error));
  }
  if (characters <= w->longest) return ALIBI_OK;
unknown:
  out->count = before;
  if (w->unknown < 0)
    RAISE(error, ALIBI_FAILED, "the tokenizer has no tokens for '%.*s', and its unknown token '%s' is none",
          (int)(size < 40 ? size : 40), (const char *)text, w->unknown_text);
  TRY(token_list_add(out, (uint32_t)w->unknown, error));
done:
  return result;
}

static const unsigned char *wordpiece_spelling(const void *state, uint32_t id, size_t *size)
{
  return vocabulary_spelling(&((const wordpiece *)state)->words, id, size);
}

static int64_t wordpiece_find(const void *state, const unsigned char *spelling, size_t size)
{
  return vocabulary_find(&((const wordpiece *)state)->words, spelling, size);
}

static uint32_t wordpiece_vocabulary(const void *state)
{
  return ((const wordpiece *)state)->words.count;
}

static int64_t wordpiece_unknown(const void *state)
{
  return ((const wordpiece *)state)->unknown;
}

static status wordpiece_describe(const void *state, json_node **model, alibi_error *error)
{
  const wordpiece *w = state;
  (void)error;
  *model = node_new_object();
  node_set_text(*model, "type", "WordPiece");
  node_set_text(*model, "unk_token", w->unknown_text);
  node_set_text(*model, "continuing_subword_prefix", w->prefix);
  node_set_integer(*model, "max_input_chars_per_word", w->longest);
  node_set(*model, "vocab", model_vocabulary_node(&w->words));
  return ALIBI_OK;
}

const token_model token_model_wordpiece = {
    .name = "WordPiece",
    .open = wordpiece_open,
    .encode_piece = wordpiece_encode_piece,
    .spelling = wordpiece_spelling,
    .find = wordpiece_find,
    .vocabulary = wordpiece_vocabulary,
    .unknown = wordpiece_unknown,
    .describe = wordpiece_describe,
    .free = wordpiece_free,
};
