/* alibi train: one model on the user's texts, or on ids made of them, into a directory that eval and generate
 * understand.
 *
 * The model in the directory changes when the training is over, so a good one that lies there stays whole until a
 * new one replaces it.  Meanwhile the training lives in DIR/checkpoints, and --resume goes on from there: what is
 * read here is read from the newest checkpoint then, and options may only repeat it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/directory.h"
#include "base/number.h"
#include "base/system.h"
#include "bench/bench_measure.h"
#include "cli/config_file.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "cli/train_command.h"
#include "model/config.h"
#include "train/fine_tune.h"
#include "train/option_sentence.h"

enum { TEST_TARGETS = 32768, LONGEST = 1 << 24 };

typedef struct own_options {
  int64_t vocabulary, sequence_ranks;
  double held_out;
  bool dry_run, json, resume, overwrite, overfit;
} own_options;

#define AT(member) offsetof(own_options, member)

static const field own_fields[] = {
    {"vocabulary", FIELD_INTEGER, AT(vocabulary), 256, 1000000, 1024, NULL, NULL,
     "tokens of the BPE that is trained on the texts"},
    {"held_out", FIELD_REAL, AT(held_out), 0, 0.9, 0.05, NULL, NULL,
     "share at the end of each text that is only tested on"},
    {"resume", FIELD_BOOLEAN, AT(resume), 0, 1, 0, NULL, NULL,
     "go on from the newest good checkpoint in DIR, or begin where there is none; settings come from there"},
    {"overwrite", FIELD_BOOLEAN, AT(overwrite), 0, 1, 0, NULL, NULL,
     "begin anew where DIR holds an unfinished training"},
    {"overfit", FIELD_BOOLEAN, AT(overfit), 0, 1, 0, NULL, NULL,
     "train on the first batch alone, and fail unless its loss falls to a tenth: a check of settings"},
    {"dry_run", FIELD_BOOLEAN, AT(dry_run), 0, 1, 0, NULL, NULL,
     "print sizes, memory and time, and stop before the training"},
    {"json", FIELD_BOOLEAN, AT(json), 0, 1, 0, NULL, NULL, "with --dry-run: print JSON"},
    {"sequence_ranks", FIELD_INTEGER, AT(sequence_ranks), 1, 1000000, 1, NULL, NULL,
     "cut each sequence among so many ranks, which divide those of --ranks: for texts that one does not hold; may "
     "differ when --resume goes on"},
};

static own_options own;
static run_settings run_options;
static model_options model_settings;
static const char *out, *tokenizer_path, *valid_path, *from_path, *extend, *config_path, *mix, *evaluate_lengths,
    *sample_prompt, *write_config, *ranks;
static const command_line *current;
static bool data_in_files; /* token ids, not texts */

static const char *const hidden[] = {"vocabulary", "original_length", NULL};

static void train_add_options(command_line *line)
{
  tokenizer_path = out = valid_path = from_path = extend = mix = evaluate_lengths = sample_prompt = write_config =
      NULL;
  ranks = "auto";
  command_add_config(line, &config_path);
  command_add_text(line, "write_config", "FILE", &write_config,
                   "write all settings as such a file, before the training");
  command_add_text(line, "out", "DIR", &out, "where the model goes");
  command_add_text(line, "tokenizer", "FILE", &tokenizer_path,
                   "a tokenizer.json, or bytes; without it a BPE is trained on the texts");
  command_add_text(line, "valid", "LIST", &valid_path,
                   "test on these texts, between commas; without it the end of each TEXT is held out");
  command_add_text(line, "mix", "LIST", &mix,
                   "shares of several sources of token ids, such as 3,1; without it: by their sizes");
  command_add_text(line, "from", "DIR", &from_path,
                   "go on from the model there, with its tokenizer; only --train-length, the rotary base and "
                   "--extend may change it");
  command_add_text(line, "extend", "NAME", &extend,
                   "with --from: an extension that becomes part of the model, such as ntk or yarn:factor=4");
  command_add_text(line, "evaluate_lengths", "LIST", &evaluate_lengths,
                   "tokens a window of evaluations during training; without it the training length");
  command_add_text(line, "sample_prompt", "TEXT", &sample_prompt,
                   "what samples go on from; without it a line's end");
  command_add_text(
      line, "ranks", "NAME", &ranks,
      "processes that train together: mpi, self (this one alone), or auto: mpi where mpirun or srun started it");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(own_fields), &own, "");
  model_options_add(line, &model_settings, hidden);
  command_add_group(line, "During training", run_setting_fields(), &run_options, "");
}

