/* Everything that touches each number once: norms, activations, loss, optimiser, rotation.
 * Tails run the same vector code on a part of a vector, so no column's bits depend on where the tail begins. */
#include <math.h>

#include "kernel/tables.h"
#include "kernel/vector_math.h"

/* Vectors of sums that are in flight at once. */
enum { SUM_VECTORS = 4 };

/* ---- norms: LANES rows at a time, so that what a row's sums decide is computed for all of them at once ---- */

INLINE vf row_sum(const float *x, size_t n)
{
  vf sum = {0};
  for (size_t c = 0; c < n; c += LANES) sum += vf_load_part(x + c, part(n, c));
  return sum;
}

INLINE vf row_squares(const float *x, size_t n, float mean)
{
  vf sum = {0};
  size_t c = 0;
  for (; c + LANES <= n; c += LANES) {
    vf apart = vf_load(x + c) - mean;
    sum += apart * apart;
  }
  if (c < n) {
    vf apart = vf_and(mask_below((int)(n - c)), vf_load_part(x + c, n - c) - mean);
    sum += apart * apart;
  }
  return sum;
}

/* mean[LANES], rstd[LANES] of `rows` rows, at most LANES. */
static void moments(const norm_shape *s, size_t rows, const float *x, float *mean, float *rstd)
{
  vf partial[LANES];
  for (size_t l = 0; l < LANES; l++)
    partial[l] = l < rows && s->centre ? row_sum(x + l * s->in_stride, s->columns) : (vf){0};
  vf_store(mean, vf_sums(partial) / (float)s->columns);
  for (size_t l = 0; l < LANES; l++)
    partial[l] = l < rows ? row_squares(x + l * s->in_stride, s->columns, mean[l]) : (vf){0};
  vf_store(rstd, 1.0f / vf_sqrt(vf_sums(partial) / (float)s->columns + s->epsilon));
}

/* One row of n. */
INLINE void normalise(size_t n, const float *x, float mean, float rstd, const float *gain, const float *shift,
                      float *y)
{
  for (size_t c = 0; c < n; c += LANES) {
    size_t w = part(n, c);
    vf value = (vf_load_part(x + c, w) - mean) * rstd;
    if (gain && shift) value = vf_fma(value, vf_load_part(gain + c, w), vf_load_part(shift + c, w));
    else if (gain) value = value * vf_load_part(gain + c, w);
    else if (shift) value = vf_fma(value, vf_splat(1), vf_load_part(shift + c, w));
    vf_store_part(y + c, value, w);
  }
}

void KERNEL(norm_forward)(const norm_shape *s, const float *x, const float *gain, const float *shift, float *y,
                          float *mean, float *rstd)
{
  float centre[LANES], scale[LANES];
  for (size_t r0 = 0; r0 < s->rows; r0 += LANES) {
    size_t rows = part(s->rows, r0);
    moments(s, rows, x, centre, scale);
    for (size_t l = 0; l < rows; l++, x += s->in_stride, y += s->out_stride)
      normalise(s->columns, x, centre[l], scale[l], gain, shift, y);
    if (mean) memcpy(mean + r0, centre, rows * sizeof *mean);
    if (rstd) memcpy(rstd + r0, scale, rows * sizeof *rstd);
  }
}

/* With g = dy * gain and z = (x - mean) rstd: dx = rstd (g - mean(g) - z mean(g z)); without a mean, mean(g) is
 * absent. */
void KERNEL(norm_again)(const norm_shape *s, const float *x, const float *gain, const float *shift,
                        const float *mean, const float *rstd, float *y)
{
  for (size_t r = 0; r < s->rows; r++, x += s->in_stride, y += s->out_stride)
    normalise(s->columns, x, mean[r], rstd[r], gain, shift, y);
}

