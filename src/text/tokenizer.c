/* The public face of the tokenizers: a tokenizer is a kind and that kind's state.  Nothing here knows how any kind
 * works.  Opening files is in tokenizer_file.c, decoding in token_stream.c. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/settings.h"
#include "text/bpe_model.h"

extern const tokenizer_kind tokenizer_bytes, tokenizer_bpe;

status tokenizer_wrap(const tokenizer_kind *kind, void *state, alibi_tokenizer **tokenizer, alibi_error *error)
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
  return tokenizer_wrap(&tokenizer_bytes, NULL, tokenizer, error);
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
  if (trained->merge_count > 0) return tokenizer_wrap(&tokenizer_bpe, trained, tokenizer, error);
  bpe_free(trained); /* the kind that its file will open as */
  return tokenizer_wrap(&tokenizer_bytes, NULL, tokenizer, error);
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

void alibi_encode_options_init(alibi_encode_options *options)
{
  if (options) *options = (alibi_encode_options){.size = sizeof *options};
}

alibi_status alibi_tokenizer_encode_with(const alibi_tokenizer *tokenizer, const alibi_encode_options *options,
                                         const void *text, size_t size, uint32_t **tokens, size_t *count,
                                         alibi_error *error)
{
  alibi_encode_options o;
  if (!tokenizer || !tokens || !count || (size > 0 && !text))
    return fail(error, ALIBI_INVALID, "alibi_tokenizer_encode: no tokenizer, no text, or no place for the tokens");
  *tokens = NULL;
  *count = 0;
  alibi_encode_options_init(&o);
  status result = options ? settings_take(options, &o, sizeof o, "alibi_encode_options", error) : ALIBI_OK;
  if (result != ALIBI_OK) return result;
  const tokenizer_kind *kind = tokenizer->kind;
  if (size == 0) text = "";
  return kind->encode_with
             ? kind->encode_with(tokenizer->state, o.add_special, o.control, text, size, tokens, count, error)
             : kind->encode(tokenizer->state, text, size, tokens, count, error);
}

alibi_status alibi_tokenizer_encode(const alibi_tokenizer *tokenizer, const void *text, size_t size,
                                    uint32_t **tokens, size_t *count, alibi_error *error)
{
  return alibi_tokenizer_encode_with(tokenizer, NULL, text, size, tokens, count, error);
}

int64_t alibi_tokenizer_special(const alibi_tokenizer *tokenizer, alibi_special special)
{
  if (!tokenizer || !tokenizer->kind->special || (int)special < 0 || special >= ALIBI_SPECIALS) return -1;
  return tokenizer->kind->special(tokenizer->state, special);
}

int alibi_tokenizer_is_control(const alibi_tokenizer *tokenizer, uint32_t token)
{
  return tokenizer && tokenizer->kind->is_control && tokenizer->kind->is_control(tokenizer->state, token);
}

int64_t alibi_tokenizer_find(const alibi_tokenizer *tokenizer, const char *spelling)
{
  if (!tokenizer || !spelling) return -1;
  if (tokenizer->kind->find) return tokenizer->kind->find(tokenizer->state, spelling);
  size_t size = strlen(spelling), other;
  for (uint32_t token = 0; token < alibi_tokenizer_vocabulary(tokenizer); token++) {
    const unsigned char *bytes = alibi_tokenizer_bytes(tokenizer, token, &other);
    if (other == size && memcmp(bytes, spelling, size) == 0) return token;
  }
  return -1;
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
