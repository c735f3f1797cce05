/* evaluate/task_words.h - words for prompts: those of the user's text, or made ones. */
#ifndef EVALUATE_TASK_WORDS_H
#define EVALUATE_TASK_WORDS_H

#include <stddef.h>

#include "base/error.h"
#include "evaluate/task_prompt.h"

enum { WORD_SIZE = 32, WORDS_MADE = 512000 };

typedef struct word_list {
  char (*words)[WORD_SIZE];
  size_t count, capacity;
} word_list;

/* The different words of a text, of 4 to 15 small Latin letters with nothing but blanks and punctuation beside
 * them, in the order in which they first occur; at most the first 20000. */
status word_list_read(const void *text, size_t size, word_list *list, alibi_error *error);
void word_list_free(word_list *list);

/* Six letters in three syllables, "bakelo"; different ones for different indices below WORDS_MADE. */
void word_make(size_t index, char word[WORD_SIZE]);

/* `count` <= WORDS_MADE different words: of the list (NULL: none) where it has at least twice as many, else made
 * ones. */
status word_choose(const word_list *list, task_random *random, char (*words)[WORD_SIZE], size_t count,
                   alibi_error *error);

#endif
