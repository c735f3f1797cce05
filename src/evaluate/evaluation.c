/* Evaluations of a model on a text: rows are added as plans, run in parts, and get their losses when all parts are
 * through.  A part is a plan that several rows share; what it has so far stays in it when a run is stopped, and in
 * a file where one is kept, so that the next run goes on from there. */
#include "evaluate/evaluation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/system.h"
#include "evaluate/engine.h"
#include "evaluate/sharing.h"
#include "evaluate/text_ids.h"

/* A batch should fit the cache and still have work for all threads: with one thread 512 tokens are read 15 to 20 %
 * faster than 4096 (width 128). */
enum { BATCH_TOKENS = 512 };

/* ---- made and freed ---- */

static status check_tokens(const alibi_model *model, const uint32_t *tokens, size_t count, alibi_error *error)
{
  if (count < 2)
    return fail(error, ALIBI_INVALID,
                "the text is too short: expected at least 2 tokens, since the first is never scored, found %zu",
                count);
  return text_ids_check(model, tokens, count, error);
}

static status take_documents(alibi_evaluation *e, const size_t *starts, size_t count, alibi_error *error)
{
  static const size_t whole[] = {0};
  if (!starts) starts = whole, count = 1;
  if (count == 0 || starts[0] != 0)
    return fail(error, ALIBI_INVALID, "documents: expected the first one at token 0, found %s",
                count == 0 ? "none" : "it elsewhere");
  status result = memory_new(&e->documents, count, sizeof *e->documents, "the list of documents", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < count; i++) {
    size_t end = i + 1 < count ? starts[i + 1] : e->count;
    if (end < starts[i] || end > e->count)
      return fail(
          error, ALIBI_INVALID,
          "document %zu: expected to begin between the one before it and the end of the text, at %zu .. %zu, "
          "found %zu",
          i + (i + 1 < count), starts[i], e->count, i + 1 < count ? end : starts[i]);
    e->documents[i] = (plan_text){starts[i], end - starts[i]};
  }
  e->document_count = count;
  return ALIBI_OK;
}

status alibi_evaluation_new(alibi_model *model, const uint32_t *tokens, size_t count, const size_t *documents,
                            size_t document_count, alibi_evaluation **evaluation, alibi_error *error)
{
  status result;
  *evaluation = NULL;
  TRY(model_check_causal(model, "an evaluation", error));
  TRY(check_tokens(model, tokens, count, error));
  TRY(memory_new(evaluation, 1, sizeof **evaluation, "an evaluation", error));
  alibi_evaluation *e = *evaluation;
  e->model = model;
  e->tokens = tokens;
  e->count = count;
  TRY(take_documents(e, documents, document_count, error));
  return ALIBI_OK;
done:
  alibi_evaluation_free(*evaluation);
  *evaluation = NULL;
  return result;
}

static void free_row(evaluation_row *row)
{
  plan_free(&row->plan);
  memory_free(row->first_target);
  memory_free(row->ends);
  memory_free(row->losses);
  free(row->why);
}

static void free_part(evaluation_part *part)
{
  plan_free(&part->plan);
  memory_free(part->rows);
  memory_free(part->done.losses);
}

static void free_parts(alibi_evaluation *e)
{
  for (size_t i = 0; i < e->part_count; i++) free_part(&e->parts[i]);
  e->part_count = 0;
}

void alibi_evaluation_free(alibi_evaluation *e)
{
  if (!e) return;
  for (size_t i = 0; i < e->row_count; i++) free_row(&e->rows[i]);
  free_parts(e);
  free(e->rows);
  free(e->parts);
  memory_free(e->documents);
  memory_free(e);
}

/* ---- rows ---- */

/* The length declared to the position method: that of a window, or of all that is streamed. */
static size_t declared_length(const evaluation_row *row)
{
  size_t window = (size_t)row->options.window;
  return row->plan.positions > window ? row->plan.positions : window;
}

