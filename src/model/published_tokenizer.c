/* A class of transformers brings a tokenizer of its own unless it is told that tokenizer.json is all there is. */
#include "model/published_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/json.h"

#define OURS "SentencePiece" /* a word of text/sentencepiece_json.c that nobody else knows */

static status check_words(const char *path, alibi_error *error)
{
  json_node *root = NULL;
  status result;
  TRY(node_read_file(path, &root, error));
  if (strcmp(node_text(node_get(node_get(root, "model"), "type"), ""), OURS) == 0)
    RAISE(
        error, ALIBI_INVALID,
        "tokenizer: expected one that a tokenizer.json has words for, found a SentencePiece model (it can be left "
        "out: --without-tokenizer)");
done:
  node_free(root);
  return result;
}

static status put_token(json_node *object, const char *key, const alibi_tokenizer *tokenizer,
                        alibi_special special, alibi_error *error)
{
  int64_t id = alibi_tokenizer_special(tokenizer, special);
  alibi_decode_options options;
  char *text = NULL;
  size_t size;
  uint32_t token = (uint32_t)id;
  status result = ALIBI_OK;
  if (id < 0) return ALIBI_OK;
  alibi_decode_options_init(&options);
  options.skip_control = 0;
  TRY(alibi_tokenizer_decode(tokenizer, &options, &token, 1, &text, &size, error));
  node_set_text(object, key, text);
done:
  alibi_text_free(text);
  return result;
}

static status write_config(const alibi_tokenizer *tokenizer, const char *path, int64_t length, alibi_error *error)
{
  json_node *object = node_new_object();
  status result;
  node_set_text(object, "tokenizer_class", "PreTrainedTokenizerFast");
  node_set_integer(object, "model_max_length", length);
  node_set_boolean(object, "clean_up_tokenization_spaces", false);
  TRY(put_token(object, "bos_token", tokenizer, ALIBI_SPECIAL_BEGIN, error));
  TRY(put_token(object, "eos_token", tokenizer, ALIBI_SPECIAL_END, error));
  TRY(put_token(object, "unk_token", tokenizer, ALIBI_SPECIAL_UNKNOWN, error));
  TRY(put_token(object, "pad_token", tokenizer, ALIBI_SPECIAL_PADDING, error));
  TRY(node_write_file(object, path, error));
done:
  node_free(object);
  return result;
}

alibi_status published_tokenizer_write(const alibi_tokenizer *tokenizer, const char *directory, int64_t length,
                                       alibi_error *error)
{
  char *words = path_join(directory, "tokenizer.json"), *config = path_join(directory, "tokenizer_config.json");
  status result;
  if (!words || !config) RAISE(error, ALIBI_FAILED, "not enough memory for the path of a tokenizer");
  TRY(alibi_tokenizer_save(tokenizer, words, error));
  TRY(check_words(words, error));
  TRY(write_config(tokenizer, config, length, error));
done:
  free(config);
  free(words);
  return result;
}
