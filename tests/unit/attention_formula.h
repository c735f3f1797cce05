/* attention_formula.h - attention and all its gradients from the definition at the top of alibi/attention.h, in
 * plain double, one pair of query and key after another.  It reads the struct of a call and shares nothing else
 * with the library.  Include after cmocka.h.
 *
 * Beside each number stands its slack: how far rounding in fp32 can carry a careful implementation, by first-order
 * propagation of the rounding of each step (a score is a sum of D products; a weight is as wrong as its score is).
 */
#ifndef UNIT_ATTENTION_FORMULA_H
#define UNIT_ATTENTION_FORMULA_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "alibi/attention.h"

typedef struct formula_numbers {
  double *value, *slack;
  size_t count;
} formula_numbers;

typedef struct formula {
  /* What is asked. */
  const alibi_heads *dout; /* NULL: forward only */
  const int32_t *visited;  /* as a call wrote it: rows see these blocks of their sequence and no other; or NULL */
  const void *nudged;      /* where this number is read, `nudge` is added */
  int64_t nudged_row;      /* ROWS: the place in `rows` to which `nudge` is added; -1: none */
  double nudge;
  /* What is found; arrays without gaps. */
  formula_numbers out, lse;      /* [T, H, D], [T, H] */
  formula_numbers dq, dk, dv;    /* [T, H, D], [S, G, D] */
  formula_numbers slopes;        /* [H] */
  formula_numbers added, factor; /* [H, distances] */
  formula_numbers offsets, rows; /* [S, H], [H, T, S] */
  double unvisited;              /* largest share of a row that lies outside `visited` */
  int64_t pairs_visible, pairs_visited;
} formula;

/* One key of one row. */
typedef struct formula_pair {
  int64_t key, distance;
  double capped, bend; /* the product after the cap; the cap's derivative */
  double factor, score, weight;
  double slack; /* of the score; then of the weight, relative */
} formula_pair;

static const double formula_eps = FLT_EPSILON;

static inline formula_numbers formula_numbers_new(int64_t count)
{
  formula_numbers n = {calloc((size_t)count + 1, sizeof(double)), calloc((size_t)count + 1, sizeof(double)),
                       (size_t)count};
  if (!n.value || !n.slack) fail_msg("no memory for %lld numbers", (long long)count);
  return n;
}

static inline void formula_free(formula *f)
{
  formula_numbers *all[] = {&f->out,    &f->lse,   &f->dq,     &f->dk,      &f->dv,
                            &f->slopes, &f->added, &f->factor, &f->offsets, &f->rows};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    free(all[i]->value);
    free(all[i]->slack);
    *all[i] = (formula_numbers){NULL, NULL, 0};
  }
}

static inline double formula_read(const formula *f, const float *at)
{
  return (double)*at + (at == f->nudged ? f->nudge : 0);
}

/* Row r of head h of [rows, heads, size]. */
static inline const float *formula_place(const alibi_heads *x, int heads, int size, int64_t r, int h)
{
  bool contiguous = x->row_stride == 0 && x->head_stride == 0;
  return x->data + r * (contiguous ? (int64_t)heads * size : x->row_stride) +
         h * (contiguous ? size : x->head_stride);
}

static inline int formula_groups(const alibi_attention *a)
{
  return a->kv_heads ? a->kv_heads : a->heads;
}

static inline int64_t formula_sequences(const alibi_attention *a)
{
  return a->sequences ? a->sequences : 1;
}

/* First query or key of a sequence; of the sequence after the last one: their number. */
static inline int64_t formula_query_start(const alibi_attention *a, int64_t n)
{
  return a->sequences ? a->query_starts[n] : n ? a->queries : 0;
}

static inline int64_t formula_key_start(const alibi_attention *a, int64_t n)
{
  return a->sequences ? a->key_starts[n] : n ? a->keys : 0;
}

static inline int64_t formula_distance(const alibi_attention *a, int64_t n, int64_t i, int64_t j)
{
  if (a->query_positions) return a->query_positions[i] - a->key_positions[j];
  int64_t queries = formula_query_start(a, n + 1) - formula_query_start(a, n);
  int64_t keys = formula_key_start(a, n + 1) - formula_key_start(a, n);
  int64_t first = a->query_offset == ALIBI_BOTTOM_RIGHT ? keys - queries : a->query_offset;
  return first + (i - formula_query_start(a, n)) - (j - formula_key_start(a, n));
}

