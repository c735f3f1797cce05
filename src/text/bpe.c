/* Encoding with a byte-level BPE: every piece of the text is its bytes, merged.  A text repeats its pieces, so
 * most are answered by copying the ids that an equal piece got before; they still lie in the output. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/bpe_model.h"
#include "text/byte_level.h"
#include "text/merge.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

extern const tokenizer_kind tokenizer_bpe;

enum { CACHE_PIECES = 1 << 18 }; /* at most some 12 MB a call */

typedef struct encoder {
  const bpe *b;
  uint32_t *tokens; /* the output */
  size_t count, capacity;
  piece_map cache; /* piece -> where its ids lie in tokens (value, length) */
  merge_memory merging;
} encoder;

/* Appends the ids of a piece of any length, which are never more than its bytes. */
static status encode_bytes(encoder *e, const unsigned char *text, size_t size, size_t *count, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(memory_grow(&e->tokens, &e->capacity, size_add(e->count, size), sizeof *e->tokens, "tokens", error));
  uint32_t *ids = e->tokens + e->count;
  for (size_t i = 0; i < size; i++) ids[i] = e->b->byte_token[text[i]];
  *count = size;
  if (size <= MERGE_FEW) *count = merge_few(&e->b->ranks, e->b->merges, ids, size);
  else TRY(merge_many(&e->b->ranks, e->b->merges, &e->merging, ids, count, error));
  e->count += *count;
done:
  return result;
}

static status encode_piece(encoder *e, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t count;
  if (size > MERGE_FEW) return encode_bytes(e, text, size, &count, error);
  TRY(memory_grow(&e->tokens, &e->capacity, e->count + MERGE_FEW, sizeof *e->tokens, "tokens", error));
  uint32_t *ids = e->tokens + e->count;
  if (size == 1) {
    ids[0] = e->b->byte_token[text[0]];
    e->count++;
    return ALIBI_OK;
  }
  piece *known = NULL;
  if (e->cache.count < CACHE_PIECES) TRY(piece_map_add(&e->cache, text, size, &known, error));
  else known = piece_map_find(&e->cache, text, size);
  if (known && known->length > 0) {
    memcpy(ids, e->tokens + known->value, known->length * sizeof *ids);
    e->count += known->length;
    return ALIBI_OK;
  }
  size_t first = e->count;
  TRY(encode_bytes(e, text, size, &count, error));
  if (known) {
    known->value = first;
    known->length = count;
  }
done:
  return result;
}

static status bpe_encode(const void *state, const unsigned char *text, size_t size, uint32_t **tokens,
                         size_t *count, alibi_error *error)
{
  const bpe *b = state;
  status result = ALIBI_OK;
  encoder e = {.b = b};
  split_walk walk = {0};
  size_t start, length;
  TRY(memory_grow(&e.tokens, &e.capacity, size / 4 + MERGE_FEW, sizeof *e.tokens, "tokens", error));
  TRY(split_begin(&walk, b->pattern, text, size, error));
  for (;;) {
    TRY(split_next(&walk, &start, &length, error));
    if (length == 0) break;
    TRY(encode_piece(&e, text + start, length, error));
  }
  *tokens = e.tokens;
  *count = e.count;
  e.tokens = NULL;
done:
  split_end(&walk);
  piece_map_free(&e.cache);
  free(e.tokens);
  merge_memory_free(&e.merging);
  return result;
}

static const unsigned char *bpe_bytes_of(const void *state, uint32_t token, size_t *size)
{
  const bpe *b = state;
  if (token >= b->token_count) return NULL;
  *size = b->tokens[token].size;
  return b->tokens[token].bytes;
}

static uint32_t bpe_vocabulary(const void *state)
{
  return (uint32_t)((const bpe *)state)->token_count;
}

static status bpe_save(const void *state, const char *path, alibi_error *error)
{
  const bpe *b = state;
  size_t longest = 0;
  for (size_t id = 0; id < b->token_count; id++)
    if (b->tokens[id].size > longest) longest = b->tokens[id].size;
  /* Room for a merge: no longer than its result, plus the blank and the end. */
  char *text = malloc(size_add(size_mul(longest, BYTE_LEVEL_WIDTH), 2));
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory to save a tokenizer");
  json_node *vocabulary = node_new_object(), *merges = node_new_array();
  for (size_t id = 0; id < b->token_count; id++) {
    byte_level_spell(b->tokens[id].bytes, b->tokens[id].size, text);
    node_set_integer(vocabulary, text, (int64_t)id);
  }
  for (size_t rank = 0; rank < b->merge_count; rank++) {
    const bpe_token left = b->tokens[b->merges[rank].left], right = b->tokens[b->merges[rank].right];
    byte_level_spell(left.bytes, left.size, text);
    size_t used = strlen(text);
    text[used] = ' ';
    byte_level_spell(right.bytes, right.size, text + used + 1);
    node_append_text(merges, text);
  }
  free(text);
  return tokenizer_json_write(vocabulary, merges, path, error);
}

/* A file that asks for more than this kind can do, or whose tokens are not those that training makes, is none of
 * ours: the pipeline reads it, or says what is wrong with it. */
static status bpe_open(const json_node *root, const char *path, void **state, alibi_error *error)
{
  bpe *read;
  *state = NULL;
  if (!tokenizer_json_is_bpe(root)) return ALIBI_OK;
  status result = tokenizer_json_read(root, path, &read, error);
  if (result == ALIBI_OK) *state = read;
  return result == ALIBI_BAD_INPUT ? ALIBI_OK : result;
}

static void bpe_release(void *state)
{
  bpe_free(state);
}

const tokenizer_kind tokenizer_bpe = {
    .name = "bpe",
    .encode = bpe_encode,
    .bytes_of = bpe_bytes_of,
    .vocabulary = bpe_vocabulary,
    .save = bpe_save,
    .open = bpe_open,
    .free = bpe_release,
};
