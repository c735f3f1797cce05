/* The loop of a whole training.  One idea orders it: what a step leaves to be done after it (evaluation, sample,
 * checkpoint) is found out from the state alone, so a run that was stopped anywhere does what is still open, and
 * nothing twice. */
#include "train/training_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alibi/evaluate.h"
#include "alibi/session.h"
#include "base/context.h"
#include "base/directory.h"
#include "base/memory.h"
#include "base/system.h"
#include "file/training_scalars.h"

enum { SAMPLE_BYTES = 1200 };

#define AT(member) offsetof(run_settings, member)

static const field fields[] = {
    {"checkpoint_every", FIELD_INTEGER, AT(checkpoint_every), 0, 1e9, 0, NULL, NULL,
     "steps between checkpoints; 0: by time alone"},
    {"checkpoint_minutes", FIELD_REAL, AT(checkpoint_minutes), 0, 1e6, 10, NULL, NULL,
     "minutes between checkpoints; 0: by steps alone"},
    {"keep_checkpoints", FIELD_INTEGER, AT(keep_checkpoints), 1, 1e6, 2, NULL, NULL,
     "checkpoints that are kept, the newest"},
    {"evaluate_every", FIELD_INTEGER, AT(evaluate_every), 0, 1e9, 0, NULL, NULL,
     "steps between evaluations on the held-out text; 0: none"},
    {"evaluate_tokens", FIELD_INTEGER, AT(evaluate_tokens), 1, 1e9, 8192, NULL, NULL,
     "tokens that an evaluation scores at each length"},
    {"patience", FIELD_INTEGER, AT(patience), 0, 1e9, 0, NULL, NULL,
     "end after so many evaluations that are no better than the best, and keep the best model; 0: never"},
    {"sample_every", FIELD_INTEGER, AT(sample_every), 0, 1e9, 0, NULL, NULL,
     "steps between samples of text; 0: none"},
    {"sample_tokens", FIELD_INTEGER, AT(sample_tokens), 1, 1e6, 32, NULL, NULL, "tokens of a sample"},
    {"sample_temperature", FIELD_REAL, AT(sample_temperature), 0, 100, 0.8, NULL, NULL,
     "0: the most probable token"},
    {"events", FIELD_BOOLEAN, AT(events), 0, 1, 0, NULL, NULL, "also write DIR/events, which TensorBoard reads"},
};

field_table run_setting_fields(void)
{
  return (field_table)FIELD_TABLE(fields);
}

#undef AT
#define AT(member) offsetof(run_state, member)

static const field state_fields[] = {
    {.name = "seconds", .kind = FIELD_REAL, .offset = AT(seconds), .maximum = 1e300},
    {.name = "first_loss", .kind = FIELD_REAL, .offset = AT(first_loss), .minimum = -1e300, .maximum = 1e300},
    {.name = "recent_loss", .kind = FIELD_REAL, .offset = AT(recent), .minimum = -1e300, .maximum = 1e300},
    {.name = "evaluated", .kind = FIELD_INTEGER, .offset = AT(evaluated), .maximum = 1e9},
    {.name = "sampled", .kind = FIELD_INTEGER, .offset = AT(sampled), .maximum = 1e9},
    {.name = "best_step", .kind = FIELD_INTEGER, .offset = AT(best_step), .maximum = 1e9},
    {.name = "best_loss", .kind = FIELD_REAL, .offset = AT(best_loss), .minimum = -1e300, .maximum = 1e300},
    {.name = "evaluations_since", .kind = FIELD_INTEGER, .offset = AT(failures), .maximum = 1e9},
    {.name = "stopped_early", .kind = FIELD_BOOLEAN, .offset = AT(stopped_early), .maximum = 1},
    {.name = "has_best", .kind = FIELD_BOOLEAN, .offset = AT(has_best), .maximum = 1},
};

static const field_table state_table = FIELD_TABLE(state_fields);

