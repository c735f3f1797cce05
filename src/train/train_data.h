/* train/train_data.h - what `alibi train` reads: texts, which become ids now, or ids that lie in files, from
 * `alibi data build` or another program. */
#ifndef TRAIN_TRAIN_DATA_H
#define TRAIN_TRAIN_DATA_H

#include "train/dataset.h"
#include "train/token_source.h"

typedef struct train_data_request {
  const char *const *paths; /* all texts, or all of them ids */
  size_t count;
  const char *valid;     /* list, or NULL */
  const char *tokenizer; /* "bytes", a path, or NULL: of the ids, or a BPE trained on the texts */
  const char *mix;       /* shares of the sources, or NULL */
  double held_out;       /* of texts */
  int64_t vocabulary;    /* of that BPE; of ids without a tokenizer, 0: their largest id and one */
  bool has_vocabulary;   /* it was asked for */
} train_data_request;

typedef struct train_data {
  bool in_files;              /* ids that were there already */
  alibi_tokenizer *tokenizer; /* NULL: ids of which nobody knows the text */
  int64_t vocabulary;
  token_source *sources;
  size_t source_count;
  double *shares; /* NULL: as their sizes */
  uint32_t *valid;
  size_t valid_count;                           /* in memory */
  uint32_t *token_bytes;                        /* [vocabulary], or NULL */
  size_t train_count, train_bytes, valid_bytes; /* bytes 0: unknown */
  size_t memory_bytes;                          /* that it holds, mapped files apart */
  dataset texts;
} train_data;

/* Are these ids in files?  ALIBI_INVALID where some are and some are texts. */
status train_data_kind(const train_data_request *request, bool *ids, alibi_error *error);

/* Reads and encodes, or maps and checks, all of it.  ALIBI_BAD_INPUT names the file that is damaged, empty, of
 * another tokenizer or beyond the vocabulary; ALIBI_INVALID the setting that does not fit.  What the request
 * points to is not needed after that. */
status train_data_open(const train_data_request *request, train_data *data, alibi_error *error);
void train_data_close(train_data *data);

#endif
