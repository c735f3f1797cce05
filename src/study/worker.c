/* What a child process of a study does: measure the speed of every entry, or train and test one entry and leave
 * its model and its result in the study's directory.  A training that is done is kept (training.json beside the
 * model), so that an interrupted test does not cost it.  Progress lines go to a pipe: "P <done> <total> <unit>
 * <text>"; where nobody reads them any more the child stops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/tokenizer.h"
#include "base/context.h"
#include "base/memory.h"
#include "base/system.h"
#include "position/extension_text.h"
#include "study/corpus.h"
#include "study/schedule.h"
#include "study/study_plan.h"
#include "train/trainer.h"

enum { SPEED_ROUNDS = 9, LOSS_POINTS = 200 };

static const double SPEED_ROUND_SECONDS = 0.35;

typedef struct worker {
  alibi_context *context;
  const char *directory;
  study_plan *plan;
  study_corpus corpus;
  FILE *stream;
  double last_report;
} worker;

/* At most ten lines a second. */
static void report(worker *w, double done, double total, const char *unit, const char *text)
{
  double now = system_seconds();
  if (!w->stream || (now - w->last_report < 0.1 && done < total)) return;
  w->last_report = now;
  fprintf(w->stream, "P %.0f %.0f %s %s\n", done, total, unit, text);
  if (fflush(w->stream) != 0) alibi_context_cancel(w->context); /* the parent is gone */
}

/* The parent says what went wrong; without a parent it stays in `error` for whoever called. */
static void report_failure(worker *w, status result, alibi_error *error)
{
  if (!w->stream || !error) return;
  if (result != ALIBI_CANCELLED) fprintf(w->stream, "E %s\n", error->message);
  if (fflush(w->stream) == 0) error->message[0] = '\0';
}

/* Steps until a round is full: tokens a second.  The trainer is made anew each round, so that one at a time takes
 * memory. */
static status time_steps(worker *w, const study_entry *e, double *rate, alibi_error *error)
{
  alibi_trainer *trainer = NULL;
  alibi_train_options options = w->plan->train;
  alibi_train_report step;
  status result;
  TRY(alibi_trainer_new(w->context, &e->model, &options, w->corpus.train, w->corpus.train_count, &trainer, error));
  TRY(alibi_trainer_step(trainer, &step, error)); /* touches the memory for the first time: not timed */
  double start = system_seconds(), seconds = 0;
  int64_t tokens = 0;
  while (seconds < SPEED_ROUND_SECONDS) {
    TRY(alibi_trainer_step(trainer, &step, error));
    tokens += step.tokens;
    seconds = system_seconds() - start;
  }
  *rate = (double)tokens / seconds;
done:
  alibi_trainer_free(trainer);
  return result;
}

/* Seconds a token at each length, with the first entry that can read the longest. */
static status time_lengths(worker *w, json_node *list, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t l = 0; l < w->plan->length_count; l++) {
    alibi_evaluate_options options = schedule_cell(w->plan, ALIBI_FIXED_TARGET, w->plan->lengths[l], "");
    alibi_evaluate_result found = {0};
    options.max_targets = 1;
    for (size_t i = 0; i < w->plan->entry_count && found.input_tokens == 0; i++) {
      alibi_model *model;
      TRY(alibi_model_new(w->context, &w->plan->entries[i].model, 1, &model, error));
      for (int round = 0; round < 2; round++) { /* the second is warm */
        result = alibi_evaluate(model, w->corpus.valid, w->corpus.valid_count, NULL, &options, &found, error);
        options.max_targets = 4096 / options.window * (int64_t)found.stride + 1;
      }
      alibi_model_free(model);
      if (result == ALIBI_CANCELLED) goto done;
      if (result != ALIBI_OK) found.input_tokens = 0;
    }
    node_append_number(list, found.input_tokens ? found.seconds / (double)found.input_tokens : 0);
  }
  result = ALIBI_OK;
done:
  return result;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
}

/* From speeds by round and entry to one speed an entry: the median of its share of the round's mean, times the
 * median of these means.  A machine that is slower for a while slows all entries of a round and so leaves the
 * shares as they are. */