/* A run at work. */
typedef struct running {
  alibi_trainer *trainer;
  const run_task *task;
  run_state *state;
  comm *comm;
  bool leads;        /* rank 0, which writes, evaluates and speaks for all */
  char *checkpoints; /* folder */
  training_log_writer log;
  event_file events;
  bool log_failed, events_failed; /* said once */
  double saved_at, began;         /* system_seconds */
} running;

char *run_checkpoints(const char *folder)
{
  return path_join(folder, "checkpoints");
}

static void note(const running *r, const char *sentence)
{
  if (r->leads && r->task->watch.note) r->task->watch.note(r->task->watch.user, sentence);
}

static void warn(const running *r, const char *sentence)
{
  if (r->leads && r->task->watch.warn) r->task->watch.warn(r->task->watch.user, sentence);
}

/* ---- the diary: a line that cannot be written costs that line ---- */

static void heed_log(running *r, status result, const alibi_error *why)
{
  if (result == ALIBI_OK) {
    r->log_failed = false;
    return;
  }
  if (!r->log_failed) warn(r, why->message);
  r->log_failed = true;
}

static void log_event(running *r, const char *name, const char *text)
{
  alibi_error why = {0};
  if (!r->leads) return;
  status result = training_log_event(&r->log, r->trainer->step, name, text, &why);
  heed_log(r, result, &why);
}

static bool has_events(const running *r)
{
  return r->leads && r->task->settings.events && !r->events_failed;
}

/* What follows half a frame would not be read: after a failure there are no more. */
static void heed_events(running *r, status result, const alibi_error *why)
{
  if (result == ALIBI_OK) return;
  warn(r, why->message);
  r->events_failed = true;
  event_file_end(&r->events);
}

static void log_step(running *r, const training_step *step)
{
  alibi_error why = {0};
  if (!r->leads) return;
  status result = training_log_step(&r->log, step, &why);
  heed_log(r, result, &why);
  if (has_events(r)) heed_events(r, training_scalars_step(&r->events, step, (double)time(NULL), &why), &why);
}

static void log_evaluations(running *r, const training_evaluation *list, size_t count)
{
  alibi_error why = {0};
  if (!r->leads) return;
  status result = training_log_evaluation(&r->log, r->trainer->step, list, count, &why);
  heed_log(r, result, &why);
  if (has_events(r))
    heed_events(r, training_scalars_evaluations(&r->events, list, count, (double)time(NULL), &why), &why);
}

/* ---- steps ---- */

double run_step_operations(const alibi_model *model, double tokens, double length)
{
  const alibi_model_config *c = &model->config;
  double weights = (double)alibi_model_parameter_count(model);
  if (!c->tied) weights -= (double)c->vocabulary * (double)c->width; /* rows of the embedding are only read */
  double attention = 6.0 * (double)(c->layers * c->heads * c->head_size) * length;
  return tokens * (6 * weights + attention);
}

static void remember(running *r, const training_step *step)
{
  run_state *s = r->state;
  int64_t point = (step->step - 1) / s->stride, within = (step->step - 1) % s->stride;
  double weight = fmax(1.0 / (double)step->step, 0.02);
  s->losses[point] += (step->loss - s->losses[point]) / (double)(within + 1);
  if (step->step == 1) s->first_loss = step->loss;
  s->recent += weight * (step->loss - s->recent);
  s->steps = step->step;
  s->tokens = step->tokens_done;
  s->seconds += step->seconds;
}

