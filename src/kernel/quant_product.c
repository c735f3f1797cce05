/* Quantised weights times rows of x that are rounded to 8 bits: integers within a run of 32 numbers, fp32 from
 * run to run.  Words of LANES rows of the weight are turned into vectors as in weight_turn.h, so a lane is an
 * output.  Integers are exact and this file is compiled without contraction, so all tables give the same bits. */
#include "kernel/quant_dot.h"
#include "kernel/matmul.h"
#include "kernel/tables.h"
#include "kernel/weight_lines.h"
#include "kernel/weight_steps.h"

enum { RUN = ROUNDED_RUN, ROWS = 4 }; /* rows of x that share what is made of a run */
enum { AHEAD = 512 };                  /* bytes before they are needed */

/* A run of LANES rows: bytes, 4 numbers of each row a word; a number is scale q + shift, or scale (q - middle),
 * the scale of numbers 16 on apart. */
typedef struct run {
  vu word[8];
  vf scale[2], shift;
} run;

INLINE void open_block(weight_type type, byte_rows rows, size_t at, run *r)
{
  const bool least = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1;
  const bool fifth = type == WEIGHT_Q5_0 || type == WEIGHT_Q5_1;
  const size_t before = (least ? 4 : 2) + (fifth ? 4 : 0);
  vu head[4];
  load_words(rows, at, head);
  vf_from_halves(head[0], r->scale, &r->shift);
  load_words(rows, at + before, r->word);
  if (type == WEIGHT_Q8_0) {
    load_words(rows, at + before + 16, r->word + 4);
    return;
  }
  vu high = least ? head[1] : head[0] >> 16 | head[1] << 16;
  UNROLLED for (int j = 0; j < 4; j++) {
    vu word = r->word[j];
    r->word[j] = word & 0x0f0f0f0fu;
    r->word[4 + j] = word >> 4 & 0x0f0f0f0fu;
    if (!fifth) continue;
    r->word[j] |= vu_spread_bits(high >> (4 * j));
    r->word[4 + j] |= vu_spread_bits(high >> (16 + 4 * j));
  }
}

/* Two runs that share bytes: the low halves, then the high ones. */
INLINE void open_45_k(const bool fifth, byte_rows rows, size_t at, int chunk, const block_head *head, run r[2])
{
  vu word[8], high[8];
  UNROLLED for (size_t p = 0; p < 2; p++) {
    load_words(rows, at + (fifth ? 48 : 16) + (size_t)chunk * 32 + 16 * p, word + 4 * p);
    if (fifth) load_words(rows, at + 16 + 16 * p, high + 4 * p);
  }
  UNROLLED for (int side = 0; side < 2; side++) {
    step_of_part(head, 2 * chunk + side, r[side].scale, &r[side].shift);
    UNROLLED for (int j = 0; j < 8; j++) {
      r[side].word[j] = word[j] >> (4 * side) & 0x0f0f0f0fu;
      if (fifth) r[side].word[j] |= (high[j] >> (2 * chunk + side) & 0x01010101u) << 4;
    }
  }
}

INLINE void open_6_k(byte_rows rows, size_t at, int chunk, const block_head *head, run r[2])
{
  size_t half = (size_t)chunk / 2;
  int bit = chunk % 2 * 4;
  vu high[8];
  UNROLLED for (size_t p = 0; p < 2; p++) load_words(rows, at + 128 + 32 * half + 16 * p, high + 4 * p);
  UNROLLED for (int side = 0; side < 2; side++) {
    UNROLLED for (size_t p = 0; p < 2; p++) {
      load_words(rows, at + 64 * half + (size_t)side * 32 + 16 * p, r[side].word + 4 * p);
      r[side].scale[p] = step_of_16(head, chunk, 2 * side + (int)p);
    }
    UNROLLED for (int j = 0; j < 8; j++)
      r[side].word[j] = (r[side].word[j] >> bit & 0x0f0f0f0fu) | (high[j] >> (bit + 2 * side) & 0x03030303u) << 4;
  }
}

