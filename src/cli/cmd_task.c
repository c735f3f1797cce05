/* alibi task: what models do with a long context, by tasks with an answer.  The tasks are those of the registry
 * (evaluate/tasks); a length that cannot be done is a row that says why, and the others go on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"
#include "cli/model_files.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/task_subject.h"
#include "report/path_names.h"
#include "report/task_report.h"

extern const command command_task;

enum { LONGEST = 1 << 30, DEFAULT_LENGTHS = 5, HELP_SIZE = 4096 };

typedef struct task_flags {
  int64_t trials, seed;
  bool json;
} task_flags;

#define AT(member) offsetof(task_flags, member)

static const field flag_fields[] = {
    {"trials", FIELD_INTEGER, AT(trials), 1, 1000000, 10, NULL, NULL,
     "prompts for each length and depth; of recall, multi-value and other tasks whose prompts have answers at "
     "many depths, for "
     "each length; windows of longppl"},
    {"seed", FIELD_INTEGER, AT(seed), 0, 9007199254740992.0, 1, NULL, NULL, "of everything that is drawn"},
    {"json", FIELD_BOOLEAN, AT(json), 0, 1, 0, NULL, NULL, "print JSON, with every digit"},
};

static task_flags flags;
static task_own_options own;
static task_wish wish;
static const char *length_list, *depth_list;
static char details[HELP_SIZE];

/* --help lists the registry. */
static void write_details(void)
{
  size_t used = (size_t)snprintf(details, sizeof details, "Tasks:\n");
  for (size_t i = 0; i < task_count() && used < sizeof details; i++)
    used += (size_t)snprintf(details + used, sizeof details - used, "  %-18s %s\n", task_at(i)->name,
                             task_at(i)->about);
  if (used < sizeof details)
    snprintf(
        details + used, sizeof details - used,
        "\nA prompt ends in its answer and has exactly as many tokens as were asked for. It counts as right where "
        "every "
        "token of the answer is the most probable one after those before it: what greedy decoding would write. "
        "docs/tasks.md has the tasks, the JSON and how to train models for recall.");
}

static void task_add_options(command_line *line)
{
  write_details();
  wish = (task_wish){0};
  length_list = NULL;
  depth_list = "0,0.25,0.5,0.75,1";
  command_add_text(
      line, "length", "LIST", &length_list,
      "tokens of a prompt with its answer, such as 1024,4096; without it 1, 2, 4, 8 and 16 times the length of "
      "the first model's training");
  command_add_text(line, "depth", "LIST", &depth_list,
                   "where in the context lies what is asked for, from 0, its beginning, to 1, its end");
  command_add_text(line, "text", "FILE", &wish.text, "the haystack, and whose words are used");
  command_add_text(line, "questions", "FILE", &wish.questions,
                   "choice: JSON lines, {\"context\": \"...\", \"choices\": [\"...\", \"...\"], \"answer\": 0}");
  command_add_text(line, "evaluator", "DIR", &wish.evaluator,
                   "longppl: the model that says which tokens are key; without it each model for itself");
  command_add_text(line, "out", "DIR", &wish.out,
                   "report.html, results.json, results.csv and the picture, task.svg and task.png");
  extend_option_add(line, &wish.extension);
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(flag_fields), &flags, "");
  task_options_add(line, false, &own);
}

/* ---- the wish ---- */

static status read_depths(alibi_error *error)
{
  const char *rest = depth_list, *item;
  size_t size;
  status result;
  TRY(list_check("--depth", depth_list, error));
  while (list_next(&rest, &item, &size)) {
    char text[LIST_ITEM_SIZE];
    double depth;
    size_t at = wish.settings.depth_count;
    TRY(list_item("--depth", item, size, text, error));
    if (!number_read(text, &depth) || !(depth >= 0 && depth <= 1))
      RAISE(error, ALIBI_INVALID, "--depth: expected numbers from 0 (the beginning) to 1 (the end), found '%s'",
            text);
    if (at > 0 && depth <= wish.depths[at - 1])
      RAISE(error, ALIBI_INVALID, "--depth: expected each to be above the one before it, found '%s' after %g",
            text, wish.depths[at - 1]);
    if (at == TASK_DEPTHS)
      RAISE(error, ALIBI_INVALID, "--depth: expected at most %d of them, found more", TASK_DEPTHS);
    wish.depths[wish.settings.depth_count++] = depth;
  }
done:
  return result;
}

