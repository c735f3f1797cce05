/* Pre-tokenizers.  A step finds stretches, matches and gaps in turn; what becomes of the matches (removed,
 * isolated, joined to a neighbour) is the same few lines for all of them.  A step calls the next one for each of
 * its pieces. */
#include "text/pre_tokenizer.h"

#include <stdio.h>

#include "text/byte_level.h"
#include "text/json_part.h"
#include "text/oniguruma.h"
#include "text/script_runs.h"
#include "text/split.h"
#include "text/text_buffer.h"
#include "text/unicode.h"

typedef enum cut_behavior {
  CUT_REMOVED,
  CUT_ISOLATED,
  CUT_WITH_PREVIOUS,
  CUT_WITH_NEXT,
  CUT_CONTIGUOUS
} cut_behavior;

typedef enum cut_kind {
  CUT_PATTERN,      /* a regular expression */
  CUT_CHARACTERS,   /* every character of a kind is a match */
  CUT_WORDS,        /* words, and what lies between them and blanks */
  CUT_FIXED_LENGTH, /* so many characters */
  CUT_SCRIPTS,
  CUT_METASPACE,
  CUT_BYTE_LEVEL
} cut_kind;

typedef enum prepend_scheme { PREPEND_FIRST, PREPEND_NEVER, PREPEND_ALWAYS } prepend_scheme;

typedef struct cut_step {
  cut_kind kind;
  cut_behavior behavior;
  bool invert;
  regex *pattern;
  bool (*is_match)(uint32_t c);
  uint32_t delimiter; /* where is_match is NULL */
  size_t length;      /* FIXED_LENGTH */
  char replacement[8];
  prepend_scheme prepend;
  bool split; /* METASPACE: at the replacement; BYTE_LEVEL: by GPT-2's pattern */
  bool prefix_space;
  splitter *words;
  script_runs *scripts;
} cut_step;

struct pre_tokenizer {
  cut_step *steps;
  size_t count, capacity;
};

typedef struct step_memory {
  regex_match *match;
  text_buffer text; /* the piece as this step rewrote it */
  text_buffer spelled;
} step_memory;

struct pre_tokenizer_memory {
  const pre_tokenizer *p;
  piece_taker take;
  void *user;
  step_memory *steps;
};

/* ---- reading ---- */

static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous", NULL};

static status read_split(const json_part *part, cut_step *s, alibi_error *error)
{
  static const char *const known[] = {"pattern", "behavior", "invert", NULL};
  static const bool off = false;
  status result = ALIBI_OK;
  bool is_regex;
  const char *pattern;
  int behavior;
  char what[512];
  s->kind = CUT_PATTERN;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_pattern(part, "pattern", &is_regex, &pattern, error));
  TRY(json_part_word(part, "behavior", behaviors, NULL, &behavior, error));
  TRY(json_part_boolean(part, "invert", &off, &s->invert, error));
  s->behavior = (cut_behavior)behavior;
  snprintf(what, sizeof what, "%.380s: %s", part->path, part->where);
  if (is_regex) TRY(oniguruma_new(pattern, what, &s->pattern, error));
  else TRY(regex_new(pattern, strlen(pattern), REGEX_LITERAL, what, &s->pattern, error));
done:
  return result;
}

static status read_byte_level(const json_part *part, cut_step *s, alibi_error *error)
{
  static const char *const known[] = {"add_prefix_space", "trim_offsets", "use_regex", NULL};
  static const bool on = true;
  status result = ALIBI_OK;
  bool offsets;
  s->kind = CUT_BYTE_LEVEL;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_boolean(part, "add_prefix_space", NULL, &s->prefix_space, error));
  TRY(json_part_boolean(part, "trim_offsets", &on, &offsets, error));
  TRY(json_part_boolean(part, "use_regex", &on, &s->split, error));
  if (s->split) TRY(splitter_new(&s->words, error));
done:
  return result;
}

