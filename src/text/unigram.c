/* The unigram model: Viterbi's search over a text, whose edges are the pieces that a search tree finds at each
 * character.  Below it, the model as a tokenizer.json has it: runs of unknown characters are one token, or
 * bytes. */
#include "text/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "text/vocabulary.h"

enum { BRIEF = 256 }; /* bytes of a piece whose lattice lies on the stack */
#define NOWHERE UINT32_MAX

static inline void offer(const unigram_rules *rules, unigram_node *end, uint32_t start, uint32_t id, double sum)
{
  if (rules->single) sum = (float)sum;
  if (end->start != NOWHERE && !(sum > end->score)) return;
  end->score = sum;
  end->start = start;
  end->id = id;
}

/* Far into a text a float is too coarse to tell good paths from better ones: all sums from here to the farthest
 * place that was reached lose what is in common. */
static void begin_anew(unigram_node *nodes, size_t start, size_t farthest)
{
  const float common = (float)nodes[start].score;
  for (size_t i = start; i <= farthest; i++)
    if (i == start || nodes[i].start != NOWHERE) nodes[i].score = (float)nodes[i].score - common;
}

/* The score of a user-defined piece: above that of any others, and the longer the better. */
static inline double favour(size_t length)
{
  return (float)(0.1 * ((int)length - 1));
}

static void fill(const unigram_rules *rules, unigram_node *nodes, const unsigned char *text, size_t size)
{
  const piece_trie *trie = rules->trie;
  size_t farthest = 0;
  for (size_t start = 0; start < size;) {
    size_t character = utf8_length(text[start]);
    if (character > size - start) character = size - start;
    if (rules->single && fabs(nodes[start].score) > UNIGRAM_SUM_MOST)
      begin_anew(nodes, start, farthest > start ? farthest : start);
    const double sum = nodes[start].score;
    bool known = false;
    uint32_t node = TRIE_ROOT;
    for (size_t i = start; i < size && (node = piece_trie_step(trie, node, text[i])) != TRIE_ROOT; i++) {
      int32_t id = trie->units[node].value;
      if (id == TRIE_NONE) continue;
      size_t length = i + 1 - start;
      bool favoured = rules->favoured && rules->favoured[id];
      double score = favoured ? favour(length) : rules->scores[id];
      if (i + 1 > farthest) farthest = i + 1;
      offer(rules, &nodes[i + 1], (uint32_t)start, (uint32_t)id, score + sum);
      known |= length == character;
    }
    if (!known) {
      if (start + character > farthest) farthest = start + character;
      offer(rules, &nodes[start + character], (uint32_t)start, rules->unknown, rules->unknown_score + sum);
    }
    start += character;
  }
}

status unigram_cut(const unigram_rules *rules, unigram_lattice *lattice, const unsigned char *text, size_t size,
                   double *sum, alibi_error *error)
{
  if (size >= NOWHERE)
    return fail(error, ALIBI_FAILED, "a run of %zu bytes without a place to cut is too long to encode", size);
  status result = memory_grow(&lattice->nodes, &lattice->capacity, size + 1, sizeof *lattice->nodes,
                              "the paths of a text", error);
  if (result != ALIBI_OK) return result;
  unigram_node *nodes = lattice->nodes;
  for (size_t i = 0; i <= size; i++) nodes[i].start = NOWHERE;
  nodes[0].score = *sum;
  fill(rules, nodes, text, size);
  for (uint32_t end = (uint32_t)size; end > 0; end = nodes[end].start) nodes[nodes[end].start].next = end;
  *sum = nodes[size].score;
  return ALIBI_OK;
}

/* ---- the model of a tokenizer.json ---- */

typedef struct unigram {
  vocabulary words;
  piece_trie trie;
  double *scores;       /* as the file says them */
  double *scores_there; /* as the library reads them: score_there */
  unigram_rules rules;
  int64_t unknown; /* -1: none */
  bool byte_fallback, all_bytes;
  uint32_t byte_ids[256];
} unigram;

static void unigram_free(void *state)
{
  unigram *u = state;
  if (!u) return;
  vocabulary_free(&u->words);
  piece_trie_free(&u->trie);
  free(u->scores);
  free(u->scores_there);
  free(u);
}

