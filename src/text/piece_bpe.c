/* BPE over the characters of a piece.  The first ids of a piece are those of its characters, where unknown ones
 * have rules of their own; then they are merged. */
#include "text/piece_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/merge.h"
#include "text/pair_map.h"
#include "text/text_buffer.h"
#include "text/vocabulary.h"

enum { QUICK_CHARACTERS = 0x250 }; /* a table of ids for these; ByteLevel's alphabet is among them */
#define GONE UINT32_MAX

typedef struct early_token { /* before the vocabulary is complete */
  uint32_t id;
  size_t at, size;
} early_token;

struct piece_bpe {
  piece_bpe_options options; /* texts: our own */
  char *unknown, *prefix, *suffix;
  vocabulary words;
  text_buffer early_text;
  early_token *early;
  size_t early_count, early_capacity;
  bool complete;       /* the vocabulary */
  token_merge *merges; /* index: rank */
  size_t merge_count, merge_capacity;
  pair_map ranks;
  uint32_t bytes[256];              /* <0xXX> */
  uint32_t quick[QUICK_CHARACTERS]; /* GONE: not in the vocabulary */
  int64_t unknown_id;
};

typedef struct bpe_memo {
  uint32_t *symbol;
  size_t symbol_count, symbol_capacity;
  merge_memory merging;
  text_buffer word; /* a character with its prefix or suffix */
} bpe_memo;

/* ---- making ---- */

static status copy_option(const char *text, char **to, alibi_error *error)
{
  if (!text || !*text) return ALIBI_OK;
  *to = strdup(text);
  return *to ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
}

status piece_bpe_new(const piece_bpe_options *options, piece_bpe **made, alibi_error *error)
{
  status result = ALIBI_OK;
  *made = NULL;
  piece_bpe *b = calloc(1, sizeof *b);
  if (!b) return fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  b->options = *options;
  TRY(copy_option(options->unknown, &b->unknown, error));
  TRY(copy_option(options->prefix, &b->prefix, error));
  TRY(copy_option(options->suffix, &b->suffix, error));
  b->options.unknown = b->unknown;
  b->options.prefix = b->prefix;
  b->options.suffix = b->suffix;
  *made = b;
  b = NULL;
done:
  piece_bpe_free(b);
  return result;
}

void piece_bpe_free(piece_bpe *b)
{
  if (!b) return;
  free(b->unknown);
  free(b->prefix);
  free(b->suffix);
  vocabulary_free(&b->words);
  buffer_free(&b->early_text);
  free(b->early);
  free(b->merges);
  pair_map_free(&b->ranks);
  free(b);
}

status piece_bpe_add_token(piece_bpe *b, uint32_t id, const void *spelling, size_t size, const char *path,
                           alibi_error *error)
{
  status result = ALIBI_OK;
  if (b->complete || id >= INT32_MAX)
    RAISE(error, ALIBI_BAD_INPUT, "%s: a token of id %u comes too late, or its id is too large", path,
          (unsigned)id);
  TRY(memory_grow(&b->early, &b->early_capacity, b->early_count + 1, sizeof *b->early, "tokens", error));
  b->early[b->early_count++] = (early_token){id, b->early_text.size, size};
  TRY(buffer_add(&b->early_text, spelling, size, error));
done:
  return result;
}

/* The vocabulary of the tokens that were added. */
static status complete(piece_bpe *b, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t size;
  uint32_t largest = 0;
  if (b->complete) return ALIBI_OK;
  for (size_t i = 0; i < b->early_count; i++)
    if (b->early[i].id > largest) largest = b->early[i].id;
  if (largest / 4 > b->early_count + (1 << 14))
    RAISE(error, ALIBI_BAD_INPUT, "%s: %zu tokens, but one has id %u", path, b->early_count, (unsigned)largest);
  TRY(vocabulary_new(&b->words, b->early_count > 0 ? (size_t)largest + 1 : 0, error));
  for (size_t i = 0; i < b->early_count; i++) {
    const early_token *t = &b->early[i];
    if (vocabulary_spelling(&b->words, t->id, &size))
      RAISE(error, ALIBI_BAD_INPUT, "%s: two tokens have id %u", path, (unsigned)t->id);
    TRY(vocabulary_set(&b->words, t->id, b->early_text.data + t->at, t->size, error));
  }
  TRY(vocabulary_index(&b->words, error));
  buffer_free(&b->early_text);
  free(b->early);
  b->early = NULL;
  b->complete = true;
done:
  return result;
}

