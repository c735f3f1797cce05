/* Norms and the loss: reductions over a row, forward and backward, against formulas in double. */
#include "kernel_test.h"

static const size_t widths[] = {1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 80, 127, 128, 130, 512, 1000};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

typedef struct norm_case {
  norm_shape s;
  float *x, *gain, *shift, *dy;
} norm_case;

static norm_case make_norm(size_t rows, size_t columns, bool centre, int variant)
{
  norm_case n = {.s = {rows, columns, columns + 3, columns + 1, 1e-5f, centre}};
  n.x = random_floats(span(rows, columns, n.s.in_stride));
  n.dy = random_floats(span(rows, columns, n.s.out_stride));
  for (size_t r = 0; r < rows; r++) /* rows with an offset, as a residual stream has them */
    for (size_t c = 0; c < columns; c++) n.x[r * n.s.in_stride + c] += (float)variant * 3;
  if (variant != 0) n.gain = random_floats(columns);
  if (variant == 2) n.shift = random_floats(columns);
  return n;
}

typedef struct row_moments {
  double mean, rstd, magnitude;
} row_moments;

static row_moments moments(const norm_shape *s, const float *x)
{
  row_moments m = {0};
  double n = (double)s->columns, variance = 0;
  for (size_t c = 0; c < s->columns; c++) {
    if (s->centre) m.mean += x[c] / n;
    m.magnitude += fabs(x[c]) / n;
  }
  for (size_t c = 0; c < s->columns; c++) variance += (x[c] - m.mean) * (x[c] - m.mean) / n;
  m.rstd = 1 / sqrt(variance + s->epsilon);
  return m;
}

static void check_norm_forward(const kernel_table *t, const norm_case *n)
{
  const norm_shape *s = &n->s;
  float *y = guarded_floats(span(s->rows, s->columns, s->out_stride));
  float *mean = guarded_floats(s->rows), *rstd = guarded_floats(s->rows);
  t->norm_forward(s, n->x, n->gain, n->shift, y, mean, rstd);
  for (size_t r = 0; r < s->rows; r++) {
    const float *x = n->x + r * s->in_stride;
    row_moments m = moments(s, x);
    double slack = reduction(s->columns, m.magnitude); /* of the mean */
    double relative = reduction(s->columns, 1) + slack * m.rstd;
    expect_near("mean", t->name, r, mean[r], m.mean, slack);
    expect_near("rstd", t->name, r, rstd[r], m.rstd, m.rstd * relative);
    for (size_t c = 0; c < s->columns; c++) {
      double gain = n->gain ? n->gain[c] : 1, shift = n->shift ? n->shift[c] : 0, z = (x[c] - m.mean) * m.rstd;
      expect_near("norm", t->name, c, y[r * s->out_stride + c], z * gain + shift,
                  fabs(gain) * (slack * m.rstd + fabs(z) * relative) + 4 * ulp(fabs(z * gain) + fabs(shift)));
    }
    float *alone = guarded_floats(s->columns);
    norm_shape one = *s;
    one.rows = 1;
    t->norm_forward(&one, x, n->gain, n->shift, alone, NULL, NULL);
    expect_bits("norm of a row alone", t->name, s->columns, alone, y + r * s->out_stride);
    t->norm_again(&one, x, n->gain, n->shift, mean + r, rstd + r, alone);
    expect_bits("norm again", t->name, s->columns, alone, y + r * s->out_stride);
  }
}

