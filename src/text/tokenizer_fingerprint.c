/* A tokenizer as bytes: its kind, its tokens in the order of ids, each after its length, and its merges by rank; a
 * pipeline also as what would be saved of it. */
#include "text/tokenizer_fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "text/bpe_model.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"

status tokenizer_fingerprint(const alibi_tokenizer *tokenizer, uint64_t *value, alibi_error *error)
{
  fingerprint *f;
  status result = fingerprint_begin(&f, error);
  if (result != ALIBI_OK) return result;
  const char *kind = alibi_tokenizer_kind(tokenizer);
  fingerprint_add(f, kind, strlen(kind) + 1);
  for (uint32_t id = 0; id < alibi_tokenizer_vocabulary(tokenizer); id++) {
    size_t size;
    const unsigned char *bytes = alibi_tokenizer_bytes(tokenizer, id, &size);
    uint32_t length = (uint32_t)size;
    fingerprint_add(f, &length, sizeof length);
    fingerprint_add(f, bytes, size);
  }
  if (strcmp(kind, "bpe") == 0) {
    const bpe *b = tokenizer->state;
    fingerprint_add(f, b->merges, b->merge_count * sizeof *b->merges);
  }
  if (strcmp(kind, "pipeline") == 0) {
    json_node *root;
    char *text = NULL;
    result = pipeline_describe(tokenizer->state, &root, error);
    if (result == ALIBI_OK) text = node_to_text(root);
    if (result == ALIBI_OK && !text) result = fail(error, ALIBI_FAILED, "not enough memory for a fingerprint");
    if (text) fingerprint_add(f, text, strlen(text));
    free(text);
    node_free(root);
  }
  *value = fingerprint_value(f);
  if (*value == 0) *value = 1;
  fingerprint_free(f);
  return result;
}
