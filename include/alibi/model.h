/* alibi/model.h - a decoder-only transformer as data: its configuration, and a model in memory.
 *
 * The weights of a model do not change once it is trained or opened: many sessions and evaluations may share it.
 * All calls with one model, its sessions and its evaluations are made by one thread at a time, as with the
 * context, for they share memory that the model keeps.  It borrows the context it was made with, which must
 * outlive it. */
#ifndef ALIBI_MODEL_H
#define ALIBI_MODEL_H

#include <stdbool.h>

#include "alibi/base.h"
#include "alibi/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ALIBI_NAME_SIZE = 64, ALIBI_POSITION_OPTIONS_SIZE = 2048, ALIBI_EXTENSION_OPTIONS_SIZE = 2048 };

typedef enum alibi_norm { ALIBI_NORM_LAYER = 0, ALIBI_NORM_RMS } alibi_norm;

/* Those with gates (Shazeer 2020): f(x W) * (x V), of 2 F rows of the input weight W the first F, V the others; f:
 * silu (SWIGLU), GELU in one of its forms (GEGLU, GEGLU_TANH), relu (REGLU). */
typedef enum alibi_activation {
  ALIBI_GELU_ERF = 0,
  ALIBI_GELU_TANH,
  ALIBI_SILU,
  ALIBI_SWIGLU,
  ALIBI_RELU,
  ALIBI_GEGLU,
  ALIBI_GEGLU_TANH,
  ALIBI_REGLU
} alibi_activation;

/* Of a part (attention, feed-forward): x + part(norm(x)), or norm(x + part(x)). */
typedef enum alibi_norm_place { ALIBI_NORM_PRE = 0, ALIBI_NORM_POST } alibi_norm_place;

/* Parts one after the other, or both from a block's input x: x + attention(n1 x) + feed_forward(n1 x), or n2 x. */
typedef enum alibi_parallel {
  ALIBI_PARALLEL_NONE = 0,
  ALIBI_PARALLEL_ONE_NORM,
  ALIBI_PARALLEL_TWO_NORMS
} alibi_parallel;

/* Whether a linear layer has a bias: what the field `bias` says, or its own word. */
typedef enum alibi_linear_bias { ALIBI_AS_BIAS = 0, ALIBI_BIAS_YES, ALIBI_BIAS_NO } alibi_linear_bias;

/* qk_norm: RMSNorm of each head with a gain [D] that all share; a norm of the model's kind over all channels of
 * the queries, and of the keys (FULL); or one of that kind of each head, with a gain [D] that all share
 * (GROUP). */
typedef enum alibi_qk_norm_kind {
  ALIBI_QK_NORM_HEAD = 0,
  ALIBI_QK_NORM_FULL,
  ALIBI_QK_NORM_GROUP
} alibi_qk_norm_kind;

/* Scores of a query that sees n keys, itself among them: as they are; times ln n / ln train_length for n >
 * train_length; or times s ln n, s learned for each layer and head (scalable softmax). */
typedef enum alibi_score_scaling {
  ALIBI_SCORE_SCALING_NONE = 0,
  ALIBI_SCORE_SCALING_LOG_N,
  ALIBI_SCORE_SCALING_SSMAX
} alibi_score_scaling;

/* The block as data.  Start from alibi_model_config_init; change fields or use alibi_model_config_set. */
typedef struct alibi_model_config {
  size_t size;          /* sizeof(alibi_model_config), set by alibi_model_config_init (alibi/base.h) */
  int64_t vocabulary;   /* V */
  int64_t layers;       /* L */
  int64_t width;        /* C */
  int64_t heads;        /* H */
  int64_t kv_heads;     /* G; 0: as many as heads */
  int64_t head_size;    /* D; 0: width / heads */
  int64_t feed_forward; /* F; 0: 4 * width, with SWIGLU 8/3 * width rounded up to a multiple of 64 */
  int64_t train_length; /* tokens per training sequence: the length that extrapolation is measured from */
  int norm;             /* alibi_norm, of attention, of the feed-forward part and at the end */
  bool norm_bias;       /* LayerNorm with a shift */
  double norm_epsilon;
  int activation;                 /* alibi_activation */
  bool bias;                      /* linear layers with biases */
  bool tied;                      /* output weight is the embedding */
  bool qk_norm;                   /* norm of queries and keys, see qk_norm_kind */
  double initial_deviation;       /* of weights before training */
  double embedding_deviation;     /* of the embedding; 0: 1 / sqrt(width) */
  char position[ALIBI_NAME_SIZE]; /* position method: "alibi", "rope", ... (`alibi positions`) */
  union {
    unsigned char bytes[ALIBI_POSITION_OPTIONS_SIZE];
    double align;
  } position_options; /* the method's own settings; set them by name */
  int score_scaling;  /* alibi_score_scaling */
  /* Length that the positions were first trained at, where fine-tuning changed train_length; 0: train_length. What
   * depends on a trained length (the model's extension, log-n, t5's last bucket) goes by it. */
  int64_t original_length;
  char extension[ALIBI_NAME_SIZE]; /* extension of the method that the model always runs with: "yarn"; "": none */
  union {
    unsigned char bytes[ALIBI_EXTENSION_OPTIONS_SIZE];
    double align;
  } extension_options; /* its settings; set both together by name */
  int norm_place;              /* alibi_norm_place */
  int parallel;                /* alibi_parallel */
  int qk_norm_kind;            /* alibi_qk_norm_kind */
  int qkv_bias;                /* alibi_linear_bias: of queries, keys and values, */
  int attention_output_bias;   /* of what attention gives, */
  int input_bias, output_bias; /* of the feed-forward part */
  bool final_norm;             /* a norm after the last block */
  bool embedding_norm;         /* a norm of the embedding */
  bool embedding_shift;        /* a vector [C] added to every embedding, before its norm */
  bool causal;                 /* a token sees those before it; else all of its sequence */
  double clip_qkv;             /* queries, keys and values are cut to -c .. c; 0: not */
  double embedding_scale;      /* the embedding of a token is multiplied by it */
  double score_scale;          /* scores are q.k times it; 0: 1 / sqrt(D) */
  double score_cap;            /* c: c tanh(score / c), before a bias is added; 0: not */
  double logit_scale;          /* logits are multiplied by it, */
  double logit_cap;            /* and then c: c tanh(logit / c); 0: not */
  double residual_scale;       /* what a part adds to the residual stream is multiplied by it */
  bool attention_output_norm;  /* with norms after their parts: x = norm(x + norm(x + attention(x))) */
} alibi_model_config;

