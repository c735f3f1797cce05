/* Linear operations and embeddings of weights that lie in parts: the bits are those of the same weight in fp32,
 * for every type, layout, number of rows and of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kernel/weight_plain.h"
#include "op/op.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "threads.h"

enum { PARTS_MAX = 6, ROWS_MAX = 100 };

/* A weight in parts, and the same in fp32. */
typedef struct subject {
  matrix_part parts[PARTS_MAX];
  size_t count, rows, columns;
  unsigned char *data[PARTS_MAX];
  float *scales[PARTS_MAX];
  float *plain;
} subject;

static alibi_context *context_of(const char *isa, int threads)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  threads_share_all_work(context);
  return context;
}

static float *numbers(size_t n, uint64_t stream)
{
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = (float)random_normal(5, stream, i);
  return x;
}

/* Random bits are a weight of any type; scales in half precision are made of a usual size. */
static void fill(weight_type type, unsigned char *to, size_t blocks, uint64_t stream)
{
  static const int at[WEIGHT_TYPES][2] = {[WEIGHT_Q4_1] = {0, 2}, [WEIGHT_Q5_1] = {0, 2}, [WEIGHT_Q4_K] = {0, 2},
                                          [WEIGHT_Q5_K] = {0, 2}, [WEIGHT_Q6_K] = {208, 208}};
  size_t size = weight_block_bytes(type);
  for (size_t b = 0; b < blocks; b++, to += size) {
    float x = (float)random_normal(6, stream, b);
    if (weight_block_elements(type) == 1) {
      weight_narrow(type, 1, &x, to);
      continue;
    }
    for (size_t i = 0; i < size; i++) to[i] = (unsigned char)random_below(7, stream, b * 256 + i, 256);
    for (int s = 0; s < 2; s++) weight_narrow(WEIGHT_F16, 1, &x, to + at[type][s]);
  }
}

/* `rows` more rows.  Rows lie a few odd bytes apart, so that they are not aligned. */
static void add_part(subject *s, weight_type type, size_t rows, size_t group, bool turned, bool scaled)
{
  assert_true(s->count < PARTS_MAX);
  size_t blocks = s->columns / weight_block_elements(type), bytes = blocks * weight_block_bytes(type);
  size_t element = weight_block_bytes(type), between = turned ? rows * element + 1 : bytes + 3;
  size_t groups = group ? rows / group : 1, apart = group ? group * between + 7 : 0;
  size_t total = (turned ? s->columns * between : groups * (apart + (group ? 0 : rows * between))) + 1;
  unsigned char *data = calloc(total, 1), *line = malloc(bytes);
  float *scales = numbers(rows, 90 + s->count);
  assert_true(data && line && (s->plain = realloc(s->plain, (s->rows + rows) * s->columns * sizeof(float))));
  for (size_t r = 0; r < rows; r++) {
    float *plain = s->plain + (s->rows + r) * s->columns;
    fill(type, line, blocks, 1000 * s->count + r);
    weight_widen(type, s->columns, line, plain);
    for (size_t c = 0; scaled && c < s->columns; c++) plain[c] *= scales[r];
    for (size_t c = 0; turned && c < s->columns; c++)
      memcpy(data + 1 + c * between + r * element, line + c * element, element);
    size_t at = group ? r / group * apart + r % group * between : r * between;
    if (!turned) memcpy(data + 1 + at, line, bytes);
  }
  free(line);
  s->parts[s->count] = (matrix_part){type, rows, data + 1, between, group, apart, turned, scaled ? scales : NULL};
  s->data[s->count] = data;
  s->scales[s->count++] = scales;
  s->rows += rows;
}

static void drop(subject *s)
{
  for (size_t i = 0; i < s->count; i++) {
    free(s->data[i]);
    free(s->scales[i]);
  }
  free(s->plain);
}

static void expect_same(const char *what, const char *isa, size_t n, const float *found, const float *expected)
{
  for (size_t i = 0; i < n; i++)
    if (memcmp(found + i, expected + i, sizeof *found) != 0)
      fail_msg("%s, %s: number %zu of %zu: expected the bits of %a, found %a", isa, what, i, n,
               (double)expected[i], (double)found[i]);
}

static void multiply(alibi_context *context, size_t rows, const subject *s, const matrix *w, const float *x,
                     const float *bias, const float *addend, float *y)
{
  size_t stride = s->rows + 3;
  op_workspace work = {malloc(op_linear_panel_floats(context, rows, s->rows, s->columns) * sizeof(float))};
  assert_non_null(work.panels);
  for (size_t i = 0; i < ROWS_MAX * stride; i++) y[i] = addend ? addend[i] : -1;
  op_linear_forward(context, &work, rows, x, s->columns + 1, w, bias, addend ? y : NULL, y, stride);
  free(work.panels);
}

