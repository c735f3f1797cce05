/* Stored weights to fp32, and to panels of the matrix product: kernel/weight_turn.h. */
#include "kernel/tables.h"
#include "kernel/weight_plain.h"
#include "kernel/weight_turn.h"

enum { AHEAD = 256 }; /* bytes before they are needed */

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

#define TURN(type) \
  case type: turn_rows(0, type, (byte_rows)rows, from, n, &later, &s); break;

void KERNEL(turn)(weight_type type, const void *const *rows, size_t from, size_t n, const float *scales,
                  float *packed)
{
  const ahead_rows later = {(byte_rows)rows, AHEAD};
  sink s = {.to = packed};
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
    EACH_VECTOR vf_store(packed + i + v * LANES, vf_load(packed + i + v * LANES) * vf_load(scales + v * LANES));
}
