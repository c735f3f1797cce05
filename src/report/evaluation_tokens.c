/* Tokens as lines.  A token's text may be part of a character or hold line breaks: what is no UTF-8 becomes U+FFFD
 * (the id says which token it was), line breaks are kept, quoted in CSV and escaped in JSON. */
#include "report/evaluation_tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"

static bool ends_with(const char *text, const char *end)
{
  size_t size = strlen(text), tail = strlen(end);
  return size > tail && strcmp(text + size - tail, end) == 0 && text[size - tail - 1] != '/';
}

bool token_table_name(const char *path)
{
  return ends_with(path, ".csv") || ends_with(path, ".jsonl");
}

/* In quotes, as CSV or JSON wants it. */
static void add_bytes(draft *d, const char *bytes, size_t size, bool json)
{
  draft_put(d, "\"", 1);
  while (size > 0) {
    size_t length = utf8_length(bytes, size);
    unsigned char c = (unsigned char)*bytes;
    if (length == 0 || (c == 0 && !json)) draft_put(d, "\xef\xbf\xbd", 3);
    else if (c == '"') draft_put(d, json ? "\\\"" : "\"\"", 2);
    else if (json && c == '\\') draft_put(d, "\\\\", 2);
    else if (json && (c < 0x20 || c == 0x7f)) draft_add(d, "\\u%04x", c);
    else draft_put(d, bytes, length);
    if (length == 0) length = 1;
    bytes += length;
    size -= length;
  }
  draft_put(d, "\"", 1);
}

static void add_text(draft *d, const char *key, const char *text, bool json)
{
  if (json) draft_add(d, "\"%s\":", key);
  if (text) add_bytes(d, text, strlen(text), json);
  else if (json) draft_add(d, "null");
  draft_put(d, ",", 1);
}

static void add_integer(draft *d, const char *key, int64_t value, bool json)
{
  if (json) draft_add(d, "\"%s\":", key);
  draft_add(d, "%" PRId64 ",", value);
}

status token_table_begin(const char *path, token_table *table, alibi_error *error)
{
  *table = (token_table){.json = ends_with(path, ".jsonl")};
  status result = replace_begin(path, &table->file, error);
  if (result == ALIBI_OK && !table->json)
    fputs("model,extend,protocol,length,document,token,id,text,context,log_probability\n", table->file.stream);
  return result;
}

status token_table_add(token_table *table, const evaluation_results *results, const evaluated_row *row,
                       const char *document, const token_entry *entry, alibi_error *error)
{
  draft d = {0};
  bool json = table->json;
  char number[40];
  const evaluation_line *line = &results->lines[row->line];
  if (json) draft_put(&d, "{", 1);
  add_text(&d, "model", results->models[line->model].name, json);
  add_text(&d, "extend", line->extend, json);
  add_text(&d, "protocol", row->protocol, json);
  add_integer(&d, "length", row->length, json);
  add_text(&d, "document", document, json);
  add_integer(&d, "token", entry->place, json);
  add_integer(&d, "id", entry->id, json);
  if (json) draft_add(&d, "\"text\":");
  add_bytes(&d, (const char *)entry->text, entry->size, json);
  draft_put(&d, ",", 1);
  add_integer(&d, "context", entry->context, json);
  number_exact(entry->log_probability, number, sizeof number);
  if (json) draft_add(&d, "\"log_probability\":%s}\n", number[0] ? number : "null");
  else draft_add(&d, "%s\n", number);
  status result = ALIBI_OK;
  if (d.failed) result = fail(error, ALIBI_FAILED, "%s: cannot write: not enough memory", table->file.path);
  else if (fwrite(d.data, 1, d.used, table->file.stream) != d.used)
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", table->file.path);
  free(d.data);
  return result;
}

status token_table_commit(token_table *table, alibi_error *error)
{
  return replace_commit(&table->file, error);
}

void token_table_abandon(token_table *table)
{
  replace_abandon(&table->file);
}
