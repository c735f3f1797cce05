/* alibi horizon: how far each head of a model reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/extend_option.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "report/horizon_report.h"

enum { TIMES = 64, DEFAULT_MOST = 8192, LONGEST = 1 << 30 };

typedef struct horizon_settings {
  int64_t length, windows, queries;
  double threshold;
  bool json;
} horizon_settings;

static const field horizon_fields[] = {
    {.name = "length",
     .kind = FIELD_INTEGER,
     .offset = offsetof(horizon_settings, length),
     .maximum = LONGEST,
     .help = "tokens that the model reads at once; 0: 64 times the length of its training, at most 8192 or that "
             "length, "
             "as far as the text and the positions go"},
    {.name = "windows",
     .kind = FIELD_INTEGER,
     .offset = offsetof(horizon_settings, windows),
     .minimum = 1,
     .maximum = 1 << 20,
     .initial = 8,
     .help = "such runs of tokens, spread over the text: as many as fit, at most"},
    {.name = "queries",
     .kind = FIELD_INTEGER,
     .offset = offsetof(horizon_settings, queries),
     .maximum = LONGEST,
     .initial = 128,
     .help = "tokens of a window whose attention is looked at, spread over its second half; 0: all of that half"},
    {.name = "threshold",
     .kind = FIELD_REAL,
     .offset = offsetof(horizon_settings, threshold),
     .minimum = 1e-300,
     .maximum = 0.5,
     .initial = 0x1p-24,
     .initial_text = "2^-24",
     .help =
         "what keys beyond the horizon may weigh together, of what the query's own key weighs; 2^-24 is lost in "
         "the rounding of fp32"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(horizon_settings, json),
     .maximum = 1,
     .help = "print JSON, with every digit"},
};

static horizon_settings options;
static extend_option extension;
static const char *text_path, *out;

static void horizon_add_options(command_line *line)
{
  text_path = out = NULL;
  command_add_text(line, "text", "FILE", &text_path,
                   "a text to read; without one only what follows from the parameters is told");
  command_add_text(line, "out", "DIR", &out,
                   "report.html, results.json, results.csv and the picture, horizon.svg and horizon.png");
  extend_option_add(line, &extension);
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(horizon_fields), &options, "");
}

typedef struct look {
  alibi_context *context;
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  const char *extend;
  extension_choice choice;
  uint32_t *tokens;
  size_t count, bytes, length;
  int item; /* of the progress */
} look;

static status read_text(look *l, const char *directory, alibi_error *error)
{
  mapped_file file = {0};
  status result;
  TRY(model_files_open_tokenizer(directory, l->model, true, &l->tokenizer, error));
  TRY(mapped_file_open(text_path, &file, error));
  l->bytes = file.size;
  TRY(model_files_encode(l->tokenizer, NULL, file.data, file.size, &l->tokens, &l->count, error));
  if (l->count < 2)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected at least 2 tokens of text, found %zu", text_path, l->count);
done:
  if (file.data) mapped_file_close(&file);
  return result;
}

/* As long as the text and the positions allow, unless it was asked for. */
static status choose_length(look *l, alibi_error *error)
{
  const alibi_model_config *c = alibi_model_get_config(l->model);
  if (options.length > 0) {
    l->length = (size_t)options.length;
    if (text_path && l->count < l->length)
      return fail(error, ALIBI_BAD_INPUT, "%s: expected at least the %zu tokens of --length, found %zu", text_path,
                  l->length, l->count);
    return ALIBI_OK;
  }
  position_shape shape = model_config_position_shape(c);
  const position_extension *own = l->choice.extension ? l->choice.extension : model_config_extension(c).extension;
  size_t limit = position_method_limit(model_config_method(c), &shape, c->position_options.bytes, own);
  size_t most = c->train_length > DEFAULT_MOST ? (size_t)c->train_length : DEFAULT_MOST;
  l->length = TIMES * (size_t)c->train_length;
  if (l->length > most) l->length = most;
  if (l->length > limit) l->length = limit;
  if (text_path && l->length > l->count) l->length = l->count;
  return ALIBI_OK;
}

static void show_progress(void *user, size_t done, size_t total)
{
  look *l = user;
  if (l->item < 0) l->item = progress_begin("reading", (double)total, "layers");
  progress_update(l->item, (double)done, NULL);
}

static status measure(look *l, horizon *h, alibi_error *error)
{
  horizon_options o = {.length = l->length,
                       .windows = (size_t)options.windows,
                       .rows = (size_t)options.queries,
                       .threshold = options.threshold,
                       .extension = l->choice.extension,
                       .extension_options = l->choice.options.bytes};
  l->item = -1;
  status result = horizon_measure(l->model, l->tokens, l->count, &o, show_progress, l, h, error);
  if (l->item >= 0) progress_end(l->item, NULL);
  progress_clear();
  if (result == ALIBI_INVALID) field_say_option((field_table)FIELD_TABLE(horizon_fields), "", error);
  return result;
}

