/* Opening a model and its tokenizer, wherever and in whatever format they lie. */
#include "cli/model_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "cli/run.h"
#include "file/json.h"

typedef struct model_files_options {
  int numerics, activations;
} model_files_options;

static const char *const numerics_names[] = {"exact", "reference", NULL};
static const char *const activation_names[] = {"fp32", "int8", NULL};

static const field model_files_fields[] = {
    {.name = "numerics",
     .kind = FIELD_CHOICE,
     .offset = offsetof(model_files_options, numerics),
     .initial = ALIBI_NUMERICS_EXACT,
     .choices = numerics_names,
     .help = "exact: formulas as they are meant; reference: a bias rounded as the code of the model's family "
             "rounds it"},
    {.name = "activations",
     .kind = FIELD_CHOICE,
     .offset = offsetof(model_files_options, activations),
     .initial = ALIBI_ACTIVATIONS_FP32,
     .choices = activation_names,
     .help = "what quantised weights are multiplied with; int8: rounded to 8 bits, as other engines do, which is "
             "faster"},
};

/* A setting of the library that is an option here, for a sentence about it. */
static const field typed[] = {{.name = "ignore_config"}};

static model_files_options options;
static text_values ignored;

void model_files_add_options(command_line *line)
{
  ignored = (text_values){0};
  command_add_texts(
      line, "ignore-config", "KEY", &ignored, false,
      "a key of a public model's config.json that counts as absent, though it may change numbers; again for "
      "more");
  command_add_group(line, "Public models", (field_table)FIELD_TABLE(model_files_fields), &options, "");
}

status model_files_open(alibi_context *context, const char *path, alibi_model **model, alibi_error *error)
{
  const char **keys = NULL;
  alibi_open_options open;
  status result;
  alibi_open_options_init(&open);
  open.numerics = options.numerics;
  open.activations = options.activations;
  TRY(memory_new(&keys, ignored.count + 1, sizeof *keys, "the keys of --ignore-config", error));
  for (size_t i = 0; i < ignored.count; i++) keys[i] = ignored.items[i];
  if (ignored.count > 0) open.ignore_config = keys;
  result = alibi_model_open_with(context, path, &open, model, error);
  if (result == ALIBI_INVALID) field_say_option((field_table)FIELD_TABLE(typed), "", error);
done:
  memory_free(keys);
  return result;
}

status model_files_open_tokenizer(const char *path, const alibi_model *model, bool required,
                                  alibi_tokenizer **tokenizer, alibi_error *error)
{
  status result = alibi_model_tokenizer_open(path, model, tokenizer, error);
  if (result != ALIBI_OK || *tokenizer || !required) return result;
  return fail(error, ALIBI_BAD_INPUT,
              "%s: expected the tokenizer of the model beside it (tokenizer.json or tokenizer.model), found none",
              path);
}

status model_files_encode(const alibi_tokenizer *tokenizer, const alibi_encode_options *encode, const void *text,
                          size_t size, uint32_t **tokens, size_t *count, alibi_error *error)
{
  cli_work_alone();
  status result = alibi_tokenizer_encode_with(tokenizer, encode, text, size, tokens, count, error);
  cli_work_done();
  return result;
}

status model_files_say(const char *path, status result, alibi_error *error)
{
  static const char *const of_weights[] = {"a model's weights: ", "layer "}; /* other files have sentences too */
  bool blamed = false;
  for (size_t i = 0; i < 2 && error; i++)
    if (strncmp(error->message, of_weights[i], strlen(of_weights[i])) == 0) blamed = true;
  if (result != ALIBI_BAD_INPUT || !blamed) return result;
  alibi_error found = *error;
  return fail(error, result, "%s: %s", path, found.message);
}

static status add_end(const char *file, const json_node *node, const alibi_tokenizer *tokenizer, end_tokens *ends,
                      alibi_error *error)
{
  int64_t id = node_integer(node, -1), vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  if (id < 0 || id >= vocabulary || ends->count == END_TOKENS_MOST)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: key 'eos_token_id': expected an id below the %" PRId64
                " tokens of the tokenizer, or at most %d of "
                "them, found another value",
                file, vocabulary, END_TOKENS_MOST - 1);
  ends->ids[ends->count++] = id;
  return ALIBI_OK;
}

status model_files_read_ends(const char *path, const alibi_tokenizer *tokenizer, end_tokens *ends,
                             alibi_error *error)
{
  int64_t end = alibi_tokenizer_special(tokenizer, ALIBI_SPECIAL_END);
  char *file = path_join(path, "generation_config.json");
  json_node *root = NULL;
  status result = ALIBI_OK;
  *ends = (end_tokens){0};
  if (!file) RAISE(error, ALIBI_FAILED, "not enough memory for the path of generation_config.json");
  if (end >= 0) ends->ids[ends->count++] = end;
  if (!path_is_directory(path) || !path_exists(file)) goto done;
  TRY(node_read_file(file, &root, error));
  const json_node *eos = node_get(root, "eos_token_id");
  if (!eos || node_kind_of(eos) == NODE_NULL) goto done;
  bool list = node_kind_of(eos) == NODE_ARRAY;
  for (size_t i = 0; i < (list ? node_count(eos) : 1); i++)
    TRY(add_end(file, list ? node_at(eos, i) : eos, tokenizer, ends, error));
done:
  node_free(root);
  free(file);
  return result;
}

bool end_tokens_have(const end_tokens *ends, uint32_t token)
{
  for (size_t i = 0; i < ends->count; i++)
    if (ends->ids[i] == token) return true;
  return false;
}
