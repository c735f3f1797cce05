/* alibi train: one model on the user's texts, into a directory that eval and generate understand.
 *
 * Nothing in the directory changes before the training is over, so a good model that lies there stays whole until
 * a new one replaces it.  An interrupted training is kept as it stands, unless that would cost such a model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "model/config.h"
#include "train/dataset.h"
#include "train/fine_tune.h"
#include "train/option_sentence.h"
#include "train/trainer.h"

enum { CURVE_POINTS = 1000, TEST_TARGETS = 32768 };

typedef struct own_options {
  int64_t vocabulary;
  double held_out;
  bool dry_run;
} own_options;

static const field own_fields[] = {
    {.name = "vocabulary",
     .kind = FIELD_INTEGER,
     .offset = offsetof(own_options, vocabulary),
     .minimum = 256,
     .maximum = 1000000,
     .initial = 1024,
     .help = "tokens of the BPE that is trained on the texts"},
    {.name = "held_out",
     .kind = FIELD_REAL,
     .offset = offsetof(own_options, held_out),
     .maximum = 0.9,
     .initial = 0.05,
     .help = "share at the end of each text that is only tested on"},
    {.name = "dry_run",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(own_options, dry_run),
     .maximum = 1,
     .help = "print sizes and stop before the first step"},
};

static own_options own;
static model_options model_settings;
static const char *out, *tokenizer_path, *valid_path, *from_path, *extend, *config_path;

static const char *const hidden[] = {"vocabulary", "original_length", NULL};

static void train_add_options(command_line *line)
{
  out = tokenizer_path = valid_path = from_path = extend = NULL;
  command_add_config(line, &config_path);
  command_add_text(line, "out", "DIR", &out, "where the model goes");
  command_add_text(line, "tokenizer", "FILE", &tokenizer_path,
                   "a tokenizer.json, or bytes; without it a BPE is trained on the texts");
  command_add_text(line, "valid", "LIST", &valid_path,
                   "test on these texts, between commas; without it the end of each TEXT is held out");
  command_add_text(
      line, "from", "DIR", &from_path,
      "go on from the model there, with its tokenizer; only --train-length, the rotary base and --extend may "
      "change it");
  command_add_text(line, "extend", "NAME", &extend,
                   "with --from: an extension that becomes part of the model, such as ntk or yarn:factor=4");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(own_fields), &own, "");
  model_options_add(line, &model_settings, hidden);
}

static bool is_used(const char *method)
{
  return strcmp(method, model_settings.config.position) == 0;
}

/* What a training is and what became of it. */
typedef struct training {
  const command_line *line;
  alibi_context *context;
  dataset data;
  alibi_model *from;    /* --from */
  char *from_tokenizer; /* its path */
  alibi_train_options options;
  alibi_trainer *trainer;
  int64_t steps, tokens; /* done */
  double seconds;
  double losses[CURVE_POINTS]; /* means of `stride` steps */
  int64_t stride;
  double recent;              /* running mean of the loss */
  alibi_evaluate_result test; /* size 0: not tested */
} training;

