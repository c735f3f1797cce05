/* Planning time from what was measured: training tokens a second of every entry, and seconds a token of evaluation
 * at every length. */
#include "study/schedule.h"

#include <string.h>

#include "evaluate/cost.h"
#include "position/extension_text.h"

alibi_evaluate_options schedule_cell(const study_plan *plan, int protocol, int64_t length, const char *extend)
{
  alibi_evaluate_options o;
  alibi_evaluate_options_init(&o);
  o.protocol = protocol;
  o.window = length;
  o.shortest = plan->lengths[0];
  o.longest = study_plan_longest(plan);
  o.max_targets = protocol == ALIBI_FIXED_TARGET ? plan->settings.fixed_targets : plan->settings.max_targets;
  o.extend = *extend ? extend : NULL;
  return o;
}

bool schedule_extends(const study_entry *entry, const char *extend, int64_t length)
{
  extension_choice choice = {0};
  if (!*extend || extension_text_read("extend", entry->model.position, extend, &choice, NULL) != ALIBI_OK)
    return false;
  const position_extension *x = choice.extension;
  return length > entry->model.train_length || !x->keeps_trained || strchr(extend, ':');
}

static double evaluation_seconds(const study_plan *plan, const study_entry *e)
{
  double seconds = 0;
  for (size_t p = 0; p < plan->protocol_count; p++)
    for (size_t l = 0; l < plan->length_count; l++) {
      double curves = 1;
      for (size_t x = 0; x < plan->extension_count; x++)
        curves += schedule_extends(e, plan->extensions[x], plan->lengths[l]);
      alibi_evaluate_options o = schedule_cell(plan, study_protocol(plan->protocols[p]), plan->lengths[l], "");
      seconds +=
          curves * (double)evaluate_cost_of(&o, (size_t)plan->valid_tokens).inputs * plan->evaluate_seconds[l];
    }
  return seconds;
}

static double entry_seconds(const study_plan *plan, const study_entry *e, double steps)
{
  return steps * (double)plan->train.batch_tokens / e->train_tokens_per_second + evaluation_seconds(plan, e);
}

static size_t longest_of(const double *seconds, size_t count, const bool *started)
{
  size_t best = count;
  for (size_t i = 0; i < count; i++)
    if (!started[i] && (best == count || seconds[i] > seconds[best])) best = i;
  return best;
}

size_t schedule_next(const study_plan *plan, const bool *started)
{
  double seconds[STUDY_MAX_ENTRIES];
  for (size_t i = 0; i < plan->entry_count; i++)
    seconds[i] = entry_seconds(plan, &plan->entries[i], (double)plan->train.steps);
  return longest_of(seconds, plan->entry_count, started);
}

/* When the last entry ends: each goes to the child that is free first. */
static double finish(const study_plan *plan, double steps)
{
  double busy[STUDY_MAX_ENTRIES] = {0}, seconds[STUDY_MAX_ENTRIES], last = 0;
  bool started[STUDY_MAX_ENTRIES] = {false};
  for (size_t i = 0; i < plan->entry_count; i++) seconds[i] = entry_seconds(plan, &plan->entries[i], steps);
  for (size_t left = plan->entry_count; left > 0; left--) {
    size_t entry = longest_of(seconds, plan->entry_count, started), child = 0;
    for (size_t j = 1; j < (size_t)plan->jobs; j++)
      if (busy[j] < busy[child]) child = j;
    started[entry] = true;
    busy[child] += seconds[entry];
    if (busy[child] > last) last = busy[child];
  }
  return last;
}

status schedule_fix_steps(study_plan *plan, double seconds, alibi_error *error)
{
  enum { FEWEST_STEPS = 20 };
  int64_t low = 0, high = 1000000000; /* low fits, high does not */
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (finish(plan, (double)middle) <= seconds) low = middle;
    else high = middle;
  }
  if (low < FEWEST_STEPS)
    return fail(error, ALIBI_INVALID,
                "--minutes: expected more than %.3g: testing alone takes %.1f minutes (or fewer --test-lengths, "
                "--max-targets, --fixed-targets)",
                plan->settings.minutes, finish(plan, 0) / 60);
  plan->train.steps = low;
  return ALIBI_OK;
}
