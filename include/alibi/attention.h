/* alibi/attention.h - exact attention whose cost grows with the text; usable without any model.
 *
 * For query i at position p_i and key j at position p_j
 *
 *     S_ij = cap(scale q_i.k_j) + bias_h(p_i - p_j),    O_i = sum_j softmax_j(S_i) v_j
 *
 * over the keys that i may see.  ALiBi: bias_h(t) = -m_h t with one slope m_h per head (Press, Smith, Lewis,
 * "Train short, test long: attention with linear biases enables input length extrapolation", ICLR 2022).
 *
 * Skipping.  A bias that falls proves most keys invisible: they are visited from the query's own position
 * outwards, and a row stops where all keys not yet visited together weigh at most `tolerance` of what it has seen
 * (proof: docs/attention.md).  With ALiBi the window that results does not depend on the length of the text.
 *
 * Promises.  The bits of an output row depend on that row, the keys and values, and the instruction set: not on
 * rows that come with it, on chunks, or on threads.  What a query may not see never reaches an output, be it NaN
 * or infinite.  A query that sees no key gives exactly 0, log-sum-exp -infinity, and zero gradients.
 *
 * Shapes: T queries, S keys of all sequences together, H heads, G key-value heads (H is a multiple of G; head h
 * reads key-value head h / (H/G)), D head size.  fp32 throughout.  Strides are in floats. */
#ifndef ALIBI_ATTENTION_H
#define ALIBI_ATTENTION_H

#include "alibi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ALIBI_MAX_HEADS 65536

/* Where the number of heads H is a power of two, both rules give m_h = 2^(-B (h+1)/H).  Else:
 *   INTERLEAVED  the slopes of F heads, F the largest power of two below H, then every second slope of 2F heads:
 *                the authors' code, and what BLOOM, MPT, Falcon and Baichuan do;
 *   GEOMETRIC    m_h = 2^(-B (h+1)/H) all the same: the paper's text. */
typedef enum alibi_slope_rule { ALIBI_SLOPES_INTERLEAVED = 0, ALIBI_SLOPES_GEOMETRIC } alibi_slope_rule;

/* Writes the slopes of heads 0 .. heads-1 to slopes[heads].  heads: 1 .. ALIBI_MAX_HEADS.  max_bias: the exponent
 * B, above 0 and at most 100; 8 in the paper. */
ALIBI_API alibi_status alibi_slopes(int heads, double max_bias, alibi_slope_rule rule, double *slopes,
                                    alibi_error *error);

/* A tolerance below the rounding of fp32: 2^-24. */
#define ALIBI_TOLERANCE 5.9604644775390625e-8

/* Keys that are visited, stored and skipped together; blocks lie on absolute multiples of it. */
#define ALIBI_ATTENTION_BLOCK 64

/* Row r of head h, channel c lies at data[r * row_stride + h * head_stride + c].  Both strides 0: contiguous
 * [rows, heads, D].  Borrowed. */
typedef struct alibi_heads {
  const float *data;
  int64_t row_stride, head_stride;
} alibi_heads;

typedef struct alibi_heads_out {
  float *data;
  int64_t row_stride, head_stride;
} alibi_heads_out;

typedef enum alibi_bias_kind {
  ALIBI_BIAS_NONE = 0,
  ALIBI_BIAS_SLOPE,    /* -m_h |p_i - p_j| */
  ALIBI_BIAS_DISTANCE, /* factor_h(t) times the capped score, plus added_h(t), t = p_i - p_j */
  ALIBI_BIAS_KEY,      /* a number of the key, plus one of the query (which changes log-sum-exp alone): gates */
  ALIBI_BIAS_ROWS      /* anything: a function gives pieces of rows */
} alibi_bias_kind;

/* Bias of query row `query` and keys key .. key + count - 1 (row numbers of q and k; with a cache, the keys' own
 * numbers in it) to bias[count], all finite; of a head counted from 0 in this call.  Called from several threads
 * at once, and more than once for a piece. */
typedef void (*alibi_bias_rows)(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias);
/* Backward: the gradient of that piece, once for each piece visited, in any order, from several threads. */
typedef void (*alibi_bias_rows_gradient)(void *user, int head, int64_t query, int64_t key, int64_t count,
                                         const float *gradient);