/* Takes the text over. */
static status print(char *text, alibi_error *error)
{
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the text");
  fputs(text, stdout);
  free(text);
  return ALIBI_OK;
}

static status print_text(const horizon_report *r, alibi_error *error)
{
  status result;
  printf("%s: %s%s%s, trained at %" PRId64, r->model, r->config->position, r->extension ? " with " : "",
         r->extension ? r->extension : "", r->config->train_length);
  if (r->text)
    printf("; %s: %zu queries in %zu window%s of %zu tokens", r->text, r->h->rows, r->h->windows,
           r->h->windows == 1 ? "" : "s", r->h->length);
  printf("\n\n");
  TRY(print(horizon_table(r), error));
  printf("\n");
  TRY(print(horizon_bars(r, terminal_columns(stdout, 100), terminal_utf8()), error));
  printf("\n");
  TRY(print(horizon_sentence(r), error));
  printf("\n");
done:
  return result;
}

static status print_json(const horizon_report *r, alibi_error *error)
{
  json_node *root = horizon_node(r);
  status result = print(node_to_text(root), error);
  if (result == ALIBI_OK) printf("\n");
  node_free(root);
  return result;
}

static status write_files(const horizon_report *r, alibi_error *error)
{
  json_node *root = horizon_node(r);
  char *path = path_join(out, "results.json");
  bool drawn;
  status result;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_make(out, error));
  TRY(node_write_file(root, path, error));
  TRY(horizon_write_csv(r, out, error));
  TRY(horizon_write_pictures(r, out, &drawn, error));
  if (!drawn) progress_note("gnuplot was not found: %s/report.html shows bars of characters", out);
  TRY(horizon_write_html(r, out, error));
  if (!options.json) printf("\n%s/report.html shows the same as a page.\n", out);
done:
  node_free(root);
  free(path);
  return result;
}

extern const command command_horizon;

static status horizon_run(command_line *line, alibi_error *error)
{
  look l = {0};
  horizon h = {0};
  char *typed = NULL;
  status result;
  double start = system_seconds();
  if (line->operand_count == 0)
    RAISE(error, ALIBI_INVALID, "horizon: expected the directory of a model, found none");
  if (line->operand_count > 1)
    RAISE(error, ALIBI_INVALID, "horizon: expected one directory, found '%s' too", line->operands[1]);
  static const char *const of_text[] = {"windows", "queries"};
  for (size_t i = 0; i < 2 && !text_path; i++)
    if (command_line_given(line, &options, of_text[i]))
      RAISE(error, ALIBI_INVALID, "--%s: means nothing without --text", of_text[i]);
  TRY(cli_context(&l.context, error));
  TRY(model_files_open(l.context, line->operands[0], &l.model, error));
  const alibi_model_config *config = alibi_model_get_config(l.model);
  TRY(extend_option_read(&extension, config, &l.extend, error));
  if (l.extend) TRY(model_config_read_extension(config, "--extend", l.extend, &l.choice, error));
  if (text_path) TRY(read_text(&l, line->operands[0], error));
  TRY(choose_length(&l, error));
  TRY(model_files_say(line->operands[0], measure(&l, &h, error), error));
  typed = command_line_text(line, &command_horizon);
  horizon_report r = {.h = &h,
                      .model = line->operands[0],
                      .config = config,
                      .extension = l.extend               ? l.extend
                                   : config->extension[0] ? config->extension
                                                          : NULL,
                      .text = text_path,
                      .text_bytes = (int64_t)l.bytes,
                      .text_tokens = (int64_t)l.count,
                      .tolerance = l.context->tolerance,
                      .seconds = system_seconds() - start,
                      .command = typed};
  if (options.json) TRY(print_json(&r, error));
  else TRY(print_text(&r, error));
  if (out) TRY(write_files(&r, error));
done:
  free(typed);
  horizon_free(&h);
  alibi_tokens_free(l.tokens);
  alibi_tokenizer_free(l.tokenizer);
  alibi_model_free(l.model);
  cli_context_free(l.context);
  return result;
}

const command command_horizon = {
    .name = "horizon",
    .summary = "How far each head of a model reads, by proof and on a text.",
    .operands = "MODEL",
    .details = "A head's horizon is proven: all keys that far back or farther weigh nothing, together. For any\n"
               "text it follows from the parameters; with these norms it holds for texts whose queries and keys\n"
               "are no longer than on --text; with these scores, where none rises higher above that of the\n"
               "query's own key than there. 50, 90 and 99 % are distances within which that share of the\n"
               "attention lies, 0 being the token itself. Blocks are those of 64 keys that attention visits, of\n"
               "all up to the query's own.",
    .options = horizon_add_options,
    .run = horizon_run,
};
