/* LongPPL (Fang et al. 2024): perplexity over the key tokens alone, those that a long context makes likely and a
 * short one does not.  An evaluator says which they are: another model with the same tokenizer, or the model
 * itself.
 *
 * Windows of `length` inputs, spread over the text, score their outputs from `short` on.  For the short contexts
 * the same tokens are scored by windows of short inputs that advance by `step`, so that each has from short to
 * short + step - 1 inputs. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/engine.h"
#include "evaluate/task.h"

typedef struct longppl_options {
  int64_t short_context, step;
  double gain, likely;
} longppl_options;

static const field fields[] = {
    {.name = "short",
     .kind = FIELD_INTEGER,
     .offset = offsetof(longppl_options, short_context),
     .maximum = 1 << 30,
     .help = "inputs of the short context; 0: a quarter of the length, at most 4096"},
    {.name = "step",
     .kind = FIELD_INTEGER,
     .offset = offsetof(longppl_options, step),
     .maximum = 1 << 30,
     .help = "by which windows of the short context advance, at most as many as it has; 0: a quarter of it"},
    {.name = "gain",
     .kind = FIELD_REAL,
     .offset = offsetof(longppl_options, gain),
     .minimum = -1000,
     .maximum = 1000,
     .initial = 2,
     .help = "nats that the long context must save a key token, more than"},
    {.name = "likely",
     .kind = FIELD_REAL,
     .offset = offsetof(longppl_options, likely),
     .minimum = 0,
     .maximum = 1000,
     .initial = 2,
     .help = "nats that a key token may cost in the long context, less than"},
};

static const char *const measures[] = {"longppl", "perplexity", "key_share", "key_tokens", "tokens", NULL};

typedef struct longppl {
  size_t length, brief, step, windows, scored; /* scored: outputs of one window */
  plan full, brief_ones;                       /* over the material's text */
  double read, all;                            /* inputs, for the progress */
  float *long_losses, *short_losses, *losses;  /* [windows * scored] */
} longppl;

static status plan_windows(const task_material *m, int64_t trials, longppl *l, alibi_error *error)
{
  size_t room = (m->text_count - 1) / l->length, whole, rest;
  status result = ALIBI_OK;
  l->windows = room < (size_t)trials ? room : (size_t)trials;
  whole = room / l->windows;
  rest = room % l->windows;
  for (size_t w = 0; w < l->windows; w++) {
    size_t start = (w * whole + w * rest / l->windows) * l->length;
    TRY(plan_add(&l->full,
                 (plan_window){.start = start, .inputs = l->length, .first = l->brief, .count = l->scored},
                 error));
    for (size_t i = l->brief; i < l->length; i += l->step) {
      size_t n = l->length - i < l->step ? l->length - i : l->step;
      TRY(plan_add(
          &l->brief_ones,
          (plan_window){
              .start = start + i + 1 - l->brief, .inputs = l->brief + n - 1, .first = l->brief - 1, .count = n},
          error));
    }
  }
done:
  return result;
}

/* Of one of the plans. */
typedef struct longppl_progress {
  const longppl *l;
  const task_settings *settings;
  const plan *plan;
} longppl_progress;

static status after_batch(void *user, size_t windows, size_t targets, alibi_error *error)
{
  const longppl_progress *p = user;
  double done = p->l->read + (double)p->plan->inputs * (double)windows / (double)p->plan->count;
  (void)targets;
  (void)error;
  p->settings->progress(p->settings->user, done, p->l->all);
  return ALIBI_OK;
}

static status run_plan(alibi_model *model, const task_material *m, const task_settings *s, const plan *p,
                       size_t length, longppl *l, float *losses, task_row *row, alibi_error *error)
{
  double seconds;
  longppl_progress progress = {l, s, p};
  engine_options o = {.length = length,
                      .batch_tokens = task_batch_tokens(model, s),
                      .after_batch = s->progress ? after_batch : NULL,
                      .user = &progress};
  if (s->extension && model != m->evaluator) {
    o.extension = s->extension->extension;
    o.extension_options = s->extension->options.bytes;
  }
  status result = engine_run(model, m->text, p, &o, losses, &seconds, error);
  if (result != ALIBI_OK) return result;
  l->read += (double)p->inputs;
  row->inputs += (int64_t)p->inputs;
  row->seconds += seconds;
  return ALIBI_OK;
}