static size_t batch_tokens(const alibi_evaluation *e, int64_t asked)
{
  return asked > 0 ? (size_t)asked : BATCH_TOKENS * (size_t)e->model->context->threads;
}

/* A length that the positions or the memory have no room for is known before anything is run. */
static status check_pass(const alibi_evaluation *e, const evaluation_row *row, alibi_error *error)
{
  alibi_error why = {0};
  size_t length = declared_length(row);
  pass_shape shape = {.rows = 1,
                      .segments = 1,
                      .length = length,
                      .head_rows = 1,
                      .extension = row->extension.extension,
                      .extension_options = row->extension.options.bytes};
  engine_options o = {.length = length,
                      .batch_tokens = batch_tokens(e, row->options.batch_tokens),
                      .extension = shape.extension,
                      .extension_options = shape.extension_options};
  status result = model_pass_check(e->model, &shape, &why);
  if (result == ALIBI_FAILED) return fail(error, ALIBI_INVALID, "length %zu: %s", length, why.message);
  if (result != ALIBI_OK) return fail(error, result, "%s", why.message);
  size_t bytes = engine_bytes(e->model, &row->plan, &o), available = system_available_memory();
  if (bytes > available)
    return fail(error, ALIBI_INVALID,
                "length %zu: not enough memory for a pass: it takes %zu bytes, there are %zu", length, bytes,
                available);
  return ALIBI_OK;
}

/* Where targets of windows and documents begin and end. */
static status index_targets(const alibi_evaluation *e, evaluation_row *row, alibi_error *error)
{
  const plan *p = &row->plan;
  size_t document = 0;
  status result;
  TRY(memory_new(&row->first_target, size_add(p->count, 1), sizeof *row->first_target, "the list of targets",
                 error));
  TRY(memory_new(&row->ends, e->document_count, sizeof *row->ends, "the list of documents", error));
  for (size_t w = 0; w < p->count; w++) {
    const plan_window *window = &p->windows[w];
    row->first_target[w + 1] = row->first_target[w] + window->count;
    for (; window->start >= e->documents[document].start + e->documents[document].tokens; document++)
      row->ends[document] = row->first_target[w];
  }
  for (; document < e->document_count; document++) row->ends[document] = p->targets;
done:
  return result;
}

static void set_early(const alibi_model *model, alibi_evaluate_options *o)
{
  int64_t share = model->config.train_length / 4;
  if (o->early == 0) o->early = share < 1 ? 1 : share < 64 ? share : 64;
}

status alibi_evaluation_add(alibi_evaluation *e, const alibi_evaluate_options *options, size_t *row,
                            alibi_error *error)
{
  evaluation_row r = {0};
  status result;
  TRY(protocol_options(options, &r.options, error));
  if (r.options.beginning >= e->model->config.vocabulary)
    RAISE(error, ALIBI_INVALID, "beginning: expected a token below the vocabulary of %lld, found %lld",
          (long long)e->model->config.vocabulary, (long long)r.options.beginning);
  if (r.options.extend)
    TRY(model_config_read_extension(&e->model->config, "extend", r.options.extend, &r.extension, error));
  r.options.extend = NULL;
  TRY(protocol_plan(&r.options, e->documents, e->document_count, &r.plan, error));
  set_early(e->model, &r.options);
  TRY(check_pass(e, &r, error));
  TRY(index_targets(e, &r, error));
  TRY(memory_grow(&e->rows, &e->row_capacity, e->row_count + 1, sizeof *e->rows, "the rows of an evaluation",
                  error));
  if (row) *row = e->row_count;
  e->rows[e->row_count++] = r;
  return ALIBI_OK;
done:
  free_row(&r);
  return result;
}

size_t evaluation_window(const evaluation_row *row, size_t target)
{
  size_t low = 0, high = row->plan.count; /* first_target[low] <= target < first_target[high] */
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (row->first_target[middle] <= target) low = middle;
    else high = middle;
  }
  return low;
}

/* ---- parts ---- */