static void summarise(double rates[SPEED_ROUNDS][STUDY_MAX_ENTRIES], size_t entries, double *speeds)
{
  double means[SPEED_ROUNDS], shares[SPEED_ROUNDS];
  for (int round = 0; round < SPEED_ROUNDS; round++) {
    means[round] = 0;
    for (size_t i = 0; i < entries; i++) means[round] += rates[round][i] / (double)entries;
  }
  for (size_t i = 0; i < entries; i++) {
    for (int round = 0; round < SPEED_ROUNDS; round++) shares[round] = rates[round][i] / means[round];
    speeds[i] = median(shares, SPEED_ROUNDS);
  }
  double typical = median(means, SPEED_ROUNDS);
  for (size_t i = 0; i < entries; i++) speeds[i] *= typical;
}

/* Rounds over all entries, each begun with another one. */
static status measure(worker *w, alibi_error *error)
{
  const study_plan *plan = w->plan;
  double rates[SPEED_ROUNDS][STUDY_MAX_ENTRIES], speeds[STUDY_MAX_ENTRIES];
  double total = (double)plan->entry_count * SPEED_ROUNDS, done = 0;
  char *path = NULL;
  json_node *root = node_new_object(), *training = node_new_object(), *testing = node_new_array();
  status result;
  node_set(root, "train_tokens_per_second", training);
  node_set(root, "evaluate_seconds", testing);
  for (size_t round = 0; round < SPEED_ROUNDS; round++)
    for (size_t n = 0; n < plan->entry_count; n++) {
      size_t i = (n + round) % plan->entry_count;
      TRY(time_steps(w, &plan->entries[i], &rates[round][i], error));
      report(w, ++done, total, "rounds", plan->entries[i].label);
    }
  summarise(rates, plan->entry_count, speeds);
  for (size_t i = 0; i < plan->entry_count; i++) node_set_number(training, plan->entries[i].label, speeds[i]);
  TRY(time_lengths(w, testing, error));
  TRY(study_path(w->directory, "speeds.json", NULL, &path, error));
  TRY(node_write_file(root, path, error));
done:
  free(path);
  node_free(root);
  return result;
}

static status train_steps(worker *w, alibi_trainer *trainer, method_result *m, alibi_error *error)
{
  const alibi_train_options *o = &w->plan->train;
  int64_t every = o->steps / LOSS_POINTS > 0 ? o->steps / LOSS_POINTS : 1;
  double tail = 0, sum = 0, start = system_seconds(), cpu = system_cpu_seconds();
  int64_t tail_steps = o->steps / 10 > 0 ? o->steps / 10 : 1;
  status result = memory_new(&m->losses, (size_t)(o->steps / every), sizeof *m->losses, "the losses", error);
  if (result != ALIBI_OK) return result;
  m->loss_every = every;
  for (int64_t step = 0; step < o->steps; step++) {
    alibi_train_report now;
    char text[96];
    result = alibi_trainer_step(trainer, &now, error);
    if (result != ALIBI_OK) return result;
    m->train_tokens += now.tokens;
    sum += now.loss;
    if (now.step % every == 0) {
      m->losses[m->loss_count++] = sum / (double)every;
      sum = 0;
    }
    if (step >= o->steps - tail_steps) tail += now.loss / (double)tail_steps;
    snprintf(text, sizeof text, "training, loss %.3f", m->loss_count ? m->losses[m->loss_count - 1] : now.loss);
    report(w, (double)m->train_tokens, (double)(o->steps * now.tokens), "tokens", text);
  }
  m->train_seconds = system_seconds() - start;
  m->train_cpu_seconds = system_cpu_seconds() - cpu;
  m->final_loss = tail;
  m->steps = o->steps;
  m->peak_memory_bytes = (int64_t)system_peak_memory();
  return ALIBI_OK;
}

static status write_method(const method_result *m, const char *path, alibi_error *error)
{
  json_node *node = method_result_node(m);
  status result = node_write_file(node, path, error);
  node_free(node);
  return result;
}

