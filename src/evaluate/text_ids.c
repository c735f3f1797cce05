/* Whether a model knows the ids of a text. */
#include "evaluate/text_ids.h"

status text_ids_check(const alibi_model *model, const uint32_t *tokens, size_t count, alibi_error *error)
{
  for (size_t i = 0; i < count; i++)
    if (tokens[i] >= (uint64_t)model->config.vocabulary)
      return fail(error, ALIBI_INVALID,
                  "the text: token %zu: expected an id below the vocabulary of %lld, found %u", i,
                  (long long)model->config.vocabulary, tokens[i]);
  return ALIBI_OK;
}
