/* Words of a text are kept in a hash table while they are collected; made words are numbers written in syllables.
 */
#include "evaluate/task_words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/memory.h"

enum { MOST = 20000, SLOTS = 1 << 16, SHORTEST = 4, LONGEST = 15 };

static bool is_small(unsigned char c)
{
  return c >= 'a' && c <= 'z';
}

/* What may stand beside a word: a word after a letter of another kind is part of a longer one. */
static bool is_edge(unsigned char c)
{
  return c < 128 && !(c >= 'A' && c <= 'Z') && !is_small(c) && !(c >= '0' && c <= '9') && c != '_' && c != '\'' &&
         c != '-';
}

static status keep(word_list *list, size_t *slots, const char *word, size_t size, alibi_error *error)
{
  size_t slot = (size_t)(fingerprint_of(word, size) % SLOTS);
  for (; slots[slot]; slot = (slot + 1) % SLOTS) {
    const char *other = list->words[slots[slot] - 1];
    if (strlen(other) == size && memcmp(other, word, size) == 0) return ALIBI_OK;
  }
  status result = memory_grow(&list->words, &list->capacity, list->count + 1, sizeof *list->words,
                              "the words of a text", error);
  if (result != ALIBI_OK) return result;
  memcpy(list->words[list->count], word, size);
  list->words[list->count][size] = '\0';
  slots[slot] = ++list->count;
  return ALIBI_OK;
}

status word_list_read(const void *text, size_t size, word_list *list, alibi_error *error)
{
  const char *bytes = text;
  size_t *slots = NULL;
  status result;
  *list = (word_list){0};
  TRY(memory_new(&slots, SLOTS, sizeof *slots, "the words of a text", error));
  for (size_t i = 0, end; i < size && list->count < MOST; i = end) {
    end = i;
    while (end < size && is_small((unsigned char)bytes[end])) end++;
    bool alone =
        (i == 0 || is_edge((unsigned char)bytes[i - 1])) && (end == size || is_edge((unsigned char)bytes[end]));
    if (alone && end - i >= SHORTEST && end - i <= LONGEST) TRY(keep(list, slots, bytes + i, end - i, error));
    if (end == i) end++;
  }
done:
  memory_free(slots);
  return result;
}

void word_list_free(word_list *list)
{
  free(list->words);
  *list = (word_list){0};
}

void word_make(size_t index, char word[WORD_SIZE])
{
  static const char consonants[] = "bdfghjklmnprstvz", vowels[] = "aeiou";
  size_t syllables = 80, number = index % WORDS_MADE * 317811 % WORDS_MADE; /* neighbours share no beginning */
  for (size_t i = 0; i < 3; i++, number /= syllables) {
    word[2 * i] = consonants[number % syllables / 5];
    word[2 * i + 1] = vowels[number % 5];
  }
  word[6] = '\0';
}

status word_choose(const word_list *list, task_random *random, char (*words)[WORD_SIZE], size_t count,
                   alibi_error *error)
{
  size_t *chosen = NULL;
  bool from_text = list && list->count / 2 >= count;
  assert(count <= WORDS_MADE);
  status result = memory_new(&chosen, count, sizeof *chosen, "words", error);
  if (result != ALIBI_OK) return result;
  TRY(task_choose(random, from_text ? list->count : WORDS_MADE, chosen, count, error));
  for (size_t i = 0; i < count; i++) {
    if (from_text) memcpy(words[i], list->words[chosen[i]], WORD_SIZE);
    else word_make(chosen[i], words[i]);
  }
done:
  memory_free(chosen);
  return result;
}
