/* alibi/tokenizer.h - text to token ids and back.
 *
 * Text is bytes; any bytes are legal.  Token ids are uint32_t below alibi_tokenizer_vocabulary.  A tokenizer is
 * immutable: many threads may encode and decode with it.
 *
 * Decoding what was encoded gives the same bytes with the kinds "bytes" and "bpe" (what is trained here), and with
 * a "pipeline" (the tokenizer of a public model) that loses nothing: no normalizer, no unknown token, nothing
 * removed between words.  Other pipelines (lower case, NFC, WordPiece ...) give what their own library gives. */
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

/* A tokenizer.json, as written by _save or by Hugging Face's library; a SentencePiece .model; the vocabulary of a
 * GGUF file.  What such a file asks for and this library cannot do is refused by name; but a tokenizer.json's
 * `truncation` and `padding`, settings of a call in the library that wrote them, are not applied: a text is
 * encoded whole.  Which tokens are begin and end also comes from a tokenizer_config.json in the same folder; it is
 * an error where that names no token of the vocabulary.  _save writes one tokenizer.json, in which there is no
 * place for what came from such a file beside it (nor for padding): keep that file with it. */
ALIBI_API alibi_status alibi_tokenizer_open(const char *path, alibi_tokenizer **tokenizer, alibi_error *error);
ALIBI_API alibi_status alibi_tokenizer_save(const alibi_tokenizer *tokenizer, const char *path,
                                            alibi_error *error);
ALIBI_API void alibi_tokenizer_free(alibi_tokenizer *tokenizer);

ALIBI_API uint32_t alibi_tokenizer_vocabulary(const alibi_tokenizer *tokenizer);
ALIBI_API const char *alibi_tokenizer_kind(const alibi_tokenizer *tokenizer); /* "bytes", "bpe", "pipeline" */

/* *tokens: malloc'd, `*count` ids; release with alibi_tokens_free. */
ALIBI_API alibi_status alibi_tokenizer_encode(const alibi_tokenizer *tokenizer, const void *text, size_t size,
                                              uint32_t **tokens, size_t *count, alibi_error *error);
ALIBI_API void alibi_tokens_free(uint32_t *tokens);

/* Text is text: without options no string in it becomes a control token (such as "</s>"), and nothing is added. */
typedef struct alibi_encode_options {
  size_t size;     /* sizeof(alibi_encode_options), set by alibi_encode_options_init */
  int add_special; /* also the tokens that the tokenizer's post-processor puts around a text */
  int control;     /* strings that spell control tokens become them: for text from a trusted template only */
} alibi_encode_options;

ALIBI_API void alibi_encode_options_init(alibi_encode_options *options);

/* As _encode; options may be NULL. */
ALIBI_API alibi_status alibi_tokenizer_encode_with(const alibi_tokenizer *tokenizer,
                                                   const alibi_encode_options *options, const void *text,
                                                   size_t size, uint32_t **tokens, size_t *count,
                                                   alibi_error *error);

/* The control tokens that a tokenizer names; -1: it names none of the kind. */
typedef enum alibi_special {
  ALIBI_SPECIAL_BEGIN = 0, /* bos: the start of a text */
  ALIBI_SPECIAL_END,       /* eos: its end */
  ALIBI_SPECIAL_UNKNOWN,
  ALIBI_SPECIAL_PADDING,
  ALIBI_SPECIALS
} alibi_special;

ALIBI_API int64_t alibi_tokenizer_special(const alibi_tokenizer *tokenizer, alibi_special special);

/* Is it a control token (one that text never becomes by itself)?  0 or 1. */
ALIBI_API int alibi_tokenizer_is_control(const alibi_tokenizer *tokenizer, uint32_t token);

/* The id of the token that is spelled so in the vocabulary or among the added tokens ("</s>"); -1: none. */
ALIBI_API int64_t alibi_tokenizer_find(const alibi_tokenizer *tokenizer, const char *spelling);

/* Ids to text, whole or as they come.  The text of a stream, put together, is that of the whole; it comes in
 * whole characters: the bytes of one that is not complete yet wait for the next token, or for the end. */
typedef struct alibi_decode_options {
  size_t size;      /* sizeof(alibi_decode_options), set by alibi_decode_options_init */
  int skip_control; /* control tokens give no text (1 by _init) */
  int valid_utf8;   /* U+FFFD for what is no UTF-8 (1 by _init); else those bytes as they are */
} alibi_decode_options;

ALIBI_API void alibi_decode_options_init(alibi_decode_options *options);

/* *text: malloc'd, *size bytes and a NUL; release with alibi_text_free.  options may be NULL.  ALIBI_INVALID where
 * an id does not exist. */
ALIBI_API alibi_status alibi_tokenizer_decode(const alibi_tokenizer *tokenizer,
                                              const alibi_decode_options *options, const uint32_t *tokens,
                                              size_t count, char **text, size_t *size, alibi_error *error);
ALIBI_API void alibi_text_free(char *text);

typedef struct alibi_decoder alibi_decoder;

ALIBI_API alibi_status alibi_decoder_new(const alibi_tokenizer *tokenizer, const alibi_decode_options *options,
                                         alibi_decoder **decoder, alibi_error *error); /* borrows the tokenizer */
ALIBI_API void alibi_decoder_free(alibi_decoder *decoder);

/* The text that this token completes: *size bytes and a NUL, good until the next call with the decoder. */
ALIBI_API alibi_status alibi_decoder_add(alibi_decoder *decoder, uint32_t token, const char **text, size_t *size,
                                         alibi_error *error);
/* The text that was waiting; the decoder then begins anew. */
ALIBI_API alibi_status alibi_decoder_end(alibi_decoder *decoder, const char **text, size_t *size,
                                         alibi_error *error);

/* The bytes of one token in the middle of a text (borrowed, not NUL-terminated), not always whole characters; NULL
 * and *size 0 where the id does not exist.  Control tokens have none: not NULL, *size 0. */
ALIBI_API const unsigned char *alibi_tokenizer_bytes(const alibi_tokenizer *tokenizer, uint32_t token,
                                                     size_t *size);

#ifdef __cplusplus
}
#endif
#endif
