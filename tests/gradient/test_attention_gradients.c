/* The gradients of the public attention operator, for every option and every pair of options.
 *
 * The analytic gradients of the formula, in double, are held against finite differences of the formula; the
 * library is then held against the analytic ones, number by number, with the slack that fp32 needs.  And: the same
 * bits for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/attention.h"
#include "base/context.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/attention_call.h"

static alibi_context *context;

/* ---- the formula against finite differences ---- */

/* An eighth of the length, so that a difference costs little. */
static call_options shrunk(const call_options *o)
{
  static int64_t queries[8], keys[8];
  call_options small = *o;
  small.size = 5;
  small.queries = (o->queries + 7) / 8;
  small.keys = (o->keys + 7) / 8;
  small.offset = o->offset == ALIBI_BOTTOM_RIGHT ? o->offset : o->offset / 8;
  small.window = (o->window + 4) / 5;
  for (int64_t n = 0; n < o->sequences; n++) {
    queries[n] = (o->query_lengths[n] + 7) / 8;
    keys[n] = (o->key_lengths[n] + 7) / 8;
  }
  small.query_lengths = queries;
  small.key_lengths = keys;
  if (o->bias == ALIBI_BIAS_SLOPE && !o->slopes && !o->total_heads) small.slopes = call_steep;
  return small;
}

/* The derivative by one number: central differences of two widths, without their error of second order. */
static double difference(const call *c, const void *at, int64_t row)
{
  const double e = 2e-3;
  double d[2];
  for (int half = 0; half < 2; half++) {
    double step = half ? e / 2 : e;
    d[half] = (formula_objective(&c->a, &c->g.dout, at, row, step) -
               formula_objective(&c->a, &c->g.dout, at, row, -step)) /
              (2 * step);
  }
  return (4 * d[1] - d[0]) / 3;
}

static void expect_difference(const char *what, const call *c, const void *at, int64_t row, double analytic)
{
  double found = difference(c, at, row);
  if (fabs(found - analytic) > 1e-7 * (1 + fabs(analytic)))
    fail_msg("%s: %s: expected %.12g by finite differences, found %.12g", call_name, what, found, analytic);
}

enum { PLACES = 3 };

static void expect_differences_of_tensor(const char *what, const call *c, const call_tensor *t,
                                         const formula_numbers *n)
{
  for (uint64_t p = 0; p < PLACES && n->count > 0; p++) {
    size_t at = (size_t)(call_uniform(c->options.seed + 51, p) * (double)n->count);
    int64_t row = (int64_t)at / t->size / t->heads;
    expect_difference(what, c, call_at(t, row, (int)((int64_t)at / t->size % t->heads)) + (int64_t)at % t->size,
                      -1, n->value[at]);
  }
}

/* An array of numbers of so many bytes; NULL: places in rows. */
static void expect_differences_of_array(const char *what, const call *c, const void *array, size_t bytes,
                                        const formula_numbers *n)
{
  for (uint64_t p = 0; p < PLACES && n->count > 0; p++) {
    size_t at = (size_t)(call_uniform(c->options.seed + 52, p) * (double)n->count);
    expect_difference(what, c, array ? (const char *)array + at * bytes : NULL, array ? -1 : (int64_t)at, n->value[at]);
  }
}

static void formula_is_its_differences(const call_options *o)
{
  call_options small = shrunk(o);
  call *c = call_new(&small);
  formula f = formula_of(&c->g.dout, NULL);
  formula_run(&c->a, &f);
  expect_differences_of_tensor("dq", c, &c->q, &f.dq);
  expect_differences_of_tensor("dk", c, &c->k, &f.dk);
  expect_differences_of_tensor("dv", c, &c->v, &f.dv);
  if (c->a.bias.kind == ALIBI_BIAS_SLOPE && c->a.bias.slopes)
    expect_differences_of_array("slopes", c, c->a.bias.slopes, sizeof(double), &f.slopes);
  if (c->a.bias.kind == ALIBI_BIAS_DISTANCE) expect_differences_of_array("added", c, c->a.bias.added, sizeof(float), &f.added);
  if (c->a.bias.factor) expect_differences_of_array("factor", c, c->a.bias.factor, sizeof(float), &f.factor);
  if (c->a.bias.kind == ALIBI_BIAS_KEY) expect_differences_of_array("offsets", c, c->a.bias.offsets, sizeof(float), &f.offsets);
  if (c->a.bias.kind == ALIBI_BIAS_ROWS) expect_differences_of_array("rows", c, NULL, 0, &f.rows);
  formula_free(&f);
}

