/* text/token_model.h - the part of a tokenizer that turns one piece of text into ids: the "model" of a
 * tokenizer.json (BPE, Unigram, WordPiece, WordLevel).  What surrounds it (normalising, cutting into pieces, added
 * tokens, decoding) is the pipeline's (text/pipeline.h). */
#ifndef TEXT_TOKEN_MODEL_H
#define TEXT_TOKEN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"

typedef struct token_list { /* start from {0}; free(ids) */
  uint32_t *ids;
  size_t count, capacity;
} token_list;

status token_list_add(token_list *list, uint32_t id, alibi_error *error);

/* One row of the registry (text/CMakeLists.txt).  A state is immutable once made: threads share it, so what a
 * call needs to work with it allocates itself, or takes from its memo of the call (below).  Pieces are valid
 * UTF-8 and not empty; a spelling is what the vocabulary of the file says (ByteLevel's alphabet, U+2581, "##..."),
 * not the bytes that the user sees: that is the decoder's work. */
typedef struct token_model {
  const char *name; /* the "type" of the file: "BPE" */

  /* The "model" object of a tokenizer.json; old files have no "type" (then: is it this one? *state NULL where
   * not).  A key that is not understood is refused by name. */
  status (*open)(const json_node *model, const char *path, void **state, alibi_error *error);

  /* Appends the ids of one piece.  Time about linear in size.  `memo`: NULL, or memory that the model may
   * keep between the pieces of one call (begin_memo/end_memo). */
  status (*encode_piece)(const void *state, void *memo, const unsigned char *piece, size_t size, token_list *out,
                         alibi_error *error);

  /* How a token is spelled (borrowed); NULL: no such id. */
  const unsigned char *(*spelling)(const void *state, uint32_t id, size_t *size);
  int64_t (*find)(const void *state, const unsigned char *spelling, size_t size); /* -1: not in the vocabulary */
  uint32_t (*vocabulary)(const void *state);                                      /* largest id + 1, holes count */
  int64_t (*unknown)(const void *state); /* the id of the unknown token, -1: none */

  /* The "model" object again: opening it gives the same model, describing that the same object. */
  status (*describe)(const void *state, json_node **model, alibi_error *error);
  void (*free)(void *state);

  /* Both NULL where the model needs none. */
  status (*begin_memo)(const void *state, void **memo, alibi_error *error);
  void (*end_memo)(void *memo);

  /* It takes a text whole, and has rules of its own for bytes that are no UTF-8. */
  bool any_bytes;
} token_model;

#endif