/* Two ways to cut a text are often equally good, but for the last bit of their sums.  The library whose files
 * these are reads a number as its digits, rounded, times or divided by a power of ten, rounded again (the default
 * of its JSON reader), so that about one in fifty is the double beside the nearest one; such a bit decides, and
 * here too. */
static double score_there(double score)
{
  enum { EXACT = 22 }; /* powers of ten that are doubles */
  char text[NUMBER_SIZE], far[16];
  uint64_t digits = 0; /* at most 17 of them */
  int exponent = 0;
  bool fraction = false;
  number_text(fabs(score), text);
  const char *at = text;
  for (; (*at >= '0' && *at <= '9') || *at == '.'; at++) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + (uint64_t)(*at - '0');
    exponent -= fraction;
  }
  if (*at == 'e') exponent += atoi(at + 1);
  double value = (double)digits;
  for (; exponent < -308; exponent += 308) value /= 1e308;
  double power = 1;
  if (abs(exponent) > EXACT) {
    snprintf(far, sizeof far, "1e%d", abs(exponent));
    power = number_parse(far, NULL);
  } else {
    for (int i = abs(exponent); i > 0; i--) power *= 10;
  }
  return copysign(exponent < 0 ? value / power : value * power, score);
}

static status read_pieces(unigram *u, const json_node *list, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t count = node_count(list), capacity = 0, capacity_there = 0;
  TRY(vocabulary_new(&u->words, count, error));
  TRY(memory_grow(&u->scores, &capacity, count + 1, sizeof *u->scores, "scores", error));
  TRY(memory_grow(&u->scores_there, &capacity_there, count + 1, sizeof *u->scores, "scores", error));
  double least = INFINITY;
  for (size_t id = 0; id < count; id++) {
    const json_node *pair = node_at(list, id), *score = node_at(pair, 1);
    bool is_number = score && (node_kind_of(score) == NODE_REAL || node_kind_of(score) == NODE_INTEGER);
    const char *text = node_text(node_at(pair, 0), NULL);
    if (node_count(pair) != 2 || !text || !is_number)
      RAISE(error, ALIBI_BAD_INPUT, "%s: model: vocab %zu: expected a piece and its score", path, id);
    u->scores[id] = node_number(score, NAN);
    if (!isfinite(u->scores[id]))
      RAISE(error, ALIBI_BAD_INPUT, "%s: model: vocab %zu ('%.40s'): its score is no finite number", path, id,
            text);
    u->scores_there[id] = score_there(u->scores[id]);
    if (u->scores_there[id] < least) least = u->scores_there[id];
    TRY(vocabulary_set(&u->words, (uint32_t)id, text, strlen(text), error));
  }
  u->rules.unknown_score = least - UNIGRAM_UNKNOWN_PENALTY;
done:
  return result;
}

/* Where a piece comes twice the later one counts, as in the library. */
static status unigram_index(unigram *u, alibi_error *error)
{
  status result = vocabulary_index(&u->words, error);
  if (result == ALIBI_OK) result = vocabulary_trie(&u->words, &u->trie, error);
  if (result != ALIBI_OK) return result;
  u->all_bytes = vocabulary_bytes(&u->words, u->byte_ids) == 256;
  u->rules.trie = &u->trie;
  u->rules.scores = u->scores_there;
  u->rules.unknown = u->unknown < 0 ? NOWHERE : (uint32_t)u->unknown;
  return ALIBI_OK;
}

static status unigram_open(const json_node *model, const char *path, void **state, alibi_error *error)
{
  static const char *const known[] = {"type", "unk_id", "vocab", "byte_fallback", NULL};
  status result = ALIBI_OK;
  const json_node *list = node_get(model, "vocab"), *unknown = node_get(model, "unk_id");
  unigram *u = NULL;
  *state = NULL;
  if (!node_get(model, "type") && (!list || node_kind_of(list) != NODE_ARRAY)) return ALIBI_OK;
  TRY(model_check_keys(model, known, path, error));
  if (!list || node_kind_of(list) != NODE_ARRAY)
    RAISE(error, ALIBI_BAD_INPUT, "%s: model: expected an array 'vocab'", path);
  u = calloc(1, sizeof *u);
  if (!u) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  TRY(model_boolean(model, "byte_fallback", false, path, &u->byte_fallback, error));
  u->unknown = -1;
  if (unknown && node_kind_of(unknown) != NODE_NULL) {
    u->unknown = node_kind_of(unknown) == NODE_INTEGER ? node_integer(unknown, -1) : -1;
    if (u->unknown < 0 || (uint64_t)u->unknown >= node_count(list))
      RAISE(error, ALIBI_BAD_INPUT, "%s: model: unk_id: expected an id below %zu", path, node_count(list));
  }
  TRY(read_pieces(u, list, path, error));
  TRY(unigram_index(u, error));
  *state = u;
  u = NULL;
done:
  unigram_free(u);
  return result;
}

