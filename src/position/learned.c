/* Learned absolute positions: a table of L rows, added to the word embedding.  There is no row for position L, so
 * a longer text cannot be read at all: the limit says so instead of inventing rows (an extension that chooses a
 * row for every position lifts it). */
#include <stddef.h>
#include <stdio.h>

#include "position/position.h"

typedef struct learned_options {
  double deviation;
} learned_options;

static const field learned_fields[] = {
    {"deviation", FIELD_REAL, offsetof(learned_options, deviation), 0, 100, 0.02, NULL, NULL,
     "standard deviation of a new table"}, /* Radford et al. 2019; 1 / sqrt(width), a word's size, is 5 % worse */
};

static size_t limit(const position_shape *shape, const void *options)
{
  (void)options;
  return shape->train_length;
}

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  (void)options;
  list[0] = (position_parameter){.rows = shape->train_length, .columns = shape->width, .decay = false};
  snprintf(list[0].name, sizeof list[0].name, "position.embedding");
  return 1;
}

static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)shape, (void)which, (void)index;
  return (float)(((const learned_options *)options)->deviation * normal);
}

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  plan->embedding = arena_floats(a, size_mul(request->length, request->shape.width));
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t width = request->shape.width;
  float *table = (float *)plan->embedding;
  for (size_t i = 0; i < request->length; i++)
    for (size_t c = 0; c < width; c++)
      table[i * width + c] = request->parameters[0][position_row(request, i) * width + c];
}

static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  (void)plan;
  size_t width = request->shape.width;
  for (size_t i = 0; i < request->length; i++)
    for (size_t c = 0; c < width; c++)
      parameter_grads[0][position_row(request, i) * width + c] += grad->embedding[i * width + c];
}

static double embedding(const position_request *request, size_t position, size_t channel)
{
  return request->parameters[0][position_row(request, position) * request->shape.width + channel];
}

const position_method position_method_learned = {
    .name = "learned",
    .title = "learned absolute positions",
    .formula = "x + table[pos], pos < L",
    .source = "Gehring et al., ICML 2017",
    .family = "absolute",
    .fields = FIELD_TABLE(learned_fields),
    .options_size = sizeof(learned_options),
    .limit = limit,
    .parameters = parameters,
    .initial = initial,
    .layout = layout,
    .fill = fill,
    .backward = backward,
    .embedding = embedding,
};
