/* FIRE: the bias of a head is a small network of one number, the distance on a logarithmic scale as a share of
 * what the query can see: b_h(i, j) = W2_h . relu(w1 x + b1), x = ln(|c| t + 1) / ln(|c| max(i, |L_m L0|) + 1),
 * t = i - j; one network for all layers.  Li et al., "Functional interpolation for relative positions improves
 * long context transformers", ICLR 2024.  Parameters: w1, b1, W2, c and L_m; the network's last bias would shift
 * all scores of a row alike, which no softmax sees, and is left out.
 *
 * x lies in [0, 1], and there a head's bias is a chain of at most 33 lines whose kinks all heads share.  Within a
 * row x falls from key to key, so a piece of a row is a few runs, each one line over a table of ln(|c| t + 1):
 * nothing is stored but a row of that table.  For the same reason the gradients of all parameters follow from a
 * few sums for each head and line.  Threads bring their pieces of these sums in any order, so they are added as
 * whole numbers, whose sum has no order. */
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "op/team.h"
#include "position/position.h"

enum { UNITS = 32, LINES = UNITS + 1 };
enum { INPUT_WEIGHT, INPUT_BIAS, OUTPUT_WEIGHT, DISTANCE_SCALE, THRESHOLD_SCALE, PARAMETERS };

typedef struct fire_options {
  int64_t threshold;
} fire_options;

static const field fields[] = {
    {.name = "threshold",
     .kind = FIELD_INTEGER,
     .offset = offsetof(fire_options, threshold),
     .minimum = 0,
     .maximum = 1e9,
     .initial = 0,
     .help = "L0: queries up to here divide by it, not by their position; 0: a quarter of the trained length"},
};

/* ---- parameters ---- */

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  static const char *const names[PARAMETERS] = {"position.input_weight", "position.input_bias",
                                                "position.output_weight", "position.distance_scale",
                                                "position.threshold_scale"};
  (void)options;
  for (size_t i = 0; i < PARAMETERS; i++) {
    list[i] = (position_parameter){.rows = 1, .columns = UNITS, .decay = false};
    snprintf(list[i].name, sizeof list[i].name, "%s", names[i]);
  }
  list[OUTPUT_WEIGHT].rows = shape->heads;
  list[DISTANCE_SCALE].columns = list[THRESHOLD_SCALE].columns = 1;
  return PARAMETERS;
}

/* Both layers uniform within 1 / sqrt(their inputs): a normal deviate becomes a uniform one by its own
 * distribution. */
static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)shape, (void)options, (void)index;
  double uniform = erf(normal / sqrt(2.0));
  if (which == DISTANCE_SCALE) return 0.1f;
  if (which == THRESHOLD_SCALE) return 1;
  return (float)(which == OUTPUT_WEIGHT ? uniform / sqrt(UNITS) : uniform);
}

/* |c|, kept from 0, where x is 0 / 0. */
static const double least_scale = 1e-6;

static double scale_of(const position_request *request)
{
  double c = fabs((double)request->parameters[DISTANCE_SCALE][0]);
  return c < least_scale ? least_scale : c;
}

static double base_threshold(const position_request *request)
{
  const fire_options *options = request->options;
  return options->threshold ? (double)options->threshold : (double)request->shape.train_length / 4;
}

/* |L_m L0|; 1 serves as well as less: it only matters to query 0, whose one distance is 0. */
static double threshold_of(const position_request *request)
{
  double threshold = fabs(request->parameters[THRESHOLD_SCALE][0] * base_threshold(request));
  return threshold < 1 ? 1 : threshold;
}

/* ---- the plan's own memory ---- */

typedef struct line {
  double offset, slope; /* bias = offset + slope x */
} line;

/* In steps of 1 / sum_one. */
typedef _Atomic int64_t sum;

/* One thread's sums for one head, of the gradients g of scores: */
typedef struct gathered {
  sum flat[LINES], linear[LINES]; /* g; g x; on each line */
  sum scale;                      /* g db/d|c| */
  sum threshold;                  /* g x db/dx, of the queries that divide by the threshold */
  sum size;                       /* of the absolute values of all that was added, coarsely */
} gathered;

enum { SLOTS = 16 }; /* threads beyond share them */

typedef struct fire_plan {
  size_t length, heads;
  float *logs;   /* [length] reversed: ln(|c| t + 1) at length - 1 - t */
  float *steeps; /* its derivative by |c|, t / (|c| t + 1) */
  double scale, threshold;
  float threshold_log;
  double threshold_steep;
  float kinks[UNITS];    /* where units begin or end, rising, those in (0, 1] */
  size_t kink_count;
  size_t ranks[UNITS];   /* of units: the place of their kink, UNITS: none */
  bool starts[UNITS];    /* units that are above 0 near x = 0 */
  uint32_t *bends;       /* [length, UNITS]: the first distance at which a query has passed a kink */
  line *lines;           /* [heads, LINES]: line s lies between kinks s - 1 and s */
  gathered *sums;        /* [SLOTS, heads] */
  _Atomic bool overflow; /* or a gradient that was no number */
} fire_plan;