/* What streams is run by itself; the same windows are the same only under one declared length. */
static bool goes_together(const evaluation_row *a, const evaluation_row *b)
{
  return !a->plan.streams && !b->plan.streams && declared_length(a) == declared_length(b) &&
         a->options.beginning == b->options.beginning && extension_choice_equal(&a->extension, &b->extension);
}

/* A row's windows beside those that the part has. */
static status join(evaluation_part *part, size_t index, evaluation_row *row, alibi_error *error)
{
  plan joint;
  status result = sharing_join(&part->plan, &row->plan, &joint, error);
  if (result != ALIBI_OK) return result;
  row->own_inputs = joint.inputs - part->plan.inputs;
  plan_free(&part->plan);
  part->plan = joint;
  part->rows[part->row_count++] = index;
  row->entered = true;
  return ALIBI_OK;
}

static status add_part(alibi_evaluation *e, size_t first, alibi_error *error)
{
  status result;
  evaluation_part part = {.length = declared_length(&e->rows[first])};
  TRY(memory_new(&part.rows, e->row_count, sizeof *part.rows, "the rows of an evaluation", error));
  for (size_t i = first; i < e->row_count; i++)
    if (i == first || (!e->rows[i].entered && goes_together(&e->rows[first], &e->rows[i])))
      TRY(join(&part, i, &e->rows[i], error));
  part.done.all_windows = part.plan.count;
  part.done.all_targets = part.plan.targets;
  TRY(memory_new(&part.done.losses, part.plan.targets, sizeof(float), "the losses", error));
  TRY(memory_grow(&e->parts, &e->part_capacity, e->part_count + 1, sizeof *e->parts, "the rows of an evaluation",
                  error));
  e->parts[e->part_count++] = part;
  return ALIBI_OK;
done:
  for (size_t i = 0; i < part.row_count; i++) e->rows[part.rows[i]].entered = false;
  free_part(&part);
  return result;
}

/* Each row gets its own losses, and its share of the time. */
static status give_losses(alibi_evaluation *e, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < e->part_count; i++) {
    const evaluation_part *part = &e->parts[i];
    for (size_t r = 0; r < part->row_count; r++) {
      evaluation_row *row = &e->rows[part->rows[r]];
      if (row->why) continue;
      TRY(memory_new(&row->losses, row->plan.targets, sizeof *row->losses, "the losses", error));
      if (part->plan.streams) memcpy(row->losses, part->done.losses, row->plan.targets * sizeof *row->losses);
      else sharing_take(&part->plan, part->done.losses, &row->plan, row->losses);
      row->seconds = part->done.seconds * (double)row->own_inputs / (double)part->plan.inputs;
    }
  }
  free_parts(e);
done:
  if (result != ALIBI_OK) /* all or none, so that a next call may begin with them again */
    for (size_t i = 0; i < e->part_count; i++)
      for (size_t r = 0; r < e->parts[i].row_count; r++) {
        evaluation_row *row = &e->rows[e->parts[i].rows[r]];
        memory_free(row->losses);
        row->losses = NULL;
      }
  return result;
}

/* ---- the file ---- */

/* Of everything that a loss depends on. */
static status identify(const alibi_evaluation *e, uint64_t *what, alibi_error *error)
{
  const alibi_model *model = e->model;
  json_node *node = model_config_node(&model->config);
  char *config = node_to_text(node), extension[EXTENSION_TEXT_SIZE];
  fingerprint *f = NULL;
  status result;
  TRY(fingerprint_begin(&f, error));
  if (!config) RAISE(error, ALIBI_FAILED, "not enough memory for a configuration");
  fingerprint_add(f, alibi_version(), strlen(alibi_version()) + 1);
  fingerprint_add(f, model->context->kernel->name, strlen(model->context->kernel->name) + 1);
  fingerprint_add(f, &model->context->tolerance, sizeof model->context->tolerance);
  fingerprint_add(f, config, strlen(config) + 1);
  model_add_to_fingerprint(model, f);
  fingerprint_add(f, e->tokens, e->count * sizeof *e->tokens);
  for (size_t i = 0; i < e->part_count; i++) {
    const evaluation_part *part = &e->parts[i];
    const evaluation_row *row = &e->rows[part->rows[0]];
    extension_text_write(&row->extension, extension, sizeof extension);
    fingerprint_add(f, extension, strlen(extension) + 1);
    fingerprint_add(f, &row->options.beginning, sizeof row->options.beginning);
    fingerprint_add(f, &part->length, sizeof part->length);
    fingerprint_add(f, part->plan.windows, part->plan.count * sizeof *part->plan.windows); /* no gaps in these */
  }
  *what = fingerprint_value(f);
done:
  fingerprint_free(f);
  free(config);
  node_free(node);
  return result;
}