static void the_formula_is_its_finite_differences(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), formula_is_its_differences);
}

/* ---- the library against the formula ---- */

/* What was in the gradients before. */
typedef struct gradients_before {
  float *dq, *dk, *dv, *added, *factor, *offsets;
  double *slopes;
} gradients_before;

static gradients_before copy_gradients(const call *c)
{
  size_t offsets = c->g.offsets ? (size_t)(c->a.keys * c->a.heads) : 0;
  return (gradients_before){
      .dq = call_copy(c->dq.buffer, c->dq.floats, sizeof(float)),
      .dk = call_copy(c->dk.buffer, c->dk.floats, sizeof(float)),
      .dv = call_copy(c->dv.buffer, c->dv.floats, sizeof(float)),
      .added = call_copy(c->g.added, c->g.added ? c->table : 0, sizeof(float)),
      .factor = call_copy(c->g.factor, c->g.factor ? c->table : 0, sizeof(float)),
      .offsets = call_copy(c->g.offsets, offsets, sizeof(float)),
      .slopes = call_copy(c->g.slopes, c->g.slopes ? (size_t)c->a.heads : 0, sizeof(double)),
  };
}

static void expect_rows(const call *c, const formula *f)
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

static void expect_gradients(const call *c, const formula *f, const gradients_before *before)
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
               f->slopes.slack[h]);
  if (c->g.added) call_expect_row("gradient of added", c->g.added, before->added, &f->added, distances);
  if (c->g.factor) call_expect_row("gradient of factor", c->g.factor, before->factor, &f->factor, distances);
  if (c->g.offsets) call_expect_row("gradient of offsets", c->g.offsets, before->offsets, &f->offsets, c->a.heads);
  if (c->a.bias.kind == ALIBI_BIAS_ROWS) expect_rows(c, f);
}

static void backward_is_the_formula(const call_options *o)
{
  for (int skip = 0; skip < (call_skips(context) ? 2 : 1); skip++) {
    call_options one = skip ? call_stretched(o, o->seed % 2 ? ALIBI_TOLERANCE : 1e-3) : *o;
    call *c = call_new(&one);
    gradients_before before = copy_gradients(c);
    call_forward(context, c);
    if (!skip && o->seed % 3 == 0) c->a.visited = NULL; /* at tolerance 0 it may be missing */
    call_backward(context, c);
    formula f = formula_of(&c->g.dout, skip ? c->a.visited : NULL);
    formula_run(&c->a, &f);
    expect_gradients(c, &f, &before);
    formula_free(&f);
  }
}

static void every_pair_of_options(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), backward_is_the_formula);
}

static void head_sizes(void **unused)
{
  (void)unused;
  static const int sizes[] = {1,  2,  3,  4,  7,  8,   15,  16,  17,  31,  32,  33,  48, 63,
                              64, 65, 72, 80, 96, 100, 112, 127, 128, 129, 192, 255, 256};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "head size %d", sizes[s]);
    o.heads = 2;
    o.kv_heads = 1;
    o.queries = 67;
    o.keys = 80;
    o.size = sizes[s];
    o.slopes = call_steep;
    o.seed = s;
    o.layout = s % 2 ? LAYOUT_GAPS : LAYOUT_PLAIN;
    backward_is_the_formula(&o);
    call_free_all();
  }
}

