/* Horizons of a model, and what its heads do on a text.  A pass keeps of each block its input and its log-sum-exp;
 * queries and keys are made again layer by layer, so that memory is that of one window; then a query's weights are
 * exp(score - log-sum-exp), in double, and everything told is a sum over these.  A head is the work of one thread,
 * its queries in order: the same bits for any number of threads. */
#include "evaluate/horizon.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "evaluate/text_ids.h"
#include "model/walk.h"
#include "op/team.h"

const double horizon_shares[HORIZON_SHARES] = {0.5, 0.9, 0.99};

enum { PIECE = 64, LANES = 8, SEED = 20 };

/* ---- one query ---- */

static double product(const float *q, const float *k, size_t d)
{
  double lane[LANES] = {0}, sum = 0;
  size_t c = 0;
  for (; c + LANES <= d; c += LANES)
    for (size_t l = 0; l < LANES; l++) lane[l] += (double)q[c + l] * (double)k[c + l];
  for (; c < d; c++) sum += (double)q[c] * (double)k[c];
  for (size_t l = 0; l < LANES; l++) sum += lane[l];
  return sum;
}

/* bias[t] for distances t below count. */
static void bias_of_row(const op_attention *a, size_t h, size_t i, size_t count, double *bias)
{
  for (size_t t = 0; t < count; t++) bias[t] = 0;
  for (size_t t = 0; a->bias == BIAS_SLOPE && t < count; t++) bias[t] = -(double)a->slopes[h] * (double)t;
  for (size_t t = 0; a->bias == BIAS_DISTANCE && t < count; t++)
    bias[t] = (double)a->table[(h + 1) * a->table_length - 1 - t];
  for (size_t t = 0; a->bias == BIAS_KEY && t < count; t++)
    bias[t] = a->query_offsets[i * a->heads + h] + a->offsets[(i - t) * a->heads + h];
  for (size_t first = i + 1 - count, end; a->bias == BIAS_ROWS && first <= i; first = end) {
    float piece[PIECE] = {0};
    end = first + PIECE <= i + 1 ? first + PIECE : i + 1;
    a->rows->bias(a->rows->user, (int)h, (int64_t)i, (int64_t)first, (int64_t)(end - first), piece);
    for (size_t j = first; j < end; j++) bias[i - j] = (double)piece[j - first];
  }
}

/* As horizon_weights; *rise: the largest score, without the bias, above that of the query's own key. */
static size_t weights_of_row(const op_attention *a, size_t h, size_t i, double *weights, double *rise)
{
  size_t count = a->window && a->window <= i ? a->window : i + 1, group = h / (a->heads / a->kv_heads);
  const float *q = a->q.data + i * a->q.row_stride + h * a->q.head_stride;
  const float *k = a->k.data + i * a->k.row_stride + group * a->k.head_stride;
  double log_sum = (double)a->lse[i * a->heads + h], own = 0;
  *rise = 0;
  bias_of_row(a, h, i, count, weights);
  for (size_t t = 0; t < count; t++) {
    double factor = a->factors ? (double)a->factors[(h + 1) * a->table_length - 1 - t] : 1;
    double plain = (double)a->scale * product(q, k - t * a->k.row_stride, a->head_size), cap = (double)a->cap;
    double score = factor * (cap > 0 ? cap * tanh(plain / cap) : plain);
    weights[t] = exp(score + weights[t] - log_sum);
    if (t == 0) own = score;
    if (score - own > *rise) *rise = score - own;
  }
  return count;
}

size_t horizon_weights(const op_attention *a, size_t h, size_t i, double *weights)
{
  double rise;
  return weights_of_row(a, h, i, weights, &rise);
}

/* ---- all queries of a head ---- */

/* Mean and deviation as they come (Welford 1962). */
typedef struct running {
  double count, mean, squares;
} running;

static void running_add(running *r, double x)
{
  double off = x - r->mean;
  r->count++;
  r->mean += off / r->count;
  r->squares += off * (x - r->mean);
}