void KERNEL(norm_backward)(const norm_shape *s, const float *x, const float *gain, const float *mean,
                           const float *rstd, const float *dy, float *dx, size_t dx_stride, bool accumulate)
{
  size_t n = s->columns;
  for (size_t r0 = 0; r0 < s->rows; r0 += LANES) {
    size_t rows = part(s->rows, r0);
    vf sum[LANES], product[LANES];
    float along_one[LANES], along_z[LANES];
    for (size_t l = 0; l < LANES; l++) {
      sum[l] = product[l] = (vf){0};
      if (l >= rows) continue;
      const float *a = x + l * s->in_stride, *b = dy + l * s->out_stride;
      for (size_t c = 0; c < n; c += LANES) {
        size_t w = part(n, c);
        vf g = vf_load_part(b + c, w);
        if (gain) g = g * vf_load_part(gain + c, w);
        sum[l] += g;
        product[l] += g * ((vf_load_part(a + c, w) - mean[r0 + l]) * rstd[r0 + l]);
      }
    }
    vf_store(along_one, s->centre ? vf_sums(sum) / (float)n : (vf){0});
    vf_store(along_z, vf_sums(product) / (float)n);
    for (size_t l = 0; l < rows; l++, x += s->in_stride, dx += dx_stride, dy += s->out_stride)
      for (size_t c = 0; c < n; c += LANES) {
        size_t w = part(n, c);
        vf g = vf_load_part(dy + c, w);
        if (gain) g = g * vf_load_part(gain + c, w);
        vf z = (vf_load_part(x + c, w) - mean[r0 + l]) * rstd[r0 + l];
        vf before = accumulate ? vf_load_part(dx + c, w) : (vf){0};
        vf_store_part(dx + c, before + (g - along_one[l] - z * along_z[l]) * rstd[r0 + l], w);
      }
  }
}

/* `count` vectors of columns, the last of `width`: as many chains of additions at once. */
INLINE void gain_columns(const norm_shape *s, size_t count, size_t width, const float *x, const float *mean,
                         const float *rstd, const float *dy, float *dgain, float *dshift)
{
  vf gain[SUM_VECTORS], shift[SUM_VECTORS];
  for (size_t v = 0; v < count; v++) {
    gain[v] = dgain ? vf_load_part(dgain + v * LANES, width) : (vf){0};
    shift[v] = dshift ? vf_load_part(dshift + v * LANES, width) : (vf){0};
  }
  for (size_t r = 0; r < s->rows; r++, dy += s->out_stride, x += dgain ? s->in_stride : 0)
    for (size_t v = 0; v < count; v++) {
      vf g = vf_load_part(dy + v * LANES, width);
      shift[v] += g;
      if (dgain) gain[v] = vf_fma(g, (vf_load_part(x + v * LANES, width) - mean[r]) * rstd[r], gain[v]);
    }
  for (size_t v = 0; v < count; v++) {
    if (dgain) vf_store_part(dgain + v * LANES, gain[v], width);
    if (dshift) vf_store_part(dshift + v * LANES, shift[v], width);
  }
}

void KERNEL(norm_backward_gain)(const norm_shape *s, size_t from, size_t to, const float *x, const float *mean,
                                const float *rstd, const float *dy, float *dgain, float *dshift)
{
  size_t step = LANES;
  for (size_t c = from; c < to; c += step) {
    const float *at = dgain ? x + c : NULL;
    float *gain = dgain ? dgain + c : NULL, *shift = dshift ? dshift + c : NULL;
    step = to - c < SUM_VECTORS * LANES ? LANES : SUM_VECTORS * LANES;
    if (step == LANES)
      gain_columns(s, 1, part(to, c), at, mean, rstd, dy + c, gain, shift);
    else
      gain_columns(s, SUM_VECTORS, LANES, at, mean, rstd, dy + c, gain, shift);
  }
}

/* GELU (Hendrycks and Gimpel 2016): x Phi(x) = max(x, 0) - |x| tail(|x|). */
INLINE vf gelu_erf(vf x)
{
  normal_parts f = vf_normal(vf_abs(x));
  return vf_max((vf){0}, x) - f.u * f.p * f.e;
}

