/* alibi eval: a model's perplexity on a text, at one length after another.  A length that cannot be done is a row
 * that says why; the others go on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/extend_option.h"
#include "cli/run.h"
#include "file/json.h"
#include "text/tokenizer.h"

enum { MAX_LENGTHS = 64, DEFAULT_LENGTHS = 5, LONGEST = 1 << 30 };

typedef struct eval_options {
  int64_t stride, max_targets;
  bool json;
} eval_options;

static const field eval_fields[] = {
    {.name = "stride",
     .kind = FIELD_INTEGER,
     .offset = offsetof(eval_options, stride),
     .maximum = 1 << 30,
     .help = "sliding: tokens from one window to the next; 0: a quarter of the length"},
    {.name = "max_targets",
     .kind = FIELD_INTEGER,
     .offset = offsetof(eval_options, max_targets),
     .maximum = 9007199254740992.0,
     .initial = 8192,
     .help = "tokens scored at each length, or as many as the longest one; 0: all of the text"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, json),
     .maximum = 1,
     .help = "print JSON, with every digit"},
};

static eval_options options;
static extend_option extension;
static const char *text_path, *protocol_list, *length_list;
static const char *extend; /* what --extend and --beyond come to */

static void eval_add_options(command_line *line)
{
  text_path = length_list = NULL;
  protocol_list = "sliding,fixed-target";
  command_add_text(line, "text", "FILE", &text_path, "the text to predict");
  command_add_text(line, "protocol", "LIST", &protocol_list, "nonoverlapping, sliding, fixed-target, or all");
  command_add_text(
      line, "length", "LIST", &length_list,
      "tokens that the model reads at once, such as 64,128,256; without it 1, 2, 4, 8 and 16 times the "
      "length of its training");
  extend_option_add(line, &extension);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(eval_fields), &options, "");
}

/* What is evaluated, and how. */
typedef struct evaluation {
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  uint32_t *tokens, *token_bytes;
  size_t count, text_bytes;
  bool protocols[ALIBI_PROTOCOL_COUNT];
  int64_t lengths[MAX_LENGTHS];
  size_t length_count;
  int64_t shortest, longest; /* of the lengths; the longest that the text has room for */
  json_node *rows;           /* NULL: a table */
  size_t done, failed;
  alibi_error last; /* why a row failed */
} evaluation;

static status read_protocols(evaluation *e, alibi_error *error)
{
  const char *rest = protocol_list, *item;
  size_t size;
  status result = list_check("--protocol", protocol_list, error);
  if (result != ALIBI_OK) return result;
  while (list_next(&rest, &item, &size)) {
    bool known = false, all = size == 3 && memcmp(item, "all", 3) == 0;
    for (int p = 0; p < ALIBI_PROTOCOL_COUNT; p++) {
      const char *name = alibi_protocol_name(p);
      if (!all && (size != strlen(name) || memcmp(item, name, size) != 0)) continue;
      if (e->protocols[p])
        return fail(error, ALIBI_INVALID, "--protocol: '%s' is asked for twice in '%.200s'", name, protocol_list);
      known = e->protocols[p] = true;
    }
    if (!known)
      return fail(error, ALIBI_INVALID,
                  "--protocol: expected names from nonoverlapping, sliding, fixed-target, or all, found '%.*s'",
                  (int)size, item);
  }
  return ALIBI_OK;
}

static status open_model(evaluation *e, alibi_context *context, const char *directory, alibi_error *error)
{
  char *path = NULL;
  status result;
  TRY(alibi_model_open(context, directory, &e->model, error));
  path = path_join(directory, "tokenizer.json");
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
  TRY(alibi_tokenizer_open(path, &e->tokenizer, error));
  uint32_t vocabulary = alibi_tokenizer_vocabulary(e->tokenizer);
  int64_t expected = alibi_model_get_config(e->model)->vocabulary;
  if (vocabulary != expected)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the vocabulary of the model, %" PRId64 " tokens, found %" PRIu32,
          path, expected, vocabulary);
  TRY(tokenizer_token_bytes(e->tokenizer, &e->token_bytes, error));
done:
  free(path);
  return result;
}

static status read_text(evaluation *e, alibi_error *error)
{
  mapped_file file = {0};
  status result;
  TRY(mapped_file_open(text_path, &file, error));
  e->text_bytes = file.size;
  TRY(alibi_tokenizer_encode(e->tokenizer, file.data, file.size, &e->tokens, &e->count, error));
  if (e->count < 2)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected at least 2 tokens of text, found %zu", text_path, e->count);
done:
  if (file.data) mapped_file_close(&file);
  return result;
}

