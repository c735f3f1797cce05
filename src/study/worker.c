/* What a child process of a study does: measure the speed of every entry, or train and evaluate one entry and leave its model and its
 * result in the study's directory.  Progress lines go to a pipe: "P <done> <total> <unit> <text>". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/memory.h"
#include "base/system.h"
#include "study/corpus.h"
#include "position/position.h"
#include "study/study_plan.h"

enum { SPEED_ROUNDS = 5, LOSS_POINTS = 200 };

static const double SPEED_ROUND_SECONDS = 0.3;

/* Progress: at most ten lines a second. */
typedef struct reporter {
  FILE *stream;
  double last;
} reporter;

static void report(reporter *r, double done, double total, const char *unit, const char *text)
{
  double now = system_seconds();
  if (!r->stream || (now - r->last < 0.1 && done < total)) return;
  r->last = now;
  fprintf(r->stream, "P %.0f %.0f %s %s\n", done, total, unit, text);
  fflush(r->stream);
}

/* One round of the speed measurement of one entry: as many steps as fill it, tokens a second. */
static status time_steps(alibi_trainer *trainer, double *rate, alibi_error *error)
{
  double start = system_seconds(), seconds = 0;
  int64_t tokens = 0;
  while (seconds < SPEED_ROUND_SECONDS) {
    alibi_train_report step;
    status result = alibi_trainer_step(trainer, &step, error);
    if (result != ALIBI_OK) return result;
    tokens += step.tokens;
    seconds = system_seconds() - start;
  }
  *rate = (double)tokens / seconds;
  return ALIBI_OK;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Rounds are interleaved over the entries, so that a change of the machine's speed meets all of them; medians are kept. */
static status measure(alibi_context *context, const char *directory, const study_plan *plan, const study_corpus *corpus,
                      reporter *r, alibi_error *error)
{
  alibi_trainer *trainers[STUDY_MAX_ENTRIES] = {0};
  double rates[STUDY_MAX_ENTRIES][SPEED_ROUNDS], total = (double)plan->entry_count * (SPEED_ROUNDS + 1), done = 0;
  char *path = NULL;
  json_node *root = node_new_object();
  status result;
  for (size_t i = 0; i < plan->entry_count; i++) {
    alibi_train_options options = plan->train;
    options.steps = 1000000; /* never reached: the warm-up of a long schedule */
    TRY(alibi_trainer_new(context, &plan->entries[i].model, &options, corpus->train, corpus->train_count, &trainers[i], error));
    TRY(time_steps(trainers[i], &rates[i][0], error)); /* warms the caches; overwritten */
    report(r, ++done, total, "rounds", plan->entries[i].label);
  }
  for (int round = 0; round < SPEED_ROUNDS; round++)
    for (size_t i = 0; i < plan->entry_count; i++) {
      TRY(time_steps(trainers[i], &rates[i][round], error));
      report(r, ++done, total, "rounds", plan->entries[i].label);
    }
  for (size_t i = 0; i < plan->entry_count; i++) {
    qsort(rates[i], SPEED_ROUNDS, sizeof rates[i][0], ascending);
    node_set_number(root, plan->entries[i].label, rates[i][SPEED_ROUNDS / 2]);
  }
  TRY(study_path(directory, "speeds.json", NULL, &path, error));
  TRY(node_write_file(root, path, error));
done:
  free(path);
  node_free(root);
  for (size_t i = 0; i < plan->entry_count; i++) alibi_trainer_free(trainers[i]);
  return result;
}

static status train(const study_plan *plan, alibi_trainer *trainer, method_result *m, reporter *r, alibi_error *error)
{
  int64_t every = plan->train.steps / LOSS_POINTS > 0 ? plan->train.steps / LOSS_POINTS : 1;
  double tail = 0, sum = 0, start = system_seconds(), cpu = system_cpu_seconds();
  int64_t tail_steps = plan->train.steps / 10 > 0 ? plan->train.steps / 10 : 1;
  status result = memory_new(&m->losses, (size_t)(plan->train.steps / every), sizeof *m->losses, "the losses", error);
  if (result != ALIBI_OK) return result;
  m->loss_every = every;
  for (int64_t step = 0; step < plan->train.steps; step++) {
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
    if (step >= plan->train.steps - tail_steps) tail += now.loss / (double)tail_steps;
    snprintf(text, sizeof text, "training, loss %.3f", m->loss_count ? m->losses[m->loss_count - 1] : now.loss);
    report(r, (double)m->train_tokens, (double)(plan->train.steps * now.tokens), "tokens", text);
  }
  m->train_seconds = system_seconds() - start;
  m->train_cpu_seconds = system_cpu_seconds() - cpu;
  m->final_loss = tail;
  m->steps = plan->train.steps;
  m->peak_memory_bytes = (int64_t)system_peak_memory();
  return ALIBI_OK;
}

/* The time and tokens of all evaluations together, for the tokens a second. */
typedef struct evaluation {
  alibi_model *model;
  const study_plan *plan;
  const study_corpus *corpus;
  double seconds;
  int64_t tokens, cells_done, cells;
  reporter *report;
} evaluation;

static status evaluate_point(evaluation *e, int protocol, const char *extend, int64_t length, curve_point *point, alibi_error *error)
{
  alibi_evaluate_options options;
  alibi_evaluate_result found = {0};
  alibi_error why = {0};
  alibi_evaluate_options_init(&options);
  options.protocol = protocol;
  options.window = length;
  options.shortest = e->plan->lengths[0];
  options.longest = study_plan_longest(e->plan);
  options.max_targets = protocol == ALIBI_FIXED_TARGET ? e->plan->settings.fixed_targets : e->plan->settings.max_targets;
  options.extend = *extend ? extend : NULL;
  status result = alibi_evaluate(e->model, e->corpus->valid, e->corpus->valid_count, e->corpus->token_bytes, &options, &found, &why);
  *point = (curve_point){.length = length, .nll = NAN, .nll_standard_error = NAN, .perplexity = NAN, .standard_error = NAN,
                         .bits_per_byte = NAN};
  if (result == ALIBI_CANCELLED || result == ALIBI_FAILED) {
    if (error) *error = why;
    return result;
  }
  if (result != ALIBI_OK) {
    snprintf(point->error, sizeof point->error, "%.*s", (int)sizeof point->error - 1, why.message);
    return ALIBI_OK;
  }
  point->tokens = found.tokens;
  point->nll = found.nll;
  point->nll_standard_error = found.nll_standard_error;
  point->perplexity = found.perplexity;
  point->standard_error = found.standard_error;
  point->bits_per_byte = found.bits_per_byte;
  e->seconds += found.seconds;
  e->tokens += found.input_tokens;
  return ALIBI_OK;
}

/* base: the same protocol without the extension; up to the trained length they are the same to the bit, so they are copied. */
static status evaluate_curve(evaluation *e, int protocol, const char *extend, const curve *base, curve *c, alibi_error *error)
{
  int64_t trained = alibi_model_get_config(e->model)->train_length;
  snprintf(c->protocol, sizeof c->protocol, "%s", alibi_protocol_name(protocol));
  snprintf(c->extend, sizeof c->extend, "%s", extend);
  status result = memory_new(&c->points, e->plan->length_count, sizeof *c->points, "a curve", error);
  if (result != ALIBI_OK) return result;
  c->count = e->plan->length_count;
  for (size_t i = 0; i < c->count; i++) {
    char text[160];
    snprintf(text, sizeof text, "testing, %s%s%.32s at %lld", c->protocol, *extend ? " with " : "", extend,
             (long long)e->plan->lengths[i]);
    report(e->report, (double)e->cells_done, (double)e->cells, "cells", text);
    if (base && e->plan->lengths[i] <= trained)
      c->points[i] = base->points[i];
    else
      result = evaluate_point(e, protocol, extend, e->plan->lengths[i], &c->points[i], error);
    if (result != ALIBI_OK) return result;
    e->cells_done++;
  }
  return ALIBI_OK;
}

static int protocol_named(const char *name)
{
  int protocol = ALIBI_NONOVERLAPPING;
  while (protocol < ALIBI_FIXED_TARGET && strcmp(alibi_protocol_name(protocol), name) != 0) protocol++;
  return protocol;
}

static status evaluate(evaluation *e, method_result *m, alibi_error *error)
{
  const study_plan *plan = e->plan;
  const char *extensions[STUDY_MAX_NAMES + 1] = {""};
  size_t extension_count = 1;
  for (size_t i = 0; i < plan->extension_count; i++)
    if (position_extension_find(m->name, plan->extensions[i])) extensions[extension_count++] = plan->extensions[i];
  status result = memory_new(&m->curves, plan->protocol_count * extension_count, sizeof *m->curves, "the curves", error);
  if (result != ALIBI_OK) return result;
  e->cells = (int64_t)(plan->protocol_count * extension_count * plan->length_count);
  for (size_t p = 0; p < plan->protocol_count; p++)
    for (size_t x = 0; x < extension_count; x++) {
      curve *c = &m->curves[m->curve_count++];
      const curve *base = x ? &m->curves[m->curve_count - 1 - x] : NULL;
      result = evaluate_curve(e, protocol_named(plan->protocols[p]), extensions[x], base, c, error);
      if (result != ALIBI_OK) return result;
    }
  m->evaluate_tokens_per_second = e->seconds > 0 ? (double)e->tokens / e->seconds : 0;
  report(e->report, (double)e->cells, (double)e->cells, "cells", "tested");
  return ALIBI_OK;
}

static status run_entry(alibi_context *context, const char *directory, const study_plan *plan, const study_entry *entry,
                        const study_corpus *corpus, reporter *r, alibi_error *error)
{
  method_result m = {0};
  alibi_trainer *trainer = NULL;
  json_node *node = NULL;
  char *folder = NULL, *result_path = NULL;
  status result;
  snprintf(m.name, sizeof m.name, "%s", entry->model.position);
  snprintf(m.role, sizeof m.role, "%s", entry->role);
  m.train_length = entry->model.train_length;
  m.train_tokens_per_second = entry->train_tokens_per_second;
  TRY(alibi_trainer_new(context, &entry->model, &plan->train, corpus->train, corpus->train_count, &trainer, error));
  m.parameters = alibi_model_parameter_count(alibi_trainer_model(trainer));
  TRY(train(plan, trainer, &m, r, error));
  evaluation e = {.model = alibi_trainer_model(trainer), .plan = plan, .corpus = corpus, .report = r};
  TRY(evaluate(&e, &m, error));
  TRY(study_path(directory, entry->label, NULL, &folder, error));
  TRY(alibi_model_save(alibi_trainer_model(trainer), folder, error));
  TRY(study_path(directory, entry->label, "result.json", &result_path, error));
  node = method_result_node(&m);
  TRY(node_write_file(node, result_path, error));
done:
  node_free(node);
  free(result_path);
  free(folder);
  method_result_free(&m);
  alibi_trainer_free(trainer);
  return result;
}

status study_worker(alibi_context *context, const char *directory, const char *mode, alibi_error *error)
{
  study_plan *plan = NULL;
  study_corpus corpus = {0};
  reporter r = {.stream = descriptor_stream(STUDY_REPORT_FD)};
  char *methods = NULL;
  status result;
  TRY(memory_new(&plan, 1, sizeof *plan, "the plan", error));
  TRY(study_plan_read(directory, plan, error));
  TRY(study_corpus_open(directory, plan, &corpus, error));
  TRY(study_path(directory, "methods", NULL, &methods, error));
  if (strcmp(mode, "speed") == 0) {
    TRY(measure(context, directory, plan, &corpus, &r, error));
  } else {
    const study_entry *entry = study_plan_find(plan, mode);
    if (!entry) RAISE(error, ALIBI_INVALID, "study: expected an entry of %s/study.json, found '%s'", directory, mode);
    TRY(run_entry(context, methods, plan, entry, &corpus, &r, error));
  }
done:
  free(methods);
  if (r.stream) fclose(r.stream);
  study_corpus_close(&corpus);
  if (plan) study_plan_free(plan);
  memory_free(plan);
  return result;
}
