/* The parent of a study: plan and corpus, speeds measured alone, then entries in child processes side by side,
 * then the report. */
#include "study/study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/system.h"
#include "evaluate/cost.h"
#include "model/config.h"
#include "study/answer.h"
#include "study/corpus.h"
#include "study/schedule.h"
#include "study/study_plan.h"
#include "train/trainer.h"

enum { LINE_SIZE = 1200, MAX_JOBS = 64 };

typedef struct study {
  alibi_context *context;
  const study_request *request;
  const char *directory;
  study_plan *plan;
  int next_item;
  bool done[STUDY_MAX_ENTRIES];
  int lock; /* of the directory, against a second study in it */
} study;

/* A child and the progress line that comes out of it. */
typedef struct running {
  child_process child;
  size_t entry;
  int item;
  bool used, begun, ended;
  char unit[32], line[LINE_SIZE];
  size_t filled;
  char failure[LINE_SIZE]; /* the child's sentence */
} running;

static void note(const study *s, const char *sentence)
{
  if (s->request->observer.note) s->request->observer.note(s->request->observer.user, sentence);
}

/* "P <done> <total> <unit> <text>", or "E <sentence>".  A child goes through phases of different units; each is an
 * item of its own. */
static void take_line(study *s, running *r, const char *label)
{
  const study_observer *o = &s->request->observer;
  double done, total;
  char unit[32];
  int start = 0;
  if (strncmp(r->line, "E ", 2) == 0) snprintf(r->failure, sizeof r->failure, "%s", r->line + 2);
  if (sscanf(r->line, "P %lf %lf %31s %n", &done, &total, unit, &start) < 3 || start == 0) return;
  if (!r->begun || strcmp(unit, r->unit) != 0) {
    if (r->begun && o->end) o->end(o->user, r->item, NULL);
    snprintf(r->unit, sizeof r->unit, "%s", unit);
    r->item = s->next_item++;
    r->begun = true;
    if (o->begin) o->begin(o->user, r->item, label, total, unit);
  }
  if (o->update) o->update(o->user, r->item, done, r->line + start);
}

static void take_bytes(study *s, running *r, const char *label, const char *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] == '\n') {
      r->line[r->filled] = '\0';
      take_line(s, r, label);
      r->filled = 0;
    } else if (r->filled + 1 < sizeof r->line) {
      r->line[r->filled++] = bytes[i];
    }
  }
}

static status start_child(const study *s, const char *mode, running *r, alibi_error *error)
{
  char program[4096], threads[32];
  system_program_path(program, sizeof program);
  snprintf(threads, sizeof threads, "%lld", (long long)s->plan->threads);
  char *argv[] = {program,   "study_worker",       "--threads",  threads,
                  "--quiet", (char *)s->directory, (char *)mode, NULL};
  *r = (running){.used = true};
  return child_start(argv, STUDY_REPORT_FD, true, &r->child, error);
}

/* Reads what the children say, for up to half a second; true where a pipe ended. */
static bool listen(study *s, running *children, size_t count, const char *const *labels)
{
  int descriptors[MAX_JOBS] = {0};
  bool ready[MAX_JOBS] = {false}, ended = false;
  char buffer[4096];
  for (size_t i = 0; i < count; i++) descriptors[i] = children[i].used ? children[i].child.report : -1;
  descriptors_wait(descriptors, count, 0.5, ready);
  for (size_t i = 0; i < count; i++) {
    if (!ready[i]) continue;
    long got = descriptor_read(descriptors[i], buffer, sizeof buffer);
    if (got > 0) take_bytes(s, &children[i], labels[i], buffer, (size_t)got);
    children[i].ended = got == 0;
    ended = ended || got == 0;
  }
  return ended;
}

