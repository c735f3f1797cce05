/* alibi/session.h - decoding with a cache: prefill, step, sampling.
 *
 * A session holds the keys and values of one text.  The logits after any tokens are the same, to the bit, however
 * the tokens were cut into calls and whatever other sessions were stepped with it, and the same as those of a full
 * forward pass.  Sessions of one model share what they can: only the cache and the logits are a session's own.  So
 * all calls with one model and its sessions, different ones too, are made by one thread at a time.  A session that
 * failed a call is as it was before (with `keep`: see alibi_session_feed). */
#ifndef ALIBI_SESSION_H
#define ALIBI_SESSION_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alibi_session_options {
  size_t size;      /* sizeof(alibi_session_options) */
  int64_t capacity; /* most tokens it can hold, and the declared length of length-dependent methods; 0: the trained
                       length */
  const char *extend; /* NULL, or an extension of the model's position method, perhaps with settings: "ntk",
                         "yarn:factor=4,beta_fast=16" (`alibi positions NAME`) */
  /* 0: the keys and values of all tokens are kept.  Or of so many at most, on the average of all layers and heads,
   * in whole blocks of 64, rounded up; at least 384.  For methods whose bias falls by slopes above 0 on every
   * head, or by gates, such as alibi, alibi-learned and fox: steep heads need few keys and so leave room to gentle
   * ones.  The capacity may be far larger.  What is dropped is what is least likely to be asked for; that no query
   * would have asked for it is proved in each call, which fails otherwise.  So logits are those of a session that
   * keeps all, to the bit.  Memory is taken at once and does not grow with the text: beside keys and values, 6
   * bytes for each token kept, head and layer, and for each token of the capacity a quarter of a byte a layer and
   * key-value head. */
  int64_t keep;
} alibi_session_options;

typedef struct alibi_session alibi_session;

ALIBI_API void alibi_session_options_init(alibi_session_options *options);

/* The model must outlive the session; it cannot be trained meanwhile.  The first session of a model lays its
 * weights out for decoding, which takes as much memory again.  options may be NULL (defaults).  ALIBI_INVALID
 * where the model has no such positions or no such extension, or where keys may never be dropped (keep): the
 * method's bias falls neither by a slope above 0 on every head nor by gates, the context's tolerance is 0 or its
 * instruction set the reference. */
ALIBI_API alibi_status alibi_session_new(alibi_model *model, const alibi_session_options *options,
                                         alibi_session **session, alibi_error *error);
ALIBI_API void alibi_session_free(alibi_session *session);

/* A session that begins with the first `length` tokens of another, as if it had been fed them.  Where both keep
 * all, whole blocks of 64 tokens are shared, not copied.  options: NULL, or what is 0 or NULL there, is as in
 * `from`; the extension must be that of `from`, and with one the capacity.  Its logits are those of `from` if it
 * has all its tokens, and NULL until the next token if not.  Either may be freed, cleared, or fed first.
 * ALIBI_INVALID where `from` has fewer tokens, or has dropped what the next token would need. */
ALIBI_API alibi_status alibi_session_share(alibi_session *from, int64_t length,
                                           const alibi_session_options *options, alibi_session **session,
                                           alibi_error *error);

/* Takes in `count` more tokens.  ALIBI_INVALID where the capacity would be passed or an id is not below the
 * vocabulary.  A session with `keep` takes them in parts of 128; ALIBI_FAILED where a query of a part may look
 * farther back than what is kept (the sentence names layer and head).  It then has the parts before that one, as
 * it has when cancelled, with their logits: alibi_session_length says how many tokens.  It may go on with other
 * tokens. */
ALIBI_API alibi_status alibi_session_feed(alibi_session *session, const uint32_t *tokens, size_t count,
                                          alibi_error *error);

/* tokens[i] for sessions[i]: one token for each of `count` different sessions of one model, in one pass over the
 * weights (a pass for each capacity and extension that occurs, and for each 128 sessions).  Allocates nothing.
 * ALIBI_FAILED as in alibi_session_feed; then none of the sessions has taken its token. */
ALIBI_API alibi_status alibi_step(alibi_model *model, alibi_session *const *sessions, const uint32_t *tokens,
                                  size_t count, alibi_error *error);

/* Logits [vocabulary] after the last token; valid until the next call with this session.  NULL before the first
 * token, and in a session that shares less than all tokens of another before its next one. */
ALIBI_API const float *alibi_session_logits(const alibi_session *session);
ALIBI_API int64_t alibi_session_length(const alibi_session *session); /* tokens taken in */
ALIBI_API int64_t alibi_session_capacity(const alibi_session *session);
/* Tokens whose keys and values it keeps, on the average of all layers and heads; in whole blocks of 64, rounded
 * up. */
ALIBI_API int64_t alibi_session_kept(const alibi_session *session);
ALIBI_API void alibi_session_clear(alibi_session *session); /* as if new */

/* How to choose the next token.  In this order: temperature divides the logits; top_k keeps that many of the
 * largest; top_p keeps, of those, the fewest most probable that together have at least this probability.  Equal
 * logits: the smaller id first. */
typedef struct alibi_sampling {
  size_t size;        /* sizeof(alibi_sampling) */
  double temperature; /* 0: the largest logit, whatever the rest says */
  int64_t top_k;      /* 0: all */
  double top_p;       /* above 0; 1: all */
  uint64_t seed;
} alibi_sampling;

ALIBI_API void alibi_sampling_init(alibi_sampling *sampling); /* temperature 1, all tokens, seed 1 */

/* A pure function of logits, settings and index (the position of the token to choose).  ALIBI_INVALID where a
 * setting is out of range, a logit is not a number or infinite, or all are -infinity (which means: never). */
ALIBI_API alibi_status alibi_sample(const float *logits, size_t vocabulary, const alibi_sampling *sampling,
                                    uint64_t index, uint32_t *token, alibi_error *error);

#ifdef __cplusplus
}
#endif
#endif
