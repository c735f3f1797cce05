/* Training sets of evaluation tasks.  Sequences that are held out are drawn from another seed, so that none of
 * them depends on how many there are to train on. */
#include "train/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/system.h"
#include "train/data_catalogue.h"

enum { STREAM_TRAIN = 0x7472616e, STREAM_VALID = 0x76616c64, REPORT_TOKENS = 1 << 18 };

typedef struct synthetic {
  alibi_context *context;
  const synthetic_request *request;
  data_catalogue catalogue;
  uint32_t *ids; /* [length] */
  uint64_t done, report_every; /* sequences */
} synthetic;

static status check_place(const char *out, alibi_error *error)
{
  static const char *const names[][2] = {{DATA_FINISHED, "data"},           {DATA_UNFINISHED, "data"},
                                         {"config.json", "a model"},        {"model.safetensors", "a model"},
                                         {"train.json", "a model"},         {"report.html", "a report"},
                                         {"results.json", "a report"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char *path = path_join(out, names[i][0]);
    if (!path) return fail(error, ALIBI_FAILED, "not enough memory for a path");
    bool there = path_exists(path);
    free(path);
    if (there)
      return fail(error, ALIBI_INVALID, "--out %s: expected a folder without %s, found %s in it", out, names[i][1],
                  names[i][0]);
  }
  return ALIBI_OK;
}

static status write_sequences(synthetic *s, token_writer *writer, data_split split, uint64_t count,
                              alibi_error *error)
{
  const synthetic_request *r = s->request;
  status result = ALIBI_OK;
  for (uint64_t i = 0; i < count; i++) {
    task_random random = {
        .seed = r->seed, .stream = split == SPLIT_TRAIN ? STREAM_TRAIN : STREAM_VALID, .next = i << 24};
    TRY(context_check_cancel(s->context, error));
    TRY(r->task->sequence(s->context, r->options, r->length, r->vocabulary, random, s->ids, error));
    TRY(token_writer_document(writer, error));
    token_writer_ids(writer, s->ids, r->length);
    if (++s->done % s->report_every == 0 && r->progress) r->progress(r->user, s->done, r->sequences + r->held_out);
  }
done:
  return result;
}

static status write_split(synthetic *s, data_split split, uint64_t count, alibi_error *error)
{
  const synthetic_request *r = s->request;
  data_shard shard = {.tokens = count * r->length, .documents = count, .next_document = count};
  token_writer writer = {0};
  status result;
  data_shard_name(split, 0, shard.file);
  char *path = path_join(r->out, shard.file);
  if (!path) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(token_writer_begin(path, r->vocabulary, 0, &writer, error));
  result = write_sequences(s, &writer, split, count, error);
  if (result != ALIBI_OK) {
    token_writer_abandon(&writer);
    goto done;
  }
  TRY(token_writer_commit(&writer, &shard.fingerprint, error));
  TRY(data_catalogue_add(&s->catalogue, split, &shard, error));
done:
  free(path);
  return result;
}

static status write_catalogue(synthetic *s, alibi_error *error)
{
  const synthetic_request *r = s->request;
  json_node *options = node_new_object(), *sources = node_new_array();
  node_set_text(options, "task", r->task->name);
  node_set_integer(options, "length", (int64_t)r->length);
  node_set_integer(options, "sequences", (int64_t)r->sequences);
  node_set_integer(options, "held_out", (int64_t)r->held_out);
  node_set_integer(options, "seed", (int64_t)r->seed);
  node_set_fields(options, r->task->fields, r->options);
  return data_catalogue_write(&s->catalogue, r->out, DATA_FINISHED, options, sources, error);
}

status synthetic_make(alibi_context *context, const synthetic_request *r, alibi_error *error)
{
  synthetic s = {
      .context = context, .request = r, .catalogue = {.tokenizer_kind = "none", .vocabulary = r->vocabulary}};
  status result;
  s.report_every = r->length < REPORT_TOKENS ? REPORT_TOKENS / r->length : 1;
  TRY(r->task->check_sequence(r->options, r->length, r->vocabulary, error));
  TRY(check_place(r->out, error));
  TRY(directory_make(r->out, error));
  TRY(memory_new(&s.ids, r->length, sizeof *s.ids, "a sequence", error));
  TRY(write_split(&s, SPLIT_TRAIN, r->sequences, error));
  if (r->held_out > 0) TRY(write_split(&s, SPLIT_VALID, r->held_out, error));
  TRY(write_catalogue(&s, error));
done:
  memory_free(s.ids);
  data_catalogue_free(&s.catalogue);
  return result;
}
