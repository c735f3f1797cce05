/* Stored weights: every type widened and turned by every table against plain C, bit by bit; narrowed and
 * widened again. */
#include "kernel_test.h"

#include "kernel/weight_plain.h"

/* Bytes that end (begin) where a forbidden page begins (ends). */
static unsigned char *guarded_bytes(size_t n)
{
  unsigned char *p = (unsigned char *)guarded_floats((n + 3) / 4);
  return guard_edge == EDGE_AT_END ? p + ((n + 3) / 4 * 4 - n) : p;
}

static unsigned char *random_bytes(size_t n)
{
  unsigned char *p = guarded_bytes(n);
  for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(random_unit() * 256);
  return p;
}

static size_t bytes_of(weight_type type, size_t n)
{
  return n / weight_block_elements(type) * weight_block_bytes(type);
}

/* Any NaN is as good as another: which one a sum of two becomes is the processor's affair. */
static void expect_weights(const char *what, const char *isa, weight_type type, size_t n, const float *found,
                           const float *expected)
{
  for (size_t i = 0; i < n; i++)
    if (!(isnan(found[i]) && isnan(expected[i])) && memcmp(found + i, expected + i, sizeof *found) != 0)
      fail_msg("%s of %s, %s: number %zu of %zu: expected %a, found %a", what, weight_type_name(type), isa, i, n,
               (double)expected[i], (double)found[i]);
}

static void rows_are_widened(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (int type = 0; type < WEIGHT_TYPES; type++)
        for (size_t blocks = 0; blocks < 40; blocks++) {
          size_t n = blocks * weight_block_elements((weight_type)type);
          const unsigned char *data = random_bytes(bytes_of((weight_type)type, n));
          float *found = filled_floats(n, 7), *expected = filled_floats(n, 8);
          t->widen((weight_type)type, n, data, found);
          weight_widen((weight_type)type, n, data, expected);
          expect_weights("widen", t->name, (weight_type)type, n, found, expected);
          guarded_free();
        }
}

/* All numbers of 16 bits, against arithmetic on their parts. */
static void every_half_is_right(void **unused)
{
  (void)unused;
  enum { ALL = 1 << 16 };
  guard_edge = EDGE_AT_END;
  unsigned char *data = guarded_bytes(2 * ALL);
  float *half = guarded_floats(ALL), *bfloat = guarded_floats(ALL);
  for (int i = 0; i < ALL; i++) {
    double sign = i & 0x8000 ? -1 : 1, size = i & 0x3ff;
    int exponent = i >> 10 & 31;
    if (exponent == 31) half[i] = size > 0 ? NAN : (float)sign * INFINITY;
    else half[i] = (float)(exponent ? sign * ldexp(1024 + size, exponent - 25) : sign * ldexp(size, -24));
    uint32_t bits = (uint32_t)i << 16;
    memcpy(bfloat + i, &bits, sizeof bits);
    data[2 * i] = (unsigned char)(i & 255);
    data[2 * i + 1] = (unsigned char)(i >> 8);
  }
  float *found = guarded_floats(ALL);
  weight_widen(WEIGHT_F16, ALL, data, found);
  expect_weights("plain C", "", WEIGHT_F16, ALL, found, half);
  FOR_EACH_TABLE(t) {
    t->widen(WEIGHT_F16, ALL, data, found);
    expect_weights("widen", t->name, WEIGHT_F16, ALL, found, half);
    t->widen(WEIGHT_BF16, ALL, data, found);
    expect_weights("widen", t->name, WEIGHT_BF16, ALL, found, bfloat);
  }
  unsigned char back[2];
  for (int i = 0; i < ALL; i++) {
    weight_narrow(WEIGHT_F16, 1, half + i, back);
    if (!isnan(half[i]) && memcmp(back, data + 2 * i, 2) != 0) fail_msg("half %04x is not the same again", i);
    weight_narrow(WEIGHT_BF16, 1, bfloat + i, back);
    if (!isnan(bfloat[i]) && memcmp(back, data + 2 * i, 2) != 0) fail_msg("bfloat %04x is not the same again", i);
  }
  guarded_free();
}

