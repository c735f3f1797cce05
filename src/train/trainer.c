/* The training loop, one step at a time: read sequences, forward, backward, clip, AdamW.  Gradients are sums over
 * the tokens that are predicted, and are divided by their number only when they are used, so micro-batches of any
 * cut, and of unequal numbers of tokens, give the gradient of the whole batch. */
#include "train/trainer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/settings.h"
#include "train/fine_tune.h"

enum { HEAD_ROWS = 256 };

/* ---- making one ---- */

/* Ranks, or groups of them, that have sequences of their own. */
static int groups_of(const alibi_context *context)
{
  return comm_ranks(context->comm) / comm_ranks(context->sequence_comm);
}

/* How the sequences of a step are cut: those of all ranks, and the most that one pass of a rank has. */
typedef struct step_cut {
  size_t sequences, micro_sequences;
  bool in_one; /* no rank makes more than one pass */
} step_cut;

static step_cut cut_step(const alibi_train_options *options, int groups, size_t length)
{
  step_cut cut = {.sequences = (size_t)options->batch_tokens / length};
  size_t of_a_rank = (cut.sequences + (size_t)groups - 1) / (size_t)groups;
  cut.micro_sequences = options->micro_tokens ? (size_t)options->micro_tokens / length : of_a_rank;
  if (cut.micro_sequences == 0) cut.micro_sequences = 1;
  cut.in_one = cut.micro_sequences >= of_a_rank;
  if (cut.in_one) cut.micro_sequences = of_a_rank;
  return cut;
}

static pass_shape training_shape(const alibi_context *context, const alibi_train_options *options, step_cut cut,
                                 size_t length)
{
  comm *group = context->sequence_comm;
  size_t first, rows, most = length;
  for (int r = 0; r < comm_ranks(group) && comm_ranks(group) > 1; r++) {
    shared_rows(comm_ranks(group), r, length, &first, &rows);
    if (r == 0 || rows > most) most = rows;
  }
  rows = size_mul(cut.micro_sequences, most);
  return (pass_shape){.rows = rows,
                      .segments = options->documents == ALIBI_DOCUMENTS_APART ? rows : cut.micro_sequences,
                      .length = length,
                      .head_rows = rows < HEAD_ROWS ? rows : HEAD_ROWS,
                      .keep = true,
                      .in_gradients = cut.in_one,
                      .ranks = group,
                      .recompute = options->recompute};
}

status train_check_ranks(alibi_model *model, const alibi_train_options *options, alibi_error *error)
{
  int ranks = comm_ranks(model->context->sequence_comm);
  train_phase phases[TRAIN_PHASES];
  size_t count;
  if (ranks == 1) return ALIBI_OK;
  if (options->documents == ALIBI_DOCUMENTS_APART)
    return fail(
        error, ALIBI_INVALID,
        "documents apart: their sequences cannot be cut among ranks: expected whole ones, found parts on %d ranks",
        ranks);
  status result = train_phases(options, model->config.train_length, phases, &count, error);
  for (size_t i = 0; result == ALIBI_OK && i < count; i++) {
    pass_shape shape = training_shape(model->context, options, (step_cut){1, 1, true}, phases[i].length);
    result = model_pass_check(model, &shape, error);
  }
  return result;
}

train_plan train_plan_of(alibi_model *model, const alibi_train_options *options)
{
  train_plan plan = {0};
  train_phase phases[TRAIN_PHASES];
  size_t count, floats = model->list.floats;
  int ranks = comm_ranks(model->context->comm);
  if (train_phases(options, model->config.train_length, phases, &count, NULL) != ALIBI_OK) return plan;
  for (size_t i = 0; i < count; i++) {
    step_cut cut = cut_step(options, groups_of(model->context), phases[i].length);
    pass_shape shape = training_shape(model->context, options, cut, phases[i].length);
    size_t bytes = model_pass_bytes(model, &shape);
    plan.sequences = cut.sequences;
    plan.micro_sequences = cut.micro_sequences;
    if (bytes > plan.pass_bytes) plan.pass_bytes = bytes;
  }
  size_t held = size_add(size_mul(floats, 2), size_mul(shards_most(floats, ranks), 2));
  if (ranks > 1) held = size_add(held, shards_of(floats, 0, ranks).bucket_size);
  plan.weight_bytes = size_mul(held, sizeof(float));
  return plan;
}