static void every_instruction_set(void **unused)
{
  (void)unused;
  static const char *const names[] = {"reference", "baseline", "avx2", "avx512", "neon"};
  alibi_context *mine = context;
  size_t tried = 0;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    alibi_context_options options;
    alibi_context_options_init(&options);
    options.isa = names[n];
    if (alibi_context_new(&options, &context, NULL) != ALIBI_OK) continue;
    tried++;
    for (size_t i = 0; i < sizeof call_every_option / sizeof call_every_option[0]; i++) {
      call_options o = call_defaults();
      o.seed = i;
      o.size = i % 2 ? 17 : 32;
      o.heads = 2;
      o.queries = o.keys = 80;
      call_every_option[i].set(&o);
      snprintf(call_name, sizeof call_name, "%s, %s", names[n], call_every_option[i].name);
      backward_is_the_formula(&o);
      call_free_all();
    }
    alibi_context_free(context);
  }
  context = mine;
  assert_true(tried >= 2);
}

/* Values that rise along the text and a dout of one sign: every row has its say in the slope's gradient, so that
 * what is rounded to one side adds up. */
static void lean_to_one_side(call *c)
{
  for (int64_t r = 0; r < c->a.queries; r++)
    for (int h = 0; h < c->a.heads; h++)
      for (int channel = 0; channel < c->a.head_size; channel++) {
        call_at(&c->dout, r, h)[channel] = 1 + 0.3f * (float)(channel % 8);
        call_at(&c->v, r, h)[channel] += 0.002f * (float)r;
      }
}

static void slope_gradients_hold_five_digits(void **unused)
{
  (void)unused;
  static const int64_t lengths[] = {300, 2000};
  static const double slopes[] = {0.5, 0.0625, 0.004};
  for (int lean = 0; lean < 2; lean++)
    for (int n = 0; n < 2; n++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "%lld keys, lean %d", (long long)lengths[n], lean);
      o.heads = n ? 2 : 3;
      o.size = n ? 8 : 64;
      o.slopes = slopes + n;
      o.queries = o.keys = lengths[n];
      o.seed = 2;
      call *c = call_new(&o);
      if (lean) lean_to_one_side(c);
      for (int h = 0; h < o.heads; h++) c->g.slopes[h] = 0;
      call_forward(context, c);
      call_backward(context, c);
      formula f = formula_of(&c->g.dout, NULL);
      formula_run(&c->a, &f);
      for (int h = 0; h < o.heads; h++)
        if (fabs(c->g.slopes[h] - f.slopes.value[h]) > 1e-5 * fabs(f.slopes.value[h]))
          fail_msg("%s: head %d: expected %.9g, found %.9g, off by %.3g of it", call_name, h, f.slopes.value[h],
                   c->g.slopes[h], fabs(c->g.slopes[h] / f.slopes.value[h] - 1));
      formula_free(&f);
      call_free_all();
    }
}

/* ---- what is wanted, what may not be seen ---- */

static void gradients_that_are_not_wanted(void **unused)
{
  (void)unused;
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "bias %d", kind);
    o.bias = (alibi_bias_kind)kind;
    o.factor = true;
    o.tolerance = ALIBI_TOLERANCE;
    call *all = call_new(&o), *few = call_new(&o);
    few->g.slopes = NULL;
    few->g.added = few->g.factor = few->g.offsets = NULL;
    few->a.bias.rows_gradient = NULL;
    call_forward(context, all);
    call_backward(context, all);
    call_forward(context, few);
    call_backward(context, few);
    call_same("dq", few->dq.buffer, all->dq.buffer, all->dq.floats * sizeof(float));
    call_same("dk", few->dk.buffer, all->dk.buffer, all->dk.floats * sizeof(float));
    call_same("dv", few->dv.buffer, all->dv.buffer, all->dv.floats * sizeof(float));
    call_free_all();
  }
}

