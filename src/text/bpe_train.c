/* Training a byte-level BPE: merge the most frequent adjacent pair, again and again.
 * Every different piece of the texts is one word with a weight, the number of times it occurs.  The symbols of all
 * words lie in one array, linked to their neighbours; the places where a pair occurs are linked too, through the
 * place of its left symbol.  So one merge touches exactly the places where its pair is, and the pairs beside them:
 * the whole training costs a constant per merged place, plus a heap that says which pair is next. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "text/bpe_model.h"

#define NONE UINT32_MAX
enum {
  BYTES = 256,
  MAXIMUM_VOCABULARY = 1000000,
  MAXIMUM_TOKEN = 1024, /* bytes; see alibi/tokenizer.h */
};

typedef struct pair_places {
  uint64_t key, count;  /* weighted occurrences now */
  uint32_t first, last; /* places, linked by place.after */
  bool grew;            /* in `grown` */
} pair_places;

typedef struct place {    /* a symbol of a word, and the pair of which it is the left one */
  uint32_t symbol;        /* NONE: merged away */
  uint32_t left, right;   /* neighbours in the word */
  uint32_t pair;          /* index into pairs; NONE at the end of a word */
  uint32_t before, after; /* other places of that pair */
  uint32_t word;
} place;

typedef struct candidate {
  uint64_t count, key;
  uint32_t pair;
} candidate;

typedef struct trainer {
  bpe *model;
  piece_map words; /* value: how often the piece occurs */
  place *places;
  size_t place_count;
  pair_map index; /* key -> pair */
  pair_places *pairs;
  size_t pair_count, pair_capacity;
  uint32_t *grown; /* pairs whose count rose in this merge: they need a new candidate */
  size_t grown_count, grown_capacity;
  candidate *heap; /* counts may be too high by now, never too low */
  size_t heap_count, heap_capacity;
} trainer;

static status count_words(trainer *t, const char *const *texts, const size_t *sizes, size_t count,
                          alibi_error *error)
{
  status result = ALIBI_OK;
  split_walk walk = {0};
  for (size_t i = 0; i < count; i++) {
    const unsigned char *text = (const unsigned char *)texts[i];
    size_t start, length;
    if (!text && sizes[i] > 0) RAISE(error, ALIBI_INVALID, "text %zu is NULL but has a size", i);
    TRY(split_begin(&walk, t->model->pattern, text, sizes[i], error));
    for (;;) {
      TRY(split_next(&walk, &start, &length, error));
      if (length == 0) break;
      if (length == 1) continue; /* has no pair */
      piece *word;
      TRY(piece_map_add(&t->words, text + start, length, &word, error));
      word->value++;
    }
    split_end(&walk);
  }
done:
  split_end(&walk);
  return result;
}