/* Backward from the same fp32 mean and rstd that the kernel gets. */
static void check_norm_backward(const kernel_table *t, const norm_case *n)
{
  const norm_shape *s = &n->s;
  size_t columns = s->columns;
  float *mean = filled_floats(s->rows, 0), *rstd = guarded_floats(s->rows);
  float *dx = random_floats(span(s->rows, columns, s->in_stride));
  float *before = copied_floats(span(s->rows, columns, s->in_stride), dx);
  float *dgain = random_floats(columns), *dshift = random_floats(columns);
  float *dgain0 = copied_floats(columns, dgain), *dshift0 = copied_floats(columns, dshift);
  for (size_t r = 0; r < s->rows; r++) {
    row_moments m = moments(s, n->x + r * s->in_stride);
    mean[r] = (float)m.mean;
    rstd[r] = (float)m.rstd;
  }
  t->norm_backward(s, n->x, n->gain, mean, rstd, n->dy, dx, s->in_stride, true);
  float *alone = guarded_floats(span(s->rows, columns, s->out_stride));
  float *in_place = copied_floats(span(s->rows, columns, s->out_stride), n->dy);
  t->norm_backward(s, n->x, n->gain, mean, rstd, n->dy, alone, s->out_stride, false);
  t->norm_backward(s, n->x, n->gain, mean, rstd, in_place, in_place, s->out_stride, false);
  for (size_t r = 0; r < s->rows; r++) {
    const float *x = n->x + r * s->in_stride, *dy = n->dy + r * s->out_stride;
    double g1 = 0, gz = 0, g1_terms = 0, gz_terms = 0;
    for (size_t c = 0; c < columns; c++) {
      double g = (double)dy[c] * (n->gain ? n->gain[c] : 1), z = ((double)x[c] - mean[r]) * rstd[r];
      g1 += g / (double)columns;
      gz += g * z / (double)columns;
      g1_terms += fabs(g) / (double)columns;
      gz_terms += fabs(g * z) / (double)columns;
    }
    if (!s->centre) g1 = g1_terms = 0;
    for (size_t c = 0; c < columns; c++) {
      double g = (double)dy[c] * (n->gain ? n->gain[c] : 1), z = ((double)x[c] - mean[r]) * rstd[r];
      double old = before[r * s->in_stride + c], expected = old + (g - g1 - z * gz) * rstd[r];
      double bound = reduction(columns, g1_terms + fabs(z) * gz_terms) * rstd[r] +
                     4 * ulp(fabs(old) + (fabs(g) + fabs(g1) + fabs(z * gz)) * rstd[r]);
      expect_near("dx", t->name, c, dx[r * s->in_stride + c], expected, bound);
      expect_near("dx alone", t->name, c, alone[r * s->out_stride + c], expected - old, bound);
    }
  }
  for (size_t r = 0; r < s->rows; r++)
    expect_bits("dx in place", t->name, columns, in_place + r * s->out_stride, alone + r * s->out_stride);
  size_t middle = columns / 3; /* two parts, as two threads would take them */
  t->norm_backward_gain(s, 0, middle, n->x, mean, rstd, n->dy, dgain, dshift);
  t->norm_backward_gain(s, middle, columns, n->x, mean, rstd, n->dy, dgain, NULL);
  t->norm_backward_gain(s, middle, columns, n->x, mean, rstd, n->dy, NULL, dshift);
  float *dgain2 = copied_floats(columns, dgain0), *dshift2 = copied_floats(columns, dshift0);
  size_t half = s->rows / 2; /* the same chains in two calls */
  norm_shape first = *s, second = *s;
  first.rows = half;
  second.rows = s->rows - half;
  t->norm_backward_gain(&first, 0, columns, n->x, mean, rstd, n->dy, dgain2, dshift2);
  t->norm_backward_gain(&second, 0, columns, n->x + half * s->in_stride, mean + half, rstd + half,
                        n->dy + half * s->out_stride, dgain2, dshift2);
  expect_bits("dgain in two calls", t->name, columns, dgain2, dgain);
  expect_bits("dshift in two calls", t->name, columns, dshift2, dshift);
  for (size_t c = 0; c < columns; c++) {
    double gain = dgain0[c], shift = dshift0[c], gain_terms = fabs(gain), shift_terms = fabs(shift);
    for (size_t r = 0; r < s->rows; r++) {
      double g = n->dy[r * s->out_stride + c], z = ((double)n->x[r * s->in_stride + c] - mean[r]) * rstd[r];
      gain += g * z;
      shift += g;
      gain_terms += fabs(g * z);
      shift_terms += fabs(g);
    }
    expect_near("dgain", t->name, c, dgain[c], gain, reduction(s->rows + 1, gain_terms));
    expect_near("dshift", t->name, c, dshift[c], shift, reduction(s->rows + 1, shift_terms));
  }
}

