/* alibi/train.h - training a model on token ids.
 *
 * AdamW with decoupled decay (Loshchilov and Hutter, ICLR 2019), a linear warm-up, then a schedule.  Matrices are
 * decayed, the embedding too; vectors (gains, shifts, biases) and the tables of position methods (learned, t5) are
 * not.  Which tokens a step sees is a pure function of (seed, step), the same for every position method; the
 * weights after a step are the same, to the bit, for any number of threads, and whether the steps were run in one
 * go or from checkpoint to checkpoint. */
#ifndef ALIBI_TRAIN_H
#define ALIBI_TRAIN_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rate after the warm-up, as a share of the peak, over the steps that are left; f is final_rate. */
typedef enum alibi_schedule {
  ALIBI_SCHEDULE_COSINE = 0, /* from 1 to f along a cosine (Loshchilov and Hutter, ICLR 2017) */
  ALIBI_SCHEDULE_CONSTANT,   /* 1 */
  ALIBI_SCHEDULE_LINEAR,     /* from 1 to f along a line */
  ALIBI_SCHEDULE_WSD, /* 1, then in the last decay_steps from 1 to f along a line (Hu et al. 2024, MiniCPM) */
  ALIBI_SCHEDULE_INVERSE_SQRT /* sqrt(w / (s + 1)) in step s, w steps of warm-up (Vaswani et al. 2017) */
} alibi_schedule;

/* Where the sequences of a step come from. */
typedef enum alibi_order {
  ALIBI_ORDER_EPOCHS = 0, /* the text is cut into sequences, which are taken in a random order, all of them before
                             any comes again; each epoch has another cut and order */
  ALIBI_ORDER_RANDOM,     /* any place of the text, each time anew */
  ALIBI_ORDER_ONE_BATCH,  /* always those of the first step: a model that learns has to come to a loss near 0 */
  ALIBI_ORDER_DOCUMENTS   /* each begins where a document does, and goes on into the next one where that one is
                             shorter; all documents in a random order before any begins another sequence */
} alibi_order;

/* A sequence that holds the end of one document and the beginning of another. */
typedef enum alibi_documents {
  ALIBI_DOCUMENTS_JOINED = 0, /* is read as one text */
  ALIBI_DOCUMENTS_APART /* tokens see their own document alone, positions begin anew in each, and the first token
                           of a document is not predicted from the one before it */
} alibi_documents;

typedef struct alibi_train_options {
  size_t size;          /* sizeof(alibi_train_options) */
  int64_t steps;        /* optimiser steps in the schedule, 1 to 1e9 */
  int64_t batch_tokens; /* tokens a step, a multiple of train_length and of the lengths of length_schedule */
  int64_t micro_tokens; /* tokens held in memory at once, at least one sequence; 0: the whole batch */
  double learning_rate; /* peak, 0 to 10 */
  int64_t warmup_steps; /* up to 1e9; -1: a tenth of the steps, at most 100 */
  double final_rate;    /* share of the peak at the end of the schedule, 0 to 1 */
  double weight_decay;  /* 0 to 10; a step takes rate * weight_decay of each decayed weight */
  double beta1, beta2;  /* decay of the two moments a step, 0 to 0.999999 */
  double epsilon;       /* added to the root of the second moment, 1e-20 to 1 */
  double clip;          /* largest norm of the gradient (of the mean loss a token), up to 1e9; 0: none */
  int64_t seed;         /* of weights and batches, 0 to 2^53 */
  int schedule;         /* alibi_schedule */
  int order;            /* alibi_order */
  int64_t decay_steps;  /* of ALIBI_SCHEDULE_WSD; -1: a fifth of the steps */
  int documents;        /* alibi_documents */
  bool recompute;       /* keep the input of each block alone and compute the rest again in the backward pass */
  double dropout; /* rate, 0 to 0.9, after the embedding and on what is added to the residual stream; the scores
                     have none */
  double z_loss; /* factor of the squared logarithm of the softmax's sum, added to a token's loss (Chowdhery et al.
                    2022, PaLM: 1e-4), 0 to 1 */
  double spike_limit; /* a step whose loss is so many standard deviations above the running mean of the losses, or
                         whose gradient norm is above theirs, changes nothing but the count of steps; 0: every step
                         counts */
  char length_schedule[ALIBI_NAME_SIZE]; /* "128:1000,256:500": 1000 steps with sequences of 128 tokens, 500 with
                                            256, then train_length; "": train_length from the start */
} alibi_train_options;

ALIBI_API void alibi_train_options_init(alibi_train_options *options);

typedef struct alibi_train_report {
  int64_t step;         /* steps done */
  double loss;          /* nats a token, mean over the step's tokens, before the update */
  double rate;          /* learning rate that was used */
  double gradient_norm; /* before clipping */
  int64_t tokens;       /* of this step that were predicted */
  int64_t length;       /* tokens of a sequence in this step */
  int64_t skipped;      /* 1: a spike, not applied */
} alibi_train_report;

typedef struct alibi_trainer alibi_trainer;

/* tokens [count] are borrowed until alibi_trainer_free.  ALIBI_INVALID where they are fewer than train_length + 1
 * or an id is not below the vocabulary. */
ALIBI_API alibi_status alibi_trainer_new(alibi_context *context, const alibi_model_config *config,
                                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                                         alibi_trainer **trainer, alibi_error *error);
/* The same, going on from the weights of a trained model, which is copied.  config, usually that of
 * alibi_model_get_config with changes, may differ from the model's in train_length, the rotary base ("rope_base")
 * and the extension alone; ALIBI_INVALID names what else differs.  Positions still refer to the length of the
 * first training (original_length, set here).  A new extension refers to the latest length that was trained
 * without one; its factor of 0 becomes train_length over that, at every length. */
ALIBI_API alibi_status alibi_trainer_new_from(alibi_context *context, const alibi_model *model,
                                              const alibi_model_config *config, const alibi_train_options *options,
                                              const uint32_t *tokens, size_t count, alibi_trainer **trainer,
                                              alibi_error *error);
ALIBI_API void alibi_trainer_free(alibi_trainer *trainer);

/* One step.  ALIBI_FAILED where the loss or the gradient is not finite: the sentence names the step and the first
 * parameter whose gradient is not.  After any failure, and when cancelled, the trainer is as it was before the
 * step; but for the loss of the network between ranks while weights travel: then go on from a checkpoint. */
ALIBI_API alibi_status alibi_trainer_step(alibi_trainer *trainer, alibi_train_report *report, alibi_error *error);

/* Everything that the next steps depend on, into a directory that is complete or absent: the model (config.json,
 * model.safetensors: alibi_model_open reads it), the moments, the options, the step, fingerprints of files and
 * tokens. */
ALIBI_API alibi_status alibi_trainer_save(alibi_trainer *trainer, const char *directory, alibi_error *error);
/* Goes on from there: with the same tokens, the steps that follow have the bits that they would have had.
 * ALIBI_BAD_INPUT where a file is damaged, ALIBI_INVALID where the tokens are others. */
ALIBI_API alibi_status alibi_trainer_open(alibi_context *context, const char *directory, const uint32_t *tokens,
                                          size_t count, alibi_trainer **trainer, alibi_error *error);

/* The model as it stands; belongs to the trainer. */
ALIBI_API alibi_model *alibi_trainer_model(alibi_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
