/* Normalizers.  A step reads one buffer and writes the other; each keeps track of how much of the front still
 * stands for the first character of the text, because a character inherits the place of the one it was made of. */
#include "text/normalizer.h"

#include <stdio.h>

#include "text/byte_level.h"
#include "text/charsmap.h"
#include "text/json_part.h"
#include "text/oniguruma.h"
#include "text/unicode.h"

/* Replacements one after the other multiply: bytes that may come of a byte, and that any text may become. */
enum { GROWTH = 1024, GROWTH_FREE = 1 << 20 };

typedef enum step_kind {
  STEP_FORM,
  STEP_LOWERCASE,
  STEP_STRIP,
  STEP_STRIP_ACCENTS,
  STEP_REPLACE,
  STEP_PREPEND,
  STEP_BYTE_LEVEL,
  STEP_NMT,
  STEP_BERT,
  STEP_CHARSMAP
} step_kind;

typedef struct step {
  step_kind kind;
  unicode_form form;
  bool left, right;                              /* Strip */
  bool clean, chinese, strip_accents, lowercase; /* Bert */
  bool longest;                                  /* charsmap */
  regex *pattern;                                /* Replace */
  char *text;                                    /* Replace, Prepend */
  charsmap *map;
} step;

struct normalizer {
  step *steps;
  size_t count, capacity;
};

/* ---- reading ---- */

static status copy(const char *text, char **to, alibi_error *error)
{
  *to = strdup(text);
  return *to ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for a normalizer");
}

static status read_replace(const json_part *part, step *s, alibi_error *error)
{
  static const char *const known[] = {"pattern", "content", NULL};
  status result = ALIBI_OK;
  bool is_regex;
  const char *pattern, *content;
  char what[512];
  TRY(json_part_keys(part, known, error));
  TRY(json_part_pattern(part, "pattern", &is_regex, &pattern, error));
  TRY(json_part_text(part, "content", NULL, &content, error));
  snprintf(what, sizeof what, "%.380s: %s", part->path, part->where);
  if (is_regex) TRY(oniguruma_new(pattern, what, &s->pattern, error));
  else TRY(regex_new(pattern, strlen(pattern), REGEX_LITERAL, what, &s->pattern, error));
  TRY(copy(content, &s->text, error));
done:
  return result;
}

static status read_bert(const json_part *part, step *s, alibi_error *error)
{
  static const char *const known[] = {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase", NULL};
  static const bool on = true;
  status result = ALIBI_OK;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_boolean(part, "clean_text", &on, &s->clean, error));
  TRY(json_part_boolean(part, "handle_chinese_chars", &on, &s->chinese, error));
  TRY(json_part_boolean(part, "lowercase", &on, &s->lowercase, error));
  TRY(json_part_boolean(part, "strip_accents", &s->lowercase, &s->strip_accents, error));
done:
  return result;
}

static status read_charsmap(const json_part *part, step *s, alibi_error *error)
{
  static const char *const known[] = {"precompiled_charsmap", "longest", NULL};
  static const bool off = false;
  static const char *const none = "";
  status result = ALIBI_OK;
  const char *text;
  char what[512];
  TRY(json_part_keys(part, known, error));
  TRY(json_part_boolean(part, "longest", &off, &s->longest, error));
  TRY(json_part_text(part, "precompiled_charsmap", &none, &text, error));
  snprintf(what, sizeof what, "%.380s: %s", part->path, part->where);
  TRY(charsmap_new_base64(text, what, &s->map, error));
done:
  return result;
}

