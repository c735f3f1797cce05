/* position/position.h - the seam of position methods: one const row each, one file each.
 *
 * A method may act in three places: on the embedding, on queries and keys (rotation), on the scores (bias).  It
 * fills a `position_plan`, plain tables that the model applies without knowing the method; a method with
 * parameters also carries gradients of the tables back to them.  Each method states its formula once more in plain
 * double (bias, angle, embedding): the truth that the conformance suite compares with.
 *
 * Notation: query position i, key position j <= i, distance t = i - j, head h, pair p, trained length L. */
#ifndef POSITION_POSITION_H
#define POSITION_POSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "alibi/model.h"
#include "base/error.h"
#include "base/field.h"
#include "base/memory.h"
#include "kernel/kernel.h"

enum { POSITION_MAX_PARAMETERS = 8 };

typedef struct position_shape {
  size_t layers, heads, head_size, width, train_length;
} position_shape;

struct position_extension;

typedef enum score_scaling_kind {
  SCORE_SCALING_NONE = 0,
  SCORE_SCALING_LOG_N,
  SCORE_SCALING_SSMAX
} score_scaling_kind;

/* Log-n scaling of the scores, a switch beside any method (position/score_scaling.h). */
typedef struct position_scaling {
  score_scaling_kind kind;
  const float *values; /* [L, H] of ssmax */
} position_scaling;

/* For which model, with which settings and parameters, how far. */
typedef struct position_request {
  position_shape shape;
  const void *options;                            /* the method's own struct */
  const float *parameters[POSITION_MAX_PARAMETERS]; /* values, in the order of the method's list */
  size_t length;                                  /* positions 0 .. length-1; also the declared length */
  const struct position_extension *extension;     /* NULL: as trained */
  const void *extension_options;
  size_t extension_length;                        /* L of the extension; 0: that of the shape */
  position_scaling scaling;
} position_request;

/* What the model applies.  Pointers are NULL (or kind BIAS_NONE) where the method does not act. */
typedef struct position_plan {
  size_t length;
  size_t sets;                /* 1: the layers share what is below with [sets]; L: layer l has the l-th of each */
  float embedding_scale;      /* the word embedding is multiplied by it; 1 */
  const float *embedding;     /* [length, C] added to the scaled word embedding */
  size_t rotary;              /* channels of each q and k head that turn */
  bool adjacent;              /* pairs are (2p, 2p + 1), else (p, p + rotary/2) */
  const float *cosine, *sine; /* [length, rotary/2] */
  const float *key_cosine, *key_sine; /* of keys; NULL: as queries */
  /* [row_scale_sets, H, length] multiplies the scaled scores of the query at a position
   * (position/score_scaling.h) */
  const float *row_scale;
  size_t row_scale_sets;      /* 1 or L */
  size_t window;              /* keys at i - j < window only; 0: all */
  bias_kind bias;
  const float *slopes;        /* [sets, H] BIAS_SLOPE */
  /* [sets, H, length] BIAS_DISTANCE, reversed: distance t of head h of the first set at
   * table[(h+1)*length - 1 - t]; factors multiply the scaled score before the table is added, NULL: 1 */
  const float *table, *factors;
  bool gated; /* BIAS_KEY: parameters 0 [L H, C] and 1 [L H] map a layer's normed input to logits of gates
                 f; the bias is the sum of ln f over j+1 .. i */
  attention_rows rows;        /* BIAS_ROWS; rows.user is the plan's own; heads and positions as they are */
} position_plan;

/* Gradients of the plan's tables, same layouts; NULL where not wanted. */
typedef struct position_plan_grad {
  float *embedding; /* [length, C] */
  float *row_scale; /* [row_scale_sets, H, length] */
  double *slopes;   /* [sets, H] */
  float *table;     /* [sets, H, length] */
} position_plan_grad;

typedef struct position_parameter {
  char name[FIELD_TEXT_SIZE]; /* "position.table" */
  size_t rows, columns;
  bool decay; /* weight decay applies */
} position_parameter;

