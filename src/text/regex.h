/* text/regex.h - patterns over UTF-8 text, in PCRE2's language (text/oniguruma.h translates the one that
 * tokenizer.json speaks).  A pattern that runs away ends in an error, not in a hang. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct regex regex;             /* compiled; immutable, threads may share it */
typedef struct regex_match regex_match; /* what one thread needs to match with it */

enum { REGEX_LITERAL = 1, REGEX_ANCHORED = 2, REGEX_LINES = 4 /* ^ and $ at every line */ };

/* `what` begins the sentence of the error: "tokenizer.json: pre_tokenizer". */
status regex_new(const void *pattern, size_t size, unsigned flags, const char *what, regex **made,
                 alibi_error *error);
void regex_free(regex *r);
bool regex_compiles(const char *pattern); /* is it one? */

status regex_begin(const regex *r, regex_match **match, alibi_error *error);
void regex_end(regex_match *match);

/* The first match at or after `from` in text, which is valid UTF-8 (not checked): *found, and where. */
status regex_find(const regex *r, regex_match *match, const unsigned char *text, size_t size, size_t from,
                  bool *found, size_t *start, size_t *end, alibi_error *error);

/* The last group that took part in the match found last; 0: none. */
size_t regex_last_group(const regex_match *match);

/* All matches of a text, one after the other.  An empty match directly after another match is none. */
typedef struct regex_walk {
  const regex *pattern;
  regex_match *match;
  const unsigned char *text;
  size_t size, from, last_end;
  bool after_match;
} regex_walk;

static inline regex_walk regex_walk_over(const regex *r, regex_match *match, const unsigned char *text,
                                         size_t size)
{
  return (regex_walk){r, match, text, size, 0, 0, false};
}
status regex_next(regex_walk *walk, bool *found, size_t *start, size_t *end, alibi_error *error);

#endif
