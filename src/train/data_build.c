/* The build: what was asked for, what is there already, and the loop that encodes the rest.
 *
 * The loop turns in rounds of a few million bytes.  While the threads encode one round, the thread that drives
 * them reads the next and writes the one before; results are written in the order of the texts, so nothing depends
 * on who was first. */
#include "train/data_build.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/directory.h"
#include "base/memory.h"
#include "base/system.h"
#include "text/tokenizer_fingerprint.h"
#include "train/data_rounds.h"
#include "train/data_request.h"
#include "train/document_feed.h"

enum { PIECE_BYTES = 1 << 18 };

typedef struct build {
  alibi_context *context;
  const data_build_request *request;
  data_build_result *built;
  data_catalogue *catalogue; /* built->catalogue */
  text_list texts;
  alibi_tokenizer *tokenizer;
  uint64_t given_tokenizer; /* its fingerprint, where it was named */
  document_feed feed;
  data_build_progress progress;
  uint64_t bytes_total;
  struct {
    token_writer writer;
    bool open;
    data_shard shard;    /* as far as it is */
    uint64_t next;       /* documents before this one are in shards already */
    uint64_t empty, bad; /* documents left out since the last one of the shard */
  } splits[SPLIT_COUNT];
  uint64_t document_bytes; /* of the document that is being written */
} build;

static void report(build *b, const char *doing)
{
  b->progress.doing = doing;
  b->progress.bytes = feed_position(&b->feed);
  b->progress.bytes_total = b->bytes_total;
  if (b->request->report) b->request->report(b->request->user, &b->progress);
}

/* ---- the tokenizer ---- */

typedef struct sample {
  char *text;
  size_t size, capacity;
  size_t *sizes;
  const char **starts; /* [count] */
  size_t count, size_capacity;
} sample;

static status sample_add(sample *s, const void *text, size_t size, alibi_error *error)
{
  status result =
      memory_grow(&s->text, &s->capacity, size_add(s->size, size), 1, "the sample of a tokenizer", error);
  if (result == ALIBI_OK)
    result = memory_grow(&s->sizes, &s->size_capacity, s->count + 1, sizeof *s->sizes, "the sample of a tokenizer",
                         error);
  if (result != ALIBI_OK) return result;
  memcpy(s->text + s->size, text, size);
  s->size += size;
  s->sizes[s->count++] = size;
  return ALIBI_OK;
}

/* Bytes of text to expect: packed text is about a quarter. */
static double expected_bytes(const text_list *texts)
{
  double sum = 0;
  for (size_t i = 0; i < texts->count; i++) {
    const text_file *file = &texts->files[i];
    const char *ending = strrchr(file->path, '.');
    bool packed = ending && (strcmp(ending, ".gz") == 0 || strcmp(ending, ".zst") == 0);
    if (!file->held_out) sum += (double)file->bytes * (packed ? 4 : 1);
  }
  return sum;
}

/* Pieces from all over the training part, as many as the sample has room for. */
static status take_sample(build *b, sample *s, alibi_error *error)
{
  double seen = 0, share = (double)b->request->sample_bytes / (expected_bytes(&b->texts) + 1);
  feed_piece piece;
  json_node *tree = NULL;
  status result = ALIBI_OK;
  feed_open(&b->feed, &b->texts, b->request->held_out, NULL, share < 1 ? 1 << 16 : PIECE_BYTES);
  for (;;) {
    TRY(context_check_cancel(b->context, error));
    TRY(feed_next(&b->feed, &piece, error));
    if (!piece.data || s->size >= b->request->sample_bytes) break;
    if (piece.split != SPLIT_TRAIN) continue;
    seen += (double)piece.size;
    if (share < 1 && s->count > 0 && (double)s->size + (double)piece.size / 2 > share * seen) continue;
    const char *text = (const char *)piece.data;
    size_t size = piece.size;
    if (piece.line > 0) {
      document line = {piece.data, piece.size, piece.line};
      result = document_line_text(piece.path, &line, b->request->name, &tree, &text, &size, error);
      if (result == ALIBI_BAD_INPUT && b->request->leave_out_bad) continue;
      if (result != ALIBI_OK) goto done;
    }
    result = sample_add(s, text, size, error);
    node_free(tree);
    tree = NULL;
    if (result != ALIBI_OK) goto done;
    report(b, "reading the texts for a tokenizer");
  }
done:
  feed_close(&b->feed);
  return result;
}