/* Mean over chosen tokens and its error; windows are the blocks. */
static task_measure mean_of(const longppl *l, const float *losses, const unsigned char *chosen)
{
  block_sums sums = {0};
  for (size_t w = 0; w < l->windows; w++) {
    double sum = 0, count = 0;
    for (size_t i = w * l->scored; i < (w + 1) * l->scored; i++)
      if (!chosen || chosen[i]) sum += losses[i], count++;
    block_sums_add(&sums, sum, count);
  }
  mean_estimate mean = block_sums_estimate(&sums);
  return (task_measure){mean.mean, mean.standard_error};
}

static task_measure perplexity_of(task_measure nll)
{
  double value = exp(nll.value);
  return (task_measure){value, value * nll.standard_error};
}

static status measure(const longppl *l, const longppl_options *o, task_row *row, alibi_error *error)
{
  unsigned char *key = NULL;
  size_t tokens = l->windows * l->scored, keys = 0;
  status result = memory_new(&key, tokens, 1, "the key tokens", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < tokens; i++) {
    key[i] = l->short_losses[i] - l->long_losses[i] > o->gain && l->long_losses[i] < o->likely;
    keys += key[i];
  }
  row->measures[0] = perplexity_of(mean_of(l, l->losses, key));
  row->measures[1] = perplexity_of(mean_of(l, l->losses, NULL));
  row->measures[2] = (task_measure){(double)keys / (double)tokens, NAN};
  row->measures[3] = (task_measure){(double)keys, NAN};
  row->measures[4] = (task_measure){(double)tokens, NAN};
  memory_free(key);
  return ALIBI_OK;
}

static status run(alibi_model *model, const task_material *m, const task_settings *s, task_row *row,
                  alibi_error *error)
{
  const longppl_options *o = s->options;
  alibi_model *evaluator = m->evaluator ? m->evaluator : model;
  longppl l = {.length = (size_t)row->length, .brief = (size_t)o->short_context, .step = (size_t)o->step};
  status result = ALIBI_OK;
  if (l.brief == 0) l.brief = l.length / 4 < 4096 ? l.length / 4 : 4096;
  if (l.brief == 0 || l.brief >= l.length)
    RAISE(error, ALIBI_INVALID, "short: expected fewer inputs than the length of %zu, found %zu", l.length,
          l.brief);
  if (l.step == 0) l.step = l.brief < 4 ? 1 : l.brief / 4;
  if (l.step > l.brief) /* its contexts would be long ones too */
    RAISE(error, ALIBI_INVALID, "step: expected at most the %zu inputs of the short context, found %zu", l.brief,
          l.step);
  l.scored = l.length - l.brief;
  if (m->text_count < l.length + 1)
    RAISE(error, ALIBI_INVALID, "not possible: the text has %zu tokens, %zu are needed", m->text_count,
          l.length + 1);
  TRY(plan_windows(m, s->trials, &l, error));
  size_t tokens = l.windows * l.scored;
  TRY(memory_new(&l.long_losses, tokens, sizeof *l.losses, "the losses", error));
  TRY(memory_new(&l.short_losses, tokens, sizeof *l.losses, "the losses", error));
  TRY(memory_new(&l.losses, tokens, sizeof *l.losses, "the losses", error));
  l.all = (double)l.full.inputs * (evaluator != model ? 2 : 1) + (double)l.brief_ones.inputs;
  TRY(run_plan(model, m, s, &l.full, l.length, &l, l.losses, row, error));
  if (evaluator != model) TRY(run_plan(evaluator, m, s, &l.full, l.length, &l, l.long_losses, row, error));
  else memcpy(l.long_losses, l.losses, tokens * sizeof *l.losses);
  TRY(run_plan(evaluator, m, s, &l.brief_ones, l.brief_ones.longest, &l, l.short_losses, row, error));
  TRY(measure(&l, o, row, error));
done:
  memory_free(l.long_losses);
  memory_free(l.short_losses);
  memory_free(l.losses);
  plan_free(&l.full);
  plan_free(&l.brief_ones);
  return result;
}

const evaluation_task task_longppl = {
    .name = "longppl",
    .title = "LongPPL",
    .about = "perplexity over the tokens that a long context makes likely and a short one does not",
    .source = "Fang et al. 2024, arXiv 2410.23771",
    .needs = TASK_NEEDS_TOKENIZER | TASK_NEEDS_TEXT | TASK_TAKES_EVALUATOR,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(longppl_options),
    .measures = measures,
    .run = run,
};
