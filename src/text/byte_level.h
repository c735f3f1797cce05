/* text/byte_level.h - bytes spelled as printable characters, as tokenizer.json wants them.
 * Source: GPT-2 (Radford et al. 2019), encoder.py: a byte that is a printable character of Latin-1 other than the
 * blank is itself; the others, in order, are U+0100, U+0101, ... */
#ifndef TEXT_BYTE_LEVEL_H
#define TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

enum { BYTE_LEVEL_WIDTH = 2 }; /* UTF-8 bytes that one byte needs at most */

/* text: room for size * BYTE_LEVEL_WIDTH + 1; NUL-terminated UTF-8. */
void byte_level_spell(const unsigned char *bytes, size_t size, char *text);

/* How many bytes the text spells; 0 where a character stands for no byte (or the text is empty). */
size_t byte_level_length(const char *text);
/* Writes them; the text is one for which byte_level_length is not 0. */
void byte_level_parse(const char *text, unsigned char *bytes);

#endif
