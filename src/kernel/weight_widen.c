/* Stored weights to fp32, and to panels of the matrix product.  One idea: 16 bytes of LANES rows are turned while they are
 * still packed, so that a vector holds the same word of LANES rows; then shifts and masks give the numbers of all rows at
 * once, in the order in which panels hold them, at a quarter or an eighth of the shuffles that fp32 would take.
 * A number is q * scale + shift; the product is exact, so all tables give the same bits, with fused multiply-adds or not. */
#include "kernel/matmul.h"
#include "kernel/tables.h"
#include "kernel/vector_words.h"
#include "kernel/weight_plain.h"

typedef const unsigned char *const *byte_rows;

/* ---- one row after the other ---- */

INLINE vf load_wide(weight_type type, const void *p)
{
  return type == WEIGHT_F16 ? vf_load_halves(p) : vf_load_bfloats(p);
}

INLINE void widen_16(weight_type type, size_t n, const unsigned char *from, float *to)
{
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) vf_store(to + i, load_wide(type, from + 2 * i));
  if (i == n) return;
  unsigned char rest[2 * LANES] = {0};
  memcpy(rest, from + 2 * i, 2 * (n - i));
  vf_store_part(to + i, load_wide(type, rest), n - i);
}

void KERNEL(widen)(weight_type type, size_t n, const void *from, float *to)
{
  if (type == WEIGHT_F16) widen_16(WEIGHT_F16, n, from, to);
  else if (type == WEIGHT_BF16) widen_16(WEIGHT_BF16, n, from, to);
  else weight_widen(type, n, from, to);
}

/* ---- LANES rows side by side; `to` holds a panel's rows, TILE_COLUMNS floats each ---- */

/* The numbers in 16 bytes of each row: 4 or 8. */
INLINE void turn_plain(weight_type type, byte_rows rows, size_t at, vf number[8])
{
  vu word[4];
  load_words(rows, at, word);
  UNROLLED for (int j = 0; j < 4; j++) {
    if (type == WEIGHT_F32) {
      number[j] = (vf)word[j];
    } else if (type == WEIGHT_F16) {
      vf_from_halves(word[j], number + 2 * j, number + 2 * j + 1);
    } else {
      number[2 * j] = (vf)(word[j] << 16);
      number[2 * j + 1] = (vf)(word[j] & 0xffff0000u);
    }
  }
}

INLINE void turn_plain_rows(weight_type type, byte_rows rows, size_t from, size_t n, float *to)
{
  const size_t each = type == WEIGHT_F32 ? 4 : 8, bytes = 16 / each;
  size_t i = 0;
  vf number[8];
  for (; i + each <= n; i += each) {
    turn_plain(type, rows, (from + i) * bytes, number);
    UNROLLED for (size_t e = 0; e < each; e++) vf_store(to + (i + e) * TILE_COLUMNS, number[e]);
  }
  if (i == n) return;
  unsigned char rest[LANES][16] = {{0}};
  const unsigned char *row[LANES];
  for (int r = 0; r < LANES; r++) {
    memcpy(rest[r], rows[r] + (from + i) * bytes, (n - i) * bytes);
    row[r] = rest[r];
  }
  turn_plain(type, row, 0, number);
  UNROLLED for (size_t e = 0; e < each; e++)
    if (i + e < n) vf_store(to + (i + e) * TILE_COLUMNS, number[e]);
}

INLINE vf from_bits(vu v) { return vf_from_int((vi)v); }