typedef struct head_sums {
  running within[HORIZON_SHARES], gate;
  double *mass;   /* [length] by distance */
  double *centre; /* [D] of the keys */
  double weights, zero, below, deviation, farthest;
  double query_norm, key_norm, rise, slowest_gate;
  double visited, visible; /* blocks */
  bool broken;             /* some weight was no number */
} head_sums;

static void add_query(const op_attention *a, size_t h, size_t i, double threshold, double *weights, head_sums *s)
{
  double sum = 0, before = 0, rise;
  size_t count = weights_of_row(a, h, i, weights, &rise), share = 0;
  for (size_t t = 0; t < count; t++) sum += weights[t];
  if (!isfinite(sum) || !(sum > 0)) {
    s->broken = true;
    return;
  }
  s->deviation = fmax(s->deviation, fabs(sum - 1));
  s->weights += (double)count;
  s->rise = fmax(s->rise, rise);
  for (size_t t = 0; t < count; t++) {
    before += weights[t];
    s->mass[t] += weights[t] / sum;
    s->zero += weights[t] < 0x1p-150;
    s->below += weights[t] <= threshold;
    if (weights[t] > threshold && (double)t > s->farthest) s->farthest = (double)t;
    for (; share < HORIZON_SHARES && before >= horizon_shares[share] * sum; share++)
      running_add(&s->within[share], (double)t);
  }
}

static void measure_norms(const op_attention *a, size_t h, size_t rows, bool first_window, head_sums *s)
{
  size_t d = a->head_size, group = h / (a->heads / a->kv_heads);
  for (size_t i = 0; first_window && i < rows; i++)
    for (size_t c = 0; c < d; c++)
      s->centre[c] += (double)a->k.data[i * a->k.row_stride + group * a->k.head_stride + c] / (double)rows;
  for (size_t i = 0; i < rows; i++) {
    const float *q = a->q.data + i * a->q.row_stride + h * a->q.head_stride;
    const float *k = a->k.data + i * a->k.row_stride + group * a->k.head_stride;
    double query = 0, key = 0;
    for (size_t c = 0; c < d; c++) {
      double off = (double)k[c] - s->centre[c];
      query += (double)q[c] * (double)q[c];
      key += off * off;
    }
    s->query_norm = fmax(s->query_norm, sqrt(query));
    s->key_norm = fmax(s->key_norm, sqrt(key));
  }
}

static void measure_gates(const op_attention *a, size_t h, size_t rows, head_sums *s)
{
  for (size_t i = 1; a->bias == BIAS_KEY && i < rows; i++) {
    double fall = a->query_offsets[(i - 1) * a->heads + h] - a->query_offsets[i * a->heads + h];
    running_add(&s->gate, fall);
    s->slowest_gate = fmin(s->slowest_gate, fall);
  }
}

/* Without a list of what was visited everything that is seen was. */
static void count_blocks(const op_attention *a, size_t h, size_t rows, head_sums *s)
{
  for (size_t i = 0; i < rows; i++) {
    size_t from = a->window && a->window <= i ? i + 1 - a->window : 0, last = i / ATTENTION_BLOCK + 1;
    const int32_t *visited = a->visited ? a->visited + 2 * (i * a->heads + h) : NULL;
    s->visible += (double)last;
    s->visited += visited ? (double)(visited[1] - visited[0]) : (double)(last - from / ATTENTION_BLOCK);
  }
}

/* ---- a text ---- */

typedef struct reading {
  alibi_model *model;
  const horizon_options *options;
  model_pass *pass;
  head_sums *sums; /* [layers, heads] */
  double *memory;  /* of their lists */
  double *weights; /* [threads, length] */
  size_t *queries; /* [rows] positions, of the window at hand */
  size_t rows;
} reading;

