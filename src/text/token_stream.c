/* Ids to text, for programs: a decoder of the tokenizer's kind, or the bytes of tokens one after the other, and
 * the gate that lets only whole characters out. */
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "text/text_buffer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"

struct alibi_decoder {
  const alibi_tokenizer *tokenizer;
  alibi_decode_options options;
  decoding *state;
  text_buffer text;
};

void alibi_decode_options_init(alibi_decode_options *options)
{
  if (options) *options = (alibi_decode_options){sizeof *options, 1, 1};
}

alibi_status alibi_decoder_new(const alibi_tokenizer *tokenizer, const alibi_decode_options *options,
                               alibi_decoder **decoder, alibi_error *error)
{
  status result = ALIBI_OK;
  if (!tokenizer || !decoder) return fail(error, ALIBI_INVALID, "alibi_decoder_new: no tokenizer, or no place");
  *decoder = NULL;
  alibi_decoder *d = calloc(1, sizeof *d);
  if (!d) return fail(error, ALIBI_FAILED, "not enough memory to decode");
  const tokenizer_kind *kind = tokenizer->kind;
  d->tokenizer = tokenizer;
  alibi_decode_options_init(&d->options);
  if (options) TRY(settings_take(options, &d->options, sizeof d->options, "alibi_decode_options", error));
  TRY(decoding_begin(kind->decoder ? kind->decoder(tokenizer->state) : token_decoder_plain(),
                     d->options.valid_utf8, &d->state, error));
  *decoder = d;
  d = NULL;
done:
  alibi_decoder_free(d);
  return result;
}

void alibi_decoder_free(alibi_decoder *decoder)
{
  if (!decoder) return;
  decoding_end(decoder->state);
  buffer_free(&decoder->text);
  free(decoder);
}

/* Appends to d->text. */
static status add(alibi_decoder *d, uint32_t token, alibi_error *error)
{
  const tokenizer_kind *kind = d->tokenizer->kind;
  const void *state = d->tokenizer->state;
  size_t size = 0;
  bool skip = false;
  const unsigned char *spelling =
      kind->spelling ? kind->spelling(state, token, &size, &skip) : kind->bytes_of(state, token, &size);
  if (!spelling)
    return fail(error, ALIBI_INVALID, "token %u: the tokenizer has none of this id (its ids are below %u)",
                (unsigned)token, (unsigned)alibi_tokenizer_vocabulary(d->tokenizer));
  if (skip && d->options.skip_control) return ALIBI_OK;
  return decoding_add(d->state, spelling, size, &d->text, error);
}

static status show(alibi_decoder *d, const char **text, size_t *size, alibi_error *error)
{
  status result = buffer_add(&d->text, "", 1, error);
  if (result != ALIBI_OK) return result;
  d->text.size--;
  *text = (const char *)d->text.data;
  *size = d->text.size;
  return ALIBI_OK;
}

alibi_status alibi_decoder_add(alibi_decoder *decoder, uint32_t token, const char **text, size_t *size,
                               alibi_error *error)
{
  if (!decoder || !text || !size) return fail(error, ALIBI_INVALID, "alibi_decoder_add: no decoder, or no place");
  decoder->text.size = 0;
  status result = add(decoder, token, error);
  return result == ALIBI_OK ? show(decoder, text, size, error) : result;
}

alibi_status alibi_decoder_end(alibi_decoder *decoder, const char **text, size_t *size, alibi_error *error)
{
  if (!decoder || !text || !size) return fail(error, ALIBI_INVALID, "alibi_decoder_end: no decoder, or no place");
  decoder->text.size = 0;
  status result = decoding_finish(decoder->state, &decoder->text, error);
  return result == ALIBI_OK ? show(decoder, text, size, error) : result;
}

alibi_status alibi_tokenizer_decode(const alibi_tokenizer *tokenizer, const alibi_decode_options *options,
                                    const uint32_t *tokens, size_t count, char **text, size_t *size,
                                    alibi_error *error)
{
  status result = ALIBI_OK;
  alibi_decoder *d = NULL;
  const char *made;
  if (!tokenizer || !text || !size || (count > 0 && !tokens))
    return fail(error, ALIBI_INVALID, "alibi_tokenizer_decode: no tokenizer, no tokens, or no place for the text");
  *text = NULL;
  *size = 0;
  TRY(alibi_decoder_new(tokenizer, options, &d, error));
  for (size_t i = 0; i < count; i++) TRY(add(d, tokens[i], error));
  TRY(decoding_finish(d->state, &d->text, error));
  TRY(show(d, &made, size, error));
  *text = (char *)d->text.data;
  d->text = (text_buffer){0};
done:
  alibi_decoder_free(d);
  return result;
}

void alibi_text_free(char *text)
{
  free(text);
}