/* Blocks of 32, one after the other. */
INLINE void turn_32(weight_type type, byte_rows rows, size_t at, float *to)
{
  const bool least = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1, fifth = type == WEIGHT_Q5_0 || type == WEIGHT_Q5_1;
  vu head[4], high = {0};
  vf scale, shift;
  load_words(rows, at, head);
  vf_from_halves(head[0], &scale, &shift);
  if (!least) shift = scale * (fifth ? -16.0f : -8.0f);
  if (fifth) high = least ? head[1] : head[0] >> 16 | head[1] << 16;
  vu word[4];
  load_words(rows, at + (least ? 4 : 2) + (fifth ? 4 : 0), word);
  UNROLLED for (int i = 0; i < 16; i++) {
    vu low = word[i / 4] >> (i % 4 * 8) & 15, top = word[i / 4] >> (i % 4 * 8 + 4) & 15;
    if (fifth) {
      low |= (high >> i & 1) << 4;
      top |= (high >> (i + 16) & 1) << 4;
    }
    vf_store(to + i * TILE_COLUMNS, vf_fma(from_bits(low), scale, shift));
    vf_store(to + (i + 16) * TILE_COLUMNS, vf_fma(from_bits(top), scale, shift));
  }
}

INLINE void turn_q8_0(byte_rows rows, size_t at, float *to)
{
  vu head[4], word[4];
  vf scale, unused;
  load_words(rows, at, head);
  vf_from_halves(head[0], &scale, &unused);
  for (int half = 0; half < 2; half++) {
    load_words(rows, at + 2 + (size_t)half * 16, word);
    UNROLLED for (int i = 0; i < 16; i++)
      vf_store(to + (half * 16 + i) * TILE_COLUMNS, vf_from_int((vi)(word[i / 4] << (24 - i % 4 * 8)) >> 24) * scale);
  }
}

/* Scale and shift of part s of 8 of Q4_K and Q5_K: 6 bits each in 12 bytes, of the last four parts spread over two places. */
INLINE void scale_of_part(const vu head[4], int s, vf *scale, vf *shift)
{
  vf d, least;
  int bit = s % 4 * 8;
  vf_from_halves(head[0], &d, &least);
  vu q = head[1] >> bit & 63, m = head[2] >> bit & 63;
  if (s >= 4) {
    q = (head[3] >> bit & 15) | (head[1] >> (bit + 6) & 3) << 4;
    m = (head[3] >> (bit + 4) & 15) | (head[2] >> (bit + 6) & 3) << 4;
  }
  *scale = d * from_bits(q);
  *shift = -(least * from_bits(m));
}

/* Chunk 0 .. 3 of 64 numbers: the low halves of 32 bytes, then the high ones. */
INLINE void turn_45_k(bool fifth, byte_rows rows, size_t at, int chunk, float *to)
{
  vu head[4], word[4], high[4];
  vf scale[2], shift[2];
  load_words(rows, at, head);
  scale_of_part(head, 2 * chunk, scale, shift);
  scale_of_part(head, 2 * chunk + 1, scale + 1, shift + 1);
  for (size_t half = 0; half < 2; half++) {
    load_words(rows, at + (fifth ? 48 : 16) + 32 * (size_t)chunk + 16 * half, word);
    if (fifth) load_words(rows, at + 16 + 16 * half, high);
    float *low_to = to + half * 16 * TILE_COLUMNS, *top_to = low_to + 32 * TILE_COLUMNS;
    UNROLLED for (int i = 0; i < 16; i++) {
      vu low = word[i / 4] >> (i % 4 * 8) & 15, top = word[i / 4] >> (i % 4 * 8 + 4) & 15;
      if (fifth) {
        low |= (high[i / 4] >> (i % 4 * 8 + 2 * chunk) & 1) << 4;
        top |= (high[i / 4] >> (i % 4 * 8 + 2 * chunk + 1) & 1) << 4;
      }
      vf_store(low_to + i * TILE_COLUMNS, vf_fma(from_bits(low), scale[0], shift[0]));
      vf_store(top_to + i * TILE_COLUMNS, vf_fma(from_bits(top), scale[1], shift[1]));
    }
  }
}

