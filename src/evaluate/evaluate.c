/* An evaluation: options -> plan -> one loss a target -> statistics.  A protocol is a row of the table below,
 * which makes a plan; what runs the plan and what is computed from the losses do not know the protocol. */
#include "alibi/evaluate.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/settings.h"
#include "evaluate/cost.h"
#include "evaluate/engine.h"
#include "evaluate/statistics.h"

/* A batch should fit the cache and still have work for all threads: with one thread 512 tokens are read 15 to 20 %
 * faster than 4096 (width 128). */
enum { BATCH_TOKENS = 512, STRIDE_SHARE = 4 };

#define AT(member) offsetof(alibi_evaluate_options, member)

static const field fields[] = {
    {"protocol", FIELD_INTEGER, AT(protocol), 0, ALIBI_PROTOCOL_COUNT - 1, ALIBI_SLIDING, NULL, NULL,
     "alibi_protocol"},
    {"window", FIELD_INTEGER, AT(window), 1, 1 << 30, 0, NULL, NULL, "inputs of a window"},
    {"stride", FIELD_INTEGER, AT(stride), 0, 1 << 30, 0, NULL, NULL,
     "of sliding windows; 0: a quarter of the window"},
    {"shortest", FIELD_INTEGER, AT(shortest), 0, 1 << 30, 0, NULL, NULL,
     "smallest window of the sweep; 0: window"},
    {"longest", FIELD_INTEGER, AT(longest), 0, 1 << 30, 0, NULL, NULL, "largest window of the sweep; 0: window"},
    {"max_targets", FIELD_INTEGER, AT(max_targets), 0, 9007199254740992.0, 0, NULL, NULL,
     "tokens scored at most, or as many as the longest window; 0: all"},
    {"batch_tokens", FIELD_INTEGER, AT(batch_tokens), 0, 1 << 30, 0, NULL, NULL,
     "tokens of windows at once; 0: 512 a thread"},
};

void alibi_evaluate_options_init(alibi_evaluate_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  field_init((field_table)FIELD_TABLE(fields), options);
}

/* Tokens that nonoverlapping and sliding read: the same at every window of a sweep, so that its figures compare. */
static size_t tokens_read(const alibi_evaluate_options *o, size_t count)
{
  size_t targets = (size_t)(o->max_targets > o->longest ? o->max_targets : o->longest);
  return o->max_targets > 0 && targets < count ? targets + 1 : count;
}

static status make_nonoverlapping(alibi_evaluate_options *o, size_t count, plan *p, alibi_error *error)
{
  o->stride = o->window;
  return plan_nonoverlapping(tokens_read(o, count), (size_t)o->window, p, error);
}

static status make_sliding(alibi_evaluate_options *o, size_t count, plan *p, alibi_error *error)
{
  if (o->stride == 0) o->stride = o->window < STRIDE_SHARE ? 1 : o->window / STRIDE_SHARE;
  if (o->stride > o->window)
    return fail(error, ALIBI_INVALID, "stride: expected at most the window of %lld tokens, found %lld",
                (long long)o->window, (long long)o->stride);
  return plan_sliding(tokens_read(o, count), (size_t)o->window, (size_t)o->stride, p, error);
}

/* A window that the text cannot fill would show the perplexity of a shorter one. */
static status check_filled(int64_t window, size_t count, alibi_error *error)
{
  if (count > (size_t)window) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "not measured: the text has %zu tokens, %lld are needed", count,
              (long long)window + 1);
}

static status make_fixed_target(alibi_evaluate_options *o, size_t count, plan *p, alibi_error *error)
{
  status result;
  TRY(check_filled(o->longest, count, error));
  o->stride = (int64_t)plan_probe_targets((size_t)o->shortest);
  return plan_fixed_target(count, (size_t)o->window, (size_t)o->shortest, (size_t)o->longest,
                           (size_t)o->max_targets, p, error);
done:
  return result;
}

/* make: fills in the options that are 0 and makes the plan. */
static const struct protocol {
  const char *name;
  status (*make)(alibi_evaluate_options *o, size_t count, plan *p, alibi_error *error);
} protocols[ALIBI_PROTOCOL_COUNT] = {[ALIBI_NONOVERLAPPING] = {"nonoverlapping", make_nonoverlapping},
                                     [ALIBI_SLIDING] = {"sliding", make_sliding},
                                     [ALIBI_FIXED_TARGET] = {"fixed-target", make_fixed_target}};