typedef struct alibi_bias {
  alibi_bias_kind kind;
  /* SLOPE.  slopes [H], rounded to fp32, where they must be finite; or NULL: those of heads head_offset ..
   * head_offset + H - 1 out of total_heads (0: H) by alibi_slopes, so that a slice of the heads has the slopes of
   * the whole. */
  const double *slopes;
  int total_heads, head_offset;
  double max_bias; /* 0: 8 */
  alibi_slope_rule slope_rule;
  /* DISTANCE.  added [H, distances]: entry t - lowest is for distance t; every distance that a query may see must
   * lie in lowest .. lowest + distances - 1.  factor [H, distances], or NULL: 1. */
  const float *added, *factor;
  int64_t lowest, distances;
  /* KEY.  offsets [S, H], query_offsets [T, H] or NULL: 0; all within 1e38 of 0.  Their sum is taken in double and
   * rounded once: running sums of gates, c_i - c_j, keep what near keys differ by however long the text. */
  const double *offsets, *query_offsets;
  /* ROWS.  rows_gradient may be NULL. */
  alibi_bias_rows rows;
  alibi_bias_rows_gradient rows_gradient;
  void *user;
  const void *reserved[4]; /* NULL: for what comes later */
} alibi_bias;

/* What a call did; sums and maxima over all rows and heads of the call.  Written as far as the size says. */
typedef struct alibi_attention_report {
  size_t size; /* sizeof(alibi_attention_report), set by alibi_attention_report_init */
  int64_t pairs_visible, pairs_visited;   /* pairs of query and key: that may be seen; that were computed */
  int64_t blocks_visible, blocks_visited; /* the same in blocks of at most 64 queries and 64 keys */
  double skipped; /* what was not visited weighs at most this share of any row; 0: nothing was skipped */
  double bound;   /* 2 skipped: outputs are within bound * max |v| of those of tolerance 0, before rounding */
} alibi_attention_report;

ALIBI_API void alibi_attention_report_init(alibi_attention_report *report);

/* One call of attention.  Start from alibi_attention_init. */
typedef struct alibi_attention {
  size_t size;
  int64_t queries, keys;          /* T, S: rows of all sequences together */
  int heads, kv_heads, head_size; /* H, G (0: H), D: 1 to 256 */
  alibi_heads q, k, v;            /* [T, H, D], [S, G, D], [S, G, D] */

  /* Packed sequences: sequence n has the queries query_starts[n] .. query_starts[n+1] - 1 and the keys
   * key_starts[n] .. key_starts[n+1] - 1; starts[0] = 0, the last one is T or S.  0: one sequence. */
  int64_t sequences;
  const int64_t *query_starts, *key_starts; /* [sequences + 1] */

  /* Positions, both or none.  Strictly increasing within a sequence, and within 2^53 of 0.  None: key j of a
   * sequence stands at j, and query r at query_offset + r; or, where query_offset is ALIBI_BOTTOM_RIGHT, at keys -
   * queries + r, so that the last query stands at the last key. */
  const int64_t *query_positions, *key_positions; /* [T], [S] */
  int64_t query_offset;

  int causal;        /* 1: a query sees keys at its position and before; 0: all keys */
  int64_t window;    /* 0: none; w: keys with |p_i - p_j| < w only (causal: 0 <= p_i - p_j < w) */
  double scale;      /* of q.k; 0: 1 / sqrt(D) */
  double soft_cap;   /* 0: none; c: the scaled product s becomes c tanh(s / c), before bias and factor */
  alibi_bias bias;
  double tolerance;  /* 0: nothing is skipped; below 1 */

  alibi_heads_out out; /* [T, H, D] */
  float *lse;          /* [T, H] log-sum-exp of the scores seen; may be NULL in forward */
  int32_t *visited;    /* [T, H, 2]: first block visited, last one + 1; may be NULL; backward needs it where the
                          tolerance of forward was above 0 */
  alibi_attention_report *report; /* begun with alibi_attention_report_init; may be NULL; not set by backward */
} alibi_attention;

#define ALIBI_BOTTOM_RIGHT INT64_MIN

/* Causal, bottom right, slopes made, tolerance ALIBI_TOLERANCE; everything else 0. */
ALIBI_API void alibi_attention_init(alibi_attention *attention);

