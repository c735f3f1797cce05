/* The sequence over its parts.  Everything is found by two binary searches, the part and then the document, so
 * that a batch may look anywhere. */
#include "train/token_source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/memory.h"
#include "file/token_file.h"
#include "train/data_catalogue.h"

/* The part that holds token `at` < count. */
static size_t part_of(const token_source *s, size_t at)
{
  size_t low = 0, high = s->part_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (s->starts[middle] <= at) low = middle;
    else high = middle;
  }
  return low;
}

void token_source_read(const token_source *s, size_t from, size_t count, uint32_t *ids)
{
  assert(from <= s->count && count <= s->count - from);
  if (count == 0) return;
  for (size_t p = part_of(s, from); count > 0; p++) {
    const token_part *part = &s->parts[p];
    size_t at = from - s->starts[p], n = part->count - at < count ? part->count - at : count;
    if (part->wide) {
      memcpy(ids, (const uint32_t *)part->ids + at, n * sizeof *ids);
    } else {
      const uint16_t *narrow = (const uint16_t *)part->ids + at;
      for (size_t i = 0; i < n; i++) ids[i] = narrow[i];
    }
    ids += n;
    from += n;
    count -= n;
  }
}

bool token_source_has_documents(const token_source *s)
{
  return s->document_count > 0;
}

size_t token_source_next_document(const token_source *s, size_t from)
{
  if (from >= s->count || !token_source_has_documents(s)) return s->count;
  size_t p = part_of(s, from), at = from - s->starts[p];
  const token_part *part = &s->parts[p];
  size_t low = 0, high = part->document_count; /* documents[low] <= at < documents[high] */
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (part->documents[middle] <= at) low = middle;
    else high = middle;
  }
  return high < part->document_count ? s->starts[p] + (size_t)part->documents[high] : s->starts[p + 1];
}

size_t token_source_document(const token_source *s, size_t index)
{
  size_t p = 0;
  assert(index < s->document_count);
  while (index >= s->parts[p].document_count) index -= s->parts[p++].document_count;
  return s->starts[p] + (size_t)s->parts[p].documents[index];
}

/* Fills starts and the counts from the parts. */
static status index_parts(token_source *s, alibi_error *error)
{
  status result =
      memory_new(&s->starts, size_add(s->part_count, 1), sizeof *s->starts, "the parts of a source", error);
  bool documents = true;
  size_t document_count = 0;
  for (size_t p = 0; result == ALIBI_OK && p < s->part_count; p++) {
    s->starts[p + 1] = s->starts[p] + s->parts[p].count;
    documents &= s->parts[p].documents != NULL;
    document_count += s->parts[p].document_count;
  }
  if (result != ALIBI_OK) return result;
  s->count = s->starts[s->part_count];
  s->document_count = documents ? document_count : 0;
  return ALIBI_OK;
}

static status check_documents(const char *name, size_t count, const uint64_t *documents, size_t document_count,
                              alibi_error *error)
{
  if (document_count == 0 || documents[0] != 0)
    return fail(error, ALIBI_INVALID, "%s: expected the first document at token 0", name);
  for (size_t i = 1; i < document_count; i++)
    if (documents[i] <= documents[i - 1] || documents[i] >= count)
      return fail(error, ALIBI_INVALID,
                  "%s: document %zu: expected a start after token %" PRIu64
                  " and before token %zu, found %" PRIu64,
                  name, i + 1, documents[i - 1], count, documents[i]);
  return ALIBI_OK;
}

status token_source_of_ids(const char *name, const uint32_t *ids, size_t count, const uint64_t *documents,
                           size_t document_count, token_source *s, alibi_error *error)
{
  status result;
  uint64_t fingerprints[2] = {fingerprint_of(ids, count * sizeof *ids), 0};
  *s = (token_source){0};
  if (count == 0) RAISE(error, ALIBI_INVALID, "%s: expected tokens, found none", name);
  if (documents) TRY(check_documents(name, count, documents, document_count, error));
  if (documents) fingerprints[1] = fingerprint_of(documents, document_count * sizeof *documents);
  s->name = strdup(name);
  if (!s->name) RAISE(error, ALIBI_FAILED, "%s: not enough memory for its name", name);
  TRY(memory_new(&s->parts, 1, sizeof *s->parts, "the parts of a source", error));
  s->part_count = 1;
  s->parts[0] = (token_part){ids, count, true, documents, documents ? document_count : 0};
  TRY(index_parts(s, error));
  s->fingerprint = fingerprint_of(fingerprints, sizeof fingerprints);
  for (size_t i = 0; i < count; i++) s->largest = ids[i] > s->largest ? ids[i] : s->largest;
done:
  if (result != ALIBI_OK) token_source_close(s);
  return result;
}

/* ---- files ---- */

static const char nanogpt_prefix[] = "nanogpt:";

/* The path after "nanogpt:", NULL where there is no such prefix. */
static const char *nanogpt_path(const char *path)
{
  size_t size = strlen(nanogpt_prefix);
  return strncmp(path, nanogpt_prefix, size) == 0 ? path + size : NULL;
}

static bool has_file(const char *folder, const char *name)
{
  char *path = path_join(folder, name);
  bool there = path && path_exists(path);
  free(path);
  return there;
}

static const char *nanogpt_name(const char *split)
{
  return strcmp(split, data_split_names[SPLIT_VALID]) == 0 ? "val.bin" : "train.bin";
}

static bool ends_in(const char *path, const char *end)
{
  size_t size = strlen(path), length = strlen(end);
  return size > length && strcmp(path + size - length, end) == 0;
}

