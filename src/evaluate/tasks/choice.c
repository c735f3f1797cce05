/* Multiple choice: every choice is scored as what follows the context, and the model's answer is the one of the
 * highest log-probability: as it is, a token, or a byte, since long choices are less likely just for being long.
 * Blanks at the end of a context go to its choices, as a tokenizer puts them. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/engine.h"
#include "evaluate/task.h"
#include "evaluate/task_questions.h"

typedef enum choice_norm { PLAIN, PER_TOKEN, PER_BYTE, NORMS } choice_norm;

static const char *const measures[] = {"accuracy", "accuracy_per_token", "accuracy_per_byte",
                                       "chance",   "questions",          NULL};

/* Choice after choice, question after question. */
typedef struct choice_state {
  const task_material *material;
  task_prompts prompts;
  size_t *bytes; /* [choices of all] of each one's text */
  float *losses;
} choice_state;

static status write_choice(choice_state *c, const choice_question *q, size_t choice, size_t *bytes,
                           alibi_error *error)
{
  const alibi_tokenizer *tokenizer = c->material->tokenizer;
  uint32_t *context = NULL, *answer = NULL;
  char *text = NULL;
  size_t size = strlen(q->context), blanks = 0, context_count, answer_count, tail = strlen(q->choices[choice]);
  status result;
  while (blanks < size && q->context[size - blanks - 1] == ' ') blanks++;
  if (blanks == size) blanks = 0;
  *bytes = blanks + tail;
  TRY(memory_new(&text, *bytes + 1, 1, "a choice", error));
  memset(text, ' ', blanks);
  memcpy(text + blanks, q->choices[choice], tail);
  TRY(alibi_tokenizer_encode(tokenizer, q->context, size - blanks, &context, &context_count, error));
  TRY(alibi_tokenizer_encode(tokenizer, text, *bytes, &answer, &answer_count, error));
  prompts_begin(&c->prompts);
  TRY(prompts_add(&c->prompts, context, context_count, error));
  TRY(prompts_add_answer(&c->prompts, answer, answer_count, 0, error));
  TRY(prompts_end(&c->prompts, error));
done:
  alibi_tokens_free(context);
  alibi_tokens_free(answer);
  memory_free(text);
  return result;
}

static status write_all(choice_state *c, alibi_error *error)
{
  const choice_questions *all = c->material->questions;
  size_t count = 0, choice = 0;
  status result;
  for (size_t i = 0; i < all->count; i++) count += all->items[i].count;
  TRY(memory_new(&c->bytes, count, sizeof *c->bytes, "the choices", error));
  for (size_t i = 0; i < all->count; i++)
    for (size_t k = 0; k < all->items[i].count; k++, choice++)
      TRY(write_choice(c, &all->items[i], k, &c->bytes[choice], error));
done:
  return result;
}

/* Which of the question's choices wins, the first of equals. */
static size_t best_choice(const choice_state *c, const choice_question *q, size_t first, choice_norm norm)
{
  size_t best = 0;
  double highest = -INFINITY;
  for (size_t k = 0; k < q->count; k++) {
    const task_answer *a = &c->prompts.answers[first + k];
    double sum = 0;
    for (size_t i = 0; i < a->count; i++) sum -= c->losses[a->target + i];
    if (norm == PER_TOKEN) sum /= (double)a->count;
    if (norm == PER_BYTE) sum /= (double)c->bytes[first + k];
    if (sum > highest) highest = sum, best = k;
  }
  return best;
}

static void measure(const choice_state *c, task_row *row)
{
  const choice_questions *all = c->material->questions;
  double count = (double)all->count, chance = 0;
  for (choice_norm norm = PLAIN; norm < NORMS; norm++) {
    double right = 0;
    for (size_t i = 0, first = 0; i < all->count; first += all->items[i++].count)
      right += best_choice(c, &all->items[i], first, norm) == all->items[i].answer;
    double share = right / count;
    row->measures[norm] = (task_measure){share, count > 1 ? sqrt(share * (1 - share) / (count - 1)) : NAN};
  }
  for (size_t i = 0; i < all->count; i++) chance += 1 / (double)all->items[i].count;
  row->measures[3] = (task_measure){chance / count, NAN};
  row->measures[4] = (task_measure){count, NAN};
}

typedef struct choice_progress {
  const task_settings *settings;
  const plan *plan;
} choice_progress;

static status after_batch(void *user, size_t windows, size_t targets, alibi_error *error)
{
  const choice_progress *p = user;
  (void)targets;
  (void)error;
  p->settings->progress(p->settings->user, (double)p->plan->inputs * (double)windows / (double)p->plan->count,
                        (double)p->plan->inputs);
  return ALIBI_OK;
}

static status run(alibi_model *model, const task_material *m, const task_settings *s, task_row *row,
                  alibi_error *error)
{
  choice_state c = {.material = m};
  choice_progress progress = {s, &c.prompts.plan};
  status result;
  TRY(write_all(&c, error));
  engine_options o = {.length = c.prompts.plan.longest,
                      .batch_tokens = task_batch_tokens(model, s),
                      .after_batch = s->progress ? after_batch : NULL,
                      .user = &progress};
  if (s->extension) o.extension = s->extension->extension, o.extension_options = s->extension->options.bytes;
  if (s->progress) s->progress(s->user, 0, (double)c.prompts.plan.inputs);
  TRY(memory_new(&c.losses, c.prompts.plan.targets, sizeof *c.losses, "the losses", error));
  TRY(engine_run(model, c.prompts.tokens.ids, &c.prompts.plan, &o, c.losses, &row->seconds, error));
  row->inputs = (int64_t)c.prompts.plan.inputs;
  measure(&c, row);
done:
  memory_free(c.losses);
  memory_free(c.bytes);
  prompts_free(&c.prompts);
  return result;
}

const evaluation_task task_choice = {
    .name = "choice",
    .title = "Multiple choice",
    .about = "the most probable of several continuations, from --questions FILE.jsonl",
    .source = "",
    .needs = TASK_NEEDS_TOKENIZER | TASK_NEEDS_QUESTIONS,
    .own_length = true,
    .measures = measures,
    .run = run,
};
