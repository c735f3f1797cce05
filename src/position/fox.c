/* Forgetting attention: a head keeps of each key the product of the gates that came after it, f = sigmoid(w.x + b)
 * of the layer's normed input x, so the bias is the sum of ln f over the positions j+1 .. i.  Lin, Nikishin, He,
 * Courville, "Forgetting transformer: softmax attention with a forget gate", ICLR 2025.
 * Parameters: w and b of every layer and head, decay on w alone.  Training begins at w = 0 and at the b whose
 * gates are constant, f = exp(-m) for ALiBi's slope m of the head: then the model is ALiBi, to the rounding of b,
 * and what the gates learn is seen against it. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "position/position.h"
#include "position/slopes.h"

typedef struct fox_options {
  slope_settings start;
} fox_options;

static const field fields[] = {SLOPE_FIELDS(fox_options, start)};

enum { WEIGHT, BIAS };

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)options;
  return slope_check_heads("fox", shape, error);
}

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  size_t gates = size_mul(shape->layers, shape->heads);
  list[WEIGHT] = (position_parameter){.rows = gates, .columns = shape->width, .decay = true};
  list[BIAS] = (position_parameter){.rows = gates, .columns = 1, .decay = false};
  snprintf(list[WEIGHT].name, sizeof list[WEIGHT].name, "position.gate.weight");
  snprintf(list[BIAS].name, sizeof list[BIAS].name, "position.gate.bias");
  return 2;
}

static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)normal;
  const fox_options *fox = options;
  if (which == WEIGHT) return 0;
  double slope = slope_by_settings(&fox->start, index % shape->heads, shape->heads);
  return (float)(-slope - log(-expm1(-slope))); /* ln(f / (1 - f)) */
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  (void)request, (void)a;
  plan->bias = BIAS_KEY;
  plan->gated = true;
}

/* The gates follow from the text: the model makes them. */
static void fill(const position_request *request, position_plan *plan)
{
  (void)request, (void)plan;
}

const position_method position_method_fox = {
    .name = "fox",
    .title = "FoX: forgetting gates",
    .formula = "score + ln f_(j+1) + .. + ln f_i, f = sigmoid(w.x + b)",
    .source = "Lin, Nikishin, He, Courville, ICLR 2025",
    .decays = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(fox_options),
    .check = check,
    .parameters = parameters,
    .initial = initial,
    .layout = layout,
    .fill = fill,
};
