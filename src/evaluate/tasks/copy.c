/* Copying: a run of random tokens, a separator, and the same run again.  Every token of the second run is scored,
 * and its answer lies exactly one run and a token back. */
#include "base/memory.h"
#include "evaluate/task.h"

typedef struct copy_options {
  int64_t separator;
} copy_options;

static const field fields[] = {
    {.name = "separator",
     .kind = FIELD_INTEGER,
     .offset = offsetof(copy_options, separator),
     .minimum = -1,
     .maximum = 4294967294.0,
     .initial = -1,
     .help = "id between the runs; -1: the last one of the vocabulary"},
};

static status check_sequence(const void *options, size_t length, uint32_t vocabulary, alibi_error *error)
{
  int64_t separator = ((const copy_options *)options)->separator;
  if (vocabulary < 3)
    return fail(error, ALIBI_INVALID, "copying needs a vocabulary of at least 3 ids, found %u", vocabulary);
  if (separator >= (int64_t)vocabulary)
    return fail(error, ALIBI_INVALID, "separator: expected an id below the vocabulary of %u, found %lld",
                vocabulary, (long long)separator);
  if (length < 3) return fail(error, ALIBI_INVALID, "copying takes at least 3 tokens, the length is %zu", length);
  return ALIBI_OK;
}

static uint32_t separator_of(const void *options, uint32_t vocabulary)
{
  int64_t separator = ((const copy_options *)options)->separator;
  return separator < 0 ? vocabulary - 1 : (uint32_t)separator;
}

/* An even length has a separator before the first run too. */
static status sequence(alibi_context *context, const void *options, size_t length, uint32_t vocabulary,
                       task_random random, uint32_t *ids, alibi_error *error)
{
  uint32_t separator = separator_of(options, vocabulary);
  size_t run = (length - 1) / 2, first = length - 1 - 2 * run;
  status result = ALIBI_OK;
  if (first) ids[0] = separator;
  ids[first + run] = separator;
  for (size_t i = 0; i < run; i++) {
    TRY(task_check_draws(context, i, error));
    uint32_t id = (uint32_t)task_below(&random, vocabulary - 1);
    ids[first + i] = ids[first + run + 1 + i] = id < separator ? id : id + 1;
  }
done:
  return result;
}

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  uint32_t *ids = NULL;
  size_t run = (r->length - 1) / 2;
  status result;
  TRY(check_sequence(r->options, r->length, r->material->vocabulary, error));
  TRY(memory_new(&ids, r->length, sizeof *ids, "a prompt", error));
  TRY(sequence(r->context, r->options, r->length, r->material->vocabulary, r->random, ids, error));
  prompts_begin(prompts);
  TRY(prompts_add(prompts, ids, r->length - run, error));
  TRY(prompts_add_answer(prompts, ids + r->length - run, run, 0, error));
  TRY(prompts_end(prompts, error));
done:
  memory_free(ids);
  return result;
}

const evaluation_task task_copy = {
    .name = "copy",
    .title = "Copying",
    .about = "random ids, a separator, the same ids again: the share of them that is foretold",
    .source = "after Jelassi et al. 2024, arXiv 2402.01032",
    .by_token = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(copy_options),
    .make = make,
    .check_sequence = check_sequence,
    .sequence = sequence,
};