/* Frequent first; of equals the smaller ids. */
static bool sooner(const candidate *a, const candidate *b)
{
  return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static status push(trainer *t, uint32_t pair, alibi_error *error)
{
  candidate entry = {t->pairs[pair].count, t->pairs[pair].key, pair};
  status result = memory_grow(&t->heap, &t->heap_capacity, t->heap_count + 1, sizeof *t->heap, "pairs", error);
  if (result != ALIBI_OK) return result;
  size_t i = t->heap_count++;
  for (; i > 0 && sooner(&entry, &t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
  t->heap[i] = entry;
  return ALIBI_OK;
}

static candidate pop(trainer *t)
{
  candidate top = t->heap[0], last = t->heap[--t->heap_count];
  size_t i = 0;
  for (size_t child = 1; child < t->heap_count; child = 2 * i + 1) {
    if (child + 1 < t->heap_count && sooner(&t->heap[child + 1], &t->heap[child])) child++;
    if (!sooner(&t->heap[child], &last)) break;
    t->heap[i] = t->heap[child];
    i = child;
  }
  t->heap[i] = last;
  return top;
}

static void unlink_place(trainer *t, uint32_t at)
{
  place *p = &t->places[at];
  if (p->pair == NONE) return;
  pair_places *pair = &t->pairs[p->pair];
  if (p->before == NONE) pair->first = p->after;
  else t->places[p->before].after = p->after;
  if (p->after == NONE) pair->last = p->before;
  else t->places[p->after].before = p->before;
  pair->count -= t->words.pieces[p->word].value;
  p->pair = NONE;
}

/* Enters the place, whose pair is new, at the end of that pair's list. */
static status link_place(trainer *t, uint32_t at, alibi_error *error)
{
  status result = ALIBI_OK;
  place *p = &t->places[at];
  p->pair = NONE;
  if (p->right == NONE) return ALIBI_OK;
  uint64_t key = pair_key(p->symbol, t->places[p->right].symbol);
  uint32_t index = pair_map_find(&t->index, key);
  if (index == PAIR_ABSENT) {
    index = (uint32_t)t->pair_count; /* fewer pairs than 3 times the places, see lay_out */
    TRY(memory_grow(&t->pairs, &t->pair_capacity, t->pair_count + 1, sizeof *t->pairs, "pairs", error));
    TRY(pair_map_add(&t->index, key, index, error));
    t->pairs[t->pair_count++] = (pair_places){.key = key, .first = NONE, .last = NONE};
  }
  pair_places *pair = &t->pairs[index];
  p->pair = index;
  p->before = pair->last;
  p->after = NONE;
  if (pair->last == NONE) pair->first = at;
  else t->places[pair->last].after = at;
  pair->last = at;
  pair->count += t->words.pieces[p->word].value;
  if (!pair->grew) {
    TRY(memory_grow(&t->grown, &t->grown_capacity, t->grown_count + 1, sizeof *t->grown, "pairs", error));
    t->grown[t->grown_count++] = index;
    pair->grew = true;
  }
done:
  return result;
}

static status push_grown(trainer *t, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < t->grown_count; i++) {
    t->pairs[t->grown[i]].grew = false;
    if (t->pairs[t->grown[i]].count >= 2) TRY(push(t, t->grown[i], error));
  }
  t->grown_count = 0;
done:
  return result;
}

/* One place a byte of every word, linked up. */
static status lay_out(trainer *t, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t total = 0;
  for (size_t w = 0; w < t->words.count; w++) total = size_add(total, t->words.pieces[w].size);
  /* Every place brings one pair, every merge at most two. */
  if (total >= NONE / 3)
    RAISE(error, ALIBI_FAILED,
          "the texts have %zu bytes of different words, more than the %lu that training can hold", total,
          (unsigned long)(NONE / 3));
  TRY(memory_new(&t->places, total, sizeof *t->places, "the words of the texts", error));
  t->place_count = total;
  uint32_t at = 0;
  for (size_t w = 0; w < t->words.count; w++) {
    const piece *word = &t->words.pieces[w];
    uint32_t begin = at, end = at + (uint32_t)word->size;
    for (; at < end; at++)
      t->places[at] = (place){.symbol = word->text[at - begin],
                              .left = at == begin ? NONE : at - 1,
                              .right = at + 1 == end ? NONE : at + 1,
                              .word = (uint32_t)w};
  }
  for (at = 0; at < total; at++) TRY(link_place(t, at, error));
  TRY(push_grown(t, error));
done:
  return result;
}

/* Replaces the pair by `merged` wherever it is, from the left ("aaa" is one merge of a a, at its left end): the
 * places of a pair all come about in the merge that makes its younger symbol, and that goes from left to right. */
static status merge_everywhere(trainer *t, uint32_t index, uint32_t merged, alibi_error *error)
{
  status result = ALIBI_OK;
  while (t->pairs[index].first != NONE) {
    uint32_t at = t->pairs[index].first;
    place *p = &t->places[at], *gone = &t->places[p->right];
    unlink_place(t, at);
    unlink_place(t, p->right);
    gone->symbol = NONE;
    p->symbol = merged;
    p->right = gone->right;
    if (p->right != NONE) t->places[p->right].left = at;
    TRY(link_place(t, at, error));
    if (p->left != NONE) {
      unlink_place(t, p->left);
      TRY(link_place(t, p->left, error));
    }
  }
  TRY(push_grown(t, error));
done:
  return result;
}

static status train(trainer *t, uint32_t vocabulary, alibi_error *error)
{
  status result = ALIBI_OK;
  bpe *model = t->model;
  while (model->token_count < vocabulary && t->heap_count > 0) {
    candidate best = pop(t);
    const pair_places *pair = &t->pairs[best.pair];
    if (pair->count != best.count) {
      if (pair->count >= 2 && pair->count < best.count) TRY(push(t, best.pair, error));
      continue;
    }
    uint32_t left = (uint32_t)(best.key >> 32), right = (uint32_t)best.key;
    const bpe_token left_token = model->tokens[left], right_token = model->tokens[right];
    if (left_token.size + right_token.size > MAXIMUM_TOKEN) continue;
    /* The spelling is new.  Two places that spell the same, with no symbol that reaches across their ends, have
     * gone through the same merges; so if another token had this spelling, this place would have become it. */
    uint32_t merged = (uint32_t)model->token_count;
    TRY(bpe_set_token(model, merged, left_token, right_token, error));
    TRY(bpe_add_merge(model, left, right, merged, error));
    TRY(merge_everywhere(t, best.pair, merged, error));
  }
done:
  return result;
}

static status add_bytes(bpe *model, alibi_error *error)
{
  status result = ALIBI_OK;
  for (unsigned byte = 0; byte < BYTES; byte++) {
    unsigned char text = (unsigned char)byte;
    TRY(bpe_set_token(model, byte, (bpe_token){&text, 1}, (bpe_token){NULL, 0}, error));
  }
  bpe_complete(model);
done:
  return result;
}

status bpe_train(const char *const *texts, const size_t *sizes, size_t count, uint32_t vocabulary, bpe **trained,
                 alibi_error *error)
{
  status result = ALIBI_OK;
  trainer t = {0};
  *trained = NULL;
  if (vocabulary < BYTES || vocabulary > MAXIMUM_VOCABULARY)
    RAISE(error, ALIBI_INVALID, "vocabulary: expected a number from %d to %d, found %lu", BYTES,
          MAXIMUM_VOCABULARY, (unsigned long)vocabulary);
  TRY(bpe_new(0, &t.model, error));
  TRY(add_bytes(t.model, error));
  if (vocabulary > BYTES) {
    TRY(count_words(&t, texts, sizes, count, error));
    TRY(lay_out(&t, error));
    TRY(train(&t, vocabulary, error));
  }
  *trained = t.model;
  t.model = NULL;
done:
  bpe_free(t.model);
  piece_map_free(&t.words);
  memory_free(t.places);
  pair_map_free(&t.index);
  free(t.pairs);
  free(t.grown);
  free(t.heap);
  return result;
}