/* Numbers from .. from + n - 1 of rows of `length`, some of which are the same row. */
static void check_turn(const kernel_table *t, weight_type type, size_t length, size_t from, size_t n, bool scaled)
{
  const void *rows[64];
  const unsigned char *distinct[64];
  size_t tile = t->tile_columns, count = 1 + (size_t)(random_unit() * (double)tile);
  for (size_t r = 0; r < count; r++) distinct[r] = random_bytes(bytes_of(type, length));
  for (size_t r = 0; r < tile; r++) rows[r] = distinct[r % count];
  float *scales = random_floats(tile), *found = filled_floats(n * tile, 7), *expected = guarded_floats(n * tile);
  float *row = guarded_floats(length);
  t->turn(type, rows, from, n, scaled ? scales : NULL, found);
  for (size_t c = 0; c < tile; c++) {
    weight_widen(type, length, rows[c], row);
    for (size_t i = 0; i < n; i++) expected[i * tile + c] = scaled ? row[from + i] * scales[c] : row[from + i];
  }
  expect_weights("turn", t->name, type, n * tile, found, expected);
  guarded_free();
}

static void rows_are_turned(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    for (size_t index = 0; index < kernel_table_count(); index++) {
      const kernel_table *t = kernel_table_at(index);
      for (int i = 0; t && i < WEIGHT_TYPES; i++) {
        weight_type type = (weight_type)i;
        size_t block = weight_block_elements(type), step = 64, length = 512;
        for (size_t from = 0; from < length; from += step)
          for (size_t n = step; from + n <= length; n += step) check_turn(t, type, length, from, n, from % 128);
        /* short rows, and odd tails */
        for (size_t n = block; block < 256 && n < 140 * block && n < 700; n += block) {
          check_turn(t, type, n, 0, n, n % 2);
          check_turn(t, type, 3 * block + n, 3 * block, n, n % 2 == 0);
        }
      }
    }
}

/* A product at once is, to the bit, that of the panels; on the reference near the one in double. */
static void check_product(const kernel_table *t, weight_type type, size_t n, size_t count)
{
  const void *rows[2 * 64];
  size_t tile = t->tile_columns, size = bytes_of(type, n), x_stride = n + 1, stride = tile + 3;
  for (size_t r = 0; r < 2 * tile; r++) {
    unsigned char *row = r < tile ? random_bytes(size) : (unsigned char *)(uintptr_t)rows[r - tile];
    for (size_t b = 0; r < tile && b < size; b++) row[b] &= 0xbf; /* scales that are no NaN */
    rows[r] = row;
  }
  float *x = random_floats(span(count, n, x_stride)), *found = random_floats(span(count, tile, stride));
  float *expected = copied_floats(span(count, tile, stride), found), *panel = guarded_floats(n * tile);
  t->multiply(type, rows, rows + tile, n, count, x, x_stride, found, stride);
  t->turn(type, rows, 0, n, NULL, panel);
  t->matmul(count, tile, n, x, x_stride, 1, panel, expected, stride, true);
  if (t->lanes > 1) expect_weights("product", t->name, type, span(count, tile, stride), found, expected);
  for (size_t i = 0; t->lanes == 1 && i < span(count, tile, stride); i++)
    if (!(fabs((double)found[i] - expected[i]) <= 1e-5 * (1 + fabs((double)expected[i]))))
      fail_msg("product of %s: number %zu: expected %g, found %g", weight_type_name(type), i, (double)expected[i],
               (double)found[i]);
  guarded_free();
}

static void few_rows_are_multiplied(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    for (size_t index = 0; index < kernel_table_count(); index++) {
      const kernel_table *t = kernel_table_at(index);
      for (int i = 0; t && i < WEIGHT_TYPES; i++) {
        size_t block = weight_block_elements((weight_type)i);
        for (size_t blocks = 1; blocks < (block == 1 ? 80 : block == 32 ? 40 : 7); blocks++)
          check_product(t, (weight_type)i, blocks * block, 1 + blocks % 9);
        for (size_t count = 1; count < 10; count++) check_product(t, (weight_type)i, 5 * block, count);
      }
    }
}

