/* A pattern of Oniguruma written in PCRE2's language, in one pass from left to right.  The one idea: a class
 * becomes a plain class where it can, and an expression of one character (alternatives, lookaheads) where PCRE2
 * has no such class.  Of everything written we remember where its last atom begins, because Ruby's {n,m}+ repeats
 * a repetition, where PCRE2's is possessive. */
#include "text/oniguruma.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "text/oniguruma_names.h"
#include "text/text_buffer.h"

enum { MAX_NESTING = 100, MAX_PATTERN = 1 << 16 };

typedef struct translator {
  const unsigned char *pattern;
  size_t at, size;
  const char *what;
  text_buffer out;
  size_t atom;      /* where in out the last atom begins; SIZE_MAX: there is none to repeat */
  bool caseless;    /* (?i) came before */
  uint32_t literal; /* the character written last, as itself; 0: it was something else */
  size_t groups[MAX_NESTING];
  size_t depth;
  alibi_error *error;
} translator;

static status refuse(const translator *t, const char *construct)
{
  return fail(t->error, ALIBI_BAD_INPUT, "%s: the pattern '%.200s': %s is not supported", t->what,
              (const char *)t->pattern, construct);
}

static status wrong(const translator *t, const char *why)
{
  return fail(t->error, ALIBI_BAD_INPUT, "%s: the pattern '%.200s': %s", t->what, (const char *)t->pattern, why);
}

static int peek(const translator *t, size_t ahead)
{
  return t->size - t->at > ahead ? t->pattern[t->at + ahead] : -1;
}

static bool looking_at(const translator *t, const char *text)
{
  size_t size = strlen(text);
  return t->size - t->at >= size && memcmp(t->pattern + t->at, text, size) == 0;
}

static bool is_digit(int c)
{
  return c >= '0' && c <= '9';
}

static status put(translator *t, const char *text)
{
  return buffer_add_text(&t->out, text, t->error);
}

/* A character that means itself. */
static status put_literal(const translator *t, text_buffer *to, uint32_t c)
{
  char text[16];
  bool plain = c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  if (plain) return buffer_add_character(to, c, t->error);
  snprintf(text, sizeof text, "\\x{%x}", (unsigned)c);
  return buffer_add_text(to, text, t->error);
}

/* ---- names of properties ---- */

