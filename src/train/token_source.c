/* The sequence over its parts.  Everything is found by two binary searches, the part and then the document, so that a
 * batch may look anywhere. */
#include "train/token_source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/memory.h"

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

/* Fills starts and the counts from the parts. */
static status index_parts(token_source *s, alibi_error *error)
{
  status result = memory_new(&s->starts, size_add(s->part_count, 1), sizeof *s->starts, "the parts of a source", error);
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
                  "%s: document %zu: expected a start after token %" PRIu64 " and before token %zu, found %" PRIu64, name,
                  i + 1, documents[i - 1], count, documents[i]);
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

bool token_source_recognises(const char *path)
{
  (void)path;
  return false;
}

bool token_source_has_split(const char *path, const char *split)
{
  (void)path;
  (void)split;
  return false;
}

status token_source_open(const char *path, const char *split, token_source *s, alibi_error *error)
{
  (void)split;
  *s = (token_source){0};
  return fail(error, ALIBI_BAD_INPUT, "%s: expected a folder of token shards or a token file", path);
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
  if (s->largest >= vocabulary)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected ids below the vocabulary of %" PRIu32 ", found %" PRIu32, s->name,
                vocabulary, s->largest);
  if (s->tokenizer && tokenizer && s->tokenizer != tokenizer) {
    char made[FINGERPRINT_TEXT_SIZE], given[FINGERPRINT_TEXT_SIZE];
    fingerprint_to_text(s->tokenizer, made);
    fingerprint_to_text(tokenizer, given);
    return fail(error, ALIBI_BAD_INPUT, "%s: expected the tokenizer that made its ids (fingerprint %s), found another (%s)",
                s->name, made, given);
  }
  return ALIBI_OK;
}
