/* text/unicode_since.h - since which Unicode a character is what it is. */
#ifndef TEXT_UNICODE_SINCE_H
#define TEXT_UNICODE_SINCE_H

#include <stdint.h>

typedef enum unicode_answer { UNICODE_OLD, UNICODE_YES, UNICODE_NO } unicode_answer;

/* 10: the character came after Unicode 9; 9: it is a mark, punctuation or format character that came with 9; 8:
 * any other. */
int unicode_since(uint32_t c);

/* UNICODE_OLD: as Unicode 12 has it. */
unicode_answer unicode_word_lately(uint32_t c);
unicode_answer unicode_number_lately(uint32_t c);

/* Lower case where Unicode 13 to 17 gave it; else c itself. */
uint32_t unicode_lower_lately(uint32_t c);

#endif
