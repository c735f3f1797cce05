/* A class of transformers brings a tokenizer of its own unless it is told that tokenizer.json is all there is. */
#include "model/published_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/json.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"

alibi_status published_tokenizer_check(const alibi_tokenizer *tokenizer, alibi_error *error)
{
  bool public = strcmp(alibi_tokenizer_kind(tokenizer), "pipeline") == 0;
  if (!public || strcmp(pipeline_model_name(tokenizer->state), "SentencePiece") != 0) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "tokenizer: expected one that a tokenizer.json has words for, found a SentencePiece model "
              "(without_tokenizer leaves it out)");
}

/* How a token is spelled in tokenizer.json: NULL where it is not there. */
static const char *spelling_of(const json_node *root, int64_t id)
{
  const json_node *added = node_get(root, "added_tokens"), *vocab = node_get(node_get(root, "model"), "vocab");
  for (size_t i = 0; i < node_count(added); i++)
    if (node_integer(node_get(node_at(added, i), "id"), -1) == id)
      return node_text(node_get(node_at(added, i), "content"), NULL);
  if (node_kind_of(vocab) == NODE_ARRAY) /* of a Unigram: its place is its id */
    return id >= 0 ? node_text(node_at(node_at(vocab, (size_t)id), 0), NULL) : NULL;
  for (size_t i = 0; i < node_count(vocab); i++) {
    const char *spelling;
    if (node_integer(node_member(vocab, i, &spelling), -1) == id) return spelling;
  }
  return NULL;
}

static status write_config(const alibi_tokenizer *tokenizer, const json_node *root, const char *path,
                           int64_t length, alibi_error *error)
{
  static const char *const keys[ALIBI_SPECIALS] = {[ALIBI_SPECIAL_BEGIN] = "bos_token",
                                                   [ALIBI_SPECIAL_END] = "eos_token",
                                                   [ALIBI_SPECIAL_UNKNOWN] = "unk_token",
                                                   [ALIBI_SPECIAL_PADDING] = "pad_token"};
  json_node *object = node_new_object();
  node_set_text(object, "tokenizer_class", "PreTrainedTokenizerFast");
  node_set_integer(object, "model_max_length", length);
  node_set_boolean(object, "clean_up_tokenization_spaces", false);
  for (int s = 0; s < ALIBI_SPECIALS; s++) {
    int64_t id = alibi_tokenizer_special(tokenizer, (alibi_special)s);
    const char *spelling = id >= 0 ? spelling_of(root, id) : NULL;
    if (spelling) node_set_text(object, keys[s], spelling);
  }
  status result = node_write_file(object, path, error);
  node_free(object);
  return result;
}

alibi_status published_tokenizer_write(const alibi_tokenizer *tokenizer, const char *directory, int64_t length,
                                       alibi_error *error)
{
  char *words = path_join(directory, "tokenizer.json"), *config = path_join(directory, "tokenizer_config.json");
  json_node *root = NULL;
  status result;
  if (!words || !config) RAISE(error, ALIBI_FAILED, "not enough memory for the path of a tokenizer");
  TRY(alibi_tokenizer_save(tokenizer, words, error));
  TRY(node_read_file(words, &root, error));
  TRY(write_config(tokenizer, root, config, length, error));
done:
  node_free(root);
  free(config);
  free(words);
  return result;
}
