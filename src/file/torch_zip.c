/* The directory of a zip archive.  The one idea: the end of the file leads to the directory, and the directory to
 * the entries; each step says where the next one lies, and is believed only where both ends agree. */
#include "file/torch_zip.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_at.h"
#include "base/memory.h"

enum {
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR_BYTES = 20,
  CENTRAL_BYTES = 46,
  LOCAL_BYTES = 30,
  COMMENT_MOST = 65535,
  NAME_MOST = 512, /* fits a sentence */
  ZIP64_FIELD = 1,
  FLAG_ENCRYPTED = 1,
  FLAG_SIZES_FOLLOW = 8 /* a record after the data has them; the local header may have zeros */
};

#define END_SIGNATURE 0x06054b50u
#define END64_SIGNATURE 0x06064b50u
#define LOCATOR_SIGNATURE 0x07064b50u
#define CENTRAL_SIGNATURE 0x02014b50u
#define LOCAL_SIGNATURE 0x04034b50u
#define FULL16 0xFFFFu
#define FULL32 0xFFFFFFFFu

typedef struct archive {
  const char *path;
  const unsigned char *data;
  size_t size;
  size_t begin, end; /* of the directory */
  uint64_t count;    /* of its entries */
  alibi_error *error;
} archive;

/* What the directory, or a local header, says of an entry. */
typedef struct claims {
  unsigned flags, method;
  uint64_t stored, size, local;
  const unsigned char *name;
  size_t name_size;
} claims;

static unsigned u16_at(const unsigned char *bytes, size_t at)
{
  return bytes[at] | (unsigned)bytes[at + 1] << 8;
}

static status damaged(const archive *a, const char *what)
{
  return fail(a->error, ALIBI_BAD_INPUT, "%s: not a whole zip archive: %s", a->path, what);
}

static bool agrees(uint64_t narrow, uint64_t full, uint64_t wide)
{
  return narrow == full || narrow == wide;
}

/* Where numbers did not fit, a second end record, which a locator before the first one leads to. */
static status read_end64(archive *a, size_t end)
{
  if (end < LOCATOR_BYTES || u32_at(a->data, end - LOCATOR_BYTES) != LOCATOR_SIGNATURE) return ALIBI_OK;
  size_t locator = end - LOCATOR_BYTES;
  uint64_t place = u64_at(a->data, locator + 8);
  if (u32_at(a->data, locator + 4) != 0 || u32_at(a->data, locator + 16) > 1)
    return damaged(a, "it has several disks");
  if (locator < END64_BYTES || place != locator - END64_BYTES || u32_at(a->data, place) != END64_SIGNATURE)
    return damaged(a, "its zip64 end record is not before its locator");
  const unsigned char *r = a->data + place, *first = a->data + end;
  uint64_t count = u64_at(r, 32), size = u64_at(r, 40), begin = u64_at(r, 48);
  if (u64_at(r, 4) != END64_BYTES - 12 || u32_at(r, 16) != 0 || u32_at(r, 20) != 0 || u64_at(r, 24) != count)
    return damaged(a, "its zip64 end record is of an unknown kind");
  if (!agrees(u16_at(first, 10), FULL16, count) || !agrees(u32_at(first, 12), FULL32, size) ||
      !agrees(u32_at(first, 16), FULL32, begin))
    return damaged(a, "its two end records disagree");
  if (begin > place || size != place - begin) return damaged(a, "its directory is not before its end record");
  a->begin = begin;
  a->end = place;
  a->count = count;
  return ALIBI_OK;
}