static status take_step(running *r, alibi_error *error)
{
  alibi_train_report report;
  double began = system_seconds();
  status result = alibi_trainer_step(r->trainer, &report, error);
  if (result != ALIBI_OK) return result;
  double seconds = system_seconds() - began, tokens = (double)report.tokens;
  double operations = run_step_operations(r->trainer->model, tokens, (double)report.length);
  training_step step = {.step = report.step,
                        .loss = report.loss,
                        .gradient_norm = report.gradient_norm,
                        .learning_rate = report.rate,
                        .tokens = report.tokens,
                        .tokens_done = r->trainer->tokens_done,
                        .length = report.length,
                        .tokens_per_second = seconds > 0 ? tokens / seconds : NAN,
                        .share_of_peak =
                            r->task->peak > 0 && seconds > 0 ? operations / seconds / r->task->peak : NAN,
                        .seconds = seconds};
  remember(r, &step);
  log_step(r, &step);
  if (report.skipped) {
    char text[160];
    snprintf(text, sizeof text,
             "step %" PRId64 ": loss %.4g and gradient norm %.4g are a spike; the step was not applied",
             report.step, report.loss, report.gradient_norm);
    log_event(r, "spike", text);
    note(r, text);
  }
  if (r->leads && r->task->watch.step) r->task->watch.step(r->task->watch.user, &step);
  return ALIBI_OK;
}

/* ---- evaluations, and the early end ---- */

/* A best model that cannot be kept is said, and the training goes on without it. */
static void save_best(running *r)
{
  alibi_error why = {0}, *error = &why;
  char *best = path_join(r->task->folder, "best"), *beside = path_join(r->task->folder, "best.new");
  char *tokenizer = beside ? path_join(beside, "tokenizer.json") : NULL;
  status result;
  if (!best || !tokenizer) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_remove(beside, error));
  TRY(directory_make(beside, error));
  TRY(alibi_model_save(r->trainer->model, beside, error));
  if (r->task->tokenizer) TRY(alibi_tokenizer_save(r->task->tokenizer, tokenizer, error));
  TRY(directory_replace(beside, best, error));
done:
  if (result != ALIBI_OK) warn(r, why.message);
  r->state->has_best = result == ALIBI_OK;
  free(tokenizer);
  free(beside);
  free(best);
}

static void heed_patience(running *r, double loss)
{
  run_state *s = r->state;
  if (r->task->settings.patience == 0) return;
  if (isfinite(loss) && (s->best_step == 0 || loss < s->best_loss)) { /* no number is better than none */
    if (r->leads) save_best(r);
    s->best_step = r->trainer->step;
    s->best_loss = loss;
    s->failures = 0;
    return;
  }
  s->failures++;
  if (s->failures < r->task->settings.patience || r->trainer->step >= r->trainer->options.steps) return;
  s->stopped_early = true;
  char text[200];
  snprintf(text, sizeof text,
           "ended after step %" PRId64 ": %" PRId64 " evaluations were no better than that of step %" PRId64,
           r->trainer->step, s->failures, s->best_step);
  log_event(r, "early_stop", text);
  note(r, text);
}

/* "step 100: held-out perplexity 22.2 at 128, 24.0 at 512". */
static void say_evaluation(const running *r, const training_evaluation *list)
{
  char text[512];
  size_t used = (size_t)snprintf(text, sizeof text, "step %" PRId64 ": held-out perplexity", r->trainer->step);
  for (size_t i = 0; i < r->task->length_count && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s %.4g at %" PRId64, i ? "," : "",
                             list[i].perplexity, list[i].length);
  note(r, text);
}

static status evaluate_lengths(running *r, training_evaluation list[RUN_LENGTHS], alibi_error *error)
{
  const run_task *task = r->task;
  int64_t longest = 0, shortest = INT64_MAX;
  for (size_t i = 0; i < task->length_count; i++) {
    if (task->lengths[i] > longest) longest = task->lengths[i];
    if (task->lengths[i] < shortest) shortest = task->lengths[i];
  }
  for (size_t i = 0; i < task->length_count; i++) {
    alibi_evaluate_options options;
    alibi_evaluate_result found;
    alibi_evaluate_options_init(&options);
    options.protocol = ALIBI_NONOVERLAPPING;
    options.window = task->lengths[i];
    options.shortest = shortest;
    options.longest = longest;
    options.max_targets = task->settings.evaluate_tokens;
    status result =
        alibi_evaluate(r->trainer->model, task->valid, task->valid_count, NULL, &options, &found, error);
    if (result != ALIBI_OK) return result;
    list[i] = (training_evaluation){r->trainer->step, task->lengths[i], found.nll, found.perplexity};
  }
  return ALIBI_OK;
}