/* x is near scale * q, q the nearest integers, the sums those of q; NaN and infinity make the scale NaN. */
static void numbers_are_rounded(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE {
    enum { RUNS = 300 };
    float *x = random_floats(RUNS * ROUNDED_RUN);
    rounded_run *rounded = (rounded_run *)(void *)guarded_floats(RUNS * sizeof *rounded / sizeof(float));
    for (int i = 0; i < ROUNDED_RUN; i++) x[i] = 0;
    x[5 * ROUNDED_RUN + 7] = NAN;
    x[6 * ROUNDED_RUN] = -INFINITY;
    for (int i = 7 * ROUNDED_RUN; i < 8 * ROUNDED_RUN; i++) x[i] *= 1e-40f; /* become zeros */
    rounded_row(RUNS * ROUNDED_RUN, x, rounded);
    for (int b = 0; b < RUNS; b++) {
      const rounded_run *r = rounded + b;
      int sum[2] = {0};
      if (b == 5 || b == 6) {
        assert_true(isnan(r->scale));
        continue;
      }
      for (int i = 0; i < ROUNDED_RUN; i++) {
        double off = fabs(x[b * ROUNDED_RUN + i] - (double)r->scale * r->q[i]);
        if (!(off <= (b == 7 ? 1e-40 : 0.501 * (double)r->scale))) fail_msg("number %d of run %d is off by %g", i,
                                                                            b, off);
        sum[i / 16] += r->q[i];
      }
      assert_int_equal(r->sum[0], sum[0]);
      assert_int_equal(r->sum[1], sum[1]);
    }
    guarded_free();
  }
}

static void check_rounded(const kernel_table *t, weight_type type, size_t n, size_t count)
{
  const void *rows[64];
  size_t tile = t->tile_columns, runs = n / ROUNDED_RUN, stride = tile + 3;
  const kernel_table *reference = reference_table();
  for (size_t r = 0; r < tile; r++) {
    unsigned char *row = random_bytes(bytes_of(type, n));
    for (size_t b = 0; b < bytes_of(type, n); b++) row[b] &= 0xbf; /* scales that are no NaN */
    rows[r] = row;
  }
  float *x = random_floats(n), *found = random_floats(span(count, tile, stride));
  float *expected = copied_floats(span(count, tile, stride), found), *c = filled_floats(count * 8, 0);
  rounded_run *rounded = (rounded_run *)(void *)guarded_floats(count * (runs + 1) * sizeof *rounded / sizeof *x);
  for (size_t r = 0; r < count; r++) {
    for (size_t i = 0; i < n; i++) x[i] = random_float();
    rounded_row(n, x, rounded + r * (runs + 1));
  }
  t->multiply_rounded(type, rows, rows, n, count, rounded, runs + 1, found, stride);
  for (size_t w = 0; w < tile; w += reference->tile_columns) {
    size_t width = tile - w < reference->tile_columns ? tile - w : reference->tile_columns;
    const void *some[8];
    for (size_t i = 0; i < 8; i++) some[i] = rows[w + (i < width ? i : 0)];
    for (size_t r = 0; r < count; r++) memcpy(c + r * 8, expected + r * stride + w, width * sizeof *c);
    reference->multiply_rounded(type, some, some, n, count, rounded, runs + 1, c, 8);
    for (size_t r = 0; r < count; r++) memcpy(expected + r * stride + w, c + r * 8, width * sizeof *c);
  }
  expect_weights("rounded product", t->name, type, span(count, tile, stride), found, expected);
  guarded_free();
}

/* The reference's own values: against the sum of products in double. */
static void check_rounded_values(weight_type type, size_t n)
{
  const kernel_table *t = reference_table();
  const void *rows[8];
  unsigned char *row = random_bytes(bytes_of(type, n));
  for (size_t b = 0; b < bytes_of(type, n); b++) row[b] &= 0xbf;
  for (size_t i = 0; i < 8; i++) rows[i] = row;
  float *x = random_floats(n), *w = guarded_floats(n), *c = filled_floats(8, 0.5f);
  rounded_run *rounded = (rounded_run *)(void *)guarded_floats(n / ROUNDED_RUN * sizeof *rounded / sizeof *x);
  rounded_row(n, x, rounded);
  weight_widen(type, n, row, w);
  t->multiply_rounded(type, rows, rows, n, 1, rounded, n / ROUNDED_RUN, c, 8);
  double sum = 0.5, magnitude = 0.5, largest = 0;
  for (size_t i = 0; i < n; i++) {
    double term = (double)w[i] * rounded[i / ROUNDED_RUN].scale * rounded[i / ROUNDED_RUN].q[i % ROUNDED_RUN];
    sum += term;
    magnitude += fabs(term);
    largest = fmax(largest, fabs((double)w[i]) * rounded[i / ROUNDED_RUN].scale * 127);
  }
  expect_near("rounded product", weight_type_name(type), 0, c[3], sum, reduction(n, magnitude +
                                                                                 (double)n * largest));
  guarded_free();
}

