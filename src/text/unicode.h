/* text/unicode.h - what Unicode says about characters: kinds, lower case, normalization forms, graphemes.  Each in
 * the version of it that the library has whose tokenizer.json files these are: in brackets. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/text_buffer.h"

bool unicode_is_space(uint32_t c);       /* White_Space */
bool unicode_is_mark(uint32_t c);        /* M [9] */
bool unicode_is_nonspacing(uint32_t c);  /* Mn [8] */
bool unicode_is_punctuation(uint32_t c); /* P [8], and what ASCII prints that is no letter, digit or blank */
bool unicode_is_number(uint32_t c);      /* N [17] */
bool unicode_is_other(uint32_t c);       /* Cc, Cf, Co, Cs [8] */
bool unicode_is_word(uint32_t c);        /* Alphabetic, M, Nd, Pc, joiners: \w of UTS 18 [16] */

/* Lower case of one character [17]: one or two characters; how many. */
size_t unicode_lower(uint32_t c, uint32_t lower[2]);

typedef enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } unicode_form;

/* Appends the form [9] of valid UTF-8.  Time is linear in size, whatever marks it has. */
status unicode_normalize(unicode_form form, const unsigned char *text, size_t size, text_buffer *to,
                         alibi_error *error);

/* Bytes of the first extended grapheme cluster (size > 0). */
size_t unicode_grapheme(const unsigned char *text, size_t size);

#endif