/* Exactly what was there. */
static void expect_untouched(const call *c, const gradients_before *before)
{
  call_same("dq", c->dq.buffer, before->dq, c->dq.floats * sizeof(float));
  call_same("dk", c->dk.buffer, before->dk, c->dk.floats * sizeof(float));
  call_same("dv", c->dv.buffer, before->dv, c->dv.floats * sizeof(float));
  if (c->g.slopes) call_same("slopes", c->g.slopes, before->slopes, (size_t)c->a.heads * sizeof(double));
  if (c->g.added) call_same("added", c->g.added, before->added, c->table * sizeof(float));
  if (c->g.factor) call_same("factor", c->g.factor, before->factor, c->table * sizeof(float));
  if (c->g.offsets)
    call_same("offsets", c->g.offsets, before->offsets, (size_t)(c->a.keys * c->a.heads) * sizeof(float));
}

static void rows_without_keys_have_no_gradient(void **unused)
{
  (void)unused;
  static const int64_t shapes[][2] = {{70, 0}, {0, 70}, {0, 0}, {90, 80}};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (size_t s = 0; s < 4; s++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d, shape %zu", kind, s);
      o.bias = (alibi_bias_kind)kind;
      o.factor = true;
      o.queries = shapes[s][0];
      o.keys = shapes[s][1];
      o.offset = -200;
      o.tolerance = s % 2 ? ALIBI_TOLERANCE : 0;
      call *c = call_new(&o);
      gradients_before before = copy_gradients(c);
      for (size_t i = 0; i < c->dout.floats; i++) c->dout.buffer[i] = NAN;
      call_forward(context, c);
      call_backward(context, c);
      expect_untouched(c, &before);
      call_free_all();
    }
}

/* Some rows without keys among others that have some. */
static void a_row_without_keys_among_others(void **unused)
{
  (void)unused;
  call_options o = call_defaults();
  strcpy(call_name, "10 rows without keys");
  o.queries = 80;
  o.keys = 70;
  call *c = call_new(&o);
  gradients_before before = copy_gradients(c);
  for (int64_t r = 0; r < 10; r++)
    for (int h = 0; h < o.heads; h++) call_at(&c->dout, r, h)[3] = call_at(&c->q, r, h)[1] = NAN;
  call_forward(context, c);
  call_backward(context, c);
  call_same("dq", c->dq.buffer, before.dq, (size_t)(10 * c->dq.row_stride) * sizeof(float));
  for (size_t i = 0; i < c->dk.floats; i++) assert_true(isfinite(c->dk.buffer[i]) && isfinite(c->dv.buffer[i]));
  for (int h = 0; h < o.heads; h++) assert_true(isfinite(c->g.slopes[h]));
  call_free_all();
}

/* Keys 0 .. 19 and 60 .. 99 of 100 are seen by no query. */
static void unseen_cells_never_reach_a_gradient(void **unused)
{
  (void)unused;
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int skip = 0; skip < 2; skip++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d, skip %d", kind, skip);
      o.bias = (alibi_bias_kind)kind;
      o.factor = true;
      o.queries = 30;
      o.keys = 100;
      o.offset = 30;
      o.window = 11;
      o.tolerance = skip ? ALIBI_TOLERANCE : 0;
      call *clean = call_new(&o), *spoiled = call_new(&o);
      for (int64_t j = 0; j < o.keys; j++)
        for (int h = 0; h < o.heads && (j < 20 || j >= 60); h++)
          for (int channel = 0; channel < o.size; channel++)
            call_at(&spoiled->k, j, h)[channel] = call_at(&spoiled->v, j, h)[channel] = j % 2 ? NAN : INFINITY;
      gradients_before before = copy_gradients(spoiled);
      call_forward(context, clean);
      call_backward(context, clean);
      call_forward(context, spoiled);
      call_backward(context, spoiled);
      formula f = formula_of(&spoiled->g.dout, spoiled->a.visited);
      formula_run(&spoiled->a, &f);
      expect_gradients(spoiled, &f, &before);
      formula_free(&f);
      call_same_rows("dk", &spoiled->dk, 0, &clean->dk, 0, 20);
      call_same_rows("dv", &spoiled->dv, 60, &clean->dv, 60, 40);
      if (!skip)
        expect_untouched(spoiled,
                         &(gradients_before){clean->dq.buffer, clean->dk.buffer, clean->dv.buffer, clean->g.added,
                                             clean->g.factor, clean->g.offsets, clean->g.slopes});
      call_free_all();
    }
}

