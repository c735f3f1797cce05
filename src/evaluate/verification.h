/* evaluate/verification.h - is it the same model?  Runs the prompts of a reference file (docs/model-verify.md) and
 * compares with what another implementation computed of them: logits, probabilities, and the hidden states after
 * each layer, so that the first layer that goes another way is found. */
#ifndef EVALUATE_VERIFICATION_H
#define EVALUATE_VERIFICATION_H

#include "model/model.h"

/* The largest difference, relative to the spread of the position's results (largest minus smallest). */
typedef struct largest_difference {
  double relative, ours, theirs;
  size_t position, id;
} largest_difference;

typedef struct verified_layer {
  double difference; /* root of the mean square of the differences, over that of the reference */
} verified_layer;

typedef struct verified_prompt {
  const uint32_t *tokens; /* [count] */
  size_t count;
  const char *text; /* "" where the prompt was given as ids */
  largest_difference logits;
  double divergence, mean_divergence; /* Kullback-Leibler, nats: largest and mean over the positions with all
                                         logits; NaN of encoders */
  size_t positions, first_same;       /* positions with a largest logit, and where it is the same token */
  verified_layer *layers; /* [layer_count]: 0 before the first layer, l after layer l - 1; NULL: not in the file */
  size_t layer_count;
} verified_prompt;

typedef struct verification {
  char *software, *numerics; /* what computed the reference, and how; "" where the file does not say */
  verified_prompt *prompts;
  size_t count;
  void *file; /* which the prompts point into */
} verification;

/* ALIBI_BAD_INPUT where the file is none of this format, or one of a model of another shape. */
status verification_run(alibi_model *model, const char *path, verification *v, alibi_error *error);
void verification_free(verification *v);

/* The first layer whose difference is above `tolerance`; layer_count where there is none. */
size_t verified_first_layer(const verified_prompt *p, double tolerance);
/* The largest relative difference of all prompts; NaN is the largest. */
double verification_largest(const verification *v);

#endif