/* The study's tokenizer beside the model, so that `alibi eval` and `alibi generate` open the folder. */
static status copy_tokenizer(const worker *w, const char *folder, alibi_error *error)
{
  alibi_tokenizer *tokenizer = NULL;
  char *from = NULL, *to = NULL;
  status result;
  TRY(study_path(w->directory, "tokenizer.json", NULL, &from, error));
  TRY(study_path(folder, "tokenizer.json", NULL, &to, error));
  TRY(alibi_tokenizer_open(from, &tokenizer, error));
  TRY(alibi_tokenizer_save(tokenizer, to, error));
done:
  alibi_tokenizer_free(tokenizer);
  free(to);
  free(from);
  return result;
}

static status train_entry(worker *w, const study_entry *entry, const char *folder, const char *path,
                          method_result *m, alibi_error *error)
{
  alibi_trainer *trainer = NULL;
  status result;
  snprintf(m->name, sizeof m->name, "%s", entry->model.position);
  snprintf(m->role, sizeof m->role, "%s", entry->role);
  m->train_length = entry->model.train_length;
  m->train_tokens_per_second = entry->train_tokens_per_second;
  TRY(alibi_trainer_new(w->context, &entry->model, &w->plan->train, w->corpus.train, w->corpus.train_count,
                        &trainer, error));
  m->parameters = alibi_model_parameter_count(alibi_trainer_model(trainer));
  TRY(train_steps(w, trainer, m, error));
  TRY(alibi_model_save(alibi_trainer_model(trainer), folder, error));
  TRY(copy_tokenizer(w, folder, error));
  TRY(write_method(m, path, error));
done:
  alibi_trainer_free(trainer);
  return result;
}

static status read_training(const char *path, method_result *m, alibi_error *error)
{
  json_node *root = NULL;
  status result;
  TRY(node_read_file(path, &root, error));
  TRY(method_result_read(root, path, m, error));
done:
  node_free(root);
  return result;
}

/* A training that was done before, if it is whole. */
static bool take_training(worker *w, const char *folder, const char *path, method_result *m, alibi_model **model)
{
  if (!path_exists(path)) return false;
  return read_training(path, m, NULL) == ALIBI_OK && alibi_model_open(w->context, folder, model, NULL) == ALIBI_OK;
}

/* The time and tokens of all cells together, for the tokens a second. */
typedef struct testing {
  const study_entry *entry;
  alibi_model *model;
  double seconds;
  int64_t tokens, cells_done, cells;
} testing;

/* What this model cannot do (no such positions, not enough memory) is a point with a sentence; anything else ends
 * the test. */
static status test_point(worker *w, testing *t, int protocol, const char *extend, int64_t length,
                         curve_point *point, alibi_error *error)
{
  alibi_evaluate_options options = schedule_cell(w->plan, protocol, length, extend);
  alibi_evaluate_result found = {0};
  alibi_error why = {0};
  status result = alibi_evaluate(t->model, w->corpus.valid, w->corpus.valid_count, w->corpus.token_bytes, &options,
                                 &found, &why);
  *point = (curve_point){.length = length,
                         .nll = NAN,
                         .nll_standard_error = NAN,
                         .perplexity = NAN,
                         .standard_error = NAN,
                         .bits_per_byte = NAN};
  if (result == ALIBI_CANCELLED || result == ALIBI_BAD_INPUT) {
    if (error) *error = why;
    return result;
  }
  if (result != ALIBI_OK) {
    snprintf(point->error, sizeof point->error, "%.*s", (int)sizeof point->error - 1, why.message);
    return ALIBI_OK;
  }
  point->stride = found.stride;
  point->tokens = found.tokens;
  point->nll = found.nll;
  point->nll_standard_error = found.nll_standard_error;
  point->perplexity = found.perplexity;
  point->standard_error = found.standard_error;
  point->bits_per_byte = found.bits_per_byte;
  t->seconds += found.seconds;
  t->tokens += found.input_tokens;
  return ALIBI_OK;
}

