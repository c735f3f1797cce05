/* The reference table: plain C, every sum and function in double.  It is what the vector tables are measured
 * against, and `ALIBI_ISA=reference` runs the whole program on it. */
#include <math.h>
#include <string.h>

#include "kernel/tables.h"

enum { PANEL = 8 };

void pack_reference(size_t inner, size_t columns, const float *b, size_t inner_stride, size_t column_stride,
                    float *packed)
{
  for (size_t c0 = 0; c0 < columns; c0 += PANEL)
    for (size_t i = 0; i < inner; i++)
      for (size_t c = c0; c < c0 + PANEL; c++)
        *packed++ = c < columns ? b[i * inner_stride + c * column_stride] : 0;
}

void matmul_reference(size_t rows, size_t columns, size_t inner, const float *a, size_t row_stride,
                      size_t inner_stride, const float *packed, float *c, size_t c_stride, bool accumulate)
{
  for (size_t r = 0; r < rows; r++)
    for (size_t j = 0; j < columns; j++) {
      const float *b = packed + j / PANEL * inner * PANEL + j % PANEL;
      double sum = accumulate ? c[r * c_stride + j] : 0;
      for (size_t i = 0; i < inner; i++) sum += (double)a[r * row_stride + i * inner_stride] * b[i * PANEL];
      c[r * c_stride + j] = (float)sum;
    }
}

size_t attention_scratch_reference(size_t head_size)
{
  return head_size * 2 * sizeof(double) / sizeof(float);
}

static const float *key_row(const attention_head *h, size_t j)
{
  if (h->key_blocks) return h->key_blocks[j / ATTENTION_BLOCK] + j % ATTENTION_BLOCK * h->head_size;
  return h->k + j * h->k_stride;
}

static const float *value_row(const attention_head *h, size_t j)
{
  if (h->value_blocks) return h->value_blocks[j / ATTENTION_BLOCK] + j % ATTENTION_BLOCK * h->head_size;
  return h->v + j * h->k_stride;
}

static size_t visible_keys(const attention_head *h, size_t r)
{
  size_t end = h->first + r + 1;
  return end < h->keys ? end : h->keys;
}

static double dot(size_t n, const float *a, const float *b)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
  return sum;
}

static double score(const attention_head *h, size_t r, size_t j)
{
  size_t distance = h->first + r - j;
  double s = dot(h->head_size, h->q + r * h->q_stride, key_row(h, j)) * h->scale;
  if (h->bias == BIAS_SLOPE) s -= (double)h->slope * (double)distance;
  if (h->bias == BIAS_DISTANCE) s += h->table[-(ptrdiff_t)distance];
  return s;
}

void attention_forward_reference(const attention_head *h, float *scratch)
{
  double *sum = (double *)(void *)scratch;
  for (size_t r = 0; r < h->queries; r++) {
    size_t end = visible_keys(h, r);
    double largest = -INFINITY, total = 0;
    for (size_t j = 0; j < end; j++) largest = fmax(largest, score(h, r, j));
    for (size_t c = 0; c < h->head_size; c++) sum[c] = 0;
    for (size_t j = 0; j < end; j++) {
      double weight = exp(score(h, r, j) - largest);
      const float *value = value_row(h, j);
      total += weight;
      for (size_t c = 0; c < h->head_size; c++) sum[c] += weight * value[c];
    }
    for (size_t c = 0; c < h->head_size; c++)
      h->out[r * h->out_stride + c] = end ? (float)(sum[c] / total) : 0;
    if (h->lse) h->lse[r * h->lse_stride] = end ? (float)(largest + log(total)) : -INFINITY;
  }
}

void attention_backward_reference(const attention_head *h, float *scratch)
{
  size_t d = h->head_size;
  double *dq = (double *)(void *)scratch;
  for (size_t r = 0; r < h->queries; r++) {
    size_t end = visible_keys(h, r);
    const float *q = h->q + r * h->q_stride, *dout = h->dout + r * h->out_stride;
    double delta = dot(d, h->out + r * h->out_stride, dout);
    for (size_t c = 0; c < d; c++) dq[c] = 0;
    for (size_t j = 0; j < end; j++) {
      const float *key = key_row(h, j);
      double weight = exp(score(h, r, j) - h->lse[r * h->lse_stride]);
      double ds = weight * (dot(d, dout, value_row(h, j)) - delta);
      if (h->table_grad) h->table_grad[-(ptrdiff_t)(h->first + r - j)] += (float)ds;
      ds *= h->scale;
      for (size_t c = 0; c < d; c++) {
        dq[c] += ds * key[c];
        h->dk[j * h->k_stride + c] += (float)(ds * q[c]);
        h->dv[j * h->k_stride + c] += (float)(weight * dout[c]);
      }
    }
    for (size_t c = 0; c < d; c++) h->dq[r * h->q_stride + c] += (float)dq[c];
  }
}