/* Random weights, or those of `from`: the configurations have the same list of parameters. */
static status make_model(alibi_trainer *t, const alibi_model *from, const alibi_model_config *config,
                         alibi_error *error)
{
  status result;
  if (!from) {
    result = alibi_model_new(t->context, config, (uint64_t)t->options.seed, &t->model, error);
    return result == ALIBI_OK ? model_check_trainable(t->model, error) : result;
  }
  result = model_allocate(t->context, config, &t->model, error);
  if (result != ALIBI_OK) return result;
  if (t->model->list.floats != from->list.floats)
    return fail(error, ALIBI_INVALID,
                "fine-tuning: expected the %zu weights of the trained model, found a place for %zu",
                from->list.floats, t->model->list.floats);
  memcpy(t->model->values, from->values, from->list.floats * sizeof *from->values);
  return ALIBI_OK;
}

/* Makes ready for steps of this phase: sequences of another length need another pass. */
static status enter_phase(alibi_trainer *t, const train_phase *phase, alibi_error *error)
{
  bool ready = t->phase && t->pass && t->phase->length == phase->length;
  t->phase = phase;
  step_cut cut = cut_step(&t->options, groups_of(t->context), phase->length);
  t->sequences = cut.sequences;
  t->micro_sequences = cut.micro_sequences;
  t->first = 0;
  t->count = phase->length;
  if (t->group) shared_rows(comm_ranks(t->group), comm_rank(t->group), phase->length, &t->first, &t->count);
  if (ready) return ALIBI_OK;
  model_pass_free(t->pass);
  t->pass = NULL;
  pass_shape shape = training_shape(t->context, &t->options, cut, phase->length);
  shape.gradients = t->gradients;
  status result = model_pass_new(t->model, &shape, &t->pass, error);
  if (result == ALIBI_OK) t->pass->z_loss = (float)t->options.z_loss;
  return result;
}

static const train_phase *phase_of(const alibi_trainer *t)
{
  size_t i = 0;
  while (t->step >= t->phases[i].end) i++;
  return &t->phases[i];
}

static status allocate(alibi_trainer *t, const alibi_model *from, const alibi_model_config *config,
                       alibi_error *error)
{
  size_t rows = 0, segments = 0;
  status result;
  TRY(make_model(t, from, config, error));
  TRY(train_check_ranks(t->model, &t->options, error));
  size_t floats = t->model->list.floats;
  t->shards = shards_of(floats, comm_rank(t->comm), comm_ranks(t->comm));
  size_t owned = shards_place(&t->shards, t->shards.bucket_count);
  TRY(memory_new(&t->moments, owned, sizeof(float), "the first moments", error));
  TRY(memory_new(&t->variances, owned, sizeof(float), "the second moments", error));
  TRY(memory_new(&t->gradients, floats, sizeof(float), "the gradients", error));
  TRY(model_parameters_new(&t->model->list, &t->model->config, t->gradients, &t->gradient_pointers, error));
  for (size_t i = 0; i < t->phase_count; i++) {
    step_cut cut = cut_step(&t->options, groups_of(t->context), t->phases[i].length);
    pass_shape shape = training_shape(t->context, &t->options, cut, t->phases[i].length);
    if (shape.rows > rows) rows = shape.rows;
    if (shape.segments > segments) segments = shape.segments;
  }
  TRY(memory_new(&t->tokens, rows, sizeof *t->tokens, "a batch", error));
  TRY(memory_new(&t->targets, rows, sizeof *t->targets, "a batch", error));
  TRY(memory_new(&t->segments, segments, sizeof *t->segments, "a batch", error));
  TRY(enter_phase(t, phase_of(t), error));
done:
  return result;
}

