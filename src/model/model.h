/* model/model.h - a model in memory, and one pass of it over tokens.
 *
 * A pass owns the memory of a forward (and backward) run of a given capacity; nothing is allocated while it runs.
 * The same forward serves training (activations kept), evaluation (one layer's activations at a time) and decoding
 * (keys and values in a cache). */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "alibi/model.h"
#include "base/context.h"
#include "base/fingerprint.h"
#include "model/carry.h"
#include "model/parameters.h"
#include "model/shared_attention.h"
#include "op/attend.h"
#include "op/gates.h"
#include "op/op.h"

struct alibi_model {
  alibi_context *context;    /* borrowed */
  alibi_model_config config; /* resolved */
  const position_method *method;
  parameter_list list;
  float *values;               /* one block of list.floats */
  model_parameters parameters; /* into values */
  matrix *placed;              /* [weight_slots] of a model whose weights lie elsewhere; else NULL */
  void *file;                  /* where they lie, and how that is closed */
  void (*close_file)(void *file);
  const float **packed; /* [weight_slots] panels of the weights (model_pack), or NULL */
  arena packed_memory;
  struct session_engine *engines; /* what sessions share (infer/session.c); lives as long as they do */
};

/* A model with all values 0. */
status model_allocate(alibi_context *context, const alibi_model_config *config, alibi_model **model,
                      alibi_error *error);

/* A model whose weights of linear layers and embeddings lie elsewhere, in a file that is mapped: values hold all
 * other parameters, 0 so far.  Every placeable parameter has to be placed before the model runs.  It cannot be
 * trained. */
status model_allocate_placed(alibi_context *context, const alibi_model_config *config, alibi_model **model,
                             alibi_error *error);
bool model_is_placed(const alibi_model *model);
/* The weight p lies in `count` parts, whose rows are all of p's (op/op.h).  Parts and their row scales are copied,
 * data are borrowed until the model is freed. */
status model_place(alibi_model *model, const parameter *p, const matrix_part *parts, size_t count,
                   alibi_error *error);
/* Is everything placed? */
status model_check_placed(const alibi_model *model, alibi_error *error);
/* From now on activations are rounded to 8 bits where they meet quantised weights that lie elsewhere. */
void model_round_activations(alibi_model *model);
/* Rows first .. first + count - 1 of a parameter, as fp32 [count, columns], wherever it lies. */
void model_read_rows(const alibi_model *model, const parameter *p, size_t first, size_t count, float *out);

/* Adds all values, wherever they lie, and whether activations are rounded. */
void model_add_to_fingerprint(const alibi_model *model, fingerprint *f);

#define MODEL_CONFIG_FILE "config.json"

/* The folder of a path that a model is opened from: itself, or where the file lies.  malloc'd. */
status model_folder(const char *path, char **folder, alibi_error *error);

struct tensor_writing; /* model/tensor_writing.h */

/* alibi_model_save, but for what `writing` adds, where it is not NULL: it can be cancelled, and tells how far it
 * is. */
status model_save_by(const alibi_model *model, const char *directory, struct tensor_writing *writing,
                     alibi_error *error);

/* Our own directory, whose configuration was read. */
status model_open_directory(alibi_context *context, const char *directory, const json_node *node,
                            alibi_model **model, alibi_error *error);

/* May it be trained?  Names what stands against it. */
status model_check_trainable(const alibi_model *model, alibi_error *error);
/* Does a token see only those before it?  `what` cannot do without: "a session". */
status model_check_causal(const alibi_model *model, const char *what, alibi_error *error);

/* Packs all weights once, for a model whose values no longer change: decoding then packs nothing a step.  Takes as
 * much memory as the weights; a second call does nothing.  model_unpack before values change, and only when no
 * pass lives that was made while the model was packed. */
status model_pack(alibi_model *model, alibi_error *error);
void model_unpack(alibi_model *model);

/* The weights of block `layer` as matrices, with their panels where packed. */
typedef struct block_weights {
  matrix qkv, attention_output, input, output;
} block_weights;

block_weights model_block_weights(const alibi_model *model, size_t layer);
/* Where the parameters of a block begin in the block of values; of `layers`: where those after the blocks do. */
size_t model_block_offset(const alibi_model *model, size_t layer);
matrix model_output_weight(const alibi_model *model);
matrix model_embedding_weight(const alibi_model *model);
/* Logits [rows, V] of hidden states [rows, C], scaled and capped. */
void model_head(const alibi_model *model, const op_workspace *work, size_t rows, const float *hidden,
                float *logits);

/* A run of consecutive tokens of one sequence. */
typedef struct pass_segment {
  size_t count;       /* tokens */
  size_t first;       /* position of the first one */
  block_cache *cache; /* NULL: the run is a whole sequence (first == 0) and attends to itself; or, in a pass of
                         several ranks, what shared_rows says of one of shape.length tokens */
  size_t wanted; /* only the last so many tokens' hidden states are wanted (0: all): the last block then spares the
                    others */
  pass_carry *carry; /* NULL, or (the only run of its pass, without a cache) what runs before this one left:
                        where first is 0 it begins anew */
  size_t seen;       /* the last so many of their tokens are seen, and those of the run itself */
} pass_segment;

