/* train/data_rounds.h - pieces of text to ids, by many threads, in order. */
#ifndef TRAIN_DATA_ROUNDS_H
#define TRAIN_DATA_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "train/document_feed.h"

/* What became of a piece. */
typedef struct data_job {
  data_split split;
  uint64_t document;
  bool first, last; /* of its document */
  const char *path;
  size_t line;
  size_t offset, size; /* its copy, in the text of its round */
  uint32_t *ids;
  size_t count, text_bytes;
  bool bad; /* a line that is no document, left out */
} data_job;

typedef struct data_rounds_request {
  const alibi_tokenizer *tokenizer;
  const char *name;   /* field of a line with the text */
  bool leave_out_bad; /* lines, rather than stop */
  int threads;
  /* Both are called by one thread, with each other in turn.  next: data NULL ends it; the path stays. */
  status (*next)(void *user, feed_piece *piece, alibi_error *error);
  status (*write)(void *user, const data_job *job, alibi_error *error);
  void *user;
} data_rounds_request;

/* Of failures the one of the first piece is reported, whatever the threads; all before it is written. */
status data_rounds_run(const data_rounds_request *request, alibi_error *error);

#endif
