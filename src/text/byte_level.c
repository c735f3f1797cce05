/* Bytes spelled as printable characters.  The rule moves 68 bytes (33 controls and the blank, 34 from U+007F to
 * U+00A0 and the soft hyphen) to U+0100 and up, so both directions are a few comparisons. */
#include "text/byte_level.h"

enum { FIRST_MOVED = 0x100, MOVED = 68 };

/* Bytes that are not printable, in order: 0x00-0x20, 0x7f-0xa0, 0xad. */
static unsigned moved_byte(unsigned index)
{
  if (index < 0x21) return index;
  index -= 0x21;
  return index < 0x22 ? 0x7f + index : 0xad;
}

static unsigned character_of(unsigned char byte)
{
  if (byte < 0x21) return FIRST_MOVED + byte;
  if (byte >= 0x7f && byte <= 0xa0) return FIRST_MOVED + 0x21 + (byte - 0x7fu);
  return byte == 0xad ? FIRST_MOVED + MOVED - 1 : byte;
}

/* The next character as a byte; *text moves on.  -1: no byte. */
static int next_byte(const char **text)
{
  const unsigned char *p = (const unsigned char *)*text;
  unsigned character = p[0];
  size_t width = 1;
  if (p[0] >= 0x80) {
    if (p[0] < 0xc2 || p[0] > 0xdf || (p[1] & 0xc0) != 0x80)
      return -1; /* every byte's character has two at most */
    character = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    width = 2;
  }
  *text += width;
  if (character >= FIRST_MOVED)
    return character < FIRST_MOVED + MOVED ? (int)moved_byte(character - FIRST_MOVED) : -1;
  return character_of((unsigned char)character) == character ? (int)character : -1;
}

void byte_level_spell(const unsigned char *bytes, size_t size, char *text)
{
  for (size_t i = 0; i < size; i++) {
    unsigned character = character_of(bytes[i]);
    if (character < 0x80) {
      *text++ = (char)character;
    } else {
      *text++ = (char)(0xc0 | character >> 6);
      *text++ = (char)(0x80 | (character & 0x3f));
    }
  }
  *text = '\0';
}

size_t byte_level_length(const char *text)
{
  size_t length = 0;
  for (; *text; length++)
    if (next_byte(&text) < 0) return 0;
  return length;
}

void byte_level_parse(const char *text, unsigned char *bytes)
{
  while (*text) *bytes++ = (unsigned char)next_byte(&text);
}