static void norms(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < WIDTHS; k++)
        for (int variant = 0; variant < 3; variant++)
          for (int centre = 0; centre < 2; centre++) {
            norm_case n = make_norm(1 + (k * 5) % 9, widths[k], centre, variant);
            check_norm_forward(t, &n);
            check_norm_backward(t, &n);
            guarded_free();
          }
}

/* A row of equal numbers: no variance, and nothing divides by 0. */
static void constant_rows(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    norm_shape s = {1, 37, 37, 37, 1e-5f, true};
    float *x = filled_floats(37, 0.25f), *y = guarded_floats(37);
    t->norm_forward(&s, x, NULL, NULL, y, NULL, NULL);
    for (size_t c = 0; c < 37; c++) assert_true(y[c] == 0);
    guarded_free();
  }
}

static void check_loss(const kernel_table *t, size_t n, size_t target, double spread)
{
  float *x = random_floats(n), *d = guarded_floats(n), loss, loss_alone;
  for (size_t c = 0; c < n; c++) x[c] = (float)(x[c] * spread);
  double largest = x[0], total = 0;
  for (size_t c = 0; c < n; c++)
    largest = x[c] > largest ? x[c] : largest; /* not fmax, on which gcc 12 for ARM breaks */
  for (size_t c = 0; c < n; c++) total += exp(x[c] - largest);
  t->cross_entropy(n, x, target, 0.01f, 0, &loss, d);
  t->cross_entropy(n, x, target, 0.01f, 0, &loss_alone, NULL);
  expect_bits("loss without its gradient", t->name, 1, &loss_alone, &loss);
  expect_near("loss", t->name, 0, loss, log(total) + largest - x[target],
              reduction(n, 1) + 4 * EPS * (fabs(log(total)) + fabs(largest) + fabs(x[target])));
  for (size_t c = 0; c < n; c++) {
    double p = exp(x[c] - largest) / total;
    double relative = reduction(n, 1) + EPS * (fabs(x[c]) + fabs(largest));
    expect_near("d", t->name, c, d[c], (p - (c == target)) * (double)0.01f,
                0.01 * (p * relative + 4 * EPS * (p + (c == target))) + FLT_MIN);
  }
  const float z = 0.3f;
  double lse = log(total) + largest, grown = 1 + 2 * (double)z * lse;
  float *with_z = guarded_floats(n);
  t->cross_entropy(n, x, target, 0.01f, z, &loss_alone, with_z);
  expect_bits("loss, which z-loss is no part of", t->name, 1, &loss_alone, &loss);
  for (size_t c = 0; c < n; c++) {
    double p = exp(x[c] - largest) / total;
    double relative = reduction(n, 1) + EPS * (fabs(x[c]) + fabs(largest));
    double of_lse = 2 * (double)z * (reduction(n, 1) + 4 * EPS * (fabs(log(total)) + fabs(largest)));
    expect_near("d with z-loss", t->name, c, with_z[c], (p * grown - (c == target)) * (double)0.01f,
                0.01 * (p * (fabs(grown) * relative + of_lse) + 6 * EPS * (p * fabs(grown) + (c == target))) +
                    FLT_MIN);
  }
  float *in_place = copied_floats(n, x);
  t->cross_entropy(n, in_place, target, 0.01f, 0, &loss, in_place);
  expect_bits("gradient in place", t->name, n, in_place, d);
}

static void losses(void **unused)
{
  (void)unused;
  static const double spreads[] = {0, 1, 10, 200};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < WIDTHS; k++)
        for (size_t i = 0; i < 4; i++) {
          check_loss(t, widths[k], (k * 7 + i) % widths[k], spreads[i]);
          guarded_free();
        }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms),
      cmocka_unit_test(constant_rows),
      cmocka_unit_test(losses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
