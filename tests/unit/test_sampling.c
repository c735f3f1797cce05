/* Sampling: against a plain implementation that sorts, and the promises of the header at the edges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "base/random.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

enum { MOST = 600 };

static uint32_t sample(const float *logits, size_t count, const alibi_sampling *s, uint64_t index)
{
  uint32_t token = UINT32_MAX;
  alibi_error error = {0};
  if (alibi_sample(logits, count, s, index, &token, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_true(token < count);
  return token;
}

static alibi_sampling settings(double temperature, int64_t top_k, double top_p, uint64_t seed)
{
  alibi_sampling s;
  alibi_sampling_init(&s);
  s.temperature = temperature;
  s.top_k = top_k;
  s.top_p = top_p;
  s.seed = seed;
  return s;
}

static const float *sorted_logits;

static int by_logit(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (sorted_logits[x] != sorted_logits[y]) return sorted_logits[x] > sorted_logits[y] ? -1 : 1;
  return x < y ? -1 : 1;
}

/* Which tokens may come, by sorting. */
static void allowed_by_sorting(const float *logits, size_t count, const alibi_sampling *s, bool *allowed)
{
  uint32_t order[MOST];
  double weight[MOST], total = 0, sum = 0;
  for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  sorted_logits = logits;
  qsort(order, count, sizeof order[0], by_logit);
  size_t most = s->top_k > 0 && (size_t)s->top_k < count ? (size_t)s->top_k : count, last = 0;
  for (size_t i = 0; i < most; i++)
    total += weight[i] = exp(((double)logits[order[i]] - logits[order[0]]) / s->temperature);
  while (last < most && (sum += weight[last++]) < s->top_p * total) {}
  memset(allowed, 0, count * sizeof *allowed);
  for (size_t i = 0; i < last; i++) allowed[order[i]] = weight[i] > 0;
}

/* Rounded logits, so that there are ties; some never come. */
static void make_logits(float *logits, size_t count, uint64_t seed)
{
  for (size_t i = 0; i < count; i++) {
    logits[i] = (float)(round(4 * random_normal(seed, 1, i)) / 2);
    if (random_below(seed, 2, i, 20) == 0) logits[i] = -INFINITY;
  }
  logits[random_below(seed, 3, 0, count)] = 1;
}

static void draws_what_sorting_allows(void **unused)
{
  (void)unused;
  static const size_t counts[] = {1, 2, 7, 64, 257, MOST};
  static const int64_t ks[] = {0, 1, 2, 5, 63, 10000};
  static const double ps[] = {1, 0.999, 0.9, 0.5, 0.1, 1e-9}, temperatures[] = {1e-3, 0.7, 1, 3};
  float logits[MOST];
  bool allowed[MOST], seen[MOST];
  size_t unseen = 0, trials = 0;
  for (size_t trial = 0; trial < 6 * 6 * 6 * 4; trial++) {
    size_t count = counts[trial % 6];
    alibi_sampling s = settings(temperatures[trial / 216], ks[trial / 6 % 6], ps[trial / 36 % 6], trial);
    make_logits(logits, count, trial);
    allowed_by_sorting(logits, count, &s, allowed);
    memset(seen, 0, sizeof seen);
    for (uint64_t index = 0; index < 400; index++) {
      uint32_t token = sample(logits, count, &s, index);
      if (!allowed[token])
        fail_msg("trial %zu: token %u of %zu is not among the allowed (temperature %g, top_k %lld, top_p %g)",
                 trial, token, count, s.temperature, (long long)s.top_k, s.top_p);
      seen[token] = true;
    }
    /* few and nearly equally probable tokens: all of them come */
    if (s.temperature < 3 || count > 7) continue;
    for (size_t i = 0; i < count; i++) trials++, unseen += allowed[i] && !seen[i];
  }
  assert_true(trials > 100);
  assert_true(unseen * 20 < trials);
}

/* 40000 draws against the probabilities: 5 standard deviations. */
static void frequencies_are_probabilities(void **unused)
{
  (void)unused;
  enum { COUNT = 9, DRAWS = 40000 };
  static const float logits[COUNT] = {0, 1, -1, 2, 0.5f, -INFINITY, 1, -3, 0};
  static const double temperatures[] = {0.5, 1, 2};
  for (int t = 0; t < 3; t++) {
    alibi_sampling s = settings(temperatures[t], 0, 1, 42);
    double total = 0;
    int found[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) total += exp(logits[i] / s.temperature);
    for (int i = 0; i < DRAWS; i++) found[sample(logits, COUNT, &s, (uint64_t)i)]++;
    for (int i = 0; i < COUNT; i++) {
      double p = exp(logits[i] / s.temperature) / total, deviation = sqrt(DRAWS * p * (1 - p));
      if (fabs(found[i] - DRAWS * p) > 5 * deviation)
        fail_msg("temperature %g, token %d: expected about %.0f of %d, found %d", s.temperature, i, DRAWS * p,
                 DRAWS, found[i]);
    }
  }
}