static status finish_child(study *s, running *r, const char *label, alibi_error *error)
{
  const study_observer *o = &s->request->observer;
  child_result ended;
  char summary[STUDY_LABEL_SIZE + 16];
  status result = child_wait(&r->child, &ended, error);
  r->used = false;
  if (result != ALIBI_OK) return result;
  snprintf(summary, sizeof summary, "%s: done", label);
  if (r->begun && o->end) o->end(o->user, r->item, ended.exit_code == 0 ? summary : NULL);
  if (ended.exit_code == 130 || context_cancelled(s->context)) return fail(error, ALIBI_CANCELLED, "interrupted");
  if (ended.exit_code == 0) return ALIBI_OK;
  if (ended.exit_code > 128)
    return fail(error, ALIBI_FAILED, "%s: ended by signal %d%s; alibi study --resume --out %s goes on", label,
                ended.exit_code - 128, ended.exit_code == 128 + 9 ? " (out of memory?)" : "", s->directory);
  status code = ended.exit_code == 3 ? ALIBI_BAD_INPUT : ended.exit_code == 2 ? ALIBI_INVALID : ALIBI_FAILED;
  return fail(error, code, "%s: %s", label, r->failure[0] ? r->failure : "failed without a word");
}

static void stop_children(running *children, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (children[i].used) child_interrupt(&children[i].child);
  for (size_t i = 0; i < count; i++) {
    child_result ended;
    if (children[i].used) child_wait(&children[i].child, &ended, NULL);
    children[i].used = false;
  }
}

static status run_alone(study *s, const char *mode, const char *label, alibi_error *error)
{
  running child;
  const char *labels[] = {label};
  status result = start_child(s, mode, &child, error);
  if (result != ALIBI_OK) return result;
  bool told = false;
  while (!listen(s, &child, 1, labels))
    if (context_cancelled(s->context) && !told) {
      child_interrupt(&child.child);
      told = true;
    }
  return finish_child(s, &child, label, error);
}

/* Speeds into the plan; with --minutes also the number of steps that fit into what is left of them. */
static status take_speeds(study *s, double spent, alibi_error *error)
{
  const double RESERVE = 0.95; /* side by side is a little slower than alone */
  char *path = NULL;
  json_node *root = NULL;
  status result;
  TRY(study_path(s->directory, "speeds.json", NULL, &path, error));
  TRY(node_read_file(path, &root, error));
  for (size_t i = 0; i < s->plan->entry_count; i++) {
    study_entry *e = &s->plan->entries[i];
    e->train_tokens_per_second = node_number(node_get(node_get(root, "train_tokens_per_second"), e->label), 0);
    if (!(e->train_tokens_per_second > 0))
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected a speed of '%s'", path, e->label);
  }
  for (size_t i = 0; i < s->plan->length_count; i++)
    s->plan->evaluate_seconds[i] = node_number(node_at(node_get(root, "evaluate_seconds"), i), 0);
  if (s->plan->settings.minutes > 0)
    TRY(schedule_fix_steps(s->plan, s->plan->settings.minutes * 60 * RESERVE - spent, error));
  s->plan->train.warmup_steps = train_warmup(&s->plan->train);
  s->plan->measured = true;
  TRY(study_plan_write(s->plan, s->directory, error));
done:
  node_free(root);
  free(path);
  return result;
}

static status read_result(const study *s, size_t entry, method_result *m, alibi_error *error)
{
  char *folder = NULL, *path = NULL;
  json_node *root = NULL;
  status result;
  TRY(study_path(s->directory, "methods", s->plan->entries[entry].label, &folder, error));
  TRY(study_path(folder, "result.json", NULL, &path, error));
  TRY(node_read_file(path, &root, error));
  TRY(method_result_read(root, path, m, error));
done:
  node_free(root);
  free(path);
  free(folder);
  return result;
}

/* Were its cells scored on the tokens that the plan asks for?  Other versions may have chosen others. */
static status check_cells(const study_plan *plan, const method_result *m, const char *path, alibi_error *error)
{
  for (size_t i = 0; i < m->curve_count; i++)
    for (size_t k = 0; k < m->curves[i].count; k++) {
      const curve_point *p = &m->curves[i].points[k];
      alibi_evaluate_options o = schedule_cell(plan, study_protocol(m->curves[i].protocol), p->length, "");
      int64_t expected = evaluate_cost_of(&o, (size_t)plan->valid_tokens).targets;
      if (!p->error[0] && p->tokens != expected)
        return fail(error, ALIBI_BAD_INPUT, "%s: %s at %lld: expected %lld scored tokens, found %lld", path,
                    m->curves[i].protocol, (long long)p->length, (long long)expected, (long long)p->tokens);
    }
  return ALIBI_OK;
}