static status train_tokenizer(build *b, alibi_error *error)
{
  sample s = {0};
  status result = ALIBI_OK;
  TRY(take_sample(b, &s, error));
  if (s.size == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected text to train a tokenizer on, found none", b->request->texts[0]);
  report(b, "training the tokenizer");
  TRY(memory_new(&s.starts, s.count, sizeof *s.starts, "the sample of a tokenizer", error));
  for (size_t i = 0, at = 0; i < s.count; at += s.sizes[i++]) s.starts[i] = s.text + at;
  TRY(alibi_tokenizer_train(s.starts, s.sizes, s.count, b->request->vocabulary, &b->tokenizer, error));
done:
  memory_free(s.starts);
  free(s.text);
  free(s.sizes);
  return result;
}

/* ---- what is there ---- */

static status list_texts(build *b, alibi_error *error)
{
  const data_build_request *r = b->request;
  status result = ALIBI_OK;
  if (r->text_count == 0) RAISE(error, ALIBI_INVALID, "expected at least one text, found none");
  for (size_t i = 0; i < r->text_count; i++) TRY(text_list_add(&b->texts, r->texts[i], r->format, false, error));
  if (r->valid) TRY(text_list_add_all(&b->texts, "--valid", r->valid, r->format, true, error));
  for (size_t i = 0; i < b->texts.count; i++) {
    const text_file *file = &b->texts.files[i];
    mapped_file map;
    if (file->bytes == TEXT_FILE_STREAM) {
      TRY(mapped_file_open(file->path, &map, error)); /* it knows better what is wrong */
      mapped_file_close(&map);
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected a file or a folder, found a pipe, which cannot be read again",
            file->path);
    }
    b->bytes_total += file->bytes;
  }
  b->built->left_out_files = b->texts.left_out;
done:
  return result;
}

static status open_tokenizer(const char *path, alibi_tokenizer **tokenizer, uint64_t *found, alibi_error *error)
{
  status result = strcmp(path, "bytes") == 0 ? alibi_tokenizer_new_bytes(tokenizer, error)
                                             : alibi_tokenizer_open(path, tokenizer, error);
  return result == ALIBI_OK ? tokenizer_fingerprint(*tokenizer, found, error) : result;
}

/* Shards of the earlier run up to the first that is not as it was written. */
static status keep_shards(build *b, alibi_error *error)
{
  for (int s = 0; s < SPLIT_COUNT; s++) {
    data_shards *shards = &b->catalogue->splits[s];
    for (size_t i = 0; i < shards->count; i++) {
      token_file file;
      status result = context_check_cancel(b->context, error);
      if (result != ALIBI_OK) return result;
      result = data_shard_open(b->request->out, b->catalogue, &shards->shards[i], &file, error);
      token_file_close(&file);
      if (result == ALIBI_FAILED) return result;
      if (result != ALIBI_OK) {
        context_log(b->context, ALIBI_LOG_WARNING, "%s; it is built anew",
                    error ? error->message : "a shard is damaged");
        shards->count = i;
        break;
      }
      b->splits[s].next = shards->shards[i].next_document;
      b->built->kept_shards++;
    }
  }
  return ALIBI_OK;
}

/* Goes on with, or only looks at, what an earlier run has left under this name. */
static status take_up(build *b, const char *name, alibi_error *error)
{
  status result = data_catalogue_read(b->request->out, name, b->catalogue, error);
  if (result != ALIBI_OK) return result;
  json_node *options = data_request_options(b->request, b->given_tokenizer),
            *sources = data_request_sources(&b->texts);
  TRY(data_request_compare(b->request->out, b->catalogue->root, options, sources, error));
  b->built->was_finished = strcmp(name, DATA_FINISHED) == 0;
  if (b->built->was_finished) goto done;
  if (!b->tokenizer) {
    uint64_t found;
    char *path = path_join(b->request->out, DATA_TOKENIZER);
    if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    result = open_tokenizer(path, &b->tokenizer, &found, error);
    if (result == ALIBI_OK && found != b->catalogue->tokenizer)
      result = fail(error, ALIBI_BAD_INPUT,
                    "%s: expected the tokenizer that made the shards beside it, found another", path);
    free(path);
    TRY(result);
  }
  TRY(keep_shards(b, error));
done:
  node_free(options);
  node_free(sources);
  return result;
}