static status reading_open(reading *r, const horizon *h, alibi_error *error)
{
  size_t length = r->options->length, heads = h->layers * h->heads;
  size_t d = (size_t)r->model->config.head_size;
  status result;
  TRY(memory_new(&r->sums, heads, sizeof *r->sums, "the figures of heads", error));
  TRY(memory_new(&r->memory, size_mul(heads, size_add(length, d)), sizeof *r->memory, "attention by distance",
                 error));
  TRY(memory_new(&r->weights, size_mul((size_t)r->model->context->threads, length), sizeof *r->weights,
                 "the weights of a query", error));
  TRY(memory_new(&r->queries, r->rows, sizeof *r->queries, "the list of queries", error));
  for (size_t i = 0; i < heads; i++) {
    r->sums[i].mass = r->memory + i * (length + d);
    r->sums[i].centre = r->sums[i].mass + length;
    r->sums[i].slowest_gate = INFINITY;
  }
done:
  return result;
}

static void reading_close(reading *r)
{
  memory_free(r->sums);
  memory_free(r->memory);
  memory_free(r->weights);
  memory_free(r->queries);
}

/* One from each stretch of the second half, at a random place, lest they meet a period of the text. */
static void choose_queries(reading *r, size_t window)
{
  size_t half = r->options->length / 2, places = r->options->length - half;
  for (size_t n = 0; n < r->rows; n++) {
    size_t from = places * n / r->rows, to = places * (n + 1) / r->rows;
    r->queries[n] = half + from + (size_t)random_below(SEED, window, n, to - from);
  }
}

static status read_layer(reading *r, const horizon *h, size_t layer, size_t window, alibi_error *error)
{
  model_pass *p = r->pass;
  walk_shape s = walk_shape_of(p);
  walk_again(p, &s, layer);
  op_attention a = walk_attention(p, &s, layer, &p->blocks[layer]);
  size_t length = r->options->length;
  double work = (double)h->heads * (double)r->rows * (double)length * ((double)s.head_size + 32);
  OP_FOR_ITEMS(r->model->context, dynamic, h->heads, work, {
    head_sums *sums = &r->sums[layer * h->heads + item];
    measure_norms(&a, item, length, window == 0, sums);
    measure_gates(&a, item, length, sums);
    count_blocks(&a, item, length, sums);
    for (size_t n = 0; n < r->rows; n++)
      add_query(&a, item, r->queries[n], r->options->threshold, r->weights + worker * length, sums);
  });
  for (size_t head = 0; head < h->heads; head++)
    if (r->sums[layer * h->heads + head].broken)
      return fail(
          error, ALIBI_BAD_INPUT,
          "layer %zu, head %zu: expected weights of attention that sum to 1, found some that are no numbers",
          layer, head);
  return ALIBI_OK;
}

static status read_text(reading *r, const uint32_t *tokens, size_t count, horizon_progress *progress, void *user,
                        const horizon *h, alibi_error *error)
{
  size_t length = r->options->length;
  status result = ALIBI_OK;
  for (size_t w = 0; w < h->windows; w++) {
    size_t start = h->windows > 1 ? (count - length) / (h->windows - 1) * w : 0;
    pass_segment segment = {.count = length};
    TRY(context_check_cancel(r->model->context, error));
    TRY(model_forward(r->pass, tokens + start, &segment, 1, error));
    choose_queries(r, w);
    for (size_t layer = 0; layer < h->layers; layer++) {
      TRY(context_check_cancel(r->model->context, error));
      TRY(read_layer(r, h, layer, w, error));
      if (progress) progress(user, w * h->layers + layer + 1, h->windows * h->layers);
    }
  }
done:
  return result;
}

/* ---- what is told ---- */

static void share_by_distance(const double *mass, size_t length, double *pooled)
{
  double all = 0, before = 0;
  size_t share = 0;
  for (size_t t = 0; t < length; t++) all += mass[t];
  for (size_t t = 0; t < length; t++) {
    before += mass[t];
    for (; share < HORIZON_SHARES && before >= horizon_shares[share] * all; share++) pooled[share] = (double)t;
  }
}

