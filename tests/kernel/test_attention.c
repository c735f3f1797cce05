/* Attention forward: against the formula, against itself in other chunks and from key blocks, and with numbers
 * that are not finite where no query may look. */
#include "attention_case.h"

static float *scratch_for(const kernel_table *t, size_t head_size)
{
  size_t n = t->attention_scratch(head_size);
  return filled_floats(n, NAN); /* it promises nothing about what it finds there */
}

static void check_against_formula(const kernel_table *t, const attention_head *h)
{
  double *weights = malloc((h->keys + 1) * sizeof *weights), *slack = malloc((h->keys + 1) * sizeof *slack);
  t->attention_forward(h, scratch_for(t, h->head_size));
  for (size_t r = 0; r < h->queries; r++) {
    size_t end = visible_keys(h, r);
    double lse = formula_row(h, r, weights, slack), relative = 0;
    for (size_t j = 0; j < end; j++) relative += weights[j] * (slack[j] + 4 * EPS);
    relative += reduction(end, 1);
    expect_near("lse", t->name, r, h->lse[r * h->lse_stride], lse, relative + 2 * EPS * fabs(lse));
    for (size_t c = 0; c < h->head_size; c++) {
      double sum = 0, bound = 0, terms = 0;
      for (size_t j = 0; j < end; j++) {
        double value = h->v[j * h->k_stride + c];
        sum += weights[j] * value;
        terms += weights[j] * fabs(value);
        bound += weights[j] * fabs(value) * (slack[j] + 4 * EPS);
      }
      bound += terms * relative + reduction(end, terms);
      expect_near("out", t->name, r * h->head_size + c, h->out[r * h->out_stride + c], sum, bound);
    }
    for (size_t c = h->head_size; c < h->out_stride && r + 1 < h->queries; c++)
      assert_true(h->out[r * h->out_stride + c] == 7);
  }
  free(weights);
  free(slack);
}

static void formula_at_every_head_size(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d <= 130; d++) {
        attention_options o = {.queries = 1 + d % 7, .keys = 3 + d % 11, .first = d % 5, .head_size = d,
                               .bias = (bias_kind)(d % 3), .blocks = d % 2, .gap = d % 4, .spread = 3};
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

/* Scores in the hundreds: the running maximum does its work, the weights below exp(-104) are true zeros. */
static void large_scores(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {.queries = 150, .keys = 150, .head_size = 20, .bias = BIAS_SLOPE, .spread = 2000};
    attention_head h = make_head(&o);
    h.slope = 3;
    check_against_formula(t, &h);
    guarded_free();
  }
}

static void no_key_gives_nothing(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {.queries = 5, .keys = 0, .first = 9, .head_size = 17, .bias = BIAS_SLOPE, .spread = 1};
    attention_head h = make_head(&o);
    t->attention_forward(&h, scratch_for(t, 17));
    for (size_t r = 0; r < 5; r++) {
      assert_true(h.lse[r * h.lse_stride] == -INFINITY);
      for (size_t c = 0; c < 17; c++) assert_true(h.out[r * h.out_stride + c] == 0);
    }
    o.queries = 0;
    o.keys = 6;
    h = make_head(&o);
    t->attention_forward(&h, scratch_for(t, 17));
    guarded_free();
  }
}

/* The head cut down to the queries from .. to-1, writing to memory of its own. */
static attention_head part_of(const attention_head *h, size_t from, size_t to)
{
  attention_head p = *h;
  p.queries = to - from;
  p.first = h->first + from;
  p.q = h->q + from * h->q_stride;
  p.out = filled_floats(span(p.queries, p.head_size, p.out_stride), 7);
  p.lse = filled_floats(span(p.queries, 1, p.lse_stride), 7);
  return p;
}

static void check_chunks(const kernel_table *t, const attention_head *h)
{
  static const size_t chunks[] = {1, 7, 64, 100};
  float *scratch = scratch_for(t, h->head_size);
  t->attention_forward(h, scratch);
  for (size_t k = 0; k < 4; k++)
    for (size_t from = 0; from < h->queries; from += chunks[k]) {
      size_t to = from + chunks[k] < h->queries ? from + chunks[k] : h->queries, before = guard_count;
      for (int later = 0; later < 2; later++) { /* also with no keys yet beyond the chunk, as in a cache */
        attention_head p = part_of(h, from, to);
        if (later && p.first + p.queries < p.keys) p.keys = p.first + p.queries;
        t->attention_forward(&p, scratch);
        for (size_t r = from; r < to; r++) {
          expect_bits("row in a chunk", t->name, h->head_size, p.out + (r - from) * p.out_stride,
                      h->out + r * h->out_stride);
          expect_bits("lse in a chunk", t->name, 1, p.lse + (r - from) * p.lse_stride, h->lse + r * h->lse_stride);
        }
      }
      for (; guard_count > before; guard_count--)
        munmap(guards[guard_count - 1].map, guards[guard_count - 1].bytes);
    }
}