/* Chunk 0 .. 3 of 64: two of each half share their 64 bytes of low and 32 of high bits.  A scale for every 16. */
INLINE void turn_q6_k(byte_rows rows, size_t at, int chunk, float *to)
{
  size_t half = (size_t)chunk / 2;
  int side = chunk % 2;
  vu last[4], scales[4], first[4], second[4], high[4];
  vf unused, d;
  load_words(rows, at + 194, last);
  vf_from_halves(last[3], &unused, &d);
  load_words(rows, at + 192, scales);
  vu four = half ? side ? scales[3] : scales[2] : side ? scales[1] : scales[0];
  for (size_t run = 0; run < 2; run++) { /* of 16 */
    load_words(rows, at + 64 * half + 16 * run, first);
    load_words(rows, at + 64 * half + 32 + 16 * run, second);
    load_words(rows, at + 128 + 32 * half + 16 * run, high);
    vf scale1 = d * vf_from_int((vi)(four << (24 - 8 * run)) >> 24), shift1 = scale1 * -32.0f;
    vf scale2 = d * vf_from_int((vi)(four << (8 - 8 * run)) >> 24), shift2 = scale2 * -32.0f;
    float *to1 = to + 16 * run * TILE_COLUMNS, *to2 = to1 + 32 * TILE_COLUMNS;
    UNROLLED for (int i = 0; i < 16; i++) {
      int bit = i % 4 * 8 + 4 * side;
      vu q1 = (first[i / 4] >> bit & 15) | (high[i / 4] >> bit & 3) << 4;
      vu q2 = (second[i / 4] >> bit & 15) | (high[i / 4] >> (bit + 2) & 3) << 4;
      vf_store(to1 + i * TILE_COLUMNS, vf_fma(from_bits(q1), scale1, shift1));
      vf_store(to2 + i * TILE_COLUMNS, vf_fma(from_bits(q2), scale2, shift2));
    }
  }
}

#define TURN_32(type, bytes)                                                                        \
  case type:                                                                                        \
    for (size_t i = 0; i < n; i += 32) turn_32(type, rows, (from + i) / 32 * (bytes), to + i * TILE_COLUMNS); \
    break;

#define TURN_K(call, bytes)                                                                         \
  for (size_t i = 0; i < n; i += WEIGHT_CHUNK) {                                                    \
    size_t at = (from + i) / 256 * (bytes);                                                         \
    int chunk = (int)((from + i) % 256 / WEIGHT_CHUNK);                                             \
    float *out = to + i * TILE_COLUMNS;                                                             \
    call;                                                                                           \
  }                                                                                                 \
  break;

static void turn_rows(weight_type type, byte_rows rows, size_t from, size_t n, float *to)
{
  switch (type) {
  case WEIGHT_F32: turn_plain_rows(WEIGHT_F32, rows, from, n, to); break;
  case WEIGHT_F16: turn_plain_rows(WEIGHT_F16, rows, from, n, to); break;
  case WEIGHT_BF16: turn_plain_rows(WEIGHT_BF16, rows, from, n, to); break;
  case WEIGHT_Q8_0:
    for (size_t i = 0; i < n; i += 32) turn_q8_0(rows, (from + i) / 32 * 34, to + i * TILE_COLUMNS);
    break;
  TURN_32(WEIGHT_Q4_0, 18)
  TURN_32(WEIGHT_Q4_1, 20)
  TURN_32(WEIGHT_Q5_0, 22)
  TURN_32(WEIGHT_Q5_1, 24)
  case WEIGHT_Q4_K: TURN_K(turn_45_k(false, rows, at, chunk, out), 144)
  case WEIGHT_Q5_K: TURN_K(turn_45_k(true, rows, at, chunk, out), 176)
  case WEIGHT_Q6_K: TURN_K(turn_q6_k(rows, at, chunk, out), 210)
  case WEIGHT_TYPES: break;
  }
}

void KERNEL(turn)(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
                  float *packed)
{
  for (size_t v = 0; v < TILE_COLUMNS; v += LANES) {
    turn_rows(type, (byte_rows)(rows + v), from, n, packed + v);
    if (!scales) continue;
    vf scale = vf_load(scales + v);
    for (size_t i = v; i < n * TILE_COLUMNS; i += TILE_COLUMNS) vf_store(packed + i, vf_load(packed + i) * scale);
  }
}
