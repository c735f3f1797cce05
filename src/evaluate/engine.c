/* The one loop of all protocols: windows are run in batches, as runs of one pass, and the losses of their scored
 * outputs are written down in the order of the plan.  A row of a pass does not see how many rows came with it, so
 * batches change no bits. */
#include "evaluate/engine.h"

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
  while (end < p->count && p->windows[end].inputs <= batch_tokens && rows <= batch_tokens - p->windows[end].inputs)
    rows += p->windows[end++].inputs;
  return end;
}

static size_t larger(size_t a, size_t b)
{
  return a > b ? a : b;
}

static batch_size largest_batch(const plan *p, size_t batch_tokens)
{
  batch_size most = {0};
  for (size_t from = 0, end; from < p->count; from = end) {
    end = batch_end(p, from, batch_tokens);
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
  uint32_t *inputs, *targets; /* [rows], [targets] */
  size_t *rows;               /* [targets]: which rows are scored */
  pass_segment *segments;     /* [windows] */
} engine;

static status engine_new(alibi_model *model, const engine_options *options, const batch_size *size, engine *e,
                         alibi_error *error)
{
  status result;
  TRY(memory_new(&e->inputs, size->rows, sizeof *e->inputs, "the inputs of windows", error));
  TRY(memory_new(&e->targets, size->targets, sizeof *e->targets, "the targets of windows", error));
  TRY(memory_new(&e->rows, size->targets, sizeof *e->rows, "the targets of windows", error));
  TRY(memory_new(&e->segments, size->windows, sizeof *e->segments, "the list of windows", error));
  pass_shape shape = {.rows = size->rows,
                      .segments = size->windows,
                      .length = options->length,
                      .head_rows = size->targets < HEAD_ROWS ? size->targets : HEAD_ROWS,
                      .extension = options->extension,
                      .extension_options = options->extension_options};
  TRY(model_pass_new(model, &shape, &e->pass, error));
done:
  return result;
}

static void engine_free(engine *e)
{
  model_pass_free(e->pass);
  memory_free(e->segments);
  memory_free(e->rows);
  memory_free(e->targets);
  memory_free(e->inputs);
}

static status run_batch(engine *e, const uint32_t *tokens, const plan_window *windows, size_t count, float *losses,
                        unsigned char *hits, size_t *done, alibi_error *error)
{
  size_t row = 0, scored = 0;
  for (size_t w = 0; w < count; w++) {
    const plan_window *window = &windows[w];
    e->segments[w] = (pass_segment){.count = window->inputs, .wanted = window->inputs - window->first};
    for (size_t i = 0; i < window->inputs; i++) e->inputs[row + i] = tokens[window->start + i];
    for (size_t i = 0; i < window->count; i++, scored++) {
      e->rows[scored] = row + window->first + i;
      e->targets[scored] = tokens[plan_target(window, i)];
    }
    row += window->inputs;
  }
  status result = model_forward(e->pass, e->inputs, e->segments, count, error);
  if (result != ALIBI_OK) return result;
  model_losses_and_hits(e->pass, e->rows, e->targets, scored, losses + *done, hits ? hits + *done : NULL);
  *done += scored;
  return ALIBI_OK;
}

status engine_run(alibi_model *model, const uint32_t *tokens, const plan *p, const engine_options *options,
                  float *losses, double *seconds, alibi_error *error)
{
  engine e = {0};
  bool packed = false;
  size_t done = 0;
  batch_size size = largest_batch(p, options->batch_tokens);
  status result;
  *seconds = 0;
  TRY(engine_new(model, options, &size, &e, error));
  if (p->count > 1 && !model->packed) {
    TRY(model_pack(model, error));
    packed = true;
  }
  double start = system_seconds();
  for (size_t from = 0, end; from < p->count; from = end) {
    TRY(context_check_cancel(model->context, error));
    end = batch_end(p, from, options->batch_tokens);
    TRY(run_batch(&e, tokens, p->windows + from, end - from, losses, options->hits, &done, error));
  }
  *seconds = system_seconds() - start;
done:
  if (packed) model_unpack(model); /* it may be a trainer's, whose values change */
  engine_free(&e);
  return result;
}
