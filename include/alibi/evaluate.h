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
 *                      last T outputs, T = min(200, smallest W of the sweep / 4), at least 1.  Refused where the
 *                      text has no room for the longest W.
 *   streaming(W, S)    The first piece is the first window; each later one reads S tokens (the last one what is
 *                      left) behind a cache that is carried on: it sees the cache's last W - S tokens and itself,
 *                      at positions that go on to the end of the text, which is the length that the position
 *                      method and its extension prepare for.  N-1 scored.  Not sliding: in a model of more than
 *                      one layer an old entry of the cache knows of tokens farther back than W.
 *
 * With a beginning token each window, and the first piece of streaming, begins with it: it counts among the W
 * inputs and is never scored.  A text of several documents is evaluated document by document: no window holds
 * tokens of two, and the first token of none is scored.
 *
 * Where N <= W the protocols but fixed-target agree: one window of N-1 inputs.  That it was shorter than asked for
 * is in the result (longest_window).
 *
 * Means are over tokens; standard errors over blocks: runs of at least 1000 tokens of a document, or a document
 * that is shorter than two of these.  Results are the same, to the bit, for any number of threads and any number
 * of windows per batch. */
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
  ALIBI_STREAMING,
  ALIBI_PROTOCOL_COUNT
} alibi_protocol;

typedef struct alibi_evaluate_options {
  size_t size;      /* sizeof(alibi_evaluate_options) */
  int protocol;     /* alibi_protocol */
  int64_t window;   /* W, at least 2 */
  int64_t stride;   /* sliding and streaming: S, at most W; 0: W / 4 (at least 1) */
  int64_t shortest; /* smallest W of the sweep; 0: W */
  int64_t longest; /* largest W of the sweep (of fixed-target: that the text can fill); 0: W.  All W of a sweep are
                      scored on the same text: see max_targets; fixed-target leaves room for it, and of several
                      documents reads those that have it */
  int64_t max_targets; /* 0: all of the text.  Else fixed-target spreads max_targets / T probes (at least one) over
                          the text, and the others read the first M + 1 tokens, M the larger of max_targets and
                          longest (of several documents: the first ones, to M targets or a few more) */
  const char *extend;  /* NULL, or an extension of the position method, perhaps with settings: "ntk",
                          "yarn:factor=4,beta_fast=16"; the length that it prepares for is W, in streaming
                          the text's */
  int64_t batch_tokens; /* tokens of windows run at once (a longer window runs alone); 0: 512 a thread.  It bounds
                           memory and changes no result */
  int64_t early;        /* tokens predicted from fewer inputs than this are early, a beginning token being one of
                           the inputs; 0: the smaller of 64 and a quarter of the trained length (at least 1) */
  int64_t beginning;    /* id of the token that begins every window; -1: none */
} alibi_evaluate_options;

typedef struct alibi_evaluate_result {
  size_t size; /* sizeof(alibi_evaluate_result), set by alibi_evaluate */
  int64_t window;
  int64_t stride;            /* sliding and streaming: S; fixed-target: T; nonoverlapping: W, or one less with a
                                beginning token */
  int64_t tokens;            /* scored */
  int64_t bytes;             /* of the scored tokens' text; 0 where token_bytes was NULL */
  double nll;                /* mean, nats a token */
  double nll_standard_error; /* NaN with fewer than two blocks */
  double perplexity;         /* exp(nll) */
  double standard_error;     /* of the perplexity: perplexity * nll_standard_error */
  double bits_per_byte;      /* NaN without bytes */
  double seconds;            /* of the passes through the model */
  int64_t input_tokens;      /* tokens that went through the model, in windows that no row added before reads */
  /* The early token curse: nonoverlapping windows score many tokens that had little to read. */
  int64_t early;              /* as used */
  int64_t early_tokens;       /* scored ones, predicted from fewer than `early` inputs */
  double early_nll, late_nll; /* means of these and of the others; NaN where there are none */
  double late_standard_error; /* of late_nll; NaN with fewer than two blocks */
  int64_t longest_window;     /* inputs of the longest window that was read: below W where the text is shorter */
  int64_t documents;          /* that are scored */
  int64_t documents_left_out; /* of fewer than two tokens, in fixed-target without room for the longest window, or
                                 beyond max_targets */
} alibi_evaluate_result;

ALIBI_API void alibi_evaluate_options_init(alibi_evaluate_options *options);

/* tokens [count]; token_bytes [vocabulary]: bytes of each token's text, or NULL.  ALIBI_INVALID where an option is
 * wrong, the text is too short, the extension unknown, or the model has no such positions; ALIBI_CANCELLED after
 * alibi_context_cancel.  While it runs it may keep a second copy of the weights, so the model is not to be used
 * elsewhere meanwhile. */
