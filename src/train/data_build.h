/* train/data_build.h - texts to shards of token ids in a folder (train/data_catalogue.h), once, by all threads.
 *
 * The ids are those of alibi_tokenizer_encode of each document, whatever the number of threads.  A shard is closed
 * after the document that fills it.  What is closed stays: a build that was stopped, by whatever, goes on when it
 * is asked for again, and gives the same bytes as one that was not. */
#ifndef TRAIN_DATA_BUILD_H
#define TRAIN_DATA_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "train/data_catalogue.h"
#include "train/document_reader.h"

typedef struct data_build_progress {
  const char *doing;           /* "reading the texts for a tokenizer", "training the tokenizer", "building" */
  uint64_t bytes, bytes_total; /* of files */
  uint64_t tokens, documents;  /* written in this run */
} data_build_progress;

typedef struct data_build_request {
  const char *const *texts; /* files and folders */
  size_t text_count;
  const char *valid; /* files and folders that are held out, between commas; NULL: none */
  double held_out;   /* share of the others; 0: none */
  text_format format;
  const char *name;   /* of the field with the text in a line of JSON */
  bool leave_out_bad; /* lines that are no such object, rather than stop */
  const char
      *tokenizer;      /* "bytes", or the path of a tokenizer.json; NULL: a BPE is trained on the training part */
  uint32_t vocabulary; /* of that BPE, at most */
  uint64_t sample_bytes; /* it sees so many bytes at most, from all over the training part */
  uint64_t shard_tokens;
  const char *out;
  void (*report)(void *user, const data_build_progress *progress); /* NULL: nobody */
  void *user;
} data_build_request;

typedef struct data_build_result {
  data_catalogue catalogue; /* of the finished folder; data_catalogue_free */
  bool was_finished;        /* nothing was to be done */
  size_t kept_shards;       /* of an earlier run */
  size_t left_out_files;    /* with other names, in folders */
  uint64_t tokens;          /* written in this run */
} data_build_result;

/* ALIBI_INVALID where `out` holds the data of another request, and then it says what differs.  ALIBI_CANCELLED
 * when the context is cancelled. */
status data_build(alibi_context *context, const data_build_request *request, data_build_result *built,
                  alibi_error *error);

#endif
