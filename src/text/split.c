/* GPT-2's pre-tokenizer.  The text is first cut into stretches that are UTF-8 and stretches that are not; the
 * pattern sees only the former. */
#include "text/split.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "text/regex.h"
#include "text/text_buffer.h"

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
  regex *pattern;
};

status splitter_new(splitter **made, alibi_error *error)
{
  *made = NULL;
  splitter *s = calloc(1, sizeof *s);
  if (!s) return fail(error, ALIBI_FAILED, "not enough memory for the pattern of the tokenizer");
  status result = regex_new(gpt2_pattern, sizeof gpt2_pattern - 1, REGEX_ANCHORED, "GPT-2's pre-tokenizer",
                            &s->pattern, error);
  if (result != ALIBI_OK) {
    splitter_free(s);
    return result;
  }
  *made = s;
  return ALIBI_OK;
}

void splitter_free(splitter *made)
{
  if (!made) return;
  regex_free(made->pattern);
  free(made);
}

status split_begin(split_walk *walk, const splitter *pattern, const unsigned char *text, size_t size,
                   alibi_error *error)
{
  *walk = (split_walk){.pattern = pattern, .text = text, .size = size};
  return regex_begin(pattern->pattern, &walk->match, error);
}

void split_end(split_walk *walk)
{
  regex_end(walk->match);
  walk->match = NULL;
}

status split_next(split_walk *walk, size_t *start, size_t *length, alibi_error *error)
{
  *start = walk->position;
  *length = 0;
  if (walk->position == walk->size) return ALIBI_OK;
  if (walk->position == walk->run_end) {
    walk->run_start = walk->position;
    walk->run_end = utf8_end(walk->text, walk->position, walk->size);
    if (walk->run_end == walk->position) {
      do walk->position++;
      while (walk->position < walk->size &&
             utf8_size(walk->text + walk->position, walk->size - walk->position) == 0);
      walk->run_end = walk->position;
      *length = walk->position - *start;
      return ALIBI_OK;
    }
  }
  bool found;
  size_t from, to, offset = walk->position - walk->run_start;
  status result = regex_find(walk->pattern->pattern, walk->match, walk->text + walk->run_start,
                             walk->run_end - walk->run_start, offset, &found, &from, &to, error);
  if (result != ALIBI_OK) return result;
  if (!found || to <= offset) /* the pattern matches everywhere */
    return fail(error, ALIBI_FAILED, "the pattern of the tokenizer matches nothing at byte %zu of a text", *start);
  *length = to - offset;
  walk->position += *length;
  return ALIBI_OK;
}