static void check_products(const char *isa, const subject *s)
{
  static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, ROWS_MAX};
  size_t stride = s->rows + 3;
  float *x = numbers(ROWS_MAX * (s->columns + 1), 1), *bias = numbers(s->rows, 2);
  float *add = numbers(ROWS_MAX * stride, 3);
  float *expected = malloc(2 * ROWS_MAX * stride * sizeof *expected), *found = expected + ROWS_MAX * stride;
  assert_non_null(expected);
  matrix parts = matrix_of_parts(s->parts, s->count, s->rows, s->columns);
  matrix plain = matrix_f32(s->plain, s->rows, s->columns);
  for (int addend = 0; addend < 2; addend++) {
    alibi_context *one = context_of(isa, 1);
    multiply(one, ROWS_MAX, s, &plain, x, bias, addend ? add : NULL, expected);
    float *panels = malloc(op_panel_floats(one, s->columns, s->rows) * sizeof *panels);
    assert_non_null(panels);
    op_pack_weight(one, &parts, panels);
    matrix packed = parts;
    packed.packed = panels;
    multiply(one, ROWS_MAX, s, &packed, x, bias, addend ? add : NULL, found);
    if (strcmp(isa, "reference") != 0) /* which rounds once a slab */
      expect_same("packed", isa, ROWS_MAX * stride, found, expected);
    free(panels);
    alibi_context_free(one);
    for (int threads = 1; threads <= 3; threads++) {
      alibi_context *context = context_of(isa, threads);
      for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        multiply(context, rows[i], s, &parts, x, bias, addend ? add : NULL, found);
        expect_same("product", isa, rows[i] * stride - 3, found, expected);
      }
      alibi_context_free(context);
    }
  }
  free(x), free(bias), free(add), free(expected);
}

static void check_embeddings(const char *isa, const subject *s)
{
  enum { ROWS = 70 };
  uint32_t tokens[ROWS];
  for (size_t i = 0; i < ROWS; i++) tokens[i] = (uint32_t)random_below(8, 1, i, s->rows);
  float *expected = malloc(2 * ROWS * s->columns * sizeof *expected), *found = expected + ROWS * s->columns;
  assert_non_null(expected);
  matrix parts = matrix_of_parts(s->parts, s->count, s->rows, s->columns);
  matrix plain = matrix_f32(s->plain, s->rows, s->columns);
  alibi_context *context = context_of(isa, 2);
  op_embedding_forward(context, ROWS, s->columns, tokens, NULL, 1.5f, &plain, NULL, expected);
  op_embedding_forward(context, ROWS, s->columns, tokens, NULL, 1.5f, &parts, NULL, found);
  expect_same("embedding", isa, ROWS * s->columns, found, expected);
  alibi_context_free(context);
  free(expected);
}

static void check(subject *s)
{
  for (size_t i = 0; i < kernel_table_count(); i++) {
    if (!kernel_table_at(i)) continue;
    check_products(kernel_table_at(i)->name, s);
    check_embeddings(kernel_table_at(i)->name, s);
  }
  drop(s);
}

/* Panels that are full, narrow, and one row; one block and several. */
static void every_type_is_multiplied(void **unused)
{
  (void)unused;
  static const size_t rows[] = {1, 31, 33, 75, 277}, blocks[] = {1, 5, 3, 2, 1};
  for (int type = 0; type < WEIGHT_TYPES; type++)
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      size_t block = weight_block_elements((weight_type)type);
      subject s = {.columns = blocks[i] * (block == 1 ? 37 : block)};
      add_part(&s, (weight_type)type, rows[i], 0, false, i == 2);
      check(&s);
    }
}

/* Query, key and value in three types, as files of mixed quantisation have them. */
static void parts_are_of_different_types(void **unused)
{
  (void)unused;
  subject s = {.columns = 256};
  add_part(&s, WEIGHT_Q4_K, 64, 0, false, false);
  add_part(&s, WEIGHT_Q8_0, 1, 0, false, true);
  add_part(&s, WEIGHT_F16, 33, 0, false, false);
  add_part(&s, WEIGHT_Q6_K, 300, 0, false, false);
  add_part(&s, WEIGHT_F32, 7, 0, false, true);
  check(&s);
}

/* Query, key and value of each head beside each other. */
static void rows_lie_in_groups(void **unused)
{
  (void)unused;
  subject s = {.columns = 96};
  add_part(&s, WEIGHT_BF16, 120, 20, false, false);
  add_part(&s, WEIGHT_BF16, 40, 1, false, true);
  add_part(&s, WEIGHT_Q5_1, 60, 60, false, false);
  check(&s);
}