typedef struct pass_shape {
  size_t rows;      /* at most so many tokens at once */
  size_t segments;  /* in at most so many runs */
  size_t length;    /* positions 0 .. length-1: also the declared length of length-dependent methods */
  bool carries;     /* runs may have a carry, */
  size_t carried;   /* of which they see at most so many tokens */
  size_t head_rows; /* rows of logits held at once */
  bool keep;        /* for backward */
  bool drops;       /* caches may have pools */
  bool stops_when_cancelled; /* a forward run ends with ALIBI_CANCELLED in its midst */
  bool recompute;    /* keeps of each block only its input and what attention gave, and makes the rest again in
                        backward: a product with three of four weights, but never attention, whose cost grows with
                        the length */
  bool in_gradients; /* kept: activations of the last blocks lie where the gradients of the first ones will, and
                        backward is done with the former before it writes the latter.  So it sets the gradients and
                        adds to none: all of a step is in this one pass */
  float *gradients;  /* with in_gradients: the block that is given to backward; NULL: only count */
  comm *ranks; /* that hold parts of each sequence and run this pass together; NULL, or one rank: whole
                  sequences */
  const position_extension *extension; /* NULL: the model's own, if it has one */
  const void *extension_options;
  const double *tolerance; /* of attention, in place of the context's; NULL: that one; lives as long as the pass */
} pass_shape;

/* What a block leaves for its backward pass, which makes the rest again.  [R, ...] */
typedef struct block_activations {
  float *x;        /* input [C] */
  float *attended; /* [H D] */
  float *lse;                 /* [H] */
  float *gates;               /* [H] logits of forgetting gates; NULL without them, as what follows from them: */
  double *query_offsets, *key_offsets; /* [H] */
  int32_t *visited;           /* [H, 2]: how far each row went (op/attend.h); NULL where it is not kept */
  float *summed;              /* with norms after the parts: before the second [C] */
  /* With recompute all blocks share the rest. */
  float *mean1, *rstd1;
  float *qkv;                 /* [(H + 2G) D], after QK-norm and rotation */
  float *raw;                 /* [(H + G) D] before QK-norm, or clipped; NULL without these */
  float *raw_mean, *raw_rstd; /* [H + G] */
  float *joined, *joined_mean, *joined_rstd; /* with a norm of attention's output: before that [C] */
  float *middle;              /* after attention's residual [C]; with norms after the parts, before the first */
  float *mean2, *rstd2;
  float *inner; /* [F], with gates [2F]: before the activation; backward turns it into its gradient */
} block_activations;

/* What skipping needs of the plan's tables (op/attend.h); NULL where nothing is skipped. */
typedef struct position_tails {
  float *before;          /* [sets, H, op_tail_entries(length)] */
  float *largest_factors; /* [sets, H] */
} position_tails;

/* In a pass that is kept for backward, numbers are 0 by chance and the others grown to make up for it (Srivastava
 * et al. 2014): of the embedding, and of what attention and the feed-forward part add to the residual stream, as
 * in GPT-2, but not of the weights of attention, which nobody stores.  Which: a pure function of (seed, step,
 * layer, place, first_row + row, channel). */
typedef struct pass_dropout {
  double rate; /* below 1; 0: none */
  uint64_t seed, step;
  uint64_t first_row; /* of the step's rows that came before this pass's first one */
} pass_dropout;

/* Told by the thread that computes, while backward runs: floats from .. from + count - 1 of the block of gradients
 * are final.  From the end of the block to its beginning, each float once. */
typedef struct backward_hooks {
  void (*ready)(void *user, size_t from, size_t count);
  void *user;
} backward_hooks;

/* Told by forward what the residual stream x [R, C] is: before layer 0, and after layer l as l + 1. */
typedef struct layer_watch {
  void (*see)(void *user, size_t layer, const float *x);
  void *user;
} layer_watch;

