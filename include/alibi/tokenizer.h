/* alibi/tokenizer.h - text to token ids and back.
 *
 * Text is bytes; any bytes are legal, and decoding what was encoded gives the same bytes.  Token ids are
 * uint32_t below alibi_tokenizer_vocabulary.  A tokenizer is immutable: many threads
 * may encode and decode with it. */
#ifndef ALIBI_TOKENIZER_H
#define ALIBI_TOKENIZER_H

#include "alibi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alibi_tokenizer alibi_tokenizer;

/* 256 tokens, token b is byte b. */
ALIBI_API alibi_status alibi_tokenizer_new_bytes(alibi_tokenizer **tokenizer, alibi_error *error);

/* Trains a byte-level BPE on `count` texts (the pre-tokenizer is GPT-2's pattern; merges never cross it).
 * vocabulary: 256 .. 1,000,000; fewer tokens result where the texts have no more pairs that occur twice.
 * Without a single merge it is a bytes tokenizer.  A token has at most 1024 bytes, so that a long run of one
 * letter does not fill the vocabulary.
 * Deterministic: the most frequent pair is merged, ties by the smaller ids. */
ALIBI_API alibi_status alibi_tokenizer_train(const char *const *texts, const size_t *sizes, size_t count,
                                             uint32_t vocabulary, alibi_tokenizer **tokenizer, alibi_error *error);

/* A tokenizer.json, as written by _save; also those of Hugging Face's library for byte-level BPE. */
ALIBI_API alibi_status alibi_tokenizer_open(const char *path, alibi_tokenizer **tokenizer, alibi_error *error);
ALIBI_API alibi_status alibi_tokenizer_save(const alibi_tokenizer *tokenizer, const char *path,
                                            alibi_error *error);
ALIBI_API void alibi_tokenizer_free(alibi_tokenizer *tokenizer);

ALIBI_API uint32_t alibi_tokenizer_vocabulary(const alibi_tokenizer *tokenizer);
ALIBI_API const char *alibi_tokenizer_kind(const alibi_tokenizer *tokenizer); /* "bytes" or "bpe" */

/* *tokens: malloc'd, `*count` ids; release with alibi_tokens_free. */
ALIBI_API alibi_status alibi_tokenizer_encode(const alibi_tokenizer *tokenizer, const void *text, size_t size,
                                              uint32_t **tokens, size_t *count, alibi_error *error);
ALIBI_API void alibi_tokens_free(uint32_t *tokens);

/* The bytes of one token (borrowed, not NUL-terminated); NULL and *size 0 where the id does not exist. */
ALIBI_API const unsigned char *alibi_tokenizer_bytes(const alibi_tokenizer *tokenizer, uint32_t token,
                                                     size_t *size);

#ifdef __cplusplus
}
#endif
#endif