ALIBI_API void alibi_model_config_init(alibi_model_config *config);

/* Sets a field from text: "layers" "4"; "position" "rope" (which also resets the method's settings); settings of
 * the method that is set: "rope_base" "500000"; its extension: "extension" "yarn:factor=4", or "none".
 * ALIBI_INVALID names what was expected. */
ALIBI_API alibi_status alibi_model_config_set(alibi_model_config *config, const char *name, const char *value,
                                              alibi_error *error);

/* Every number in range, heads fit the width, the position method fits the shape? */
ALIBI_API alibi_status alibi_model_config_check(const alibi_model_config *config, alibi_error *error);

typedef struct alibi_model alibi_model;

/* A model with random weights, a pure function of the configuration and the seed. */
ALIBI_API alibi_status alibi_model_new(alibi_context *context, const alibi_model_config *config, uint64_t seed,
                                       alibi_model **model, alibi_error *error);
/* path: a directory as written by alibi_model_save; one as published for transformers, of a family that is known
 * (docs/model-families.md), with config.json and safetensors or PyTorch files; or a GGUF file, or a directory with
 * one.  The weights of a public model stay where they are, mapped, in their own types; such a model cannot be
 * trained.  ALIBI_BAD_INPUT where a file is damaged, files do not belong together, or a key of the configuration
 * is not understood that may change a number. */
ALIBI_API alibi_status alibi_model_open(alibi_context *context, const char *path, alibi_model **model,
                                        alibi_error *error);

/* EXACT: formulas as they are meant.  REFERENCE: with the rounding that a family's own code applies to its bias,
 * where it does (BLOOM, Falcon with ALiBi). */
typedef enum alibi_numerics { ALIBI_NUMERICS_EXACT = 0, ALIBI_NUMERICS_REFERENCE } alibi_numerics;

/* What quantised weights are multiplied with: activations as they are, in fp32; or rounded to 8 bits, each run of
 * 32 with a scale of its own, as other engines do: faster where weights are quantised, and another result. */
typedef enum alibi_activations { ALIBI_ACTIVATIONS_FP32 = 0, ALIBI_ACTIVATIONS_INT8 } alibi_activations;

typedef struct alibi_open_options {
  size_t size; /* sizeof(alibi_open_options), set by alibi_open_options_init */
  /* Keys of a public model's configuration that count as absent, ended by NULL; or NULL. */
  const char *const *ignore_config;
  int numerics;    /* alibi_numerics */
  int activations; /* alibi_activations */
} alibi_open_options;

ALIBI_API void alibi_open_options_init(alibi_open_options *options);
/* options may be NULL (defaults). */
ALIBI_API alibi_status alibi_model_open_with(alibi_context *context, const char *path,
                                             const alibi_open_options *options, alibi_model **model,
                                             alibi_error *error);

/* Of a public model: its family, "bloom"; "alibi" of one of our own.  And what there is to say about how it was
 * opened, sentence by sentence: keys without effect, keys ignored, tensors not read. */
ALIBI_API const char *alibi_model_family(const alibi_model *model);
ALIBI_API size_t alibi_model_note_count(const alibi_model *model);
ALIBI_API const char *alibi_model_note(const alibi_model *model, size_t index); /* NULL past the end */

/* The tokenizer of what alibi_model_open takes: the vocabulary of the GGUF file; else tokenizer.json, or else
 * tokenizer.model (SentencePiece), of the directory, or beside a file with weights.  *tokenizer NULL and ALIBI_OK:
 * there is none (a model may be of ids that are no text).  model: NULL, or whom it has to fit: one with more
 * tokens than the model has rows is ALIBI_BAD_INPUT. */
ALIBI_API alibi_status alibi_model_tokenizer_open(const char *path, const alibi_model *model,
                                                  alibi_tokenizer **tokenizer, alibi_error *error);

ALIBI_API alibi_status alibi_model_save(const alibi_model *model, const char *directory, alibi_error *error);
ALIBI_API void alibi_model_free(alibi_model *model);

/* With zero-valued sizes resolved: kv_heads, head_size, feed_forward are set. */
ALIBI_API const alibi_model_config *alibi_model_get_config(const alibi_model *model);
ALIBI_API int64_t alibi_model_parameter_count(const alibi_model *model);

#ifdef __cplusplus
}
#endif
#endif
