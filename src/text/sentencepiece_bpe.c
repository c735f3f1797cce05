/* BPE by score: of all adjacent pairs whose text together is a piece, the one whose piece has the best score is
 * joined, the leftmost of equals first, until none is left.  A pair is looked up by walking on in the search tree
 * from the node of its left side.  Where no piece crosses the place before (or after) a space, a text is a row of
 * words that do not touch each other; equal words have equal ids, so most are answered by copying what the same
 * word got before.  Long words go through the same heap: the work stays n log n. */
#include "text/sentencepiece.h"

#include <math.h>

enum { CACHE_WORDS = 1 << 18, CACHED_WORD = 64 /* bytes of a word that is kept */ };
#define GONE UINT32_MAX
#define FROZEN UINT32_MAX /* as a node: a user-defined symbol, never joined */

typedef struct symbol {
  uint32_t start, size; /* size 0: joined to another */
  uint32_t node;        /* in the tree, TRIE_ROOT where no piece begins so */
  uint32_t previous, next;
} symbol;

typedef struct candidate { /* a pair that could be joined */
  uint64_t key;            /* the better the score the smaller, then its left side */
  uint32_t size, node;
} candidate;

typedef struct joiner {
  const sentencepiece *s;
  token_list *out;
  bool after_unknown;
  const unsigned char *text; /* of the word */
  symbol *symbols;
  size_t symbol_count, symbol_capacity;
  candidate *heap;
  size_t heap_count, heap_capacity;
  piece_map cache;     /* word -> where its ids lie in out (value, length) */
  uint32_t *left_size; /* of an unused piece: bytes of the left side it was last made of; NULL: there are none */
  struct {
    const unsigned char *text;
    size_t size;
  } * stack;
  size_t stack_count, stack_capacity;
} joiner;

