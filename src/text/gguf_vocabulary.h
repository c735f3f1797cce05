/* text/gguf_vocabulary.h - the tokenizer in a GGUF file (keys tokenizer.ggml.*), read and written.
 *
 * tokenizer.ggml.model says which kind it is: gpt2 (byte-level BPE, cut by what tokenizer.ggml.pre names), llama
 * (SentencePiece, BPE by score), t5 (SentencePiece, unigram), bert (WordPiece).  Source of the keys: ggml's
 * docs/gguf.md; of what the names of pre-tokenizers mean: the tokenizer.json of the models that they stand for. */
#ifndef TEXT_GGUF_VOCABULARY_H
#define TEXT_GGUF_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "file/gguf.h"

/* Of an open file, which may be closed afterwards. */
status gguf_vocabulary_open(const gguf_file *file, alibi_tokenizer **made, alibi_error *error);

/* The keys of a tokenizer: byte-level BPE (ours too), SentencePiece.  ALIBI_INVALID with a sentence where GGUF has
 * no words for it.  rows: of the model's embedding; those beyond the tokens get names of unused ones, for readers
 * that expect a token for each row (0: as many as tokens). */
status gguf_vocabulary_put(const alibi_tokenizer *tokenizer, size_t rows, gguf_keys *keys, alibi_error *error);

/* ---- the names of pre-tokenizers ---- */

enum { GGUF_SPLITS = 5 };

typedef struct gguf_pre {
  const char *names;              /* with a blank before and after each; the first is the one that is written */
  const char *split[GGUF_SPLITS]; /* patterns in Oniguruma's language, one after the other; NULL: none */
  bool nfc, ignore_merges;
  bool add_begin; /* where the file does not say */
} gguf_pre;

const gguf_pre *gguf_pre_named(const char *name, size_t size); /* NULL: not known */
const gguf_pre *gguf_pre_at(size_t index);                     /* NULL after the last */
const char *gguf_split_usual(const char *regex); /* as in the table, where that is spelled otherwise */

#endif
