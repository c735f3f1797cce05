/* Decoders.  The steps of a chain pass on parts of tokens: (bytes, is it the token's begin, is it its end).  Every
 * step is a small machine with a little memory; the last one lets only whole characters out. */
#include "text/token_decoder.h"

#include <stdio.h>

#include "text/byte_level.h"
#include "text/json_part.h"
#include "text/oniguruma.h"

typedef enum decode_kind {
  DECODE_JOIN, /* no decoder: a blank between tokens */
  DECODE_BYTE_LEVEL,
  DECODE_BYTE_FALLBACK,
  DECODE_FUSE,
  DECODE_STRIP,
  DECODE_METASPACE,
  DECODE_REPLACE,
  DECODE_BPE,
  DECODE_WORDPIECE,
  DECODE_CTC
} decode_kind;

typedef struct decode_step {
  decode_kind kind;
  char *text;    /* STRIP, METASPACE: a character; BPE: suffix; WORDPIECE: prefix; REPLACE: content; CTC: pad */
  char *pattern; /* REPLACE of a plain text; CTC: the delimiter of words */
  regex *regular;
  size_t start, stop;
  bool first_blank; /* METASPACE: the first token loses its marks */
  bool cleanup;
} decode_step;

struct token_decoder {
  decode_step *steps;
  size_t count, capacity;
  bool each_byte; /* what is no UTF-8 becomes one U+FFFD a byte */
};

/* ---- reading ---- */

static status copy(const char *text, char **to, alibi_error *error)
{
  *to = strdup(text);
  return *to ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for a decoder");
}

static status copy_text(const json_part *part, const char *key, char **to, alibi_error *error)
{
  const char *text;
  status result = json_part_text(part, key, NULL, &text, error);
  return result == ALIBI_OK ? copy(text, to, error) : result;
}

static status read_metaspace(const json_part *part, decode_step *s, alibi_error *error)
{
  static const char *const known[] = {"replacement", "add_prefix_space", "prepend_scheme",
                                      "split",       "str_rep",          NULL};
  static const char *const schemes[] = {"first", "never", "always", NULL};
  static const bool on = true;
  static const int always = 2;
  status result = ALIBI_OK;
  const char *text;
  int scheme;
  bool prefix;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_character(part, "replacement", NULL, &text, error));
  TRY(json_part_boolean(part, "add_prefix_space", &on, &prefix, error));
  TRY(json_part_word(part, "prepend_scheme", schemes, &always, &scheme, error));
  s->first_blank = prefix && scheme != 1;
  TRY(copy(text, &s->text, error));
done:
  return result;
}

static status read_replace(const json_part *part, decode_step *s, alibi_error *error)
{
  static const char *const known[] = {"pattern", "content", NULL};
  status result = ALIBI_OK;
  bool is_regex;
  const char *pattern;
  char what[512];
  TRY(json_part_keys(part, known, error));
  TRY(json_part_pattern(part, "pattern", &is_regex, &pattern, error));
  TRY(copy_text(part, "content", &s->text, error));
  snprintf(what, sizeof what, "%.380s: %s", part->path, part->where);
  if (is_regex) TRY(oniguruma_new(pattern, what, &s->regular, error));
  else if (*pattern == '\0') TRY(regex_new("", 0, REGEX_LITERAL, what, &s->regular, error));
  else TRY(copy(pattern, &s->pattern, error));
done:
  return result;
}

static status read_strip(const json_part *part, decode_step *s, alibi_error *error)
{
  static const char *const known[] = {"content", "start", "stop", NULL};
  status result = ALIBI_OK;
  const char *text;
  int64_t start, stop;
  TRY(json_part_keys(part, known, error));
  TRY(json_part_character(part, "content", NULL, &text, error));
  TRY(json_part_integer(part, "start", NULL, 0, INT32_MAX, &start, error));
  TRY(json_part_integer(part, "stop", NULL, 0, INT32_MAX, &stop, error));
  s->start = (size_t)start;
  s->stop = (size_t)stop;
  TRY(copy(text, &s->text, error));
done:
  return result;
}

