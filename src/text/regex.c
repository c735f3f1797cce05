/* The only file that knows PCRE2.  Texts are checked to be UTF-8 before they come here, and PCRE2 is told not to
 * check them again: without its compiler to machine code it would check the whole rest of the text at every match.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>

struct regex {
  pcre2_code *code;
  bool compiled; /* to machine code */
};

struct regex_match {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack; /* made when the small one that comes with the machine code was not enough */
  int groups;             /* of the last match: highest group that took part, plus 1 */
};

enum {
  STEPS_ALWAYS =
      10 * 1000 * 1000, /* of matching, at most: this, and as many a byte: a pattern that needs more is */
  STEPS_A_BYTE = 100,   /* one that runs away */
  HEAP_KIB = 256 * 1024,
  STACK_AT_FIRST = 32 * 1024,
  STACK_AT_MOST = 64 * 1024 * 1024
};

static pcre2_code *compile(const void *pattern, size_t size, unsigned flags, int *number, PCRE2_SIZE *offset)
{
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context) pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  uint32_t options = PCRE2_UTF;
  if (flags & REGEX_LITERAL) options |= PCRE2_LITERAL;
  if (flags & REGEX_ANCHORED) options |= PCRE2_ANCHORED;
  if (flags & REGEX_LINES) options |= PCRE2_MULTILINE;
  pcre2_code *code = pcre2_compile(size > 0 ? pattern : (PCRE2_SPTR) "", size, options, number, offset, context);
  pcre2_compile_context_free(context);
  return code;
}

bool regex_compiles(const char *pattern)
{
  int number;
  PCRE2_SIZE offset;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &number, &offset, NULL);
  pcre2_code_free(code);
  return code != NULL;
}

status regex_new(const void *pattern, size_t size, unsigned flags, const char *what, regex **made,
                 alibi_error *error)
{
  *made = NULL;
  regex *r = calloc(1, sizeof *r);
  if (!r) return fail(error, ALIBI_FAILED, "%s: not enough memory for a pattern", what);
  int number;
  PCRE2_SIZE offset;
  r->code = compile(pattern, size, flags, &number, &offset);
  if (!r->code) {
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(number, reason, sizeof reason);
    free(r);
    return fail(error, ALIBI_BAD_INPUT, "%s: a pattern does not compile: %s (at byte %zu of '%.*s')", what,
                (const char *)reason, (size_t)offset, size > 200 ? 200 : (int)size, (const char *)pattern);
  }
  r->compiled = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
  *made = r;
  return ALIBI_OK;
}

void regex_free(regex *r)
{
  if (!r) return;
  pcre2_code_free(r->code);
  free(r);
}

status regex_begin(const regex *r, regex_match **match, alibi_error *error)
{
  *match = NULL;
  regex_match *m = calloc(1, sizeof *m);
  if (m) m->data = pcre2_match_data_create_from_pattern(r->code, NULL);
  if (m) m->context = pcre2_match_context_create(NULL);
  if (!m || !m->data || !m->context) {
    regex_end(m);
    return fail(error, ALIBI_FAILED, "not enough memory to cut a text into pieces");
  }
  pcre2_set_heap_limit(m->context, HEAP_KIB);
  *match = m;
  return ALIBI_OK;
}

void regex_end(regex_match *match)
{
  if (!match) return;
  pcre2_match_data_free(match->data);
  pcre2_match_context_free(match->context);
  pcre2_jit_stack_free(match->stack);
  free(match);
}

static int run_compiled(const regex *r, regex_match *match, const unsigned char *text, size_t size, size_t from)
{
  int count = pcre2_jit_match(r->code, text, size, from, 0, match->data, match->context);
  if (count != PCRE2_ERROR_JIT_STACKLIMIT || match->stack) return count;
  match->stack = pcre2_jit_stack_create(STACK_AT_FIRST, STACK_AT_MOST, NULL);
  if (!match->stack) return count;
  pcre2_jit_stack_assign(match->context, NULL, match->stack);
  return pcre2_jit_match(r->code, text, size, from, 0, match->data, match->context);
}

status regex_find(const regex *r, regex_match *match, const unsigned char *text, size_t size, size_t from,
                  bool *found, size_t *start, size_t *end, alibi_error *error)
{
  int count = PCRE2_ERROR_JIT_STACKLIMIT;
  size_t steps = STEPS_ALWAYS + (size < UINT32_MAX / STEPS_A_BYTE / 2 ? size * STEPS_A_BYTE : UINT32_MAX / 2);
  pcre2_set_match_limit(match->context, (uint32_t)steps);
  if (r->compiled) count = run_compiled(r, match, text, size, from);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT || count == PCRE2_ERROR_JIT_BADOPTION) /* none, or out of its stack */
    count = pcre2_match(r->code, text, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match->data, match->context);
  *found = count > 0;
  match->groups = count > 0 ? count : 0;
  if (count < 0 && count != PCRE2_ERROR_NOMATCH) {
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(count, reason, sizeof reason);
    return fail(error, ALIBI_FAILED, "a pattern of the tokenizer fails at byte %zu of a text: %s", from,
                (const char *)reason);
  }
  if (!*found) return ALIBI_OK;
  const PCRE2_SIZE *place = pcre2_get_ovector_pointer(match->data);
  *start = place[0];
  *end = place[1] < place[0] ? place[0] : place[1]; /* \K in a lookahead */
  return ALIBI_OK;
}

size_t regex_last_group(const regex_match *match)
{
  return match->groups > 0 ? (size_t)match->groups - 1 : 0;
}

status regex_next(regex_walk *walk, bool *found, size_t *start, size_t *end, alibi_error *error)
{
  for (;;) {
    *found = false;
    if (walk->from > walk->size) return ALIBI_OK;
    status result =
        regex_find(walk->pattern, walk->match, walk->text, walk->size, walk->from, found, start, end, error);
    if (result != ALIBI_OK || !*found) return result;
    bool again = *start == *end && walk->after_match && walk->last_end == *end;
    if (!again) {
      walk->from = walk->last_end = *end;
      walk->after_match = true;
      return ALIBI_OK;
    }
    do walk->from++;
    while (walk->from < walk->size && (walk->text[walk->from] & 0xc0) == 0x80);
  }
}
