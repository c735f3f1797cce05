/* The packed matrix product: against a chain of multiply-adds written out here (bit-equal), against the double
 * reference, and against itself in other chunks. */
#include "kernel_test.h"

typedef struct problem {
  size_t rows, columns, inner;
  size_t row_stride, inner_stride;      /* of A */
  size_t b_inner_stride, column_stride; /* of B */
  size_t c_stride;
  bool accumulate;
  float *a, *b, *c;
} problem;

typedef enum layout { PLAIN, A_TURNED, B_TURNED, BOTH_STRIDED, LAYOUTS } layout;

static problem make(size_t rows, size_t columns, size_t inner, layout l, bool accumulate)
{
  problem p = {.rows = rows, .columns = columns, .inner = inner, .accumulate = accumulate, .row_stride = inner + 3,
               .inner_stride = 1, .b_inner_stride = columns + 5, .column_stride = 1, .c_stride = columns + 2};
  if (l == A_TURNED) {
    p.row_stride = 1;
    p.inner_stride = rows + 1;
  }
  if (l == B_TURNED) {
    p.b_inner_stride = 1;
    p.column_stride = inner + 1;
  }
  if (l == BOTH_STRIDED) {
    p.row_stride = 2 * inner + 1;
    p.inner_stride = 2;
    p.b_inner_stride = 3 * columns;
    p.column_stride = 3;
  }
  size_t a = rows && inner ? (rows - 1) * p.row_stride + (inner - 1) * p.inner_stride + 1 : 0;
  size_t b = inner && columns ? (inner - 1) * p.b_inner_stride + (columns - 1) * p.column_stride + 1 : 0;
  p.a = random_floats(a);
  p.b = random_floats(b);
  p.c = random_floats(span(rows, columns, p.c_stride));
  return p;
}

static float *pack(const kernel_table *t, const problem *p)
{
  size_t panels = (p->columns + t->tile_columns - 1) / t->tile_columns;
  float *packed = filled_floats(panels * t->tile_columns * p->inner, NAN);
  t->pack(p->inner, p->columns, p->b, p->b_inner_stride, p->column_stride, packed);
  return packed;
}

/* C of the rows from .. to-1, on a copy that has only those rows. */
static float *product(const kernel_table *t, const problem *p, const float *packed, size_t from, size_t to)
{
  size_t first = from * p->c_stride;
  float *c = copied_floats(span(to - from, p->columns, p->c_stride), p->c + first);
  t->matmul(to - from, p->columns, p->inner, p->a + from * p->row_stride, p->row_stride, p->inner_stride, packed,
            c, p->c_stride, p->accumulate);
  return c;
}

/* One chain in order: fused where the instruction set has it, else a product and a sum. */
static float chain(const problem *p, size_t r, size_t c, bool fused)
{
  float sum = p->accumulate ? p->c[r * p->c_stride + c] : 0;
  for (size_t i = 0; i < p->inner; i++) {
    float x = p->a[r * p->row_stride + i * p->inner_stride];
    float y = p->b[i * p->b_inner_stride + c * p->column_stride];
    if (fused) {
      sum = fmaf(x, y, sum);
    } else {
      volatile float xy = x * y;
      sum += xy;
    }
  }
  return sum;
}

static void check_values(const kernel_table *t, const problem *p)
{
  float *c = product(t, p, pack(t, p), 0, p->rows);
  bool fused = strcmp(t->name, "baseline") != 0;
  for (size_t r = 0; r < p->rows; r++) {
    for (size_t j = 0; j < p->columns; j++) {
      double sum = p->accumulate ? (double)p->c[r * p->c_stride + j] : 0, magnitude = fabs(sum);
      for (size_t i = 0; i < p->inner; i++) {
        double term = (double)p->a[r * p->row_stride + i * p->inner_stride] *
                      p->b[i * p->b_inner_stride + j * p->column_stride];
        sum += term;
        magnitude += fabs(term);
      }
      float found = c[r * p->c_stride + j], expected = chain(p, r, j, fused);
      expect_near("product", t->name, r * p->columns + j, found, sum, reduction(p->inner + 1, magnitude));
      expect_bits("product as a chain", t->name, 1, &found, &expected);
    }
    if (r + 1 < p->rows) /* between the rows nothing is written */
      expect_bits("gap", t->name, p->c_stride - p->columns, c + r * p->c_stride + p->columns,
                  p->c + r * p->c_stride + p->columns);
  }
}