static status read_decode_step(const json_part *part, const char *type, decode_step *s, alibi_error *error)
{
  static const char *const nothing[] = {NULL}, *const bpe[] = {"suffix", NULL},
                           *const wordpiece[] = {"prefix", "cleanup", NULL},
                           *const ctc[] = {"pad_token", "word_delimiter_token", "cleanup", NULL},
                           *const byte_level[] = {"add_prefix_space", "trim_offsets", "use_regex", NULL};
  status result = ALIBI_OK;
  if (strcmp(type, "ByteLevel") == 0) {
    s->kind = DECODE_BYTE_LEVEL;
    TRY(json_part_keys(part, byte_level, error)); /* none of them has a say here */
  } else if (strcmp(type, "ByteFallback") == 0 || strcmp(type, "Fuse") == 0) {
    s->kind = *type == 'F' ? DECODE_FUSE : DECODE_BYTE_FALLBACK;
    TRY(json_part_keys(part, nothing, error));
  } else if (strcmp(type, "Strip") == 0) {
    s->kind = DECODE_STRIP;
    TRY(read_strip(part, s, error));
  } else if (strcmp(type, "Metaspace") == 0) {
    s->kind = DECODE_METASPACE;
    TRY(read_metaspace(part, s, error));
  } else if (strcmp(type, "Replace") == 0) {
    s->kind = DECODE_REPLACE;
    TRY(read_replace(part, s, error));
  } else if (strcmp(type, "BPEDecoder") == 0) {
    s->kind = DECODE_BPE;
    TRY(json_part_keys(part, bpe, error));
    TRY(copy_text(part, "suffix", &s->text, error));
  } else if (strcmp(type, "WordPiece") == 0) {
    s->kind = DECODE_WORDPIECE;
    TRY(json_part_keys(part, wordpiece, error));
    TRY(copy_text(part, "prefix", &s->text, error));
    TRY(json_part_boolean(part, "cleanup", NULL, &s->cleanup, error));
  } else if (strcmp(type, "CTC") == 0) {
    s->kind = DECODE_CTC;
    TRY(json_part_keys(part, ctc, error));
    TRY(copy_text(part, "pad_token", &s->text, error));
    TRY(copy_text(part, "word_delimiter_token", &s->pattern, error));
    TRY(json_part_boolean(part, "cleanup", NULL, &s->cleanup, error));
  } else {
    return json_part_wrong(part, error, "type '%.60s' is not supported", type);
  }
done:
  return result;
}

static void step_free(decode_step *s)
{
  free(s->text);
  free(s->pattern);
  regex_free(s->regular);
}

static status add_step(const json_part *part, const char *type, void *user, alibi_error *error)
{
  token_decoder *d = user;
  decode_step s = {0};
  status result = ALIBI_OK;
  TRY(memory_grow(&d->steps, &d->capacity, d->count + 1, sizeof *d->steps, "a decoder", error));
  TRY(read_decode_step(part, type, &s, error));
  if (s.kind == DECODE_BYTE_FALLBACK) d->each_byte = true;
  d->steps[d->count++] = s;
  s = (decode_step){0};
done:
  step_free(&s);
  return result;
}

status token_decoder_new(const json_node *node, const char *path, token_decoder **made, alibi_error *error)
{
  status result = ALIBI_OK;
  *made = NULL;
  token_decoder *d = calloc(1, sizeof *d);
  if (!d) return fail(error, ALIBI_FAILED, "%s: not enough memory for a decoder", path);
  TRY(json_part_each(node, path, "decoder", "decoders", add_step, d, error));
  if (json_part_is_null(node)) {
    TRY(memory_grow(&d->steps, &d->capacity, 1, sizeof *d->steps, "a decoder", error));
    d->steps[d->count++] = (decode_step){.kind = DECODE_JOIN};
  }
  *made = d;
  d = NULL;
done:
  token_decoder_free(d);
  return result;
}

const token_decoder *token_decoder_plain(void)
{
  static const token_decoder plain;
  return &plain;
}

void token_decoder_free(token_decoder *d)
{
  if (!d) return;
  for (size_t i = 0; i < d->count; i++) step_free(&d->steps[i]);
  free(d->steps);
  free(d);
}

/* ---- running ---- */