static bool is_used(const char *method)
{
  return strcmp(method, model_settings.config.position) == 0;
}

/* ---- settings ---- */

/* What decides the outcome: without that, where it goes and how it is watched. */
static bool is_setting(const void *values, const char *name)
{
  static const char *const others[] = {TRAIN_NO_SETTINGS, NULL};
  for (size_t i = 0; others[i]; i++)
    if (strcmp(name, others[i]) == 0) return false;
  if (strcmp(name, "vocabulary") == 0)
    return command_line_given(current, &own, name) || !(tokenizer_path || from_path || data_in_files);
  if (strcmp(name, "held_out") == 0) return !valid_path && !data_in_files;
  bool of_model = values == &model_settings.config;
  for (size_t i = 0; i < position_method_count(); i++) {
    if (values != model_settings.methods[i].bytes) continue;
    if (!is_used(position_method_at(i)->name)) return false;
    of_model = true;
  }
  return !of_model || !from_path || command_line_given(current, values, name);
}

/* An option about something that is never done is a mistake. */
static status check_details(const command_line *line, alibi_error *error)
{
  const struct {
    const void *values;
    const char *name, *needed;
  } details[] = {{&evaluate_lengths, "evaluate_lengths", "evaluate_every"},
                 {&run_options, "evaluate_tokens", "evaluate_every"},
                 {&sample_prompt, "sample_prompt", "sample_every"},
                 {&run_options, "sample_tokens", "sample_every"},
                 {&run_options, "sample_temperature", "sample_every"}};
  for (size_t i = 0; i < sizeof details / sizeof details[0]; i++) {
    char option[2 * ALIBI_NAME_SIZE], needed[2 * ALIBI_NAME_SIZE];
    if (!command_line_given(line, details[i].values, details[i].name) ||
        command_line_given(line, &run_options, details[i].needed))
      continue;
    field_option("", details[i].name, option, sizeof option);
    field_option("", details[i].needed, needed, sizeof needed);
    return fail(error, ALIBI_INVALID, "%s: without %s it does nothing: expected that beside it", option, needed);
  }
  return ALIBI_OK;
}

static status check_line(const command_line *line, alibi_error *error)
{
  if (line->operand_count == 0) return fail(error, ALIBI_INVALID, "train: expected at least one TEXT, found none");
  if (!out && !own.dry_run) return fail(error, ALIBI_INVALID, "train: --out DIR is missing");
  if (own.json && !own.dry_run)
    return fail(error, ALIBI_INVALID, "--json: prints the plan: expected --dry-run beside it");
  if (tokenizer_path && command_line_given(line, &own, "vocabulary"))
    return fail(error, ALIBI_INVALID,
                "--vocabulary is for a tokenizer that is trained, and --tokenizer names a finished one");
  if (valid_path && command_line_given(line, &own, "held_out"))
    return fail(error, ALIBI_INVALID, "--held-out and --valid: expected one of them");
  if (extend && !from_path)
    return fail(error, ALIBI_INVALID, "--extend: changes a trained model: expected --from DIR beside it");
  if (from_path && tokenizer_path)
    return fail(error, ALIBI_INVALID, "--tokenizer: expected none beside --from, since the model has its own");
  if (from_path && command_line_given(line, &own, "vocabulary"))
    return fail(error, ALIBI_INVALID,
                "--vocabulary: expected none beside --from, since the model has its own tokenizer");
  if (run_options.patience && !run_options.evaluate_every)
    return fail(error, ALIBI_INVALID, "--patience: counts evaluations: expected --evaluate-every beside it");
  if (own.overfit && model_settings.train.order != ALIBI_ORDER_ONE_BATCH &&
      command_line_given(line, &model_settings.train, "order"))
    return fail(error, ALIBI_INVALID, "--overfit: trains on one batch: expected no other --order beside it");
  return check_details(line, error);
}