static bool unit_is_on(const fire_plan *f, size_t unit, size_t s)
{
  return f->starts[unit] != (f->ranks[unit] < s);
}

/* ---- bias ---- */

/* What a query divides by. */
typedef struct row {
  bool below; /* the threshold */
  float log;
  double inverse, steep;
  const float *logs, *steeps; /* of the piece's keys */
  const uint32_t *bends;
} row;

static inline row row_of(const fire_plan *f, int64_t query, int64_t key)
{
  size_t own = f->length - 1 - (size_t)query, first = own + (size_t)key;
  bool below = !((double)query >= f->threshold);
  row r = {.below = below,
           .log = below ? f->threshold_log : f->logs[own],
           .steep = below ? f->threshold_steep : (double)f->steeps[own],
           .logs = f->logs + first,
           .steeps = f->steeps + first,
           .bends = f->bends + (size_t)query * UNITS};
  r.inverse = 1 / (double)r.log;
  return r;
}

/* The line of distance t. */
static inline size_t line_at(const fire_plan *f, const row *r, size_t t)
{
  int s = 0;
  for (size_t k = 0; k < f->kink_count; k++) s += r->bends[k] <= t;
  return (size_t)s;
}

/* One past the last of `count` keys, the first of them at distance t, that is on line s or a higher one. */
static inline size_t run_end(const row *r, size_t s, size_t t, size_t count)
{
  size_t end = s == 0 ? count : t + 1 - r->bends[s - 1];
  return end < count ? end : count;
}

static void add_bias(void *user, int head, int64_t query, int64_t key, int64_t count, float *bias)
{
  const fire_plan *f = user;
  row r = row_of(f, query, key);
  const line *lines = f->lines + (size_t)head * LINES;
  const float *restrict logs = r.logs;
  float *restrict to = bias;
  size_t t = (size_t)(query - key), n = 0, s = line_at(f, &r, t);
  while (n < (size_t)count) {
    size_t end = run_end(&r, s, t, (size_t)count);
    float offset = (float)lines[s].offset, slope = (float)(lines[s].slope * r.inverse);
    for (; n < end; n++) to[n] = offset + slope * logs[n];
    s--;
  }
}

/* ---- gradients of the scores, gathered ---- */

/* A piece's sums are below piece_limit.  Of all pieces they are below 2^31, as the sum of their sizes shows. */
static const double sum_one = 0x1p32, piece_limit = 0x1p24, size_one = 0x1p12, size_limit = 0x1p30;

static inline void add_to(sum *to, double x)
{
  atomic_fetch_add_explicit(to, (int64_t)(x < 0 ? x - 0.5 : x + 0.5), memory_order_relaxed);
}

typedef struct run_sums {
  double flat, log, steep;
} run_sums;

/* A vector that every processor has. */
typedef float lanes __attribute__((vector_size(16)));
enum { LANES = sizeof(lanes) / sizeof(float) };

static inline lanes load(const float *from)
{
  lanes all;
  memcpy(&all, from, sizeof all);
  return all;
}

static inline double total_of_lanes(lanes x)
{
  return ((double)x[0] + (double)x[1]) + ((double)x[2] + (double)x[3]);
}

/* Of gradients g: their sum, and those with the two tables.  A lane adds at most 16 products before all are joined
 * in double. */
static inline run_sums sum_run(const float *g, const float *logs, const float *steeps, size_t count)
{
  lanes flat = {0}, log = {0}, steep = {0};
  size_t n = 0;
  for (; n + LANES <= count; n += LANES) {
    lanes own = load(g + n);
    flat += own;
    log += own * load(logs + n);
    steep += own * load(steeps + n);
  }
  float flat_rest = 0, log_rest = 0, steep_rest = 0;
  for (; n < count; n++) {
    flat_rest += g[n];
    log_rest += g[n] * logs[n];
    steep_rest += g[n] * steeps[n];
  }
  return (run_sums){total_of_lanes(flat) + (double)flat_rest, total_of_lanes(log) + (double)log_rest,
                    total_of_lanes(steep) + (double)steep_rest};
}