static status write_catalogue(build *b, const char *name, alibi_error *error)
{
  return data_catalogue_write(b->catalogue, b->request->out, name,
                              data_request_options(b->request, b->given_tokenizer),
                              data_request_sources(&b->texts), error);
}

/* A new folder: the tokenizer first, then the list of no shards. */
/* A folder may hold something else, such as a model: its tokenizer is not written over. */
static status check_tokenizer_place(const build *b, const char *path, alibi_error *error)
{
  alibi_tokenizer *there = NULL;
  uint64_t found = 0;
  if (!path_exists(path)) return ALIBI_OK;
  bool same = open_tokenizer(path, &there, &found, NULL) == ALIBI_OK && found == b->catalogue->tokenizer;
  alibi_tokenizer_free(there);
  if (same) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "%s: expected none, or that of this data, found another, which would be lost: name another --out",
              path);
}

static status begin_new(build *b, alibi_error *error)
{
  status result = ALIBI_OK;
  char *path = NULL;
  if (!b->tokenizer) TRY(train_tokenizer(b, error));
  snprintf(b->catalogue->tokenizer_kind, sizeof b->catalogue->tokenizer_kind, "%s",
           alibi_tokenizer_kind(b->tokenizer));
  b->catalogue->vocabulary = alibi_tokenizer_vocabulary(b->tokenizer);
  TRY(tokenizer_fingerprint(b->tokenizer, &b->catalogue->tokenizer, error));
  path = path_join(b->request->out, DATA_TOKENIZER);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(check_tokenizer_place(b, path, error));
  TRY(alibi_tokenizer_save(b->tokenizer, path, error));
  TRY(write_catalogue(b, DATA_UNFINISHED, error));
done:
  free(path);
  return result;
}

/* ---- the loop ---- */

static status close_shard(build *b, data_split split, alibi_error *error)
{
  data_shard *shard = &b->splits[split].shard;
  token_writer *w = &b->splits[split].writer;
  status result;
  shard->tokens = w->count;
  b->splits[split].open = false;
  TRY(token_writer_commit(w, &shard->fingerprint, error));
  TRY(data_catalogue_add(b->catalogue, split, shard, error));
  TRY(write_catalogue(b, DATA_UNFINISHED, error));
done:
  return result;
}

static status open_shard(build *b, data_split split, alibi_error *error)
{
  data_shard *shard = &b->splits[split].shard;
  *shard = (data_shard){0};
  data_shard_name(split, b->catalogue->splits[split].count, shard->file);
  char *path = path_join(b->request->out, shard->file);
  if (!path) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  status result =
      token_writer_begin(path, b->catalogue->vocabulary, b->catalogue->tokenizer, &b->splits[split].writer, error);
  b->splits[split].open = result == ALIBI_OK;
  free(path);
  return result;
}

/* The ids of the next piece, in the order of the texts. */
static status write_piece(void *user, const data_job *job, alibi_error *error)
{
  build *b = user;
  status result = ALIBI_OK;
  data_split split = job->split;
  token_writer *w = &b->splits[split].writer;
  data_shard *shard = &b->splits[split].shard;
  if (job->first) b->document_bytes = 0;
  b->document_bytes += job->text_bytes;
  if (job->count > 0) {
    if (!b->splits[split].open) TRY(open_shard(b, split, error));
    if (job->first) TRY(token_writer_document(w, error));
    token_writer_ids(w, job->ids, job->count);
    b->progress.tokens += job->count;
    b->built->tokens += job->count;
  }
  if (!job->last) goto done;
  if (b->document_bytes == 0) {
    b->splits[split].bad += job->bad;
    b->splits[split].empty += !job->bad;
    goto done;
  }
  shard->documents++;
  shard->bytes += b->document_bytes;
  shard->next_document = job->document + 1;
  shard->left_out_empty += b->splits[split].empty;
  shard->left_out_bad += b->splits[split].bad;
  b->splits[split].empty = b->splits[split].bad = 0;
  b->progress.documents++;
  if (w->count >= b->request->shard_tokens) TRY(close_shard(b, split, error));
  report(b, "building");
  result = context_check_cancel(b->context, error);
done:
  return result;
}

