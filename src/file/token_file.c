/* Token files: every number of a header is held against the size of the file before it is used, and then every id
 * is looked at once, so that whoever trains later may index by it. */
#include "file/token_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_at.h"
#include "base/memory.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Token files are mapped as they are: little-endian machines only"
#endif

enum { HEADER = 64, SEALED = 56, VERSION = 1, LLMC_HEADER = 1024, CHUNK = 8192 };
static const char magic[8] = "ALIBITOK";

static const struct {
  uint32_t magic, version;
  bool wide;
} llmc_kinds[] = {{20240520, 1, false}, {20240801, 7, true}};
enum { LLMC_KINDS = sizeof llmc_kinds / sizeof llmc_kinds[0] };

static uint32_t largest_id(const token_file *f)
{
  uint32_t largest = 0;
  if (f->wide) {
    const uint32_t *ids = f->ids;
    for (size_t i = 0; i < f->count; i++) largest = ids[i] > largest ? ids[i] : largest;
  } else {
    const uint16_t *ids = f->ids;
    uint16_t narrow = 0;
    for (size_t i = 0; i < f->count; i++) narrow = ids[i] > narrow ? ids[i] : narrow;
    largest = narrow;
  }
  return largest;
}

/* Bytes of a shard, SIZE_MAX where they are too many for one. */
static size_t shard_size(uint64_t count, uint64_t documents, size_t width)
{
  if (count > SIZE_MAX || documents > SIZE_MAX) return SIZE_MAX;
  size_t ids = size_mul((size_t)count, width);
  if (ids > SIZE_MAX - 7) return SIZE_MAX;
  return size_add(HEADER + size_round_up(ids, 8), size_mul((size_t)documents, sizeof(uint64_t)));
}

static status check_documents(const token_file *f, const char *path, alibi_error *error)
{
  for (size_t i = 0; i < f->document_count; i++) {
    uint64_t start = f->documents[i];
    if (i == 0 ? start != 0 : start <= f->documents[i - 1] || start >= f->count)
      return fail(error, ALIBI_BAD_INPUT, "%s: document %zu starts at token %" PRIu64 ", out of order", path,
                  i + 1, start);
  }
  return ALIBI_OK;
}

static status read_shard(const char *path, token_file *f, alibi_error *error)
{
  const unsigned char *bytes = f->map.data;
  if (f->map.size < HEADER)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected the %d bytes of a shard's header, found %zu", path, HEADER,
                f->map.size);
  if (u32_at(bytes, 8) != VERSION)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a shard of version %d, found version %" PRIu32, path,
                VERSION, u32_at(bytes, 8));
  if (u64_at(bytes, SEALED) != fingerprint_of(bytes, SEALED))
    return fail(error, ALIBI_BAD_INPUT, "%s: damaged: the header is not the one that was written", path);
  size_t width = u32_at(bytes, 12);
  uint64_t count = u64_at(bytes, 16), documents = u64_at(bytes, 24);
  if (width != 2 && width != 4)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected ids of 2 or 4 bytes, found %zu", path, width);
  size_t size = shard_size(count, documents, width);
  if (count == 0 || size != f->map.size)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: %s: %" PRIu64 " tokens and %" PRIu64 " documents take %zu bytes, the file has %zu", path,
                f->map.size < size ? "cut off" : "damaged", count, documents, size, f->map.size);
  f->format = "alibi";
  f->wide = width == 4;
  f->ids = bytes + HEADER;
  f->count = (size_t)count;
  f->document_count = (size_t)documents;
  f->documents =
      documents ? (const uint64_t *)(const void *)(bytes + HEADER + size_round_up(f->count * width, 8)) : NULL;
  f->vocabulary = u32_at(bytes, 36);
  f->tokenizer = u64_at(bytes, 40);
  f->fingerprint = u64_at(bytes, 48);
  if (fingerprint_of(bytes + HEADER, size - HEADER) != f->fingerprint)
    return fail(error, ALIBI_BAD_INPUT, "%s: damaged: the ids are not those that were written", path);
  f->largest = largest_id(f);
  if (f->largest != u32_at(bytes, 32) || (f->vocabulary && f->largest >= f->vocabulary))
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected the largest id to be %" PRIu32 " and below the vocabulary of %" PRIu32
                ", found %" PRIu32,
                path, u32_at(bytes, 32), f->vocabulary, f->largest);
  return check_documents(f, path, error);
}

