/* A SentencePiece vocabulary once its reader has filled it: what is checked, what is derived, and how it becomes a
 * tokenizer.  Its model takes a text whole, with no normalizer or pre-tokenizer before it: the library's own rules
 * about spaces (one before the text, none before a user-defined symbol) cannot be said in their words. */
#include "text/sentencepiece.h"

#include <float.h>
#include <math.h>

#include "text/pipeline.h"

status sentencepiece_new(size_t count, sentencepiece **made, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t capacity = 0;
  *made = NULL;
  sentencepiece *s = calloc(1, sizeof *s);
  if (!s) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  s->kind = SENTENCEPIECE_UNIGRAM;
  s->dummy_prefix = s->trim_spaces = s->escape_spaces = true;
  for (int i = 0; i < ALIBI_SPECIALS; i++) s->special[i] = -1;
  TRY(vocabulary_new(&s->words, count, error));
  TRY(memory_grow(&s->scores, &capacity, count + 1, sizeof *s->scores, "scores", error));
  capacity = 0;
  TRY(memory_grow(&s->types, &capacity, count + 1, 1, "types of pieces", error));
  memset(s->types, 0, count);
  *made = s;
  s = NULL;
done:
  sentencepiece_free(s);
  return result;
}

void sentencepiece_free(sentencepiece *s)
{
  if (!s) return;
  vocabulary_free(&s->words);
  piece_trie_free(&s->pieces);
  piece_trie_free(&s->symbols);
  free(s->scores);
  free(s->types);
  free(s->unknown_text);
  charsmap_free(s->map);
  free(s->rules);
  free(s->lattice_scores);
  free(s->favoured);
  free(s);
}

status sentencepiece_set(sentencepiece *s, uint32_t id, const void *text, size_t size, float score,
                         piece_type type, const char *path, alibi_error *error)
{
  char shown[VOCABULARY_SHOWN];
  if (size == 0 || size >= SENTENCEPIECE_LONGEST)
    return fail(error, ALIBI_BAD_INPUT, "%s: piece %u: expected a text of 1 to %d bytes, found %zu", path,
                (unsigned)id, SENTENCEPIECE_LONGEST - 1, size);
  if (memchr(text, '\0', size) || utf8_end(text, 0, size) != size)
    return fail(error, ALIBI_BAD_INPUT, "%s: piece %u: its text is not UTF-8, or has a NUL", path, (unsigned)id);
  if (!isfinite(score))
    return fail(error, ALIBI_BAD_INPUT, "%s: piece %u ('%s'): its score is no finite number", path, (unsigned)id,
                vocabulary_shown(text, size, shown));
  if (type < PIECE_NORMAL || type >= PIECE_TYPES)
    return fail(error, ALIBI_BAD_INPUT, "%s: piece %u ('%s'): expected a type from 1 to %d, found %d", path,
                (unsigned)id, vocabulary_shown(text, size, shown), PIECE_TYPES - 1, (int)type);
  s->scores[id] = score;
  s->types[id] = (unsigned char)type;
  return vocabulary_set(&s->words, id, text, size, error);
}

status sentencepiece_set_rules(sentencepiece *s, const void *rules, size_t size, alibi_error *error)
{
  free(s->rules);
  s->rules_size = 0;
  s->rules = malloc(size > 0 ? size : 1);
  if (!s->rules) return fail(error, ALIBI_FAILED, "not enough memory for a map of characters of %zu bytes", size);
  memcpy(s->rules, rules, size);
  s->rules_size = size;
  return ALIBI_OK;
}

/* Can text become it?  Of unused pieces only merges make use. */
static bool is_text(const sentencepiece *s, uint32_t id)
{
  return s->types[id] == PIECE_NORMAL || s->types[id] == PIECE_USER ||
         (s->types[id] == PIECE_UNUSED && s->kind == SENTENCEPIECE_BPE);
}

/* Does the piece have a space directly after something else (crosses), or before (leads)? */
static void look_at_spaces(const sentencepiece *s, const unsigned char *text, size_t size, bool *crosses,
                           bool *leads)
{
  const char *space = sentencepiece_space(s);
  size_t width = strlen(space);
  bool before = false, any = false;
  for (size_t i = 0, step; i < size; i += step, any = true) {
    bool is_space = size - i >= width && memcmp(text + i, space, width) == 0;
    step = is_space ? width : 1;
    if (any && is_space && !before) *crosses = true;
    if (any && !is_space && before) *leads = true;
    before = is_space;
  }
}

static status build_tries(sentencepiece *s, alibi_error *error)
{
  status result = ALIBI_OK;
  trie_key *keys = NULL;
  size_t capacity = 0, count = 0, symbols = 0, size;
  bool crosses = false, leads = false;
  TRY(memory_grow(&keys, &capacity, (size_t)s->words.count + 1, sizeof *keys, "a search tree", error));
  for (uint32_t id = 0; id < s->words.count; id++) {
    if (!is_text(s, id)) continue;
    const unsigned char *text = vocabulary_spelling(&s->words, id, &size);
    keys[count++] = (trie_key){text, size, id};
    s->has_unused |= s->types[id] == PIECE_UNUSED;
    /* BPE cuts at symbols whatever is in them. */
    if (s->kind == SENTENCEPIECE_UNIGRAM || s->types[id] != PIECE_USER)
      look_at_spaces(s, text, size, &crosses, &leads);
  }
  s->cut_before = !crosses;
  s->cut_after = crosses && !leads;
  TRY(piece_trie_build(&s->pieces, keys, count, error));
  for (uint32_t id = 0; id < s->words.count; id++)
    if (s->types[id] == PIECE_USER) {
      const unsigned char *text = vocabulary_spelling(&s->words, id, &size);
      keys[symbols++] = (trie_key){text, size, id};
    }
  s->has_symbols = symbols > 0;
  TRY(piece_trie_build(&s->symbols, keys, symbols, error));
done:
  free(keys);
  return result;
}

