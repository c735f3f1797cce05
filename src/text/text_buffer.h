/* text/text_buffer.h - bytes that grow, and UTF-8 in them. */
#ifndef TEXT_TEXT_BUFFER_H
#define TEXT_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct text_buffer { /* start from {0}; free(data) */
  unsigned char *data;
  size_t size, capacity;
} text_buffer;

/* Room for `more` bytes beyond size. */
static inline status buffer_reserve(text_buffer *b, size_t more, alibi_error *error)
{
  if (b->capacity - b->size >= more && b->data) return ALIBI_OK;
  return memory_grow(&b->data, &b->capacity, size_add(b->size, more), 1, "a text", error);
}

static inline status buffer_add(text_buffer *b, const void *bytes, size_t size, alibi_error *error)
{
  status result = buffer_reserve(b, size_add(size, 1), error);
  if (result != ALIBI_OK) return result;
  if (size > 0) memcpy(b->data + b->size, bytes, size);
  b->size += size;
  return ALIBI_OK;
}

static inline status buffer_add_text(text_buffer *b, const char *text, alibi_error *error)
{
  return buffer_add(b, text, strlen(text), error);
}

static inline void buffer_free(text_buffer *b)
{
  free(b->data);
  *b = (text_buffer){0};
}

/* Bytes of the UTF-8 character at p (left > 0), 0 where there is none.  Unicode 15, table 3-7. */
static inline size_t utf8_size(const unsigned char *p, size_t left)
{
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  size_t size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  if (size > left) return 0;
  unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
  unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < size; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return size;
}

/* The value of a hexadecimal digit; -1: it is none. */
static inline int hex_digit(int c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Where the longest stretch of valid UTF-8 from `position` ends. */
static inline size_t utf8_end(const unsigned char *text, size_t position, size_t size)
{
  while (position < size) {
    uint64_t word;
    if (size - position >= sizeof word) {
      memcpy(&word, text + position, sizeof word);
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        position += sizeof word;
        continue;
      }
    }
    size_t step = utf8_size(text + position, size - position);
    if (step == 0) break;
    position += step;
  }
  return position;
}

/* Bytes of what begins as a character but is none, at p (utf8_size is 0 there): the longest part that a character
 * could begin with, at least 1.  *open: more bytes could still make one of it. */
static inline size_t utf8_bad_size(const unsigned char *p, size_t left, bool *open)
{
  *open = false;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 1;
  size_t size = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4, good = 1;
  unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
  unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
  while (good < size && good < left && p[good] >= (good == 1 ? low : 0x80) && p[good] <= (good == 1 ? high : 0xbf))
    good++;
  *open = good == left;
  return good;
}

/* The character at p, which is valid UTF-8; *size its bytes. */
static inline uint32_t utf8_character(const unsigned char *p, size_t *size)
{
  if (p[0] < 0x80) return *size = 1, p[0];
  if (p[0] < 0xe0) return *size = 2, (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
  if (p[0] < 0xf0) return *size = 3, (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
  return *size = 4, (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

/* The character that ends before p; begin <= its start. */
static inline uint32_t utf8_before(const unsigned char *begin, const unsigned char *p, size_t *size)
{
  const unsigned char *start = p - 1;
  while (start > begin && (*start & 0xc0) == 0x80) start--;
  return utf8_character(start, size);
}

/* At most 4 bytes; how many. */
static inline size_t utf8_spell(uint32_t character, unsigned char *to)
{
  if (character < 0x80) return to[0] = (unsigned char)character, 1;
  if (character < 0x800) {
    to[0] = (unsigned char)(0xc0 | character >> 6);
    to[1] = (unsigned char)(0x80 | (character & 0x3f));
    return 2;
  }
  if (character < 0x10000) {
    to[0] = (unsigned char)(0xe0 | character >> 12);
    to[1] = (unsigned char)(0x80 | (character >> 6 & 0x3f));
    to[2] = (unsigned char)(0x80 | (character & 0x3f));
    return 3;
  }
  to[0] = (unsigned char)(0xf0 | character >> 18);
  to[1] = (unsigned char)(0x80 | (character >> 12 & 0x3f));
  to[2] = (unsigned char)(0x80 | (character >> 6 & 0x3f));
  to[3] = (unsigned char)(0x80 | (character & 0x3f));
  return 4;
}

static inline status buffer_add_character(text_buffer *b, uint32_t character, alibi_error *error)
{
  status result = buffer_reserve(b, 5, error);
  if (result == ALIBI_OK) b->size += utf8_spell(character, b->data + b->size);
  return result;
}

#endif
