/* Forward, backward and decode of the public operator, in rounds.  A variant is a method with a tolerance; a call
 * of a variant runs every layer of the inputs once.  The first call of each is checked against the reference and
 * tells how many calls a turn takes, and how many rounds. */
#include "bench/bench_attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "bench/bench_attention_parts.h"
#include "bench/bench_measure.h"

const char *const bench_pass_names[BENCH_PASSES] = {"forward", "backward", "decode"};
const char *const bench_method_names[BENCH_METHODS] = {"alibi", "none", "power", "factor", "key"};

enum { MAX_VARIANTS = BENCH_METHODS * BENCH_MAX_TOLERANCES, LEAST_REPEATS = 3 };

/* Rows take about this long unless the number of repeats is given; where even three calls take too long, one does.
 */
static const double row_seconds = 4, too_long_seconds = 10;
/* Shortest turn of a variant; of the machine's loops, which take a share of a variant's turn, but not more than
 * most. */
static const double turn_seconds = 2e-3, machine_seconds = 5e-4, machine_share = 0.02, machine_most = 2e-2;

typedef struct variant {
  const char *method;
  bench_method bias; /* of a model: BENCH_METHODS */
  double tolerance;
  alibi_attention *attention;     /* [layers] */
  alibi_attention_report *report; /* [layers] */
  size_t scratch_bytes;
  size_t repeats, times; /* rounds; calls a turn */
  size_t count;          /* of what follows [repeats] */
  double *seconds, *peak, *share, *machine, *read_share;
  double operations, bytes, visible_bytes; /* a call: all layers */
  double visited, pairs, skipped;          /* shares, mean over layers; largest bound */
  bench_errors errors;
} variant;

typedef struct measurement {
  alibi_context *context;
  const bench_attention_options *options;
  const bench_attention_output *output;
  bench_pass pass;
  bench_inputs inputs;
  variant variants[MAX_VARIANTS];
  size_t count;
  float *out, *lse; /* one set, or, for backward, one per variant and layer */
  int32_t *visited;
  float *gradients; /* dq, dk, dv */
  alibi_attention_gradients gradient;
  alibi_cache **caches; /* [layers] */
  float *buffer;        /* decode: as large as what the densest variant reads */
  size_t buffer_floats;
  void *scratch;
  size_t scratch_bytes;
} measurement;

/* --- what is measured --- */

static void add_variant(measurement *m, const char *method, bench_method bias, double tolerance)
{
  m->variants[m->count++] = (variant){.method = method, .bias = bias, .tolerance = tolerance};
}

/* Without a bias nothing is ever skipped: the least tolerance says all. */
static void choose_variants(measurement *m)
{
  const bench_attention_options *o = m->options;
  double least = o->tolerances[0];
  for (size_t i = 1; i < o->tolerance_count; i++) least = fmin(least, o->tolerances[i]);
  bool measured = o->model && !(m->inputs.gated && m->pass == BENCH_DECODE); /* the caches here have no offsets */
  for (size_t i = 0; measured && i < o->tolerance_count; i++)
    add_variant(m, m->inputs.model_method, BENCH_METHODS, o->tolerances[i]);
  for (int method = 0; !o->model && method < BENCH_METHODS; method++) {
    bool wanted = o->methods[method] && !(method == BENCH_KEY && m->pass == BENCH_DECODE);
    for (size_t i = 0; wanted && method != BENCH_NONE && i < o->tolerance_count; i++)
      add_variant(m, bench_method_names[method], (bench_method)method, o->tolerances[i]);
  }
  if (!o->model && o->methods[BENCH_NONE]) add_variant(m, bench_method_names[BENCH_NONE], BENCH_NONE, least);
}

static status make_caches(measurement *m, alibi_error *error)
{
  status result;
  const bench_inputs *in = &m->inputs;
  TRY(memory_new(&m->caches, in->layers, sizeof *m->caches, "the caches", error));
  for (size_t l = 0; l < in->layers; l++) {
    TRY(alibi_cache_new(m->context, in->kv_heads, in->head_size, in->length, &m->caches[l], error));
    TRY(alibi_cache_append(m->caches[l], &in->layer[l].k, &in->layer[l].v, in->length, error));
  }
done:
  return result;
}

