/* The one loop of all protocols: windows are run in batches, as runs of one pass, and the losses of their scored
 * outputs are written down in the order of the plan.  A row of a pass does not see how many rows came with it, so
 * batches change no bits.  A plan that streams is run window by window, behind what the last one left. */
#include "evaluate/engine.h"

#include <assert.h>
#include <math.h>

#include "base/memory.h"
#include "base/system.h"

enum { HEAD_ROWS = 256 };

/* What the largest batch needs. */
typedef struct batch_size {
  size_t windows, rows, targets;
} batch_size;

/* The windows from `from` on that run together: at least one. */
static size_t batch_end(const plan *p, size_t from, size_t batch_tokens)
{
  size_t rows = p->windows[from].inputs, end = from + 1;
  if (p->streams) return end;
  while (end < p->count && p->windows[end].inputs <= batch_tokens && rows <= batch_tokens - p->windows[end].inputs)
    rows += p->windows[end++].inputs;
  return end;
}

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

static batch_size largest_batch(const plan *p, const engine_options *options)
{
  batch_size most = {0};
  for (size_t from = options->first_window, end; from < p->count; from = end) {
    end = batch_end(p, from, options->batch_tokens);
    size_t rows = 0, targets = 0;
    for (size_t i = from; i < end; i++) rows += p->windows[i].inputs, targets += p->windows[i].count;
    most.windows = larger(most.windows, end - from);
    most.rows = larger(most.rows, rows);
    most.targets = larger(most.targets, targets);
  }
  return most;
}

typedef struct engine {
  model_pass *pass;
  pass_carry *carry;          /* NULL: nothing goes on */
  uint32_t *inputs, *targets; /* [rows], [targets] */
  size_t *rows;               /* [targets]: which rows are scored */
  pass_segment *segments;     /* [windows] */
} engine;

static pass_shape shape_of(const plan *p, const engine_options *options, batch_size size)
{
  return (pass_shape){.rows = size.rows,
                      .segments = size.windows,
                      .length = options->length,
                      .carries = p->streams,
                      .carried = p->past,
                      .stops_when_cancelled = true,
                      .head_rows = size.targets < HEAD_ROWS ? size.targets : HEAD_ROWS,
                      .extension = options->extension,
                      .extension_options = options->extension_options};
}

size_t engine_bytes(alibi_model *model, const plan *p, const engine_options *options)
{
  pass_shape shape = shape_of(p, options, largest_batch(p, options));
  return model_pass_bytes(model, &shape);
}

static status engine_new(alibi_model *model, const plan *p, const engine_options *options, engine *e,
                         alibi_error *error)
{
  status result;
  batch_size size = largest_batch(p, options);
  TRY(memory_new(&e->inputs, size.rows, sizeof *e->inputs, "the inputs of windows", error));
  TRY(memory_new(&e->targets, size.targets, sizeof *e->targets, "the targets of windows", error));
  TRY(memory_new(&e->rows, size.targets, sizeof *e->rows, "the targets of windows", error));
  TRY(memory_new(&e->segments, size.windows, sizeof *e->segments, "the list of windows", error));
  pass_shape shape = shape_of(p, options, size);
  TRY(model_pass_new(model, &shape, &e->pass, error));
  if (p->streams) TRY(model_carry_new(e->pass, &e->carry, error));
done:
  return result;
}

static void engine_free(engine *e)
{
  model_carry_free(e->carry);
  model_pass_free(e->pass);
  memory_free(e->segments);
  memory_free(e->rows);
  memory_free(e->targets);
  memory_free(e->inputs);
}

static void take_inputs(const plan_window *window, const uint32_t *tokens, uint32_t beginning, uint32_t *inputs)
{
  if (window->begins) *inputs++ = beginning;
  for (size_t i = 0; i < window->inputs - window->begins; i++) inputs[i] = tokens[window->start + i];
}

/* *done: targets, moved on. */
static status run_batch(engine *e, const uint32_t *tokens, const plan_window *windows, size_t count,
                        const engine_options *options, float *losses, size_t *done, alibi_error *error)
{
  size_t row = 0, scored = 0;
  for (size_t w = 0; w < count; w++) {
    const plan_window *window = &windows[w];
    e->segments[w] = (pass_segment){.count = window->inputs,
                                    .first = window->position,
                                    .wanted = window->inputs - window->first,
                                    .carry = e->carry,
                                    .seen = window->past};
    take_inputs(window, tokens, options->beginning, e->inputs + row);
    for (size_t i = 0; i < window->count; i++, scored++) {
      e->rows[scored] = row + window->first + i;
      e->targets[scored] = tokens[plan_target(window, i)];
    }
    row += window->inputs;
  }
  status result = model_forward(e->pass, e->inputs, e->segments, count, error);
  if (result != ALIBI_OK) return result;
  model_losses_and_hits(e->pass, e->rows, e->targets, scored, losses + *done,
                        options->hits ? options->hits + *done : NULL);
  for (size_t i = *done; i < *done + scored; i++)
    if (isnan(losses[i]))
      return fail(error, ALIBI_BAD_INPUT,
                  "a model's weights: expected logits that are numbers, found NaN (in a window of %zu tokens)",
                  windows->inputs);
  *done += scored;
  return ALIBI_OK;
}

status engine_run(alibi_model *model, const uint32_t *tokens, const plan *p, const engine_options *options,
                  float *losses, double *seconds, alibi_error *error)
{
  engine e = {0};
  bool packed = false;
  size_t done = options->first_target, end;
  double start = 0;
  status result = ALIBI_OK;
  *seconds = 0;
  assert(options->length >= p->positions);
  TRY(model_check_causal(model, "an evaluation", error));
  if (options->first_window >= p->count) return ALIBI_OK;
  assert(p->windows[options->first_window].position == 0);
  if (p->count > 1 && !model->packed) { /* before the pass is made, which then needs no memory for that */
    TRY(model_pack(model, error));
    packed = true;
  }
  TRY(engine_new(model, p, options, &e, error));
  start = system_seconds();
  for (size_t from = options->first_window; from < p->count; from = end) {
    TRY(context_check_cancel(model->context, error));
    end = batch_end(p, from, options->batch_tokens);
    TRY(run_batch(&e, tokens, p->windows + from, end - from, options, losses, &done, error));
    if (options->after_batch) TRY(options->after_batch(options->user, end, done, error));
  }
done:
  if (start > 0) *seconds = system_seconds() - start;
  engine_free(&e);
  if (packed) model_unpack(model); /* it may be a trainer's, whose values change */
  return result;
}
