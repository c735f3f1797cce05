/* text/pre_tokenizer.h - a normalized text cut into the pieces that the model sees: a list of steps, each of which
 * cuts (and may rewrite) what the step before it cut.  Pieces go to the last step one by one, so that a text of
 * any length needs little memory beside it. */
#ifndef TEXT_PRE_TOKENIZER_H
#define TEXT_PRE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "file/json.h"

typedef struct pre_tokenizer pre_tokenizer; /* immutable, threads may share it */

/* node: the "pre_tokenizer" of a tokenizer.json, or null.  path names the file in errors. */
status pre_tokenizer_new(const json_node *node, const char *path, pre_tokenizer **made, alibi_error *error);
void pre_tokenizer_free(pre_tokenizer *p);
bool pre_tokenizer_spells_bytes(const pre_tokenizer *p); /* has it a ByteLevel step? */

/* Gets every piece (not empty).  raw: bytes that ByteLevel's alphabet is still to spell. */
typedef status (*piece_taker)(void *user, const unsigned char *piece, size_t size, bool raw, alibi_error *error);

typedef struct pre_tokenizer_memory pre_tokenizer_memory; /* what a call keeps from one text to the next */

status pre_tokenizer_begin(const pre_tokenizer *p, piece_taker take, void *user, pre_tokenizer_memory **memory,
                           alibi_error *error);
void pre_tokenizer_end(pre_tokenizer_memory *memory);

/* text: valid UTF-8; lead: see normalizer_run. */
status pre_tokenizer_run(pre_tokenizer_memory *memory, const unsigned char *text, size_t size, size_t lead,
                         alibi_error *error);

#endif
