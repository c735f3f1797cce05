/* Tasks: the registry, and what is the same for all of them: prompts of a length are written, read by the engine
 * in portions, and counted in the cells of a row. */
#include "evaluate/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/fingerprint.h"
#include "base/memory.h"
#include "base/system.h"
#include "evaluate/engine.h"

#include "task_registry.inc"

/* Prompts that are held at once: tokens of a portion, unless a single prompt is longer. */
enum { PORTION = 1 << 16, BATCH_TOKENS = 512, CHECK_EVERY = 1 << 20 };

/* ---- the registry ---- */

size_t task_count(void)
{
  return TASK_COUNT;
}

const evaluation_task *task_at(size_t index)
{
  return task_registry[index];
}

const evaluation_task *task_find(const char *name)
{
  for (size_t i = 0; i < TASK_COUNT; i++)
    if (strcmp(task_registry[i]->name, name) == 0) return task_registry[i];
  return NULL;
}

void task_names(bool trainable, char *text, size_t size)
{
  size_t used = 0;
  if (size > 0) text[0] = '\0';
  for (size_t i = 0; i < TASK_COUNT; i++) {
    if (trainable && !task_registry[i]->sequence) continue;
    int added = snprintf(text + used, size - used, "%s%s", used ? ", " : "", task_registry[i]->name);
    if (added < 0 || (size_t)added >= size - used) return;
    used += (size_t)added;
  }
}

/* ---- numbers ---- */

double task_accuracy(const evaluation_task *task, const task_cell *c)
{
  int64_t of = task->by_token ? c->tokens : c->answers, right = task->by_token ? c->hits : c->exact;
  return of > 0 ? (double)right / (double)of : NAN;
}

double task_accuracy_error(const task_cell *c)
{
  return block_sums_estimate(&c->prompts).standard_error;
}

int64_t task_reach(const evaluation_task *task, const task_result *result, double share)
{
  int64_t reach = 0;
  for (;;) { /* rows need not ascend: the shortest one that was not looked at yet */
    const task_row *next = NULL;
    for (size_t i = 0; i < result->count; i++)
      if (result->rows[i].length > reach && (!next || result->rows[i].length < next->length))
        next = &result->rows[i];
    if (!next || next->why[0] || !(task_accuracy(task, &next->all) >= share)) return reach;
    reach = next->length;
  }
}

task_random task_random_of(const evaluation_task *task, uint64_t seed, size_t length, size_t depth, uint64_t trial)
{
  uint64_t place[] = {fingerprint_of(task->name, strlen(task->name)), length, depth, trial};
  return (task_random){.seed = seed, .stream = fingerprint_of(place, sizeof place)};
}

size_t task_batch_tokens(const alibi_model *model, const task_settings *s)
{
  return s->batch_tokens ? s->batch_tokens : BATCH_TOKENS * (size_t)model->context->threads;
}

/* ---- checks ---- */

static status check_numbers(const evaluation_task *task, const task_settings *s, alibi_error *error)
{
  if (s->trials < 1)
    return fail(error, ALIBI_INVALID, "trials: expected at least 1, found %lld", (long long)s->trials);
  if (!task->own_length && s->length_count == 0)
    return fail(error, ALIBI_INVALID, "length: expected at least one length, found none");
  for (size_t i = 0; i < s->length_count; i++)
    if (s->lengths[i] < 2)
      return fail(error, ALIBI_INVALID, "length: expected at least 2 tokens, found %lld",
                  (long long)s->lengths[i]);
  for (size_t i = 0; i < s->depth_count; i++)
    if (!(s->depths[i] >= 0 && s->depths[i] <= 1))
      return fail(error, ALIBI_INVALID, "depth: expected numbers from 0 (the beginning) to 1 (the end), found %g",
                  s->depths[i]);
  return ALIBI_OK;
}

bool task_needs_text(const evaluation_task *task, const void *options)
{
  return (task->needs & TASK_NEEDS_TEXT) || (task->needs_text && task->needs_text(options));
}

status task_check(const evaluation_task *task, const task_material *m, const task_settings *s, alibi_error *error)
{
  status result;
  TRY(check_numbers(task, s, error));
  TRY(field_check(task->fields, s->options, task->name, error));
  if ((task->needs & TASK_NEEDS_TOKENIZER) && !m->tokenizer)
    RAISE(error, ALIBI_INVALID, "%s: asks in words: expected a model with a tokenizer, found one without",
          task->name);
  if ((task->needs & TASK_NEEDS_QUESTIONS) && !m->questions)
    RAISE(error, ALIBI_INVALID, "%s: expected questions, found none", task->name);
  if (task_needs_text(task, s->options) && !m->text)
    RAISE(error, ALIBI_INVALID, "%s: expected a text, found none", task->name);
done:
  return result;
}

status task_check_cancel(const task_request *r, alibi_error *error)
{
  return r->context ? context_check_cancel(r->context, error) : ALIBI_OK;
}

status task_check_draws(alibi_context *context, size_t done, alibi_error *error)
{
  return context && done % CHECK_EVERY == 0 ? context_check_cancel(context, error) : ALIBI_OK;
}

