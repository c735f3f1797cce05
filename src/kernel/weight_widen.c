/* Stored weights to fp32, to panels of the matrix product, and through it.  One idea: words of LANES rows are turned while they
 * are still packed, so that a vector holds the same word of LANES rows; then shifts and masks give the numbers of all rows
 * at once, in the order of the inner index, at a half to an eighth of the shuffles that fp32 would take.  A number is q *
 * scale + shift; the product is exact, so all tables give the same bits, with fused multiply-adds or not. */
#include "kernel/matmul.h"
#include "kernel/tables.h"
#include "kernel/weight_plain.h"
#include "kernel/weight_steps.h"

enum { RUN = 32, PIECE = 16, CHUNK = 64 }; /* numbers; bytes; numbers of a block of 256 at a time */
enum { TRAY = 128, AHEAD = 256 };          /* bytes of a row at a time; bytes before they are needed */

typedef const unsigned char *const *byte_rows;

/* ---- one row after the other ---- */

INLINE void widen_16(weight_type type, size_t n, const unsigned char *from, float *to)
{
  size_t i = 0;
  unsigned char rest[2 * LANES] = {0};
  for (; i + LANES <= n; i += LANES)
    vf_store(to + i, type == WEIGHT_F16 ? vf_load_halves(from + 2 * i) : vf_load_bfloats(from + 2 * i));
  if (i == n) return;
  memcpy(rest, from + 2 * i, 2 * (n - i));
  vf_store_part(to + i, type == WEIGHT_F16 ? vf_load_halves(rest) : vf_load_bfloats(rest), n - i);
}

void KERNEL(widen)(weight_type type, size_t n, const void *from, float *to)
{
  if (type == WEIGHT_F16) widen_16(WEIGHT_F16, n, from, to);
  else if (type == WEIGHT_BF16) widen_16(WEIGHT_BF16, n, from, to);
  else weight_widen(type, n, from, to);
}

/* ---- LANES rows side by side; `to` holds a panel's rows, TILE_COLUMNS floats each ---- */

/* What the same rows are read for next, asked for in time: into the second-level cache, since rows often lie a multiple of
 * 4 KiB apart and all meet in one set of the first. */
INLINE void fetch(byte_rows rows, size_t at, size_t bytes)
{
  for (int r = 0; r < LANES; r++)
    for (size_t b = 0; b < bytes; b += LINE * sizeof(float)) __builtin_prefetch(rows[r] + at + AHEAD + b, 0, 2);
}

/* `bytes` of each row, TRAY at most, which are `n` numbers; brought together first, because of what fetch says. */
INLINE void turn_tray(weight_type type, byte_rows rows, size_t at, size_t bytes, size_t n, float *to)
{
  const size_t each = PIECE / weight_bytes_of(type);
  unsigned char tray[LANES][TRAY] __attribute__((aligned(64)));
  const unsigned char *row[LANES];
  UNROLLED for (int r = 0; r < LANES; r++) {
    if (bytes < TRAY) memset(tray[r], 0, TRAY);
    memcpy(tray[r], rows[r] + at, bytes);
    row[r] = tray[r];
  }
  UNROLLED for (size_t p = 0; p < TRAY / PIECE; p++) {
    vu word[4];
    if (p * each >= n) return;
    load_words(row, p * PIECE, word);
    UNROLLED for (size_t j = 0; j < 4; j++) {
      size_t i = p * each + (type == WEIGHT_F32 ? j : 2 * j);
      vf low = (vf)word[j], high = (vf)(word[j] & 0xffff0000u);
      if (type == WEIGHT_F16) vf_from_halves(word[j], &low, &high);
      if (type == WEIGHT_BF16) low = (vf)(word[j] << 16);
      if (i < n) vf_store(to + i * TILE_COLUMNS, low);
      if (type != WEIGHT_F32 && i + 1 < n) vf_store(to + (i + 1) * TILE_COLUMNS, high);
    }
  }
}