static status check_line(const command_line *line, alibi_error *error)
{
  if (line->operand_count == 0) return fail(error, ALIBI_INVALID, "train: expected at least one TEXT, found none");
  if (!out && !own.dry_run) return fail(error, ALIBI_INVALID, "train: --out DIR is missing");
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
  return ALIBI_OK;
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

/* The model of --from: its configuration with what the command line changes, and its tokenizer.  A trained model
 * bears a smaller rate than a new one. */
static status open_from(training *t, alibi_error *error)
{
  static const double FINE_TUNING_RATE = 6e-4;
  status result;
  TRY(alibi_model_open(t->context, from_path, &t->from, error));
  t->from_tokenizer = path_join(from_path, "tokenizer.json");
  if (!t->from_tokenizer) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  alibi_model_config config = *alibi_model_get_config(t->from);
  TRY(take_changes(t->line, &config, error));
  if (extend) TRY(model_config_set_extension(&config, "--extend", extend, error));
  else TRY(fine_tune_check_kept(alibi_model_get_config(t->from), &config, error));
  TRY(option_sentence(fine_tune_config(alibi_model_get_config(t->from), &config, error), config.position, error));
  model_settings.config = config;
  if (!command_line_given(t->line, &model_settings.train, "learning_rate"))
    t->options.learning_rate = FINE_TUNING_RATE;
done:
  return result;
}

/* A directory that cannot be written is found before the training, not after it. */
static status try_writing(alibi_error *error)
{
  replace_file probe = {0};
  char *path = NULL;
  status result;
  TRY(directory_make(out, error));
  path = path_join(out, "train.json");
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(replace_begin(path, &probe, error));
done:
  replace_abandon(&probe);
  free(path);
  return result;
}

static status read_texts(training *t, alibi_error *error)
{
  dataset_request request = {.texts = t->line->operands,
                             .text_count = t->line->operand_count,
                             .valid = valid_path,
                             .held_out = own.held_out,
                             .tokenizer = from_path ? t->from_tokenizer : tokenizer_path,
                             .vocabulary = (uint32_t)own.vocabulary};
  int item = progress_begin(request.tokenizer ? "reading the texts" : "training the tokenizer", 0, "bytes");
  progress_update(item, 0, NULL);
  status result = dataset_make(&request, &t->data, error);
  progress_end(item, NULL);
  if (result != ALIBI_OK) return result;
  alibi_model_config *config = &model_settings.config;
  int64_t vocabulary = alibi_tokenizer_vocabulary(t->data.tokenizer);
  if (from_path && vocabulary != config->vocabulary)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected the vocabulary of the model, %" PRId64 " tokens, found %" PRId64, t->from_tokenizer,
                config->vocabulary, vocabulary);
  config->vocabulary = vocabulary;
  if (t->data.train_count < (size_t)config->train_length + 1)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected at least %" PRId64
                " tokens to train on, found %zu (a longer text, or a shorter --train-length)",
                t->line->operand_count == 1 ? t->line->operands[0] : "the texts together",
                config->train_length + 1, t->data.train_count);
  if (!cli_quiet())
    progress_note("%s tokenizer, %" PRId64 " tokens; %zu tokens (%.2f MB) to train on, %zu (%.2f MB) to test on",
                  alibi_tokenizer_kind(t->data.tokenizer), config->vocabulary, t->data.train_count,
                  (double)t->data.train_bytes * 1e-6, t->data.valid_count, (double)t->data.valid_bytes * 1e-6);
  return ALIBI_OK;
}

static status print_plan(training *t, alibi_error *error)
{
  alibi_model *model;
  status result = alibi_model_new(t->context, &model_settings.config, (uint64_t)t->options.seed, &model, error);
  if (result != ALIBI_OK) return result;
  train_plan plan = train_plan_of(model, &t->options);
  size_t step_tokens = plan.sequences * (size_t)model->config.train_length;
  double all = (double)step_tokens * (double)t->options.steps, mega = 1e-6;
  printf("parameters        %" PRId64 "\n", alibi_model_parameter_count(model));
  printf("vocabulary        %" PRId64 "\n", model->config.vocabulary);
  printf("tokens            %zu to train on, %zu to test on\n", t->data.train_count, t->data.valid_count);
  printf("tokens a step     %zu (%zu sequences of %" PRId64 ", %zu at once)\n", step_tokens, plan.sequences,
         model->config.train_length, plan.micro_sequences);
  printf("tokens in all     %.0f (%" PRId64 " steps; each token %.2f times)\n", all, t->options.steps,
         all / (double)t->data.train_count);
  printf("memory            %.1f MB for weights, gradients and moments, %.1f MB for activations\n",
         (double)plan.weight_bytes * mega, (double)plan.pass_bytes * mega);
  alibi_model_free(model);
  return ALIBI_OK;
}