/* Scores of the unigram model; what is unknown scores less than the worst of the normal pieces. */
static status build_lattice(sentencepiece *s, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t capacity = 0, count = s->words.count;
  float least = FLT_MAX;
  TRY(memory_grow(&s->lattice_scores, &capacity, count + 1, sizeof *s->lattice_scores, "scores", error));
  capacity = 0;
  TRY(memory_grow(&s->favoured, &capacity, count + 1, 1, "types of pieces", error));
  for (uint32_t id = 0; id < count; id++) {
    s->lattice_scores[id] = s->scores[id];
    s->favoured[id] = s->types[id] == PIECE_USER;
    if (s->types[id] == PIECE_NORMAL && s->scores[id] < least) least = s->scores[id];
  }
  s->lattice = (unigram_rules){.trie = &s->pieces,
                               .scores = s->lattice_scores,
                               .favoured = s->favoured,
                               .unknown_score = (float)(least - (float)UNIGRAM_UNKNOWN_PENALTY),
                               .unknown = (uint32_t)s->special[ALIBI_SPECIAL_UNKNOWN],
                               .single = true};
done:
  return result;
}

static status check_bytes(sentencepiece *s, const char *path, alibi_error *error)
{
  char shown[VOCABULARY_SHOWN];
  size_t size, found = 0;
  for (int byte = 0; byte < 256; byte++) s->byte_ids[byte] = VOCABULARY_NONE;
  for (uint32_t id = 0; id < s->words.count; id++) {
    if (s->types[id] != PIECE_BYTE) continue;
    const unsigned char *text = vocabulary_spelling(&s->words, id, &size);
    int byte = vocabulary_byte(text, size);
    if (byte < 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: piece %u: expected a byte as '<0xXX>', found '%s'", path,
                  (unsigned)id, vocabulary_shown(text, size, shown));
    found += s->byte_ids[byte] == VOCABULARY_NONE;
    s->byte_ids[byte] = id;
  }
  if (s->byte_fallback && found < 256)
    return fail(error, ALIBI_BAD_INPUT, "%s: byte_fallback: expected pieces for 256 bytes, found %zu", path,
                found);
  return ALIBI_OK;
}

status sentencepiece_finish(sentencepiece *s, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  int64_t unknown = s->special[ALIBI_SPECIAL_UNKNOWN];
  for (uint32_t id = 0; id < s->words.count; id++) {
    if (s->types[id] == 0) RAISE(error, ALIBI_BAD_INPUT, "%s: piece %u is missing", path, (unsigned)id);
    if (s->types[id] != PIECE_UNKNOWN || unknown == id) continue;
    if (unknown >= 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: pieces %lld and %u are both the unknown one", path, (long long)unknown,
            (unsigned)id);
    unknown = id;
  }
  if (unknown < 0 || unknown >= s->words.count)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a piece for what is unknown, found none", path);
  s->special[ALIBI_SPECIAL_UNKNOWN] = unknown;
  TRY(vocabulary_index(&s->words, error));
  if (s->rules_size > 0) TRY(charsmap_new(s->rules, s->rules_size, path, &s->map, error));
  TRY(check_bytes(s, path, error));
  TRY(build_tries(s, error));
  TRY(build_lattice(s, error));
  for (int byte = 1; byte < 0x80; byte++)
    s->alone[byte] =
        byte != ' ' && !s->map && piece_trie_step(&s->symbols, TRIE_ROOT, (unsigned char)byte) == TRIE_ROOT;
done:
  return result;
}

bool sentencepiece_boundary(const sentencepiece *s, const unsigned char *text, size_t size, size_t at)
{
  if (!s->escape_spaces) {
    bool is_space = text[at] == ' ', after_space = text[at - 1] == ' ';
    return is_space != after_space && (is_space ? s->cut_before : s->cut_after);
  }
  bool is_space = text[at] == 0xe2 && size - at >= 3 && text[at + 1] == 0x96 && text[at + 2] == 0x81;
  if (is_space ? !s->cut_before : !s->cut_after) return false;
  bool after_space = text[at - 1] == 0x81 && at >= 3 && text[at - 2] == 0x96 && text[at - 3] == 0xe2;
  return is_space != after_space;
}

status sentencepiece_emit(const sentencepiece *s, uint32_t id, const unsigned char *text, size_t size,
                          bool *after_unknown, token_list *out, alibi_error *error)
{
  status result = ALIBI_OK;
  bool unknown = id == s->lattice.unknown;
  if (unknown && s->byte_fallback)
    for (size_t i = 0; i < size; i++) TRY(token_list_add(out, s->byte_ids[text[i]], error));
  else if (!unknown || !*after_unknown) TRY(token_list_add(out, id, error));
  *after_unknown = unknown;
done:
  return result;
}

status sentencepiece_encode(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                            alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer normalized = {0};
  TRY(sentencepiece_normalize(s, text, size, &normalized, error));
  if (normalized.size == 0) goto done;
  if (s->kind == SENTENCEPIECE_BPE) TRY(sentencepiece_cut_bpe(s, normalized.data, normalized.size, out, error));
  else TRY(sentencepiece_cut_unigram(s, normalized.data, normalized.size, out, error));
done:
  buffer_free(&normalized);
  return result;
}