/* The body of a class for a name of `size` bytes; `body` has CLASS_BODY bytes. */
static status find_property(const translator *t, const unsigned char *name, size_t size, char *body)
{
  char lower[64];
  size_t length = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char c = name[i];
    if (c == ' ' || c == '_' || c == '-') continue;
    if (c >= 0x80 || length + 1 >= sizeof lower) return refuse(t, "a property of this name");
    lower[length++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  lower[length] = '\0';
  const char *fixed = oniguruma_class(lower);
  if (fixed) return strcpy(body, fixed), ALIBI_OK;
  if (length > 0 && length < 64) {
    snprintf(body, CLASS_BODY, "\\p{sc:%s}", lower); /* a script: PCRE2's \p{Han} alone would be its extensions */
    if (regex_compiles(body)) return ALIBI_OK;
    snprintf(body, CLASS_BODY, "\\p{%.*s}", (int)size, (const char *)name);
    if (regex_compiles(body)) return ALIBI_OK;
  }
  char construct[96];
  snprintf(construct, sizeof construct, "the property '%s'", lower);
  return refuse(t, construct);
}

/* After \p or \P: {name} or {^name}. */
static status read_property(translator *t, bool *negated, char *body)
{
  if (peek(t, 0) != '{') return refuse(t, "\\p without {");
  t->at++;
  if (peek(t, 0) == '^') {
    *negated = !*negated;
    t->at++;
  }
  const unsigned char *name = t->pattern + t->at, *end = memchr(name, '}', t->size - t->at);
  if (!end) return wrong(t, "expected } after \\p{");
  t->at += (size_t)(end - name) + 1;
  return find_property(t, name, (size_t)(end - name), body);
}

/* ---- escapes ---- */

typedef struct escape {
  enum { ESCAPE_CHARACTER, ESCAPE_CLASS, ESCAPE_OTHER } kind;
  uint32_t character;
  bool negated; /* of a class */
  char body[CLASS_BODY];
  int letter; /* of another: what follows the backslash */
} escape;

static status read_hex(translator *t, size_t most, uint32_t *value)
{
  size_t digits = 0;
  *value = 0;
  for (; digits < most && hex_digit(peek(t, 0)) >= 0; digits++, t->at++)
    *value = *value << 4 | (uint32_t)hex_digit(peek(t, 0));
  return digits == 0 ? wrong(t, "expected hexadecimal digits") : ALIBI_OK;
}

static status read_x(translator *t, escape *e)
{
  bool braced = peek(t, 0) == '{';
  t->at += braced;
  status result = read_hex(t, braced ? 8 : 2, &e->character);
  if (result != ALIBI_OK) return result;
  if (braced && peek(t, 0) != '}') return wrong(t, "expected } after \\x{");
  t->at += braced;
  if (!braced && e->character >= 0x80) return refuse(t, "a byte \\x80 or above");
  if (e->character > 0x10ffff || (e->character >= 0xd800 && e->character < 0xe000))
    return wrong(t, "a number that is no character");
  return ALIBI_OK;
}

static void class_escape(escape *e, const char *body, bool negated)
{
  e->kind = ESCAPE_CLASS;
  e->negated = negated;
  strcpy(e->body, body);
}

/* After a backslash. */
static status read_escape(translator *t, bool in_class, escape *e)
{
  if (t->at == t->size) return wrong(t, "a backslash at its end");
  size_t length;
  uint32_t c = utf8_character(t->pattern + t->at, &length);
  t->at += length;
  *e = (escape){.kind = ESCAPE_CHARACTER, .character = c, .letter = (int)c};
  switch (c) {
  case 't': e->character = '\t'; break;
  case 'n': e->character = '\n'; break;
  case 'r': e->character = '\r'; break;
  case 'f': e->character = '\f'; break;
  case 'v': e->character = '\v'; break;
  case 'a': e->character = '\a'; break;
  case 'e': e->character = 0x1b; break;
  case 'x': return read_x(t, e);
  case 'u': return read_hex(t, 4, &e->character);
  case 's': class_escape(e, SPACE, false); break;
  case 'S': class_escape(e, SPACE, true); break;
  case 'w':
  case 'W': class_escape(e, in_class ? WORD : WORD_OUTSIDE, c == 'W'); break;
  case 'd': class_escape(e, "\\p{Nd}", false); break;
  case 'D': class_escape(e, "\\p{Nd}", true); break;
  case 'h': class_escape(e, HEX, false); break;
  case 'H': class_escape(e, HEX, true); break;
  case 'p':
  case 'P':
    e->kind = ESCAPE_CLASS;
    e->negated = c == 'P';
    return read_property(t, &e->negated, e->body);
  case 'b':
    if (in_class) e->character = '\b';
    else e->kind = ESCAPE_OTHER;
    break;
  case 'C':
  case 'c':
  case 'M': return refuse(t, "\\c, \\C- and \\M-");
  case 'o': return refuse(t, "\\o");
  case '0':
    e->character = 0;
    for (int i = 0; i < 2 && peek(t, 0) >= '0' && peek(t, 0) <= '7'; i++)
      e->character = e->character * 8 + (uint32_t)(t->pattern[t->at++] - '0');
    break;
  default:
    if (!in_class && c < 0x80 && (is_digit((int)c) || strchr("ABzZGRXKkgNOyY", (int)c))) e->kind = ESCAPE_OTHER;
    else if (in_class && is_digit((int)c)) return refuse(t, "a number after \\ in a class");
    else if (in_class && (c == 'R' || c == 'X')) return refuse(t, "\\R or \\X in a class");
  }
  return ALIBI_OK;
}

/* ---- classes ---- */

/* What a class has so far: the body of a plain one, and expressions of one character beside it, each after '|'. */
typedef struct set {
  text_buffer plain, others;
} set;

static void set_free(set *s)
{
  buffer_free(&s->plain);
  buffer_free(&s->others);
}

static status add_buffer(const translator *t, text_buffer *to, const text_buffer *from)
{
  return buffer_add(to, from->size > 0 ? (const void *)from->data : "", from->size, t->error);
}

/* The expression of a set, appended to `to`. */
static status write_set(const translator *t, const set *s, bool negated, text_buffer *to)
{
  status result = ALIBI_OK;
  bool simple = s->others.size == 0;
  if (!simple) TRY(buffer_add_text(to, negated ? "(?:(?!" : "(?:", t->error));
  if (s->plain.size > 0) {
    TRY(buffer_add_text(to, simple && negated ? "[^" : "[", t->error));
    TRY(add_buffer(t, to, &s->plain));
    TRY(buffer_add_text(to, "]", t->error));
  } else {
    TRY(buffer_add_text(to, simple && negated ? "(?s:.)" : "(?!)", t->error));
  }
  if (!simple) {
    TRY(add_buffer(t, to, &s->others));
    TRY(buffer_add_text(to, negated ? ")(?s:.))" : ")", t->error));
  }
done:
  return result;
}

static status read_class(translator *t, size_t nesting, set *into);

static status add_escape_class(const translator *t, set *s, const escape *e)
{
  status result = ALIBI_OK;
  if (!e->negated) return buffer_add_text(&s->plain, e->body, t->error);
  TRY(buffer_add_text(&s->others, "|[^", t->error));
  TRY(buffer_add_text(&s->others, e->body, t->error));
  TRY(buffer_add_text(&s->others, "]", t->error));
done:
  return result;
}

/* [:name:] or [:^name:], at the bracket; *done false where it is none. */
static status read_posix(translator *t, set *s, bool *done)
{
  *done = false;
  if (!looking_at(t, "[:")) return ALIBI_OK;
  size_t start = t->at + 2, end = start;
  while (end < t->size && t->pattern[end] != ':' && t->pattern[end] != ']') end++;
  if (end + 1 >= t->size || t->pattern[end] != ':' || t->pattern[end + 1] != ']') return ALIBI_OK;
  escape e = {.kind = ESCAPE_CLASS, .negated = t->pattern[start] == '^'};
  start += e.negated;
  status result = find_property(t, t->pattern + start, end - start, e.body);
  if (result != ALIBI_OK) return result;
  if (end - start == 5 && memcmp(t->pattern + start, "punct", 5) == 0) strcpy(e.body, "\\p{P}\\p{S}");
  t->at = end + 2;
  *done = true;
  return add_escape_class(t, s, &e);
}

/* One character of a class, or a class by a backslash. */
static status read_member(translator *t, escape *e)
{
  if (peek(t, 0) == '\\') {
    t->at++;
    return read_escape(t, true, e);
  }
  size_t length;
  *e = (escape){.kind = ESCAPE_CHARACTER, .character = utf8_character(t->pattern + t->at, &length)};
  t->at += length;
  return ALIBI_OK;
}

static status read_range(translator *t, set *s)
{
  status result = ALIBI_OK;
  escape first, last;
  TRY(read_member(t, &first));
  if (first.kind == ESCAPE_CLASS) return add_escape_class(t, s, &first);
  TRY(put_literal(t, &s->plain, first.character));
  if (peek(t, 0) != '-' || peek(t, 1) < 0 || peek(t, 1) == ']' || peek(t, 1) == '[') goto done;
  if (peek(t, 1) == '&' && peek(t, 2) == '&') goto done;
  t->at++;
  TRY(read_member(t, &last));
  if (last.kind == ESCAPE_CLASS) {
    TRY(put_literal(t, &s->plain, '-'));
    TRY(add_escape_class(t, s, &last));
    goto done;
  }
  if (last.character < first.character) return wrong(t, "a range whose end is before its begin");
  TRY(buffer_add_text(&s->plain, "-", t->error));
  TRY(put_literal(t, &s->plain, last.character));
done:
  return result;
}

/* `left` becomes what is in both. */
static status intersect(const translator *t, set *left, const set *right)
{
  status result = ALIBI_OK;
  set both = {0};
  TRY(buffer_add_text(&both.others, "|(?=", t->error));
  TRY(write_set(t, left, false, &both.others));
  TRY(buffer_add_text(&both.others, ")", t->error));
  TRY(write_set(t, right, false, &both.others));
  set_free(left);
  *left = both;
  both = (set){0};
done:
  set_free(&both);
  return result;
}

/* A class inside a class joins it. */
static status join_class(translator *t, size_t nesting, set *s)
{
  status result = ALIBI_OK;
  set inner = {0};
  TRY(read_class(t, nesting + 1, &inner));
  if (inner.plain.size > 0) TRY(add_buffer(t, &s->plain, &inner.plain));
  TRY(add_buffer(t, &s->others, &inner.others));
done:
  set_free(&inner);
  return result;
}

/* At the bracket; behind the closing one when done. */
static status read_class(translator *t, size_t nesting, set *into)
{
  status result = ALIBI_OK;
  set s = {0}, before = {0};
  bool intersected = false, done_posix, first = true;
  if (nesting > MAX_NESTING) RAISE(t->error, ALIBI_BAD_INPUT, "%s: a pattern: classes nest too deep", t->what);
  t->at++;
  bool negated = peek(t, 0) == '^';
  t->at += negated;
  for (;; first = false) {
    if (t->at == t->size) {
      result = wrong(t, "a class without its closing ]");
      goto done;
    }
    if (peek(t, 0) == ']' && !(first && memchr(t->pattern + t->at + 1, ']', t->size - t->at - 1))) break;
    if (peek(t, 0) == '[') {
      TRY(read_posix(t, &s, &done_posix));
      if (!done_posix) TRY(join_class(t, nesting, &s));
    } else if (looking_at(t, "&&")) {
      t->at += 2;
      if (intersected) TRY(intersect(t, &before, &s));
      else before = s;
      if (intersected) set_free(&s);
      s = (set){0};
      intersected = true;
    } else {
      TRY(read_range(t, &s));
    }
  }
  t->at++;
  if (intersected) {
    TRY(intersect(t, &before, &s));
    set_free(&s);
    s = before;
    before = (set){0};
  }
  if (negated) { /* as an alternative of what it joins */
    TRY(buffer_add_text(&into->others, "|", t->error));
    TRY(write_set(t, &s, true, &into->others));
  } else {
    set_free(into);
    *into = s;
    s = (set){0};
  }
done:
  set_free(&s);
  set_free(&before);
  return result;
}

static status translate_class(translator *t)
{
  status result = ALIBI_OK;
  set s = {0};
  TRY(read_class(t, 0, &s));
  t->atom = t->out.size;
  if (s.plain.size == 0 && s.others.size > 1) { /* negated: the one alternative as it is */
    TRY(put(t, "(?:"));
    TRY(buffer_add(&t->out, s.others.data + 1, s.others.size - 1, t->error));
    TRY(put(t, ")"));
  } else {
    TRY(write_set(t, &s, false, &t->out));
  }
done:
  set_free(&s);
  return result;
}

/* ---- outside classes ---- */

static status translate_escape(translator *t)
{
  static const char boundary[] =
      "(?:(?<=[" WORD_OUTSIDE "])(?![" WORD_OUTSIDE "])|(?<![" WORD_OUTSIDE "])(?=[" WORD_OUTSIDE "]))";
  static const char no_boundary[] =
      "(?:(?<=[" WORD_OUTSIDE "])(?=[" WORD_OUTSIDE "])|(?<![" WORD_OUTSIDE "])(?![" WORD_OUTSIDE "]))";
  status result = ALIBI_OK;
  escape e;
  char text[8];
  t->at++;
  TRY(read_escape(t, false, &e));
  t->atom = t->out.size;
  if (e.kind == ESCAPE_CHARACTER) return put_literal(t, &t->out, e.character);
  if (e.kind == ESCAPE_CLASS) {
    TRY(put(t, e.negated ? "[^" : "["));
    TRY(put(t, e.body));
    return put(t, "]");
  }
  switch (e.letter) {
  case 'b': return put(t, boundary);
  case 'B': return put(t, no_boundary);
  case 'N': return put(t, "[^\\n]");
  case 'O': return put(t, "(?s:.)");
  case 'y':
  case 'Y': return refuse(t, "\\y and \\Y");
  default: snprintf(text, sizeof text, "\\%c", (char)e.letter); TRY(put(t, text));
  }
  if (e.letter == 'k' || e.letter == 'g') { /* <name> */
    if (peek(t, 0) != '<') return refuse(t, "\\k or \\g without <");
    const unsigned char *end = memchr(t->pattern + t->at, '>', t->size - t->at);
    if (!end) return wrong(t, "expected > after \\k< or \\g<");
    size_t size = (size_t)(end - (t->pattern + t->at)) + 1;
    TRY(buffer_add(&t->out, t->pattern + t->at, size, t->error));
    t->at += size;
  }
  while (is_digit(e.letter) && is_digit(peek(t, 0))) TRY(buffer_add(&t->out, t->pattern + t->at++, 1, t->error));
done:
  return result;
}

static status push_group(translator *t)
{
  if (t->depth >= MAX_NESTING) return wrong(t, "groups nest too deep");
  t->groups[t->depth++] = t->out.size;
  return ALIBI_OK;
}

/* (?imx-imx) and (?imx-imx:...), at the first letter. */
static status translate_options(translator *t)
{
  status result = ALIBI_OK;
  bool on = true;
  TRY(push_group(t));
  TRY(put(t, "(?"));
  for (;;) {
    int c = peek(t, 0);
    if (c == '-') on = false;
    if (c == 'i' && on) t->caseless = true;
    if (c == 'm') TRY(put(t, "s"));
    else if (c == 'i' || c == 'x' || c == '-' || c == ':' || c == ')')
      TRY(buffer_add(&t->out, t->pattern + t->at, 1, t->error));
    else return refuse(t, "a group of this kind");
    t->at++;
    if (c == ')') t->depth--;
    if (c == ')' || c == ':') break;
  }
  t->atom = SIZE_MAX;
done:
  return result;
}

static status translate_group(translator *t)
{
  static const char *const known[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
  static const char *const refused[][2] = {{"(?~", "absence (?~"},   {"(?(", "a condition (?("},
                                           {"(?{", "a callout (?{"}, {"(*", "a callout (*"},
                                           {"(?P", "(?P"},           {"(?|", "(?|"}};
  status result = ALIBI_OK;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (looking_at(t, refused[i][0])) return refuse(t, refused[i][1]);
  if (looking_at(t, "(?#")) {
    const unsigned char *end = memchr(t->pattern + t->at, ')', t->size - t->at);
    if (!end) return wrong(t, "a comment without its )");
    t->at = (size_t)(end - t->pattern) + 1;
    return ALIBI_OK;
  }
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (looking_at(t, known[i])) {
      TRY(push_group(t));
      t->at += strlen(known[i]);
      t->atom = SIZE_MAX;
      return put(t, known[i]);
    }
  if (looking_at(t, "(?<") || !looking_at(t, "(?")) {
    TRY(push_group(t));
    TRY(put(t, "("));
    t->at++;
    if (peek(t, 0) == '?') { /* a name */
      const unsigned char *end = memchr(t->pattern + t->at, '>', t->size - t->at);
      if (!end) return wrong(t, "expected > after (?<");
      size_t size = (size_t)(end - (t->pattern + t->at)) + 1;
      TRY(buffer_add(&t->out, t->pattern + t->at, size, t->error));
      t->at += size;
    }
    t->atom = SIZE_MAX;
    goto done;
  }
  t->at += 2;
  TRY(translate_options(t));
done:
  return result;
}

/* Puts the last atom into a group of its own. */
static status wrap_atom(translator *t)
{
  status result = ALIBI_OK;
  TRY(buffer_reserve(&t->out, 8, t->error));
  memmove(t->out.data + t->atom + 3, t->out.data + t->atom, t->out.size - t->atom);
  memcpy(t->out.data + t->atom, "(?:", 3);
  t->out.size += 3;
  TRY(put(t, ")"));
done:
  return result;
}

/* {n}, {n,}, {,m}, {n,m}; *done false where the brace means itself. */
static status translate_braces(translator *t, bool *done)
{
  status result = ALIBI_OK;
  size_t at = t->at + 1, first = at;
  char text[64];
  *done = false;
  while (at < t->size && is_digit(t->pattern[at])) at++;
  size_t first_digits = at - first, second = at, second_digits = 0;
  bool comma = at < t->size && t->pattern[at] == ',';
  if (comma) {
    second = ++at;
    while (at < t->size && is_digit(t->pattern[at])) at++;
    second_digits = at - second;
  }
  if (at >= t->size || t->pattern[at] != '}' || (first_digits == 0 && second_digits == 0)) return ALIBI_OK;
  if (first_digits > 9 || second_digits > 9) return wrong(t, "a repetition of too many times");
  if (t->atom == SIZE_MAX) return wrong(t, "a repetition of nothing");
  *done = true;
  t->at = at + 1;
  snprintf(text, sizeof text, "{%.*s%s%.*s}", first_digits ? (int)first_digits : 1,
           first_digits ? (const char *)t->pattern + first : "0", comma ? "," : "", (int)second_digits,
           (const char *)t->pattern + second);
  TRY(put(t, text));
  /* {n,m}+ and {n}? repeat what was repeated; {n,m}? alone is lazy in both languages. */
  if (peek(t, 0) == '+' || (peek(t, 0) == '?' && !comma)) {
    TRY(wrap_atom(t));
  } else if (peek(t, 0) == '?') {
    TRY(put(t, "?"));
    t->at++;
  }
done:
  return result;
}

/* *, +, ?, each with ? or + after it. */
static status translate_repetition(translator *t)
{
  status result = ALIBI_OK;
  if (t->atom == SIZE_MAX) return wrong(t, "a repetition of nothing");
  if (t->out.size > t->atom) {
    unsigned char last = t->out.data[t->out.size - 1];
    bool escaped = t->out.size - t->atom >= 2 && t->out.data[t->out.size - 2] == '\\';
    /* A repetition repeated: PCRE2 would take it for lazy or possessive, or refuse it. */
    if (!escaped && t->out.size - t->atom > 1 && strchr("*+?}", last) && last != '}') TRY(wrap_atom(t));
  }
  TRY(buffer_add(&t->out, t->pattern + t->at++, 1, t->error));
  if (peek(t, 0) == '?' || peek(t, 0) == '+') TRY(buffer_add(&t->out, t->pattern + t->at++, 1, t->error));
done:
  return result;
}

/* Without case "ss" is also one character, and so are a few other pairs; PCRE2 knows no such thing. */
static status check_case(translator *t, uint32_t c)
{
  static const char pairs[][3] = {"ss", "ff", "fi", "fl", "st"};
  uint32_t before = t->literal, lower = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  t->literal = lower;
  if (!t->caseless) return ALIBI_OK;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    if (before == (uint32_t)pairs[i][0] && lower == (uint32_t)pairs[i][1])
      return refuse(t, "(?i) with letters that together have a ligature");
  if (c == 0xdf || c == 0x149 || c == 0x1f0 || c == 0x390 || c == 0x3b0 || c == 0x587 ||
      (c >= 0x1e96 && c <= 0x1e9e) || (c >= 0x1f50 && c <= 0x1ffc) || (c >= 0xfb00 && c <= 0xfb17))
    return refuse(t, "(?i) with a letter whose other case is several");
  return ALIBI_OK;
}

static status translate_next(translator *t)
{
  status result = ALIBI_OK;
  bool taken;
  int c = peek(t, 0);
  uint32_t before = t->literal;
  t->literal = 0;
  switch (c) {
  case '\\': return translate_escape(t);
  case '[': return translate_class(t);
  case '(': return translate_group(t);
  case ')':
    if (t->depth == 0) return wrong(t, "a ) without its (");
    t->atom = t->groups[--t->depth];
    t->at++;
    return put(t, ")");
  case '*':
  case '+':
  case '?': return translate_repetition(t);
  case '{':
    TRY(translate_braces(t, &taken));
    if (taken) return ALIBI_OK;
    break;
  case '|':
  case '^':
  case '$': t->atom = SIZE_MAX; return buffer_add(&t->out, t->pattern + t->at++, 1, t->error);
  case '.':
    t->atom = t->out.size;
    t->at++;
    return put(t, ".");
  case '#': /* means itself, unless (?x): then it begins a comment in both languages */
  case ' ':
  case '\t':
  case '\n':
  case '\r': t->atom = t->out.size; return buffer_add(&t->out, t->pattern + t->at++, 1, t->error);
  default: break;
  }
  size_t length;
  uint32_t character = utf8_character(t->pattern + t->at, &length);
  t->atom = t->out.size;
  t->at += length;
  t->literal = before;
  TRY(check_case(t, character));
  TRY(put_literal(t, &t->out, character));
done:
  return result;
}

status oniguruma_new(const char *pattern, const char *what, regex **made, alibi_error *error)
{
  status result = ALIBI_OK;
  *made = NULL;
  translator *t = calloc(1, sizeof *t);
  if (!t) return fail(error, ALIBI_FAILED, "%s: not enough memory for a pattern", what);
  *t = (translator){.pattern = (const unsigned char *)pattern,
                    .size = strlen(pattern),
                    .what = what,
                    .atom = SIZE_MAX,
                    .error = error};
  if (t->size > MAX_PATTERN)
    RAISE(error, ALIBI_BAD_INPUT, "%s: a pattern of %zu bytes is too long", what, t->size);
  while (t->at < t->size) TRY(translate_next(t));
  if (t->depth > 0) {
    result = wrong(t, "a ( without its )");
    goto done;
  }
  TRY(buffer_reserve(&t->out, 1, error));
  TRY(regex_new(t->out.data, t->out.size, REGEX_LINES, what, made, error));
done:
  buffer_free(&t->out);
  free(t);
  return result;
}
