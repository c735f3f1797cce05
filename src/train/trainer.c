/* The training loop, one step at a time: sample sequences, forward, backward, clip, AdamW.  Gradients are sums
 * over tokens and are divided by the number of tokens only when they are used, so micro-batches of any cut give
 * the gradient of the whole batch. */
#include "train/trainer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/random.h"
#include "base/settings.h"
#include "train/fine_tune.h"

enum { STREAM_SAMPLES = 0x73616d70, HEAD_ROWS = 256 };

#define AT(member) offsetof(alibi_train_options, member)

static const field fields[] = {
    {"steps", FIELD_INTEGER, AT(steps), 1, 1e9, 1000, NULL, NULL, "steps of training"},
    {"batch_tokens", FIELD_INTEGER, AT(batch_tokens), 1, 1 << 24, 1024, NULL, NULL, "tokens a step"},
    {"micro_tokens", FIELD_INTEGER, AT(micro_tokens), 0, 1 << 24, 0, NULL, NULL,
     "tokens in memory at once, at least one sequence; 0: the whole batch"},
    {"learning_rate", FIELD_REAL, AT(learning_rate), 0, 10, 6e-3, NULL, NULL, "peak learning rate"},
    {"warmup_steps", FIELD_INTEGER, AT(warmup_steps), -1, 1e9, -1, NULL, NULL,
     "steps of linear warm-up; -1: a tenth of the steps, at most 100"},
    {"final_rate", FIELD_REAL, AT(final_rate), 0, 1, 0.1, NULL, NULL, "share of the peak rate at the end"},
    {"weight_decay", FIELD_REAL, AT(weight_decay), 0, 10, 0.1, NULL, NULL, "decay of matrices, decoupled"},
    {"beta1", FIELD_REAL, AT(beta1), 0, 0.999999, 0.9, NULL, NULL, "decay of the first moment"},
    {"beta2", FIELD_REAL, AT(beta2), 0, 0.999999, 0.95, NULL, NULL, "decay of the second moment"},
    {"epsilon", FIELD_REAL, AT(epsilon), 1e-20, 1, 1e-8, NULL, NULL, "of Adam"},
    {"clip", FIELD_REAL, AT(clip), 0, 1e9, 1, NULL, NULL, "largest gradient norm; 0: none"},
    {"seed", FIELD_INTEGER, AT(seed), 0, 9007199254740992.0, 1, NULL, NULL, "of weights and batches"},
};

field_table train_option_fields(void)
{
  return (field_table)FIELD_TABLE(fields);
}

void alibi_train_options_init(alibi_train_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  field_init(train_option_fields(), options);
}

struct alibi_trainer {
  alibi_context *context;
  alibi_train_options options;
  alibi_model *model;
  const uint32_t *corpus;
  size_t corpus_count;
  size_t length, sequences, micro_sequences; /* a step: sequences of length tokens */
  int64_t step;
  float *moments, *variances, *gradients; /* blocks as the model's values */
  model_parameters gradient_pointers;
  model_pass *pass;
  uint32_t *tokens, *targets; /* [micro_sequences * length] */
  pass_segment *segments;
};

double train_rate(const alibi_train_options *o, int64_t step)
{
  if (step < o->warmup_steps) return o->learning_rate * (double)(step + 1) / (double)o->warmup_steps;
  double left = (double)(o->steps - o->warmup_steps);
  double share = left > 1 ? (double)(step - o->warmup_steps) / (left - 1) : 1;
  if (share > 1) share = 1;
  double cosine = 0.5 * (1 + cos(3.14159265358979323846 * share));
  return o->learning_rate * (o->final_rate + (1 - o->final_rate) * cosine);
}

static status check_corpus(const alibi_model_config *config, const uint32_t *tokens, size_t count,
                           alibi_error *error)
{
  if (count < (size_t)config->train_length + 1)
    return fail(error, ALIBI_INVALID,
                "training text: expected at least %lld tokens (the training length and one more), found %zu",
                (long long)config->train_length + 1, count);
  for (size_t i = 0; i < count; i++)
    if (tokens[i] >= (uint64_t)config->vocabulary)
      return fail(error, ALIBI_INVALID,
                  "training text: token %zu: expected an id below the vocabulary of %lld, found %u", i,
                  (long long)config->vocabulary, tokens[i]);
  return ALIBI_OK;
}

int64_t train_warmup(const alibi_train_options *o)
{
  const int64_t USUAL = 100;
  if (o->warmup_steps >= 0) return o->warmup_steps;
  return o->steps / 10 < USUAL ? o->steps / 10 : USUAL;
}