static status read_metaspace(const json_part *part, cut_step *s, alibi_error *error)
{
  static const char *const known[] = {"replacement", "add_prefix_space", "prepend_scheme",
                                      "split",       "str_rep",          NULL};
  static const char *const schemes[] = {"first", "never", "always", NULL};
  static const bool on = true;
  static const int always = PREPEND_ALWAYS;
  status result = ALIBI_OK;
  const char *replacement;
  bool prefix;
  int scheme;
  s->kind = CUT_METASPACE;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_character(part, "replacement", NULL, &replacement, error));
  TRY(json_part_boolean(part, "add_prefix_space", &on, &prefix, error));
  TRY(json_part_word(part, "prepend_scheme", schemes, &always, &scheme, error));
  TRY(json_part_boolean(part, "split", &on, &s->split, error));
  if (!prefix && !json_part_is_null(node_get(part->node, "prepend_scheme")) && scheme != PREPEND_NEVER)
    return json_part_wrong(part, error, "add_prefix_space false and prepend_scheme '%s' contradict each other",
                           schemes[scheme]);
  s->prepend = prefix ? (prepend_scheme)scheme : PREPEND_NEVER;
  snprintf(s->replacement, sizeof s->replacement, "%s", replacement);
done:
  return result;
}

static status read_one(const json_part *part, const char *type, cut_step *s, alibi_error *error)
{
  static const char *const nothing[] = {NULL}, *const digits[] = {"individual_digits", NULL},
                           *const behavior_key[] = {"behavior", NULL}, *const delimiter[] = {"delimiter", NULL},
                           *const length[] = {"length", NULL};
  static const int isolated = CUT_ISOLATED;
  static const int64_t five = 5;
  status result = ALIBI_OK;
  size_t size;
  if (strcmp(type, "ByteLevel") == 0) return read_byte_level(part, s, error);
  if (strcmp(type, "Split") == 0) return read_split(part, s, error);
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(part, s, error);
  s->kind = CUT_CHARACTERS;
  if (strcmp(type, "Digits") == 0) {
    bool each;
    TRY(json_part_keys(part, digits, error));
    TRY(json_part_boolean(part, "individual_digits", NULL, &each, error));
    s->is_match = unicode_is_number;
    s->behavior = each ? CUT_ISOLATED : CUT_CONTIGUOUS;
  } else if (strcmp(type, "Punctuation") == 0) {
    int behavior;
    TRY(json_part_keys(part, behavior_key, error));
    TRY(json_part_word(part, "behavior", behaviors, &isolated, &behavior, error));
    s->is_match = unicode_is_punctuation;
    s->behavior = (cut_behavior)behavior;
  } else if (strcmp(type, "Whitespace") == 0) {
    TRY(json_part_keys(part, nothing, error));
    s->kind = CUT_WORDS;
  } else if (strcmp(type, "WhitespaceSplit") == 0) {
    TRY(json_part_keys(part, nothing, error));
    s->is_match = unicode_is_space;
    s->behavior = CUT_REMOVED;
  } else if (strcmp(type, "CharDelimiterSplit") == 0 || strcmp(type, "Delimiter") == 0) {
    const char *text;
    TRY(json_part_keys(part, delimiter, error));
    TRY(json_part_character(part, "delimiter", NULL, &text, error));
    s->delimiter = utf8_character((const unsigned char *)text, &size);
    s->behavior = CUT_REMOVED;
  } else if (strcmp(type, "FixedLength") == 0) {
    int64_t count;
    TRY(json_part_keys(part, length, error));
    TRY(json_part_integer(part, "length", &five, 1, INT64_C(1) << 40, &count, error));
    s->kind = CUT_FIXED_LENGTH;
    s->length = (size_t)count;
  } else if (strcmp(type, "UnicodeScripts") == 0) {
    TRY(json_part_keys(part, nothing, error));
    s->kind = CUT_SCRIPTS;
    TRY(script_runs_new(&s->scripts, error));
  } else {
    return json_part_wrong(part, error, "type '%.60s' is not supported", type);
  }
done:
  return result;
}

static void step_free(cut_step *s)
{
  regex_free(s->pattern);
  splitter_free(s->words);
  script_runs_free(s->scripts);
}

static status add_step(const json_part *part, const char *type, void *user, alibi_error *error)
{
  pre_tokenizer *p = user;
  cut_step s = {0};
  status result = ALIBI_OK;
  TRY(memory_grow(&p->steps, &p->capacity, p->count + 2, sizeof *p->steps, "a pre-tokenizer", error));
  if (strcmp(type, "BertPreTokenizer") == 0) { /* at blanks, then around punctuation */
    static const char *const nothing[] = {NULL};
    TRY(json_part_keys(part, nothing, error));
    p->steps[p->count++] =
        (cut_step){.kind = CUT_CHARACTERS, .is_match = unicode_is_space, .behavior = CUT_REMOVED};
    s = (cut_step){.kind = CUT_CHARACTERS, .is_match = unicode_is_punctuation, .behavior = CUT_ISOLATED};
  } else {
    TRY(read_one(part, type, &s, error));
  }
  p->steps[p->count++] = s;
  s = (cut_step){0};
done:
  step_free(&s);
  return result;
}