static void tell_measured(const reading *r, const horizon_fall *any, horizon *h, horizon_head *to)
{
  const head_sums *s = &r->sums[to - h->list];
  walk_shape shape = walk_shape_of(r->pass);
  double pooled[HORIZON_SHARES];
  double *mass = h->mass + (size_t)(to - h->list) * h->bins;
  horizon_fall fall = *any;
  share_by_distance(s->mass, h->length, pooled);
  for (size_t i = 0; i < HORIZON_SHARES; i++) {
    const running *w = &s->within[i];
    double variance = w->count > 1 ? w->squares / (w->count - 1) : NAN;
    to->within[i] = (horizon_within){w->mean, sqrt(variance), pooled[i]};
  }
  for (size_t b = 0; b < h->bins; b++)
    for (size_t t = h->edges[b]; t < h->edges[b + 1]; t++) mass[b] += s->mass[t] / (double)h->rows;
  to->farthest = s->farthest;
  to->zero = s->zero / s->weights;
  to->below = s->below / s->weights;
  to->visited = s->visited / s->visible;
  to->query_norm = s->query_norm;
  to->key_norm = s->key_norm;
  if (s->gate.count > 0) {
    to->slope = s->gate.mean;
    fall.slope = s->slowest_gate;
    fall.kind = fall.slope > 0 ? FALLS_BY_SLOPE : FALLS_NEVER;
  }
  if (fall.kind != FALLS_NEVER) {
    to->norms_gap = 2 * s->query_norm * s->key_norm * (double)walk_scale(&shape);
    to->scores_gap = s->rise;
  }
  if (s->deviation > h->deviation) h->deviation = s->deviation;
  to->these_norms = horizon_distance(&fall, to->norms_gap, h->threshold);
  to->these_scores = horizon_distance(&fall, to->scores_gap, h->threshold);
}

/* At the distance where each bin begins. */
static void tell_bias(const model_pass *p, const horizon *h, const horizon_head *head)
{
  const position_plan *plan = &p->position.plan;
  size_t row = walk_set(plan, head->layer) * h->heads + head->head;
  double *bias = h->bias + (size_t)(head - h->list) * h->bins;
  for (size_t b = 0; b < h->bins; b++) {
    size_t t = h->edges[b];
    bias[b] = plan->gated || plan->bias == BIAS_ROWS ? NAN : 0;
    if (plan->bias == BIAS_SLOPE) bias[b] = 0 - (double)plan->slopes[row] * (double)t;
    if (plan->bias == BIAS_DISTANCE) bias[b] = (double)plan->table[(row + 1) * plan->length - 1 - t];
  }
}

static double gate_alone(const model_pass *p, size_t layer, size_t head)
{
  size_t gate = layer * (size_t)p->model->config.heads + head;
  return log1p(exp(-(double)p->model->parameters.position[1][gate]));
}

static status tell_head(const reading *r, horizon *h, size_t layer, size_t head, alibi_error *error)
{
  const position_plan *plan = &r->pass->position.plan;
  horizon_head *to = &h->list[layer * h->heads + head];
  horizon_fall fall = horizon_fall_of(r->pass, layer, head);
  status result = ALIBI_OK;
  *to = (horizon_head){.layer = layer, .head = head, .slope = NAN, .any_gap = NAN};
  to->norms_gap = to->scores_gap = to->these_norms = to->these_scores = NAN;
  to->query_norm = to->key_norm = to->farthest = to->zero = to->below = to->visited = NAN;
  for (size_t i = 0; i < HORIZON_SHARES; i++) to->within[i] = (horizon_within){NAN, NAN, NAN};
  if (plan->bias == BIAS_SLOPE) to->slope = (double)plan->slopes[walk_set(plan, layer) * h->heads + head];
  if (plan->gated) to->slope = gate_alone(r->pass, layer, head);
  if (fall.kind != FALLS_NEVER) TRY(horizon_any_gap(r->pass, layer, head, &to->any_gap, error));
  to->any_text = horizon_distance(&fall, to->any_gap, h->threshold);
  if (h->text) tell_measured(r, &fall, h, to);
  if (h->window > 0) to->any_text = fmin(to->any_text, (double)h->window);
  if (h->text) { /* what holds for every text holds for these */
    to->these_norms = fmin(to->these_norms, to->any_text);
    to->these_scores = fmin(to->these_scores, to->these_norms);
  }
  tell_bias(r->pass, h, to);
done:
  return result;
}

