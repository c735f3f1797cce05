/* ALiBi: a bias of -m_h (i - j) on the scores, one slope per head, the same in every layer, and nothing else.
 * Press, Smith, Lewis, "Train short, test long", ICLR 2022.  The bias is not multiplied by 1/sqrt(d), but for
 * models that do so (slope_scale).  Slopes follow a rule, or are the caller's own.
 *
 * Some models were trained with biases in bfloat16, of 8 significant bits: m_h j for a key at j, which after
 * softmax is the same but for its rounding (`rounding`).  Here the query's own is taken away, b(j) - b(i), so that
 * far positions lose nothing more.  Such a bias is a function of every score, and nothing is skipped. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "position/position.h"
#include "position/slopes.h"

enum { LIST_SIZE = 2000 }; /* bytes: 128 slopes of 14 characters */

typedef enum alibi_rounding {
  ROUNDING_EXACT,
  ROUNDING_KEYS,  /* of m j: BLOOM, as Megatron-DeepSpeed and transformers run it in bfloat16 */
  ROUNDING_FALCON /* of m, of j and of their product, whatever the model runs in */
} alibi_rounding;

static const char *const rounding_names[] = {"exact", "bfloat16-keys", "falcon", NULL};

typedef struct alibi_options {
  slope_settings rule;
  char slopes[LIST_SIZE];
  double slope_scale;
  int rounding; /* alibi_rounding */
} alibi_options;

static const field fields[] = {
    SLOPE_FIELDS(alibi_options, rule),
    {.name = "slopes",
     .kind = FIELD_TEXT,
     .offset = offsetof(alibi_options, slopes),
     .maximum = LIST_SIZE,
     .help = "other slopes than by the rule: one number a head, with commas"},
    {.name = "slope_scale",
     .kind = FIELD_REAL,
     .offset = offsetof(alibi_options, slope_scale),
     .minimum = 1e-9,
     .maximum = 1e6,
     .initial = 1,
     .help = "multiplies the bias: 1 / sqrt(head_size) for models that scale it with the scores"},
    {.name = "rounding",
     .kind = FIELD_CHOICE,
     .offset = offsetof(alibi_options, rounding),
     .initial = ROUNDING_EXACT,
     .choices = rounding_names,
     .help = "of biases by keys, as a model was trained: bloom's bfloat16-keys, falcon"},
};

enum { RULE_FIELDS = 2, LATER_FIELDS = 2 };

/* Slopes of the caller leave nothing for a rule to say. */
static status check_alone(const alibi_options *alibi, alibi_error *error)
{
  alibi_options initial;
  field_init((field_table)FIELD_TABLE(fields), &initial);
  for (size_t i = 0; i < RULE_FIELDS; i++) {
    const field *f = &fields[i];
    if (!field_equal(f, &initial, alibi))
      return fail(error, ALIBI_INVALID, "position method 'alibi': expected slopes or %s, found both", f->name);
  }
  return ALIBI_OK;
}

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  const alibi_options *alibi = options;
  status result = ALIBI_OK;
  TRY(slope_check_heads("alibi", shape, error));
  if (!alibi->slopes[0]) goto done;
  TRY(check_alone(alibi, error));
  TRY(slope_check_list("alibi", alibi->slopes, shape->heads, error));
done:
  return result;
}

static double trained_slope(const position_request *request, size_t set, size_t head)
{
  (void)set;
  const alibi_options *options = request->options;
  double slope = options->slopes[0] ? slope_from_list(options->slopes, head)
                                    : slope_by_settings(&options->rule, head, request->shape.heads);
  return options->rounding == ROUNDING_EXACT ? options->slope_scale * slope : slope;
}

/* ---- rounded biases ---- */

/* m j of every position; a difference of two is exact but for the farthest. */
typedef struct rounded_keys {
  size_t length;
  float scale;
  float *biases; /* [H, length] */
} rounded_keys;

/* To 8 significant bits, ties to even; x is finite and at least 0. */
static float to_bfloat16(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void add_rounded(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias)
{
  const rounded_keys *keys = user;
  const float *own = keys->biases + (size_t)head * keys->length;
  for (int64_t n = 0; n < count; n++) bias[n] = (own[key + n] - own[query]) * keys->scale;
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  const alibi_options *options = request->options;
  if (options->rounding == ROUNDING_EXACT) {
    slope_layout(request, plan, a);
    return;
  }
  rounded_keys *keys = arena_take(a, 1, sizeof *keys);
  float *biases = arena_floats(a, size_mul(request->shape.heads, request->length));
  if (keys) *keys = (rounded_keys){request->length, (float)options->slope_scale, biases};
  plan->bias = BIAS_ROWS;
  plan->rows = (attention_rows){.bias = add_rounded, .user = keys};
}

static void fill_rounded(const position_request *request, rounded_keys *keys)
{
  const alibi_options *options = request->options;
  bool falcon = options->rounding == ROUNDING_FALCON;
  for (size_t h = 0; h < request->shape.heads; h++) {
    float slope = (float)slope_extended(request, trained_slope, 0, h);
    if (falcon) slope = to_bfloat16(slope);
    for (size_t j = 0; j < keys->length; j++) {
      float position = falcon ? to_bfloat16((float)j) : (float)j;
      keys->biases[h * keys->length + j] = to_bfloat16(slope * position);
    }
  }
}

static void fill(const position_request *request, position_plan *plan)
{
  if (plan->bias == BIAS_SLOPE) slope_fill(request, trained_slope, plan);
  else fill_rounded(request, plan->rows.user);
}

static double slope_of_formula(const position_request *request, size_t set, size_t head)
{
  (void)set;
  const alibi_options *options = request->options;
  const char *own = options->slopes;
  if (!own[0]) return slope_by_definition(&options->rule, head, request->shape.heads);
  for (size_t h = 0; h < head; h++) own = strchr(own, ',') + 1;
  return number_parse(own, NULL);
}

/* The nearest number of 8 significant bits, by arithmetic. */
static double nearest_bfloat16(double x)
{
  int exponent;
  double digits = frexp(x, &exponent);
  return ldexp(nearbyint(ldexp(digits, 8)), exponent - 8);
}

static double bias_by_key(const position_request *request, size_t layer, size_t head, size_t j)
{
  const alibi_options *options = request->options;
  double slope = (float)slope_extended(request, slope_of_formula, layer, head), position = (double)j;
  if (options->rounding == ROUNDING_FALCON) {
    slope = nearest_bfloat16(slope);
    position = nearest_bfloat16(position);
  }
  return options->slope_scale * nearest_bfloat16((float)(slope * position));
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  const alibi_options *options = request->options;
  if (options->rounding == ROUNDING_EXACT)
    return options->slope_scale * slope_bias(request, slope_of_formula, layer, head, i, j);
  return bias_by_key(request, layer, head, j) - bias_by_key(request, layer, head, i);
}

const position_method position_method_alibi = {
    .name = "alibi",
    .title = "ALiBi: attention with linear biases",
    .formula = "score - m_h (i - j)",
    .source = "Press, Smith, Lewis, ICLR 2022",
    .family = "alibi",
    .relative = true,
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .later_fields = LATER_FIELDS,
    .options_size = sizeof(alibi_options),
    .check = check,
    .layout = layout,
    .fill = fill,
    .bias = bias,
};
