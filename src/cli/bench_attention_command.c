/* The options of `alibi bench attention`, checked, and a run of it.  What is finished when the user interrupts is
 * written all the same. */
#include "cli/bench_attention_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "base/context.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"
#include "bench/bench_attention.h"
#include "cli/bench_attention_report.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"

typedef struct attention_options {
  int64_t heads, kv_heads, head_size, repeats;
  double score;
} attention_options;

static const field attention_fields[] = {
    {.name = "heads",
     .kind = FIELD_INTEGER,
     .offset = offsetof(attention_options, heads),
     .minimum = 1,
     .maximum = 1024,
     .initial = 8,
     .help = "query heads"},
    {.name = "kv_heads",
     .kind = FIELD_INTEGER,
     .offset = offsetof(attention_options, kv_heads),
     .maximum = 1024,
     .help = "key-value heads; 0: as many as query heads"},
    {.name = "head_size",
     .kind = FIELD_INTEGER,
     .offset = offsetof(attention_options, head_size),
     .minimum = 1,
     .maximum = 256,
     .initial = 64,
     .help = "channels of a head"},
    {.name = "score",
     .kind = FIELD_REAL,
     .offset = offsetof(attention_options, score),
     .minimum = 1e-6,
     .maximum = 1e4,
     .initial = 10,
     .help = "scales random queries and keys: largest |q| times largest |k| times 1/sqrt(head size)"},
    {.name = "repeats",
     .kind = FIELD_INTEGER,
     .offset = offsetof(attention_options, repeats),
     .maximum = BENCH_MAX_REPEATS,
     .help = "timed runs of a row; 0: 9, fewer where a run takes long"},
};

static attention_options options;
enum { LONGEST = 1 << 24 };

static const char *length_list, *pass_list, *tolerance_list, *method_list, *csv_path, *picture_path, *model_path,
    *text_path;

void bench_attention_add_options(command_line *line)
{
  length_list = "4096,16384";
  pass_list = "forward,backward,decode";
  tolerance_list = "0,5.9604644775390625e-8";
  method_list = "alibi";
  csv_path = picture_path = model_path = text_path = NULL;
  command_add_text(line, "lengths", "LIST", &length_list, "attention: tokens");
  command_add_text(line, "passes", "LIST", &pass_list, "attention: of forward, backward, decode");
  command_add_text(line, "tolerance", "LIST", &tolerance_list,
                   "attention: 0 visits every key; the other default is 2^-24");
  command_add_text(line, "method", "LIST", &method_list,
                   "attention: of alibi, none, power (a table of distances), factor (with factors), key (gates)");
  command_add_text(line, "model", "DIR", &model_path,
                   "attention: queries, keys and values of this model's layers, which reads --text");
  command_add_text(line, "text", "FILE", &text_path, "attention: for --model");
  command_add_text(line, "csv", "FILE", &csv_path, "attention: the rows, with every digit");
  command_add_text(line, "plot", "FILE.png", &picture_path,
                   "attention: a picture, by gnuplot; its script and data are written beside it");
  command_add_group(line, "bench attention", (field_table)FIELD_TABLE(attention_fields), &options, "");
}

/* --- lists --- */

status bench_attention_tolerances(const char *list, size_t most, double *tolerances, size_t *count,
                                  alibi_error *error)
{
  static const field tolerance = {.name = "tolerance", .kind = FIELD_REAL, .maximum = 0.999};
  char number[LIST_ITEM_SIZE];
  const char *item;
  size_t size;
  status result;
  *count = 0;
  TRY(list_check("--tolerance", list, error));
  for (const char *rest = list; list_next(&rest, &item, &size);) {
    double value;
    TRY(list_item("--tolerance", item, size, number, error));
    TRY(field_set_text(&tolerance, &value, "--tolerance", number, error));
    if (*count == most) RAISE(error, ALIBI_INVALID, "--tolerance: expected at most %zu, found more", most);
    for (size_t i = 0; i < *count; i++)
      if (tolerances[i] == value) RAISE(error, ALIBI_INVALID, "--tolerance: %s stands there twice", number);
    tolerances[(*count)++] = value;
  }
done:
  return result;
}

