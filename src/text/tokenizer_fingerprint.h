/* text/tokenizer_fingerprint.h - is this the tokenizer that made these ids? */
#ifndef TEXT_TOKENIZER_FINGERPRINT_H
#define TEXT_TOKENIZER_FINGERPRINT_H

#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"

/* Of its tokens and merges, not of a file's spelling: opening what was saved gives the same.  Never 0. */
status tokenizer_fingerprint(const alibi_tokenizer *tokenizer, uint64_t *value, alibi_error *error);

#endif