status pre_tokenizer_new(const json_node *node, const char *path, pre_tokenizer **made, alibi_error *error)
{
  *made = NULL;
  pre_tokenizer *p = calloc(1, sizeof *p);
  if (!p) return fail(error, ALIBI_FAILED, "%s: not enough memory for a pre-tokenizer", path);
  status result = json_part_each(node, path, "pre_tokenizer", "pretokenizers", add_step, p, error);
  if (result == ALIBI_OK) *made = p;
  else pre_tokenizer_free(p);
  return result;
}

void pre_tokenizer_free(pre_tokenizer *p)
{
  if (!p) return;
  for (size_t i = 0; i < p->count; i++) step_free(&p->steps[i]);
  free(p->steps);
  free(p);
}

bool pre_tokenizer_spells_bytes(const pre_tokenizer *p)
{
  for (size_t i = 0; i < p->count; i++)
    if (p->steps[i].kind == CUT_BYTE_LEVEL) return true;
  return false;
}

/* ---- running ---- */

typedef struct stretch {
  size_t start, end;
  bool match;
} stretch;

/* A piece on its way through one step. */
typedef struct cut {
  pre_tokenizer_memory *m;
  const cut_step *step;
  size_t index;
  const unsigned char *text;
  size_t size, lead;
  /* finding */
  regex_walk walk;
  size_t at;
  stretch coming; /* a match that follows a gap already given */
  bool has_coming, at_end;
} cut;

static status run_from(pre_tokenizer_memory *m, size_t index, const unsigned char *text, size_t size, size_t lead,
                       alibi_error *error);

static status give(const cut *c, size_t start, size_t end, alibi_error *error)
{
  if (end <= start) return ALIBI_OK;
  size_t lead = c->lead > start ? c->lead - start : 0;
  return run_from(c->m, c->index + 1, c->text + start, end - start, lead < end - start ? lead : end - start,
                  error);
}

/* A match behind a gap: the gap first. */
static void with_gap(cut *c, stretch *s, size_t start, size_t end)
{
  c->coming = (stretch){start, end, true};
  c->has_coming = start > c->at;
  *s = c->has_coming ? (stretch){c->at, start, false} : c->coming;
  c->at = end;
}

static status next_by_pattern(cut *c, stretch *s, bool *found, alibi_error *error)
{
  size_t start, end;
  bool matched = false;
  if (!c->at_end) {
    status result = regex_next(&c->walk, &matched, &start, &end, error);
    if (result != ALIBI_OK) return result;
  }
  if (matched) {
    *found = true;
    with_gap(c, s, start < c->at ? c->at : start, end < c->at ? c->at : end);
    return ALIBI_OK;
  }
  c->at_end = true;
  *found = c->at < c->size;
  *s = (stretch){c->at, c->size, false};
  c->at = c->size;
  return ALIBI_OK;
}

static bool is_match(const cut_step *s, uint32_t c)
{
  return s->is_match ? s->is_match(c) : c == s->delimiter;
}

static void next_by_characters(cut *c, stretch *s, bool *found)
{
  size_t length = 0, at = c->at;
  *found = c->at < c->size;
  while (at < c->size && !is_match(c->step, utf8_character(c->text + at, &length))) at += length;
  if (at < c->size) with_gap(c, s, at, at + length);
  else *s = (stretch){c->at, c->size, false};
  if (at >= c->size) c->at = c->size;
}

static status next_stretch(cut *c, stretch *s, bool *found, alibi_error *error)
{
  status result = ALIBI_OK;
  if (c->has_coming) {
    c->has_coming = false;
    *s = c->coming;
    *found = true;
  } else if (c->step->kind == CUT_PATTERN) {
    result = next_by_pattern(c, s, found, error);
  } else {
    next_by_characters(c, s, found);
  }
  if (result == ALIBI_OK && *found && c->step->invert) s->match = !s->match;
  return result;
}