INLINE void turn_plain(weight_type type, byte_rows rows, size_t at, size_t n, float *to)
{
  const size_t size = weight_bytes_of(type), each = TRAY / size;
  for (; n >= each; n -= each, at += TRAY, to += each * TILE_COLUMNS) {
    fetch(rows, at, TRAY);
    turn_tray(type, rows, at, TRAY, each, to);
  }
  if (n > 0) turn_tray(type, rows, at, n * size, n, to);
}

/* 4 bits of each of 16 bytes, or all 8, are 16 numbers. */
INLINE void put_nibbles(const vu word[4], const int side, vf scale, vf shift, float *to)
{
  UNROLLED for (int i = 0; i < PIECE; i++)
    vf_store(to + i * TILE_COLUMNS, vf_fma(vf_from_nibbles(word[i / 4], i % 4 * 8 + side * 4), scale, shift));
}

INLINE void put_bytes(const vu word[4], vf scale, vf shift, float *to)
{
  UNROLLED for (int i = 0; i < PIECE; i++)
    vf_store(to + i * TILE_COLUMNS, vf_fma(vf_from_bytes(word[i / 4], i % 4), scale, shift));
}

INLINE void turn_q8_0(byte_rows rows, size_t at, float *to)
{
  vu word[4];
  vf scale, unused;
  load_words(rows, at, word);
  vf_from_halves(word[0], &scale, &unused);
  for (size_t p = 0; p < 2; p++) {
    load_words(rows, at + 2 + p * PIECE, word);
    UNROLLED for (int i = 0; i < PIECE; i++)
      vf_store(to + (p * PIECE + (size_t)i) * TILE_COLUMNS,
               vf_from_int((vi)(word[i / 4] << (24 - i % 4 * 8)) >> 24) * scale);
  }
}

/* A block of 32: scale, minimum or none, 32 fifth bits or none, then the low halves of numbers 0 .. 15 and the high ones of
 * 16 .. 31. */
INLINE void turn_32(weight_type type, byte_rows rows, size_t at, float *to)
{
  const bool least = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1, fifth = type == WEIGHT_Q5_0 || type == WEIGHT_Q5_1;
  vu head[4], word[4], bytes[4];
  vf scale, shift;
  load_words(rows, at, head);
  load_words(rows, at + (least ? 4 : 2) + (fifth ? 4 : 0), word);
  vf_from_halves(head[0], &scale, &shift);
  if (!least) shift = scale * (fifth ? -16.0f : -8.0f);
  vu high = least ? head[1] : head[0] >> 16 | head[1] << 16;
  UNROLLED for (int side = 0; side < 2; side++) {
    float *half = to + side * PIECE * TILE_COLUMNS;
    UNROLLED for (int j = 0; j < 4; j++)
      bytes[j] = (word[j] >> (4 * side) & 0x0f0f0f0fu) | vu_spread_bits(high >> (16 * side + 4 * j));
    if (fifth) put_bytes(bytes, scale, shift, half);
    else put_nibbles(word, side, scale, shift, half);
  }
}

INLINE void turn_blocks(weight_type type, byte_rows rows, size_t at, size_t n, float *to)
{
  const size_t size = weight_bytes_of(type);
  for (size_t i = 0; i < n; i += RUN, at += size, to += RUN * TILE_COLUMNS) {
    fetch(rows, at, size);
    if (type == WEIGHT_Q8_0) turn_q8_0(rows, at, to);
    else turn_32(type, rows, at, to);
  }
}

/* ---- blocks of 256, chunk 0 .. 3 of them ---- */

