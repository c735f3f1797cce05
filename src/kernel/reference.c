/* The reference table: plain C, every sum and function in double.  It is what the vector tables are measured
 * against, and `ALIBI_ISA=reference` runs the whole program on it.  Its attention: attention_reference.c. */
#include <math.h>

#define PROOF(name) NULL /* every key is visited */
#include "kernel/tables.h"

void pack_reference(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
                    float *packed)
{
  for (size_t c0 = 0; c0 < columns; c0 += REFERENCE_PANEL)
    for (size_t i = 0; i < inner; i++)
      for (size_t c = c0; c < c0 + REFERENCE_PANEL; c++)
        *packed++ = c < columns ? b[i * inner_stride + c * column_stride] : 0;
}

void matmul_reference(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                      size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t j = 0; j < columns; j++) {
      const float *b = packed + j / REFERENCE_PANEL * inner * REFERENCE_PANEL + j % REFERENCE_PANEL;
      double sum = accumulate ? c[r * c_stride + j] : 0;
      for (size_t i = 0; i < inner; i++)
        sum += (double)a[r * row_stride + i * inner_stride] * b[i * REFERENCE_PANEL];
      c[r * c_stride + j] = (float)sum;
    }
}

void norm_again_reference(const norm_shape *s, const float *x, const float *gain, const float *shift,
                          const float *mean, const float *rstd, float *y)
{
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, y += s->out_stride)
    for (size_t c = 0; c < s->columns; c++)
      y[c] = (float)(((double)x[c] - mean[r]) * rstd[r] * (gain ? gain[c] : 1) + (shift ? shift[c] : 0));
}

void norm_forward_reference(const norm_shape *s, const float *x, const float *gain, const float *shift, float *y,
                            float *mean, float *rstd)
{
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, y += s->out_stride) {
    double centre = 0, variance = 0;
    for (size_t c = 0; s->centre && c < s->columns; c++) centre += x[c];
    centre /= (double)s->columns;
    for (size_t c = 0; c < s->columns; c++) variance += (x[c] - centre) * (x[c] - centre);
    float own_mean = (float)centre, own_rstd = (float)(1 / sqrt(variance / (double)s->columns + s->epsilon));
    norm_shape one = *s;
    one.rows = 1;
    norm_again_reference(&one, x, gain, shift, &own_mean, &own_rstd, y);
    if (mean) mean[r] = own_mean;
    if (rstd) rstd[r] = own_rstd;
  }
}

void norm_backward_reference(const norm_shape *s, const float *x, const float *gain, const float *mean,
                             const float *rstd, const float *dy, float *dx, size_t dx_stride, bool accumulate)
{
  double n = (double)s->columns;
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, dx += dx_stride, dy += s->out_stride) {
    double sum = 0, product = 0;
    for (size_t c = 0; c < s->columns; c++) {
      double g = (double)dy[c] * (gain ? gain[c] : 1);
      sum += g;
      product += g * ((double)x[c] - mean[r]) * rstd[r];
    }
    for (size_t c = 0; c < s->columns; c++) {
      double g = (double)dy[c] * (gain ? gain[c] : 1), z = ((double)x[c] - mean[r]) * rstd[r];
      dx[c] = (float)((accumulate ? dx[c] : 0) + (g - (s->centre ? sum / n : 0) - z * product / n) * rstd[r]);
    }
  }
}

void norm_backward_gain_reference(const norm_shape *s, size_t from, size_t to, const float *x, const float *mean,
                                  const float *rstd, const float *dy, float *dgain, float *dshift)
{
  for (size_t c = from; c < to; c++) {
    double gain = 0, shift = 0;
    for (size_t r = 0; r < s->rows; r++) {
      double g = dy[r * s->out_stride + c];
      shift += g;
      if (dgain) gain += g * ((double)x[r * s->in_stride + c] - mean[r]) * rstd[r];
    }
    if (dgain) dgain[c] = (float)(dgain[c] + gain);
    if (dshift) dshift[c] = (float)(dshift[c] + shift);
  }
}

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

/* f(v), and its slope. */
static double activation(activation_kind kind, double v, double *slope)
{
  double gate, steep;
  if (kind == ACTIVATION_RELU) {
    *slope = v > 0;
    return v < 0 ? 0 : v;
  }
  if (kind == ACTIVATION_GELU_ERF) {
    gate = 0.5 * erfc(-v * M_SQRT1_2);
    *slope = gate + v * exp(-0.5 * v * v) * 0.39894228040143267794;
    return v * gate;
  }
  if (kind == ACTIVATION_GELU_TANH) { /* sigmoid(2u) with u = sqrt(2/pi) (v + 0.044715 v^3) */
    gate = sigmoid(2 * 0.79788456080286535588 * (v + 0.044715 * v * v * v));
    steep = 2 * 0.79788456080286535588 * (1 + 3 * 0.044715 * v * v);
  } else {
    gate = sigmoid(v);
    steep = 1;
  }
  *slope = gate + v * gate * (1 - gate) * steep;
  return v * gate;
}

