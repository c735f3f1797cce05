/* train/token_source.h - token ids to train on, wherever they lie: in files that are mapped, or in memory.
 *
 * A source is one long sequence of ids, 0 .. count-1, in parts that lie in different places (shards).  Where the
 * boundaries of documents are known, a document begins at every part's first token and never goes on in the next
 * part. */
#ifndef TRAIN_TOKEN_SOURCE_H
#define TRAIN_TOKEN_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/system.h"

typedef struct token_part {
  const void *ids; /* uint32_t where wide, else uint16_t; in a file they are little-endian, as is the machine */
  size_t count;
  bool wide;
  const uint64_t *documents; /* where documents start, ascending, the first at 0; NULL: unknown */
  size_t document_count;
} token_part;

typedef struct token_source {
  char *name; /* for sentences: the path */
  token_part *parts;
  size_t *starts; /* [part_count + 1] where a part begins in the sequence; the last: count */
  size_t part_count, count, document_count;
  uint64_t fingerprint; /* of ids and documents: the same source opened again has the same one */
  uint32_t largest;     /* id; every id was looked at */
  uint32_t vocabulary;  /* of the tokenizer that made the ids; 0: unknown */
  uint64_t tokenizer;   /* its fingerprint (text/tokenizer_fingerprint.h); 0: unknown */
  char *tokenizer_path; /* the tokenizer.json beside the shards; NULL: none */
  const char *format;   /* of its files (file/token_file.h); NULL: ids in memory */
  mapped_file *files;   /* behind the parts */
  size_t file_count;
} token_source;

/* path: a folder that `alibi data build` made, one of its shards, a file of llm.c, "nanogpt:FILE" or
 * "nanogpt:DIR". split: "train" or "valid"; a single file is all "train".  The files are mapped, and read once, so
 * that a damaged one is found here: ALIBI_BAD_INPUT.  ALIBI_INVALID where there is no such split. */
status token_source_open(const char *path, const char *split, token_source *source, alibi_error *error);

/* Is this path one for token_source_open, judged by its name and first bytes?  If not, it is text. */
bool token_source_recognises(const char *path);
/* Has what lies at `path` this split?  false too where it cannot be read. */
bool token_source_has_split(const char *path, const char *split);

/* Ids in memory, borrowed until the source is closed, and so are the documents (NULL: unknown).  The caller is
 * trusted with neither: ALIBI_INVALID where starts do not ascend from 0 or lie beyond the ids. */
status token_source_of_ids(const char *name, const uint32_t *ids, size_t count, const uint64_t *documents,
                           size_t document_count, token_source *source, alibi_error *error);

void token_source_close(token_source *source);

/* ids[0 .. count-1] = tokens from .. from+count-1, across parts.  from + count <= source->count. */
void token_source_read(const token_source *source, size_t from, size_t count, uint32_t *ids);

bool token_source_has_documents(const token_source *source);

/* The first start of a document that is > from; count where there is none, or none is known. */
size_t token_source_next_document(const token_source *source, size_t from);

/* Where document `index` < document_count starts. */
size_t token_source_document(const token_source *source, size_t index);

/* ALIBI_BAD_INPUT where the ids are none of a vocabulary of this size, or another tokenizer made them (tokenizer:
 * its fingerprint, 0 where it is not known). */
status token_source_check(const token_source *source, uint32_t vocabulary, uint64_t tokenizer, alibi_error *error);

#endif
