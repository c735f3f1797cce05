/* What a training will need and take, before it starts.  Memory is counted by the functions that lay it out later;
 * the time is foretold from a step that is really made. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "cli/train_command.h"
#include "model/model.h"

enum { PARTS = 8, GROUPS = 8 };

typedef struct amount {
  const char *name;
  double value;
} amount;

typedef struct plan {
  amount groups[GROUPS], parts[PARTS]; /* of parameters; of memory, bytes */
  size_t group_count, part_count;
  double needed,
      available;          /* bytes; those still to be had for this process, 1e300 where the system does not say */
  int ranks, local_ranks; /* processes that train together; on this machine */
  train_plan cut;
  double step_tokens, step_operations;
} plan;

static void add(amount *list, size_t *count, size_t most, const char *name, double value)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(list[i].name, name) == 0) {
      list[i].value += value;
      return;
    }
  if (*count < most && value > 0) list[(*count)++] = (amount){name, value};
}

static const char *group_of(const char *name)
{
  if (strncmp(name, "position", 8) == 0) return "position";
  if (strstr(name, "norm.") || strstr(name, "norm_")) return "norms";
  if (strstr(name, "attention")) return "attention";
  if (strstr(name, "feed_forward")) return "feed-forward";
  if (strncmp(name, "embedding", 9) == 0 || strncmp(name, "token", 5) == 0) return "embedding";
  if (strncmp(name, "output", 6) == 0) return "output";
  return "others";
}

static double total(const amount *list, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += list[i].value;
  return sum;
}

/* The first blocks of memory are as large as the weights; whether they fit is known before any is taken. */
static status refuse(const plan *p, alibi_error *error)
{
  const double mega = 1e-6;
  char text[512] = "";
  for (size_t i = 0, used = 0; i < p->part_count && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.0f MB", i ? ", " : "", p->parts[i].name,
                             p->parts[i].value * mega);
  return fail(error, ALIBI_FAILED,
              "out of memory, planned before the start: expected %.0f MB (%s), found %.0f MB available%s; a "
              "smaller --micro-tokens, "
              "--recompute or a smaller model needs less",
              p->needed * mega, text, p->available * mega, p->local_ranks > 1 ? " to each process" : "");
}

static status count_weights(const training *t, plan *p, alibi_error *error)
{
  alibi_model_config config = t->config;
  parameter_list list = {0};
  status result;
  TRY(model_config_resolve(&config, error));
  TRY(parameter_list_new(&config, &list, error));
  double bytes = (double)list.floats * sizeof(float);
  for (size_t i = 0; i < list.count; i++)
    add(p->groups, &p->group_count, GROUPS, group_of(list.items[i].name),
        (double)parameter_elements(&list.items[i]));
  add(p->parts, &p->part_count, PARTS, "weights", bytes);
  add(p->parts, &p->part_count, PARTS, "gradients", bytes);
  add(p->parts, &p->part_count, PARTS, "moments", 2 * bytes / p->ranks);
  if (t->data.valid_count > 1)
    add(p->parts, &p->part_count, PARTS, "a copy of the weights for evaluations", bytes);
done:
  parameter_list_free(&list);
  return result;
}

static status make_plan(const training *t, plan *p, alibi_error *error)
{
  alibi_model *model = NULL;
  size_t available = system_available_memory();
  status result;
  *p = (plan){.ranks = comm_ranks(t->context->comm), .local_ranks = comm_local_ranks(t->context->comm)};
  p->available = available == SIZE_MAX ? 1e300 : (double)available / p->local_ranks;
  TRY(count_weights(t, p, error));
  p->needed = total(p->parts, p->part_count);
  if (p->needed > p->available) {
    result = refuse(p, error);
    goto done;
  }
  TRY(model_allocate(t->context, &t->config, &model, error));
  TRY(train_check_ranks(model, &t->options, error));
  p->cut = train_plan_of(model, &t->options);
  double counted = 2 * (1 + 1.0 / p->ranks) * (double)model->list.floats * sizeof(float);
  add(p->parts, &p->part_count, PARTS, "what other ranks send", (double)p->cut.weight_bytes - counted);
  add(p->parts, &p->part_count, PARTS, "activations", (double)p->cut.pass_bytes);
  p->needed = total(p->parts, p->part_count);
  p->step_tokens = (double)p->cut.sequences * (double)t->config.train_length;
  p->step_operations = run_step_operations(model, p->step_tokens, (double)t->config.train_length);
  if (p->needed > p->available) result = refuse(p, error);
done:
  alibi_model_free(model);
  return result;
}

status train_plan_check(const training *t, alibi_error *error)
{
  plan p;
  return make_plan(t, &p, error);
}

/* ---- the time ---- */

/* Of one step that is tried (a minute on a slow core); seconds of all steps that are. */
static const double MOST_OPERATIONS = 1e12, LONG_ENOUGH = 0.3;

/* Seconds for `tokens` tokens; a step has as many as are held at once or, where these would take long, one
 * sequence.  0: not measured. */
