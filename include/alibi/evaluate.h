/* clang-format off */
/* alibi/evaluate.h - perplexity by exact protocols.
 *
 * W is the number of inputs of a window, S the stride.  Tokens are x[0..N-1]; x[0] is never scored.
 *
 *   nonoverlapping(W)  Window k reads x[kW .. kW+W-1] and scores the token after each; the last window may be
 *                      shorter.  Every token but the first is scored once, N-1 in all.
 *   sliding(W, S)      The first window scores all its tokens, each later one advances by S and scores its last
 *                      S; the last ends at x[N-2] and still reads W.  Every token but the first is scored once,
 *                      N-1 in all.  S = W is nonoverlapping(W), last window and all.
 *   fixed-target(W)    The same targets at every W of a sweep: each probe has exactly W inputs and scores its
 *                      last T outputs, T = min(200, smallest W of the sweep / 4), at least 1.
 *
 * A window that the text cannot fill, N <= W, is refused: its figure would be that of a shorter one.
 *
 * Means are over tokens; standard errors over blocks of at least 1000 tokens.  Results are the same, to the bit,
 * for any number of threads and any number of windows per batch. */
/* clang-format on */
#ifndef ALIBI_EVALUATE_H
#define ALIBI_EVALUATE_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum alibi_protocol {
  ALIBI_NONOVERLAPPING = 0,
  ALIBI_SLIDING,
  ALIBI_FIXED_TARGET,
  ALIBI_PROTOCOL_COUNT
} alibi_protocol;

typedef struct alibi_evaluate_options {
  size_t size;      /* sizeof(alibi_evaluate_options) */
  int protocol;     /* alibi_protocol */
  int64_t window;   /* W */
  int64_t stride;   /* sliding: S, at most W; 0: W / 4 (at least 1) */
  int64_t shortest; /* smallest W of the sweep; 0: W */
  int64_t longest; /* largest W of the sweep that the text can fill; 0: W.  All W of a sweep are scored on the same
                      text: see max_targets; fixed-target leaves room for it */
  int64_t max_targets; /* 0: all of the text.  Else nonoverlapping and sliding read the first M + 1 tokens, M the
                          larger of max_targets and longest, and fixed-target spreads max_targets / T probes (at
                          least one) over the text */
  const char *extend;  /* NULL, or an extension of the position method, perhaps with settings: "ntk",
                          "yarn:factor=4,beta_fast=16"; the length that it prepares for is W */
  int64_t batch_tokens; /* tokens of windows run at once (a longer window runs alone); 0: 512 a thread.  It bounds
                           memory and changes no result */
} alibi_evaluate_options;

typedef struct alibi_evaluate_result {
  size_t size; /* sizeof(alibi_evaluate_result), set by alibi_evaluate */
  int64_t window;
  int64_t stride;            /* sliding: S; nonoverlapping: W; fixed-target: T */
  int64_t tokens;            /* scored */
  int64_t bytes;             /* of the scored tokens' text; 0 where token_bytes was NULL */
  double nll;                /* mean, nats a token */
  double nll_standard_error; /* NaN with fewer than two blocks */
  double perplexity;         /* exp(nll) */
  double standard_error;     /* of the perplexity: perplexity * nll_standard_error */
  double bits_per_byte;      /* NaN without bytes */
  double seconds;            /* of the passes through the model */
  int64_t input_tokens;      /* tokens that went through the model */
} alibi_evaluate_result;

ALIBI_API void alibi_evaluate_options_init(alibi_evaluate_options *options);

/* tokens [count]; token_bytes [vocabulary]: bytes of each token's text, or NULL.  ALIBI_INVALID where an option is
 * wrong, the text is too short, the extension unknown, or the model has no such positions; ALIBI_CANCELLED between
 * batches. While it runs it may keep a second copy of the weights, so the model is not to be used elsewhere
 * meanwhile. */
ALIBI_API alibi_status alibi_evaluate(alibi_model *model, const uint32_t *tokens, size_t count,
                                      const uint32_t *token_bytes, const alibi_evaluate_options *options,
                                      alibi_evaluate_result *result, alibi_error *error);

/* Name of a protocol, as in results: "sliding"; NULL where there is none. */
ALIBI_API const char *alibi_protocol_name(int protocol);

#ifdef __cplusplus
}
#endif
#endif
