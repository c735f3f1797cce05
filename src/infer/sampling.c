/* Choosing a token.  The one idea: nothing is sorted and nothing is allocated.  top_k and top_p both ask for the
 * first tokens in the order "larger logit, then smaller id" until a weight is reached: 1 a token for top_k, its
 * probability for top_p.  That place is found by digits of the logit, as in a radix sort of which only one path is
 * followed. */
#include <math.h>
#include <string.h>

#include "alibi/session.h"
#include "base/error.h"
#include "base/random.h"
#include "base/settings.h"

enum { STREAM_SAMPLING = 0x70696366, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

void alibi_sampling_init(alibi_sampling *sampling)
{
  *sampling = (alibi_sampling){.size = sizeof *sampling, .temperature = 1, .top_p = 1, .seed = 1};
}

/* Tokens before a place in the order: those with a larger key, and with the same key those of an id below `id`. */
typedef struct cut {
  uint32_t key;
  size_t id;
} cut;

/* Orders as the floats do; -0 as 0. */
static uint32_t key_of(float x)
{
  uint32_t bits;
  if (x == 0) x = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static bool kept(const cut *c, float logit, size_t id)
{
  uint32_t key = key_of(logit);
  return key > c->key || (key == c->key && id < c->id);
}

typedef struct chooser {
  const float *logits;
  size_t count;
  double largest, temperature;
} chooser;

static double weight_of(const chooser *c, size_t id)
{
  return exp((c->logits[id] - c->largest) / c->temperature);
}

/* The shortest beginning of the order, within `within`, whose weight (1 a token, or its probability) is at least
 * `wanted`. */
static cut find_cut(const chooser *c, const cut *within, bool probability, double wanted)
{
  uint32_t prefix = 0, known = 0;
  double before = 0; /* weight of the tokens above the path */
  for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    double sums[DIGITS] = {0};
    bool any[DIGITS] = {false};
    for (size_t i = 0; i < c->count; i++) {
      uint32_t key = key_of(c->logits[i]);
      if ((key & known) != prefix || !kept(within, c->logits[i], i)) continue;
      sums[key >> shift & (DIGITS - 1)] += probability ? weight_of(c, i) : 1;
      any[key >> shift & (DIGITS - 1)] = true;
    }
    uint32_t digit = DIGITS, last = 0;
    while (digit-- > 0) {
      if (!any[digit]) continue;
      last = digit;
      if (before + sums[digit] >= wanted) break;
      before += sums[digit];
    }
    if (digit > last) { /* rounding left the sum a little short: all of them */
      digit = last;
      before -= sums[last];
    }
    prefix |= digit << shift;
    known |= (uint32_t)(DIGITS - 1) << shift;
  }
  cut found = {prefix, 0};
  for (size_t i = 0; i < c->count && (found.id == 0 || before < wanted); i++) {
    if (key_of(c->logits[i]) != prefix || !kept(within, c->logits[i], i)) continue;
    before += probability ? weight_of(c, i) : 1;
    found.id = i + 1;
  }
  return found;
}

static double total_weight(const chooser *c, const cut *within)
{
  double total = 0;
  for (size_t i = 0; i < c->count; i++)
    if (kept(within, c->logits[i], i)) total += weight_of(c, i);
  return total;
}

static status check(const alibi_sampling *s, const float *logits, size_t vocabulary, size_t *largest,
                    alibi_error *error)
{
  if (!(s->temperature >= 0 && s->temperature <= 1e6))
    return fail(error, ALIBI_INVALID, "temperature: expected a number from 0 to 1e6, found %g", s->temperature);
  if (s->top_k < 0)
    return fail(error, ALIBI_INVALID, "top_k: expected at least 0, found %lld", (long long)s->top_k);
  if (!(s->top_p > 0 && s->top_p <= 1))
    return fail(error, ALIBI_INVALID, "top_p: expected a number above 0 and at most 1, found %g", s->top_p);
  if (vocabulary == 0 || vocabulary > UINT32_MAX)
    return fail(error, ALIBI_INVALID, "sampling: expected a vocabulary from 1 to 2^32 - 1, found %zu", vocabulary);
  if (!logits)
    return fail(error, ALIBI_INVALID,
                "logits: expected some, found none (a session has them after its first token)");
  *largest = 0;
  for (size_t i = 0; i < vocabulary; i++) {
    if (isnan(logits[i]) || logits[i] == INFINITY)
      return fail(error, ALIBI_INVALID, "logit %zu: expected a finite number or -infinity, found %g", i,
                  logits[i]);
    if (logits[i] > logits[*largest]) *largest = i;
  }
  if (isinf(logits[*largest]))
    return fail(error, ALIBI_INVALID, "logits: expected a token that may come, found -infinity for all");
  return ALIBI_OK;
}

status alibi_sample(const float *logits, size_t vocabulary, const alibi_sampling *sampling, uint64_t index,
                    uint32_t *token, alibi_error *error)
{
  size_t largest = 0;
  alibi_sampling own;
  alibi_sampling_init(&own);
  status result = settings_take(sampling, &own, sizeof own, "alibi_sampling", error);
  sampling = &own;
  if (result == ALIBI_OK) result = check(sampling, logits, vocabulary, &largest, error);
  if (result != ALIBI_OK) return result;
  *token = (uint32_t)largest;
  if (sampling->temperature == 0) return ALIBI_OK;
  chooser c = {logits, vocabulary, logits[largest], sampling->temperature};
  cut within = {0, SIZE_MAX};
  if (sampling->top_k > 0 && (uint64_t)sampling->top_k < vocabulary)
    within = find_cut(&c, &within, false, (double)sampling->top_k);
  double total = total_weight(&c, &within);
  if (sampling->top_p < 1) {
    within = find_cut(&c, &within, true, sampling->top_p * total);
    total = total_weight(&c, &within);
  }
  double left = random_uniform(sampling->seed, STREAM_SAMPLING, index) * total;
  for (size_t i = 0; i < vocabulary; i++) {
    if (!kept(&within, logits[i], i)) continue;
    double weight = weight_of(&c, i);
    if (weight == 0) continue;
    *token = (uint32_t)i; /* where rounding leaves more than nothing at the end, the last one */
    left -= weight;
    if (left < 0) break;
  }
  return ALIBI_OK;
}
