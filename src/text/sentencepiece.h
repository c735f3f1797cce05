/* text/sentencepiece.h - a vocabulary of the SentencePiece library: pieces with scores and types, how a text is
 * normalized before it is cut, and the two ways to cut it (unigram; BPE by score).  Source: Kudo and Richardson
 * 2018; the ids are those of its package `sentencepiece`.
 *
 * Filled by a reader (a .model file: sentencepiece_file.c; GGUF keys: gguf_vocabulary.c; our tokenizer.json:
 * sentencepiece_json.c), then sentencepiece_finish, then immutable. */
#ifndef TEXT_SENTENCEPIECE_H
#define TEXT_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "text/charsmap.h"
#include "text/piece_trie.h"
#include "text/text_buffer.h"
#include "text/token_model.h"
#include "text/unigram.h"
#include "text/vocabulary.h"

typedef enum piece_type { /* the numbers are those of the files */
                          PIECE_NORMAL = 1,
                          PIECE_UNKNOWN,
                          PIECE_CONTROL, /* text never becomes one */
                          PIECE_USER, /* user-defined: wherever its text stands it is this piece, before everything
                                         else */
                          PIECE_UNUSED, /* never the result, but merges may pass through it */
                          PIECE_BYTE,   /* <0xXX> */
                          PIECE_TYPES
} piece_type;

typedef enum sentencepiece_kind { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 } sentencepiece_kind;

enum {
  SENTENCEPIECE_LONGEST = 8000,     /* bytes of a piece are fewer, as in the library */
  SENTENCEPIECE_REPLACEMENT = 1024, /* bytes at most that a rule puts for a text; files have under 100 */
};

typedef struct sentencepiece {
  /* what a reader fills */
  sentencepiece_kind kind;
  vocabulary words;
  float *scores;        /* [words.count] */
  unsigned char *types; /* [words.count] of piece_type */
  bool byte_fallback, space_last, dummy_prefix, trim_spaces, escape_spaces;
  char *unknown_text;   /* what an unknown piece decodes to; NULL: " U+2047 " */
  unsigned char *rules; /* the precompiled map of characters; NULL: none */
  size_t rules_size;
  int64_t special[ALIBI_SPECIALS]; /* -1: none */

  /* what sentencepiece_finish makes of it */
  charsmap *map;      /* NULL: no rules */
  piece_trie pieces;  /* normal and user-defined ones; for BPE unused ones too */
  piece_trie symbols; /* the user-defined ones */
  bool has_symbols, has_unused;
  bool cut_before, cut_after; /* no piece crosses the place before (after) a run of spaces */
  bool alone[256];            /* this character, with ASCII after it, is copied by normalizing */
  uint32_t byte_ids[256];
  double *lattice_scores;
  unsigned char *favoured;
  unigram_rules lattice;
} sentencepiece;

extern const token_model token_model_sentencepiece; /* "SentencePiece": our own word in a tokenizer.json */

/* `count` pieces, all empty; the flags as the library's defaults. */
status sentencepiece_new(size_t count, sentencepiece **made, alibi_error *error);
void sentencepiece_free(sentencepiece *s);
status sentencepiece_set(sentencepiece *s, uint32_t id, const void *text, size_t size, float score,
                         piece_type type, const char *path, alibi_error *error);
status sentencepiece_set_rules(sentencepiece *s, const void *rules, size_t size, alibi_error *error);
/* Checks the whole; `path` names the file. */
status sentencepiece_finish(sentencepiece *s, const char *path, alibi_error *error);

/* Takes over a finished one (also when it fails); the tokenizer's kind is "pipeline".  add_begin, add_end: a text
 * gets these control tokens where special tokens are asked for. */
status sentencepiece_tokenizer(sentencepiece *s, bool add_begin, bool add_end, const char *path,
                               alibi_tokenizer **made, alibi_error *error);

/* ---- the parts ---- */

/* Appends the normalized text. */
status sentencepiece_normalize(const sentencepiece *s, const unsigned char *text, size_t size, text_buffer *out,
                               alibi_error *error);
/* Cuts a normalized text. */
status sentencepiece_cut_bpe(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                             alibi_error *error);
status sentencepiece_cut_unigram(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                                 alibi_error *error);
/* All of it. */
status sentencepiece_encode(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                            alibi_error *error);

/* Appends one piece of a cut: unknown ones as bytes, or one for a run of them.  *after_unknown: was the piece
 * before it one of such a run? */
status sentencepiece_emit(const sentencepiece *s, uint32_t id, const unsigned char *text, size_t size,
                          bool *after_unknown, token_list *out, alibi_error *error);

/* Is this a place that no piece crosses?  at > 0. */
bool sentencepiece_boundary(const sentencepiece *s, const unsigned char *text, size_t size, size_t at);

/* What stands for a space in the pieces. */
static inline const char *sentencepiece_space(const sentencepiece *s)
{
  return s->escape_spaces ? "\xe2\x96\x81" : " ";
}

/* ---- files ---- */

/* Is this how a .model begins and ends? */
bool sentencepiece_recognise(const unsigned char *data, size_t size);
status sentencepiece_read(const char *path, sentencepiece **made, alibi_error *error);

#endif
