/* What the parameters alone prove about a head's horizon.  Queries and keys are linear in the normed input u, |u|
 * <= sqrt(C), so the most that a score can grow by is a matter of the largest singular value of one small matrix;
 * and a trace of a high power of it is an upper bound of that, where an iteration towards it would give a lower
 * one. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/horizon.h"
#include "model/walk.h"
#include "op/parts.h"

enum { SQUARINGS = 8, FINE = 64 };

static const double FARTHEST = 1 << 30; /* tokens: of the longest text that a table of a formula speaks of */

/* ---- how far a score can rise ---- */

/* A head's part of the projection: q = A u + c. */
typedef struct projection {
  double *a;  /* [D, C] with the gain of the norm */
  double *c;  /* [D] */
  float *row; /* [C] of the weight, as fp32 */
} projection;

static void read_projection(const model_pass *p, const walk_shape *s, size_t layer, size_t first_row,
                            projection *to)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  matrix weight = model_block_weights(p->model, layer).qkv;
  for (size_t d = 0; d < s->head_size; d++) {
    const float *row = to->row;
    if (weight.parts) parts_read(p->model->context->kernel, &weight, first_row + d, 0, s->width, to->row);
    else row = (const float *)weight.data + (first_row + d) * weight.stride;
    double sum = 0, shifted = w->qkv_bias ? (double)w->qkv_bias[first_row + d] : 0;
    for (size_t c = 0; c < s->width; c++) {
      to->a[d * s->width + c] = (double)row[c] * (double)w->attention_norm_gain[c];
      sum += to->a[d * s->width + c];
      if (w->attention_norm_shift) shifted += (double)row[c] * (double)w->attention_norm_shift[c];
    }
    for (size_t c = 0; s->norm.centre && c < s->width; c++) /* the channels of u sum to 0 */
      to->a[d * s->width + c] -= sum / (double)s->width;
    to->c[d] = shifted;
  }
}

/* g [D, D] = A A^T. */
static void gram(const projection *x, size_t d, size_t width, double *g)
{
  for (size_t i = 0; i < d; i++)
    for (size_t j = 0; j <= i; j++) {
      double sum = 0;
      for (size_t c = 0; c < width; c++) sum += x->a[i * width + c] * x->a[j * width + c];
      g[i * d + j] = g[j * d + i] = sum;
    }
}

static double trace(const double *m, size_t d)
{
  double sum = 0;
  for (size_t i = 0; i < d; i++) sum += m[i * d + i];
  return sum;
}

/* Cholesky: the lower triangle becomes L with L L^T = g + a little on the diagonal, which only adds to the bound.
 */
static void factorise(double *g, size_t d)
{
  double little = 1e-10 * trace(g, d);
  for (size_t i = 0; i < d; i++) g[i * d + i] += little;
  for (size_t j = 0; j < d; j++)
    for (size_t i = j; i < d; i++) {
      double sum = g[i * d + j];
      for (size_t k = 0; k < j; k++) sum -= g[i * d + k] * g[j * d + k];
      if (i == j) g[j * d + j] = sum > little / 2 ? sqrt(sum) : sqrt(little / 2);
      else g[i * d + j] = sum / g[j * d + j];
    }
}

/* out = L^T h L, symmetric; work [D, D]. */
static void sandwich(const double *l, const double *h, size_t d, double *work, double *out)
{
  memset(work, 0, d * d * sizeof *work);
  memset(out, 0, d * d * sizeof *out);
  for (size_t i = 0; i < d; i++)
    for (size_t k = 0; k < d; k++)
      for (size_t j = 0; j <= k; j++) work[i * d + j] += h[i * d + k] * l[k * d + j];
  for (size_t k = 0; k < d; k++)
    for (size_t i = 0; i <= k; i++)
      for (size_t j = 0; j < d; j++) out[i * d + j] += l[k * d + i] * work[k * d + j];
}