static status read_step(const json_part *part, const char *type, step *s, alibi_error *error)
{
  static const char *const nothing[] = {NULL}, *const strip[] = {"strip_left", "strip_right", NULL},
                           *const prepend[] = {"prepend", NULL};
  static const struct {
    const char *type;
    step_kind kind;
    unicode_form form;
  } plain[] = {{"NFC", STEP_FORM, UNICODE_NFC},   {"NFD", STEP_FORM, UNICODE_NFD},
               {"NFKC", STEP_FORM, UNICODE_NFKC}, {"NFKD", STEP_FORM, UNICODE_NFKD},
               {"Lowercase", STEP_LOWERCASE, 0},  {"StripAccents", STEP_STRIP_ACCENTS, 0},
               {"ByteLevel", STEP_BYTE_LEVEL, 0}, {"Nmt", STEP_NMT, 0}};
  status result = ALIBI_OK;
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
    if (strcmp(type, plain[i].type) == 0) {
      s->kind = plain[i].kind;
      s->form = plain[i].form;
      return json_part_keys(part, nothing, error);
    }
  if (strcmp(type, "Strip") == 0) {
    s->kind = STEP_STRIP;
    TRY(json_part_keys(part, strip, error));
    TRY(json_part_boolean(part, "strip_left", NULL, &s->left, error));
    TRY(json_part_boolean(part, "strip_right", NULL, &s->right, error));
  } else if (strcmp(type, "Prepend") == 0) {
    const char *text;
    s->kind = STEP_PREPEND;
    TRY(json_part_keys(part, prepend, error));
    TRY(json_part_text(part, "prepend", NULL, &text, error));
    TRY(copy(text, &s->text, error));
  } else if (strcmp(type, "Replace") == 0) {
    s->kind = STEP_REPLACE;
    TRY(read_replace(part, s, error));
  } else if (strcmp(type, "BertNormalizer") == 0 || strcmp(type, "Bert") == 0) {
    s->kind = STEP_BERT;
    TRY(read_bert(part, s, error));
  } else if (strcmp(type, "Precompiled") == 0) {
    s->kind = STEP_CHARSMAP;
    TRY(read_charsmap(part, s, error));
  } else {
    return json_part_wrong(part, error, "type '%.60s' is not supported", type);
  }
done:
  return result;
}

static void step_free(step *s)
{
  regex_free(s->pattern);
  free(s->text);
  charsmap_free(s->map);
}

static status add_step(const json_part *part, const char *type, void *user, alibi_error *error)
{
  normalizer *n = user;
  step s = {0};
  status result = ALIBI_OK;
  TRY(memory_grow(&n->steps, &n->capacity, n->count + 1, sizeof *n->steps, "a normalizer", error));
  TRY(read_step(part, type, &s, error));
  n->steps[n->count++] = s;
  s = (step){0};
done:
  step_free(&s);
  return result;
}

status normalizer_new(const json_node *node, const char *path, normalizer **made, alibi_error *error)
{
  *made = NULL;
  normalizer *n = calloc(1, sizeof *n);
  if (!n) return fail(error, ALIBI_FAILED, "%s: not enough memory for a normalizer", path);
  status result = json_part_each(node, path, "normalizer", "normalizers", add_step, n, error);
  if (result == ALIBI_OK) *made = n;
  else normalizer_free(n);
  return result;
}

void normalizer_free(normalizer *n)
{
  if (!n) return;
  for (size_t i = 0; i < n->count; i++) step_free(&n->steps[i]);
  free(n->steps);
  free(n);
}

bool normalizer_is_empty(const normalizer *n)
{
  return n->count == 0;
}

bool normalizer_spells_bytes(const normalizer *n)
{
  for (size_t i = 0; i < n->count; i++)
    if (n->steps[i].kind == STEP_BYTE_LEVEL) return true;
  return false;
}

void normalizer_memory_free(const normalizer *n, normalizer_memory *memory)
{
  for (size_t i = 0; memory->matches && i < n->count; i++) regex_end(memory->matches[i]);
  free(memory->matches);
  buffer_free(&memory->text[0]);
  buffer_free(&memory->text[1]);
  memory->matches = NULL;
}

/* ---- steps that go from character to characters ---- */

static bool is_chinese(uint32_t c)
{
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

enum { MOST_CHARACTERS = 3 };

typedef size_t (*character_map)(uint32_t c, uint32_t to[MOST_CHARACTERS]);

static size_t map_lower(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  return unicode_lower(c, to);
}

static size_t map_accents(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  to[0] = c;
  return !unicode_is_mark(c);
}

static size_t map_nonspacing(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  to[0] = c;
  return !unicode_is_nonspacing(c);
}

static size_t map_clean(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  bool space = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xfffd || (!space && unicode_is_other(c))) return 0;
  to[0] = unicode_is_space(c) ? ' ' : c;
  return 1;
}

static size_t map_chinese(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  bool is = is_chinese(c);
  to[0] = is ? ' ' : c;
  to[1] = c;
  to[2] = ' ';
  return is ? 3 : 1;
}

/* Source: SentencePiece's nmt_nfkc rules, as the tokenizers library lists them. */
static size_t map_nmt(uint32_t c, uint32_t to[MOST_CHARACTERS])
{
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return 0;
  bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
               c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  to[0] = space ? ' ' : c;
  return 1;
}

typedef struct view {
  const unsigned char *text;
  size_t size, lead;
} view;

