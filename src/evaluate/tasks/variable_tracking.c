/* Variable tracking: assignments of one variable to the next, strewn over the text, and the question which
 * variables have the first one's value.  Other chains, with other values, may lie between. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/task_haystack.h"

typedef struct tracking_options {
  int haystack;
  int64_t chains, hops;
} tracking_options;

static const char *const haystacks[] = {"text", "noise", NULL};

static const field fields[] = {
    {.name = "haystack",
     .kind = FIELD_CHOICE,
     .offset = offsetof(tracking_options, haystack),
     .initial = HAYSTACK_NOISE,
     .choices = haystacks,
     .help = "the user's text, or five sentences again and again"},
    {.name = "chains",
     .kind = FIELD_INTEGER,
     .offset = offsetof(tracking_options, chains),
     .minimum = 1,
     .maximum = 32,
     .initial = 1,
     .help = "chains of variables, one of which is asked for"},
    {.name = "hops",
     .kind = FIELD_INTEGER,
     .offset = offsetof(tracking_options, hops),
     .minimum = 0,
     .maximum = 31,
     .initial = 4,
     .help = "assignments of a chain after its first"},
};

enum { NAME_LETTERS = 5, NAMES = 26 * 26 * 26 * 26 * 26 };

static void spell(size_t number, char name[NAME_LETTERS + 1])
{
  for (size_t i = 0; i < NAME_LETTERS; i++, number /= 26) name[i] = (char)('A' + number % 26);
  name[NAME_LETTERS] = '\0';
}

static void write_chain(haystack *h, size_t chain, size_t length, const size_t *names, unsigned value,
                        task_random *random)
{
  double depths[32];
  char name[NAME_LETTERS + 1], before[NAME_LETTERS + 1] = "";
  haystack_draw_depths(random, depths, length);
  for (size_t i = 0; i < length; i++) {
    haystack_piece *piece = &h->pieces[chain * length + i];
    spell(names[chain * length + i], name);
    piece->depth = depths[i];
    if (i == 0) snprintf(piece->text, PIECE_SIZE, " VAR %s = %u.", name, value);
    else snprintf(piece->text, PIECE_SIZE, " VAR %s = VAR %s.", name, before);
    memcpy(before, name, sizeof before);
    if (chain > 0) continue;
    haystack_answer *a = &h->answers[i];
    snprintf(a->before, sizeof a->before, "%s", i > 0 ? "," : "");
    snprintf(a->text, sizeof a->text, " %s", name);
    a->depth = depths[i];
  }
}

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  const tracking_options *o = r->options;
  size_t chains = (size_t)o->chains, length = (size_t)o->hops + 1, *names = NULL;
  task_random random = r->random;
  haystack h = {0};
  unsigned first = 10000 + (unsigned)task_below(&random, 90000);
  status result;
  TRY(memory_new(&names, chains * length, sizeof *names, "the variables", error));
  TRY(haystack_new(chains * length, length, &h, error));
  TRY(task_choose(&random, NAMES, names, chains * length, error));
  h.kind = (haystack_kind)o->haystack;
  snprintf(h.head, sizeof h.head, "Variables are assigned in the following text. Keep track of their values.\n");
  for (size_t c = 0; c < chains; c++) /* values of chains differ */
    write_chain(&h, c, length, names, 10000 + (first - 10000 + (unsigned)c * 2729) % 90000, &random);
  snprintf(
      h.question, sizeof h.question,
      "\nWhich variables have the value %u in the text above, in the order in which they were assigned? They are",
      first);
  TRY(haystack_write(&h, r, &random, prompts, error));
done:
  haystack_free(&h);
  memory_free(names);
  return result;
}

static bool needs_text(const void *options)
{
  return ((const tracking_options *)options)->haystack == HAYSTACK_TEXT;
}

const evaluation_task task_variable_tracking = {
    .name = "variable-tracking",
    .title = "Variable tracking",
    .about = "the variables that a chain of assignments, strewn over the text, gives one value",
    .source = "RULER (vt), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .depths = true,
    .spreads = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(tracking_options),
    .needs_text = needs_text,
    .make = make,
};