static void rounded_rows_are_multiplied(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    for (int i = WEIGHT_Q8_0; i < WEIGHT_TYPES; i++) {
      weight_type type = (weight_type)i;
      size_t block = weight_block_elements(type);
      for (size_t n = block; n < 4 * block; n += block) {
        check_rounded_values(type, n);
        FOR_EACH_TABLE(t)
          for (size_t count = 1; count < 10; count++) check_rounded(t, type, n, count);
      }
    }
}

static double error_of(weight_type type, size_t n, const float *x)
{
  unsigned char *stored = guarded_bytes(bytes_of(type, n));
  float *back = guarded_floats(n);
  double squares = 0, all = 0;
  weight_narrow(type, n, x, stored);
  weight_widen(type, n, stored, back);
  for (size_t i = 0; i < n; i++) {
    squares += (double)(back[i] - x[i]) * (back[i] - x[i]);
    all += (double)x[i] * x[i];
  }
  return sqrt(squares / all);
}

/* Of normal numbers Q8_0 keeps 8 bits of the largest, Q4_0 4, and Q4_K finds better places for its 4. */
static void narrowed_numbers_are_near(void **unused)
{
  (void)unused;
  enum { N = 64 * 256 };
  FOR_EACH_EDGE {
    float *x = guarded_floats(N);
    for (int i = 0; i < N; i++) {
      double sum = 0;
      for (int j = 0; j < 12; j++) sum += random_unit() - 0.5;
      x[i] = (float)(0.02 * sum);
    }
    assert_true(error_of(WEIGHT_F16, N, x) < 3e-4);
    assert_true(error_of(WEIGHT_BF16, N, x) < 2.4e-3);
    double q8 = error_of(WEIGHT_Q8_0, N, x), q4 = error_of(WEIGHT_Q4_0, N, x), q4_k = error_of(WEIGHT_Q4_K, N, x);
    if (!(q8 < 0.006 && q4 < 0.1 && q4_k < 0.075)) fail_msg("errors: Q8_0 %g, Q4_0 %g, Q4_K %g", q8, q4, q4_k);
    guarded_free();
  }
}

/* Zeros, equal numbers and one sign only are kept as well as 4 bits can; what is not finite ends nothing. */
static void unusual_numbers_are_narrowed(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  static const weight_type types[] = {WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q8_0, WEIGHT_Q4_0, WEIGHT_Q4_K};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    assert_true(weight_can_narrow(types[t]));
    unsigned char *stored = guarded_bytes(bytes_of(types[t], 256));
    float *x = filled_floats(256, 0), *back = guarded_floats(256);
    weight_narrow(types[t], 256, x, stored);
    weight_widen(types[t], 256, stored, back);
    for (int i = 0; i < 256; i++) assert_true(back[i] == 0);
    for (float value = -0.5f; value < 1; value += 1) {
      for (int i = 0; i < 256; i++) x[i] = value;
      weight_narrow(types[t], 256, x, stored);
      weight_widen(types[t], 256, stored, back);
      for (int i = 0; i < 256; i++) assert_true(fabsf(back[i] - value) < 1e-3f);
    }
    for (int i = 0; i < 256; i++) x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : FLT_MAX;
    weight_narrow(types[t], 256, x, stored);
    guarded_free();
  }
  assert_false(weight_can_narrow(WEIGHT_Q6_K));
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_widened),          cmocka_unit_test(every_half_is_right),
      cmocka_unit_test(rows_are_turned),           cmocka_unit_test(narrowed_numbers_are_near),
      cmocka_unit_test(unusual_numbers_are_narrowed), cmocka_unit_test(numbers_are_rounded),
      cmocka_unit_test(rounded_rows_are_multiplied), cmocka_unit_test(few_rows_are_multiplied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