/* Outputs, and an attention per variant and layer that writes to them. */
static status make_outputs(measurement *m, alibi_error *error)
{
  status result;
  const bench_inputs *in = &m->inputs;
  size_t queries = m->pass == BENCH_DECODE ? 1 : (size_t)in->length, rows = size_mul(queries, (size_t)in->heads);
  size_t sets = m->pass == BENCH_BACKWARD ? m->count * in->layers : 1, d = (size_t)in->head_size;
  TRY(memory_new(&m->out, size_mul(sets, size_mul(rows, d)), sizeof *m->out, "the outputs", error));
  TRY(memory_new(&m->lse, size_mul(sets, rows), sizeof *m->lse, "log-sum-exp", error));
  TRY(memory_new(&m->visited, size_mul(sets, size_mul(2, rows)), sizeof *m->visited, "the blocks visited", error));
  for (size_t i = 0; i < m->count; i++) {
    variant *v = &m->variants[i];
    TRY(memory_new(&v->attention, in->layers, sizeof *v->attention, "the variants", error));
    TRY(memory_new(&v->report, in->layers, sizeof *v->report, "the variants", error));
    for (size_t l = 0; l < in->layers; l++) {
      size_t set = sets > 1 ? i * in->layers + l : 0;
      alibi_attention *a = &v->attention[l];
      bench_inputs_attention(in, l, v->bias, a);
      a->tolerance = v->tolerance;
      a->out.data = m->out + set * rows * d;
      a->lse = m->lse + set * rows;
      a->visited = m->visited + set * 2 * rows;
      a->report = &v->report[l];
      alibi_attention_report_init(a->report);
      if (m->pass != BENCH_DECODE) continue;
      a->queries = 1;
      a->q.data += (in->length - 1) * a->q.row_stride;
      a->keys = 0;
      a->k = a->v = (alibi_heads){0};
    }
  }
  if (m->pass == BENCH_DECODE) TRY(make_caches(m, error));
done:
  return result;
}

static status make_gradients(measurement *m, alibi_error *error)
{
  status result;
  const bench_inputs *in = &m->inputs;
  size_t d = (size_t)in->head_size, q = size_mul((size_t)in->length, (size_t)in->heads * d),
         kv = size_mul((size_t)in->length, (size_t)in->kv_heads * d);
  TRY(memory_new(&m->gradients, size_add(q, size_mul(2, kv)), sizeof *m->gradients, "the gradients", error));
  alibi_attention_gradients_init(&m->gradient);
  m->gradient.dout.data = in->dout;
  m->gradient.dq.data = m->gradients;
  m->gradient.dk.data = m->gradients + q;
  m->gradient.dv.data = m->gradients + q + kv;
done:
  return result;
}

static void clear_gradients(measurement *m)
{
  const bench_inputs *in = &m->inputs;
  size_t floats = (size_t)in->length * (size_t)(in->heads + 2 * in->kv_heads) * (size_t)in->head_size;
  memset(m->gradients, 0, floats * sizeof *m->gradients);
}

static status scratch_of(measurement *m, variant *v, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t l = 0; l < m->inputs.layers; l++) {
    size_t bytes = 0, before = 0;
    const alibi_attention *a = &v->attention[l];
    if (m->pass == BENCH_DECODE) {
      TRY(alibi_attention_decode_scratch(m->context, a, &m->caches[l], &bytes, error));
    } else {
      TRY(alibi_attention_forward_scratch(m->context, a, &bytes, error));
      before = bytes;
    }
    if (m->pass == BENCH_BACKWARD)
      TRY(alibi_attention_backward_scratch(m->context, a, &m->gradient, &bytes, error));
    if (bytes > v->scratch_bytes) v->scratch_bytes = bytes;
    if (before > m->scratch_bytes) m->scratch_bytes = before;
    if (bytes > m->scratch_bytes) m->scratch_bytes = bytes;
  }
done:
  return result;
}

static status forward(measurement *m, const alibi_attention *a, alibi_error *error)
{
  return alibi_attention_forward(m->context, a, m->scratch, m->scratch_bytes, error);
}

static status call_layer(measurement *m, variant *v, size_t l, alibi_error *error)
{
  const alibi_attention *a = &v->attention[l];
  switch (m->pass) {
  case BENCH_FORWARD: return forward(m, a, error);
  case BENCH_BACKWARD:
    return alibi_attention_backward(m->context, a, &m->gradient, m->scratch, m->scratch_bytes, error);
  default: return alibi_attention_decode(m->context, a, &m->caches[l], m->scratch, m->scratch_bytes, error);
  }
}

