/* study/corpus.h - the user's texts as token ids on disk: tokenizer.json, train.tokens and valid.tokens (32-bit
 * ids, this machine's byte order). */
#ifndef STUDY_CORPUS_H
#define STUDY_CORPUS_H

#include "base/system.h"
#include "study/study_plan.h"
#include "train/dataset.h"

/* Splits the texts, trains the tokenizer on the training part, encodes; fills the plan's counts, vocabulary and
 * sentence. ALIBI_BAD_INPUT where a text is empty or too short for the plan.  Nothing is written. */
status study_corpus_read(const study_request *request, study_plan *plan, dataset *data, alibi_error *error);

/* Into the study's directory, after taking an old study.json away. */
status study_corpus_write(const char *directory, const dataset *data, alibi_error *error);

typedef struct study_corpus {
  mapped_file train_file, valid_file;
  const uint32_t *train, *valid;
  size_t train_count, valid_count;
  uint32_t *token_bytes; /* [V] length of each token's text */
} study_corpus;

status study_corpus_open(const char *directory, const study_plan *plan, study_corpus *corpus, alibi_error *error);
void study_corpus_close(study_corpus *corpus);

#endif