/* 0, 1, 2, 3, 4, 6, 8, 12, 16, .. up to the length; edges NULL: only counts. */
static size_t make_edges(size_t length, size_t *edges)
{
  size_t bins = 0;
  for (size_t t = 0, power = 2; t < length; bins++) {
    if (edges) edges[bins] = t;
    if (t < 2) t++;
    else if (t == power) t += power / 2;
    else t = power *= 2;
  }
  if (edges) edges[bins] = length;
  return bins;
}

static status prepare(reading *r, size_t count, horizon *h, alibi_error *error)
{
  const alibi_model_config *c = &r->model->config;
  const horizon_options *o = r->options;
  size_t most = o->length - o->length / 2, heads;
  status result;
  h->layers = (size_t)c->layers;
  h->heads = (size_t)c->heads;
  h->length = o->length;
  h->threshold = o->threshold;
  heads = h->layers * h->heads;
  r->rows = o->rows == 0 || o->rows > most ? most : o->rows;
  if (h->text) {
    h->windows = count / o->length < o->windows ? count / o->length : o->windows;
    h->rows = h->windows * r->rows;
  }
  h->bins = make_edges(o->length, NULL);
  TRY(memory_new(&h->list, heads, sizeof *h->list, "the figures of heads", error));
  TRY(memory_new(&h->edges, h->bins + 1, sizeof *h->edges, "the bins of distances", error));
  TRY(memory_new(&h->mass, size_mul(heads, h->bins), sizeof *h->mass, "attention by distance", error));
  TRY(memory_new(&h->bias, size_mul(heads, h->bins), sizeof *h->bias, "biases by distance", error));
  make_edges(o->length, h->edges);
done:
  return result;
}

static status check(const alibi_model *model, const uint32_t *tokens, size_t count, const horizon_options *o,
                    alibi_error *error)
{
  status result = model_check_causal(model, "a horizon", error);
  if (result != ALIBI_OK) return result;
  if (o->length < 2) return fail(error, ALIBI_INVALID, "length: expected at least 2 tokens, found %zu", o->length);
  if (!(o->threshold > 0) || !(o->threshold < 1))
    return fail(error, ALIBI_INVALID, "threshold: expected a number above 0 and below 1, found %g", o->threshold);
  if (!tokens) return ALIBI_OK;
  if (o->windows == 0) return fail(error, ALIBI_INVALID, "windows: expected at least 1, found 0");
  if (count < o->length)
    return fail(error, ALIBI_INVALID, "the text: expected at least the %zu tokens of a window, found %zu",
                o->length, count);
  return text_ids_check(model, tokens, count, error);
}

status horizon_measure(alibi_model *model, const uint32_t *tokens, size_t count, const horizon_options *options,
                       horizon_progress *progress, void *user, horizon *h, alibi_error *error)
{
  reading r = {.model = model, .options = options};
  pass_shape shape = {.rows = tokens ? options->length : 1,
                      .segments = 1,
                      .length = options->length,
                      .head_rows = 1,
                      .keep = tokens != NULL,
                      .recompute = tokens != NULL,
                      .stops_when_cancelled = true,
                      .extension = options->extension,
                      .extension_options = options->extension_options};
  status result;
  *h = (horizon){.text = tokens != NULL};
  TRY(check(model, tokens, count, options, error));
  TRY(prepare(&r, count, h, error));
  TRY(model_pass_new(model, &shape, &r.pass, error));
  h->window = r.pass->position.plan.window;
  h->scaled = r.pass->position.plan.row_scale != NULL;
  if (tokens) TRY(reading_open(&r, h, error));
  if (tokens) TRY(read_text(&r, tokens, count, progress, user, h, error));
  for (size_t layer = 0; layer < h->layers; layer++) {
    TRY(context_check_cancel(model->context, error));
    for (size_t head = 0; head < h->heads; head++) TRY(tell_head(&r, h, layer, head, error));
  }
done:
  reading_close(&r);
  model_pass_free(r.pass);
  if (result != ALIBI_OK) horizon_free(h);
  return result;
}

void horizon_free(horizon *h)
{
  memory_free(h->list);
  memory_free(h->edges);
  memory_free(h->mass);
  memory_free(h->bias);
  *h = (horizon){.layers = 0};
}
