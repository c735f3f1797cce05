/* text/script_runs.h - a text cut where its script changes, as SentencePiece does it: Hiragana and Katakana count
 * as Han, a blank and what has no script go with what is before them.  What lies before the first character that
 * has a script is in no run. */
#ifndef TEXT_SCRIPT_RUNS_H
#define TEXT_SCRIPT_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct script_runs script_runs; /* immutable */

status script_runs_new(script_runs **made, alibi_error *error);
void script_runs_free(script_runs *s);

enum { SCRIPT_CACHE = 512 };

typedef struct script_walk {
  const script_runs *scripts;
  struct regex_match *match;
  const unsigned char *text;
  size_t size, at;
  struct {
    uint32_t character;
    size_t script;
  } cache[SCRIPT_CACHE];
} script_walk;

/* begin -> next until *end is *start -> end.  text is valid UTF-8. */
status script_walk_begin(script_walk *walk, const script_runs *s, const unsigned char *text, size_t size,
                         alibi_error *error);
status script_walk_next(script_walk *walk, size_t *start, size_t *end, alibi_error *error);
void script_walk_end(script_walk *walk);

#endif
