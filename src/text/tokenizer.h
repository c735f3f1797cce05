/* text/tokenizer.h - text to token ids and back.  Any bytes are legal text. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "file/json.h"
#include "text/token_decoder.h"

/* One row of the registry (text/CMakeLists.txt).  A state is immutable once made, so that threads share it.
 * `open` gets the parsed tokenizer.json that lies at `path` and returns ALIBI_OK with *state NULL where that is
 * not of its kind.  `encode`: *tokens from malloc, never NULL on success. */
typedef struct tokenizer_kind {
  const char *name; /* "bytes", "bpe", "pipeline" */
  status (*encode)(const void *state, const unsigned char *text, size_t size, uint32_t **tokens, size_t *count,
                   alibi_error *error);
  const unsigned char *(*bytes_of)(const void *state, uint32_t token, size_t *size); /* NULL: no such token */
  uint32_t (*vocabulary)(const void *state);
  status (*save)(const void *state, const char *path, alibi_error *error); /* a tokenizer.json */
  status (*open)(const json_node *root, const char *path, void **state, alibi_error *error);
  void (*free)(void *state);
  /* The rest may be NULL: no control tokens, and the text of ids is the bytes of each. */
  status (*encode_with)(const void *state, bool add_special, bool control, const unsigned char *text, size_t size,
                        uint32_t **tokens, size_t *count, alibi_error *error);
  int64_t (*special)(const void *state, alibi_special special); /* -1: none */
  bool (*is_control)(const void *state, uint32_t token);
  int64_t (*find)(const void *state, const char *spelling);
  const token_decoder *(*decoder)(const void *state);
  /* What the decoder gets; NULL: no such token.  *skip: decoding without control tokens leaves it out. */
  const unsigned char *(*spelling)(const void *state, uint32_t token, size_t *size, bool *skip);
} tokenizer_kind;

/* A kind of file that holds a tokenizer: a row of its own registry, the first that recognises the file opens it.
 * tokenizer.json is one of them (tokenizer_json), and the last. */
typedef struct tokenizer_format {
  const char *name; /* "tokenizer.json", "SentencePiece", "GGUF" */
  bool (*recognise)(const unsigned char *data, size_t size);
  status (*open)(const char *path, alibi_tokenizer **made, alibi_error *error);
} tokenizer_format;

/* tokenizer_config.json in the folder of `path`; *config NULL: there is none.  node_free it. */
status tokenizer_config_read(const char *path, json_node **config, alibi_error *error);

/* Takes over the state, also when it fails. */
status tokenizer_wrap(const tokenizer_kind *kind, void *state, alibi_tokenizer **tokenizer, alibi_error *error);

struct alibi_tokenizer {
  const tokenizer_kind *kind;
  void *state;
};

/* [vocabulary] bytes of each token's text, for bits a byte (alibi_evaluate); memory_free it. */
status tokenizer_token_bytes(const alibi_tokenizer *tokenizer, uint32_t **token_bytes, alibi_error *error);

#endif