typedef struct step_state {
  size_t tokens; /* that have begun */
  bool open;     /* BYTE_FALLBACK: a run of bytes has begun; STRIP: the front is settled */
  bool has_held; /* BPE, CTC: a token waits in held / is remembered */
  size_t cut;    /* STRIP: taken from the front */
  text_buffer held, made, previous;
  regex_match *match;
} step_state;

struct decoding {
  const token_decoder *d;
  bool valid;
  step_state *states;
  text_buffer waiting; /* the begin of a character */
  text_buffer *to;
};

typedef struct part {
  const unsigned char *bytes;
  size_t size;
  bool begin, end;
} part;

static status pass(decoding *s, size_t index, part p, alibi_error *error);

static status pass_on(decoding *s, size_t index, const text_buffer *text, bool begin, bool end, alibi_error *error)
{
  static const unsigned char nothing[1];
  return pass(s, index + 1, (part){text->data ? text->data : nothing, text->size, begin, end}, error);
}

/* A copy of `from` in which every `old` (not empty) is replaced. */
static status replace_all(const text_buffer *from, const char *old, const char *new, text_buffer *to,
                          alibi_error *error)
{
  status result = ALIBI_OK;
  size_t length = strlen(old), done_to = 0;
  to->size = 0;
  TRY(buffer_reserve(to, 1, error));
  for (size_t at = 0; length > 0 && at + length <= from->size;) {
    const unsigned char *found = memchr(from->data + at, old[0], from->size - length - at + 1);
    if (!found) break;
    at = (size_t)(found - from->data);
    if (memcmp(found, old, length) != 0) {
      at++;
      continue;
    }
    TRY(buffer_add(to, from->data + done_to, at - done_to, error));
    TRY(buffer_add(to, new, strlen(new), error));
    done_to = at += length;
  }
  TRY(buffer_add(to, from->size > 0 ? from->data + done_to : (const unsigned char *)"", from->size - done_to,
                 error));
done:
  return result;
}

/* The clean-up of WordPiece; the text ends in `text`. */
static status clean_up(text_buffer *text, text_buffer *other, alibi_error *error)
{
  static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    status result = replace_all(text, pairs[i][0], pairs[i][1], other, error);
    if (result != ALIBI_OK) return result;
    text_buffer kept = *text;
    *text = *other;
    *other = kept;
  }
  return ALIBI_OK;
}

/* Whole tokens only: *whole false while more parts come. */
static status collect(step_state *state, part p, bool *whole, alibi_error *error)
{
  if (p.begin) state->held.size = 0;
  *whole = p.end;
  return buffer_add(&state->held, p.bytes, p.size, error);
}

static status decode_byte_level(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  step_state *state = &s->states[index];
  bool whole;
  TRY(collect(state, p, &whole, error));
  if (!whole) goto done;
  bool begin = state->tokens++ == 0;
  TRY(buffer_add(&state->held, "", 1, error)); /* a NUL */
  state->held.size--;
  const char *spelled = (const char *)state->held.data;
  size_t length = strlen(spelled) == state->held.size ? byte_level_length(spelled) : 0;
  if (length > 0) {
    state->made.size = 0;
    TRY(buffer_reserve(&state->made, length, error));
    byte_level_parse(spelled, state->made.data);
    state->made.size = length;
    TRY(pass_on(s, index, &state->made, begin, false, error));
  } else { /* a character that stands for no byte: the token is what it says */
    TRY(pass_on(s, index, &state->held, begin, false, error));
  }
done:
  return result;
}

/* A run of bytes is one token, whose characters go on as they are complete. */
static status decode_byte_fallback(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  step_state *state = &s->states[index];
  bool whole;
  TRY(collect(state, p, &whole, error));
  if (!whole) goto done;
  const unsigned char *t = state->held.data;
  bool byte = state->held.size == 6 && memcmp(t, "<0x", 3) == 0 && t[5] == '>' && hex_digit(t[3]) >= 0 &&
              hex_digit(t[4]) >= 0;
  if (!byte) {
    if (state->open) TRY(pass_on(s, index, &state->made, state->tokens == 0, true, error));
    state->open = false;
    state->made.size = 0;
    TRY(pass_on(s, index, &state->held, true, true, error));
    goto done;
  }
  if (!state->open) state->tokens = 0; /* parts of the run so far */
  state->open = true;
  unsigned char value = (unsigned char)(hex_digit(t[3]) << 4 | hex_digit(t[4]));
  TRY(buffer_add(&state->made, &value, 1, error));
  bool unfinished = false;
  if (utf8_size(state->made.data, state->made.size) == 0)
    utf8_bad_size(state->made.data, state->made.size, &unfinished);
  if (unfinished) goto done;
  TRY(pass_on(s, index, &state->made, state->tokens == 0, false, error));
  state->tokens++;
  state->made.size = 0;
done:
  return result;
}