static status read_names(const char *option, const char *list, const char *const *names, int count, bool *chosen,
                         alibi_error *error)
{
  char name[LIST_ITEM_SIZE], all[128] = "";
  const char *item;
  size_t size;
  status result;
  for (int i = 0; i < count; i++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", names[i]);
  TRY(list_check(option, list, error));
  while (list_next(&list, &item, &size)) {
    int i = 0;
    TRY(list_item(option, item, size, name, error));
    while (i < count && strcmp(name, names[i]) != 0) i++;
    if (i == count) RAISE(error, ALIBI_INVALID, "%s: expected names from %s, found '%s'", option, all, name);
    if (chosen[i]) RAISE(error, ALIBI_INVALID, "%s: '%s' stands there twice", option, name);
    chosen[i] = true;
  }
done:
  return result;
}

/* What random inputs need is the model's to say. */
static status check_model_options(const command_line *line, alibi_error *error)
{
  static const struct {
    const void *values;
    const char *name, *option;
  } set[] = {{&options, "heads", "--heads"},
             {&options, "kv_heads", "--kv-heads"},
             {&options, "head_size", "--head-size"},
             {&options, "score", "--score"},
             {&method_list, "method", "--method"}};
  if (text_path && !model_path)
    return fail(error, ALIBI_INVALID, "--text: is read by a model, but --model is missing");
  if (!model_path) return ALIBI_OK;
  if (!text_path) return fail(error, ALIBI_INVALID, "--model: needs --text FILE, which it reads");
  for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
    if (command_line_given(line, set[i].values, set[i].name))
      return fail(error, ALIBI_INVALID, "%s: with --model it is the model that says it", set[i].option);
  return ALIBI_OK;
}

/* A folder that cannot be written to is said before the work, not after it. */
static status check_writable(const char *path, alibi_error *error)
{
  replace_file file;
  if (!path) return ALIBI_OK;
  status result = replace_begin(path, &file, error);
  if (result == ALIBI_OK) replace_abandon(&file);
  return result;
}

static status read_options(const command_line *line, bench_attention_options *o, alibi_error *error)
{
  status result;
  TRY(check_model_options(line, error));
  TRY(list_lengths("--lengths", length_list, LONGEST, o->lengths, BENCH_MAX_LENGTHS, &o->length_count, error));
  TRY(bench_attention_tolerances(tolerance_list, BENCH_MAX_TOLERANCES, o->tolerances, &o->tolerance_count, error));
  TRY(read_names("--passes", pass_list, bench_pass_names, BENCH_PASSES, o->passes, error));
  TRY(read_names("--method", method_list, bench_method_names, BENCH_METHODS, o->methods, error));
  if (options.kv_heads > 0 && options.heads % options.kv_heads != 0)
    RAISE(error, ALIBI_INVALID, "--kv-heads: expected a divisor of the %" PRId64 " heads, found %" PRId64,
          options.heads, options.kv_heads);
  size_t size = picture_path ? strlen(picture_path) : 0;
  if (picture_path && (size < 5 || strcmp(picture_path + size - 4, ".png") != 0 || picture_path[size - 5] == '/'))
    RAISE(error, ALIBI_INVALID, "--plot: expected a name that ends in .png, found '%s'", picture_path);
  TRY(check_writable(csv_path, error));
  TRY(check_writable(picture_path, error));
  o->heads = options.heads;
  o->kv_heads = options.kv_heads;
  o->head_size = options.head_size;
  o->score = options.score;
  o->repeats = options.repeats;
done:
  return result;
}

/* --- a model and its text --- */

typedef struct model_input {
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  uint32_t *tokens;
  size_t count;
} model_input;

static status open_model(alibi_context *context, model_input *in, alibi_error *error)
{
  status result;
  mapped_file file = {0};
  TRY(alibi_model_open(context, model_path, &in->model, error));
  TRY(model_files_open_tokenizer(model_path, in->model, true, &in->tokenizer, error));
  TRY(mapped_file_open(text_path, &file, error));
  TRY(model_files_encode(in->tokenizer, NULL, file.data, file.size, &in->tokens, &in->count, error));
done:
  if (file.data) mapped_file_close(&file);
  return result;
}

static status take_model(alibi_context *context, model_input *in, bench_attention_options *o, alibi_error *error)
{
  status result = ALIBI_OK;
  if (!model_path) return ALIBI_OK;
  TRY(open_model(context, in, error));
  for (size_t i = 0; i < o->length_count; i++)
    if ((uint64_t)o->lengths[i] > in->count)
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected %" PRId64 " tokens of text for --lengths, found %zu", text_path,
            o->lengths[i], in->count);
  o->model = in->model;
  o->tokens = in->tokens;
  o->token_count = in->count;
done:
  return result;
}