static void gather(void *user, int head, int64_t query, int64_t key, int64_t count, const float *gradient)
{
  fire_plan *f = user;
  row r = row_of(f, query, key);
  const line *lines = f->lines + (size_t)head * LINES;
  gathered *to = f->sums + op_worker() % SLOTS * f->heads + (size_t)head;
  double flat[LINES], linear[LINES], scale = 0, threshold = 0, size = 0;
  size_t t = (size_t)(query - key), n = 0, first = line_at(f, &r, t), s = first;
  while (n < (size_t)count) {
    size_t end = run_end(&r, s, t, (size_t)count);
    run_sums g = sum_run(gradient + n, r.logs + n, r.steeps + n, end - n);
    flat[s] = g.flat;
    linear[s] = g.log * r.inverse;
    scale += lines[s].slope * r.inverse * (g.steep - linear[s] * r.steep);
    threshold += lines[s].slope * linear[s];
    size += fabs(flat[s]) + fabs(linear[s]);
    n = end;
    s--;
  }
  size += fabs(scale) + fabs(threshold);
  if (!(size < piece_limit)) {
    atomic_store_explicit(&f->overflow, true, memory_order_relaxed);
    return;
  }
  for (size_t at = first; at != s; at--) {
    add_to(&to->flat[at], flat[at] * sum_one);
    add_to(&to->linear[at], linear[at] * sum_one);
  }
  add_to(&to->scale, scale * sum_one);
  if (r.below) add_to(&to->threshold, threshold * sum_one);
  add_to(&to->size, size * size_one + 1);
}

/* ---- the plan ---- */

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  size_t heads = request->shape.heads;
  fire_plan *f = arena_take(a, 1, sizeof *f), counted;
  if (!f) f = &counted;
  f->length = request->length;
  f->heads = heads;
  f->logs = arena_floats(a, request->length);
  f->steeps = arena_floats(a, request->length);
  f->bends = arena_take(a, size_mul(request->length, UNITS), sizeof *f->bends);
  f->lines = arena_take(a, size_mul(heads, LINES), sizeof *f->lines);
  f->sums = arena_take(a, size_mul(heads, SLOTS), sizeof *f->sums);
  plan->bias = BIAS_ROWS;
  plan->rows = (attention_rows){.bias = add_bias, .gradient = gather, .user = f == &counted ? NULL : f};
}

static void fill_distances(const position_request *request, fire_plan *f)
{
  double c = f->scale = scale_of(request), most = f->threshold = threshold_of(request);
  f->threshold_log = (float)log1p(c * most);
  f->threshold_steep = most / (c * most + 1);
  for (size_t t = 0; t < f->length; t++) {
    f->logs[f->length - 1 - t] = (float)log1p(c * (double)t);
    f->steeps[f->length - 1 - t] = (float)((double)t / (c * (double)t + 1));
  }
}

/* The kinks within (0, 1] by size, with their units. */
static void fill_kinks(const position_request *request, fire_plan *f)
{
  const float *w1 = request->parameters[INPUT_WEIGHT], *b1 = request->parameters[INPUT_BIAS];
  f->kink_count = 0;
  for (size_t u = 0; u < UNITS; u++) {
    float kink = -b1[u] / w1[u];
    f->starts[u] = b1[u] > 0 || (b1[u] == 0 && w1[u] > 0);
    f->ranks[u] = UNITS;
    if (!(kink > 0 && kink <= 1)) continue;
    size_t rank = 0;
    while (rank < f->kink_count && f->kinks[rank] <= kink) rank++;
    for (size_t k = f->kink_count++; k > rank; k--) f->kinks[k] = f->kinks[k - 1];
    for (size_t other = 0; other < u; other++)
      if (f->ranks[other] < UNITS && f->ranks[other] >= rank) f->ranks[other]++;
    f->kinks[rank] = kink;
    f->ranks[u] = rank;
  }
}

/* The later a query, the farther its kinks. */
static void fill_bends(fire_plan *f)
{
  for (size_t k = 0; k < f->kink_count; k++)
    for (size_t i = 0, t = 0; i < f->length; i++) {
      float least = f->kinks[k] * row_of(f, (int64_t)i, 0).log;
      while (t <= i && f->logs[f->length - 1 - t] < least) t++;
      f->bends[i * UNITS + k] = (uint32_t)t;
    }
}

static void fill_lines(const position_request *request, fire_plan *f)
{
  const float *w1 = request->parameters[INPUT_WEIGHT], *b1 = request->parameters[INPUT_BIAS];
  for (size_t h = 0; h < f->heads; h++) {
    const float *w2 = request->parameters[OUTPUT_WEIGHT] + h * UNITS;
    line *lines = f->lines + h * LINES;
    for (size_t s = 0; s < LINES; s++) lines[s] = (line){0, 0};
    for (size_t u = 0; u < UNITS; u++) {
      line own = {(double)w2[u] * b1[u], (double)w2[u] * w1[u]};
      size_t from = f->starts[u] ? 0 : f->ranks[u] + 1, to = f->starts[u] ? f->ranks[u] + 1 : LINES;
      for (size_t s = from; s < to && s < LINES; s++) lines[s].offset += own.offset, lines[s].slope += own.slope;
    }
  }
}

