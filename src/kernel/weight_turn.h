/* kernel/weight_turn.h - stored weights of the rows of a tile, number by number, to where they are wanted: a panel
 * of the matrix product, or at once the sums of a few rows of x.
 *
 * One idea: words of LANES rows are turned while they are still packed, so that a vector holds the same word of
 * LANES rows; then shifts and masks give the numbers of all rows at once, in the order of the inner index, at a
 * half to an eighth of the shuffles that fp32 would take.  A number is q * scale + shift; the product is exact, so
 * all tables give the same bits, with fused multiply-adds or not.
 *
 * The vectors of a tile take turns number by number: a sum is one chain of multiply-adds, and there are then
 * several. */
#ifndef KERNEL_WEIGHT_TURN_H
#define KERNEL_WEIGHT_TURN_H

#include "kernel/matmul.h"
#include "kernel/weight_lines.h"
#include "kernel/weight_steps.h"
#include "kernel/weight_type.h"

enum { RUN = 32, PIECE = 16, CHUNK = 64 }; /* numbers; bytes; numbers of a block of 256 at a time */
enum { TRAY = VECTOR_BYTES };              /* bytes of a row of numbers that are not in blocks at a time */
enum { SINK_ROWS = 4 };

/* Where number i of the rows goes: of a panel (count 0) to its row i at `to`, TILE_COLUMNS floats each; else
 * x[r][i] times it is added to sum[r], r below count, which is a constant wherever it stands. */
typedef struct sink {
  float *to;
  const float *x[SINK_ROWS];
  vf sum[SINK_ROWS][TILE_VECTORS];
} sink;

#define EACH_VECTOR UNROLLED for (int v = 0; v < TILE_VECTORS; v++)

INLINE void put(const int count, sink *s, size_t i, const int v, vf number)
{
  if (count == 0) vf_store(s->to + i * TILE_COLUMNS + v * LANES, number);
  UNROLLED for (int r = 0; r < count; r++)
    s->sum[r][v] = vf_fma(vf_splat(s->x[r][i]), number, s->sum[r][v]);
}

INLINE void advance(const int count, sink *s, size_t n)
{
  if (count == 0) s->to += n * TILE_COLUMNS;
  UNROLLED for (int r = 0; r < count; r++) s->x[r] += n;
}

/* ---- numbers that are not in blocks ---- */

/* A vector's worth of bytes of each row. */
INLINE void turn_tray(const int count, weight_type type, byte_rows rows, size_t at, sink *s)
{
#ifdef HAS_HALF_LINES
  if (type == WEIGHT_F16) {
    v16 half[TILE_VECTORS][2 * LANES] __attribute__((aligned(64)));
    EACH_VECTOR load_half_lines(rows + v * LANES, at, half[v]);
    UNROLLED for (size_t i = 0; i < LANES; i++)
      EACH_VECTOR put(count, s, i, v, vf_load_halves(&half[v][halves_place(i)]));
    UNROLLED for (size_t i = LANES; i < 2 * LANES; i++)
      EACH_VECTOR put(count, s, i, v, vf_load_halves(&half[v][halves_place(i)]));
    return;
  }
#endif
  vu word[TILE_VECTORS][LANES];
  EACH_VECTOR load_lines(rows + v * LANES, at, word[v]);
  UNROLLED for (int j = 0; j < LANES; j++) {
    size_t i = (size_t)j * (type == WEIGHT_F32 ? 1 : 2);
    vf low[TILE_VECTORS], high[TILE_VECTORS];
    EACH_VECTOR {
      low[v] = (vf)word[v][j], high[v] = (vf)(word[v][j] & 0xffff0000u);
      if (type == WEIGHT_F16) vf_from_halves(word[v][j], &low[v], &high[v]);
      if (type == WEIGHT_BF16) low[v] = (vf)(word[v][j] << 16);
    }
    EACH_VECTOR put(count, s, i, v, low[v]);
    if (type == WEIGHT_F32) continue;
    EACH_VECTOR put(count, s, i + 1, v, high[v]);
  }
}

/* n numbers of each row, fewer than a vector's worth: turned from copies with zeros after them, to a panel. */
INLINE void turn_few(const int count, weight_type type, byte_rows rows, size_t at, size_t n, sink *s)
{
  unsigned char tray[TILE_COLUMNS][TRAY] __attribute__((aligned(64)));
  const unsigned char *row[TILE_COLUMNS];
  float panel[TRAY / 2 * TILE_COLUMNS];
  sink turned = {.to = panel};
  for (int r = 0; r < TILE_COLUMNS; r++) {
    memset(tray[r], 0, TRAY);
    memcpy(tray[r], rows[r] + at, n * weight_bytes_of(type));
    row[r] = tray[r];
  }
  turn_tray(0, type, row, 0, &turned);
  for (size_t i = 0; i < n; i++) EACH_VECTOR put(count, s, i, v, vf_load(panel + i * TILE_COLUMNS + v * LANES));
  advance(count, s, n);
}

