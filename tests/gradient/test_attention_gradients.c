/* The gradients of the public attention operator, for every option and every pair of options.
 *
 * The analytic gradients of the formula, in double, are held against finite differences of the formula; the
 * library is then held against the analytic ones, number by number, with the slack that fp32 needs.  Threads:
 * test_attention_threads.c. */
#include "unit/attention_expect.h"

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
    const char *place = array ? (const char *)array + at * bytes : NULL;
    expect_difference(what, c, place, array ? -1 : (int64_t)at, n->value[at]);
  }
}

static void formula_is_its_differences(const call_options *o)
{
  call_options small = shrunk(o);
  call *c = call_new(&small);
  formula f = formula_of(&c->a, &c->g.dout, NULL);
  expect_differences_of_tensor("dq", c, &c->q, &f.dq);
  expect_differences_of_tensor("dk", c, &c->k, &f.dk);
  expect_differences_of_tensor("dv", c, &c->v, &f.dv);
  const alibi_bias *b = &c->a.bias;
  if (b->kind == ALIBI_BIAS_SLOPE && b->slopes)
    expect_differences_of_array("slopes", c, b->slopes, sizeof(double), &f.slopes);
  if (b->kind == ALIBI_BIAS_DISTANCE) expect_differences_of_array("added", c, b->added, sizeof(float), &f.added);
  if (b->factor) expect_differences_of_array("factor", c, b->factor, sizeof(float), &f.factor);
  if (b->kind == ALIBI_BIAS_KEY) expect_differences_of_array("offsets", c, b->offsets, sizeof(double), &f.offsets);
  if (b->kind == ALIBI_BIAS_ROWS) expect_differences_of_array("rows", c, NULL, 0, &f.rows);
  formula_free(&f);
}

static void the_formula_is_its_finite_differences(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), formula_is_its_differences);
}

/* ---- the library against the formula ---- */

static void backward_is_the_formula(const call_options *o)
{
  for (int skip = 0; skip < (call_skips() ? 2 : 1); skip++) {
    call_options one = skip ? call_stretched(o, o->seed % 2 ? ALIBI_TOLERANCE : 1e-3) : *o;
    call *c = call_new(&one);
    call_gradients before = call_gradients_copy(c);
    call_forward(c);
    if (!skip && o->seed % 3 == 0) c->a.visited = NULL; /* at tolerance 0 it may be missing */
    call_backward(c);
    formula f = formula_of(&c->a, &c->g.dout, skip ? c->a.visited : NULL);
    call_expect_gradients(c, &f, &before);
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

static void every_option_on(const char *isa)
{
  call_for_every_option(isa, backward_is_the_formula);
}

static void every_instruction_set(void **unused)
{
  (void)unused;
  call_on_every_isa(every_option_on);
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
      call_forward(c);
      call_backward(c);
      formula f = formula_of(&c->a, &c->g.dout, NULL);
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
    call_forward(all);
    call_backward(all);
    call_forward(few);
    call_backward(few);
    call_same_tensor("dq", &few->dq, &all->dq);
    call_same_tensor("dk", &few->dk, &all->dk);
    call_same_tensor("dv", &few->dv, &all->dv);
    call_free_all();
  }
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
      call_gradients before = call_gradients_copy(c);
      for (size_t i = 0; i < c->dout.floats; i++) c->dout.buffer[i] = NAN;
      call_forward(c);
      call_backward(c);
      call_same_gradients(c, before);
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
  call_gradients before = call_gradients_copy(c);
  for (int64_t r = 0; r < 10; r++)
    for (int h = 0; h < o.heads; h++) call_at(&c->dout, r, h)[3] = call_at(&c->q, r, h)[1] = NAN;
  call_forward(c);
  call_backward(c);
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
      const call_tensor *keys_and_values[] = {&spoiled->k, &spoiled->v};
      for (int i = 0; i < 2; i++) {
        call_spoil(keys_and_values[i], 0, 20);
        call_spoil(keys_and_values[i], 60, o.keys);
      }
      call_gradients before = call_gradients_copy(spoiled);
      call_forward(clean);
      call_backward(clean);
      call_forward(spoiled);
      call_backward(spoiled);
      formula f = formula_of(&spoiled->a, &spoiled->g.dout, spoiled->a.visited);
      call_expect_gradients(spoiled, &f, &before);
      formula_free(&f);
      call_same_rows("dk", &spoiled->dk, 0, &clean->dk, 0, 20);
      call_same_rows("dv", &spoiled->dv, 60, &clean->dv, 60, 40);
      if (!skip)
        call_same_gradients(spoiled, call_gradients_of(clean));
      call_free_all();
    }
}

static void another_document_never_reaches_a_gradient(void **unused)
{
  (void)unused;
  for (int n = 0; n < 4; n++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "document %d", n);
    o.sequences = 4;
    o.query_lengths = o.key_lengths = call_documents;
    o.both_sides = n % 2;
    o.slopes = call_steep;
    o.tolerance = ALIBI_TOLERANCE;
    call *clean = call_new(&o);
    int64_t from = clean->a.key_starts[n], to = clean->a.key_starts[n + 1];
    call *spoiled = call_new_spoilt_around(&o, from, to);
    call_forward(clean);
    call_backward(clean);
    call_forward(spoiled);
    call_backward(spoiled);
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
  call_forward(own);
  call_backward(own);
  call_forward(given);
  assert_int_equal(alibi_attention_backward_scratch(context, &given->a, &given->g, &bytes, &call_error), ALIBI_OK);
  void *scratch = call_memory(bytes, 1);
  memset(scratch, 0xff, bytes);
  call_gradients before = call_gradients_copy(given);
  if (bytes > 0) {
    assert_int_equal(alibi_attention_backward(context, &given->a, &given->g, scratch, bytes - 1, &call_error),
                     ALIBI_INVALID);
    assert_non_null(strstr(call_error.message, "scratch"));
    call_same_gradients(given, before);
  }
  call_ok("backward", alibi_attention_backward(context, &given->a, &given->g, scratch, bytes, &call_error));
  call_same_gradients(given, call_gradients_of(own));
}

static void scratch(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), scratch_of_the_caller);
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
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
