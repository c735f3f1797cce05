/* Texts and files of ids as sources of tokens.  Held-out tokens are in memory, since evaluations read them as one
 * array; of ids in files no more than VALID_MOST. */
#include "train/train_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fingerprint.h"

enum { VALID_MOST = 1 << 22 };

status train_data_kind(const train_data_request *request, bool *ids, alibi_error *error)
{
  size_t found = 0;
  for (size_t i = 0; i < request->count; i++) found += token_source_recognises(request->paths[i]);
  *ids = found > 0;
  if (found == 0 || found == request->count) return ALIBI_OK;
  const char *text = NULL, *data = NULL;
  for (size_t i = 0; i < request->count; i++)
    *(token_source_recognises(request->paths[i]) ? &data : &text) = request->paths[i];
  return fail(error, ALIBI_INVALID, "expected texts, or data with token ids, found both: %s and %s", text, data);
}

/* ---- texts ---- */

static status open_texts(const train_data_request *request, train_data *data, alibi_error *error)
{
  dataset *d = &data->texts;
  dataset_request wanted = {.texts = request->paths,
                            .text_count = request->count,
                            .valid = request->valid,
                            .held_out = request->held_out,
                            .tokenizer = request->tokenizer,
                            .vocabulary = (uint32_t)request->vocabulary};
  status result;
  if (request->mix)
    RAISE(error, ALIBI_INVALID,
          "--mix: expected data made by `alibi data build`, one share for each, found texts");
  TRY(dataset_make(&wanted, d, error));
  data->tokenizer = d->tokenizer;
  data->vocabulary = alibi_tokenizer_vocabulary(d->tokenizer);
  data->valid = d->valid;
  data->valid_count = d->valid_count;
  data->token_bytes = d->token_bytes;
  data->train_count = d->train_count;
  data->train_bytes = d->train_bytes;
  data->valid_bytes = d->valid_bytes;
  data->memory_bytes = (d->train_count + d->valid_count) * sizeof(uint32_t);
  TRY(memory_new(&data->sources, 1, sizeof *data->sources, "the sources of tokens", error));
  data->source_count = 1;
  TRY(token_source_of_ids(request->count == 1 ? request->paths[0] : "the texts", d->train, d->train_count,
                          d->train_documents, d->train_document_count, data->sources, error));
done:
  return result;
}

/* ---- ids ---- */

static status open_tokenizer(const train_data_request *request, train_data *data, alibi_error *error)
{
  const char *path = request->tokenizer;
  for (size_t i = 0; !path && i < data->source_count; i++) path = data->sources[i].tokenizer_path;
  if (path && strcmp(path, "bytes") == 0) return alibi_tokenizer_new_bytes(&data->tokenizer, error);
  return path ? alibi_tokenizer_open(path, &data->tokenizer, error) : ALIBI_OK;
}

static status find_vocabulary(const train_data_request *request, train_data *data, alibi_error *error)
{
  uint32_t largest = 0, written = 0;
  for (size_t i = 0; i < data->source_count; i++) {
    if (data->sources[i].largest > largest) largest = data->sources[i].largest;
    if (data->sources[i].vocabulary > written) written = data->sources[i].vocabulary;
  }
  if (data->tokenizer && request->has_vocabulary)
    return fail(error, ALIBI_INVALID, "--vocabulary: expected none, since the data has a tokenizer");
  data->vocabulary = data->tokenizer           ? (int64_t)alibi_tokenizer_vocabulary(data->tokenizer)
                     : request->has_vocabulary ? request->vocabulary
                     : written                 ? (int64_t)written
                                               : (int64_t)largest + 1;
  return ALIBI_OK;
}

static status check_sources(const train_data *data, const token_source *sources, size_t count, alibi_error *error)
{
  uint64_t fingerprint = 0;
  status result = data->tokenizer ? tokenizer_fingerprint(data->tokenizer, &fingerprint, error) : ALIBI_OK;
  for (size_t i = 0; result == ALIBI_OK && i < count; i++)
    result = token_source_check(&sources[i], (uint32_t)data->vocabulary, fingerprint, error);
  return result;
}