/* Its slope Phi(x) + x density(x) is g for x < 0 and 1 - g for x > 0, with g = tail(|x|) - |x| density(x). */
INLINE vf gelu_erf_slope(vf x)
{
  vf a = vf_abs(x);
  normal_parts f = vf_normal(a);
  vf g = vf_fma(a, vf_splat(-0.39894228040143268f), f.t * f.p) * f.e;
  return vf_select(x > 0.0f, 1.0f - g, g);
}

/* The tanh form: x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).  With e = exp(-2|u|), sigmoid and 1 - sigmoid
 * are 1 / (1 + e) and e / (1 + e), or the other way about: neither loses digits. */
typedef struct gate_parts {
  vf large, small;
} gate_parts;

INLINE gate_parts gelu_gate(vf x)
{
  vf a = vf_abs(x), e = vf_exp(a * (a * a * (-2 * 0.79788456080286536f * 0.044715f) - 2 * 0.79788456080286536f));
  vf large = 1.0f / (1.0f + e);
  return (gate_parts){large, e * large};
}

INLINE vf gelu_tanh(vf x)
{
  gate_parts gate = gelu_gate(x);
  return x * vf_select(x > 0.0f, gate.large, gate.small);
}

INLINE vf gelu_tanh_slope(vf x)
{
  gate_parts gate = gelu_gate(x);
  vf steep = (x * x * 0.134145f + 1.0f) * 1.59576912160573071f; /* of 2u */
  return vf_fma(gate.large * gate.small * x, steep, vf_select(x > 0.0f, gate.large, gate.small));
}

/* Sigmoid and 1 - sigmoid of |x|, in the same manner. */
INLINE gate_parts sigmoid_parts(vf x)
{
  vf e = vf_exp(-vf_abs(x)), large = 1.0f / (1.0f + e);
  return (gate_parts){large, e * large};
}

INLINE vf silu(vf x)
{
  gate_parts gate = sigmoid_parts(x);
  return x * vf_select(x > 0.0f, gate.large, gate.small);
}

INLINE vf silu_slope(vf x)
{
  gate_parts gate = sigmoid_parts(x);
  return vf_fma(gate.large * gate.small, x, vf_select(x > 0.0f, gate.large, gate.small));
}

INLINE vf relu(vf x)
{
  return vf_select(x < 0.0f, (vf){0}, x); /* what is no number stays none */
}

INLINE vf relu_slope(vf x)
{
  return vf_select(x > 0.0f, vf_splat(1), (vf){0});
}

#define FORWARD(function)                                                                                         \
  for (size_t i = 0; i < n; i += LANES) vf_store_part(y + i, function(vf_load_part(x + i, part(n, i))), part(n, i))

void KERNEL(activation_forward)(activation_kind kind, size_t n, const float *x, float *y)
{
  switch (kind) {
  case ACTIVATION_GELU_ERF: FORWARD(gelu_erf); break;
  case ACTIVATION_GELU_TANH: FORWARD(gelu_tanh); break;
  case ACTIVATION_RELU: FORWARD(relu); break;
  default: FORWARD(silu); break;
  }
}

