/* text/tokenizer_json.h - the file format of Hugging Face's tokenizers library, as far as byte-level BPE needs it.
 * What this house cannot do is refused by name, never ignored: a skipped normalizer would give other ids. */
#ifndef TEXT_TOKENIZER_JSON_H
#define TEXT_TOKENIZER_JSON_H

#include <stdbool.h>

#include "base/error.h"
#include "file/json.h"
#include "text/bpe_model.h"

/* Is the model's type BPE? */
bool tokenizer_json_is_bpe(const json_node *root);

/* Every part of the file one that we do as the library does it? */
status tokenizer_json_check(const json_node *root, const char *path, alibi_error *error);

/* Vocabulary and merges, both checked: ids 0 .. V-1, each once; merges of known tokens into known tokens. */
status tokenizer_json_read(const json_node *root, const char *path, bpe **read, alibi_error *error);

/* Writes a file around an object of tokens and an array of merges; takes over both. */
status tokenizer_json_write(json_node *vocabulary, json_node *merges, const char *path, alibi_error *error);

#endif
