/* Stored weights to fp32 in plain C, type by type as ggml lays them out. */
#include <stdint.h>
#include <string.h>

#include "kernel/tables.h"
#include "kernel/weight_plain.h"

typedef const unsigned char *bytes;

static float float_of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t read_16(bytes p)
{
  return p[0] | (uint32_t)p[1] << 8;
}

static float half_of(bytes p)
{
  uint32_t bits = read_16(p), sign = (bits & 0x8000) << 16, size = bits & 0x7fff;
  if (size < 0x400) return (sign ? -0x1p-24f : 0x1p-24f) * (float)size;
  if (size > 0x7c00) size |= 0x200; /* NaN, made quiet as processors do */
  return float_of_bits(sign | ((size << 13) + (size >= 0x7c00 ? 224u << 23 : 112u << 23)));
}

/* 16 bytes with the low halves of numbers 0 .. 15 and the high ones of 16 .. 31.  high: bit i is number i's
 * fifth. */
static void widen_nibbles(bytes q, uint32_t high, float scale, float shift, float *to)
{
  for (int i = 0; i < 16; i++) {
    to[i] = (float)((q[i] & 15u) | (high >> i & 1) << 4) * scale + shift;
    to[i + 16] = (float)((q[i] >> 4) | (high >> (i + 16) & 1) << 4) * scale + shift;
  }
}

static uint32_t read_32(bytes p)
{
  return read_16(p) | read_16(p + 2) << 16;
}

static void widen_32(weight_type type, bytes b, float *to)
{
  float d = half_of(b);
  if (type == WEIGHT_Q4_0) widen_nibbles(b + 2, 0, d, -8 * d, to);
  if (type == WEIGHT_Q4_1) widen_nibbles(b + 4, 0, d, half_of(b + 2), to);
  if (type == WEIGHT_Q5_0) widen_nibbles(b + 6, read_32(b + 2), d, -16 * d, to);
  if (type == WEIGHT_Q5_1) widen_nibbles(b + 8, read_32(b + 4), d, half_of(b + 2), to);
  for (int i = 0; type == WEIGHT_Q8_0 && i < 32; i++) to[i] = (float)(b[2 + i] - (b[2 + i] & 128) * 2) * d;
}

/* Q4_K and Q5_K: 8 parts of 32 with a scale and a minimum of 6 bits each.  Parts 0 .. 3 have them in bytes 0 ..
 * 3 and 4 .. 7; those of parts 4 .. 7 are 4 bits in bytes 8 .. 11 and the upper 2 of the former. */
static void widen_45_k(bytes b, bytes fifth, bytes q, float *to)
{
  float d = half_of(b), least = half_of(b + 2);
  bytes s = b + 4;
  for (int part = 0; part < 8; part++) {
    int i = part % 4;
    uint32_t scale = part < 4 ? s[i] & 63u : (s[8 + i] & 15u) | (uint32_t)(s[i] >> 6) << 4;
    uint32_t minimum = part < 4 ? s[4 + i] & 63u : (uint32_t)(s[8 + i] >> 4) | (uint32_t)(s[4 + i] >> 6) << 4;
    float step = d * (float)scale, shift = -(least * (float)minimum);
    for (int l = 0; l < 32; l++) {
      uint32_t number = q[part / 2 * 32 + l] >> (part % 2 * 4) & 15u;
      if (fifth) number |= (fifth[l] >> part & 1u) << 4;
      to[part * 32 + l] = (float)number * step + shift;
    }
  }
}

/* 16 parts of 16 with a scale of 8 bits each; numbers of 6 bits, their low 4 and high 2 apart. */
static void widen_q6_k(bytes b, float *to)
{
  float d = half_of(b + 208);
  for (int i = 0; i < 256; i++) {
    int half = i / 128, run = i % 128 / 32, l = i % 32;
    uint32_t low = b[half * 64 + run % 2 * 32 + l] >> (run / 2 * 4) & 15u;
    uint32_t high = b[128 + half * 32 + l] >> (run * 2) & 3u;
    int scale = b[192 + i / 16] - (b[192 + i / 16] & 128) * 2;
    float step = d * (float)scale;
    to[i] = (float)(low | high << 4) * step + -32 * step;
  }
}

static void widen_block(weight_type type, bytes b, float *to)
{
  switch (type) {
  case WEIGHT_F32: *to = float_of_bits(read_32(b)); break;
  case WEIGHT_F16: *to = half_of(b); break;
  case WEIGHT_BF16: *to = float_of_bits(read_16(b) << 16); break;
  case WEIGHT_Q4_K: widen_45_k(b, NULL, b + 16, to); break;
  case WEIGHT_Q5_K: widen_45_k(b, b + 16, b + 48, to); break;
  case WEIGHT_Q6_K: widen_q6_k(b, to); break;
  default: widen_32(type, b, to);
  }
}

void weight_widen(weight_type type, size_t n, const void *from, float *to)
{
  size_t elements = weight_block_elements(type), size = weight_block_bytes(type);
  if (type == WEIGHT_F32 && n) memcpy(to, from, n * sizeof *to);
  else
    for (size_t i = 0; i < n; i += elements) widen_block(type, (bytes)from + i / elements * size, to + i);
}

/* ---- the reference table ---- */

void widen_reference(weight_type type, size_t n, const void *from, float *to)
{
  weight_widen(type, n, from, to);
}

void turn_reference(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
                    float *packed)
{
  size_t elements = weight_block_elements(type), size = weight_block_bytes(type);
  float block[256];
  for (size_t c = 0; c < REFERENCE_PANEL; c++)
    for (size_t i = 0; i < n; i++) {
      size_t at = from + i;
      if (i == 0 || at % elements == 0) widen_block(type, (bytes)rows[c] + at / elements * size, block);
      packed[i * REFERENCE_PANEL + c] = scales ? block[at % elements] * scales[c] : block[at % elements];
    }
}

/* Sums in double, rounded once. */
void multiply_reference(weight_type type, const void *const *rows, const void *const *next, size_t n, size_t count,
                        const float *x, size_t x_stride, float *c, size_t c_stride)
{
  size_t elements = weight_block_elements(type), size = weight_block_bytes(type);
  float block[256];
  (void)next;
  for (size_t w = 0; w < REFERENCE_PANEL; w++)
    for (size_t r = 0; r < count; r++) {
      double sum = c[r * c_stride + w];
      for (size_t i = 0; i < n; i++) {
        if (i % elements == 0) widen_block(type, (bytes)rows[w] + i / elements * size, block);
        sum += (double)x[r * x_stride + i] * block[i % elements];
      }
      c[r * c_stride + w] = (float)sum;
    }
}