/* base: the same protocol without the extension; where that changes nothing its points are taken. */
static status test_curve(worker *w, testing *t, const char *protocol, const char *extend, const curve *base,
                         curve *c, alibi_error *error)
{
  const study_plan *plan = w->plan;
  snprintf(c->protocol, sizeof c->protocol, "%s", protocol);
  snprintf(c->extend, sizeof c->extend, "%s", extend);
  status result = memory_new(&c->points, plan->length_count, sizeof *c->points, "a curve", error);
  if (result != ALIBI_OK) return result;
  c->count = plan->length_count;
  for (size_t i = 0; i < c->count; i++) {
    char text[3 * RESULT_NAME_SIZE];
    snprintf(text, sizeof text, "testing, %s%s%s at %lld", protocol, *extend ? " with " : "", extend,
             (long long)plan->lengths[i]);
    report(w, (double)t->cells_done, (double)t->cells, "cells", text);
    if (base && !schedule_extends(t->entry, extend, plan->lengths[i])) c->points[i] = base->points[i];
    else result = test_point(w, t, study_protocol(protocol), extend, plan->lengths[i], &c->points[i], error);
    if (result != ALIBI_OK) return result;
    t->cells_done++;
  }
  return ALIBI_OK;
}

static status test_entry(worker *w, testing *t, method_result *m, alibi_error *error)
{
  const study_plan *plan = w->plan;
  const char *extensions[STUDY_MAX_NAMES + 1] = {""};
  size_t extension_count = 1;
  for (size_t i = 0; i < plan->extension_count; i++) {
    extension_choice choice;
    if (extension_text_read("extend", m->name, plan->extensions[i], &choice, NULL) == ALIBI_OK)
      extensions[extension_count++] = plan->extensions[i];
  }
  status result =
      memory_new(&m->curves, plan->protocol_count * extension_count, sizeof *m->curves, "the curves", error);
  if (result != ALIBI_OK) return result;
  t->cells = (int64_t)(plan->protocol_count * extension_count * plan->length_count);
  for (size_t p = 0; p < plan->protocol_count; p++)
    for (size_t x = 0; x < extension_count; x++) {
      curve *c = &m->curves[m->curve_count++];
      result = test_curve(w, t, plan->protocols[p], extensions[x], x ? c - x : NULL, c, error);
      if (result != ALIBI_OK) return result;
    }
  m->evaluate_tokens_per_second = t->seconds > 0 ? (double)t->tokens / t->seconds : 0;
  report(w, (double)t->cells, (double)t->cells, "cells", "tested");
  return ALIBI_OK;
}

static status run_entry(worker *w, const study_entry *entry, alibi_error *error)
{
  method_result m = {0};
  testing t = {.entry = entry};
  char *folder = NULL, *training = NULL, *path = NULL;
  status result;
  TRY(study_path(w->directory, "methods", entry->label, &folder, error));
  TRY(study_path(folder, "training.json", NULL, &training, error));
  TRY(study_path(folder, "result.json", NULL, &path, error));
  if (!take_training(w, folder, training, &m, &t.model)) {
    method_result_free(&m);
    m = (method_result){0};
    TRY(train_entry(w, entry, folder, training, &m, error));
    TRY(alibi_model_open(w->context, folder, &t.model, error));
  }
  TRY(test_entry(w, &t, &m, error));
  TRY(write_method(&m, path, error));
done:
  free(path);
  free(training);
  free(folder);
  alibi_model_free(t.model);
  method_result_free(&m);
  return result;
}

status study_worker(alibi_context *context, const char *directory, const char *mode, alibi_error *error)
{
  worker w = {.context = context, .directory = directory, .stream = descriptor_stream(STUDY_REPORT_FD)};
  status result;
  system_end_with_parent();
  TRY(memory_new(&w.plan, 1, sizeof *w.plan, "the plan", error));
  TRY(study_plan_read(directory, w.plan, error));
  TRY(study_corpus_open(directory, w.plan, &w.corpus, error));
  if (strcmp(mode, "speed") == 0) {
    TRY(measure(&w, error));
  } else {
    const study_entry *entry = study_plan_find(w.plan, mode);
    if (!entry)
      RAISE(error, ALIBI_INVALID, "study: expected an entry of %s/study.json, found '%s'", directory, mode);
    TRY(run_entry(&w, entry, error));
  }
done:
  if (result != ALIBI_OK) report_failure(&w, result, error);
  if (w.stream) fclose(w.stream);
  study_corpus_close(&w.corpus);
  if (w.plan) study_plan_free(w.plan);
  memory_free(w.plan);
  return result;
}