/* Whole sequences only: a step of other than batch_tokens tokens would not be what was asked for. */
status train_check_batch(const alibi_train_options *o, int64_t length, alibi_error *error)
{
  if (o->batch_tokens % length != 0)
    return fail(error, ALIBI_INVALID,
                "batch_tokens: expected a multiple of the training length of %lld tokens, found %lld",
                (long long)length, (long long)o->batch_tokens);
  return ALIBI_OK;
}

static void cut_step(const alibi_train_options *options, size_t length, size_t *sequences, size_t *micro_sequences)
{
  *sequences = (size_t)options->batch_tokens / length;
  *micro_sequences = options->micro_tokens ? (size_t)options->micro_tokens / length : *sequences;
  if (*micro_sequences == 0) *micro_sequences = 1;
  if (*micro_sequences > *sequences) *micro_sequences = *sequences;
}

static pass_shape training_shape(size_t micro_sequences, size_t length)
{
  size_t rows = size_mul(micro_sequences, length);
  return (pass_shape){.rows = rows,
                      .segments = micro_sequences,
                      .length = length,
                      .head_rows = rows < HEAD_ROWS ? rows : HEAD_ROWS,
                      .keep = true};
}

train_plan train_plan_of(alibi_model *model, const alibi_train_options *options)
{
  train_plan plan;
  size_t length = (size_t)model->config.train_length;
  cut_step(options, length, &plan.sequences, &plan.micro_sequences);
  pass_shape shape = training_shape(plan.micro_sequences, length);
  plan.weight_bytes = size_mul(size_mul(model->list.floats, sizeof(float)), 4);
  plan.pass_bytes = model_pass_bytes(model, &shape);
  return plan;
}

/* Random weights, or those of `from`: the configurations have the same list of parameters. */
static status make_model(alibi_trainer *t, const alibi_model *from, const alibi_model_config *config, alibi_error *error)
{
  if (!from) return alibi_model_new(t->context, config, (uint64_t)t->options.seed, &t->model, error);
  status result = model_allocate(t->context, config, &t->model, error);
  if (result != ALIBI_OK) return result;
  if (t->model->list.floats != from->list.floats)
    return fail(error, ALIBI_INVALID, "fine-tuning: expected the %zu weights of the trained model, found a place for %zu",
                from->list.floats, t->model->list.floats);
  memcpy(t->model->values, from->values, from->list.floats * sizeof *from->values);
  return ALIBI_OK;
}

static status allocate(alibi_trainer *t, const alibi_model *from, const alibi_model_config *config, alibi_error *error)
{
  status result;
  TRY(make_model(t, from, config, error));
  size_t floats = t->model->list.floats, rows = t->micro_sequences * t->length;
  TRY(memory_new(&t->moments, floats, sizeof(float), "the first moments", error));
  TRY(memory_new(&t->variances, floats, sizeof(float), "the second moments", error));
  TRY(memory_new(&t->gradients, floats, sizeof(float), "the gradients", error));
  TRY(model_parameters_new(&t->model->list, &t->model->config, t->gradients, &t->gradient_pointers, error));
  TRY(memory_new(&t->tokens, rows, sizeof *t->tokens, "a batch", error));
  TRY(memory_new(&t->targets, rows, sizeof *t->targets, "a batch", error));
  TRY(memory_new(&t->segments, t->micro_sequences, sizeof *t->segments, "a batch", error));
  pass_shape shape = training_shape(t->micro_sequences, t->length);
  TRY(model_pass_new(t->model, &shape, &t->pass, error));
  for (size_t i = 0; i < t->micro_sequences; i++) t->segments[i].count = t->length;
done:
  return result;
}

static status trainer_new(alibi_context *context, const alibi_model *from, const alibi_model_config *config,
                          const alibi_train_options *options, const uint32_t *tokens, size_t count,
                          alibi_trainer **trainer, alibi_error *error)
{
  alibi_trainer *t = NULL;
  alibi_train_options own;
  alibi_model_config own_config;
  status result;
  *trainer = NULL;
  alibi_train_options_init(&own);
  TRY(settings_take(options, &own, sizeof own, "alibi_train_options", error));
  TRY(model_config_take(config, &own_config, error));
  options = &own;
  config = &own_config;
  TRY(field_check(train_option_fields(), options, "training options", error));
  if (from) TRY(fine_tune_config(&from->config, &own_config, error));
  TRY(alibi_model_config_check(config, error));
  TRY(train_check_batch(options, config->train_length, error));
  TRY(check_corpus(config, tokens, count, error));
  TRY(memory_new(&t, 1, sizeof *t, "a trainer", error));
  t->context = context;
  t->options = *options;
  t->options.warmup_steps = train_warmup(options);
  t->corpus = tokens;
  t->corpus_count = count;
  t->length = (size_t)config->train_length;
  cut_step(options, t->length, &t->sequences, &t->micro_sequences);
  TRY(allocate(t, from, config, error));
  *trainer = t;
  return ALIBI_OK;
done:
  alibi_trainer_free(t);
  return result;
}