#define BACKWARD(function)                                                                                        \
  for (size_t i = 0; i < n; i += LANES) {                                                                         \
    size_t w = part(n, i);                                                                                        \
    vf v = vf_load_part(x + i, w);                                                                                \
    vf_store_part(dx + i, vf_load_part(dy + i, w) * function##_slope(v), w);                                      \
    if (y) vf_store_part(y + i, function(v), w);                                                                  \
  }

void KERNEL(activation_backward)(activation_kind kind, size_t n, const float *x, const float *dy, float *dx,
                                 float *y)
{
  switch (kind) {
  case ACTIVATION_GELU_ERF: BACKWARD(gelu_erf) break;
  case ACTIVATION_GELU_TANH: BACKWARD(gelu_tanh) break;
  case ACTIVATION_RELU: BACKWARD(relu) break;
  default: BACKWARD(silu) break;
  }
}

#define GATE(function)                                                                                            \
  for (size_t i = 0; i < n; i += LANES) {                                                                         \
    size_t w = part(n, i);                                                                                        \
    vf_store_part(y + i, function(vf_load_part(gate + i, w)) * vf_load_part(value + i, w), w);                    \
  }

void KERNEL(activation_gate)(activation_kind kind, size_t n, const float *gate, const float *value, float *y)
{
  switch (kind) {
  case ACTIVATION_GEGLU: GATE(gelu_erf) break;
  case ACTIVATION_GEGLU_TANH: GATE(gelu_tanh) break;
  case ACTIVATION_REGLU: GATE(relu) break;
  default: GATE(silu) break;
  }
}

#define GATE_BACKWARD(function)                                                                                   \
  for (size_t i = 0; i < n; i += LANES) {                                                                         \
    size_t w = part(n, i);                                                                                        \
    vf g = vf_load_part(gate + i, w), v = vf_load_part(value + i, w), d = vf_load_part(dy + i, w),                \
       through = function(g);                                                                                     \
    vf_store_part(dgate + i, d * v * function##_slope(g), w);                                                     \
    vf_store_part(dvalue + i, d * through, w);                                                                    \
    if (y) vf_store_part(y + i, through * v, w);                                                                  \
  }

void KERNEL(activation_gate_backward)(activation_kind kind, size_t n, const float *gate, const float *value,
                                      const float *dy, float *dgate, float *dvalue, float *y)
{
  switch (kind) {
  case ACTIVATION_GEGLU: GATE_BACKWARD(gelu_erf) break;
  case ACTIVATION_GEGLU_TANH: GATE_BACKWARD(gelu_tanh) break;
  case ACTIVATION_REGLU: GATE_BACKWARD(relu) break;
  default: GATE_BACKWARD(silu) break;
  }
}

void KERNEL(exp)(size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i += LANES) vf_store_part(y + i, vf_exp(vf_load_part(x + i, part(n, i))), part(n, i));
}

void KERNEL(add)(size_t n, const float *x, float *y)
{
  for (size_t i = 0; i < n; i += LANES) {
    size_t w = part(n, i);
    vf_store_part(y + i, vf_load_part(y + i, w) + vf_load_part(x + i, w), w);
  }
}

void KERNEL(add_scaled)(size_t n, float scale, const float *x, float *y)
{
  for (size_t i = 0; i < n; i += LANES) {
    size_t w = part(n, i);
    vf_store_part(y + i, vf_load_part(y + i, w) + vf_load_part(x + i, w) * scale, w);
  }
}

void KERNEL(scale)(size_t n, float scale, float *y)
{
  for (size_t i = 0; i < n; i += LANES) vf_store_part(y + i, vf_load_part(y + i, part(n, i)) * scale, part(n, i));
}

double KERNEL(sum_squares)(size_t n, const float *x)
{
  double total = 0;
  for (size_t i = 0; i < n; i += 16 * LANES) { /* short fp32 sums, gathered in double */
    size_t end = n - i < 16 * LANES ? n : i + 16 * LANES;
    vf sum = {0};
    for (size_t j = i; j < end; j += LANES) {
      vf v = vf_load_part(x + j, part(end, j));
      sum += v * v;
    }
    total += (double)vf_sum(sum);
  }
  return total;
}

void KERNEL(drop)(size_t n, const dropout_row *row, const float *x, float *y, bool accumulate)
{
  vu lanes = (vu)vi_lanes();
  for (size_t i = 0; i < n; i += LANES, lanes += (uint32_t)LANES) {
    size_t w = part(n, i);
    vu bits;
    DROPOUT_BITS(bits, row, lanes);
    vi kept = (vi)(bits >> 8) >= vi_splat((int32_t)row->threshold);
    vf value = vf_and(kept, vf_load_part(x + i, w) * row->scale);
    vf_store_part(y + i, accumulate ? vf_load_part(y + i, w) + value : value, w);
  }
}

/* A head as wide as a vector turns in one piece: parts of a vector would wait for each other's stores. */
static void rotate_vector(const float *cosine, const float *sine, bool inverse, float *x)
{
  vi first = mask_below(LANES / 2);
  vf c = vf_load_part(cosine, LANES / 2), s = vf_load_part(sine, LANES / 2), v = vf_load(x);
  if (inverse) s = -s;
  c = vf_select(first, c, vf_swap_halves(c));
  s = vf_select(first, -s, vf_swap_halves(s));
  vf_store(x, vf_fma(v, c, vf_swap_halves(v) * s));
}

void KERNEL(rotate)(size_t half, const float *cosine, const float *sine, bool inverse, float *x)
{
  if (half == LANES / 2) {
    rotate_vector(cosine, sine, inverse, x);
    return;
  }
  for (size_t p = 0; p < half; p += LANES) {
    size_t w = part(half, p);
    vf c = vf_load_part(cosine + p, w), s = vf_load_part(sine + p, w);
    if (inverse) s = -s;
    vf a = vf_load_part(x + p, w), b = vf_load_part(x + half + p, w);
    vf_store_part(x + p, vf_fma(a, c, -(b * s)), w);
    vf_store_part(x + half + p, vf_fma(b, c, a * s), w);
  }
}

/* One vector of neighbours (a, b): (a c - b s, b c + a s), with c twice and s as -s, s. */
INLINE void rotate_neighbours(vf c, vf s, float *x, size_t n)
{
  vf v = vf_load_part(x, n);
  vf_store_part(x, vf_fma(v, c, vf_swap_neighbours(v) * s), n);
}

void KERNEL(rotate_adjacent)(size_t half, const float *cosine, const float *sine, bool inverse, float *x)
{
  for (size_t p = 0; p < half; p += LANES) {
    size_t w = part(half, p), low = part(2 * w, 0);
    vf c = vf_load_part(cosine + p, w), s = vf_load_part(sine + p, w);
    if (inverse) s = -s;
    rotate_neighbours(ZIP_LOW(c, c), ZIP_LOW(-s, s), x + 2 * p, low);
    if (2 * w > low) rotate_neighbours(ZIP_HIGH(c, c), ZIP_HIGH(-s, s), x + 2 * p + low, 2 * w - low);
  }
}

void KERNEL(cross_entropy)(size_t n, const float *x, size_t target, float weight, float z_loss, float *loss,
                           float *d)
{
  vf largest = vf_splat(-INFINITY), sum = {0};
  for (size_t c = 0; c < n; c += LANES) {
    vi mask = mask_below((int)part(n, c));
    largest = vf_max(vf_select(mask, vf_load_part(x + c, part(n, c)), vf_splat(-INFINITY)), largest);
  }
  float maximum = vf_largest(largest), right = x[target]; /* d may be x */
  for (size_t c = 0; c < n; c += LANES) {
    size_t w = part(n, c);
    vf e = vf_and(mask_below((int)w), vf_exp(vf_load_part(x + c, w) - maximum));
    sum += e;
    if (d) vf_store_part(d + c, e, w);
  }
  float total = vf_sum(sum), lse = logf(total) + maximum;
  *loss = lse - right;
  if (!d) return;
  KERNEL(scale)(n, weight * (1 + 2 * z_loss * lse) / total, d);
  d[target] -= weight;
}

/* Adam with decoupled decay: Loshchilov and Hutter, ICLR 2019, algorithm 2. */
void KERNEL(adamw)(size_t n, const adamw_step *s, const float *grad, float *value, float *m, float *v)
{
  for (size_t i = 0; i < n; i += LANES) {
    size_t w = part(n, i);
    vf g = vf_load_part(grad + i, w) * s->grad_scale;
    vf first = vf_fma(g, vf_splat(1.0f - s->beta1), vf_load_part(m + i, w) * s->beta1);
    vf second = vf_fma(g, g * (1.0f - s->beta2), vf_load_part(v + i, w) * s->beta2);
    vf old = vf_load_part(value + i, w);
    vf step = first * s->correction1 / (vf_sqrt(second * s->correction2) + s->epsilon);
    vf_store_part(m + i, first, w);
    vf_store_part(v + i, second, w);
    vf_store_part(value + i, old - step * s->rate - old * s->decay, w);
  }
}