static status read_end(archive *a)
{
  if (a->size < END_BYTES) return damaged(a, "it is too short");
  size_t end = a->size - END_BYTES, least = end > COMMENT_MOST ? end - COMMENT_MOST : 0;
  while (u32_at(a->data, end) != END_SIGNATURE || u16_at(a->data, end + 20) != a->size - END_BYTES - end) {
    if (end == least) return damaged(a, "its end is missing");
    end--;
  }
  const unsigned char *r = a->data + end;
  if (u16_at(r, 4) != 0 || u16_at(r, 6) != 0 || u16_at(r, 8) != u16_at(r, 10))
    return damaged(a, "it has several disks");
  a->count = u16_at(r, 10);
  a->begin = u32_at(r, 16);
  a->end = end;
  size_t size = u32_at(r, 12);
  status result = read_end64(a, end);
  if (result != ALIBI_OK || a->end != end) return result;
  if (a->begin > end || size != end - a->begin) return damaged(a, "its directory is not before its end record");
  return ALIBI_OK;
}

/* Sizes and place that did not fit 32 bits stand in an extra field, those alone, in this order. */
static bool read_extra(const unsigned char *extra, size_t size, claims *c)
{
  uint64_t *wide[3];
  size_t wanted = 0;
  if (c->size == FULL32) wide[wanted++] = &c->size;
  if (c->stored == FULL32) wide[wanted++] = &c->stored;
  if (c->local == FULL32) wide[wanted++] = &c->local;
  for (size_t at = 0, field; at + 4 <= size; at += 4 + field) {
    field = u16_at(extra, at + 2);
    if (field > size - at - 4) return false;
    if (u16_at(extra, at) != ZIP64_FIELD) continue;
    if (field < 8 * wanted) return false;
    for (size_t i = 0; i < wanted; i++) *wide[i] = u64_at(extra, at + 4 + 8 * i);
    return true;
  }
  return true;
}

/* The local header at `header`; *begin: of the data behind it. */
static bool read_local(const archive *a, size_t header, claims *c, size_t *begin)
{
  if (header > a->begin || a->begin - header < LOCAL_BYTES) return false;
  const unsigned char *r = a->data + header;
  if (u32_at(r, 0) != LOCAL_SIGNATURE) return false;
  size_t name = u16_at(r, 26), extra = u16_at(r, 28);
  if (name + extra > a->begin - header - LOCAL_BYTES) return false;
  *c = (claims){.flags = u16_at(r, 6),
                .method = u16_at(r, 8),
                .stored = u32_at(r, 18),
                .size = u32_at(r, 22),
                .name = r + LOCAL_BYTES,
                .name_size = name};
  *begin = header + LOCAL_BYTES + name + extra;
  return read_extra(r + LOCAL_BYTES + name, extra, c);
}

static status check_entry(const archive *a, const claims *c, zip_entry *entry)
{
  claims local;
  if (c->flags & FLAG_ENCRYPTED)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': expected one that is not encrypted", a->path,
                entry->name);
  if (c->method != 0 || c->stored != c->size)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': expected one that is stored, found compression %u",
                a->path, entry->name, c->method);
  if (c->local > SIZE_MAX || !read_local(a, (size_t)c->local, &local, &entry->begin))
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': expected its local header at byte %llu, found none",
                a->path, entry->name, (unsigned long long)c->local);
  bool later = (c->flags & FLAG_SIZES_FOLLOW) && local.size == 0 && local.stored == 0;
  bool same = local.flags == c->flags && local.method == c->method && local.name_size == c->name_size &&
              memcmp(local.name, c->name, c->name_size) == 0;
  if (!same || (!later && (local.size != c->size || local.stored != c->stored)))
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': its local header disagrees with the directory",
                a->path, entry->name);
  if (c->size > a->begin - entry->begin)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': expected %llu bytes before the directory, found %zu",
                a->path, entry->name, (unsigned long long)c->size, a->begin - entry->begin);
  entry->header = (size_t)c->local;
  entry->size = (size_t)c->size;
  return ALIBI_OK;
}