/* --- turns --- */

/* Seconds of a call; `times` calls a turn. */
static status turn(measurement *m, variant *v, size_t times, double *seconds, alibi_error *error)
{
  status result;
  double start = bench_clock(m->context->threads);
  for (size_t i = 0; i < times; i++)
    for (size_t l = 0; l < m->inputs.layers; l++) TRY(call_layer(m, v, l, error));
  *seconds = (bench_clock(m->context->threads) - start) / (double)times;
  TRY(context_check_cancel(m->context, error));
done:
  return result;
}

typedef struct machine_speed {
  double peak, read; /* operations and bytes a second */
} machine_speed;

/* As many bytes as the variant reads: from memory where they fit nowhere else, from a cache where they do. */
static machine_speed measure_machine(const measurement *m, const variant *v, double seconds)
{
  const char *isa = alibi_context_isa(m->context);
  int threads = m->context->threads;
  seconds = fmin(fmax(seconds * machine_share, machine_seconds), machine_most);
  machine_speed speed = {.peak = bench_peak(isa, threads, seconds)};
  if (m->pass == BENCH_DECODE && m->buffer)
    speed.read = bench_read(isa, threads, m->buffer, (size_t)(v->bytes / sizeof(float)), seconds);
  return speed;
}

static void keep(const measurement *m, variant *v, double seconds, machine_speed before, machine_speed after)
{
  double peak = (before.peak + after.peak) / 2, read = (before.read + after.read) / 2;
  size_t i = v->count++;
  v->seconds[i] = seconds;
  v->peak[i] = peak;
  v->share[i] = v->operations / seconds / peak;
  v->machine[i] = read;
  v->read_share[i] = m->pass == BENCH_DECODE ? v->bytes / seconds / read : 0;
}

/* Bytes of keys and values in the blocks that the heads of a group visited together. */
static double bytes_read(const bench_inputs *in, const alibi_attention *a)
{
  int64_t keys = 0;
  int group = in->heads / in->kv_heads;
  for (int g = 0; g < in->kv_heads; g++) {
    int64_t from = INT64_MAX, to = 0;
    for (int h = g * group; h < (g + 1) * group; h++) {
      int64_t first = (int64_t)a->visited[2 * h] * ALIBI_ATTENTION_BLOCK;
      int64_t end = (int64_t)a->visited[2 * h + 1] * ALIBI_ATTENTION_BLOCK;
      if (end > in->length) end = in->length;
      if (first < from) from = first;
      if (end > to) to = end;
    }
    if (to > from) keys += to - from;
  }
  return 2.0 * sizeof(float) * (double)keys * in->head_size;
}

static void take_report(measurement *m, variant *v, size_t l, const alibi_attention_report *forward_report)
{
  const bench_inputs *in = &m->inputs;
  const alibi_attention_report *r = forward_report;
  double layers = (double)in->layers, per_pair = m->pass == BENCH_BACKWARD ? 10 : 4;
  v->operations += per_pair * in->head_size * (double)r->pairs_visited;
  v->visited += (double)r->blocks_visited / (double)r->blocks_visible / layers;
  v->pairs += (double)r->pairs_visited / (double)r->pairs_visible / layers;
  v->skipped = fmax(v->skipped, r->bound);
  if (m->pass == BENCH_DECODE) v->bytes += bytes_read(in, &v->attention[l]);
  v->visible_bytes += 2.0 * sizeof(float) * (double)in->length * in->kv_heads * in->head_size;
}

/* The first call: seconds, checked; outputs of one layer may be overwritten by the next. */
static status first_call(measurement *m, variant *v, double *seconds, alibi_error *error)
{
  status result = ALIBI_OK;
  *seconds = 0;
  for (size_t l = 0; l < m->inputs.layers; l++) {
    alibi_attention *a = &v->attention[l];
    bench_errors errors;
    alibi_attention_report report = {0};
    if (m->pass == BENCH_BACKWARD) {
      TRY(forward(m, a, error));
      report = v->report[l];
      clear_gradients(m);
    }
    double start = bench_clock(m->context->threads);
    TRY(call_layer(m, v, l, error));
    *seconds += bench_clock(m->context->threads) - start;
    TRY(context_check_cancel(m->context, error));
    if (m->pass != BENCH_BACKWARD) report = v->report[l];
    take_report(m, v, l, &report);
    TRY(bench_compare(m->context, &m->inputs, l, a, m->pass == BENCH_BACKWARD ? m->gradients : NULL, &errors,
                      error));
    bench_keep_worst(errors.error, &v->errors.error);
    bench_keep_worst(errors.skip_error, &v->errors.skip_error);
  }
done:
  return result;
}

