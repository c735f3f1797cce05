/* attention_expect.h - what calls of the attention operator must give: the numbers of the formula within its
 * slack, or the bits of another call.  The one header of the operator's tests. */
#ifndef UNIT_ATTENTION_EXPECT_H
#define UNIT_ATTENTION_EXPECT_H

#include "unit/attention_call.h"

/* ---- the formula ---- */

static inline void call_close(const char *what, int64_t row, int head, int channel, double found, double expected,
                              double slack)
{
  if (fabs(found - expected) <= slack || found == expected) return;
  fail_msg("%s: %s, row %lld, head %d, channel %d: expected %.9g, found %.9g, off by %.3g, allowed %.3g",
           call_name, what, (long long)row, head, channel, expected, found, fabs(found - expected), slack);
}

/* `before`: a copy of the buffer to which the numbers were added, or NULL: they stand for themselves. */
static inline void call_expect(const char *what, const call_tensor *t, const float *before,
                               const formula_numbers *n, double extra)
{
  for (int64_t r = 0; r < t->rows; r++)
    for (int h = 0; h < t->heads; h++)
      for (int c = 0; c < t->size; c++) {
        size_t at = (size_t)((r * t->heads + h) * t->size + c);
        const float *found = call_at(t, r, h) + c;
        double there = before ? (double)before[found - t->buffer] : 0;
        call_close(what, r, h, c, (double)*found, there + n->value[at],
                   n->slack[at] + extra + 4 * formula_eps * (fabs(there) + fabs(n->value[at])) + FLT_MIN);
      }
}

/* [rows, columns] without gaps. */
static inline void call_expect_row(const char *what, const float *found, const float *before,
                                   const formula_numbers *n, int columns)
{
  for (size_t i = 0; i < n->count; i++) {
    double there = before ? (double)before[i] : 0;
    call_close(what, (int64_t)i / columns, (int)((int64_t)i % columns), 0, (double)found[i], there + n->value[i],
               n->slack[i] + 16 * formula_eps * (fabs(there) + fabs(n->value[i])) + FLT_MIN);
  }
}

/* `extra`: slack of out beyond that of rounding. */
static inline void call_expect_outputs(const call *c, const formula *f, double extra)
{
  call_expect("out", &c->out, NULL, &f->out, extra);
  call_expect_row("lse", c->a.lse, NULL, &f->lse, c->a.heads);
}

static inline double call_largest(const call_tensor *t)
{
  double largest = 0;
  for (int64_t r = 0; r < t->rows; r++)
    for (int h = 0; h < t->heads; h++)
      for (int c = 0; c < t->size; c++) largest = fmax(largest, fabs((double)call_at(t, r, h)[c]));
  return largest;
}

/* f: over what the call visited. */
static inline void call_expect_report(const call *c, const formula *f)
{
  const alibi_attention_report *r = &c->report;
  if (r->pairs_visible != f->pairs_visible)
    fail_msg("%s: expected %lld visible pairs, found %lld", call_name, (long long)f->pairs_visible,
             (long long)r->pairs_visible);
  if (r->pairs_visited != f->pairs_visited)
    fail_msg("%s: expected %lld visited pairs, found %lld", call_name, (long long)f->pairs_visited,
             (long long)r->pairs_visited);
  assert_true(r->blocks_visited <= r->blocks_visible);
  assert_true((r->blocks_visible == 0) == (r->pairs_visible == 0));
  assert_true((r->blocks_visited == 0) == (r->pairs_visited == 0));
  assert_true(r->bound == 2 * r->skipped);
  if (f->unvisited > r->skipped)
    fail_msg("%s: a share of %g of a row was not visited, reported %g", call_name, f->unvisited, r->skipped);
  assert_true(r->skipped <= c->a.tolerance * (1 + 1e-6));
}

/* ---- the same bits ---- */

static inline void call_same(const char *what, const void *found, const void *expected, size_t bytes)
{
  const unsigned char *x = found, *y = expected;
  for (size_t i = 0; i < bytes; i++)
    if (x[i] != y[i])
      fail_msg("%s: %s: expected the same bits, word %zu of %zu differs", call_name, what, i / 4, bytes / 4);
}

/* Rows 0 .. rows-1 of one tensor and rows from .. of another hold the same bits. */
static inline void call_same_rows(const char *what, const call_tensor *found, int64_t from,
                                  const call_tensor *expected, int64_t expected_from, int64_t rows)
{
  for (int64_t r = 0; r < rows; r++)
    for (int h = 0; h < found->heads; h++)
      for (int c = 0; c < found->size; c++) {
        const float *x = call_at(found, from + r, h) + c, *y = call_at(expected, expected_from + r, h) + c;
        if (memcmp(x, y, sizeof *x) != 0)
          fail_msg("%s: %s, row %lld, head %d, channel %d: expected the bits of %a, found %a", call_name, what,
                   (long long)(from + r), h, c, (double)*y, (double)*x);
      }
}

static inline void call_same_tensor(const char *what, const call_tensor *found, const call_tensor *expected)
{
  call_same(what, found->buffer, expected->buffer, expected->floats * sizeof(float));
}

/* Of rows 0 .. rows-1. */
static inline void call_same_lse(const call *found, const call *expected, int64_t rows)
{
  call_same("lse", found->a.lse, expected->a.lse, (size_t)(rows * expected->a.heads) * sizeof(float));
}

