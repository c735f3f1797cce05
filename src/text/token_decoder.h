/* text/token_decoder.h - spellings of tokens to text, token by token: the "decoder" of a tokenizer.json.  A step
 * gets tokens in parts (what is fused is one token in many parts) and hands on what it is sure of, so that a text
 * streams through; a step that must see a whole token (a pattern, the clean-up of WordPiece) waits for its end. */
#ifndef TEXT_TOKEN_DECODER_H
#define TEXT_TOKEN_DECODER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "file/json.h"
#include "text/text_buffer.h"

typedef struct token_decoder token_decoder; /* immutable, threads may share it */

/* node: the "decoder" of a tokenizer.json; null: spellings with a blank between them. */
status token_decoder_new(const json_node *node, const char *path, token_decoder **made, alibi_error *error);
void token_decoder_free(token_decoder *d);
const token_decoder *token_decoder_plain(void); /* spellings one after the other */

typedef struct decoding decoding; /* one text on its way */

/* valid: U+FFFD for what is no UTF-8, else those bytes as they are. */
status decoding_begin(const token_decoder *d, bool valid, decoding **made, alibi_error *error);
void decoding_end(decoding *s);

/* Appends to `to` the text that the next token completes; _finish: what was waiting, and begins anew. */
status decoding_add(decoding *s, const unsigned char *spelling, size_t size, text_buffer *to, alibi_error *error);
status decoding_finish(decoding *s, text_buffer *to, alibi_error *error);

#endif
