/* The command line of `alibi eval`.  What is wrong with it is said before a file is opened. */
#include "cli/eval_request.h"

#include <inttypes.h>
#include <string.h>

#include "base/number.h"
#include "cli/extend_option.h"
#include "cli/model_files.h"
#include "report/evaluation_tokens.h"

enum { LONGEST = 1 << 30 };

static const field eval_fields[] = {
    {.name = "stride",
     .kind = FIELD_INTEGER,
     .offset = offsetof(eval_options, stride),
     .minimum = 1,
     .maximum = LONGEST,
     .initial_text = "a quarter of the length",
     .help = "sliding and streaming: tokens from one window to the next"},
    {.name = "max_targets",
     .kind = FIELD_INTEGER,
     .offset = offsetof(eval_options, max_targets),
     .maximum = 9007199254740992.0,
     .initial = 8192,
     .help = "tokens scored at each length, or as many as the longest one; 0: all of the text"},
    {.name = "early",
     .kind = FIELD_INTEGER,
     .offset = offsetof(eval_options, early),
     .minimum = 1,
     .maximum = LONGEST,
     .initial_text = "64, or a quarter of the trained length where that is less",
     .help = "tokens predicted from fewer inputs than this are told apart"},
    {.name = "documents",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, documents),
     .maximum = 1,
     .help = "a row for every text too"},
    {.name = "words",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, words),
     .maximum = 1,
     .help = "perplexity per word too: of words between white space"},
    {.name = "per_position",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, per_position),
     .maximum = 1,
     .help = "loss against the place in the window (nonoverlapping)"},
    {.name = "fail_above",
     .kind = FIELD_REAL,
     .offset = offsetof(eval_options, fail_above),
     .minimum = 1,
     .maximum = 1e300,
     .initial_text = "never",
     .help = "exit code 1 where a row's perplexity is above this"},
    {.name = "resume",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, resume),
     .maximum = 1,
     .help = "go on with the same evaluation in --out, which was interrupted"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(eval_options, json),
     .maximum = 1,
     .help = "print JSON, with every digit (docs/evaluation.md)"},
};

void eval_request_add(command_line *line, eval_request *request)
{
  *request = (eval_request){.protocol_list = "sliding,fixed-target", .beyond = "error", .beginning_text = "none"};
  command_add_texts(line, "text", "FILE...", &request->texts, true, "the texts to predict, each a document");
  command_add_text(line, "protocol", "LIST", &request->protocol_list,
                   "nonoverlapping, sliding, fixed-target, streaming, or all");
  command_add_text(
      line, "length", "LIST", &request->length_list,
      "tokens that the model reads at once, such as 64,128,256; without it 1, 2, 4, 8 and 16 times the "
      "length of the first model's training");
  command_add_texts(
      line, "extend", "NAME", &request->extend, false,
      "change a trained model's positions, such as ntk or yarn:factor=4,beta_fast=16 for rope; may be "
      "given again, and every model is run with each; none: as trained");
  command_add_text(
      line, "beyond", "POLICY", &request->beyond,
      "absolute positions beyond the trained ones: error, clamp (to the last) or wrap (from the first on)");
  command_add_text(
      line, "beginning", "ID", &request->beginning_text,
      "the token that begins every window, as a model may know it from its training; none: no such token");
  model_files_add_options(line);
  command_add_text(line, "out", "DIR", &request->out,
                   "a report: report.html, results.json, results.csv and the picture");
  command_add_text(line, "per_token", "FILE", &request->per_token,
                   "every scored token, its log-probability and context, as .csv or .jsonl");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(eval_fields), &request->options, "");
}

void eval_request_say(alibi_error *error)
{
  field_say_option((field_table)FIELD_TABLE(eval_fields), "", error);
}