static inline bool formula_sees(const alibi_attention *a, int64_t distance)
{
  if (a->causal && distance < 0) return false;
  return a->window == 0 || (distance < 0 ? -distance : distance) < a->window;
}

static inline double formula_slope(const formula *f, const alibi_attention *a, int h)
{
  const alibi_bias *b = &a->bias;
  if (b->slopes) return b->slopes[h] + (b->slopes + h == f->nudged ? f->nudge : 0);
  int total = b->total_heads ? b->total_heads : a->heads, head = b->head_offset + h, power = 1;
  double exponent = b->max_bias != 0 ? b->max_bias : 8;
  while (power * 2 <= total) power *= 2;
  if (b->slope_rule == ALIBI_SLOPES_GEOMETRIC) return pow(2, -exponent * (head + 1) / total);
  if (head < power) return pow(2, -exponent * (head + 1) / power);
  return pow(2, -exponent * (2 * (head - power) + 1) / (2 * power));
}

/* What is added to the score; *factor multiplies it before. */
static inline double formula_bias(const formula *f, const alibi_attention *a, int h, int64_t i, int64_t j,
                                  int64_t distance, double *factor)
{
  const alibi_bias *b = &a->bias;
  int64_t entry = h * b->distances + distance - b->lowest, place = (h * a->queries + i) * a->keys + j;
  float piece = 0;
  *factor = 1;
  switch (b->kind) {
  case ALIBI_BIAS_NONE: break;
  case ALIBI_BIAS_SLOPE: return -formula_slope(f, a, h) * fabs((double)distance);
  case ALIBI_BIAS_DISTANCE:
    if (distance < b->lowest || distance >= b->lowest + b->distances) fail_msg("a table without its distance");
    if (b->factor) *factor = formula_read(f, b->factor + entry);
    return formula_read(f, b->added + entry);
  case ALIBI_BIAS_KEY: {
    const double *offset = b->offsets + j * a->heads + h;
    return *offset + (b->query_offsets ? b->query_offsets[i * a->heads + h] : 0) +
           (offset == f->nudged ? f->nudge : 0);
  }
  case ALIBI_BIAS_ROWS:
    b->rows(b->user, h, i, j, 1, &piece);
    return (double)piece + (place == f->nudged_row ? f->nudge : 0);
  }
  return 0;
}

/* a.b, and the sum of the magnitudes. */
static inline double formula_dot(const formula *f, const float *a, const float *b, int n, double *magnitudes)
{
  double sum = 0;
  *magnitudes = 0;
  for (int c = 0; c < n; c++) {
    double product = f->nudged ? formula_read(f, a + c) * formula_read(f, b + c) : (double)a[c] * (double)b[c];
    sum += product;
    *magnitudes += fabs(product);
  }
  return sum;
}

static inline double formula_scale(const alibi_attention *a)
{
  return a->scale != 0 ? a->scale : 1 / sqrt((double)a->head_size);
}

/* The score of a pair, all its parts, and its slack. */
static inline formula_pair formula_score(const formula *f, const alibi_attention *a, int h, int64_t i, int64_t j,
                                         int64_t distance)
{
  formula_pair p = {.key = j, .distance = distance};
  int d = a->head_size, g = h / (a->heads / formula_groups(a));
  double magnitudes, scale = formula_scale(a), eps = formula_eps;
  double s = scale * formula_dot(f, formula_place(&a->q, a->heads, d, i, h),
                                 formula_place(&a->k, formula_groups(a), d, j, g), d, &magnitudes);
  double bias = formula_bias(f, a, h, i, j, distance, &p.factor),
         ratio = a->soft_cap > 0 ? tanh(s / a->soft_cap) : 0;
  p.capped = a->soft_cap > 0 ? a->soft_cap * ratio : s;
  p.bend = 1 - ratio * ratio;
  p.score = p.factor * p.capped + bias;
  p.slack = fabs(p.factor) * (4 * eps * fabs(scale) * magnitudes + 2 * eps * (fabs(p.capped) + a->soft_cap)) +
            2 * eps * (fabs(bias) + fabs(p.score));
  if (a->bias.kind == ALIBI_BIAS_SLOPE) /* it may be counted from the first key of a block */
    p.slack += eps / 2 * ALIBI_ATTENTION_BLOCK * fabs(formula_slope(f, a, h));
  return p;
}

/* The keys that a row sees, with their weights among those visited, into pairs [keys of the sequence]; returns
 * their number, and the log-sum-exp with its slack. */
