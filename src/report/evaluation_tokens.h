/* report/evaluation_tokens.h - every scored token of an evaluation as a line of CSV or of JSON, written as it
 * comes: a text may have millions. */
#ifndef REPORT_EVALUATION_TOKENS_H
#define REPORT_EVALUATION_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system.h"
#include "report/evaluation_results.h"

typedef struct token_table {
  replace_file file;
  bool json;
} token_table;

typedef struct token_entry {
  int64_t place; /* in its document */
  uint32_t id;
  const unsigned char *text; /* borrowed; any bytes */
  size_t size;
  double log_probability; /* nats */
  int64_t context;        /* inputs that it was predicted from */
} token_entry;

/* Is it a name of such a file: does it end in .csv or .jsonl? */
bool token_table_name(const char *path);

/* begin -> add ... -> commit, which puts the file in its place; abandon leaves what was there. */
status token_table_begin(const char *path, token_table *table, alibi_error *error);
/* row: whose the token is. */
status token_table_add(token_table *table, const evaluation_results *results, const evaluated_row *row,
                       const char *document, const token_entry *entry, alibi_error *error);
status token_table_commit(token_table *table, alibi_error *error);
void token_table_abandon(token_table *table);

#endif