/* A result that cannot be read, or was scored on other tokens, is made again. */
static status check_done(study *s, size_t entry, const char *path)
{
  method_result m = {0};
  alibi_error why = {0};
  char sentence[1200];
  s->done[entry] = read_result(s, entry, &m, &why) == ALIBI_OK && check_cells(s->plan, &m, path, &why) == ALIBI_OK;
  method_result_free(&m);
  if (s->done[entry]) return ALIBI_OK;
  remove(path);
  snprintf(sentence, sizeof sentence, "%s (it is made again)", why.message);
  note(s, sentence);
  return ALIBI_OK;
}

/* Which entries have a result already; a study that begins anew forgets them. */
static status find_done(study *s, alibi_error *error)
{
  for (size_t i = 0; i < s->plan->entry_count; i++) {
    char *folder = NULL, *path = NULL, *trained = NULL;
    status result;
    TRY(study_path(s->directory, "methods", s->plan->entries[i].label, &folder, error));
    TRY(study_path(folder, "result.json", NULL, &path, error));
    TRY(study_path(folder, "training.json", NULL, &trained, error));
    if (!s->request->resume) {
      remove(path);
      remove(trained);
    }
    if (path_exists(path)) TRY(check_done(s, i, path));
  done:
    free(trained);
    free(path);
    free(folder);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

/* One entry's failure does not stop the others; the first one is what the study returns in the end. */
static status run_entries(study *s, alibi_error *error)
{
  status outcome = ALIBI_OK;
  running children[MAX_JOBS] = {0};
  const char *labels[MAX_JOBS] = {0};
  bool started[STUDY_MAX_ENTRIES];
  size_t jobs = s->plan->jobs < MAX_JOBS ? (size_t)s->plan->jobs : MAX_JOBS, active = 0;
  status result = ALIBI_OK;
  memcpy(started, s->done, sizeof started);
  for (;;) {
    for (size_t j = 0; j < jobs; j++) {
      size_t entry = schedule_next(s->plan, started);
      if (children[j].used || entry == s->plan->entry_count) continue;
      labels[j] = s->plan->entries[entry].label;
      TRY(start_child(s, labels[j], &children[j], error));
      children[j].entry = entry;
      started[entry] = true;
      active++;
    }
    if (active == 0) break;
    bool ended = listen(s, children, jobs, labels);
    TRY(context_check_cancel(s->context, error));
    for (size_t j = 0; ended && j < jobs; j++) {
      if (!children[j].used || !children[j].ended) continue;
      result = finish_child(s, &children[j], labels[j], outcome == ALIBI_OK ? error : NULL);
      if (result == ALIBI_CANCELLED) goto done;
      if (outcome == ALIBI_OK) outcome = result;
      s->done[children[j].entry] = result == ALIBI_OK;
      active--;
    }
  }
  result = outcome;
done:
  stop_children(children, jobs);
  return result;
}

static status add_setting(study_results *results, size_t *capacity, const char *name, const char *value,
                          alibi_error *error)
{
  status result = memory_grow(&results->settings, capacity, results->setting_count + 1, sizeof *results->settings,
                              "the settings", error);
  if (result != ALIBI_OK) return result;
  result_setting *s = &results->settings[results->setting_count];
  *s = (result_setting){strdup(name), strdup(value)};
  if (!s->name || !s->value) {
    free(s->name);
    free(s->value);
    return fail(error, ALIBI_FAILED, "not enough memory for the report");
  }
  results->setting_count++;
  return ALIBI_OK;
}

static status add_fields(study_results *results, size_t *capacity, field_table table, const void *values,
                         const char *prefix, alibi_error *error)
{
  static const char *const apart[] = {"position", "train_length"}; /* they differ from entry to entry */
  for (size_t i = 0; i < table.count; i++) {
    if (strcmp(table.fields[i].name, apart[0]) == 0 || strcmp(table.fields[i].name, apart[1]) == 0) continue;
    char name[160],
        value[ALIBI_POSITION_OPTIONS_SIZE]; /* no text of a method's settings is longer than all of them */
    snprintf(name, sizeof name, "%s%s", prefix, table.fields[i].name);
    field_get_text(&table.fields[i], values, value, sizeof value);
    status result = add_setting(results, capacity, name, value, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

static status add_names(study_results *results, size_t *capacity, const char *setting,
                        const study_name *names, size_t count, alibi_error *error)
{
  char list[STUDY_MAX_NAMES * (sizeof(study_name) + 2)] = "";
  for (size_t i = 0; i < count; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
  return add_setting(results, capacity, setting, list, error);
}

static status describe_settings(const study *s, study_results *results, alibi_error *error)
{
  const study_plan *plan = s->plan;
  size_t capacity = 0;
  char list[512] = "";
  status result;
  for (size_t i = 0; i < plan->length_count; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%lld", i ? ", " : "",
             (long long)plan->lengths[i]);
  TRY(add_setting(results, &capacity, "test_lengths", list, error));
  TRY(add_names(results, &capacity, "protocols", plan->protocols, plan->protocol_count, error));
  TRY(add_names(results, &capacity, "extensions", plan->extensions, plan->extension_count, error));
  TRY(add_fields(results, &capacity, study_fields(), &plan->settings, "", error));
  TRY(add_fields(results, &capacity, train_option_fields(), &plan->train, "", error));
  TRY(add_fields(results, &capacity, model_config_fields(), &plan->entries[0].model, "model.", error));
  for (size_t i = 0; i < plan->entry_count; i++) {
    const position_method *m = model_config_method(&plan->entries[i].model);
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s.", plan->entries[i].label);
    TRY(add_fields(results, &capacity, m->fields, plan->entries[i].model.position_options.bytes, prefix, error));
  }
done:
  return result;
}

/* Wall time over processor time of the training that waited most; about 1 where the machine had nothing else to
 * do. */
static double waiting(const study_plan *plan, const study_results *results)
{
  double most = 1;
  for (size_t i = 0; i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    double share = m->train_seconds * (double)plan->threads / m->train_cpu_seconds;
    if (m->train_seconds > 1 && share > most) most = share;
  }
  return most;
}

static status describe_machine(const study *s, study_results *results, alibi_error *error)
{
  const double BUSY = 1.3;
  const study_plan *plan = s->plan;
  char sentence[768], processor[256], busy[160] = "";
  double waited = waiting(plan, results);
  system_processor_name(processor, sizeof processor);
  if (waited > BUSY)
    snprintf(busy, sizeof busy,
             "; busy with other work too (a training took %.1f times its processor time): speeds are unsure",
             waited);
  snprintf(sentence, sizeof sentence,
           "%s, %d processors, %lld side by side with %lld thread%s each, %s kernels, alibi %s%s", processor,
           system_processors(), (long long)plan->jobs, (long long)plan->threads, plan->threads == 1 ? "" : "s",
           alibi_context_isa(s->context), alibi_version(), busy);
  if (busy[0]) note(s, busy + 2);
  results->machine = strdup(sentence);
  return results->machine ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the report");
}

static status collect(const study *s, double seconds, study_results *results, alibi_error *error)
{
  const study_plan *plan = s->plan;
  status result;
  results->command = strdup(plan->command);
  results->text = strdup(plan->text);
  results->seconds = seconds;
  results->train_length = plan->entries[0].model.train_length;
  if (!results->command || !results->text) RAISE(error, ALIBI_FAILED, "not enough memory for the report");
  TRY(describe_settings(s, results, error));
  TRY(memory_new(&results->methods, plan->entry_count, sizeof *results->methods, "the results", error));
  for (size_t i = 0; i < plan->entry_count; i++) {
    if (!s->done[i]) continue;
    method_result *m = &results->methods[results->method_count];
    TRY(read_result(s, i, m, error));
    m->train_tokens_per_second = plan->entries[i].train_tokens_per_second;
    results->method_count++;
  }
  TRY(describe_machine(s, results, error));
  TRY(study_answer(plan, results, error));
done:
  return result;
}

static status write_report(const study *s, const study_results *results, alibi_error *error)
{
  bool made;
  alibi_error picture = {0};
  status result;
  TRY(results_write_json(results, s->directory, error));
  TRY(results_write_csv(results, s->directory, error));
  if (results_write_pictures(results, s->directory, &made, &picture) != ALIBI_OK) note(s, picture.message);
  else if (!made) note(s, "no pictures: gnuplot is not installed (curves.gp and curves.dat are there)");
  TRY(results_write_html(results, s->directory, error));
done:
  return result;
}

static status lock_directory(study *s, alibi_error *error)
{
  char *path = NULL;
  status result;
  TRY(directory_make(s->directory, error));
  TRY(study_path(s->directory, ".lock", NULL, &path, error));
  TRY(file_lock(path, s->directory, &s->lock, error));
done:
  free(path);
  return result;
}

/* The report of another study must not stand beside this one's plan. */
static status forget_report(const study *s, alibi_error *error)
{
  static const char *const names[] = {"report.html", "results.json", "results.csv", "curves.svg", "curves.png"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char *path;
    status result = study_path(s->directory, names[i], NULL, &path, error);
    if (result != ALIBI_OK) return result;
    remove(path);
    free(path);
  }
  return ALIBI_OK;
}

static status prepare_anew(study *s, alibi_error *error)
{
  dataset data = {0};
  status result;
  TRY(study_plan_make(s->request, s->plan, error));
  TRY(study_corpus_read(s->request, s->plan, &data, error));
  TRY(lock_directory(s, error));
  TRY(forget_report(s, error));
  TRY(study_corpus_write(s->directory, &data, error));
  TRY(find_done(s, error));
  TRY(study_plan_write(s->plan, s->directory, error));
done:
  dataset_free(&data);
  return result;
}

static status prepare(study *s, alibi_error *error)
{
  const study_request *q = s->request;
  char *path = NULL;
  status result;
  TRY(study_path(s->directory, "study.json", NULL, &path, error));
  if (q->resume) {
    if (!path_exists(path))
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected a study to go on with, found none", s->directory);
    TRY(lock_directory(s, error));
    TRY(study_plan_read(s->directory, s->plan, error));
    study_plan_place(s->plan, q->threads);
    TRY(find_done(s, error));
  } else {
    if (path_exists(path) && !q->overwrite)
      RAISE(error, ALIBI_INVALID, "%s: holds a study already (--resume goes on with it, --overwrite begins anew)",
            s->directory);
    TRY(prepare_anew(s, error));
  }
  note(s, s->plan->text);
done:
  free(path);
  return result;
}

/* Speeds alone, then the entries side by side. */
static status run_plan(study *s, double start, alibi_error *error)
{
  status result = ALIBI_OK;
  if (!s->plan->measured) {
    TRY(run_alone(s, "speed", "measuring speed", error));
    TRY(take_speeds(s, system_seconds() - start, error));
  }
  TRY(run_entries(s, error));
done:
  return result;
}

/* A plan that failed before anything was measured would only stand in the way of a better one. */
static void forget_plan(const study *s)
{
  char *path;
  if (s->plan->measured || s->request->resume ||
      study_path(s->directory, "study.json", NULL, &path, NULL) != ALIBI_OK)
    return;
  remove(path);
  free(path);
}

status study_run(alibi_context *context, const study_request *request, study_results *results, alibi_error *error)
{
  study s = {.context = context, .request = request, .directory = request->directory, .lock = -1};
  double start = system_seconds();
  alibi_error later = {0};
  size_t finished = 0;
  status result;
  *results = (study_results){0};
  TRY(memory_new(&s.plan, 1, sizeof *s.plan, "the plan", error));
  TRY(prepare(&s, error));
  result = run_plan(&s, start, error);
  for (size_t i = 0; i < s.plan->entry_count; i++) finished += s.done[i];
  if (result != ALIBI_OK && result != ALIBI_CANCELLED && finished == 0) forget_plan(&s);
  if (result == ALIBI_OK || finished > 0) {
    alibi_error *e = result == ALIBI_OK ? error : &later;
    status reported = collect(&s, system_seconds() - start, results, e);
    if (reported == ALIBI_OK) reported = write_report(&s, results, e);
    if (result == ALIBI_OK) result = reported;
  }
  if (result == ALIBI_CANCELLED)
    fail(error, result, "interrupted: %zu of %zu methods are finished; alibi study --resume --out %s goes on",
         finished, s.plan->entry_count, s.directory);
done:
  file_unlock(s.lock);
  if (s.plan) study_plan_free(s.plan);
  memory_free(s.plan);
  return result;
}
