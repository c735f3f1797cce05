/* Texts to token ids: split by position, a tokenizer trained on the training part alone, ids in one array a part.
 */
#include "train/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"

enum { LINE_WITHIN = 4096 };

/* Pieces of mapped files. */
typedef struct pieces {
  const char **data;
  size_t *sizes;
  size_t count, bytes;
} pieces;

typedef struct sources {
  mapped_file *files;
  size_t file_count;
  pieces train, valid;
} sources;

static void close_sources(sources *s)
{
  for (size_t i = 0; i < s->file_count; i++) mapped_file_close(&s->files[i]);
  memory_free(s->files);
  memory_free(s->train.data);
  memory_free(s->train.sizes);
  memory_free(s->valid.data);
  memory_free(s->valid.sizes);
}

static status open_text(sources *s, const char *path, const mapped_file **file, alibi_error *error)
{
  status result = mapped_file_open(path, &s->files[s->file_count], error);
  if (result != ALIBI_OK) return result;
  *file = &s->files[s->file_count++];
  return (*file)->size ? ALIBI_OK : fail(error, ALIBI_BAD_INPUT, "%s: expected text, found an empty file", path);
}

static size_t split_point(const mapped_file *f, double held_out)
{
  size_t split = f->size - (size_t)((double)f->size * held_out);
  for (size_t i = split; i > 0 && i < f->size && i < split + LINE_WITHIN; i++)
    if (f->data[i - 1] == '\n') return i;
  return split;
}

static void add_piece(pieces *p, const unsigned char *data, size_t size)
{
  if (size == 0) return;
  p->data[p->count] = (const char *)data;
  p->sizes[p->count++] = size;
  p->bytes += size;
}

static status pieces_new(pieces *p, size_t count, alibi_error *error)
{
  status result = memory_new(&p->data, count, sizeof *p->data, "the texts", error);
  return result == ALIBI_OK ? memory_new(&p->sizes, count, sizeof *p->sizes, "the texts", error) : result;
}

static size_t count_paths(const char *list)
{
  size_t count = 1;
  for (; *list; list++) count += *list == ',';
  return count;
}

/* One path, or several between commas; where all that is left is the name of a file, comma or not, it is that one.
 */
static status open_valid(sources *s, const char *list, alibi_error *error)
{
  const mapped_file *file;
  char *copy = strdup(list);
  const char *rest = copy, *path;
  status result = ALIBI_OK;
  if (!copy) RAISE(error, ALIBI_FAILED, "not enough memory for the names of the texts");
  for (size_t item = 1, size; rest; item++) {
    path = rest;
    if (path_exists(path)) rest = NULL;
    else {
      list_next(&rest, &path, &size);
      if (size == 0) RAISE(error, ALIBI_INVALID, "--valid: item %zu of '%.200s' is empty", item, list);
      copy[(size_t)(path - copy) + size] = '\0';
    }
    TRY(open_text(s, path, &file, error));
    add_piece(&s->valid, file->data, file->size);
  }
done:
  free(copy);
  return result;
}

static status open_sources(const dataset_request *request, sources *s, alibi_error *error)
{
  size_t count = request->text_count + (request->valid ? count_paths(request->valid) : 0);
  const mapped_file *file;
  status result;
  if (request->text_count == 0) RAISE(error, ALIBI_INVALID, "expected at least one text to train on, found none");
  TRY(memory_new(&s->files, count, sizeof *s->files, "the texts", error));
  TRY(pieces_new(&s->train, count, error));
  TRY(pieces_new(&s->valid, count, error));
  for (size_t i = 0; i < request->text_count; i++) {
    TRY(open_text(s, request->texts[i], &file, error));
    size_t split = request->valid ? file->size : split_point(file, request->held_out);
    add_piece(&s->train, file->data, split);
    add_piece(&s->valid, file->data + split, file->size - split);
  }
  if (request->valid) TRY(open_valid(s, request->valid, error));
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

static status encode(const alibi_tokenizer *tokenizer, const pieces *p, uint32_t **ids, size_t *total,
                     alibi_error *error)
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
    *total += n;
  }
  return ALIBI_OK;
}

static status count_bytes(dataset *data, alibi_error *error)
{
  uint32_t vocabulary = alibi_tokenizer_vocabulary(data->tokenizer);
  status result =
      memory_new(&data->token_bytes, vocabulary, sizeof *data->token_bytes, "the lengths of tokens", error);
  for (uint32_t i = 0; result == ALIBI_OK && i < vocabulary; i++) {
    size_t size;
    alibi_tokenizer_bytes(data->tokenizer, i, &size);
    data->token_bytes[i] = (uint32_t)size;
  }
  return result;
}

status dataset_make(const dataset_request *request, dataset *data, alibi_error *error)
{
  sources s = {0};
  status result;
  *data = (dataset){0};
  TRY(open_sources(request, &s, error));
  TRY(choose_tokenizer(request, &s.train, &data->tokenizer, error));
  TRY(encode(data->tokenizer, &s.train, &data->train, &data->train_count, error));
  TRY(encode(data->tokenizer, &s.valid, &data->valid, &data->valid_count, error));
  TRY(count_bytes(data, error));
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
  memory_free(data->token_bytes);
  *data = (dataset){0};
}
