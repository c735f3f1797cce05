/* The reader of tokenizer.json under a fuzzer: what it opens must encode, and decode what it encoded. */
#include <stdlib.h>

#include "alibi/tokenizer.h"
#include "fuzz_target.h"

static void use(const alibi_tokenizer *t)
{
  static const char text[] =
      "The ab  3.14 caf\xc3\xa9 e\xcc\x81\xcc\xa3 \xe7\x81\xaf\xe5\x8f\xb0 \xf0\x9f\x9a\x80 <s>it's</s>\n\xff "
      "\xe2\x96\x81 word ";
  alibi_encode_options options;
  alibi_error error;
  uint32_t *ids = NULL;
  size_t count, size;
  char *back = NULL;
  alibi_error_init(&error);
  alibi_encode_options_init(&options);
  options.add_special = options.control = 1;
  status result = alibi_tokenizer_encode_with(t, &options, text, sizeof text - 1, &ids, &count, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  for (size_t i = 0; result == ALIBI_OK && i < count; i++)
    if (ids[i] >= alibi_tokenizer_vocabulary(t)) abort();
  if (result == ALIBI_OK) {
    result = alibi_tokenizer_decode(t, NULL, ids, count, &back, &size, &error);
    if (result != ALIBI_OK && result != ALIBI_FAILED) abort();
  }
  for (uint32_t id = 0; id < alibi_tokenizer_vocabulary(t); id++) alibi_tokenizer_bytes(t, id, &size);
  alibi_text_free(back);
  alibi_tokens_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  alibi_tokenizer *t = NULL;
  alibi_error error;
  alibi_error_init(&error);
  if (size == 0 || data[0] != '{') return 0; /* of the other formats */
  fuzz_give(data, size);
  status result = alibi_tokenizer_open(FUZZ_PATH, &t, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  if (t) use(t);
  alibi_tokenizer_free(t);
  return 0;
}