static inline size_t formula_weights(formula *f, const alibi_attention *a, int64_t n, int64_t i, int h,
                                     formula_pair *pairs, double *lse, double *lse_slack)
{
  int64_t start = formula_key_start(a, n), end = formula_key_start(a, n + 1);
  size_t count = 0;
  double largest = -INFINITY, total = 0, outside = 0, most = -INFINITY;
  const int32_t *visited = f->visited ? f->visited + (i * a->heads + h) * 2 : NULL;
  for (int64_t j = start; j < end; j++) {
    int64_t distance = formula_distance(a, n, i, j), block = (j - start) / ALIBI_ATTENTION_BLOCK;
    if (!formula_sees(a, distance)) continue;
    formula_pair p = formula_score(f, a, h, i, j, distance);
    f->pairs_visible++;
    most = fmax(most, p.score);
    p.weight = visited && (block < visited[0] || block >= visited[1]) ? 0 : 1;
    if (p.weight > 0) largest = fmax(largest, p.score);
    pairs[count++] = p;
  }
  size_t kept = 0;
  for (size_t p = 0; p < count; p++) {
    if (pairs[p].weight <= 0) {
      outside += exp(pairs[p].score - most);
      continue;
    }
    pairs[kept] = pairs[p];
    pairs[kept].weight = exp(pairs[p].score - largest);
    pairs[kept].slack += formula_eps * (4 + fabs(pairs[p].score - largest));
    total += pairs[kept++].weight;
  }
  double rounding = 8 * formula_eps * sqrt((double)kept), inside = total * exp(largest - most);
  if (count) f->unvisited = fmax(f->unvisited, kept ? outside / (outside + inside) : 1);
  f->pairs_visited += (int64_t)kept;
  *lse_slack = rounding;
  for (size_t p = 0; p < kept; p++) {
    pairs[p].weight /= total;
    *lse_slack += pairs[p].weight * pairs[p].slack;
  }
  *lse = kept ? largest + log(total) : -INFINITY;
  *lse_slack += kept ? 2 * formula_eps * fabs(*lse) : 0;
  return kept;
}

static inline void formula_add(formula_numbers *n, int64_t at, double value, double slack)
{
  n->value[at] += value;
  n->slack[at] += slack;
}

static inline void formula_row_out(formula *f, const alibi_attention *a, int64_t i, int h,
                                   const formula_pair *pairs, size_t count)
{
  int d = a->head_size, groups = formula_groups(a), g = h / (a->heads / groups);
  double rounding = 8 * formula_eps * sqrt((double)count);
  int64_t at = (i * a->heads + h) * d;
  for (size_t p = 0; p < count; p++) {
    const float *v = formula_place(&a->v, groups, d, pairs[p].key, g);
    for (int c = 0; c < d; c++) f->out.value[at + c] += pairs[p].weight * formula_read(f, v + c);
  }
  for (size_t p = 0; p < count; p++) {
    const float *v = formula_place(&a->v, groups, d, pairs[p].key, g);
    for (int c = 0; c < d; c++) {
      double size = fabs((double)v[c]);
      f->out.slack[at + c] +=
          pairs[p].weight * (pairs[p].slack * (size + fabs(f->out.value[at + c])) + rounding * size);
    }
  }
}

