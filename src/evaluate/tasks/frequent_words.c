/* Frequent words: made words whose numbers fall as a power of their rank (Zipf); the most frequent of all is a row
 * of dots, and the three after it are asked for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/task_haystack.h"

typedef struct frequent_options {
  double alpha;
  int64_t asked;
} frequent_options;

static const field fields[] = {
    {.name = "alpha",
     .kind = FIELD_REAL,
     .offset = offsetof(frequent_options, alpha),
     .minimum = 1.05,
     .maximum = 10,
     .initial = 2,
     .help = "of the numbers, rank to the power of -alpha"},
    {.name = "asked",
     .kind = FIELD_INTEGER,
     .offset = offsetof(frequent_options, asked),
     .minimum = 1,
     .maximum = 16,
     .initial = 3,
     .help = "words asked for"},
};

enum { MOST_RANKS = 4096 };

typedef struct frequent_draw {
  char (*words)[WORD_SIZE]; /* [MOST_RANKS] by rank; the first is the dots */
  id_list *ids;
} frequent_draw;

static void draw_free(frequent_draw *d)
{
  for (size_t i = 0; d->ids && i < MOST_RANKS; i++) id_list_free(&d->ids[i]);
  memory_free(d->ids);
  memory_free(d->words);
}

static status draw_new(task_random *random, frequent_draw *d, alibi_error *error)
{
  status result;
  TRY(memory_new(&d->words, MOST_RANKS, sizeof *d->words, "coded words", error));
  TRY(memory_new(&d->ids, MOST_RANKS, sizeof *d->ids, "coded words", error));
  TRY(word_choose(NULL, random, d->words, MOST_RANKS, error));
  snprintf(d->words[0], WORD_SIZE, "...");
done:
  return result;
}

/* Tokens of a rank's word, encoded when it is first asked for. */
static status word_tokens(const task_request *r, frequent_draw *d, size_t rank, size_t *tokens, alibi_error *error)
{
  char text[WORD_SIZE + 1];
  status result = ALIBI_OK;
  if (d->ids[rank].count == 0) {
    snprintf(text, sizeof text, " %.*s", WORD_SIZE - 1, d->words[rank]);
    result = id_list_add_text(&d->ids[rank], r->material->tokenizer, text, error);
  }
  *tokens = d->ids[rank].count;
  return result;
}

/* The word of rank k (from 0) of about `total` words: rounded, so that it comes at least once up to where it is
 * half. */
static size_t times(double total, double alpha, size_t rank)
{
  return (size_t)floor(total * pow((double)rank + 1, -alpha) + 0.5);
}

static status tokens_of(const task_request *r, frequent_draw *d, double total, size_t *tokens, alibi_error *error)
{
  const frequent_options *o = r->options;
  status result = ALIBI_OK;
  *tokens = 0;
  for (size_t rank = 0, n; rank < MOST_RANKS && (n = times(total, o->alpha, rank)) > 0; rank++) {
    size_t each;
    TRY(word_tokens(r, d, rank, &each, error));
    *tokens += n * each;
  }
done:
  return result;
}

/* The largest number of dots with which all fits. */
static status fit(const task_request *r, frequent_draw *d, size_t room, size_t *total, alibi_error *error)
{
  size_t low = 0, high = room + 1, tokens;
  status result = ALIBI_OK;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    TRY(tokens_of(r, d, (double)middle, &tokens, error));
    if (tokens <= room) low = middle;
    else high = middle;
  }
  *total = low;
done:
  return result;
}

static status write_words(const task_request *r, const frequent_draw *d, size_t total, task_random *random,
                          id_list *middle, alibi_error *error)
{
  const frequent_options *o = r->options;
  size_t *order = NULL, count = 0, n;
  status result;
  for (size_t rank = 0; rank < MOST_RANKS && (n = times((double)total, o->alpha, rank)) > 0; rank++) count += n;
  TRY(memory_new(&order, count, sizeof *order, "coded words", error));
  count = 0;
  for (size_t rank = 0; rank < MOST_RANKS && (n = times((double)total, o->alpha, rank)) > 0; rank++)
    for (size_t i = 0; i < n; i++) order[count++] = rank;
  task_shuffle(random, order, count, count);
  for (size_t i = 0; i < count; i++) {
    TRY(task_check_cancel(r, error));
    TRY(id_list_add(middle, d->ids[order[i]].ids, d->ids[order[i]].count, error));
  }
done:
  memory_free(order);
  return result;
}

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  const frequent_options *o = r->options;
  size_t asked = (size_t)o->asked, total;
  task_random random = r->random;
  haystack h = {0};
  haystack_ids encoded = {0};
  frequent_draw draw = {0};
  id_list middle = {0};
  status result;
  TRY(draw_new(&random, &draw, error));
  TRY(haystack_new(0, asked, &h, error));
  snprintf(h.head, sizeof h.head,
           "The following text is in code. Keep track of how often each word comes, dots apart.\n");
  snprintf(h.question, sizeof h.question,
           "\nWhich are the %zu most frequent words of the coded text above, the most frequent first? They are",
           asked);
  for (size_t i = 0; i < asked; i++) {
    snprintf(h.answers[i].before, sizeof h.answers[i].before, "%s", i > 0 ? "," : "");
    snprintf(h.answers[i].text, ANSWER_SIZE, " %s", draw.words[i + 1]);
  }
  TRY(haystack_encode(&h, r, &encoded, error));
  TRY(fit(r, &draw, encoded.room, &total, error));
  for (size_t rank = 1; rank <= asked; rank++)
    if (times((double)total, o->alpha, rank) <= times((double)total, o->alpha, rank + 1))
      RAISE(error, ALIBI_INVALID,
            "not possible: in %zu tokens the word of rank %zu comes no more often than the next one", r->length,
            rank + 1);
  TRY(write_words(r, &draw, total, &random, &middle, error));
  TRY(haystack_put(&h, &encoded, r, &middle, prompts, error));
done:
  id_list_free(&middle);
  draw_free(&draw);
  haystack_ids_free(&encoded);
  haystack_free(&h);
  return result;
}

const evaluation_task task_frequent_words = {
    .name = "frequent-words",
    .title = "Frequent words extraction",
    .about = "the three most frequent words of a coded text",
    .source = "RULER (fwe), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(frequent_options),
    .make = make,
};