static void nucleus_is_the_smallest_set(void **unused)
{
  (void)unused;
  /* probabilities 0.5, 0.25, 0.125, 0.125 */
  const float logits[] = {logf(2), logf(8), logf(4), logf(2)};
  static const struct {
    double p;
    unsigned tokens;
  } cases[] = {{0.49, 2}, {0.51, 6}, {0.74, 6}, {0.76, 7}, {0.88, 15}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    alibi_sampling s = settings(1, 0, cases[c].p, 3);
    unsigned seen = 0;
    for (uint64_t i = 0; i < 300; i++) seen |= 1u << sample(logits, 4, &s, i);
    assert_int_equal(seen, cases[c].tokens);
  }
}

static void greedy_takes_the_first_of_the_largest(void **unused)
{
  (void)unused;
  static const float logits[] = {-5, 3, 7, 7, -INFINITY, 7, 0};
  alibi_sampling s = settings(0, 1000, 0.1, 9), one = settings(5, 1, 1, 9), narrow = settings(5, 0, 1e-300, 9);
  for (uint64_t i = 0; i < 50; i++) {
    assert_int_equal(sample(logits, 7, &s, i), 2);
    assert_int_equal(sample(logits, 7, &one, i), 2);
    assert_int_equal(sample(logits, 7, &narrow, i), 2);
  }
  static const float zeros[] = {-0.0f, 0.0f};
  assert_int_equal(sample(zeros, 2, &one, 0), 0);
}

static void is_pure(void **unused)
{
  (void)unused;
  float logits[MOST];
  make_logits(logits, MOST, 5);
  alibi_sampling s = settings(2, 0, 1, 5), other = settings(2, 0, 1, 6);
  size_t by_index = 0, by_seed = 0;
  for (uint64_t i = 0; i < 200; i++) {
    assert_int_equal(sample(logits, MOST, &s, i), sample(logits, MOST, &s, i));
    by_index += sample(logits, MOST, &s, i) != sample(logits, MOST, &s, i + 1);
    by_seed += sample(logits, MOST, &s, i) != sample(logits, MOST, &other, i);
  }
  assert_true(by_index > 150);
  assert_true(by_seed > 150);
}

static void refuse(const float *logits, size_t count, alibi_sampling s, const char *part)
{
  alibi_error error = {0};
  uint32_t token = 77;
  assert_int_equal(alibi_sample(logits, count, &s, 0, &token, &error), ALIBI_INVALID);
  if (!strstr(error.message, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, error.message);
  assert_int_equal(token, 77);
}

static void refuses_what_has_no_meaning(void **unused)
{
  (void)unused;
  static const float fine[] = {0, 1}, holes[] = {0, NAN}, above[] = {0, INFINITY};
  static const float never[] = {-INFINITY, -INFINITY};
  refuse(fine, 2, settings(-1, 0, 1, 1), "temperature");
  refuse(fine, 2, settings(NAN, 0, 1, 1), "temperature");
  refuse(fine, 2, settings(1, -1, 1, 1), "top_k");
  refuse(fine, 2, settings(1, 0, 0, 1), "top_p");
  refuse(fine, 2, settings(1, 0, 1.5, 1), "top_p");
  refuse(fine, 2, settings(1, 0, NAN, 1), "top_p");
  refuse(NULL, 2, settings(1, 0, 1, 1), "first token");
  refuse(fine, 0, settings(1, 0, 1, 1), "vocabulary");
  refuse(holes, 2, settings(1, 0, 1, 1), "logit 1");
  refuse(above, 2, settings(0, 0, 1, 1), "logit 1");
  refuse(never, 2, settings(1, 0, 1, 1), "-infinity");
  refuse(fine, 2, (alibi_sampling){.temperature = 1, .top_p = 1}, "alibi_sampling_init");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(draws_what_sorting_allows),
      cmocka_unit_test(frequencies_are_probabilities),
      cmocka_unit_test(nucleus_is_the_smallest_set),
      cmocka_unit_test(greedy_takes_the_first_of_the_largest),
      cmocka_unit_test(is_pure),
      cmocka_unit_test(refuses_what_has_no_meaning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
