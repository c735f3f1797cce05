/* Texts to token ids: split by position, a tokenizer trained on the training part alone, two files of ids. */
#include "study/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "base/memory.h"

typedef struct text_parts {
  mapped_file *files;
  size_t file_count;
  const char **train, **valid;
  size_t *train_sizes, *valid_sizes;
  size_t train_count, valid_count, bytes, valid_bytes;
} text_parts;

static void close_parts(text_parts *t)
{
  for (size_t i = 0; i < t->file_count; i++) mapped_file_close(&t->files[i]);
  memory_free(t->files);
  memory_free(t->train);
  memory_free(t->valid);
  memory_free(t->train_sizes);
  memory_free(t->valid_sizes);
}

static status open_file(text_parts *t, const char *path, mapped_file **file, alibi_error *error)
{
  *file = &t->files[t->file_count];
  status result = mapped_file_open(path, *file, error);
  if (result != ALIBI_OK) return result;
  t->file_count++;
  return (*file)->size ? ALIBI_OK : fail(error, ALIBI_BAD_INPUT, "%s: expected text, found an empty file", path);
}

/* The held-out part begins at a line, if there is one near. */
static size_t split_point(const mapped_file *f, double held_out)
{
  size_t split = f->size - (size_t)((double)f->size * held_out);
  for (size_t i = split; i < f->size && i < split + 4096; i++)
    if (i > 0 && f->data[i - 1] == '\n') return i;
  return split;
}

static void add_part(const char **parts, size_t *sizes, size_t *count, const unsigned char *data, size_t size)
{
  parts[*count] = (const char *)data;
  sizes[(*count)++] = size;
}

static status open_parts(const study_request *request, text_parts *t, alibi_error *error)
{
  size_t count = request->text_count + 1;
  mapped_file *file;
  status result;
  if (request->text_count == 0) RAISE(error, ALIBI_INVALID, "study: expected at least one TEXT, found none");
  TRY(memory_new(&t->files, count, sizeof *t->files, "the texts", error));
  TRY(memory_new(&t->train, count, sizeof *t->train, "the texts", error));
  TRY(memory_new(&t->valid, count, sizeof *t->valid, "the texts", error));
  TRY(memory_new(&t->train_sizes, count, sizeof *t->train_sizes, "the texts", error));
  TRY(memory_new(&t->valid_sizes, count, sizeof *t->valid_sizes, "the texts", error));
  for (size_t i = 0; i < request->text_count; i++) {
    TRY(open_file(t, request->texts[i], &file, error));
    size_t split = request->valid ? file->size : split_point(file, request->settings.held_out);
    add_part(t->train, t->train_sizes, &t->train_count, file->data, split);
    if (split < file->size) add_part(t->valid, t->valid_sizes, &t->valid_count, file->data + split, file->size - split);
  }
  if (request->valid) {
    TRY(open_file(t, request->valid, &file, error));
    add_part(t->valid, t->valid_sizes, &t->valid_count, file->data, file->size);
  }
  for (size_t i = 0; i < t->train_count; i++) t->bytes += t->train_sizes[i];
  for (size_t i = 0; i < t->valid_count; i++) t->valid_bytes += t->valid_sizes[i];
done:
  return result;
}

/* Token ids of all parts, one after the other; free() them. */
static status encode_parts(const alibi_tokenizer *tokenizer, const char *const *parts, const size_t *sizes, size_t count,
                           uint32_t **ids, size_t *total, alibi_error *error)
{
  size_t capacity = 0;
  status result = ALIBI_OK;
  for (size_t i = 0; i < count; i++) {
    uint32_t *tokens = NULL;
    size_t n = 0;
    TRY(alibi_tokenizer_encode(tokenizer, parts[i], sizes[i], &tokens, &n, error));
    result = memory_grow(ids, &capacity, *total + n, sizeof **ids, "the token ids", error);
    if (result == ALIBI_OK) memcpy(*ids + *total, tokens, n * sizeof *tokens);
    if (result == ALIBI_OK) *total += n;
    alibi_tokens_free(tokens);
    if (result != ALIBI_OK) goto done;
  }
done:
  return result;
}

static int64_t longest_training(const study_plan *plan)
{
  int64_t longest = 0;
  for (size_t i = 0; i < plan->entry_count; i++)
    if (plan->entries[i].model.train_length > longest) longest = plan->entries[i].model.train_length;
  return longest;
}

static status check_lengths(const study_request *request, const study_plan *plan, alibi_error *error)
{
  const char *name = request->text_count == 1 ? request->texts[0] : "the texts together";
  int64_t train = longest_training(plan) + 1, valid = study_plan_longest(plan) + 1;
  if (plan->train_tokens < train)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected at least %lld tokens to train on, found %lld (a longer text, or a shorter --train-length)",
                name, (long long)train, (long long)plan->train_tokens);
  if (plan->valid_tokens < valid)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected at least %lld held-out tokens to test on, found %lld (a longer text, shorter --test-lengths, or a larger --held-out)",
                request->valid ? request->valid : name, (long long)valid, (long long)plan->valid_tokens);
  return ALIBI_OK;
}