status trainer_new(alibi_context *context, const alibi_model *from, const alibi_model_config *config,
                   const alibi_train_options *options, const token_source *sources, const double *shares,
                   size_t count, alibi_trainer **trainer, alibi_error *error)
{
  alibi_trainer *t = NULL;
  alibi_train_options own;
  alibi_model_config own_config;
  status result;
  *trainer = NULL;
  alibi_train_options_init(&own);
  TRY(settings_take(options, &own, sizeof own, "alibi_train_options", error));
  TRY(model_config_take(config, &own_config, error));
  TRY(field_check(train_option_fields(), &own, "training options", error));
  if (from) TRY(model_check_trainable(from, error));
  if (from) TRY(fine_tune_config(&from->config, &own_config, error));
  TRY(alibi_model_config_check(&own_config, error));
  TRY(train_check_batch(&own, own_config.train_length, error));
  TRY(memory_new(&t, 1, sizeof *t, "a trainer", error));
  t->context = context;
  t->comm = context->comm;
  t->group = comm_ranks(context->sequence_comm) > 1 ? context->sequence_comm : NULL;
  t->options = own;
  t->options.warmup_steps = train_warmup(&own);
  TRY(train_phases(&own, own_config.train_length, t->phases, &t->phase_count, error));
  TRY(batches_init(&t->batches, sources, shares, count, &own, (size_t)own_config.train_length, error));
  for (size_t i = 0; i < count; i++)
    TRY(token_source_check(&sources[i], (uint32_t)own_config.vocabulary, 0, error));
  TRY(allocate(t, from, &own_config, error));
  *trainer = t;
  return ALIBI_OK;
done:
  alibi_trainer_free(t);
  return result;
}

/* Over ids in memory, which the trainer's own source names. */
static status check_ids(const alibi_model_config *config, const uint32_t *tokens, size_t count, alibi_error *error)
{
  for (size_t i = 0; i < count; i++)
    if (tokens[i] >= (uint64_t)config->vocabulary)
      return fail(error, ALIBI_INVALID,
                  "training text: token %zu: expected an id below the vocabulary of %lld, found %u", i,
                  (long long)config->vocabulary, tokens[i]);
  return ALIBI_OK;
}

status trainer_own_source(const alibi_model_config *config, const uint32_t *tokens, size_t count,
                          token_source **source, alibi_error *error)
{
  alibi_model_config own;
  status result;
  *source = NULL;
  TRY(model_config_take(config, &own, error));
  TRY(check_ids(&own, tokens, count, error));
  TRY(memory_new(source, 1, sizeof **source, "a source of tokens", error));
  TRY(token_source_of_ids("training text", tokens, count, NULL, 0, *source, error));
  return ALIBI_OK;
done:
  memory_free(*source);
  *source = NULL;
  return result;
}

static status new_of_ids(alibi_context *context, const alibi_model *from, const alibi_model_config *config,
                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                         alibi_trainer **trainer, alibi_error *error)
{
  token_source *source;
  *trainer = NULL;
  status result = trainer_own_source(config, tokens, count, &source, error);
  if (result != ALIBI_OK) return result;
  result = trainer_new(context, from, config, options, source, NULL, 1, trainer, error);
  if (result == ALIBI_OK) {
    (*trainer)->own = source;
    return ALIBI_OK;
  }
  token_source_close(source);
  memory_free(source);
  return result;
}

status alibi_trainer_new(alibi_context *context, const alibi_model_config *config,
                         const alibi_train_options *options, const uint32_t *tokens, size_t count,
                         alibi_trainer **trainer, alibi_error *error)
{
  return new_of_ids(context, NULL, config, options, tokens, count, trainer, error);
}

status alibi_trainer_new_from(alibi_context *context, const alibi_model *model, const alibi_model_config *config,
                              const alibi_train_options *options, const uint32_t *tokens, size_t count,
                              alibi_trainer **trainer, alibi_error *error)
{
  return new_of_ids(context, model, config, options, tokens, count, trainer, error);
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
  if (t->own) token_source_close(t->own);
  memory_free(t->own);
  memory_free(t);
}

alibi_model *alibi_trainer_model(alibi_trainer *t)
{
  return t->model;
}

/* ---- a step ---- */

/* What the step's sequences came to, all micro-batches together. */
typedef struct step_sums {
  double loss;
  int64_t tokens; /* that were predicted */
} step_sums;