/* Options that say what --from has said already; those of the rotary base and the length are taken. */
static status take_changes(const command_line *line, alibi_model_config *config, alibi_error *error)
{
  const position_method *method = model_config_method(config);
  field_table all = model_config_fields();
  char option[2 * ALIBI_NAME_SIZE], prefix[ALIBI_NAME_SIZE + 1];
  size_t row = 0;
  snprintf(prefix, sizeof prefix, "%s-", method->name);
  for (size_t i = 0; i < all.count; i++) {
    const char *name = all.fields[i].name;
    if (strcmp(name, "train_length") == 0 || !command_line_given(line, &model_settings.config, name)) continue;
    field_option("", name, option, sizeof option);
    return fail(error, ALIBI_INVALID, "%s: expected none beside --from, since the model keeps its own", option);
  }
  while (position_method_at(row) != method) row++;
  for (size_t i = 0; i < method->fields.count; i++) {
    const field *f = &method->fields.fields[i];
    if (!command_line_given(line, model_settings.methods[row].bytes, f->name)) continue;
    field_option(prefix, f->name, option, sizeof option);
    if (!fine_tune_changes(method, f))
      return fail(error, ALIBI_INVALID, "%s: expected none beside --from, since the model keeps its own", option);
    char value[64];
    field_get_text(f, model_settings.methods[row].bytes, value, sizeof value);
    status result = field_set_text(f, config->position_options.bytes, option, value, error);
    if (result != ALIBI_OK) return result;
  }
  if (command_line_given(line, &model_settings.config, "train_length"))
    config->train_length = model_settings.config.train_length;
  return ALIBI_OK;
}

/* The model of --from: its configuration with what the command line changes.  A trained model bears a smaller rate
 * than a new one. */
static status open_from(training *t, alibi_error *error)
{
  static const double FINE_TUNING_RATE = 6e-4;
  status result;
  TRY(alibi_model_open(t->context, from_path, &t->from, error));
  if (strcmp(alibi_model_family(t->from), "alibi") != 0)
    RAISE(
        error, ALIBI_INVALID,
        "--from %s: expected a model of our own format, found one of the family '%s': alibi convert %s --to alibi "
        "--out DIR makes one to train on",
        from_path, alibi_model_family(t->from), from_path);
  alibi_model_config config = *alibi_model_get_config(t->from);
  TRY(take_changes(t->line, &config, error));
  if (extend) TRY(model_config_set_extension(&config, "--extend", extend, error));
  else TRY(fine_tune_check_kept(alibi_model_get_config(t->from), &config, error));
  TRY(option_sentence(fine_tune_config(alibi_model_get_config(t->from), &config, error), config.position, error));
  model_settings.config = config;
  if (!command_line_given(t->line, &model_settings.train, "learning_rate"))
    model_settings.train.learning_rate = FINE_TUNING_RATE;
done:
  return result;
}

/* Of the model and the training, together. */
static status check_settings(const training *t, alibi_error *error)
{
  status result = alibi_model_config_check(&t->config, error);
  if (result == ALIBI_OK) result = train_check_batch(&t->options, t->config.train_length, error);
  return option_sentence(result, t->config.position, error);
}

/* An evaluation that cannot be is known before the training. */
static status check_positions(const alibi_model_config *given, int64_t length, alibi_error *error)
{
  alibi_model_config config = *given;
  status result = model_config_resolve(&config, error);
  if (result != ALIBI_OK || config.extension[0]) return result;
  const position_method *method = model_config_method(&config);
  position_shape shape = model_config_position_shape(&config);
  size_t limit = position_method_limit(method, &shape, config.position_options.bytes, NULL);
  if ((size_t)length <= limit) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "--evaluate-lengths: expected at most the %zu positions that the method '%s' has, found %" PRId64,
              limit, method->name, length);
}

