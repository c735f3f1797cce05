/* The corpus of a study: what train/dataset makes of the texts, checked against the plan and kept in files that
 * the children map. */
#include "study/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/cost.h"
#include "study/schedule.h"
#include "text/tokenizer.h"
#include "train/dataset.h"

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
    return fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected at least %lld tokens to train on, found %lld (a longer text, or a shorter --train-length)",
        name, (long long)train, (long long)plan->train_tokens);
  if (plan->valid_tokens < valid)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected at least %lld held-out tokens to test on, found %lld (a longer text, shorter "
                "--test-lengths, or a larger --held-out)",
                request->valid ? request->valid : name, (long long)valid, (long long)plan->valid_tokens);
  return ALIBI_OK;
}

static status describe(const study_request *request, study_plan *plan, const dataset *data, alibi_error *error)
{
  char sentence[1024], held[256];
  const double MEGA = 1e-6;
  alibi_evaluate_options longest = schedule_cell(plan, ALIBI_NONOVERLAPPING, study_plan_longest(plan), "");
  if (request->valid)
    snprintf(held, sizeof held, "tested on %.100s (%.2f MB)", request->valid, (double)data->valid_bytes * MEGA);
  else
    snprintf(held, sizeof held, "the last %.3g %% of each held out (%.2f MB)", 100 * request->settings.held_out,
             (double)data->valid_bytes * MEGA);
  snprintf(sentence, sizeof sentence,
           "%.200s%s: %.2f MB to train on, %s; %s, %lld tokens; %.3f bytes a token; %lld tokens to train on, %lld "
           "to test on (sliding and nonoverlapping read the first %lld of these)",
           request->texts[0], request->text_count > 1 ? " and others" : "", (double)data->train_bytes * MEGA, held,
           plan->settings.bytes ? "bytes" : "byte-level BPE", (long long)plan->entries[0].model.vocabulary,
           (double)data->train_bytes / (double)(plan->train_tokens ? plan->train_tokens : 1),
           (long long)plan->train_tokens, (long long)plan->valid_tokens,
           (long long)evaluate_cost_of(&longest, (size_t)plan->valid_tokens).targets + 1);
  free(plan->text);
  plan->text = strdup(sentence);
  return plan->text ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the plan");
}

static status write_ids(const char *directory, const char *name, const uint32_t *ids, size_t count,
                        alibi_error *error)
{
  char *path = NULL;
  status result;
  TRY(study_path(directory, name, NULL, &path, error));
  TRY(file_write_atomic(path, ids, count * sizeof *ids, error));
done:
  free(path);
  return result;
}

status study_corpus_read(const study_request *request, study_plan *plan, dataset *data, alibi_error *error)
{
  dataset_request wanted = {.texts = request->texts,
                            .text_count = request->text_count,
                            .valid = request->valid,
                            .held_out = request->settings.held_out,
                            .tokenizer = plan->settings.bytes ? "bytes" : NULL,
                            .vocabulary = (uint32_t)plan->settings.vocabulary};
  status result;
  TRY(dataset_make(&wanted, data, error));
  for (size_t i = 0; i < plan->entry_count; i++)
    plan->entries[i].model.vocabulary = alibi_tokenizer_vocabulary(data->tokenizer);
  plan->train_tokens = (int64_t)data->train_count;
  plan->valid_tokens = (int64_t)data->valid_count;
  TRY(check_lengths(request, plan, error));
  TRY(describe(request, plan, data, error));
done:
  return result;
}

status study_corpus_write(const char *directory, const dataset *data, alibi_error *error)
{
  char *plan_path = NULL, *path = NULL;
  status result;
  TRY(study_path(directory, "study.json", NULL, &plan_path, error));
  remove(plan_path); /* an old plan must not meet a new corpus */
  TRY(write_ids(directory, "train.tokens", data->train, data->train_count, error));
  TRY(write_ids(directory, "valid.tokens", data->valid, data->valid_count, error));
  TRY(study_path(directory, "tokenizer.json", NULL, &path, error));
  TRY(alibi_tokenizer_save(data->tokenizer, path, error));
done:
  free(path);
  free(plan_path);
  return result;
}

static status open_ids(const char *directory, const char *name, int64_t expected, int64_t vocabulary,
                       mapped_file *file, const uint32_t **ids, size_t *count, alibi_error *error)
{
  char *path = NULL;
  status result;
  TRY(study_path(directory, name, NULL, &path, error));
  TRY(mapped_file_open(path, file, error));
  if (file->size != (size_t)expected * sizeof **ids)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected %lld tokens of 4 bytes, found %zu bytes", path,
          (long long)expected, file->size);
  *ids = (const uint32_t *)(const void *)file->data;
  *count = (size_t)expected;
  for (size_t i = 0; i < *count; i++)
    if ((*ids)[i] >= (uint64_t)vocabulary)
      RAISE(error, ALIBI_BAD_INPUT, "%s: token %zu: expected an id below the vocabulary of %lld, found %u", path,
            i, (long long)vocabulary, (*ids)[i]);
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
  TRY(open_ids(directory, "train.tokens", plan->train_tokens, plan->entries[0].model.vocabulary,
               &corpus->train_file, &corpus->train, &corpus->train_count, error));
  TRY(open_ids(directory, "valid.tokens", plan->valid_tokens, plan->entries[0].model.vocabulary,
               &corpus->valid_file, &corpus->valid, &corpus->valid_count, error));
  TRY(study_path(directory, "tokenizer.json", NULL, &path, error));
  TRY(alibi_tokenizer_open(path, &tokenizer, error));
  uint32_t vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  if (vocabulary != plan->entries[0].model.vocabulary)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the study's vocabulary of %lld, found %u", path,
          (long long)plan->entries[0].model.vocabulary, vocabulary);
  TRY(tokenizer_token_bytes(tokenizer, &corpus->token_bytes, error));
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
