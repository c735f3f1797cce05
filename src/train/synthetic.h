/* train/synthetic.h - training sets of ids that are no text, made by an evaluation task: what it will ask for, at
 * the length that a model is trained at. */
#ifndef TRAIN_SYNTHETIC_H
#define TRAIN_SYNTHETIC_H

#include "evaluate/task.h"

typedef struct synthetic_request {
  const evaluation_task *task;  /* one with a `sequence` */
  const void *options;          /* the task's */
  size_t length;                /* tokens of a sequence: a document of its own */
  uint64_t sequences, held_out; /* in train-00000.tokens; in valid-00000.tokens, perhaps 0 */
  uint32_t vocabulary;
  uint64_t seed;
  const char *out;
  void (*progress)(void *user, uint64_t done, uint64_t total); /* NULL: nobody */
  void *user;
} synthetic_request;

/* The folder is one of `alibi data build`, but for its tokenizer, which it has not.  A pure function of the
 * request.  ALIBI_INVALID where the task has no such sequences, or `out` holds data, a model or a report. */
status synthetic_make(alibi_context *context, const synthetic_request *request, alibi_error *error);

#endif