void activation_forward_reference(activation_kind kind, size_t n, const float *x, float *y)
{
  double slope;
  for (size_t i = 0; i < n; i++) y[i] = (float)activation(kind, x[i], &slope);
}

void activation_backward_reference(activation_kind kind, size_t n, const float *x, const float *dy, float *dx,
                                   float *y)
{
  for (size_t i = 0; i < n; i++) {
    double slope, value = activation(kind, x[i], &slope);
    dx[i] = (float)(dy[i] * slope);
    if (y) y[i] = (float)value;
  }
}

void activation_gate_reference(activation_kind kind, size_t n, const float *gate, const float *value, float *y)
{
  double slope;
  for (size_t i = 0; i < n; i++) y[i] = (float)(activation(activation_of_gate(kind), gate[i], &slope) * value[i]);
}

void activation_gate_backward_reference(activation_kind kind, size_t n, const float *gate, const float *value,
                                        const float *dy, float *dgate, float *dvalue, float *y)
{
  for (size_t i = 0; i < n; i++) {
    double slope, through = activation(activation_of_gate(kind), gate[i], &slope), d = dy[i], v = value[i];
    dgate[i] = (float)(d * v * slope);
    dvalue[i] = (float)(d * through);
    if (y) y[i] = (float)(through * v);
  }
}

void exp_reference(size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] = (float)exp(x[i]);
}

void add_reference(size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void add_scaled_reference(size_t n, float scale, const float *x, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] = (float)(y[i] + (double)scale * x[i]);
}

void scale_reference(size_t n, float scale, float *y)
{
  for (size_t i = 0; i < n; i++) y[i] *= scale;
}

double sum_squares_reference(size_t n, const float *x)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
  return sum;
}

void drop_reference(size_t n, const dropout_row *row, const float *x, float *y, bool accumulate)
{
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    DROPOUT_BITS(bits, row, (uint32_t)i);
    double value = bits >> 8 < row->threshold ? 0 : (double)x[i] * row->scale;
    y[i] = (float)(accumulate ? y[i] + value : value);
  }
}

void rotate_reference(size_t half, const float *cosine, const float *sine, bool inverse, float *x)
{
  for (size_t p = 0; p < half; p++) {
    double c = cosine[p], s = inverse ? -sine[p] : sine[p], a = x[p], b = x[half + p];
    x[p] = (float)(a * c - b * s);
    x[half + p] = (float)(b * c + a * s);
  }
}

void rotate_adjacent_reference(size_t half, const float *cosine, const float *sine, bool inverse, float *x)
{
  for (size_t p = 0; p < half; p++) {
    double c = cosine[p], s = inverse ? -sine[p] : sine[p], a = x[2 * p], b = x[2 * p + 1];
    x[2 * p] = (float)(a * c - b * s);
    x[2 * p + 1] = (float)(b * c + a * s);
  }
}

void cross_entropy_reference(size_t n, const float *x, size_t target, float weight, float z_loss, float *loss,
                             float *d)
{
  double largest = x[0], total = 0;
  for (size_t c = 0; c < n; c++)
    largest = x[c] > largest ? x[c] : largest; /* not fmax, on which gcc 12 for ARM breaks */
  for (size_t c = 0; c < n; c++) total += exp(x[c] - largest);
  double lse = log(total) + largest, share = (1 + 2 * (double)z_loss * lse) / total;
  *loss = (float)(lse - x[target]);
  if (!d) return;
  for (size_t c = 0; c < n; c++) d[c] = (float)((exp(x[c] - largest) * share - (c == target)) * weight);
}

void adamw_reference(size_t n, const adamw_step *s, const float *grad, float *value, float *m, float *v)
{
  for (size_t i = 0; i < n; i++) {
    double g = (double)grad[i] * s->grad_scale;
    double first = m[i] * (double)s->beta1 + g * (1 - (double)s->beta1);
    double second = v[i] * (double)s->beta2 + g * g * (1 - (double)s->beta2);
    double step = first * s->correction1 / (sqrt(second * s->correction2) + s->epsilon);
    m[i] = (float)first;
    v[i] = (float)second;
    value[i] = (float)(value[i] - step * s->rate - (double)value[i] * s->decay);
  }
}

const kernel_table kernel_table_reference = KERNEL_TABLE(1, 1, REFERENCE_PANEL);