typedef struct model_pass {
  alibi_model *model;
  pass_shape shape;
  /* Settings of training, 0 in a new pass; may change between runs. */
  pass_dropout dropout;
  float z_loss; /* op_cross_entropy */
  layer_watch watch;
  position_request request;
  position_tables position;
  position_plan_grad position_grad;
  position_tails tails;
  op_workspace work;
  void *attention_memory; /* op_attention_bytes, of forward and backward; unless several ranks share sequences: */
  shared_attention *shared;
  shared_sequence *sequences; /* [segments] */
  shared_reach *reach;        /* [L or, not kept, 1, segments] */
  alibi_error failure;        /* of the last backward; its status is ALIBI_OK where there was none */
  /* the run */
  size_t rows;
  const uint32_t *tokens;
  size_t segment_count;
  const pass_segment *segments;
  size_t *positions;              /* [R] */
  size_t *seen_before;            /* [R] tokens that a row sees before itself: with a carry fewer than its
                                     position; else these are the positions */
  attention_segment *attention;   /* [segments] */
  gate_run *gate_runs;            /* [segments] with gates */
  double *gate_sums;              /* [segments, H] of the positions before the runs */
  bool spares_rows;               /* some rows are not wanted */
  bool drops;                     /* some cache has a pool */
  attention_tally tally;          /* of one layer, where some cache has a pool */
  size_t failed_segment;          /* whose cache made the run fail */
  block_activations *blocks;      /* [L] or, not kept, [1] */
  float *residual;                /* x after the last block [R, C] (not kept: the running x) */
  float *final_mean, *final_rstd; /* [R] */
  float *hidden;                  /* after the final norm [R, C] */
  float *logits;                  /* [head_rows, V], in wide */
  float *gathered;                /* [head_rows, C] */
  float *losses;                  /* [R] */
  float *embedded;                /* [R, C] before the norm of the embedding, kept for backward, */
  float *embedded_mean, *embedded_rstd; /* [R] */
  float *bent;                    /* [head_rows, V] logits that a cap has bent, for backward */
  float *normed;                  /* [R, C] after a norm of the block at hand; its gradient in backward */
  float *wide;                    /* [R, F] after the activation; in backward of attention */
  /* backward */
  float *dx;               /* in residual */
  float *dqkv, *dattended; /* in wide */
  float *dgates, *dquery_offsets, *dkey_offsets; /* [R, H] */
  float *dbeside; /* [R, C] what passes attention by: where parts are parallel, the feed-forward part's gradient;
                     with a norm of attention's output, that of its input as it is added again */
  arena memory;
} model_pass;

/* What may be left out of a row of attention. */
static inline double model_pass_tolerance(const model_pass *pass)
{
  return pass->shape.tolerance ? *pass->shape.tolerance : pass->model->context->tolerance;
}

status model_pass_new(alibi_model *model, const pass_shape *shape, model_pass **pass, alibi_error *error);
void model_pass_free(model_pass *pass);
size_t model_pass_bytes(alibi_model *model, const pass_shape *shape);
/* As model_pass_new would say, but for memory. */
status model_pass_check(alibi_model *model, const pass_shape *shape, alibi_error *error);

/* A cache for a pass: a list for every layer and key-value head, list = layer * G + head.  kept: 0, or a pool of
 * so many blocks a list on average, for a pass that drops. */
status model_cache_new(const model_pass *pass, size_t capacity, size_t kept, block_cache **cache,
                       alibi_error *error);
/* One that begins as another does. */
status model_cache_share(const model_pass *pass, block_cache *from, size_t length, size_t capacity, size_t kept,
                         block_cache **cache, alibi_error *error);

/* After the parameters changed: fills the position tables again. */
void model_pass_refresh(model_pass *pass);

/* tokens [sum of counts], run after run.  With several ranks all make this call, with runs of the same sequences,
 * and fail together.  ALIBI_INVALID where a token is not below V or a position not below shape.length;
 * ALIBI_FAILED where a row of a cache with a pool looks back to what was dropped.  Leaves hidden [R, C]; rows that
 * are not wanted hold anything. */
status model_forward(model_pass *pass, const uint32_t *tokens, const pass_segment *segments, size_t count,
                     alibi_error *error);

/* Losses (nats) of the `count` rows listed (ascending), whose next tokens are targets[i]. */
void model_losses(model_pass *pass, const size_t *rows, const uint32_t *targets, size_t count, float *losses);
/* And hits [count]: 1 where the target's logit is the largest, of equal ones the first; NULL: not wanted. */
void model_losses_and_hits(model_pass *pass, const size_t *rows, const uint32_t *targets, size_t count,
                           float *losses, unsigned char *hits);

/* Logits [V] of one row. */
void model_logits(model_pass *pass, size_t row, float *logits);

/* Cross-entropy of every row against targets [R] (sum, in double, of nats; rows with OP_NO_TARGET count nowhere),
 * and the gradient of that sum (and of the z-loss, which is not in it), added to grads (or, with in_gradients,
 * alone in them), which point into a block like the model's values.  After a forward of segments that want all of
 * their rows, which it uses up.  hooks: NULL or whom to tell.
 *
 * With several ranks all make this call, hooks may not make calls of their communicator, and keys travel, which
 * can fail: pass->failure then says so, on all of them, grads hold anything and hooks may not have been told of
 * all.
 *
 * However a batch of whole segments is cut into passes, the gradient is the same to rounding; and to the bit, but
 * for those of the position method and of a tied embedding (which is added to from two sides in every pass), which
 * are sums of sums. */
double model_backward(model_pass *pass, const uint32_t *targets, model_parameters *grads,
                      const backward_hooks *hooks);

#endif
