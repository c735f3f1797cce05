/* Rows of x rounded to 8 bits, and their product with quantised weights in plain C: the steps that every table
 * takes, each rounded (this file too is compiled without contraction). */
#include <math.h>
#include <string.h>

#include "kernel/tables.h"
#include "kernel/weight_plain.h"

enum { RUN = ROUNDED_RUN };

/* Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits. */
static int nearest(float x)
{
  float sum = x + 0x1.8p23f;
  int32_t bits;
  memcpy(&bits, &sum, sizeof bits);
  return bits - 0x4b400000;
}

void rounded_row(size_t n, const float *x, rounded_run *to)
{
  for (; n > 0; n -= RUN, x += RUN, to++) {
    float most = 0, steps;
    for (int i = 0; i < RUN; i++)
      if (!(fabsf(x[i]) <= most)) most = isnan(most) ? most : fabsf(x[i]);
    memset(to, 0, sizeof *to);
    to->scale = most < HUGE_VALF ? most / 127 : NAN;
    if (!(to->scale > 0)) continue;
    /* below that the inverse is no number, and all of the run as good as 0 */
    steps = most < 0x1p-100f ? 0 : 127 / most;
    for (int i = 0; i < RUN; i++) {
      int q = nearest(x[i] * steps);
      to->q[i] = (int8_t)q;
      to->sum[i / 16] += q;
    }
  }
}

/* The integer of number i of a block: weight_plain.c says where its bits lie. */
static int integer_at(weight_type type, const unsigned char *b, int i)
{
  int low = i % 16, side = i / 16 * 4;
  switch (type) {
  case WEIGHT_Q8_0: return b[2 + i] - (b[2 + i] & 128) * 2;
  case WEIGHT_Q4_0: return b[2 + low] >> side & 15;
  case WEIGHT_Q4_1: return b[4 + low] >> side & 15;
  case WEIGHT_Q5_0: return (b[6 + low] >> side & 15) | (b[2 + i / 8] >> i % 8 & 1) << 4;
  case WEIGHT_Q5_1: return (b[8 + low] >> side & 15) | (b[4 + i / 8] >> i % 8 & 1) << 4;
  default: break;
  }
  int part = i / 32, l = i % 32, half = i / 128, run = i % 128 / 32;
  if (type == WEIGHT_Q4_K) return b[16 + part / 2 * 32 + l] >> part % 2 * 4 & 15;
  if (type == WEIGHT_Q5_K) return (b[48 + part / 2 * 32 + l] >> part % 2 * 4 & 15) | (b[16 + l] >> part & 1) << 4;
  return (b[half * 64 + run % 2 * 32 + l] >> run / 2 * 4 & 15) | (b[128 + half * 32 + l] >> run * 2 & 3) << 4;
}

typedef struct step {
  float scale, shift;
  int middle;
} step;

static step step_at(weight_type type, const unsigned char *b, int i)
{
  step s = {0, 0, type == WEIGHT_Q4_0 ? 8 : type == WEIGHT_Q5_0 ? 16 : type == WEIGHT_Q6_K ? 32 : 0};
  float least;
  int part = i / 32, at = part % 4;
  const unsigned char *k = b + 4;
  weight_widen(WEIGHT_F16, 1, type == WEIGHT_Q6_K ? b + 208 : b, &s.scale);
  weight_widen(WEIGHT_F16, 1, b + 2, &least);
  if (type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1) s.shift = least;
  if (type == WEIGHT_Q6_K) s.scale *= (float)(b[192 + i / 16] - (b[192 + i / 16] & 128) * 2);
  if (type == WEIGHT_Q4_K || type == WEIGHT_Q5_K) {
    s.scale *= (float)(part < 4 ? k[at] & 63 : (k[8 + at] & 15) | k[at] >> 6 << 4);
    s.shift = -(least * (float)(part < 4 ? k[4 + at] & 63 : k[8 + at] >> 4 | k[4 + at] >> 6 << 4));
  }
  return s;
}

static float add_run(weight_type type, const unsigned char *b, int first, const rounded_run *x, float sum)
{
  const bool affine = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1 || type == WEIGHT_Q4_K || type == WEIGHT_Q5_K;
  int length = type == WEIGHT_Q6_K ? 16 : RUN;
  for (int start = 0; start < RUN; start += length) {
    step s = step_at(type, b, first + start);
    int products = 0, all = length == RUN ? x->sum[0] + x->sum[1] : x->sum[start / 16];
    for (int i = start; i < start + length; i++) products += (integer_at(type, b, first + i) - s.middle) * x->q[i];
    float total = s.scale * (float)products;
    if (affine) total = total + s.shift * (float)all;
    sum = sum + x->scale * total;
  }
  return sum;
}

void multiply_rounded_reference(weight_type type, const void *const *rows, const void *const *next, size_t n,
                                size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride)
{
  (void)next;
  size_t elements = weight_block_elements(type), size = weight_block_bytes(type);
  for (size_t r = 0; r < count; r++)
    for (size_t w = 0; w < REFERENCE_PANEL; w++)
      for (size_t i = 0; i < n; i += RUN) {
        const unsigned char *block = (const unsigned char *)rows[w] + i / elements * size;
        float *out = c + r * c_stride + w;
        *out = add_run(type, block, (int)(i % elements), x + r * x_stride + i / RUN, *out);
      }
}