static void remember(training *t, const alibi_train_report *report)
{
  int64_t point = (report->step - 1) / t->stride, within = (report->step - 1) % t->stride;
  t->losses[point] += (report->loss - t->losses[point]) / (double)(within + 1);
  double weight = fmax(1.0 / (double)report->step, 0.02);
  t->recent += weight * (report->loss - t->recent);
  t->steps = report->step;
  t->tokens += report->tokens;
}

static status run_steps(training *t, alibi_error *error)
{
  char what[ALIBI_NAME_SIZE + 16], text[256];
  status result = ALIBI_OK;
  int item = -1;
  double began = system_seconds();
  t->stride = (t->options.steps + CURVE_POINTS - 1) / CURVE_POINTS;
  snprintf(what, sizeof what, "training %s", model_settings.config.position);
  while (t->steps < t->options.steps) {
    alibi_train_report report;
    TRY(alibi_trainer_step(t->trainer, &report, error));
    remember(t, &report);
    if (item < 0) item = progress_begin(what, (double)(report.tokens * t->options.steps), "tokens");
    snprintf(text, sizeof text, "step %" PRId64 ", loss %.3f", t->steps, t->recent);
    progress_update(item, (double)t->tokens, text);
  }
done:
  t->seconds = system_seconds() - began;
  char time[32];
  progress_format_time(t->seconds, time, sizeof time);
  snprintf(text, sizeof text, "trained %s in %s (%" PRId64 " steps, loss %.3f)", model_settings.config.position,
           time, t->steps, t->recent);
  progress_end(item, result == ALIBI_OK ? text : NULL);
  return result;
}

static json_node *losses_node(const training *t)
{
  json_node *node = node_new_object(), *steps = node_new_array(), *losses = node_new_array();
  for (int64_t point = 0; point * t->stride < t->steps; point++) {
    int64_t last = (point + 1) * t->stride;
    node_append_integer(steps, last < t->steps ? last : t->steps);
    node_append_number(losses, t->losses[point]);
  }
  node_set_integer(node, "mean_of_steps", t->stride);
  node_set(node, "step", steps);
  node_set(node, "loss", losses);
  return node;
}

static json_node *test_node(const training *t)
{
  json_node *node = node_new_object();
  node_set_text(node, "protocol", alibi_protocol_name(ALIBI_SLIDING));
  node_set_integer(node, "window", t->test.window);
  node_set_integer(node, "stride", t->test.stride);
  node_set_integer(node, "tokens", t->test.tokens);
  node_set_number(node, "perplexity", t->test.perplexity);
  node_set_number(node, "standard_error", t->test.standard_error);
  node_set_number(node, "bits_per_byte", t->test.bits_per_byte);
  return node;
}

extern const command command_train;