static status read_lengths(training *t, alibi_error *error)
{
  status result = ALIBI_OK;
  t->task.lengths[0] = t->config.train_length;
  t->task.length_count = 1;
  if (!evaluate_lengths) return ALIBI_OK;
  TRY(list_lengths("--evaluate-lengths", evaluate_lengths, LONGEST, t->task.lengths, RUN_LENGTHS,
                   &t->task.length_count, error));
  for (size_t i = 0; i < t->task.length_count; i++) TRY(check_positions(&t->config, t->task.lengths[i], error));
done:
  return result;
}

/* kept: the configuration of a checkpoint, or NULL. */
static status read_settings(training *t, const alibi_model_config *kept, alibi_error *error)
{
  status result;
  TRY(check_line(t->line, error));
  if (kept) model_settings.config = *kept;
  else if (from_path) TRY(open_from(t, error));
  else TRY(model_options_take_method(&model_settings, model_settings.config.position, error));
  TRY(model_options_check(t->line, &model_settings, is_used, error));
  if (own.overfit) model_settings.train.order = ALIBI_ORDER_ONE_BATCH;
  t->config = model_settings.config;
  t->options = model_settings.train;
  TRY(check_settings(t, error));
  TRY(read_lengths(t, error));
done:
  return result;
}

/* ---- the directory ---- */

/* One that cannot be written is found before the training, not after it. */
static status try_writing(int *lock, alibi_error *error)
{
  static const char *const written[] = {"train.json.", "log.jsonl.", NULL};
  replace_file probe = {0};
  char *path = NULL, *lock_path = NULL;
  status result;
  TRY(directory_make(out, error));
  path = path_join(out, "train.json");
  lock_path = path_join(out, ".lock");
  if (!path || !lock_path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(file_lock(lock_path, out, lock, error));
  TRY(directory_remove_parts(out, written, error));
  TRY(replace_begin(path, &probe, error));
done:
  replace_abandon(&probe);
  free(lock_path);
  free(path);
  return result;
}

/* Where a training begins: not among its texts, of which log.jsonl would be one when it goes on, and not in a
 * folder of `alibi data build`, whose tokenizer it would replace. */
static status check_place(const command_line *line, alibi_error *error)
{
  if (token_source_recognises(out) && path_is_directory(out))
    return fail(error, ALIBI_INVALID,
                "--out: expected a folder for a model, found the data of `alibi data build` in %s", out);
  for (size_t i = 0; i < line->operand_count; i++)
    if (!token_source_recognises(line->operands[i]) && path_is_directory(line->operands[i]) &&
        path_is_within(out, line->operands[i]))
      return fail(error, ALIBI_INVALID, "--out: expected a folder outside of the texts in %s, found %s",
                  line->operands[i], out);
  return ALIBI_OK;
}

static status save_settings(training *t, alibi_error *error)
{
  t->settings = config_file_node(t->line, is_setting);
  return write_config && ranks_lead() ? node_write_file(t->settings, write_config, error) : ALIBI_OK;
}

/* ---- data ---- */

static status check_data(const training *t, const char *tokenizer, alibi_error *error)
{
  const train_data *d = &t->data;
  const char *name = t->line->operand_count == 1 ? t->line->operands[0] : "the texts together";
  if (from_path && d->vocabulary > t->config.vocabulary) /* rows to spare, as public models have */
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected the vocabulary of the model, %" PRId64 " tokens, found %" PRId64,
                tokenizer ? tokenizer : name, t->config.vocabulary, d->vocabulary);
  if (d->train_count < (size_t)t->config.train_length + 1)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected at least %" PRId64
                " tokens to train on, found %zu (a longer text, or a shorter --train-length)",
                name, t->config.train_length + 1, d->train_count);
  if (d->train_count < (size_t)t->options.batch_tokens)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected at least the %" PRId64
                " tokens of one batch to train on, found %zu (a longer text, or a smaller "
                "--batch-tokens)",
                name, t->options.batch_tokens, d->train_count);
  int64_t longest = 0;
  for (size_t i = 0; i < t->task.length_count; i++)
    if (t->task.lengths[i] > longest) longest = t->task.lengths[i];
  if (run_options.evaluate_every && d->valid_count <= (size_t)longest)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected more than %" PRId64 " tokens that are held out, for evaluations, found %zu", name,
                longest, d->valid_count);
  if (run_options.sample_every && !d->tokenizer)
    return fail(error, ALIBI_INVALID, "--sample-every: expected --tokenizer beside it, since the data has none");
  return ALIBI_OK;
}