void norm_forward_reference(const norm_shape *s, const float *x, const float *gain, const float *shift, float *y,
                            float *mean, float *rstd)
{
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, y += s->out_stride) {
    double centre = 0, variance = 0;
    for (size_t c = 0; s->centre && c < s->columns; c++) centre += x[c];
    centre /= (double)s->columns;
    for (size_t c = 0; c < s->columns; c++) variance += (x[c] - centre) * (x[c] - centre);
    double scale = 1 / sqrt(variance / (double)s->columns + s->epsilon);
    for (size_t c = 0; c < s->columns; c++)
      y[c] = (float)((x[c] - centre) * scale * (gain ? gain[c] : 1) + (shift ? shift[c] : 0));
    if (mean) mean[r] = (float)centre;
    if (rstd) rstd[r] = (float)scale;
  }
}

void norm_backward_reference(const norm_shape *s, const float *x, const float *gain, const float *mean,
                             const float *rstd, const float *dy, float *dx)
{
  double n = (double)s->columns;
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, dx += s->in_stride, dy += s->out_stride) {
    double sum = 0, product = 0;
    for (size_t c = 0; c < s->columns; c++) {
      double g = (double)dy[c] * (gain ? gain[c] : 1);
      sum += g;
      product += g * ((double)x[c] - mean[r]) * rstd[r];
    }
    for (size_t c = 0; c < s->columns; c++) {
      double g = (double)dy[c] * (gain ? gain[c] : 1), z = ((double)x[c] - mean[r]) * rstd[r];
      dx[c] = (float)(dx[c] + (g - (s->centre ? sum / n : 0) - z * product / n) * rstd[r]);
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

/* d/du and value of sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3). */
static double tanh_gate(double x)
{
  return 1 / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

void activation_forward_reference(activation_kind kind, size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i++) {
    double v = x[i];
    y[i] = (float)(v * (kind == ACTIVATION_GELU_ERF ? 0.5 * erfc(-v * M_SQRT1_2) : tanh_gate(v)));
  }
}

void activation_backward_reference(activation_kind kind, size_t n, const float *x, const float *dy, float *dx)
{
  for (size_t i = 0; i < n; i++) {
    double v = x[i], slope;
    if (kind == ACTIVATION_GELU_ERF) {
      slope = 0.5 * erfc(-v * M_SQRT1_2) + v * exp(-0.5 * v * v) * 0.39894228040143267794;
    } else {
      double gate = tanh_gate(v);
      slope = gate + v * gate * (1 - gate) * 2 * 0.79788456080286535588 * (1 + 3 * 0.044715 * v * v);
    }
    dx[i] = (float)(dy[i] * slope);
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
  return dot(n, x, x);
}

void rotate_reference(size_t half, const float *cosine, const float *sine, bool inverse, float *x)
{
  for (size_t p = 0; p < half; p++) {
    double c = cosine[p], s = inverse ? -sine[p] : sine[p], a = x[p], b = x[half + p];
    x[p] = (float)(a * c - b * s);
    x[half + p] = (float)(b * c + a * s);
  }
}

void cross_entropy_reference(size_t n, const float *x, size_t target, float weight, float *loss, float *d)
{
  double largest = x[0], total = 0;
  for (size_t c = 0; c < n; c++)
    largest = x[c] > largest ? x[c] : largest; /* not fmax, on which gcc 12 for ARM breaks */
  for (size_t c = 0; c < n; c++) total += exp(x[c] - largest);
  *loss = (float)(log(total) + largest - x[target]);
  if (!d) return;
  for (size_t c = 0; c < n; c++) d[c] = (float)((exp(x[c] - largest) / total - (c == target)) * weight);
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

const kernel_table kernel_table_reference = KERNEL_TABLE(1, 1, PANEL);