/* train.json: every setting, and what came of it. */
static status write_record(const training *t, const char *folder, alibi_error *error)
{
  char *path = path_join(folder, "train.json"), *text = command_line_text(t->line, &command_train);
  json_node *root = node_new_object(), *texts = node_new_array(), *settings = node_new_object();
  alibi_model *model = alibi_trainer_model(t->trainer);
  for (size_t i = 0; i < t->line->operand_count; i++) node_append_text(texts, t->line->operands[i]);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "command", text);
  node_set(root, "texts", texts);
  node_set_text(root, "valid", valid_path);
  if (!valid_path) node_set_number(root, "held_out", own.held_out);
  node_set_text(root, "from", from_path);
  node_set_text(root, "tokenizer", alibi_tokenizer_kind(t->data.tokenizer));
  node_set_integer(root, "train_bytes", (int64_t)t->data.train_bytes);
  node_set_integer(root, "train_tokens", (int64_t)t->data.train_count);
  node_set_integer(root, "valid_bytes", (int64_t)t->data.valid_bytes);
  node_set_integer(root, "valid_tokens", (int64_t)t->data.valid_count);
  node_set(root, "model", model_config_node(alibi_model_get_config(model)));
  node_set_integer(root, "parameters", alibi_model_parameter_count(model));
  node_set_fields(settings, train_option_fields(), &t->options);
  node_set(root, "training", settings);
  node_set_integer(root, "steps_done", t->steps);
  node_set_boolean(root, "finished", t->steps == t->options.steps);
  node_set_integer(root, "tokens_done", t->tokens);
  node_set_number(root, "seconds", t->seconds);
  node_set_number(root, "tokens_per_second", t->seconds > 0 ? (double)t->tokens / t->seconds : 0);
  node_set_integer(root, "peak_memory_bytes", (int64_t)system_peak_memory());
  node_set_integer(root, "threads", alibi_context_threads(t->context));
  node_set_text(root, "instruction_set", alibi_context_isa(t->context));
  node_set(root, "losses", losses_node(t));
  if (t->test.size) node_set(root, "test", test_node(t));
  else node_set_null(root, "test");
  status result =
      path ? node_write_file(root, path, error) : fail(error, ALIBI_FAILED, "not enough memory for a path");
  node_free(root);
  free(text);
  free(path);
  return result;
}

static status move_into_place(const char *folder, const char *name, alibi_error *error)
{
  char *from = path_join(folder, name), *to = path_join(out, name);
  status result =
      from && to ? file_move(from, to, error) : fail(error, ALIBI_FAILED, "not enough memory for a path");
  free(to);
  free(from);
  return result;
}

/* All files are complete in a folder beside before the first of the old ones is replaced: a full disk costs
 * nothing. */
static status write_model(training *t, alibi_error *error)
{
  static const char *const names[] = {"tokenizer.json", "model.safetensors", "config.json", "train.json"};
  char *folder = path_join(out, ".new"), *path = folder ? path_join(folder, names[0]) : NULL;
  status result;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_make(folder, error));
  TRY(alibi_tokenizer_save(t->data.tokenizer, path, error));
  TRY(alibi_model_save(alibi_trainer_model(t->trainer), folder, error));
  TRY(write_record(t, folder, error));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) TRY(move_into_place(folder, names[i], error));
done:
  for (size_t i = 0; folder && result != ALIBI_OK && i < sizeof names / sizeof names[0]; i++) {
    char *left = path_join(folder, names[i]);
    if (left) remove(left);
    free(left);
  }
  if (folder) remove(folder);
  free(path);
  free(folder);
  return result;
}

static status test_model(training *t, alibi_error *error)
{
  alibi_evaluate_options options;
  alibi_evaluate_options_init(&options);
  if (t->data.valid_count < 2) return ALIBI_OK;
  int64_t most = (int64_t)t->data.valid_count - 1;
  options.protocol = ALIBI_SLIDING;
  options.window = model_settings.config.train_length < most ? model_settings.config.train_length : most;
  options.max_targets = TEST_TARGETS;
  int item = progress_begin("testing", 0, "tokens");
  progress_update(item, 0, NULL);
  status result = alibi_evaluate(alibi_trainer_model(t->trainer), t->data.valid, t->data.valid_count,
                                 t->data.token_bytes, &options, &t->test, error);
  progress_end(item, NULL);
  if (result != ALIBI_OK) t->test.size = 0;
  return result == ALIBI_OK ? write_record(t, out, error) : result;
}

