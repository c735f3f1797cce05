/* Attention forward against the formula: every head size, shapes around the tiles, every option with every other,
 * scores in the hundreds, rows without keys; and the small functions beside it. */
#include "attention_case.h"

static void expect_all_visited(const char *isa, const attention_head *h)
{
  for (size_t r = 0; r < h->queries; r++) {
    int32_t from = 0, to = 0;
    for (size_t j = 0; j < h->keys; j++) {
      if (!sees(h, r, j)) continue;
      if (to == 0) from = (int32_t)(j / ATTENTION_BLOCK);
      to = (int32_t)(j / ATTENTION_BLOCK) + 1;
    }
    const int32_t *visited = h->visited + 2 * r * h->row_stride;
    if (visited[0] != from || visited[1] != to)
      fail_msg("visited, %s: row %zu: expected %d .. %d, found %d .. %d", isa, r, from, to, visited[0],
               visited[1]);
  }
}

static void check_against_formula(const kernel_table *t, const attention_head *h)
{
  attention_tally tally = {0};
  attention_head own = *h;
  own.tally = &tally;
  run_forward(t, &own);
  expect_formula(t, h, NULL);
  expect_all_visited(t->name, h);
  expect_tally(t->name, h, &tally);
  assert_true(tally.skipped == 0);
}

static void formula_at_every_head_size(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d <= 256; d += d < 130 ? 1 : 7) {
        attention_options o = {.queries = 1 + d % 7,
                               .keys = 3 + d % 11,
                               .first = (ptrdiff_t)(d % 5),
                               .head_size = d,
                               .bias = (bias_kind)(d % 5),
                               .blocks = d % 2,
                               .gap = d % 4,
                               .spread = 3};
        attention_head h = make_head(&o);
        check_against_formula(t, &h);
        guarded_free();
      }
}

static void formula_around_the_tiles(void **unused)
{
  (void)unused;
  for_shapes_around_the_tiles(check_against_formula);
}

static void formula_with_all_options(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for_all_options(t, check_against_formula);
}

/* The reference table stands on its own feet: it is compared with the formula, too. */
static void formula_on_the_reference(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    for_all_options(reference_table(), check_against_formula);
}

/* Scores in the hundreds: the running maximum does its work, the weights below exp(-104) are true zeros. */
static void large_scores(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int both_sides = 0; both_sides < 2; both_sides++) {
      attention_options o = {.queries = 150,
                             .keys = 150,
                             .head_size = 20,
                             .bias = BIAS_SLOPE,
                             .both_sides = both_sides,
                             .spread = 2000};
      attention_head h = make_head(&o);
      h.slope = 3;
      check_against_formula(t, &h);
      guarded_free();
    }
}

/* A bias is a bias, however negative: a row that sees one key gives its value. */
static void bias_is_a_number(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {.queries = 3, .keys = 1, .head_size = 9, .bias = BIAS_DISTANCE, .spread = 1};
    attention_head h = make_head(&o);
    float *table = distance_table(&h, -FLT_MAX);
    h.table = table;
    run_forward(t, &h);
    for (size_t r = 0; r < 3; r++) {
      expect_bits("the only value", t->name, 9, h.out + r * h.out_stride, h.v);
      assert_true(h.lse[r] <= -FLT_MAX * 0.999f && isfinite(h.lse[r]));
    }
    guarded_free();
  }
}

static void no_key_gives_nothing(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  for (size_t k = 0; k < kernel_table_count(); k++) {
    const kernel_table *t = kernel_table_at(k);
    if (!t) continue;
    attention_options o = {.queries = 5, .first = 9, .head_size = 17, .bias = BIAS_SLOPE, .spread = 1};
    attention_head none = make_head(&o);
    o.keys = 3;
    o.window = 2;
    attention_head beyond = make_head(&o), *heads[] = {&none, &beyond};
    for (size_t i = 0; i < 2; i++) {
      attention_head h = *heads[i];
      run_forward(t, &h);
      for (size_t r = 0; r < 5; r++) {
        assert_true(h.lse[r * h.row_stride] == -INFINITY);
        assert_true(h.visited[2 * r * h.row_stride] == 0 && h.visited[2 * r * h.row_stride + 1] == 0);
        for (size_t c = 0; c < 17; c++) assert_true(h.out[r * h.out_stride + c] == 0);
      }
    }
    o.queries = 0;
    attention_head nobody = make_head(&o);
    run_forward(t, &nobody);
    guarded_free();
  }
}