static void close_model(model_input *in)
{
  alibi_tokens_free(in->tokens);
  alibi_tokenizer_free(in->tokenizer);
  alibi_model_free(in->model);
}

/* --- the run --- */

static void on_progress(void *user, const char *what, size_t done, size_t total)
{
  static int item = -1;
  (void)user;
  if (item < 0) item = progress_begin(what, (double)total, "runs");
  progress_update(item, (double)done, NULL);
  if (done < total) return;
  progress_end(item, NULL);
  item = -1;
}

static bool threads_given(const command_line *line)
{
  for (int i = 0; i < line->argument_count; i++)
    if (strncmp(line->arguments[i], "--threads", strlen("--threads")) == 0) return true;
  return false;
}

bench_attention_shared bench_attention_shared_options(const command_line *line)
{
  bool heads = command_line_given(line, &options, "heads"),
       tolerance = command_line_given(line, &tolerance_list, "tolerance");
  return (bench_attention_shared){.heads = heads ? options.heads : 0,
                                  .repeats = options.repeats,
                                  .threads = cli_threads(),
                                  .model = model_path,
                                  .tolerances = tolerance ? tolerance_list : NULL};
}

static status write_files(const attention_rows_report *report, alibi_error *error)
{
  status result = ALIBI_OK;
  if (csv_path) TRY(attention_report_csv(report, csv_path, error));
  if (picture_path) TRY(attention_report_picture(report, picture_path, error));
done:
  return result;
}

status bench_attention_command(const command_line *line, bool json, alibi_error *error)
{
  status result;
  alibi_context *context = NULL;
  bench_attention_options o = {0};
  model_input input = {0};
  attention_rows_report report = {.json = json};
  bench_attention_output output = {.row = attention_report_row, .progress = on_progress, .user = &report};
  TRY(read_options(line, &o, error));
  TRY(cli_context(&context, error));
  if (!threads_given(line)) context->threads = 1; /* `bench` is about one core, unless told otherwise */
  TRY(take_model(context, &input, &o, error));
  status measured = bench_attention(context, &o, &output, error);
  progress_clear();
  if (measured != ALIBI_OK && measured != ALIBI_CANCELLED) {
    result = measured;
    goto done;
  }
  attention_report_facts facts = {.isa = alibi_context_isa(context),
                                  .model = model_path,
                                  .text = text_path,
                                  .threads = context->threads,
                                  .complete = measured == ALIBI_OK};
  alibi_error *why = measured == ALIBI_OK ? error : NULL; /* an interruption is said first */
  TRY(attention_report_end(&report, &facts, why));
  TRY(write_files(&report, why));
  result = measured;
done:
  attention_report_free(&report);
  close_model(&input);
  cli_context_free(context);
  return result;
}
