/* text/bpe_model.h - what a byte-level BPE is made of: tokens (byte strings, ids 0 .. count-1) and merges in order
 * of rank.  Source: Sennrich, Haddow, Birch 2016 (merges); Radford et al. 2019 (over bytes). */
#ifndef TEXT_BPE_MODEL_H
#define TEXT_BPE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/merge.h"
#include "text/pair_map.h"
#include "text/piece_map.h"
#include "text/split.h"

typedef struct bpe_token {
  const unsigned char *bytes;
  size_t size;
} bpe_token;

typedef struct bpe {
  bpe_token *tokens;
  size_t token_count, token_capacity;
  token_merge *merges; /* index: rank */
  size_t merge_count, merge_capacity;
  pair_map ranks;           /* (left, right) -> rank */
  piece_map by_bytes;       /* bytes of a token -> id (value) */
  uint32_t byte_token[256]; /* filled by bpe_complete */
  splitter *pattern;
  struct bpe_block *blocks; /* where the bytes of the tokens lie */
} bpe;

/* Room for `tokens` tokens, all of them still empty. */
status bpe_new(size_t tokens, bpe **made, alibi_error *error);
void bpe_free(bpe *b);

/* Token `id` (< token_count and still empty, or == token_count: one more) spells left followed by right; the bytes
 * are copied.  They belong to no other token. */
status bpe_set_token(bpe *b, size_t id, bpe_token left, bpe_token right, alibi_error *error);

/* The id of the token that spells left followed by right, -1 when there is none. */
status bpe_find_joined(const bpe *b, bpe_token left, bpe_token right, int64_t *id, alibi_error *error);

/* The next merge in rank; the pair is new. */
status bpe_add_merge(bpe *b, uint32_t left, uint32_t right, uint32_t result, alibi_error *error);

/* The last step: is there a token for every byte?  The byte for which there is none, or -1. */
int bpe_complete(bpe *b);

/* The contract is that of alibi_tokenizer_train. */
status bpe_train(const char *const *texts, const size_t *sizes, size_t count, uint32_t vocabulary, bpe **trained,
                 alibi_error *error);

#endif
