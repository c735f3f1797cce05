/* kernel/attention_stop.h - when a row may stop: the proof, asked for many rows at once (docs/attention.md).
 *
 * For x = |scale| |q| and a table of the keys not visited, what they weigh together is at most
 *     sum over clusters of exp(scale q.centre + T(x)),
 * where T(x) is read on the straight line between two points of the table: a sum over the points with weights that
 * belong to the row. */
#ifndef KERNEL_ATTENTION_STOP_H
#define KERNEL_ATTENTION_STOP_H

#include "kernel/attention_tile.h"

/* What the proof needs of the rows of a tile. */
typedef struct stop_rows {
  float *weights; /* [PROOF_POINTS + 1, BLOCK] */
  float *centre;  /* [PROOF_CLUSTERS, BLOCK]: scale q.centre, rounding included */
  float *reach;   /* [BLOCK]: x */
} stop_rows;

enum { STOP_FLOATS = (PROOF_POINTS + 1 + PROOF_CLUSTERS + 1) * BLOCK };

static inline stop_rows stop_layout(float *memory)
{
  return (stop_rows){memory, memory + (PROOF_POINTS + 1) * BLOCK,
                     memory + (PROOF_POINTS + 1 + PROOF_CLUSTERS) * BLOCK};
}

/* [LANES] sums over channels of two rows' products, for rows from r on. */
INLINE vf row_products(const attention_head *h, size_t first, size_t rows, size_t r, const float *other)
{
  vf partial[LANES];
  size_t d = h->head_size;
  for (size_t l = 0; l < LANES; l++) {
    partial[l] = (vf){0};
    const float *q = h->q + (first + r + l) * h->q_stride;
    for (size_t c = 0; r + l < rows && c < d; c += LANES) {
      vf x = vf_load_part(q + c, part(d, c));
      partial[l] = vf_fma(x, other ? vf_load_part(other + c, part(d, c)) : x, partial[l]);
    }
  }
  return vf_sums(partial);
}

/* Where x lies among the points 0, 2^-4, .. 2^5; beyond the last one by the largest distance. */
static inline void weigh_points(float x, float *weights)
{
  for (int p = 0; p <= PROOF_POINTS; p++) weights[p * BLOCK] = 0;
  int p = 0;
  float low = 0, high = 0x1p-4f;
  while (p < PROOF_POINTS - 2 && x > high) {
    low = high;
    high *= 2;
    p++;
  }
  if (x > high) {
    weights[(PROOF_POINTS - 1) * BLOCK] = 1;
    weights[PROOF_POINTS * BLOCK] = x - high;
  } else {
    weights[(p + 1) * BLOCK] = (x - low) / (high - low);
    weights[p * BLOCK] = 1 - weights[(p + 1) * BLOCK];
  }
}

/* The slack covers the rounding of scores of up to 256 terms, and of what the tables hold. */
static inline void stop_measure(const attention_head *h, size_t first, size_t rows, const stop_rows *s)
{
  size_t d = h->head_size;
  float grow = 1.0f + 6e-8f * (float)(d + 8), farthest = 0;
  for (size_t i = 0; i < PROOF_CLUSTERS; i++) {
    double square = 0;
    for (size_t c = 0; c < d; c++) square += (double)h->proof.clusters[i * d + c] * h->proof.clusters[i * d + c];
    if (!(square <= (double)farthest * farthest)) farthest = (float)sqrt(square) * grow;
  }
  for (size_t r = 0; r < rows; r += LANES) {
    vf norm = vf_sqrt(row_products(h, first, rows, r, NULL)) * grow + 1e-18f;
    vf reach = norm * fabsf(h->scale), slack = reach * (farthest * 0x1p-16f) + 2e-3f;
    vf_store(s->reach + r, reach * (1.0f + 0x1p-16f)); /* also what a score of far keys may round up */
    for (size_t i = 0; i < PROOF_CLUSTERS; i++) {
      vf product = row_products(h, first, rows, r, h->proof.clusters + i * d) * h->scale;
      if (h->factors) /* they may turn a score round */
        product = vf_abs(product);
      else if (h->cap > 0) /* it lifts what is below 0 */
        product = vf_max(vf_splat(0), product);
      vf_store(s->centre + i * BLOCK + r, product + slack);
    }
  }
  for (size_t r = 0; r < rows; r++) {
    if (h->bias != BIAS_DISTANCE) {
      weigh_points(s->reach[r], s->weights + r);
    } else {
      for (int p = 0; p < PROOF_POINTS; p++) s->weights[p * BLOCK + r] = 0;
      s->weights[PROOF_POINTS * BLOCK + r] = s->reach[r];
    }
  }
}

/* T of each cluster, for LANES rows from r on. */
INLINE void stop_tails(const stop_rows *s, const float *table, size_t r, vf tails[PROOF_CLUSTERS])
{
  for (int i = 0; i < PROOF_CLUSTERS; i++) tails[i] = (vf){0};
  for (int p = 0; p <= PROOF_POINTS; p++) {
    vf weight = vf_load(s->weights + p * BLOCK + r);
    for (int i = 0; i < PROOF_CLUSTERS; i++)
      tails[i] = vf_fma(weight, vf_splat(table[p * PROOF_CLUSTERS + i]), tails[i]);
  }
}

/* A NaN among them stays. */
INLINE vf log_of_sum(const vf x[PROOF_CLUSTERS])
{
  vf largest = x[0], sum = {0};
  for (int i = 1; i < PROOF_CLUSTERS; i++) largest = vf_max(x[i], largest);
  for (int i = 0; i < PROOF_CLUSTERS; i++) sum += vf_exp(x[i] - largest);
  return largest + vf_log(sum);
}

/* Logarithm of an upper bound of what the keys of a table weigh, for LANES rows from r on; SLOPE: as seen from the
 * key that its biases are counted from; DISTANCE: for a bias of 0, and as if of one key. */
INLINE vf stop_weight(const attention_head *h, const stop_rows *s, const float *table, size_t r)
{
  vf bounds[PROOF_CLUSTERS];
  stop_tails(s, table, r, bounds);
  if (h->bias == BIAS_DISTANCE) {
    vf largest = vf_splat(-INFINITY);
    for (int i = 0; i < PROOF_CLUSTERS; i++) {
      bounds[i] += vf_load(s->centre + i * BLOCK + r);
      largest = vf_max(largest, bounds[i]); /* a NaN stays */
    }
    bool finite = table[PROOF_POINTS * PROOF_CLUSTERS] < INFINITY;
    if (h->cap > 0 && finite) largest = vf_select(largest > h->cap, vf_splat(h->cap * 1.00001f), largest);
    return h->factors ? largest * h->proof.largest_factor : largest;
  }
  for (int i = 0; i < PROOF_CLUSTERS; i++) bounds[i] += vf_load(s->centre + i * BLOCK + r);
  vf weight = log_of_sum(bounds);
  if (!(h->cap > 0) || !(table[0] < INFINITY)) return weight;
  for (int i = 0; i < PROOF_CLUSTERS; i++) bounds[i] = vf_splat(table[i]);
  vf capped = log_of_sum(bounds) + h->cap * 1.00001f + 1e-3f;
  return vf_select(weight < capped, weight, capped);
}

#endif