static status measure(const training *t, const plan *p, double *tokens, double *seconds, alibi_error *error)
{
  alibi_trainer *trainer = NULL;
  alibi_train_options options = t->options;
  alibi_train_report report;
  comm *others = t->context->comm;
  int64_t sequences = (int64_t)p->cut.micro_sequences;
  double sequence_operations = p->step_operations / (double)p->cut.sequences;
  status result = ALIBI_OK;
  *tokens = *seconds = 0;
  if (sequence_operations > MOST_OPERATIONS || t->context->sequence_comm) return ALIBI_OK;
  if (sequence_operations * (double)sequences > MOST_OPERATIONS) sequences = 1;
  options.batch_tokens = sequences * t->config.train_length;
  options.micro_tokens = 0;
  options.steps = 1000000000; /* as many as the time allows */
  t->context->comm = NULL;    /* this process alone */
  options.length_schedule[0] = '\0';
  TRY(trainer_new(t->context, t->from, &t->config, &options, t->data.sources, t->data.shares, t->data.source_count,
                  &trainer, error));
  TRY(alibi_trainer_step(trainer, &report, error)); /* touches the memory */
  double began = system_seconds();
  do {
    TRY(alibi_trainer_step(trainer, &report, error));
    *seconds = system_seconds() - began;
    *tokens += (double)options.batch_tokens;
  } while (*seconds < LONG_ENOUGH);
done:
  alibi_trainer_free(trainer);
  t->context->comm = others;
  return result;
}

/* What all ranks together would take, if they did not wait for each other. */
static double foretold(const training *t, const plan *p, double measured_tokens, double seconds)
{
  return p->step_tokens * (double)t->options.steps / measured_tokens * seconds / p->ranks;
}

/* ---- printing ---- */

static void print_text(const training *t, const plan *p, double measured_tokens, double seconds)
{
  const double mega = 1e-6;
  double all = p->step_tokens * (double)t->options.steps;
  printf("parameters        %.0f\n", total(p->groups, p->group_count));
  for (size_t i = 0; i < p->group_count; i++) printf("  %-15s %.0f\n", p->groups[i].name, p->groups[i].value);
  printf("vocabulary        %" PRId64 "\n", t->config.vocabulary);
  printf("tokens            %zu to train on, %zu to test on\n", t->data.train_count, t->data.valid_count);
  printf("tokens a step     %.0f (%zu sequences of %" PRId64 ", %zu at once)\n", p->step_tokens, p->cut.sequences,
         t->config.train_length, p->cut.micro_sequences);
  printf("tokens in all     %.0f (%" PRId64 " steps; each token %.2f times)\n", all, t->options.steps,
         all / (double)t->data.train_count);
  printf("operations        %.3g a step, %.3g in all\n", p->step_operations,
         p->step_operations * (double)t->options.steps);
  printf("memory            %.1f MB", p->needed * mega);
  if (p->available < 1e299) printf(" of %.0f MB that are available", p->available * mega);
  for (size_t i = 0; i < p->part_count; i++)
    printf("%s%s %.1f MB", i ? ", " : ": ", p->parts[i].name, p->parts[i].value * mega);
  printf("; data %.1f MB, in memory already\n", (double)t->data.memory_bytes * mega);
  if (seconds <= 0) {
    printf("time              not foretold: %s\n", t->context->sequence_comm
                                                         ? "it would need the other ranks of a sequence"
                                                         : "one sequence alone would take too long to try");
    return;
  }
  char time[32];
  progress_format_time(foretold(t, p, measured_tokens, seconds), time, sizeof time);
  printf("time              about %s (%.0f tokens/s, measured with %.0f tokens%s)\n", time,
         p->ranks * measured_tokens / seconds, measured_tokens, p->ranks > 1 ? " on one process" : "");
}

static json_node *amounts_node(const amount *list, size_t count)
{
  json_node *node = node_new_object();
  for (size_t i = 0; i < count; i++) node_set_integer(node, list[i].name, (int64_t)list[i].value);
  return node;
}

static status print_json(const training *t, const plan *p, double measured_tokens, double seconds,
                         alibi_error *error)
{
  double all = p->step_tokens * (double)t->options.steps;
  json_node *root = node_new_object();
  node_set_integer(root, "parameters", (int64_t)total(p->groups, p->group_count));
  node_set(root, "parameter_groups", amounts_node(p->groups, p->group_count));
  node_set_integer(root, "vocabulary", t->config.vocabulary);
  node_set_integer(root, "train_tokens", (int64_t)t->data.train_count);
  node_set_integer(root, "valid_tokens", (int64_t)t->data.valid_count);
  node_set_integer(root, "step_tokens", (int64_t)p->step_tokens);
  node_set_integer(root, "step_sequences", (int64_t)p->cut.sequences);
  node_set_integer(root, "sequences_at_once", (int64_t)p->cut.micro_sequences);
  node_set_integer(root, "steps", t->options.steps);
  node_set_number(root, "epochs", all / (double)t->data.train_count);
  node_set_number(root, "step_operations", p->step_operations);
  node_set(root, "memory_bytes", amounts_node(p->parts, p->part_count));
  node_set_integer(root, "memory_needed_bytes", (int64_t)p->needed);
  if (p->available < 1e299) node_set_integer(root, "memory_available_bytes", (int64_t)p->available);
  else node_set_null(root, "memory_available_bytes");
  node_set_integer(root, "data_bytes", (int64_t)t->data.memory_bytes);
  if (seconds > 0) {
    node_set_number(root, "estimated_seconds", foretold(t, p, measured_tokens, seconds));
    node_set_integer(root, "measured_tokens", (int64_t)measured_tokens);
    node_set_number(root, "tokens_per_second", p->ranks * measured_tokens / seconds);
  } else {
    node_set_null(root, "estimated_seconds");
  }
  return print_node(root, error);
}

status train_plan_print(const training *t, bool json, alibi_error *error)
{
  plan p;
  double tokens, seconds;
  status result = make_plan(t, &p, error);
  if (result == ALIBI_OK) result = measure(t, &p, &tokens, &seconds, error);
  if (result != ALIBI_OK) return result;
  if (json) return print_json(t, &p, tokens, seconds, error);
  print_text(t, &p, tokens, seconds);
  return ALIBI_OK;
}