typedef struct keeper {
  const char *path; /* NULL: nothing is kept */
  uint64_t what;
  double next; /* when to write again */
} keeper;

/* A file takes a twentieth of the time at most. */
enum { KEEP_SECONDS = 5, KEEP_SHARE = 20 };

static status write_kept(const alibi_evaluation *e, keeper *k, alibi_error *error)
{
  losses_part *parts = NULL;
  double begun = system_seconds(), took;
  status result;
  TRY(memory_new(&parts, e->part_count, sizeof *parts, "the parts of an evaluation", error));
  for (size_t i = 0; i < e->part_count; i++) parts[i] = e->parts[i].done;
  TRY(losses_file_write(k->path, k->what, parts, e->part_count, error));
done:
  memory_free(parts);
  took = KEEP_SHARE * (system_seconds() - begun);
  k->next = system_seconds() + (took > KEEP_SECONDS ? took : KEEP_SECONDS);
  return result;
}

/* While it runs: a disk that is full for a while is no reason to stop, and is told. */
static void keep(const alibi_evaluation *e, keeper *k)
{
  alibi_error error = {0};
  if (write_kept(e, k, &error) != ALIBI_OK) context_log(e->model->context, ALIBI_LOG_WARNING, "%s", error.message);
}

static status read_kept(alibi_evaluation *e, const keeper *k, alibi_error *error)
{
  losses_part *parts = NULL;
  status result;
  if (!path_exists(k->path)) return ALIBI_OK;
  TRY(memory_new(&parts, e->part_count, sizeof *parts, "the parts of an evaluation", error));
  for (size_t i = 0; i < e->part_count; i++) parts[i] = e->parts[i].done;
  TRY(losses_file_read(k->path, k->what, parts, e->part_count, error));
  for (size_t i = 0; i < e->part_count; i++) {
    size_t targets = 0;
    for (size_t w = 0; w < parts[i].windows; w++) targets += e->parts[i].plan.windows[w].count;
    if (targets != parts[i].targets)
      RAISE(error, ALIBI_BAD_INPUT, "%s: damaged: its numbers do not go together; remove it to begin again",
            k->path);
  }
  for (size_t i = 0; i < e->part_count; i++) e->parts[i].done = parts[i];
done:
  memory_free(parts);
  return result;
}

/* ---- run ---- */

typedef struct run {
  alibi_evaluation *evaluation;
  evaluation_part *part;
  keeper keeper;
  alibi_evaluation_progress *progress;
  void *user;
  int64_t done, total; /* inputs */
  double before;       /* seconds of the part, from earlier runs */
  double begun;
} run;

static void tell(const run *r)
{
  if (r->progress) r->progress(r->user, r->done, r->total);
}

static status after_batch(void *user, size_t windows, size_t targets, alibi_error *error)
{
  run *r = user;
  (void)error;
  losses_part *done = &r->part->done;
  for (size_t w = done->windows; w < windows; w++) r->done += (int64_t)r->part->plan.windows[w].inputs;
  done->windows = windows;
  done->targets = targets;
  done->seconds = r->before + system_seconds() - r->begun;
  tell(r);
  if (r->keeper.path && system_seconds() >= r->keeper.next) keep(r->evaluation, &r->keeper);
  return ALIBI_OK;
}