static status make_plan(alibi_evaluate_options *o, size_t count, plan *p, alibi_error *error)
{
  status result;
  if (o->shortest == 0) o->shortest = o->window;
  if (o->longest == 0) o->longest = o->window;
  TRY(check_filled(o->window, count, error));
  if (o->window < o->shortest || o->window > o->longest)
    RAISE(error, ALIBI_INVALID,
          "window: expected one from the shortest of the sweep, %lld, to the longest, %lld, found %lld",
          (long long)o->shortest, (long long)o->longest, (long long)o->window);
  TRY(protocols[o->protocol].make(o, count, p, error));
done:
  return result;
}

const char *alibi_protocol_name(int protocol)
{
  return protocol >= 0 && protocol < ALIBI_PROTOCOL_COUNT ? protocols[protocol].name : NULL;
}

static status check(const alibi_model *model, const uint32_t *tokens, size_t count,
                    const alibi_evaluate_options *options, alibi_error *error)
{
  status result;
  TRY(field_check((field_table)FIELD_TABLE(fields), options, "evaluation options", error));
  if (count < 2)
    RAISE(error, ALIBI_INVALID,
          "the text is too short: expected at least 2 tokens, since the first is never scored, found %zu", count);
  for (size_t i = 0; i < count; i++)
    if (tokens[i] >= (uint64_t)model->config.vocabulary)
      RAISE(error, ALIBI_INVALID, "the text: token %zu: expected an id below the vocabulary of %lld, found %u", i,
            (long long)model->config.vocabulary, tokens[i]);
done:
  return result;
}

static int64_t target_bytes(const plan *p, const uint32_t *tokens, const uint32_t *token_bytes)
{
  int64_t bytes = 0;
  if (!token_bytes) return 0;
  for (size_t w = 0; w < p->count; w++)
    for (size_t i = 0; i < p->windows[w].count; i++) bytes += token_bytes[tokens[plan_target(&p->windows[w], i)]];
  return bytes;
}

static void describe(const alibi_evaluate_options *o, const plan *p, const float *losses, int64_t bytes,
                     double seconds, alibi_evaluate_result *out)
{
  mean_estimate nll = statistics_mean(losses, p->targets);
  out->size = sizeof *out;
  out->window = o->window;
  out->stride = o->stride;
  out->tokens = (int64_t)p->targets;
  out->bytes = bytes;
  out->nll = nll.mean;
  out->nll_standard_error = nll.standard_error;
  out->perplexity = exp(nll.mean);
  out->standard_error = out->perplexity * nll.standard_error;
  out->bits_per_byte = statistics_bits_per_byte(nll.mean * (double)p->targets, (size_t)bytes);
  out->seconds = seconds;
  out->input_tokens = (int64_t)p->inputs;
}

alibi_status alibi_evaluate(alibi_model *model, const uint32_t *tokens, size_t count, const uint32_t *token_bytes,
                            const alibi_evaluate_options *options, alibi_evaluate_result *out, alibi_error *error)
{
  plan p = {0};
  float *losses = NULL;
  double seconds;
  extension_choice extension = {0};
  status result;
  alibi_evaluate_options o;
  alibi_evaluate_options_init(&o);
  TRY(settings_take(options, &o, sizeof o, "alibi_evaluate_options", error));
  TRY(check(model, tokens, count, &o, error));
  TRY(make_plan(&o, count, &p, error));
  engine_options run = {.length = (size_t)o.window,
                        .batch_tokens = o.batch_tokens ? (size_t)o.batch_tokens
                                                       : BATCH_TOKENS * (size_t)model->context->threads};
  if (o.extend) TRY(model_config_read_extension(&model->config, "extend", o.extend, &extension, error));
  run.extension = extension.extension;
  run.extension_options = extension.options.bytes;
  TRY(memory_new(&losses, p.targets, sizeof *losses, "the losses", error));
  TRY(engine_run(model, tokens, &p, &run, losses, &seconds, error));
  describe(&o, &p, losses, target_bytes(&p, tokens, token_bytes), seconds, out);
done:
  memory_free(losses);
  plan_free(&p);
  return result;
}

evaluate_cost evaluate_cost_of(const alibi_evaluate_options *options, size_t count)
{
  alibi_evaluate_options o = *options;
  plan p = {0};
  evaluate_cost cost = {0};
  if (o.protocol >= 0 && o.protocol < ALIBI_PROTOCOL_COUNT && o.window > 0 && count >= 2 &&
      make_plan(&o, count, &p, NULL) == ALIBI_OK)
    cost = (evaluate_cost){.inputs = (int64_t)p.inputs, .targets = (int64_t)p.targets};
  plan_free(&p);
  return cost;
}
