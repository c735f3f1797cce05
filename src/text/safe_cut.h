/* text/safe_cut.h - where a text can be cut so that the ids of its parts are the ids of the whole. */
#ifndef TEXT_SAFE_CUT_H
#define TEXT_SAFE_CUT_H

#include <stddef.h>

#include "alibi/tokenizer.h"

/* The first safe place at or after `from` (> 0); size where there is none before.  tokenizer NULL: of any
 * byte-level BPE. */
size_t tokenizer_safe_cut(const alibi_tokenizer *tokenizer, const unsigned char *text, size_t size, size_t from);

#endif