/* folder: where the tokenizer lies, of the checkpoint or of the model of --from; NULL: as the options say. */
static status read_data(training *t, const char *folder, alibi_error *error)
{
  char *found = folder ? path_join(folder, "tokenizer.json") : NULL;
  const char *tokenizer = found && (from_path || path_exists(found)) ? found : tokenizer_path;
  train_data_request request = {.paths = t->line->operands,
                                .count = t->line->operand_count,
                                .valid = valid_path,
                                .tokenizer = tokenizer,
                                .mix = mix,
                                .held_out = own.held_out,
                                .vocabulary = own.vocabulary,
                                .has_vocabulary = command_line_given(t->line, &own, "vocabulary") && !from_path};
  int item = -1;
  status result;
  TRY(train_data_kind(&request, &data_in_files, error));
  if (data_in_files && command_line_given(t->line, &own, "held_out"))
    RAISE(error, ALIBI_INVALID,
          "--held-out: is for texts: token ids have their held-out part beside them, or in --valid");
  TRY(save_settings(t, error));
  item = progress_begin(data_in_files ? "reading the data"
                        : tokenizer   ? "reading the texts"
                                      : "training the tokenizer",
                        0, "bytes");
  progress_update(item, 0, NULL);
  result = train_data_open(&request, &t->data, error);
  progress_end(item, NULL);
  if (result != ALIBI_OK) goto done;
  if (!from_path) t->config.vocabulary = t->data.vocabulary;
  TRY(check_data(t, tokenizer, error));
  if (!cli_quiet() && data_in_files)
    progress_note("%s tokenizer, %" PRId64 " tokens; %zu tokens to train on, %zu to test on",
                  t->data.tokenizer ? alibi_tokenizer_kind(t->data.tokenizer) : "no", t->config.vocabulary,
                  t->data.train_count, t->data.valid_count);
  else if (!cli_quiet())
    progress_note("%s tokenizer, %" PRId64 " tokens; %zu tokens (%.2f MB) to train on, %zu (%.2f MB) to test on",
                  alibi_tokenizer_kind(t->data.tokenizer), t->config.vocabulary, t->data.train_count,
                  (double)t->data.train_bytes * 1e-6, t->data.valid_count, (double)t->data.valid_bytes * 1e-6);
done:
  free(found);
  return result;
}

/* ---- the training ---- */

/* How the training shows itself: one line, redrawn, with as much as the terminal has columns for. */
typedef struct display {
  int item;
  int64_t steps, tokens; /* in all */
} display;

static display shown;

static void on_step(void *user, const training_step *s)
{
  display *d = user;
  char parts[4][48], text[96] = "", what[ALIBI_NAME_SIZE + 16];
  snprintf(what, sizeof what, "training %s", model_settings.config.position);
  if (d->item < 0) {
    d->tokens = s->tokens_done + s->tokens * (d->steps - s->step);
    d->item = progress_begin(what, (double)d->tokens, "tokens");
  }
  snprintf(parts[0], sizeof parts[0], "step %" PRId64 ", loss %.3f", s->step, s->loss);
  snprintf(parts[1], sizeof parts[1], ", norm %.3g", s->gradient_norm);
  snprintf(parts[2], sizeof parts[2], ", rate %.3g", s->learning_rate);
  snprintf(parts[3], sizeof parts[3], ", %.0f %% of peak", 100 * s->share_of_peak);
  int room = terminal_is(stderr) ? terminal_columns(stderr, 80) - (int)strlen(what) - 40 : (int)sizeof text;
  for (int i = 0, used = 0; i < 4 && !(i == 3 && isnan(s->share_of_peak)); i++) {
    int size = (int)strlen(parts[i]);
    if (i > 0 && (used + size > room || used + size >= (int)sizeof text)) break;
    used += snprintf(text + used, sizeof text - (size_t)used, "%s", parts[i]);
  }
  progress_update(d->item, (double)s->tokens_done, text);
}