/* ---- the run ---- */

typedef struct task_runner {
  alibi_model *model;
  const evaluation_task *task;
  const task_material *material;
  const task_settings *settings;
  task_prompts prompts;
  float *losses; /* [targets] of a portion */
  unsigned char *hits;
  size_t capacity;
  double done, row_tokens, total; /* tokens of the prompts; total 0: not known */
} task_runner;

static size_t nearest_column(const task_settings *s, double depth)
{
  size_t nearest = 0;
  for (size_t i = 1; i < s->depth_count; i++)
    if (fabs(s->depths[i] - depth) < fabs(s->depths[nearest] - depth)) nearest = i;
  return nearest;
}

static void cell_add(task_cell *c, const float *losses, const unsigned char *hits, size_t count)
{
  int64_t right = 0;
  for (size_t i = 0; i < count; i++) {
    right += hits[i];
    c->nll += losses[i];
  }
  c->answers++;
  c->exact += right == (int64_t)count;
  c->tokens += (int64_t)count;
  c->hits += right;
}

/* What the cell has beyond the prompts that ended is one more. */
static void cell_end_prompt(const evaluation_task *task, task_cell *c)
{
  int64_t of = task->by_token ? c->tokens : c->answers, right = task->by_token ? c->hits : c->exact;
  block_sums_add(&c->prompts, (double)right - c->prompts.sum, (double)of - c->prompts.count);
}

static status room_for(task_runner *r, size_t targets, alibi_error *error)
{
  if (targets <= r->capacity) return ALIBI_OK;
  memory_free(r->losses);
  memory_free(r->hits);
  r->losses = NULL, r->hits = NULL, r->capacity = 0;
  status result = memory_new(&r->losses, targets, sizeof *r->losses, "the losses", error);
  if (result == ALIBI_OK) result = memory_new(&r->hits, targets, sizeof *r->hits, "the losses", error);
  if (result == ALIBI_OK) r->capacity = targets;
  return result;
}

static void tell(const task_runner *r, double done, double total)
{
  if (r->settings->progress && total > 0)
    r->settings->progress(r->settings->user, done < total ? done : total, total);
}

static status after_batch(void *user, size_t windows, size_t targets, alibi_error *error)
{
  task_runner *r = user;
  const plan *p = &r->prompts.plan;
  double done = r->done + (double)p->inputs * (double)windows / (double)p->count;
  (void)targets;
  (void)error;
  tell(r, done, r->total);
  return ALIBI_OK;
}

/* Answers lie in the order of the prompts' windows. */
static void count_answers(task_runner *r, task_row *row, size_t column)
{
  const task_settings *s = r->settings;
  const task_prompts *p = &r->prompts;
  size_t columns = row->cells ? s->depth_count : 0;
  for (size_t w = 0, answer = 0, end = 0; w < p->plan.count; w++) {
    end += p->plan.windows[w].count;
    for (; answer < p->answer_count && p->answers[answer].target < end; answer++) {
      const task_answer *a = &p->answers[answer];
      cell_add(&row->all, r->losses + a->target, r->hits + a->target, a->count);
      if (columns == 0) continue;
      cell_add(&row->cells[r->task->spreads ? nearest_column(s, a->depth) : column], r->losses + a->target,
               r->hits + a->target, a->count);
    }
    cell_end_prompt(r->task, &row->all);
    for (size_t c = 0; c < columns; c++) cell_end_prompt(r->task, &row->cells[c]);
  }
}

/* Reads the prompts that are written, counts them, and clears them.  column: of all their answers, where they do
 * not spread. */
static status read_portion(task_runner *r, task_row *row, size_t column, alibi_error *error)
{
  const task_settings *s = r->settings;
  const task_prompts *p = &r->prompts;
  double seconds;
  status result = ALIBI_OK;
  if (p->plan.count == 0) return ALIBI_OK;
  TRY(context_check_cancel(r->model->context, error)); /* the prompts may have taken long */
  TRY(room_for(r, p->plan.targets, error));
  engine_options run = {.length = p->plan.positions, /* what follows the last answer is not read */
                        .batch_tokens = task_batch_tokens(r->model, s),
                        .hits = r->hits,
                        .after_batch = after_batch,
                        .user = r};
  if (s->extension) run.extension = s->extension->extension, run.extension_options = s->extension->options.bytes;
  TRY(engine_run(r->model, p->tokens.ids, &p->plan, &run, r->losses, &seconds, error));
  row->seconds += seconds;
  row->inputs += (int64_t)p->plan.inputs;
  count_answers(r, row, column);
  r->done += (double)p->plan.inputs;
  prompts_clear(&r->prompts);
done:
  return result;
}