/* The gradients of sum(out * dout) that come from one row. */
static inline void formula_row_back(formula *f, const alibi_attention *a, int64_t i, int h,
                                    const formula_pair *pairs, size_t count, double lse_slack)
{
  int d = a->head_size, groups = formula_groups(a), g = h / (a->heads / groups);
  double eps = formula_eps, scale = formula_scale(a), delta = 0, delta_slack = 0;
  int64_t row = i * a->heads + h;
  const float *dout = formula_place(f->dout, a->heads, d, i, h), *q = formula_place(&a->q, a->heads, d, i, h);
  for (int c = 0; c < d && count > 0; c++) {
    double out = f->out.value[row * d + c];
    delta += (double)dout[c] * out;
    delta_slack += fabs((double)dout[c]) * (4 * eps * fabs(out) + f->out.slack[row * d + c]);
  }
  for (size_t n = 0; n < count; n++) {
    const formula_pair *p = pairs + n;
    const float *k = formula_place(&a->k, groups, d, p->key, g), *v = formula_place(&a->v, groups, d, p->key, g);
    double magnitudes, dp = formula_dot(f, dout, v, d, &magnitudes), loose = p->slack + lse_slack;
    double ds = p->weight * (dp - delta);
    double slack = p->weight * (loose * fabs(dp - delta) + 4 * eps * magnitudes + delta_slack +
                                2 * eps * (fabs(dp) + fabs(delta)));
    double inner = ds * p->factor * p->bend * scale;
    double inner_slack = fabs(p->factor * scale) * (slack * p->bend + 8 * eps * fabs(ds));
    for (int c = 0; c < d; c++) {
      double kc = formula_read(f, k + c), qc = formula_read(f, q + c), dc = (double)dout[c];
      int64_t in_key = (p->key * groups + g) * d + c;
      formula_add(&f->dq, row * d + c, inner * kc, fabs(kc) * (inner_slack + 8 * eps * fabs(inner)));
      formula_add(&f->dk, in_key, inner * qc, fabs(qc) * (inner_slack + 8 * eps * fabs(inner)));
      formula_add(&f->dv, in_key, p->weight * dc, p->weight * fabs(dc) * (loose + 8 * eps));
    }
    double far = fabs((double)p->distance);
    slack += 8 * eps * fabs(ds);
    formula_add(&f->slopes, h, -ds * far, slack * far);
    if (a->bias.kind == ALIBI_BIAS_DISTANCE) {
      int64_t entry = h * a->bias.distances + p->distance - a->bias.lowest;
      formula_add(&f->added, entry, ds, slack);
      formula_add(&f->factor, entry, ds * p->capped,
                  slack * fabs(p->capped) + fabs(ds) * (p->slack + 4 * eps * a->soft_cap));
    }
    formula_add(&f->offsets, p->key * a->heads + h, ds, slack);
    if (f->rows.count) formula_add(&f->rows, (h * a->queries + i) * a->keys + p->key, ds, slack);
  }
}

/* Fills what is found.  formula_free before the next run. */
static inline void formula_run(const alibi_attention *a, formula *f)
{
  int d = a->head_size, groups = formula_groups(a);
  bool back = f->dout != NULL, rows = back && a->bias.kind == ALIBI_BIAS_ROWS;
  f->out = formula_numbers_new(a->queries * a->heads * d);
  f->lse = formula_numbers_new(a->queries * a->heads);
  f->dq = formula_numbers_new(back ? a->queries * a->heads * d : 0);
  f->dk = formula_numbers_new(back ? a->keys * groups * d : 0);
  f->dv = formula_numbers_new(back ? a->keys * groups * d : 0);
  f->slopes = formula_numbers_new(a->heads);
  f->added = formula_numbers_new(a->heads * a->bias.distances);
  f->factor = formula_numbers_new(a->heads * a->bias.distances);
  f->offsets = formula_numbers_new(a->keys * a->heads);
  f->rows = formula_numbers_new(rows ? a->heads * a->queries * a->keys : 0);
  f->unvisited = 0;
  f->pairs_visible = f->pairs_visited = 0;
  formula_pair *pairs = calloc((size_t)a->keys + 1, sizeof *pairs);
  if (!pairs) fail_msg("no memory for a row");
  for (int64_t n = 0; n < formula_sequences(a); n++)
    for (int64_t i = formula_query_start(a, n); i < formula_query_start(a, n + 1); i++)
      for (int h = 0; h < a->heads; h++) {
        int64_t row = i * a->heads + h;
        size_t count = formula_weights(f, a, n, i, h, pairs, &f->lse.value[row], &f->lse.slack[row]);
        formula_row_out(f, a, i, h, pairs, count);
        if (back) formula_row_back(f, a, i, h, pairs, count, f->lse.slack[row]);
      }
  free(pairs);
}

/* Without a nudge. */
static inline formula formula_of(const alibi_attention *a, const alibi_heads *dout, const int32_t *visited)
{
  formula f = {.dout = dout, .visited = visited, .nudged_row = -1};
  formula_run(a, &f);
  return f;
}

/* Sum of out * dout with `nudge` added at one place: what the gradients are the gradients of. */
static inline double formula_objective(const alibi_attention *a, const alibi_heads *dout, const void *nudged,
                                       int64_t nudged_row, double nudge)
{
  formula f = {.nudged = nudged, .nudged_row = nudged_row, .nudge = nudge};
  double sum = 0;
  formula_run(a, &f);
  for (int64_t i = 0; i < a->queries; i++)
    for (int h = 0; h < a->heads; h++)
      for (int c = 0; c < a->head_size; c++)
        sum += f.out.value[(i * a->heads + h) * a->head_size + c] *
               (double)formula_place(dout, a->heads, a->head_size, i, h)[c];
  formula_free(&f);
  return sum;
}

#endif
