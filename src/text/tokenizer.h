/* text/tokenizer.h - text to token ids and back.  Any bytes are legal text: decode(encode(x)) == x. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "file/json.h"

/* One row of the registry (text/CMakeLists.txt).  A state is immutable once made, so that threads share it.
 * `open` gets the parsed tokenizer.json that lies at `path` and returns ALIBI_OK with *state NULL where that is
 * not of its kind.  `encode`: *tokens from malloc, never NULL on success. */
typedef struct tokenizer_kind {
  const char *name; /* "bytes", "bpe" */
  status (*encode)(const void *state, const unsigned char *text, size_t size, uint32_t **tokens, size_t *count,
                   alibi_error *error);
  const unsigned char *(*bytes_of)(const void *state, uint32_t token, size_t *size); /* NULL: no such token */
  uint32_t (*vocabulary)(const void *state);
  status (*save)(const void *state, const char *path, alibi_error *error); /* a tokenizer.json */
  status (*open)(const json_node *root, const char *path, void **state, alibi_error *error);
  void (*free)(void *state);
} tokenizer_kind;

/* A kind of file that holds a tokenizer: a row of its own registry, the first that recognises the file opens it.
 * tokenizer.json is one of them (tokenizer_json), and the last. */
typedef struct tokenizer_format {
  const char *name; /* "tokenizer.json", "SentencePiece", "GGUF" */
  bool (*recognise)(const unsigned char *data, size_t size);
  status (*open)(const char *path, alibi_tokenizer **made, alibi_error *error);
} tokenizer_format;

struct alibi_tokenizer {
  const tokenizer_kind *kind;
  void *state;
};

/* [vocabulary] bytes of each token's text, for bits a byte (alibi_evaluate); memory_free it. */
status tokenizer_token_bytes(const alibi_tokenizer *tokenizer, uint32_t **token_bytes, alibi_error *error);

#endif