static status run_cell(task_runner *r, task_row *row, size_t column, double depth, alibi_error *error)
{
  const task_settings *s = r->settings;
  size_t place = (size_t)llround(depth * 1e6);
  status result = ALIBI_OK;
  for (int64_t trial = 0; trial < s->trials; trial++) {
    task_request request = {.context = r->model->context,
                            .material = r->material,
                            .options = s->options,
                            .length = (size_t)row->length,
                            .depth = depth,
                            .random =
                                task_random_of(r->task, s->seed, (size_t)row->length, place, (uint64_t)trial)};
    TRY(task_check_cancel(&request, error));
    TRY(r->task->make(&request, &r->prompts, error));
    if (r->prompts.tokens.count >= PORTION) TRY(read_portion(r, row, column, error));
  }
  TRY(read_portion(r, row, column, error));
done:
  return result;
}

static status run_row(task_runner *r, task_row *row, size_t columns, alibi_error *error)
{
  status result = ALIBI_OK;
  prompts_clear(&r->prompts);
  if (r->task->spreads || columns == 0) TRY(run_cell(r, row, 0, 0, error));
  else
    for (size_t column = 0; column < columns; column++)
      TRY(run_cell(r, row, column, r->settings->depths[column], error));
done:
  return result;
}

/* What a task that runs by itself reads of a row is more than the row's prompts, and counts as these. */
static void row_progress(void *user, double done, double total)
{
  const task_runner *r = user;
  if (r->total > 0) tell(r, r->done + r->row_tokens * done / total, r->total);
  else tell(r, done, total);
}

static status run_by_itself(task_runner *r, task_row *row, alibi_error *error)
{
  task_settings settings = *r->settings;
  settings.progress = row_progress;
  settings.user = r;
  return r->task->run(r->model, r->material, &settings, row, error);
}

/* Of a row's prompts as they are written; a few are not read. */
static double expected_tokens(const task_runner *r, int64_t length, size_t columns)
{
  return (double)length * (double)r->settings->trials * (columns > 0 && !r->task->spreads ? (double)columns : 1);
}

/* Why a row cannot be done goes into the row, also where a length takes more memory than there is. */
static status run_or_say(task_runner *r, task_row *row, size_t columns, alibi_error *error)
{
  alibi_error why = {0};
  double after = r->done + expected_tokens(r, row->length, columns);
  r->row_tokens = after - r->done;
  status result = r->task->run ? run_by_itself(r, row, &why) : run_row(r, row, columns, &why);
  bool refused = result == ALIBI_INVALID || result == ALIBI_FAILED;
  if (result == ALIBI_OK || refused) tell(r, after, r->total);
  r->done = after;
  if (result == ALIBI_OK) return ALIBI_OK;
  if (!refused) {
    if (error) *error = why;
    return result;
  }
  if (row->cells) memset(row->cells, 0, columns * sizeof *row->cells);
  row->all = (task_cell){0};
  row->inputs = 0, row->seconds = 0;
  snprintf(row->why, sizeof row->why, "%s", why.message);
  return ALIBI_OK;
}

status task_run(alibi_model *model, const evaluation_task *task, const task_material *material,
                const task_settings *s, task_result *out, alibi_error *error)
{
  size_t rows = task->own_length ? 1 : s->length_count, columns = task->depths ? s->depth_count : 0;
  task_runner r = {.model = model, .task = task, .material = material, .settings = s};
  bool packed = false;
  status result;
  *out = (task_result){.columns = columns};
  for (size_t i = 0; i < s->length_count; i++) r.total += expected_tokens(&r, s->lengths[i], columns);
  TRY(memory_new(&out->rows, rows, sizeof *out->rows, "the rows of a task", error));
  out->count = rows;
  if (!model->packed) {
    TRY(model_pack(model, error));
    packed = true;
  }
  tell(&r, 0, r.total);
  for (size_t i = 0; i < rows; i++) {
    task_row *row = &out->rows[i];
    row->length = task->own_length ? 0 : s->lengths[i];
    if (columns > 0) TRY(memory_new(&row->cells, columns, sizeof *row->cells, "the cells of a task", error));
    TRY(run_or_say(&r, row, columns, error));
  }
done:
  if (packed) model_unpack(model);
  prompts_free(&r.prompts);
  memory_free(r.losses);
  memory_free(r.hits);
  if (result != ALIBI_OK) task_result_free(out);
  return result;
}

status task_refuse(const evaluation_task *task, const task_settings *s, const char *why, task_result *out,
                   alibi_error *error)
{
  size_t rows = task->own_length ? 1 : s->length_count;
  status result;
  *out = (task_result){.columns = task->depths ? s->depth_count : 0};
  TRY(memory_new(&out->rows, rows, sizeof *out->rows, "the rows of a task", error));
  out->count = rows;
  for (size_t i = 0; i < rows; i++) {
    task_row *row = &out->rows[i];
    row->length = task->own_length ? 0 : s->lengths[i];
    snprintf(row->why, sizeof row->why, "%s", why);
    if (out->columns > 0)
      TRY(memory_new(&row->cells, out->columns, sizeof *row->cells, "the cells of a task", error));
  }
done:
  if (result != ALIBI_OK) task_result_free(out);
  return result;
}

void task_result_free(task_result *result)
{
  for (size_t i = 0; i < result->count; i++) memory_free(result->rows[i].cells);
  memory_free(result->rows);
  *result = (task_result){0};
}