/* How often `mark` comes in a row at the end of the text, at most `most` times. */
static size_t marks_at_end(const text_buffer *text, const char *mark, size_t most)
{
  size_t length = strlen(mark), count = 0;
  while (count < most && (count + 1) * length <= text->size &&
         memcmp(text->data + text->size - (count + 1) * length, mark, length) == 0)
    count++;
  return count;
}

static status decode_strip(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  const decode_step *step = &s->d->steps[index];
  step_state *state = &s->states[index];
  size_t length = strlen(step->text), from = 0;
  if (p.begin) {
    state->held.size = state->cut = state->tokens = 0;
    state->open = false;
  }
  TRY(buffer_add(&state->held, p.bytes, p.size, error));
  while (!state->open) {
    if (state->cut == step->start) state->open = true;
    else if (state->held.size - from < length && !p.end) break;
    else if (state->held.size - from >= length && memcmp(state->held.data + from, step->text, length) == 0) {
      from += length;
      state->cut++;
    } else state->open = true;
  }
  memmove(state->held.data, state->held.data + from, state->held.size - from);
  state->held.size -= from;
  if (!state->open) goto done;
  size_t marks = marks_at_end(&state->held, step->text, step->stop) * length;
  size_t keep = p.end ? 0 : marks;
  state->made.size = 0;
  TRY(buffer_add(&state->made, state->held.data, state->held.size - marks, error));
  memmove(state->held.data, state->held.data + state->held.size - keep, keep);
  state->held.size = keep;
  TRY(pass_on(s, index, &state->made, state->tokens++ == 0, p.end, error));
done:
  return result;
}

static status decode_metaspace(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  const decode_step *step = &s->d->steps[index];
  step_state *state = &s->states[index];
  text_buffer whole = {(unsigned char *)(size_t)p.bytes, p.size, p.size};
  bool first = state->tokens == 0;
  TRY(replace_all(&whole, step->text, first && step->first_blank ? "" : " ", &state->made, error));
  state->tokens += p.end;
  TRY(pass_on(s, index, &state->made, p.begin, p.end, error));
done:
  return result;
}

static status replace_by_pattern(const decode_step *step, step_state *state, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t done_to = 0, start, end;
  bool found;
  if (!state->match) TRY(regex_begin(step->regular, &state->match, error));
  state->made.size = 0;
  /* The pattern wants UTF-8; what a run of odd bytes left may be none. */
  if (state->held.size == 0 || utf8_end(state->held.data, 0, state->held.size) != state->held.size)
    return buffer_add(&state->made, state->held.data, state->held.size, error);
  regex_walk walk = regex_walk_over(step->regular, state->match, state->held.data, state->held.size);
  for (;;) {
    TRY(regex_next(&walk, &found, &start, &end, error));
    size_t until = found ? start : state->held.size;
    TRY(buffer_add(&state->made, state->held.data + done_to, until - done_to, error));
    if (!found) break;
    TRY(buffer_add(&state->made, step->text, strlen(step->text), error));
    done_to = end;
  }
done:
  return result;
}

