/* evaluate/engine.h - runs any plan: one loss a target. */
#ifndef EVALUATE_ENGINE_H
#define EVALUATE_ENGINE_H

#include "evaluate/plan.h"
#include "model/model.h"

typedef struct engine_options {
  size_t length;                       /* declared to the position method; at least plan->longest */
  size_t batch_tokens;                 /* inputs of the windows that run at once; a longer window runs alone */
  const position_extension *extension; /* NULL: as trained */
  const void *extension_options;
  unsigned char *hits; /* [plan->targets] 1 where a target is what the model holds most likely, of equal ones the
                          first; NULL: not wanted */
} engine_options;

/* losses [plan->targets], nats; tokens are below the vocabulary.  *seconds: of the passes.  The same bits for any
 * batch_tokens and number of threads. */
status engine_run(alibi_model *model, const uint32_t *tokens, const plan *p, const engine_options *options,
                  float *losses, double *seconds, alibi_error *error);

#endif