/* All lengths are scored on the same text, and the longest one that fits decides on which. */
static void choose_lengths(evaluation *e)
{
  int64_t trained = alibi_model_get_config(e->model)->train_length;
  for (int i = 0; i < DEFAULT_LENGTHS && !length_list; i++) e->lengths[e->length_count++] = trained << i;
  e->shortest = e->lengths[0];
  for (size_t i = 0; i < e->length_count; i++) {
    if (e->lengths[i] < e->shortest) e->shortest = e->lengths[i];
    if (e->lengths[i] > e->longest && (uint64_t)e->lengths[i] < e->count) e->longest = e->lengths[i];
  }
}

/* --- output --- */

/* "yarn:factor=4", which the model always runs with; "" for none. */
static const char *own_extension(const alibi_model_config *config)
{
  static char text[EXTENSION_TEXT_SIZE];
  extension_choice own = model_config_extension(config);
  extension_text_write(&own, text, sizeof text);
  return text;
}

/* Five digits of `value`; as many decimals for others beside it. */
static int decimals_of(double value)
{
  return value < 10 ? 4 : value < 100 ? 3 : value < 1000 ? 2 : value < 10000 ? 1 : 0;
}

static void format_number(double value, int decimals, char *text, size_t size)
{
  if (!isfinite(value)) snprintf(text, size, "-");
  else if (value >= 1e7) snprintf(text, size, "%.4e", value);
  else snprintf(text, size, "%.*f", decimals, value);
}

static double speed(const alibi_evaluate_result *r)
{
  return r->seconds > 0 ? (double)r->input_tokens / r->seconds : NAN;
}

static void print_heading(const evaluation *e, int protocol)
{
  printf("%s%s", e->done + e->failed > 0 ? "\n" : "", alibi_protocol_name(protocol));
  if (protocol == ALIBI_SLIDING && options.stride) printf(", stride %" PRId64, options.stride);
  else if (protocol == ALIBI_SLIDING) printf(", stride a quarter of the length");
  if (extend) printf(", positions by %s", extend);
  printf("\n%8s %12s %10s %10s %8s %10s\n", "length", "perplexity", "+-", "bits/byte", "tokens", "tokens/s");
}

static void print_row(int64_t length, const alibi_evaluate_result *r, const char *why)
{
  char perplexity[32], error[32], bits[32], rate[32];
  if (why) {
    printf("%8" PRId64 "  %s\n", length, why);
  } else {
    int decimals = decimals_of(r->perplexity);
    format_number(r->perplexity, decimals, perplexity, sizeof perplexity);
    format_number(r->standard_error, decimals, error, sizeof error);
    format_number(r->bits_per_byte, decimals_of(r->bits_per_byte), bits, sizeof bits);
    snprintf(rate, sizeof rate, "%.0f", speed(r));
    printf("%8" PRId64 " %12s %10s %10s %8" PRId64 " %10s\n", length, perplexity, error, bits, r->tokens, rate);
  }
  fflush(stdout);
}

static void append_row(json_node *rows, int protocol, int64_t length, const alibi_evaluate_result *r,
                       const char *why)
{
  json_node *row = node_new_object();
  node_set_text(row, "protocol", alibi_protocol_name(protocol));
  node_set_text(row, "extend", extend);
  node_set_integer(row, "length", length);
  if (why) {
    node_set_text(row, "error", why);
  } else {
    node_set_integer(row, protocol == ALIBI_FIXED_TARGET ? "targets_per_window" : "stride", r->stride);
    node_set_number(row, "perplexity", r->perplexity);
    node_set_number(row, "bits_per_byte", r->bits_per_byte);
    node_set_number(row, "standard_error", r->standard_error);
    node_set_integer(row, "tokens", r->tokens);
    node_set_integer(row, "bytes", r->bytes);
    node_set_number(row, "nll", r->nll);
    node_set_number(row, "nll_standard_error", r->nll_standard_error);
    node_set_number(row, "seconds", r->seconds);
    node_set_number(row, "tokens_per_second", speed(r));
  }
  node_append(rows, row);
}

static status print_json(evaluation *e, const char *directory, alibi_context *context, alibi_error *error)
{
  const alibi_model_config *config = alibi_model_get_config(e->model);
  json_node *root = node_new_object();
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "model", directory);
  node_set_text(root, "position", config->position);
  node_set_text(root, "extension", config->extension[0] ? own_extension(config) : NULL);
  node_set_integer(root, "train_length", config->train_length);
  node_set_integer(root, "parameters", alibi_model_parameter_count(e->model));
  node_set_text(root, "tokenizer", alibi_tokenizer_kind(e->tokenizer));
  node_set_integer(root, "vocabulary", config->vocabulary);
  node_set_text(root, "text", text_path);
  node_set_integer(root, "text_bytes", (int64_t)e->text_bytes);
  node_set_integer(root, "text_tokens", (int64_t)e->count);
  node_set_integer(root, "max_targets", options.max_targets);
  node_set_integer(root, "threads", alibi_context_threads(context));
  node_set_text(root, "instruction_set", alibi_context_isa(context));
  node_set(root, "curves", e->rows);
  e->rows = NULL;
  char *text = node_to_text(root);
  if (text) printf("%s\n", text);
  bool written = text != NULL;
  free(text);
  node_free(root);
  return written ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the JSON text");
}

