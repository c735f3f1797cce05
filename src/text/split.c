/* The pre-tokenizer, and the only file that knows PCRE2.  The text is first cut into stretches that are UTF-8 and
 * stretches that are not; PCRE2 sees only the former and is told not to check them again, because without its
 * compiler to machine code it would check the whole rest of the text at every piece. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* White_Space is spelled out: PCRE2's own \s also has U+180E, which Unicode took out of White_Space in 2013. */
#define SPACE                                                                                                     \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static const char gpt2_pattern[] = "'(?:[stmd]|re|ve|ll)"
                                   "| ?\\p{L}++"
                                   "| ?\\p{N}++"
                                   "| ?[^" SPACE "\\p{L}\\p{N}]++"
                                   "|[" SPACE "]+(?![^" SPACE "])"
                                   "|[" SPACE "]++";

struct splitter {
  pcre2_code *code;
  bool compiled; /* to machine code */
};

status splitter_new(splitter **made, alibi_error *error)
{
  *made = NULL;
  splitter *s = calloc(1, sizeof *s);
  if (!s) return fail(error, ALIBI_FAILED, "not enough memory for the pattern of the tokenizer");
  int number;
  PCRE2_SIZE offset;
  s->code = pcre2_compile((PCRE2_SPTR)gpt2_pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED, &number,
                          &offset, NULL);
  if (!s->code) {
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(number, reason, sizeof reason);
    splitter_free(s);
    return fail(error, ALIBI_FAILED, "the pattern of the tokenizer does not compile: %s", (const char *)reason);
  }
  s->compiled = pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE) == 0;
  *made = s;
  return ALIBI_OK;
}

void splitter_free(splitter *made)
{
  if (!made) return;
  pcre2_code_free(made->code);
  free(made);
}

/* Bytes of the UTF-8 character at p, 0 where there is none.  Unicode 15, table 3-7. */
static size_t character_size(const unsigned char *p, size_t left)
{
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  size_t size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  if (size > left) return 0;
  unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
  unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < size; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return size;
}

static size_t end_of_valid(const unsigned char *text, size_t position, size_t size)
{
  while (position < size) {
    uint64_t word;
    if (size - position >= sizeof word) {
      memcpy(&word, text + position, sizeof word);
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        position += sizeof word;
        continue;
      }
    }
    size_t step = character_size(text + position, size - position);
    if (step == 0) break;
    position += step;
  }
  return position;
}

status split_begin(split_walk *walk, const splitter *pattern, const unsigned char *text, size_t size,
                   alibi_error *error)
{
  *walk = (split_walk){.pattern = pattern, .text = text, .size = size};
  walk->match = pcre2_match_data_create(1, NULL);
  return walk->match ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory to cut text into pieces");
}

void split_end(split_walk *walk)
{
  if (walk->match) pcre2_match_data_free(walk->match);
  walk->match = NULL;
}

status split_next(split_walk *walk, size_t *start, size_t *length, alibi_error *error)
{
  *start = walk->position;
  *length = 0;
  if (walk->position == walk->size) return ALIBI_OK;
  if (walk->position == walk->run_end) {
    walk->run_start = walk->position;
    walk->run_end = end_of_valid(walk->text, walk->position, walk->size);
    if (walk->run_end == walk->position) {
      do walk->position++;
      while (walk->position < walk->size &&
             character_size(walk->text + walk->position, walk->size - walk->position) == 0);
      walk->run_end = walk->position;
      *length = walk->position - *start;
      return ALIBI_OK;
    }
  }
  const splitter *s = walk->pattern;
  PCRE2_SPTR subject = walk->text + walk->run_start;
  size_t size = walk->run_end - walk->run_start, offset = walk->position - walk->run_start;
  int found = -1;
  if (s->compiled) found = pcre2_jit_match(s->code, subject, size, offset, 0, walk->match, NULL);
  if (found < 0) /* the pattern matches everywhere: machine code was not to be had, or out of stack */
    found = pcre2_match(s->code, subject, size, offset, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, walk->match, NULL);
  if (found < 0)
    return fail(error, ALIBI_FAILED, "PCRE2 fails with error %d at byte %zu of a text", found, *start);
  *length = pcre2_get_ovector_pointer(walk->match)[1] - offset;
  walk->position += *length;
  return ALIBI_OK;
}
