/* model/published_tokenizer.h - the tokenizer of a directory for transformers. */
#ifndef MODEL_PUBLISHED_TOKENIZER_H
#define MODEL_PUBLISHED_TOKENIZER_H

#include "alibi/tokenizer.h"

/* ALIBI_INVALID where no other program could read its tokenizer.json: SentencePiece's rules have no words
 * there. */
alibi_status published_tokenizer_check(const alibi_tokenizer *tokenizer, alibi_error *error);

/* tokenizer.json, and tokenizer_config.json, which names its control tokens and the length of the model. */
alibi_status published_tokenizer_write(const alibi_tokenizer *tokenizer, const char *directory, int64_t length,
                                       alibi_error *error);

#endif
