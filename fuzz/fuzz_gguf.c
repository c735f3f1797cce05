/* The reader of GGUF files under a fuzzer: what opens is read to its last value. */
#include "file/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

static volatile unsigned sum;

static void read_key(const gguf_file *file, const gguf_key *key)
{
  if (gguf_key_find(file, key->name) != key || strlen(key->name) > GGUF_KEY_MOST) abort();
  for (size_t i = 0; i < key->count; i++) {
    if (key->type != GGUF_TEXT) {
      sum += (unsigned)gguf_integer_at(key, i) + (gguf_real_at(key, i) > 0);
      continue;
    }
    gguf_text text = gguf_text_at(key, i);
    if (text.size > key->bytes) abort();
    if (text.size > 0) sum += (unsigned char)text.data[0] + (unsigned char)text.data[text.size - 1];
  }
}

static void read_all(const gguf_file *file)
{
  json_node *object = NULL;
  gguf_keys *keys = gguf_keys_new();
  for (size_t i = 0; i < gguf_count(file); i++) {
    fuzz_check_tensor(gguf_at(file, i));
    if (gguf_find(file, gguf_at(file, i)->name) != gguf_at(file, i)) abort();
  }
  for (size_t i = 0; i < gguf_key_count(file); i++) {
    read_key(file, gguf_key_at(file, i));
    gguf_put_key(keys, gguf_key_at(file, i));
  }
  if (gguf_scalars(file, &object, NULL) == ALIBI_OK) node_free(object);
  gguf_keys_free(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  gguf_file *file = NULL;
  alibi_error error;
  alibi_error_init(&error);
  fuzz_give(data, size);
  status result = gguf_open(FUZZ_PATH, &file, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  else read_all(file);
  gguf_close(file);
  return 0;
}
