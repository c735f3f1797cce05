/* ALiBi: a bias of -m_h (i - j) on the scores, one slope per head, the same in every layer, and nothing else.
 * Press, Smith, Lewis, "Train short, test long", ICLR 2022.  The bias is not multiplied by 1/sqrt(d).  Slopes
 * follow a rule, or are the caller's own. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "position/position.h"
#include "position/slopes.h"

enum { LIST_SIZE = 2000 }; /* bytes: 128 slopes of 14 characters */

typedef struct alibi_options {
  slope_settings rule;
  char slopes[LIST_SIZE];
} alibi_options;

static const field fields[] = {
    SLOPE_FIELDS(alibi_options, rule),
    {.name = "slopes",
     .kind = FIELD_TEXT,
     .offset = offsetof(alibi_options, slopes),
     .maximum = LIST_SIZE,
     .help = "other slopes than by the rule: one number a head, with commas"},
};

/* Slopes of the caller leave nothing for a rule to say. */
static status check_alone(const alibi_options *alibi, alibi_error *error)
{
  field_table table = FIELD_TABLE(fields);
  alibi_options initial;
  field_init(table, &initial);
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    if (f->kind != FIELD_TEXT && !field_equal(f, &initial, alibi))
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
  if (options->slopes[0]) return slope_from_list(options->slopes, head);
  return slope_by_settings(&options->rule, head, request->shape.heads);
}

static void fill(const position_request *request, position_plan *plan)
{
  slope_fill(request, trained_slope, plan);
}

static double slope_of_formula(const position_request *request, size_t set, size_t head)
{
  (void)set;
  const alibi_options *options = request->options;
  const char *own = options->slopes;
  if (!own[0]) return slope_by_definition(&options->rule, head, request->shape.heads);
  for (size_t h = 0; h < head; h++) own = strchr(own, ',') + 1;
  return strtod(own, NULL);
}

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  return slope_bias(request, slope_of_formula, layer, head, i, j);
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
    .options_size = sizeof(alibi_options),
    .check = check,
    .layout = slope_layout,
    .fill = fill,
    .bias = bias,
};