/* Bytes of scratch that a call needs: O(threads), and for each head O(S + 64 sequences) and a copy of its tables
 * of distances (docs/attention.md, What it costs); backward also O(T). */
ALIBI_API alibi_status alibi_attention_forward_scratch(alibi_context *context, const alibi_attention *attention,
                                                       size_t *bytes, alibi_error *error);

/* scratch: at least so many bytes, or NULL: allocated for the call.  Everything is checked; ALIBI_INVALID with a
 * sentence before anything is written.  out, lse, visited, report and scratch must not overlap each other or an
 * input. */
ALIBI_API alibi_status alibi_attention_forward(alibi_context *context, const alibi_attention *attention,
                                               void *scratch, size_t scratch_bytes, alibi_error *error);

/* Gradients of sum(out * dout), added to what is there; pointers NULL where not wanted.  `slopes` is in double;
 * the others are fp32. */
typedef struct alibi_attention_gradients {
  size_t size;
  alibi_heads dout;           /* [T, H, D] */
  alibi_heads_out dq, dk, dv; /* as q, k, v; always wanted */
  double *slopes;             /* [H]: -sum of dS |p_i - p_j| */
  float *added, *factor;      /* [H, distances] */
  float *offsets;             /* [S, H]; those of queries are 0, since the gradients of a row's scores sum to 0 */
} alibi_attention_gradients;

ALIBI_API void alibi_attention_gradients_init(alibi_attention_gradients *gradients);

/* After a forward call of the same struct: out, lse and visited hold what it wrote. */
ALIBI_API alibi_status alibi_attention_backward_scratch(alibi_context *context, const alibi_attention *attention,
                                                        const alibi_attention_gradients *gradients, size_t *bytes,
                                                        alibi_error *error);
ALIBI_API alibi_status alibi_attention_backward(alibi_context *context, const alibi_attention *attention,
                                                const alibi_attention_gradients *gradients, void *scratch,
                                                size_t scratch_bytes, alibi_error *error);

/* ---- decoding: few queries against a cache that grows ---- */

/* Keys and values of one sequence and one layer, in blocks of 64 with what skipping needs of them.  How it was
 * filled, token by token or all at once, leaves no trace in its bits.  The context must outlive it.  Decoding
 * keeps proofs in the cache: calls with one cache, and those that share its blocks, are made by one thread at a
 * time. */
typedef struct alibi_cache alibi_cache;

/* capacity: keys that it can hold; memory is taken at once, and touched as it fills. */
ALIBI_API alibi_status alibi_cache_new(alibi_context *context, int kv_heads, int head_size, int64_t capacity,
                                       alibi_cache **cache, alibi_error *error);
ALIBI_API void alibi_cache_free(alibi_cache *cache);
/* A cache with the first `length` keys of another one.  Whole blocks are shared, not copied; either may be freed,
 * cleared or filled first. */
ALIBI_API alibi_status alibi_cache_share(alibi_cache *from, int64_t length, int64_t capacity, alibi_cache **cache,
                                         alibi_error *error);
/* k, v [count, G, D]: after those that are there. */
ALIBI_API alibi_status alibi_cache_append(alibi_cache *cache, const alibi_heads *k, const alibi_heads *v,
                                          int64_t count, alibi_error *error);
ALIBI_API void alibi_cache_clear(alibi_cache *cache);
ALIBI_API int64_t alibi_cache_length(const alibi_cache *cache);

/* Forward with the keys and values of caches: sequence n reads caches[n] (its length is its number of keys, at
 * positions 0, 1, ...).  keys, k, v, key_starts and positions are not used; a bias of kind KEY is not possible.
 * With a falling bias a step costs the same however long the cache. */
ALIBI_API alibi_status alibi_attention_decode_scratch(alibi_context *context, const alibi_attention *attention,
                                                      alibi_cache *const *caches, size_t *bytes,
                                                      alibi_error *error);
ALIBI_API alibi_status alibi_attention_decode(alibi_context *context, const alibi_attention *attention,
                                              alibi_cache *const *caches, void *scratch, size_t scratch_bytes,
                                              alibi_error *error);

#ifdef __cplusplus
}
#endif
#endif
