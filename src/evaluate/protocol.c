/* Options -> plan.  A protocol is a row of the table below; what runs the plan and what is computed from the
 * losses do not know the protocol. */
#include "evaluate/protocol.h"

#include <stddef.h>
#include <string.h>

#include "base/field.h"
#include "base/memory.h"
#include "base/settings.h"
#include "evaluate/cost.h"

enum { STRIDE_SHARE = 4, LEAST_WINDOW = 2 };

#define AT(member) offsetof(alibi_evaluate_options, member)

static const field fields[] = {
    {"window", FIELD_INTEGER, AT(window), LEAST_WINDOW, 1 << 30, 0, NULL, NULL, "inputs of a window"},
    {"stride", FIELD_INTEGER, AT(stride), 0, 1 << 30, 0, NULL, NULL,
     "of sliding windows and pieces of streaming; 0: a quarter of the window"},
    {"shortest", FIELD_INTEGER, AT(shortest), 0, 1 << 30, 0, NULL, NULL,
     "smallest window of the sweep; 0: window"},
    {"longest", FIELD_INTEGER, AT(longest), 0, 1 << 30, 0, NULL, NULL, "largest window of the sweep; 0: window"},
    {"max_targets", FIELD_INTEGER, AT(max_targets), 0, 9007199254740992.0, 0, NULL, NULL,
     "tokens scored at most, or as many as the longest window; 0: all"},
    {"batch_tokens", FIELD_INTEGER, AT(batch_tokens), 0, 1 << 30, 0, NULL, NULL,
     "tokens of windows at once; 0: 512 a thread"},
    {"early", FIELD_INTEGER, AT(early), 0, 1 << 30, 0, NULL, NULL,
     "inputs that are few; 0: 64 or a quarter of the trained length"},
    {"beginning", FIELD_INTEGER, AT(beginning), -1, UINT32_MAX, -1, NULL, NULL,
     "token that begins every window; -1: none"},
};

void alibi_evaluate_options_init(alibi_evaluate_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  options->protocol = ALIBI_SLIDING;
  field_init((field_table)FIELD_TABLE(fields), options);
}

status protocol_options(const alibi_evaluate_options *given, alibi_evaluate_options *own, alibi_error *error)
{
  alibi_evaluate_options_init(own);
  status result = settings_take(given, own, sizeof *own, "alibi_evaluate_options", error);
  if (result != ALIBI_OK) return result;
  if (!alibi_protocol_name(own->protocol))
    return fail(error, ALIBI_INVALID, "evaluation options: protocol: expected a number from 0 to %d, found %d",
                ALIBI_PROTOCOL_COUNT - 1, own->protocol);
  return field_check((field_table)FIELD_TABLE(fields), own, "evaluation options", error);
}

static plan_shape shape_of(const alibi_evaluate_options *o)
{
  return (plan_shape){.window = (size_t)o->window, .stride = (size_t)o->stride, .begins = o->beginning >= 0};
}

typedef status make_document(plan_text text, plan_shape shape, plan *p, alibi_error *error);

/* All of the documents, or the first M targets, M as max_targets has it: the same at every window of a sweep, so
 * that its figures compare. */
static status make_in_turn(const alibi_evaluate_options *o, const plan_text *documents, size_t count,
                           make_document *make, plan *p, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t longest = (size_t)o->longest - (o->beginning >= 0 ? 1 : 0);
  size_t most = (size_t)(o->max_targets > o->longest ? o->max_targets : o->longest);
  if (o->max_targets == 0) most = SIZE_MAX;
  for (size_t i = 0; i < count && p->targets < most; i++) {
    plan_text text = documents[i];
    size_t left = most - p->targets;
    if (left < longest) left = longest; /* the longest window is filled, whatever remains */
    if (text.tokens - 1 > left) text.tokens = left + 1;
    TRY(make(text, shape_of(o), p, error));
  }
done:
  return result;
}

static status make_nonoverlapping(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                                  alibi_error *error)
{
  o->stride = o->window - (o->beginning >= 0 ? 1 : 0);
  return make_in_turn(o, documents, count, plan_nonoverlapping, p, error);
}

static status set_stride(alibi_evaluate_options *o, alibi_error *error)
{
  if (o->stride == 0) o->stride = o->window < STRIDE_SHARE ? 1 : o->window / STRIDE_SHARE;
  if (o->stride > o->window)
    return fail(error, ALIBI_INVALID, "stride: expected at most the window of %lld tokens, found %lld",
                (long long)o->window, (long long)o->stride);
  return ALIBI_OK;
}