/* Ctrl-C.  What was trained is kept, unless a model that lies there already would be lost for it. */
static status keep_interrupted(training *t, alibi_error *error)
{
  char *config = path_join(out, "config.json");
  bool holds_model = config && path_exists(config);
  free(config);
  if (t->steps == 0) return fail(error, ALIBI_CANCELLED, "interrupted before the first step; nothing was written");
  if (holds_model)
    return fail(error, ALIBI_CANCELLED,
                "interrupted at step %" PRId64 " of %" PRId64 "; the model that was in %s before is still there",
                t->steps, t->options.steps, out);
  status result = write_model(t, error);
  if (result != ALIBI_OK) return result;
  return fail(error, ALIBI_CANCELLED,
              "interrupted; %s holds the model as it stood at step %" PRId64 " of %" PRId64, out, t->steps,
              t->options.steps);
}

static void print_result(const training *t)
{
  const alibi_model *model = alibi_trainer_model(t->trainer);
  printf("%s: %s, %" PRId64 " parameters, %" PRId64 " steps, %.0f tokens/s\n", out, model_settings.config.position,
         alibi_model_parameter_count(model), t->steps, (double)t->tokens / t->seconds);
  if (!t->test.size) return;
  printf("perplexity %.2f", t->test.perplexity);
  if (!isnan(t->test.standard_error)) printf(" +- %.2f", t->test.standard_error);
  printf(" (%.3f bits a byte) on %" PRId64 " held-out tokens, sliding windows of %" PRId64 "\n",
         t->test.bits_per_byte, t->test.tokens, t->test.window);
}

/* Of the model and the training, together. */
static status check_settings(const training *t, alibi_error *error)
{
  const alibi_model_config *config = &model_settings.config;
  status result = alibi_model_config_check(config, error);
  if (result == ALIBI_OK) result = train_check_batch(&t->options, config->train_length, error);
  return option_sentence(result, config->position, error);
}

static status make_trainer(training *t, alibi_error *error)
{
  const alibi_model_config *config = &model_settings.config;
  if (!t->from)
    return alibi_trainer_new(t->context, config, &t->options, t->data.train, t->data.train_count, &t->trainer,
                             error);
  return alibi_trainer_new_from(t->context, t->from, config, &t->options, t->data.train, t->data.train_count,
                                &t->trainer, error);
}

static status train_run(command_line *line, alibi_error *error)
{
  static training t;
  status result;
  t = (training){.line = line, .options = model_settings.train};
  TRY(check_line(line, error));
  TRY(cli_context(&t.context, error));
  if (from_path) TRY(open_from(&t, error));
  else TRY(model_options_take_method(&model_settings, model_settings.config.position, error));
  TRY(model_options_check(line, &model_settings, is_used, error));
  TRY(check_settings(&t, error));
  if (!own.dry_run) TRY(try_writing(error));
  TRY(read_texts(&t, error));
  if (own.dry_run) {
    TRY(print_plan(&t, error));
    goto done;
  }
  TRY(make_trainer(&t, error));
  result = run_steps(&t, error);
  if (result == ALIBI_CANCELLED) result = keep_interrupted(&t, error);
  if (result != ALIBI_OK) goto done;
  TRY(write_model(&t, error));
  result = test_model(&t, error);
  if (result == ALIBI_CANCELLED)
    result = fail(error, ALIBI_CANCELLED, "interrupted while testing; the trained model is in %s", out);
  if (result != ALIBI_OK) goto done;
  print_result(&t);
done:
  alibi_trainer_free(t.trainer);
  alibi_model_free(t.from);
  free(t.from_tokenizer);
  dataset_free(&t.data);
  cli_context_free(t.context);
  return result;
}

const command command_train = {
    .name = "train",
    .summary = "Train one model on texts.",
    .operands = "TEXT...",
    .details = "DIR then holds config.json, model.safetensors, tokenizer.json, and train.json with every\n"
               "setting, the losses and the perplexity of the held-out text.  It changes only when the\n"
               "training is over.  Ctrl-C keeps the model as it stands, unless DIR holds one already.\n\n"
               "--from trains a finished model further, for example at a longer --train-length; its peak learning "
               "rate is "
               "then 0.0006 unless --learning-rate says another.",
    .options = train_add_options,
    .run = train_run,
};
