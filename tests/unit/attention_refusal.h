/* attention_refusal.h - what the tests of bad input to the attention operator share: the sentence of a refusal,
 * and that nothing was written. */
#ifndef UNIT_ATTENTION_REFUSAL_H
#define UNIT_ATTENTION_REFUSAL_H

#include "unit/attention_expect.h"

/* 4 heads of 9 floats, 140 queries on 140 keys: what the strides below are about. */
static inline call_options input_defaults(void)
{
  call_options o = call_defaults();
  o.size = 9;
  return o;
}

/* ---- what a sentence must be ---- */

/* says: words one of which must be there, apart by '|'. */
static inline bool says_one(const char *message, const char *says)
{
  char words[128], *rest = words;
  snprintf(words, sizeof words, "%s", says);
  while (*rest) {
    size_t length = strcspn(rest, "|");
    bool last = rest[length] == 0;
    rest[length] = 0;
    if (strstr(message, rest)) return true;
    rest += last ? length : length + 1;
  }
  return false;
}

static inline void expect_invalid(const char *where, alibi_status found, const alibi_error *error,
                                  const char *says)
{
  const char *m = error->message;
  if (found != ALIBI_INVALID)
    fail_msg("%s: %s: expected ALIBI_INVALID, found %d \"%s\"", call_name, where, (int)found, m);
  if (error->status != ALIBI_INVALID) fail_msg("%s: %s: expected the status in the error", call_name, where);
  if (!says_one(m, says) || !strstr(m, "expected") || !strstr(m, "found") || strchr(m, '\n'))
    fail_msg("%s: %s: expected a sentence of \"%s\", expected and found, found \"%s\"", call_name, where, says, m);
}

/* ---- nothing written ---- */

enum { PIECES = 16 };

typedef struct snapshot {
  const void *at[PIECES];
  void *copy[PIECES];
  size_t bytes[PIECES], count;
} snapshot;

static inline void snapshot_add(snapshot *s, const void *at, size_t bytes)
{
  assert_true(s->count < PIECES);
  if (!at) return;
  s->at[s->count] = at;
  s->bytes[s->count] = bytes;
  s->copy[s->count++] = call_copy(at, bytes, 1);
}

/* Everything that a call might write, as it was before the fault. */
static inline snapshot snapshot_of(const call *c)
{
  snapshot s = {.count = 0};
  const call_tensor *tensors[] = {&c->q, &c->k, &c->v, &c->out, &c->dout, &c->dq, &c->dk, &c->dv};
  size_t rows = (size_t)(c->a.queries * c->a.heads);
  for (size_t t = 0; t < 8; t++) snapshot_add(&s, tensors[t]->buffer, tensors[t]->floats * sizeof(float));
  snapshot_add(&s, c->a.lse, rows * sizeof(float));
  snapshot_add(&s, c->a.visited, rows * 2 * sizeof(int32_t));
  snapshot_add(&s, &c->report, sizeof c->report);
  snapshot_add(&s, c->g.slopes, (size_t)c->a.heads * sizeof(double));
  snapshot_add(&s, c->g.added, c->table * sizeof(float));
  snapshot_add(&s, c->g.factor, c->g.factor ? c->table * sizeof(float) : 0);
  snapshot_add(&s, c->g.offsets, (size_t)(c->a.keys * c->a.heads) * sizeof(float));
  snapshot_add(&s, c->rows.gradient, rows * (size_t)c->a.keys * sizeof(float));
  return s;
}

static inline void expect_nothing_written(const snapshot *s)
{
  for (size_t i = 0; i < s->count; i++) call_same("nothing written", s->at[i], s->copy[i], s->bytes[i]);
}

#endif
