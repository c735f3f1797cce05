/* Associative recall: pairs of a key and a value, then keys again, each followed by its value.  A small model
 * learns it from a training set of the same kind, so it says of a method how far back it can read.
 *
 * Ids: 0 is filler, keys are 1 .. V/2-1, values V/2 .. V-1.  The number of pairs does not grow with the length:
 * what is not pairs or questions is filler, strewn between the pairs.  So a longer sequence asks for the same,
 * only farther back.
 *
 * Each key is asked for in every round.  Only the first round has to be read from the pairs, so it alone is
 * scored.  The other rounds, and sequences of fewer pairs, make a training set of which a small model learns
 * something from the beginning; with one round of all pairs it takes many times as long to begin. */
#include "evaluate/task.h"

#include <assert.h>
#include <stddef.h>

#include "base/memory.h"

typedef struct recall_options {
  int64_t pairs, rounds;
} recall_options;

static const field fields[] = {
    {.name = "pairs",
     .kind = FIELD_INTEGER,
     .offset = offsetof(recall_options, pairs),
     .minimum = 1,
     .maximum = 1 << 20,
     .initial = 8,
     .help = "pairs of a key and a value in a sequence"},
    {.name = "rounds",
     .kind = FIELD_INTEGER,
     .offset = offsetof(recall_options, rounds),
     .minimum = 1,
     .maximum = 64,
     .initial = 2,
     .help = "how often each of them is asked for; the first time counts"},
};

enum { FILLER = 0 };

static size_t question_tokens(const recall_options *o)
{
  return 2 * (size_t)o->pairs * (size_t)o->rounds;
}

static status check_sequence(const void *options, size_t length, uint32_t vocabulary, alibi_error *error)
{
  size_t pairs = (size_t)((const recall_options *)options)->pairs, taken = 2 * pairs + question_tokens(options);
  if (pairs + 1 > vocabulary / 2)
    return fail(error, ALIBI_INVALID,
                "%zu pairs need as many keys in the lower half of the ids: expected a vocabulary of at least %zu, "
                "found %u",
                pairs, 2 * pairs + 2, vocabulary);
  if (length < taken)
    return fail(error, ALIBI_INVALID, "%zu pairs and their questions take %zu tokens, the length is %zu", pairs,
                taken, length);
  return ALIBI_OK;
}

/* What a sequence is made of: for each pair its key, its value and where it begins. */
typedef struct recall_draw {
  size_t *keys, *places, *order; /* [pairs]; order: of the questions of a round */
  uint32_t *values;
} recall_draw;

static void draw_free(recall_draw *d)
{
  memory_free(d->keys);
  memory_free(d->places);
  memory_free(d->order);
  memory_free(d->values);
}

/* Pairs and filler in a random order. */
static status strew(alibi_context *context, task_random *random, size_t pairs, size_t filler, size_t *places,
                    alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0, at = 0, left = pairs + filler; i < pairs; left--) {
    TRY(task_check_draws(context, left, error));
    if (task_below(random, left) < pairs - i) {
      places[i++] = at;
      at += 2;
    } else {
      at++;
    }
  }
done:
  return result;
}

static status draw(alibi_context *context, task_random *random, size_t pairs, size_t filler,
                   uint32_t vocabulary, recall_draw *d, alibi_error *error)
{
  status result;
  uint32_t half = vocabulary / 2;
  TRY(memory_new(&d->keys, pairs, sizeof *d->keys, "the pairs", error));
  TRY(memory_new(&d->places, pairs, sizeof *d->places, "the pairs", error));
  TRY(memory_new(&d->order, pairs, sizeof *d->order, "the pairs", error));
  TRY(memory_new(&d->values, pairs, sizeof *d->values, "the pairs", error));
  TRY(task_choose(random, half - 1, d->keys, pairs, error));
  for (size_t i = 0; i < pairs; i++) d->values[i] = half + (uint32_t)task_below(random, vocabulary - half);
  TRY(strew(context, random, pairs, filler, d->places, error));
done:
  return result;
}

/* pairs: at most as many as the options say; their questions fill the same place. */
static status write_sequence(alibi_context *context, const recall_options *options, size_t pairs, size_t length,
                             uint32_t vocabulary, task_random random, uint32_t *ids, alibi_error *error)
{
  size_t before = length - question_tokens(options);
  recall_draw d = {0};
  status result;
  TRY(draw(context, &random, pairs, before - 2 * pairs, vocabulary, &d, error));
  for (size_t i = 0; i < before; i++) ids[i] = FILLER;
  for (size_t i = 0; i < pairs; i++) {
    ids[d.places[i]] = 1 + (uint32_t)d.keys[i];
    ids[d.places[i] + 1] = d.values[i];
  }
  for (size_t at = before, i = 0; at < length; at += 2, i++) {
    TRY(task_check_draws(context, i, error));
    if (i % pairs == 0) TRY(task_choose(&random, pairs, d.order, pairs, error));
    ids[at] = 1 + (uint32_t)d.keys[d.order[i % pairs]];
    ids[at + 1] = d.values[d.order[i % pairs]];
  }
done:
  draw_free(&d);
  return result;
}

static status sequence(alibi_context *context, const void *options, size_t length, uint32_t vocabulary,
                       task_random random, uint32_t *ids, alibi_error *error)
{
  size_t pairs = 1 + (size_t)task_below(&random, (uint64_t)((const recall_options *)options)->pairs);
  return write_sequence(context, options, pairs, length, vocabulary, random, ids, error);
}

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  size_t pairs = (size_t)((const recall_options *)r->options)->pairs;
  uint32_t *ids = NULL;
  status result;
  TRY(check_sequence(r->options, r->length, r->material->vocabulary, error));
  size_t context = r->length - question_tokens(r->options), scored = context + 2 * pairs;
  TRY(memory_new(&ids, r->length, sizeof *ids, "a prompt", error));
  TRY(write_sequence(r->context, r->options, pairs, r->length, r->material->vocabulary, r->random, ids, error));
  prompts_begin(prompts);
  TRY(prompts_add(prompts, ids, context, error));
  for (size_t i = context; i < scored; i += 2) {
    size_t place = 0;
    while (ids[place] != ids[i]) {
      place++;
      TRY(task_check_draws(r->context, place, error));
    }
    TRY(prompts_add(prompts, ids + i, 1, error));
    TRY(prompts_add_answer(prompts, ids + i + 1, 1, context > 2 ? (double)place / (double)(context - 2) : 0,
                           error));
  }
  TRY(prompts_add(prompts, ids + scored, r->length - scored, error));
  TRY(prompts_end(prompts, error));
done:
  memory_free(ids);
  return result;
}

const evaluation_task task_recall = {
    .name = "recall",
    .title = "Associative recall",
    .about = "the value of each key among pairs strewn over the context; ids alone, for models trained on it",
    .source = "after Arora et al. 2024 (Zoology), arXiv 2312.04927",
    .depths = true,
    .spreads = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(recall_options),
    .make = make,
    .check_sequence = check_sequence,
    .sequence = sequence,
};
