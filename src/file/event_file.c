/* Scalars for TensorBoard.  The messages are so few and flat that their bytes are put here by hand: a message is a
 * row of fields, a field a key (number * 8 + wire type) and a value; a message inside another is its size and its
 * bytes.  A scalar is a Summary value with a simple_value, the oldest form, which every TensorBoard still takes.
 */
#include "file/event_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

enum {
  MOST_SCALARS = 64,
  MOST_TAG = 127,
  SCALAR_ROOM = MOST_TAG + 16,
  EVENT_ROOM = MOST_SCALARS * SCALAR_ROOM + 64,
  VARINT = 0, /* wire types */
  EIGHT_BYTES = 1,
  WITH_SIZE = 2,
  FOUR_BYTES = 5
};

/* Numbers of the fields (tensorflow/core/util/event.proto, framework/summary.proto). */
enum {
  EVENT_TIME = 1,
  EVENT_STEP = 2,
  EVENT_FILE_VERSION = 3,
  EVENT_SUMMARY = 5,
  EVENT_SESSION_LOG = 7,
  SUMMARY_VALUE = 1,
  VALUE_TAG = 1,
  VALUE_SIMPLE = 2,
  SESSION_STATUS = 1,
  SESSION_START = 1
};

typedef struct message {
  unsigned char bytes[EVENT_ROOM];
  size_t size;
} message;

/* Castagnoli's CRC-32 (polynomial 0x1EDC6F41, reflected), four bits at a time. */
static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
  static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                     0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                     0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

static void put_little(unsigned char *to, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

/* TFRecord's checksum: turned and moved, so that the checksum of data that holds checksums is not degenerate. */
static void put_checksum(unsigned char *to, const unsigned char *bytes, size_t size)
{
  uint32_t crc = crc32c(bytes, size);
  put_little(to, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

static void add_varint(message *m, uint64_t value)
{
  for (; value >= 128; value >>= 7) m->bytes[m->size++] = (unsigned char)(value | 128);
  m->bytes[m->size++] = (unsigned char)value;
}

static void add_key(message *m, int field, int wire)
{
  add_varint(m, (uint64_t)(field << 3 | wire));
}

static void add_bytes(message *m, int field, const void *bytes, size_t size)
{
  add_key(m, field, WITH_SIZE);
  add_varint(m, size);
  memcpy(m->bytes + m->size, bytes, size);
  m->size += size;
}

static void add_start(message *m, double time, int64_t step)
{
  uint64_t bits;
  memcpy(&bits, &time, sizeof bits);
  m->size = 0;
  add_key(m, EVENT_TIME, EIGHT_BYTES);
  put_little(m->bytes + m->size, bits, 8);
  m->size += 8;
  if (step == 0) return; /* what is 0 is not written */
  add_key(m, EVENT_STEP, VARINT);
  add_varint(m, (uint64_t)step);
}

/* Summary { value { tag, simple_value } ... }; false where no value is a number. */
static bool add_scalars(message *m, const event_scalar *list, size_t count)
{
  message summary = {.size = 0}, value;
  for (size_t i = 0; i < count; i++) {
    float number = (float)list[i].value;
    uint32_t bits;
    if (isnan(number)) continue;
    memcpy(&bits, &number, sizeof bits);
    value.size = 0;
    add_bytes(&value, VALUE_TAG, list[i].tag, strlen(list[i].tag));
    add_key(&value, VALUE_SIMPLE, FOUR_BYTES);
    put_little(value.bytes + value.size, bits, 4);
    value.size += 4;
    add_bytes(&summary, SUMMARY_VALUE, value.bytes, value.size);
  }
  if (summary.size > 0) add_bytes(m, EVENT_SUMMARY, summary.bytes, summary.size);
  return summary.size > 0;
}

static status write_record(event_file *file, const message *m, alibi_error *error)
{
  unsigned char head[12], tail[4];
  put_little(head, m->size, 8);
  put_checksum(head + 8, head, 8);
  put_checksum(tail, m->bytes, m->size);
  if (fwrite(head, 1, sizeof head, file->stream) == sizeof head &&
      fwrite(m->bytes, 1, m->size, file->stream) == m->size &&
      fwrite(tail, 1, sizeof tail, file->stream) == sizeof tail && fflush(file->stream) == 0)
    return ALIBI_OK;
  return fail_errno(error, ALIBI_FAILED, "%s: cannot write", file->path);
}

/* A name that no file has: two trainings may begin in one second. */
static char *free_name(const char *directory, double time)
{
  char name[96];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "events.out.tfevents.%010.0f.alibi.%03d", fmin(fmax(floor(time), 0), 9e9), i);
    char *path = path_join(directory, name);
    if (!path || !path_exists(path)) return path;
    free(path);
  }
  return NULL;
}

status event_file_begin(const char *directory, int64_t first, double time, event_file *file, alibi_error *error)
{
  static const char version[] = "brain.Event:2";
  static const unsigned char start[] = {SESSION_STATUS << 3 | VARINT, SESSION_START};
  status result;
  message m;
  *file = (event_file){0};
  TRY(directory_make(directory, error));
  file->path = free_name(directory, time);
  if (!file->path) RAISE(error, ALIBI_FAILED, "%s: not enough memory or names for a file of events", directory);
  file->stream = fopen(file->path, "wb");
  if (!file->stream) {
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", file->path);
    goto done;
  }
  add_start(&m, time, 0);
  add_bytes(&m, EVENT_FILE_VERSION, version, sizeof version - 1);
  TRY(write_record(file, &m, error));
  add_start(&m, time, first);
  add_bytes(&m, EVENT_SESSION_LOG, start, sizeof start);
  TRY(write_record(file, &m, error));
done:
  if (result != ALIBI_OK) event_file_end(file);
  return result;
}

status event_file_add(event_file *file, int64_t step, double time, const event_scalar *list, size_t count,
                      alibi_error *error)
{
  message m;
  if (count > MOST_SCALARS)
    return fail(error, ALIBI_INVALID, "events of a step: expected at most %d, found %zu", MOST_SCALARS, count);
  for (size_t i = 0; i < count; i++)
    if (strlen(list[i].tag) > MOST_TAG)
      return fail(error, ALIBI_INVALID, "tag of an event: expected at most %d bytes, found %zu", MOST_TAG,
                  strlen(list[i].tag));
  add_start(&m, time, step);
  return add_scalars(&m, list, count) ? write_record(file, &m, error) : ALIBI_OK;
}

void event_file_end(event_file *file)
{
  if (file->stream) fclose(file->stream);
  free(file->path);
  *file = (event_file){0};
}
