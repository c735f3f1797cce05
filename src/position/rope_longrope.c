/* LongRoPE: every frequency is divided by a factor of its own, found by search for a model, from one of two lists:
 * the short one up to the original length, the long one for a declared length beyond it; cos and sin are
 * multiplied by sqrt(1 + ln s / ln original).  Ding et al., "LongRoPE: extending LLM context window beyond 2
 * million tokens", ICML 2024.  A model that has no lists uses 1 for the short one and NTK-aware scaling for the
 * long one, the start of the search. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/number.h"
#include "position/extension_factor.h"
#include "position/rope_frequencies.h"

enum { LIST_SIZE = 768 }; /* bytes: 64 factors of 11 digits */

typedef struct longrope_options {
  double factor, attention_factor;
  int64_t original_length;
  char short_factors[LIST_SIZE], long_factors[LIST_SIZE];
} longrope_options;

_Static_assert(sizeof(longrope_options) <= ALIBI_EXTENSION_OPTIONS_SIZE, "the lists fit into the options");

static const field fields[] = {
    EXTENSION_FACTOR_FIELD(longrope_options),
    {.name = "short_factors",
     .kind = FIELD_TEXT,
     .offset = offsetof(longrope_options, short_factors),
     .maximum = LIST_SIZE,
     .help = "factors of the pairs up to the original length: 1/1.05/1.2; empty: all 1"},
    {.name = "long_factors",
     .kind = FIELD_TEXT,
     .offset = offsetof(longrope_options, long_factors),
     .maximum = LIST_SIZE,
     .help = "factors beyond it, as many as pairs (fewer: spread evenly over them); empty: those of ntk"},
    {.name = "attention_factor",
     .kind = FIELD_REAL,
     .offset = offsetof(longrope_options, attention_factor),
     .minimum = 0,
     .maximum = 100,
     .initial = 0,
     .help = "factor on cos and sin; 0: sqrt(1 + ln s / ln original_length)"},
    EXTENSION_ORIGINAL_FIELD(longrope_options),
};

/* Numbers with '/' between them; returns how many, 0 where the text is none.  values: room for `most`, or NULL. */
static size_t read_list(const char *text, double *values, size_t most)
{
  size_t count = 0;
  for (;; text++) {
    char item[LIST_ITEM_SIZE];
    size_t size = strcspn(text, "/");
    double value;
    if (size >= sizeof item || count == most) return 0;
    memcpy(item, text, size);
    item[size] = '\0';
    if (!number_read(item, &value) || !(value >= 1e-3 && value <= 1e6)) return 0;
    if (values) values[count] = value;
    count++;
    text += size;
    if (*text == '\0') return count;
  }
}

static status check_list(const char *name, const char *text, size_t pairs, alibi_error *error)
{
  if (!text[0] || read_list(text, NULL, pairs) > 0) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "position extension 'longrope': %s: expected 1 to %zu numbers from 0.001 to 1e6 with '/' between "
              "them, found '%s'",
              name, pairs, text);
}

static status check(const position_request *request, size_t rotary, alibi_error *error)
{
  const longrope_options *options = request->extension_options;
  size_t pairs = rotary / 2;
  status result = extension_factor_check(request, rotary, error);
  if (result == ALIBI_OK) result = check_list("short_factors", options->short_factors, pairs, error);
  if (result == ALIBI_OK) result = check_list("long_factors", options->long_factors, pairs, error);
  return result;
}

/* A fixed factor still chooses a list by the length. */
static bool follows_length(const position_request *request)
{
  (void)request;
  return true;
}

/* The list at pair p of `pairs`: itself where it has as many numbers, else on the straight lines between them. */
static double at_pair(const double *list, size_t count, size_t p, size_t pairs)
{
  if (count == pairs) return list[p];
  if (count == 1) return list[0];
  double place = pairs > 1 ? (double)p * (double)(count - 1) / (double)(pairs - 1) : 0;
  size_t before = (size_t)place < count - 1 ? (size_t)place : count - 2;
  return list[before] + (place - (double)before) * (list[before + 1] - list[before]);
}

static double frequencies(const position_request *request, size_t rotary, double base, double *w)
{
  const longrope_options *options = request->extension_options;
  double original = extension_original(request, options->original_length), list[ROPE_PAIRS_MAX];
  double s = extension_factor(request, options->factor, options->original_length);
  bool beyond = (double)request->length > original;
  const char *text = beyond ? options->long_factors : options->short_factors;
  size_t pairs = rotary / 2, count = text[0] ? read_list(text, list, ROPE_PAIRS_MAX) : 0;
  if (count == 0 && beyond) rope_stretch(base, s, rotary, w);
  for (size_t p = 0; p < pairs && count > 0; p++) w[p] /= at_pair(list, count, p, pairs);
  if (options->attention_factor > 0) return options->attention_factor;
  return s > 1 && original > 1 ? sqrt(1 + log(s) / log(original)) : 1;
}

const position_extension position_extension_rope_longrope = {
    .name = "longrope",
    .title = "LongRoPE: a factor for every frequency",
    .formula = "w_p / short_p, or w_p / long_p for n > original length",
    .source = "Ding et al., ICML 2024",
    .family = "rope",
    .keeps_trained = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(longrope_options),
    .check = check,
    .follows_length = follows_length,
    .frequencies = frequencies,
};