/* What a run adds to the output of a row of x: in this order, each step rounded. */
INLINE vf product_of_run(const bool has_instruction, weight_type type, const run *r, const rounded_run *x, vf sum)
{
  const bool affine = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1 || type == WEIGHT_Q4_K || type == WEIGHT_Q5_K;
  /* whose bytes are not signed: 128 more, and 128 fewer */
  const bool flips = type == WEIGHT_Q8_0 && has_instruction;
  const int middle =
    type == WEIGHT_Q4_0 ? 8 : type == WEIGHT_Q5_0 ? 16 : type == WEIGHT_Q6_K ? 32 : flips ? 128 : 0;
  vi products[2];
  UNROLLED for (int p = 0; p < 2; p++) {
    products[p] = vi_splat(affine ? 0 : -middle * x->sum[p]);
    UNROLLED for (int j = 4 * p; j < 4 * p + 4; j++) {
      int32_t four;
      memcpy(&four, x->q + 4 * j, sizeof four);
      vu word = flips ? r->word[j] ^ 0x80808080u : r->word[j];
      products[p] = dot4(has_instruction, type == WEIGHT_Q8_0 && !flips, products[p], word, vi_splat(four));
    }
  }
  vf scale = vf_splat(x->scale);
  if (type == WEIGHT_Q6_K) {
    sum = sum + scale * (r->scale[0] * vf_from_int(products[0]));
    return sum + scale * (r->scale[1] * vf_from_int(products[1]));
  }
  vf total = r->scale[0] * vf_from_int(products[0] + products[1]);
  if (affine) total = total + r->shift * vf_splat((float)(x->sum[0] + x->sum[1]));
  return sum + scale * total;
}

/* LANES rows of the weight against `count` rows of x, ROWS at most; after the last AHEAD bytes come those of
 * `next`. */
INLINE void multiply_lanes(const bool has_instruction, weight_type type, byte_rows rows, byte_rows next, size_t n,
                           const size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride)
{
  const size_t size = weight_bytes_of(type), runs = type >= WEIGHT_Q4_K ? 8 : 1, at_once = runs > 1 ? 2 : 1;
  size_t bytes = n / RUN / runs * size;
  vf sum[ROWS];
  UNROLLED for (size_t r = 0; r < count; r++) sum[r] = vf_load(c + r * c_stride);
  for (size_t at = 0; at < bytes; at += size, x += runs) {
    bool inside = at + AHEAD < bytes;
    const ahead_rows later = {inside ? rows : next, inside ? AHEAD : AHEAD - (ptrdiff_t)bytes};
    block_head head;
    if (size >= FETCH_LINE / 2 || at / size % 2 == 0) ask(&later, LANES, at, size);
    if (runs > 1) open_head(type, rows, at, &head);
    for (size_t i = 0; i < runs; i += at_once) {
      run now[2];
      if (type == WEIGHT_Q6_K) open_6_k(rows, at, (int)(i / 2), &head, now);
      else if (runs > 1) open_45_k(type == WEIGHT_Q5_K, rows, at, (int)(i / 2), &head, now);
      else open_block(type, rows, at, now);
      UNROLLED for (size_t r = 0; r < count; r++)
        UNROLLED for (size_t j = 0; j < at_once; j++)
          sum[r] = product_of_run(has_instruction, type, &now[j], x + r * x_stride + i + j, sum[r]);
    }
  }
  UNROLLED for (size_t r = 0; r < count; r++) vf_store(c + r * c_stride, sum[r]);
}

INLINE void multiply_type(const bool has_instruction, weight_type type, byte_rows rows, byte_rows next, size_t n,
                          size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride)
{
  for (size_t v = 0; v < TILE_COLUMNS; v += LANES, rows += LANES) {
    byte_rows then = v + LANES < TILE_COLUMNS ? rows + LANES : next;
    size_t r = 0;
    for (; r + ROWS <= count; r += ROWS)
      multiply_lanes(has_instruction, type, rows, then, n, ROWS, x + r * x_stride, x_stride, c + r * c_stride + v,
                     c_stride);
    for (; r < count; r++)
      multiply_lanes(has_instruction, type, rows, then, n, 1, x + r * x_stride, x_stride, c + r * c_stride + v,
                     c_stride);
  }
}

#define MULTIPLY(type)                                                                                            \
  case type:                                                                                                      \
    multiply_type(has_instruction, type, (byte_rows)rows, (byte_rows)next, n, count, x, x_stride, c, c_stride);   \
    break;

INLINE void multiply(const bool has_instruction, weight_type type, const void *const *rows,
                     const void *const *next, size_t n, size_t count, const rounded_run *x, size_t x_stride,
                     float *c, size_t c_stride)
{
  switch (type) {
    MULTIPLY(WEIGHT_Q8_0)
    MULTIPLY(WEIGHT_Q4_0)
    MULTIPLY(WEIGHT_Q4_1)
    MULTIPLY(WEIGHT_Q5_0)
    MULTIPLY(WEIGHT_Q5_1)
    MULTIPLY(WEIGHT_Q4_K)
    MULTIPLY(WEIGHT_Q5_K)
    MULTIPLY(WEIGHT_Q6_K)
  default: break;
  }
}

void KERNEL(multiply_rounded)(weight_type type, const void *const *rows, const void *const *next, size_t n,
                              size_t count, const rounded_run *x, size_t x_stride, float *c, size_t c_stride)
{
  if (has_dot_instruction()) multiply(true, type, rows, next, n, count, x, x_stride, c, c_stride);
  else multiply(false, type, rows, next, n, count, x, x_stride, c, c_stride);
}
