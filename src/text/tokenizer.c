/* The public face of the tokenizers: a tokenizer is a row of the registry and that row's state.  Nothing here
 * knows how any kind works; a new kind is a file and a name in CMakeLists.txt. */
#include "text/tokenizer.h"

#include <stdlib.h>

#include "base/memory.h"
#include "text/bpe_model.h"
#include "tokenizer_registry.inc"

static status wrap(const tokenizer_kind *kind, void *state, alibi_tokenizer **tokenizer, alibi_error *error)
{
  alibi_tokenizer *made = malloc(sizeof *made);
  if (!made) {
    kind->free(state);
    return fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  }
  *made = (alibi_tokenizer){kind, state};
  *tokenizer = made;
  return ALIBI_OK;
}

alibi_status alibi_tokenizer_new_bytes(alibi_tokenizer **tokenizer, alibi_error *error)
{
  if (!tokenizer) return fail(error, ALIBI_INVALID, "alibi_tokenizer_new_bytes: no place for the tokenizer");
  *tokenizer = NULL;
  return wrap(&tokenizer_bytes, NULL, tokenizer, error);
}

alibi_status alibi_tokenizer_train(const char *const *texts, const size_t *sizes, size_t count,
                                   uint32_t vocabulary, alibi_tokenizer **tokenizer, alibi_error *error)
{
  if (!tokenizer || (count > 0 && (!texts || !sizes)))
    return fail(error, ALIBI_INVALID, "alibi_tokenizer_train: no texts, or no place for the tokenizer");
  *tokenizer = NULL;
  bpe *trained;
  status result = bpe_train(texts, sizes, count, vocabulary, &trained, error);
  if (result != ALIBI_OK) return result;
  if (trained->merge_count > 0) return wrap(&tokenizer_bpe, trained, tokenizer, error);
  bpe_free(trained); /* the kind that its file will open as */
  return wrap(&tokenizer_bytes, NULL, tokenizer, error);
}

static status open_kind(const json_node *root, const char *path, alibi_tokenizer **tokenizer, alibi_error *error)
{
  for (size_t i = 0; i < TOKENIZER_COUNT; i++) {
    const tokenizer_kind *kind = tokenizer_registry[i];
    void *state = NULL;
    status result = kind->open(root, path, &state, error);
    if (result != ALIBI_OK) return result;
    if (state) return wrap(kind, state, tokenizer, error);
  }
  return fail(error, ALIBI_BAD_INPUT, "%s: expected a tokenizer.json whose model type is BPE, found '%s'", path,
              node_text(node_get(node_get(root, "model"), "type"), "no model type"));
}

alibi_status alibi_tokenizer_open(const char *path, alibi_tokenizer **tokenizer, alibi_error *error)
{
  if (!path || !tokenizer) return fail(error, ALIBI_INVALID, "alibi_tokenizer_open: no path, or no place");
  *tokenizer = NULL;
  json_node *root = NULL;
  status result = node_read_file(path, &root, error);
  if (result == ALIBI_OK) result = open_kind(root, path, tokenizer, error);
  node_free(root);
  return result;
}

alibi_status alibi_tokenizer_save(const alibi_tokenizer *tokenizer, const char *path, alibi_error *error)
{
  if (!tokenizer || !path) return fail(error, ALIBI_INVALID, "alibi_tokenizer_save: no tokenizer or no path");
  return tokenizer->kind->save(tokenizer->state, path, error);
}

void alibi_tokenizer_free(alibi_tokenizer *tokenizer)
{
  if (!tokenizer) return;
  tokenizer->kind->free(tokenizer->state);
  free(tokenizer);
}

uint32_t alibi_tokenizer_vocabulary(const alibi_tokenizer *tokenizer)
{
  return tokenizer ? tokenizer->kind->vocabulary(tokenizer->state) : 0;
}

const char *alibi_tokenizer_kind(const alibi_tokenizer *tokenizer)
{
  return tokenizer ? tokenizer->kind->name : "";
}

alibi_status alibi_tokenizer_encode(const alibi_tokenizer *tokenizer, const void *text, size_t size,
                                    uint32_t **tokens, size_t *count, alibi_error *error)
{
  if (!tokenizer || !tokens || !count || (size > 0 && !text))
    return fail(error, ALIBI_INVALID, "alibi_tokenizer_encode: no tokenizer, no text, or no place for the tokens");
  *tokens = NULL;
  *count = 0;
  return tokenizer->kind->encode(tokenizer->state, size > 0 ? text : (const void *)"", size, tokens, count, error);
}

void alibi_tokens_free(uint32_t *tokens)
{
  free(tokens);
}

const unsigned char *alibi_tokenizer_bytes(const alibi_tokenizer *tokenizer, uint32_t token, size_t *size)
{
  size_t ignored;
  if (!size) size = &ignored;
  *size = 0;
  return tokenizer ? tokenizer->kind->bytes_of(tokenizer->state, token, size) : NULL;
}

status tokenizer_token_bytes(const alibi_tokenizer *tokenizer, uint32_t **token_bytes, alibi_error *error)
{
  uint32_t vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  status result = memory_new(token_bytes, vocabulary, sizeof **token_bytes, "the lengths of tokens", error);
  for (uint32_t token = 0; result == ALIBI_OK && token < vocabulary; token++) {
    size_t size;
    alibi_tokenizer_bytes(tokenizer, token, &size);
    (*token_bytes)[token] = (uint32_t)size;
  }
  return result;
}