static const int64_t long_lengths[] = {330, 1, 400, 64};

static void another_document_never_reaches_a_gradient(void **unused)
{
  (void)unused;
  for (int n = 0; n < 4; n++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "document %d", n);
    o.sequences = 4;
    o.query_lengths = o.key_lengths = long_lengths;
    o.both_sides = n % 2;
    o.slopes = call_steep;
    o.tolerance = ALIBI_TOLERANCE;
    call *clean = call_new(&o), *spoiled = call_new(&o);
    int64_t from = clean->a.key_starts[n], to = clean->a.key_starts[n + 1];
    for (int64_t r = 0; r < clean->a.keys; r++)
      for (int h = 0; h < o.heads && (r < from || r >= to); h++)
        for (int channel = 0; channel < o.size; channel++)
          call_at(&spoiled->q, r, h)[channel] = call_at(&spoiled->k, r, h)[channel] =
              call_at(&spoiled->v, r, h)[channel] = call_at(&spoiled->dout, r, h)[channel] = NAN;
    call_forward(context, clean);
    call_backward(context, clean);
    call_forward(context, spoiled);
    call_backward(context, spoiled);
    call_same_rows("dq", &spoiled->dq, from, &clean->dq, from, to - from);
    call_same_rows("dk", &spoiled->dk, from, &clean->dk, from, to - from);
    call_same_rows("dv", &spoiled->dv, from, &clean->dv, from, to - from);
    call_free_all();
  }
}

static void scratch_of_the_caller(const call_options *o)
{
  call_options longer = call_stretched(o, ALIBI_TOLERANCE);
  call *own = call_new(&longer), *given = call_new(&longer);
  size_t bytes = 0;
  call_forward(context, own);
  call_backward(context, own);
  call_forward(context, given);
  assert_int_equal(alibi_attention_backward_scratch(context, &given->a, &given->g, &bytes, &call_error), ALIBI_OK);
  void *scratch = call_memory(bytes, 1);
  memset(scratch, 0xff, bytes);
  gradients_before before = copy_gradients(given);
  if (bytes > 0) {
    assert_int_equal(alibi_attention_backward(context, &given->a, &given->g, scratch, bytes - 1, &call_error),
                     ALIBI_INVALID);
    assert_non_null(strstr(call_error.message, "scratch"));
    expect_untouched(given, &before);
  }
  if (alibi_attention_backward(context, &given->a, &given->g, scratch, bytes, &call_error) != ALIBI_OK)
    fail_msg("%s: %s", call_name, call_error.message);
  expect_untouched(given, &(gradients_before){own->dq.buffer, own->dk.buffer, own->dv.buffer, own->g.added,
                                              own->g.factor, own->g.offsets, own->g.slopes});
}

static void scratch(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), scratch_of_the_caller);
}

/* ---- threads ---- */

static call *run_on(int threads, const call_options *o)
{
  alibi_context *team = call_context(NULL, threads);
  call *c = call_new(o);
  call_forward(team, c);
  call_backward(team, c);
  alibi_context_free(team);
  return c;
}

static void expect_same_call(const call *found, const call *expected)
{
  const call_options *o = &expected->options;
  size_t rows = (size_t)(expected->a.queries * o->heads);
  call_same("out", found->out.buffer, expected->out.buffer, expected->out.floats * sizeof(float));
  call_same("lse", found->a.lse, expected->a.lse, rows * sizeof(float));
  call_same("visited", found->a.visited, expected->a.visited, rows * 2 * sizeof(int32_t));
  call_same("report", &found->report, &expected->report, sizeof found->report);
  expect_untouched(found, &(gradients_before){expected->dq.buffer, expected->dk.buffer, expected->dv.buffer,
                                              expected->g.added, expected->g.factor, expected->g.offsets,
                                              expected->g.slopes});
  if (o->bias == ALIBI_BIAS_ROWS)
    call_same("rows", found->rows.gradient, expected->rows.gradient,
              rows * (size_t)expected->a.keys * sizeof(float));
}

