/* text/split.h - text cut into pieces that merges never cross, by GPT-2's pattern:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * where \s is Unicode's White_Space.  A longest stretch of bytes that are not UTF-8 is a piece of its own, so the
 * pieces cover every text. */
#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H

#include <stddef.h>

#include "base/error.h"

typedef struct splitter splitter; /* the compiled pattern; immutable, threads may share it */

status splitter_new(splitter **made, alibi_error *error);
void splitter_free(splitter *made);

/* A walk over one text.  split_begin -> split_next until *length is 0 -> split_end. */
typedef struct split_walk {
  const splitter *pattern;
  struct regex_match *match;
  const unsigned char *text;
  size_t size, position;
  size_t run_start, run_end; /* the stretch of valid UTF-8 around position */
} split_walk;

status split_begin(split_walk *walk, const splitter *pattern, const unsigned char *text, size_t size,
                   alibi_error *error);
status split_next(split_walk *walk, size_t *start, size_t *length, alibi_error *error);
void split_end(split_walk *walk);

#endif