/* The entry of the directory at *at, which moves on; its name goes to *names. */
static status read_entry(const archive *a, size_t *at, char **names, zip_entry *entry)
{
  if (a->end - *at < CENTRAL_BYTES || u32_at(a->data, *at) != CENTRAL_SIGNATURE)
    return damaged(a, "its directory has fewer entries than its end record says");
  const unsigned char *r = a->data + *at;
  size_t name = u16_at(r, 28), extra = u16_at(r, 30), comment = u16_at(r, 32);
  if (name + extra + comment > a->end - *at - CENTRAL_BYTES)
    return damaged(a, "an entry passes the end of its directory");
  claims c = {.flags = u16_at(r, 8),
              .method = u16_at(r, 10),
              .stored = u32_at(r, 20),
              .size = u32_at(r, 24),
              .local = u32_at(r, 42),
              .name = r + CENTRAL_BYTES,
              .name_size = name};
  if (name > NAME_MOST) return damaged(a, "the name of an entry is too long");
  for (size_t i = 0; i < name; i++)
    if (c.name[i] < 0x20 || c.name[i] == 0x7F) return damaged(a, "the name of an entry is not printable");
  memcpy(*names, c.name, name); /* the byte after it is 0 */
  entry->name = *names;
  *names += name + 1;
  *at += CENTRAL_BYTES + name + extra + comment;
  if (!read_extra(c.name + name, extra, &c) || u16_at(r, 34) != 0)
    return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': its extra fields are damaged", a->path, entry->name);
  return check_entry(a, &c, entry);
}

static int compare_place(const void *a, const void *b)
{
  const zip_entry *x = a, *y = b;
  return x->header < y->header ? -1 : x->header > y->header;
}

static int compare_name(const void *a, const void *b)
{
  return strcmp(((const zip_entry *)a)->name, ((const zip_entry *)b)->name);
}

static status check_places(const archive *a, zip_directory *zip)
{
  qsort(zip->entries, zip->count, sizeof *zip->entries, compare_place);
  for (size_t i = 1; i < zip->count; i++) {
    const zip_entry *before = &zip->entries[i - 1], *next = &zip->entries[i];
    if (before->begin + before->size > next->header)
      return fail(a->error, ALIBI_BAD_INPUT, "%s: entries '%s' and '%s' overlap", a->path, before->name,
                  next->name);
  }
  qsort(zip->entries, zip->count, sizeof *zip->entries, compare_name);
  for (size_t i = 1; i < zip->count; i++)
    if (compare_name(&zip->entries[i - 1], &zip->entries[i]) == 0)
      return fail(a->error, ALIBI_BAD_INPUT, "%s: entry '%s': is there twice", a->path, zip->entries[i].name);
  return ALIBI_OK;
}

status zip_directory_read(const char *path, const unsigned char *data, size_t size, zip_directory *zip,
                          alibi_error *error)
{
  archive a = {.path = path, .data = data, .size = size, .error = error};
  status result;
  *zip = (zip_directory){0};
  TRY(read_end(&a));
  if (a.count > (a.end - a.begin) / CENTRAL_BYTES)
    TRY(damaged(&a, "its directory has fewer entries than its end record says"));
  TRY(memory_new(&zip->entries, (size_t)a.count, sizeof *zip->entries, path, error));
  TRY(memory_new(&zip->names, a.end - a.begin, 1, path, error)); /* an entry is longer than its name */
  char *names = zip->names;
  size_t at = a.begin;
  for (; zip->count < a.count; zip->count++) TRY(read_entry(&a, &at, &names, &zip->entries[zip->count]));
  if (at != a.end) TRY(damaged(&a, "its directory has more entries than its end record says"));
  TRY(check_places(&a, zip));
done:
  if (result != ALIBI_OK) zip_directory_free(zip);
  return result;
}

void zip_directory_free(zip_directory *zip)
{
  memory_free(zip->entries);
  memory_free(zip->names);
  *zip = (zip_directory){0};
}

const zip_entry *zip_directory_find(const zip_directory *zip, const char *name)
{
  zip_entry wanted = {.name = name};
  return zip->count ? bsearch(&wanted, zip->entries, zip->count, sizeof wanted, compare_name) : NULL;
}
