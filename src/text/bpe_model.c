/* The tables of a byte-level BPE.  The bytes of the tokens lie in blocks that never move, so that the map from
 * bytes to ids can borrow them. */
#include "text/bpe_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { BLOCK_SIZE = 1 << 16, SHORT_TOKEN = 256 };

struct bpe_block {
  struct bpe_block *next;
  size_t used, size;
  unsigned char bytes[];
};

status bpe_new(size_t tokens, bpe **made, alibi_error *error)
{
  *made = NULL;
  bpe *b = calloc(1, sizeof *b);
  if (!b) return fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  status result = ALIBI_OK;
  TRY(memory_grow(&b->tokens, &b->token_capacity, tokens, sizeof *b->tokens, "tokens", error));
  for (size_t id = 0; id < tokens; id++) b->tokens[id] = (bpe_token){NULL, 0};
  b->token_count = tokens;
  TRY(splitter_new(&b->pattern, error));
  *made = b;
  b = NULL;
done:
  bpe_free(b);
  return result;
}

void bpe_free(bpe *b)
{
  if (!b) return;
  while (b->blocks) {
    struct bpe_block *next = b->blocks->next;
    free(b->blocks);
    b->blocks = next;
  }
  free(b->tokens);
  free(b->merges);
  pair_map_free(&b->ranks);
  piece_map_free(&b->by_bytes);
  splitter_free(b->pattern);
  free(b);
}

static status take_bytes(bpe *b, size_t size, unsigned char **bytes, alibi_error *error)
{
  struct bpe_block *block = b->blocks;
  if (!block || block->size - block->used < size) {
    size_t wanted = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    size_t total = size_add(wanted, sizeof *block);
    block = total > PTRDIFF_MAX ? NULL : malloc(total);
    if (!block) return fail(error, ALIBI_FAILED, "not enough memory for the tokens of a tokenizer");
    *block = (struct bpe_block){b->blocks, 0, wanted};
    b->blocks = block;
  }
  *bytes = block->bytes + block->used;
  block->used += size;
  return ALIBI_OK;
}

static void join(unsigned char *bytes, bpe_token left, bpe_token right)
{
  if (left.size > 0) memcpy(bytes, left.bytes, left.size);
  if (right.size > 0) memcpy(bytes + left.size, right.bytes, right.size);
}

status bpe_set_token(bpe *b, size_t id, bpe_token left, bpe_token right, alibi_error *error)
{
  status result = ALIBI_OK;
  unsigned char *bytes = NULL;
  piece *entry = NULL;
  size_t size = size_add(left.size, right.size);
  if (id == b->token_count)
    TRY(memory_grow(&b->tokens, &b->token_capacity, id + 1, sizeof *b->tokens, "tokens", error));
  TRY(take_bytes(b, size, &bytes, error));
  join(bytes, left, right);
  TRY(piece_map_add(&b->by_bytes, bytes, size, &entry, error));
  assert(entry->length == 0); /* else the bytes belong to another token */
  entry->value = id;
  entry->length = 1;
  b->tokens[id] = (bpe_token){bytes, size};
  if (id == b->token_count) b->token_count++;
done:
  return result;
}

status bpe_find_joined(const bpe *b, bpe_token left, bpe_token right, int64_t *id, alibi_error *error)
{
  unsigned char brief[SHORT_TOKEN], *bytes = brief;
  size_t size = size_add(left.size, right.size);
  if (size > sizeof brief) {
    bytes = size > PTRDIFF_MAX ? NULL : malloc(size);
    if (!bytes) return fail(error, ALIBI_FAILED, "not enough memory for a token of %zu bytes", size);
  }
  join(bytes, left, right);
  const piece *entry = piece_map_find(&b->by_bytes, bytes, size);
  *id = entry ? (int64_t)entry->value : -1;
  if (bytes != brief) free(bytes);
  return ALIBI_OK;
}

status bpe_add_merge(bpe *b, uint32_t left, uint32_t right, uint32_t merged, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(memory_grow(&b->merges, &b->merge_capacity, b->merge_count + 1, sizeof *b->merges, "merges", error));
  TRY(pair_map_add(&b->ranks, pair_key(left, right), (uint32_t)b->merge_count, error));
  b->merges[b->merge_count++] = (token_merge){left, right, merged};
done:
  return result;
}

int bpe_complete(bpe *b)
{
  for (int byte = 0; byte < 256; byte++) {
    unsigned char text = (unsigned char)byte;
    const piece *entry = piece_map_find(&b->by_bytes, &text, 1);
    if (!entry) return byte;
    b->byte_token[byte] = (uint32_t)entry->value;
  }
  return -1;
}