/* Unsigned numbers in the opposite order of the scores; scores are finite. */
static inline uint32_t worse(float score)
{
  uint32_t bits;
  score += 0.0f; /* -0 and 0 are equal */
  memcpy(&bits, &score, sizeof bits);
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

static status heap_push(joiner *j, candidate entry, alibi_error *error)
{
  status result = memory_grow(&j->heap, &j->heap_capacity, j->heap_count + 1, sizeof *j->heap, "merges", error);
  if (result != ALIBI_OK) return result;
  size_t i = j->heap_count++;
  for (; i > 0 && j->heap[(i - 1) / 2].key > entry.key; i = (i - 1) / 2) j->heap[i] = j->heap[(i - 1) / 2];
  j->heap[i] = entry;
  return ALIBI_OK;
}

static candidate heap_pop(joiner *j)
{
  candidate top = j->heap[0], last = j->heap[--j->heap_count];
  size_t i = 0;
  for (size_t child = 1; child < j->heap_count; child = 2 * i + 1) {
    if (child + 1 < j->heap_count && j->heap[child + 1].key < j->heap[child].key) child++;
    if (j->heap[child].key >= last.key) break;
    j->heap[i] = j->heap[child];
    i = child;
  }
  j->heap[i] = last;
  return top;
}

/* Pushes the pair that begins at `left`, if it is a piece. */
static status offer(joiner *j, uint32_t left, alibi_error *error)
{
  const piece_trie *trie = &j->s->pieces;
  const symbol *a = &j->symbols[left];
  if (a->next == GONE || a->node == FROZEN || a->node == TRIE_ROOT || j->symbols[a->next].node == FROZEN)
    return ALIBI_OK;
  const symbol *b = &j->symbols[a->next];
  uint32_t node = a->node;
  for (uint32_t i = 0; i < b->size; i++)
    if ((node = piece_trie_step(trie, node, j->text[b->start + i])) == TRIE_ROOT) return ALIBI_OK;
  int32_t id = trie->units[node].value;
  if (id == TRIE_NONE) return ALIBI_OK;
  if (j->left_size && j->s->types[id] == PIECE_UNUSED) j->left_size[id] = a->size;
  return heap_push(j, (candidate){(uint64_t)worse(j->s->scores[id]) << 32 | left, a->size + b->size, node}, error);
}

static status add_symbol(joiner *j, size_t start, size_t size, uint32_t node, alibi_error *error)
{
  status result =
      memory_grow(&j->symbols, &j->symbol_capacity, j->symbol_count + 1, sizeof *j->symbols, "a long word", error);
  if (result != ALIBI_OK) return result;
  uint32_t i = (uint32_t)j->symbol_count++;
  j->symbols[i] = (symbol){(uint32_t)start, (uint32_t)size, node, i == 0 ? GONE : i - 1, GONE};
  if (i > 0) j->symbols[i - 1].next = i;
  return ALIBI_OK;
}

/* The ids of an unused piece are those of what it was made of, and so on. */
static status emit_parts(joiner *j, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  const sentencepiece *s = j->s;
  j->stack_count = 0;
  for (bool more = true; more;) {
    int32_t id = piece_trie_find(&s->pieces, text, size);
    if (id != TRIE_NONE && s->types[id] == PIECE_UNUSED && j->left_size[id] > 0 && j->left_size[id] < size) {
      TRY(memory_grow(&j->stack, &j->stack_capacity, j->stack_count + 1, sizeof *j->stack, "a long word", error));
      j->stack[j->stack_count].text = text + j->left_size[id];
      j->stack[j->stack_count++].size = size - j->left_size[id];
      size = j->left_size[id];
      continue;
    }
    bool known = id != TRIE_NONE && s->types[id] != PIECE_UNUSED;
    TRY(sentencepiece_emit(s, known ? (uint32_t)id : s->lattice.unknown, text, size, &j->after_unknown, j->out,
                           error));
    more = j->stack_count > 0;
    if (!more) break;
    text = j->stack[--j->stack_count].text;
    size = j->stack[j->stack_count].size;
  }
done:
  return result;
}

static status emit_symbols(joiner *j, alibi_error *error)
{
  status result = ALIBI_OK;
  for (uint32_t i = j->symbol_count > 0 ? 0 : GONE; i != GONE; i = j->symbols[i].next) {
    const symbol *a = &j->symbols[i];
    const unsigned char *text = j->text + a->start;
    int32_t id = a->node == TRIE_ROOT ? TRIE_NONE
                 : a->node == FROZEN  ? piece_trie_find(&j->s->pieces, text, a->size)
                                      : j->s->pieces.units[a->node].value;
    if (id != TRIE_NONE && j->left_size && j->s->types[id] == PIECE_UNUSED) {
      TRY(emit_parts(j, text, a->size, error));
      continue;
    }
    TRY(sentencepiece_emit(j->s, id == TRIE_NONE ? j->s->lattice.unknown : (uint32_t)id, text, a->size,
                           &j->after_unknown, j->out, error));
  }
done:
  return result;
}

static status join_word(joiner *j, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  const sentencepiece *s = j->s;
  if (size >= GONE)
    RAISE(error, ALIBI_FAILED, "a run of %zu bytes without a place to cut is too long to encode", size);
  j->text = text;
  j->symbol_count = j->heap_count = 0;
  for (size_t at = 0, length; at < size; at += length) {
    if (s->has_symbols && piece_trie_longest(&s->symbols, text + at, size - at, &length) != TRIE_NONE) {
      TRY(add_symbol(j, at, length, FROZEN, error));
      continue;
    }
    length = utf8_length(text[at]);
    if (length > size - at) length = size - at;
    TRY(add_symbol(j, at, length, piece_trie_descend(&s->pieces, text + at, length), error));
  }
  for (uint32_t i = 0; i < j->symbol_count; i++) TRY(offer(j, i, error));
  while (j->heap_count > 0) {
    candidate best = heap_pop(j);
    uint32_t left = (uint32_t)best.key;
    symbol *a = &j->symbols[left];
    /* A pair of which one side has been joined to something since is stale: then its size is another. */
    if (a->size == 0 || a->next == GONE || a->size + j->symbols[a->next].size != best.size) continue;
    symbol *b = &j->symbols[a->next];
    a->size = best.size;
    a->node = best.node;
    b->size = 0;
    a->next = b->next;
    if (a->next != GONE) j->symbols[a->next].previous = left;
    if (a->previous != GONE) TRY(offer(j, a->previous, error));
    TRY(offer(j, left, error));
  }
  TRY(emit_symbols(j, error));
done:
  return result;
}

static status encode_word(joiner *j, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  piece *known = NULL;
  if (size == 0) return ALIBI_OK;
  if (size > CACHED_WORD || j->left_size) return join_word(j, text, size, error);
  if (j->cache.count < CACHE_WORDS) TRY(piece_map_add(&j->cache, text, size, &known, error));
  else known = piece_map_find(&j->cache, text, size);
  if (known && known->length > 0) {
    size_t before = j->out->count;
    TRY(memory_grow(&j->out->ids, &j->out->capacity, before + known->length, sizeof *j->out->ids, "tokens",
                    error));
    memcpy(j->out->ids + before, j->out->ids + known->value, known->length * sizeof *j->out->ids);
    j->out->count += known->length;
    j->after_unknown = false;
    return ALIBI_OK;
  }
  size_t first = j->out->count;
  bool joined = j->after_unknown;
  TRY(join_word(j, text, size, error));
  /* Unknown characters at its beginning or end would make its ids depend on the words beside it. */
  if (!known || joined || j->after_unknown || j->out->count == first) return ALIBI_OK;
  if (!j->s->byte_fallback && j->out->ids[first] == j->s->lattice.unknown) return ALIBI_OK;
  known->value = first;
  known->length = j->out->count - first;
done:
  return result;
}

status sentencepiece_cut_bpe(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                             alibi_error *error)
{
  status result = ALIBI_OK;
  joiner j = {.s = s, .out = out};
  size_t first = 0;
  if (s->has_unused) { /* what they are made of depends on the whole text: no words */
    TRY(memory_new(&j.left_size, s->words.count, sizeof *j.left_size, "unused pieces", error));
    TRY(join_word(&j, text, size, error));
    goto done;
  }
  for (size_t at = 0, length; at < size; at += length) {
    if (s->has_symbols && piece_trie_longest(&s->symbols, text + at, size - at, &length) != TRIE_NONE) {
      TRY(encode_word(&j, text + first, at - first, error));
      int32_t id = piece_trie_find(&s->pieces, text + at, length);
      TRY(sentencepiece_emit(s, (uint32_t)id, text + at, length, &j.after_unknown, out, error));
      first = at + length;
      continue;
    }
    if (at > first && sentencepiece_boundary(s, text, size, at)) {
      TRY(encode_word(&j, text + first, at - first, error));
      first = at;
    }
    length = utf8_length(text[at]);
    if (length > size - at) length = size - at;
  }
  TRY(encode_word(&j, text + first, size - first, error));
done:
  piece_map_free(&j.cache);
  free(j.symbols);
  free(j.heap);
  free(j.stack);
  memory_free(j.left_size);
  return result;
}