static void the_same_bits_on_any_number_of_threads(void **unused)
{
  (void)unused;
  static const int teams[] = {2, 3, 8, 8};
  static const double slopes[] = {8, 0.5, 0.01, 0};
  static const int64_t lengths[] = {400, 3, 0, 597};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int variant = 0; variant < 4; variant++) {
      call_options o = call_defaults();
      o.bias = (alibi_bias_kind)kind;
      o.factor = true;
      o.slopes = variant == 1 ? slopes + 2 : slopes;
      o.size = 16;
      o.heads = variant == 1 ? 1 : 4;
      o.kv_heads = variant == 2 ? 1 : 0;
      o.queries = o.keys = 1000;
      o.tolerance = ALIBI_TOLERANCE;
      if (variant == 3) {
        o.sequences = 4;
        o.query_lengths = o.key_lengths = lengths;
        o.both_sides = true;
      }
      if (kind == ALIBI_BIAS_ROWS && variant != 1) o.queries = o.keys = 500;
      call *one = run_on(1, &o);
      for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        snprintf(call_name, sizeof call_name, "bias %d, variant %d, %d threads", kind, variant, teams[t]);
        expect_same_call(run_on(teams[t], &o), one);
      }
      call_free_all();
    }
}

static void decoding_has_the_same_bits_on_any_number_of_threads(void **unused)
{
  (void)unused;
  static const int teams[] = {1, 2, 3, 8};
  static const double slopes[] = {0.01, 8, 0.5, 0};
  for (int heads = 1; heads <= 4; heads += 3)
    for (int64_t queries = 1; queries <= 9; queries += 8) {
      call_options o = call_defaults();
      o.heads = heads;
      o.slopes = slopes;
      o.size = 16;
      o.queries = queries;
      o.keys = 1000;
      o.tolerance = ALIBI_TOLERANCE;
      call *first = NULL;
      for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        alibi_context *team = call_context(NULL, teams[t]);
        alibi_cache *cache;
        call *c = call_new(&o);
        snprintf(call_name, sizeof call_name, "%d heads, %lld queries, %d threads", heads, (long long)queries,
                 teams[t]);
        assert_int_equal(alibi_cache_new(team, heads, o.size, o.keys, &cache, &call_error), ALIBI_OK);
        assert_int_equal(alibi_cache_append(cache, &c->a.k, &c->a.v, o.keys, &call_error), ALIBI_OK);
        if (alibi_attention_decode(team, &c->a, &cache, NULL, 0, &call_error) != ALIBI_OK)
          fail_msg("%s: %s", call_name, call_error.message);
        alibi_cache_free(cache);
        alibi_context_free(team);
        if (first) {
          call_same("out", c->out.buffer, first->out.buffer, c->out.floats * sizeof(float));
          call_same("lse", c->a.lse, first->a.lse, (size_t)(queries * heads) * sizeof(float));
          call_same("report", &c->report, &first->report, sizeof c->report);
        } else {
          first = c;
        }
      }
      call_free_all();
    }
}

static int setup(void **unused)
{
  (void)unused;
  context = call_context(NULL, 2);
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_context_free(context);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_formula_is_its_finite_differences),
      cmocka_unit_test(every_pair_of_options),
      cmocka_unit_test(head_sizes),
      cmocka_unit_test(every_instruction_set),
      cmocka_unit_test(slope_gradients_hold_five_digits),
      cmocka_unit_test(gradients_that_are_not_wanted),
      cmocka_unit_test(rows_without_keys_have_no_gradient),
      cmocka_unit_test(a_row_without_keys_among_others),
      cmocka_unit_test(unseen_cells_never_reach_a_gradient),
      cmocka_unit_test(another_document_never_reaches_a_gradient),
      cmocka_unit_test(scratch),
      cmocka_unit_test(the_same_bits_on_any_number_of_threads),
      cmocka_unit_test(decoding_has_the_same_bits_on_any_number_of_threads),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