static void plan_repeats(const measurement *m, variant *v, double seconds)
{
  int64_t repeats = m->options->repeats;
  if (repeats == 0) {
    double fit = row_seconds / seconds, least = seconds > too_long_seconds ? 1 : LEAST_REPEATS;
    repeats = (int64_t)fmin(fmax(fit, least), BENCH_REPEATS);
  }
  v->repeats = (size_t)repeats;
  v->times = seconds < turn_seconds ? (size_t)(turn_seconds / fmax(seconds, 1e-7)) + 1 : 1;
}

static void tell(const measurement *m, const char *stage, size_t done, size_t total)
{
  char what[64];
  if (!m->output->progress) return;
  snprintf(what, sizeof what, "%s %lld%s", bench_pass_names[m->pass], (long long)m->inputs.length, stage);
  m->output->progress(m->output->user, what, done, total);
}

static status prepare_variant(measurement *m, variant *v, alibi_error *error)
{
  status result;
  double seconds;
  machine_speed before = measure_machine(m, v, 0);
  TRY(first_call(m, v, &seconds, error));
  plan_repeats(m, v, seconds);
  double *memory;
  TRY(memory_new(&memory, size_mul(v->repeats, 5), sizeof *memory, "the times", error));
  v->seconds = memory;
  v->peak = memory + v->repeats;
  v->share = memory + 2 * v->repeats;
  v->machine = memory + 3 * v->repeats;
  v->read_share = memory + 4 * v->repeats;
  bool long_enough = seconds > 0.2 && m->pass != BENCH_DECODE; /* nothing left to warm up */
  if (long_enough) keep(m, v, seconds, before, measure_machine(m, v, seconds));
done:
  return result;
}

static status measure(measurement *m, alibi_error *error)
{
  status result = ALIBI_OK;
  const char *const first = ", first run and reference";
  size_t total = 0, done = 0, most = 0;
  for (size_t i = 0; i < m->count; i++) {
    variant *v = &m->variants[i];
    tell(m, first, i, m->count);
    TRY(prepare_variant(m, v, error));
    total += v->repeats;
    done += v->count;
    if (v->repeats > most) most = v->repeats;
    if ((size_t)v->bytes / sizeof(float) > m->buffer_floats) m->buffer_floats = (size_t)v->bytes / sizeof(float);
  }
  tell(m, first, m->count, m->count);
  if (m->pass == BENCH_DECODE) {
    TRY(memory_new(&m->buffer, m->buffer_floats, sizeof *m->buffer, "a buffer to read", error));
    for (size_t i = 0; i < m->buffer_floats; i++) m->buffer[i] = 1;
  }
  for (size_t round = 0; round < most; round++)
    for (size_t i = 0; i < m->count; i++) {
      variant *v = &m->variants[i];
      if (v->count > round || v->count == v->repeats) continue;
      tell(m, "", done, total);
      double seconds, guess = v->count ? v->seconds[0] : turn_seconds;
      machine_speed before = measure_machine(m, v, guess);
      TRY(turn(m, v, v->times, &seconds, error));
      keep(m, v, seconds, before, measure_machine(m, v, seconds));
      done++;
    }
  tell(m, "", total, total);
done:
  return result;
}

/* --- rows --- */

/* Median of times of `a` over those of `b` in the rounds that both had. */
static double ratio(const variant *a, const variant *b)
{
  double r[BENCH_MAX_REPEATS];
  size_t n = a->count < b->count ? a->count : b->count;
  for (size_t i = 0; i < n; i++) r[i] = a->seconds[i] / b->seconds[i];
  return n ? bench_median(r, n) : 0;
}

static const variant *find_variant(const measurement *m, const char *method, double tolerance)
{
  for (size_t i = 0; i < m->count; i++)
    if (m->variants[i].method == method && m->variants[i].tolerance == tolerance) return &m->variants[i];
  return NULL;
}