static void values_around_the_tile(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t) {
      size_t R = t->tile_rows, C = t->tile_columns;
      const size_t rows[] = {1, R - 1, R, R + 1, 2 * R + 1};
      const size_t columns[] = {1, C - 1, C, C + 1, 2 * C + 1, 4 * C, 5 * C + 3};
      const size_t inner[] = {0, 1, 2, 7, 16, 17, 33};
      for (size_t x = 0; x < 5; x++)
        for (size_t y = 0; y < 7; y++)
          for (size_t z = 0; z < 7; z++) {
            problem p = make(rows[x], columns[y], inner[z], (layout)((x + y + z) % LAYOUTS), (y + z) % 2);
            check_values(t, &p);
            guarded_free();
          }
    }
}

static void layouts_and_depths(void **unused)
{
  (void)unused;
  static const size_t shapes[][3] = {{13, 37, 127}, {3, 130, 1024}, {17, 50, 1025}, {5, 9, 2500}, {1, 200, 1300}};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t s = 0; s < 5; s++)
        for (int l = 0; l < LAYOUTS; l++)
          for (int accumulate = 0; accumulate < 2; accumulate++) {
            problem p = make(shapes[s][0], shapes[s][1], shapes[s][2], (layout)l, accumulate);
            check_values(t, &p);
            guarded_free();
          }
}

static void check_chunks(const kernel_table *t, const problem *p)
{
  static const size_t chunks[] = {1, 2, 7, 64, 256};
  const float *packed = pack(t, p), *whole = product(t, p, packed, 0, p->rows);
  for (size_t k = 0; k < 5; k++)
    for (size_t from = 0; from < p->rows; from += chunks[k]) {
      size_t to = from + chunks[k] < p->rows ? from + chunks[k] : p->rows;
      const float *some = product(t, p, packed, from, to);
      for (size_t r = from; r < to; r++)
        expect_bits("chunk of rows", t->name, p->columns, some + (r - from) * p->c_stride,
                    whole + r * p->c_stride);
      size_t kept = guard_count - 1; /* the chunk alone goes back */
      munmap(guards[kept].map, guards[kept].bytes);
      guard_count = kept;
    }
  guarded_free();
}

static void rows_keep_their_bits_in_chunks(void **unused)
{
  (void)unused;
  static const size_t shapes[][3] = {{300, 33, 1},   {300, 96, 64},  {129, 130, 127}, {257, 16, 200},
                                     {70, 161, 1100}, {65, 48, 2049}, {300, 512, 32}, {65, 24, 4096}};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t s = 0; s < 8; s++)
      for (int l = 0; l < LAYOUTS; l++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
          problem p = make(shapes[s][0], shapes[s][1], shapes[s][2], (layout)l, accumulate);
          check_chunks(t, &p);
        }
}

/* Strides that are multiples of 4 KiB meet in one set of the first-level cache: a kernel may take another way
 * there. */
static void rows_keep_their_bits_at_page_strides(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (int turned = 0; turned < 2; turned++)
      for (size_t rows = 60; rows < 80; rows += 9) {
        problem p = make(rows, 150, 260, PLAIN, turned);
        p.row_stride = turned ? 1 : 1024;
        p.inner_stride = turned ? 1024 : 1;
        p.a = random_floats(turned ? span(260, rows, 1024) : span(rows, 260, 1024));
        check_values(t, &p);
        check_chunks(t, &p);
      }
}

/* One number that is not finite stays in its row or its column. */
static void infinities_stay_in_their_place(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    problem p = make(19, 41, 23, PLAIN, false);
    float *before = product(t, &p, pack(t, &p), 0, p.rows);
    p.a[4 * p.row_stride + 9] = NAN;
    p.b[7 * p.b_inner_stride + 40] = INFINITY;
    float *after = product(t, &p, pack(t, &p), 0, p.rows);
    for (size_t r = 0; r < p.rows; r++)
      for (size_t c = 0; c < p.columns; c++) {
        float now = after[r * p.c_stride + c];
        if (r == 4)
          assert_true(isnan(now));
        else if (c == 40)
          assert_true(isinf(now));
        else
          expect_bits("elsewhere", t->name, 1, &now, before + r * p.c_stride + c);
      }
    guarded_free();
  }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_around_the_tile),
      cmocka_unit_test(layouts_and_depths),
      cmocka_unit_test(rows_keep_their_bits_in_chunks),
      cmocka_unit_test(rows_keep_their_bits_at_page_strides),
      cmocka_unit_test(infinities_stay_in_their_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