/* Sequences from .. to-1 of the step, at most micro_sequences, into one pass. */
static status forward(alibi_trainer *t, size_t from, size_t to, step_sums *sums, alibi_error *error)
{
  size_t length = t->phase->length, phase = (size_t)(t->phase - t->phases), segments = 0,
         rows = (to - from) * t->count;
  bool same = t->options.order == ALIBI_ORDER_ONE_BATCH;
  uint64_t before = same ? 0 : (uint64_t)(t->step - t->phase->first) * t->sequences;
  status result = comm_agree(t->group, context_check_cancel(t->context, error), error);
  if (result != ALIBI_OK) return result;
  for (size_t s = from; s < to; s++) {
    uint32_t *tokens = t->tokens + (s - from) * t->count, *targets = t->targets + (s - from) * t->count;
    if (!t->group) {
      segments += batches_read(&t->batches, phase, length, before + s, tokens, targets, t->segments + segments);
      continue;
    }
    batches_read_run(&t->batches, phase, length, before + s, t->first, t->count, tokens, targets);
    t->segments[segments++] = (pass_segment){.count = t->count, .first = t->first};
  }
  for (size_t r = 0; r < rows; r++) sums->tokens += t->targets[r] != OP_NO_TARGET;
  t->pass->dropout = (pass_dropout){.rate = t->options.dropout,
                                    .seed = (uint64_t)t->options.seed,
                                    .step = (uint64_t)t->step,
                                    .first_row = from * length};
  return model_forward(t->pass, t->tokens, t->segments, segments, error);
}

/* Sums over the ranks, bucket by bucket from the last one on, as gradients become final. */
typedef struct summing {
  alibi_trainer *trainer;
  size_t left; /* buckets whose sum was not begun */
  status result;
  alibi_error *error;
} summing;

static void sum_from(void *user, size_t from, size_t count)
{
  summing *sum = user;
  alibi_trainer *t = sum->trainer;
  (void)count;
  for (; sum->left > 0 && sum->result == ALIBI_OK; sum->left--) {
    shard_span bucket = shards_bucket(&t->shards, sum->left - 1);
    if (bucket.from < from) break;
    sum->result = comm_reduce_begin(t->comm, t->gradients + bucket.from, bucket.count, NULL, sum->error);
  }
  if (sum->result == ALIBI_OK) sum->result = comm_progress(t->comm, sum->error);
}

/* Between two operations of backward. */
static void move_on(void *user)
{
  summing *sum = user;
  if (sum->result == ALIBI_OK) sum->result = comm_progress(sum->trainer->comm, sum->error);
}

static status backward(alibi_trainer *t, const backward_hooks *hooks, step_sums *sums, alibi_error *error)
{
  sums->loss += model_backward(t->pass, t->targets, &t->gradient_pointers, hooks);
  if (t->pass->failure.status != ALIBI_OK && error) *error = t->pass->failure;
  return t->pass->failure.status;
}

/* Loss and gradient of this rank's part of the step's sequences; the gradient of what this rank owns is then that
 * of all ranks. After the last forward pass nothing can fail on one rank alone: there they agree to go on.  Only
 * where keys travel a group can fail still, while the others wait for its sums: that ends them all. */
static status accumulate(alibi_trainer *t, step_sums *sums, alibi_error *error)
{
  size_t ranks = (size_t)comm_ranks(t->comm), groups = (size_t)groups_of(t->context);
  size_t group = (size_t)comm_rank(t->comm) / (ranks / groups);
  size_t from = t->sequences * group / groups, end = t->sequences * (group + 1) / groups, to;
  bool has_any = from < end;
  summing sum = {t, t->shards.bucket_count, ALIBI_OK, error};
  backward_hooks hooks = {sum_from, &sum};
  status result = ALIBI_OK;
  if (!has_any || !t->pass->shape.in_gradients)
    memset(t->gradients, 0, t->model->list.floats * sizeof *t->gradients);
  for (; result == ALIBI_OK && from < end; from = to) {
    to = end - from < t->micro_sequences ? end : from + t->micro_sequences;
    result = forward(t, from, to, sums, error);
    if (result == ALIBI_OK && to < end) result = backward(t, NULL, sums, error);
  }
  result = comm_agree(t->comm, result, error);
  if (result != ALIBI_OK) return result;
  if (ranks > 1) {
    t->context->between = move_on;
    t->context->between_user = &sum;
  }
  if (has_any) result = backward(t, ranks > 1 ? &hooks : NULL, sums, error);
  t->context->between = NULL;
  if (result != ALIBI_OK) {
    comm_break(t->comm);
    return result;
  }
  if (ranks > 1) sum_from(&sum, 0, 0);
  return sum.result == ALIBI_OK ? comm_finish(t->comm, error) : sum.result;
}

