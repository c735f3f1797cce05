/* task_text.h - a text of few words and two tokenizers for it, as the material of tasks.  Include after cmocka.h.
 */
#ifndef UNIT_TASK_TEXT_H
#define UNIT_TASK_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "evaluate/task.h"
#include "unit/tiny_model.h"

enum { TEXT_SIZE = 60000 };

static alibi_context *context;
static alibi_tokenizer *tokenizers[2]; /* bytes; a BPE of the text */
static uint32_t *texts[2];
static size_t text_counts[2];
static word_list words;

static inline int task_text_setup(void **state)
{
  (void)state;
  static char text[TEXT_SIZE + 64];
  static const char *const some[] = {"harbour", "lantern", "seven",  "walked",  "slowly", "towards",
                                     "the",     "old",     "bridge", "because", "winter", "had",
                                     "come",    "early",   "again",  "there"};
  size_t used = 0;
  for (uint64_t i = 0; used < TEXT_SIZE; i++)
    used += (size_t)sprintf(text + used, "%s%s", some[random_below(5, 0, i, 16)], i % 9 == 8 ? ".\n" : " ");
  const char *list[] = {text};
  context = tiny_context(NULL, 1);
  assert_int_equal(alibi_tokenizer_new_bytes(&tokenizers[0], NULL), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_train(list, &used, 1, 300, &tokenizers[1], NULL), ALIBI_OK);
  for (int t = 0; t < 2; t++)
    assert_int_equal(alibi_tokenizer_encode(tokenizers[t], text, used, &texts[t], &text_counts[t], NULL),
                     ALIBI_OK);
  assert_int_equal(word_list_read(text, used, &words, NULL), ALIBI_OK);
  return 0;
}

static inline int task_text_teardown(void **state)
{
  (void)state;
  word_list_free(&words);
  for (int t = 0; t < 2; t++) {
    alibi_tokens_free(texts[t]);
    alibi_tokenizer_free(tokenizers[t]);
  }
  alibi_context_free(context);
  return 0;
}

static inline task_material material_of(int tokenizer)
{
  return (task_material){.tokenizer = tokenizers[tokenizer],
                         .vocabulary = alibi_tokenizer_vocabulary(tokenizers[tokenizer]),
                         .text = texts[tokenizer],
                         .text_count = text_counts[tokenizer],
                         .words = &words};
}

#endif