/* A run of characters that no piece covers. */
static status encode_unknown(const unigram *u, const unsigned char *text, size_t size, token_list *out,
                             alibi_error *error)
{
  int64_t id = vocabulary_find(&u->words, text, size);
  if (id < 0 && u->byte_fallback) {
    bool all = true;
    for (size_t i = 0; i < size && !u->all_bytes; i++) all &= u->byte_ids[text[i]] != NOWHERE;
    status result = ALIBI_OK;
    for (size_t i = 0; i < size && all && result == ALIBI_OK; i++)
      result = token_list_add(out, u->byte_ids[text[i]], error);
    if (all) return result;
  }
  return token_list_add(out, (uint32_t)(id < 0 ? u->unknown : id), error);
}

static status unigram_encode_piece(const void *state, void *memo, const unsigned char *text, size_t size,
                                   token_list *out, alibi_error *error)
{
  const unigram *u = state;
  status result = ALIBI_OK;
  unigram_node brief[BRIEF];
  unigram_lattice lattice = {brief, BRIEF};
  double sum = 0;
  (void)memo;
  if (size >= BRIEF) lattice = (unigram_lattice){0};
  TRY(unigram_cut(&u->rules, &lattice, text, size, &sum, error));
  for (size_t start = 0, end; start < size; start = end) {
    end = lattice.nodes[start].next;
    uint32_t id = lattice.nodes[end].id;
    if (id != u->rules.unknown) {
      TRY(token_list_add(out, id, error));
      continue;
    }
    if (u->unknown < 0)
      RAISE(error, ALIBI_FAILED, "the tokenizer has no unknown token, and no piece for '%.*s'", (int)(end - start),
            (const char *)text + start);
    while (end < size && lattice.nodes[lattice.nodes[end].next].id == id) end = lattice.nodes[end].next;
    TRY(encode_unknown(u, text + start, end - start, out, error));
  }
done:
  if (lattice.nodes != brief) free(lattice.nodes);
  return result;
}

static const unsigned char *unigram_spelling(const void *state, uint32_t id, size_t *size)
{
  return vocabulary_spelling(&((const unigram *)state)->words, id, size);
}

static int64_t unigram_find(const void *state, const unsigned char *spelling, size_t size)
{
  return vocabulary_find(&((const unigram *)state)->words, spelling, size);
}

static uint32_t unigram_vocabulary(const void *state)
{
  return ((const unigram *)state)->words.count;
}

static int64_t unigram_unknown(const void *state)
{
  return ((const unigram *)state)->unknown;
}

static status unigram_describe(const void *state, json_node **model, alibi_error *error)
{
  const unigram *u = state;
  json_node *object = node_new_object(), *list = node_new_array();
  (void)error;
  node_set_text(object, "type", "Unigram");
  if (u->unknown < 0) node_set_null(object, "unk_id");
  else node_set_integer(object, "unk_id", u->unknown);
  for (uint32_t id = 0; id < u->words.count; id++) {
    json_node *pair = node_new_array();
    size_t size;
    node_append_text(pair, (const char *)vocabulary_spelling(&u->words, id, &size));
    node_append_number(pair, u->scores[id]);
    node_append(list, pair);
  }
  node_set(object, "vocab", list);
  node_set_boolean(object, "byte_fallback", u->byte_fallback);
  *model = object;
  return ALIBI_OK;
}

const token_model token_model_unigram = {
    .name = "Unigram",
    .open = unigram_open,
    .encode_piece = unigram_encode_piece,
    .spelling = unigram_spelling,
    .find = unigram_find,
    .vocabulary = unigram_vocabulary,
    .unknown = unigram_unknown,
    .describe = unigram_describe,
    .free = unigram_free,
};