/* Numbers up to where a vector of the first row, and mostly of all, begins to lie in one cache line: rows a
 * multiple of 4 KiB apart meet in one set of the first-level cache, and a line read twice is no longer there. */
INLINE size_t numbers_before_line(weight_type type, byte_rows rows, size_t at, size_t n)
{
  enum { WORTH_IT = 64 };
  const size_t size = weight_bytes_of(type);
  size_t off = ((uintptr_t)rows[0] + at) % TRAY;
  return off > 0 && off % size == 0 && n * size >= (size_t)WORTH_IT * TRAY ? (TRAY - off) / size : 0;
}

INLINE void turn_plain(const int count, weight_type type, byte_rows rows, size_t at, size_t n,
                       const ahead_rows *later, sink *s)
{
  const size_t size = weight_bytes_of(type), each = TRAY / size;
  size_t first = numbers_before_line(type, rows, at, n);
  if (first > 0) turn_few(count, type, rows, at, first, s);
  at += first * size;
  for (n -= first; n >= each; n -= each, at += TRAY, advance(count, s, each)) {
    ask(later, TILE_COLUMNS, at, TRAY);
    turn_tray(count, type, rows, at, s);
  }
  if (n > 0) turn_few(count, type, rows, at, n, s);
}

/* ---- blocks of 32 ---- */

/* 4 bits of each of 16 bytes, or all 8, are 16 numbers. */
INLINE void put_nibbles(const int count, const vu word[TILE_VECTORS][4], const int side, const vf *scale,
                        const vf *shift, size_t first, sink *s)
{
  UNROLLED for (int i = 0; i < PIECE; i++)
    EACH_VECTOR put(count, s, first + (size_t)i, v,
                    vf_fma(vf_from_nibbles(word[v][i / 4], i % 4 * 8 + side * 4), scale[v], shift[v]));
}

INLINE void put_bytes(const int count, const vu word[TILE_VECTORS][4], const vf *scale, const vf *shift,
                      size_t first, sink *s)
{
  UNROLLED for (int i = 0; i < PIECE; i++)
    EACH_VECTOR put(count, s, first + (size_t)i, v,
                    vf_fma(vf_from_bytes(word[v][i / 4], i % 4), scale[v], shift[v]));
}

INLINE void turn_q8_0(const int count, byte_rows rows, size_t at, sink *s)
{
  vu word[TILE_VECTORS][4];
  vf scale[TILE_VECTORS], unused;
  EACH_VECTOR {
    load_words(rows + v * LANES, at, word[v]);
    vf_from_halves(word[v][0], &scale[v], &unused);
  }
  for (size_t p = 0; p < 2; p++) {
    EACH_VECTOR load_words(rows + v * LANES, at + 2 + p * PIECE, word[v]);
    UNROLLED for (int i = 0; i < PIECE; i++)
      EACH_VECTOR put(count, s, p * PIECE + (size_t)i, v,
                      vf_from_int((vi)(word[v][i / 4] << (24 - i % 4 * 8)) >> 24) * scale[v]);
  }
}

/* Scale, minimum or none, 32 fifth bits or none, then the low halves of numbers 0 .. 15 and the high ones of 16
 * .. 31. */
INLINE void turn_32(const int count, weight_type type, byte_rows rows, size_t at, sink *s)
{
  const bool least = type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1;
  const bool fifth = type == WEIGHT_Q5_0 || type == WEIGHT_Q5_1;
  vu word[TILE_VECTORS][4], high[TILE_VECTORS], bytes[TILE_VECTORS][4];
  vf scale[TILE_VECTORS], shift[TILE_VECTORS];
  EACH_VECTOR {
    vu head[4];
    load_words(rows + v * LANES, at, head);
    load_words(rows + v * LANES, at + (least ? 4 : 2) + (fifth ? 4 : 0), word[v]);
    vf_from_halves(head[0], &scale[v], &shift[v]);
    if (!least) shift[v] = scale[v] * (fifth ? -16.0f : -8.0f);
    high[v] = least ? head[1] : head[0] >> 16 | head[1] << 16;
  }
  UNROLLED for (int side = 0; side < 2; side++) {
    EACH_VECTOR
      UNROLLED for (int j = 0; j < 4; j++)
        bytes[v][j] = (word[v][j] >> (4 * side) & 0x0f0f0f0fu) | vu_spread_bits(high[v] >> (16 * side + 4 * j));
    if (fifth) put_bytes(count, bytes, scale, shift, (size_t)side * PIECE, s);
    else put_nibbles(count, word, side, scale, shift, (size_t)side * PIECE, s);
  }
}

INLINE void turn_blocks(const int count, weight_type type, byte_rows rows, size_t at, size_t n,
                        const ahead_rows *later, sink *s)
{
  const size_t size = weight_bytes_of(type), every = size < FETCH_LINE / 2 ? 2 * RUN : RUN;
  for (size_t i = 0; i < n; i += RUN, at += size, advance(count, s, RUN)) {
    if (i % every == 0) ask(later, TILE_COLUMNS, at, size);
    if (type == WEIGHT_Q8_0) turn_q8_0(count, rows, at, s);
    else turn_32(count, type, rows, at, s);
  }
}

