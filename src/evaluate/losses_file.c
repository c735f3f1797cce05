/* The file is written whole each time, beside the old one: losses are 4 bytes a token, little beside what it took
 * to compute them. */
#include "evaluate/losses_file.h"

#include <string.h>

#include "base/bytes_at.h"
#include "base/fingerprint.h"
#include "base/memory.h"
#include "base/system.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Files of losses are written as they are in memory: little-endian machines only"
#endif

enum { VERSION = 1, HEADER = 24, PART = 24, SEAL = 8 };
static const char magic[8] = "ALIBILOS";

/* To the stream and into the fingerprint of what was written. */
static void put(replace_file *r, fingerprint *seal, const void *data, size_t size)
{
  fwrite(data, 1, size, r->stream); /* replace_commit asks the stream */
  fingerprint_add(seal, data, size);
}

status losses_file_write(const char *path, uint64_t what, const losses_part *parts, size_t count,
                         alibi_error *error)
{
  replace_file r = {0};
  fingerprint *seal = NULL;
  uint32_t numbers[2] = {VERSION, (uint32_t)count};
  status result;
  TRY(fingerprint_begin(&seal, error));
  TRY(replace_begin(path, &r, error));
  put(&r, seal, magic, sizeof magic);
  put(&r, seal, numbers, sizeof numbers);
  put(&r, seal, &what, sizeof what);
  for (size_t i = 0; i < count; i++) {
    uint64_t done[2] = {parts[i].windows, parts[i].targets};
    put(&r, seal, done, sizeof done);
    put(&r, seal, &parts[i].seconds, sizeof parts[i].seconds);
  }
  for (size_t i = 0; i < count; i++) put(&r, seal, parts[i].losses, parts[i].targets * sizeof(float));
  uint64_t value = fingerprint_value(seal);
  fwrite(&value, 1, sizeof value, r.stream);
  TRY(replace_commit(&r, error));
done:
  replace_abandon(&r);
  fingerprint_free(seal);
  return result;
}

/* A file that was written here, whole and not changed since, of this evaluation? */
static status check(const char *path, const mapped_file *f, uint64_t what, size_t count, alibi_error *error)
{
  if (f->size < HEADER || memcmp(f->data, magic, sizeof magic) != 0)
    return fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected losses that an evaluation put down, found something else: remove it, or choose another "
        "place",
        path);
  if (u32_at(f->data, 8) != VERSION)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected version %d of a file of losses, found %u", path, VERSION,
                u32_at(f->data, 8));
  if (f->size < HEADER + SEAL || fingerprint_of(f->data, f->size - SEAL) != u64_at(f->data, f->size - SEAL))
    return fail(error, ALIBI_BAD_INPUT,
                "%s: damaged: its content is not what was written there; remove it to begin again", path);
  if (u64_at(f->data, 16) != what || u32_at(f->data, 12) != count)
    return fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected losses of this model, text and rows, with this instruction set, found those of another "
        "evaluation: remove it to begin again",
        path);
  return ALIBI_OK;
}

/* Its numbers go together?  What was sealed is ours, so this is not expected to fail. */
static status check_parts(const char *path, const mapped_file *f, const losses_part *parts, size_t count,
                          alibi_error *error)
{
  size_t size = size_add(HEADER + SEAL, size_mul(count, PART));
  for (size_t i = 0; i < count && size <= f->size; i++) {
    uint64_t windows = u64_at(f->data, HEADER + i * PART), targets = u64_at(f->data, HEADER + i * PART + 8);
    if (windows > parts[i].all_windows || targets > parts[i].all_targets) size = SIZE_MAX;
    else size = size_add(size, size_mul((size_t)targets, sizeof(float)));
  }
  if (size == f->size) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: damaged: its numbers do not go together; remove it to begin again",
              path);
}

status losses_file_read(const char *path, uint64_t what, losses_part *parts, size_t count, alibi_error *error)
{
  mapped_file f;
  status result = mapped_file_open(path, &f, error);
  if (result != ALIBI_OK) return result;
  TRY(check(path, &f, what, count, error));
  TRY(check_parts(path, &f, parts, count, error));
  size_t at = HEADER + count * PART;
  for (size_t i = 0; i < count; i++) {
    losses_part *part = &parts[i];
    part->windows = (size_t)u64_at(f.data, HEADER + i * PART);
    part->targets = (size_t)u64_at(f.data, HEADER + i * PART + 8);
    memcpy(&part->seconds, f.data + HEADER + i * PART + 16, sizeof part->seconds);
    memcpy(part->losses, f.data + at, part->targets * sizeof(float));
    at += part->targets * sizeof(float);
  }
done:
  mapped_file_close(&f);
  return result;
}
