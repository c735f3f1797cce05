/* Normalizing as SentencePiece does it: at every place the longest user-defined symbol stays as it is, else the
 * longest rule replaces what it matches, else one character is copied (U+FFFD for a byte that begins none); runs
 * of spaces become one where that is asked for, and each space becomes U+2581. */
#include "text/sentencepiece.h"

typedef struct prefix { /* what one step of normalizing takes, and what it gives */
  size_t length;
  const unsigned char *text;
  size_t size;
} prefix;

static prefix take(const sentencepiece *s, const unsigned char *text, size_t left)
{
  prefix p = {0, text, 0};
  if (s->has_symbols && piece_trie_longest(&s->symbols, text, left, &p.length) != TRIE_NONE) {
    p.size = p.length;
    return p;
  }
  const unsigned char *found = s->map ? charsmap_find(s->map, text, left, true, &p.length, &p.size) : NULL;
  if (found) {
    p.text = found;
    return p;
  }
  p.length = p.size = utf8_size(text, left);
  if (p.length == 0) p = (prefix){1, (const unsigned char *)"\xef\xbf\xbd", 3};
  return p;
}

static status add_space(const sentencepiece *s, text_buffer *out, alibi_error *error)
{
  const char *space = sentencepiece_space(s);
  return buffer_add(out, space, strlen(space), error);
}

/* Bytes from `at` that are ASCII, no space, and copied. */
static size_t plain_run(const sentencepiece *s, const unsigned char *text, size_t size, size_t at)
{
  size_t end = at;
  while (end < size && s->alone[text[end]]) end++;
  /* With a combining mark after it the last one may be part of a rule. */
  if (end > at && end < size && text[end] >= 0x80) end--;
  return end;
}

/* Appends what a step gave, with *after_space: were spaces the last thing before it, which makes further ones
 * superfluous? */
static status add_prefix(const sentencepiece *s, prefix p, bool *after_space, text_buffer *out, alibi_error *error)
{
  status result = ALIBI_OK;
  for (; *after_space && p.size > 0 && *p.text == ' '; p.text++) p.size--;
  for (size_t i = 0; i < p.size; i++) {
    if (p.text[i] == ' ' && s->escape_spaces) TRY(add_space(s, out, error));
    else TRY(buffer_add(out, p.text + i, 1, error));
  }
  if (p.size > 0) *after_space = s->trim_spaces && p.text[p.size - 1] == ' ';
done:
  return result;
}

static bool ends_with_space(const sentencepiece *s, const text_buffer *out, size_t first)
{
  const char *space = sentencepiece_space(s);
  size_t size = strlen(space);
  return out->size - first >= size && memcmp(out->data + out->size - size, space, size) == 0;
}

status sentencepiece_normalize(const sentencepiece *s, const unsigned char *text, size_t size, text_buffer *out,
                               alibi_error *error)
{
  status result = ALIBI_OK;
  const size_t first = out->size;
  size_t at = 0;
  while (s->trim_spaces && at < size) {
    prefix p = take(s, text + at, size - at);
    if (p.size != 1 || *p.text != ' ') break;
    at += p.length;
  }
  if (at == size) return ALIBI_OK;
  TRY(buffer_reserve(out, size - at + size / 4, error));
  if (!s->space_last && s->dummy_prefix) TRY(add_space(s, out, error));
  for (bool after_space = s->trim_spaces; at < size;) {
    size_t end = plain_run(s, text, size, at);
    if (end > at) {
      TRY(buffer_add(out, text + at, end - at, error));
      after_space = false;
      at = end;
      continue;
    }
    prefix p = take(s, text + at, size - at);
    if (p.size > SENTENCEPIECE_REPLACEMENT && p.text != text + at)
      RAISE(error, ALIBI_FAILED, "the tokenizer's map of characters puts %zu bytes for one text: it is damaged",
            p.size);
    TRY(add_prefix(s, p, &after_space, out, error));
    at += p.length;
  }
  while (s->trim_spaces && ends_with_space(s, out, first)) out->size -= strlen(sentencepiece_space(s));
  if (s->space_last && s->dummy_prefix) TRY(add_space(s, out, error));
done:
  return result;
}