static status describe(const study_request *request, study_plan *plan, const text_parts *t, alibi_error *error)
{
  char sentence[1024], held[256];
  double mega = 1e-6;
  if (request->valid)
    snprintf(held, sizeof held, "tested on %.100s (%.2f MB)", request->valid, (double)t->valid_bytes * mega);
  else
    snprintf(held, sizeof held, "the last %.3g %% of each held out (%.2f MB)", 100 * request->settings.held_out,
             (double)t->valid_bytes * mega);
  snprintf(sentence, sizeof sentence, "%.200s%s: %.2f MB to train on, %s; %s, %lld tokens; %.3f bytes a token; %lld tokens to train on, %lld to test on",
           request->texts[0], request->text_count > 1 ? " and others" : "", (double)t->bytes * mega, held,
           plan->settings.bytes ? "bytes" : "byte-level BPE", (long long)plan->entries[0].model.vocabulary,
           (double)t->bytes / (double)(plan->train_tokens ? plan->train_tokens : 1), (long long)plan->train_tokens,
           (long long)plan->valid_tokens);
  free(plan->text);
  plan->text = strdup(sentence);
  return plan->text ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the plan");
}

status study_corpus_make(const study_request *request, study_plan *plan, alibi_error *error)
{
  text_parts parts = {0};
  alibi_tokenizer *tokenizer = NULL;
  char *tokenizer_path = NULL, *train_path = NULL, *valid_path = NULL;
  uint32_t *train = NULL, *valid = NULL;
  size_t train_count = 0, valid_count = 0;
  status result;
  TRY(open_parts(request, &parts, error));
  if (plan->settings.bytes)
    TRY(alibi_tokenizer_new_bytes(&tokenizer, error));
  else
    TRY(alibi_tokenizer_train(parts.train, parts.train_sizes, parts.train_count, (uint32_t)plan->settings.vocabulary, &tokenizer,
                              error));
  for (size_t i = 0; i < plan->entry_count; i++) plan->entries[i].model.vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  TRY(encode_parts(tokenizer, parts.train, parts.train_sizes, parts.train_count, &train, &train_count, error));
  TRY(encode_parts(tokenizer, parts.valid, parts.valid_sizes, parts.valid_count, &valid, &valid_count, error));
  plan->train_tokens = (int64_t)train_count;
  plan->valid_tokens = (int64_t)valid_count;
  TRY(check_lengths(request, plan, error));
  TRY(directory_make(request->directory, error));
  TRY(study_path(request->directory, "tokenizer.json", NULL, &tokenizer_path, error));
  TRY(study_path(request->directory, "train.tokens", NULL, &train_path, error));
  TRY(study_path(request->directory, "valid.tokens", NULL, &valid_path, error));
  TRY(file_write_atomic(train_path, train, train_count * sizeof *train, error));
  TRY(file_write_atomic(valid_path, valid, valid_count * sizeof *valid, error));
  TRY(alibi_tokenizer_save(tokenizer, tokenizer_path, error));
  TRY(describe(request, plan, &parts, error));
done:
  free(valid);
  free(train);
  free(valid_path);
  free(train_path);
  free(tokenizer_path);
  alibi_tokenizer_free(tokenizer);
  close_parts(&parts);
  return result;
}

static status open_ids(const char *directory, const char *name, int64_t expected, mapped_file *file, const uint32_t **ids,
                       size_t *count, alibi_error *error)
{
  char *path = NULL;
  status result;
  TRY(study_path(directory, name, NULL, &path, error));
  TRY(mapped_file_open(path, file, error));
  if (file->size != (size_t)expected * sizeof **ids)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected %lld tokens of 4 bytes, found %zu bytes", path, (long long)expected, file->size);
  *ids = (const uint32_t *)(const void *)file->data;
  *count = (size_t)expected;
done:
  free(path);
  return result;
}

status study_corpus_open(const char *directory, const study_plan *plan, study_corpus *corpus, alibi_error *error)
{
  char *path = NULL;
  alibi_tokenizer *tokenizer = NULL;
  status result;
  *corpus = (study_corpus){0};
  TRY(open_ids(directory, "train.tokens", plan->train_tokens, &corpus->train_file, &corpus->train, &corpus->train_count, error));
  TRY(open_ids(directory, "valid.tokens", plan->valid_tokens, &corpus->valid_file, &corpus->valid, &corpus->valid_count, error));
  TRY(study_path(directory, "tokenizer.json", NULL, &path, error));
  TRY(alibi_tokenizer_open(path, &tokenizer, error));
  uint32_t vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  if (vocabulary != plan->entries[0].model.vocabulary)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the study's vocabulary of %lld, found %u", path,
          (long long)plan->entries[0].model.vocabulary, vocabulary);
  TRY(memory_new(&corpus->token_bytes, vocabulary, sizeof *corpus->token_bytes, "the lengths of tokens", error));
  for (uint32_t i = 0; i < vocabulary; i++) {
    size_t size;
    alibi_tokenizer_bytes(tokenizer, i, &size);
    corpus->token_bytes[i] = (uint32_t)size;
  }
done:
  alibi_tokenizer_free(tokenizer);
  free(path);
  if (result != ALIBI_OK) study_corpus_close(corpus);
  return result;
}

void study_corpus_close(study_corpus *corpus)
{
  if (corpus->train_file.data) mapped_file_close(&corpus->train_file);
  if (corpus->valid_file.data) mapped_file_close(&corpus->valid_file);
  memory_free(corpus->token_bytes);
  *corpus = (study_corpus){0};
}