/* --- the work --- */

static status run_row(evaluation *e, int protocol, int64_t length, alibi_error *error)
{
  alibi_evaluate_options o;
  alibi_evaluate_result r;
  alibi_evaluate_options_init(&o);
  o.protocol = protocol;
  o.window = length;
  o.stride = options.stride;
  o.shortest = e->shortest;
  o.longest = e->longest;
  o.max_targets = options.max_targets;
  o.extend = extend;
  alibi_error why = {0};
  status result = alibi_evaluate(e->model, e->tokens, e->count, e->token_bytes, &o, &r, &why);
  if (result == ALIBI_INVALID) field_say_option((field_table)FIELD_TABLE(eval_fields), "", &why);
  if (result == ALIBI_CANCELLED) return fail(error, result, "%s", why.message);
  const char *reason = result == ALIBI_OK ? NULL : why.message;
  if (e->rows) append_row(e->rows, protocol, length, &r, reason);
  else print_row(length, &r, reason);
  if (reason) e->failed++, e->last = why;
  else e->done++;
  return ALIBI_OK;
}

static status run_all(evaluation *e, const char *directory, alibi_context *context, alibi_error *error)
{
  status result = ALIBI_OK;
  const alibi_model_config *config = alibi_model_get_config(e->model);
  if (options.json) e->rows = node_new_array();
  else
    printf("%s: %s%s%s, trained at %" PRId64 "; %s: %zu tokens in %zu bytes\n\n", directory, config->position,
           config->extension[0] ? " with " : "", own_extension(config), config->train_length, text_path, e->count,
           e->text_bytes);
  for (int p = 0; p < ALIBI_PROTOCOL_COUNT; p++) {
    if (!e->protocols[p]) continue;
    if (!e->rows) print_heading(e, p);
    for (size_t i = 0; i < e->length_count; i++) TRY(run_row(e, p, e->lengths[i], error));
  }
  if (e->rows) TRY(print_json(e, directory, context, error));
  if (e->longest == 0)
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: no length could be evaluated: %zu tokens of text have room for --length %zu at most", text_path,
          e->count, e->count - 1);
  if (e->done == 0) RAISE(error, ALIBI_FAILED, "no length could be evaluated: %s", e->last.message);
done:
  return result;
}

static status eval_run(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  evaluation e = {0};
  status result;
  if (line->operand_count == 0) RAISE(error, ALIBI_INVALID, "eval: expected the directory of a model, found none");
  if (line->operand_count > 1)
    RAISE(error, ALIBI_INVALID, "eval: expected one directory, found '%s' too", line->operands[1]);
  if (!text_path) RAISE(error, ALIBI_INVALID, "eval: --text FILE is missing");
  TRY(read_protocols(&e, error));
  if (length_list)
    TRY(list_lengths("--length", length_list, LONGEST, e.lengths, MAX_LENGTHS, &e.length_count, error));
  TRY(cli_context(&context, error));
  TRY(open_model(&e, context, line->operands[0], error));
  TRY(extend_option_read(&extension, alibi_model_get_config(e.model), &extend, error));
  TRY(read_text(&e, error));
  choose_lengths(&e);
  TRY(run_all(&e, line->operands[0], context, error));
done:
  node_free(e.rows);
  alibi_tokens_free(e.tokens);
  memory_free(e.token_bytes);
  alibi_tokenizer_free(e.tokenizer);
  alibi_model_free(e.model);
  cli_context_free(context);
  return result;
}

const command command_eval = {
    .name = "eval",
    .summary = "Measure a model's perplexity on a text, at its training length and beyond.",
    .operands = "MODEL_DIR",
    .details = "nonoverlapping cuts the text into windows. sliding advances a window by the stride and scores\n"
               "its last tokens, so that each has nearly a whole window before it. fixed-target scores the same\n"
               "tokens at every length, each with exactly that many tokens to read: the fairest comparison.\n\n"
               "MODEL_DIR holds config.json, model.safetensors and tokenizer.json. perplexity is per token,\n"
               "+- its standard error; tokens are those that were scored, tokens/s those that were read.",
    .options = eval_add_options,
    .run = eval_run,
};
