/* Trainers on random tokens, one a run, all in memory together: each turn gives every run a step, with the peak
 * before and after it. */
#include "bench/bench_train.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "bench/bench_measure.h"
#include "train/trainer.h"

enum { STREAM_TOKENS = 0x746f6b65, BATCHES = 4 };

typedef struct contender {
  alibi_context *context;
  alibi_trainer *trainer;
} contender;

bool bench_train_named(const char *name, bench_train_shape *shape)
{
  static const bench_train_shape shapes[] = {
      {.layers = 4, .width = 128, .heads = 8, .length = 128, .vocabulary = 1024, .batch = 16},
      {.layers = 6, .width = 384, .heads = 6, .length = 256, .vocabulary = 8192, .batch = 8},
      {.layers = 12, .width = 768, .heads = 12, .length = 512, .vocabulary = 50257, .batch = 4},
  };
  if (name[0] < 'A' || name[0] > 'C' || name[1]) return false;
  *shape = shapes[name[0] - 'A'];
  return true;
}

double bench_train_operations(const bench_train_shape *s, double parameters)
{
  double tokens = (double)s->batch * (double)s->length, seen = (double)s->length / 2;
  return tokens * (6 * parameters + 12 * (double)s->layers * (double)s->width * seen);
}

static status prepare(const bench_train_shape *s, const bench_train_run *run, const uint32_t *tokens, size_t count,
                      contender *c, alibi_error *error)
{
  alibi_context_options own;
  alibi_model_config config;
  alibi_train_options train;
  status result;
  alibi_context_options_init(&own);
  own.threads = run->threads;
  own.tolerance = run->tolerance;
  TRY(alibi_context_new(&own, &c->context, error));
  alibi_model_config_init(&config);
  config.layers = s->layers;
  config.width = s->width;
  config.heads = s->heads;
  config.train_length = s->length;
  config.vocabulary = s->vocabulary;
  TRY(alibi_model_config_set(&config, "position", run->position, error));
  alibi_train_options_init(&train);
  train.batch_tokens = s->batch * s->length;
  train.order = ALIBI_ORDER_RANDOM;
  train.learning_rate = 1e-4;
  train.recompute = s->recompute;
  TRY(alibi_trainer_new(c->context, &config, &train, tokens, count, &c->trainer, error));
done:
  return result;
}

static status one_step(contender *c, int threads, double *seconds, alibi_error *error)
{
  alibi_train_report report;
  double start = bench_clock(threads);
  status result = alibi_trainer_step(c->trainer, &report, error);
  *seconds = bench_clock(threads) - start;
  return result;
}

/* step: seconds of one; the longer it takes, the longer the stretch of the machine that it has to be compared
 * with. */
static double peak_now(const contender *c, double step)
{
  double seconds = fmin(fmax(step / 8, 4e-3), 0.1);
  return bench_peak(alibi_context_isa(c->context), alibi_context_threads(c->context), seconds);
}

static void conclude(const bench_train_shape *s, const contender *c, size_t turns,
                     double (*seconds)[BENCH_TRAIN_TURNS], double (*peaks)[BENCH_TRAIN_TURNS], size_t at,
                     bench_train_run *run)
{
  double share[BENCH_TRAIN_TURNS], beside[BENCH_TRAIN_TURNS];
  const alibi_model *model = alibi_trainer_model(c->trainer);
  run->parameters = (double)alibi_model_parameter_count(model);
  run->operations = bench_train_operations(s, run->parameters);
  run->fastest = seconds[at][0];
  for (size_t t = 0; t < turns; t++) {
    run->fastest = fmin(run->fastest, seconds[at][t]);
    share[t] = run->operations / seconds[at][t] / peaks[at][t];
    beside[t] = seconds[at][t] / seconds[0][t];
  }
  run->share = bench_median(share, turns);
  run->beside = bench_median(beside, turns);
  train_plan plan = train_plan_of(c->trainer->model, &c->trainer->options);
  run->weight_bytes = plan.weight_bytes;
  run->pass_bytes = plan.pass_bytes;
}

static status take_turns(alibi_context *context, const bench_train_shape *s, size_t turns, contender *c,
                         bench_train_run *runs, size_t count,
                         void (*progress)(void *user, size_t done, size_t total), void *user, alibi_error *error)
{
  static double seconds[BENCH_TRAIN_RUNS][BENCH_TRAIN_TURNS], peaks[BENCH_TRAIN_RUNS][BENCH_TRAIN_TURNS];
  status result = ALIBI_OK;
  int threads = 1;
  double warm;
  for (size_t i = 0; i < count; i++) threads = runs[i].threads > threads ? runs[i].threads : threads;
  for (size_t i = 0; i < count; i++) {
    TRY(context_check_cancel(context, error));
    TRY(one_step(&c[i], threads, &warm, error));
  }
  for (size_t t = 0; t < turns; t++)
    for (size_t i = 0; i < count; i++) {
      TRY(context_check_cancel(context, error));
      double before = peak_now(&c[i], warm);
      TRY(one_step(&c[i], threads, &seconds[i][t], error));
      peaks[i][t] = (before + peak_now(&c[i], warm)) / 2;
      if (progress) progress(user, t * count + i + 1, turns * count);
    }
  for (size_t i = 0; i < count; i++) conclude(s, &c[i], turns, seconds, peaks, i, &runs[i]);
  for (size_t i = 0; i < count; i++) { /* medians sort: when nothing asks for pairs any more */
    runs[i].seconds = bench_median(seconds[i], turns);
    runs[i].peak = bench_median(peaks[i], turns);
  }
done:
  return result;
}

status bench_train(alibi_context *context, const bench_train_shape *s, int64_t repeats, bench_train_run *runs,
                   size_t count, void (*progress)(void *user, size_t done, size_t total), void *user,
                   alibi_error *error)
{
  contender contenders[BENCH_TRAIN_RUNS] = {{0}};
  uint32_t *tokens = NULL;
  status result = ALIBI_OK;
  size_t turns = repeats > 0 ? (size_t)repeats : BENCH_TRAIN_REPEATS;
  size_t tokens_count = size_add(size_mul(size_mul((size_t)s->batch, (size_t)s->length), BATCHES), 1);
  TRY(memory_new(&tokens, tokens_count, sizeof *tokens, "random tokens", error));
  for (size_t i = 0; i < tokens_count; i++)
    tokens[i] = (uint32_t)random_below(1, STREAM_TOKENS, i, (uint64_t)s->vocabulary);
  for (size_t i = 0; i < count; i++) TRY(prepare(s, &runs[i], tokens, tokens_count, &contenders[i], error));
  TRY(take_turns(context, s, turns, contenders, runs, count, progress, user, error));
done:
  for (size_t i = 0; i < count; i++) {
    alibi_trainer_free(contenders[i].trainer);
    alibi_context_free(contenders[i].context);
  }
  memory_free(tokens);
  return result;
}
