/* Opening a tokenizer for a model. */
#include "cli/model_tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/system.h"

alibi_status model_tokenizer_open(const char *directory, const alibi_model *model, bool required,
                                  alibi_tokenizer **tokenizer, alibi_error *error)
{
  char *path = path_join(directory, "tokenizer.json");
  status result = ALIBI_OK;
  *tokenizer = NULL;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for the path of the tokenizer");
  if (!required && !path_exists(path)) goto done;
  TRY(alibi_tokenizer_open(path, tokenizer, error));
  int64_t expected = alibi_model_get_config(model)->vocabulary;
  uint32_t found = alibi_tokenizer_vocabulary(*tokenizer);
  if (found != expected)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the vocabulary of the model, %" PRId64 " tokens, found %" PRIu32,
          path, expected, found);
done:
  free(path);
  return result;
}