static status decode_replace(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  const decode_step *step = &s->d->steps[index];
  step_state *state = &s->states[index];
  if (p.begin) state->held.size = state->tokens = 0;
  TRY(buffer_add(&state->held, p.bytes, p.size, error));
  if (step->regular) {
    if (!p.end) goto done;
    TRY(replace_by_pattern(step, state, error));
    TRY(pass_on(s, index, &state->made, true, true, error));
    goto done;
  }
  /* What could be the begin of the pattern waits for the next part. */
  size_t length = strlen(step->pattern), wait = 0;
  TRY(replace_all(&state->held, step->pattern, step->text, &state->made, error));
  size_t most = length - 1 < state->held.size ? length - 1 : state->held.size;
  for (size_t tail = most < state->made.size ? most : state->made.size; !p.end && tail > 0 && wait == 0; tail--)
    if (memcmp(state->held.data + state->held.size - tail, step->pattern, tail) == 0 &&
        memcmp(state->made.data + state->made.size - tail, step->pattern, tail) == 0)
      wait = tail;
  state->made.size -= wait;
  memmove(state->held.data, state->held.data + state->held.size - wait, wait);
  state->held.size = wait;
  TRY(pass_on(s, index, &state->made, state->tokens++ == 0, p.end, error));
done:
  return result;
}

/* The token that waits goes on: its suffix becomes a blank, or nothing at the end of the text. */
static status flush_bpe(decoding *s, size_t index, const char *blank, alibi_error *error)
{
  step_state *state = &s->states[index];
  status result = replace_all(&state->previous, s->d->steps[index].text, blank, &state->made, error);
  return result == ALIBI_OK ? pass_on(s, index, &state->made, true, true, error) : result;
}

static status decode_bpe(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  step_state *state = &s->states[index];
  if (p.begin && state->has_held) TRY(flush_bpe(s, index, " ", error));
  if (p.begin) state->previous.size = 0;
  state->has_held = true;
  TRY(buffer_add(&state->previous, p.bytes, p.size, error));
done:
  return result;
}

static status decode_wordpiece(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  const decode_step *step = &s->d->steps[index];
  step_state *state = &s->states[index];
  size_t length = strlen(step->text);
  bool whole;
  TRY(collect(state, p, &whole, error));
  if (!whole) goto done;
  state->made.size = 0;
  bool inside = state->held.size >= length && memcmp(state->held.data, step->text, length) == 0;
  bool first = state->tokens++ == 0;
  if (!first && !inside) TRY(buffer_add(&state->made, " ", 1, error));
  size_t from = !first && inside ? length : 0;
  TRY(buffer_add(&state->made, state->held.data + from, state->held.size - from, error));
  if (step->cleanup) TRY(clean_up(&state->made, &state->previous, error));
  TRY(pass_on(s, index, &state->made, true, true, error));
done:
  return result;
}

static status decode_ctc(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  const decode_step *step = &s->d->steps[index];
  step_state *state = &s->states[index];
  text_buffer other = {0};
  bool whole;
  TRY(collect(state, p, &whole, error));
  if (!whole) goto done;
  bool again = state->has_held && state->previous.size == state->held.size &&
               memcmp(state->previous.data, state->held.data, state->held.size) == 0;
  state->has_held = true;
  if (again) goto done;
  state->previous.size = 0;
  TRY(buffer_add(&state->previous, state->held.data, state->held.size, error));
  TRY(replace_all(&state->held, step->text, "", &state->made, error));
  if (step->cleanup) {
    TRY(clean_up(&state->made, &other, error));
    TRY(replace_all(&state->made, step->pattern, " ", &other, error));
    state->made.size = 0;
    TRY(buffer_add(&state->made, other.data, other.size, error));
  }
  if (state->made.size > 0) TRY(pass_on(s, index, &state->made, true, true, error));
done:
  buffer_free(&other);
  return result;
}

static status decode_join(decoding *s, size_t index, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer whole = {(unsigned char *)(size_t)p.bytes, p.size, p.size};
  text_buffer blank = {(unsigned char *)(size_t) " ", 1, 1};
  if (p.begin && s->states[index].tokens++ > 0) TRY(pass_on(s, index, &blank, true, true, error));
  TRY(pass_on(s, index, &whole, p.begin, p.end, error));
done:
  return result;
}

