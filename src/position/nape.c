/* NAPE: ALiBi on some heads, no position at all on the others, which can find far keys.  Vasylenko, Pitorro,
 * Martins, Treviso, "Long-context generalization with sparse attention", 2025.  Heads without a slope are spread
 * evenly, with half of them every second one: groups of heads that share keys then have both kinds.  The others
 * have the slopes of an ALiBi that has only them, from the steepest on, so the whole range is there.  share 0 is
 * ALiBi. */
#include <stddef.h>

#include "position/position.h"
#include "position/share.h"
#include "position/slopes.h"

typedef struct nape_options {
  slope_settings rule;
  double share;
} nape_options;

#define MOST_FLAT 0.99 /* some head has a slope */

static const field fields[] = {
    SLOPE_FIELDS(nape_options, rule),
    {.name = "share",
     .kind = FIELD_REAL,
     .offset = offsetof(nape_options, share),
     .minimum = 0,
     .maximum = MOST_FLAT,
     .initial = 0.5,
     .help = "share of the heads that have slope 0; 0: none, as alibi (so is 0.5 of one head)"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(slope_check_heads("nape", shape, error));
  TRY(share_check("nape", (field_table)FIELD_TABLE(fields), ((const nape_options *)options)->share, shape->heads,
                  "heads", error));
done:
  return result;
}

/* Heads without a slope among the first `heads`. */
static size_t flat_heads(const nape_options *options, size_t heads)
{
  return share_of(options->share, heads);
}

static double trained_slope(const position_request *request, size_t set, size_t head)
{
  (void)set;
  const nape_options *options = request->options;
  size_t before = flat_heads(options, head), heads = request->shape.heads;
  if (flat_heads(options, head + 1) > before) return 0;
  return slope_by_settings(&options->rule, head - before, heads - flat_heads(options, heads));
}

static void fill(const position_request *request, position_plan *plan)
{
  slope_fill(request, trained_slope, plan);
}

/* Walks the heads: one is flat where the sum of the shares reaches a whole number. */
static double slope_of_formula(const position_request *request, size_t set, size_t head)
{
  (void)set;
  const nape_options *options = request->options;
  size_t flat = 0, sloped = 0, rank = 0;
  bool own_flat = false;
  for (size_t h = 0; h < request->shape.heads; h++) {
    bool is_flat = options->share * ((double)h + 1) + 1e-6 >= (double)flat + 1;
    if (h == head) rank = sloped, own_flat = is_flat;
    flat += is_flat;
    sloped += !is_flat;
  }
  return own_flat ? 0 : slope_by_definition(&options->rule, rank, sloped);
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  return slope_bias(request, slope_of_formula, layer, head, i, j);
}

const position_method position_method_nape = {
    .name = "nape",
    .title = "NAPE: ALiBi on some heads, nothing on the others",
    .formula = "score - m_h (i - j), m_h = 0 on a share of the heads",
    .source = "Vasylenko et al., 2025",
    .family = "alibi",
    .relative = true,
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(nape_options),
    .check = check,
    .layout = slope_layout,
    .fill = fill,
    .bias = bias,
};