static status evaluate(running *r, alibi_error *error)
{
  const run_task *task = r->task;
  training_evaluation list[RUN_LENGTHS] = {{0}};
  status result = comm_agree(r->comm, r->leads ? evaluate_lengths(r, list, error) : ALIBI_OK, error);
  if (result == ALIBI_OK) result = comm_broadcast(r->comm, list, sizeof list, 0, error);
  if (result != ALIBI_OK) return result;
  log_evaluations(r, list, task->length_count);
  say_evaluation(r, list);
  heed_patience(r, list[0].loss);
  r->state->evaluated = r->trainer->step;
  return ALIBI_OK;
}

/* ---- samples ---- */

static status continue_prompt(running *r, uint32_t *tokens, size_t count, size_t more, alibi_error *error)
{
  alibi_model *model = r->trainer->model;
  alibi_session *session = NULL;
  alibi_session_options options;
  alibi_sampling sampling;
  status result;
  alibi_session_options_init(&options);
  alibi_sampling_init(&sampling);
  options.capacity = (int64_t)(count + more);
  sampling.temperature = r->task->settings.sample_temperature;
  sampling.seed = (uint64_t)r->trainer->step;
  TRY(alibi_session_new(model, &options, &session, error));
  TRY(alibi_session_feed(session, tokens, count, error));
  for (size_t i = count; i < count + more; i++) {
    TRY(context_check_cancel(r->task->context, error));
    TRY(alibi_sample(alibi_session_logits(session), (size_t)model->config.vocabulary, &sampling, i, &tokens[i],
                     error));
    if (i + 1 < count + more) TRY(alibi_session_feed(session, &tokens[i], 1, error));
  }
done:
  alibi_session_free(session);
  return result;
}

/* The log gets the text as it is, the watcher one line. */
static void say_sample(running *r, const uint32_t *tokens, size_t count)
{
  char text[SAMPLE_BYTES + 1], sentence[SAMPLE_BYTES + 64];
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    size_t size;
    const unsigned char *bytes = alibi_tokenizer_bytes(r->task->tokenizer, tokens[i], &size);
    if (size > SAMPLE_BYTES - used) break;
    for (size_t k = 0; k < size; k++) text[used++] = bytes[k] ? (char)bytes[k] : ' ';
  }
  text[used] = '\0';
  log_event(r, "sample", text);
  snprintf(sentence, sizeof sentence, "step %" PRId64 ": %s", r->trainer->step, text);
  for (char *c = sentence; *c; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  note(r, sentence);
}

/* A sample is a view of the model: where none can be had (a method without such positions), training goes on. */
static status sample(running *r, alibi_error *error)
{
  const run_task *task = r->task;
  uint32_t *prompt = NULL, *tokens = NULL;
  size_t count = 0, more = (size_t)task->settings.sample_tokens;
  alibi_error why = {0};
  status result;
  const char *text = task->prompt && task->prompt[0] ? task->prompt : "\n";
  TRY(alibi_tokenizer_encode(task->tokenizer, text, strlen(text), &prompt, &count, &why));
  TRY(memory_new(&tokens, size_add(count, more), sizeof *tokens, "a sample", &why));
  memcpy(tokens, prompt, count * sizeof *tokens);
  TRY(continue_prompt(r, tokens, count, more, &why));
  say_sample(r, tokens, count + more);
done:
  memory_free(tokens);
  alibi_tokens_free(prompt);
  if (result == ALIBI_CANCELLED) return fail(error, ALIBI_CANCELLED, "%s", why.message);
  if (result != ALIBI_OK) warn(r, why.message);
  r->state->sampled = r->trainer->step;
  return ALIBI_OK;
}

/* ---- checkpoints ---- */

