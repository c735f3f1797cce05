/* Common words: a numbered list in which ten words come often and all others seldom; the longer the prompt, the
 * more of the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/task_haystack.h"

typedef struct common_options {
  int64_t common, often, seldom;
} common_options;

#define COUNT(member, count, most, what)                                                                          \
  {                                                                                                               \
    .name = #member, .kind = FIELD_INTEGER, .offset = offsetof(common_options, member), .minimum = 1,             \
    .maximum = (most), .initial = (count), .help = (what)                                                         \
  }

static const field fields[] = {COUNT(common, 10, 32, "words that come often, all of them asked for"),
                               COUNT(often, 30, 10000, "how often they come"),
                               COUNT(seldom, 3, 10000, "how often each other word comes")};

enum { MOST_WORDS = 200000 };

/* A list in the making: the ids of each of its words. */
typedef struct common_list {
  char (*words)[WORD_SIZE]; /* [count]; the first are the common ones */
  id_list *ids;             /* [count] " word" */
  size_t count;
  size_t *entries; /* [entry_count] which word, in the order of the list */
  size_t entry_count;
} common_list;

static void list_free(common_list *l)
{
  for (size_t i = 0; l->ids && i < l->count; i++) id_list_free(&l->ids[i]);
  memory_free(l->ids);
  memory_free(l->words);
  memory_free(l->entries);
}

static status number_ids(const alibi_tokenizer *tokenizer, size_t number, id_list *ids, alibi_error *error)
{
  char text[32];
  ids->count = 0;
  snprintf(text, sizeof text, " %zu.", number);
  return id_list_add_text(ids, tokenizer, text, error);
}

/* How many of the words fit into `room` tokens, with their numbers before them; *entries: of the list. */
static status fit(const task_request *r, const common_list *l, size_t room, size_t *words, size_t *entries,
                  alibi_error *error)
{
  const common_options *o = r->options;
  id_list number = {0};
  size_t used = 0;
  status result = ALIBI_OK;
  *words = *entries = 0;
  for (size_t w = 0; w < l->count; w++) {
    TRY(task_check_cancel(r, error));
    size_t times = (size_t)(w < (size_t)o->common ? o->often : o->seldom), more = times * l->ids[w].count;
    for (size_t i = 0; i < times && used + more <= room; i++) {
      TRY(number_ids(r->material->tokenizer, *entries + i + 1, &number, error));
      more += number.count;
    }
    if (used + more > room) break;
    used += more;
    *entries += times;
    (*words)++;
  }
done:
  id_list_free(&number);
  return result;
}

static status shuffle(const common_options *o, common_list *l, size_t words, size_t entries, task_random *random,
                      alibi_error *error)
{
  status result = memory_new(&l->entries, entries, sizeof *l->entries, "a list of words", error);
  if (result != ALIBI_OK) return result;
  for (size_t w = 0; w < words; w++)
    for (int64_t i = 0; i < (w < (size_t)o->common ? o->often : o->seldom); i++) l->entries[l->entry_count++] = w;
  task_shuffle(random, l->entries, entries, entries);
  return ALIBI_OK;
}

/* More words than can be needed: one takes two tokens and its number at least one more, each time. */
static status draw_words(const common_options *o, const task_request *r, size_t room, common_list *l,
                         task_random *random, alibi_error *error)
{
  size_t most = (size_t)o->common + room / (2 * (size_t)o->seldom) + 1;
  status result;
  l->count = most < MOST_WORDS ? most : MOST_WORDS;
  TRY(memory_new(&l->words, l->count, sizeof *l->words, "the words of a list", error));
  TRY(memory_new(&l->ids, l->count, sizeof *l->ids, "the words of a list", error));
  TRY(word_choose(r->material->words, random, l->words, l->count, error));
  for (size_t i = 0; i < l->count; i++) {
    char text[WORD_SIZE + 1];
    TRY(task_check_cancel(r, error));
    snprintf(text, sizeof text, " %.*s", WORD_SIZE - 1, l->words[i]);
    TRY(id_list_add_text(&l->ids[i], r->material->tokenizer, text, error));
  }
done:
  return result;
}

static int compare_words(const void *a, const void *b)
{
  return strcmp(a, b);
}

static status write_texts(const common_options *o, const common_list *l, haystack *h, alibi_error *error)
{
  char(*sorted)[WORD_SIZE] = NULL;
  size_t count = (size_t)o->common;
  status result = memory_new(&sorted, count, sizeof *sorted, "the words of a list", error);
  if (result != ALIBI_OK) return result;
  memcpy(sorted, l->words, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare_words);
  snprintf(h->head, sizeof h->head,
           "Some words come more often than others in the following list. Remember those.\n");
  snprintf(h->question, sizeof h->question,
           "\nWhich are the %zu most frequent words of the list above, in the order of the alphabet? They are",
           count);
  for (size_t i = 0; i < count; i++) {
    snprintf(h->answers[i].before, sizeof h->answers[i].before, "%s", i > 0 ? "," : "");
    snprintf(h->answers[i].text, ANSWER_SIZE, " %s", sorted[i]);
  }
  memory_free(sorted);
  return ALIBI_OK;
}

static status write_list(const task_request *r, const common_list *l, id_list *middle, alibi_error *error)
{
  id_list number = {0};
  status result = ALIBI_OK;
  for (size_t i = 0; i < l->entry_count; i++) {
    const id_list *word = &l->ids[l->entries[i]];
    TRY(task_check_cancel(r, error));
    TRY(number_ids(r->material->tokenizer, i + 1, &number, error));
    TRY(id_list_add(middle, number.ids, number.count, error));
    TRY(id_list_add(middle, word->ids, word->count, error));
  }
done:
  id_list_free(&number);
  return result;
}

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  const common_options *o = r->options;
  task_random random = r->random;
  haystack h = {0};
  haystack_ids encoded = {0};
  common_list list = {0};
  id_list middle = {0};
  size_t words, entries;
  status result;
  if (o->seldom >= o->often)
    RAISE(error, ALIBI_INVALID, "seldom: expected less than often, %lld, found %lld", (long long)o->often,
          (long long)o->seldom);
  TRY(draw_words(o, r, r->length, &list, &random, error));
  TRY(haystack_new(0, (size_t)o->common, &h, error));
  TRY(write_texts(o, &list, &h, error));
  TRY(haystack_encode(&h, r, &encoded, error));
  TRY(fit(r, &list, encoded.room, &words, &entries, error));
  if (words <= (size_t)o->common)
    RAISE(error, ALIBI_INVALID,
          "not possible: %lld words, each %lld times, and another do not fit into %zu tokens",
          (long long)o->common, (long long)o->often, r->length);
  TRY(shuffle(o, &list, words, entries, &random, error));
  TRY(write_list(r, &list, &middle, error));
  TRY(haystack_put(&h, &encoded, r, &middle, prompts, error));
done:
  id_list_free(&middle);
  list_free(&list);
  haystack_ids_free(&encoded);
  haystack_free(&h);
  return result;
}

const evaluation_task task_common_words = {
    .name = "common-words",
    .title = "Common words extraction",
    .about = "the words that come most often in a numbered list",
    .source = "RULER (cwe), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(common_options),
    .make = make,
};