/* An option that the task has no use for would pass for a setting. */
static status check_used(const command_line *line, alibi_error *error)
{
  unsigned needs = wish.task->needs;
  const struct {
    const void *value;
    const char *name;
    bool used;
  } uses[] = {{&length_list, "length", !wish.task->own_length},
              {&depth_list, "depth", wish.task->depths},
              {&wish.text, "text", (needs & (TASK_NEEDS_TEXT | TASK_TAKES_TEXT)) != 0},
              {&wish.questions, "questions", (needs & TASK_NEEDS_QUESTIONS) != 0},
              {&wish.evaluator, "evaluator", (needs & TASK_TAKES_EVALUATOR) != 0},
              {&flags, "trials", !wish.task->own_length}};
  for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
    if (!uses[i].used && command_line_given(line, uses[i].value, uses[i].name))
      return fail(error, ALIBI_INVALID, "--%s: means nothing to the task %s", uses[i].name, wish.task->name);
  const char *other = task_options_given(line, &own, wish.task);
  if (other) return fail(error, ALIBI_INVALID, "%s: a setting of another task than %s", other, wish.task->name);
  if ((needs & TASK_NEEDS_QUESTIONS) && !wish.questions)
    return fail(error, ALIBI_INVALID, "task %s: --questions FILE is missing", wish.task->name);
  if (task_needs_text(wish.task, task_options_of(&own, wish.task)) && !wish.text)
    return fail(error, ALIBI_INVALID, "task %s: --text FILE is missing", wish.task->name);
  return ALIBI_OK;
}

static status find_task(const char *name, alibi_error *error)
{
  nearest_name nearest = {.typed = name};
  wish.task = task_find(name);
  if (wish.task) return ALIBI_OK;
  for (size_t i = 0; i < task_count(); i++) nearest_consider(&nearest, task_at(i)->name);
  if (nearest.best[0])
    return fail(error, ALIBI_INVALID, "task: unknown task '%.100s'; did you mean %s?", name, nearest.best);
  char names[512];
  task_names(false, names, sizeof names);
  return fail(error, ALIBI_INVALID, "task: expected one of %s, found '%.100s'", names, name);
}

static status read_wish(const command_line *line, alibi_error *error)
{
  status result;
  if (line->operand_count == 0)
    RAISE(error, ALIBI_INVALID, "task: expected a task and models; alibi task --help lists the tasks");
  TRY(find_task(line->operands[0], error));
  if (line->operand_count == 1)
    RAISE(error, ALIBI_INVALID, "task %s: expected the directory of a model, found none", wish.task->name);
  wish.models = line->operands + 1;
  wish.model_count = line->operand_count - 1;
  for (size_t i = 0; i < wish.model_count; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp(wish.models[i], wish.models[j]) == 0)
        RAISE(error, ALIBI_INVALID, "task %s: the model %s stands there twice", wish.task->name, wish.models[i]);
  TRY(check_used(line, error));
  if (wish.task->depths) TRY(read_depths(error));
  if (length_list)
    TRY(list_lengths_from("--length", length_list, 2, LONGEST, wish.lengths, TASK_LENGTHS,
                          &wish.settings.length_count, error));
  wish.settings.lengths = wish.lengths;
  wish.settings.depths = wish.depths;
  wish.settings.trials = flags.trials;
  wish.settings.seed = (uint64_t)flags.seed;
  wish.settings.options = task_options_of(&own, wish.task);
done:
  return result;
}

/* ---- the work ---- */

typedef struct task_watch {
  char what[96];
  int item;
} task_watch;

static void on_progress(void *user, double done, double total)
{
  task_watch *w = user;
  if (w->item < 0) w->item = progress_begin(w->what, total, "tokens");
  progress_update(w->item, done, NULL);
}

static status describe(task_line *line, const task_subject *s, alibi_error *error)
{
  const alibi_model_config *config = alibi_model_get_config(s->model);
  extension_choice choice = model_config_extension(config);
  char text[EXTENSION_TEXT_SIZE];
  snprintf(line->position, sizeof line->position, "%s", config->position);
  line->train_length = config->train_length;
  line->parameters = alibi_model_parameter_count(s->model);
  line->vocabulary = config->vocabulary;
  line->tokenizer = s->tokenizer ? alibi_tokenizer_kind(s->tokenizer) : NULL;
  line->text_tokens = (int64_t)s->material.text_count;
  extension_text_write(&choice, text, sizeof text);
  if (text[0] && !(line->extension = strdup(text)))
    return fail(error, ALIBI_FAILED, "not enough memory for the results");
  return ALIBI_OK;
}

/* Why a row could not be done, as somebody reads it who typed options. */
static void say_options(task_result *found)
{
  for (size_t i = 0; i < found->count; i++) {
    alibi_error why = {0};
    snprintf(why.message, sizeof why.message, "%s", found->rows[i].why);
    task_options_say(wish.task, &why);
    snprintf(found->rows[i].why, sizeof found->rows[i].why, "%s", why.message);
  }
}

static status open_model(alibi_context *context, size_t index, task_report *report, task_subject *s,
                         alibi_error *error)
{
  task_line *line = &report->lines[report->count++];
  status result;
  line->path = wish.models[index];
  line->name = path_name(wish.models, wish.model_count, index, NULL);
  if (!line->name) RAISE(error, ALIBI_FAILED, "not enough memory for the results");
  TRY(task_subject_open(context, line->path, &wish, s, error));
  TRY(describe(line, s, error));
  if (wish.settings.length_count == 0 && !wish.task->own_length)
    for (int i = 0; i < DEFAULT_LENGTHS; i++) wish.lengths[wish.settings.length_count++] = line->train_length << i;
  report->text_bytes = (int64_t)s->text_bytes;
  if (s->extend && !report->extend)
    report->extend = wish.extension.extend ? wish.extension.extend : wish.extension.beyond;
  TRY(task_check(wish.task, &s->material, &wish.settings, error));
done:
  return result;
}