/* Whole characters leave; what is none leaves as it is, or as U+FFFD. */
static status let_out(decoding *s, part p, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer *w = &s->waiting;
  size_t at = 0;
  TRY(buffer_add(w, p.bytes, p.size, error));
  while (at < w->size) {
    size_t good = utf8_end(w->data, at, w->size);
    TRY(buffer_add(s->to, w->data + at, good - at, error));
    at = good;
    if (at == w->size) break;
    bool open;
    size_t bad = utf8_bad_size(w->data + at, w->size - at, &open);
    if (open) break;
    if (!s->valid) TRY(buffer_add(s->to, w->data + at, bad, error));
    for (size_t i = 0; s->valid && i < (s->d->each_byte ? bad : 1); i++)
      TRY(buffer_add(s->to, "\xef\xbf\xbd", 3, error));
    at += bad;
  }
  memmove(w->data, w->data + at, w->size - at);
  w->size -= at;
done:
  return result;
}

static status pass(decoding *s, size_t index, part p, alibi_error *error)
{
  if (index == s->d->count) return let_out(s, p, error);
  switch (s->d->steps[index].kind) {
  case DECODE_JOIN: return decode_join(s, index, p, error);
  case DECODE_BYTE_LEVEL: return decode_byte_level(s, index, p, error);
  case DECODE_BYTE_FALLBACK: return decode_byte_fallback(s, index, p, error);
  case DECODE_FUSE:
    p.begin = s->states[index].tokens++ == 0;
    p.end = false;
    return pass(s, index + 1, p, error);
  case DECODE_STRIP: return decode_strip(s, index, p, error);
  case DECODE_METASPACE: return decode_metaspace(s, index, p, error);
  case DECODE_REPLACE: return decode_replace(s, index, p, error);
  case DECODE_BPE: return decode_bpe(s, index, p, error);
  case DECODE_WORDPIECE: return decode_wordpiece(s, index, p, error);
  case DECODE_CTC: return decode_ctc(s, index, p, error);
  }
  return ALIBI_OK;
}

status decoding_begin(const token_decoder *d, bool valid, decoding **made, alibi_error *error)
{
  *made = NULL;
  decoding *s = calloc(1, sizeof *s);
  if (s) s->states = calloc(d->count + 1, sizeof *s->states);
  if (!s || !s->states) {
    free(s);
    return fail(error, ALIBI_FAILED, "not enough memory to decode");
  }
  s->d = d;
  s->valid = valid;
  *made = s;
  return ALIBI_OK;
}

void decoding_end(decoding *s)
{
  if (!s) return;
  for (size_t i = 0; i < s->d->count; i++) {
    buffer_free(&s->states[i].held);
    buffer_free(&s->states[i].made);
    buffer_free(&s->states[i].previous);
    regex_end(s->states[i].match);
  }
  free(s->states);
  buffer_free(&s->waiting);
  free(s);
}

status decoding_add(decoding *s, const unsigned char *spelling, size_t size, text_buffer *to, alibi_error *error)
{
  s->to = to;
  return pass(s, 0, (part){spelling, size, true, true}, error);
}

/* The end of the text, for one step: all before it are done. */
static status finish_step(decoding *s, size_t index, alibi_error *error)
{
  status result = ALIBI_OK;
  step_state *state = &s->states[index];
  text_buffer nothing = {0};
  switch (s->d->steps[index].kind) {
  case DECODE_BYTE_LEVEL:
  case DECODE_FUSE: /* the end of the one token */
    if (state->tokens > 0) result = pass_on(s, index, &nothing, false, true, error);
    break;
  case DECODE_BYTE_FALLBACK:
    if (state->open) result = pass_on(s, index, &state->made, state->tokens == 0, true, error);
    break;
  case DECODE_BPE:
    if (state->has_held) result = flush_bpe(s, index, "", error);
    break;
  default: break;
  }
  state->tokens = state->cut = state->held.size = state->made.size = state->previous.size = 0;
  state->open = state->has_held = false;
  return result;
}

status decoding_finish(decoding *s, text_buffer *to, alibi_error *error)
{
  status result = ALIBI_OK;
  s->to = to;
  for (size_t i = 0; i < s->d->count; i++) TRY(finish_step(s, i, error));
  size_t left = s->waiting.size;
  s->waiting.size = 0;
  if (left > 0 && !s->valid) TRY(buffer_add(to, s->waiting.data, left, error));
  for (size_t i = 0; left > 0 && s->valid && i < (s->d->each_byte ? left : 1); i++)
    TRY(buffer_add(to, "\xef\xbf\xbd", 3, error));
done:
  return result;
}