static status read_protocols(eval_request *r, alibi_error *error)
{
  const char *rest = r->protocol_list, *item;
  size_t size;
  status result = list_check("--protocol", r->protocol_list, error);
  if (result != ALIBI_OK) return result;
  while (list_next(&rest, &item, &size)) {
    bool known = false, all = size == 3 && memcmp(item, "all", 3) == 0;
    for (int p = 0; p < ALIBI_PROTOCOL_COUNT; p++) {
      const char *name = alibi_protocol_name(p);
      if (!all && (size != strlen(name) || memcmp(item, name, size) != 0)) continue;
      if (r->protocols[p])
        return fail(error, ALIBI_INVALID, "--protocol: '%s' is asked for twice in '%.200s'", name,
                    r->protocol_list);
      known = r->protocols[p] = true;
    }
    if (!known)
      return fail(
          error, ALIBI_INVALID,
          "--protocol: expected names from nonoverlapping, sliding, fixed-target, streaming, or all, found "
          "'%.*s'",
          (int)size, item);
  }
  return ALIBI_OK;
}

static status read_lengths(eval_request *r, alibi_error *error)
{
  int64_t longest = 0;
  status result = ALIBI_OK;
  if (r->length_list)
    TRY(list_lengths_from("--length", r->length_list, 2, LONGEST, r->lengths, EVAL_MOST_LENGTHS, &r->length_count,
                          error));
  for (size_t i = 0; i < r->length_count; i++)
    if (r->lengths[i] > longest) longest = r->lengths[i];
  if (r->length_count && r->options.stride > longest &&
      (r->protocols[ALIBI_SLIDING] || r->protocols[ALIBI_STREAMING]))
    RAISE(error, ALIBI_INVALID, "--stride: expected at most the longest --length, %" PRId64 ", found %" PRId64,
          longest, r->options.stride);
done:
  return result;
}

static status read_beginning(eval_request *r, alibi_error *error)
{
  r->beginning = -1;
  if (strcmp(r->beginning_text, "none") == 0) return ALIBI_OK;
  if (integer_read(r->beginning_text, &r->beginning) && r->beginning >= 0 && r->beginning <= UINT32_MAX)
    return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "--beginning: expected none or the id of a token, found '%s'",
              r->beginning_text);
}

static const char *find_twice(const char *const *texts, size_t count)
{
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp(texts[i], texts[j]) == 0) return texts[i];
  return NULL;
}

static status read_variants(eval_request *r, alibi_error *error)
{
  static const char *const as_trained[] = {"none"};
  const char *policy, *twice = find_twice(r->extend.items, r->extend.count);
  status result;
  TRY(extend_option_beyond(r->beyond, &policy, error));
  if (policy && r->extend.count)
    RAISE(error, ALIBI_INVALID, "--extend and --beyond %s: expected one of them", policy);
  if (twice) RAISE(error, ALIBI_INVALID, "--extend: '%s' is given twice", twice);
  r->variants = policy ? &r->beyond : r->extend.count ? r->extend.items : as_trained;
  r->variant_count = r->extend.count ? r->extend.count : 1;
  r->variant_option = policy ? "--beyond" : "--extend";
done:
  return result;
}

status eval_request_read(const command_line *line, eval_request *r, alibi_error *error)
{
  const char *twice;
  status result;
  r->models = line->operands;
  r->model_count = line->operand_count;
  if (r->model_count == 0)
    RAISE(error, ALIBI_INVALID, "eval: expected the directory of a model before the options, found none");
  if ((twice = find_twice(r->models, r->model_count)) != NULL)
    RAISE(error, ALIBI_INVALID, "eval: the model %s stands there twice", twice);
  if (r->texts.count == 0) RAISE(error, ALIBI_INVALID, "eval: --text FILE is missing");
  if ((twice = find_twice(r->texts.items, r->texts.count)) != NULL)
    RAISE(error, ALIBI_INVALID, "--text: %s stands there twice", twice);
  TRY(read_protocols(r, error));
  TRY(read_lengths(r, error));
  TRY(read_variants(r, error));
  TRY(read_beginning(r, error));
  if (r->options.resume && !r->out) RAISE(error, ALIBI_INVALID, "--resume: expected --out DIR too");
  if (r->options.per_position && !r->protocols[ALIBI_NONOVERLAPPING])
    RAISE(error, ALIBI_INVALID, "--per-position: expected nonoverlapping in --protocol, found '%s'",
          r->protocol_list);
  if (r->per_token && !token_table_name(r->per_token))
    RAISE(error, ALIBI_INVALID, "--per-token: expected a name that ends in .csv or .jsonl, found '%s'",
          r->per_token);
done:
  return result;
}