static void on_note(void *user, const char *sentence)
{
  (void)user;
  if (!cli_quiet()) progress_note("%s", sentence);
}

static void on_warning(void *user, const char *sentence)
{
  (void)user;
  progress_note("alibi: warning: %s", sentence);
}

static status make_trainer(training *t, const going_on *g, alibi_error *error)
{
  const train_data *d = &t->data;
  if (g->path) {
    status result = checkpoint_trainer(t->context, g->path, &g->about, d->sources, d->shares, d->source_count,
                                       &t->trainer, error);
    if (result == ALIBI_OK) result = run_state_read(g->about.run, g->path, &t->state, error);
    if (result == ALIBI_OK && !cli_quiet())
      progress_note("going on after step %" PRId64 " of %" PRId64 " (%s)", g->about.step, t->options.steps,
                    g->path);
    return result;
  }
  status result = trainer_new(t->context, t->from, &t->config, &t->options, d->sources, d->shares, d->source_count,
                              &t->trainer, error);
  alibi_model_free(t->from);
  t->from = NULL;
  return result;
}

/* The best of a few short turns: other programs only ever take from it. */
static double measure_peak(alibi_context *context)
{
  enum { TURNS = 8 };
  const double TURN_SECONDS = 0.004;
  double best = 0;
  for (int i = 0; i < TURNS; i++)
    best = fmax(best, bench_peak(alibi_context_isa(context), alibi_context_threads(context), TURN_SECONDS));
  return best;
}

static status run(training *t, alibi_error *error)
{
  char text[256], time[32];
  run_task *task = &t->task;
  task->context = t->context;
  task->folder = out;
  task->settings = run_options;
  task->prompt = sample_prompt;
  task->tokenizer = t->data.tokenizer;
  task->valid = t->data.valid;
  task->valid_count = t->data.valid_count;
  task->settings_record = t->settings;
  task->peak = comm_ranks(ranks_comm()) * measure_peak(t->context);
  shown = (display){.item = -1, .steps = t->options.steps};
  task->watch = (run_watch){.step = on_step, .note = on_note, .warn = on_warning, .user = &shown};
  status result = training_run(t->trainer, task, &t->state, error);
  progress_format_time(t->state.seconds, time, sizeof time);
  snprintf(text, sizeof text, "trained %s in %s (%" PRId64 " steps, loss %.3f)", model_settings.config.position,
           time, t->state.steps, t->state.recent);
  progress_end(shown.item, result == ALIBI_OK ? text : NULL);
  return result;
}

/* With --patience the best model is the result. */
static status take_best(training *t, alibi_error *error)
{
  if (!t->state.has_best || t->state.best_step == t->state.steps) return ALIBI_OK;
  char *path = path_join(out, "best");
  status result = path ? alibi_model_open(t->context, path, &t->best, error)
                       : fail(error, ALIBI_FAILED, "not enough memory for a path");
  free(path);
  return result;
}

static status test_model(training *t, alibi_error *error)
{
  const train_data *d = &t->data;
  alibi_evaluate_options options;
  alibi_evaluate_options_init(&options);
  if (d->valid_count < 2) return ALIBI_OK;
  int64_t most = (int64_t)d->valid_count - 1;
  options.protocol = ALIBI_SLIDING;
  options.window = t->config.train_length < most ? t->config.train_length : most;
  options.max_targets = TEST_TARGETS;
  int item = progress_begin("testing", 0, "tokens");
  progress_update(item, 0, NULL);
  status result =
      alibi_evaluate(training_model(t), d->valid, d->valid_count, d->token_bytes, &options, &t->test, error);
  progress_end(item, NULL);
  if (result != ALIBI_OK) t->test.size = 0;
  return result == ALIBI_OK ? train_write_record(t, error) : result;
}

