/* Base64: three bytes are four letters, the last group padded with '='. */
#include "text/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

status base64_encode(const unsigned char *bytes, size_t size, text_buffer *text, alibi_error *error)
{
  status result = buffer_reserve(text, size_add(size_mul(size / 3, 4), 5), error);
  if (result != ALIBI_OK) return result;
  char *to = (char *)text->data + text->size;
  for (size_t i = 0; i < size; i += 3, to += 4) {
    size_t left = size - i < 3 ? size - i : 3;
    uint32_t word = (uint32_t)bytes[i] << 16;
    if (left > 1) word |= (uint32_t)bytes[i + 1] << 8;
    if (left > 2) word |= bytes[i + 2];
    for (size_t k = 0; k < 4; k++) to[k] = k > left ? '=' : letters[word >> (18 - 6 * k) & 63];
  }
  *to = '\0';
  text->size = (size_t)((unsigned char *)to - text->data);
  return ALIBI_OK;
}

static int value_of(char letter)
{
  const char *place = letter ? strchr(letters, letter) : NULL;
  return place ? (int)(place - letters) : -1;
}

status base64_decode(const char *text, text_buffer *bytes, bool *valid, alibi_error *error)
{
  size_t size = strlen(text);
  status result = buffer_reserve(bytes, size / 4 * 3 + 3, error);
  *valid = size % 4 == 0;
  for (size_t i = 0; i < size && *valid && result == ALIBI_OK; i += 4) {
    size_t letters_here = i + 4 < size || text[i + 3] != '=' ? 4 : text[i + 2] != '=' ? 3 : 2;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; k++) {
      int value = k < letters_here ? value_of(text[i + k]) : 0;
      *valid &= value >= 0;
      word = word << 6 | (uint32_t)(value & 63);
    }
    unsigned char three[3] = {(unsigned char)(word >> 16), (unsigned char)(word >> 8), (unsigned char)word};
    result = buffer_add(bytes, three, letters_here - 1, error);
  }
  return result;
}
