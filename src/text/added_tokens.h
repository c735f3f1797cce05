/* text/added_tokens.h - tokens that are found in the text itself, before the model sees it: control tokens, and
 * words that were added to a vocabulary.  Some want the raw text, some the normalized one.  Of several that begin
 * at the leftmost place the longest is taken. */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "text/normalizer.h"
#include "text/token_model.h"

typedef struct added_token {
  uint32_t id;
  char *content;
  char *spelling; /* the content, normalized where the token wants that: what is searched and what is decoded */
  size_t size;    /* of the spelling */
  bool single_word, strip_left, strip_right, normalized;
  bool control;          /* special */
  bool control_spelling; /* the spelling is the content of some control token: decoding may skip it */
} added_token;

typedef struct added_set { /* what is searched together, by spelling */
  const added_token **tokens;
  size_t count;
  size_t first[257]; /* those whose spelling begins with byte b: first[b] .. first[b + 1] */
} added_set;

typedef struct added_tokens {
  added_token *tokens; /* by id */
  size_t count, capacity;
  added_set raw, normalized;
} added_tokens;

/* node: "added_tokens" of a tokenizer.json, or null. */
status added_tokens_read(const json_node *node, const char *path, const token_model *model, const void *state,
                         const normalizer *n, added_tokens *tokens, alibi_error *error);
void added_tokens_free(added_tokens *tokens);

const added_token *added_tokens_by_id(const added_tokens *tokens, uint32_t id);
const added_token *added_tokens_by_content(const added_tokens *tokens, const char *content);

/* A walk over a text, valid UTF-8: a stretch after the other; token NULL: a gap.  A stretch may be empty. */
typedef struct added_walk {
  const added_set *set;
  const unsigned char *text;
  size_t size, at, given; /* searched to; handed out to */
  bool control;           /* look for control tokens too */
  const added_token *coming;
  size_t coming_end;
} added_walk;

static inline added_walk added_walk_over(const added_set *set, bool control, const unsigned char *text,
                                         size_t size)
{
  return (added_walk){.set = set, .text = text, .size = size, .control = control};
}

/* false at the end. */
bool added_walk_next(added_walk *walk, const added_token **token, size_t *start, size_t *end);

#endif
