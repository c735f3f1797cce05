/* ALiBi's slopes: the one place that knows the formula.  Exponents are kept as exact fractions of heads until the
 * last step, so that powers of two come out exact.  (The formula stands here a second time, as its authors put it:
 * what the tables of methods are held against must not be what filled them.) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "alibi/attention.h"
#include "base/error.h"
#include "base/number.h"
#include "position/slopes.h"

const char *const slope_rule_names[] = {"interleaved", "geometric", NULL};

static int power_of_two_below(int heads)
{
  int power = 1;
  while (power <= heads / 2) power *= 2; /* not log(): it rounds down for some powers of two */
  return power;
}

double slope_of_head(int head, int heads, double max_bias, alibi_slope_rule rule)
{
  int first = rule == ALIBI_SLOPES_GEOMETRIC ? heads : power_of_two_below(heads);
  if (head < first) return exp2(-max_bias * (head + 1) / first);
  return exp2(-max_bias * (2 * (head - first) + 1) / (2.0 * first));
}

/* The first slope is 2^(-B/n), and so is the ratio of one to the next. */
static double of_sequence(double max_bias, size_t n, size_t head)
{
  return pow(pow(2, -max_bias / (double)n), (double)head + 1);
}

double slope_by_definition(const slope_settings *s, size_t head, size_t heads)
{
  size_t power = 1;
  if (s->rule == ALIBI_SLOPES_GEOMETRIC) return of_sequence(s->max_bias, heads, head);
  while (2 * power <= heads) power *= 2;
  return head < power ? of_sequence(s->max_bias, power, head)
                      : of_sequence(s->max_bias, 2 * power, 2 * (head - power));
}

alibi_status alibi_slopes(int heads, double max_bias, alibi_slope_rule rule, double *slopes, alibi_error *error)
{
  if (heads < 1 || heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "slopes: heads: expected 1 to %d, found %d", ALIBI_MAX_HEADS, heads);
  if (!(max_bias > 0 && max_bias <= 100))
    return fail(error, ALIBI_INVALID,
                "slopes: maximum bias exponent: expected a number above 0 and at most 100, found %g", max_bias);
  if (rule != ALIBI_SLOPES_INTERLEAVED && rule != ALIBI_SLOPES_GEOMETRIC)
    return fail(error, ALIBI_INVALID, "slopes: rule: expected 0 (interleaved) or 1 (geometric), found %d",
                (int)rule);
  if (!slopes) return fail(error, ALIBI_INVALID, "slopes: expected an array for the result, found NULL");

  for (int h = 0; h < heads; h++) slopes[h] = slope_of_head(h, heads, max_bias, rule);
  return ALIBI_OK;
}

status slope_check_heads(const char *method, const position_shape *shape, alibi_error *error)
{
  if (shape->heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "position method '%s': expected at most %d heads, found %zu", method,
                ALIBI_MAX_HEADS, shape->heads);
  return ALIBI_OK;
}

status slope_check_list(const char *method, const char *list, size_t heads, alibi_error *error)
{
  status result = ALIBI_OK;
  const double MOST = 1e6;
  char what[64 + FIELD_TEXT_SIZE], number[LIST_ITEM_SIZE];
  const char *rest = list, *item;
  size_t count, size;
  double slope, largest = 0;
  snprintf(what, sizeof what, "position method '%s': slopes", method);
  TRY(list_check(what, list, error));
  for (count = 0; list_next(&rest, &item, &size); count++) {
    TRY(list_item(what, item, size, number, error));
    if (!number_read(number, &slope))
      RAISE(error, ALIBI_INVALID, "%s: expected numbers with commas between them, found '%s'%s", what, number,
            slope == 0 ? ", too small to be told from 0" : "");
    if (!(slope >= 0 && slope <= MOST))
      RAISE(error, ALIBI_INVALID, "%s: expected numbers from 0 to %g, found %g", what, MOST, slope);
    if (slope > largest) largest = slope;
  }
  if (count != heads)
    RAISE(error, ALIBI_INVALID, "%s: expected one for each of the %zu heads, found %zu", what, heads, count);
  if (!(largest > 0))
    RAISE(error, ALIBI_INVALID, "%s: expected one above 0, found none (the method is 'none')", what);
done:
  return result;
}

double slope_from_list(const char *list, size_t head)
{
  const char *item;
  size_t size, h = 0;
  while (list_next(&list, &item, &size))
    if (h++ == head) return number_parse(item, NULL);
  return 0;
}

double slope_extended(const position_request *request, position_slope *trained, size_t set, size_t head)
{
  return trained(request, set, head) * position_slope_factor(request, trained, set, head);
}

void slope_layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->bias = BIAS_SLOPE;
  plan->slopes = arena_floats(a, size_mul(plan->sets, request->shape.heads));
}

void slope_layout_by_layer(const position_request *request, position_plan *plan, arena *a)
{
  plan->sets = request->shape.layers;
  slope_layout(request, plan, a);
}

void slope_fill(const position_request *request, position_slope *trained, position_plan *plan)
{
  size_t heads = request->shape.heads;
  float *slopes = (float *)plan->slopes;
  for (size_t set = 0; set < plan->sets; set++)
    for (size_t h = 0; h < heads; h++) slopes[set * heads + h] = (float)slope_extended(request, trained, set, h);
}

double slope_bias(const position_request *request, position_slope *formula, size_t layer, size_t head, size_t i,
                  size_t j)
{
  return -slope_extended(request, formula, layer, head) * (double)(i - j);
}
