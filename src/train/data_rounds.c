/* Rounds.  Three of them turn: one is being encoded by tasks, the next one is filled and the one before written by
 * the thread that made the tasks, which then helps. */
#include "train/data_rounds.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
  ROUNDS = 3,
  ROUND_BYTES = 1 << 20,
  ROUND_JOBS = 1 << 12,
  TASK_BYTES = 1 << 16
}; /* the first two for each thread */

typedef struct round {
  unsigned char *text;
  size_t text_size, text_capacity;
  data_job *jobs;
  size_t count, capacity;
  size_t failed; /* the first job that did; count: none */
  alibi_error error;
  atomic_bool held; /* by the task that writes these two; OpenMP's own lock would be a symbol of the library */
} round;

static void empty(round *r)
{
  for (size_t i = 0; i < r->count; i++) alibi_tokens_free(r->jobs[i].ids);
  r->text_size = r->count = r->failed = 0;
}

/* Takes pieces until the round is full.  *more: there may be others. */
static status fill(const data_rounds_request *request, round *r, bool *more, alibi_error *error)
{
  size_t threads = (size_t)request->threads;
  status result = ALIBI_OK;
  while (*more && r->text_size < threads * ROUND_BYTES && r->count < threads * ROUND_JOBS) {
    feed_piece piece;
    TRY(request->next(request->user, &piece, error));
    *more = piece.data != NULL;
    if (!*more) break;
    TRY(memory_grow(&r->text, &r->text_capacity, size_add(r->text_size, piece.size), 1, "texts", error));
    TRY(memory_grow(&r->jobs, &r->capacity, r->count + 1, sizeof *r->jobs, "texts", error));
    memcpy(r->text + r->text_size, piece.data, piece.size);
    r->jobs[r->count++] = (data_job){.split = piece.split,
                                     .document = piece.document,
                                     .first = piece.first,
                                     .last = piece.last,
                                     .path = piece.path,
                                     .line = piece.line,
                                     .offset = r->text_size,
                                     .size = piece.size};
    r->text_size += piece.size;
  }
done:
  r->failed = r->count;
  return result;
}

static status encode(const data_rounds_request *request, const round *r, data_job *job, alibi_error *error)
{
  const char *text = (const char *)r->text + job->offset;
  json_node *tree = NULL;
  status result = ALIBI_OK;
  job->text_bytes = job->size;
  if (job->line > 0) {
    document line = {(const unsigned char *)text, job->size, job->line};
    job->text_bytes = 0;
    result = document_line_text(job->path, &line, request->name, &tree, &text, &job->text_bytes, error);
    job->bad = result == ALIBI_BAD_INPUT && request->leave_out_bad;
    if (job->bad) return ALIBI_OK;
  }
  if (result == ALIBI_OK && job->text_bytes > 0)
    result = alibi_tokenizer_encode(request->tokenizer, text, job->text_bytes, &job->ids, &job->count, error);
  node_free(tree);
  return result;
}

static void encode_jobs(const data_rounds_request *request, round *r, size_t from, size_t to)
{
  alibi_error error;
  for (size_t i = from; i < to; i++) {
    alibi_error_init(&error);
    if (encode(request, r, &r->jobs[i], &error) == ALIBI_OK) continue;
    while (atomic_exchange(&r->held, true)) continue;
    if (i < r->failed) {
      r->failed = i;
      r->error = error;
    }
    atomic_store(&r->held, false);
    return;
  }
}

/* A task for some of the jobs at a time: lines are short. */
static void spawn(const data_rounds_request *request, round *r)
{
  for (size_t from = 0, to; from < r->count; from = to) {
    size_t bytes = 0;
    for (to = from; to < r->count && bytes < TASK_BYTES; to++) bytes += r->jobs[to].size;
#pragma omp task firstprivate(request, r, from, to)
    encode_jobs(request, r, from, to);
  }
}

static status write_out(const data_rounds_request *request, const round *r, alibi_error *error)
{
  for (size_t i = 0; i < r->failed; i++) {
    status result = request->write(request->user, &r->jobs[i], error);
    if (result != ALIBI_OK) return result;
  }
  if (r->failed == r->count) return ALIBI_OK;
  return fail(error, r->error.status, "%s", r->error.message);
}

static status turn(const data_rounds_request *request, round *rounds, alibi_error *error)
{
  bool more = true;
  alibi_error reading;
  alibi_error_init(&reading);
  status result = ALIBI_OK, read = fill(request, &rounds[0], &more, &reading);
  size_t at = 0;
  for (; result == ALIBI_OK && rounds[at % ROUNDS].count > 0; at++) {
    round *now = &rounds[at % ROUNDS], *next = &rounds[(at + 1) % ROUNDS], *before = &rounds[(at + 2) % ROUNDS];
    spawn(request, now);
    empty(next);
    if (read == ALIBI_OK) read = fill(request, next, &more, &reading);
    if (at > 0) result = write_out(request, before, error);
#pragma omp taskwait
  }
  if (result == ALIBI_OK && at > 0) result = write_out(request, &rounds[(at - 1) % ROUNDS], error);
  return result == ALIBI_OK && read != ALIBI_OK ? fail(error, read, "%s", reading.message) : result;
}

status data_rounds_run(const data_rounds_request *request, alibi_error *error)
{
  round rounds[ROUNDS] = {{0}};
  status result = ALIBI_OK;
#pragma omp parallel num_threads(request->threads)
  {
#pragma omp master
    result = turn(request, rounds, error);
  }
  for (size_t i = 0; i < ROUNDS; i++) {
    empty(&rounds[i]);
    free(rounds[i].text);
    free(rounds[i].jobs);
  }
  return result;
}
