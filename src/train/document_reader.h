/* train/document_reader.h - texts as a user has them: files and folders, plain or JSON lines, packed or not; one
 * document after the other.
 *
 * A plain text is one document.  A file of JSON lines (.jsonl, .jsonlines, .json-lines, .ndjson) holds one
 * document on every line, an object with the text in one of its fields; lines without anything are skipped.
 * Whether gzip or zstd packed it says not the name but the first bytes; the endings .gz and .zst are taken off
 * before the name is looked at.  A folder is walked in the order of the bytes of its names, folders within it too,
 * names that begin with a dot not; by name it gives the files that end in .txt, .text, .md or like JSON lines,
 * packed or not. */
#ifndef TRAIN_DOCUMENT_READER_H
#define TRAIN_DOCUMENT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"

/* Plain or JSON lines: as each name says, or the same for all files, whatever they are called. */
typedef enum text_format { TEXT_BY_NAME, TEXT_PLAIN, TEXT_JSON_LINES } text_format;

typedef struct text_file {
  char *path;
  bool lines;     /* JSON lines */
  bool held_out;  /* as text_list_add was told */
  bool walked;    /* found in a folder */
  uint64_t bytes; /* on disk; TEXT_FILE_STREAM: a pipe, which can be read once */
} text_file;
#define TEXT_FILE_STREAM UINT64_MAX

typedef struct text_list {
  text_file *files;
  size_t count, capacity;
  size_t left_out; /* files of a walk with other names */
} text_list;

/* Adds a file, or what a folder gives.  ALIBI_BAD_INPUT where there is nothing of the kind. */
status text_list_add(text_list *list, const char *path, text_format format, bool held_out, alibi_error *error);
/* One path, or several between commas; where all that is left is the name of a file or folder, comma or not, it is
 * that one. */
status text_list_add_all(text_list *list, const char *option, const char *paths, text_format format, bool held_out,
                         alibi_error *error);
void text_list_free(text_list *list);

typedef struct document {
  const unsigned char *data; /* a plain text: until the reader is closed; a line: until the next document */
  size_t size;
  size_t line; /* JSON, on this line of the file; 0: plain text */
} document;

typedef struct document_reader document_reader;

status document_reader_open(const text_file *file, document_reader **reader, alibi_error *error);
/* data NULL: there is none any more.  An empty plain text is a document of size 0. */
status document_reader_next(document_reader *reader, document *next, alibi_error *error);
size_t document_reader_position(const document_reader *reader); /* bytes of the file that were read */
size_t document_reader_size(const document_reader *reader);     /* of the file; of a pipe too */
void document_reader_close(document_reader *reader);

/* The text in a line, in the field of this name.  It belongs to *tree: node_free.  ALIBI_BAD_INPUT names path and
 * line. */
status document_line_text(const char *path, const document *line, const char *name, json_node **tree,
                          const char **text, size_t *size, alibi_error *error);

/* Where the part of a text that is held out begins: at `held_out` of its bytes before the end, or at a line soon
 * after that. */
size_t document_split_point(const unsigned char *data, size_t size, double held_out);

#endif
