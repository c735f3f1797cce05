/* text/piece_bpe.h - BPE over the characters of a piece, as the "BPE" model of a tokenizer.json: merges in order
 * of rank, with everything that such a file can ask for.  The row token_model_bpe is this. */
#ifndef TEXT_PIECE_BPE_H
#define TEXT_PIECE_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/token_model.h"

typedef struct piece_bpe piece_bpe;

extern const token_model token_model_bpe; /* its state is a piece_bpe */

typedef struct piece_bpe_options {
  const char *unknown; /* token for a character that is not in the vocabulary; NULL: it gets no id */
  const char *prefix;  /* of every part of a piece but the first (continuing_subword_prefix); NULL */
  const char *suffix;  /* of the last part of a piece (end_of_word_suffix); NULL */
  bool fuse_unknown;   /* one unknown token for a run of them */
  bool byte_fallback;  /* <0xXX> for the bytes of a character that is not in the vocabulary */
  bool ignore_merges;  /* a piece that is in the vocabulary is that token, whatever the merges say */
} piece_bpe_options;

/* For the readers of other formats: new, every token, every merge in order of rank, finish.  The strings of the
 * options and the spellings are copied.  `path` names the file in errors. */
status piece_bpe_new(const piece_bpe_options *options, piece_bpe **made, alibi_error *error);
status piece_bpe_add_token(piece_bpe *b, uint32_t id, const void *spelling, size_t size, const char *path,
                           alibi_error *error);
status piece_bpe_add_merge(piece_bpe *b, const void *left, size_t left_size, const void *right, size_t right_size,
                           const char *path, alibi_error *error);
status piece_bpe_finish(piece_bpe *b, const char *path, alibi_error *error);
void piece_bpe_free(piece_bpe *b);

#endif