static void rows_lie_turned(void **unused)
{
  (void)unused;
  subject s = {.columns = 130};
  add_part(&s, WEIGHT_F16, 50, 0, true, false);
  add_part(&s, WEIGHT_BF16, 33, 0, true, true);
  add_part(&s, WEIGHT_F32, 64, 0, true, false);
  add_part(&s, WEIGHT_F16, 3, 0, false, false);
  check(&s);
}

/* Odd lengths of rows; deep ones, which are cut into slabs. */
static void rows_are_short_and_long(void **unused)
{
  (void)unused;
  static const size_t columns[] = {1, 3, 7, 9, 31, 67, 1531};
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
    subject s = {.columns = columns[i]};
    add_part(&s, WEIGHT_F16, 40, 0, false, false);
    add_part(&s, WEIGHT_BF16, 9, 0, false, i % 2);
    add_part(&s, WEIGHT_F32, 13, 0, false, false);
    check(&s);
  }
  subject deep = {.columns = 1792};
  add_part(&deep, WEIGHT_Q6_K, 100, 0, false, false);
  add_part(&deep, WEIGHT_Q4_0, 30, 0, false, false);
  check(&deep);
}

/* Rounded rows of x: the bits depend on nothing but the row and the weight, not even on the instruction set;
 * and they are near those of x as it is. */
static void rows_of_x_are_rounded(void **unused)
{
  (void)unused;
  static const size_t rows[] = {1, 4, 5, 18, 60};
  subject s = {.columns = 512};
  add_part(&s, WEIGHT_Q4_K, 131, 0, false, false);
  add_part(&s, WEIGHT_Q8_0, 3, 0, false, false);
  add_part(&s, WEIGHT_F16, 10, 0, false, false); /* this one in fp32 */
  add_part(&s, WEIGHT_Q6_K, 70, 35, false, false);
  add_part(&s, WEIGHT_Q5_0, 20, 0, false, true); /* and this one */
  add_part(&s, WEIGHT_Q5_1, 33, 0, false, false);
  size_t stride = s.rows + 3, all = ROWS_MAX * stride;
  float *x = numbers(ROWS_MAX * (s.columns + 1), 1), *bias = numbers(s.rows, 2), *add = numbers(all, 3);
  float *y = malloc(3 * all * sizeof *y), *first = y + all, *exact = first + all;
  assert_non_null(y);
  matrix w = matrix_of_parts(s.parts, s.count, s.rows, s.columns);
  for (int addend = 0; addend < 2; addend++) {
    bool there = false;
    for (size_t i = kernel_table_count(); i-- > 0;) {
      if (!kernel_table_at(i)) continue;
      const char *isa = kernel_table_at(i)->name;
      for (int threads = 1; threads <= 3; threads++) {
        alibi_context *context = context_of(isa, threads);
        w.rounded = false;
        multiply(context, ROWS_MAX, &s, &w, x, bias, addend ? add : NULL, exact);
        w.rounded = true;
        multiply(context, ROWS_MAX, &s, &w, x, bias, addend ? add : NULL, y);
        if (!there) memcpy(first, y, all * sizeof *y);
        there = true;
        double off = 0, total = 0;
        for (size_t r = 0; r < ROWS_MAX; r++)
          for (size_t c = 0; c < s.rows; c++) {
            size_t at = r * stride + c;
            bool rounded = !(c >= 134 && c < 144) && !(c >= 214 && c < 234);
            if (!rounded) expect_same("not rounded", isa, 1, y + at, exact + at);
            else expect_same("on every instruction set", isa, 1, y + at, first + at);
            off += (double)(y[at] - exact[at]) * (y[at] - exact[at]);
            total += (double)exact[at] * exact[at];
          }
        if (!(off > 0 && off < 1e-4 * total)) fail_msg("%s: off by %g of %g", isa, off, total);
        for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
          multiply(context, rows[n], &s, &w, x, bias, addend ? add : NULL, exact);
          expect_same("rounded", isa, rows[n] * stride - 3, exact, y);
        }
        alibi_context_free(context);
      }
    }
  }
  free(x), free(bias), free(add), free(y);
  drop(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_type_is_multiplied), cmocka_unit_test(parts_are_of_different_types),
      cmocka_unit_test(rows_lie_in_groups),       cmocka_unit_test(rows_lie_turned),
      cmocka_unit_test(rows_are_short_and_long),  cmocka_unit_test(rows_of_x_are_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
