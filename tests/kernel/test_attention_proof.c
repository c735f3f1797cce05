/* The tables of the proof: for a few x, the sum of exp(x distance + bias) over the keys, where distance is that
 * from the nearest of a few centres; summed over the clusters, this is a number that does not depend on who
 * belongs to which. */
#include "kernel_test.h"

enum { B = ATTENTION_BLOCK, BLOCKS = 5 };

static double point(int p)
{
  return p == 0 ? 0 : ldexp(1, p - 5);
}

static double nearest_distance(size_t d, const float *turned, size_t j, const float *clusters)
{
  double nearest = INFINITY;
  for (size_t i = 0; i < PROOF_CLUSTERS; i++) {
    double square = 0;
    for (size_t c = 0; c < d; c++) square += pow((double)turned[c * B + j] - clusters[i * d + c], 2);
    nearest = fmin(nearest, sqrt(square));
  }
  return nearest;
}

static double log_total(const float *logs)
{
  double sum = 0, largest = -INFINITY;
  for (size_t i = 0; i < PROOF_CLUSTERS; i++) largest = fmax(largest, logs[i]);
  for (size_t i = 0; i < PROOF_CLUSTERS; i++) sum += exp(logs[i] - largest);
  return largest + log(sum);
}

/* Keys around a few places, of a size; the last block is not full, and what lies beyond is no number. */
typedef struct keys {
  size_t d, rows[BLOCKS];
  float *turned[BLOCKS], *bias[BLOCKS], *clusters;
} keys;

static keys make_keys(const kernel_table *t, size_t d, float size)
{
  keys k = {.d = d};
  float *places = random_floats(3 * d);
  for (size_t b = 0; b < BLOCKS; b++) {
    k.rows[b] = b + 1 < BLOCKS ? B : 1 + d * 7 % B;
    k.turned[b] = guarded_floats(B * d);
    k.bias[b] = guarded_floats(B);
    for (size_t j = 0; j < B; j++) {
      bool there = j < k.rows[b];
      k.bias[b][j] = there ? 4 * random_float() : NAN;
      for (size_t c = 0; c < d; c++)
        k.turned[b][c * B + j] = there ? size * (places[j % 3 * d + c] + 0.3f * random_float()) : NAN;
    }
  }
  k.clusters = filled_floats(PROOF_CLUSTERS * d, NAN);
  t->proof_clusters(d, k.turned[0], k.clusters);
  for (size_t i = 0; i < PROOF_CLUSTERS * d; i++) assert_true(isfinite(k.clusters[i]));
  return k;
}

/* The exact logarithm at point p of blocks 0 .. last, biases moved by `shift` a block. */
static double exact_log(const keys *k, size_t last, int p, double shift, double *farthest)
{
  double largest = -INFINITY, sum = 0, terms[BLOCKS * B];
  size_t n = 0;
  *farthest = 0;
  for (size_t b = 0; b <= last; b++)
    for (size_t j = 0; j < k->rows[b]; j++) {
      double distance = nearest_distance(k->d, k->turned[b], j, k->clusters);
      terms[n] = point(p) * distance + k->bias[b][j] + shift * (double)(last - b);
      largest = fmax(largest, terms[n++]);
      *farthest = fmax(*farthest, distance);
    }
  for (size_t i = 0; i < n; i++) sum += exp(terms[i] - largest);
  return largest + log(sum);
}