/* Which of llm.c's kinds the first bytes say; LLMC_KINDS: none. */
static size_t llmc_kind(const unsigned char *bytes, size_t size)
{
  size_t kind = 0;
  while (kind < LLMC_KINDS && (size < 8 || u32_at(bytes, 0) != llmc_kinds[kind].magic)) kind++;
  return kind;
}

static status read_llmc(const char *path, size_t kind, token_file *f, alibi_error *error)
{
  const unsigned char *bytes = f->map.data;
  if (u32_at(bytes, 4) != llmc_kinds[kind].version)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: llm.c's magic number %" PRIu32 " with version %" PRIu32 ", expected version %" PRIu32, path,
                llmc_kinds[kind].magic, u32_at(bytes, 4), llmc_kinds[kind].version);
  if (f->map.size < LLMC_HEADER)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected the %d bytes of llm.c's header, found %zu", path,
                LLMC_HEADER, f->map.size);
  size_t width = llmc_kinds[kind].wide ? 4 : 2, count = u32_at(bytes, 8);
  size_t size = size_add(LLMC_HEADER, size_mul(count, width));
  if (count == 0 || count > INT32_MAX || size != f->map.size)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: the header says %" PRId32 " tokens of %zu bytes, the file has room for %zu", path,
                (int32_t)count, width, (f->map.size - LLMC_HEADER) / width);
  f->format = "llm.c";
  f->wide = llmc_kinds[kind].wide;
  f->ids = bytes + LLMC_HEADER;
  f->count = count;
  f->fingerprint = fingerprint_of(bytes, size);
  f->largest = largest_id(f);
  return ALIBI_OK;
}

status token_file_open(const char *path, token_file *f, alibi_error *error)
{
  *f = (token_file){0};
  status result = mapped_file_open(path, &f->map, error);
  if (result != ALIBI_OK) return result;
  size_t kind = llmc_kind(f->map.data, f->map.size);
  if (f->map.size >= sizeof magic && memcmp(f->map.data, magic, sizeof magic) == 0)
    result = read_shard(path, f, error);
  else if (kind < LLMC_KINDS) result = read_llmc(path, kind, f, error);
  else
    result = fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected a shard of alibi or a token file of llm.c, found another beginning (a file of nanoGPT has "
        "none: say nanogpt:%s)",
        path, path);
  if (result != ALIBI_OK) token_file_close(f);
  return result;
}

status token_file_open_bare(const char *path, token_file *f, alibi_error *error)
{
  *f = (token_file){0};
  status result;
  TRY(mapped_file_open(path, &f->map, error));
  if (f->map.size == 0 || f->map.size % 2 != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected ids of 2 bytes and nothing else, found %zu bytes", path,
          f->map.size);
  if (llmc_kind(f->map.data, f->map.size) < LLMC_KINDS || (f->map.size >= 8 && memcmp(f->map.data, magic, 8) == 0))
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: expected ids without a header, found the header of another kind of token file", path);
  f->format = "nanoGPT";
  f->ids = f->map.data;
  f->count = f->map.size / 2;
  f->fingerprint = fingerprint_of(f->map.data, f->map.size);
  f->largest = largest_id(f);
done:
  if (result != ALIBI_OK) token_file_close(f);
  return result;
}

void token_file_close(token_file *f)
{
  if (f->map.data) mapped_file_close(&f->map);
  *f = (token_file){0};
}