static json_node *run_node(const running *r)
{
  const run_state *s = r->state;
  json_node *node = node_new_object(), *losses = node_new_array();
  node_set_fields(node, state_table, s);
  for (int64_t point = 0; point * s->stride < s->steps; point++) node_append_number(losses, s->losses[point]);
  node_set_integer(node, "mean_of_steps", s->stride);
  node_set(node, "losses", losses);
  if (r->task->settings_record) node_set(node, "settings", node_copy(r->task->settings_record));
  return node;
}

status run_state_read(const json_node *run, const char *what, run_state *state, alibi_error *error)
{
  static const char *const others[] = {"mean_of_steps", "losses", "settings", NULL};
  const json_node *losses = node_get(run, "losses");
  *state = (run_state){0};
  if (!run)
    return fail(error, ALIBI_BAD_INPUT, "%s: run: expected what a training run keeps, found nothing", what);
  status result = node_get_fields(run, state_table, state, what, others, error);
  if (result != ALIBI_OK) return result;
  if (node_count(losses) > RUN_CURVE)
    return fail(error, ALIBI_BAD_INPUT, "%s: losses: expected at most %d, found %zu", what, RUN_CURVE,
                node_count(losses));
  for (size_t i = 0; i < node_count(losses); i++) state->losses[i] = node_number(node_at(losses, i), 0);
  return ALIBI_OK;
}

/* A state that has been saved is not saved again. */
static status save(running *r, alibi_error *error)
{
  int64_t step = r->trainer->step;
  alibi_error why = {0};
  char *path = checkpoint_path(r->checkpoints, step);
  status result = path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for a path");
  if (result == ALIBI_OK && r->leads) result = directory_make(r->checkpoints, error);
  TRY(comm_agree(r->comm, result, error));
  TRY(checkpoint_save(r->trainer, r->task->tokenizer, run_node(r), path, error));
  r->state->saved = step;
  if (r->leads && checkpoint_prune(r->checkpoints, (size_t)r->task->settings.keep_checkpoints, &why) != ALIBI_OK)
    warn(r, why.message);
done:
  free(path);
  return result;
}

static bool is_due(int64_t every, int64_t step, int64_t last)
{
  return every > 0 && step > 0 && step % every == 0 && last < step;
}

/* The next try after a failure is as far away as after a success: a full disk is not tried in every step. */
static status save_sometimes(running *r, alibi_error *error)
{
  const run_settings *s = &r->task->settings;
  double now = system_seconds();
  bool by_steps = is_due(s->checkpoint_every, r->trainer->step, r->state->saved);
  bool by_time = s->checkpoint_minutes > 0 && now - r->saved_at >= 60 * s->checkpoint_minutes &&
                 r->state->saved < r->trainer->step;
  if (s->checkpoint_minutes > 0) { /* by the clock of one rank */
    status result = comm_broadcast(r->comm, &by_time, sizeof by_time, 0, error);
    if (result != ALIBI_OK) return result;
  }
  if (!by_steps && !by_time) return ALIBI_OK;
  alibi_error why = {0};
  r->saved_at = now;
  if (save(r, &why) == ALIBI_OK) return ALIBI_OK;
  char text[sizeof why.message + 160];
  snprintf(text, sizeof text, "the checkpoint of step %" PRId64 " could not be saved, the training goes on: %s",
           r->trainer->step, why.message);
  warn(r, text);
  log_event(r, "checkpoint_failed", why.message);
  return ALIBI_OK;
}

/* ---- the loop ---- */

/* Checkpoints of later steps are damaged, or those of a training that begins anew: they would outlive the new
 * ones. */
static status drop_later(const running *r, alibi_error *error)
{
  directory_list list = {0};
  char *path = NULL, *own = checkpoint_path(r->checkpoints, r->trainer->step);
  const char *name = own ? strrchr(own, '/') + 1 : NULL;
  status result = ALIBI_OK;
  if (!own) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  if (!path_is_directory(r->checkpoints)) goto done;
  TRY(directory_read(r->checkpoints, &list, error));
  for (size_t i = 0; i < list.count; i++) {
    bool later = strlen(list.names[i]) > strlen(name) || strcmp(list.names[i], name) > 0;
    if (strncmp(list.names[i], "step-", 5) != 0 || (!later && r->trainer->step > 0)) continue;
    path = path_join(r->checkpoints, list.names[i]);
    if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    TRY(directory_drop(path, error));
    free(path);
    path = NULL;
  }
done:
  directory_list_free(&list);
  free(path);
  free(own);
  return result;
}