static void rows_keep_their_bits_in_chunks(void **unused)
{
  (void)unused;
  static const size_t sizes[] = {1, 3, 7, 16, 17, 32, 64, 80, 127, 128, 130};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 11; k++)
      for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++) {
        size_t first = k % 3 * 37;
        attention_options o = {.queries = 200, .keys = 200 + first, .first = first, .head_size = sizes[k],
                               .bias = (bias_kind)bias, .gap = k % 2, .spread = 4};
        attention_head h = make_head(&o);
        check_chunks(t, &h);
        float *out = copied_floats(span(h.queries, h.head_size, h.out_stride), h.out);
        cut_into_blocks(&h);
        check_chunks(t, &h);
        expect_bits("from key blocks", t->name, span(h.queries, h.head_size, h.out_stride), h.out, out);
        guarded_free();
      }
}

/* Exactly 0 times anything must not leave a trace either: values of 0, and a row whose weights underflow. */
static void rows_keep_the_sign_of_zero(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {.queries = 100, .keys = 100, .head_size = 9, .bias = BIAS_SLOPE, .spread = 4};
    attention_head h = make_head(&o);
    float *v = copied_floats(span(h.keys, h.head_size, h.k_stride), h.v);
    for (size_t i = 0; i < span(h.keys, h.head_size, h.k_stride); i++)
      v[i] = i % 3 == 0 ? -0.0f : i % 3 == 1 ? -1e-45f : 0.0f;
    h.v = v;
    check_chunks(t, &h);
    guarded_free();
  }
}

/* Where no query looks there may be anything. */
static void what_is_hidden_stays_hidden(void **unused)
{
  (void)unused;
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++)
      for (size_t poisoned = 1; poisoned < 90; poisoned += 11) {
        attention_options o = {.queries = 90, .keys = 90, .head_size = 19, .bias = (bias_kind)bias, .spread = 4,
                               .blocks = poisoned % 2};
        attention_head h = make_head(&o);
        float *scratch = scratch_for(t, 19);
        t->attention_forward(&h, scratch);
        attention_head p = part_of(&h, 0, h.queries);
        float *k = copied_floats(span(h.keys, 19, h.k_stride), h.k),
              *v = copied_floats(span(h.keys, 19, h.k_stride), h.v);
        k[poisoned * h.k_stride + 5] = poisons[poisoned % 3];
        v[poisoned * h.k_stride + 18] = poisons[poisoned % 3];
        p.k = k;
        p.v = v;
        if (o.blocks) cut_into_blocks(&p);
        t->attention_forward(&p, scratch);
        for (size_t r = 0; r < h.queries; r++) {
          const float *row = p.out + r * p.out_stride;
          if (r < poisoned)
            expect_bits("before the poison", t->name, 19, row, h.out + r * h.out_stride);
          else
            assert_true(!isfinite(row[18]));
        }
        guarded_free();
      }
}

/* The reference table stands on its own feet: it is compared with the formula, too. */
static void reference(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  for (int bias = BIAS_NONE; bias <= BIAS_DISTANCE; bias++) {
    attention_options o = {.queries = 30,
                           .keys = 70,
                           .first = 40,
                           .head_size = 12,
                           .bias = (bias_kind)bias,
                           .spread = 4,
                           .blocks = bias == BIAS_SLOPE};
    attention_head h = make_head(&o);
    check_against_formula(reference_table(), &h);
    guarded_free();
  }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formula_at_every_head_size),     cmocka_unit_test(formula_around_the_tiles),
      cmocka_unit_test(large_scores),                   cmocka_unit_test(no_key_gives_nothing),
      cmocka_unit_test(rows_keep_their_bits_in_chunks), cmocka_unit_test(rows_keep_the_sign_of_zero),
      cmocka_unit_test(what_is_hidden_stays_hidden),    cmocka_unit_test(reference),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
