/* The only file that knows utf8proc.  Normalizing goes stretch by stretch (what lies between two ASCII characters
 * is none of ASCII's business), and orders marks by counting where there are many: a text of nothing but marks
 * must not take the square of its length.  Each answer is that of one version of Unicode: text/unicode_since.c. */
#include "text/unicode.h"

#include <utf8proc.h>

#include "text/unicode_since.h"

static int category(uint32_t c)
{
  return (int)utf8proc_category((utf8proc_int32_t)c);
}

bool unicode_is_space(uint32_t c)
{
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool unicode_is_mark(uint32_t c)
{
  if (c < 0x300 || unicode_since(c) > 9 || c == 0x111c9) return false;
  if (c == 0x1cf2 || c == 0x1cf3) return true; /* letters since 12 */
  int kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

bool unicode_is_nonspacing(uint32_t c)
{
  if (c < 0x300 || unicode_since(c) > 8) return false;
  switch (c) { /* of another category since */
  case 0x1734:
  case 0x1171e: return true;
  case 0x1885:
  case 0x1886:
  case 0xa9bd:
  case 0x111c9: return false;
  default: return category(c) == UTF8PROC_CATEGORY_MN;
  }
}

bool unicode_is_punctuation(uint32_t c)
{
  if (c < 0x80)
    return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
  if (unicode_since(c) > 8) return false;
  if (c == 0x166d || c == 0x111c9) return true; /* a symbol and a mark since */
  int kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool unicode_is_number(uint32_t c)
{
  if (c < 0x80) return c >= '0' && c <= '9';
  unicode_answer lately = unicode_number_lately(c);
  if (lately != UNICODE_OLD) return lately == UNICODE_YES;
  int kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool unicode_is_other(uint32_t c)
{
  if (c < 0x80) return c < ' ' || c == 0x7f;
  if (unicode_since(c) > 8) return false;
  int kind = category(c);
  return kind >= UTF8PROC_CATEGORY_CC && kind <= UTF8PROC_CATEGORY_CO;
}

bool unicode_is_word(uint32_t c)
{
  if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  unicode_answer lately = unicode_word_lately(c);
  if (lately != UNICODE_OLD) return lately == UNICODE_YES;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC: return true;
  default: break; /* Alphabetic beyond letters and marks: circled and squared letters */
  }
  return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

size_t unicode_lower(uint32_t c, uint32_t lower[2])
{
  lower[0] = c;
  if (c < 0x80) {
    if (c >= 'A' && c <= 'Z') lower[0] = c + 32;
    return 1;
  }
  if (c == 0x130) { /* I with a dot: the only one whose lower case is two characters */
    lower[0] = 'i';
    lower[1] = 0x307;
    return 2;
  }
  lower[0] = unicode_lower_lately(c);
  if (lower[0] == c) lower[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  return 1;
}

/* ---- normalization forms ---- */

typedef struct characters {
  utf8proc_int32_t *data;
  size_t count, capacity;
} characters;

static int combining_class(utf8proc_int32_t c)
{
  return c < 0x300 ? 0 : (int)utf8proc_get_property(c)->combining_class;
}

/* A run of marks by their class, equal ones in the order in which they came. */
static status order_marks(utf8proc_int32_t *run, size_t count, alibi_error *error)
{
  enum { FEW = 24 };
  if (count <= FEW) {
    for (size_t i = 1; i < count; i++) {
      utf8proc_int32_t c = run[i];
      int kind = combining_class(c);
      size_t to = i;
      for (; to > 0 && combining_class(run[to - 1]) > kind; to--) run[to] = run[to - 1];
      run[to] = c;
    }
    return ALIBI_OK;
  }
  size_t start[257] = {0};
  utf8proc_int32_t *sorted = NULL;
  size_t capacity = 0;
  status result = memory_grow(&sorted, &capacity, count, sizeof *sorted, "marks", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < count; i++) start[combining_class(run[i]) + 1]++;
  for (size_t i = 0; i < 256; i++) start[i + 1] += start[i];
  for (size_t i = 0; i < count; i++) sorted[start[combining_class(run[i])]++] = run[i];
  memcpy(run, sorted, count * sizeof *run);
  free(sorted);
  return ALIBI_OK;
}

static status decompose(const unsigned char *text, size_t size, bool compatible, characters *to,
                        alibi_error *error)
{
  status result = ALIBI_OK;
  utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
  if (compatible) options |= UTF8PROC_COMPAT;
  enum { MOST = 32 }; /* characters of one: 18 */
  for (size_t at = 0, length; at < size; at += length) {
    utf8proc_int32_t c = (utf8proc_int32_t)utf8_character(text + at, &length);
    int boundary = 0;
    if (to->capacity - to->count < MOST)
      TRY(memory_grow(&to->data, &to->capacity, size_add(to->count, MOST), sizeof *to->data, "a text", error));
    utf8proc_ssize_t count = utf8proc_decompose_char(
        c, to->data + to->count, (utf8proc_ssize_t)(to->capacity - to->count), options, &boundary);
    if (count < 1 || (size_t)count > to->capacity - to->count) to->data[to->count++] = c;
    else to->count += (size_t)count;
  }
  for (size_t i = 0; i < to->count;) {
    size_t end = i;
    while (end < to->count && combining_class(to->data[end]) != 0) end++;
    if (end - i > 1) TRY(order_marks(to->data + i, end - i, error));
    i = end + 1;
  }
done:
  return result;
}

/* Bytes up to the next character that Unicode 9 does not have. */
static size_t known_size(const unsigned char *text, size_t size)
{
  size_t at = 0;
  for (size_t length; at < size; at += length)
    if (unicode_since(utf8_character(text + at, &length)) > 9) break;
  return at;
}

static status normalize_stretch(unicode_form form, const unsigned char *text, size_t size, characters *memory,
                                text_buffer *to, alibi_error *error)
{
  status result = ALIBI_OK;
  memory->count = 0;
  TRY(decompose(text, size, form == UNICODE_NFKC || form == UNICODE_NFKD, memory, error));
  if (form == UNICODE_NFC || form == UNICODE_NFKC) {
    utf8proc_ssize_t count = utf8proc_normalize_utf32(memory->data, (utf8proc_ssize_t)memory->count,
                                                      UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (count >= 0) memory->count = (size_t)count;
  }
  TRY(buffer_reserve(to, size_mul(memory->count, 4), error));
  for (size_t i = 0; i < memory->count; i++)
    to->size += utf8_spell((uint32_t)memory->data[i], to->data + to->size);
done:
  return result;
}

status unicode_normalize(unicode_form form, const unsigned char *text, size_t size, text_buffer *to,
                         alibi_error *error)
{
  status result = ALIBI_OK;
  characters memory = {0};
  for (size_t at = 0; at < size;) {
    size_t end = at, length;
    while (end < size && text[end] < 0x80) end++;
    if (end < size && end > at) end--; /* it may take marks from what follows */
    TRY(buffer_add(to, text + at, end - at, error));
    at = end;
    if (at == size) break;
    end = at + 1;
    while (end < size && text[end] >= 0x80) end++;
    while (at < end) {
      length = known_size(text + at, end - at);
      if (length > 0) TRY(normalize_stretch(form, text + at, length, &memory, to, error));
      at += length;
      if (at == end) break;
      utf8_character(text + at, &length); /* stays as it is, and nothing goes past it */
      TRY(buffer_add(to, text + at, length, error));
      at += length;
    }
  }
done:
  free(memory.data);
  return result;
}

size_t unicode_grapheme(const unsigned char *text, size_t size)
{
  size_t at, length;
  uint32_t before = utf8_character(text, &at);
  utf8proc_int32_t state = 0;
  while (at < size) {
    uint32_t c = utf8_character(text + at, &length);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state)) break;
    before = c;
    at += length;
  }
  return at;
}
