/* The tokenizer of a GGUF file under a fuzzer: what it opens must encode any text, and decode what it encoded. */
#include <stdlib.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "fuzz_target.h"

static void use(const alibi_tokenizer *t, const void *text, size_t length)
{
  alibi_error error;
  uint32_t *ids = NULL;
  size_t count, size;
  char *back = NULL;
  alibi_error_init(&error);
  status result = alibi_tokenizer_encode(t, text, length, &ids, &count, &error);
  if (result != ALIBI_OK) {
    fuzz_check_error(result, &error);
    return;
  }
  for (size_t i = 0; i < count; i++)
    if (ids[i] >= alibi_tokenizer_vocabulary(t)) abort();
  result = alibi_tokenizer_decode(t, NULL, ids, count, &back, &size, &error);
  if (result != ALIBI_OK && result != ALIBI_FAILED) abort();
  alibi_text_free(back);
  alibi_tokens_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char text[] =
      "  The ab  3.14 caf\xc3\xa9 e\xcc\x81 \xe7\x81\xaf\xe5\x8f\xb0 \xf0\x9f\x9a\x80 <s>it's</s>\n\xff "
      "\xe2\x96\x81 word[x] aaaaaaaa\xe2\x96 A";
  alibi_tokenizer *t = NULL;
  alibi_error error;
  size_t unused;
  alibi_error_init(&error);
  if (size < 4 || memcmp(data, "GGUF", 4) != 0) return 0; /* of the other formats */
  fuzz_give(data, size);
  status result = alibi_tokenizer_open(FUZZ_PATH, &t, &error);
  if (result != ALIBI_OK) {
    fuzz_check_error(result, &error);
    return 0;
  }
  for (uint32_t id = 0; id < alibi_tokenizer_vocabulary(t); id++) alibi_tokenizer_bytes(t, id, &unused);
  use(t, text, sizeof text - 1);
  use(t, data, size < 4096 ? size : 4096);
  alibi_tokenizer_free(t);
  return 0;
}
