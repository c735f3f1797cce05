/* file/token_file.h - token ids in a file that is mapped, not read: our shards, and the files of llm.c and
 * nanoGPT.
 *
 * A shard, little-endian throughout, 64 bytes of header and then exactly what it announces:
 *    0  "ALIBITOK"                       32  u32 largest id
 *    8  u32 version, 1                   36  u32 vocabulary of the tokenizer, 0 unknown
 *   12  u32 bytes of an id, 2 or 4       40  u64 fingerprint of the tokenizer, 0 unknown
 *   16  u64 tokens                       48  u64 fingerprint (XXH3) of all that follows the header
 *   24  u64 documents, 0 unknown         56  u64 fingerprint of the 56 bytes before
 *   64  the ids, zeros up to a multiple of 8 bytes, then a u64 for each document: the token it starts at
 * Foreign files: llm.c's have a header of 256 int32 (magic 20240520 and version 1: 16-bit ids; 20240801 and 7:
 * 32-bit), the third the number of tokens; nanoGPT's are 16-bit ids and nothing else. */
#ifndef FILE_TOKEN_FILE_H
#define FILE_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/system.h"

typedef struct token_file {
  mapped_file map;
  const char *format; /* "alibi", "llm.c", "nanoGPT" */
  const void *ids;    /* uint32_t where wide, else uint16_t */
  size_t count;
  bool wide;
  const uint64_t *documents; /* NULL: unknown */
  size_t document_count;
  uint32_t largest, vocabulary;
  uint64_t tokenizer, fingerprint; /* fingerprint: of a shard its content's, of a foreign file all of it */
} token_file;

/* A shard of ours or a file of llm.c, as its first bytes say.  All of it is looked at: a number that does not fit
 * the file's size, a fingerprint that differs, a document out of order are ALIBI_BAD_INPUT with a sentence. */
status token_file_open(const char *path, token_file *file, alibi_error *error);
/* Ids of 16 bits without a header: nothing in such a file can be checked but its size. */
status token_file_open_bare(const char *path, token_file *file, alibi_error *error);
void token_file_close(token_file *file);

/* Do the first bytes say that token_file_open is meant? */
bool token_file_recognises(const char *path);

/* A shard in the making.  begin -> (document -> ids ...) ... -> commit or abandon. */
typedef struct token_writer {
  replace_file file;
  fingerprint *content;
  uint64_t count;
  uint64_t *documents;
  size_t document_count, document_capacity;
  bool wide;
  uint32_t largest, vocabulary;
  uint64_t tokenizer;
} token_writer;

/* 32-bit ids where the vocabulary has more than 65536 tokens.  An id not below the vocabulary is our bug. */
status token_writer_begin(const char *path, uint32_t vocabulary, uint64_t tokenizer, token_writer *writer,
                          alibi_error *error);
/* From here on another document.  One without ids leaves no trace. */
status token_writer_document(token_writer *writer, alibi_error *error);
void token_writer_ids(token_writer *writer, const uint32_t *ids, size_t count); /* commit asks the stream */
/* written: the fingerprint of the content; may be NULL.  At least one token. */
status token_writer_commit(token_writer *writer, uint64_t *written, alibi_error *error);
void token_writer_abandon(token_writer *writer);

#endif
