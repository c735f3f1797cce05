/* Opening a model and its tokenizer, wherever and in whatever format they lie. */
#include "cli/model_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/memory.h"
#include "base/system.h"
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

/* The first *.gguf of a directory: there is one, or one that is split, whose first part has the keys. */
static status find_gguf(const char *directory, char **path, alibi_error *error)
{
  directory_list list = {0};
  status result;
  TRY(directory_read(directory, &list, error));
  for (size_t i = 0; i < list.count && !*path; i++) {
    size_t size = strlen(list.names[i]);
    if (size < 5 || strcmp(list.names[i] + size - 5, ".gguf") != 0) continue;
    *path = path_join(directory, list.names[i]);
    if (!*path) RAISE(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
  }
done:
  directory_list_free(&list);
  return result;
}

/* GGUF files hold their tokenizer; other files with weights have it beside them. */
static status is_gguf(const char *path, bool *is, alibi_error *error)
{
  mapped_file file;
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  *is = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
  mapped_file_close(&file);
  return ALIBI_OK;
}

static status find_inside(const char *directory, char **file, alibi_error *error)
{
  static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    *file = path_join(directory, names[i]);
    if (!*file) return fail(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
    if (path_exists(*file)) return ALIBI_OK;
    free(*file);
    *file = NULL;
  }
  return ALIBI_OK;
}

/* *file NULL: there is none. */
static status find_tokenizer(const char *path, char **file, alibi_error *error)
{
  bool own = false;
  char *folder = NULL;
  status result;
  *file = NULL;
  if (path_is_directory(path)) {
    TRY(find_inside(path, file, error));
    if (!*file) TRY(find_gguf(path, file, error));
    goto done;
  }
  TRY(is_gguf(path, &own, error));
  folder = strdup(path);
  if (!folder) RAISE(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
  if (own) {
    *file = folder;
    return ALIBI_OK;
  }
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = '\0';
  TRY(find_inside(slash ? folder : ".", file, error));
done:
  free(folder);
  return result;
}

static status check_vocabulary(const char *path, const alibi_model *model, const alibi_tokenizer *tokenizer,
                               alibi_error *error)
{
  int64_t rows = alibi_model_get_config(model)->vocabulary;
  uint32_t found = alibi_tokenizer_vocabulary(tokenizer);
  bool ours = strcmp(alibi_model_family(model), "alibi") == 0;
  if (found <= rows) return ALIBI_OK; /* public models, and what is made of them, may have rows to spare */
  return fail(error, ALIBI_BAD_INPUT,
              "%s: expected the vocabulary of the model, %s%" PRId64 " tokens, found %" PRIu32, path,
              ours ? "" : "at most ", rows, found);
}

status model_files_open_tokenizer(const char *path, const alibi_model *model, bool required,
                                  alibi_tokenizer **tokenizer, alibi_error *error)
{
  char *file = NULL;
  status result;
  *tokenizer = NULL;
  TRY(find_tokenizer(path, &file, error));
  if (!file && required)
    RAISE(error, ALIBI_BAD_INPUT,
          "%s: expected the tokenizer of the model beside it (tokenizer.json or tokenizer.model), found none",
          path);
  if (!file) goto done;
  TRY(alibi_tokenizer_open(file, tokenizer, error));
  TRY(check_vocabulary(file, model, *tokenizer, error));
done:
  free(file);
  return result;
}

static status add_end(const char *file, const json_node *node, const alibi_tokenizer *tokenizer, end_tokens *ends,
                      alibi_error *error)
{
  int64_t id = node_integer(node, -1), vocabulary = alibi_tokenizer_vocabulary(tokenizer);
  if (id < 0 || id >= vocabulary || ends->count == END_TOKENS_MOST)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: key 'eos_token_id': expected an id below the %" PRId64 " tokens of the tokenizer, or at most %d of "
                "them, found another value",
                file, vocabulary, END_TOKENS_MOST - 1);
  ends->ids[ends->count++] = id;
  return ALIBI_OK;
}

status model_files_read_ends(const char *path, const alibi_tokenizer *tokenizer, end_tokens *ends, alibi_error *error)
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
