/* Texts to token ids: split by position, a tokenizer trained on the training part alone, ids in one array a part.
 * The texts stay mapped until they are encoded; what was inside JSON is copied. */
#include "train/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer.h"
#include "train/document_feed.h"
#include "train/document_reader.h"

/* Documents of one part. */
typedef struct pieces {
  const char **data;
  size_t *sizes;
  size_t count, data_capacity, size_capacity, bytes;
} pieces;

typedef struct sources {
  text_list texts;
  document_reader **readers; /* of plain texts, to which pieces point */
  size_t reader_count;
  char **copies; /* out of JSON */
  size_t copy_count, copy_capacity;
  held_out_rule rule;
  pieces train, valid;
} sources;

static void close_sources(sources *s)
{
  for (size_t i = 0; i < s->reader_count; i++) document_reader_close(s->readers[i]);
  for (size_t i = 0; i < s->copy_count; i++) free(s->copies[i]);
  memory_free(s->readers);
  free(s->copies);
  free(s->train.data);
  free(s->train.sizes);
  free(s->valid.data);
  free(s->valid.sizes);
  text_list_free(&s->texts);
}

static status add_piece(pieces *p, const void *data, size_t size, alibi_error *error)
{
  if (size == 0) return ALIBI_OK;
  status result = memory_grow(&p->data, &p->data_capacity, p->count + 1, sizeof *p->data, "the texts", error);
  if (result == ALIBI_OK)
    result = memory_grow(&p->sizes, &p->size_capacity, p->count + 1, sizeof *p->sizes, "the texts", error);
  if (result != ALIBI_OK) return result;
  p->data[p->count] = data;
  p->sizes[p->count++] = size;
  p->bytes += size;
  return ALIBI_OK;
}

static status add_plain(sources *s, const text_file *file, const document *text, alibi_error *error)
{
  if (text->size == 0 && file->walked) return ALIBI_OK;
  if (text->size == 0) return fail(error, ALIBI_BAD_INPUT, "%s: expected text, found an empty file", file->path);
  size_t split = file->held_out ? 0 : document_split_point(text->data, text->size, s->rule.share);
  status result = add_piece(&s->train, text->data, split, error);
  return result == ALIBI_OK ? add_piece(&s->valid, text->data + split, text->size - split, error) : result;
}

static status add_line(sources *s, const text_file *file, const document *line, alibi_error *error)
{
  json_node *tree = NULL;
  const char *text;
  char *copy;
  size_t size;
  status result;
  bool held = file->held_out || (s->rule.share > 0 && held_out_next(&s->rule, line->size));
  TRY(document_line_text(file->path, line, "text", &tree, &text, &size, error));
  if (size == 0) goto done;
  TRY(memory_grow(&s->copies, &s->copy_capacity, s->copy_count + 1, sizeof *s->copies, "the texts", error));
  copy = malloc(size);
  if (!copy) RAISE(error, ALIBI_FAILED, "%s: not enough memory for its texts", file->path);
  s->copies[s->copy_count++] = copy;
  memcpy(copy, text, size);
  TRY(add_piece(held ? &s->valid : &s->train, copy, size, error));
done:
  node_free(tree);
  return result;
}

static status read_file(sources *s, const text_file *file, alibi_error *error)
{
  document_reader *reader = NULL;
  document text;
  status result;
  TRY(document_reader_open(file, &reader, error));
  for (;;) {
    TRY(document_reader_next(reader, &text, error));
    if (!text.data) break;
    TRY(file->lines ? add_line(s, file, &text, error) : add_plain(s, file, &text, error));
  }
  if (!file->lines) {
    s->readers[s->reader_count++] = reader;
    return ALIBI_OK;
  }
done:
  document_reader_close(reader);
  return result;
}

static status open_sources(const dataset_request *request, sources *s, alibi_error *error)
{
  status result = ALIBI_OK;
  if (request->text_count == 0) RAISE(error, ALIBI_INVALID, "expected at least one text to train on, found none");
  s->rule.share = request->valid ? 0 : request->held_out;
  for (size_t i = 0; i < request->text_count; i++)
    TRY(text_list_add(&s->texts, request->texts[i], TEXT_BY_NAME, false, error));
  if (request->valid) TRY(text_list_add_all(&s->texts, "--valid", request->valid, TEXT_BY_NAME, true, error));
  TRY(memory_new(&s->readers, s->texts.count, sizeof *s->readers, "the texts", error));
  for (size_t i = 0; i < s->texts.count; i++) TRY(read_file(s, &s->texts.files[i], error));
  if (s->train.count == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected text to train on, found none", request->texts[0]);
done:
  return result;
}

static status choose_tokenizer(const dataset_request *request, const pieces *train, alibi_tokenizer **tokenizer,
                               alibi_error *error)
{
  if (!request->tokenizer)
    return alibi_tokenizer_train(train->data, train->sizes, train->count, request->vocabulary, tokenizer, error);
  if (strcmp(request->tokenizer, "bytes") == 0) return alibi_tokenizer_new_bytes(tokenizer, error);
  return alibi_tokenizer_open(request->tokenizer, tokenizer, error);
}

/* starts: where in ids each piece does; NULL: nobody asks. */
static status encode(const alibi_tokenizer *tokenizer, const pieces *p, uint32_t **ids, size_t *total,
                     uint64_t *starts, alibi_error *error)
{
  size_t capacity = 0;
  for (size_t i = 0; i < p->count; i++) {
    uint32_t *tokens;
    size_t n;
    status result = alibi_tokenizer_encode(tokenizer, p->data[i], p->sizes[i], &tokens, &n, error);
    if (result != ALIBI_OK) return result;
    result = memory_grow(ids, &capacity, size_add(*total, n), sizeof **ids, "the token ids", error);
    if (result == ALIBI_OK) memcpy(*ids + *total, tokens, n * sizeof *tokens);
    alibi_tokens_free(tokens);
    if (result != ALIBI_OK) return result;
    if (starts) starts[i] = *total;
    *total += n;
  }
  return ALIBI_OK;
}

status dataset_make(const dataset_request *request, dataset *data, alibi_error *error)
{
  sources s = {0};
  status result;
  *data = (dataset){0};
  TRY(open_sources(request, &s, error));
  TRY(choose_tokenizer(request, &s.train, &data->tokenizer, error));
  TRY(memory_new(&data->train_documents, s.train.count, sizeof *data->train_documents, "the documents", error));
  data->train_document_count = s.train.count;
  TRY(encode(data->tokenizer, &s.train, &data->train, &data->train_count, data->train_documents, error));
  TRY(encode(data->tokenizer, &s.valid, &data->valid, &data->valid_count, NULL, error));
  TRY(tokenizer_token_bytes(data->tokenizer, &data->token_bytes, error));
  data->train_bytes = s.train.bytes;
  data->valid_bytes = s.valid.bytes;
done:
  close_sources(&s);
  if (result != ALIBI_OK) dataset_free(data);
  return result;
}

void dataset_free(dataset *data)
{
  alibi_tokenizer_free(data->tokenizer);
  free(data->train);
  free(data->valid);
  memory_free(data->train_documents);
  memory_free(data->token_bytes);
  *data = (dataset){0};
}
