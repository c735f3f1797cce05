/* Rows of keys and values are put one behind the other; when the memory is full its last ones move to the front,
 * once in as many tokens as it has spare rows, so that a short run costs little more than its own rows. */
#include <assert.h>
#include <string.h>

#include "model/model.h"

struct pass_carry {
  size_t layers, heads, head_size;
  size_t columns; /* G D */
  size_t most_seen;
  size_t capacity; /* rows */
  size_t end;      /* rows that are there */
  float *rows;     /* [L, capacity, 2 G D]: keys, values */
  double *offsets; /* [L, capacity, H]; NULL without gates */
  arena memory;
};

static void layout(pass_carry *c, bool gated)
{
  size_t rows = size_mul(c->layers, c->capacity);
  c->rows = arena_floats(&c->memory, size_mul(rows, 2 * c->columns));
  c->offsets = gated ? arena_take(&c->memory, size_mul(rows, c->heads), sizeof *c->offsets) : NULL;
}

status model_carry_new(const model_pass *pass, pass_carry **carry, alibi_error *error)
{
  const alibi_model_config *config = &pass->model->config;
  bool gated = pass->position.plan.gated;
  status result = memory_new(carry, 1, sizeof **carry, "keys and values carried on", error);
  if (result != ALIBI_OK) return result;
  pass_carry *c = *carry;
  c->layers = (size_t)config->layers;
  c->heads = (size_t)config->heads;
  c->head_size = (size_t)config->head_size;
  c->columns = (size_t)config->kv_heads * c->head_size;
  c->most_seen = pass->shape.carried;
  c->capacity = size_add(size_mul(2, size_add(c->most_seen, 1)), pass->shape.rows); /* 1: for offsets */
  layout(c, gated);
  result = arena_allocate(&c->memory, "keys and values carried on", error);
  if (result != ALIBI_OK) {
    model_carry_free(c);
    *carry = NULL;
    return result;
  }
  layout(c, gated);
  return ALIBI_OK;
}

void model_carry_free(pass_carry *carry)
{
  if (!carry) return;
  arena_free(&carry->memory);
  memory_free(carry);
}

static float *row_of(const pass_carry *c, size_t layer, size_t row)
{
  return c->rows + (layer * c->capacity + row) * 2 * c->columns;
}

static double *offsets_of(const pass_carry *c, size_t layer, size_t row)
{
  return c->offsets + (layer * c->capacity + row) * c->heads;
}

void carry_enter(pass_carry *c, size_t seen, size_t count, bool anew)
{
  if (anew) c->end = 0;
  assert(seen <= c->end && seen <= c->most_seen);
  if (count <= c->capacity - c->end) return;
  size_t kept = seen > 0 || c->end == 0 ? seen : 1,
         from = c->end - kept; /* sums of gates go on from the last one */
  for (size_t layer = 0; layer < c->layers; layer++) {
    memmove(row_of(c, layer, 0), row_of(c, layer, from), kept * 2 * c->columns * sizeof *c->rows);
    if (c->offsets)
      memmove(offsets_of(c, layer, 0), offsets_of(c, layer, from), kept * c->heads * sizeof *c->offsets);
  }
  c->end = kept;
}

void carry_store(pass_carry *c, size_t layer, size_t count, const float *keys, const float *values, size_t stride,
                 const double *offsets)
{
  assert(count <= c->capacity - c->end);
  for (size_t i = 0; i < count; i++) {
    float *row = row_of(c, layer, c->end + i);
    memcpy(row, keys + i * stride, c->columns * sizeof *row);
    memcpy(row + c->columns, values + i * stride, c->columns * sizeof *row);
  }
  if (c->offsets) memcpy(offsets_of(c, layer, c->end), offsets, count * c->heads * sizeof *offsets);
}

void carry_leave(pass_carry *c, size_t count)
{
  c->end += count;
}

size_t carry_row(const pass_carry *c, size_t seen)
{
  return c->end - seen;
}

op_heads carry_keys(const pass_carry *c, size_t layer)
{
  return (op_heads){row_of(c, layer, 0), 2 * c->columns, c->head_size};
}

op_heads carry_values(const pass_carry *c, size_t layer)
{
  return (op_heads){row_of(c, layer, 0) + c->columns, 2 * c->columns, c->head_size};
}

const double *carry_offsets(const pass_carry *c, size_t layer)
{
  return c->offsets ? offsets_of(c, layer, 0) : NULL;
}

const double *carry_last_offsets(const pass_carry *c, size_t layer)
{
  return c->offsets && c->end > 0 ? offsets_of(c, layer, c->end - 1) : NULL;
}
