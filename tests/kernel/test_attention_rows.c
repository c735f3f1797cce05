/* What a row of attention may depend on: not on the rows beside it, on chunks or on how keys are stored; and not
 * on what it does not see, be it infinite or no number. */
#include "attention_case.h"

static void rows_keep_their_bits_in_chunks(void **unused)
{
  (void)unused;
  static const size_t sizes[] = {1, 3, 7, 16, 17, 32, 64, 80, 127, 128, 130, 256};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 12; k++)
      for (int bias = BIAS_NONE; bias <= BIAS_ROWS; bias++) {
        size_t first = k % 3 * 37, queries = k % 4 ? 200 : 330;
        attention_options o = {.queries = queries,
                               .keys = queries + first,
                               .first = (ptrdiff_t)first,
                               .head_size = sizes[k],
                               .bias = (bias_kind)bias,
                               .both_sides = (k + (size_t)bias) % 2,
                               .gap = k % 2,
                               .spread = 4};
        attention_head h = make_head(&o);
        check_chunks(t, &h);
        float *out = copied_floats(span(h.queries, h.head_size, h.out_stride), h.out);
        cut_into_blocks(&h, NAN);
        check_chunks(t, &h);
        expect_bits("from key blocks", t->name, span(h.queries, h.head_size, h.out_stride), h.out, out);
        guarded_free();
      }
}

static void rows_keep_their_bits_with_all_options(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for_all_options(t, check_chunks);
}

/* Exactly 0 times anything must not leave a trace either: values of 0, and a row whose weights underflow. */
static void rows_keep_the_sign_of_zero(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int both_sides = 0; both_sides < 2; both_sides++) {
      attention_options o = {
          .queries = 100, .keys = 100, .head_size = 9, .bias = BIAS_SLOPE, .both_sides = both_sides, .spread = 4};
      attention_head h = make_head(&o);
      float *v = copied_floats(span(h.keys, h.head_size, h.v_stride), h.v);
      for (size_t i = 0; i < span(h.keys, h.head_size, h.v_stride); i++)
        v[i] = i % 3 == 0 ? -0.0f : i % 3 == 1 ? -1e-45f : 0.0f;
      h.v = v;
      check_chunks(t, &h);
      guarded_free();
    }
}

/* The head with one key and its value spoilt, writing to memory of its own. */
static attention_head poisoned_head(const attention_head *h, size_t j, float poison)
{
  size_t d = h->head_size;
  attention_head p = part_of(h, 0, h->queries);
  float *k = copied_floats(span(h->keys, d, h->k_stride), h->k),
        *v = copied_floats(span(h->keys, d, h->v_stride), h->v);
  k[j * h->k_stride + d / 4] = poison;
  v[j * h->v_stride + d - 1] = poison;
  p.k = k;
  p.v = v;
  if (h->key_blocks) cut_into_blocks(&p, poison);
  return p;
}

static void check_poison(const kernel_table *t, const attention_head *h)
{
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  float *scratch = scratch_for(t, h->head_size);
  run_forward_in(scratch, t, h);
  for (size_t j = h->queries % 13; j < h->keys; j += h->keys < 100 ? 11 : 47) {
    size_t before = guard_count;
    attention_head p = poisoned_head(h, j, poisons[j % 3]);
    run_forward_in(scratch, t, &p);
    for (size_t r = 0; r < h->queries; r++) {
      const float *row = p.out + r * p.out_stride;
      if (sees(h, r, j)) {
        assert_false(isfinite(row[h->head_size - 1]));
        continue;
      }
      expect_bits("out where nothing spoilt is seen", t->name, h->head_size, row, h->out + r * h->out_stride);
      expect_bits("lse where nothing spoilt is seen", t->name, 1, p.lse + r * p.row_stride,
                  h->lse + r * h->row_stride);
    }
    guarded_free_to(before);
  }
}

static void what_is_hidden_stays_hidden(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for_all_options(t, check_poison);
}

/* Near the diagonal, and at the ends of windows. */
static void hidden_on_the_diagonal(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int bias = BIAS_NONE; bias <= BIAS_ROWS; bias++)
      for (size_t window = 0; window < 40; window += 13) {
        attention_options o = {.queries = 90,
                               .keys = 90,
                               .head_size = 19,
                               .bias = (bias_kind)bias,
                               .window = window,
                               .both_sides = window == 26,
                               .spread = 4,
                               .blocks = window % 2};
        attention_head h = make_head(&o);
        check_poison(t, &h);
        guarded_free();
      }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_keep_their_bits_in_chunks), cmocka_unit_test(rows_keep_their_bits_with_all_options),
      cmocka_unit_test(rows_keep_the_sign_of_zero),     cmocka_unit_test(what_is_hidden_stays_hidden),
      cmocka_unit_test(hidden_on_the_diagonal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