status alibi_trainer_new(alibi_context *context, const alibi_model_config *config,
                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                         alibi_trainer **trainer, alibi_error *error)
{
  return trainer_new(context, NULL, config, options, tokens, count, trainer, error);
}

status alibi_trainer_new_from(alibi_context *context, const alibi_model *model, const alibi_model_config *config,
                              const alibi_train_options *options, const uint32_t *tokens, size_t count,
                              alibi_trainer **trainer, alibi_error *error)
{
  return trainer_new(context, model, config, options, tokens, count, trainer, error);
}

void alibi_trainer_free(alibi_trainer *t)
{
  if (!t) return;
  model_pass_free(t->pass);
  model_parameters_free(&t->gradient_pointers);
  memory_free(t->segments);
  memory_free(t->targets);
  memory_free(t->tokens);
  memory_free(t->gradients);
  memory_free(t->variances);
  memory_free(t->moments);
  alibi_model_free(t->model);
  memory_free(t);
}

alibi_model *alibi_trainer_model(alibi_trainer *t)
{
  return t->model;
}

/* Sequence s of the step: a window at a random offset. */
static void sample(const alibi_trainer *t, size_t s, uint32_t *tokens, uint32_t *targets)
{
  uint64_t index = (uint64_t)t->step * t->sequences + s;
  size_t offset = random_below((uint64_t)t->options.seed, STREAM_SAMPLES, index, t->corpus_count - t->length);
  memcpy(tokens, t->corpus + offset, t->length * sizeof *tokens);
  memcpy(targets, t->corpus + offset + 1, t->length * sizeof *targets);
}

static status accumulate(alibi_trainer *t, double *loss, alibi_error *error)
{
  *loss = 0;
  memset(t->gradients, 0, t->model->list.floats * sizeof *t->gradients);
  for (size_t done = 0; done < t->sequences;) {
    size_t count = t->sequences - done < t->micro_sequences ? t->sequences - done : t->micro_sequences;
    for (size_t s = 0; s < count; s++) sample(t, done + s, t->tokens + s * t->length, t->targets + s * t->length);
    status result = model_forward(t->pass, t->tokens, t->segments, count, error);
    if (result != ALIBI_OK) return result;
    *loss += model_backward(t->pass, t->targets, &t->gradient_pointers, NULL);
    done += count;
  }
  return ALIBI_OK;
}

static void update(alibi_trainer *t, double rate, double grad_scale)
{
  const alibi_train_options *o = &t->options;
  double steps = (double)(t->step + 1);
  adamw_step s = {.rate = (float)rate,
                  .beta1 = (float)o->beta1,
                  .beta2 = (float)o->beta2,
                  .epsilon = (float)o->epsilon,
                  .correction1 = (float)(1 / (1 - pow(o->beta1, steps))),
                  .correction2 = (float)(1 / (1 - pow(o->beta2, steps))),
                  .grad_scale = (float)grad_scale};
  for (size_t i = 0; i < t->model->list.count; i++) {
    const parameter *p = &t->model->list.items[i];
    s.decay = p->decay ? (float)(rate * o->weight_decay) : 0;
    op_adamw(t->context, parameter_elements(p), &s, t->gradients + p->offset, t->model->values + p->offset,
             t->moments + p->offset, t->variances + p->offset);
  }
  model_pass_refresh(t->pass);
}

status alibi_trainer_step(alibi_trainer *t, alibi_train_report *report, alibi_error *error)
{
  status result = context_check_cancel(t->context, error);
  if (result != ALIBI_OK) return result;
  if (t->model->engines)
    return fail(error, ALIBI_INVALID,
                "training step: expected no open session of the model (its weights are about to change)");
  model_unpack(t->model);
  double loss, tokens = (double)(t->sequences * t->length), rate = train_rate(&t->options, t->step);
  result = accumulate(t, &loss, error);
  if (result != ALIBI_OK) return result;
  double norm = sqrt(op_sum_squares(t->context, t->model->list.floats, t->gradients)) / tokens;
  if (!isfinite(loss) || !isfinite(norm))
    return fail(error, ALIBI_FAILED, "step %lld: the %s is not finite (learning rate %g; try a lower one)",
                (long long)t->step + 1, isfinite(loss) ? "gradient" : "loss", rate);
  double clip = t->options.clip > 0 && norm > t->options.clip ? t->options.clip / norm : 1;
  update(t, rate, clip / tokens);
  t->step++;
  *report = (alibi_train_report){t->step, loss / tokens, rate, norm, (int64_t)tokens};
  return ALIBI_OK;
}