static void tables_are_the_sums(void **unused)
{
  (void)unused;
  static const float sizes[] = {1, 0.01f, 30, 0}, shifts[] = {0, -3.5f, -40, -0.01f};
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t d = 1; d <= 256; d += d < 20 ? 1 : 59)
        for (size_t s = 0; s < 4; s++) {
          keys k = make_keys(t, d, sizes[(s + d) % 4]);
          float *before = guarded_floats(PROOF_TABLE), *table = guarded_floats(PROOF_TABLE);
          for (size_t b = 0; b < BLOCKS; b++) {
            t->proof_sums(k.rows[b], d, k.turned[b], k.clusters, k.bias[b], table);
            if (b > 0) t->proof_join(before, shifts[s], table);
            memcpy(before, table, PROOF_TABLE * sizeof *table);
            if (b % 2) continue;
            double farthest = 0, found = 0;
            for (int p = 0; p < PROOF_POINTS; p++) {
              double expected = exact_log(&k, b, p, (double)shifts[s], &farthest);
              double slack =
                  8 * EPS * ((double)d + 8) * (1 + point(p) * farthest) + 8 * EPS * fabs(expected) + 1e-5;
              expect_near("sum", t->name, (size_t)p, log_total(table + p * PROOF_CLUSTERS), expected, slack);
            }
            for (size_t i = 0; i < PROOF_CLUSTERS; i++)
              found = fmax(found, table[PROOF_POINTS * PROOF_CLUSTERS + i]);
            if (!(found >= farthest && found <= farthest * (1 + 4 * EPS * (double)(d + 8)) + 1e-17))
              fail_msg("largest distance, %s: head size %zu: %.9g, found %.9g", t->name, d, farthest, found);
          }
          guarded_free();
        }
}

/* What the tables are for: they bound the weight of all keys together for any query, above and not far above. */
static void tables_bound_the_weight(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t d = 1; d <= 130; d += 43)
      for (int p = 0; p < PROOF_POINTS; p++) {
        keys k = make_keys(t, d, 1);
        float *before = guarded_floats(PROOF_TABLE), *table = guarded_floats(PROOF_TABLE), *q = random_floats(d);
        double weight = 0, square = 0, bound = 0, tables_at_0 = 0;
        for (size_t b = 0; b < BLOCKS; b++) {
          t->proof_sums(k.rows[b], d, k.turned[b], k.clusters, k.bias[b], table);
          if (b > 0) t->proof_join(before, 0, table);
          memcpy(before, table, PROOF_TABLE * sizeof *table);
        }
        for (size_t c = 0; c < d; c++) square += (double)q[c] * q[c];
        for (size_t c = 0; c < d; c++) q[c] = (float)(q[c] * point(p) / sqrt(square));
        for (size_t b = 0; b < BLOCKS; b++)
          for (size_t j = 0; j < k.rows[b]; j++) {
            double score = k.bias[b][j];
            for (size_t c = 0; c < d; c++) score += (double)q[c] * k.turned[b][c * B + j];
            weight += exp(score);
          }
        for (size_t i = 0; i < PROOF_CLUSTERS; i++) {
          double centre = 0;
          for (size_t c = 0; c < d; c++) centre += (double)q[c] * k.clusters[i * d + c];
          bound += exp(centre + table[p * PROOF_CLUSTERS + i]);
          tables_at_0 += exp(table[i]);
        }
        assert_true(weight <= bound * (1 + 1e-4));
        if (p == 0) assert_true(weight >= tables_at_0 * (1 - 1e-4));
        guarded_free();
      }
}

/* Any key that is not finite, and nothing is bounded; also after any number of blocks. */
static void what_is_no_number_is_not_bounded(void **unused)
{
  (void)unused;
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t d = 1; d < 40; d += 6)
      for (size_t i = 0; i < 3; i++)
        for (size_t spoilt = 0; spoilt < BLOCKS; spoilt++) {
          keys k = make_keys(t, d, 1);
          k.turned[spoilt][d / 2 * B + i * 13 % k.rows[spoilt]] = poisons[i];
          if (spoilt == 0) t->proof_clusters(d, k.turned[0], k.clusters);
          float *before = guarded_floats(PROOF_TABLE), *table = guarded_floats(PROOF_TABLE);
          for (size_t b = 0; b < BLOCKS; b++) {
            t->proof_sums(k.rows[b], d, k.turned[b], k.clusters, k.bias[b], table);
            if (b > 0) t->proof_join(before, -30, table);
            memcpy(before, table, PROOF_TABLE * sizeof *table);
            for (size_t e = 0; e < PROOF_TABLE && b >= spoilt; e++)
              assert_false(table[e] < INFINITY && table[e] > -INFINITY);
            for (size_t e = 0; e < PROOF_TABLE && b < spoilt; e++) assert_true(isfinite(table[e]));
          }
          guarded_free();
        }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_the_sums),
      cmocka_unit_test(tables_bound_the_weight),
      cmocka_unit_test(what_is_no_number_is_not_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