static void clear(fire_plan *f)
{
  sum *sums = (sum *)f->sums;
  for (size_t i = 0; i < SLOTS * f->heads * (sizeof *f->sums / sizeof *sums); i++)
    atomic_store_explicit(&sums[i], 0, memory_order_relaxed);
  atomic_store_explicit(&f->overflow, false, memory_order_relaxed);
}

static void fill(const position_request *request, position_plan *plan)
{
  fire_plan *f = plan->rows.user;
  fill_distances(request, f);
  fill_kinks(request, f);
  fill_bends(f);
  fill_lines(request, f);
  clear(f);
}

/* ---- gradients of the parameters ---- */

typedef struct head_sums {
  double flat[LINES], linear[LINES], scale, threshold;
} head_sums;

static double total(const fire_plan *f, const sum *first)
{
  int64_t all = 0;
  for (size_t slot = 0; slot < SLOTS; slot++)
    all += atomic_load_explicit(first + slot * f->heads * (sizeof(gathered) / sizeof(sum)), memory_order_relaxed);
  return (double)all / sum_one;
}

static head_sums sums_of_head(fire_plan *f, size_t h)
{
  const gathered *from = f->sums + h;
  head_sums all;
  for (size_t s = 0; s < LINES; s++) {
    all.flat[s] = total(f, &from->flat[s]);
    all.linear[s] = total(f, &from->linear[s]);
  }
  all.scale = total(f, &from->scale);
  all.threshold = total(f, &from->threshold);
  bool lost = atomic_load_explicit(&f->overflow, memory_order_relaxed);
  if (lost || total(f, &from->size) * sum_one / size_one >= size_limit) all.threshold = NAN;
  return all;
}

static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  (void)grad;
  fire_plan *f = plan->rows.user;
  const float *w1 = request->parameters[INPUT_WEIGHT], *b1 = request->parameters[INPUT_BIAS];
  double dw1[UNITS] = {0}, db1[UNITS] = {0}, scale = 0, threshold = 0;
  for (size_t h = 0; h < f->heads; h++) {
    const float *w2 = request->parameters[OUTPUT_WEIGHT] + h * UNITS;
    head_sums sums = sums_of_head(f, h);
    for (size_t u = 0; u < UNITS; u++) {
      double flat = 0, linear = 0;
      for (size_t s = 0; s < LINES; s++)
        if (unit_is_on(f, u, s)) flat += sums.flat[s], linear += sums.linear[s];
      dw1[u] += w2[u] * linear;
      db1[u] += w2[u] * flat;
      parameter_grads[OUTPUT_WEIGHT][h * UNITS + u] += (float)(w1[u] * linear + b1[u] * flat);
    }
    scale += sums.scale;
    threshold += sums.threshold;
  }
  for (size_t u = 0; u < UNITS; u++) {
    parameter_grads[INPUT_WEIGHT][u] += (float)dw1[u];
    parameter_grads[INPUT_BIAS][u] += (float)db1[u];
  }
  double c = request->parameters[DISTANCE_SCALE][0], longer = request->parameters[THRESHOLD_SCALE][0];
  /* x falls with the threshold m by x |c| / ((|c| m + 1) ln(|c| m + 1)) */
  double fall = f->scale / ((f->scale * f->threshold + 1) * (double)f->threshold_log);
  if (!(fabs(c) < least_scale)) parameter_grads[DISTANCE_SCALE][0] += (float)(c < 0 ? -scale : scale);
  parameter_grads[THRESHOLD_SCALE][0] -=
      (float)(threshold * fall * base_threshold(request) * (longer < 0 ? -1 : 1));
  clear(f);
}

/* ---- the formula ---- */

static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  const float *const *p = request->parameters;
  double c = fabs((double)p[DISTANCE_SCALE][0]), most = fabs(p[THRESHOLD_SCALE][0] * base_threshold(request)),
         sum_of_units = 0;
  double x = i == j ? 0 : log1p(c * (double)(i - j)) / log1p(c * fmax((double)i, most));
  for (size_t u = 0; u < UNITS; u++)
    sum_of_units +=
        p[OUTPUT_WEIGHT][head * UNITS + u] * fmax((double)p[INPUT_WEIGHT][u] * x + p[INPUT_BIAS][u], 0);
  return sum_of_units;
}

const position_method position_method_fire = {
    .name = "fire",
    .title = "FIRE: functional interpolation of relative positions",
    .formula = "score + W2_h . relu(w1 x + b1), x = ln(|c| (i - j) + 1) / ln(|c| max(i, |L_m L0|) + 1)",
    .source = "Li et al., ICLR 2024",
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(fire_options),
    .parameters = parameters,
    .initial = initial,
    .layout = layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