ALIBI_API alibi_status alibi_evaluate(alibi_model *model, const uint32_t *tokens, size_t count,
                                      const uint32_t *token_bytes, const alibi_evaluate_options *options,
                                      alibi_evaluate_result *result, alibi_error *error);

/* ---- many rows at once ---- */

/* Evaluations of one model on one text.  Rows are added, then run together: what several of them need is computed
 * once (a nonoverlapping window is also a sliding one), where the result is the same to the bit. */
typedef struct alibi_evaluation alibi_evaluation;

/* Told on the calling thread, now and then: inputs read so far, of all that are to be read. */
typedef void alibi_evaluation_progress(void *user, int64_t done, int64_t total);

/* tokens [count] and model are borrowed.  documents [document_count]: where each begins, ascending, the first at
 * 0; NULL: the text is one document.  Empty ones are fine. */
ALIBI_API alibi_status alibi_evaluation_new(alibi_model *model, const uint32_t *tokens, size_t count,
                                            const size_t *documents, size_t document_count,
                                            alibi_evaluation **evaluation, alibi_error *error);
ALIBI_API void alibi_evaluation_free(alibi_evaluation *evaluation);

/* *row: 0, 1, ...  ALIBI_INVALID where it cannot be done, with the reason: nothing is added, the others go on.
 * Documents of which nothing can be scored are left out, and counted in the result; with none left it is an
 * error. */
ALIBI_API alibi_status alibi_evaluation_add(alibi_evaluation *evaluation, const alibi_evaluate_options *options,
                                            size_t *row, alibi_error *error);

/* Runs all rows that were not run.  keep: NULL, or a file where losses are put down every few seconds; one that is
 * there already from an evaluation of the same model, text and rows is gone on from, to the same bits (streaming:
 * from the document's beginning), and any other is refused (ALIBI_BAD_INPUT).  The file stays: it is the caller's
 * to remove.  A place that cannot be written is refused at the beginning, and told to the context's log later.
 * When the run fails, a next call goes on, and after a cancel the same evaluation with another context does, from
 * `keep`; until one succeeds no row of it has results.  Where memory is out for some rows the others go on: the
 * result of such a row is ALIBI_FAILED, with the reason.  progress may be NULL. */
ALIBI_API alibi_status alibi_evaluation_run(alibi_evaluation *evaluation, const char *keep,
                                            alibi_evaluation_progress *progress, void *user, alibi_error *error);

/* After the run.  document: -1 for all of them pooled, token by token; ALIBI_INVALID for one that was left out.
 * Of a single document seconds and input_tokens are 0. */
ALIBI_API alibi_status alibi_evaluation_result(const alibi_evaluation *evaluation, size_t row, int64_t document,
                                               const uint32_t *token_bytes, alibi_evaluate_result *result,
                                               alibi_error *error);

/* A scored token. */
typedef struct alibi_target {
  size_t size;
  int64_t token; /* its place in tokens */
  int64_t document;
  int64_t context; /* inputs that it was predicted from, in its window or cache */
  double nll;      /* nats */
} alibi_target;

ALIBI_API int64_t alibi_evaluation_target_count(const alibi_evaluation *evaluation, size_t row);
/* Target i of a row, 0 .. count-1, in the order in which windows are read. */
ALIBI_API alibi_status alibi_evaluation_target(const alibi_evaluation *evaluation, size_t row, int64_t i,
                                               alibi_target *target, alibi_error *error);

/* Row b's mean less row a's over the same targets, and the error of that difference by blocks of these: far
 * smaller than the errors of the two, because hard tokens are hard for both.  The two may be of different models.
 * ALIBI_INVALID where the rows do not score the same tokens of texts of the same ids. */
typedef struct alibi_difference {
  size_t size;
  int64_t tokens;
  double nll;            /* nats a token; below 0: b is better */
  double standard_error; /* NaN with fewer than two blocks */
} alibi_difference;

ALIBI_API alibi_status alibi_evaluation_compare(const alibi_evaluation *a, size_t row_a, const alibi_evaluation *b,
                                                size_t row_b, alibi_difference *difference, alibi_error *error);

/* Loss against place in the window: entry i is the mean over the row's full windows of output i, smoothed over a
 * centred run of 101 outputs (near the ends as many as there are on both sides), and half the width of its 95 %
 * band, from the spread over windows (NaN with fewer than two).  NaN for a beginning token.  nll and band [W].
 * Rows of nonoverlapping only. */
ALIBI_API alibi_status alibi_evaluation_positions(const alibi_evaluation *evaluation, size_t row, double *nll,
                                                  double *band, int64_t *windows, alibi_error *error);

/* Name of a protocol, as in results: "sliding"; NULL where there is none. */
ALIBI_API const char *alibi_protocol_name(int protocol);

#ifdef __cplusplus
}
#endif
#endif
