/* evaluate/horizon.h - how far each head of a model reads: what follows from its parameters for every text, and
 * what it does on one.
 *
 * A head's horizon is the smallest distance D such that all keys D or more tokens back together weigh at most a
 * threshold of what the query's own key weighs alone.  With a bias b(t) that falls, and G the most by which q.k of
 * a far key can exceed q.k of the own one,
 *
 *     G + log sum_{t >= D} exp(b(t)) - b(0) <= log threshold,
 *
 * which for ALiBi, b(t) = -m t, is D = (G - log threshold - log(1 - exp(-m))) / m.  It is told for three G:
 *
 *   any text      from the weights: a normed input u is no longer than sqrt(C), and queries and keys are A u.
 *   these norms   from the longest query, Q, of the text that was read, and R, its key farthest from a fixed
 *                 centre: G = 2 scale Q R, true of every text whose queries and keys stay within Q and R.
 *   these scores  the largest rise of a score above that of the own key, in the queries that were looked at: true
 * of every text where scores rise no more.
 *
 * A window hides all that is farther, whatever G.  Where nothing falls there is no horizon: INFINITY. */
#ifndef EVALUATE_HORIZON_H
#define EVALUATE_HORIZON_H

#include "model/model.h"

enum { HORIZON_SHARES = 3 };
extern const double horizon_shares[HORIZON_SHARES]; /* 0.5, 0.9, 0.99 */

typedef struct horizon_options {
  size_t length;    /* tokens of a window, and the length declared to the position method */
  size_t windows;   /* at most; spread over the text, none over another */
  size_t rows;      /* queries looked at in a window, spread over its second half; 0: all of that half */
  double threshold; /* 0 to 1, neither: what counts as nothing */
  const position_extension *extension; /* NULL: as trained */
  const void *extension_options;
} horizon_options;

/* Distances, over the queries looked at. */
typedef struct horizon_within {
  double mean, deviation; /* of the distance within which a query has the share of its attention */
  double pooled;          /* within which the share of all attention lies */
} horizon_within;

/* What is measured is NaN without a text. */
typedef struct horizon_head {
  size_t layer, head;
  double slope; /* NaN where there is none; of gates the mean of -ln f on the text, without one that of a gate's
                   bias alone */
  double any_text, these_norms, these_scores; /* horizons */
  double any_gap, norms_gap, scores_gap;      /* their G; NaN where it plays no part */
  double query_norm, key_norm;                /* Q and R */
  horizon_within within[HORIZON_SHARES];
  double farthest; /* distance of the farthest key that weighed more than the threshold */
  double zero;     /* share of the weights that are 0 in fp32: below 2^-150 */
  double below;    /* share at or below the threshold */
  double visited;  /* blocks of keys that the kernel visits, of those up to the query's own */
} horizon_head;

typedef struct horizon {
  size_t layers, heads;
  size_t length, windows, rows; /* as used; rows: queries looked at for each head, in all windows */
  double threshold;
  bool text;          /* measured on one */
  size_t window;      /* of the position method; 0: none */
  bool scaled;        /* scores grow with the position: any_text speaks of texts of up to `length` tokens */
  horizon_head *list; /* [layers, heads] */
  /* Mean attention of a query by distance: bin b holds distances edges[b] .. edges[b+1]-1, which grow by about
   * sqrt 2. */
  size_t bins;
  size_t *edges;    /* [bins + 1] */
  double *mass;     /* [layers, heads, bins] */
  double *bias;     /* [layers, heads, bins] added to the score at distance edges[b]; NaN where the text decides */
  double deviation; /* largest |1 - sum of a query's weights|: how well the weights were made again */
} horizon;

/* Told on the calling thread: windows and layers done so far, of all. */
typedef void horizon_progress(void *user, size_t done, size_t total);

/* tokens [count], at least options->length of them; NULL: the parameters alone.  ALIBI_INVALID where the method
 * cannot do the length, ALIBI_BAD_INPUT where attention is no number, ALIBI_CANCELLED between layers.  The same
 * bits for any number of threads.  progress may be NULL. */
status horizon_measure(alibi_model *model, const uint32_t *tokens, size_t count, const horizon_options *options,
                       horizon_progress *progress, void *user, horizon *h, alibi_error *error);
void horizon_free(horizon *h);

/* The weights of the query at position i, head `head`, of a pass's one sequence, made again in double from its
 * queries, keys, bias and log-sum-exp: weights[t] of the key t tokens back; returns how many keys the query sees.
 */
size_t horizon_weights(const op_attention *a, size_t head, size_t i, double *weights);

/* ---- horizon_bound.c ---- */

/* G of any text; NaN where rotation makes the bound useless. */
status horizon_any_gap(const model_pass *pass, size_t layer, size_t head, double *gap, alibi_error *error);

/* How the bias of a head falls for certain. */
typedef struct horizon_fall {
  enum { FALLS_NEVER, FALLS_BY_SLOPE, FALLS_BY_FORMULA } kind;
  double slope;
  const position_method *method; /* FORMULA: bias() falls all the way */
  const position_request *request;
  size_t layer, head;
} horizon_fall;

/* Of gates: the slowest that any text can make it. */
horizon_fall horizon_fall_of(const model_pass *pass, size_t layer, size_t head);
double horizon_distance(const horizon_fall *fall, double gap, double threshold);

#endif
