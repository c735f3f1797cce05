/* Attention in double, row by row over every key that the row sees: slow, and right.  Beside the row over all keys
 * it keeps the row over the visited blocks alone, so that what skipping costs is told apart from rounding. */
#include <math.h>
#include <omp.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/random.h"
#include "bench/bench_attention_parts.h"

enum { SAMPLES = 16, SEED = 2, MAX_D = 256 };

/* Sums over keys j with weights e_j = exp(s_j - top). */
typedef struct sums {
  double weight, inner;                 /* e, e (dout.v) */
  double v[MAX_D], k[MAX_D], ik[MAX_D]; /* e v; with f the factor of the distance e f k, e f (dout.v) k */
} sums;

static double dot(const float *a, const float *b, int d)
{
  double s[4] = {0};
  int c = 0;
  for (; c + 4 <= d; c += 4)
    for (int i = 0; i < 4; i++) s[i] += (double)a[c + i] * b[c + i];
  for (; c < d; c++) s[0] += (double)a[c] * b[c];
  return s[0] + s[1] + (s[2] + s[3]);
}

static double bias_of(const alibi_attention *a, int head, int64_t query, int64_t key)
{
  const alibi_bias *b = &a->bias;
  if (b->kind == ALIBI_BIAS_SLOPE) return -b->slopes[head] * (double)(query - key);
  if (b->kind == ALIBI_BIAS_DISTANCE) return b->added[head * b->distances + query - key];
  if (b->kind == ALIBI_BIAS_KEY)
    return b->offsets[key * a->heads + head] + b->query_offsets[query * a->heads + head];
  return 0;
}

static double factor_of(const alibi_bias *b, int head, int64_t distance)
{
  return b->kind == ALIBI_BIAS_DISTANCE && b->factor ? b->factor[head * b->distances + distance] : 1;
}

typedef struct sampled_row {
  const alibi_attention *attention;
  const bench_layer *layer;
  int head;
  int64_t position, from, to; /* sees 0 .. position, or the window's end of it; visited from .. to-1 of them */
  const float *q, *dout;
} sampled_row;

static void add_key(const sampled_row *r, double e, double factor, const float *k, const float *v, sums *s)
{
  int d = r->attention->head_size;
  s->weight += e;
  if (!r->dout) {
    for (int c = 0; c < d; c++) s->v[c] += e * v[c];
    return;
  }
  double inner = e * dot(r->dout, v, d);
  s->inner += inner;
  for (int c = 0; c < d; c++) {
    s->k[c] += e * factor * k[c];
    s->ik[c] += inner * factor * k[c];
  }
}

static void add_sums(const sums *from, sums *to)
{
  to->weight += from->weight;
  to->inner += from->inner;
  for (int c = 0; c < MAX_D; c++) {
    to->v[c] += from->v[c];
    to->k[c] += from->k[c];
    to->ik[c] += from->ik[c];
  }
}

/* The row of out, or of dq: scale sum_j P_j (dout.v_j - sum_i P_i dout.v_i) k_j. */
static void finish(const sampled_row *r, const sums *s, double *row)
{
  for (int c = 0; c < r->attention->head_size; c++)
    row[c] = r->dout ? r->attention->scale * (s->ik[c] - s->inner / s->weight * s->k[c]) / s->weight
                     : s->v[c] / s->weight;
}

