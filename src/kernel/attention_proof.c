/* What the proof of skipping knows of keys (docs/attention.md): a few centres, the distance of each key from its
 * own, and for each cluster the sum of exp(x distance + bias) at a few x.  Such a sum is convex in x as a
 * logarithm, so a straight line between two points of it is an upper bound. */
#include "kernel/tables.h"
#include "kernel/vector_math.h"

enum { BLOCK = ATTENTION_BLOCK, VECTORS = BLOCK / LANES, ROUNDS = 8 };

#define NOTHING -1e30f /* the logarithm of 0, finite so that it may be multiplied by 0 */

/* Squares of the distances of a block's keys from a centre. */
static void squares_from(size_t d, const float *turned, const float *centre, vf square[VECTORS])
{
  for (size_t v = 0; v < VECTORS; v++) square[v] = (vf){0};
  for (size_t c = 0; c < d; c++)
    for (size_t v = 0; v < VECTORS; v++) {
      vf off = vf_load(turned + c * BLOCK + v * LANES) - centre[c];
      square[v] = vf_fma(off, off, square[v]);
    }
}

/* The square of each key's distance from its nearest centre, and which that is; ties and NaN go to the first. */
static void nearest(size_t d, const float *turned, const float *clusters, vf square[VECTORS], vi owner[VECTORS])
{
  squares_from(d, turned, clusters, square);
  for (size_t v = 0; v < VECTORS; v++) owner[v] = (vi){0};
  for (int i = 1; i < PROOF_CLUSTERS; i++) {
    vf other[VECTORS];
    squares_from(d, turned, clusters + (size_t)i * d, other);
    for (size_t v = 0; v < VECTORS; v++) {
      vi closer = other[v] < square[v];
      square[v] = vf_select(closer, other[v], square[v]);
      owner[v] = (vi)vf_select(closer, (vf)vi_splat(i), (vf)owner[v]);
    }
  }
}

/* k-means (Lloyd 1982) from four keys of the block.  Any centres are right; good ones bound more tightly. */
void KERNEL(proof_clusters)(size_t d, const float *turned, float *clusters)
{
  for (size_t i = 0; i < PROOF_CLUSTERS; i++)
    for (size_t c = 0; c < d; c++) clusters[i * d + c] = turned[c * BLOCK + i * (BLOCK / PROOF_CLUSTERS)];
  for (int round = 0; round < ROUNDS; round++) {
    vf square[VECTORS];
    vi owner[VECTORS];
    nearest(d, turned, clusters, square, owner);
    for (int i = 0; i < PROOF_CLUSTERS; i++) {
      vf members = {0};
      for (size_t v = 0; v < VECTORS; v++) members += vf_and(owner[v] == vi_splat(i), vf_splat(1));
      float count = vf_sum(members);
      for (size_t c = 0; c < d && count > 0; c++) {
        vf sum = {0};
        for (size_t v = 0; v < VECTORS; v++)
          sum += vf_and(owner[v] == vi_splat(i), vf_load(turned + c * BLOCK + v * LANES));
        clusters[(size_t)i * d + c] = vf_sum(sum) / count;
      }
    }
  }
}

/* Of the members: largest exponent, then the sum about it. */
static float log_sum(const vf exponent[VECTORS], const vi member[VECTORS])
{
  vf largest = vf_splat(NOTHING), sum = {0};
  for (size_t v = 0; v < VECTORS; v++)
    largest = vf_max(vf_select(member[v], exponent[v], vf_splat(NOTHING)), largest);
  float top = vf_largest(largest);
  for (size_t v = 0; v < VECTORS; v++) sum += vf_and(member[v], vf_exp(exponent[v] - top));
  return top + vf_log(vf_splat(vf_sum(sum)))[0];
}

void KERNEL(proof_sums)(size_t rows, size_t d, const float *turned, const float *clusters, const float *bias,
                        float *table)
{
  vf distance[VECTORS];
  vi owner[VECTORS];
  bool finite = true;
  nearest(d, turned, clusters, distance, owner);
  for (size_t v = 0; v < VECTORS; v++) {
    vi there = mask_below((int)rows - (int)(v * LANES));
    /* Rounding, and what underflowed. */
    vf grown = vf_sqrt(distance[v]) * (1.0f + 6e-8f * (float)(d + 8)) + 1e-18f;
    finite = finite && vf_sum(vf_and(there, distance[v]) * 0.0f) == 0;
    distance[v] = vf_and(there, grown);
    owner[v] = (vi)vf_select(there, (vf)owner[v], (vf)vi_splat(-1));
  }
  for (int i = 0; i < PROOF_CLUSTERS; i++) {
    vi member[VECTORS];
    vf exponent[VECTORS], farthest = {0};
    bool any = false;
    for (size_t v = 0; v < VECTORS; v++) {
      member[v] = owner[v] == vi_splat(i);
      farthest = vf_max(vf_and(member[v], distance[v]), farthest);
      any = any || vf_sum(vf_and(member[v], vf_splat(1))) > 0;
    }
    float x = 0;
    for (int p = 0; p < PROOF_POINTS; p++, x = p == 1 ? 0x1p-4f : 2 * x) {
      for (size_t v = 0; v < VECTORS; v++)
        exponent[v] = vf_fma(distance[v], vf_splat(x), vf_load(bias + v * LANES));
      table[p * PROOF_CLUSTERS + i] = !finite ? INFINITY : any ? log_sum(exponent, member) : NOTHING;
    }
    table[PROOF_POINTS * PROOF_CLUSTERS + i] = finite ? vf_largest(farthest) : INFINITY;
  }
}

void KERNEL(proof_join)(const float *before, float shift, float *table)
{
  for (int e = 0; e < PROOF_TABLE; e += LANES) {
    vf old = vf_load(before + e), new = vf_load(table + e), moved = old + shift;
    vf high = vf_max(moved, new), low = vf_min(moved, new);
    vf joined = high + vf_log(vf_exp(low - high) + 1.0f);
    joined += vf_abs(joined) * 0x1p-22f; /* what all these steps may have rounded down */
    joined = vf_select(high < INFINITY, joined, vf_splat(INFINITY));
    vf_store(table + e, vf_select(mask_below(PROOF_POINTS * PROOF_CLUSTERS - e), joined, vf_max(old, new)));
  }
}