/* visited, lse and tally are written only where they are wanted; a tally is added to. */
static void outputs_not_wanted(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {
        .queries = 70, .keys = 150, .first = 80, .head_size = 20, .bias = BIAS_SLOPE, .spread = 4};
    attention_head h = make_head(&o);
    attention_tally once = {0}, twice = {1, 2, 3, 4, 0.25, 5};
    h.tally = &once;
    run_forward(t, &h);
    h.tally = &twice;
    run_forward(t, &h);
    h.tally = NULL;
    assert_true(twice.pairs_visible == once.pairs_visible + 1 && twice.pairs_visited == once.pairs_visited + 2 &&
                twice.blocks_visible == once.blocks_visible + 3 &&
                twice.blocks_visited == once.blocks_visited + 4 && twice.skipped == 0.25 && twice.missed == 5);
    attention_head own = h;
    own.out = filled_floats(span(70, 20, h.out_stride), 7);
    own.visited = NULL;
    own.lse = NULL;
    run_forward(t, &own);
    expect_bits("out", t->name, span(70, 20, h.out_stride), own.out, h.out);
    guarded_free();
  }
}

/* ---- beside attention: turned blocks, delta ---- */

static void turned_blocks(void **unused)
{
  (void)unused;
  enum { B = ATTENTION_BLOCK };
  static const size_t counts[] = {1, 7, 16, 33, 63, 64};
  FOR_EACH_EDGE
    for (size_t k = 0; k < kernel_table_count(); k++)
      for (size_t i = 0; kernel_table_at(k) && i < 6; i++)
        for (size_t d = 1; d < 140; d += d < 20 ? 1 : 17) {
          const kernel_table *t = kernel_table_at(k);
          size_t stride = d + i % 3;
          float *key = random_floats(span(counts[i], d, stride)), *turned = filled_floats(B * d, NAN);
          t->attention_turn(counts[i], d, key, stride, turned);
          for (size_t c = 0; c < d; c++)
            for (size_t j = 0; j < B; j++)
              assert_true(turned[c * B + j] == (j < counts[i] ? key[j * stride + c] : 0));
          guarded_free();
        }
}

static void deltas(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d < 140; d += d < 20 ? 1 : 17) {
        attention_options o = {.queries = 40, .keys = 1, .head_size = d, .gap = d % 3};
        attention_head h = make_head(&o);
        h.out = random_floats(span(40, d, h.out_stride));
        h.dout = random_floats(span(40, d, h.dout_stride));
        float *delta = filled_floats(span(40, 1, h.row_stride), 7);
        t->attention_delta(&h, 3, 37, delta);
        for (size_t r = 0; r < 40; r++) {
          double terms, exact = dot_terms(d, h.out + r * h.out_stride, h.dout + r * h.dout_stride, &terms);
          bool given = r >= 3 && r < 37;
          expect_near("delta", t->name, r, delta[r * h.row_stride], given ? exact : 7,
                      given ? reduction(d, terms) : 0);
        }
        guarded_free();
      }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formula_on_the_reference), cmocka_unit_test(formula_at_every_head_size),
      cmocka_unit_test(formula_around_the_tiles), cmocka_unit_test(formula_with_all_options),
      cmocka_unit_test(large_scores),             cmocka_unit_test(bias_is_a_number),
      cmocka_unit_test(no_key_gives_nothing),     cmocka_unit_test(outputs_not_wanted),
      cmocka_unit_test(turned_blocks),            cmocka_unit_test(deltas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
