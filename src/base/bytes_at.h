/* base/bytes_at.h - numbers at any place of a file's bytes, which are little-endian throughout. */
#ifndef BASE_BYTES_AT_H
#define BASE_BYTES_AT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t u32_at(const unsigned char *bytes, size_t at)
{
  uint32_t value;
  memcpy(&value, bytes + at, sizeof value);
  return value;
}

static inline uint64_t u64_at(const unsigned char *bytes, size_t at)
{
  uint64_t value;
  memcpy(&value, bytes + at, sizeof value);
  return value;
}

#endif
