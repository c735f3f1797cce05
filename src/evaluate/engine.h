/* evaluate/engine.h - runs any plan: one loss a target. */
#ifndef EVALUATE_ENGINE_H
#define EVALUATE_ENGINE_H

#include "evaluate/plan.h"
#include "model/model.h"

typedef struct engine_options {
  size_t length;                       /* declared to the position method; at least plan->positions */
  size_t batch_tokens;                 /* inputs of the windows that run at once; a longer window runs alone */
  const position_extension *extension; /* NULL: as trained */
  const void *extension_options;
  uint32_t beginning;  /* the token that begins windows which begin with one */
  unsigned char *hits; /* [plan->targets] 1 where a target is what the model holds most likely, of equal ones the
                          first; NULL: not wanted */
  /* To go on: windows and targets before these are done already.  In a plan that streams the first window is one
   * that goes on from no other. */
  size_t first_window, first_target;
  /* NULL, or told after each batch: windows and targets done so far, of all.  A failure ends the run. */
  status (*after_batch)(void *user, size_t windows, size_t targets, alibi_error *error);
  void *user;
} engine_options;

/* What the pass of a plan takes, tables of positions included; 0 where there is no such pass. */
size_t engine_bytes(alibi_model *model, const plan *p, const engine_options *options);

/* losses [plan->targets], nats; tokens are below the vocabulary.  *seconds: of the passes, also where it fails.
 * The same bits for any batch_tokens and number of threads.  What was done before a failure is there. */
status engine_run(alibi_model *model, const uint32_t *tokens, const plan *p, const engine_options *options,
                  float *losses, double *seconds, alibi_error *error);

#endif