/* An upper bound of the largest eigenvalue of a symmetric matrix without negative ones, at most D^(1/256) too
 * large: the 256th root of the trace of its 256th power.  m is used up; work [D, D]. */
static double largest_eigenvalue(double *m, size_t d, double *work)
{
  double logarithm = 0, power = 1;
  for (int k = 0; k <= SQUARINGS; k++, power *= 2) {
    double size = trace(m, d);
    if (!(size > 0)) return 0;
    logarithm += log(size) / power;
    if (k == SQUARINGS) break;
    for (size_t i = 0; i < d * d; i++) m[i] /= size;
    memset(work, 0, d * d * sizeof *work);
    for (size_t i = 0; i < d; i++)
      for (size_t n = 0; n < d; n++)
        for (size_t j = 0; j < d; j++) work[i * d + j] += m[i * d + n] * m[n * d + j];
    memcpy(m, work, d * d * sizeof *m);
  }
  return exp(logarithm);
}

/* |A^T x|. */
static double length_through(const projection *a, size_t d, size_t width, const double *x)
{
  double square = 0;
  for (size_t c = 0; c < width; c++) {
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += a->a[i * width + c] * x[i];
    square += sum * sum;
  }
  return sqrt(square);
}

/* (A_q u + c_q).(A_k v1 - A_k v2): what the keys have in common cancels. */
static status projected_gap(const model_pass *p, const walk_shape *s, size_t layer, size_t head, double *gap,
                            alibi_error *error)
{
  size_t d = s->head_size, group = head / (s->heads / s->kv_heads);
  double *memory = NULL;
  float *row = NULL;
  status result;
  TRY(memory_new(&memory, size_add(size_mul(2 * d, s->width + 1), size_mul(4 * d, d)), sizeof *memory,
                 "the proof of a horizon", error));
  TRY(memory_new(&row, s->width, sizeof *row, "the proof of a horizon", error));
  projection q = {memory, memory + d * s->width, row};
  projection k = {q.c + d, q.c + d + d * s->width, row};
  double *gram_q = k.c + d, *gram_k = gram_q + d * d, *product = gram_k + d * d, *work = product + d * d;
  read_projection(p, s, layer, head * d, &q);
  read_projection(p, s, layer, (s->heads + group) * d, &k);
  gram(&q, d, s->width, gram_q);
  gram(&k, d, s->width, gram_k);
  factorise(gram_q, d);
  sandwich(gram_q, gram_k, d, work, product);
  double width = (double)s->width, steepest = sqrt(largest_eigenvalue(product, d, work));
  *gap = 2 * (width * steepest + sqrt(width) * length_through(&k, d, s->width, q.c));
done:
  memory_free(row);
  memory_free(memory);
  return result;
}

/* With QK-norm q and k are g u, |u| <= sqrt(D). */
static double normed_gap(const block_parameters *w, size_t d)
{
  double largest = 0;
  for (size_t c = 0; c < d; c++)
    largest = fmax(largest, fabs((double)w->query_norm_gain[c] * (double)w->key_norm_gain[c]));
  return 2 * (double)d * largest;
}

/* Queries are scaled by their position. */
static double largest_scale(const position_plan *plan, const walk_shape *s, size_t layer, size_t head)
{
  double largest = 0;
  if (!plan->row_scale) return 1;
  const float *scale = plan->row_scale + walk_first_scale(plan, s, layer) + head * plan->length;
  for (size_t i = 0; i < plan->length; i++) largest = fmax(largest, fabs((double)scale[i]));
  return largest;
}