/* AdamW on the weights that this rank owns; what others own comes from them. */
static status update(alibi_trainer *t, double rate, double grad_scale, alibi_error *error)
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
  status result = ALIBI_OK;
  for (size_t b = 0; b < t->shards.bucket_count; b++) {
    shard_span bucket = shards_bucket(&t->shards, b), own = shards_own(&t->shards, b);
    size_t place = shards_place(&t->shards, b);
    for (size_t i = 0; i < t->model->list.count; i++) {
      const parameter *p = &t->model->list.items[i];
      shard_span part = shards_common(own, (shard_span){p->offset, parameter_elements(p)});
      if (part.count == 0) continue;
      size_t at = place + (part.from - own.from);
      s.decay = p->decay ? (float)(rate * o->weight_decay) : 0;
      op_adamw(t->context, part.count, &s, t->gradients + part.from, t->model->values + part.from, t->moments + at,
               t->variances + at);
    }
    TRY(comm_gather_begin(t->comm, t->model->values + bucket.from, bucket.count, NULL, error));
    TRY(comm_progress(t->comm, error));
  }
  TRY(comm_finish(t->comm, error));
  model_pass_refresh(t->pass);
done:
  return result;
}

/* Squares of the gradient that this rank owns. */
static double own_squares(const alibi_trainer *t)
{
  double sum = 0;
  for (size_t b = 0; b < t->shards.bucket_count; b++) {
    shard_span own = shards_own(&t->shards, b);
    sum += op_sum_squares(t->context, own.count, t->gradients + own.from);
  }
  return sum;
}

/* The parameter with a gradient that is no number, nearest to the output: backward comes from there.  -1: none. */
static int64_t first_broken(const alibi_trainer *t)
{
  for (size_t i = t->model->list.count; i-- > 0;) {
    const parameter *p = &t->model->list.items[i];
    for (size_t b = 0; b < t->shards.bucket_count; b++) {
      shard_span part = shards_common(shards_own(&t->shards, b), (shard_span){p->offset, parameter_elements(p)});
      for (size_t e = 0; e < part.count; e++)
        if (!isfinite(t->gradients[part.from + e])) return (int64_t)i;
    }
  }
  return -1;
}

static status refuse_step(const alibi_trainer *t, double loss, double rate, alibi_error *error)
{
  int64_t broken = first_broken(t);
  status result = comm_largest(t->comm, &broken, error);
  if (result != ALIBI_OK) return result;
  const char *name = broken >= 0 ? t->model->list.items[broken].name : NULL;
  return fail(error, ALIBI_FAILED, "step %lld: the %s is not finite%s%s%s (learning rate %g; try a lower one)",
              (long long)t->step + 1, isfinite(loss) ? "gradient" : "loss",
              name ? ", first the gradient of '" : "", name ? name : "", name ? "'" : "", rate);
}

/* ---- spikes ---- */

static bool is_above(double value, double mean, double variance, double limit)
{
  return value > mean + limit * sqrt(variance);
}

static void follow(double value, double weight, double *mean, double *variance)
{
  double apart = value - *mean;
  *mean += weight * apart;
  *variance = (1 - weight) * (*variance + weight * apart * apart);
}

/* May this step be applied?  If so it becomes part of what the next ones are compared with. */
static bool passes_guard(spike_guard *g, double limit, double loss, double norm)
{
  const int64_t FEWEST = 20, WINDOW = 50;
  if (limit > 0 && g->count >= FEWEST &&
      (is_above(loss, g->loss_mean, g->loss_variance, limit) ||
       is_above(norm, g->norm_mean, g->norm_variance, limit)))
    return false;
  double weight = 1.0 / (double)(g->count < WINDOW ? g->count + 1 : WINDOW);
  follow(loss, weight, &g->loss_mean, &g->loss_variance);
  follow(norm, weight, &g->norm_mean, &g->norm_variance);
  g->count++;
  return true;
}