/* Pieces of documents that no shard has yet. */
static status next_piece(void *user, feed_piece *piece, alibi_error *error)
{
  build *b = user;
  status result;
  do TRY(feed_next(&b->feed, piece, error));
  while (piece->data && piece->document < b->splits[piece->split].next);
  report(b, "building");
  result = context_check_cancel(b->context, error);
done:
  return result;
}

static status encode_rest(build *b, alibi_error *error)
{
  data_rounds_request rounds = {.tokenizer = b->tokenizer,
                                .name = b->request->name,
                                .leave_out_bad = b->request->leave_out_bad,
                                .threads = b->context->threads,
                                .next = next_piece,
                                .write = write_piece,
                                .user = b};
  status result;
  feed_open(&b->feed, &b->texts, b->request->held_out, b->tokenizer, PIECE_BYTES);
  TRY(data_rounds_run(&rounds, error));
  for (int s = 0; s < SPLIT_COUNT; s++)
    if (b->splits[s].open) TRY(close_shard(b, (data_split)s, error));
  b->catalogue->left_out_empty = b->feed.empty;
  b->catalogue->left_out_bad = 0;
  for (int s = 0; s < SPLIT_COUNT; s++) {
    data_shard sum = data_catalogue_sum(b->catalogue, (data_split)s);
    b->catalogue->left_out_empty += sum.left_out_empty + b->splits[s].empty;
    b->catalogue->left_out_bad += sum.left_out_bad + b->splits[s].bad;
  }
  if (b->catalogue->splits[SPLIT_TRAIN].count == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected text to train on, found %s", b->request->texts[0],
          b->catalogue->splits[SPLIT_VALID].count > 0 ? "that all of it is held out" : "none in these files");
done:
  feed_close(&b->feed);
  for (int s = 0; s < SPLIT_COUNT; s++)
    if (b->splits[s].open) token_writer_abandon(&b->splits[s].writer);
  return result;
}

static status build_in_folder(build *b, alibi_error *error)
{
  static const char *const written[] = {"train-", "valid-", DATA_UNFINISHED, DATA_FINISHED, DATA_TOKENIZER, NULL};
  status result = ALIBI_OK;
  char *finished = path_join(b->request->out, DATA_FINISHED),
       *unfinished = path_join(b->request->out, DATA_UNFINISHED);
  if (!finished || !unfinished) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_remove_parts(b->request->out, written, error));
  if (path_exists(finished)) {
    TRY(take_up(b, DATA_FINISHED, error));
  } else {
    if (path_exists(unfinished)) TRY(take_up(b, DATA_UNFINISHED, error));
    else TRY(begin_new(b, error));
    TRY(encode_rest(b, error));
    TRY(write_catalogue(b, DATA_FINISHED, error));
  }
  remove(unfinished);
done:
  free(finished);
  free(unfinished);
  return result;
}

status data_build(alibi_context *context, const data_build_request *request, data_build_result *built,
                  alibi_error *error)
{
  build b = {.context = context, .request = request, .built = built, .catalogue = &built->catalogue};
  int lock = -1;
  char *lock_path = NULL;
  status result = ALIBI_OK;
  *built = (data_build_result){0};
  TRY(list_texts(&b, error));
  if (request->tokenizer) TRY(open_tokenizer(request->tokenizer, &b.tokenizer, &b.given_tokenizer, error));
  TRY(directory_make(request->out, error));
  lock_path = path_join(request->out, "build.lock");
  if (!lock_path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(file_lock(lock_path, request->out, &lock, error));
  TRY(build_in_folder(&b, error));
done:
  if (lock >= 0) remove(lock_path);
  file_unlock(lock);
  free(lock_path);
  alibi_tokenizer_free(b.tokenizer);
  text_list_free(&b.texts);
  if (result != ALIBI_OK) data_catalogue_free(&built->catalogue);
  return result;
}
