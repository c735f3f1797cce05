/* train/data_catalogue.h - data.json: what `alibi data build` made, or, as build.json, what it has made so far.
 *
 * The folder: data.json, tokenizer.json, train-00000.tokens ..., valid-00000.tokens ... (file/token_file.h).
 * data.json is written last; where it lies, all is there. */
#ifndef TRAIN_DATA_CATALOGUE_H
#define TRAIN_DATA_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "file/token_file.h"
#include "train/document_feed.h"

#define DATA_FINISHED "data.json"
#define DATA_UNFINISHED "build.json"
#define DATA_TOKENIZER "tokenizer.json"

extern const char *const data_split_names[SPLIT_COUNT]; /* "train", "valid" */

enum { SHARD_NAME_SIZE = 32 };
typedef struct data_shard {
  char file[SHARD_NAME_SIZE];
  uint64_t tokens, documents, bytes, fingerprint;
  uint64_t left_out_empty,
      left_out_bad;       /* documents without text, lines that are no document, before its last one */
  uint64_t next_document; /* number of the first document (document_feed.h) after its last */
} data_shard;

typedef struct data_shards {
  data_shard *shards;
  size_t count, capacity;
} data_shards;

typedef struct data_catalogue {
  char tokenizer_kind[16];
  uint32_t vocabulary;
  uint64_t tokenizer; /* fingerprint; 0: none, the ids are no text (train/synthetic.h) */
  data_shards splits[SPLIT_COUNT];
  uint64_t left_out_empty, left_out_bad; /* in all of the texts */
  json_node *root;                       /* as read: "options" and "sources" are in it */
} data_catalogue;

void data_shard_name(data_split split, size_t number, char name[SHARD_NAME_SIZE]);
status data_catalogue_add(data_catalogue *catalogue, data_split split, const data_shard *shard,
                          alibi_error *error);
data_shard data_catalogue_sum(const data_catalogue *catalogue, data_split split); /* of its counts */

/* folder/name.  ALIBI_BAD_INPUT with a sentence where anything is not as we write it: a shard's name too, so that
 * no catalogue leads out of its folder. */
status data_catalogue_read(const char *folder, const char *name, data_catalogue *catalogue, alibi_error *error);
/* Takes over options and sources. */
status data_catalogue_write(const data_catalogue *catalogue, const char *folder, const char *name,
                            json_node *options, json_node *sources, alibi_error *error);
void data_catalogue_free(data_catalogue *catalogue);

/* Looks at every byte of a finished folder: are the shards those that data.json lists, and the tokenizer the one
 * that made them? */
status data_check(const char *folder, data_catalogue *catalogue, alibi_error *error);

/* One shard of a folder, opened and held against the catalogue. */
status data_shard_open(const char *folder, const data_catalogue *catalogue, const data_shard *shard,
                       token_file *file, alibi_error *error);

#endif