/* A file with such a name is never read as a text: where it is not what it says, opening it tells why. */
bool token_source_recognises(const char *path)
{
  if (nanogpt_path(path)) return true;
  if (path_is_directory(path)) return has_file(path, DATA_FINISHED) || has_file(path, DATA_UNFINISHED);
  return token_file_recognises(path) || ends_in(path, ".bin") || ends_in(path, ".tokens");
}

static int split_number(const char *split)
{
  int s = 0;
  while (s < SPLIT_COUNT && strcmp(split, data_split_names[s]) != 0) s++;
  return s;
}

bool token_source_has_split(const char *path, const char *split)
{
  const char *nanogpt = nanogpt_path(path);
  int number = split_number(split);
  if (number == SPLIT_COUNT) return false;
  if (nanogpt && path_is_directory(nanogpt)) return has_file(nanogpt, nanogpt_name(split));
  if (!path_is_directory(path)) return number == SPLIT_TRAIN && path_exists(nanogpt ? nanogpt : path);
  data_catalogue catalogue;
  if (data_catalogue_read(path, DATA_FINISHED, &catalogue, NULL) != ALIBI_OK) return false;
  bool has = catalogue.splits[number].count > 0;
  data_catalogue_free(&catalogue);
  return has;
}

static status parts_new(token_source *s, size_t count, alibi_error *error)
{
  status result = memory_new(&s->parts, count, sizeof *s->parts, "the parts of a source", error);
  return result == ALIBI_OK ? memory_new(&s->files, count, sizeof *s->files, "the parts of a source", error)
                            : result;
}

/* Takes over an opened file. */
static void add_part(token_source *s, const token_file *file)
{
  s->files[s->file_count++] = file->map;
  s->format = file->format;
  s->parts[s->part_count++] =
      (token_part){file->ids, file->count, file->wide, file->documents, file->document_count};
  s->largest = file->largest > s->largest ? file->largest : s->largest;
}

static status open_single(const char *path, bool bare, token_source *s, alibi_error *error)
{
  token_file file;
  status result;
  TRY(parts_new(s, 1, error));
  TRY(bare ? token_file_open_bare(path, &file, error) : token_file_open(path, &file, error));
  add_part(s, &file);
  s->vocabulary = file.vocabulary;
  s->tokenizer = file.tokenizer;
  s->fingerprint = file.fingerprint;
done:
  return result;
}

static status open_folder(const char *path, data_split split, token_source *s, alibi_error *error)
{
  data_catalogue c = {0};
  fingerprint *all = NULL;
  status result = ALIBI_OK;
  TRY(data_catalogue_read(path, DATA_FINISHED, &c, error));
  const data_shards *shards = &c.splits[split];
  if (shards->count == 0)
    RAISE(error, ALIBI_INVALID, "%s: this data has no part '%s'", path, data_split_names[split]);
  TRY(fingerprint_begin(&all, error));
  TRY(parts_new(s, shards->count, error));
  for (size_t i = 0; i < shards->count; i++) {
    token_file file;
    TRY(data_shard_open(path, &c, &shards->shards[i], &file, error));
    add_part(s, &file);
    fingerprint_add(all, &file.fingerprint, sizeof file.fingerprint);
  }
  s->vocabulary = c.vocabulary;
  s->tokenizer = c.tokenizer;
  s->fingerprint = fingerprint_value(all);
  s->tokenizer_path = c.tokenizer ? path_join(path, DATA_TOKENIZER) : NULL; /* ids that are no text have none */
  if (c.tokenizer && !s->tokenizer_path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
done:
  fingerprint_free(all);
  data_catalogue_free(&c);
  return result;
}

status token_source_open(const char *path, const char *split, token_source *s, alibi_error *error)
{
  const char *nanogpt = nanogpt_path(path), *place = nanogpt ? nanogpt : path;
  int number = split_number(split);
  char *inside = NULL;
  status result;
  *s = (token_source){0};
  if (number == SPLIT_COUNT)
    RAISE(error, ALIBI_INVALID, "expected the part train or valid of %s, found '%s'", path, split);
  s->name = strdup(path);
  if (!s->name) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  if (!path_is_directory(place)) {
    if (number != SPLIT_TRAIN)
      RAISE(error, ALIBI_INVALID, "%s: a single file has no part '%s': name another file for it", path, split);
    TRY(open_single(place, nanogpt != NULL, s, error));
  } else if (nanogpt) {
    inside = path_join(nanogpt, nanogpt_name(split));
    if (!inside) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    TRY(open_single(inside, true, s, error));
  } else {
    TRY(open_folder(path, (data_split)number, s, error));
  }
  TRY(index_parts(s, error));
done:
  free(inside);
  if (result != ALIBI_OK) token_source_close(s);
  return result;
}

void token_source_close(token_source *s)
{
  for (size_t i = 0; i < s->file_count; i++) mapped_file_close(&s->files[i]);
  memory_free(s->files);
  memory_free(s->parts);
  memory_free(s->starts);
  free(s->name);
  free(s->tokenizer_path);
  *s = (token_source){0};
}

status token_source_check(const token_source *s, uint32_t vocabulary, uint64_t tokenizer, alibi_error *error)
{
  if (s->tokenizer && tokenizer && s->tokenizer != tokenizer) {
    char made[FINGERPRINT_TEXT_SIZE], given[FINGERPRINT_TEXT_SIZE];
    fingerprint_to_text(s->tokenizer, made);
    fingerprint_to_text(tokenizer, given);
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected the tokenizer that made its ids (fingerprint %s), found another (%s)", s->name, made,
                given);
  }
  if (s->largest >= vocabulary)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected ids below the vocabulary of %" PRIu32 ", found %" PRIu32,
                s->name, vocabulary, s->largest);
  return ALIBI_OK;
}