static status find_side(const piece_bpe *b, const void *text, size_t size, const char *path, uint32_t *id,
                        alibi_error *error)
{
  int64_t found = vocabulary_find(&b->words, text, size);
  if (found < 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: merge %zu: '%.*s' is not in the vocabulary", path, b->merge_count,
                size > 60 ? 60 : (int)size, (const char *)text);
  *id = (uint32_t)found;
  return ALIBI_OK;
}

status piece_bpe_add_merge(piece_bpe *b, const void *left, size_t left_size, const void *right, size_t right_size,
                           const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer joined = {0};
  token_merge merge;
  size_t prefix = b->prefix ? strlen(b->prefix) : 0;
  TRY(complete(b, path, error));
  if (b->merge_count >= PAIR_ABSENT) RAISE(error, ALIBI_BAD_INPUT, "%s: more merges than fit in 32 bits", path);
  TRY(find_side(b, left, left_size, path, &merge.left, error));
  TRY(find_side(b, right, right_size, path, &merge.right, error));
  if (right_size < prefix)
    RAISE(error, ALIBI_BAD_INPUT, "%s: merge %zu: expected a right side with the prefix '%.40s'", path,
          b->merge_count, b->prefix);
  TRY(buffer_add(&joined, left, left_size, error));
  TRY(buffer_add(&joined, (const char *)right + prefix, right_size - prefix, error));
  TRY(find_side(b, joined.data, joined.size, path, &merge.result, error));
  TRY(memory_grow(&b->merges, &b->merge_capacity, b->merge_count + 1, sizeof *b->merges, "merges", error));
  uint64_t key = pair_key(merge.left, merge.right);
  /* A pair that comes again has the rank of its last place, as in the library whose files these are. */
  if (pair_map_find(&b->ranks, key) != PAIR_ABSENT) pair_map_change(&b->ranks, key, (uint32_t)b->merge_count);
  else TRY(pair_map_add(&b->ranks, key, (uint32_t)b->merge_count, error));
  b->merges[b->merge_count++] = merge;
done:
  buffer_free(&joined);
  return result;
}

status piece_bpe_finish(piece_bpe *b, const char *path, alibi_error *error)
{
  status result = complete(b, path, error);
  if (result != ALIBI_OK) return result;
  vocabulary_bytes(&b->words, b->bytes);
  b->unknown_id = b->unknown ? vocabulary_find(&b->words, b->unknown, strlen(b->unknown)) : -1;
  for (uint32_t c = 0; c < QUICK_CHARACTERS; c++) {
    unsigned char text[4];
    int64_t id = vocabulary_find(&b->words, text, utf8_spell(c, text));
    b->quick[c] = id < 0 ? GONE : (uint32_t)id;
  }
  return ALIBI_OK;
}

/* ---- the file ---- */

static status take_merge(piece_bpe *b, const json_node *merge, size_t index, const char *path, alibi_error *error)
{
  const char *text = node_text(merge, NULL), *left = NULL, *right = NULL;
  size_t left_size = 0, right_size = 0;
  if (text && strncmp(text, "#version", 8) == 0) return ALIBI_OK;
  if (text) {
    const char *blank = strchr(text, ' ');
    if (blank && !strchr(blank + 1, ' ')) {
      left = text;
      left_size = (size_t)(blank - text);
      right = blank + 1;
      right_size = strlen(right);
    }
  } else if (node_kind_of(merge) == NODE_ARRAY && node_count(merge) == 2) {
    left = node_text(node_at(merge, 0), NULL);
    right = node_text(node_at(merge, 1), NULL);
    left_size = left ? strlen(left) : 0;
    right_size = right ? strlen(right) : 0;
  }
  if (!left || !right) return fail(error, ALIBI_BAD_INPUT, "%s: merge %zu: expected two tokens", path, index);
  return piece_bpe_add_merge(b, left, left_size, right, right_size, path, error);
}

