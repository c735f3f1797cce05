/* The tokenizer without a model: token b is byte b.  Its tokenizer.json is a BPE of 256 tokens without merges,
 * which any library reads; a file that says exactly that is opened as this kind. */
#include <stdlib.h>

#include "base/memory.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

extern const tokenizer_kind tokenizer_bytes;

enum { BYTES = 256 };

/* There is nothing to remember; `open` only needs something that is not NULL. */
static char something;

#define ROW(b)                                                                                                    \
  b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7, b + 8, b + 9, b + 10, b + 11, b + 12, b + 13, b + 14, b + 15
static const unsigned char every_byte[BYTES] = {ROW(0),   ROW(16),  ROW(32),  ROW(48),  ROW(64),  ROW(80),
                                                ROW(96),  ROW(112), ROW(128), ROW(144), ROW(160), ROW(176),
                                                ROW(192), ROW(208), ROW(224), ROW(240)};

static status bytes_encode(const void *state, const unsigned char *text, size_t size, uint32_t **tokens,
                           size_t *count, alibi_error *error)
{
  (void)state;
  size_t bytes = size_mul(size_add(size, 1), sizeof(uint32_t));
  uint32_t *made = bytes > PTRDIFF_MAX ? NULL : malloc(bytes);
  if (!made) return fail(error, ALIBI_FAILED, "not enough memory for %zu tokens", size);
  for (size_t i = 0; i < size; i++) made[i] = text[i];
  *tokens = made;
  *count = size;
  return ALIBI_OK;
}

static const unsigned char *bytes_bytes_of(const void *state, uint32_t token, size_t *size)
{
  (void)state;
  if (token >= BYTES) return NULL;
  *size = 1;
  return &every_byte[token];
}

static uint32_t bytes_vocabulary(const void *state)
{
  (void)state;
  return BYTES;
}

static status bytes_save(const void *state, const char *path, alibi_error *error)
{
  (void)state;
  json_node *vocabulary = node_new_object();
  char spelled[BYTE_LEVEL_WIDTH + 1];
  for (uint32_t token = 0; token < BYTES; token++) {
    byte_level_spell(&every_byte[token], 1, spelled);
    node_set_integer(vocabulary, spelled, token);
  }
  return tokenizer_json_write(vocabulary, node_new_array(), path, error);
}

static bool every_token_is_its_byte(const json_node *vocabulary)
{
  for (size_t i = 0; i < BYTES; i++) {
    const char *key;
    unsigned char byte;
    const json_node *id = node_member(vocabulary, i, &key);
    if (byte_level_length(key) != 1) return false;
    byte_level_parse(key, &byte);
    if (node_integer(id, -1) != byte) return false;
  }
  return true;
}

static status bytes_open(const json_node *root, const char *path, void **state, alibi_error *error)
{
  const json_node *model = node_get(root, "model");
  const json_node *vocabulary = node_get(model, "vocab"), *merges = node_get(model, "merges");
  if (!tokenizer_json_is_bpe(root) || !merges || node_count(merges) != 0) return ALIBI_OK;
  if (!vocabulary || node_count(vocabulary) != BYTES || !every_token_is_its_byte(vocabulary)) return ALIBI_OK;
  (void)error;
  if (tokenizer_json_check(root, path, NULL) == ALIBI_OK) *state = &something;
  return ALIBI_OK;
}

static void bytes_free(void *state)
{
  (void)state;
}

const tokenizer_kind tokenizer_bytes = {
    .name = "bytes",
    .encode = bytes_encode,
    .bytes_of = bytes_bytes_of,
    .vocabulary = bytes_vocabulary,
    .save = bytes_save,
    .open = bytes_open,
    .free = bytes_free,
};
