/* Byte streams: what is plain is copied, what is compressed is unpacked bit by bit into the reader's own bytes. */
#include "file/compressed.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "file/decompress.h"

struct byte_stream {
  const char *path;
  const decompressor *kind; /* NULL: plain */
  void *state;
  const unsigned char *data, *next;
  size_t left;
  bool ended;
};

compression compression_of(const void *data, size_t size)
{
  static const unsigned char gzip[] = {0x1f, 0x8b, 0x08}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
  if (size >= sizeof gzip && memcmp(data, gzip, sizeof gzip) == 0) return COMPRESSION_GZIP;
  if (size >= sizeof zstd && memcmp(data, zstd, sizeof zstd) == 0) return COMPRESSION_ZSTD;
  return COMPRESSION_NONE;
}

status byte_stream_open(const char *path, compression kind, const void *data, size_t size, byte_stream **stream,
                        alibi_error *error)
{
  byte_stream *s = calloc(1, sizeof *s);
  *stream = s;
  if (!s) return fail(error, ALIBI_FAILED, "%s: not enough memory to read it", path);
  s->path = path;
  s->data = s->next = data;
  s->left = size;
  s->kind = kind == COMPRESSION_GZIP ? &decompressor_gzip : kind == COMPRESSION_ZSTD ? &decompressor_zstd : NULL;
  if (!s->kind || (s->state = s->kind->begin())) return ALIBI_OK;
  byte_stream_close(s);
  *stream = NULL;
  return fail(error, ALIBI_FAILED, "%s: not enough memory to unpack it", path);
}

static status unpack(byte_stream *s, unsigned char *bytes, size_t room, size_t *got, alibi_error *error)
{
  unsigned char *to = bytes;
  size_t room_left = room;
  while (room_left > 0 && !s->ended) {
    size_t left = s->left, at = room_left;
    const char *why = s->kind->run(s->state, &s->next, &s->left, &to, &room_left, &s->ended);
    if (why)
      return fail(error, ALIBI_BAD_INPUT, "%s: damaged %s data at byte %zu: %s", s->path, s->kind->name,
                  byte_stream_position(s), why);
    if (!s->ended && s->left == left && room_left == at)
      return fail(error, ALIBI_BAD_INPUT, "%s: cut off: its %s data goes on after the last byte", s->path,
                  s->kind->name);
  }
  *got = room - room_left;
  return ALIBI_OK;
}

status byte_stream_read(byte_stream *s, void *bytes, size_t room, size_t *got, alibi_error *error)
{
  *got = 0;
  if (s->kind) return unpack(s, bytes, room, got, error);
  *got = room < s->left ? room : s->left;
  if (*got > 0) memcpy(bytes, s->next, *got);
  s->next += *got;
  s->left -= *got;
  return ALIBI_OK;
}

size_t byte_stream_position(const byte_stream *s)
{
  return (size_t)(s->next - s->data);
}

void byte_stream_close(byte_stream *s)
{
  if (!s) return;
  if (s->state) s->kind->end(s->state);
  free(s);
}

status byte_stream_read_all(byte_stream *s, unsigned char **data, size_t *size, alibi_error *error)
{
  enum { FIRST = 1 << 16 };
  status result = ALIBI_OK;
  size_t capacity = 0, got;
  *data = NULL;
  *size = 0;
  do {
    TRY(memory_grow(data, &capacity, *size + FIRST, 1, s->path, error));
    TRY(byte_stream_read(s, *data + *size, capacity - *size, &got, error));
    *size += got;
  } while (got > 0);
done:
  if (result != ALIBI_OK) free(*data);
  if (result != ALIBI_OK) *data = NULL;
  return result;
}