/* Does DIR hold a model that an interruption must not replace?  One of an unfinished training is not. */
static bool holds_model(void)
{
  char *config = path_join(out, "config.json"), *record = path_join(out, "train.json");
  json_node *root = NULL;
  bool holds = config && path_exists(config);
  if (holds && record && path_exists(record) && node_read_file(record, &root, NULL) == ALIBI_OK)
    holds = node_boolean(node_get(root, "finished"), true);
  node_free(root);
  free(record);
  free(config);
  return holds;
}

/* Ctrl-C.  The checkpoint is saved by now; where no other model would be lost for it, DIR gets the model as it
 * stands too. */
static status keep_interrupted(training *t, alibi_error *error)
{
  const run_state *s = &t->state;
  const char *how = s->saved == s->steps ? "; --resume goes on with the training" : "";
  if (s->steps == 0) return fail(error, ALIBI_CANCELLED, "interrupted before the first step; nothing was written");
  if (holds_model())
    return fail(error, ALIBI_CANCELLED,
                "interrupted at step %" PRId64 " of %" PRId64 "; the model that was in %s before is still there%s",
                s->steps, t->options.steps, out, how);
  status result = train_write_model(t, error);
  if (result != ALIBI_OK) return result;
  return fail(error, ALIBI_CANCELLED,
              "interrupted; %s holds the model as it stood at step %" PRId64 " of %" PRId64 "%s", out, s->steps,
              t->options.steps, how);
}

static void print_result(const training *t)
{
  const alibi_model *model = training_model(t);
  const run_state *s = &t->state;
  printf("%s: %s, %" PRId64 " parameters, %" PRId64 " steps, %.0f tokens/s\n", out, t->config.position,
         alibi_model_parameter_count(model), s->steps, s->seconds > 0 ? (double)s->tokens / s->seconds : 0);
  if (t->best) printf("the best model, after step %" PRId64 "\n", s->best_step);
  if (!t->test.size) return;
  printf("perplexity %.2f", t->test.perplexity);
  if (!isnan(t->test.standard_error)) printf(" +- %.2f", t->test.standard_error);
  if (!isnan(t->test.bits_per_byte)) printf(" (%.3f bits a byte)", t->test.bits_per_byte);
  printf(" on %" PRId64 " held-out tokens, sliding windows of %" PRId64 "\n", t->test.tokens, t->test.window);
}

/* The finished model is in place: what was for going on, and the copy of the best, go. */
static void tidy(training *t)
{
  char *folder = run_checkpoints(out), *best = path_join(out, "best");
  if (folder && path_is_directory(folder)) {
    checkpoint_prune(folder, 0, NULL);
    directory_remove(folder, NULL);
  }
  if (best && t->state.has_best) directory_remove(best, NULL);
  free(best);
  free(folder);
}

static status judge_overfit(const training *t, alibi_error *error)
{
  const run_state *s = &t->state;
  double last = s->losses[(s->steps - 1) / s->stride];
  if (!own.overfit || last <= 0.1 * s->first_loss) return ALIBI_OK;
  return fail(error, ALIBI_FAILED,
              "--overfit: expected the loss of one batch to fall to a tenth, found %.3f at the start and %.3f "
              "after %" PRId64 " steps: more steps, another --learning-rate, or something is wrong",
              s->first_loss, last, s->steps);
}

static status finish(training *t, alibi_error *error)
{
  status result;
  TRY(take_best(t, error));
  TRY(train_write_model(t, error));
  result = test_model(t, error);
  if (result == ALIBI_CANCELLED)
    result = fail(error, ALIBI_CANCELLED, "interrupted while testing; the trained model is in %s", out);
  if (result != ALIBI_OK) goto done;
  tidy(t);
  print_result(t);
  TRY(judge_overfit(t, error));
done:
  return result;
}

