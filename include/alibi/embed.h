/* alibi/embed.h - a text as one vector: the mean of a model's last hidden states over the tokens (mean pooling).
 *
 * Meant for encoders such as jina-bert-v2, whose symmetric ALiBi has no longest text: a whole document is read at
 * once, and attention skips what is proven to be invisible, so that the cost grows with the text.  Decoders can be
 * asked too. */
#ifndef ALIBI_EMBED_H
#define ALIBI_EMBED_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alibi_embed_options {
  size_t size;      /* sizeof(alibi_embed_options), set by alibi_embed_options_init */
  double tolerance; /* of each row's attention at most this share is left out, by proof; 0: nothing.  2^-24 by
                       _init, which fp32 cannot tell from nothing */
  bool normalise;   /* to length 1; true by _init */
} alibi_embed_options;

ALIBI_API void alibi_embed_options_init(alibi_embed_options *options);

/* tokens [count], with what the tokenizer adds (alibi_encode_options.add_special), run as one sequence; count is
 * also the declared length of position methods that have one.  vector [C], the model's width.  options may be
 * NULL.  ALIBI_INVALID where an id or a position does not exist, or there is no token; ALIBI_BAD_INPUT where
 * the model's weights lead to no numbers; ALIBI_CANCELLED. */
ALIBI_API alibi_status alibi_embed(alibi_model *model, const uint32_t *tokens, size_t count,
                                   const alibi_embed_options *options, float *vector, alibi_error *error);

#ifdef __cplusplus
}
#endif
#endif