/* What streams goes on from the last window that goes on from no other: keys and values are not kept. */
static void step_back(evaluation_part *part)
{
  losses_part *done = &part->done;
  while (done->windows < part->plan.count && part->plan.windows[done->windows].position > 0)
    done->targets -= part->plan.windows[--done->windows].count;
}

static status run_part(run *r, alibi_error *error)
{
  const alibi_evaluation *e = r->evaluation;
  evaluation_part *part = r->part;
  const evaluation_row *row = &e->rows[part->rows[0]];
  double seconds;
  size_t batch = 0;
  for (size_t i = 0; i < part->row_count; i++) { /* the smallest that is asked for */
    size_t asked = (size_t)e->rows[part->rows[i]].options.batch_tokens;
    if (asked > 0 && (batch == 0 || asked < batch)) batch = asked;
  }
  engine_options o = {.length = part->length,
                      .batch_tokens = batch_tokens(e, (int64_t)batch),
                      .extension = row->extension.extension,
                      .extension_options = row->extension.options.bytes,
                      .beginning = row->options.beginning >= 0 ? (uint32_t)row->options.beginning : 0,
                      .first_window = part->done.windows,
                      .first_target = part->done.targets,
                      .after_batch = after_batch,
                      .user = r};
  r->before = part->done.seconds;
  r->begun = system_seconds();
  return engine_run(e->model, e->tokens, &part->plan, &o, part->done.losses, &seconds, error);
}

/* The rows of a part that memory was out for say so, and the other parts go on. */
static status say_why(const run *r, const char *why, alibi_error *error)
{
  const evaluation_part *part = r->part;
  for (size_t i = 0; i < part->row_count; i++) {
    evaluation_row *row = &r->evaluation->rows[part->rows[i]];
    free(row->why);
    row->why = strdup(why);
    if (!row->why) return fail(error, ALIBI_FAILED, "%s", why);
  }
  return ALIBI_OK;
}

static status run_parts(alibi_evaluation *e, run *r, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t windows = 0;
  bool packed = false;
  for (size_t i = 0; i < e->part_count; i++) {
    const plan *p = &e->parts[i].plan;
    step_back(&e->parts[i]);
    r->total += (int64_t)p->inputs;
    windows += p->count - e->parts[i].done.windows;
    for (size_t w = 0; w < e->parts[i].done.windows; w++) r->done += (int64_t)p->windows[w].inputs;
  }
  if (windows > 1 && !e->model->packed) { /* once for all parts */
    TRY(model_pack(e->model, error));
    packed = true;
  }
  tell(r);
  for (size_t i = 0; i < e->part_count; i++) {
    alibi_error why = {0};
    r->part = &e->parts[i];
    status ran = run_part(r, &why);
    if (ran == ALIBI_FAILED) TRY(say_why(r, why.message, error));
    else if (ran != ALIBI_OK) RAISE(error, ran, "%s", why.message);
  }
done:
  if (packed) model_unpack(e->model); /* it may be a trainer's, whose values change */
  return result;
}

status alibi_evaluation_run(alibi_evaluation *e, const char *path, alibi_evaluation_progress *progress, void *user,
                            alibi_error *error)
{
  run r = {.evaluation = e, .keeper.path = path, .progress = progress, .user = user};
  status result = ALIBI_OK;
  for (size_t i = 0; i < e->row_count; i++)
    if (!e->rows[i].entered) TRY(add_part(e, i, error));
  if (e->part_count == 0) return ALIBI_OK;
  if (path) {
    TRY(identify(e, &r.keeper.what, error));
    TRY(read_kept(e, &r.keeper, error));
    TRY(write_kept(e, &r.keeper, error)); /* a place where nothing can be written is known now, not in an hour */
  }
  result = run_parts(e, &r, error);
  if (path) keep(e, &r.keeper);
  if (result == ALIBI_OK) result = give_losses(e, error);
done:
  return result;
}