static void free_training(training *t, going_on *g)
{
  alibi_trainer_free(t->trainer);
  alibi_model_free(t->best);
  alibi_model_free(t->from);
  train_data_close(&t->data);
  node_free(t->settings);
  checkpoint_about_free(&g->about);
  free(g->path);
  cli_context_free(t->context);
}

/* All that is done before the first step; concerns no other rank. */
static status prepare(training *t, command_line *line, going_on *g, int *lock, alibi_error *error)
{
  status result;
  TRY(cli_context(&t->context, error));
  t->context->comm = ranks_comm();
  t->context->sequence_comm = ranks_sequence_comm();
  if (own.resume && own.overwrite)
    RAISE(error, ALIBI_INVALID, "--resume goes on, --overwrite begins anew: give one of them");
  if (own.resume) TRY(train_go_on(line, out, g, error));
  if (g->finished) goto done;
  TRY(read_settings(t, g->path ? &g->about.config : NULL, error));
  t->out = out, t->from_path = from_path, t->valid_path = valid_path, t->held_out = own.held_out;
  if (!own.dry_run) {
    if (!g->path) TRY(check_place(line, error));
    if (ranks_lead()) TRY(try_writing(lock, error));
    if (!own.resume && !own.overwrite) TRY(train_check_unfinished(out, error));
  }
  TRY(read_data(t, g->path ? g->path : from_path, error));
  if (own.dry_run) goto done;
  TRY(train_plan_check(t, error));
  TRY(make_trainer(t, g, error));
done:
  return result;
}

/* What rank 0 does when all have trained. */
static status conclude(training *t, status result, alibi_error *error)
{
  if (!ranks_lead()) return result == ALIBI_CANCELLED ? ALIBI_OK : result;
  if (result == ALIBI_CANCELLED) return keep_interrupted(t, error);
  return result == ALIBI_OK ? finish(t, error) : result;
}

static status train_run(command_line *line, alibi_error *error)
{
  static training t;
  going_on g = {0};
  int lock = -1;
  status result;
  t = (training){.line = current = line};
  TRY(ranks_open(ranks, error));
  TRY(comm_agree(ranks_comm(), ranks_split(own.sequence_ranks, error), error));
  TRY(comm_agree(ranks_comm(), prepare(&t, line, &g, &lock, error), error));
  if (g.finished) {
    if (ranks_lead()) printf("%s: finished already\n", out);
  } else if (own.dry_run) {
    TRY(comm_agree(ranks_comm(), ranks_lead() ? train_plan_print(&t, own.json, error) : ALIBI_OK, error));
  } else {
    result = run(&t, error);
    TRY(comm_agree(ranks_comm(), conclude(&t, result, error), error));
  }
done:
  if (result != ALIBI_OK && !ranks_lead() && !comm_is_broken(ranks_comm()))
    error->message[0] = '\0'; /* rank 0 says it */
  free_training(&t, &g);
  file_unlock(lock);
  return result;
}

const command command_train = {
    .name = "train",
    .summary = "Train one model on texts.",
    .operands = "TEXT|DATA...",
    .details = "TEXT is plain text; DATA a folder of `alibi data build`, or token ids of llm.c or nanoGPT.\n\n"
               "DIR then holds config.json, model.safetensors, tokenizer.json, log.jsonl with a line a step, and "
               "train.json with "
               "every setting, the losses and the perplexity of the held-out text.  The model changes only when "
               "the training is "
               "over.  Until then DIR/checkpoints holds the last states: Ctrl-C saves one, and after that, or "
               "after a crash, "
               "--resume goes on, to the same bits.\n\n"
               "--from trains a finished model further, for example at a longer --train-length; its peak learning "
               "rate is "
               "then 0.0006 unless --learning-rate says another.",
    .options = train_add_options,
    .run = train_run,
};
