/* Encoding with a byte-level BPE: in every piece of the text the adjacent pair of lowest rank is merged, the
 * leftmost of equals first, until no pair has a rank.  A text repeats its pieces, so most are answered by copying
 * the ids that an equal piece got before; they still lie in the output.  Short pieces are scanned, long ones (a
 * run of one letter may be the whole file) go through a heap, so that the work stays n log n. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/bpe_model.h"
#include "text/byte_level.h"
#include "text/merge_heap.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

extern const tokenizer_kind tokenizer_bpe;

enum {
  SHORT_PIECE = 64,       /* bytes; n^2 comparisons of one array beat a heap up to here */
  CACHE_PIECES = 1 << 18, /* at most some 12 MB a call */
};
#define GONE UINT32_MAX

typedef struct encoder {
  const bpe *b;
  uint32_t *tokens; /* the output */
  size_t count, capacity;
  piece_map cache; /* piece -> where its ids lie in tokens (value, length) */
  /* long pieces only */
  uint32_t *symbol, *previous, *next;
  size_t symbol_capacity, previous_capacity, next_capacity;
  merge_heap heap;
} encoder;

static inline uint32_t rank_of(const bpe *b, uint32_t left, uint32_t right)
{
  return pair_map_find(&b->ranks, pair_key(left, right));
}

/* Ids of a short piece, written to `ids`; how many. */
static size_t encode_short(const bpe *b, const unsigned char *text, size_t size, uint32_t *ids)
{
  uint32_t ranks[SHORT_PIECE];
  for (size_t i = 0; i < size; i++) ids[i] = b->byte_token[text[i]];
  for (size_t i = 0; i + 1 < size; i++) ranks[i] = rank_of(b, ids[i], ids[i + 1]);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; i++)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == PAIR_ABSENT) break;
    ids[best] = b->merges[ranks[best]].result;
    size--;
    memmove(ids + best + 1, ids + best + 2, (size - best - 1) * sizeof *ids);
    memmove(ranks + best, ranks + best + 1, (size - best - 1) * sizeof *ranks);
    if (best > 0) ranks[best - 1] = rank_of(b, ids[best - 1], ids[best]);
    if (best + 1 < size) ranks[best] = rank_of(b, ids[best], ids[best + 1]);
  }
  return size;
}

/* Pushes the pair that begins at `left`, if it has a rank. */
static status offer(encoder *e, uint32_t left, alibi_error *error)
{
  if (left == GONE || e->next[left] == GONE) return ALIBI_OK;
  uint32_t rank = rank_of(e->b, e->symbol[left], e->symbol[e->next[left]]);
  return rank == PAIR_ABSENT ? ALIBI_OK : merge_heap_push(&e->heap, (uint64_t)rank << 32 | left, error);
}

/* Appends the ids of a piece of any length. */
static status encode_long(encoder *e, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  if (size >= GONE)
    RAISE(error, ALIBI_FAILED, "a run of %zu bytes without a place to cut is too long to encode", size);
  TRY(memory_grow(&e->symbol, &e->symbol_capacity, size, sizeof *e->symbol, "a long word", error));
  TRY(memory_grow(&e->previous, &e->previous_capacity, size, sizeof *e->previous, "a long word", error));
  TRY(memory_grow(&e->next, &e->next_capacity, size, sizeof *e->next, "a long word", error));
  for (uint32_t i = 0; i < size; i++) {
    e->symbol[i] = e->b->byte_token[text[i]];
    e->previous[i] = i == 0 ? GONE : i - 1;
    e->next[i] = i + 1 == size ? GONE : i + 1;
  }
  e->heap.count = 0;
  for (uint32_t i = 0; i < size; i++) TRY(offer(e, i, error));
  while (e->heap.count > 0) {
    uint64_t entry = merge_heap_pop(&e->heap);
    uint32_t rank = (uint32_t)(entry >> 32), left = (uint32_t)entry, right = e->next[left];
    const bpe_merge *merge = &e->b->merges[rank];
    /* An entry whose symbols have been merged since is stale. */
    if (right == GONE || e->symbol[left] != merge->left || e->symbol[right] != merge->right) continue;
    e->symbol[left] = merge->result;
    e->symbol[right] = GONE;
    e->next[left] = e->next[right];
    e->next[right] = GONE;
    if (e->next[left] != GONE) e->previous[e->next[left]] = left;
    TRY(offer(e, e->previous[left], error));
    TRY(offer(e, left, error));
  }
  for (uint32_t i = 0; i != GONE; i = e->next[i]) {
    TRY(memory_grow(&e->tokens, &e->capacity, e->count + 1, sizeof *e->tokens, "tokens", error));
    e->tokens[e->count++] = e->symbol[i];
  }
done:
  return result;
}

static status encode_piece(encoder *e, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  if (size > SHORT_PIECE) return encode_long(e, text, size, error);
  TRY(memory_grow(&e->tokens, &e->capacity, e->count + SHORT_PIECE, sizeof *e->tokens, "tokens", error));
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
  size_t count = encode_short(e->b, text, size, ids);
  if (known) {
    known->value = e->count;
    known->length = count;
  }
  e->count += count;
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
  TRY(memory_grow(&e.tokens, &e.capacity, size / 4 + SHORT_PIECE, sizeof *e.tokens, "tokens", error));
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
  free(e.symbol);
  free(e.previous);
  free(e.next);
  free(e.heap.entries);
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