static status map_characters(character_map map, view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  status result = ALIBI_OK;
  *lead = 0;
  TRY(buffer_reserve(to, from.size, error));
  for (size_t at = 0, length; at < from.size; at += length) {
    uint32_t made[MOST_CHARACTERS];
    size_t count = map(utf8_character(from.text + at, &length), made);
    TRY(buffer_reserve(to, 4 * MOST_CHARACTERS, error));
    for (size_t i = 0; i < count; i++) to->size += utf8_spell(made[i], to->data + to->size);
    if (at + length <= from.lead) *lead = to->size;
  }
done:
  return result;
}

/* ---- the others ---- */

static status run_form(unicode_form form, view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer front = {0};
  TRY(unicode_normalize(form, from.text, from.size, to, error));
  *lead = 0;
  if (from.lead == 0 || to->size == 0) goto done;
  TRY(unicode_normalize(form, from.text, from.lead, &front, error));
  if (front.size <= to->size && memcmp(front.data, to->data, front.size) == 0) *lead = front.size;
  else utf8_character(to->data, lead); /* the first character took something from what follows */
done:
  buffer_free(&front);
  return result;
}

static status run_strip(const step *s, view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  size_t start = 0, end = from.size, length;
  while (s->left && start < end && unicode_is_space(utf8_character(from.text + start, &length))) start += length;
  while (s->right && start < end && unicode_is_space(utf8_before(from.text + start, from.text + end, &length)))
    end -= length;
  *lead = from.lead > start ? from.lead - start : 0;
  if (*lead > end - start) *lead = end - start;
  return buffer_add(to, from.text + start, end - start, error);
}

static status run_replace(const step *s, regex_match *match, size_t most, view from, text_buffer *to, size_t *lead,
                          alibi_error *error)
{
  status result = ALIBI_OK;
  regex_walk walk = regex_walk_over(s->pattern, match, from.text, from.size);
  size_t done_to = 0, start, end, length = strlen(s->text);
  bool found;
  *lead = 0;
  for (;;) {
    TRY(regex_next(&walk, &found, &start, &end, error));
    size_t until = found ? start : from.size;
    if (done_to < from.lead) *lead = to->size + (until < from.lead ? until : from.lead) - done_to;
    TRY(buffer_add(to, from.text + done_to, until - done_to, error));
    if (!found) break;
    if (to->size > most || length > most - to->size)
      RAISE(error, ALIBI_BAD_INPUT, "the tokenizer's normalizer makes more than %zu bytes of one text", most);
    TRY(buffer_add(to, s->text, length, error));
    if (from.lead > 0 && end <= from.lead) *lead = to->size; /* it stands for the last character of the match */
    done_to = end;
  }
done:
  return result;
}

static status run_prepend(const step *s, view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  status result = ALIBI_OK;
  *lead = from.lead > 0 ? from.lead + strlen(s->text) : 0;
  if (from.size > 0) TRY(buffer_add(to, s->text, strlen(s->text), error));
  TRY(buffer_add(to, from.text, from.size, error));
done:
  return result;
}

static status run_byte_level(view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(buffer_reserve(to, size_add(size_mul(from.size, BYTE_LEVEL_WIDTH), 1), error));
  byte_level_spell(from.text, from.lead, (char *)to->data);
  *lead = strlen((char *)to->data);
  byte_level_spell(from.text + from.lead, from.size - from.lead, (char *)to->data + *lead);
  to->size = *lead + strlen((char *)to->data + *lead);
done:
  return result;
}

/* One grapheme (or, where `longest`, one place) at a time. */
static status run_charsmap(const step *s, view from, text_buffer *to, size_t *lead, alibi_error *error)
{
  enum { SHORT_GRAPHEME = 6 };
  status result = ALIBI_OK;
  size_t matched, length, grapheme = 0;
  *lead = 0;
  for (size_t at = 0, step_size; at < from.size; at += step_size) {
    bool begins = !s->longest && at >= grapheme;
    if (begins) grapheme = at + unicode_grapheme(from.text + at, from.size - at);
    const unsigned char *made = NULL;
    if (begins && grapheme - at < SHORT_GRAPHEME) {
      made = charsmap_find(s->map, from.text + at, grapheme - at, false, &matched, &length);
      step_size = grapheme - at;
    }
    if (!made) {
      utf8_character(from.text + at, &step_size);
      made = charsmap_find(s->map, from.text + at, s->longest ? from.size - at : step_size, s->longest, &matched,
                           &length);
      bool inside = made && s->longest && at + matched < from.size && (from.text[at + matched] & 0xc0) == 0x80;
      if (inside) made = NULL; /* the match of a damaged map ends inside a character */
      else if (made && s->longest) step_size = matched;
    }
    if (made) TRY(buffer_add(to, made, length, error));
    else TRY(buffer_add(to, from.text + at, step_size, error));
    if (at + step_size <= from.lead) *lead = to->size;
  }
  /* Whatever the first character of the outcome was made of, it takes the place of the first of the text. */
  if (from.lead > 0 && *lead == 0 && to->size > 0) utf8_character(to->data, lead);
done:
  return result;
}

