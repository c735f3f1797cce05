/* The tokenizer that belongs to a model.  Wherever the weights lie, the one idea: what their own file holds (GGUF)
 * comes before what lies beside it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/gguf.h"
#include "file/tensor_file.h"
#include "model/model.h"

/* *file: the GGUF file of the weights, where there is a vocabulary in it. */
static status find_within(const char *path, char **file, alibi_error *error)
{
  tensor_file *weights = NULL;
  status result = ALIBI_OK;
  /* Whether weights can be read is not asked here: a folder may hold a tokenizer alone. */
  if (tensor_file_open(path, &weights, NULL) != ALIBI_OK) return ALIBI_OK;
  const gguf_file *gguf = tensor_file_gguf(weights);
  if (!gguf || !gguf_key_find(gguf, "tokenizer.ggml.tokens")) goto done;
  *file = strdup(gguf_path(gguf));
  if (!*file) RAISE(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
done:
  tensor_file_close(weights);
  return result;
}

static status find_inside(const char *folder, char **file, alibi_error *error)
{
  static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    *file = path_join(folder, names[i]);
    if (!*file) return fail(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
    if (path_exists(*file)) return ALIBI_OK;
    free(*file);
    *file = NULL;
  }
  return ALIBI_OK;
}

/* *file NULL: there is none. */
static status find(const char *path, char **file, alibi_error *error)
{
  char *folder = NULL;
  status result;
  *file = NULL;
  TRY(find_within(path, file, error));
  if (*file) goto done;
  TRY(model_folder(path, &folder, error));
  TRY(find_inside(folder, file, error));
done:
  free(folder);
  return result;
}

/* Public models, and what is made of them, may have rows to spare. */
static status check_vocabulary(const char *file, const alibi_model *model, const alibi_tokenizer *tokenizer,
                               alibi_error *error)
{
  int64_t rows = model->config.vocabulary;
  uint32_t found = alibi_tokenizer_vocabulary(tokenizer);
  if (found <= rows) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT,
              "%s: expected the vocabulary of the model, at most %" PRId64 " tokens, found %" PRIu32, file, rows,
              found);
}

alibi_status alibi_model_tokenizer_open(const char *path, const alibi_model *model, alibi_tokenizer **tokenizer,
                                        alibi_error *error)
{
  char *file = NULL;
  status result;
  if (!tokenizer)
    return fail(error, ALIBI_INVALID,
                "alibi_model_tokenizer_open: expected a pointer for the tokenizer, found NULL");
  *tokenizer = NULL;
  if (!path) RAISE(error, ALIBI_INVALID, "alibi_model_tokenizer_open: expected a path, found NULL");
  TRY(find(path, &file, error));
  if (!file) goto done;
  TRY(alibi_tokenizer_open(file, tokenizer, error));
  if (model) TRY(check_vocabulary(file, model, *tokenizer, error));
done:
  if (result != ALIBI_OK) {
    alibi_tokenizer_free(*tokenizer);
    *tokenizer = NULL;
  }
  free(file);
  return result;
}