/* What becomes of the matches. */
static status cut_by_behavior(cut *c, cut_behavior behavior, alibi_error *error)
{
  status result = ALIBI_OK;
  stretch s, held = {0, 0, false};
  bool found, holding = false, previous = false;
  for (;;) {
    TRY(next_stretch(c, &s, &found, error));
    if (!found) break;
    bool joins = holding;
    switch (behavior) {
    case CUT_REMOVED:
    case CUT_ISOLATED:
      if (behavior == CUT_ISOLATED || !s.match) TRY(give(c, s.start, s.end, error));
      continue;
    case CUT_CONTIGUOUS: joins = joins && s.match == previous; break;
    case CUT_WITH_PREVIOUS: joins = joins && s.match && !previous; break;
    case CUT_WITH_NEXT: joins = joins && !s.match && previous; break;
    }
    if (joins) {
      held.end = s.end;
    } else {
      if (holding) TRY(give(c, held.start, held.end, error));
      held = s;
    }
    holding = true;
    previous = s.match;
  }
  if (holding) TRY(give(c, held.start, held.end, error));
done:
  return result;
}

static status cut_words(const cut *c, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t start = 0, length;
  int before = 0; /* 0: a blank, 1: of a word, 2: neither */
  for (size_t at = 0; at < c->size; at += length) {
    uint32_t character = utf8_character(c->text + at, &length);
    int now = unicode_is_word(character) ? 1 : unicode_is_space(character) ? 0 : 2;
    if (now != before && before != 0) TRY(give(c, start, at, error));
    if (now != before) start = at;
    before = now;
  }
  if (before != 0) TRY(give(c, start, c->size, error));
done:
  return result;
}

static status cut_fixed(const cut *c, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t start = 0, count = 0, length;
  for (size_t at = 0; at < c->size; at += length, count++) {
    utf8_character(c->text + at, &length);
    if (count < c->step->length) continue;
    TRY(give(c, start, at, error));
    start = at;
    count = 0;
  }
  TRY(give(c, start, c->size, error));
done:
  return result;
}

static status cut_scripts(const cut *c, alibi_error *error)
{
  status result = ALIBI_OK;
  script_walk walk;
  size_t start, end;
  TRY(script_walk_begin(&walk, c->step->scripts, c->text, c->size, error));
  for (;;) {
    TRY(script_walk_next(&walk, &start, &end, error));
    if (end == start) break;
    TRY(give(c, start, end, error));
  }
done:
  script_walk_end(&walk);
  return result;
}

/* The text with its blanks replaced, perhaps with one more in front, then cut before each. */
static status cut_metaspace(cut *c, alibi_error *error)
{
  status result = ALIBI_OK;
  const cut_step *s = c->step;
  text_buffer *to = &c->m->steps[c->index].text;
  const char *mark = s->replacement;
  size_t length = strlen(mark), lead = 0;
  to->size = 0;
  bool marked = c->text[0] == ' ' || (c->size >= length && memcmp(c->text, mark, length) == 0);
  if (!marked && (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && c->lead > 0)))
    TRY(buffer_add(to, mark, length, error));
  if (c->lead > 0) lead = to->size;
  for (size_t at = 0; at < c->size;) {
    const unsigned char *blank = memchr(c->text + at, ' ', c->size - at);
    size_t until = blank ? (size_t)(blank - c->text) : c->size;
    if (at < c->lead) lead = to->size + (until < c->lead ? until : c->lead) - at;
    TRY(buffer_add(to, c->text + at, until - at, error));
    if (blank) TRY(buffer_add(to, mark, length, error));
    if (blank && until < c->lead) lead = to->size;
    at = until + (blank != NULL);
  }
  c->text = to->data;
  c->size = to->size;
  c->lead = lead;
  if (!s->split) return give(c, 0, c->size, error);
  size_t start = 0; /* each mark joins what follows it; of marks in a row each but the last is alone */
  for (size_t at = 0; at + length <= c->size;) {
    if (memcmp(c->text + at, mark, length) != 0) {
      utf8_character(c->text + at, &lead);
      at += lead;
      continue;
    }
    TRY(give(c, start, at, error));
    start = at;
    at += length;
  }
  TRY(give(c, start, c->size, error));
done:
  return result;
}