/* ---- blocks of 256, chunk 0 .. 3 of them ---- */

/* The low halves of 32 bytes, then the high ones; of Q5_K the fifth bits of part s are bits s of 32 other
 * bytes. */
INLINE void turn_45_k(const int count, const bool fifth, byte_rows rows, size_t at, int chunk,
                      const block_head *head, sink *s)
{
  vu word[2][TILE_VECTORS][4], high[2][TILE_VECTORS][4], bytes[TILE_VECTORS][4];
  vf scale[2][TILE_VECTORS], shift[2][TILE_VECTORS];
  EACH_VECTOR
    UNROLLED for (int side = 0; side < 2; side++) {
      step_of_part(&head[v], 2 * chunk + side, &scale[side][v], &shift[side][v]);
      load_words(rows + v * LANES, at + (fifth ? 48 : 16) + 32 * (size_t)chunk + PIECE * (size_t)side,
                 word[side][v]);
      if (fifth) load_words(rows + v * LANES, at + 16 + PIECE * (size_t)side, high[side][v]);
    }
  UNROLLED for (int side = 0; side < 2; side++)
    UNROLLED for (int p = 0; p < 2; p++) {
      size_t first = (size_t)side * RUN + (size_t)p * PIECE;
      EACH_VECTOR
        UNROLLED for (int j = 0; j < 4 && fifth; j++)
          bytes[v][j] = (word[p][v][j] >> (4 * side) & 0x0f0f0f0fu) |
                        (high[p][v][j] >> (2 * chunk + side) & 0x01010101u) << 4;
      if (fifth) put_bytes(count, bytes, scale[side], shift[side], first, s);
      else put_nibbles(count, word[p], side, scale[side], shift[side], first, s);
    }
}

/* Two chunks share 64 bytes of low and 32 of high bits.  A scale for every 16 numbers. */
INLINE void turn_q6_k(const int count, byte_rows rows, size_t at, int chunk, const block_head *head, sink *s)
{
  size_t half = (size_t)chunk / 2;
  int bit = chunk % 2 * 4;
  vu high[2][TILE_VECTORS][4], word[TILE_VECTORS][4];
  EACH_VECTOR
    UNROLLED for (size_t p = 0; p < 2; p++)
      load_words(rows + v * LANES, at + 128 + 32 * half + PIECE * p, high[p][v]);
  UNROLLED for (int side = 0; side < 2; side++)
    UNROLLED for (int p = 0; p < 2; p++) {
      vf scale[TILE_VECTORS], shift[TILE_VECTORS];
      EACH_VECTOR {
        scale[v] = step_of_16(&head[v], chunk, 2 * side + p);
        shift[v] = scale[v] * -32.0f;
        load_words(rows + v * LANES, at + 64 * half + 32 * (size_t)side + PIECE * (size_t)p, word[v]);
        UNROLLED for (int j = 0; j < 4; j++)
          word[v][j] = (word[v][j] >> bit & 0x0f0f0f0fu) | (high[p][v][j] >> (bit + 2 * side) & 0x03030303u) << 4;
      }
      put_bytes(count, word, scale, shift, (size_t)side * RUN + (size_t)p * PIECE, s);
    }
}

INLINE void turn_k(const int count, weight_type type, byte_rows rows, size_t from, size_t n,
                   const ahead_rows *later, sink *s)
{
  for (size_t i = from; i < from + n;) {
    size_t at = i / 256 * weight_bytes_of(type);
    block_head head[TILE_VECTORS];
    EACH_VECTOR open_head(type, rows + v * LANES, at, &head[v]);
    do {
      int chunk = (int)(i % 256 / CHUNK);
      ask(later, TILE_COLUMNS, at + (size_t)chunk * 64, 64); /* about all of a block by and by */
      if (type == WEIGHT_Q6_K) turn_q6_k(count, rows, at, chunk, head, s);
      else turn_45_k(count, type == WEIGHT_Q5_K, rows, at, chunk, head, s);
      advance(count, s, CHUNK);
      i += CHUNK;
    } while (i % 256 > 0 && i < from + n);
  }
}

/* Numbers from .. from+n-1 of TILE_COLUMNS rows. */
INLINE void turn_rows(const int count, weight_type type, byte_rows rows, size_t from, size_t n,
                      const ahead_rows *later,
                      sink *s)
{
  const size_t size = weight_bytes_of(type);
  if (type <= WEIGHT_BF16) turn_plain(count, type, rows, from * size, n, later, s);
  else if (type <= WEIGHT_Q5_1) turn_blocks(count, type, rows, from / RUN * size, n, later, s);
  else turn_k(count, type, rows, from, n, later, s);
}

#endif