static status read_mix(const train_data_request *request, train_data *data, alibi_error *error)
{
  const char *rest = request->mix, *item;
  size_t size, count = 0;
  status result;
  TRY(list_check("--mix", request->mix, error));
  TRY(memory_new(&data->shares, data->source_count, sizeof *data->shares, "the shares", error));
  while (list_next(&rest, &item, &size)) {
    char text[LIST_ITEM_SIZE];
    double share;
    TRY(list_item("--mix", item, size, text, error));
    if (!number_read(text, &share) || !(share > 0) || share > 1e9)
      RAISE(error, ALIBI_INVALID, "--mix: expected numbers above 0 with commas between them, found '%s'", text);
    if (count < data->source_count) data->shares[count] = share;
    count++;
  }
  if (count != data->source_count)
    RAISE(error, ALIBI_INVALID, "--mix: expected a share for each of the %zu sources, found %zu",
          data->source_count, count);
done:
  return result;
}

static status add_valid(train_data *data, const char *path, const char *split, alibi_error *error)
{
  token_source source = {0};
  size_t capacity = data->valid_count;
  status result;
  TRY(token_source_open(path, split, &source, error));
  TRY(check_sources(data, &source, 1, error));
  size_t room = VALID_MOST - data->valid_count, count = source.count < room ? source.count : room;
  TRY(memory_grow(&data->valid, &capacity, size_add(data->valid_count, count), sizeof *data->valid,
                  "the held-out tokens", error));
  token_source_read(&source, 0, count, data->valid + data->valid_count);
  data->valid_count += count;
done:
  token_source_close(&source);
  return result;
}

/* Those of --valid, or what the data itself holds out. */
static status open_valid(const train_data_request *request, train_data *data, alibi_error *error)
{
  const char *rest = request->valid, *item;
  size_t size;
  status result = ALIBI_OK;
  for (size_t i = 0; !request->valid && i < request->count; i++)
    if (token_source_has_split(request->paths[i], "valid"))
      TRY(add_valid(data, request->paths[i], "valid", error));
  if (request->valid) TRY(list_check("--valid", request->valid, error));
  while (request->valid && list_next(&rest, &item, &size)) {
    char *path = malloc(size + 1);
    if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    memcpy(path, item, size);
    path[size] = '\0';
    if (!token_source_recognises(path))
      result = fail(error, ALIBI_INVALID,
                    "--valid: %s: expected data with token ids, as what is trained on, found a text", path);
    else result = add_valid(data, path, token_source_has_split(path, "valid") ? "valid" : "train", error);
    free(path);
    if (result != ALIBI_OK) goto done;
  }
done:
  return result;
}

static status open_ids(const train_data_request *request, train_data *data, alibi_error *error)
{
  status result;
  data->in_files = true;
  TRY(memory_new(&data->sources, request->count, sizeof *data->sources, "the sources of tokens", error));
  for (size_t i = 0; i < request->count; i++) {
    TRY(token_source_open(request->paths[i], "train", &data->sources[i], error));
    data->source_count++;
    data->train_count += data->sources[i].count;
  }
  TRY(open_tokenizer(request, data, error));
  TRY(find_vocabulary(request, data, error));
  TRY(check_sources(data, data->sources, data->source_count, error));
  if (request->mix) TRY(read_mix(request, data, error));
  TRY(open_valid(request, data, error));
  data->memory_bytes = data->valid_count * sizeof(uint32_t);
  if (data->tokenizer) TRY(tokenizer_token_bytes(data->tokenizer, &data->token_bytes, error));
done:
  return result;
}

status train_data_open(const train_data_request *request, train_data *data, alibi_error *error)
{
  bool ids;
  *data = (train_data){0};
  status result = train_data_kind(request, &ids, error);
  if (result == ALIBI_OK) result = ids ? open_ids(request, data, error) : open_texts(request, data, error);
  if (result != ALIBI_OK) train_data_close(data);
  return result;
}

void train_data_close(train_data *data)
{
  for (size_t i = 0; i < data->source_count; i++) token_source_close(&data->sources[i]);
  memory_free(data->sources);
  memory_free(data->shares);
  if (data->in_files) {
    alibi_tokenizer_free(data->tokenizer);
    free(data->valid);
    memory_free(data->token_bytes);
  }
  dataset_free(&data->texts);
  *data = (train_data){0};
}