/* Before the first step: ranks that train on other tokens, or from another step, would go on without a word. */
static status check_ranks(alibi_trainer *t, alibi_error *error)
{
  status result = ALIBI_OK;
  uint64_t mine =
      ((uint64_t)t->step * 0x9e3779b97f4a7c15u + t->model->list.floats) ^ (uint64_t)comm_ranks(t->group) << 48;
  if (comm_ranks(t->comm) == 1 || t->ranks_agree) return ALIBI_OK;
  for (size_t i = 0; i < t->batches.source_count; i++)
    mine = (mine ^ t->batches.sources[i].fingerprint) * 0x9e3779b97f4a7c15u +
           (uint64_t)(t->batches.shares[i] * 0x1p32);
  for (size_t i = 0; i < train_option_fields().count; i++) {
    char text[ALIBI_NAME_SIZE + 32];
    field_get_text(&train_option_fields().fields[i], &t->options, text, sizeof text);
    for (const char *at = text; *at; at++) mine = (mine ^ (unsigned char)*at) * 0x100000001b3u;
  }
  int64_t largest = (int64_t)(mine >> 2), smallest = -largest;
  bool differs = false;
  TRY(comm_largest(t->comm, &largest, error));
  TRY(comm_largest(t->comm, &smallest, error));
  differs = largest != -smallest;
  if (differs)
    result = fail(error, ALIBI_INVALID,
                  "training on %d ranks: expected the same tokens, settings and step on all, found others",
                  comm_ranks(t->comm));
  TRY(comm_agree(t->comm, result, error));
  t->ranks_agree = true;
done:
  return result;
}

/* A step that all ranks refuse together. */
static status refuse(alibi_trainer *t, status result, alibi_error *error)
{
  return comm_agree(t->comm, result, error);
}

status alibi_trainer_step(alibi_trainer *t, alibi_train_report *report, alibi_error *error)
{
  if (t->model->engines)
    return fail(error, ALIBI_INVALID,
                "training step: expected no open session of the model (its weights are about to change)");
  model_unpack(t->model);
  status result = check_ranks(t, error);
  if (result != ALIBI_OK) return result;
  if (!t->pass || t->phase != phase_of(t)) { /* on all ranks in the same step */
    result = comm_agree(t->comm, enter_phase(t, phase_of(t), error), error);
    if (result != ALIBI_OK) return result;
  }
  step_sums sums = {0};
  double rate = train_rate(&t->options, t->step);
  result = accumulate(t, &sums, error);
  if (result != ALIBI_OK) return result;
  double all[] = {sums.loss, (double)sums.tokens, own_squares(t)};
  result = comm_sum_doubles(t->comm, all, sizeof all / sizeof all[0], error);
  if (result != ALIBI_OK) return result;
  if (all[1] == 0)
    return refuse(t, fail(error, ALIBI_INVALID,
                          "step %lld: expected a token that is predicted, found only the last ones of documents",
                          (long long)t->step + 1), error);
  double tokens = all[1], loss = all[0] / tokens, norm = sqrt(all[2]) / tokens;
  if (!isfinite(loss) || !isfinite(norm)) return refuse(t, refuse_step(t, loss, rate, error), error);
  double clip = t->options.clip > 0 && norm > t->options.clip ? t->options.clip / norm : 1;
  bool applied = passes_guard(&t->guard, t->options.spike_limit, loss, norm);
  if (applied) result = update(t, rate, clip / tokens, error);
  if (result != ALIBI_OK) return result;
  t->step++;
  t->tokens_done += (int64_t)tokens;
  *report = (alibi_train_report){.step = t->step,
                                 .loss = loss,
                                 .rate = rate,
                                 .gradient_norm = norm,
                                 .tokens = (int64_t)tokens,
                                 .length = (int64_t)t->phase->length,
                                 .skipped = !applied};
  return ALIBI_OK;
}
