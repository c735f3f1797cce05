/* bench/bench_attention.h - `alibi bench attention`: the public operator of alibi/attention.h, at one length after
 * another, beside what the machine can do and beside a reference in double.
 *
 * A round runs every variant (method and tolerance) once, in turns with the multiply-add loop and with reading, on
 * as many threads; what counts are medians of ratios within a round, so that other load on the machine cancels
 * out. */
#ifndef BENCH_BENCH_ATTENTION_H
#define BENCH_BENCH_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/attention.h"
#include "alibi/model.h"
#include "base/error.h"

typedef enum bench_pass { BENCH_FORWARD, BENCH_BACKWARD, BENCH_DECODE, BENCH_PASSES } bench_pass;
/* Of random inputs: the slopes of ALiBi; no bias; kerple-power, -m_h t^(1/2), as a table of distances; ALiBi as a
 * table, with a factor for each distance; gates that fall as ALiBi's slope on average, as offsets of keys. */
typedef enum bench_method {
  BENCH_ALIBI,
  BENCH_NONE,
  BENCH_POWER,
  BENCH_FACTOR,
  BENCH_KEY,
  BENCH_METHODS
} bench_method;

enum { BENCH_MAX_LENGTHS = 32, BENCH_MAX_TOLERANCES = 8, BENCH_REPEATS = 9, BENCH_MAX_REPEATS = 1000 };

extern const char *const bench_pass_names[BENCH_PASSES], *const bench_method_names[BENCH_METHODS];

typedef struct bench_attention_options {
  bool passes[BENCH_PASSES];
  int64_t lengths[BENCH_MAX_LENGTHS];
  size_t length_count;
  double tolerances[BENCH_MAX_TOLERANCES];
  size_t tolerance_count;
  int64_t repeats; /* of a variant; 0: BENCH_REPEATS, fewer where one takes long */

  /* Random queries and keys: max |q| max |k| scale = score. */
  bool methods[BENCH_METHODS];
  int64_t heads, kv_heads, head_size; /* kv_heads 0: heads */
  double score;

  /* Or those of a trained model that reads the beginning of a text, layer by layer; the method is the model's. */
  alibi_model *model;
  const uint32_t *tokens;
  size_t token_count;
} bench_attention_options;

/* One variant at one length.  With a model: means over layers (times, shares), and the largest of them (errors,
 * bound). Ratios that were not measured are 0. */
typedef struct bench_attention_row {
  bench_pass pass;
  const char *method;
  int64_t length, heads, kv_heads, head_size, layers;
  double tolerance, score; /* score: max |q| max |k| scale */
  int threads;
  size_t repeats;
  double seconds;     /* of one call: processor time where one thread works, else on the wall */
  double gflops;      /* of visited pairs: 4 d operations each, backward 10 d */
  double peak_gflops; /* of the multiply-add loop, on as many threads */
  double peak_share;
  double visited_share, pairs_share; /* of blocks, of pairs of query and key, that a query may see */
  double error;      /* largest |difference| from the reference in double, over max |v| (backward: dq, max |dq|) */
  double skip_error; /* the same of the reference itself when it reads visited blocks only */
  double bound;      /* what the operator promised for skip_error (of its output) */
  size_t scratch_bytes;
  double speed_up;                          /* over tolerance 0 of the same method */
  double bias_cost;                         /* time over that of method none at the same tolerance */
  double read_gbs, machine_gbs, read_share; /* decode: 10^9 bytes of keys and values a second; of the machine */
  double keys_share;                        /* decode: of the bytes of keys and values, read */
} bench_attention_row;

typedef struct bench_attention_output {
  void (*row)(void *user, const bench_attention_row *row);
  /* done of total runs, one stage ("forward 16384") after another; done == total: the end of a stage. */
  void (*progress)(void *user, const char *what, size_t done, size_t total);
  void *user;
} bench_attention_output;

/* Gives the rows pass by pass, length by length.  ALIBI_CANCELLED where the context was: rows so far were given.
 */
status bench_attention(alibi_context *context, const bench_attention_options *options,
                       const bench_attention_output *output, alibi_error *error);

#endif