/* An extension that no model has is a slip; one that some have is rows that say so for the others. */
static status check_extension(const task_subject *subjects, alibi_error *error)
{
  for (size_t i = 0; i < wish.model_count; i++)
    if (!subjects[i].refused) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "%s", subjects[0].refused);
}

static status run_model(task_subject *s, task_line *line, alibi_error *error)
{
  task_settings settings = wish.settings;
  task_watch watch = {.item = -1};
  status result;
  if (s->refused) return task_refuse(wish.task, &settings, s->refused, &line->result, error);
  settings.extension = s->extend ? &s->choice : NULL;
  settings.progress = on_progress;
  settings.user = &watch;
  snprintf(watch.what, sizeof watch.what, "%s of %.60s", wish.task->name, line->name);
  result = task_run(s->model, wish.task, &s->material, &settings, &line->result, error);
  TRY(model_files_say(line->path, result, error));
  say_options(&line->result);
done:
  if (watch.item >= 0) progress_end(watch.item, NULL);
  return result;
}

/* What is wrong with one of them is said before the first runs. */
static status run_models(alibi_context *context, task_report *report, alibi_error *error)
{
  task_subject *subjects = NULL;
  status result;
  TRY(memory_new(&subjects, wish.model_count, sizeof *subjects, "the models", error));
  for (size_t i = 0; i < wish.model_count; i++) TRY(open_model(context, i, report, &subjects[i], error));
  TRY(check_extension(subjects, error));
  for (size_t i = 0; i < wish.model_count; i++) {
    TRY(run_model(&subjects[i], &report->lines[i], error));
    task_subject_close(&subjects[i]);
  }
done:
  for (size_t i = 0; subjects && i < wish.model_count; i++) task_subject_close(&subjects[i]);
  memory_free(subjects);
  return result;
}

/* Nothing at all could be done? */
static status check_any(const task_report *report, alibi_error *error)
{
  const char *why = "";
  for (size_t i = 0; i < report->count; i++)
    for (size_t k = 0; k < report->lines[i].result.count; k++) {
      why = report->lines[i].result.rows[k].why;
      if (!why[0]) return ALIBI_OK;
    }
  return fail(error, ALIBI_FAILED, "task %s: nothing could be done: %s", wish.task->name, why);
}

static status write_out(const task_report *report, alibi_error *error)
{
  bool drawn;
  json_node *root = task_node(report);
  char *path = path_join(wish.out, "results.json");
  status result;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_make(wish.out, error));
  TRY(node_write_file(root, path, error));
  TRY(task_write_csv(report, wish.out, error));
  TRY(task_write_pictures(report, wish.out, &drawn, error));
  TRY(task_write_html(report, wish.out, error));
  if (!cli_quiet())
    fprintf(stderr, "%s: report.html, results.json and results.csv%s\n", wish.out,
            drawn                     ? ", task.svg and task.png"
            : task_has_values(report) ? "; no picture: gnuplot is missing"
                                      : "; no picture: there is nothing to draw");
done:
  node_free(root);
  free(path);
  return result;
}

static status print(const task_report *report, alibi_error *error)
{
  json_node *root = flags.json ? task_node(report) : NULL;
  char *text = flags.json ? node_to_text(root) : task_table(report);
  node_free(root);
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the results");
  printf(flags.json ? "%s\n" : "%s", text);
  free(text);
  return ALIBI_OK;
}

static status task_run_command(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  task_report report = {.settings = &wish.settings};
  char machine[256], processor[128], *typed = NULL;
  double begun = system_seconds();
  status result;
  TRY(read_wish(line, error));
  report.task = wish.task;
  report.text = wish.text;
  report.questions = wish.questions;
  report.evaluator = wish.evaluator;
  typed = command_line_text(line, &command_task);
  report.command = typed;
  TRY(memory_new(&report.lines, wish.model_count, sizeof *report.lines, "the results", error));
  TRY(cli_context(&context, error));
  system_processor_name(processor, sizeof processor);
  snprintf(machine, sizeof machine, "%s, %d threads, %s", processor[0] ? processor : "unknown processor",
           alibi_context_threads(context), alibi_context_isa(context));
  report.machine = machine;
  TRY(run_models(context, &report, error));
  report.seconds = system_seconds() - begun;
  TRY(print(&report, error));
  if (wish.out) TRY(write_out(&report, error));
  TRY(check_any(&report, error));
done:
  for (size_t i = 0; i < report.count; i++) {
    free(report.lines[i].name);
    free(report.lines[i].extension);
    task_result_free(&report.lines[i].result);
  }
  memory_free(report.lines);
  free(typed);
  cli_context_free(context);
  return result;
}

const command command_task = {
    .name = "task",
    .summary = "Ask models for what lies far back: pass keys, needles, recall, copies, choices.",
    .operands = "TASK MODEL...",
    .details = details,
    .options = task_add_options,
    .run = task_run_command,
};