/* The low halves of 32 bytes, then the high ones; of Q5_K the fifth bits of part s are bits s of 32 other bytes. */
INLINE void turn_45_k(const bool fifth, byte_rows rows, size_t at, int chunk, float *to)
{
  vu head[4], word[4], high[4], bytes[4];
  vf scale[2], shift[2];
  load_words(rows, at, head);
  step_of_part(head, 2 * chunk, scale, shift);
  step_of_part(head, 2 * chunk + 1, scale + 1, shift + 1);
  for (size_t p = 0; p < 2; p++) {
    load_words(rows, at + (fifth ? 48 : 16) + 32 * (size_t)chunk + PIECE * p, word);
    if (fifth) load_words(rows, at + 16 + PIECE * p, high);
    UNROLLED for (int side = 0; side < 2; side++) {
      float *half = to + ((size_t)side * RUN + p * PIECE) * TILE_COLUMNS;
      UNROLLED for (int j = 0; j < 4 && fifth; j++)
        bytes[j] = (word[j] >> (4 * side) & 0x0f0f0f0fu) | (high[j] >> (2 * chunk + side) & 0x01010101u) << 4;
      if (fifth) put_bytes(bytes, scale[side], shift[side], half);
      else put_nibbles(word, side, scale[side], shift[side], half);
    }
  }
}

/* Two chunks share 64 bytes of low and 32 of high bits.  A scale for every 16 numbers. */
INLINE void turn_q6_k(byte_rows rows, size_t at, int chunk, float *to)
{
  size_t half = (size_t)chunk / 2;
  int bit = chunk % 2 * 4;
  vf d;
  vu word[4], high[4], four = steps_of_chunk(rows, at, chunk, &d);
  for (size_t p = 0; p < 2; p++) {
    load_words(rows, at + 128 + 32 * half + PIECE * p, high);
    UNROLLED for (int side = 0; side < 2; side++) {
      vf scale = d * vf_from_int((vi)(four << (24 - 16 * side - 8 * (int)p)) >> 24);
      load_words(rows, at + 64 * half + 32 * (size_t)side + PIECE * p, word);
      UNROLLED for (int j = 0; j < 4; j++)
        word[j] = (word[j] >> bit & 0x0f0f0f0fu) | (high[j] >> (bit + 2 * side) & 0x03030303u) << 4;
      put_bytes(word, scale, scale * -32.0f, to + ((size_t)side * RUN + p * PIECE) * TILE_COLUMNS);
    }
  }
}

INLINE void turn_k(weight_type type, byte_rows rows, size_t from, size_t n, float *to)
{
  for (size_t i = from; i < from + n; i += CHUNK, to += CHUNK * TILE_COLUMNS) {
    size_t at = i / 256 * weight_bytes_of(type);
    int chunk = (int)(i % 256 / CHUNK);
    fetch(rows, at + (size_t)chunk * 64, 64); /* about all of a block by and by */
    if (type == WEIGHT_Q6_K) turn_q6_k(rows, at, chunk, to);
    else turn_45_k(type == WEIGHT_Q5_K, rows, at, chunk, to);
  }
}

INLINE void turn_rows(weight_type type, byte_rows rows, size_t from, size_t n, float *to)
{
  const size_t size = weight_bytes_of(type);
  if (type <= WEIGHT_BF16) turn_plain(type, rows, from * size, n, to);
  else if (type <= WEIGHT_Q5_1) turn_blocks(type, rows, from / RUN * size, n, to);
  else turn_k(type, rows, from, n, to);
}

#define TURN(type) \
  case type: turn_rows(type, group, from, n, to); break;

void KERNEL(turn)(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
                  float *packed)
{
  for (size_t v = 0; v < TILE_COLUMNS; v += LANES) {
    byte_rows group = (byte_rows)(rows + v);
    float *to = packed + v;
    switch (type) {
      TURN(WEIGHT_F32)
      TURN(WEIGHT_F16)
      TURN(WEIGHT_BF16)
      TURN(WEIGHT_Q8_0)
      TURN(WEIGHT_Q4_0)
      TURN(WEIGHT_Q4_1)
      TURN(WEIGHT_Q5_0)
      TURN(WEIGHT_Q5_1)
      TURN(WEIGHT_Q4_K)
      TURN(WEIGHT_Q5_K)
      TURN(WEIGHT_Q6_K)
    case WEIGHT_TYPES: break;
    }
    for (size_t i = 0; scales && i < n * TILE_COLUMNS; i += TILE_COLUMNS)
      vf_store(to + i, vf_load(to + i) * vf_load(scales + v));
  }
}