/* Everything that forward writes. */
static inline void call_same_outputs(const call *found, const call *expected)
{
  int64_t rows = expected->a.queries;
  call_same_rows("out", &found->out, 0, &expected->out, 0, rows);
  call_same_lse(found, expected, rows);
  call_same("visited", found->a.visited, expected->a.visited,
            (size_t)(rows * expected->a.heads * 2) * sizeof(int32_t));
  call_same("report", &found->report, &expected->report, sizeof found->report);
}

/* What lies between the rows of a tensor is as it was. */
static inline void call_expect_gaps(const char *what, const call_tensor *t, const float *before)
{
  if (!t->alone) return;
  unsigned char *inside = calloc(t->floats + 1, 1);
  assert_non_null(inside);
  for (int64_t r = 0; r < t->rows; r++)
    for (int h = 0; h < t->heads; h++) memset(inside + (call_at(t, r, h) - t->buffer), 1, (size_t)t->size);
  for (size_t i = 0; i < t->floats; i++)
    if (!inside[i] && memcmp(t->buffer + i, before + i, sizeof *before) != 0)
      fail_msg("%s: %s: float %zu lies between the rows and was written", call_name, what, i);
  free(inside);
}

/* ---- gradients ---- */

typedef struct call_gradients {
  const float *dq, *dk, *dv, *added, *factor, *offsets;
  const double *slopes;
} call_gradients;

/* Where they are. */
static inline call_gradients call_gradients_of(const call *c)
{
  return (call_gradients){c->dq.buffer, c->dk.buffer, c->dv.buffer, c->g.added,
                          c->g.factor,  c->g.offsets, c->g.slopes};
}

/* As they are now. */
static inline call_gradients call_gradients_copy(const call *c)
{
  size_t offsets = c->g.offsets ? (size_t)(c->a.keys * c->a.heads) : 0;
  return (call_gradients){
      .dq = call_copy(c->dq.buffer, c->dq.floats, sizeof(float)),
      .dk = call_copy(c->dk.buffer, c->dk.floats, sizeof(float)),
      .dv = call_copy(c->dv.buffer, c->dv.floats, sizeof(float)),
      .added = call_copy(c->g.added, c->g.added ? c->table : 0, sizeof(float)),
      .factor = call_copy(c->g.factor, c->g.factor ? c->table : 0, sizeof(float)),
      .offsets = call_copy(c->g.offsets, offsets, sizeof(float)),
      .slopes = call_copy(c->g.slopes, c->g.slopes ? (size_t)c->a.heads : 0, sizeof(double)),
  };
}

static inline void call_expect_rows(const call *c, const formula *f)
{
  const call_rows *rows = &c->rows;
  for (size_t i = 0; i < f->rows.count; i++) {
    int64_t row = (int64_t)i / rows->keys % rows->queries, head = (int64_t)i / rows->keys / rows->queries;
    call_close("gradient of rows", row, (int)head, (int)((int64_t)i % rows->keys), (double)rows->gradient[i],
               f->rows.value[i], f->rows.slack[i] + FLT_MIN);
    if (rows->given[i] > 1 || (rows->given[i] == 0 && f->rows.slack[i] > 0))
      fail_msg("%s: the gradient of row %lld came %d times", call_name, (long long)row, rows->given[i]);
  }
}

/* `before`: what they were added to. */
static inline void call_expect_gradients(const call *c, const formula *f, const call_gradients *before)
{
  call_expect("dq", &c->dq, before->dq, &f->dq, 0);
  call_expect("dk", &c->dk, before->dk, &f->dk, 0);
  call_expect("dv", &c->dv, before->dv, &f->dv, 0);
  call_expect_gaps("dq", &c->dq, before->dq);
  call_expect_gaps("dk", &c->dk, before->dk);
  call_expect_gaps("dv", &c->dv, before->dv);
  int distances = (int)c->a.bias.distances;
  for (int h = 0; h < c->a.heads && c->g.slopes; h++)
    call_close("gradient of slopes", 0, h, 0, c->g.slopes[h], before->slopes[h] + f->slopes.value[h],
               f->slopes.slack[h] + FLT_MIN);
  if (c->g.added) call_expect_row("gradient of added", c->g.added, before->added, &f->added, distances);
  if (c->g.factor) call_expect_row("gradient of factor", c->g.factor, before->factor, &f->factor, distances);
  if (c->g.offsets) call_expect_row("gradient of offsets", c->g.offsets, before->offsets, &f->offsets, c->a.heads);
  if (c->a.bias.kind == ALIBI_BIAS_ROWS) call_expect_rows(c, f);
}

static inline void call_same_gradients(const call *c, call_gradients expected)
{
  call_same("dq", c->dq.buffer, expected.dq, c->dq.floats * sizeof(float));
  call_same("dk", c->dk.buffer, expected.dk, c->dk.floats * sizeof(float));
  call_same("dv", c->dv.buffer, expected.dv, c->dv.floats * sizeof(float));
  if (c->g.slopes) call_same("slopes", c->g.slopes, expected.slopes, (size_t)c->a.heads * sizeof(double));
  if (c->g.added) call_same("added", c->g.added, expected.added, c->table * sizeof(float));
  if (c->g.factor) call_same("factor", c->g.factor, expected.factor, c->table * sizeof(float));
  if (c->g.offsets)
    call_same("offsets", c->g.offsets, expected.offsets, (size_t)(c->a.keys * c->a.heads) * sizeof(float));
}

#endif