/* Ratios first: medians sort. */
static void fill_ratios(const measurement *m, const variant *v, bench_attention_row *row)
{
  const variant *dense = find_variant(m, v->method, 0);
  const variant *none = find_variant(m, bench_method_names[BENCH_NONE], v->tolerance);
  if (dense && v->tolerance > 0) row->speed_up = ratio(dense, v);
  if (none && none != v) row->bias_cost = ratio(v, none);
}

static void fill_row(const measurement *m, variant *v, bench_attention_row *row)
{
  const bench_inputs *in = &m->inputs;
  double layers = (double)in->layers;
  row->pass = m->pass;
  row->method = v->method;
  row->length = in->length;
  row->heads = in->heads;
  row->kv_heads = in->kv_heads;
  row->head_size = in->head_size;
  row->layers = (int64_t)in->layers;
  row->tolerance = v->tolerance;
  row->score = in->score;
  row->threads = m->context->threads;
  row->repeats = v->count;
  row->seconds = bench_median(v->seconds, v->count) / layers;
  row->gflops = v->operations / layers / row->seconds * 1e-9;
  row->peak_gflops = bench_median(v->peak, v->count) * 1e-9;
  row->peak_share = bench_median(v->share, v->count);
  row->visited_share = v->visited;
  row->pairs_share = v->pairs;
  row->error = v->errors.error;
  row->skip_error = v->errors.skip_error;
  row->bound = v->skipped;
  row->scratch_bytes = v->scratch_bytes;
  if (m->pass != BENCH_DECODE) return;
  row->read_gbs = v->bytes / layers / row->seconds * 1e-9;
  row->machine_gbs = bench_median(v->machine, v->count) * 1e-9;
  row->read_share = bench_median(v->read_share, v->count);
  row->keys_share = v->bytes / v->visible_bytes;
}

static void give_rows(measurement *m)
{
  bench_attention_row rows[MAX_VARIANTS] = {0};
  for (size_t i = 0; i < m->count; i++) fill_ratios(m, &m->variants[i], &rows[i]);
  for (size_t i = 0; i < m->count; i++) {
    fill_row(m, &m->variants[i], &rows[i]);
    m->output->row(m->output->user, &rows[i]);
  }
}

static void release(measurement *m)
{
  for (size_t i = 0; i < m->count; i++) {
    memory_free(m->variants[i].attention);
    memory_free(m->variants[i].report);
    memory_free(m->variants[i].seconds);
  }
  for (size_t l = 0; m->caches && l < m->inputs.layers; l++) alibi_cache_free(m->caches[l]);
  memory_free(m->caches);
  memory_free(m->out);
  memory_free(m->lse);
  memory_free(m->visited);
  memory_free(m->gradients);
  memory_free(m->buffer);
  memory_free(m->scratch);
  bench_inputs_free(&m->inputs);
}

static status run_length(alibi_context *context, const bench_attention_options *options,
                         const bench_attention_output *output, bench_pass pass, int64_t length, alibi_error *error)
{
  status result;
  measurement m = {.context = context, .options = options, .output = output, .pass = pass};
  m.inputs.length = length;
  TRY(bench_inputs_new(context, options, length, pass == BENCH_BACKWARD, &m.inputs, error));
  TRY(context_check_cancel(context, error));
  choose_variants(&m);
  if (m.count == 0) goto done;
  TRY(make_outputs(&m, error));
  if (pass == BENCH_BACKWARD) TRY(make_gradients(&m, error));
  for (size_t i = 0; i < m.count; i++) TRY(scratch_of(&m, &m.variants[i], error));
  TRY(memory_new(&m.scratch, m.scratch_bytes, 1, "scratch", error));
  TRY(measure(&m, error));
  give_rows(&m);
done:
  release(&m);
  return result;
}

status bench_attention(alibi_context *context, const bench_attention_options *options,
                       const bench_attention_output *output, alibi_error *error)
{
  status result = ALIBI_OK;
  for (int pass = 0; pass < BENCH_PASSES; pass++)
    for (size_t i = 0; options->passes[pass] && i < options->length_count; i++)
      TRY(run_length(context, options, output, (bench_pass)pass, options->lengths[i], error));
done:
  return result;
}
