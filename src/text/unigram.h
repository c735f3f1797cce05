/* text/unigram.h - the unigram model: the cut of a text into pieces whose scores have the largest sum.
 * Source: Kudo 2018, "Subword regularization" (the best path only).  A character that is no piece by itself may be
 * unknown, at a score below that of every piece.  Where two paths are equally good, the one found first stays. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/piece_trie.h"
#include "text/token_model.h"

#define UNIGRAM_SUM_MOST 100000.0f
#define UNIGRAM_UNKNOWN_PENALTY 10.0 /* an unknown character scores so much less than the worst piece */

extern const token_model token_model_unigram;

typedef struct unigram_rules { /* all borrowed */
  const piece_trie *trie;
  const double *scores;          /* of a piece, by its id */
  const unsigned char *favoured; /* NULL, or [id]: a user-defined piece of SentencePiece, which always wins */
  double unknown_score;
  uint32_t unknown; /* the id for unknown characters */
  bool single;      /* sums are floats, as SentencePiece keeps them, and begin anew beyond UNIGRAM_SUM_MOST */
} unigram_rules;

typedef struct unigram_node { /* one for every place between two bytes */
  double score;               /* the best sum of a path that ends here */
  uint32_t start, next;       /* where its last piece begins; where the piece that begins here ends */
  uint32_t id;                /* of its last piece */
} unigram_node;

typedef struct unigram_lattice { /* start from {0}; free(nodes) */
  unigram_node *nodes;
  size_t capacity;
} unigram_lattice;

/* Finds the path: its first piece begins at 0, the piece that begins at i ends at nodes[i].next and has the id
 * nodes[nodes[i].next].id.  *sum is the score before the text, and then that after it.  Linear in size. */
status unigram_cut(const unigram_rules *rules, unigram_lattice *lattice, const unsigned char *text, size_t size,
                   double *sum, alibi_error *error);

/* Bytes of the character whose first byte this is; any byte has a length of 1 to 4. */
static inline size_t utf8_length(unsigned char first)
{
  return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

#endif