/* Runs `map` over what *from views, from one buffer into the other. */
static status run_map(character_map map, view *from, text_buffer buffers[2], size_t *which, alibi_error *error)
{
  text_buffer *to = &buffers[*which];
  to->size = 0;
  status result = map_characters(map, *from, to, &from->lead, error);
  *from = (view){to->data, to->size, from->lead};
  *which ^= 1;
  return result;
}

static status run_bert(const step *s, view *from, text_buffer buffers[2], size_t *which, alibi_error *error)
{
  status result = ALIBI_OK;
  if (s->clean) TRY(run_map(map_clean, from, buffers, which, error));
  if (s->chinese) TRY(run_map(map_chinese, from, buffers, which, error));
  if (s->strip_accents) {
    text_buffer *to = &buffers[*which];
    to->size = 0;
    TRY(run_form(UNICODE_NFD, *from, to, &from->lead, error));
    *from = (view){to->data, to->size, from->lead};
    *which ^= 1;
    TRY(run_map(map_nonspacing, from, buffers, which, error));
  }
  if (s->lowercase) TRY(run_map(map_lower, from, buffers, which, error));
done:
  return result;
}

static status run_step(const step *s, regex_match *match, size_t most, view from, text_buffer *to, size_t *lead,
                       alibi_error *error)
{
  switch (s->kind) {
  case STEP_FORM: return run_form(s->form, from, to, lead, error);
  case STEP_LOWERCASE: return map_characters(map_lower, from, to, lead, error);
  case STEP_STRIP_ACCENTS: return map_characters(map_accents, from, to, lead, error);
  case STEP_NMT: return map_characters(map_nmt, from, to, lead, error);
  case STEP_STRIP: return run_strip(s, from, to, lead, error);
  case STEP_REPLACE: return run_replace(s, match, most, from, to, lead, error);
  case STEP_PREPEND: return run_prepend(s, from, to, lead, error);
  case STEP_BYTE_LEVEL: return run_byte_level(from, to, lead, error);
  case STEP_CHARSMAP: return run_charsmap(s, from, to, lead, error);
  case STEP_BERT: break;
  }
  return ALIBI_OK;
}

static bool is_ascii(view text)
{
  for (size_t i = 0; i < text.size; i++)
    if (text.text[i] >= 0x80) return false;
  return true;
}

status normalizer_run(const normalizer *n, normalizer_memory *memory, const unsigned char **text, size_t *size,
                      size_t *lead, alibi_error *error)
{
  status result = ALIBI_OK;
  view at = {*text, *size, *lead};
  size_t which = 0, capacity = 0, most = size_add(size_mul(*size, GROWTH), GROWTH_FREE);
  if (!memory->matches && n->count > 0) {
    TRY(memory_grow(&memory->matches, &capacity, n->count, sizeof *memory->matches, "a normalizer", error));
    memset(memory->matches, 0, n->count * sizeof *memory->matches);
  }
  for (size_t i = 0; i < n->count; i++) {
    const step *s = &n->steps[i];
    if (s->kind == STEP_FORM && is_ascii(at)) continue;
    if (s->kind == STEP_BERT) {
      TRY(run_bert(s, &at, memory->text, &which, error));
      continue;
    }
    if (s->pattern && !memory->matches[i]) TRY(regex_begin(s->pattern, &memory->matches[i], error));
    text_buffer *to = &memory->text[which];
    size_t new_lead = 0;
    to->size = 0;
    TRY(buffer_reserve(to, 1, error));
    TRY(run_step(s, memory->matches[i], most, at, to, &new_lead, error));
    at = (view){to->data, to->size, new_lead};
    which ^= 1;
  }
  *text = at.text;
  *size = at.size;
  *lead = at.lead;
done:
  return result;
}
