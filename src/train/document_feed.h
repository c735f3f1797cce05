/* train/document_feed.h - the texts of a list as one sequence of documents, each for training or held out, long
 * ones in pieces.
 *
 * Held out are the files that the list marks so, and by share: of a plain text its end, from a line on; where the
 * list has more than FEED_FEW_TEXTS plain ones, and of JSON lines, whole documents, chosen so that up to every
 * point of the sequence about the share of its bytes is held out.  Nothing depends on chance, threads or where a
 * reader began. */
#ifndef TRAIN_DOCUMENT_FEED_H
#define TRAIN_DOCUMENT_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "train/document_reader.h"

enum { FEED_FEW_TEXTS = 100 };
typedef enum data_split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_COUNT } data_split;

/* The rule for whole documents: up to every point about the share of the bytes is held out. */
typedef struct held_out_rule {
  double share, bytes, held;
} held_out_rule;
bool held_out_next(held_out_rule *rule, size_t size); /* is a document of this size the next one? */

typedef struct feed_piece {
  const unsigned char *data; /* until the next piece; NULL: there is none any more */
  size_t size;
  data_split split;
  uint64_t document; /* number in the sequence, of both splits together */
  bool first, last;  /* of its document */
  const char *path;
  size_t line; /* a whole line of JSON, on this line of the file; 0: text */
} feed_piece;

typedef struct document_feed {
  const text_list *texts;
  held_out_rule rule;
  const alibi_tokenizer *tokenizer;
  size_t piece_bytes;
  uint64_t empty; /* files of a walk that were left out so far, since they are empty */
  /* inside */
  bool whole;
  size_t file;
  document_reader *reader;
  document text;
  size_t at, boundary; /* in text: of the next piece; where its held-out part begins */
  uint64_t documents, bytes_before;
} document_feed;

/* Everything is borrowed.  tokenizer: pieces are cut where it allows (text/safe_cut.h); NULL: a BPE that is still
 * to be trained.  An empty text is ALIBI_BAD_INPUT where it was named, not where a walk found it. */
void feed_open(document_feed *feed, const text_list *texts, double held_out, const alibi_tokenizer *tokenizer,
               size_t piece_bytes);
status feed_next(document_feed *feed, feed_piece *piece, alibi_error *error);
uint64_t feed_position(const document_feed *feed); /* bytes of files that were read */
void feed_close(document_feed *feed);

#endif