static status make_sliding(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                           alibi_error *error)
{
  status result = set_stride(o, error);
  int64_t room = o->window - (o->beginning >= 0 ? 1 : 0);
  if (result != ALIBI_OK) return result;
  if (o->stride > room) o->stride = room;
  return make_in_turn(o, documents, count, plan_sliding, p, error);
}

static status make_streaming(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                             alibi_error *error)
{
  status result = set_stride(o, error);
  if (result != ALIBI_OK) return result;
  return make_in_turn(o, documents, count, plan_streaming, p, error);
}

static status make_fixed_target(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                                alibi_error *error)
{
  o->stride = (int64_t)plan_probe_targets((size_t)o->shortest);
  plan_sweep sweep = {
      .shortest = (size_t)o->shortest, .longest = (size_t)o->longest, .max_targets = (size_t)o->max_targets};
  return plan_fixed_target(documents, count, shape_of(o), sweep, p, error);
}

/* make: fills in the options that are 0 and makes the plan of documents that have the tokens needed. */
static const struct protocol {
  const char *name;
  status (*make)(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p, alibi_error *error);
} protocols[ALIBI_PROTOCOL_COUNT] = {[ALIBI_NONOVERLAPPING] = {"nonoverlapping", make_nonoverlapping},
                                     [ALIBI_SLIDING] = {"sliding", make_sliding},
                                     [ALIBI_FIXED_TARGET] = {"fixed-target", make_fixed_target},
                                     [ALIBI_STREAMING] = {"streaming", make_streaming}};

const char *alibi_protocol_name(int protocol)
{
  return protocol >= 0 && protocol < ALIBI_PROTOCOL_COUNT ? protocols[protocol].name : NULL;
}

/* Tokens that a document must have: one to read and one to score; in fixed-target what fills the window. */
static size_t tokens_needed(const alibi_evaluate_options *o, int64_t window)
{
  if (o->protocol != ALIBI_FIXED_TARGET) return 2;
  return (size_t)window + (o->beginning >= 0 ? 0 : 1);
}

size_t protocol_tokens_needed(const alibi_evaluate_options *o)
{
  return tokens_needed(o, o->longest); /* probes are the same at every window of the sweep */
}

static status check_room(size_t needed, const plan_text *documents, size_t count, alibi_error *error)
{
  size_t most = 0;
  for (size_t i = 0; i < count; i++)
    if (documents[i].tokens > most) most = documents[i].tokens;
  if (most >= needed) return ALIBI_OK;
  if (count == 1)
    return fail(error, ALIBI_INVALID, "not measured: the text has %zu tokens, %zu are needed", most, needed);
  return fail(error, ALIBI_INVALID, "not measured: the longest of %zu documents has %zu tokens, %zu are needed",
              count, most, needed);
}

status protocol_plan(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                     alibi_error *error)
{
  plan_text *texts = NULL;
  size_t read = 0;
  status result;
  *p = (plan){0};
  if (o->shortest == 0) o->shortest = o->window;
  if (o->longest == 0) o->longest = o->window;
  TRY(check_room(tokens_needed(o, o->window), documents, count, error));
  if (o->window < o->shortest || o->window > o->longest)
    RAISE(error, ALIBI_INVALID,
          "window: expected one from the shortest of the sweep, %lld, to the longest, %lld, found %lld",
          (long long)o->shortest, (long long)o->longest, (long long)o->window);
  if (o->shortest < LEAST_WINDOW)
    RAISE(error, ALIBI_INVALID, "shortest: expected at least %d, found %lld", LEAST_WINDOW,
          (long long)o->shortest);
  size_t needed = protocol_tokens_needed(o);
  TRY(check_room(needed, documents, count, error));
  TRY(memory_new(&texts, count, sizeof *texts, "the list of documents", error));
  for (size_t i = 0; i < count; i++)
    if (documents[i].tokens >= needed) texts[read++] = documents[i];
  TRY(protocols[o->protocol].make(o, texts, read, p, error));
done:
  memory_free(texts);
  if (result != ALIBI_OK) plan_free(p);
  return result;
}

evaluate_cost evaluate_cost_of(const alibi_evaluate_options *options, size_t count)
{
  alibi_evaluate_options o = *options;
  plan_text text = {0, count};
  plan p = {0};
  evaluate_cost cost = {0};
  if (o.protocol >= 0 && o.protocol < ALIBI_PROTOCOL_COUNT && o.window >= LEAST_WINDOW && count >= 2 &&
      protocol_plan(&o, &text, 1, &p, NULL) == ALIBI_OK)
    cost = (evaluate_cost){.inputs = (int64_t)p.inputs, .targets = (int64_t)p.targets};
  plan_free(&p);
  return cost;
}