status horizon_any_gap(const model_pass *p, size_t layer, size_t head, double *gap, alibi_error *error)
{
  walk_shape s = walk_shape_of(p);
  const block_parameters *w = &p->model->parameters.blocks[layer];
  status result = ALIBI_OK;
  double cap = p->model->config.score_cap;
  *gap = NAN;
  if (p->position.plan.rotary) return ALIBI_OK;
  if (w->query_norm_gain && !s.full_norm) *gap = normed_gap(w, s.head_size);
  else if (w->query_norm_gain || s.post) return ALIBI_OK;
  else if (s.clip > 0) *gap = 2 * (double)s.head_size * (double)s.clip * (double)s.clip;
  else TRY(projected_gap(p, &s, layer, head, gap, error));
  *gap *= largest_scale(&p->position.plan, &s, layer, head) * (double)walk_scale(&s);
  if (cap > 0 && *gap > 2 * cap) *gap = 2 * cap;
done:
  return result;
}

/* ---- how the bias falls ---- */

/* A gate is largest where its logit is: at b + w.shift + sqrt(C) |w gain|. */
static double slowest_gate(const model_pass *p, const walk_shape *s, size_t layer, size_t head)
{
  const block_parameters *w = &p->model->parameters.blocks[layer];
  size_t gate = layer * s->heads + head;
  const float *row = p->model->parameters.position[0] + gate * s->width;
  double logit = (double)p->model->parameters.position[1][gate], sum = 0, square = 0;
  for (size_t c = 0; c < s->width; c++) {
    sum += (double)row[c] * (double)w->attention_norm_gain[c];
    if (w->attention_norm_shift) logit += (double)row[c] * (double)w->attention_norm_shift[c];
  }
  double mean = s->norm.centre ? sum / (double)s->width : 0;
  for (size_t c = 0; c < s->width; c++) {
    double part = (double)row[c] * (double)w->attention_norm_gain[c] - mean;
    square += part * part;
  }
  logit += sqrt((double)s->width * square) * (1 + 0x1p-16);
  return log1p(exp(-logit));
}

horizon_fall horizon_fall_of(const model_pass *p, size_t layer, size_t head)
{
  const position_plan *plan = &p->position.plan;
  const position_method *method = p->model->method;
  walk_shape s = walk_shape_of(p);
  horizon_fall fall = {
      .kind = FALLS_NEVER, .method = method, .request = &p->request, .layer = layer, .head = head};
  if (!method->decays || plan->rotary) return fall;
  if (plan->bias == BIAS_SLOPE) fall.slope = (double)plan->slopes[walk_set(plan, layer) * s.heads + head];
  if (plan->gated) fall.slope = slowest_gate(p, &s, layer, head);
  if (fall.slope > 0) fall.kind = FALLS_BY_SLOPE;
  if (plan->bias == BIAS_DISTANCE && method->bias && !plan->factors) fall.kind = FALLS_BY_FORMULA;
  return fall;
}

static double step_at(double t)
{
  return fmax(1, floor(t / FINE));
}

/* From the far end inwards; all biases of a stretch count as its nearest one. */
static double distance_by_formula(const horizon_fall *f, double gap, double threshold)
{
  double own = f->method->bias(f->request, f->layer, f->head, 0, 0), tail = -INFINITY;
  double best = INFINITY;
  for (double end = FARTHEST, t = end - step_at(end); t >= 1; end = t, t -= step_at(t)) {
    double part = f->method->bias(f->request, f->layer, f->head, (size_t)t, 0) + log(end - t);
    double high = fmax(tail, part), low = fmin(tail, part);
    tail = high == -INFINITY ? high : high + log1p(exp(low - high));
    if (!(gap + tail - own <= log(threshold))) break;
    best = t;
  }
  return best;
}

double horizon_distance(const horizon_fall *f, double gap, double threshold)
{
  gap += gap * 0x1p-16 + 2e-3; /* what fp32 may round, as in the kernels' proof (docs/attention.md) */
  if (f->kind == FALLS_NEVER || !isfinite(gap)) return INFINITY;
  if (f->kind == FALLS_BY_FORMULA) return distance_by_formula(f, gap, threshold);
  return fmax(1, ceil((gap - log(threshold) - log(-expm1(-f->slope))) / f->slope));
}