static status read_options(const json_node *model, const char *path, piece_bpe_options *options,
                           alibi_error *error)
{
  status result = ALIBI_OK;
  const json_node *dropout = node_get(model, "dropout");
  TRY(model_text(model, "unk_token", NULL, path, &options->unknown, error));
  TRY(model_text(model, "continuing_subword_prefix", NULL, path, &options->prefix, error));
  TRY(model_text(model, "end_of_word_suffix", NULL, path, &options->suffix, error));
  TRY(model_boolean(model, "fuse_unk", false, path, &options->fuse_unknown, error));
  TRY(model_boolean(model, "byte_fallback", false, path, &options->byte_fallback, error));
  TRY(model_boolean(model, "ignore_merges", false, path, &options->ignore_merges, error));
  if (dropout && node_kind_of(dropout) != NODE_NULL && node_number(dropout, 1) != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: dropout is not supported: expected null or 0", path);
done:
  return result;
}

static void bpe_release(void *state)
{
  piece_bpe_free(state);
}

static status bpe_open(const json_node *model, const char *path, void **state, alibi_error *error)
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
  status result = ALIBI_OK;
  piece_bpe_options options = {0};
  piece_bpe *b = NULL;
  const json_node *merges = node_get(model, "merges");
  *state = NULL;
  if (!node_get(model, "type") && !merges) return ALIBI_OK;
  TRY(model_check_keys(model, known, path, error));
  if (node_kind_of(merges) != NODE_ARRAY)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: expected an array 'merges'", path);
  TRY(read_options(model, path, &options, error));
  TRY(piece_bpe_new(&options, &b, error));
  TRY(model_vocabulary(model, path, &b->words, error));
  b->complete = true;
  for (size_t i = 0; i < node_count(merges); i++) TRY(take_merge(b, node_at(merges, i), i, path, error));
  TRY(piece_bpe_finish(b, path, error));
  *state = b;
  b = NULL;
done:
  piece_bpe_free(b);
  return result;
}

static status bpe_describe(const void *state, json_node **model, alibi_error *error)
{
  const piece_bpe *b = state;
  (void)error;
  json_node *node = node_new_object(), *merges = node_new_array();
  node_set_text(node, "type", "BPE");
  node_set_null(node, "dropout");
  node_set_text(node, "unk_token", b->unknown);
  node_set_text(node, "continuing_subword_prefix", b->prefix);
  node_set_text(node, "end_of_word_suffix", b->suffix);
  node_set_boolean(node, "fuse_unk", b->options.fuse_unknown);
  node_set_boolean(node, "byte_fallback", b->options.byte_fallback);
  node_set_boolean(node, "ignore_merges", b->options.ignore_merges);
  node_set(node, "vocab", model_vocabulary_node(&b->words));
  for (size_t i = 0; i < b->merge_count; i++) {
    size_t size;
    json_node *pair = node_new_array();
    node_append_text(pair, (const char *)vocabulary_spelling(&b->words, b->merges[i].left, &size));
    node_append_text(pair, (const char *)vocabulary_spelling(&b->words, b->merges[i].right, &size));
    node_append(merges, pair);
  }
  node_set(node, "merges", merges);
  *model = node;
  return ALIBI_OK;
}

/* ---- encoding ---- */

static status add_symbol(bpe_memo *m, uint32_t id, alibi_error *error)
{
  status result = ALIBI_OK;
  if (m->symbol_count == m->symbol_capacity)
    TRY(memory_grow(&m->symbol, &m->symbol_capacity, m->symbol_count + 1, sizeof *m->symbol, "a word", error));
  m->symbol[m->symbol_count++] = id;
done:
  return result;
}

/* The id of a character in its place; GONE: not in the vocabulary.  *text and *size: as it is looked up. */
static status character_id(const piece_bpe *b, bpe_memo *m, const unsigned char **text, size_t *size, bool first,
                           bool last, uint32_t *id, alibi_error *error)
{
  status result = ALIBI_OK;
  if ((b->prefix && !first) || (b->suffix && last)) {
    m->word.size = 0;
    if (b->prefix && !first) TRY(buffer_add_text(&m->word, b->prefix, error));
    TRY(buffer_add(&m->word, *text, *size, error));
    if (b->suffix && last) TRY(buffer_add_text(&m->word, b->suffix, error));
    *text = m->word.data;
    *size = m->word.size;
  }
  int64_t found = vocabulary_find(&b->words, *text, *size);
  *id = found < 0 ? GONE : (uint32_t)found;
done:
  return result;
}

/* <0xXX> for every byte of a character, where all are in the vocabulary. */
static status add_bytes(const piece_bpe *b, bpe_memo *m, const unsigned char *text, size_t size, bool *done,
                        alibi_error *error)
{
  status result = ALIBI_OK;
  *done = false;
  for (size_t i = 0; i < size; i++)
    if (b->bytes[text[i]] == VOCABULARY_NONE) return ALIBI_OK;
  for (size_t i = 0; i < size; i++) TRY(add_symbol(m, b->bytes[text[i]], error));
  *done = true;
done:
  return result;
}