bool token_file_recognises(const char *path)
{
  unsigned char first[8];
  if (path_is_directory(path)) return false;
  FILE *stream = fopen(path, "rb");
  if (!stream) return false;
  size_t got = fread(first, 1, sizeof first, stream);
  fclose(stream);
  return got == sizeof first && (memcmp(first, magic, sizeof magic) == 0 || llmc_kind(first, got) < LLMC_KINDS);
}

/* ---- writing ---- */

static void put(token_writer *w, const void *bytes, size_t size)
{
  if (size == 0) return;
  fwrite(bytes, 1, size, w->file.stream);
  fingerprint_add(w->content, bytes, size);
}

status token_writer_begin(const char *path, uint32_t vocabulary, uint64_t tokenizer, token_writer *w,
                          alibi_error *error)
{
  static const unsigned char zeros[HEADER];
  status result;
  *w = (token_writer){.wide = vocabulary > 65536, .vocabulary = vocabulary, .tokenizer = tokenizer};
  TRY(fingerprint_begin(&w->content, error));
  TRY(replace_begin(path, &w->file, error));
  fwrite(zeros, 1, HEADER, w->file.stream); /* until all is known */
done:
  if (result != ALIBI_OK) token_writer_abandon(w);
  return result;
}

status token_writer_document(token_writer *w, alibi_error *error)
{
  if (w->document_count > 0 && w->documents[w->document_count - 1] == w->count) return ALIBI_OK;
  status result = memory_grow(&w->documents, &w->document_capacity, w->document_count + 1, sizeof *w->documents,
                              "the documents of a shard", error);
  if (result == ALIBI_OK) w->documents[w->document_count++] = w->count;
  return result;
}

void token_writer_ids(token_writer *w, const uint32_t *ids, size_t count)
{
  uint16_t narrow[CHUNK];
  w->count += count;
  for (size_t done = 0, n; done < count; done += n) {
    n = count - done < CHUNK ? count - done : CHUNK;
    for (size_t i = 0; i < n; i++) {
      uint32_t id = ids[done + i];
      assert(id < w->vocabulary);
      w->largest = id > w->largest ? id : w->largest;
      narrow[i] = (uint16_t)id;
    }
    if (w->wide) put(w, ids + done, n * sizeof *ids);
    else put(w, narrow, n * sizeof *narrow);
  }
}

status token_writer_commit(token_writer *w, uint64_t *written, alibi_error *error)
{
  static const unsigned char zeros[8];
  unsigned char header[HEADER];
  uint32_t numbers[] = {VERSION, w->wide ? 4 : 2}, more[] = {w->largest, w->vocabulary};
  if (w->document_count > 0 && w->documents[w->document_count - 1] == w->count) w->document_count--;
  uint64_t ids = w->count * numbers[1], counts[] = {w->count, w->document_count};
  status result = ALIBI_OK;
  assert(w->count > 0);
  put(w, zeros, (size_t)((8 - ids % 8) % 8));
  put(w, w->documents, w->document_count * sizeof *w->documents);
  uint64_t fingerprints[] = {w->tokenizer, fingerprint_value(w->content)};
  memcpy(header, magic, 8);
  memcpy(header + 8, numbers, 8);
  memcpy(header + 16, counts, 16);
  memcpy(header + 32, more, 8);
  memcpy(header + 40, fingerprints, 16);
  uint64_t seal = fingerprint_of(header, SEALED);
  memcpy(header + SEALED, &seal, 8);
  if (fseek(w->file.stream, 0, SEEK_SET) != 0) { /* writes what was held back, too */
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", w->file.path);
    goto done;
  }
  fwrite(header, 1, HEADER, w->file.stream);
  if (written) *written = fingerprints[1];
  TRY(replace_commit(&w->file, error));
done:
  token_writer_abandon(w);
  return result;
}

void token_writer_abandon(token_writer *w)
{
  replace_abandon(&w->file);
  fingerprint_free(w->content);
  free(w->documents);
  *w = (token_writer){0};
}
