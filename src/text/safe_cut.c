/* Safe cuts.  Merges never cross pieces (text/split.h), and no piece holds a blank after something else: where a
 * printable ASCII character is followed by a blank, a piece ends.  Nothing before that place looks beyond it: the
 * pattern looks ahead only from blanks, and by one character.  Bytes that are no UTF-8 end at an ASCII character
 * too. */
#include "text/safe_cut.h"

#include <string.h>

size_t tokenizer_safe_cut(const alibi_tokenizer *tokenizer, const unsigned char *text, size_t size, size_t from)
{
  const char *kind = tokenizer ? alibi_tokenizer_kind(tokenizer) : "bpe";
  if (from >= size) return size;
  if (strcmp(kind, "bytes") == 0) return from;
  if (strcmp(kind, "bpe") != 0) return size;
  for (size_t i = from > 0 ? from : 1; i < size; i++)
    if (text[i - 1] > ' ' && text[i - 1] < 0x7f && (text[i] == ' ' || text[i] == '\n')) return i;
  return size;
}
