/* train/dataset.h - the user's texts as token ids: a part to train on and a part held out. */
#ifndef TRAIN_DATASET_H
#define TRAIN_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"

typedef struct dataset_request {
  const char *const *texts; /* files and folders (train/document_reader.h) */
  size_t text_count;
  const char *valid; /* the same that are held out, between commas; NULL: the end of each text is, and of the lines
                        of JSON whole ones (train/document_feed.h) */
  double held_out;   /* share; 0: none */
  const char
      *tokenizer;      /* "bytes", or the path of a tokenizer.json; NULL: a BPE is trained on the training part */
  uint32_t vocabulary; /* of that BPE, at most */
} dataset_request;

typedef struct dataset {
  alibi_tokenizer *tokenizer;
  uint32_t *train, *valid; /* ids of all texts, one after the other */
  size_t train_count, valid_count, train_bytes, valid_bytes;
  uint64_t *train_documents; /* [train_document_count] where in train each document starts */
  size_t train_document_count;
  uint32_t *token_bytes; /* [V] length of each token's text */
} dataset;

/* A held-out part begins at a line, if there is one near.  ALIBI_BAD_INPUT where a text is empty (in a folder such
 * are left out), or a line of JSON is not one with a field "text". */
status dataset_make(const dataset_request *request, dataset *data, alibi_error *error);
void dataset_free(dataset *data);

#endif