static status begin(running *r, alibi_error *error)
{
  const run_task *task = r->task;
  run_state *s = r->state;
  int64_t step = r->trainer->step, steps = r->trainer->options.steps;
  char *log = path_join(task->folder, "log.jsonl"), *events = path_join(task->folder, "events");
  status result = ALIBI_OK;
  r->checkpoints = run_checkpoints(task->folder);
  if (!log || !events || !r->checkpoints) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  s->steps = step;
  s->tokens = r->trainer->tokens_done;
  s->saved = step;
  s->stride = (steps + RUN_CURVE - 1) / RUN_CURVE;
  r->saved_at = system_seconds();
  if (!r->leads) goto done;
  TRY(drop_later(r, error));
  TRY(training_log_begin(log, step > 0 ? step : -1, &r->log, error));
  if (task->settings.events) TRY(event_file_begin(events, step + 1, (double)time(NULL), &r->events, error));
  if (step > 0) log_event(r, TRAINING_RESUMED, NULL);
done:
  free(events);
  free(log);
  return result;
}

/* What step `trainer->step` leaves to be done. */
static status after_step(running *r, alibi_error *error)
{
  const run_settings *s = &r->task->settings;
  int64_t step = r->trainer->step;
  bool last = step == r->trainer->options.steps && r->state->evaluated < step;
  status result = ALIBI_OK;
  if (s->evaluate_every > 0 && step > 0 && (last || is_due(s->evaluate_every, step, r->state->evaluated)))
    result = evaluate(r, error);
  if (result == ALIBI_OK && is_due(s->sample_every, step, r->state->sampled)) {
    result = comm_agree(r->comm, r->leads ? sample(r, error) : ALIBI_OK, error);
    r->state->sampled = step;
  }
  return result;
}

static status loop(running *r, alibi_error *error)
{
  status result;
  for (;;) {
    TRY(after_step(r, error));
    if (r->state->stopped_early || r->trainer->step >= r->trainer->options.steps) break;
    TRY(save_sometimes(r, error));
    TRY(take_step(r, error));
  }
done:
  return result;
}

/* The error's sentence with what is left to go on from. */
static status say_what_is_left(const running *r, status result, alibi_error *error)
{
  char text[sizeof error->message];
  if (!error) return result;
  snprintf(text, sizeof text, "%s", error->message);
  if (r->state->saved == 0) return fail(error, result, "%s; no checkpoint was saved", text);
  return fail(error, result, "%s; the last good checkpoint is that of step %" PRId64, text, r->state->saved);
}

status training_run(alibi_trainer *trainer, const run_task *task, run_state *state, alibi_error *error)
{
  running r = {.trainer = trainer, .task = task, .state = state, .comm = trainer->comm};
  r.leads = comm_rank(r.comm) == 0;
  status result = comm_agree(r.comm, begin(&r, error), error);
  if (result != ALIBI_OK) goto done;
  result = loop(&r, error);
  if (result == ALIBI_CANCELLED && trainer->step > state->saved) {
    alibi_error why = {0};
    if (save(&r, &why) != ALIBI_OK) {
      char text[sizeof why.message + 160];
      snprintf(text, sizeof text, "the checkpoint of step %" PRId64 " could not be saved: %s", trainer->step,
               why.message);
      warn(&r, text);
    }
  } else if (result == ALIBI_FAILED) {
    log_event(&r, "stopped", error ? error->message : NULL);
    result = say_what_is_left(&r, result, error);
  }
done:
  event_file_end(&r.events);
  training_log_end(&r.log);
  free(r.checkpoints);
  return result;
}