/* A word of ByteLevel: to the taker as it is where this is the last step, else spelled. */
static status give_spelled(const cut *c, size_t start, size_t end, alibi_error *error)
{
  status result = ALIBI_OK;
  if (end <= start) return ALIBI_OK;
  if (c->index + 1 == c->m->p->count) return c->m->take(c->m->user, c->text + start, end - start, true, error);
  text_buffer *to = &c->m->steps[c->index].spelled;
  size_t lead = c->lead > start ? c->lead - start : 0;
  to->size = 0;
  if (lead > end - start) lead = end - start;
  TRY(buffer_reserve(to, size_add(size_mul(end - start, BYTE_LEVEL_WIDTH), 1), error));
  byte_level_spell(c->text + start, end - start, (char *)to->data);
  TRY(run_from(c->m, c->index + 1, to->data, strlen((char *)to->data), lead, error));
done:
  return result;
}

static status cut_byte_level(cut *c, alibi_error *error)
{
  status result = ALIBI_OK;
  split_walk walk = {0};
  if (c->step->prefix_space && c->text[0] != ' ') {
    text_buffer *to = &c->m->steps[c->index].text;
    to->size = 0;
    TRY(buffer_add(to, " ", 1, error));
    TRY(buffer_add(to, c->text, c->size, error));
    c->text = to->data;
    c->size = to->size;
    if (c->lead > 0) c->lead++;
  }
  if (!c->step->split) return give_spelled(c, 0, c->size, error);
  TRY(split_begin(&walk, c->step->words, c->text, c->size, error));
  for (;;) {
    size_t start, length;
    TRY(split_next(&walk, &start, &length, error));
    if (length == 0) break;
    TRY(give_spelled(c, start, start + length, error));
  }
done:
  split_end(&walk);
  return result;
}

static status run_from(pre_tokenizer_memory *m, size_t index, const unsigned char *text, size_t size, size_t lead,
                       alibi_error *error)
{
  if (size == 0) return ALIBI_OK;
  if (index == m->p->count) return m->take(m->user, text, size, false, error);
  const cut_step *s = &m->p->steps[index];
  cut c = {.m = m, .step = s, .index = index, .text = text, .size = size, .lead = lead};
  switch (s->kind) {
  case CUT_PATTERN:
    c.walk = regex_walk_over(s->pattern, m->steps[index].match, text, size);
    return cut_by_behavior(&c, s->behavior, error);
  case CUT_CHARACTERS: return cut_by_behavior(&c, s->behavior, error);
  case CUT_WORDS: return cut_words(&c, error);
  case CUT_FIXED_LENGTH: return cut_fixed(&c, error);
  case CUT_SCRIPTS: return cut_scripts(&c, error);
  case CUT_METASPACE: return cut_metaspace(&c, error);
  case CUT_BYTE_LEVEL: return cut_byte_level(&c, error);
  }
  return ALIBI_OK;
}

status pre_tokenizer_begin(const pre_tokenizer *p, piece_taker take, void *user, pre_tokenizer_memory **memory,
                           alibi_error *error)
{
  status result = ALIBI_OK;
  *memory = NULL;
  pre_tokenizer_memory *m = calloc(1, sizeof *m);
  if (!m) return fail(error, ALIBI_FAILED, "not enough memory to cut a text into pieces");
  *m = (pre_tokenizer_memory){p, take, user, NULL};
  if (p->count > 0 && !(m->steps = calloc(p->count, sizeof *m->steps)))
    RAISE(error, ALIBI_FAILED, "not enough memory to cut a text into pieces");
  for (size_t i = 0; i < p->count; i++)
    if (p->steps[i].pattern) TRY(regex_begin(p->steps[i].pattern, &m->steps[i].match, error));
  *memory = m;
  m = NULL;
done:
  pre_tokenizer_end(m);
  return result;
}

void pre_tokenizer_end(pre_tokenizer_memory *memory)
{
  if (!memory) return;
  for (size_t i = 0; memory->steps && i < memory->p->count; i++) {
    regex_end(memory->steps[i].match);
    buffer_free(&memory->steps[i].text);
    buffer_free(&memory->steps[i].spelled);
  }
  free(memory->steps);
  free(memory);
}

status pre_tokenizer_run(pre_tokenizer_memory *memory, const unsigned char *text, size_t size, size_t lead,
                         alibi_error *error)
{
  return run_from(memory, 0, text, size, lead, error);
}