typedef struct position_method {
  const char *name;    /* "alibi"; files store it */
  const char *title;   /* "ALiBi: attention with linear biases" */
  const char *formula; /* one line */
  const char *source;  /* paper */
  const char *family;  /* whose extensions it takes: "rope", "alibi", "absolute"; NULL: its own name */
  bool relative;       /* scores depend on i - j only */
  bool decays;         /* the bias falls without end on some head, so that far keys may be skipped */
  field_table fields;  /* of `options` */
  size_t later_fields; /* so many of the last are written to files only where they are not as initially */
  size_t options_size; /* <= ALIBI_POSITION_OPTIONS_SIZE */

  /* Everything below but layout and fill may be NULL. */
  status (*check)(const position_shape *shape, const void *options, alibi_error *error);
  size_t (*limit)(const position_shape *shape, const void *options); /* positions that exist; absent: no end */
  const char *further; /* what a user may do to move that end: "a larger scale_base"; NULL: nothing */
  size_t (*parameters)(const position_shape *shape, const void *options, position_parameter *list);
  /* Initial value of element `index` of parameter `which`; `normal` is a standard normal deviate for it. */
  float (*initial)(const position_shape *shape, const void *options, size_t which, size_t index, double normal);
  /* Takes tables from the arena (which may be counting only) and points the plan at them. */
  void (*layout)(const position_request *request, position_plan *plan, arena *a);
  /* Computes the tables; run again whenever parameters changed. */
  void (*fill)(const position_request *request, position_plan *plan);
  /* Adds to the gradients of the parameters. */
  void (*backward)(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                   float *const *parameter_grads);

  /* The formulas, in double. */
  double (*bias)(const position_request *request, size_t layer, size_t head, size_t i, size_t j);
  double (*factor)(const position_request *request, size_t layer, size_t head, size_t i, size_t j); /* absent: 1 */
  /* Of a query or a key. */
  double (*angle)(const position_request *request, bool key, size_t pair, size_t position, double *magnitude);
  double (*embedding)(const position_request *request, size_t position, size_t channel);
} position_method;

/* A way to evaluate a trained model beyond its length without training.  What it changes follows from
 * request->length, the length declared for a pass or a session, and from its settings.  One row a name and family:
 * those of "rope" change frequencies, of "alibi" slopes, of "absolute" the choice of a row. */
typedef struct position_extension {
  const char *name;   /* "linear", "ntk", "yarn" */
  const char *title, *formula, *source;
  const char *family; /* of the methods that it extends */
  bool keeps_trained; /* up to the trained length it changes nothing, to the bit (with its initial settings) */
  field_table fields;
  size_t options_size; /* <= ALIBI_EXTENSION_OPTIONS_SIZE */
  /* May be NULL: what the ranges of the fields cannot say.  rotary: channels of a head that turn. */
  status (*check)(const position_request *request, size_t rotary, alibi_error *error);
  /* Is it, with these settings, another at another declared length?  NULL: no. */
  bool (*follows_length)(const position_request *request);
  /* One of the three.  w_p -> w'_p; returns the factor on cos and sin. */
  double (*frequencies)(const position_request *request, size_t rotary, double base, double *w);
  /* Multiplies the slope of the head that is the rank-th steepest (0: the steepest) of `count` heads with a slope
   * above 0. */
  double (*slope)(const position_request *request, size_t rank, size_t count);
  /* The row of a method's table for a position; a method's limit is then not enforced. */
  size_t (*row)(const position_request *request, size_t position);
} position_extension;

size_t position_method_count(void);
const position_method *position_method_at(size_t index);
const position_method *position_method_find(const char *name);
const char *position_method_family(const position_method *method);
/* Positions that exist, SIZE_MAX for no end; extension may be NULL. */
size_t position_method_limit(const position_method *method, const position_shape *shape, const void *options,
                             const position_extension *extension);
size_t position_extension_count(void);
const position_extension *position_extension_at(size_t index);
/* Of a method's family. */
const position_extension *position_extension_find(const char *method, const char *name);
bool position_extends(const position_extension *extension, const position_method *method);
/* "alibi, sinusoidal, learned, ..." for messages; of the extensions of `method`: "linear, ntk, yarn", ""
 * for none. */
void position_method_names(char *text, size_t size);
void position_extension_names(const char *method, char *text, size_t size);
/* Find, or say which ones there are.  `option` is how the user knows it: "--position". */
status position_method_require(const char *option, const char *name, const position_method **method,
                               alibi_error *error);
status position_extension_require(const char *option, const char *method, const char *name,
                                  const position_extension **extension, alibi_error *error);
/* The request's extension and its options, by themselves: position_prepare checks them too. */
status position_extension_check(const position_method *method, const position_request *request,
                                alibi_error *error);

/* For methods, what the request's extension makes of them; as trained without one.  Of an absolute method, the row
 * of its table: */
size_t position_row(const position_request *request, size_t position);
/* Of a method with slopes, what multiplies the slope of a head (and its gradient), given the formula of all of
 * them as trained. */
typedef double position_slope(const position_request *request, size_t set, size_t head);
double position_slope_factor(const position_request *request, position_slope *slope, size_t set, size_t head);

/* Of a plan for the request what is known before its tables are: sizes, kinds, the window.  Pointers are NULL. */
position_plan position_outline(const position_method *method, const position_request *request);

/* A plan with its memory. */
typedef struct position_tables {
  position_plan plan;
  arena memory;
} position_tables;

/* Checks options, limit and extension (sentences name the method), then lays out and fills. */
status position_prepare(const position_method *method, const position_request *request, position_tables *tables,
                        alibi_error *error);
void position_release(position_tables *tables);
/* After parameters changed: those tables again that hold some, of the method and of the scaling of scores. */
void position_fill(const position_method *method, const position_request *request, position_plan *plan);

#endif