/* The ids of the characters.  An unknown one waits until it is clear whether another follows that joins it; bytes
 * do not end its wait (so they come before it, as in the library whose files these are). */
static status first_symbols(const piece_bpe *b, bpe_memo *m, const unsigned char *word, size_t size,
                            alibi_error *error)
{
  status result = ALIBI_OK;
  bool waiting = false, done, plain = !b->prefix && !b->suffix;
  m->symbol_count = 0;
  for (size_t at = 0, length; at < size; at += length) {
    uint32_t c = utf8_character(word + at, &length), id;
    const unsigned char *text = word + at;
    size_t text_size = length;
    if (plain && c < QUICK_CHARACTERS) id = b->quick[c];
    else TRY(character_id(b, m, &text, &text_size, at == 0, at + length == size, &id, error));
    if (id != GONE) {
      if (waiting) TRY(add_symbol(m, (uint32_t)b->unknown_id, error));
      waiting = false;
      TRY(add_symbol(m, id, error));
      continue;
    }
    done = false;
    if (b->options.byte_fallback) TRY(add_bytes(b, m, text, text_size, &done, error));
    if (done || !b->unknown) continue;
    if (b->unknown_id < 0)
      RAISE(error, ALIBI_BAD_INPUT, "the tokenizer's unknown token '%.60s' is not in its vocabulary", b->unknown);
    if (waiting && !b->options.fuse_unknown) TRY(add_symbol(m, (uint32_t)b->unknown_id, error));
    waiting = true;
  }
  if (waiting) TRY(add_symbol(m, (uint32_t)b->unknown_id, error));
done:
  return result;
}

static status bpe_begin_memo(const void *state, void **memo, alibi_error *error)
{
  (void)state;
  *memo = calloc(1, sizeof(bpe_memo));
  return *memo ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory to encode");
}

static void bpe_end_memo(void *memo)
{
  bpe_memo *m = memo;
  if (!m) return;
  free(m->symbol);
  merge_memory_free(&m->merging);
  buffer_free(&m->word);
  free(m);
}

static status bpe_encode_piece(const void *state, void *memo, const unsigned char *word, size_t size,
                               token_list *out, alibi_error *error)
{
  const piece_bpe *b = state;
  status result = ALIBI_OK;
  void *own = NULL;
  if (b->options.ignore_merges) {
    int64_t id = vocabulary_find(&b->words, word, size);
    if (id >= 0) return token_list_add(out, (uint32_t)id, error);
  }
  if (!memo) {
    TRY(bpe_begin_memo(b, &own, error));
    memo = own;
  }
  bpe_memo *m = memo;
  TRY(first_symbols(b, m, word, size, error));
  if (m->symbol_count <= MERGE_FEW) m->symbol_count = merge_few(&b->ranks, b->merges, m->symbol, m->symbol_count);
  else TRY(merge_many(&b->ranks, b->merges, &m->merging, m->symbol, &m->symbol_count, error));
  TRY(memory_grow(&out->ids, &out->capacity, size_add(out->count, m->symbol_count), sizeof *out->ids, "tokens",
                  error));
  if (m->symbol_count > 0) memcpy(out->ids + out->count, m->symbol, m->symbol_count * sizeof *out->ids);
  out->count += m->symbol_count;
done:
  bpe_end_memo(own);
  return result;
}

static const unsigned char *bpe_spelling(const void *state, uint32_t id, size_t *size)
{
  return vocabulary_spelling(&((const piece_bpe *)state)->words, id, size);
}

static int64_t bpe_find(const void *state, const unsigned char *spelling, size_t size)
{
  return vocabulary_find(&((const piece_bpe *)state)->words, spelling, size);
}

static uint32_t bpe_vocabulary(const void *state)
{
  return ((const piece_bpe *)state)->words.count;
}

static int64_t bpe_unknown(const void *state)
{
  return ((const piece_bpe *)state)->unknown_id;
}

const token_model token_model_bpe = {"BPE",       bpe_open,       bpe_encode_piece, bpe_spelling,
                                     bpe_find,    bpe_vocabulary, bpe_unknown,      bpe_describe,
                                     bpe_release, bpe_begin_memo, bpe_end_memo,     false};
