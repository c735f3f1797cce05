/* train/batches.h - which tokens a training sees, and in which order: a pure function of the seed and of where in
 * the training a sequence stands.  Nothing is counted along, so a run that goes on from step k, or on other ranks,
 * sees what it would have seen. */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include "alibi/train.h"
#include "model/model.h"
#include "train/token_source.h"

enum { BATCHES_SOURCES = 64 };

typedef struct batches {
  const token_source *sources; /* borrowed */
  size_t source_count;
  double shares[BATCHES_SOURCES];   /* of the sequences, sum 1 */
  uint64_t quotas[BATCHES_SOURCES]; /* in 2^-32 of what the sources before leave */
  uint64_t seed;
  alibi_order order;
  alibi_documents documents;
} batches;

/* shares: how often each source is read, in any unit, above 0; NULL: as often as it has tokens.  ALIBI_INVALID
 * where a source has fewer than `length` + 1 tokens, or no documents where these are to be apart or begin the
 * sequences. */
status batches_init(batches *b, const token_source *sources, const double *shares, size_t count,
                    const alibi_train_options *options, size_t length, alibi_error *error);

/* Sequence number `sequence` (from 0) of those with `length` tokens that phase `phase` of the training reads.
 * tokens, targets [length]; a target is OP_NO_TARGET where the next token is another document's.  segments [as
 * many as there are documents, at most length]: where one begins anew; returns how many. */
size_t batches_read(const batches *b, size_t phase, size_t length, uint64_t sequence, uint32_t *tokens,
                    uint32_t *targets, pass_segment *segments);

/* A run of the same sequence, `count` tokens from its token `first` on, read as one text with the others. */
void batches_read_run(const batches *b, size_t phase, size_t length, uint64_t sequence, size_t first, size_t count,
                      uint32_t *tokens, uint32_t *targets);

#endif