/* scores: room for position + 1.  all, visited: a row each. */
static void compute(const sampled_row *r, double *scores, double *all, double *visited)
{
  const alibi_attention *a = r->attention;
  const alibi_heads *k = &r->layer->k, *v = &r->layer->v;
  int64_t group = r->head / (a->heads / a->kv_heads);
  int64_t first = a->window && r->position >= a->window ? r->position - a->window + 1 : 0;
  double top = -INFINITY;
  sums near = {0}, far = {0};
  for (int64_t j = first; j <= r->position; j++) {
    const float *key = k->data + j * k->row_stride + group * k->head_stride;
    scores[j] = factor_of(&a->bias, r->head, r->position - j) * a->scale * dot(r->q, key, a->head_size) +
                bias_of(a, r->head, r->position, j);
    top = fmax(top, scores[j]);
  }
  for (int64_t j = first; j <= r->position; j++)
    add_key(r, exp(scores[j] - top), factor_of(&a->bias, r->head, r->position - j),
            k->data + j * k->row_stride + group * k->head_stride,
            v->data + j * v->row_stride + group * v->head_stride, j >= r->from && j < r->to ? &near : &far);
  finish(r, &near, visited);
  add_sums(&far, &near);
  finish(r, &near, all);
}

typedef struct differences {
  double error, skip_error, largest; /* absolute; largest |component| of the reference */
} differences;

static void compare_row(const sampled_row *r, const float *found, double *scores, differences *d)
{
  double all[MAX_D], visited[MAX_D];
  compute(r, scores, all, visited);
  for (int c = 0; c < r->attention->head_size; c++) {
    double error = fabs(found[c] - all[c]), skip_error = fabs(visited[c] - all[c]);
    bench_keep_worst(error, &d->error);
    bench_keep_worst(skip_error, &d->skip_error);
    d->largest = fmax(d->largest, fabs(all[c]));
  }
}

/* One row in each of `samples` equal parts, and the last one. */
static int64_t sample_at(int64_t queries, int64_t samples, int64_t s)
{
  if (s + 1 == samples) return queries - 1;
  int64_t from = queries * s / samples, to = queries * (s + 1) / samples;
  return from + (int64_t)random_below(SEED, 0, (uint64_t)s, (uint64_t)(to - from));
}

status bench_compare(alibi_context *context, const bench_inputs *in, size_t layer, const alibi_attention *a,
                     const float *dq, bench_errors *errors, alibi_error *error)
{
  status result;
  int64_t samples = a->queries < SAMPLES ? a->queries : SAMPLES, d = a->head_size, items = samples * a->heads;
  size_t threads = (size_t)context->threads, room = (size_t)in->length;
  double *scores = NULL;
  differences *found = NULL;
  TRY(memory_new(&scores, size_mul(threads, room), sizeof *scores, "scores in double", error));
  TRY(memory_new(&found, (size_t)items, sizeof *found, "the differences", error));
#pragma omp parallel num_threads((int)threads)
  {
    size_t mine = (size_t)omp_get_thread_num();
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < items; i++) {
      int64_t h = i % a->heads, r = sample_at(a->queries, samples, samples - 1 - i / a->heads);
      const int32_t *blocks = a->visited + (r * a->heads + h) * 2;
      int64_t place = (r * a->heads + h) * d;
      sampled_row row = {.attention = a,
                         .layer = &in->layer[layer],
                         .head = (int)h,
                         .position = in->length - a->queries + r,
                         .from = (int64_t)blocks[0] * ALIBI_ATTENTION_BLOCK,
                         .to = (int64_t)blocks[1] * ALIBI_ATTENTION_BLOCK,
                         .q = a->q.data + r * a->q.row_stride + h * a->q.head_stride,
                         .dout = dq ? in->dout + place : NULL};
      if (!context_cancelled(context))
        compare_row(&row, (dq ? dq : a->out.data) + place, scores + mine * room, &found[i]);
    }
  }
  TRY(context_check_cancel(context, error));
  differences most = {0};
  for (int64_t i = 0; i < items; i++) {
    bench_keep_worst(found[i].error, &most.error);
    bench_keep_worst(found[i].skip_error, &most.skip_error);
    most.largest = fmax(most.largest, found[i].largest);
  }
  double unit = dq ? most.largest : in->layer[layer].largest_value;
  if (unit == 0) unit = 1; /* of a single token, dq is 0 */
  *errors = (bench_errors){most.error / unit, most.skip_error / unit};
done:
  memory_free(scores);
  memory_free(found);
  return result;
}
